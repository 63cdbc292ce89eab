//! The documents that describe the API.

use std::io::Read as _;

use http::header::{ACCEPT_ENCODING, IF_NONE_MATCH};
use serde_json::{Value, json};

use crate::crds::{DEFINITION, DEFINITIONS, definition, version, widgets};
use crate::fixture::{Answer, Api};

const V2_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf";
const V3_PROTOBUF: &str = "application/com.github.proto-openapi.spec.v3@v1.0+protobuf";

/// Where a document is according to the index.
async fn address(api: &Api, path: &str) -> String {
    let index = api.get("/openapi/v3").await.expect(200);
    index["paths"][path]["serverRelativeURL"].as_str().unwrap_or_else(|| panic!("{path} is in the index")).to_owned()
}

/// A definition of another resource than widgets.
fn definition_of(plural: &str, kind: &str, group: &str) -> Value {
    let mut definition = widgets(json!({"size": {"type": "integer"}}));
    definition["metadata"]["name"] = json!(format!("{plural}.{group}"));
    // Groups that are Kubernetes' own want to be told that they know.
    definition["metadata"]["annotations"] = json!({"api-approved.kubernetes.io": "unapproved, for a test"});
    definition["spec"]["group"] = json!(group);
    definition["spec"]["names"] = json!({"plural": plural, "kind": kind});
    definition
}

fn contains(answer: &Answer, text: &str) -> bool {
    answer.body.windows(text.len()).any(|window| window == text.as_bytes())
}

#[tokio::test]
async fn the_index_leads_to_every_document() {
    let api = Api::new().await;
    let index = api.get("/openapi/v3").await.expect(200);
    let paths = index["paths"].as_object().expect("the index has paths");
    assert!(paths.contains_key("api/v1") && paths.contains_key("apis/apps/v1"), "{:?}", paths.keys());
    for (name, entry) in paths {
        let address = entry["serverRelativeURL"].as_str().expect("an address");
        assert!(address.starts_with(&format!("/openapi/v3/{name}?hash=")), "{address}");
        let document = api.get(address).await.expect(200);
        assert!(document["openapi"].as_str().is_some_and(|version| version.starts_with("3.")), "{name}");
        assert_eq!(document.header("cache-control"), "public, immutable", "an address with a hash never changes");
        assert!(document.header("expires").ends_with(" GMT"), "{}", document.header("expires"));
    }
    let without_hash = api.get("/openapi/v3/api/v1").await.expect(200);
    assert_eq!((without_hash.header("cache-control"), without_hash.header("expires")), ("", ""));
}

#[tokio::test]
async fn a_document_says_what_kubectl_apply_asks_of_it() {
    let api = Api::new().await;
    let document = api.get("/openapi/v3/apis/apps/v1").await.expect(200);
    let patch = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"]["patch"];
    let kind = &patch["x-kubernetes-group-version-kind"];
    assert_eq!(*kind, json!({"group": "apps", "version": "v1", "kind": "Deployment"}));
    let parameters = patch["parameters"].as_array().expect("a patch has parameters");
    assert!(parameters.iter().any(|parameter| parameter["name"] == "fieldValidation"));
    let spec = &document["components"]["schemas"]["io.k8s.api.apps.v1.DeploymentSpec"];
    assert_eq!(spec["properties"]["replicas"]["type"], "integer");
}

#[tokio::test]
async fn a_document_that_is_known_is_not_sent_again() {
    let api = Api::new().await;
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        let document = api.get(path).await.expect(200);
        let tag = document.header("etag").to_owned();
        assert!(tag.len() > 2 && tag.starts_with('"'), "{path}: {tag}");
        for known in [tag.clone(), format!("\"older\", {tag}"), format!("W/{tag}"), "*".to_owned()] {
            let answer = api.get(path).header(IF_NONE_MATCH, &known).await.expect(304);
            assert!(answer.body.is_empty(), "{path}: {known}");
            assert_eq!(answer.header("etag"), tag, "{path}: {known}");
        }
        let other = api.get(path).header(IF_NONE_MATCH, "\"older\"").await.expect(200);
        assert_eq!(other.body, document.body, "{path}");
    }
}

