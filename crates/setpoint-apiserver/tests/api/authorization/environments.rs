//! Who may use an Environment, and who gives that.

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::objects::*;
use setpoint_apiserver::Identity;

const MACHINES: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/machines";
const ENVIRONMENTS: &str = "/apis/setpoint.dev/v1alpha1/environments";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ACCOUNTS: &str = "/api/v1/namespaces/default/serviceaccounts";
const REVIEWS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/reviews";

fn on_lab(verbs: &[&str]) -> Value {
    json!([{
        "verbs": verbs, "apiGroups": ["setpoint.dev"], "resources": ["environments"], "resourceNames": ["lab"],
    }])
}

fn machine(name: &str, spec: Value) -> Value {
    let mut machine = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name},
        "spec": {"environment": "lab"},
    });
    for (field, value) in spec.as_object().into_iter().flatten() {
        machine["spec"][field] = value.clone();
    }
    machine
}

/// Carol has the role `edit`.
async fn carol(api: &Api) -> Api {
    give(api, "carol", "ClusterRole/edit").await;
    api.as_user("carol", [])
}

#[tokio::test]
async fn who_may_edit_may_not_use_every_environment_nor_adopt_there() {
    let api = Api::new().await;
    let carol = carol(&api).await;
    let line = "setpoint env grant lab --namespace default --user carol --verbs";
    let refused = carol.post(MACHINES, machine("web", json!({}))).await;
    refused.refused(403, "Forbidden", &[&format!("{line} use`"), "cannot use resource \"environments\""]);
    let pinned = machine("web", json!({"providerId": "100"}));
    carol.post(MACHINES, pinned.clone()).await.refused(403, "Forbidden", &[&format!("{line} use,adopt`")]);

    api.post(ROLES, role("uses", on_lab(&["use"]))).await.expect(201);
    give(&api, "carol", "Role/uses").await;
    carol.post(MACHINES, pinned.clone()).await.refused(403, "Forbidden", &[&format!("{line} adopt`")]);
    let path = format!("{MACHINES}/web");
    carol.post(MACHINES, machine("web", json!({"cores": 1}))).await.expect(201);
    let words = [format!("{line} adopt`")];
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    carol.merge_patch(&path, json!({"spec": {"providerId": "100"}})).await.refused(403, "Forbidden", &words);
    carol.apply(format!("{path}?force=true"), "m", pinned.clone()).await.refused(403, "Forbidden", &words);
    let mut replacement = pinned;
    replacement["metadata"]["resourceVersion"] =
        api.get(&path).await.expect(200)["metadata"]["resourceVersion"].clone();
    carol.put(&path, replacement).await.refused(403, "Forbidden", &words);

    let bindings = api.names(ROLE_BINDINGS).await;
    let uses = bindings.iter().find(|name| name.contains("uses")).expect("a binding");
    api.delete(format!("{ROLE_BINDINGS}/{uses}")).await.expect(200);
    carol.merge_patch(&path, json!({"spec": {"cores": 2}})).await.refused(403, "Forbidden", &["--verbs use`"]);
    carol.merge_patch(&path, json!({"metadata": {"labels": {"team": "shop"}}})).await.expect(200);
    carol.delete(&path).await.expect(200);
}

#[tokio::test]
async fn a_plan_is_made_for_who_could_write_what_it_is_for() {
    let api = Api::new().await;
    let carol = carol(&api).await;
    let stored = api.post(MACHINES, machine("web", json!({"providerId": "100"}))).await.expect(201);
    let ask = |name: &str, machines: Vec<Value>| {
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": name},
            "spec": {"environment": "lab", "mode": "Preview", "requestedBy": "carol", "objects": machines},
        });
        carol.post("/apis/setpoint.dev/v1alpha1/namespaces/default/changesets", change_set)
    };
    let as_stored = machine("web", stored["spec"].clone());
    ask("same", vec![as_stored.clone()]).await.expect(201);
    let mut changed = as_stored.clone();
    changed["spec"]["cores"] = json!(2);
    ask("changed", vec![changed]).await.refused(403, "Forbidden", &["--user carol --verbs use`"]);
    let mut another = as_stored;
    another["spec"]["providerId"] = json!("200");
    another["metadata"]["name"] = json!("other");
    ask("pinned", vec![another]).await.refused(403, "Forbidden", &["--user carol --verbs use,adopt`"]);
}

