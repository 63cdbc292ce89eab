//! What the documents say.

use serde_json::Map;

use super::swagger::Encoding;
use super::*;
use crate::schema::definitions_as_json;

const fn built_in(group: &'static str, name: &'static str) -> Kind<'static> {
    Kind { group, version: "v1", name, custom: false }
}

const WIDGET: Kind<'_> = Kind { group: "example.com", version: "v1", name: "Widget", custom: true };
const ALL: &[&str] = &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"];
const READ_AND_WRITE: &[&str] = &["get", "patch", "update"];

const PODS: Resource<'_> = Resource {
    kind: built_in("", "Pod"),
    list_kind: "PodList",
    plural: "pods",
    namespaced: true,
    verbs: ALL,
    subresources: &[
        Subresource { name: "exec", kind: built_in("", "PodExecOptions"), verbs: &["create", "get"] },
        Subresource { name: "log", kind: built_in("", "Pod"), verbs: &["get"] },
        Subresource { name: "status", kind: built_in("", "Pod"), verbs: READ_AND_WRITE },
    ],
};
const NODES: Resource<'_> = Resource {
    kind: built_in("", "Node"),
    list_kind: "NodeList",
    plural: "nodes",
    namespaced: false,
    verbs: &["get", "list"],
    subresources: &[],
};
const DEPLOYMENTS: Resource<'_> = Resource {
    kind: built_in("apps", "Deployment"),
    list_kind: "DeploymentList",
    plural: "deployments",
    namespaced: true,
    verbs: ALL,
    subresources: &[Subresource { name: "scale", kind: built_in("autoscaling", "Scale"), verbs: READ_AND_WRITE }],
};
const WIDGETS: Resource<'_> = Resource {
    kind: WIDGET,
    list_kind: "WidgetCollection",
    plural: "widgets",
    namespaced: true,
    verbs: ALL,
    subresources: &[Subresource { name: "status", kind: WIDGET, verbs: READ_AND_WRITE }],
};

fn document(resources: &[Resource<'_>]) -> Value {
    document_with(Map::new(), resources)
}

fn document_with(custom: Map<String, Value>, resources: &[Resource<'_>]) -> Value {
    super::document(&Known { built_in: &definitions_as_json(), custom: &custom }, resources)
}

fn core() -> Value {
    document(&[PODS, NODES])
}

fn apps() -> Value {
    document(&[DEPLOYMENTS])
}

/// The document of Widgets with this schema.
fn widgets(schema: Value) -> Value {
    document_with(Map::from_iter([("com.example.v1.Widget".to_owned(), schema)]), &[WIDGETS])
}

/// The same as OpenAPI 2.
fn swagger(documents: impl IntoIterator<Item = Value>) -> Value {
    let part = |part: &Value| part.as_object().cloned().unwrap_or_default();
    let (paths, schemas): (Vec<_>, Vec<_>) = documents
        .into_iter()
        .map(|document| (part(&document["paths"]), part(&document["components"]["schemas"])))
        .unzip();
    let mut text = Vec::new();
    swagger::write(&mut text, Encoding::Json, paths.into_iter(), schemas.into_iter()).expect("memory takes it");
    serde_json::from_slice(&text).expect("a document is JSON")
}

fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(members) => {
            found.extend(members.get("$ref").and_then(Value::as_str).map(String::from));
            members.values().for_each(|value| references(value, found));
        }
        Value::Array(items) => items.iter().for_each(|value| references(value, found)),
        _ => {}
    }
}

#[test]
fn every_reference_leads_to_a_schema() {
    for document in [core(), apps(), swagger([core(), apps(), widgets(json!({"type": "object"}))])] {
        let mut found = Vec::new();
        references(&document, &mut found);
        assert!(found.len() > 100);
        for reference in found {
            let pointer = reference.strip_prefix('#').expect("references are local");
            assert!(document.pointer(pointer).is_some(), "{reference}");
        }
    }
}

