//! The roles that are there from the start.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::*;
use crate::objects::*;

fn rules_of(role: &Value) -> BTreeSet<String> {
    role["rules"].as_array().into_iter().flatten().map(Value::to_string).collect()
}

#[tokio::test]
async fn a_role_that_gathers_shows_what_it_gathers() {
    let api = Api::new().await;
    let get = async |name: &str| api.get(format!("{CLUSTER_ROLES}/{name}")).await.expect(200);
    let (view, edit, admin) = (get("view").await, get("edit").await, get("admin").await);
    let parts = ["system:aggregate-to-view", "setpoint:aggregate-to-view"];
    let mut expected = BTreeSet::new();
    for part in parts {
        expected.extend(rules_of(&get(part).await.object));
    }
    assert_eq!(rules_of(&view.object), expected);
    assert!(rules_of(&edit.object).is_superset(&rules_of(&view.object)));
    assert!(rules_of(&admin.object).is_superset(&rules_of(&edit.object)));
    assert_eq!(view.owned()["clusterrole-aggregation-controller"], json!({"f:rules": {}}));

    let widgets = json!([{"verbs": ["get"], "apiGroups": ["example.com"], "resources": ["widgets"]}]);
    let part = with(
        cluster_role("widgets", widgets),
        "labels",
        json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"}),
    );
    api.post(CLUSTER_ROLES, part).await.expect(201);
    let shows = |wanted: bool| move |answer: &crate::fixture::Answer| answer.text().contains("widgets") == wanted;
    for name in ["view", "edit", "admin"] {
        api.eventually(format!("{CLUSTER_ROLES}/{name}"), shows(true)).await;
    }
    api.delete(format!("{CLUSTER_ROLES}/widgets")).await.expect(200);
    for name in ["view", "edit", "admin"] {
        api.eventually(format!("{CLUSTER_ROLES}/{name}"), shows(false)).await;
    }
}

#[tokio::test]
async fn what_a_role_gathers_counts_before_it_is_shown() {
    let api = Api::new().await;
    give(&api, "vic", "ClusterRole/view").await;
    let vic = api.as_user("vic", []);
    vic.get(LEASES).await.expect(403);
    let leases = json!([{"verbs": ["list"], "apiGroups": ["coordination.k8s.io"], "resources": ["leases"]}]);
    let part =
        with(cluster_role("leases", leases), "labels", json!({"rbac.authorization.k8s.io/aggregate-to-view": "true"}));
    api.post(CLUSTER_ROLES, part).await.expect(201);
    vic.get(LEASES).await.expect(200);
    api.delete(format!("{CLUSTER_ROLES}/leases")).await.expect(200);
    vic.get(LEASES).await.expect(403);
}

#[tokio::test]
async fn a_second_start_writes_nothing() {
    let api = Api::new().await;
    let before = api.store.revision();
    api.reopened().await.get(CLUSTER_ROLES).await.expect(200);
    assert_eq!(api.store.revision(), before);
}

#[tokio::test]
async fn a_start_adds_what_is_missing_and_leaves_what_was_added() {
    let api = Api::new().await;
    let path = format!("{CLUSTER_ROLES}/system:basic-user");
    let ours = api.get(&path).await.expect(200)["rules"].clone();
    let theirs = rule(&["get"], &["nodes"]);
    api.merge_patch(&path, json!({"rules": [theirs, ours[0]]})).await.expect(200);
    let left_alone = format!("{CLUSTER_ROLES}/system:discovery");
    let mark =
        json!({"metadata": {"annotations": {"rbac.authorization.kubernetes.io/autoupdate": "false"}}, "rules": []});
    api.merge_patch(&left_alone, mark).await.expect(200);
    api.delete(format!("{CLUSTER_ROLES}/system:monitoring")).await.expect(200);
    let groups = json!({"subjects": [{"kind": "Group", "apiGroup": GROUP, "name": "people"}]});
    api.merge_patch(format!("{CLUSTER_ROLE_BINDINGS}/system:basic-user"), groups).await.expect(200);

    let again = api.reopened().await;
    assert_eq!(again.get(&path).await["rules"], json!([theirs, ours[0], ours[1]]));
    assert_eq!(again.get(&left_alone).await["rules"], Value::Null);
    again.get(format!("{CLUSTER_ROLES}/system:monitoring")).await.expect(200);
    let bound = again.get(format!("{CLUSTER_ROLE_BINDINGS}/system:basic-user")).await;
    let names: Vec<&Value> =
        bound["subjects"].as_array().expect("subjects").iter().map(|subject| &subject["name"]).collect();
    assert_eq!(names, ["people", "system:authenticated"]);
    let before = again.store.revision();
    again.reopened().await;
    assert_eq!(again.store.revision(), before, "and then it is as it should be");
}

#[tokio::test]
async fn secrets_are_not_for_those_who_only_look() {
    let api = Api::new().await;
    for role in ["view", "edit", "admin"] {
        let role = api.get(format!("{CLUSTER_ROLES}/{role}")).await.expect(200);
        let rules = role["rules"].as_array().expect("rules");
        let of_secrets =
            rules.iter().filter(|rule| rule["resources"].as_array().is_some_and(|all| all.contains(&json!("secrets"))));
        assert_eq!(of_secrets.count() > 0, role["metadata"]["name"] != "view");
    }
}

#[tokio::test]
async fn who_writes_a_role_without_rules_owns_that_it_has_none() {
    let api = Api::new().await;
    let rows = [("none given", Value::Null, Value::Null), ("an empty list", json!([]), json!({"f:rules": {}}))];
    for (row, rules, owned) in rows {
        let made = api.post(CLUSTER_ROLES, cluster_role("r", rules)).await.expect(201);
        assert_eq!(made["rules"], Value::Null, "{row}");
        assert_eq!(made["metadata"]["managedFields"][0]["fieldsV1"], owned, "{row}");
        api.delete(format!("{CLUSTER_ROLES}/r")).await.expect(200);
    }
}
