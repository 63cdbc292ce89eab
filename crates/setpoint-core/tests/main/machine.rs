//! What a Machine desires.

use serde_json::{Value as Json, json};
use setpoint_api::interpolation::{Source, SourceKind};
use setpoint_api::machine::{DeletionPolicy, Machine, Run};
use setpoint_core::desired::Desired;
use setpoint_core::machine::desire;
use setpoint_core::value::{Map, Value};

use crate::fixture::{GIB, target};

fn machine(spec: Json) -> Machine {
    let mut whole = json!({
        "apiVersion": "setpoint.dev/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": "web", "namespace": "shop", "uid": "uid-web"},
        "spec": {"environment": "rack"},
    });
    whole["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    serde_json::from_value(whole).expect("a Machine")
}

fn sources() -> Vec<Source> {
    let source = |kind, name: &str, key: &str, value: &str| Source {
        kind,
        namespace: "shop".to_owned(),
        name: name.to_owned(),
        values: [(key.to_owned(), value.as_bytes().to_vec())].into(),
    };
    vec![
        source(SourceKind::Secret, "credentials", "TOKEN", "s3cret"),
        source(SourceKind::ConfigMap, "settings", "MODE", "blue"),
    ]
}

#[test]
fn fields() {
    let rows: Vec<(&str, Json, &str, Option<Value>)> = vec![
        ("what is not set is not managed", json!({}), "cores", None),
        ("a number", json!({"cores": 4}), "cores", Some(4.into())),
        ("memory in bytes", json!({"memory": "4Gi"}), "memory", Some((4 * GIB).into())),
        ("decimal memory in bytes", json!({"memory": "4G"}), "memory", Some(4_000_000_000.into())),
        ("a disk in bytes", json!({"disk": "40Gi"}), "disk", Some((40 * GIB).into())),
        ("a GPU by count", json!({"gpu": {"type": "A100"}}), "gpu.count", Some(1.into())),
        ("a GPU by type", json!({"gpu": {"type": "A100"}}), "gpu.type", Some("A100".into())),
        (
            "ports as people write them",
            json!({"ports": [{"port": 8000, "protocol": "HTTP"}]}),
            "ports",
            Some(vec!["8000/http"].into()),
        ),
        ("no ports are ports", json!({"ports": []}), "ports", Some(Value::List(vec![]))),
        (
            "volumes by name",
            json!({"volumes": [{"name": "data", "size": "1Gi"}]}),
            "volumes",
            Some([("data", [("size", GIB)])].into()),
        ),
        ("parameters", json!({"parameters": {"arch": "arm64"}}), "parameters", Some([("arch", "arm64")].into())),
        ("no parameters are not managed", json!({"parameters": {}}), "parameters", None),
        ("a plain variable", json!({"env": [{"name": "A", "value": "1"}]}), "env", Some([("A", "1")].into())),
        (
            "a variable from a ConfigMap",
            json!({"env": [{"name": "A", "value": "is ${MODE}"}], "variablesFrom": [{"configMap": "settings"}]}),
            "env",
            Some([("A", "is blue")].into()),
        ),
        ("words of a command", json!({"command": ["serve", "--all"]}), "command", Some(vec!["serve", "--all"].into())),
    ];
    for (name, spec, field, expected) in rows {
        let desired = desire(&machine(spec), &sources()).expect(name);
        assert_eq!(desired.fields.get(field), expected.as_ref(), "{name}");
    }
}

#[test]
fn what_comes_from_a_secret_stays_secret() {
    let spec = json!({
        "env": [
            {"name": "A", "valueFrom": {"secretKeyRef": {"name": "credentials", "key": "TOKEN"}}},
            {"name": "B", "value": "Bearer ${TOKEN}"},
            {"name": "C", "value": "plain"},
        ],
        "variablesFrom": [{"secret": "credentials"}],
    });
    let desired = desire(&machine(spec), &sources()).expect("a desire");
    assert!(!format!("{desired:?}").contains("s3cret"));
    let Some(Value::Map(env)) = desired.fields.get("env") else { panic!("a map") };
    let sensitive = |env: &Map, name: &str| env.get(name).is_some_and(Value::is_sensitive);
    assert_eq!(["A", "B", "C"].map(|name| sensitive(env, name)), [true, true, false]);
    assert_eq!(env.get("B").and_then(Value::as_text), Some("Bearer s3cret"));
}

#[test]
fn what_cannot_be_read_is_refused_by_its_field() {
    for (name, spec, field) in [
        ("no quantity", json!({"memory": "4 gigs"}), "spec.memory"),
        ("no quantity of a volume", json!({"volumes": [{"name": "data", "size": "much"}]}), "spec.volumes[0].size"),
        ("a variable that no source has", json!({"command": ["${NOBODY}"]}), "spec.command[0]"),
        (
            "a Secret that does not exist",
            json!({"env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "gone", "key": "K"}}}]}),
            "spec.env[0].valueFrom.secretKeyRef",
        ),
    ] {
        let refusals = desire(&machine(spec), &sources()).expect_err(name);
        assert_eq!(refusals.iter().map(|refusal| &*refusal.field).collect::<Vec<_>>(), [field], "{name}");
        assert_eq!(refusals[0].target, target("web"), "{name}");
    }
}

#[test]
fn all_that_is_wrong_is_said_at_once() {
    let mut machine = machine(json!({"memory": "x", "disk": "y", "command": ["${A}", "${B}"]}));
    machine.metadata.annotations = Some([("setpoint.dev/mute-drift".to_owned(), "colour".to_owned())].into());
    assert_eq!(desire(&machine, &[]).expect_err("refusals").len(), 5);
}

#[test]
fn the_rest_of_the_object_counts_too() {
    let mut machine = machine(json!({
        "providerId": "101", "run": "Stopped", "create": "Never", "deletionPolicy": "Retain", "dependsOn": ["db"],
    }));
    machine.metadata.labels = Some([("setpoint.dev/protected".to_owned(), "true".to_owned())].into());
    machine.metadata.annotations = Some([("setpoint.dev/mute-drift".to_owned(), "description".to_owned())].into());
    machine.status = serde_json::from_value(json!({
        "providerId": "101",
        "specDigest": "sha256:1",
        "intents": [{"id": "i", "action": "Stop", "digest": "d", "startedAt": "2026-11-15T12:00:00Z", "epoch": 1}],
    }))
    .expect("a status");
    let Desired { provider_id, run, depends_on, protected, deletion, muted, record, .. } =
        desire(&machine, &[]).expect("a desire");
    assert_eq!((provider_id.as_deref(), run, deletion), (Some("101"), Some(Run::Stopped), None));
    assert_eq!((depends_on, protected, muted), (vec![target("db")], true, vec!["description".into()]));
    assert_eq!((record.provider_id.as_deref(), record.intents.len()), (Some("101"), 1));
    machine.metadata.deletion_timestamp = serde_json::from_value(json!("2026-11-15T12:00:00Z")).expect("a time");
    assert_eq!(desire(&machine, &[]).expect("a desire").deletion, Some(DeletionPolicy::Retain));
}
