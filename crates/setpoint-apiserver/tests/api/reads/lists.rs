//! The forms of a list and of an object.

use serde_json::{Value, json};

use crate::fixture::{Api, METADATA, METADATA_LIST, TABLE, names};
use crate::objects::*;

async fn with_two() -> Api {
    let api = Api::new().await;
    for name in ["b", "a"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    api
}

#[tokio::test]
async fn a_list_is_in_the_order_of_names_and_its_items_have_no_type() {
    let api = with_two().await;
    let list = api.get(CONFIG_MAPS).await.expect(200);
    assert_eq!((&list["kind"], &list["apiVersion"]), (&json!("ConfigMapList"), &json!("v1")));
    assert_eq!(names(&list["items"]), ["a", "b"]);
    assert!(list["items"][0]["kind"].is_null() && list["items"][0]["apiVersion"].is_null());
    assert_eq!(list["items"][0]["data"], json!({"colour": "green"}));
    assert_eq!(list.revision(), api.store.revision());
    assert!(list["metadata"]["continue"].is_null());
}

#[tokio::test]
async fn a_list_of_nothing_is_a_list() {
    let api = Api::new().await;
    let list = api.get(CONFIG_MAPS).await.expect(200);
    assert_eq!(list["items"], json!([]));
}

#[tokio::test]
async fn all_namespaces_are_listed_at_once() {
    let api = with_two().await;
    api.post("/api/v1/namespaces/kube-public/configmaps", config_map("c")).await.expect(201);
    assert_eq!(api.names("/api/v1/configmaps").await, ["a", "b", "c"]);
    assert_eq!(api.names(CONFIG_MAPS).await, ["a", "b"]);
}

#[tokio::test]
async fn yaml_says_what_json_says() {
    let api = with_two().await;
    for path in [CONFIG_MAPS.to_owned(), format!("{CONFIG_MAPS}/a")] {
        let json = api.get(&path).await.expect(200).object;
        let yaml = api.get(&path).accept("application/yaml").await.expect(200);
        assert_eq!(yaml.header("content-type"), "application/yaml");
        let value: Value = serde_saphyr::from_str(yaml.text()).expect("the answer is YAML");
        assert_eq!(value, json, "{path}");
    }
}

#[tokio::test]
async fn a_table_has_a_row_for_each_object_and_a_cell_for_each_column() {
    let api = with_two().await;
    for (include, kind) in [("", "PartialObjectMetadata"), ("Metadata", "PartialObjectMetadata"), ("Object", "ConfigMap")] {
        let table = api.get(format!("{CONFIG_MAPS}?includeObject={include}")).accept(TABLE).await.expect(200);
        assert_eq!((&table["kind"], &table["apiVersion"]), (&json!("Table"), &json!("meta.k8s.io/v1")));
        let columns: Vec<&Value> =
            table["columnDefinitions"].as_array().into_iter().flatten().map(|column| &column["name"]).collect();
        assert_eq!(columns, ["Name", "Data", "Age"]);
        let row = &table["rows"][0];
        assert_eq!((&row["cells"][0], &row["cells"][1]), (&json!("a"), &json!(1)));
        assert_eq!(row["cells"].as_array().map(Vec::len), Some(3));
        assert_eq!(row["object"]["kind"], kind, "{include:?}");
        assert_eq!(row["object"]["data"].is_object(), include == "Object");
    }
    let bare = api.get(format!("{CONFIG_MAPS}?includeObject=None")).accept(TABLE).await.expect(200);
    assert_eq!(bare["rows"].as_array().map(Vec::len), Some(2));
    assert!(bare["rows"][0]["object"].is_null());
    api.get(format!("{CONFIG_MAPS}?includeObject=Some")).accept(TABLE).await.refused(400, "BadRequest", &["Some"]);
}

#[tokio::test]
async fn one_object_is_a_table_of_one_row() {
    let api = with_two().await;
    let table = api.get(format!("{CONFIG_MAPS}/b")).accept(TABLE).await.expect(200);
    assert_eq!(table["rows"].as_array().map(Vec::len), Some(1));
    assert_eq!(table["rows"][0]["cells"][0], "b");
}

#[tokio::test]
async fn metadata_can_be_had_alone() {
    let api = with_two().await;
    let list = api.get(CONFIG_MAPS).accept(METADATA_LIST).await.expect(200);
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert_eq!(names(&list["items"]), ["a", "b"]);
    for item in list["items"].as_array().into_iter().flatten() {
        assert_eq!(item["kind"], "PartialObjectMetadata");
        assert!(item["data"].is_null());
    }
    let one = api.get(format!("{CONFIG_MAPS}/a")).accept(METADATA).await.expect(200);
    assert_eq!((&one["kind"], &one["metadata"]["name"]), (&json!("PartialObjectMetadata"), &json!("a")));
}

#[tokio::test]
async fn writes_answer_in_the_form_asked_for_too() {
    let api = Api::new().await;
    let created = api.post(CONFIG_MAPS, config_map("a")).accept(METADATA).await.expect(201);
    assert_eq!(created["kind"], "PartialObjectMetadata");
    let patched = api.merge_patch(format!("{CONFIG_MAPS}/a"), json!({"data": {"x": "1"}})).accept(TABLE).await;
    assert_eq!(patched.expect(200)["rows"][0]["cells"][1], 2);
}