#[tokio::test]
async fn an_address_of_a_document_that_changed_leads_to_the_new_one() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}}))).await.expect(201);
    let (old, apps) = (address(&api, "apis/example.com/v1").await, address(&api, "apis/apps/v1").await);
    let fields =
        json!({"versions": [version("v1", json!({"size": {"type": "integer"}, "color": {"type": "string"}}))]});
    api.merge_patch(DEFINITION, json!({ "spec": fields })).await.expect(200);

    let moved = api.get(&old).await.expect(301);
    let new = address(&api, "apis/example.com/v1").await;
    assert_ne!(old, new);
    assert_eq!((moved.header("location"), moved.body.len()), (new.as_str(), 0));
    let document = api.get(&new).await.expect(200);
    let spec = &document["components"]["schemas"]["com.example.v1.Widget"]["properties"]["spec"];
    assert_eq!(spec["properties"]["color"]["type"], "string");
    assert_eq!(address(&api, "apis/apps/v1").await, apps, "what did not change stays where it is");
    let made_up = api.get("/openapi/v3/apis/apps/v1?hash=0").await.expect(301);
    assert_eq!(made_up.header("location"), apps);
}

#[tokio::test]
async fn refusals() {
    let api = Api::new().await;
    let rows = [
        ("a version nobody serves", "/openapi/v3/api/v9", "*/*", 404),
        ("a group nobody serves", "/openapi/v3/apis/none.example.com/v1", "*/*", 404),
        ("a hash of nothing", "/openapi/v3/apis/none.example.com/v1?hash=0", "*/*", 404),
        ("no group at all", "/openapi/v3/nonsense", "*/*", 404),
        ("below version 2", "/openapi/v2/api/v1", "*/*", 404),
        ("a version nobody has", "/openapi/v4", "*/*", 404),
        ("version 2 as a page", "/openapi/v2", "text/html", 406),
        ("version 2 as version 3", "/openapi/v2", V3_PROTOBUF, 406),
        ("version 3 as a page", "/openapi/v3/api/v1", "text/html", 406),
        ("version 3 as version 2", "/openapi/v3/api/v1", V2_PROTOBUF, 406),
        ("YAML", "/openapi/v2", "application/yaml", 406),
    ];
    for (row, path, accept, status) in rows {
        let answer = api.get(path).accept(accept).await;
        assert_eq!(answer.status, status, "{row}: {}", answer.text());
    }
    for path in ["/openapi/v2", "/openapi/v3", "/openapi/v3/api/v1"] {
        api.get(path).anonymous().await.refused(401, "Unauthorized", &[]);
        api.post(path, json!({})).await.refused(405, "MethodNotAllowed", &[]);
    }
}

#[tokio::test]
async fn version_2_describes_all_that_is_served() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer"}}))).await.expect(201);
    let document = api.get("/openapi/v2").await.expect(200);
    assert_eq!(document["swagger"], "2.0");
    let described = |path: &str, method: &str| -> Value {
        document["paths"][path][method]["x-kubernetes-group-version-kind"].clone()
    };
    for (group, path) in [("", "/api/v1"), ("apps", "/apis/apps/v1"), ("example.com", "/apis/example.com/v1")] {
        let served = api.get(path).await.expect(200);
        for resource in served["resources"].as_array().expect("resources") {
            let (name, kind) = (resource["name"].as_str().expect("a name"), &resource["kind"]);
            let namespace = if resource["namespaced"] == true { "/namespaces/{namespace}" } else { "" };
            let (plural, part) = name.split_once('/').unwrap_or((name, ""));
            let below = if part.is_empty() { String::new() } else { format!("/{part}") };
            let verbs = resource["verbs"].as_array().expect("verbs");
            let (verb, method) = [("patch", "patch"), ("create", "post"), ("update", "put"), ("get", "get")]
                .into_iter()
                .find(|(verb, _)| verbs.contains(&json!(verb)))
                .expect("something can be done with it");
            let path = match (verb, part) {
                ("create", "") => format!("{path}{namespace}/{plural}"),
                _ => format!("{path}{namespace}/{plural}/{{name}}{below}"),
            };
            assert_eq!(described(&path, method)["kind"], *kind, "{group}: {path}");
        }
    }
    let widget = &document["definitions"]["com.example.v1.Widget"];
    assert_eq!(widget["properties"]["spec"]["properties"]["size"]["type"], "integer");
    assert_eq!(
        widget["properties"]["metadata"]["$ref"],
        "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"
    );

    api.delete(DEFINITION).await.expect(200);
    let gone = |answer: &Answer| answer.status == 404;
    api.eventually("/apis/example.com/v1", gone).await;
    let document = api.get("/openapi/v2").await.expect(200);
    assert!(document["definitions"].get("com.example.v1.Widget").is_none());
    assert!(document["paths"].get("/apis/example.com/v1/widgets").is_none());
}

