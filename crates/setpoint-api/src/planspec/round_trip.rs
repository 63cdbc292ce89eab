//! Documents come back as they were written: those of the published library, and those that only its schema knows.

use planspec_core::{Resource, Validator};
use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value, json};

use super::{Gate, Goal, Plan};
use crate::field::Errors;

/// A field of a generated object: its name, whether it is always there, its values.
type Field = (&'static str, bool, BoxedStrategy<Value>);

fn object(fields: Vec<Field>) -> BoxedStrategy<Value> {
    let values = fields.into_iter().map(|(name, always, values)| {
        let value = if always { values.prop_map(Some).boxed() } else { option::of(values).boxed() };
        value.prop_map(move |value| value.map(|value| (name.to_owned(), value))).boxed()
    });
    let values: Vec<_> = values.collect();
    values.prop_map(|entries| Value::Object(entries.into_iter().flatten().collect())).boxed()
}

fn list(values: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    vec(values, 1..3).prop_map(Value::Array).boxed()
}

fn one_of(values: &'static [&'static str]) -> BoxedStrategy<Value> {
    proptest::sample::select(values).prop_map(|value| json!(value)).boxed()
}

fn text() -> BoxedStrategy<Value> {
    "[a-zA-Zé \n]{1,8}".prop_map(Value::String).boxed()
}

fn name() -> BoxedStrategy<Value> {
    "[a-z][a-z0-9]{0,5}(-[a-z0-9]{1,3})?".prop_map(Value::String).boxed()
}

fn number(range: std::ops::Range<i32>) -> BoxedStrategy<Value> {
    range.prop_map(|number| json!(number)).boxed()
}

fn boolean() -> BoxedStrategy<Value> {
    any::<bool>().prop_map(|value| json!(value)).boxed()
}

fn duration() -> BoxedStrategy<Value> {
    "[1-9][0-9]{0,2}(ns|us|µs|ms|s|m|h)([1-9]s)?".prop_map(Value::String).boxed()
}

fn time() -> BoxedStrategy<Value> {
    (0..60_u8).prop_map(|second| json!(format!("2026-02-03T04:05:{second:02}Z"))).boxed()
}

fn anything() -> BoxedStrategy<Value> {
    let leaf = prop_oneof![boolean(), number(-9..9), text(), Just(json!(1.5)), Just(json!(9_007_199_254_740_993_i64))];
    let tree = leaf.prop_recursive(3, 12, 3, |inner| {
        let inner = inner.boxed();
        prop_oneof![vec(inner.clone(), 0..3).prop_map(Value::Array), entries(inner)]
    });
    tree.boxed()
}

fn entries(values: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    btree_map("[a-z_A-Z.]{1,6}", values, 1..3).prop_map(|entries| Value::Object(Map::from_iter(entries))).boxed()
}

fn reference() -> BoxedStrategy<Value> {
    object(vec![("name", true, name()), ("namespace", false, name()), ("uid", false, text())])
}

fn context() -> BoxedStrategy<Value> {
    list(object(vec![
        ("name", false, text()),
        ("format", true, one_of(&["markdown", "text", "json", "uri-list"])),
        ("content", false, anything()),
        ("uris", false, vec(text(), 0..3).prop_map(Value::Array).boxed()),
    ]))
}

fn conditions() -> BoxedStrategy<Value> {
    list(object(vec![
        ("type", true, text()),
        ("status", true, one_of(&["True", "False", "Unknown"])),
        ("reason", false, text()),
        ("message", false, text()),
        ("lastTransitionTime", false, time()),
        ("observedGeneration", false, number(0..9)),
    ]))
}

fn document(kind: &'static str, spec: BoxedStrategy<Value>, status: BoxedStrategy<Value>) -> BoxedStrategy<Value> {
    let owner = object(vec![
        ("apiVersion", true, text()),
        ("kind", true, text()),
        ("name", true, name()),
        ("uid", true, text()),
        ("controller", false, boolean()),
        ("blockOwnerDeletion", false, boolean()),
    ]);
    let metadata = object(vec![
        ("name", true, name()),
        ("namespace", true, name()),
        ("uid", false, text()),
        ("resourceVersion", false, text()),
        ("generation", false, number(0..9)),
        ("creationTimestamp", false, time()),
        ("labels", false, entries(name())),
        ("annotations", false, entries(text())),
        ("ownerReferences", false, list(owner)),
    ]);
    let head = |text: &str| Just(json!(text)).boxed();
    object(vec![
        ("apiVersion", true, head("planspec.io/v1alpha1")),
        ("kind", true, head(kind)),
        ("metadata", true, metadata),
        ("spec", true, spec),
        ("status", false, status),
    ])
}

