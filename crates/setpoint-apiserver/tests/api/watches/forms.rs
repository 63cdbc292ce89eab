//! The forms of events.

use serde_json::json;

use crate::fixture::{Api, METADATA, TABLE};
use crate::objects::*;

#[tokio::test]
async fn a_watch_of_tables_names_its_columns_once() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1")).accept(TABLE).watch().await;
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    let (first, second) = (watch.event().await, watch.event().await);
    assert_eq!((&first["type"], &first["object"]["kind"]), (&json!("ADDED"), &json!("Table")));
    assert_eq!(first["object"]["rows"][0]["cells"][0], "a");
    assert_eq!(first["object"]["columnDefinitions"].as_array().map(Vec::len), Some(3));
    assert_eq!(second["object"]["rows"][0]["cells"][0], "b");
    let columns = &second["object"]["columnDefinitions"];
    assert!(columns.is_null() || *columns == json!([]), "{columns}");
}

#[tokio::test]
async fn a_watch_of_metadata_tells_nothing_else() {
    let api = Api::new().await;
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1")).accept(METADATA).watch().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.delete(format!("{CONFIG_MAPS}/a")).await.expect(200);
    for kind in ["ADDED", "DELETED"] {
        let event = watch.event().await;
        assert_eq!(event["type"], kind);
        assert_eq!(event["object"]["kind"], "PartialObjectMetadata");
        assert_eq!(event["object"]["metadata"]["name"], "a");
        assert!(event["object"]["data"].is_null());
    }
}

#[tokio::test]
async fn watchers_of_different_forms_see_the_same_change() {
    let api = Api::new().await;
    let path = format!("{CONFIG_MAPS}?watch=1");
    let mut full = api.get(&path).watch().await;
    let mut table = api.get(&path).accept(TABLE).watch().await;
    let mut metadata = api.get(&path).accept(METADATA).watch().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    assert_eq!(full.event().await["object"], created.object);
    assert_eq!(table.event().await["object"]["rows"][0]["object"]["metadata"], created["metadata"]);
    assert_eq!(metadata.event().await["object"]["metadata"], created["metadata"]);
}

#[tokio::test]
async fn a_form_that_cannot_be_streamed_is_refused() {
    let api = Api::new().await;
    for accept in ["text/html", "application/vnd.kubernetes.protobuf;stream=watch"] {
        let answer = api.get(format!("{CONFIG_MAPS}?watch=1")).accept(accept).await;
        assert_eq!(answer.status, 406, "{accept}");
    }
}
