//! What is kept of a Plan.

use serde_json::{Value, json};

use super::Outline;

fn outline(spec: Value) -> Outline {
    let metadata = json!({"name": "p", "namespace": "shop", "resourceVersion": "5"});
    let mut plan = json!({
        "apiVersion": "planspec.io/v1alpha1", "kind": "Plan", "metadata": metadata,
        "spec": {"description": "d", "series": "s", "version": "2", "goalRef": {"name": "sso"}},
    });
    plan["spec"].as_object_mut().unwrap().extend(spec.as_object().unwrap().clone());
    serde_json::from_value(plan).unwrap()
}

#[test]
fn a_plan_is_judged_with_its_work_and_kept_without() {
    let nodes = json!([{"id": "a", "kind": "Task"}, {"id": "b", "kind": "Task", "dependsOn": ["a"]}]);
    let sound = outline(json!({"graph": {"nodes": nodes}}));
    assert_eq!((sound.error(), sound.node_count()), (None, 2));
    let kept = &sound.checked().plan.spec;
    assert!(kept.graph.nodes.is_empty() && kept.description.is_empty(), "{kept:?}");
    assert_eq!((kept.series.as_deref(), kept.version.as_deref()), (Some("s"), Some("2")));
    let circle = outline(json!({"graph": {"nodes": [{"id": "a", "kind": "Task", "dependsOn": ["a"]}]}}));
    assert!(circle.error().is_some_and(|error| error.contains("in a circle")), "{:?}", circle.error());
}

#[test]
fn a_plan_names_its_goal_in_its_own_namespace_or_in_another() {
    let rows = [
        ("its own", json!({"goalRef": {"name": "sso"}}), Some("shop/sso")),
        ("another", json!({"goalRef": {"name": "sso", "namespace": "ops"}}), Some("ops/sso")),
        ("none", json!({"goalRef": null}), None),
    ];
    for (name, mut spec, expected) in rows {
        spec["graph"] = json!({"nodes": []});
        assert_eq!(outline(spec).goal().map(|goal| goal.to_string()).as_deref(), expected, "{name}");
    }
}
