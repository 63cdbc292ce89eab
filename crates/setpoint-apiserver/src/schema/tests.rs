//! What decoding takes over, leaves out, fills in and refuses.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Body, DecodeError, Decoded, ListType, MAX_DEPTH, Schema, Schemas, Shape, Type, TypeMeta, protobuf};

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::built_in);

fn schema(kind: &str) -> Schema {
    SCHEMAS.get(&format!("io.k8s.api.{kind}")).expect(kind)
}

fn decode(kind: &str, object: &Value) -> Result<Decoded, DecodeError> {
    let decoded = schema(kind).decode(object);
    let from_text = Body::json(object.to_string().as_bytes()).decode(&schema(kind));
    assert_eq!(decoded, from_text, "a value decodes as its text does");
    decoded
}

#[test]
fn every_definition_is_found() {
    let pod = schema("core.v1.Pod");
    let spec = pod.root().entry("spec");
    let containers = spec.field("containers").expect("pods have containers");
    let Shape::List(list) = &containers.shape else { panic!("containers are a list") };
    assert_eq!(list.list_type, ListType::Map(Box::new(["name".into()])));
    assert_eq!(containers.patch.merge_key, Some("name"));
    assert!(spec.entry("containers").element().field("image").is_some());
    assert_eq!(pod.root().entry("metadata").entry("labels").entry("any").shape(), &Shape::String);
    assert!(SCHEMAS.get("io.k8s.api.core.v1.Nothing").is_none());
}

#[test]
fn what_is_always_written_does_not_make_a_huge_value_of_a_short_text() {
    for (row, element) in [("an empty object", json!({})), ("null", Value::Null)] {
        let containers = |count: usize| {
            let object = json!({"spec": {"containers": vec![element.clone(); count]}});
            schema("core.v1.Pod").decode(&object).expect(row).object
        };
        let few = containers(1_000);
        let whole = |container: &&Value| container["name"] == "" && container["resources"].is_object();
        let count =
            |object: &Value| object["spec"]["containers"].as_array().into_iter().flatten().filter(whole).count();
        assert_eq!(count(&few), 1_000, "{row}");
        let many = containers(200_000);
        assert!((40_000..120_000).contains(&count(&many)), "{row}: {}", count(&many));
        assert!(crate::object_size::check(&many, None).is_err(), "{row}: what is left out is not stored");
    }
}

#[test]
fn objects_are_written_as_kubernetes_writes_them() {
    for (why, kind, given, written) in [
        (
            "an empty map, an empty list and null are left out",
            "core.v1.ConfigMap",
            json!({"metadata": {"name": "a", "labels": {}, "finalizers": [], "annotations": null}, "data": null}),
            json!({"metadata": {"name": "a"}}),
        ),
        (
            "null in a map of texts is the empty text",
            "core.v1.ConfigMap",
            json!({"metadata": {}, "data": {"a": null}}),
            json!({"metadata": {}, "data": {"a": ""}}),
        ),
        (
            "a pointer keeps its zero, a plain field does not",
            "apps.v1.Deployment",
            json!({"spec": {"replicas": 0, "minReadySeconds": 0, "paused": false, "selector": {}, "template": {}}}),
            json!({
                "metadata": {},
                "spec": {
                    "replicas": 0,
                    "selector": {},
                    "strategy": {},
                    "template": {"metadata": {}, "spec": {"containers": null}},
                },
                "status": {},
            }),
        ),
        (
            "structs are there though nobody gave them",
            "core.v1.Service",
            json!({"spec": {"ports": [{"port": 80}]}}),
            json!({"metadata": {}, "spec": {"ports": [{"port": 80, "targetPort": 0}]}, "status": {"loadBalancer": {}}}),
        ),
        (
            "an absent time of an Event is null",
            "core.v1.Event",
            json!({"involvedObject": {"kind": "Pod"}}),
            json!({
                "metadata": {},
                "involvedObject": {"kind": "Pod"},
                "source": {},
                "eventTime": null,
                "firstTimestamp": null,
                "lastTimestamp": null,
                "reportingComponent": "",
                "reportingInstance": "",
            }),
        ),
        (
            "lists that are always written are null when empty",
            "discovery.v1.EndpointSlice",
            json!({"addressType": "IPv4", "endpoints": []}),
            json!({"metadata": {}, "addressType": "IPv4", "endpoints": null, "ports": null}),
        ),
        (
            "quantities, times and bytes are canonical",
            "core.v1.Node",
            json!({
                "metadata": {"creationTimestamp": "2024-01-02T03:04:05.9+01:00"},
                "status": {"capacity": {"cpu": 2, "memory": "1024Mi"}},
            }),
            json!({
                "metadata": {"creationTimestamp": "2024-01-02T02:04:05Z"},
                "spec": {},
                "status": {
                    "capacity": {"cpu": "2", "memory": "1Gi"},
                    "daemonEndpoints": {"kubeletEndpoint": {"Port": 0}},
                    "nodeInfo": {
                        "architecture": "",
                        "bootID": "",
                        "containerRuntimeVersion": "",
                        "kernelVersion": "",
                        "kubeProxyVersion": "",
                        "kubeletVersion": "",
                        "machineID": "",
                        "operatingSystem": "",
                        "osImage": "",
                        "systemUUID": "",
                    },
                },
            }),
        ),
        (
            "raw data stays as it is",
            "apps.v1.ControllerRevision",
            json!({"revision": 1, "data": {"spec": {"x": null, "y": [], "z": ""}}}),
            json!({"metadata": {}, "revision": 1, "data": {"spec": {"x": null, "y": [], "z": ""}}}),
        ),
    ] {
        let decoded = decode(kind, &given).expect(why);
        assert_eq!(decoded.object, written, "{why}");
        assert_eq!(decoded.remarks, [""; 0], "{why}");
        let again = decode(kind, &written).expect(why);
        assert_eq!(again.object, written, "decoding again changes nothing: {why}");
    }
}

