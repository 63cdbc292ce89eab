//! The worst that clients can send: any value that a schema lets through, and lists as long as a body can be. Nothing may
//! panic on it, and nothing may take more than its share of time.

use std::collections::HashSet;

use serde_json::{Map, Value, json};

use crate::built_in;
use crate::deletion;
use crate::kind::Part;
use crate::kinds::service::allocate;
use crate::patch::{merge, strategic_merge};
use crate::proportion::assert_in_proportion;
use crate::query::{DeleteOptions, FieldValidation};
use crate::registry::Resource;
use crate::schema::{Body, Schemas, Shape, Type};
use crate::service_ip::Allocator;
use crate::write::{self, Stamp};

/// Lets an object live through all that the rules of its kind take part in: it is created, shown, replaced by another
/// one and deleted. Whether it is accepted does not matter: what is refused by one rule is seen by the next. False if its
/// schema does not let it through.
fn live(resource: &Resource, first: &Value, second: &Value) -> bool {
    let now = "2030-01-01T00:00:00Z".parse().expect("a time");
    let received = |object: &Value| {
        let text = object.to_string();
        write::decode(resource, Body::json(text.as_bytes()), FieldValidation::Warn).ok().map(|decoded| decoded.object)
    };
    let (Some(mut old), Some(second)) = (received(first), received(second)) else { return false };
    let stamp = Stamp { now, uid: "u".to_owned(), suffix: "x".to_owned() };
    let (mut allocator, mut random) = (Allocator::default(), || 7);
    drop(write::begin_create(resource, &mut old, &stamp));
    if resource.kind == "Service" {
        drop(allocate(&mut old, None, &mut allocator, &mut random));
    }
    drop(write::finish_create(resource, &mut old));
    for part in [Part::Main, Part::Status] {
        let mut object = second.clone();
        write::begin_update(resource, &mut object, &old, part);
        if resource.kind == "Service" {
            drop(allocate(&mut object, Some(&old), &mut allocator, &mut random));
        }
        drop(write::finish_update(resource, &mut object, &old, part));
        drop(resource.behaviour.warnings(setpoint_api::field::Node::root(&object), Some(&old)));
        drop(resource.behaviour.cells(&object, now));
        for field in resource.behaviour.selectable_fields() {
            drop((field.value)(&object));
        }
        let options = DeleteOptions { grace_period_seconds: Some(i64::MAX), ..DeleteOptions::default() };
        drop(deletion::decide(resource.behaviour.as_ref(), resource.rules, &object, &options, now));
        drop(resource.behaviour.to_served(object));
    }
    true
}

/// Numbers that look random and are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(self.0 >> 33).expect("31 bits are an index") % end
    }

    fn one_of<T: Clone>(&mut self, choices: &[T]) -> T {
        choices[self.below(choices.len())].clone()
    }
}

const TEXTS: [&str; 18] = [
    "",
    "a",
    "-",
    "/",
    ".",
    "..",
    "=",
    "%",
    "é",
    "None",
    "10.0.0.1",
    "::1",
    "0-9",
    "NodePort",
    "LoadBalancer",
    "Never",
    "Indexed",
    "RollingUpdate",
];
const INTEGERS: [i64; 9] = [0, 1, -1, 65_535, i32::MAX as i64, i32::MIN as i64, i64::MAX, i64::MIN, i64::MIN + 1];

/// Some value of a type, the fewer fields the deeper it stands.
fn some_value(type_of: Type<'_>, depth: usize, chance: &mut Chance) -> Value {
    if chance.below(20) == 0 {
        return Value::Null;
    }
    match type_of.shape() {
        Shape::Any => chance.one_of(&[json!(1), json!("a"), json!([[]]), json!({"a": {"b": []}}), json!(false)]),
        Shape::Boolean => chance.one_of(&[json!(false), json!(true)]),
        Shape::Int32 => chance.one_of(&INTEGERS[..6]).into(),
        Shape::Int64 => chance.one_of(&INTEGERS).into(),
        Shape::Number => json!(0.5),
        Shape::String => chance.one_of(&TEXTS).into(),
        Shape::Bytes => chance.one_of(&[json!(""), json!("e30=")]),
        Shape::Time => chance.one_of(&[json!("0001-01-01T00:00:00Z"), json!("9999-12-30T00:00:00Z")]),
        Shape::MicroTime => {
            chance.one_of(&[json!("0001-01-01T00:00:00.000000Z"), json!("9999-12-30T00:00:00.000000Z")])
        }
        Shape::Quantity => chance.one_of(&["0", "-1", "1n", "9223372036854775807", "1e18", "8Ei", "1m"]).into(),
        Shape::IntOrString => {
            chance.one_of(&[json!(i32::MAX), json!(-1), json!("a"), json!("100%"), json!("999999999999%")])
        }
        Shape::List(_) => (0..chance.below(3)).map(|_| some_value(type_of.element(), depth + 1, chance)).collect(),
        Shape::Map(_) => {
            let keys = ["a", "", "cpu", "hugepages-0", "kubernetes.io/x"];
            let entries = (0..chance.below(3)).map(|_| chance.one_of(&keys));
            let keys: Vec<&str> = entries.collect();
            keys.into_iter().map(|key| (key.to_owned(), some_value(type_of.entry(key), depth + 1, chance))).collect()
        }
        Shape::Object(_) => {
            let mut object = Map::new();
            for field in type_of.fields() {
                let given = matches!(&*field.name, "metadata" | "spec" | "status" | "template" | "containers");
                if given || chance.below(depth + 1) == 0 {
                    object.insert(field.name.to_string(), some_value(type_of.entry(&field.name), depth + 1, chance));
                }
            }
            Value::Object(object)
        }
    }
}

