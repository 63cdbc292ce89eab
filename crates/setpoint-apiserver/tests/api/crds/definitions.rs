//! What a definition brings: paths, discovery, documents, names.

use serde_json::json;

use super::*;
use crate::fixture::Api;

#[tokio::test]
async fn a_definition_is_served_as_soon_as_its_create_is_answered() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}}))).await.expect(201);
    let made = api.post(WIDGETS, widget("a", json!({"size": 1}))).await.expect(201);
    assert_eq!(made["metadata"]["generation"], 1);
    let list = api.get(WIDGETS).await.expect(200);
    assert_eq!((&list["kind"], &list["items"][0]["kind"]), (&json!("WidgetList"), &json!("Widget")));

    let status = &api.get(DEFINITION).await.expect(200)["status"];
    assert_eq!(status["acceptedNames"]["listKind"], "WidgetList");
    assert_eq!(status["storedVersions"], json!(["v1"]));
    let told: Vec<String> = status["conditions"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|c| format!("{}={}: {}", c["type"], c["status"], c["reason"]).replace('"', ""))
        .collect();
    assert_eq!(told, ["NamesAccepted=True: NoConflicts", "Established=True: InitialNamesAccepted"]);
}

#[tokio::test]
async fn discovery_and_documents_know_it() {
    let api = Api::new().await;
    let before = api.get("/openapi/v3").await.expect(200);
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer", "description": "How large."}}))).await.expect(201);
    let listed = api.get("/apis/example.com/v1").await.expect(200);
    let resource = &listed["resources"][0];
    assert_eq!((&resource["name"], &resource["singularName"]), (&json!("widgets"), &json!("widget")));
    assert_eq!((&resource["shortNames"], &resource["categories"]), (&json!(["wd"]), &json!(["all"])));
    api.get("/apis/example.com").await.expect(200);
    let all = api.get("/apis").accept("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList").await;
    assert!(all.text().contains(r#""resource":"widgets""#));

    let after = api.get("/openapi/v3").await.expect(200);
    assert_eq!(before["paths"]["apis/example.com/v1"], json!(null));
    let address = after["paths"]["apis/example.com/v1"]["serverRelativeURL"].as_str().expect("an address");
    let document = api.get(address).await.expect(200);
    let schema = &document["components"]["schemas"]["com.example.v1.Widget"];
    assert_eq!(schema["properties"]["spec"]["properties"]["size"]["description"], "How large.");
    assert_eq!(schema["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
    assert!(schema["properties"]["metadata"]["allOf"].is_array());
}

#[tokio::test]
async fn names_belong_to_who_had_them_first() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let mut gadgets = widgets(json!({}));
    gadgets["metadata"]["name"] = json!("gadgets.example.com");
    gadgets["spec"]["names"] =
        json!({"plural": "gadgets", "kind": "Widget", "listKind": "GadgetList", "singular": "gadget"});
    api.post(DEFINITIONS, gadgets).await.expect(201);
    let path = format!("{DEFINITIONS}/gadgets.example.com");
    let waiting = api.get(&path).await.expect(200);
    assert_eq!(waiting["status"]["conditions"][0]["reason"], "KindConflict");
    assert_eq!(waiting["status"]["conditions"][0]["message"], r#""Widget" is already in use"#);
    assert_eq!(waiting["status"]["conditions"][1]["reason"], "NotAccepted");
    api.get("/apis/example.com/v1/namespaces/default/gadgets").await.expect(404);

    api.delete(DEFINITION).await.expect(200);
    api.eventually(&path, |answer| answer["status"]["conditions"][1]["status"] == "True").await;
    api.eventually("/apis/example.com/v1/namespaces/default/gadgets", |answer| answer.status == 200).await;
}

#[tokio::test]
async fn a_built_in_kind_keeps_its_names() {
    let api = Api::new().await;
    let mut leases = widgets(json!({}));
    leases["metadata"] = json!({
        "name": "leases.coordination.k8s.io",
        "annotations": {"api-approved.kubernetes.io": "unapproved, a test"},
    });
    leases["spec"]["group"] = json!("coordination.k8s.io");
    leases["spec"]["names"] = json!({"plural": "leases", "kind": "Lease"});
    api.post(DEFINITIONS, leases).await.expect(201);
    let refused = api.get(format!("{DEFINITIONS}/leases.coordination.k8s.io")).await.expect(200);
    assert_eq!(refused["status"]["conditions"][0]["status"], "False");
    let lease = json!({"metadata": {"name": "l"}, "spec": {"holderIdentity": "me"}});
    api.post("/apis/coordination.k8s.io/v1/namespaces/default/leases", lease).await.expect(201);
}

#[tokio::test]
async fn a_dry_run_defines_nothing() {
    let api = Api::new().await;
    let answer = api.post(format!("{DEFINITIONS}?dryRun=All"), widgets(json!({}))).await.expect(201);
    assert_eq!(answer["status"]["conditions"], json!(null));
    api.get(DEFINITION).await.expect(404);
    api.get(WIDGETS).await.expect(404);
}

#[tokio::test]
async fn a_format_that_is_not_known_is_remarked_upon() {
    let api = Api::new().await;
    let fields = json!({"colour": {"type": "string", "format": "colour"}});
    let answer = api.post(DEFINITIONS, widgets(fields)).await.expect(201);
    assert_eq!(answer.warnings(), [r#"299 - "unrecognized format \"colour\"""#]);
}
