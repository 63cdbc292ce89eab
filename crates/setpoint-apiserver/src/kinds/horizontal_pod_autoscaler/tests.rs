//! What autoscalers are given, and what they are refused.

use super::*;
use crate::kinds::probe::{completed, messages, update_messages};

fn scaler(change: impl FnOnce(&mut Value)) -> Value {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"});
    let mut object = json!({"metadata": {"name": "web"}, "spec": {"scaleTargetRef": target, "maxReplicas": 5}});
    change(&mut object);
    object
}

#[test]
fn a_scaler_is_completed() {
    let object = completed(&HorizontalPodAutoscaler, &scaler(|_| {}));
    let target = json!({"type": "Utilization", "averageUtilization": 80});
    assert_eq!(object["spec"]["minReplicas"], 1);
    assert_eq!(object["spec"]["metrics"], json!([{"type": "Resource", "resource": {"name": "cpu", "target": target}}]));
    assert_eq!(object["spec"].get("behavior"), None);
    let object = completed(
        &HorizontalPodAutoscaler,
        &scaler(|object| {
            object["spec"]["behavior"] = json!({"scaleDown": {"stabilizationWindowSeconds": 60}});
        }),
    );
    let percent = json!({"type": "Percent", "value": 100, "periodSeconds": 15});
    let pods = json!({"type": "Pods", "value": 4, "periodSeconds": 15});
    assert_eq!(
        object["spec"]["behavior"],
        json!({
            "scaleUp": {"stabilizationWindowSeconds": 0, "selectPolicy": "Max", "policies": [pods, percent]},
            "scaleDown": {"stabilizationWindowSeconds": 60, "selectPolicy": "Max", "policies": [percent]},
        })
    );
}

