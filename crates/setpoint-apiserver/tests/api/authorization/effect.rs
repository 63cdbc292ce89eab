//! What is written about rights counts for the next request, whoever wrote it, and after a restart.

use futures::future::join_all;
use serde_json::json;

use super::*;
use crate::objects::*;

#[tokio::test]
async fn a_change_counts_for_the_next_request() {
    let api = Api::new().await;
    let alice = api.as_user("alice", ["devs"]);
    let reader = format!("{ROLES}/reader");
    let bound = format!("{ROLE_BINDINGS}/b");
    alice.get(CONFIG_MAPS).await.expect(403);
    api.post(ROLES, role("reader", json!([rule(&["list"], &["configmaps"])]))).await.expect(201);
    api.post(ROLE_BINDINGS, binding("RoleBinding", "b", "Role/reader", "alice")).await.expect(201);
    alice.get(CONFIG_MAPS).await.expect(200);
    api.merge_patch(&reader, json!({"rules": [rule(&["list"], &["secrets"])]})).await.expect(200);
    alice.get(CONFIG_MAPS).await.expect(403);
    alice.get(SECRETS).await.expect(200);
    api.merge_patch(&bound, json!({"subjects": [{"apiGroup": GROUP, "kind": "User", "name": "bob"}]}))
        .await
        .expect(200);
    alice.get(SECRETS).await.expect(403);
    let to_group = json!({"subjects": [{"apiGroup": GROUP, "kind": "Group", "name": "devs"}]});
    api.merge_patch(format!("{bound}?dryRun=All"), to_group.clone()).await.expect(200);
    alice.get(SECRETS).await.expect(403);
    api.merge_patch(&bound, to_group).await.expect(200);
    alice.get(SECRETS).await.expect(200);
    api.delete(&reader).await.expect(200);
    alice.get(SECRETS).await.expect(403);
    api.put(&reader, role("reader", json!([rule(&["*"], &["secrets"])]))).await;
    api.apply(&reader, "m", role("reader", json!([rule(&["*"], &["secrets"])]))).await;
    alice.get(SECRETS).await.expect(200);
    api.delete(ROLE_BINDINGS).await.expect(200);
    alice.get(SECRETS).await.expect(403);
}

#[tokio::test]
async fn what_goes_with_its_owner_or_its_namespace_no_longer_counts() {
    let api = Api::new().await;
    let alice = api.as_user("alice", []);
    let owner = api.post(CONFIG_MAPS, config_map("owner")).await.expect(201);
    let reference =
        json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner["metadata"]["uid"]}]);
    let owned = with(binding("RoleBinding", "b", "ClusterRole/view", "alice"), "ownerReferences", reference);
    api.post(ROLE_BINDINGS, owned).await.expect(201);
    alice.get(CONFIG_MAPS).await.expect(200);
    api.delete(format!("{CONFIG_MAPS}/owner")).await.expect(200);
    api.eventually(format!("{ROLE_BINDINGS}/b"), |answer| answer.status == 404).await;
    // The collector's write is seen a moment before it counts; nobody waits for its answer.
    alice.eventually(CONFIG_MAPS, |answer| answer.status == 403).await;

    api.post(NAMESPACES, namespace("team")).await.expect(201);
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings";
    api.post(bindings, binding("RoleBinding", "b", "ClusterRole/view", "alice")).await.expect(201);
    alice.get("/api/v1/namespaces/team/configmaps").await.expect(200);
    api.delete(format!("{NAMESPACES}/team")).await.expect(200);
    api.eventually(format!("{NAMESPACES}/team"), |answer| answer.status == 404).await;
    alice.eventually("/api/v1/namespaces/team/configmaps", |answer| answer.status == 403).await;
}

#[tokio::test]
async fn rights_are_known_again_after_a_restart() {
    let api = Api::new().await;
    give(&api, "alice", "ClusterRole/view").await;
    give(&api, "bob", "ClusterRole/view").await;
    api.delete(format!("{ROLE_BINDINGS}/bob-ClusterRole-view")).await.expect(200);
    let again = api.reopened().await;
    again.as_user("alice", []).get(CONFIG_MAPS).await.expect(200);
    again.as_user("bob", []).get(CONFIG_MAPS).await.expect(403);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_who_write_one_binding_the_last_counts() {
    let api = Api::new().await;
    let path = format!("{ROLE_BINDINGS}/b");
    for round in 0..30 {
        let writers = (0..8).map(|number| {
            let (api, path) = (api.clone(), path.clone());
            tokio::spawn(async move {
                let subject = json!([{"apiGroup": GROUP, "kind": "User", "name": format!("u{number}")}]);
                if number == 7 {
                    return drop(api.delete(&path).await);
                }
                drop(api.post(ROLE_BINDINGS, binding("RoleBinding", "b", "ClusterRole/view", "u")).await);
                drop(api.merge_patch(&path, json!({"subjects": subject})).await);
            })
        });
        join_all(writers).await;
        let stored = api.get(&path).await;
        let holder = stored["subjects"][0]["name"].as_str().unwrap_or_default().to_owned();
        for user in ["u", "u0", "u1", "u2", "u3", "u4", "u5", "u6"] {
            let allowed = api.as_user(user, []).get(CONFIG_MAPS).await.status == 200;
            assert_eq!(allowed, user == holder, "round {round}, {user}: {}", stored.text());
        }
    }
}