#[tokio::test]
async fn a_pod_comes_only_to_nodes_that_its_account_may_use() {
    let api = Api::new().await;
    let node = |name: &str, environment: &str| {
        let labels = json!({"setpoint.dev/environment": environment});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name, "labels": labels}})
    };
    api.post("/api/v1/nodes", node("rack-1", "lab")).await.expect(201);
    api.post("/api/v1/nodes", node("here", "local")).await.expect(201);
    let on = |name: &str, node: &str| {
        let mut pod = pod(name);
        pod["spec"]["nodeName"] = node.into();
        pod
    };
    let target = |name: &str, node: &str| json!({"apiVersion": "v1", "kind": "Binding", "metadata": {"name": name}, "target": {"kind": "Node", "name": node}});
    let line = ["setpoint env grant lab --namespace default --service-account default --verbs use`"];
    // Whoever asks, the account of the Pod counts, also where the node is not there yet.
    api.post(PODS, on("a", "rack-1")).await.refused(403, "Forbidden", &line);
    api.post(PODS, on("a", "lab")).await.refused(403, "Forbidden", &line);
    api.post(PODS, on("a", "here")).await.expect(201);
    api.post(PODS, pod("b")).await.expect(201);
    api.post(format!("{PODS}/b/binding"), target("b", "rack-1")).await.refused(403, "Forbidden", &line);
    api.post(ROLES, role("uses", on_lab(&["use"]))).await.expect(201);
    let mut given = binding("RoleBinding", "uses", "Role/uses", "");
    given["subjects"] = json!([{"kind": "ServiceAccount", "name": "default", "namespace": "default"}]);
    api.post(ROLE_BINDINGS, given).await.expect(201);
    api.post(format!("{PODS}/b/binding"), target("b", "rack-1")).await.expect(201);
}

#[tokio::test]
async fn who_holds_a_verb_on_an_environment_cannot_give_it() {
    let api = Api::new().await;
    give(&api, "ada", "ClusterRole/admin").await;
    api.post(CLUSTER_ROLES, cluster_role("lab-approver", on_lab(&["approve"]))).await.expect(201);
    give(&api, "ada", "ClusterRole/lab-approver").await;
    let ada = api.as_user("ada", []);
    let words = ["to give the verb \"approve\" on the Environment \"lab\" to others takes \"update\""];
    ada.post(ROLES, role("approver", on_lab(&["approve"]))).await.refused(403, "Forbidden", &words);
    let given = binding("RoleBinding", "eve", "ClusterRole/lab-approver", "eve");
    ada.post(ROLE_BINDINGS, given.clone()).await.refused(403, "Forbidden", &words);
    // What they may give is what it was, and `use` of the local Environment is part of it.
    ada.post(ROLE_BINDINGS, binding("RoleBinding", "ed", "ClusterRole/edit", "ed")).await.expect(201);
    let only = binding("RoleBinding", "rita", "ClusterRole/setpoint:reviewer", "rita");
    ada.post(ROLE_BINDINGS, only).await.expect(201);

    // Who may update the Environment gives its verbs without holding them.
    let keeper = json!([
        {"verbs": ["get", "create", "update"], "apiGroups": [GROUP], "resources": ["roles", "rolebindings"]},
        {"verbs": ["update"], "apiGroups": ["setpoint.dev"], "resources": ["environments"], "resourceNames": ["lab"]},
    ]);
    api.post(CLUSTER_ROLES, cluster_role("keeper", keeper)).await.expect(201);
    give_everywhere(&api, "kim", "ClusterRole/keeper").await;
    let kim = api.as_user("kim", []);
    kim.post(ROLES, role("approver", on_lab(&["approve", "use", "adopt"]))).await.expect(201);
    kim.post(ROLE_BINDINGS, given).await.expect(201);
    let everywhere = json!([{"verbs": ["use"], "apiGroups": ["setpoint.dev"], "resources": ["environments"]}]);
    let words = ["on every Environment"];
    kim.post(ROLES, role("all", everywhere)).await.refused(403, "Forbidden", &words);
}