#[test]
fn nothing_that_decodes_breaks_a_rule_itself() {
    for resource in built_in::registry(&Schemas::built_in()).resources() {
        let (mut chance, mut lived) = (Chance(1), 0);
        for _ in 0..60 {
            let mut object = || {
                let mut object = some_value(resource.schema.root(), 0, &mut chance);
                for field in ["kind", "apiVersion"] {
                    object.as_object_mut().map(|fields| fields.remove(field));
                }
                merge(object, json!({"metadata": {"resourceVersion": null}}))
            };
            let (first, second) = (object(), object());
            lived += usize::from(live(resource, &first, &second));
        }
        assert!(lived > 30, "{}: only {lived} objects were let through", resource.kind);
    }
}

/// A path of fields to a list or a map.
type Place<'s> = Vec<&'s str>;

/// Every list and map in objects of a type; what is in a type that was seen before is not listed again.
fn places<'s>(type_of: Type<'s>, path: &Place<'s>, seen: &mut HashSet<usize>, found: &mut Vec<Place<'s>>) {
    match type_of.shape() {
        Shape::List(_) => places(type_of.element(), path, seen, found),
        Shape::Map(_) => places(type_of.entry("a"), path, seen, found),
        Shape::Object(index) if seen.insert(*index) => {
            for field in type_of.fields() {
                let path: Place<'s> = path.iter().copied().chain([&*field.name]).collect();
                if matches!(field.shape, Shape::List(_) | Shape::Map(_)) {
                    found.push(path.clone());
                }
                places(type_of.entry(&field.name), &path, seen, found);
            }
        }
        _ => {}
    }
}

/// An object that has `count` elements at a place, the ones from `first` on, each of them twice.
fn planted(type_of: Type<'_>, place: &[&str], first: usize, count: usize) -> Value {
    match (type_of.shape(), place) {
        (Shape::List(_), []) => (0..count).map(|n| element(type_of.element(), first + n / 2, true)).collect(),
        (Shape::Map(_), []) => {
            (0..count).map(|n| (format!("e{}", first + n), element(type_of.entry("a"), first + n / 2, true))).collect()
        }
        (Shape::List(_), _) => json!([planted(type_of.element(), place, first, count)]),
        (Shape::Map(_), _) => json!({"a": planted(type_of.entry("a"), place, first, count)}),
        (_, [field, rest @ ..]) => json!({*field: planted(type_of.entry(field), rest, first, count)}),
        (_, []) => Value::Null,
    }
}

/// The element of a number: its plain fields are set.
fn element(type_of: Type<'_>, number: usize, whole: bool) -> Value {
    match type_of.shape() {
        Shape::Boolean => json!(true),
        Shape::Int32 | Shape::Int64 | Shape::IntOrString => json!(1 + number % 60_000),
        Shape::String => json!(format!("e{number}")),
        Shape::Quantity => json!("1"),
        Shape::Object(_) if whole => {
            let fields = type_of.fields().iter();
            let fields =
                fields.map(|field| (field.name.to_string(), element(type_of.entry(&field.name), number, false)));
            fields.filter(|(_, value)| !value.is_null()).collect()
        }
        _ => Value::Null,
    }
}

#[test]
fn a_long_list_takes_time_in_proportion() {
    let mut seen = HashSet::new();
    for resource in built_in::registry(&Schemas::built_in()).resources() {
        let root = resource.schema.root();
        let mut found = Vec::new();
        places(root, &Vec::new(), &mut seen, &mut found);
        for place in found {
            let objects = |count| [planted(root, &place, 0, count), planted(root, &place, count / 4, count)];
            assert_in_proportion(&format!("{} {}", resource.kind, place.join(".")), objects, |first, second| {
                assert!(live(resource, first, second), "it decodes");
            });
        }
    }
}