/// Whether documents have only what the published library's types have, or also what its schema has besides.
#[derive(Clone, Copy, PartialEq)]
enum Fields {
    OfTheLibrary,
    OfTheSchema,
}

fn goal(fields: Fields) -> BoxedStrategy<Value> {
    let expression = prop_oneof![
        object(vec![
            ("key", true, name()),
            ("operator", true, one_of(&["In", "NotIn"])),
            ("values", true, list(name())),
        ]),
        object(vec![("key", true, name()), ("operator", true, one_of(&["Exists", "DoesNotExist"]))]),
    ];
    let mut selector =
        vec![("matchLabels", false, btree_map("[a-z]{1,4}", name(), 1..3).prop_map(|map| json!(map)).boxed())];
    let mut criterion = vec![("description", true, text())];
    if fields == Fields::OfTheSchema {
        selector.push(("matchExpressions", false, list(expression.boxed())));
        // An id is the criterion's own: two of them in one goal would be refused.
        criterion.push(("id", false, "[a-z0-9]{12}".prop_map(Value::String).boxed()));
    }
    let spec = object(vec![
        ("description", true, text()),
        ("constraints", false, entries(anything())),
        ("acceptanceCriteria", false, list(object(criterion))),
        ("planSelector", false, object(selector)),
        ("timeout", false, duration()),
        ("priority", false, number(0..100)),
        ("context", false, context()),
    ]);
    let phases = &["Pending", "Planning", "Ready", "Executing", "Succeeded", "Failed", "Cancelled"];
    let status = object(vec![
        ("phase", false, one_of(phases)),
        ("activePlanRef", false, reference()),
        ("observedGeneration", false, number(0..9)),
        ("conditions", false, conditions()),
    ]);
    document("Goal", spec, status)
}

/// A criterion of each type; `spell` gives a field's name as it is spelled.
fn criterion(spell: fn(&'static str, &'static str) -> &'static str) -> BoxedStrategy<Value> {
    let of = |type_: &'static str, own: Vec<Field>| {
        let mut all = vec![
            ("type", true, Just(json!(type_)).boxed()),
            ("name", true, text()),
            ("description", false, text()),
            ("required", false, boolean()),
        ];
        all.extend(own);
        object(all)
    };
    let exit_code = || (spell("expectedExitCode", "expected_exit_code"), false, number(-1..256));
    let timeout = || ("timeout", false, duration());
    let response = object(vec![("statusCode", false, number(100..600)), ("bodyMatch", false, text())]);
    prop_oneof![
        of("artifact_exists", vec![("path", true, text()), (spell("contentMatch", "content_match"), false, text())]),
        of("test_passes", vec![("command", true, text()), ("args", false, list(text())), exit_code(), timeout()]),
        of(
            "command_succeeds",
            vec![
                ("command", true, text()),
                exit_code(),
                (spell("outputMatch", "output_match"), false, text()),
                timeout()
            ],
        ),
        of(
            "endpoint_responds",
            vec![
                ("url", true, text()),
                ("method", false, one_of(&["GET", "HEAD"])),
                (spell("expectedStatus", "expected_status"), false, number(100..600)),
                (spell("bodyMatch", "body_match"), false, text()),
                timeout(),
            ],
        ),
        of(
            "custom",
            vec![
                (spell("webhookUrl", "webhook_url"), true, text()),
                ("payload", false, entries(anything())),
                (spell("expectedResponse", "expected_response"), false, response),
                timeout(),
            ],
        ),
    ]
    .boxed()
}