#[tokio::test]
async fn documents_come_as_protobuf_to_those_who_ask() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({"size": {"type": "integer", "description": "How large."}}))).await.expect(201);
    let rows = [
        ("/openapi/v2", V2_PROTOBUF, b"\x0a\x032.0".as_slice()),
        ("/openapi/v3/apis/example.com/v1", V3_PROTOBUF, b"\x0a\x053.0.0".as_slice()),
    ];
    for (path, media_type, beginning) in rows {
        let without_sign = media_type.replace('@', ".");
        for accept in [media_type, &without_sign, &format!("{media_type}, application/json;q=0.5")] {
            let document = api.get(path).accept(accept).await.expect(200);
            assert_eq!(document.header("content-type"), without_sign, "{accept}");
            assert!(document.header("vary").contains("Accept"), "{accept}");
            assert!(document.body.starts_with(beginning), "{accept}");
            for text in ["com.example.v1.Widget", "How large.", "x-kubernetes-group-version-kind"] {
                assert!(contains(&document, text), "{accept}: {text}");
            }
        }
        for accept in ["application/json", "*/*", "application/*"] {
            let document = api.get(path).accept(accept).await.expect(200);
            assert_eq!(document.header("content-type"), "application/json", "{accept}");
        }
    }
}

#[tokio::test]
async fn documents_come_compressed_to_those_who_can_read_it() {
    let api = Api::new().await;
    for (path, accept) in [("/openapi/v2", "*/*"), ("/openapi/v2", V2_PROTOBUF), ("/openapi/v3/apis/apps/v1", "*/*")] {
        let plain = api.get(path).accept(accept).await.expect(200);
        let packed = api.get(path).accept(accept).header(ACCEPT_ENCODING, "gzip").await.expect(200);
        assert_eq!((plain.header("content-encoding"), packed.header("content-encoding")), ("", "gzip"), "{path}");
        assert!(packed.body.len() * 4 < plain.body.len(), "{path}");
        let mut unpacked = Vec::new();
        flate2::read::GzDecoder::new(&*packed.body).read_to_end(&mut unpacked).expect("gzip");
        assert_eq!(unpacked, plain.body, "{path}");
        assert_eq!(packed.header("etag"), plain.header("etag"), "{path}");
    }
}

#[tokio::test]
async fn kinds_of_one_group_and_version_are_in_one_document() {
    let api = Api::new().await;
    for (plural, kind, group) in [("gears", "Gear", "example.com"), ("rotors", "Rotor", "discovery.k8s.io")] {
        api.post(DEFINITIONS, definition_of(plural, kind, group)).await.expect(201);
    }
    api.post(DEFINITIONS, definition(json!([version("v1", json!({}))]))).await.expect(201);
    let rows = [
        ("/openapi/v3/apis/example.com/v1", ["com.example.v1.Gear", "com.example.v1.Widget"]),
        (
            "/openapi/v3/apis/discovery.k8s.io/v1",
            ["io.k8s.discovery.v1.Rotor", "io.k8s.api.discovery.v1.EndpointSlice"],
        ),
    ];
    for (path, definitions) in rows {
        let document = api.get(path).await.expect(200);
        for name in definitions {
            let schema = &document["components"]["schemas"][name];
            assert_eq!(schema["x-kubernetes-group-version-kind"][0]["version"], "v1", "{path}: {name}");
        }
    }
    let mixed = api.get("/openapi/v3/apis/discovery.k8s.io/v1").await.expect(200);
    assert!(mixed["paths"]["/apis/discovery.k8s.io/v1/namespaces/{namespace}/rotors/{name}"]["patch"].is_object());
    let whole = api.get("/openapi/v2").await.expect(200);
    assert!(whole["definitions"]["io.k8s.discovery.v1.Rotor"].is_object());
}