#[test]
fn long_lists_that_are_compared_take_time_in_proportion() {
    fn list(count: usize, element: impl Fn(usize) -> Value) -> Value {
        (0..count).map(element).collect()
    }
    type Row = (&'static str, &'static str, fn(usize) -> Value);
    let rows: [Row; 12] = [
        ("controllers of one object", "configmaps", |count| {
            let owner = |n| json!({"apiVersion": "v1", "kind": "A", "name": "a", "uid": n, "controller": true});
            json!({"metadata": {"ownerReferences": list(count, |n| owner(n.to_string()))}})
        }),
        ("finalizers of an object that goes", "configmaps", |count| {
            json!({"metadata": {"deletionTimestamp": "2030-01-01T00:00:00Z",
                "finalizers": list(count, |n| json!(format!("a/{n}")))}})
        }),
        (
            "a writer's name of control characters",
            "configmaps",
            |count| json!({"metadata": {"managedFields": [{"manager": "\u{1}".repeat(count)}]}}),
        ),
        ("fields that nobody knows", "configmaps", |count| {
            let unknown: Map<String, Value> = (0..count).map(|n| (format!("x{n}"), json!(n))).collect();
            Value::Object(unknown)
        }),
        ("blocks in a certificate", "secrets", |count| {
            let blocks: String = (0..count).map(|n| format!("-----BEGIN {n}-----\n")).collect();
            json!({"type": "kubernetes.io/tls", "stringData": {"tls.crt": blocks, "tls.key": "x"}})
        }),
        ("mounts, devices and volumes", "pods", |count| {
            let mounts = list(count, |n| json!({"name": format!("m{n}"), "mountPath": format!("/m{n}")}));
            let devices = list(count, |n| json!({"name": format!("d{n}"), "devicePath": format!("/d{n}")}));
            json!({"spec": {"containers": [{"name": "c", "volumeMounts": mounts, "volumeDevices": devices}],
                "volumes": list(count, |n| json!({"name": format!("v{n}")}))}})
        }),
        ("variables from volumes", "pods", |count| {
            let variable = |n| json!({"name": "A", "valueFrom": {"fileKeyRef": {"volumeName": format!("w{n}")}}});
            json!({"spec": {"containers": [{"name": "c", "env": list(count, variable)}],
                "volumes": list(count, |n| json!({"name": format!("v{n}")}))}})
        }),
        ("claims that the pod does not have", "pods", |count| {
            let claims = |letter: &str| list(count, |n| json!({"name": format!("{letter}{n}")}));
            json!({"spec": {"containers": [{"name": "c", "resources": {"claims": claims("a")}}],
                "resourceClaims": claims("b")}})
        }),
        ("containers and their states", "pods", |count| {
            let state = |n: usize| json!({"name": format!("c{n}"), "state": {"terminated": {"exitCode": n % 2}}});
            json!({"spec": {"containers": list(count, |n| json!({"name": format!("c{n}")})),
                    "initContainers": list(count, |n| json!({"name": format!("c{n}")})),
                    "readinessGates": list(count, |n| json!({"conditionType": format!("t{n}")}))},
                "status": {"containerStatuses": list(count, state), "initContainerStatuses": list(count, state),
                    "conditions": list(count, |n| json!({"type": format!("u{n}")}))}})
        }),
        ("keys of labels to match and to differ in", "pods", |count| {
            let keys = |letter: &str| list(count, |n| json!(format!("{letter}{n}")));
            let expressions = list(count, |n| json!({"key": format!("a{n}"), "operator": "Exists"}));
            json!({"spec": {"affinity": {"podAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [
                {"matchLabelKeys": keys("a"), "mismatchLabelKeys": keys("b"),
                    "labelSelector": {"matchExpressions": expressions}}]}}}})
        }),
        ("node ports", "services", |count| {
            let port =
                |n: usize| json!({"name": format!("p{n}"), "port": 1 + n % 60_000, "nodePort": 30_000 + n % 2_000});
            json!({"spec": {"type": "NodePort", "ports": list(count, port)}})
        }),
        ("addresses with each of their ports", "endpoints", |count| {
            json!({"subsets": [{"addresses": list(count, |n| json!({"ip": format!("10.0.{}.{}", n / 256, n % 256)})),
                "ports": list(count, |n| json!({"port": 1 + n}))}]})
        }),
    ];
    let registry = built_in::registry(&Schemas::built_in());
    for (what, plural, object) in rows {
        let resource = registry.resources().find(|resource| resource.plural == plural).expect(plural);
        assert_in_proportion(
            what,
            |count| [object(count), object(count)],
            |first, second| {
                assert!(live(resource, first, second), "it decodes");
            },
        );
    }
    let deployment = registry.resources().find(|resource| resource.plural == "deployments").expect("deployments");
    let containers = |count: usize, element: Value| {
        let list = list(count, |n| merge(json!({"name": format!("c{n}")}), element.clone()));
        json!({"spec": {"template": {"spec": {"containers": list}}}})
    };
    let objects = |count| [containers(count, json!({})), containers(count, json!({"$patch": "delete"}))];
    assert_in_proportion("elements that a patch deletes", objects, |object, patch| {
        strategic_merge(object.clone(), patch.clone(), &deployment.schema).expect("all are there");
    });
}
