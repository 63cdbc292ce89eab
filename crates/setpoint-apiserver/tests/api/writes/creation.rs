//! Making objects.

use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn a_created_object_can_be_read_as_it_was_answered() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(created["data"], json!({"colour": "green"}));
    assert_eq!(created["metadata"]["namespace"], "default");
    assert!(created.revision() > 0);
    let read = api.get(format!("{CONFIG_MAPS}/a")).await.expect(200);
    assert_eq!(read.object, created.object);
}

#[tokio::test]
async fn a_name_is_taken_once() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let again = api.post(CONFIG_MAPS, config_map("a")).await;
    let again = again.refused(409, "AlreadyExists", &["configmaps \"a\" already exists"]);
    assert_eq!(again["details"], json!({"name": "a", "kind": "configmaps"}));
}

#[tokio::test]
async fn generated_names_are_all_different() {
    let api = Api::new().await;
    let nameless = json!({"metadata": {"generateName": "made-"}});
    for _ in 0..50 {
        let made = api.post(CONFIG_MAPS, nameless.clone()).await.expect(201);
        let name = made["metadata"]["name"].as_str().unwrap_or_default();
        assert!(name.starts_with("made-") && name.len() == "made-".len() + 5, "{name}");
        assert_eq!(made["metadata"]["generateName"], "made-");
    }
    assert_eq!(api.names(CONFIG_MAPS).await.len(), 50);
}

#[tokio::test]
async fn a_given_name_counts_more_than_a_generated_one() {
    let api = Api::new().await;
    let object = with(config_map("chosen"), "generateName", "made-".into());
    let made = api.post(CONFIG_MAPS, object).await.expect(201);
    assert_eq!(made["metadata"]["name"], "chosen");
}

#[tokio::test]
async fn an_object_needs_a_name_that_is_one() {
    let api = Api::new().await;
    let rows = [
        ("no name", json!({"metadata": {}}), "metadata.name"),
        ("capitals", config_map("Upper"), "metadata.name"),
        ("too long", config_map(&"x".repeat(254)), "metadata.name"),
        ("a generated one with a bad stem", json!({"metadata": {"generateName": "Bad_"}}), "metadata.generateName"),
    ];
    for (row, object, field) in rows {
        let answer = api.post(CONFIG_MAPS, object).await.refused(422, "Invalid", &[]);
        assert!(answer.fields().contains(field), "{row}: {}", answer.text());
    }
    assert!(api.names(CONFIG_MAPS).await.is_empty());
}

#[tokio::test]
async fn the_writer_does_not_choose_what_the_server_gives() {
    let api = Api::new().await;
    let mut object = config_map("a");
    for (field, value) in [
        ("uid", json!("mine")),
        ("creationTimestamp", json!("1999-12-31T23:59:59Z")),
        ("deletionTimestamp", json!("1999-12-31T23:59:59Z")),
        ("deletionGracePeriodSeconds", json!(7)),
        ("selfLink", json!("/mine")),
    ] {
        object = with(object, field, value);
    }
    let created = api.post(CONFIG_MAPS, object).await.expect(201);
    let metadata = &created["metadata"];
    assert_eq!(metadata["uid"].as_str().map(str::len), Some(36), "{metadata}");
    assert!(!metadata["creationTimestamp"].as_str().unwrap_or_default().starts_with("1999"), "{metadata}");
    for absent in ["deletionTimestamp", "deletionGracePeriodSeconds", "selfLink"] {
        assert!(metadata[absent].is_null(), "{absent}: {metadata}");
    }
}

#[tokio::test]
async fn a_new_object_has_no_resource_version_yet() {
    let api = Api::new().await;
    let answer = api.post(CONFIG_MAPS, with(config_map("a"), "resourceVersion", "5".into())).await;
    assert!(answer.status >= 400);
    assert!(answer.message().contains("resourceVersion should not be set on objects to be created"));
}

#[tokio::test]
async fn an_object_without_a_type_is_of_the_type_of_its_path() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, json!({"metadata": {"name": "a"}})).await.expect(201);
    assert_eq!((&created["apiVersion"], &created["kind"]), (&json!("v1"), &json!("ConfigMap")));
}

#[tokio::test]
async fn an_object_for_another_place_is_refused() {
    let api = Api::new().await;
    let elsewhere = with(config_map("a"), "namespace", "kube-system".into());
    let rows = [
        ("another kind", secret("a"), "cannot be handled as a ConfigMap"),
        ("another version", json!({"apiVersion": "v7", "kind": "ConfigMap"}), "v7"),
        ("another namespace", elsewhere, "namespace of the provided object does not match"),
    ];
    for (row, object, words) in rows {
        let answer = api.post(CONFIG_MAPS, object).await.refused(400, "BadRequest", &[words]);
        assert!(answer.message().contains(words), "{row}");
    }
}

#[tokio::test]
async fn a_dry_run_answers_as_if_and_leaves_no_trace() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("here")).await.expect(201);
    let before = api.store.revision();

    let created = api.post(format!("{CONFIG_MAPS}?dryRun=All"), config_map("dry")).await.expect(201);
    assert_eq!(created["data"]["colour"], "green");
    assert!(created["metadata"]["resourceVersion"].is_null(), "{}", created.text());
    api.get(format!("{CONFIG_MAPS}/dry")).await.expect(404);

    let here = format!("{CONFIG_MAPS}/here?dryRun=All");
    let changed = api.merge_patch(&here, json!({"data": {"colour": "red"}})).await.expect(200);
    assert_eq!(changed["data"]["colour"], "red");
    api.put(&here, config_map("here")).await.expect(200);
    api.delete(&here).await.expect(200);
    api.delete_with(format!("{CONFIG_MAPS}/here"), json!({"dryRun": ["All"]})).await.expect(200);
    api.delete(format!("{CONFIG_MAPS}?dryRun=All")).await.expect(200);

    assert_eq!(api.get(format!("{CONFIG_MAPS}/here")).await.expect(200)["data"]["colour"], "green");
    assert_eq!(api.store.revision(), before, "nothing was written");
}

#[tokio::test]
async fn a_dry_run_still_refuses_what_a_run_would() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let dry = format!("{CONFIG_MAPS}?dryRun=All");
    api.post(&dry, config_map("a")).await.refused(409, "AlreadyExists", &[]);
    api.post(&dry, config_map("Bad_Name")).await.refused(422, "Invalid", &["metadata.name"]);
    let half = api.post(format!("{CONFIG_MAPS}?dryRun=Half"), config_map("b")).await;
    half.refused(422, "Invalid", &["dryRun", "All"]);
}

#[tokio::test]
async fn some_kinds_are_made_by_putting_them() {
    let api = Api::new().await;
    let path = format!("{LEASES}/lock");
    let created = api.put(&path, lease("lock", "first")).await.expect(201);
    assert_eq!(created["spec"]["holderIdentity"], "first");

    let blind = api.put(&path, lease("lock", "second")).await;
    blind.refused(422, "Invalid", &["metadata.resourceVersion", "must be specified for an update"]);
    let revision = created["metadata"]["resourceVersion"].clone();
    api.put(&path, with(lease("lock", "second"), "resourceVersion", revision.clone())).await.expect(200);
    let late = api.put(&path, with(lease("lock", "third"), "resourceVersion", revision)).await;
    late.refused(409, "Conflict", &[]);

    api.put(format!("{CONFIG_MAPS}/a"), config_map("a")).await.refused(404, "NotFound", &[]);
}
