//! DaemonSets: a pod on every node.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::labels;

use super::defaults::{fill, section};
use super::immutable::validate_immutable;
use super::pod_spec::{not_negative, not_negative_if_set};
use super::pod_template::{self, fill_template, is_selector, template_cells, validate_template};
use super::share;
use super::shown;

#[derive(Debug)]
pub struct DaemonSet;

/// Where a DaemonSet counts the changes of its template. It was a field once.
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";

const COUNTS: [&str; 8] = [
    "currentNumberScheduled",
    "numberMisscheduled",
    "desiredNumberScheduled",
    "numberReady",
    "observedGeneration",
    "updatedNumberScheduled",
    "numberAvailable",
    "numberUnavailable",
];

const COLUMNS: [Column; 11] = [
    columns::NAME,
    columns::integer("Desired", "How many nodes should run its pod."),
    columns::integer("Current", "How many of them do."),
    columns::integer("Ready", "How many pods are ready."),
    columns::integer("Up-to-date", "How many pods have the current template."),
    columns::integer("Available", "How many pods have been ready for long enough."),
    columns::text("Node Selector", "The labels of the nodes it is for."),
    columns::AGE,
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    pod_template::SELECTOR,
];

impl Behaviour for DaemonSet {
    fn default(&self, object: &mut Value) {
        fill_template(object);
        let spec = &mut object["spec"];
        let strategy = section(spec, "updateStrategy");
        fill(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let rolling = section(strategy, "rollingUpdate");
            fill(rolling, "maxUnavailable", 1);
            fill(rolling, "maxSurge", 0);
        }
        fill(spec, "revisionHistoryLimit", 10);
        section(object, "status");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({
            "currentNumberScheduled": 0, "numberMisscheduled": 0, "desiredNumberScheduled": 0, "numberReady": 0,
        });
        let given = template_generation(object);
        set_template_generation(object, given.max(1));
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        if part == Part::Main {
            let changed = object["spec"]["template"] != old["spec"]["template"];
            set_template_generation(object, template_generation(old).saturating_add(i64::from(changed)));
        }
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        let (selector, template) = (spec.field("selector"), spec.field("template"));
        labels::validate_label_selector(selector, errors);
        let (metadata, pod) = (template.field("metadata"), template.field("spec"));
        let template_labels = metadata.field("labels");
        if is_selector(selector.value) && !labels::selector_matches(selector.value, template_labels.value) {
            let detail = "`selector` does not match template `labels`";
            errors.invalid(&template_labels.path, template_labels.value, detail);
        }
        if selector.is_set() && labels::is_empty_selector(selector.value) {
            errors.invalid(&selector.path, selector.value, "empty selector is invalid for daemonset");
        }
        validate_template(template, errors);
        let (restart, deadline) = (pod.field("restartPolicy"), pod.field("activeDeadlineSeconds"));
        if restart.str() != "Always" {
            errors.unsupported(&restart.path, restart.str(), &["Always"]);
        }
        if deadline.is_set() {
            errors.forbidden(&deadline.path, "activeDeadlineSeconds in DaemonSet is not Supported");
        }
        not_negative_if_set(spec.field("minReadySeconds"), errors);
        validate_strategy(spec.field("updateStrategy"), errors);
        not_negative_if_set(spec.field("revisionHistoryLimit"), errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(object.field("status"), &old["status"], errors);
        }
        validate_immutable(object.field("spec").field("selector"), &old["spec"]["selector"], errors);
        self.validate(object, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no Pods will be created")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |field: &str| Value::from(object["status"][field].as_i64().unwrap_or(0));
        let mut cells = vec![
            columns::name_cell(object),
            count("desiredNumberScheduled"),
            count("currentNumberScheduled"),
            count("numberReady"),
            count("updatedNumberScheduled"),
            count("numberAvailable"),
            columns::labels(&object["spec"]["template"]["spec"]["nodeSelector"]).into(),
            columns::age_cell(object, now),
        ];
        cells.extend(template_cells(object));
        cells
    }
}

fn template_generation(object: &Value) -> i64 {
    let text = object["metadata"]["annotations"][TEMPLATE_GENERATION].as_str();
    text.and_then(|text| text.parse().ok()).unwrap_or(0)
}

fn set_template_generation(object: &mut Value, generation: i64) {
    section(section(object, "metadata"), "annotations")[TEMPLATE_GENERATION] = generation.to_string().into();
}

fn validate_strategy(strategy: Node<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "OnDelete" => {}
        "RollingUpdate" => validate_rolling_update(rolling, errors),
        other => errors.push(Fault::NotSupported, &strategy.path, || {
            let fields = [("MaxUnavailable", "maxUnavailable", json!(0)), ("MaxSurge", "maxSurge", json!(0))];
            let rolling = if rolling.is_set() { shown::fields(rolling.value, &fields) } else { "null".to_owned() };
            format!(
                "Unsupported value: {{\"Type\":{},\"RollingUpdate\":{rolling}}}: supported values: \"RollingUpdate\", \
                 \"OnDelete\"",
                json!(other)
            )
        }),
    }
}

fn validate_rolling_update(rolling: Node<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    share::validate(unavailable, errors);
    share::validate(surge, errors);
    share::validate_not_more_than_all(unavailable, errors);
    share::validate_not_more_than_all(surge, errors);
    match (share::amount(unavailable) != 0, share::amount(surge) != 0) {
        (true, true) => errors.invalid(&surge.path, surge.value, "may not be set when maxUnavailable is non-zero"),
        (false, false) => errors.required(&unavailable.path, "cannot be 0 when maxSurge is 0"),
        _ => {}
    }
}

