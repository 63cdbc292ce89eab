//! Which ChangeSets are taken.

use serde_json::{Value, json};
use setpoint_api::change_set::ChangeSet;

use crate::fixture::{object, told, typed};

fn change_set(spec: &Value) -> ChangeSet {
    let least = json!({"environment": "rack", "mode": "Preview", "requestedBy": "alice"});
    typed(object("ChangeSet", &least, spec))
}

#[test]
fn what_is_wrong_is_said_with_its_field() {
    let config_map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "data": {"k": "v"}});
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}});
    let filled = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "dg=="}});
    let many = vec![config_map.clone(); 1_001];
    let rows: Vec<(&str, Value, &[&str])> = vec![
        ("the least that is a change set", json!({}), &[]),
        ("objects of any kind", json!({"objects": [config_map]}), &[]),
        (
            "a change set never carries a Secret",
            json!({"objects": [secret]}),
            &["spec.objects[0].kind: Forbidden: a change set never carries Secrets"],
        ),
        (
            "nor one in a list",
            json!({"objects": [{"apiVersion": "v1", "kind": "List", "metadata": {"name": "a"}, "items": [filled]}]}),
            &["spec.objects[0].kind: Forbidden: a change set never carries Secrets"],
        ),
        (
            "nor one in a list in a list",
            json!({"objects": [{"apiVersion": "v1", "kind": "List", "metadata": {"name": "a"}, "items": [
                {"apiVersion": "v1", "kind": "List", "items": [filled]},
            ]}]}),
            &["spec.objects[0].kind: Forbidden: a change set never carries Secrets"],
        ),
        (
            "nor any other list",
            json!({"objects": [{"apiVersion": "v1", "kind": "ConfigMapList", "metadata": {"name": "a"}, "items": []}]}),
            &["spec.objects[0].kind: Forbidden: a change set names its objects one by one, not in lists"],
        ),
        (
            "what only refers to a Secret is taken",
            json!({"objects": [{"apiVersion": "v1", "kind": "A", "metadata": {"name": "a"}, "spec": {"ref": {"kind": "Secret", "name": "s"}}}]}),
            &[],
        ),
        (
            "an object says what it is",
            json!({"objects": [{}]}),
            &[
                "spec.objects[0].apiVersion: Required value",
                "spec.objects[0].kind: Required value",
                "spec.objects[0].metadata.name: Required value",
            ],
        ),
        (
            "objects have a bound",
            json!({"objects": many}),
            &["spec.objects: Too many: 1001: must have at most 1000 items"],
        ),
        ("somebody asks", json!({"requestedBy": ""}), &["spec.requestedBy: Required value: the user who asks"]),
        (
            "who asks is one line",
            json!({"requestedBy": "a\nb"}),
            &[r#"spec.requestedBy: Invalid value: "a\nb": must be one line without control characters"#],
        ),
        ("it is about an environment", json!({"environment": ""}), &["spec.environment: Required value"]),
    ];
    for (name, spec, says) in rows {
        assert_eq!(told(&change_set(&spec).validate()), says, "{name}");
    }
}

#[test]
fn what_was_asked_stays() {
    let old = change_set(&json!({}));
    assert!(change_set(&json!({})).validate_update(&old).is_empty());
    assert_eq!(
        told(&change_set(&json!({"mode": "Execute"})).validate_update(&old)),
        ["spec: Forbidden: the spec of a change set cannot be changed"]
    );
}

#[test]
fn a_status_round_trips() {
    let status = json!({
        "observedGeneration": 1,
        "phase": "Waiting",
        "steps": [{
            "id": "shop/web/delete", "target": {"namespace": "shop", "name": "web", "kind": "Machine"},
            "action": "Delete", "providerId": "101", "reason": "wanted by nothing", "origin": "Unrecorded",
            "class": "Destructive", "classReason": "holds data", "digest": "sha256:00",
        }],
        "counts": {"creates": 0, "updates": 0, "deletes": 1, "unchanged": 3, "waiting": 0, "refused": 0},
        "hourlyCostDelta": "-0.34",
        "gateRef": {"name": "rack-1"},
        "stepStates": [{"id": "shop/web/delete", "digest": "sha256:00", "state": "Waiting", "message": "for an approval", "since": "2026-01-02T03:04:05Z"}],
        "conditions": [{"type": "Approved", "status": "False", "lastTransitionTime": "2026-01-02T03:04:05Z"}],
        "observedAt": "2026-01-02T03:04:05Z",
    });
    let mut whole = serde_json::to_value(change_set(&json!({}))).unwrap();
    whole["status"] = status.clone();
    let read: ChangeSet = typed(whole);
    assert_eq!(serde_json::to_value(read.status).unwrap(), status);
}