#[test]
fn wrong_types_are_refused_with_the_field() {
    let pod = |container: Value| json!({"spec": {"containers": [container]}});
    for (kind, object, field) in [
        ("core.v1.ConfigMap", json!([]), "the body"),
        ("core.v1.ConfigMap", json!("x"), "the body"),
        ("core.v1.ConfigMap", json!({"data": {"a": 1}}), "data.a"),
        ("core.v1.ConfigMap", json!({"data": []}), "data"),
        ("core.v1.ConfigMap", json!({"metadata": {"name": true}}), "metadata.name"),
        ("core.v1.ConfigMap", json!({"binaryData": {"a": "?"}}), "binaryData.a"),
        (
            "core.v1.Pod",
            pod(json!({"ports": [{"containerPort": 2_147_483_648u32}]})),
            "spec.containers[0].ports[0].containerPort",
        ),
        ("core.v1.Pod", pod(json!({"ports": [{"containerPort": 1.0}]})), "spec.containers[0].ports[0].containerPort"),
        ("core.v1.Pod", pod(json!({"tty": "yes"})), "spec.containers[0].tty"),
        (
            "core.v1.Pod",
            pod(json!({"resources": {"limits": {"cpu": "much"}}})),
            "spec.containers[0].resources.limits.cpu",
        ),
        ("core.v1.Pod", json!({"spec": {"containers": {}}}), "spec.containers"),
        ("core.v1.Pod", json!({"metadata": {"creationTimestamp": "now"}}), "metadata.creationTimestamp"),
        ("coordination.v1.Lease", json!({"spec": {"renewTime": "2024-01-01T00:00:00Z"}}), "spec.renewTime"),
        ("core.v1.Service", json!({"spec": {"ports": [{"port": 1, "targetPort": []}]}}), "spec.ports[0].targetPort"),
    ] {
        match decode(kind, &object) {
            Err(DecodeError::Type { field: refused, .. }) => assert_eq!(refused, field, "{object}"),
            other => panic!("{object} gave {other:?}"),
        }
    }
}

#[test]
fn unknown_and_repeated_fields_are_told_in_the_order_they_stand() {
    let text = br#"{
        "metadata": {"name": "p", "name": "q", "labels": {"a": "1", "a": "2"}},
        "spec": {
            "containers": [{"imagee": "y", "name": "c", "ports": [{"containerport": 1}]}],
            "Nope": {"x": [1]},
            "Nope": 2
        },
        "kind": "Pod",
        "Kind": "x"
    }"#;
    let decoded = Body::json(text).decode(&schema("core.v1.Pod")).expect("it decodes");
    assert_eq!(
        decoded.remarks,
        [
            r#"duplicate field "metadata.name""#,
            r#"duplicate field "metadata.labels.a""#,
            r#"unknown field "spec.containers[0].imagee""#,
            r#"unknown field "spec.containers[0].ports[0].containerport""#,
            r#"unknown field "spec.Nope""#,
            r#"unknown field "Kind""#,
        ]
    );
    assert_eq!(decoded.object["metadata"], json!({"name": "q", "labels": {"a": "2"}}));
    assert_eq!(decoded.object["spec"]["containers"][0]["ports"], json!([{"containerPort": 0}]));
}

#[test]
fn remarks_are_bounded() {
    let fields: Vec<String> = (0..1000).map(|i| format!("\"f{i}\":1")).collect();
    let text = format!("{{{}}}", fields.join(","));
    let decoded = Body::json(text.as_bytes()).decode(&schema("core.v1.Pod")).expect("it decodes");
    assert_eq!(decoded.remarks.len(), 100);
}

