//! Deployments: pods of one template, replaced step by step when the template changes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};

use super::defaults::{fill, section};
use super::immutable::validate_immutable;
use super::pod_spec::{not_negative, not_negative_if_set};
use super::pod_template::{self, fill_template, hostname_warnings, template_cells, validate_replicated};
use super::replica_set::validate_replica_counts;
use super::share;

#[derive(Debug)]
pub struct Deployment;

const COLUMNS: [Column; 8] = [
    columns::NAME,
    columns::text("Ready", "How many pods are ready, of how many are wanted."),
    columns::text("Up-to-date", "How many pods have the current template."),
    columns::text("Available", "How many pods have been ready for long enough."),
    columns::AGE,
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    pod_template::SELECTOR,
];

impl Behaviour for Deployment {
    fn default(&self, object: &mut Value) {
        fill_template(object);
        let spec = &mut object["spec"];
        fill(spec, "replicas", 1);
        let strategy = section(spec, "strategy");
        fill(strategy, "type", "RollingUpdate");
        if strategy["type"] == "RollingUpdate" {
            let rolling = section(strategy, "rollingUpdate");
            fill(rolling, "maxUnavailable", "25%");
            fill(rolling, "maxSurge", "25%");
        }
        fill(spec, "revisionHistoryLimit", 10);
        fill(spec, "progressDeadlineSeconds", 600);
        section(object, "status");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        // The status of a Deployment is written without touching its labels.
        if part == Part::Status
            && let Some(metadata) = object["metadata"].as_object_mut()
        {
            match old["metadata"].get("labels") {
                Some(labels) => metadata.insert("labels".to_owned(), labels.clone()),
                None => metadata.remove("labels"),
            };
        }
    }

    fn untouched_fields(&self, part: Part) -> &'static [&'static [&'static str]] {
        match part {
            Part::Status => &[&["spec"], &["metadata", "labels"]],
            Part::Main | Part::Other(_) => &[],
        }
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        not_negative_if_set(spec.field("replicas"), errors);
        validate_replicated(spec, errors);
        validate_strategy(spec.field("strategy"), errors);
        not_negative_if_set(spec.field("minReadySeconds"), errors);
        not_negative_if_set(spec.field("revisionHistoryLimit"), errors);
        let deadline = spec.field("progressDeadlineSeconds");
        if let Some(seconds) = deadline.i64() {
            not_negative(seconds, &deadline.path, errors);
            if seconds <= spec.field("minReadySeconds").i64().unwrap_or(0) {
                errors.invalid(&deadline.path, seconds, "must be greater than minReadySeconds");
            }
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(object.field("status"), &old["status"], errors);
        }
        self.validate(object, errors);
        let spec = object.field("spec");
        validate_immutable(spec.field("selector"), &old["spec"]["selector"], errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        hostname_warnings(object, old)
    }

    /// Annotations count too: they are handed down to the ReplicaSets.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        object["spec"] != old["spec"] || object["metadata"].get("annotations") != old["metadata"].get("annotations")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |value: &Value| value.as_i64().unwrap_or(0);
        let (spec, status) = (&object["spec"], &object["status"]);
        let mut cells = vec![
            columns::name_cell(object),
            format!("{}/{}", count(&status["readyReplicas"]), count(&spec["replicas"])).into(),
            count(&status["updatedReplicas"]).into(),
            count(&status["availableReplicas"]).into(),
            columns::age_cell(object, now),
        ];
        cells.extend(template_cells(object));
        cells
    }
}

fn validate_status(status: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    validate_replica_counts(status, "updatedReplicas", errors);
    let collisions = status.field("collisionCount");
    if let (Some(now), Some(before)) = (collisions.i64(), old["collisionCount"].as_i64())
        && now < before
    {
        errors.invalid(&collisions.path, now, "cannot be decremented");
    }
}

fn validate_strategy(strategy: Node<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    match strategy.field("type").str() {
        "Recreate" if rolling.is_set() => {
            errors.forbidden(&rolling.path, "may not be specified when strategy `type` is 'Recreate'");
        }
        "Recreate" => {}
        "RollingUpdate" => validate_rolling_update(rolling, errors),
        _ => errors.unsupported(&strategy.path, strategy.value, &["Recreate", "RollingUpdate"]),
    }
}

