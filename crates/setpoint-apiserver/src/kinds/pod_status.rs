//! The status of a pod, and the annotations that mean something to Kubernetes.

use std::net::IpAddr;

use serde_json::{Value, json};

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::defaults::fill;
use super::immutable::validate_immutable;
use super::lookup::first_by;
use super::pod_spec::{each, ip_address};

/// Marks the image in the API of a pod that a node runs on its own account.
const MIRROR: &str = "kubernetes.io/config.mirror";
const DELETION_COST: &str = "controller.kubernetes.io/pod-deletion-cost";
const APP_ARMOR_PREFIX: &str = "container.apparmor.security.beta.kubernetes.io/";

/// Keeps `podIP` and the first of `podIPs` the same; where they differ, the single one counts.
pub(super) fn fill_status(status: &mut Value) {
    let first = status["podIPs"][0]["ip"].as_str().map(str::to_owned);
    match (status["podIP"].as_str().map(str::to_owned), first) {
        (Some(ip), first) if first.as_deref() != Some(&ip) => status["podIPs"] = json!([{"ip": ip}]),
        (None, Some(first)) => status["podIP"] = first.into(),
        _ => {}
    }
}

/// Takes over what a writer of the status need not know.
pub(super) fn keep_from_old(status: &mut Value, old: &Value) {
    for field in ["qosClass", "observedGeneration", "resourceClaimStatuses", "extendedResourceClaimStatus"] {
        if let Some(value) = old.get(field) {
            fill(status, field, value.clone());
        }
    }
    let before = first_by(&old["conditions"], "type");
    each(status, "conditions", |condition| {
        let same = before.get(condition["type"].as_str().unwrap_or_default());
        if let Some(generation) = same.and_then(|old| old.get("observedGeneration")) {
            fill(condition, "observedGeneration", generation.clone());
        }
    });
}

/// Checks the annotations of a pod or template that mean something.
pub(super) fn validate_annotations(annotations: Node<'_, '_>, spec: Node<'_, '_>, errors: &mut Errors) {
    let mirror = annotations.value.get(MIRROR);
    if let Some(value) = mirror.filter(|_| spec.field("nodeName").str().is_empty()) {
        let detail = "must set spec.nodeName if mirror pod annotation is set";
        errors.invalid(&annotations.path.key(MIRROR), value.clone(), detail);
    }
    if let Some(cost) = annotations.value.get(DELETION_COST).and_then(Value::as_str) {
        // Kubernetes takes the plain spelling of a number only: no sign but a minus, no leading zero.
        let canonical = cost.parse::<i32>().is_ok_and(|value| value.to_string() == cost);
        if !canonical {
            errors.invalid(&annotations.path.key(DELETION_COST), cost, "must be a 32bit integer");
        }
    }
}

/// Checks that annotations which count from the start are not changed later.
pub(super) fn validate_annotation_changes(object: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let metadata = object.field("metadata");
    let annotations = metadata.field("annotations");
    let before = &old["metadata"]["annotations"];
    let keys = |map: &Value| map.as_object().into_iter().flat_map(|map| map.keys().cloned()).collect::<Vec<_>>();
    for key in keys(before) {
        if annotations.value.get(&key) != before.get(&key) {
            forbid_change(&key, "remove or update", annotations, errors);
        }
    }
    for key in keys(annotations.value).into_iter().filter(|key| before.get(key).is_none()) {
        forbid_change(&key, "add", annotations, errors);
    }
    validate_annotations(annotations, object.field("spec"), errors);
}

fn forbid_change(key: &str, verb: &str, annotations: Node<'_, '_>, errors: &mut Errors) {
    if key.starts_with(APP_ARMOR_PREFIX) {
        errors.forbidden(&annotations.path.key(key), &format!("may not {verb} AppArmor annotations"));
    }
    if key == MIRROR {
        errors.forbidden(&annotations.path.key(key), &format!("may not {verb} mirror pod annotation"));
    }
}

