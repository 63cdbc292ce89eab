//! What of a pod's spec may change once the pod exists: very little.

use std::collections::HashSet;

use serde_json::{Value, json};

use setpoint_api::field::{Errors, Node};

use super::defaults::{items, remove, section};
use super::lookup::first_by;
use super::pod_spec::{spec_difference, validate_tolerations};

const MAY_CHANGE: &str = "pod updates may not change fields other than `spec.containers[*].image`,\
    `spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing \
    tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)";

/// Checks a new spec against the old one.
pub(super) fn validate_spec_change(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    for list in ["containers", "initContainers"] {
        let containers = spec.field(list);
        if containers.len() != old[list].as_array().map_or(0, Vec::len) {
            return errors.forbidden(&containers.path, "pod updates may not add or remove containers");
        }
        for container in containers.items() {
            let image = container.field("image");
            if image.str().is_empty() {
                // What has a command can do without an image, as when it is created.
                if container.field("command").is_empty() {
                    errors.required(&image.path, "");
                }
            } else if image.str().trim() != image.str() {
                errors.invalid(&image.path, image.str(), "must not have leading or trailing whitespace");
            }
        }
    }
    if !validate_deadline(spec, old, errors) {
        return;
    }
    validate_added_tolerations(spec.field("tolerations"), &old["tolerations"], errors);
    validate_removed_gates(spec.field("schedulingGates"), &old["schedulingGates"], errors);
    let mut comparable = without_changeable(spec.value, old);
    if old["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        validate_gated(spec, old, &mut comparable, errors);
    }
    if comparable != *old {
        errors.forbidden(&spec.path, &format!("{MAY_CHANGE}\n{}", spec_difference(old, &comparable)));
    }
}

/// A deadline may be set, and moved closer. False if it is so wrong that nothing else is worth saying.
fn validate_deadline(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) -> bool {
    let deadline = spec.field("activeDeadlineSeconds");
    match (deadline.i64(), old["activeDeadlineSeconds"].as_i64()) {
        (Some(now), _) if !(0..=i64::from(i32::MAX)).contains(&now) => {
            errors.invalid(&deadline.path, now, "must be between 0 and 2147483647, inclusive");
            false
        }
        (Some(now), Some(before)) if now > before => {
            errors.invalid(&deadline.path, now, "must be less than or equal to previous value");
            false
        }
        (None, Some(_)) => {
            errors.invalid(&deadline.path, Value::Null, "must not update from a positive integer to nil value");
            true
        }
        _ => true,
    }
}

fn validate_added_tolerations(tolerations: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let without_seconds = |toleration: &Value| {
        let mut toleration = toleration.clone();
        if let Some(fields) = toleration.as_object_mut() {
            fields.remove("tolerationSeconds");
        }
        toleration
    };
    let now: HashSet<Value> = tolerations.items().map(|toleration| without_seconds(toleration.value)).collect();
    let before = old.as_array().map(Vec::as_slice).unwrap_or_default();
    if before.iter().any(|toleration| !now.contains(&without_seconds(toleration))) {
        let detail = "existing toleration can not be modified except its tolerationSeconds";
        return errors.forbidden(&tolerations.path, detail);
    }
    validate_tolerations(tolerations, errors);
}

fn validate_removed_gates(gates: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let before = first_by(old, "name");
    for gate in gates.items().filter(|gate| !before.contains_key(gate.field("name").str())) {
        let name = gate.field("name");
        let detail = format!("only deletion is allowed, but found new scheduling gate '{}'", name.str());
        errors.forbidden(&name.path, &detail);
    }
}

