//! Whatever a schema bounds, our own validation bounds: a document that never met the schema is judged alike.

use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use setpoint_api::app::App;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::crds::all;
use setpoint_api::environment::Environment;
use setpoint_api::field::Errors;
use setpoint_api::machine::Machine;
use setpoint_api::review::Review;
use setpoint_api::revision::Revision;
use setpoint_api::traffic_split::TrafficSplit;

use crate::fixture::{object, told};

/// A document of a kind in which every field that has a bound is said, and what is wrong with a document.
struct Kind {
    name: &'static str,
    full: Value,
    judge: fn(Value) -> Vec<String>,
}

fn judged<K: DeserializeOwned>(document: Value, validate: fn(&K) -> Errors) -> Vec<String> {
    match serde_json::from_value(document) {
        Ok(typed) => told(&validate(&typed)),
        Err(error) => vec![error.to_string()],
    }
}

fn kinds() -> Vec<Kind> {
    let analysis = json!({"seconds": 60, "minRequests": 100, "minSuccessBps": 9_900, "maxSuccessDropBps": 10,
        "latency": {"quantilePermille": 990, "maxMs": 100, "maxIncreasePercent": 10}});
    vec![
        Kind {
            name: "App",
            full: json!({
                "template": {"spec": {"containers": [{"name": "web"}]}}, "replicas": 1, "environment": "local",
                "parameters": {"cpu": "host"}, "drainSeconds": 30, "revisionHistoryLimit": 10,
                "strategy": {"surge": 1, "maxUnavailable": 1, "preview": {"seconds": 1}, "guard": analysis,
                    "steps": [{"weightBps": 1}, {"pause": {"seconds": 1}}, {"analysis": analysis}],
                    "keepSeconds": 1, "progressDeadlineSeconds": 1},
                "route": {"host": "a.example", "pathPrefix": "/", "port": 80, "sticky": {"cookie": "c"}},
                "request": {"id": "1", "verb": "Undo", "revision": "web-1"},
            }),
            judge: |document| judged(document, App::validate),
        },
        Kind {
            name: "Revision",
            full: json!({
                "appRef": {"name": "web"}, "number": 1, "environment": "local", "template": {}, "digest": "d",
                "parameters": {"cpu": "host"}, "drainSeconds": 30,
                "config": [{"kind": "Secret", "name": "a", "copy": "b", "digest": "d"}],
            }),
            judge: |document| judged(document, Revision::validate),
        },
        Kind {
            name: "TrafficSplit",
            full: json!({"app": "web", "entries": [{"revision": "web-1", "weightBps": 10_000}]}),
            judge: |document| judged(document, TrafficSplit::validate),
        },
        Kind {
            name: "Machine",
            full: json!({
                "environment": "rack", "providerId": "101", "cores": 1, "memory": "1Gi", "disk": "8Gi",
                "gpu": {"type": "a", "count": 1, "minVram": "8Gi", "fallback": ["b"]}, "image": "i", "command": ["c"],
                "args": ["a"], "env": [
                    {"name": "A", "value": "v"},
                    {"name": "B", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}},
                    {"name": "C", "valueFrom": {"configMapKeyRef": {"name": "s", "key": "k"}}},
                ],
                "variablesFrom": [{"secret": "s"}, {"configMap": "m"}], "ports": [{"port": 80}],
                "volumes": [{"name": "v", "size": "1Gi", "providerId": "p", "mountPath": "/m"}],
                "description": "d", "dependsOn": ["db"], "parameters": {"cpu": "host"},
            }),
            judge: |document| judged(document, Machine::validate),
        },
        Kind {
            name: "Environment",
            full: json!({
                "deployer": {"name": "simulated", "version": "1"}, "observeIntervalSeconds": 30, "drainSeconds": 30,
                "credentialsSecretRef": {"namespace": "n", "name": "s"},
                "guardrails": {"maxGpus": 1, "maxInstances": 1, "maxDestroysPerHour": 1, "maxMovedBpsPerHour": 1, "ttlSeconds": 60},
                "approval": {
                    "rules": [{"class": "Spend", "approvals": 1, "roles": ["owner"], "signature": true, "expirySeconds": 60}],
                    "keys": [{"publicKey": "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIJ0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J0J", "principal": "alice", "role": "owner"}],
                },
            }),
            judge: |document| judged(document, Environment::validate),
        },
        Kind {
            name: "ChangeSet",
            full: json!({"environment": "rack", "mode": "Preview", "requestedBy": "alice",
                "objects": [{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}}]}),
            judge: |document| judged(document, ChangeSet::validate),
        },
        Kind {
            name: "Review",
            full: json!({
                "gate": "g", "decision": "Approve", "reviewer": "alice", "comment": "c",
                "digests": ["sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"],
                "nonce": "0123456789abcdef", "clusterUid": "7f9c", "changeSetUid": "51d2",
                "expiresAt": "2026-01-02T03:04:05Z",
                "signature": "-----BEGIN SSH SIGNATURE-----\nU1NIU0lH\n-----END SSH SIGNATURE-----\n",
            }),
            judge: |document| judged(document, Review::validate),
        },
    ]
}

#[test]
fn what_a_schema_bounds_is_bounded_without_it() {
    let mut checked = 0;
    for Kind { name, full, judge } in kinds() {
        let crd = all().into_iter().find(|crd| crd.spec.names.kind == name).expect("a kind");
        let schema = crate::fixture::schema(&crd)["properties"]["spec"].clone();
        let whole = object(name, &full, &json!({}));
        assert_eq!(judge(whole.clone()), [""; 0], "{name} is sound as it is written");
        let mut excesses = Vec::new();
        collect(&schema, &whole["spec"], "/spec", &mut excesses);
        for (at, excess) in excesses {
            let mut document = whole.clone();
            *document.pointer_mut(&at).expect("the field is said") = excess;
            assert!(!judge(document).is_empty(), "{name}: nothing bounds {at}");
            checked += 1;
        }
    }
    assert!(checked > 80, "only {checked} bounds were found");
}

/// Every field that has a bound, with a value beyond it.
fn collect(schema: &Value, value: &Value, at: &str, excesses: &mut Vec<(String, Value)>) {
    let bound = |keyword: &str| schema[keyword].as_f64().map(|bound| bound as i64);
    let mut exceed = |excess: Option<Value>| excesses.extend(excess.map(|excess| (at.to_owned(), excess)));
    match value {
        Value::Number(_) => {
            exceed(bound("maximum").map(|most| json!(most + 1)));
            exceed(bound("minimum").map(|least| json!(least - 1)));
        }
        Value::String(_) => {
            exceed(bound("maxLength").map(|most| json!("a".repeat(most as usize + 1))));
            exceed(bound("minLength").filter(|least| *least > 0).map(|_| json!("")));
        }
        Value::Array(items) => {
            exceed(bound("maxItems").map(|most| json!(vec![items[0].clone(); most as usize + 1])));
            for (index, item) in items.iter().enumerate() {
                collect(&schema["items"], item, &format!("{at}/{index}"), excesses);
            }
        }
        Value::Object(members) => {
            let many = |most: i64| (0..=most).map(|number| (format!("k{number}"), json!("v"))).collect();
            exceed(bound("maxProperties").map(|most| Value::Object(many(most))));
            for (name, member) in members {
                collect(&schema["properties"][name], member, &format!("{at}/{name}"), excesses);
            }
        }
        Value::Null | Value::Bool(_) => {}
    }
}
