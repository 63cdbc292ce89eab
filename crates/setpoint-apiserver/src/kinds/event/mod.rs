//! Events: what happened to an object. One kind served in two groups: core (the form it is stored in) and
//! `events.k8s.io`, which has other names for the fields and stricter rules.
//!
//! Everything but [`Behaviour::to_stored`] and [`Behaviour::to_served`] works on the stored form in both groups: the
//! rules name the core fields in `events.k8s.io` too.

mod shape;
mod validation;

use jiff::Timestamp;
use serde_json::Value;

use super::defaults;
use crate::columns;
use crate::kind::{Behaviour, Column, Part, SelectableField};
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

/// Events of the core group.
#[derive(Debug, Clone, Copy)]
pub struct CoreEvent;

/// Events of `events.k8s.io`.
#[derive(Debug, Clone, Copy)]
pub struct EventsEvent;

impl Behaviour for CoreEvent {
    fn default(&self, object: &mut Value) {
        show_empty_fields(object);
    }

    /// Any name that a URL can hold.
    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        names::path_segment(name)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validation::validate(object, "reportingComponent", errors);
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        cells(object, now)
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &CORE_FIELDS
    }
}

impl Behaviour for EventsEvent {
    fn default(&self, object: &mut Value) {
        show_empty_fields(object);
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validation::validate(object, "reportingController", errors);
        validation::validate_strict(object, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        validation::validate(object, "reportingController", errors);
        validation::validate_change(object, old, errors);
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        cells(object, now)
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        &EVENTS_FIELDS
    }

    fn to_stored(&self, object: Value) -> Value {
        shape::to_core(object)
    }

    fn to_served(&self, object: Value) -> Value {
        shape::from_core(object)
    }
}

/// Shows what Kubernetes' type shows even when it is empty.
fn show_empty_fields(object: &mut Value) {
    defaults::section(object, "involvedObject");
    defaults::section(object, "source");
    for time in ["firstTimestamp", "lastTimestamp", "eventTime"] {
        defaults::show_null(object, time);
    }
    for text in ["reportingComponent", "reportingInstance"] {
        defaults::fill(object, text, "");
    }
}

const COLUMNS: [Column; 10] = [
    columns::text("Last Seen", "When it happened last."),
    columns::text("Type", "Normal or Warning."),
    columns::text("Reason", "Why, in one word."),
    columns::text("Object", "What it happened to."),
    columns::wide("Subobject", "The part of the object it happened to."),
    columns::wide("Source", "Who reports it."),
    columns::text("Message", "What happened, for people."),
    columns::wide("First Seen", "When it happened first."),
    columns::wide("Count", "How often it happened."),
    Column { priority: 1, ..columns::NAME },
];

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let age = |time: &Value| columns::age(time.as_str().unwrap_or_default(), now);
    let first_set = |times: &[&Value]| times.iter().find(|time| !time.is_null()).map_or(age(&Value::Null), |t| age(t));
    let (first, last) = (&object["firstTimestamp"], &object["lastTimestamp"]);
    let series = &object["series"];
    let (last_seen, count) = if series.is_object() {
        (age(&series["lastObservedTime"]), series["count"].as_i64().unwrap_or_default())
    } else {
        let count = object["count"].as_i64().filter(|count| *count != 0).unwrap_or(1);
        (first_set(&[last, first, &object["eventTime"]]), count)
    };
    vec![
        last_seen.into(),
        text(&object["type"]).into(),
        text(&object["reason"]).into(),
        target(&object["involvedObject"]).into(),
        text(&object["involvedObject"]["fieldPath"]).into(),
        source(object).into(),
        text(&object["message"]).trim().into(),
        first_set(&[first, &object["eventTime"]]).into(),
        count.into(),
        columns::name_cell(object),
    ]
}

fn target(involved: &Value) -> String {
    let kind = involved["kind"].as_str().unwrap_or_default().to_lowercase();
    match involved["name"].as_str() {
        Some(name) if !name.is_empty() => format!("{kind}/{name}"),
        _ => kind,
    }
}

fn source(object: &Value) -> String {
    let either = |source: &str, reporting: &str| {
        let text = |value: &Value| value.as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        text(&object["source"][source]).or_else(|| text(&object[reporting])).unwrap_or_default()
    };
    let (component, instance) = (either("component", "reportingComponent"), either("host", "reportingInstance"));
    if instance.is_empty() { component } else { format!("{component}, {instance}") }
}

