//! What is wrong with a document, and where.

use serde_json::{Value, json};

use super::{Gate, Goal, Plan};
use crate::field::Errors;

fn goal(spec: Value) -> Vec<String> {
    errors_of(|errors| Goal::new("g", serde_json::from_value(spec).unwrap()).validate(errors))
}

fn gate(spec: Value) -> Vec<String> {
    errors_of(|errors| Gate::new("g", serde_json::from_value(spec).unwrap()).validate(errors))
}

fn plan(spec: Value) -> Vec<String> {
    errors_of(|errors| Plan::new("p", serde_json::from_value(spec).unwrap()).validate(errors))
}

fn node(node: Value) -> Vec<String> {
    let errors = plan(json!({"description": "d", "graph": {"nodes": [node]}}));
    errors.into_iter().map(|error| error.trim_start_matches("spec.graph.nodes[0].").to_owned()).collect()
}

fn errors_of(validate: impl FnOnce(&mut Errors)) -> Vec<String> {
    let mut errors = Errors::default();
    validate(&mut errors);
    errors.iter().map(ToString::to_string).collect()
}

struct Row {
    name: &'static str,
    check: fn(Value) -> Vec<String>,
    document: Value,
    errors: &'static [&'static str],
}

fn row(name: &'static str, check: fn(Value) -> Vec<String>, document: Value, errors: &'static [&'static str]) -> Row {
    Row { name, check, document, errors }
}

fn assert_rows(rows: Vec<Row>) {
    for Row { name, check, document, errors } in rows {
        assert_eq!(check(document), errors, "{name}");
    }
}

#[test]
fn goals_are_checked() {
    let expression = |operator: &str, values: Value| json!({"description": "d", "planSelector": {"matchExpressions": [{"key": "a", "operator": operator, "values": values}]}});
    assert_rows(vec![
        row("a description is enough", goal, json!({"description": "d"}), &[]),
        row("a description is needed", goal, json!({"description": ""}), &["spec.description: Required value"]),
        row("days are durations", goal, json!({"description": "d", "timeout": "7d"}), &[]),
        row(
            "weeks are not",
            goal,
            json!({"description": "d", "timeout": "10w"}),
            &[r#"spec.timeout: Invalid value: "10w": unknown unit "w": must be one of ns, us, ms, s, m, h, d"#],
        ),
        row("priority may be zero", goal, json!({"description": "d", "priority": 0}), &[]),
        row(
            "priority is not negative",
            goal,
            json!({"description": "d", "priority": -1}),
            &["spec.priority: Invalid value: -1: must be greater than or equal to 0"],
        ),
        row("In with values", goal, expression("In", json!(["x"])), &[]),
        row(
            "In needs values",
            goal,
            expression("In", json!([])),
            &[
                "spec.planSelector.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'",
            ],
        ),
        row(
            "Exists takes none",
            goal,
            expression("Exists", json!(["x"])),
            &[
                "spec.planSelector.matchExpressions[0].values: Forbidden: may not be specified when `operator` is 'Exists' or 'DoesNotExist'",
            ],
        ),
        row(
            "an operator is one of four",
            goal,
            expression("Like", json!(["x"])),
            &[
                r#"spec.planSelector.matchExpressions[0].operator: Invalid value: "Like": not a valid selector operator"#,
            ],
        ),
        row(
            "ids of criteria are names",
            goal,
            json!({"description": "d", "acceptanceCriteria": [{"id": "A B", "description": "d"}]}),
            &[
                "spec.acceptanceCriteria[0].id: Invalid value: \"A B\": must be lower-case letters, digits, '-' and '_', and begin and end with a letter or digit",
            ],
        ),
        row(
            "ids of criteria are each one's own",
            goal,
            json!({"description": "d", "acceptanceCriteria": [{"id": "a", "description": "d"}, {"id": "a", "description": "e"}]}),
            &[r#"spec.acceptanceCriteria[1].id: Duplicate value: "a""#],
        ),
        row(
            "all errors are told",
            goal,
            json!({"description": "", "timeout": "soon", "priority": -2}),
            &[
                "spec.description: Required value",
                r#"spec.timeout: Invalid value: "soon": must be a duration such as "90s", "1h30m" or "7d""#,
                "spec.priority: Invalid value: -2: must be greater than or equal to 0",
            ],
        ),
    ]);
}

#[test]
fn gates_are_checked() {
    let spec = |more: Value| {
        let mut spec = json!({"gateType": "approval", "targetRef": {"kind": "Plan", "name": "p"}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    assert_rows(vec![
        row("a target is enough", gate, spec(json!({})), &[]),
        row("one approver", gate, spec(json!({"requiredApprovers": 1})), &[]),
        row(
            "no approver",
            gate,
            spec(json!({"requiredApprovers": 0})),
            &["spec.requiredApprovers: Invalid value: 0: must be greater than or equal to 1"],
        ),
        row(
            "an empty target",
            gate,
            spec(json!({"targetRef": {"kind": "", "name": ""}})),
            &["spec.targetRef.kind: Required value", "spec.targetRef.name: Required value"],
        ),
        row(
            "a kind in lower case",
            gate,
            spec(json!({"targetRef": {"kind": "plan", "name": "p"}})),
            &[
                r#"spec.targetRef.kind: Invalid value: "plan": must be letters and digits, beginning with a capital, such as "Plan""#,
            ],
        ),
        row(
            "a node that cannot be",
            gate,
            spec(json!({"targetRef": {"kind": "Plan", "name": "p", "nodeId": "-"}})),
            &[
                "spec.targetRef.nodeId: Invalid value: \"-\": must be lower-case letters, digits, '-' and '_', and begin and end with a letter or digit",
            ],
        ),
        row(
            "a context that is no object",
            gate,
            spec(json!({"context": 5})),
            &["spec.context: Invalid value: 5: must be an object"],
        ),
    ]);
}

#[test]
fn plans_are_checked() {
    let spec = |more: Value| {
        let mut spec = json!({"description": "d", "graph": {"nodes": [{"id": "a", "kind": "Task"}]}});
        spec.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        spec
    };
    assert_rows(vec![
        row("a task is enough", plan, spec(json!({})), &[]),
        row("series and version", plan, spec(json!({"series": "s", "version": "1"})), &[]),
        row(
            "a series without a version",
            plan,
            spec(json!({"series": "s"})),
            &["spec.version: Required value: series and version go together"],
        ),
        row(
            "a version without a series",
            plan,
            spec(json!({"version": "1"})),
            &["spec.series: Required value: series and version go together"],
        ),
        row(
            "no nodes",
            plan,
            spec(json!({"graph": {"nodes": []}})),
            &["spec.graph.nodes: Required value: a plan needs at least one node"],
        ),
        row(
            "a goal without a name",
            plan,
            spec(json!({"goalRef": {"name": ""}})),
            &["spec.goalRef.name: Required value"],
        ),
        row(
            "every plan that is superseded has a name",
            plan,
            spec(json!({"supersedes": [{"name": "a"}, {"name": ""}]})),
            &["spec.supersedes[1].name: Required value"],
        ),
    ]);
    let wrong = plan(spec(json!({"goalRef": {"name": "My Goal", "namespace": "Shop"}})));
    assert_eq!(wrong.len(), 2, "names that no object can have: {wrong:?}");
}

#[test]
fn nodes_are_checked() {
    let task = |more: Value| {
        let mut node = json!({"id": "a", "kind": "Task"});
        node.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        node
    };
    let external = |reference: Value| json!({"id": "a", "kind": "External", "externalRef": reference});
    let criterion = |criterion: Value| json!({"id": "a", "kind": "Task", "acceptanceCriteria": [criterion]});
    assert_rows(vec![
        row("underscores are letters", node, json!({"id": "a_b", "kind": "Task"}), &[]),
        row("an id is needed", node, json!({"id": "", "kind": "Task"}), &["id: Required value"]),
        row(
            "an id in capitals",
            node,
            json!({"id": "A", "kind": "Task"}),
            &[
                "id: Invalid value: \"A\": must be lower-case letters, digits, '-' and '_', and begin and end with a letter or digit",
            ],
        ),
        row(
            "a long id",
            node,
            json!({"id": "a".repeat(64), "kind": "Task"}),
            &["id: Too long: may not be more than 63 bytes"],
        ),
        row("ten retries", node, task(json!({"retries": 10})), &[]),
        row(
            "eleven retries",
            node,
            task(json!({"retries": 11})),
            &["retries: Invalid value: 11: must be between 0 and 10, inclusive"],
        ),
        row(
            "fewer than none",
            node,
            task(json!({"retries": -1})),
            &["retries: Invalid value: -1: must be between 0 and 10, inclusive"],
        ),
        row("a timeout in days", node, task(json!({"timeout": "1d12h"})), &[]),
        row(
            "a timeout without a unit",
            node,
            task(json!({"timeout": "90"})),
            &[r#"timeout: Invalid value: "90": missing unit after "90": one of ns, us, ms, s, m, h, d"#],
        ),
        row("an output twice", node, task(json!({"outputs": ["x", "x"]})), &[r#"outputs[1]: Duplicate value: "x""#]),
        row(
            "inputs that are no object",
            node,
            task(json!({"inputs": ["x"]})),
            &[r#"inputs: Invalid value: ["x"]: must be an object"#],
        ),
        row("a gate that says which", node, json!({"id": "a", "kind": "Gate", "gateRef": {"name": "g"}}), &[]),
        row(
            "a gate needs gateRef",
            node,
            json!({"id": "a", "kind": "Gate"}),
            &["gateRef: Required value: for a node of kind Gate"],
        ),
        row(
            "a group with children",
            node,
            json!({"id": "a", "kind": "Group", "children": ["b"], "mode": "sequence"}),
            &[],
        ),
        row(
            "a group needs children",
            node,
            json!({"id": "a", "kind": "Group"}),
            &["children: Required value: for a node of kind Group"],
        ),
        row(
            "no children are no children",
            node,
            json!({"id": "a", "kind": "Group", "children": []}),
            &["children: Required value: for a node of kind Group"],
        ),
        row(
            "a child twice",
            node,
            json!({"id": "a", "kind": "Group", "children": ["b", "b"]}),
            &[r#"children[1]: Duplicate value: "b""#],
        ),
        row(
            "an external node needs externalRef",
            node,
            json!({"id": "a", "kind": "External"}),
            &["externalRef: Required value: for a node of kind External"],
        ),
        row("an address", node, external(json!({"type": "uri", "uri": "https://example.com"})), &[]),
        row(
            "uri needs uri",
            node,
            external(json!({"type": "uri"})),
            &["externalRef.uri: Required value: for a reference of type uri"],
        ),
        row(
            "resource needs resourceRef",
            node,
            external(json!({"type": "resource"})),
            &["externalRef.resourceRef: Required value: for a reference of type resource"],
        ),
        row(
            "webhook needs webhookUrl",
            node,
            external(json!({"type": "webhook", "uri": "x"})),
            &["externalRef.webhookUrl: Required value: for a reference of type webhook"],
        ),
        row(
            "a resource has a name",
            node,
            external(json!({"type": "resource", "resourceRef": {"name": ""}})),
            &["externalRef.resourceRef.name: Required value"],
        ),
        row(
            "a task waits at no gate",
            node,
            task(json!({"gateRef": {"name": "g"}})),
            &["gateRef: Forbidden: may only be set on a node of kind Gate"],
        ),
        row(
            "a task has no children",
            node,
            task(json!({"children": ["b"]})),
            &["children: Forbidden: may only be set on a node of kind Group"],
        ),
        row(
            "a task has no mode",
            node,
            task(json!({"mode": "parallel"})),
            &["mode: Forbidden: may only be set on a node of kind Group"],
        ),
        row(
            "a task does not poll",
            node,
            task(json!({"pollInterval": "5s"})),
            &["pollInterval: Forbidden: may only be set on a node of kind External"],
        ),
        row(
            "a gate is nothing outside",
            node,
            json!({"id": "a", "kind": "Gate", "gateRef": {"name": "g"}, "externalRef": {"type": "uri", "uri": "x"}}),
            &["externalRef: Forbidden: may only be set on a node of kind External"],
        ),
        row(
            "published documents put retries on any node",
            node,
            json!({"id": "a", "kind": "Gate", "gateRef": {"name": "g"}, "retries": 1}),
            &[],
        ),
        row(
            "an artifact has a path",
            node,
            criterion(json!({"type": "artifact_exists", "name": "n"})),
            &["acceptanceCriteria[0].path: Required value: for a criterion of type artifact_exists"],
        ),
        row(
            "a test has a command",
            node,
            criterion(json!({"type": "test_passes", "name": "n"})),
            &["acceptanceCriteria[0].command: Required value: for a criterion of type test_passes"],
        ),
        row(
            "an endpoint has a url",
            node,
            criterion(json!({"type": "endpoint_responds", "name": "n"})),
            &["acceptanceCriteria[0].url: Required value: for a criterion of type endpoint_responds"],
        ),
        row(
            "a webhook spelled by the schema",
            node,
            criterion(json!({"type": "custom", "name": "n", "webhookUrl": "x"})),
            &[],
        ),
        row(
            "a webhook spelled by the library",
            node,
            criterion(json!({"type": "custom", "name": "n", "webhook_url": "x"})),
            &[],
        ),
        row(
            "a webhook spelled both ways with one value",
            node,
            criterion(json!({"type": "custom", "name": "n", "webhook_url": "x", "webhookUrl": "x"})),
            &[],
        ),
        row(
            "a webhook spelled both ways with two",
            node,
            criterion(json!({"type": "custom", "name": "n", "webhook_url": "x", "webhookUrl": "y"})),
            &["acceptanceCriteria[0].webhook_url: Forbidden: webhookUrl has another value"],
        ),
    ]);
}

#[test]
fn a_criterion_reads_the_same_in_both_spellings() {
    let of = |value: Value| serde_json::from_value::<super::Criterion>(value).unwrap();
    let camel = of(json!({"type": "custom", "name": "n", "webhookUrl": "u", "bodyMatch": "b", "expectedStatus": 201,
        "expectedExitCode": 3, "contentMatch": "c", "outputMatch": "o", "expectedResponse": {"statusCode": 204}}));
    let snake =
        of(json!({"type": "custom", "name": "n", "webhook_url": "u", "body_match": "b", "expected_status": 201,
        "expected_exit_code": 3, "content_match": "c", "output_match": "o", "expected_response": {"statusCode": 204}}));
    for criterion in [camel, snake] {
        assert_eq!((criterion.webhook_url(), criterion.body_match()), (Some("u"), Some("b")));
        assert_eq!((criterion.content_match(), criterion.output_match()), (Some("c"), Some("o")));
        assert_eq!((criterion.expected_status(), criterion.expected_exit_code()), (201, 3));
        assert_eq!(criterion.expected_response().and_then(|response| response.status_code), Some(204));
    }
    let bare = of(json!({"type": "endpoint_responds", "name": "n", "url": "u"}));
    assert_eq!(
        (bare.method(), bare.expected_status(), bare.expected_exit_code(), bare.is_required()),
        ("GET", 200, 0, true)
    );
}
