//! Every request is asked about before it is answered, as what it is.

use http::Method;
use serde_json::json;

use super::*;
use crate::crds::{DEFINITIONS, WIDGETS, widgets};
use crate::objects::*;

#[tokio::test]
async fn each_may_do_what_their_role_says_and_nothing_else() {
    let api = Api::new().await;
    for (user, role) in [("vic", "view"), ("ed", "edit"), ("ada", "admin")] {
        give(&api, user, &format!("ClusterRole/{role}")).await;
    }
    give_everywhere(&api, "rex", "ClusterRole/view").await;
    give_everywhere(&api, "root", "ClusterRole/cluster-admin").await;
    api.post(NAMESPACES, namespace("other")).await.expect(201);
    let elsewhere = "/api/v1/namespaces/other/configmaps";
    let settings = format!("{CONFIG_MAPS}/a");
    let all = "/api/v1/configmaps";
    let here = "/api/v1/namespaces/default";
    let there = "/api/v1/namespaces/other";
    let metrics = "/metrics";
    // Who may, by the first letter of: nobody, vic, ed, ada, rex, root.
    let rows: [(&str, Method, &str, &str); 24] = [
        ("list", Method::GET, CONFIG_MAPS, "vearo"),
        ("list elsewhere", Method::GET, elsewhere, "ro"),
        ("list everywhere", Method::GET, all, "ro"),
        ("get", Method::GET, &settings, "vearo"),
        ("get the namespace", Method::GET, here, "vearo"),
        ("get another namespace", Method::GET, there, "ro"),
        ("list namespaces", Method::GET, NAMESPACES, "ro"),
        ("create a namespace", Method::POST, NAMESPACES, "o"),
        ("delete the namespace", Method::DELETE, there, "o"),
        ("create", Method::POST, CONFIG_MAPS, "eao"),
        ("create elsewhere", Method::POST, elsewhere, "o"),
        ("replace", Method::PUT, &settings, "eao"),
        ("patch", Method::PATCH, &settings, "eao"),
        ("delete", Method::DELETE, &settings, "eao"),
        ("delete all", Method::DELETE, CONFIG_MAPS, "eao"),
        ("list secrets", Method::GET, SECRETS, "eao"),
        ("write a status", Method::PATCH, "/api/v1/namespaces/default/pods/p/status", "o"),
        ("put a pod on a node", Method::POST, "/api/v1/namespaces/default/pods/p/binding", "o"),
        ("create a role", Method::POST, ROLES, "ao"),
        ("create a role for the cluster", Method::POST, CLUSTER_ROLES, "o"),
        ("list nodes", Method::GET, "/api/v1/nodes", "o"),
        ("read metrics", Method::GET, metrics, "o"),
        ("read what is served", Method::GET, "/apis/apps/v1", "nvearo"),
        ("read the version", Method::GET, "/version", "nvearo"),
    ];
    let people = [("n", "nobody"), ("v", "vic"), ("e", "ed"), ("a", "ada"), ("r", "rex"), ("o", "root")];
    for (row, method, path, allowed) in rows {
        for (letter, user) in people {
            // What is allowed is refused for its empty body, or is not there, or is answered; but it is not forbidden.
            let answer = api.as_user(user, []).send(method.clone(), format!("{path}?dryRun=All")).await;
            assert_eq!(answer.status != 403, allowed.contains(letter), "{user} to {row}: {}", answer.text());
        }
    }
}

#[tokio::test]
async fn a_refusal_comes_before_anything_else_is_said() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let rows = [
        ("an unknown resource", Method::GET, "/api/v1/namespaces/default/nopes", 404),
        ("an unknown group", Method::GET, "/apis/nope.example.com/v1/things/x", 404),
        ("an unknown path", Method::GET, "/nope", 404),
        ("an unknown object", Method::GET, "/api/v1/namespaces/default/configmaps/x", 404),
        ("an unknown namespace", Method::GET, "/api/v1/namespaces/nope/configmaps/x", 404),
        ("a part that is not served", Method::GET, "/api/v1/namespaces/default/pods/p/nope", 404),
        ("what lies behind a part", Method::GET, "/api/v1/namespaces/default/pods/p/proxy/a/b", 404),
        ("an object of another scope", Method::GET, "/api/v1/namespaces/default/nodes/n", 404),
        ("a namespace in a namespace", Method::GET, "/api/v1/namespaces/default/namespaces/default", 404),
        ("a method that is none", Method::POST, "/api/v1/namespaces/default/configmaps/x", 405),
        ("a method on a path", Method::POST, "/version", 405),
        ("a body that is none", Method::POST, CONFIG_MAPS, 400),
        ("a selector that is none", Method::GET, "/api/v1/pods?fieldSelector=nope", 400),
        ("a custom object", Method::GET, WIDGETS, 200),
    ];
    for (row, method, path, otherwise) in rows {
        let refused = api.as_user("nobody", []).send(method.clone(), path).await;
        assert_eq!(refused.status, 403, "{row}: {}", refused.text());
        assert!(refused.message().contains("User \"nobody\" cannot "), "{row}: {}", refused.text());
        assert_eq!(api.send(method, path).await.status, otherwise, "{row}, for one who may");
    }
}

