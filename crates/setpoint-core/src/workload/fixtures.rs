//! Objects for the tables of this directory, made from JSON as a person would write it.

use jiff::Timestamp;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Noon of the day on which all these tests happen.
pub(crate) const NOON: &str = "2026-03-01T12:00:00Z";

pub(crate) fn noon() -> Timestamp {
    at(0)
}

/// Seconds after noon, or before.
pub(crate) fn at(seconds: i64) -> Timestamp {
    let noon: Timestamp = NOON.parse().unwrap();
    Timestamp::from_second(noon.as_second() + seconds).unwrap()
}

pub(crate) fn object<T: DeserializeOwned>(value: Value) -> T {
    serde_json::from_value(value).unwrap()
}

/// `over` laid over `base`, member by member.
pub(crate) fn laid_over(mut base: Value, over: Value) -> Value {
    lay(&mut base, over);
    base
}

fn lay(base: &mut Value, over: Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (key, value) in over {
                lay(base.entry(key).or_insert(Value::Null), value);
            }
        }
        (base, over) => *base = over,
    }
}

/// A pod of ReplicaSet `rs-uid`, assigned, running, ready for an hour, with changes.
pub(crate) fn pod<T: DeserializeOwned>(name: &str, over: Value) -> T {
    let base = json!({
        "metadata": {
            "name": name, "uid": name, "namespace": "shop", "labels": {"app": "web"},
            "creationTimestamp": "2026-03-01T10:00:00Z",
            "ownerReferences": [{
                "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web-1", "uid": "rs-uid", "controller": true,
            }],
        },
        "spec": {"nodeName": "n1", "containers": []},
        "status": {
            "phase": "Running",
            "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "2026-03-01T11:00:00Z"}],
        },
    });
    object(laid_over(base, over))
}

/// Changes that make a pod not ready.
pub(crate) fn not_ready() -> Value {
    json!({"status": {"conditions": [{"type": "Ready", "status": "False"}]}})
}

/// Changes that make a pod ready since some seconds after noon (or before).
pub(crate) fn ready_since(seconds: i64) -> Value {
    json!({"status": {"conditions": [
        {"type": "Ready", "status": "True", "lastTransitionTime": at(seconds).to_string()},
    ]}})
}