#[test]
fn paths_follow_scope_verbs_and_subresources() {
    let document = core();
    let operations = |path: &str| -> Vec<&str> {
        let item = document["paths"][path].as_object();
        item.into_iter().flatten().map(|(method, _)| method.as_str()).filter(|name| *name != "parameters").collect()
    };
    assert_eq!(operations("/api/v1/namespaces/{namespace}/pods"), ["delete", "get", "post"]);
    assert_eq!(operations("/api/v1/namespaces/{namespace}/pods/{name}"), ["delete", "get", "patch", "put"]);
    assert_eq!(operations("/api/v1/namespaces/{namespace}/pods/{name}/status"), ["get", "patch", "put"]);
    assert_eq!(operations("/api/v1/pods"), ["get"]);
    assert_eq!(operations("/api/v1/nodes"), ["get"]);
    assert_eq!(operations("/api/v1/nodes/{name}"), ["get"]);
    let ids: Vec<&Value> = document["paths"]
        .as_object()
        .into_iter()
        .flatten()
        .flat_map(|(_, item)| item.as_object().into_iter().flatten())
        .filter_map(|(_, operation)| operation.get("operationId"))
        .collect();
    let distinct: std::collections::BTreeSet<String> = ids.iter().map(ToString::to_string).collect();
    assert_eq!(distinct.len(), ids.len());
    assert!(distinct.contains("\"patchCoreV1NamespacedPodStatus\""), "{distinct:?}");
}

#[test]
fn what_reaches_into_a_pod_gives_bytes() {
    let document = core();
    let operation = |part: &str, method: &str| {
        document["paths"][format!("/api/v1/namespaces/{{namespace}}/pods/{{name}}/{part}")][method].clone()
    };
    let rows = [
        ("exec", "get", "connectCoreV1GetNamespacedPodExec", "connect", "*/*", "PodExecOptions"),
        ("exec", "post", "connectCoreV1PostNamespacedPodExec", "connect", "*/*", "PodExecOptions"),
        ("log", "get", "readCoreV1NamespacedPodLog", "get", "text/plain", "Pod"),
    ];
    for (part, method, id, action, media, kind) in rows {
        let operation = operation(part, method);
        assert_eq!((&operation["operationId"], &operation["x-kubernetes-action"]), (&json!(id), &json!(action)));
        assert_eq!(operation["responses"]["200"]["content"][media]["schema"]["type"], "string", "{id}");
        assert_eq!(operation["x-kubernetes-group-version-kind"]["kind"], kind, "{id}");
    }
    assert_eq!(operation("log", "post"), Value::Null);
}