#[tokio::test]
async fn no_way_of_writing_a_path_leads_past_the_check() {
    let api = Api::new().await;
    give(&api, "vic", "ClusterRole/view").await;
    api.post(SECRETS, secret("s")).await.expect(201);
    let vic = api.as_user("vic", []);
    for path in [
        "/api/v1/namespaces/default/secrets/s",
        "//api/v1/namespaces/default/secrets/s",
        "/api//v1///namespaces/default//secrets//s/",
        "/api/v1/namespaces/default/%73ecrets/s",
        "/api/v1/namespaces/default/secrets/%73",
        "/%61pi/v1/namespaces/default/secrets/s",
        "/api/v1/namespaces/default/configmaps%2f..%2fsecrets/s",
        "/api/v1/namespaces/default/configmaps/../secrets/s",
        "/api/v1/namespaces/default/configmaps/%2e%2e/secrets/s",
        "/api/v1/namespaces/default/configmaps/./../secrets/s",
        "/version/../api/v1/namespaces/default/secrets/s",
        "/api/v1/watch/namespaces/default/secrets/s",
        "/api/v1/watch/namespaces/default/secrets",
        "/api/v1/namespaces/default/secrets/s?watch=1",
        "/api/v1/namespaces/default/secrets?watch=true&watch=false",
        "/api/v1/namespaces/default/secrets?fieldSelector=metadata.name%3Ds",
        "/api/v1/namespaces/default/secrets/s/status",
        "/api/v1/secrets?fieldSelector=metadata.namespace%3Ddefault",
        "/api/v1/namespaces/default/configmaps?fieldSelector=metadata.name%3D..%2fsecrets%2fs",
    ] {
        let answer = vic.get(path).await;
        assert!(!answer.text().contains("b3Blbg"), "{path}: {}", answer.text());
        assert!(matches!(answer.status, 400 | 403 | 404) || answer["items"] == json!([]), "{path}: {}", answer.text());
    }
}

#[tokio::test]
async fn a_name_is_needed_where_a_rule_names_one() {
    let api = Api::new().await;
    for name in ["mine", "other"] {
        api.post(SECRETS, secret(name)).await.expect(201);
    }
    let mut named =
        rule(&["get", "list", "watch", "delete", "deletecollection", "create", "update", "patch"], &["secrets"]);
    named["resourceNames"] = json!(["mine"]);
    api.post(ROLES, role("named", json!([named]))).await.expect(201);
    give(&api, "alice", "Role/named").await;
    let alice = api.as_user("alice", []);
    let one = |name: &str| format!("{SECRETS}?fieldSelector=metadata.name%3D{name}");
    let rows = [
        ("its name", Method::GET, format!("{SECRETS}/mine"), 200),
        ("another", Method::GET, format!("{SECRETS}/other"), 403),
        ("all", Method::GET, SECRETS.to_owned(), 403),
        ("a list of it alone", Method::GET, one("mine"), 200),
        ("a list of another", Method::GET, one("other"), 403),
        ("two selectors, of which the first counts", Method::GET, format!("{}&fieldSelector=", one("mine")), 200),
        (
            "two selectors, the other way round",
            Method::GET,
            format!("{SECRETS}?fieldSelector=&fieldSelector=metadata.name%3Dmine"),
            403,
        ),
        ("a new one, of which the path has no name", Method::POST, SECRETS.to_owned(), 403),
        ("delete by a selector", Method::DELETE, one("mine"), 403),
        ("delete it", Method::DELETE, format!("{SECRETS}/mine"), 200),
    ];
    for (row, method, path, status) in rows {
        let answer = alice.send(method, path).await;
        assert_eq!(answer.status, status, "{row}: {}", answer.text());
        assert!(answer["items"].as_array().is_none_or(|items| items.len() == 1), "{row}: {}", answer.text());
    }
    let refused = alice.get(one("other")).await.refused(403, "Forbidden", &["secrets \"other\" is forbidden"]);
    assert_eq!(refused["details"], json!({"name": "other", "kind": "secrets"}));
}

#[tokio::test]
async fn what_an_update_or_apply_would_make_must_be_allowed_to_be_created() {
    let api = Api::new().await;
    let rules = json!([{"verbs": ["get", "update", "patch"], "apiGroups": ["*"], "resources": ["*"]}]);
    api.post(ROLES, role("changer", rules)).await.expect(201);
    give(&api, "alice", "Role/changer").await;
    let alice = api.as_user("alice", []);
    let path = format!("{CONFIG_MAPS}/new");
    for dry_run in ["", "?dryRun=All"] {
        alice.apply(format!("{path}{dry_run}"), "m", config_map("new")).await.refused(
            403,
            "Forbidden",
            &["configmaps \"new\" is forbidden", "cannot create resource \"configmaps\""],
        );
        let services = format!("{SERVICES}/new{dry_run}");
        alice.put(services, service("new")).await.refused(403, "Forbidden", &["cannot create resource \"services\""]);
    }
    api.post(CONFIG_MAPS, config_map("new")).await.expect(201);
    alice.apply(format!("{path}?force=true"), "m", config_map("new")).await.expect(200);
}

#[tokio::test]
async fn a_role_that_does_not_exist_is_named_in_the_refusal() {
    let api = Api::new().await;
    give(&api, "alice", "Role/lost").await;
    let words = "in the namespace \"default\": RBAC: role.rbac.authorization.k8s.io \"lost\" not found";
    api.as_user("alice", []).get(CONFIG_MAPS).await.refused(403, "Forbidden", &[words]);
}