/// Checks a new status against the old one.
pub(super) fn validate_status(object: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let status = object.field("status");
    let before = &old["status"];
    for condition in status.field("conditions").items() {
        let generation = condition.field("observedGeneration");
        if let Some(number) = generation.i64().filter(|number| *number < 0) {
            errors.invalid(&generation.path, number, "must be a non-negative integer");
        }
        let sort = condition.field("type").str();
        if !matches!(sort, "PodScheduled" | "Ready" | "Initialized") {
            for message in names::qualified_name(sort) {
                errors.invalid(&condition.path.field("Type"), sort, &message);
            }
        }
    }
    validate_nominated_node(status, old, errors);
    let generation = status.field("observedGeneration");
    if let Some(number) = generation.i64().filter(|number| *number < 0) {
        errors.invalid(&generation.path, number, "must be a non-negative integer");
    }
    validate_immutable(status.field("qosClass"), &before["qosClass"], errors);
    for (list, containers) in [("containerStatuses", "containers"), ("initContainerStatuses", "initContainers")] {
        let containers = first_by(&old["spec"][containers], "name");
        validate_transitions(status.field(list), &before[list], errors, |name, exit_code| {
            containers.get(name).is_some_and(|container| may_restart(&old["spec"], container, exit_code))
        });
    }
    let ephemeral = "ephemeralContainerStatuses";
    validate_transitions(status.field(ephemeral), &before[ephemeral], errors, |_, _| false);
    validate_ips(status, "podIPs", errors);
    let (pod_ip, pod_ips) = (status.field("podIP"), status.field("podIPs"));
    if pod_ip.str().is_empty() != pod_ips.is_empty() {
        let detail = "podIP and podIPs must either both be set or both be unset";
        errors.invalid(&pod_ips.path, pod_ips.value, detail);
    }
    if let Some(first) = status.value["hostIPs"][0]["ip"].as_str()
        && first != status.field("hostIP").str()
    {
        let host_ips = status.path.field("hostIPs");
        errors.invalid(&host_ips.index(0).field("ip"), first, "must be equal to `hostIP`");
    }
    validate_ips(status, "hostIPs", errors);
}

fn validate_nominated_node(status: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let nominated = status.field("nominatedNodeName");
    if nominated.str().is_empty() || old["status"]["nominatedNodeName"] == *nominated.value {
        return;
    }
    for message in names::dns1123_subdomain(nominated.str()) {
        errors.invalid(&nominated.path, nominated.str(), &message);
    }
    if !old["spec"]["nodeName"].as_str().unwrap_or_default().is_empty() {
        errors.forbidden(&nominated.path, "may not be set on pods that are already bound to a node");
    }
}

/// A container that has ended for good does not come back.
fn validate_transitions(
    statuses: Node<'_, '_>,
    old: &Value,
    errors: &mut Errors,
    may_restart: impl Fn(&str, i64) -> bool,
) {
    let before = old.as_array().map(Vec::as_slice).unwrap_or_default();
    let by_name = first_by(statuses.value, "name");
    for (index, was) in before.iter().enumerate() {
        let (name, terminated) = (was["name"].as_str().unwrap_or_default(), &was["state"]["terminated"]);
        let Some(now) = by_name.get(name) else { continue };
        let came_back = terminated.is_object() && now["state"]["terminated"].is_null();
        if came_back && !may_restart(name, terminated["exitCode"].as_i64().unwrap_or(0)) {
            let path = statuses.path.index(index);
            errors.forbidden(&path.field("state"), "may not be transitioned to non-terminated state");
        }
    }
}

