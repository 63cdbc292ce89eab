//! What an App may be, as tables.

use kube::CustomResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::revision::Revision;
use crate::traffic_split::TrafficSplit;

fn app(spec: Value) -> App {
    let mut written = json!({ "template": { "spec": { "containers": [{ "name": "web", "image": "web:1" }] } } });
    written.as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    App::new("web", serde_json::from_value(written).unwrap())
}

#[test]
fn what_is_not_said_has_a_default() {
    let spec = app(json!({})).spec;
    assert_eq!(
        (spec.replicas, spec.environment.as_str(), spec.drain_seconds, spec.revision_history_limit),
        (1, "local", 30, 10)
    );
    assert_eq!(
        (spec.strategy.surge, spec.strategy.auto_promote, spec.strategy.progress_deadline_seconds),
        (None, true, 600)
    );
}

#[test]
fn apps_are_checked() {
    let analysis = json!({ "minSuccessBps": 9_900 });
    let rows: [(&str, Value, &[&str]); 14] = [
        ("the least that can be said", json!({}), &[]),
        (
            "a canary",
            json!({ "strategy": { "steps": [{ "weightBps": 50 }, { "pause": {} }, { "analysis": analysis }] } }),
            &[],
        ),
        ("one GPU that exists once", json!({ "strategy": { "surge": 0, "maxUnavailable": 1 } }), &[]),
        (
            "no surge and nothing unavailable",
            json!({ "strategy": { "surge": 0 } }),
            &["spec.strategy.maxUnavailable: Invalid value: 0: must be at least 1 when surge is 0: otherwise nothing \
               can ever be replaced"],
        ),
        (
            "a step that says nothing",
            json!({ "strategy": { "steps": [{}] } }),
            &["spec.strategy.steps[0]: Required value: exactly one of weightBps, pause and analysis must be set"],
        ),
        (
            "a step that says two things",
            json!({ "strategy": { "steps": [{ "weightBps": 100, "pause": {} }] } }),
            &["spec.strategy.steps[0]: Forbidden: exactly one of weightBps, pause and analysis must be set"],
        ),
        (
            "steps that go back",
            json!({ "strategy": { "steps": [{ "weightBps": 500 }, { "weightBps": 100 }] } }),
            &["spec.strategy.steps[1].weightBps: Invalid value: 100: must not be below the 500 of an earlier step: \
               abort goes back, steps go on"],
        ),
        (
            "an analysis of nothing",
            json!({ "strategy": { "guard": {} } }),
            &[
                "spec.strategy.guard: Required value: at least one of minSuccessBps, maxSuccessDropBps and latency must \
               be set",
            ],
        ),
        (
            "a latency without a bound",
            json!({ "strategy": { "guard": { "latency": { "quantilePermille": 1_001 } } } }),
            &[
                "spec.strategy.guard.latency.quantilePermille: Invalid value: 1001: must be between 1 and 1000, inclusive",
                "spec.strategy.guard.latency: Required value: at least one of maxMs and maxIncreasePercent must be set",
            ],
        ),
        (
            "sticky by two things",
            json!({ "route": { "port": 80, "sticky": { "cookie": "a", "header": "b" } } }),
            &["spec.route.sticky: Forbidden: exactly one of cookie and header must be set"],
        ),
        (
            "a request that names a revision for nothing",
            json!({ "request": { "id": "1", "verb": "Abort", "revision": "web-1" } }),
            &["spec.request.revision: Forbidden: only Undo names a revision"],
        ),
        (
            "bounds are those of the schema",
            json!({
                "revisionHistoryLimit": 4_000_000, "parameters": { "rootfs": "local:8", "cpu": "${A}" },
                "strategy": { "surge": 100_001, "keepSeconds": 4_000_000_000_u32, "preview": { "seconds": 604_801 } },
                "request": { "id": "x".repeat(5_000), "verb": "Pause" },
            }),
            &[
                "spec.parameters[cpu]: Invalid value: \"${A}\": variables are replaced in command, args and env of a Machine only",
                "spec.parameters[rootfs]: Forbidden: it names a disk: disks are the business of disk and volumes",
                "spec.strategy.surge: Invalid value: 100001: must be between 0 and 100000, inclusive",
                "spec.strategy.keepSeconds: Invalid value: 4000000000: must be between 0 and 604800, inclusive",
                "spec.strategy.preview.seconds: Invalid value: 604801: must be between 0 and 604800, inclusive",
                "spec.revisionHistoryLimit: Invalid value: 4000000: must be between 0 and 1000, inclusive",
                "spec.request.id: Too long: may not be more than 128 bytes",
            ],
        ),
        ("any host below a name", json!({ "route": { "port": 80, "host": "*.shop.example" } }), &[]),
        (
            "all that is wrong is told",
            json!({
                "template": {}, "replicas": 100_001, "drainSeconds": 86_401,
                "route": { "port": 65_536, "pathPrefix": "shop" },
            }),
            &[
                "spec.template.spec.containers: Required value",
                "spec.replicas: Invalid value: 100001: must be between 0 and 100000, inclusive",
                r#"spec.route.pathPrefix: Invalid value: "shop": must start with '/'"#,
                "spec.route.port: Invalid value: 65536: must be between 1 and 65535, inclusive",
                "spec.drainSeconds: Invalid value: 86401: must be between 0 and 86400, inclusive",
            ],
        ),
    ];
    for (name, spec, expected) in rows {
        let told: Vec<String> = app(spec).validate().iter().map(ToString::to_string).collect();
        assert_eq!(told, expected, "{name}");
    }
}

