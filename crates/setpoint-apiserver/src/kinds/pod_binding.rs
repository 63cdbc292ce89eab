//! What is done to a pod as a whole: binding it to a node, and the time it gets to end.

use jiff::Timestamp;
use serde_json::{Value, json};
use thiserror::Error;

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::defaults::{fill, remove, section};

/// Why a pod is not bound to the node it was to be bound to. Each is answered as a conflict on `pods/binding`.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum BindError {
    #[error("pod {pod} is already assigned to node \"{node}\"")]
    AlreadyBound { pod: String, node: String },
    #[error("pod {pod} is being deleted, cannot be assigned to a host")]
    BeingDeleted { pod: String },
    #[error("pod {pod} has non-empty .spec.schedulingGates")]
    Gated { pod: String },
}

/// Everything that must hold of a Binding.
pub fn validate_binding(binding: Node<'_, '_>, errors: &mut Errors) {
    let target = binding.field("target");
    let (kind, name) = (target.field("kind"), target.field("name"));
    let is_node = matches!(kind.str(), "" | "Node");
    if !is_node {
        errors.unsupported(&kind.path, kind.str(), &["Node", "<empty>"]);
    }
    if name.str().is_empty() {
        errors.required(&name.path, "");
    } else if is_node {
        for message in names::dns1123_subdomain(name.str()) {
            errors.invalid(&name.path, name.str(), &message);
        }
    }
}

/// Puts a pod on the node that a Binding names. This does not count as a change of its spec.
pub fn bind(pod: &mut Value, binding: &Value, now: Timestamp) -> Result<(), BindError> {
    let name = || pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    if pod["metadata"]["deletionTimestamp"].is_string() {
        return Err(BindError::BeingDeleted { pod: name() });
    }
    if let Some(node) = pod["spec"]["nodeName"].as_str().filter(|node| !node.is_empty()) {
        return Err(BindError::AlreadyBound { pod: name(), node: node.to_owned() });
    }
    if pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
        return Err(BindError::Gated { pod: name() });
    }
    section(pod, "spec")["nodeName"] = binding["target"]["name"].clone();
    if let Some(added) = binding["metadata"]["annotations"].as_object() {
        let annotations = section(&mut pod["metadata"], "annotations");
        for (key, value) in added {
            annotations[key] = value.clone();
        }
    }
    let status = section(pod, "status");
    remove(status, "nominatedNodeName");
    fill(status, "conditions", json!([]));
    if let Some(conditions) = status["conditions"].as_array_mut() {
        conditions.retain(|condition| condition["type"] != "PodScheduled");
        conditions.push(json!({
            "type": "PodScheduled",
            "status": "True",
            "lastProbeTime": null,
            "lastTransitionTime": now.strftime("%Y-%m-%dT%H:%M:%SZ").to_string(),
        }));
    }
    Ok(())
}

/// How long a pod that is deleted may take to end: not at all, unless something runs it.
pub fn grace_period_seconds(pod: &Value, requested: Option<i64>) -> i64 {
    let unscheduled = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
    if unscheduled || matches!(pod["status"]["phase"].as_str(), Some("Failed" | "Succeeded")) {
        return 0;
    }
    let seconds = requested.or(pod["spec"]["terminationGracePeriodSeconds"].as_i64()).unwrap_or(0);
    if seconds < 0 { 1 } else { seconds }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pod_is_bound_once() {
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        let binding = json!({"target": {"kind": "Node", "name": "n1"}});
        let mut pod = json!({"metadata": {"name": "a"}, "spec": {}, "status": {"phase": "Pending"}});
        bind(&mut pod, &binding, now).expect("a pod without a node can be bound");
        assert_eq!(pod["spec"]["nodeName"], "n1");
        assert_eq!(
            pod["status"]["conditions"],
            json!([{"type": "PodScheduled", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2030-01-01T00:00:00Z"}])
        );
        let again = bind(&mut pod, &binding, now).expect_err("it has a node");
        assert_eq!(again.to_string(), "pod a is already assigned to node \"n1\"");
    }

    #[test]
    fn a_binding_names_a_node() {
        let rows = [
            ("a node", json!({"kind": "Node", "name": "n1"}), vec![]),
            ("no kind", json!({"name": "n1"}), vec![]),
            (
                "another kind",
                json!({"kind": "Pod", "name": "n1"}),
                vec![r#"target.kind: Unsupported value: "Pod": supported values: "Node", "<empty>""#],
            ),
            ("no name", json!({"kind": "Node"}), vec!["target.name: Required value"]),
        ];
        for (name, target, expected) in rows {
            let binding = json!({"target": target});
            let mut errors = Errors::default();
            validate_binding(Node::root(&binding), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn only_a_pod_that_may_run_gets_time_to_end() {
        let bound =
            json!({"spec": {"nodeName": "n", "terminationGracePeriodSeconds": 30}, "status": {"phase": "Running"}});
        let rows = [
            ("its own time", bound.clone(), None, 30),
            ("the time asked for", bound.clone(), Some(3), 3),
            ("at once, if asked for", bound.clone(), Some(0), 0),
            ("a negative time is the shortest", bound, Some(-1), 1),
            ("no node", json!({"spec": {"terminationGracePeriodSeconds": 30}}), Some(3), 0),
            ("ended", json!({"spec": {"nodeName": "n"}, "status": {"phase": "Failed"}}), Some(3), 0),
        ];
        for (name, pod, requested, expected) in rows {
            assert_eq!(grace_period_seconds(&pod, requested), expected, "{name}");
        }
    }
}