/// The new spec with everything that may change as it was.
fn without_changeable(spec: &Value, old: &Value) -> Value {
    let mut spec = spec.clone();
    for list in ["containers", "initContainers"] {
        for (index, container) in items(&mut spec, list).enumerate() {
            restore(container, &old[list][index], "image");
        }
    }
    for field in ["activeDeadlineSeconds", "tolerations", "schedulingGates"] {
        restore(&mut spec, old, field);
    }
    let negative = old["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0);
    if negative && spec["terminationGracePeriodSeconds"] == 1 {
        restore(&mut spec, old, "terminationGracePeriodSeconds");
    }
    spec
}

fn restore(spec: &mut Value, old: &Value, field: &str) {
    match old.get(field) {
        Some(value) => spec[field] = value.clone(),
        None => remove(spec, field),
    }
}

/// A pod that is still held back by gates may be narrowed down to fewer nodes.
fn validate_gated(spec: Node<'_, '_>, old: &Value, comparable: &mut Value, errors: &mut Errors) {
    let selector = spec.field("nodeSelector");
    let kept = |(key, value): (&String, &Value)| selector.value.get(key) == Some(value);
    if !old["nodeSelector"].as_object().is_none_or(|before| before.iter().all(kept)) {
        let detail = "only additions to spec.nodeSelector are allowed (no mutations or deletions)";
        errors.invalid(&selector.path, selector.value, detail);
    }
    restore(comparable, old, "nodeSelector");
    let affinity = spec.field("affinity");
    validate_narrowed(affinity.field("nodeAffinity"), &old["affinity"]["nodeAffinity"], errors);
    let before = old.get("affinity");
    let node_affinity = before.and_then(|before| before.get("nodeAffinity"));
    if node_affinity.is_some() || comparable.get("affinity").is_some() {
        let parts = section(comparable, "affinity");
        match node_affinity {
            Some(node_affinity) => parts["nodeAffinity"] = node_affinity.clone(),
            None => remove(parts, "nodeAffinity"),
        }
        if before.is_none() && *parts == json!({}) {
            remove(comparable, "affinity");
        }
    }
}

fn validate_narrowed(affinity: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let required = affinity.field("requiredDuringSchedulingIgnoredDuringExecution");
    let terms = required.field("nodeSelectorTerms");
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let before = list(&old["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]);
    if before.is_empty() {
        return;
    }
    if before.len() != terms.len() {
        let detail = "no additions/deletions to non-empty NodeSelectorTerms list are allowed";
        return errors.invalid(&terms.path, terms.value, detail);
    }
    for (term, was) in terms.items().zip(&before) {
        let extended = ["matchExpressions", "matchFields"]
            .iter()
            .all(|field| list(term.field(field).value).starts_with(&list(&was[*field])));
        let was_empty = ["matchExpressions", "matchFields"].iter().all(|field| list(&was[*field]).is_empty());
        if !extended || was_empty && term.value != was {
            let detail = "only additions are allowed (no mutations or deletions)";
            errors.invalid(&term.path, term.value, detail);
        }
    }
}

/// Checks that ephemeral containers are only added.
pub(super) fn validate_ephemeral_containers(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let containers = spec.field("ephemeralContainers");
    let before = old["spec"]["ephemeralContainers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let now = first_by(containers.value, "name");
    for was in before {
        let name = was["name"].as_str().unwrap_or_default();
        match now.get(name) {
            None => {
                let detail = format!("existing ephemeral containers \"{name}\" may not be removed\n");
                errors.forbidden(&containers.path, &detail);
            }
            Some(now) if *now != was => {
                let detail = format!("existing ephemeral containers \"{name}\" may not be changed\n");
                errors.forbidden(&containers.path, &detail);
            }
            Some(_) => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn little_of_a_pod_may_change() {
        let old = json!({
            "containers": [{"name": "c", "image": "a", "resources": {}}],
            "initContainers": [{"name": "process", "command": ["true"]}],
            "restartPolicy": "Always",
            "tolerations": [{"key": "k", "operator": "Exists", "tolerationSeconds": 5, "effect": "NoExecute"}],
            "schedulingGates": [{"name": "g"}],
            "activeDeadlineSeconds": 10,
        });
        type Change = fn(&mut Value);
        let rows: [(&str, Change, Vec<&str>); 12] = [
            ("nothing, also where there is a command and no image", |_| {}, vec![]),
            ("an image", |spec| spec["containers"][0]["image"] = json!("b"), vec![]),
            ("an image beside a command", |spec| spec["initContainers"][0]["image"] = json!("b"), vec![]),
            (
                "neither an image nor a command",
                |spec| spec["containers"][0]["image"] = json!(""),
                vec!["spec.containers[0].image: Required value"],
            ),
            ("how long a taint is tolerated", |spec| spec["tolerations"][0]["tolerationSeconds"] = json!(9), vec![]),
            ("a gate opened", |spec| spec["schedulingGates"] = json!([]), vec![]),
            ("fewer nodes for a gated pod", |spec| spec["nodeSelector"] = json!({"disk": "ssd"}), vec![]),
            (
                "an affinity for a gated pod",
                |spec| {
                    let terms = json!([{"matchExpressions": [{"key": "disk", "operator": "Exists"}]}]);
                    let required =
                        json!({"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}});
                    spec["affinity"] = json!({"nodeAffinity": required});
                },
                vec![],
            ),
            (
                "a later deadline",
                |spec| spec["activeDeadlineSeconds"] = json!(11),
                vec!["spec.activeDeadlineSeconds: Invalid value: 11: must be less than or equal to previous value"],
            ),
            (
                "a toleration gone",
                |spec| spec["tolerations"] = json!([]),
                vec![
                    "spec.tolerations: Forbidden: existing toleration can not be modified except its tolerationSeconds",
                ],
            ),
            (
                "a new gate",
                |spec| spec["schedulingGates"] = json!([{"name": "g"}, {"name": "h"}]),
                vec![
                    "spec.schedulingGates[1].name: Forbidden: only deletion is allowed, but found new scheduling gate 'h'",
                ],
            ),
            (
                "a container more",
                |spec| spec["containers"] = json!([{"name": "c", "image": "a"}, {"name": "d", "image": "a"}]),
                vec!["spec.containers: Forbidden: pod updates may not add or remove containers"],
            ),
        ];
        for (name, change, expected) in rows {
            let mut object = json!({"spec": old});
            change(&mut object["spec"]);
            let mut errors = Errors::default();
            let root = Node::root(&object);
            validate_spec_change(root.field("spec"), &old, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn a_pod_without_an_image_can_be_changed_as_any_other() {
        let rows = [
            ("a command", json!({"name": "c", "command": ["true"]}), vec![]),
            ("neither", json!({"name": "c"}), vec!["spec.containers[0].image: Required value"]),
        ];
        for (name, container, expected) in rows {
            let object = json!({"spec": {"containers": [container]}});
            let mut errors = Errors::default();
            validate_spec_change(Node::root(&object).field("spec"), &object["spec"], &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn a_forbidden_change_is_shown() {
        let old = json!({"containers": [], "restartPolicy": "Always"});
        let object = json!({"spec": {"containers": [], "restartPolicy": "Never"}});
        let root = Node::root(&object);
        let mut errors = Errors::default();
        validate_spec_change(root.field("spec"), &old, &mut errors);
        let message = errors.iter().next().expect("one error").to_string();
        assert!(message.starts_with("spec: Forbidden: pod updates may not change fields other than"), "{message}");
        assert!(message.contains("\n- \"RestartPolicy\": \"Always\",\n+ \"RestartPolicy\": \"Never\",\n"), "{message}");
    }
}