#[test]
fn a_patch_says_what_kubectl_looks_for() {
    let document = apps();
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    assert_eq!(
        patch["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert_eq!(patch["x-kubernetes-action"], "patch");
    let parameters: Vec<&str> =
        patch["parameters"].as_array().into_iter().flatten().filter_map(|p| p["name"].as_str()).collect();
    assert_eq!(parameters, ["dryRun", "fieldManager", "fieldValidation", "force"]);
    let types: Vec<&String> =
        patch["requestBody"]["content"].as_object().into_iter().flatten().map(|(t, _)| t).collect();
    assert_eq!(
        types,
        [
            "application/apply-patch+yaml",
            "application/json-patch+json",
            "application/merge-patch+json",
            "application/strategic-merge-patch+json",
        ]
    );
    let scale = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Scale");
}

#[test]
fn schemas_have_what_explain_and_merges_need() {
    let document = core();
    let schemas = &document["components"]["schemas"];
    let pod = &schemas["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["x-kubernetes-group-version-kind"], json!([{"group": "", "version": "v1", "kind": "Pod"}]));
    assert!(pod["description"].as_str().is_some_and(|text| text.starts_with("Pod is")));
    assert_eq!(pod["required"], Value::Null);
    assert_eq!(
        pod["properties"]["spec"]["allOf"],
        json!([{"$ref": "#/components/schemas/io.k8s.api.core.v1.PodSpec"}])
    );
    assert!(pod["properties"]["spec"]["description"].is_string());
    let spec = &schemas["io.k8s.api.core.v1.PodSpec"];
    assert_eq!(spec["required"], json!(["containers"]));
    let containers = &spec["properties"]["containers"];
    assert_eq!(containers["x-kubernetes-list-type"], "map");
    assert_eq!(containers["x-kubernetes-list-map-keys"], json!(["name"]));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    assert_eq!(containers["x-kubernetes-patch-strategy"], "merge");
    assert_eq!(spec["properties"]["tolerations"]["x-kubernetes-list-type"], "atomic");
    assert_eq!(spec["properties"]["nodeSelector"]["x-kubernetes-map-type"], "atomic");
    assert_eq!(schemas["io.k8s.api.core.v1.LocalObjectReference"]["x-kubernetes-map-type"], "atomic");
    let list = &schemas["io.k8s.api.core.v1.PodList"];
    assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "PodList");
    assert_eq!(list["required"], json!(["items"]));
    for name in ["Status", "DeleteOptions", "Patch", "WatchEvent"] {
        assert!(schemas[format!("io.k8s.apimachinery.pkg.apis.meta.v1.{name}")].is_object(), "{name}");
    }
    assert!(schemas["io.k8s.apimachinery.pkg.util.intstr.IntOrString"]["oneOf"].is_array());
    assert_eq!(schemas["io.k8s.api.apps.v1.Deployment"], Value::Null, "other groups' kinds are elsewhere");
}

#[test]
fn the_index_names_each_document_by_its_hash() {
    let hash = |document: Value| super::hash(Sha256::new_with_prefix(document.to_string()));
    assert_eq!(hash(apps()), hash(apps()));
    assert_ne!(hash(apps()), hash(core()));
    let index = index([("api/v1", "A"), ("apis/apps/v1", "B")]);
    assert_eq!(
        index,
        json!({"paths": {
            "api/v1": {"serverRelativeURL": "/openapi/v3/api/v1?hash=A"},
            "apis/apps/v1": {"serverRelativeURL": "/openapi/v3/apis/apps/v1?hash=B"},
        }})
    );
}

#[test]
fn custom_kinds_are_named_by_their_definition() {
    let document = widgets(json!({"type": "object", "x-kubernetes-selectable-fields": [{"fieldPath": "spec.color"}]}));
    let schemas = &document["components"]["schemas"];
    let kind = json!([{"group": "example.com", "version": "v1", "kind": "Widget"}]);
    assert_eq!(schemas["com.example.v1.Widget"]["x-kubernetes-group-version-kind"], kind);
    let list = &schemas["com.example.v1.WidgetCollection"];
    assert_eq!(list["x-kubernetes-group-version-kind"][0]["kind"], "WidgetCollection");
    assert_eq!(list["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.color"}]));
    assert_eq!(list["properties"]["items"]["items"], reference("com.example.v1.Widget"));
    assert!(schemas["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"].is_object());

    let patch = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets/{name}/status"]["patch"];
    assert_eq!(patch["operationId"], "patchExampleComV1NamespacedWidgetStatus");
    assert_eq!(patch["tags"], json!(["exampleCom_v1"]));
    assert_eq!(
        patch["requestBody"]["content"].get("application/strategic-merge-patch+json"),
        None,
        "its schema has no merge keys"
    );
    let delete = &document["paths"]["/apis/example.com/v1/namespaces/{namespace}/widgets"]["delete"];
    assert_eq!(delete["operationId"], "deleteExampleComV1CollectionNamespacedWidget");
}

#[test]
fn version_2_says_the_same_in_its_own_terms() {
    let swagger = swagger([core(), apps()]);
    assert_eq!((&swagger["swagger"], &swagger["info"]["title"]), (&json!("2.0"), &json!("Kubernetes")));
    let pod = &swagger["definitions"]["io.k8s.api.core.v1.Pod"];
    assert_eq!(pod["properties"]["spec"]["$ref"], "#/definitions/io.k8s.api.core.v1.PodSpec");
    assert!(pod["properties"]["spec"]["description"].is_string());
    let containers = &swagger["definitions"]["io.k8s.api.core.v1.PodSpec"]["properties"]["containers"];
    assert_eq!(containers["items"], json!({"$ref": "#/definitions/io.k8s.api.core.v1.Container"}));
    assert_eq!(containers["x-kubernetes-patch-merge-key"], "name");
    for text in ["io.k8s.apimachinery.pkg.api.resource.Quantity", "io.k8s.apimachinery.pkg.util.intstr.IntOrString"] {
        let schema = &swagger["definitions"][text];
        assert_eq!((&schema["type"], schema.get("oneOf")), (&json!("string"), None), "{text}");
    }

    let path = "/apis/apps/v1/namespaces/{namespace}/deployments/{name}";
    let patch = &swagger["paths"][path]["patch"];
    let body = json!({
        "name": "body",
        "in": "body",
        "required": true,
        "schema": {"$ref": "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.Patch"},
    });
    assert_eq!(patch["parameters"][0], body);
    let dry_run = &patch["parameters"][1];
    assert_eq!(
        (&dry_run["name"], &dry_run["in"], &dry_run["type"], dry_run.get("schema")),
        (&json!("dryRun"), &json!("query"), &json!("string"), None)
    );
    assert!(patch["consumes"].as_array().is_some_and(|types| types.contains(&json!("application/merge-patch+json"))));
    assert_eq!(patch["produces"], json!(["application/json", "application/yaml"]));
    assert_eq!(patch["responses"]["200"]["schema"]["$ref"], "#/definitions/io.k8s.api.apps.v1.Deployment");
    assert_eq!(patch["x-kubernetes-action"], "patch");
    assert_eq!(patch["x-kubernetes-group-version-kind"]["kind"], "Deployment");
    assert_eq!(patch.get("requestBody"), None);
    let name = &swagger["paths"][path]["parameters"][1];
    assert_eq!((&name["name"], &name["in"], &name["type"]), (&json!("name"), &json!("path"), &json!("string")));
}