fn validate_status(status: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let of = |field: &str| status.field(field).i64().unwrap_or(0);
    for field in COUNTS.into_iter().chain(["collisionCount"]) {
        not_negative(of(field), &status.path.field(field), errors);
    }
    if old["collisionCount"].as_i64().is_some_and(|before| of("collisionCount") < before) {
        errors.invalid(&status.path.field("collisionCount"), of("collisionCount"), "cannot be decremented");
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::probe::{completed, messages, update_messages};

    fn set(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({
            "metadata": {"name": "agent"},
            "spec": {
                "selector": {"matchLabels": {"app": "agent"}},
                "template": {
                    "metadata": {"labels": {"app": "agent"}},
                    "spec": {"containers": [{"name": "c", "image": "agent:1"}]},
                },
            },
        });
        change(&mut object);
        object
    }

    #[test]
    fn a_set_is_completed() {
        let mut object = completed(&DaemonSet, &set(|_| {}));
        assert_eq!(
            object["spec"]["updateStrategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1, "maxSurge": 0}})
        );
        assert_eq!(object["spec"]["revisionHistoryLimit"], 10);
        DaemonSet.prepare_create(&mut object);
        assert_eq!(object["metadata"]["annotations"], json!({TEMPLATE_GENERATION: "1"}));
    }

    #[test]
    fn changes_of_the_template_are_counted() {
        type Row = (&'static str, fn(&mut Value), &'static str);
        let mut old = completed(&DaemonSet, &set(|_| {}));
        DaemonSet.prepare_create(&mut old);
        let rows: [Row; 2] = [
            ("the template", |object| object["spec"]["template"]["spec"]["hostNetwork"] = json!(true), "2"),
            ("something else", |object| object["spec"]["minReadySeconds"] = json!(5), "1"),
        ];
        for (name, change, expected) in rows {
            let mut new = completed(&DaemonSet, &set(change));
            new["metadata"]["annotations"] = json!({TEMPLATE_GENERATION: "7"});
            DaemonSet.prepare_update(&mut new, &old, Part::Main);
            assert_eq!(new["metadata"]["annotations"][TEMPLATE_GENERATION], expected, "{name}");
        }
    }

    #[test]
    fn sets_are_checked() {
        fn rolling(object: &mut Value, steps: Value) {
            object["spec"]["updateStrategy"] = json!({"rollingUpdate": steps});
        }
        type Change = fn(&mut Value);
        let rows: &[(&str, Change, &[&str])] = &[
            ("a good one", |_| {}, &[]),
            ("new pods first", |object| rolling(object, json!({"maxUnavailable": 0, "maxSurge": "10%"})), &[]),
            (
                "both ways at once",
                |object| rolling(object, json!({"maxSurge": 1})),
                &[
                    "spec.updateStrategy.rollingUpdate.maxSurge: Invalid value: 1: may not be set when maxUnavailable is \
                     non-zero",
                ],
            ),
            (
                "no way at all",
                |object| rolling(object, json!({"maxUnavailable": 0})),
                &["spec.updateStrategy.rollingUpdate.maxUnavailable: Required value: cannot be 0 when maxSurge is 0"],
            ),
            (
                "more than all",
                |object| rolling(object, json!({"maxUnavailable": "101%"})),
                &[
                    r#"spec.updateStrategy.rollingUpdate.maxUnavailable: Invalid value: "101%": must not be greater than 100%"#,
                ],
            ),
            (
                "a strategy that is none",
                |object| object["spec"]["updateStrategy"] = json!({"type": "Recreate"}),
                &[
                    r#"spec.updateStrategy: Unsupported value: {"Type":"Recreate","RollingUpdate":null}: supported values: "RollingUpdate", "OnDelete""#,
                ],
            ),
            (
                "an empty selector",
                |object| object["spec"]["selector"] = json!({}),
                &["spec.selector: Invalid value: {}: empty selector is invalid for daemonset"],
            ),
            (
                "labels that the selector does not match",
                |object| object["spec"]["template"]["metadata"]["labels"] = json!({"app": "web"}),
                &[
                    r#"spec.template.metadata.labels: Invalid value: {"app":"web"}: `selector` does not match template `labels`"#,
                ],
            ),
            (
                "pods that end",
                |object| {
                    object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never");
                    object["spec"]["template"]["spec"]["activeDeadlineSeconds"] = json!(5);
                },
                &[
                    r#"spec.template.spec.restartPolicy: Unsupported value: "Never": supported values: "Always""#,
                    "spec.template.spec.activeDeadlineSeconds: Forbidden: activeDeadlineSeconds in DaemonSet is not Supported",
                ],
            ),
            (
                "less than nothing",
                |object| {
                    object["spec"]["minReadySeconds"] = json!(-1);
                    object["spec"]["revisionHistoryLimit"] = json!(-1);
                },
                &[
                    "spec.minReadySeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.revisionHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
        ];
        for (name, change, expected) in rows {
            assert_eq!(messages(&DaemonSet, &set(change)), *expected, "{name}");
        }
    }

    #[test]
    fn the_selector_stays_and_counts_are_counts() {
        let other = set(|object| {
            object["spec"]["selector"] = json!({"matchLabels": {"tier": "a"}});
            object["spec"]["template"]["metadata"]["labels"] = json!({"tier": "a"});
        });
        assert_eq!(
            update_messages(&DaemonSet, &other, &set(|_| {}), Part::Main),
            [r#"spec.selector: Invalid value: {"matchLabels":{"tier":"a"}}: field is immutable"#]
        );
        let counted = set(|object| object["status"] = json!({"numberReady": -1}));
        assert_eq!(
            update_messages(&DaemonSet, &counted, &set(|_| {}), Part::Status),
            ["status.numberReady: Invalid value: -1: must be greater than or equal to 0"]
        );
    }
}
