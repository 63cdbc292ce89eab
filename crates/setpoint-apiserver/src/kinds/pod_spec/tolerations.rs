//! Tolerations: which taints of a node a pod puts up with.

use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

/// Checks a list of tolerations.
pub(in crate::kinds) fn validate_tolerations(tolerations: Node<'_, '_>, errors: &mut Errors) {
    for toleration in tolerations.items() {
        validate(toleration, errors);
    }
}

fn validate(toleration: Node<'_, '_>, errors: &mut Errors) {
    let (key, operator) = (toleration.field("key"), toleration.field("operator"));
    let (value, effect) = (toleration.field("value"), toleration.field("effect"));
    if !key.str().is_empty() {
        labels::validate_label_key(key.str(), &key.path, errors);
    } else if operator.str() != "Exists" {
        errors.invalid(
            &operator.path,
            operator.str(),
            "operator must be Exists when `key` is empty, which means \"match all values and all keys\"",
        );
    }
    if toleration.field("tolerationSeconds").is_set() && effect.str() != "NoExecute" {
        errors.invalid(&effect.path, effect.str(), "effect must be 'NoExecute' when `tolerationSeconds` is set");
    }
    match operator.str() {
        "Equal" | "" => {
            let messages = names::label_value(value.str());
            if !messages.is_empty() {
                errors.invalid(&operator.path, value.str(), &messages.join(";"));
            }
        }
        "Exists" if !value.str().is_empty() => {
            errors.invalid(&operator.path, value.str(), "value must be empty when `operator` is 'Exists'");
        }
        "Exists" => {}
        // Comparing numbers is behind a feature gate in Kubernetes, and off.
        other @ ("Lt" | "Gt") => errors.unsupported(&operator.path, other, &["Equal", "Exists", "Lt", "Gt"]),
        other => errors.unsupported(&operator.path, other, &["Equal", "Exists"]),
    }
    const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];
    if !effect.str().is_empty() && !EFFECTS.contains(&effect.str()) {
        errors.unsupported(&effect.path, effect.str(), &EFFECTS);
    }
}