#[test]
fn version_2_leaves_out_what_its_clients_misread() {
    let rows = [
        ("a text", json!({"type": "string", "maxLength": 3}), json!({"type": "string", "maxLength": 3})),
        ("one that may be null", json!({"type": "string", "nullable": true}), json!({})),
        ("a list that may be null", json!({"type": "array", "nullable": true, "items": {"type": "string"}}), json!({})),
        ("one that may not", json!({"type": "string", "nullable": false}), json!({"type": "string"})),
        (
            "an open object",
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            "an open list",
            json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        ("a list of anything", json!({"type": "array"}), json!({})),
        (
            "an integer or a string",
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            "choices",
            json!({"type": "object", "oneOf": [{"required": ["a"]}], "not": {"required": ["b"]}, "allOf": [{}]}),
            json!({"type": "object"}),
        ),
        (
            "a required field that may be null",
            json!({"type": "object", "required": ["a", "b"], "properties": {"a": {"nullable": true}, "b": {}}}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {}}}),
        ),
        (
            "a map",
            json!({"type": "object", "additionalProperties": {"type": "string", "nullable": true}}),
            json!({"type": "object", "additionalProperties": {}}),
        ),
        (
            "any fields",
            json!({"type": "object", "additionalProperties": true}),
            json!({"type": "object", "additionalProperties": true}),
        ),
    ];
    for (row, given, expected) in rows {
        let swagger = swagger([widgets(json!({"type": "object", "properties": {"it": given}}))]);
        assert_eq!(swagger["definitions"]["com.example.v1.Widget"]["properties"]["it"], expected, "{row}");
    }
    let open = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"kind": {}}});
    let swagger = swagger([widgets(open)]);
    let widget = &swagger["definitions"]["com.example.v1.Widget"];
    assert_eq!((&widget["type"], widget.get("properties")), (&json!("object"), None));
    assert_eq!(widget["x-kubernetes-group-version-kind"][0]["kind"], "Widget");
}

#[test]
fn what_may_be_left_out_is_not_required() {
    let document = core();
    let schemas = &document["components"]["schemas"];
    let rows = [
        ("an object's metadata", "io.k8s.api.core.v1.Pod", Value::Null),
        ("what a reference leads to", "io.k8s.api.core.v1.LocalObjectReference", Value::Null),
        ("a key's ConfigMap, but not the key", "io.k8s.api.core.v1.ConfigMapKeySelector", json!(["key"])),
        ("but not a container's name", "io.k8s.api.core.v1.Container", json!(["name"])),
    ];
    for (row, name, required) in rows {
        assert_eq!(schemas[name]["required"], required, "{row}");
    }
}

#[test]
fn a_default_in_a_definition_may_be_anything() {
    let definitions = Resource {
        kind: built_in("apiextensions.k8s.io", "CustomResourceDefinition"),
        list_kind: "CustomResourceDefinitionList",
        plural: "customresourcedefinitions",
        ..NODES
    };
    let document = document(&[definitions]);
    for name in ["JSON", "JSONSchemaPropsOrArray", "JSONSchemaPropsOrBool", "JSONSchemaPropsOrStringArray"] {
        let name = format!("io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.{name}");
        let members: Vec<&String> = document["components"]["schemas"][&name]
            .as_object()
            .into_iter()
            .flatten()
            .map(|(member, _)| member)
            .collect();
        assert_eq!(members, ["description"], "{name}");
    }
}
