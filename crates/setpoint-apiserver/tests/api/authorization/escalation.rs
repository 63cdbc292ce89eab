//! Nobody gives away what they do not have, by whatever way they try.

use http::Method;
use serde_json::{Value, json};

use super::*;
use crate::fixture::Sending;
use crate::objects::*;

/// Mallory may write roles and bindings, read ConfigMaps, and nothing else.
async fn mallory(api: &Api) -> Api {
    let rules = json!([
        {"verbs": ["*"], "apiGroups": [GROUP], "resources": ["nothing"]},
        {
            "verbs": ["get", "list", "create", "update", "patch", "delete", "deletecollection"],
            "apiGroups": [GROUP],
            "resources": ["roles", "rolebindings", "clusterroles", "clusterrolebindings"],
        },
        rule(&["get"], &["configmaps"]),
    ]);
    api.post(CLUSTER_ROLES, cluster_role("clerk", rules)).await.expect(201);
    give_everywhere(api, "mallory", "ClusterRole/clerk").await;
    api.as_user("mallory", [])
}

fn held() -> Value {
    json!([rule(&["get"], &["configmaps"])])
}

fn more() -> Value {
    json!([rule(&["get"], &["secrets"])])
}

#[tokio::test]
async fn a_role_cannot_say_more_than_its_writer_has() {
    let api = Api::new().await;
    let mallory = mallory(&api).await;
    for (collection, make) in [(ROLES, role as fn(&str, Value) -> Value), (CLUSTER_ROLES, cluster_role)] {
        mallory.post(collection, make("r", held())).await.expect(201);
        let path = format!("{collection}/r");
        let before = api.store.revision();
        let attempts: Vec<(&str, Sending)> = vec![
            ("a create", mallory.post(collection, make("new", more()))),
            ("a dry run of a create", mallory.post(format!("{collection}?dryRun=All"), make("new", more()))),
            ("a name to be made", mallory.post(collection, with(make("", more()), "generateName", json!("x-")))),
            ("an update", mallory.put(&path, make("r", more()))),
            ("a dry run of an update", mallory.put(format!("{path}?dryRun=All"), make("r", more()))),
            ("a create by an update", mallory.put(format!("{collection}/new"), make("new", more()))),
            ("a merge patch", mallory.merge_patch(&path, json!({"rules": more()}))),
            ("a JSON patch", mallory.json_patch(&path, json!([{"op": "replace", "path": "/rules", "value": more()}]))),
            ("a strategic patch", mallory.strategic_patch(&path, json!({"rules": more()}))),
            ("an apply", mallory.apply(format!("{path}?force=true"), "m", make("r", more()))),
            ("a create by an apply", mallory.apply(format!("{collection}/new"), "m", make("new", more()))),
            (
                "everything",
                mallory
                    .post(collection, make("new", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]))),
            ),
            ("one verb more", mallory.post(collection, make("new", json!([rule(&["get", "list"], &["configmaps"])])))),
            (
                "a part of what is held",
                mallory.post(collection, make("new", json!([rule(&["get"], &["configmaps/status"])]))),
            ),
            (
                "the right to escalate",
                mallory.post(
                    collection,
                    make(
                        "new",
                        json!([{"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles", "clusterroles"]}]),
                    ),
                ),
            ),
            (
                "the right to be others",
                mallory.post(collection, make("new", json!([rule(&["impersonate"], &["users"])]))),
            ),
        ];
        for (row, attempt) in attempts {
            let answer = attempt.await;
            answer.refused(
                403,
                "Forbidden",
                &["user \"mallory\"", "is attempting to grant RBAC permissions not currently held"],
            );
            assert_eq!(api.store.revision(), before, "{row}");
        }
        mallory.put(&path, make("r", json!([]))).await.expect(200);
    }
}

#[tokio::test]
async fn a_binding_cannot_give_more_than_its_writer_has() {
    let api = Api::new().await;
    let mallory = mallory(&api).await;
    api.post(ROLES, role("big", more())).await.expect(201);
    api.post(ROLES, role("small", held())).await.expect(201);
    api.post(ROLE_BINDINGS, binding("RoleBinding", "given", "Role/big", "bob")).await.expect(201);
    let to = |role: &str| binding("RoleBinding", "b", role, "mallory");
    let to_all = |role: &str| binding("ClusterRoleBinding", "b", role, "mallory");
    let given = format!("{ROLE_BINDINGS}/given");
    let join = json!([{"apiGroup": GROUP, "kind": "User", "name": "mallory"}]);
    let before = api.store.revision();
    let attempts: Vec<(&str, Sending)> = vec![
        ("a role", mallory.post(ROLE_BINDINGS, to("Role/big"))),
        ("a dry run", mallory.post(format!("{ROLE_BINDINGS}?dryRun=All"), to("Role/big"))),
        ("a role of the cluster", mallory.post(ROLE_BINDINGS, to("ClusterRole/cluster-admin"))),
        ("a gathered role", mallory.post(ROLE_BINDINGS, to("ClusterRole/edit"))),
        ("everywhere", mallory.post(CLUSTER_ROLE_BINDINGS, to_all("ClusterRole/view"))),
        ("by an apply", mallory.apply(format!("{ROLE_BINDINGS}/b"), "m", to("Role/big"))),
        ("a subject more, by a merge patch", mallory.merge_patch(&given, json!({"subjects": join}))),
        (
            "a subject more, by a JSON patch",
            mallory.json_patch(&given, json!([{"op": "add", "path": "/subjects/-", "value": join[0]}])),
        ),
        ("a subject more, by an update", mallory.put(&given, with(to("Role/big"), "name", json!("given")))),
        (
            "a subject more, by an apply",
            mallory.apply(format!("{given}?force=true"), "m", with(to("Role/big"), "name", json!("given"))),
        ),
    ];
    for (row, attempt) in attempts {
        attempt.await.refused(403, "Forbidden", &["is attempting to grant RBAC permissions not currently held"]);
        assert_eq!(api.store.revision(), before, "{row}");
    }
    let lost = mallory.post(ROLE_BINDINGS, to("Role/nope")).await;
    lost.refused(404, "NotFound", &["rolebindings.rbac.authorization.k8s.io \"nope\" not found"]);
    mallory.post(ROLE_BINDINGS, to("Role/small")).await.expect(201);
    mallory.delete(&given).await.expect(200);
}

