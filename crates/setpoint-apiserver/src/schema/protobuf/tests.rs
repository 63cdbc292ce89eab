//! What protobuf bodies are read as, what is refused, and that the table of numbers fits the schemas.

use std::collections::BTreeSet;
use std::sync::LazyLock;

use base64::Engine;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::encoder::{delimited, encode};
use super::numbers::{Member, Numbers};
use super::wire::Content;
use super::{BASE64, Decoder, MAGIC, Place};
use crate::schema::{
    Body, DecodeError, Definition, Emission, Field, MAX_DEPTH, Schema, Schemas, Shape, Type, TypeMeta,
};
use crate::schema_facts::{Patch, short_name};

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::built_in);

fn schema(type_name: &str) -> Schema {
    let full = [format!("io.k8s.api.{type_name}"), format!("io.k8s.apimachinery.pkg.apis.{type_name}")];
    full.iter().find_map(|name| SCHEMAS.get(name)).expect(type_name)
}

/// A body whose envelope says nothing of its kind.
fn body_of(message: &[u8]) -> Vec<u8> {
    [MAGIC, &delimited(2, message)].concat()
}

fn read(type_name: &str, message: &[u8]) -> Result<Value, DecodeError> {
    Body::protobuf(&body_of(message)).decode(&schema(type_name)).map(|decoded| decoded.object)
}

#[test]
fn what_kubectl_sends_is_read() {
    let rows = [
        (
            "create configmap c --from-literal=a=1 --from-file=bin",
            "core.v1.ConfigMap",
            "azhzAAoPCgJ2MRIJQ29uZmlnTWFwEicKEQoBYxIAGgAiACoAMgA4AEIAEgYKAWESATEaCgoDYmluEgP/AAEaACIA",
            json!({
                "apiVersion": "v1",
                "kind": "ConfigMap",
                "metadata": {"name": "c"},
                "data": {"a": "1"},
                "binaryData": {"bin": "/wAB"},
            }),
        ),
        (
            "create secret generic s --from-literal=a=b --from-literal=e=",
            "core.v1.Secret",
            "azhzAAoMCgJ2MRIGU2VjcmV0EiQKEQoBcxIAGgAiACoAMgA4AEIAEgYKAWESAWISBQoBZRIAGgAaACIA",
            json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {"a": "Yg==", "e": ""}}),
        ),
        (
            "create service clusterip svc --tcp=80:8080 --tcp=5432:http",
            "core.v1.Service",
            "azhzAAoNCgJ2MRIHU2VydmljZRKMAQofCgNzdmMSABoAIgAqADIAOABCAFoKCgNhcHASA3N2YxJlChsKBzgwLTgwODASA1RDUBhQ\
             IgcIABCQPxoAKAAKIQoJNTQzMi1odHRwEgNUQ1AYuCoiCggBEAAaBGh0dHAoABIKCgNhcHASA3N2YxoAIglDbHVzdGVySVA6AEIA\
             UgBaAGAAaAAaAgoAGgAiAA==",
            json!({
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": {"name": "svc", "labels": {"app": "svc"}},
                "spec": {
                    "type": "ClusterIP",
                    "selector": {"app": "svc"},
                    "ports": [
                        {"name": "80-8080", "protocol": "TCP", "port": 80, "targetPort": 8080},
                        {"name": "5432-http", "protocol": "TCP", "port": 5432, "targetPort": "http"},
                    ],
                },
                "status": {"loadBalancer": {}},
            }),
        ),
        (
            "create deployment x --image=nginx --port 80 --replicas=2 -- sh -c 'echo hi'",
            "apps.v1.Deployment",
            "azhzAAoVCgdhcHBzL3YxEgpEZXBsb3ltZW50EsEBChsKAXgSABoAIgAqADIAOABCAFoICgNhcHASAXgSkwEIAhIKCggKA2FwcBIB\
             eBp7ChoKABIAGgAiACoAMgA4AEIAWggKA2FwcBIBeBJdEj8KBW5naW54EgVuZ2lueBoCc2gaAi1jGgdlY2hvIGhpKgAyCgoAEAAY\
             UCIAKgBCAGoAcgCAAQCIAQCQAQCiAQAaADIAQgBKAFIAWABgAGgAggEAigEAmgEAwgEAIgIKACgAOAAaDAgAEAAYACAAKAA4ABoA\
             IgA=",
            json!({
                "apiVersion": "apps/v1",
                "kind": "Deployment",
                "metadata": {"name": "x", "labels": {"app": "x"}},
                "spec": {
                    "replicas": 2,
                    "selector": {"matchLabels": {"app": "x"}},
                    "strategy": {},
                    "template": {
                        "metadata": {"labels": {"app": "x"}},
                        "spec": {
                            "containers": [{
                                "name": "nginx",
                                "image": "nginx",
                                "command": ["sh", "-c", "echo hi"],
                                "ports": [{"containerPort": 80}],
                                "resources": {},
                            }],
                        },
                    },
                },
                "status": {},
            }),
        ),
    ];
    for (command, type_name, base64, object) in rows {
        let bytes = BASE64.decode(base64).expect(command);
        let body = Body::protobuf(&bytes);
        let says = |field: &str| object[field].as_str().unwrap_or_default().to_owned();
        assert_eq!(body.type_meta(), Ok(TypeMeta { api_version: says("apiVersion"), kind: says("kind") }), "{command}");
        let decoded = body.decode(&schema(type_name)).expect(command);
        assert_eq!(decoded.object, object, "{command}");
        assert_eq!(decoded.remarks, [""; 0], "{command}");
    }
}

