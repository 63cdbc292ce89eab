//! Pods: containers that run together on one node.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kind::{Behaviour, Column, Part, SelectableField};
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::defaults::{fill, remove, section};
use super::pod_binding;
use super::pod_columns;
use super::pod_priority::priority_of;
use super::pod_spec::{self, each, fill_pod, fill_pod_spec, quality_of_service, within};
use super::pod_status::{self, validate_annotations};
use super::pod_update;

#[derive(Debug)]
pub struct Pod;

/// How long a pod stays on a node that is not ready or cannot be reached, if it does not say.
const DEFAULT_TOLERATION_SECONDS: i64 = 300;

impl Behaviour for Pod {
    fn default(&self, object: &mut Value) {
        let spec = section(object, "spec");
        fill_pod_spec(spec);
        fill_pod(spec);
        pod_status::fill_status(section(object, "status"));
    }

    fn prepare_create(&self, object: &mut Value) {
        tolerate_nodes_for_a_while(&mut object["spec"]);
        if let Ok(priority) = priority_of(object) {
            fill(&mut object["spec"], "priority", priority.value);
            fill(&mut object["spec"], "preemptionPolicy", priority.preemption_policy);
        }
        select_by_own_labels(object);
        object["status"] = json!({"phase": "Pending"});
        if object["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty()) {
            object["status"]["conditions"] = json!([{
                "type": "PodScheduled",
                "status": "False",
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
                "lastProbeTime": null,
                "lastTransitionTime": object["metadata"]["creationTimestamp"],
            }]);
        }
        object["status"]["qosClass"] = quality_of_service(&object["spec"]).into();
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        match part {
            Part::Main => {
                tolerate_nodes_for_a_while(&mut object["spec"]);
                for field in ["priority", "preemptionPolicy"] {
                    if !old["spec"][field].is_null() {
                        fill(&mut object["spec"], field, old["spec"][field].clone());
                    }
                }
            }
            Part::Status => pod_status::keep_from_old(&mut object["status"], &old["status"]),
            Part::Other(_) => {
                let containers = object["spec"]["ephemeralContainers"].take();
                for field in ["spec", "status"] {
                    object[field] = old[field].clone();
                }
                if containers.is_null() {
                    remove(&mut object["spec"], "ephemeralContainers");
                } else {
                    object["spec"]["ephemeralContainers"] = containers;
                }
            }
        }
    }