fn node(fields: Fields) -> BoxedStrategy<Value> {
    let spelled = match fields {
        Fields::OfTheLibrary => criterion(|_, snake| snake),
        Fields::OfTheSchema => prop_oneof![criterion(|camel, _| camel), criterion(|_, snake| snake)].boxed(),
    };
    let of = move |kind: &'static str, own: Vec<Field>| {
        let mut all = vec![
            ("kind", true, Just(json!(kind)).boxed()),
            ("name", false, text()),
            ("description", false, text()),
            ("timeout", false, duration()),
            ("when", false, text()),
            ("context", false, context()),
        ];
        all.extend(own);
        object(all)
    };
    let external = |type_: &'static str, field: &'static str, values: BoxedStrategy<Value>| {
        object(vec![("type", true, Just(json!(type_)).boxed()), (field, true, values)])
    };
    let external = prop_oneof![
        external("uri", "uri", text()),
        external("resource", "resourceRef", reference()),
        external("webhook", "webhookUrl", text()),
    ];
    prop_oneof![
        of(
            "Task",
            vec![
                ("capabilityRefs", false, list(reference())),
                ("inputs", false, entries(anything())),
                ("outputs", false, vec(text(), 0..2).prop_map(Value::Array).boxed()),
                ("retries", false, number(0..11)),
                ("acceptanceCriteria", false, list(spelled)),
                ("estimatedEffort", false, one_of(&["small", "medium", "large", "xlarge"])),
            ],
        ),
        of("Gate", vec![("gateRef", true, reference())]),
        of(
            "Group",
            vec![
                ("children", true, Just(json!(["node-0"])).boxed()),
                ("mode", false, one_of(&["parallel", "sequence"]))
            ]
        ),
        of("External", vec![("externalRef", true, external.boxed()), ("pollInterval", false, duration())]),
    ]
    .boxed()
}

fn plan(fields: Fields) -> BoxedStrategy<Value> {
    let edge = |from: usize, to: usize, type_: Option<bool>| {
        let mut edge = json!({"from": format!("node-{from}"), "to": format!("node-{to}")});
        if let Some(soft) = type_ {
            edge["type"] = json!(if soft { "soft" } else { "hard" });
        }
        edge
    };
    let graph = vec((node(fields), option::of(any::<bool>())), 1..5).prop_map(move |nodes| {
        let edges: Vec<Value> = nodes.windows(2).enumerate().map(|(at, pair)| edge(at, at + 1, pair[0].1)).collect();
        let mut nodes: Vec<Value> = nodes.into_iter().map(|(node, _)| node).collect();
        for (at, node) in nodes.iter_mut().enumerate() {
            node["id"] = json!(format!("node-{at}"));
            if at > 0 {
                node["dependsOn"] = json!(["node-0"]);
            }
        }
        if edges.is_empty() { json!({"nodes": nodes}) } else { json!({"nodes": nodes, "edges": edges}) }
    });
    let spec = object(vec![
        ("description", true, text()),
        ("goalRef", false, reference()),
        ("supersedes", false, list(reference())),
        ("context", false, context()),
        ("graph", true, graph.boxed()),
    ]);
    let spec = (spec, option::of((name(), text()))).prop_map(|(mut spec, family)| {
        if let Some((series, version)) = family {
            spec["series"] = series;
            spec["version"] = version;
        }
        spec
    });
    let status = object(vec![
        ("phase", false, one_of(&["Ready", "Invalid"])),
        ("nodeCount", false, number(0..9)),
        ("observedGeneration", false, number(0..9)),
        ("conditions", false, conditions()),
    ]);
    document("Plan", spec.boxed(), status)
}

fn gate() -> BoxedStrategy<Value> {
    let target = object(vec![
        ("apiVersion", false, text()),
        ("kind", true, one_of(&["Plan", "Execution", "ChangeSet"])),
        ("name", true, name()),
        ("namespace", false, name()),
        ("uid", false, text()),
        ("nodeId", false, name()),
    ]);
    let spec = object(vec![
        ("gateType", true, one_of(&["approval", "review", "sign-off"])),
        ("targetRef", true, target),
        ("description", false, text()),
        ("reviewers", false, list(text())),
        ("requiredApprovers", false, number(1..9)),
        ("context", false, entries(anything())),
    ]);
    let action = object(vec![
        ("reviewer", true, text()),
        ("action", true, one_of(&["approve", "reject", "comment"])),
        ("timestamp", true, time()),
        ("comment", false, text()),
        ("targetGeneration", false, number(0..9)),
    ]);
    let resolution = object(vec![
        ("outcome", true, one_of(&["approved", "rejected"])),
        ("actors", false, list(text())),
        ("timestamp", true, time()),
        ("comment", false, text()),
    ]);
    let status = object(vec![
        ("phase", false, one_of(&["Pending", "Waiting", "Approved", "Rejected"])),
        ("conditions", false, conditions()),
        ("reviewHistory", false, list(action)),
        ("resolution", false, resolution),
        ("observedGeneration", false, number(0..9)),
        ("decidedGeneration", false, number(0..9)),
    ]);
    document("Gate", spec, status)
}

fn through<T: Serialize + DeserializeOwned>(document: &Value) -> Value {
    let ours: T = serde_json::from_value(document.clone()).unwrap_or_else(|error| panic!("{error}: {document}"));
    serde_json::to_value(ours).unwrap()
}