#[test]
fn a_parameter_has_a_name() {
    assert!(!app(json!({ "parameters": { "": "x" } })).validate().is_empty());
}

#[test]
fn the_schemas_are_structural() {
    for crd in [App::crd(), Revision::crd(), TrafficSplit::crd()] {
        let crd = serde_json::to_value(crd).unwrap();
        let name = crd["metadata"]["name"].as_str().unwrap();
        let schema = &crd["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
        assert_structural(schema, name);
        assert_eq!(crd["spec"]["names"]["categories"], json!(["setpoint"]), "{name}");
        assert!(crd.to_string().len() < 40_000, "{name} is {} bytes", crd.to_string().len());
    }
}

fn assert_structural(schema: &Value, at: &str) {
    assert!(schema["type"].is_string(), "{at} has no type: {schema}");
    for word in ["$ref", "anyOf", "oneOf", "allOf"] {
        assert!(schema.get(word).is_none(), "{at} has {word}: {schema}");
    }
    let rules = schema["x-kubernetes-validations"].to_string();
    if schema["type"] == "array" && rules != "null" {
        assert!(schema["maxItems"].is_u64(), "{at} has rules and no maxItems");
    }
    for (name, property) in schema["properties"].as_object().into_iter().flatten() {
        assert_structural(property, &format!("{at}.{name}"));
    }
    if let Some(items) = schema.get("items") {
        assert_structural(items, &format!("{at}[]"));
    }
}

#[test]
fn the_rules_stand_in_the_schemas() {
    let rows = [
        ("a split is whole", TrafficSplit::crd(), "sum() == 10000"),
        ("a split is a map by revision", TrafficSplit::crd(), r#""x-kubernetes-list-map-keys":["revision"]"#),
        ("a revision is immutable", Revision::crd(), r#""rule":"self == oldSelf""#),
        ("a step is one thing", App::crd(), "has(self.pause) ? 1 : 0"),
        ("surge 0 needs room", App::crd(), "self.maxUnavailable > 0"),
        ("templates are any object", App::crd(), r#""x-kubernetes-preserve-unknown-fields":true"#),
        ("scale is served", App::crd(), r#""specReplicasPath":".spec.replicas""#),
    ];
    for (name, crd, expected) in rows {
        let text = serde_json::to_string(&crd).unwrap();
        assert!(text.contains(expected), "{name}: {text}");
    }
}