#[test]
fn scalers_are_checked() {
    type Change = fn(&mut Value);
    let rows: &[(&str, Change, &[&str])] = &[
        ("a good one", |_| {}, &[]),
        (
            "no limit",
            |object| object["spec"]["maxReplicas"] = json!(0),
            &[
                "spec.maxReplicas: Required value: must be set and greater than 0",
                "spec.maxReplicas: Invalid value: 0: must be greater than or equal to `minReplicas`",
            ],
        ),
        (
            "no pods at all",
            |object| object["spec"]["minReplicas"] = json!(0),
            &["spec.minReplicas: Invalid value: 0: must be greater than or equal to 1"],
        ),
        (
            "fewer than the fewest",
            |object| object["spec"]["minReplicas"] = json!(9),
            &["spec.maxReplicas: Invalid value: 5: must be greater than or equal to `minReplicas`"],
        ),
        (
            "nothing to scale",
            |object| object["spec"]["scaleTargetRef"] = json!({}),
            &[
                "spec.scaleTargetRef.kind: Required value",
                "spec.scaleTargetRef.name: Required value",
                r#"spec.scaleTargetRef.apiVersion: Invalid value: "": apiVersion must specify API group"#,
            ],
        ),
        (
            "a version that is none",
            |object| object["spec"]["scaleTargetRef"]["apiVersion"] = json!("a/b/c"),
            &[r#"spec.scaleTargetRef.apiVersion: Invalid value: "a/b/c": unexpected GroupVersion string: a/b/c"#],
        ),
        (
            "how it never scales",
            |object| {
                object["spec"]["behavior"] = json!({
                    "scaleUp": {"stabilizationWindowSeconds": -1, "selectPolicy": "Any", "policies": []},
                    "scaleDown": {"stabilizationWindowSeconds": 3601, "tolerance": "-1",
                        "policies": [{"type": "Nodes", "value": 0, "periodSeconds": 1801}]},
                });
            },
            &[
                "spec.behavior.scaleUp.stabilizationWindowSeconds: Invalid value: -1: must be greater than or equal to zero",
                r#"spec.behavior.scaleUp.selectPolicy: Unsupported value: "Any": supported values: "Disabled", "Max", "Min""#,
                "spec.behavior.scaleUp.policies: Required value: must specify at least one Policy",
                "spec.behavior.scaleDown.stabilizationWindowSeconds: Invalid value: 3601: must be less than or equal to 3600",
                r#"spec.behavior.scaleDown.policies[0].type: Unsupported value: "Nodes": supported values: "Percent", "Pods""#,
                "spec.behavior.scaleDown.policies[0].value: Invalid value: 0: must be greater than zero",
                "spec.behavior.scaleDown.policies[0].periodSeconds: Invalid value: 1801: must be less than or equal to 1800",
                r#"spec.behavior.scaleDown.tolerance: Invalid value: "-1": must be greater than or equal to 0"#,
            ],
        ),
    ];
    for (name, change, expected) in rows {
        assert_eq!(messages(&HorizontalPodAutoscaler, &scaler(change)), *expected, "{name}");
    }
}

#[test]
fn metrics_are_checked() {
    let share = json!({"type": "Utilization", "averageUtilization": 80});
    let amount = json!({"type": "AverageValue", "averageValue": "10"});
    let resource = |target: &Value| json!({"type": "Resource", "resource": {"name": "cpu", "target": target}});
    let external = |target: Value| json!({"type": "External", "external": {"metric": {"name": "q"}, "target": target}});
    let rows = [
        ("a share", resource(&share), vec![]),
        ("an amount", resource(&amount), vec![]),
        (
            "of a container",
            json!({"type": "ContainerResource", "containerResource": {"name": "cpu", "container": "c", "target": share}}),
            vec![],
        ),
        (
            "of no sort",
            json!({}),
            vec![
                "type: Required value: must specify a metric source type",
                r#"type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource""#,
                r#"type: Unsupported value: "": supported values: "ContainerResource", "External", "Object", "Pods", "Resource""#,
            ],
        ),
        (
            "not described",
            json!({"type": "Pods"}),
            vec!["pods: Required value: must populate information for the given metric source"],
        ),
        (
            "described twice",
            json!({"type": "Resource", "resource": {"name": "cpu", "target": share},
                "pods": {"metric": {"name": "a"}, "target": amount}}),
            vec!["pods: Forbidden: must populate the given metric source only"],
        ),
        (
            "both a share and an amount",
            resource(&json!({"type": "Utilization", "averageUtilization": 80, "averageValue": "1"})),
            vec![
                "resource.target.averageValue: Forbidden: may not set both a target raw value and a target utilization",
            ],
        ),
        (
            "neither",
            resource(&json!({"type": "Utilization"})),
            vec![
                "resource.target.averageUtilization: Required value: must set either a target raw value or a target utilization",
            ],
        ),
        (
            "no share",
            resource(&json!({"type": "Utilization", "averageUtilization": 0})),
            vec!["resource.target.averageUtilization: Invalid value: 0: must be greater than 0"],
        ),
        (
            "less than nothing, in no known way",
            external(json!({"type": "Some", "value": "-1"})),
            vec![
                r#"external.target.type: Invalid value: "Some": must be either Utilization, Value, or AverageValue"#,
                r#"external.target.value: Invalid value: "-1": must be positive"#,
            ],
        ),
        (
            "for all and for each",
            external(json!({"type": "Value", "value": "1", "averageValue": "1"})),
            vec!["external.target.value: Forbidden: may not set both a target value for metric and a per-pod target"],
        ),
        (
            "for nothing",
            external(json!({"type": "Value"})),
            vec![
                "external.target.averageValue: Required value: must set either a target value for metric or a per-pod target",
            ],
        ),
        (
            "of pods, not on average",
            json!({"type": "Pods", "pods": {"metric": {"name": "a"}, "target": {"type": "Value", "value": "1"}}}),
            vec!["pods.target.averageValue: Required value: must specify a positive target averageValue"],
        ),
        (
            "of an object that is not named",
            json!({"type": "Object", "object": {"describedObject": {"kind": "Service"}, "metric": {"name": "a/b"},
                "target": {"type": "Value"}}}),
            vec![
                "object.describedObject.name: Required value",
                r#"object.metric.name: Invalid value: "a/b": may not contain '/'"#,
                "object.target.averageValue: Required value: must set either a target value or averageValue",
            ],
        ),
    ];
    for (name, metric, expected) in rows {
        let found = messages(&HorizontalPodAutoscaler, &scaler(|object| object["spec"]["metrics"] = json!([metric])));
        let expected: Vec<String> = expected.iter().map(|message| format!("spec.metrics[0].{message}")).collect();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_version_is_looked_at_once() {
    let core = scaler(|object| object["spec"]["scaleTargetRef"]["apiVersion"] = json!("v1"));
    assert!(update_messages(&HorizontalPodAutoscaler, &core, &core, Part::Main).is_empty());
    assert_eq!(update_messages(&HorizontalPodAutoscaler, &core, &scaler(|_| {}), Part::Main).len(), 1);
    let counted = scaler(|object| object["status"] = json!({"currentReplicas": -1}));
    assert_eq!(
        update_messages(&HorizontalPodAutoscaler, &counted, &counted, Part::Status),
        ["status.currentReplicas: Invalid value: -1: must be greater than or equal to 0"]
    );
}