/// A value of the published library's type, written, read by ours, written, and read by the library again, is the same.
fn keeps_the_library_value<Theirs, Ours>(document: Value) -> Result<(), TestCaseError>
where
    Theirs: Serialize + DeserializeOwned + PartialEq + std::fmt::Debug,
    Ours: Serialize + DeserializeOwned,
{
    let theirs: Theirs = serde_json::from_value(document).unwrap();
    let written = serde_json::to_value(&theirs).unwrap();
    let back: Theirs = serde_json::from_value(through::<Ours>(&written)).unwrap();
    prop_assert_eq!(theirs, back);
    Ok(())
}

fn errors_of(document: &Value) -> Vec<String> {
    let mut errors = Errors::default();
    match document["kind"].as_str() {
        Some("Goal") => serde_json::from_value::<Goal>(document.clone()).unwrap().validate(&mut errors),
        Some("Plan") => serde_json::from_value::<Plan>(document.clone()).unwrap().validate(&mut errors),
        _ => serde_json::from_value::<Gate>(document.clone()).unwrap().validate(&mut errors),
    }
    errors.iter().map(ToString::to_string).collect()
}

proptest! {
    #[test]
    fn the_library_s_goals_survive(document in goal(Fields::OfTheLibrary)) {
        keeps_the_library_value::<planspec_core::Goal, Goal>(document)?;
    }

    #[test]
    fn the_library_s_plans_survive(document in plan(Fields::OfTheLibrary)) {
        keeps_the_library_value::<planspec_core::Plan, Plan>(document)?;
    }

    #[test]
    fn the_library_s_gates_survive(document in gate()) {
        keeps_the_library_value::<planspec_core::Gate, Gate>(document)?;
    }

    #[test]
    fn documents_come_back_as_they_were_written(
        goal in goal(Fields::OfTheSchema),
        plan in plan(Fields::OfTheSchema),
        gate in gate(),
    ) {
        prop_assert_eq!(through::<Goal>(&goal), goal);
        prop_assert_eq!(through::<Plan>(&plan), plan);
        prop_assert_eq!(through::<Gate>(&gate), gate);
    }
}

#[test]
fn what_the_published_validator_accepts_is_accepted() {
    let validator = Validator::new().expect("the published schemas compile");
    for documents in [goal(Fields::OfTheSchema), plan(Fields::OfTheSchema), gate()] {
        proptest!(|(document in documents)| {
            prop_assume!(validator.validate_json(&document).is_ok());
            prop_assert_eq!(errors_of(&document), Vec::<String>::new());
        });
    }
}

#[test]
fn what_the_published_library_writes_is_accepted() {
    let validator = Validator::new().expect("the published schemas compile");
    for documents in [goal(Fields::OfTheLibrary), plan(Fields::OfTheLibrary), gate()] {
        proptest!(|(document in documents)| {
            let resource = Resource::try_from(document).expect("generated from the library's own fields");
            prop_assume!(validator.validate(&resource).is_ok());
            prop_assert_eq!(errors_of(&serde_json::to_value(&resource).unwrap()), Vec::<String>::new());
        });
    }
}

#[test]
fn what_we_add_survives_beside_what_is_published() {
    let rows = [
        (
            "a goal's candidates",
            json!({"status": {"candidates": [{"planRef": {"name": "a"}, "reason": "Invalid", "message": "a is invalid"}]}}),
            through::<Goal> as fn(&Value) -> Value,
            json!({"spec": {"description": "x"}}),
        ),
        (
            "the kind of an external resource",
            json!({}),
            through::<Plan>,
            json!({"spec": {"description": "x", "graph": {"nodes": [{
                "id": "a", "kind": "External",
                "externalRef": {"type": "resource", "resourceRef": {"apiVersion": "setpoint.dev/v1alpha1", "kind": "App", "name": "web"}},
            }]}}}),
        ),
        (
            "a criterion that is spelled both ways",
            json!({}),
            through::<Plan>,
            json!({"spec": {"description": "x", "graph": {"nodes": [{
                "id": "a", "kind": "Task",
                "acceptanceCriteria": [{"type": "artifact_exists", "name": "a", "path": "p", "contentMatch": "x", "content_match": "x"}],
            }]}}}),
        ),
    ];
    for (name, more, through, mut document) in rows {
        document["apiVersion"] = json!("planspec.io/v1alpha1");
        document["kind"] = json!(if document["spec"].get("graph").is_some() { "Plan" } else { "Goal" });
        document["metadata"] = json!({"name": "a"});
        document.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        assert_eq!(through(&document), document, "{name}");
    }
}