#[test]
fn null_is_an_object_without_fields() {
    let decoded = Body::json(b"null").decode(&schema("core.v1.ConfigMap")).expect("null decodes");
    assert_eq!(decoded.object, json!({"metadata": {}}));
}

#[test]
fn what_is_no_json_or_yaml_is_refused() {
    let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
    let deep_data = format!(r#"{{"data": {}1{}}}"#, r#"{"a":"#.repeat(100_000), "}".repeat(100_000));
    let mut bomb = "a: &a [x,x,x,x]\n".to_owned();
    for (old, new) in ('a'..'m').zip('b'..) {
        bomb += &format!("{new}: &{new} [*{old},*{old},*{old},*{old},*{old},*{old},*{old},*{old}]\n");
    }
    for (why, body) in [
        ("empty", Body::json(b"")),
        ("blank", Body::json(b" ")),
        ("cut off", Body::json(b"{\"apiVersion\":")),
        ("more than one", Body::json(b"{} {}")),
        ("not UTF-8", Body::json(b"{\"kind\": \"\xff\"}")),
        ("nested too deep", Body::json(deep.as_bytes())),
        ("nested too deep in a field", Body::json(deep_data.as_bytes())),
        ("cut off YAML", Body::yaml(b"a: [")),
        ("not UTF-8 YAML", Body::yaml(b"a: \xff")),
        ("two YAML documents", Body::yaml(b"kind: A\n---\nkind: B\n")),
        ("YAML nested too deep", Body::yaml(deep.as_bytes())),
        ("an alias bomb", Body::yaml(bomb.as_bytes())),
    ] {
        assert!(body.decode(&schema("apps.v1.ControllerRevision")).is_err(), "{why}");
        assert!(body.decode_any().is_err(), "{why}");
        if !why.contains("deep") {
            assert!(body.type_meta().is_err(), "{why}");
        }
    }
}

/// Revisions as deep as this.
fn nested_revision(depth: usize) -> [(&'static str, Value); 2] {
    let objects = (1..depth).fold(json!(1), |value, _| json!({"a": value}));
    let lists = (1..depth).fold(json!(1), |value, _| json!([value]));
    [("objects", json!({"data": objects})), ("lists", json!({"data": lists}))]
}

type Way = fn(&Schema, &Value) -> Result<Decoded, DecodeError>;

#[test]
fn what_is_accepted_can_be_read_again() {
    let revision = schema("apps.v1.ControllerRevision");
    let ways: [(&str, Way); 4] = [
        ("JSON", |schema, object| Body::json(object.to_string().as_bytes()).decode(schema)),
        ("YAML", |schema, object| Body::yaml(object.to_string().as_bytes()).decode(schema)),
        ("protobuf", |schema, object| Body::protobuf(&protobuf::encode(schema, object)).decode(schema)),
        ("a patched value", Schema::decode),
    ];
    for (way, decode) in ways {
        for (what, object) in nested_revision(MAX_DEPTH) {
            let decoded = decode(&revision, &object).unwrap_or_else(|error| panic!("{what} in {way}: {error}")).object;
            assert_eq!(decoded["data"], object["data"], "{what} in {way}");
            let list = json!({"items": [{"object": decoded}]}).to_string();
            assert!(serde_json::from_str::<Value>(&list).is_ok(), "{what} in {way}");
        }
        for (what, object) in nested_revision(MAX_DEPTH + 1) {
            assert!(decode(&revision, &object).is_err(), "{what} in {way}");
        }
    }
    let [(_, object), _] = nested_revision(MAX_DEPTH + 1);
    let error = revision.decode(&object).expect_err("one too many");
    assert!(matches!(error, DecodeError::TooDeep { .. }), "{error}");
}

#[test]
fn yaml_is_read_as_kubernetes_reads_it() {
    let config_map = schema("core.v1.ConfigMap");
    let text = b"apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  labels: &l {x: '1'}\n  annotations: *l\ndata:\n  k: |\n    two\n    lines\n  1: one\n  y: why\n  n: \"null\"\n";
    let body = Body::yaml(text);
    assert_eq!(body.type_meta(), Ok(TypeMeta { api_version: "v1".into(), kind: "ConfigMap".into() }));
    let decoded = body.decode(&config_map).expect("it decodes");
    assert_eq!(
        decoded.object,
        json!({
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {"name": "a", "labels": {"x": "1"}, "annotations": {"x": "1"}},
            "data": {"k": "two\nlines\n", "1": "one", "true": "why", "false": "null"},
        })
    );
    for (text, field) in
        [("metadata: {name: y}", "metadata.name"), ("data: {a: on}", "data.a"), ("data: {a: 1}", "data.a")]
    {
        let error = Body::yaml(text.as_bytes()).decode(&config_map).expect_err(text);
        assert!(matches!(&error, DecodeError::Type { field: refused, .. } if refused == field), "{text}: {error}");
    }
    let repeated = Body::yaml(b"data: {a: x, a: z}\nnope: 1\n").decode(&config_map).expect("it decodes");
    assert_eq!(repeated.remarks, [r#"duplicate field "data.a""#, r#"unknown field "nope""#]);
    assert_eq!(repeated.object["data"], json!({"a": "z"}));
}

#[test]
fn type_meta_is_read_wherever_it_stands() {
    for (text, api_version, kind) in [
        (r#"{"kind": "A", "apiVersion": "v1"}"#, "v1", "A"),
        (r#"{"spec": {"kind": "B"}, "kind": null}"#, "", ""),
        (r#"{"kind": "A", "kind": "B"}"#, "", "B"),
        ("null", "", ""),
    ] {
        let expected = TypeMeta { api_version: api_version.into(), kind: kind.into() };
        assert_eq!(Body::json(text.as_bytes()).type_meta(), Ok(expected), "{text}");
    }
    assert!(Body::json(b"[]").type_meta().is_err());
    assert!(Body::json(br#"{"kind": 1}"#).type_meta().is_err());
}

#[test]
fn a_patch_is_read_without_a_schema() {
    let decoded = Body::json(br#"{"a": {"b": null, "b": [1.5, {}]}}"#).decode_any().expect("it decodes");
    assert_eq!(decoded.object, json!({"a": {"b": [1.5, {}]}}));
    assert_eq!(decoded.remarks, [r#"duplicate field "a.b""#]);
}

#[test]
fn facts_about_writing_name_fields_that_exist() {
    for (type_name, fields) in super::emission::tables() {
        let packages = ["io.k8s.api", "io.k8s.apimachinery.pkg.apis", "io.k8s.apiextensions-apiserver.pkg.apis"];
        let full = packages.map(|package| format!("{package}.{type_name}"));
        let schema = full.iter().find_map(|name| SCHEMAS.get(name)).expect(type_name);
        for field in *fields {
            assert!(schema.root().field(field).is_some(), "{type_name}.{field}");
        }
    }
}

/// Some value of a type, or now and then of another, as the bytes decide.
fn some_value(of: Type<'_>, bytes: &mut impl Iterator<Item = u8>, depth: usize) -> Value {
    let mut next = || bytes.next().unwrap_or_default();
    let choice = next();
    if choice > 250 {
        return [json!(null), json!("?"), json!(-1), json!({"unknown": []}), json!([[]])][usize::from(choice) - 251]
            .clone();
    }
    let pick = |values: &[Value]| values[usize::from(choice) % values.len()].clone();
    match of.shape() {
        Shape::Boolean => pick(&[json!(true), json!(false)]),
        Shape::Int32 | Shape::Int64 | Shape::Number => pick(&[json!(0), json!(1), json!(70_000)]),
        Shape::String => pick(&[json!(""), json!("a"), json!("b/c")]),
        Shape::Bytes => pick(&[json!(""), json!("aGk=")]),
        Shape::Time => pick(&[json!("2024-01-01T00:00:00+02:00"), json!(null)]),
        Shape::MicroTime => json!("2024-01-01T00:00:00.000001Z"),
        Shape::Quantity => pick(&[json!("0.5"), json!("1024Mi"), json!(3)]),
        Shape::IntOrString => pick(&[json!(0), json!("25%")]),
        Shape::Any => json!({"kept": [null, {}]}),
        _ if depth > 6 => json!(null),
        Shape::List(_) => (0..choice % 3).map(|_| some_value(of.element(), bytes, depth + 1)).collect(),
        Shape::Map(_) => {
            let entries = ["a", "b"].iter().take(usize::from(choice % 3));
            entries.map(|key| ((*key).to_owned(), some_value(of.entry(key), bytes, depth + 1))).collect()
        }
        Shape::Object(_) => {
            let mut object = serde_json::Map::new();
            for field in of.fields() {
                if bytes.next().unwrap_or_default() % 4 == 1 {
                    object.insert(field.name.to_string(), some_value(of.entry(&field.name), bytes, depth + 1));
                }
            }
            Value::Object(object)
        }
    }
}

proptest! {
    #[test]
    fn decoding_what_was_decoded_changes_nothing(
        kind in prop::sample::select(vec!["core.v1.Pod", "core.v1.Service", "core.v1.Node", "apps.v1.Deployment", "batch.v1.Job"]),
        bytes in prop::collection::vec(any::<u8>(), 0..2000),
    ) {
        let schema = schema(kind);
        let object = some_value(schema.root(), &mut bytes.into_iter(), 0);
        if let Ok(decoded) = decode(kind, &object) {
            let again = schema.decode(&decoded.object);
            prop_assert_eq!(again, Ok(Decoded { object: decoded.object, remarks: Vec::new() }));
        }
    }
}