macro_rules! selectable {
    ($name:literal, $($step:literal).+) => {
        SelectableField {
            name: $name,
            value: |object| object$([$step])+.as_str().unwrap_or_default().to_owned(),
        }
    };
}

const CORE_FIELDS: [SelectableField; 11] = [
    selectable!("involvedObject.kind", "involvedObject"."kind"),
    selectable!("involvedObject.namespace", "involvedObject"."namespace"),
    selectable!("involvedObject.name", "involvedObject"."name"),
    selectable!("involvedObject.uid", "involvedObject"."uid"),
    selectable!("involvedObject.apiVersion", "involvedObject"."apiVersion"),
    selectable!("involvedObject.resourceVersion", "involvedObject"."resourceVersion"),
    selectable!("involvedObject.fieldPath", "involvedObject"."fieldPath"),
    selectable!("reason", "reason"),
    selectable!("reportingComponent", "reportingComponent"),
    selectable!("type", "type"),
    SelectableField {
        name: "source",
        value: |object| {
            let component = object["source"]["component"].as_str().filter(|component| !component.is_empty());
            component.or(object["reportingComponent"].as_str()).unwrap_or_default().to_owned()
        },
    },
];

const EVENTS_FIELDS: [SelectableField; 10] = [
    selectable!("regarding.kind", "involvedObject"."kind"),
    selectable!("regarding.namespace", "involvedObject"."namespace"),
    selectable!("regarding.name", "involvedObject"."name"),
    selectable!("regarding.uid", "involvedObject"."uid"),
    selectable!("regarding.apiVersion", "involvedObject"."apiVersion"),
    selectable!("regarding.resourceVersion", "involvedObject"."resourceVersion"),
    selectable!("regarding.fieldPath", "involvedObject"."fieldPath"),
    selectable!("reason", "reason"),
    selectable!("reportingController", "reportingComponent"),
    selectable!("type", "type"),
];

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::selector::field::FieldSelector;

    #[test]
    fn cells_tell_the_story() {
        let now: Timestamp = "2030-01-01T00:01:00Z".parse().expect("a time");
        let rows = [
            (
                "counted",
                json!({
                    "metadata": {"name": "a"}, "involvedObject": {"kind": "Pod", "name": "p", "fieldPath": "spec"},
                    "type": "Warning", "reason": "Why", "message": " text\n", "count": 2,
                    "source": {"component": "kubelet", "host": "n"},
                    "firstTimestamp": "2030-01-01T00:00:00Z", "lastTimestamp": "2030-01-01T00:00:30Z",
                }),
                json!(["30s", "Warning", "Why", "pod/p", "spec", "kubelet, n", "text", "60s", 2, "a"]),
            ),
            (
                "single",
                json!({"metadata": {"name": "b"}, "involvedObject": {"kind": "Node"},
                    "reportingComponent": "c", "eventTime": "2030-01-01T00:00:59.000000Z"}),
                json!(["1s", "", "", "node", "", "c", "", "1s", 1, "b"]),
            ),
            (
                "a series",
                json!({"metadata": {"name": "c"}, "eventTime": "2030-01-01T00:00:00.000000Z",
                    "series": {"count": 7, "lastObservedTime": "2030-01-01T00:00:50.000000Z"}}),
                json!(["10s", "", "", "", "", "", "", "60s", 7, "c"]),
            ),
            (
                "timeless",
                json!({"metadata": {"name": "d"}}),
                json!(["<unknown>", "", "", "", "", "", "", "<unknown>", 1, "d"]),
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(Value::from(cells(&object, now)), expected, "{name}");
        }
    }

    #[test]
    fn each_group_selects_by_its_own_names() {
        let object = json!({"involvedObject": {"name": "p"}, "reportingComponent": "c", "type": "Normal"});
        let matches = |query: &str, kind: &dyn Behaviour| {
            let selector: FieldSelector = query.parse().expect("a query");
            selector.check(kind).is_ok() && selector.matches(&object, kind)
        };
        assert!(matches("involvedObject.name=p,source=c,type=Normal", &CoreEvent));
        assert!(matches("regarding.name=p,reportingController=c", &EventsEvent));
        assert!(!matches("regarding.name=p", &CoreEvent));
    }

    #[test]
    fn empty_fields_are_shown() {
        let mut object = json!({"reason": "x"});
        CoreEvent.default(&mut object);
        let expected = json!({
            "involvedObject": {}, "reason": "x", "source": {}, "firstTimestamp": null, "lastTimestamp": null,
            "eventTime": null, "reportingComponent": "", "reportingInstance": "",
        });
        assert_eq!(object, expected);
    }
}
