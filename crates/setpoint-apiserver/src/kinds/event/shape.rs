//! The two shapes of an Event: the same values under other names.

use serde_json::{Map, Value};

/// The fields whose names differ: in core, and in `events.k8s.io`.
const RENAMED: [(&str, &str); 7] = [
    ("involvedObject", "regarding"),
    ("message", "note"),
    ("source", "deprecatedSource"),
    ("firstTimestamp", "deprecatedFirstTimestamp"),
    ("lastTimestamp", "deprecatedLastTimestamp"),
    ("count", "deprecatedCount"),
    ("reportingComponent", "reportingController"),
];

/// Fields that `events.k8s.io` leaves out when they are empty, and core does not.
const OMITTED_IF_EMPTY: [&str; 2] = ["reportingController", "reportingInstance"];

pub(super) fn to_core(object: Value) -> Value {
    rename(object, "v1", |name| RENAMED.iter().find(|(_, events)| *events == name).map(|(core, _)| *core))
}

pub(super) fn from_core(object: Value) -> Value {
    let rename_field = |name: &str| RENAMED.iter().find(|(core, _)| *core == name).map(|(_, events)| *events);
    let mut object = rename(object, "events.k8s.io/v1", rename_field);
    if let Value::Object(fields) = &mut object {
        fields.retain(|name, value| !(OMITTED_IF_EMPTY.contains(&name.as_str()) && value == ""));
    }
    object
}

fn rename(object: Value, api_version: &str, new_name: impl Fn(&str) -> Option<&'static str>) -> Value {
    let Value::Object(fields) = object else { return object };
    let mut renamed: Map<String, Value> = fields
        .into_iter()
        .map(|(name, value)| match new_name(&name) {
            Some(new) => (new.to_owned(), value),
            None => (name, value),
        })
        .collect();
    if renamed.contains_key("apiVersion") {
        renamed.insert("apiVersion".to_owned(), api_version.into());
    }
    Value::Object(renamed)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn names_change_and_values_stay() {
        let core = json!({
            "apiVersion": "v1", "kind": "Event", "metadata": {"name": "a"}, "involvedObject": {"name": "p"},
            "message": "text", "reason": "Why", "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "count": 2, "reportingComponent": "", "reportingInstance": "",
        });
        let events = json!({
            "apiVersion": "events.k8s.io/v1", "kind": "Event", "metadata": {"name": "a"}, "regarding": {"name": "p"},
            "note": "text", "reason": "Why", "deprecatedSource": {}, "deprecatedFirstTimestamp": null,
            "deprecatedLastTimestamp": null, "eventTime": null, "deprecatedCount": 2,
        });
        assert_eq!(from_core(core.clone()), events);
        let back = to_core(events);
        assert_eq!((&back["apiVersion"], &back["involvedObject"]), (&core["apiVersion"], &core["involvedObject"]));
        assert_eq!((&back["message"], &back["count"]), (&core["message"], &core["count"]));
    }
}