fn validate_rolling_update(rolling: Node<'_, '_>, errors: &mut Errors) {
    let (unavailable, surge) = (rolling.field("maxUnavailable"), rolling.field("maxSurge"));
    for share in [unavailable, surge] {
        share::validate(share, errors);
    }
    if share::amount(unavailable) == 0 && share::amount(surge) == 0 {
        errors.invalid(&unavailable.path, unavailable.value, "may not be 0 when `maxSurge` is 0");
    }
    share::validate_not_more_than_all(unavailable, errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deployment(change: impl FnOnce(&mut Value)) -> Value {
        let mut object = json!({
            "metadata": {"name": "web"},
            "spec": {
                "selector": {"matchLabels": {"app": "web"}},
                "template": {
                    "metadata": {"labels": {"app": "web"}},
                    "spec": {"containers": [{"name": "c", "image": "nginx:1"}]},
                },
            },
        });
        change(&mut object);
        Behaviour::default(&Deployment, &mut object);
        object
    }

    #[test]
    fn a_deployment_is_completed() {
        let object = deployment(|_| {});
        let spec = &object["spec"];
        assert_eq!(spec["replicas"], 1);
        assert_eq!(
            spec["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": "25%", "maxSurge": "25%"}})
        );
        assert_eq!((&spec["revisionHistoryLimit"], &spec["progressDeadlineSeconds"]), (&json!(10), &json!(600)));
        assert_eq!(spec["template"]["spec"]["restartPolicy"], "Always");
        assert_eq!(spec["template"]["spec"].get("enableServiceLinks"), None, "a template leaves this to its pods");
    }

    #[test]
    fn deployments_are_checked() {
        type Change = fn(&mut Value);
        let rows: [(&str, Change, Vec<&str>); 9] = [
            ("a good one", |_| {}, vec![]),
            (
                "no spec",
                |object| object["spec"] = json!({}),
                vec![
                    "spec.selector: Required value",
                    "spec.template.metadata.labels: Invalid value: null: `selector` does not match template `labels`",
                    "spec.template.spec.containers: Required value",
                ],
            ),
            (
                "an empty selector",
                |object| object["spec"]["selector"] = json!({}),
                vec!["spec.selector: Invalid value: {}: empty selector is invalid for deployment"],
            ),
            (
                "labels that the selector does not match",
                |object| object["spec"]["template"]["metadata"]["labels"] = json!({"app": "db"}),
                vec![
                    "spec.template.metadata.labels: Invalid value: {\"app\":\"db\"}: `selector` does not match template \
                     `labels`",
                ],
            ),
            (
                "pods that end",
                |object| object["spec"]["template"]["spec"]["restartPolicy"] = json!("Never"),
                vec!["spec.template.spec.restartPolicy: Unsupported value: \"Never\": supported values: \"Always\""],
            ),
            (
                "no room to move",
                |object| object["spec"]["strategy"] = json!({"rollingUpdate": {"maxSurge": 0, "maxUnavailable": "0%"}}),
                vec![
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"0%\": may not be 0 when `maxSurge` is 0",
                ],
            ),
            (
                "more than all",
                |object| object["spec"]["strategy"] = json!({"rollingUpdate": {"maxUnavailable": "101%"}}),
                vec![
                    "spec.strategy.rollingUpdate.maxUnavailable: Invalid value: \"101%\": must not be greater than 100%",
                ],
            ),
            (
                "steps for a strategy that has none",
                |object| object["spec"]["strategy"] = json!({"type": "Recreate", "rollingUpdate": {}}),
                vec!["spec.strategy.rollingUpdate: Forbidden: may not be specified when strategy `type` is 'Recreate'"],
            ),
            (
                "a deadline before pods count as available",
                |object| {
                    object["spec"]["minReadySeconds"] = json!(60);
                    object["spec"]["progressDeadlineSeconds"] = json!(60);
                },
                vec!["spec.progressDeadlineSeconds: Invalid value: 60: must be greater than minReadySeconds"],
            ),
        ];
        for (name, change, expected) in rows {
            let object = deployment(change);
            let mut errors = Errors::default();
            Deployment.validate(Node::root(&object), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected, "{name}");
        }
    }

    #[test]
    fn the_selector_stays() {
        let old = deployment(|_| {});
        let new = deployment(|object| {
            object["spec"]["selector"] = json!({"matchLabels": {"tier": "front"}});
            object["spec"]["template"]["metadata"]["labels"] = json!({"tier": "front"});
        });
        let mut errors = Errors::default();
        Deployment.validate_update(Node::root(&new), &old, Part::Main, &mut errors);
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [r#"spec.selector: Invalid value: {"matchLabels":{"tier":"front"}}: field is immutable"#]
        );
    }
}