#[test]
fn objects_read_from_protobuf_as_from_json() {
    let container = json!({
        "name": "c",
        "image": "i",
        "args": ["", "b"],
        "env": [
            {"name": "A", "value": "1"},
            {"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m", "key": "k", "optional": false}}},
            {"name": "C", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1m"}}},
        ],
        "envFrom": [{"prefix": "P", "secretRef": {"name": "s", "optional": true}}],
        "livenessProbe": {"httpGet": {"port": "http", "path": "/"}, "periodSeconds": 5},
        "startupProbe": {"exec": {"command": ["true"]}},
        "lifecycle": {"preStop": {"sleep": {"seconds": 3}}},
        "resources": {"limits": {"cpu": "500m", "memory": "1Gi"}},
        "securityContext": {"runAsUser": 0, "privileged": false, "capabilities": {"add": ["NET_ADMIN"]}},
    });
    let pod_spec = json!({
        "containers": [container],
        "ephemeralContainers": [{"name": "debug", "image": "d", "targetContainerName": "c", "tty": true}],
        "securityContext": {"supplementalGroups": [1, 4_000_000_000_i64], "fsGroup": -1},
        "terminationGracePeriodSeconds": 0,
        "volumes": [
            {"name": "a", "emptyDir": {}},
            {"name": "b", "emptyDir": {"sizeLimit": "1Gi"}},
            {"name": "c", "configMap": {"name": "m", "defaultMode": 420, "items": [{"key": "k", "path": "p"}]}},
            {"name": "d", "projected": {"sources": [{"secret": {"name": "s"}}]}},
        ],
    });
    for (type_name, object) in [
        (
            "core.v1.Pod",
            json!({
                "apiVersion": "v1",
                "kind": "Pod",
                "metadata": {
                    "name": "p",
                    "generation": 7,
                    "creationTimestamp": "2024-01-02T03:04:05Z",
                    "deletionGracePeriodSeconds": 0,
                    "annotations": {"": "", "a/b": "ü"},
                    "ownerReferences": [{"apiVersion": "v1", "kind": "A", "name": "a", "uid": "u", "controller": true}],
                    "managedFields": [{"time": "1969-12-31T23:59:59Z", "fieldsV1": {"f:spec": {".": {}}}}],
                },
                "spec": pod_spec,
                "status": {"phase": "Running", "startTime": "2024-01-02T03:04:05Z", "podIPs": [{"ip": "10.0.0.1"}]},
            }),
        ),
        (
            "apps.v1.Deployment",
            json!({
                "spec": {
                    "replicas": 0,
                    "selector": {"matchExpressions": [{"key": "a", "operator": "In", "values": ["b"]}]},
                    "strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": 0}},
                    "template": {"metadata": {"labels": {"a": "b"}}, "spec": pod_spec},
                },
                "status": {"collisionCount": 0, "conditions": [{"type": "Available", "status": "True"}]},
            }),
        ),
        (
            "core.v1.Service",
            json!({
                "metadata": {"name": "s", "finalizers": ["a/b", "c/d"]},
                "spec": {
                    "clusterIP": "None",
                    "ports": [{"port": 80, "targetPort": "http", "appProtocol": ""}, {"port": 81, "targetPort": 8080}],
                    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10}},
                },
                "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4", "ports": [{"port": 1, "protocol": "TCP"}]}]}},
            }),
        ),
        (
            "core.v1.ConfigMap",
            json!({"data": {"a": "", "b": "x\n"}, "binaryData": {"c": "/wAB", "d": ""}, "immutable": false}),
        ),
        ("core.v1.Secret", json!({"type": "Opaque", "data": {"k": "aGk="}, "stringData": {"s": "t"}})),
        (
            "batch.v1.Job",
            json!({
                "spec": {
                    "backoffLimit": 0,
                    "completionMode": "Indexed",
                    "podFailurePolicy": {"rules": [
                        {"action": "Ignore", "onExitCodes": {"operator": "In", "values": [0, -1, 300]}},
                    ]},
                    "suspend": true,
                    "template": {"spec": pod_spec},
                },
            }),
        ),
        (
            "coordination.v1.Lease",
            json!({"spec": {"holderIdentity": "", "leaseTransitions": 1, "renewTime": "2024-01-02T03:04:05.000678Z"}}),
        ),
        (
            "core.v1.Node",
            json!({"status": {"capacity": {"cpu": "2"}, "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}}}}),
        ),
        (
            "authorization.v1.SubjectAccessReview",
            json!({
                "spec": {
                    "user": "alice",
                    "groups": ["a", "b"],
                    "extra": {"team": ["blue", "red"], "one": ["x"]},
                    "resourceAttributes": {"verb": "get", "resource": "pods"},
                },
            }),
        ),
        (
            "authentication.v1.TokenRequest",
            json!({
                "spec": {
                    "audiences": ["a"],
                    "expirationSeconds": 600,
                    "boundObjectRef": {"kind": "Pod", "apiVersion": "v1", "name": "p", "uid": "u"},
                },
            }),
        ),
        ("apps.v1.ControllerRevision", json!({"revision": -5, "data": {"a": [null, 1.5, {"b": ""}]}})),
        (
            "meta.v1.DeleteOptions",
            json!({
                "apiVersion": "v1",
                "kind": "DeleteOptions",
                "dryRun": ["All"],
                "gracePeriodSeconds": 0,
                "preconditions": {"uid": "u"},
                "propagationPolicy": "Foreground",
            }),
        ),
    ] {
        let schema = schema(type_name);
        let from_json = schema.decode(&object).expect(type_name);
        let from_protobuf = Body::protobuf(&encode(&schema, &object)).decode(&schema).expect(type_name);
        assert_eq!(from_protobuf, from_json, "{type_name}");
    }
}

#[test]
fn fields_are_read_as_protobuf_has_them() {
    for (why, type_name, message, object) in [
        ("an empty message", "core.v1.ConfigMap", vec![], json!({"metadata": {}})),
        (
            "unknown fields are skipped",
            "core.v1.ConfigMap",
            [delimited(99, b"?"), vec![0xc8, 0x06, 1], delimited(1, &delimited(98, b""))].concat(),
            json!({"metadata": {}}),
        ),
        (
            "an object in two parts is one, and of a text the last counts",
            "core.v1.ConfigMap",
            [delimited(1, &[delimited(1, b"a"), delimited(3, b"n")].concat()), delimited(1, &delimited(1, b"b"))]
                .concat(),
            json!({"metadata": {"name": "b", "namespace": "n"}}),
        ),
        (
            "what a map's entry leaves out is empty",
            "core.v1.ConfigMap",
            [delimited(2, &delimited(1, b"a")), delimited(3, &delimited(1, b"b")), delimited(2, b"")].concat(),
            json!({"metadata": {}, "data": {"": "", "a": ""}, "binaryData": {"b": ""}}),
        ),
        (
            "numbers may be packed",
            "batch.v1.PodFailurePolicyOnExitCodesRequirement",
            [delimited(2, b"In"), vec![0x18, 1], delimited(3, &[2, 0x80, 1])].concat(),
            json!({"operator": "In", "values": [1, 2, 128]}),
        ),
        (
            "a negative number of 32 bits may have five bytes or ten",
            "batch.v1.PodFailurePolicyOnExitCodesRequirement",
            [delimited(3, b"\xff\xff\xff\xff\x0f"), delimited(3, b"\xfe\xff\xff\xff\xff\xff\xff\xff\xff\x01")].concat(),
            json!({"operator": "", "values": [-1, -2]}),
        ),
        (
            "a time is cut to what JSON has of it, and empty is none",
            "coordination.v1.LeaseSpec",
            [delimited(3, b"\x08\x01\x10\xb9\x60"), delimited(4, b"")].concat(),
            json!({"acquireTime": "1970-01-01T00:00:01.000012Z"}),
        ),
        (
            "1970 is a time",
            "core.v1.ContainerStateRunning",
            delimited(1, &[0x08, 0, 0x10, 0]),
            json!({"startedAt": "1970-01-01T00:00:00Z"}),
        ),
        (
            "a quantity without a text is zero",
            "core.v1.EmptyDirVolumeSource",
            delimited(2, b""),
            json!({"sizeLimit": "0"}),
        ),
    ] {
        assert_eq!(read(type_name, &message), Ok(object), "{why}");
    }
}

#[test]
fn what_is_no_such_object_is_refused_with_the_place() {
    let metadata = |field: &[u8]| delimited(1, field);
    let rows = [
        ("a length past the end", metadata(b"\x0a\x05hi"), "metadata: the message ends within a field"),
        ("a number for a text", metadata(&[0x08, 1]), "metadata.name: the wire type is not the field's"),
        ("a text for a number", metadata(&delimited(7, b"1")), "metadata.generation: the wire type is not the field's"),
        ("a number for an object", vec![0x08, 1], "metadata: the wire type is not the field's"),
        ("a number for a map's entry", vec![0x10, 1], "data: the wire type is not the field's"),
        ("not UTF-8", metadata(&delimited(1, b"\xff")), "metadata.name: the text is not UTF-8"),
        (
            "not UTF-8 in a map",
            delimited(2, &[delimited(1, b"k"), delimited(2, b"\xff")].concat()),
            "data.k: the text is not UTF-8",
        ),
        (
            "a time of no calendar",
            metadata(&delimited(8, b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f")),
            "metadata.creationTimestamp: the time is out of range",
        ),
        (
            "no JSON",
            metadata(&delimited(17, &delimited(7, &delimited(1, b"{")))),
            "metadata.managedFields[0].fieldsV1: the raw value is no JSON",
        ),
        ("an endless varint", vec![0xff; 11], "the body: a varint has more than 64 bits"),
    ];
    for (why, message, error) in rows {
        assert_eq!(read("core.v1.ConfigMap", &message), Err(DecodeError::Syntax(error.to_owned())), "{why}");
    }
    let bad_quantity = read("core.v1.EmptyDirVolumeSource", &delimited(2, &delimited(1, b"much")));
    assert!(matches!(&bad_quantity, Err(DecodeError::Type { field, .. }) if field == "sizeLimit"), "{bad_quantity:?}");
}

#[test]
fn what_is_no_envelope_is_refused() {
    for (why, body) in [
        ("empty", &b""[..]),
        ("JSON", b"{}"),
        ("half the magic", b"k8"),
        ("a bare message", b"\x0a\x00"),
        ("cut off", b"k8s\0\x12\x05"),
        ("a kind that is no text", b"k8s\0\x0a\x03\x12\x01\xff"),
    ] {
        let body = Body::protobuf(body);
        assert!(matches!(body.type_meta(), Err(DecodeError::Syntax(_))), "{why}");
        assert!(matches!(body.decode(&schema("core.v1.Pod")), Err(DecodeError::Syntax(_))), "{why}");
    }
    let patch = Body::protobuf(b"k8s\0").decode_any();
    assert!(matches!(patch, Err(DecodeError::Syntax(_))), "protobuf is not read without a type");
    let status = read("meta.v1.Status", b"");
    assert!(matches!(status, Err(DecodeError::Syntax(_))), "no client sends a Status: {status:?}");
}

#[test]
fn messages_may_be_nested_only_so_deep() {
    let inner = Field {
        name: "inner".into(),
        shape: Shape::Object(0),
        patch: Patch::default(),
        atomic: false,
        key_default: None,
        emission: Emission::AsGiven,
    };
    let definitions = [Definition { name: "test.Nested".into(), fields: vec![inner], atomic: false, open: false }];
    let decoder = Decoder { definitions: &definitions, numbers: &Numbers::parse("test.Nested: inner=1") };
    let nested = |depth: usize| {
        let message = (1..depth).fold(Vec::new(), |message, _| delimited(1, &message));
        decoder.merge(&mut Value::Null, &Shape::Object(0), Content::Bytes(&message), Place::BODY)
    };
    assert_eq!(nested(MAX_DEPTH), Ok(()));
    assert!(matches!(nested(MAX_DEPTH + 1), Err(DecodeError::TooDeep { .. })));
}

#[test]
fn every_field_of_a_body_has_one_number() {
    let numbers = Numbers::built_in();
    let mut whole = BTreeSet::new();
    let mut reached = BTreeSet::new();
    for name in SCHEMAS.names() {
        let schema = SCHEMAS.get(name).expect("a name of the registry is in the registry");
        // Definitions of custom resources are not read from protobuf: their schemas would be JSON within it.
        let is_read = !short_name(name).starts_with("apiextensions.");
        let is_kind =
            is_read && schema.root().entry("metadata").field("uid").is_some() && schema.root().field("kind").is_some();
        if is_kind || short_name(name) == "meta.v1.DeleteOptions" {
            whole.insert(short_name(name));
            reach(schema.root(), &mut reached);
        }
    }
    let mut used = BTreeSet::new();
    for type_name in &reached {
        let schema = schema(type_name);
        let mut numbered = Vec::new();
        collect(type_name, &mut numbered, &mut used);
        numbered.sort_unstable();
        let in_envelope = |name: &&str| whole.contains(&**type_name) && ["apiVersion", "kind"].contains(name);
        let fields = schema.root().fields().iter().map(|field| &*field.name);
        assert_eq!(numbered, fields.filter(|name| !in_envelope(name)).collect::<Vec<_>>(), "{type_name}");
    }
    let in_table: BTreeSet<&str> = numbers.type_names().collect();
    assert_eq!(in_table, used, "the table has no types but those");
    for type_name in in_table {
        let members = numbers.members(type_name).expect("the table has its own types");
        assert!(members.is_sorted_by(|(a, _), (b, _)| a < b), "{type_name}: one field per number, in order");
    }
}

/// All types in objects of this one.
fn reach(type_of: Type<'_>, reached: &mut BTreeSet<String>) {
    match type_of.shape {
        Shape::List(_) => reach(type_of.element(), reached),
        Shape::Map(_) => reach(type_of.entry("any"), reached),
        Shape::Object(index) if reached.insert(type_of.definitions[*index].name.to_string()) => {
            type_of.fields().iter().for_each(|field| reach(type_of.entry(&field.name), reached));
        }
        _ => {}
    }
}

/// The fields with numbers of a type and of what is inlined in it; and the types that these are.
fn collect(type_name: &str, fields: &mut Vec<&'static str>, used: &mut BTreeSet<&'static str>) {
    let numbers = Numbers::built_in();
    used.extend(numbers.type_names().find(|name| *name == type_name));
    for (_, member) in numbers.members(type_name).unwrap_or_default() {
        match member {
            Member::Field(name) => fields.push(name),
            Member::Inlined(inlined) => collect(inlined, fields, used),
        }
    }
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused(message in proptest::collection::vec(any::<u8>(), 0..200)) {
        drop(Body::protobuf(&message).type_meta());
        drop(Body::protobuf(&[MAGIC, &message].concat()).decode(&schema("core.v1.Pod")));
        drop(read("core.v1.Pod", &message));
        drop(read("apps.v1.ControllerRevision", &message));
    }

    #[test]
    fn a_damaged_body_is_read_or_refused(position: prop::sample::Index, byte: u8, end: prop::sample::Index) {
        let schema = schema("core.v1.Pod");
        let mut body = encode(&schema, &json!({
            "metadata": {"name": "p", "creationTimestamp": "2024-01-02T03:04:05Z", "labels": {"a": "b"}},
            "spec": {
                "containers": [{"livenessProbe": {"grpc": {"port": 1}}, "resources": {"limits": {"cpu": "1"}}}],
                "securityContext": {"supplementalGroups": [1, 2]},
                "volumes": [{"name": "v", "secret": {"secretName": "s"}}],
            },
        }));
        let position = position.index(body.len());
        body[position] = byte;
        body.truncate(end.index(body.len()) + 1);
        drop(Body::protobuf(&body).decode(&schema));
    }
}
