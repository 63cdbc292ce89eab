//! The priority of a pod, which Kubernetes computes from the name of a priority class.

use serde_json::Value;

/// What admission gives to a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Priority {
    pub value: i64,
    pub preemption_policy: &'static str,
}

/// The classes that exist in every cluster. There are no others here.
const CLASSES: [(&str, i64); 2] = [("system-cluster-critical", 2_000_000_000), ("system-node-critical", 2_000_001_000)];

/// The priority of a new pod, or why it is refused (as `forbidden`).
pub fn priority_of(pod: &Value) -> Result<Priority, String> {
    let spec = &pod["spec"];
    let value = match spec["priorityClassName"].as_str() {
        None | Some("") => 0,
        Some(name) => CLASSES
            .iter()
            .find(|(class, _)| *class == name)
            .map(|(_, value)| *value)
            .ok_or_else(|| format!("no PriorityClass with name {name} was found"))?,
    };
    match spec["priority"].as_i64() {
        Some(given) if given != value => Err(format!(
            "the integer value of priority ({given}) must not be provided in pod spec; priority admission controller \
             computed {value} from the given PriorityClass name"
        )),
        _ => Ok(Priority { value, preemption_policy: "PreemptLowerPriority" }),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn priorities_come_from_classes() {
        let rows = [
            ("no class", json!({}), Ok(0)),
            ("a system class", json!({"priorityClassName": "system-node-critical"}), Ok(2_000_001_000)),
            ("an unknown class", json!({"priorityClassName": "x"}), Err("no PriorityClass with name x was found")),
            (
                "a number of one's own",
                json!({"priority": 7}),
                Err(
                    "the integer value of priority (7) must not be provided in pod spec; priority admission controller \
                     computed 0 from the given PriorityClass name",
                ),
            ),
        ];
        for (name, spec, expected) in rows {
            let priority = priority_of(&json!({"spec": spec})).map(|priority| priority.value);
            assert_eq!(priority, expected.map_err(str::to_owned), "{name}");
        }
    }
}
