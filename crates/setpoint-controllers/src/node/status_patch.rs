//! The patch that makes a Pod's status what it should be, and touches nothing else.

use k8s_openapi::api::core::v1::{Pod, PodStatus};
use serde_json::{Map, Value, json};
use setpoint_core::pod::ports::ASSIGNED_PORTS;

/// Lists that a strategic merge patch would add to.
const MERGED: [&str; 2] = ["hostIPs", "podIPs"];

/// A strategic merge patch of the status, for this Pod alone and not for another of its name. Conditions that others write
/// meanwhile stay. What the Pod says of its ports, if there is news of that, comes with it.
pub(super) fn patch(pod: &Pod, status: &PodStatus, ports: Option<&str>) -> Value {
    let old = members(pod.status.as_ref());
    let new = members(Some(status));
    let mut changed = Map::new();
    for (name, value) in &new {
        if old.get(name) == Some(value) {
            continue;
        }
        let mut value = value.clone();
        if let (true, Value::Array(items)) = (MERGED.contains(&name.as_str()) && old.contains_key(name), &mut value) {
            items.insert(0, json!({"$patch": "replace"}));
        }
        if let ("conditions", Value::Array(items)) = (name.as_str(), &mut value) {
            items.iter_mut().for_each(|item| take_back(item, old.get(name)));
        }
        changed.insert(name.clone(), value);
    }
    for name in old.keys().filter(|name| !new.contains_key(*name)) {
        changed.insert(name.clone(), Value::Null);
    }
    let mut metadata = json!({"uid": pod.metadata.uid});
    if let Some(ports) = ports {
        metadata["annotations"] = json!({ASSIGNED_PORTS: ports});
    }
    json!({"metadata": metadata, "status": changed})
}

/// Has a condition lose what it no longer says: a condition is merged with the one of its type, member by member.
fn take_back(condition: &mut Value, old: Option<&Value>) {
    let same = |other: &&Value| other["type"] == condition["type"];
    let Some(old) = old.and_then(Value::as_array).and_then(|old| old.iter().find(same)).cloned() else { return };
    if let (Value::Object(new), Value::Object(old)) = (condition, old) {
        for (name, _) in old {
            new.entry(name).or_insert(Value::Null);
        }
    }
}

fn members(status: Option<&PodStatus>) -> Map<String, Value> {
    match serde_json::to_value(status.cloned().unwrap_or_default()) {
        Ok(Value::Object(members)) => members,
        _ => Map::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_changed_is_in_the_patch() {
        let old = json!({"phase": "Running", "reason": "x", "podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}], "qosClass": "BestEffort"});
        let rows = [
            ("nothing", old.clone(), json!({})),
            (
                "a phase",
                json!({"phase": "Failed", "reason": "x", "podIP": "1.1.1.1", "podIPs": [{"ip": "1.1.1.1"}], "qosClass": "BestEffort"}),
                json!({"phase": "Failed"}),
            ),
            (
                "a reason that is gone, another address",
                json!({"phase": "Running", "podIP": "2.2.2.2", "podIPs": [{"ip": "2.2.2.2"}], "qosClass": "BestEffort"}),
                json!({"reason": null, "podIP": "2.2.2.2", "podIPs": [{"$patch": "replace"}, {"ip": "2.2.2.2"}]}),
            ),
        ];
        for (name, new, expected) in rows {
            let pod: Pod = serde_json::from_value(json!({"metadata": {"uid": "u"}, "status": old})).unwrap();
            let status: PodStatus = serde_json::from_value(new).unwrap();
            assert_eq!(patch(&pod, &status, None), json!({"metadata": {"uid": "u"}, "status": expected}), "{name}");
        }
        let pod = json!({"status": {"conditions": [{"type": "Ready", "status": "False", "reason": "NotYet", "message": "soon"}]}});
        let status: PodStatus =
            serde_json::from_value(json!({"conditions": [{"type": "Ready", "status": "True"}]})).unwrap();
        let condition = &patch(&serde_json::from_value(pod).unwrap(), &status, None)["status"]["conditions"][0];
        assert_eq!(*condition, json!({"type": "Ready", "status": "True", "reason": null, "message": null}));
        let status: PodStatus = serde_json::from_value(json!({"podIPs": [{"ip": "2.2.2.2"}]})).unwrap();
        let expected = json!({"metadata": {"uid": null}, "status": {"podIPs": [{"ip": "2.2.2.2"}]}});
        assert_eq!(patch(&Pod::default(), &status, None), expected, "a first address replaces nothing");
        let told = &patch(&Pod::default(), &status, Some("80=20001"))["metadata"]["annotations"];
        assert_eq!(*told, json!({"setpoint.dev/assigned-ports": "80=20001"}));
    }
}