    fn untouched_fields(&self, part: Part) -> &'static [&'static [&'static str]] {
        match part {
            Part::Status => &[&["spec"], &["metadata", "deletionTimestamp"], &["metadata", "ownerReferences"]],
            Part::Main | Part::Other(_) => &[],
        }
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_spec(object, errors);
        let spec = object.field("spec");
        let ephemeral = spec.field("ephemeralContainers");
        if !ephemeral.is_empty() {
            errors.forbidden(&ephemeral.path, "cannot be set on create");
        }
        let node = spec.field("nodeName");
        if !node.str().is_empty() && !spec.field("schedulingGates").is_empty() {
            errors.forbidden(&node.path, "cannot be set until all schedulingGates have been cleared");
        }
        let metadata = object.field("metadata");
        pod_spec::validate_seccomp_annotations(metadata.field("annotations").value, spec, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        match part {
            Part::Main => {
                validate_spec(object, errors);
                pod_status::validate_annotation_changes(object, old, errors);
                pod_update::validate_spec_change(object.field("spec"), &old["spec"], errors);
            }
            Part::Status => {
                pod_status::validate_annotation_changes(object, old, errors);
                pod_status::validate_status(object, old, errors);
            }
            Part::Other(_) => {
                validate_spec(object, errors);
                pod_status::validate_annotation_changes(object, old, errors);
                pod_update::validate_ephemeral_containers(object.field("spec"), old, errors);
            }
        }
    }

    fn admit(&self, object: &Value) -> Result<(), String> {
        priority_of(object).map(|_| ())
    }

    fn grace_period_seconds(&self, object: &Value, requested: Option<i64>) -> Option<i64> {
        Some(pod_binding::grace_period_seconds(object, requested))
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        let name = object.field("metadata").field("name").str();
        let messages = names::dns1123_label(name);
        if old.is_some() || messages.is_empty() {
            return Vec::new();
        }
        let listed = messages.join(" ");
        vec![format!(
            "metadata.name: this is used in the Pod's hostname, which can result in surprising behavior; a DNS label is \
             recommended: [{listed}]"
        )]
    }

    fn columns(&self) -> &[Column] {
        &pod_columns::COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        pod_columns::cells(object, now)
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &SELECTABLE_FIELDS
    }
}

const SELECTABLE_FIELDS: [SelectableField; 9] = [
    SelectableField { name: "spec.nodeName", value: |pod| text(&pod["spec"]["nodeName"]) },
    SelectableField { name: "spec.restartPolicy", value: |pod| text(&pod["spec"]["restartPolicy"]) },
    SelectableField { name: "spec.schedulerName", value: |pod| text(&pod["spec"]["schedulerName"]) },
    SelectableField { name: "spec.serviceAccountName", value: |pod| text(&pod["spec"]["serviceAccountName"]) },
    SelectableField {
        name: "spec.hostNetwork",
        value: |pod| (pod["spec"]["hostNetwork"].as_bool() == Some(true)).to_string(),
    },
    SelectableField { name: "status.phase", value: |pod| text(&pod["status"]["phase"]) },
    SelectableField { name: "status.podIP", value: first_ip },
    SelectableField { name: "status.podIPs", value: first_ip },
    SelectableField { name: "status.nominatedNodeName", value: |pod| text(&pod["status"]["nominatedNodeName"]) },
];

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn first_ip(pod: &Value) -> String {
    text(&pod["status"]["podIPs"][0]["ip"])
}

fn validate_spec(object: Node<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    validate_annotations(metadata.field("annotations"), spec, errors);
    pod_spec::validate(spec, Some(metadata.value), errors);
    pod_spec::validate_only_in_pod(spec, errors);
}

/// Lets a pod stay for five minutes on a node that fails, unless it says how long it stays.
fn tolerate_nodes_for_a_while(spec: &mut Value) {
    for taint in ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"] {
        let tolerates = |toleration: &Value| {
            let says = |field: &str| toleration[field].as_str().unwrap_or_default();
            matches!(says("effect"), "" | "NoExecute")
                && (says("key") == taint || says("key").is_empty() && says("operator") == "Exists")
        };
        let listed = spec["tolerations"].as_array().is_some_and(|list| list.iter().any(tolerates));
        if !listed {
            fill(spec, "tolerations", json!([]));
            if let Some(list) = spec["tolerations"].as_array_mut() {
                list.push(json!({
                    "key": taint,
                    "operator": "Exists",
                    "effect": "NoExecute",
                    "tolerationSeconds": DEFAULT_TOLERATION_SECONDS,
                }));
            }
        }
    }
}