#[tokio::test]
async fn default_roles_have_no_verb_on_environments_but_use_of_local() {
    let api = Api::new().await;
    let may = async |user: &str, groups: Value, verb: &str, name: &str| {
        let attributes = json!({
            "verb": verb, "group": "setpoint.dev", "resource": "environments", "name": name, "namespace": "default",
        });
        let spec = json!({"user": user, "groups": groups, "resourceAttributes": attributes});
        let answer = api.post(ACCESS_REVIEWS, json!({"spec": spec})).await.expect(201);
        answer["status"]["allowed"] == true
    };
    for role in ["view", "edit", "admin", "setpoint:reviewer"] {
        give(&api, role, &format!("ClusterRole/{role}")).await;
        for verb in ["use", "adopt", "approve"] {
            assert!(!may(role, json!([]), verb, "lab").await, "{role} may {verb} lab");
            let is_given = verb == "use" && ["edit", "admin"].contains(&role);
            assert_eq!(may(role, json!([]), verb, "local").await, is_given, "{role} may {verb} local");
        }
    }
    let accounts = json!(["system:serviceaccounts"]);
    assert!(may("system:serviceaccount:default:default", accounts.clone(), "use", "local").await);
    assert!(!may("system:serviceaccount:default:default", accounts, "use", "lab").await);
}

#[tokio::test]
async fn an_account_that_is_gone_has_no_rights_under_its_uid() {
    let api = Api::new().await;
    let account = |name: &str| json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": name}});
    let made = api.post(ACCOUNTS, account("bot")).await.expect(201);
    let uid = made["metadata"]["uid"].as_str().expect("a uid").to_owned();
    let user = "system:serviceaccount:default:bot";
    api.post(ROLES, role("approver", on_lab(&["approve"]))).await.expect(201);
    give(&api, user, "Role/approver").await;
    let may = async |uid: &str| {
        let attributes = json!({
            "verb": "approve", "group": "setpoint.dev", "resource": "environments", "name": "lab",
            "namespace": "default",
        });
        let spec = json!({"user": user, "uid": uid, "resourceAttributes": attributes});
        let answer = api.post(ACCESS_REVIEWS, json!({"spec": spec})).await.expect(201);
        (answer["status"]["allowed"] == true, answer["status"]["reason"].as_str().unwrap_or_default().to_owned())
    };
    assert!(may(&uid).await.0);
    assert!(may("").await.0, "without a uid the name counts, as on Kubernetes");
    api.delete(format!("{ACCOUNTS}/bot")).await.expect(200);
    let (is_allowed, reason) = may(&uid).await;
    assert!(!is_allowed && reason.contains("is gone"), "{reason}");
    api.post(ACCOUNTS, account("bot")).await.expect(201);
    assert!(!may(&uid).await.0, "another has its name");
}

#[tokio::test]
async fn a_review_says_what_the_server_knows_of_its_writer() {
    let api = Api::new().await;
    for group in ["devs", "testers"] {
        let mut given = binding("RoleBinding", group, "ClusterRole/setpoint:reviewer", "");
        given["subjects"] = json!([{"kind": "Group", "apiGroup": GROUP, "name": group}]);
        api.post(ROLE_BINDINGS, given).await.expect(201);
    }
    let review = |name: &str, more: Value| {
        let mut review = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": {"name": name},
            "spec": {"gate": "g", "decision": "Approve", "digests": [format!("hmac-sha256:{}", "0".repeat(64))], "reviewer": "rita"},
        });
        for (field, value) in more.as_object().into_iter().flatten() {
            review["spec"][field] = value.clone();
        }
        review
    };
    let rita = api.as_user("rita", ["devs"]);
    let forged = json!({"reviewerGroups": ["system:masters"], "reviewerUid": "1"});
    for (name, more) in [("plain", json!({})), ("forged", forged)] {
        let made = rita.post(REVIEWS, review(name, more)).await.expect(201);
        assert_eq!(made["spec"]["reviewerGroups"], json!(["devs", "system:authenticated"]), "{name}");
        assert_eq!(made["spec"]["reviewerUid"], Value::Null, "{name}");
    }
    let account = Identity { uid: "7".to_owned(), ..Identity::new("rita", ["testers"]) };
    let made = rita.send(Method::POST, REVIEWS).known_as(account);
    let made = made.body("application/json", review("by-another", json!({})).to_string()).await.expect(201);
    assert_eq!(made["spec"]["reviewerUid"], "7");
    assert_eq!(api.get(ENVIRONMENTS).await.expect(200)["items"], json!([]), "no Environment is needed for any of this");
}