#[tokio::test]
async fn what_gathers_the_rules_of_others_needs_every_right() {
    let api = Api::new().await;
    let mallory = mallory(&api).await;
    let selector = json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
    let mut gathering = cluster_role("g", json!([]));
    gathering["aggregationRule"] = selector.clone();
    mallory.post(CLUSTER_ROLES, cluster_role("r", held())).await.expect(201);
    let path = format!("{CLUSTER_ROLES}/r");
    let attempts: Vec<(&str, Sending)> = vec![
        ("a new one", mallory.post(CLUSTER_ROLES, gathering.clone())),
        ("one that becomes such", mallory.merge_patch(&path, json!({"aggregationRule": selector}))),
        (
            "one that would no longer be",
            mallory.merge_patch(format!("{CLUSTER_ROLES}/view"), json!({"aggregationRule": null, "rules": []})),
        ),
    ];
    for (row, attempt) in attempts {
        let answer = attempt.await;
        assert_eq!(answer.status, 403, "{row}: {}", answer.text());
    }
    mallory.post(CLUSTER_ROLES, gathering).await.refused(
        403,
        "Forbidden",
        &["must have cluster-admin privileges to use the aggregationRule"],
    );

    // By its label, a role of one's own becomes part of others'; only what its writer has can be handed on like that.
    let label = json!({"metadata": {"labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}}});
    mallory.merge_patch(&path, label.clone()).await.expect(200);
    api.post(CLUSTER_ROLES, cluster_role("secrets", more())).await.expect(201);
    let words = ["is attempting to grant RBAC permissions not currently held"];
    mallory.merge_patch(format!("{CLUSTER_ROLES}/secrets"), label).await.refused(403, "Forbidden", &words);
    give(&api, "vic", "ClusterRole/view").await;
    api.as_user("vic", []).get(SECRETS).await.expect(403);
}

#[tokio::test]
async fn to_escalate_and_to_bind_are_rights_of_their_own() {
    let api = Api::new().await;
    let mallory = mallory(&api).await;
    api.post(ROLES, role("big", more())).await.expect(201);
    api.post(ROLES, role("other", more())).await.expect(201);
    let rules = json!([
        {"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["big"]},
        {"verbs": ["escalate"], "apiGroups": [GROUP], "resources": ["roles"], "resourceNames": ["other"]},
    ]);
    api.post(ROLES, role("privileged", rules)).await.expect(201);
    give(&api, "mallory", "Role/privileged").await;
    let to = |role: &str| binding("RoleBinding", "b", role, "bob");
    mallory.post(ROLE_BINDINGS, to("Role/other")).await.expect(403);
    mallory.post(ROLE_BINDINGS, to("ClusterRole/view")).await.expect(403);
    mallory.post(ROLE_BINDINGS, to("Role/big")).await.expect(201);
    mallory.merge_patch(format!("{ROLES}/big"), json!({"rules": [rule(&["list"], &["secrets"])]})).await.expect(403);
    mallory.merge_patch(format!("{ROLES}/other"), json!({"rules": [rule(&["*"], &["*"])]})).await.expect(200);
    mallory.post(ROLES, role("new", more())).await.expect(403);
}

#[tokio::test]
async fn what_changes_no_right_of_anybody_is_not_asked_about() {
    let api = Api::new().await;
    let mallory = mallory(&api).await;
    api.post(ROLES, with(role("big", more()), "finalizers", json!(["example.com/a"]))).await.expect(201);
    let path = format!("{ROLES}/big");
    mallory.merge_patch(&path, json!({"metadata": {"finalizers": null}})).await.expect(200);
    mallory.merge_patch(&path, json!({"metadata": {"labels": {"a": "b"}}})).await.expect(403);
    mallory.send(Method::DELETE, &path).await.expect(200);
}

#[tokio::test]
async fn nobody_is_an_editor_who_makes_themselves_an_administrator() {
    let api = Api::new().await;
    give(&api, "ed", "ClusterRole/edit").await;
    give(&api, "ada", "ClusterRole/admin").await;
    let (ed, ada) = (api.as_user("ed", []), api.as_user("ada", []));
    ed.post(ROLE_BINDINGS, binding("RoleBinding", "b", "ClusterRole/admin", "ed")).await.expect(403);
    ed.post(ROLES, role("r", json!([]))).await.expect(403);
    // An administrator of a namespace can give what they have there, and no more.
    ada.post(ROLE_BINDINGS, binding("RoleBinding", "b", "ClusterRole/admin", "ed")).await.expect(201);
    ada.post(ROLE_BINDINGS, binding("RoleBinding", "c", "ClusterRole/cluster-admin", "ada")).await.expect(403);
    ada.post(CLUSTER_ROLE_BINDINGS, binding("ClusterRoleBinding", "c", "ClusterRole/admin", "ada")).await.expect(403);
    let status = json!([{"verbs": ["update"], "apiGroups": [""], "resources": ["pods/status"]}]);
    ada.post(ROLES, role("status", status)).await.expect(403);
}