/// `matchLabelKeys` and `mismatchLabelKeys` name labels whose values are taken from the pod itself: they become part of
/// the selector beside them.
fn select_by_own_labels(pod: &mut Value) {
    let labels = pod["metadata"]["labels"].clone();
    let add = |term: &mut Value| {
        for (keys, operator) in [("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")] {
            let keys = term[keys].as_array().cloned().unwrap_or_default();
            for key in keys.iter().filter_map(Value::as_str) {
                if let (Some(value), true) = (labels.get(key), term["labelSelector"].is_object()) {
                    fill(&mut term["labelSelector"], "matchExpressions", json!([]));
                    if let Some(expressions) = term["labelSelector"]["matchExpressions"].as_array_mut() {
                        expressions.push(json!({"key": key, "operator": operator, "values": [value]}));
                    }
                }
            }
        }
    };
    within(&mut pod["spec"], "affinity", |affinity| {
        for sort in ["podAffinity", "podAntiAffinity"] {
            within(affinity, sort, |affinity| {
                each(affinity, "requiredDuringSchedulingIgnoredDuringExecution", add);
                each(affinity, "preferredDuringSchedulingIgnoredDuringExecution", |weighted| {
                    within(weighted, "podAffinityTerm", add);
                });
            });
        }
    });
    each(&mut pod["spec"], "topologySpreadConstraints", add);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn created(spec: Value) -> Value {
        let metadata = json!({"name": "a", "labels": {"app": "web"}, "creationTimestamp": "2030-01-01T00:00:00Z"});
        let mut pod = json!({"metadata": metadata, "spec": spec});
        Behaviour::default(&Pod, &mut pod);
        Pod.prepare_create(&mut pod);
        pod
    }

    #[test]
    fn a_new_pod_is_pending() {
        let pod = created(json!({"containers": [{"name": "c", "image": "nginx"}]}));
        assert_eq!(pod["status"], json!({"phase": "Pending", "qosClass": "BestEffort"}));
        assert_eq!(
            (&pod["spec"]["priority"], &pod["spec"]["preemptionPolicy"]),
            (&json!(0), &json!("PreemptLowerPriority"))
        );
    }

    #[test]
    fn the_class_of_service_follows_from_the_resources() {
        let rows = [
            ("nothing asked", json!([{}]), "BestEffort"),
            ("limits alone", json!([{"limits": {"cpu": "1", "memory": "1Gi"}}]), "Guaranteed"),
            ("one of the two", json!([{"limits": {"cpu": "1"}}]), "Burstable"),
            ("less than the limit", json!([{"limits": {"cpu": "1"}, "requests": {"cpu": "500m"}}]), "Burstable"),
            ("one container of two", json!([{"limits": {"cpu": "1", "memory": "1Gi"}}, {}]), "Burstable"),
        ];
        for (name, resources, expected) in rows {
            let containers: Vec<Value> =
                resources.as_array().expect("a list").iter().map(|resources| json!({"resources": resources})).collect();
            assert_eq!(created(json!({"containers": containers}))["status"]["qosClass"], expected, "{name}");
        }
    }

    #[test]
    fn a_gated_pod_says_so() {
        let pod = created(json!({"schedulingGates": [{"name": "wait"}]}));
        let condition = &pod["status"]["conditions"][0];
        assert_eq!((&condition["type"], &condition["reason"]), (&json!("PodScheduled"), &json!("SchedulingGated")));
    }

    #[test]
    fn pods_stay_on_failing_nodes_for_a_while() {
        let keys = |tolerations: Value| {
            let pod = created(json!({"tolerations": tolerations}));
            let list = pod["spec"]["tolerations"].as_array().expect("a list").clone();
            list.iter().map(|toleration| text(&toleration["key"])).collect::<Vec<_>>()
        };
        assert_eq!(keys(json!([])), ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
        assert_eq!(keys(json!([{"operator": "Exists"}])), [""], "it tolerates everything already");
        let own = json!([{"key": "node.kubernetes.io/not-ready", "operator": "Exists", "effect": "NoExecute"}]);
        assert_eq!(keys(own), ["node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"]);
    }

    #[test]
    fn label_keys_become_part_of_the_selector() {
        let pod = created(json!({"topologySpreadConstraints": [
            {"labelSelector": {}, "matchLabelKeys": ["app", "absent"]},
        ]}));
        assert_eq!(
            pod["spec"]["topologySpreadConstraints"][0]["labelSelector"],
            json!({"matchExpressions": [{"key": "app", "operator": "In", "values": ["web"]}]})
        );
    }

    #[test]
    fn only_ephemeral_containers_change_through_their_subresource() {
        let old = json!({"metadata": {"name": "a"}, "spec": {"nodeName": "n"}, "status": {"phase": "Running"}});
        let mut new =
            json!({"metadata": {"name": "a"}, "spec": {"nodeName": "m", "ephemeralContainers": [{"name": "d"}]}});
        Pod.prepare_update(&mut new, &old, Part::Other("ephemeralcontainers"));
        assert_eq!(new["spec"], json!({"nodeName": "n", "ephemeralContainers": [{"name": "d"}]}));
        assert_eq!(new["status"], old["status"]);
    }
}