/// Whether a container that ended with this code is started again.
fn may_restart(spec: &Value, container: &Value, exit_code: i64) -> bool {
    let listed = |rule: &Value| {
        let codes = rule["exitCodes"]["values"].as_array().map(Vec::as_slice).unwrap_or_default();
        codes.iter().any(|code| code.as_i64() == Some(exit_code)) == (rule["exitCodes"]["operator"] == "In")
    };
    let rules = container["restartPolicyRules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let policy = container["restartPolicy"].as_str().or(spec["restartPolicy"].as_str());
    rules.iter().any(|rule| rule["action"] == "Restart" && listed(rule))
        || match policy {
            Some("Never") => false,
            Some("OnFailure") => exit_code != 0,
            _ => true,
        }
}

/// Checks a list of addresses: at most one of each family.
fn validate_ips(status: Node<'_, '_>, field: &str, errors: &mut Errors) {
    let list = status.field(field);
    for item in list.items() {
        ip_address(item.field("ip").str(), &item.path, errors);
    }
    let families = |v6: bool| {
        let is_of_family = |ip: &IpAddr| ip.is_ipv6() == v6;
        list.items().filter_map(|item| item.field("ip").str().parse().ok()).filter(is_of_family).count()
    };
    if list.len() > 1 && (families(true) != 1 || families(false) != 1 || list.len() > 2) {
        errors.invalid(&list.path, list.value, "may specify no more than one IP for each IP family");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_agree() {
        let rows = [
            ("only one", json!({"podIP": "10.0.0.1"}), json!({"podIP": "10.0.0.1", "podIPs": [{"ip": "10.0.0.1"}]})),
            ("only the list", json!({"podIPs": [{"ip": "::1"}]}), json!({"podIP": "::1", "podIPs": [{"ip": "::1"}]})),
            (
                "the single one decides",
                json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]}),
                json!({"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.2"}]}),
            ),
        ];
        for (name, mut status, expected) in rows {
            fill_status(&mut status);
            assert_eq!(status, expected, "{name}");
        }
    }

    #[test]
    fn statuses_are_checked() {
        let ended = |code: i64| json!([{"name": "c", "state": {"terminated": {"exitCode": code}}}]);
        let running = json!([{"name": "c", "state": {"running": {}}}]);
        let back =
            vec!["status.containerStatuses[0].state: Forbidden: may not be transitioned to non-terminated state"];
        let rows = [
            (
                "a failed container starts again",
                "OnFailure",
                json!({"containerStatuses": ended(1)}),
                running.clone(),
                vec![],
            ),
            (
                "a finished one does not",
                "OnFailure",
                json!({"containerStatuses": ended(0)}),
                running.clone(),
                back.clone(),
            ),
            ("unless it always runs", "Always", json!({"containerStatuses": ended(0)}), running.clone(), vec![]),
            ("or never", "Never", json!({"containerStatuses": ended(1)}), running, back),
        ];
        for (name, policy, before, statuses, expected) in rows {
            let spec = json!({"restartPolicy": policy, "containers": [{"name": "c"}]});
            let old = json!({"spec": spec, "status": before});
            let new = json!({"spec": spec, "status": {"containerStatuses": statuses}});
            let mut errors = Errors::default();
            validate_status(Node::root(&new), &old, &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn known_annotations_are_checked() {
        let rows = [
            ("a cost", json!({DELETION_COST: "-10"}), vec![]),
            (
                "no number",
                json!({DELETION_COST: "+1"}),
                vec!["at[controller.kubernetes.io/pod-deletion-cost]: Invalid value: \"+1\": must be a 32bit integer"],
            ),
            (
                "a mirror without a node",
                json!({MIRROR: "x"}),
                vec![
                    "at[kubernetes.io/config.mirror]: Invalid value: \"x\": must set spec.nodeName if mirror pod \
                     annotation is set",
                ],
            ),
        ];
        for (name, annotations, expected) in rows {
            let mut errors = Errors::default();
            let at = Node { value: &annotations, path: setpoint_api::field::Path::of("at") };
            validate_annotations(at, Node::root(&Value::Null), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
