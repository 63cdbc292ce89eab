//! Which plan serves a goal, in sentences.

mod properties;
mod status;

use serde_json::{Value, json};
use setpoint_api::planspec::{Goal, Plan};
use setpoint_core::resolve::{CheckedPlan, Resolution, first_error, resolve};

fn goal(spec: Value) -> Goal {
    let mut goal = json!({"apiVersion": "planspec.io/v1alpha1", "kind": "Goal",
        "metadata": {"name": "sso", "namespace": "shop", "uid": "u1"}, "spec": {"description": "d"}});
    goal["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    serde_json::from_value(goal).expect("a document of its kind")
}

/// A plan of the goal `sso` in the namespace `shop`, unless `spec` and `metadata` say otherwise.
fn plan_with(name: &str, spec: Value, metadata: Value) -> Plan {
    let mut plan = json!({"apiVersion": "planspec.io/v1alpha1", "kind": "Plan",
        "metadata": {"name": name, "namespace": "shop"},
        "spec": {"description": "d", "goalRef": {"name": "sso"}, "graph": {"nodes": [{"id": "a", "kind": "Task"}]}}});
    plan["spec"].as_object_mut().expect("an object").extend(spec.as_object().expect("an object").clone());
    plan["metadata"].as_object_mut().expect("an object").extend(metadata.as_object().expect("an object").clone());
    serde_json::from_value(plan).expect("a document of its kind")
}

fn plan(name: &str, spec: Value) -> Plan {
    plan_with(name, spec, json!({}))
}

fn version(name: &str, series: &str, version: &str) -> Plan {
    plan(name, json!({"series": series, "version": version}))
}

fn superseding(name: &str, series: &str, version: &str, others: &[&str]) -> Plan {
    let supersedes: Value = others.iter().map(|name| json!({"name": name})).collect();
    plan(name, json!({"series": series, "version": version, "supersedes": supersedes}))
}

fn resolved(goal: &Goal, plans: &[Plan]) -> Resolution {
    let errors: Vec<Option<String>> = plans.iter().map(first_error).collect();
    let checked = plans.iter().zip(&errors).map(|(plan, error)| CheckedPlan { plan, error: error.as_deref() });
    resolve(goal, &checked.collect::<Vec<_>>())
}

#[test]
fn goals_are_resolved() {
    let any = || goal(json!({}));
    let labelled = |name: &str, labels: Value| plan_with(name, json!({}), json!({"labels": labels}));
    let selecting = |expression: Value| goal(json!({"planSelector": {"matchExpressions": [expression]}}));
    let rows: Vec<(&str, Goal, Vec<Plan>, &str)> = vec![
        ("no plans at all", any(), vec![], "no plan is active"),
        ("one plan", any(), vec![plan("a", json!({}))], "shop/a is active"),
        (
            "a plan that names no goal",
            any(),
            vec![plan("a", json!({"goalRef": null}))],
            "no plan is active\nshop/a names no goal",
        ),
        (
            "a plan of another goal",
            any(),
            vec![plan("a", json!({"goalRef": {"name": "other"}}))],
            "no plan is active\nshop/a is for another goal: shop/other",
        ),
        (
            "a plan of a goal of the same name in its own, other namespace",
            any(),
            vec![plan_with("a", json!({}), json!({"namespace": "ops"}))],
            "no plan is active\nops/a is for another goal: ops/sso",
        ),
        (
            "a plan of another namespace that names this one",
            any(),
            vec![plan_with("a", json!({"goalRef": {"name": "sso", "namespace": "shop"}}), json!({"namespace": "ops"}))],
            "ops/a is active",
        ),
        (
            "a plan of this namespace that names another",
            any(),
            vec![plan("a", json!({"goalRef": {"name": "sso", "namespace": "ops"}}))],
            "no plan is active\nshop/a is for another goal: ops/sso",
        ),
        (
            "a plan of the goal that had this name before",
            any(),
            vec![plan("a", json!({"goalRef": {"name": "sso", "uid": "u0"}}))],
            "no plan is active\nshop/a is for another goal: shop/sso (uid u0)",
        ),
        (
            "a plan of this very goal",
            any(),
            vec![plan("a", json!({"goalRef": {"name": "sso", "uid": "u1"}}))],
            "shop/a is active",
        ),
        (
            "labels select",
            goal(json!({"planSelector": {"matchLabels": {"tier": "gold"}}})),
            vec![
                labelled("a", json!({"tier": "gold"})),
                labelled("b", json!({"tier": "tin"})),
                labelled("c", json!({})),
            ],
            "shop/a is active\nshop/b is not selected: the label tier must be \"gold\"\n\
             shop/c is not selected: the label tier must be \"gold\"",
        ),
        (
            "an empty selector selects all",
            goal(json!({"planSelector": {}})),
            vec![plan("a", json!({}))],
            "shop/a is active",
        ),
        (
            "matchExpressions are not ignored: In",
            selecting(json!({"key": "tier", "operator": "In", "values": ["gold", "tin"]})),
            vec![labelled("a", json!({"tier": "lead"})), labelled("b", json!({"tier": "tin"}))],
            "shop/b is active\nshop/a is not selected: the label tier must be one of [\"gold\", \"tin\"]",
        ),
        (
            "matchExpressions are not ignored: NotIn, which an absent label meets",
            selecting(json!({"key": "tier", "operator": "NotIn", "values": ["lead"]})),
            vec![labelled("a", json!({"tier": "lead"})), labelled("b", json!({}))],
            "shop/b is active\nshop/a is not selected: the label tier must be none of [\"lead\"]",
        ),
        (
            "matchExpressions are not ignored: Exists",
            selecting(json!({"key": "tier", "operator": "Exists"})),
            vec![labelled("a", json!({}))],
            "no plan is active\nshop/a is not selected: the label tier must exist",
        ),
        (
            "matchExpressions are not ignored: DoesNotExist",
            selecting(json!({"key": "tier", "operator": "DoesNotExist"})),
            vec![labelled("a", json!({"tier": ""}))],
            "no plan is active\nshop/a is not selected: the label tier must not exist",
        ),
        (
            "an operator that nobody knows selects nothing",
            selecting(json!({"key": "tier", "operator": "Like"})),
            vec![plan("a", json!({}))],
            "no plan is active\nshop/a is not selected: the label tier is asked for with the unknown operator \"Like\"",
        ),
        (
            "an invalid plan does not serve, however high its version",
            any(),
            vec![version("a", "s", "1"), plan("b", json!({"series": "s", "version": "2", "graph": {"nodes": []}}))],
            "shop/a is active\nshop/b is invalid: spec.graph.nodes: Required value: a plan needs at least one node",
        ),
        (
            "a plan whose graph is a circle is invalid",
            any(),
            vec![plan("a", json!({"graph": {"nodes": [{"id": "a", "kind": "Task", "dependsOn": ["a"]}]}}))],
            "no plan is active\nshop/a is invalid: spec.graph: Invalid value: \"a -> a\": nodes must not wait for each other \
             in a circle",
        ),
        (
            "more errors are counted",
            any(),
            vec![plan("a", json!({"series": "s", "description": ""}))],
            "no plan is active\nshop/a is invalid: spec.description: Required value (and 1 more)",
        ),
        (
            "the highest version of a series",
            any(),
            vec![version("a", "s", "2"), version("b", "s", "10"), version("c", "s", "1")],
            "shop/b is active\nshop/a has version 2, and shop/b has the higher version 10\n\
             shop/c has version 1, and shop/b has the higher version 10",
        ),
        (
            "a release before its pre-release",
            any(),
            vec![version("a", "s", "v2.0.0-rc.1"), version("b", "s", "2.0.0")],
            "shop/b is active\nshop/a has version v2.0.0-rc.1, and shop/b has the higher version 2.0.0",
        ),
        (
            "the highest of all series",
            any(),
            vec![version("a", "s", "2"), version("b", "t", "3"), version("c", "t", "1")],
            "shop/b is active\nshop/a has version 2, and shop/b has the higher version 3\n\
             shop/c has version 1, and shop/b has the higher version 3",
        ),
        (
            "a plan without series has version 0",
            any(),
            vec![plan("a", json!({})), version("b", "s", "1")],
            "shop/b is active\nshop/a has version 0, and shop/b has the higher version 1",
        ),
        (
            "equal versions in two series do not flap: the series decides",
            any(),
            vec![version("a", "t", "2"), version("b", "s", "2")],
            "shop/b is active\nshop/a has version 2 like shop/b, which comes first by series",
        ),
        (
            "equal versions of a series: the name decides",
            any(),
            vec![version("b", "s", "2"), version("a", "s", "v2")],
            "shop/a is active\nshop/b has version 2 like shop/a, which comes first by name",
        ),
        (
            "equal names in two namespaces: the namespace decides",
            any(),
            vec![
                plan("a", json!({})),
                plan_with("a", json!({"goalRef": {"name": "sso", "namespace": "shop"}}), json!({"namespace": "ops"})),
            ],
            "ops/a is active\nshop/a has version 0 like ops/a, which comes first by namespace",
        ),
        (
            "a superseded plan does not serve, though its version is higher",
            any(),
            vec![version("a", "s", "9"), superseding("b", "t", "1", &["a"])],
            "shop/b is active\nshop/a is superseded by shop/b",
        ),
        (
            "superseding a plan retires the lower versions of its series too",
            any(),
            vec![version("a", "s", "9"), version("c", "s", "8"), superseding("b", "t", "1", &["a"])],
            "shop/b is active\nshop/a is superseded by shop/b\nshop/c is superseded by shop/b",
        ),
        (
            "but not the higher ones",
            any(),
            vec![version("a", "s", "8"), version("c", "s", "9"), superseding("b", "t", "1", &["a"])],
            "shop/c is active\nshop/b has version 1, and shop/c has the higher version 9\nshop/a is superseded by shop/b",
        ),
        (
            "nor one of the same version",
            any(),
            vec![version("a", "s", "9"), version("c", "s", "9"), superseding("b", "t", "1", &["a"])],
            "shop/c is active\nshop/b has version 1, and shop/c has the higher version 9\nshop/a is superseded by shop/b",
        ),
        (
            "a claim counts also if its plan is not the best of its series",
            any(),
            vec![version("a", "s", "9"), superseding("b", "t", "1", &["a"]), version("c", "t", "2")],
            "shop/c is active\nshop/b has version 1, and shop/c has the higher version 2\nshop/a is superseded by shop/b",
        ),
        (
            "a claim counts also if its plan is superseded itself",
            any(),
            vec![version("a", "s", "9"), superseding("b", "t", "5", &["a"]), superseding("c", "u", "1", &["b"])],
            "shop/c is active\nshop/a is superseded by shop/b\nshop/b is superseded by shop/c",
        ),
        (
            "a claim of an invalid plan does not count",
            any(),
            vec![
                version("a", "s", "1"),
                plan("b", json!({"series": "t", "version": "2", "supersedes": [{"name": "a"}], "description": ""})),
            ],
            "shop/a is active\nshop/b is invalid: spec.description: Required value",
        ),
        (
            "a claim of another goal's plan does not count",
            any(),
            vec![
                version("a", "s", "1"),
                plan("b", json!({"goalRef": {"name": "other"}, "supersedes": [{"name": "a"}]})),
            ],
            "shop/a is active\nshop/b is for another goal: shop/other",
        ),
        (
            "a claim of a plan that is not selected does not count",
            goal(json!({"planSelector": {"matchLabels": {"tier": "gold"}}})),
            vec![labelled("a", json!({"tier": "gold"})), superseding("b", "t", "1", &["a"])],
            "shop/a is active\nshop/b is not selected: the label tier must be \"gold\"",
        ),
        (
            "a claim on a plan that is not there means nothing",
            any(),
            vec![superseding("a", "s", "1", &["gone"])],
            "shop/a is active",
        ),
        (
            "a claim on an invalid plan still retires the lower versions of its series",
            any(),
            vec![
                version("a", "s", "8"),
                plan("x", json!({"series": "s", "version": "9", "description": ""})),
                superseding("b", "t", "1", &["x"]),
            ],
            "shop/b is active\nshop/a is superseded by shop/b\nshop/x is invalid: spec.description: Required value",
        ),
        (
            "of several that supersede a plan, the best is named",
            any(),
            vec![version("a", "s", "9"), superseding("b", "t", "1", &["a"]), superseding("c", "u", "2", &["a"])],
            "shop/c is active\nshop/b has version 1, and shop/c has the higher version 2\nshop/a is superseded by shop/c",
        ),
        (
            "a claim that names a uid means that very plan",
            any(),
            vec![version("a", "s", "9"), plan("b", json!({"supersedes": [{"name": "a", "uid": "gone"}]}))],
            "shop/a is active\nshop/b has version 0, and shop/a has the higher version 9",
        ),
        (
            "two that supersede each other are reported, and neither obeys",
            any(),
            vec![superseding("a", "s", "1", &["b"]), superseding("b", "t", "2", &["a"])],
            "shop/b is active\nshop/a has version 1, and shop/b has the higher version 2\n\
             shop/a, shop/b supersede each other, which is not obeyed",
        ),
        (
            "one that supersedes itself",
            any(),
            vec![superseding("a", "s", "1", &["a"])],
            "shop/a is active\nshop/a supersedes itself, which is not obeyed",
        ),
        (
            "one that supersedes a higher version of its series, and so itself",
            any(),
            vec![superseding("a", "s", "1", &["b"]), version("b", "s", "2")],
            "shop/b is active\nshop/a has version 1, and shop/b has the higher version 2\n\
             shop/a supersedes itself, which is not obeyed",
        ),
        (
            "a circle of three",
            any(),
            vec![
                superseding("a", "s", "1", &["b"]),
                superseding("b", "t", "1", &["c"]),
                superseding("c", "u", "1", &["a"]),
            ],
            "shop/a is active\nshop/b has version 1 like shop/a, which comes first by series\n\
             shop/c has version 1 like shop/a, which comes first by series\n\
             shop/a, shop/b, shop/c supersede each other, which is not obeyed",
        ),
        (
            "a circle through the lower versions of two series would retire everything",
            any(),
            vec![
                superseding("a1", "a", "1", &["b2"]),
                version("a2", "a", "2"),
                superseding("b1", "b", "1", &["a2"]),
                version("b2", "b", "2"),
            ],
            "shop/a2 is active\nshop/b2 has version 2 like shop/a2, which comes first by series\n\
             shop/a1 has version 1, and shop/a2 has the higher version 2\n\
             shop/b1 has version 1, and shop/b2 has the higher version 2\n\
             shop/a1, shop/b1 supersede each other, which is not obeyed",
        ),
        (
            "what a member of a circle says of others is obeyed",
            any(),
            vec![superseding("a", "s", "1", &["b", "c"]), superseding("b", "t", "1", &["a"]), version("c", "u", "9")],
            "shop/a is active\nshop/b has version 1 like shop/a, which comes first by series\n\
             shop/c is superseded by shop/a\nshop/a, shop/b supersede each other, which is not obeyed",
        ),
        (
            "what others say of a member of a circle is obeyed",
            any(),
            vec![
                superseding("a", "s", "2", &["b"]),
                superseding("b", "t", "1", &["a"]),
                superseding("c", "u", "0", &["a"]),
            ],
            "shop/b is active\nshop/c has version 0, and shop/b has the higher version 1\nshop/a is superseded by shop/c\n\
             shop/a, shop/b supersede each other, which is not obeyed",
        ),
    ];
    for (name, goal, plans, expected) in rows {
        let resolution = resolved(&goal, &plans);
        assert_eq!(resolution.to_string().trim_end(), expected, "{name}");
        let mut reversed = plans;
        reversed.reverse();
        assert_eq!(resolved(&goal, &reversed), resolution, "{name}, the other way round");
        let json = serde_json::to_string(&resolution).unwrap();
        assert_eq!(serde_json::from_str::<Resolution>(&json).unwrap(), resolution, "{name}, through JSON");
    }
}

#[test]
fn a_bad_goal_stops_no_other() {
    let plans = [version("a", "s", "1")];
    let bad = goal(
        json!({"planSelector": {"matchExpressions": [{"key": "", "operator": "", "values": []}]}, "timeout": "?"}),
    );
    assert_eq!(resolved(&bad, &plans).active, None);
    assert!(resolved(&goal(json!({})), &plans).active.is_some());
}
