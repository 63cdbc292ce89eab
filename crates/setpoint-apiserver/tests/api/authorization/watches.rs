//! A watch lasts as long as the right to it.

use serde_json::json;

use super::*;
use crate::objects::*;

#[tokio::test]
async fn a_watch_ends_when_its_right_is_taken_away() {
    let api = Api::new().await;
    let alice = api.as_user("alice", []);
    let reader = || role("reader", json!([rule(&["list", "watch"], &["configmaps"])]));
    let bound = format!("{ROLE_BINDINGS}/alice-Role-reader");
    for taken in ["the binding", "the role", "the verb", "the subject"] {
        api.post(ROLES, reader()).await.expect(201);
        give(&api, "alice", "Role/reader").await;
        let mut watch = alice.get(format!("{CONFIG_MAPS}?watch=1")).watch().await;
        api.post(CONFIG_MAPS, config_map("seen")).await.expect(201);
        assert_eq!(watch.next().await.expect("it is told")["type"], "ADDED", "{taken}");
        // Another's rights are not alice's.
        give(&api, "bob", "Role/reader").await;
        match taken {
            "the binding" => api.delete(&bound).await.expect(200),
            "the role" => api.delete(format!("{ROLES}/reader")).await.expect(200),
            "the verb" => {
                let rules = json!({"rules": [rule(&["list"], &["configmaps"])]});
                api.merge_patch(format!("{ROLES}/reader"), rules).await.expect(200)
            }
            _ => api.merge_patch(&bound, json!({"subjects": null})).await.expect(200),
        };
        api.post(CONFIG_MAPS, config_map("unseen")).await.expect(201);
        let events = watch.rest().await;
        assert_eq!(events.len(), 1, "{taken}: {events:?}");
        assert_eq!((&events[0]["type"], &events[0]["object"]["code"]), (&json!("ERROR"), &json!(403)), "{taken}");
        let message = events[0]["object"]["message"].as_str().unwrap_or_default();
        assert!(message.contains("User \"alice\" cannot watch resource \"configmaps\""), "{taken}: {message}");
        for path in [CONFIG_MAPS, ROLE_BINDINGS, ROLES] {
            api.delete(path).await.expect(200);
        }
    }
}

#[tokio::test]
async fn a_watch_goes_on_while_another_role_gives_the_right() {
    let api = Api::new().await;
    give(&api, "alice", "ClusterRole/view").await;
    give(&api, "alice", "ClusterRole/edit").await;
    let mut watch = api.as_user("alice", []).get(format!("{CONFIG_MAPS}?watch=1")).watch().await;
    api.delete(format!("{ROLE_BINDINGS}/alice-ClusterRole-edit")).await.expect(200);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(watch.next().await.expect("it goes on")["object"]["metadata"]["name"], "a");
}

#[tokio::test]
async fn a_watch_as_another_ends_with_the_right_to_be_them() {
    let api = Api::new().await;
    let helper = api.as_user("helper", []);
    api.post(NAMESPACES, json!({"metadata": {"name": "shop"}})).await.expect(201);
    let account = "system:serviceaccount:shop:web";
    for user in ["alice", account] {
        give(&api, user, "ClusterRole/view").await;
    }
    let [shop_roles, shop_bindings] = [ROLES, ROLE_BINDINGS].map(|path| path.replace("/default/", "/shop/"));
    let rows = [
        ("a user", "alice", "users", "ClusterRole", CLUSTER_ROLES, CLUSTER_ROLE_BINDINGS),
        ("another namespace's", account, "serviceaccounts", "Role", &shop_roles, &shop_bindings),
    ];
    for (row, user, resource, kind, roles, bindings) in rows {
        let mut being = role("being", json!([rule(&["impersonate"], &[resource])]));
        being["kind"] = kind.into();
        api.post(roles, being).await.expect(201);
        let bound = binding(&format!("{kind}Binding"), "helper", &format!("{kind}/being"), "helper");
        api.post(bindings, bound).await.expect(201);
        let watch = helper.get(format!("{CONFIG_MAPS}?watch=1")).acting_as(user, &[]).watch().await;
        api.delete(format!("{bindings}/helper")).await.expect(200);
        let events = watch.rest().await;
        assert_eq!(events.len(), 1, "{row}: {events:?}");
        let message = events[0]["object"]["message"].as_str().unwrap_or_default();
        let refusal = format!("User \"helper\" cannot impersonate resource \"{resource}\"");
        assert!(message.contains(&refusal), "{row}: {message}");
    }
}

#[tokio::test]
async fn a_watch_of_what_may_not_be_watched_does_not_begin() {
    let api = Api::new().await;
    api.post(ROLES, role("lister", json!([rule(&["get", "list"], &["configmaps"])]))).await.expect(201);
    give(&api, "alice", "Role/lister").await;
    for path in ["?watch=1", "/a?watch=1", "?watch=1&resourceVersion=1"] {
        let answer = api.as_user("alice", []).get(format!("{CONFIG_MAPS}{path}")).await;
        answer.refused(403, "Forbidden", &["cannot watch resource \"configmaps\""]);
    }
}
