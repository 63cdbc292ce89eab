//! Replacing objects.

use serde_json::json;

use crate::fixture::{Api, within};
use crate::objects::*;

#[tokio::test]
async fn an_update_of_what_somebody_else_changed_is_refused() {
    let api = Api::new().await;
    let mut mine = api.post(CONFIG_MAPS, config_map("a")).await.expect(201).object;
    let path = format!("{CONFIG_MAPS}/a");
    api.merge_patch(&path, json!({"data": {"colour": "theirs"}})).await.expect(200);

    mine["data"]["colour"] = "mine".into();
    let late = api.put(&path, mine).await;
    late.refused(409, "Conflict", &["the object has been modified; please apply your changes to the latest version"]);
    assert_eq!(api.get(&path).await.expect(200)["data"]["colour"], "theirs");
}

#[tokio::test]
async fn an_update_that_names_no_revision_wins() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let mut object = config_map("a");
    object["data"]["colour"] = "mine".into();
    assert_eq!(api.put(&path, object).await.expect(200)["data"]["colour"], "mine");
}

#[tokio::test]
async fn an_update_meant_for_an_earlier_object_of_the_name_is_refused() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}/a");
    let first = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.delete(&path).await.expect(200);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let stale = with(config_map("a"), "uid", first["metadata"]["uid"].clone());
    api.put(&path, stale).await.refused(409, "Conflict", &["UID in precondition"]);
}

#[tokio::test]
async fn an_update_must_be_of_the_object_on_its_path() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    api.put(&path, config_map("b")).await.refused(400, "BadRequest", &["does not match the name on the URL (a)"]);
    api.put(&path, json!({"metadata": {}})).await.refused(400, "BadRequest", &["name must be provided"]);
}

#[tokio::test]
async fn an_update_that_changes_nothing_is_not_written() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let path = format!("{CONFIG_MAPS}/a");
    let before = api.store.revision();
    let rows = [
        ("an update", api.put(&path, created.object.clone())),
        ("an update without the server's fields", api.put(&path, config_map("a"))),
        ("a merge patch", api.merge_patch(&path, json!({"data": {"colour": "green"}}))),
        ("an empty JSON patch", api.json_patch(&path, json!([]))),
    ];
    for (row, sending) in rows {
        assert_eq!(sending.await.expect(200).revision(), created.revision(), "{row}");
    }
    assert_eq!(api.store.revision(), before);
}

#[tokio::test]
async fn an_update_leaves_what_the_server_gave() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let object = with(with(config_map("a"), "creationTimestamp", json!(null)), "labels", json!({"x": "y"}));
    let updated = api.put(format!("{CONFIG_MAPS}/a"), object).await.expect(200);
    for field in ["uid", "creationTimestamp"] {
        assert_eq!(updated["metadata"][field], created["metadata"][field], "{field}");
    }
    assert!(updated.revision() > created.revision());
}

#[tokio::test]
async fn spec_and_status_are_written_through_their_own_doors() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let mut object = deployment("web");
    object["status"] = json!({"replicas": 9});
    let mut web = api.post(DEPLOYMENTS, object).await.expect(201).object;
    assert!(web["status"]["replicas"].is_null(), "a new object has no status of its writer's: {web}");

    web["spec"]["replicas"] = 5.into();
    web["status"] = json!({"replicas": 7});
    let web = api.put(&path, web).await.expect(200).object;
    assert_eq!(web["spec"]["replicas"], 5);
    assert!(web["status"]["replicas"].is_null(), "{web}");

    let mut through_status = web.clone();
    through_status["spec"]["replicas"] = 1.into();
    through_status["metadata"]["labels"] = json!({"sneaked": "in"});
    through_status["status"] = json!({"replicas": 3});
    let web = api.put(format!("{path}/status"), through_status).await.expect(200).object;
    assert_eq!(web["spec"]["replicas"], 5);
    assert_eq!(web["status"]["replicas"], 3);
    assert_eq!(api.get(format!("{path}/status")).await.expect(200)["status"]["replicas"], 3);
}

#[tokio::test]
async fn generation_counts_the_changes_of_what_is_wanted() {
    let api = Api::new().await;
    let path = format!("{DEPLOYMENTS}/web");
    let generation = |object: &serde_json::Value| object["metadata"]["generation"].as_i64().unwrap_or_default();
    let created = api.post(DEPLOYMENTS, with(deployment("web"), "generation", 41.into())).await.expect(201);
    assert_eq!(generation(&created.object), 1);
    let rows = [
        ("a label", path.clone(), json!({"metadata": {"labels": {"a": "b"}}}), 1),
        ("the status", format!("{path}/status"), json!({"status": {"replicas": 1}}), 1),
        ("the spec", path.clone(), json!({"spec": {"replicas": 4}}), 2),
        ("the spec as it was", path.clone(), json!({"spec": {"replicas": 4}}), 2),
        ("the generation itself", path.clone(), json!({"metadata": {"generation": 77}}), 2),
        ("the spec again", path, json!({"spec": {"paused": true}}), 3),
    ];
    for (row, path, patch, expected) in rows {
        let patched = api.merge_patch(path, patch).await.expect(200);
        assert_eq!(generation(&patched.object), expected, "{row}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_who_read_the_same_revision_one_may_write() {
    let api = Api::new().await;
    let read = api.post(CONFIG_MAPS, config_map("a")).await.expect(201).object;
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..32 {
        let (api, mut object) = (api.clone(), read.clone());
        object["data"]["colour"] = format!("colour-{writer}").into();
        writers.spawn(async move { api.put(format!("{CONFIG_MAPS}/a"), object).await.status });
    }
    let mut answers = within("all writers", writers.join_all()).await;
    answers.sort_unstable();
    assert_eq!(answers[0], 200);
    assert!(answers[1..].iter().all(|status| *status == 409), "{answers:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patches_of_different_fields_at_once_all_count() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let api = api.clone();
        let patch = json!({"data": {format!("key-{writer}"): "set"}});
        writers.spawn(async move { api.merge_patch(format!("{CONFIG_MAPS}/a"), patch).await.status });
    }
    let answers = within("all writers", writers.join_all()).await;
    assert!(answers.iter().all(|status| *status == 200), "{answers:?}");
    let object = api.get(format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(object["data"].as_object().map(serde_json::Map::len), Some(9));
}
