//! StatefulSets: pods that are numbered, and keep their names and volumes.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::defaults::{fill, fill_text, remove, section};
use super::endpoints::report;
use super::persistent_volume_claim::{fill_claim, fractional_sizes};
use super::pod_spec::{each, not_negative, not_negative_if_set};
use super::pod_template::{self, fill_template, is_selector, template_cells, validate_template};
use super::share;
use super::shown;
use super::volume_claim;

#[derive(Debug)]
pub struct StatefulSet;

/// The fields of the spec that can change.
const MUTABLE: [&str; 7] = [
    "replicas",
    "ordinals",
    "template",
    "updateStrategy",
    "revisionHistoryLimit",
    "persistentVolumeClaimRetentionPolicy",
    "minReadySeconds",
];

const COLUMNS: [Column; 5] = [
    columns::NAME,
    columns::text("Ready", "How many pods are ready, of how many are wanted."),
    columns::AGE,
    pod_template::CONTAINERS,
    pod_template::IMAGES,
];

impl Behaviour for StatefulSet {
    fn default(&self, object: &mut Value) {
        fill_template(object);
        let spec = &mut object["spec"];
        fill_text(spec, "podManagementPolicy", "OrderedReady");
        let strategy = section(spec, "updateStrategy");
        if strategy["type"].as_str().unwrap_or_default().is_empty() {
            strategy["type"] = "RollingUpdate".into();
            section(strategy, "rollingUpdate");
        }
        if strategy["type"] == "RollingUpdate" && strategy["rollingUpdate"].is_object() {
            fill(&mut strategy["rollingUpdate"], "partition", 0);
        }
        let retention = section(spec, "persistentVolumeClaimRetentionPolicy");
        fill_text(retention, "whenDeleted", "Retain");
        fill_text(retention, "whenScaled", "Retain");
        fill(spec, "replicas", 1);
        fill(spec, "revisionHistoryLimit", 10);
        each(spec, "volumeClaimTemplates", |claim| {
            claim["apiVersion"] = "v1".into();
            claim["kind"] = "PersistentVolumeClaim".into();
            fill_claim(claim);
        });
        fill(section(object, "status"), "replicas", 0);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"replicas": 0, "availableReplicas": 0});
        drop_max_unavailable(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, _part: Part) {
        drop_max_unavailable(object);
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::object_name(names::dns1123_label, name, prefix)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_spec(object.field("spec"), true, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(object.field("status"), &old["status"], errors);
        }
        let spec = object.field("spec");
        validate_spec(spec, false, errors);
        let immutable = |spec: &Value| {
            let mut spec = spec.clone();
            MUTABLE.iter().for_each(|field| remove(&mut spec, field));
            spec
        };
        if immutable(spec.value) != immutable(&old["spec"]) {
            let (last, first) = MUTABLE.split_last().expect("some fields can change");
            let detail = format!(
                "updates to statefulset spec for fields other than '{}' and '{last}' are forbidden",
                first.join("', '")
            );
            errors.forbidden(&spec.path, &detail);
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, _old: Option<&Value>) -> Vec<String> {
        let spec = object.field("spec");
        let mut warnings = Vec::new();
        for claim in spec.field("volumeClaimTemplates").items() {
            // Kubernetes shows the size without the `spec` that it stands in.
            let path = claim.path;
            warnings.extend(fractional_sizes(Node { value: claim.field("spec").value, path }));
        }
        if spec.field("revisionHistoryLimit").i64().is_some_and(|limit| limit < 0) {
            let rule = "a negative value retains all historical revisions; a value >= 0 is recommended";
            warnings.push(format!("spec.revisionHistoryLimit: {rule}"));
        }
        warnings
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no Pods will be created")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let count = |value: &Value| value.as_i64().unwrap_or(0);
        let ready = format!("{}/{}", count(&object["status"]["readyReplicas"]), count(&object["spec"]["replicas"]));
        let [containers, images, _] = template_cells(object);
        vec![columns::name_cell(object), ready.into(), columns::age_cell(object, now), containers, images]
    }
}

/// A field that Kubernetes does not take unless it is told to.
fn drop_max_unavailable(object: &mut Value) {
    remove(&mut object["spec"]["updateStrategy"]["rollingUpdate"], "maxUnavailable");
}

/// `is_new` says that what can never change is checked too.
fn validate_spec(spec: Node<'_, '_>, is_new: bool, errors: &mut Errors) {
    let management = spec.field("podManagementPolicy");
    if !["OrderedReady", "Parallel"].contains(&management.str()) {
        errors.invalid(&management.path, management.str(), "must be 'OrderedReady' or 'Parallel'");
    }
    validate_strategy(spec.field("updateStrategy"), errors);
    let retention = spec.field("persistentVolumeClaimRetentionPolicy");
    for field in ["whenDeleted", "whenScaled"] {
        let policy = retention.field(field);
        if !["Retain", "Delete"].contains(&policy.str()) {
            errors.unsupported(&policy.path, policy.str(), &["Retain", "Delete"]);
        }
    }
    if is_new {
        for claim in spec.field("volumeClaimTemplates").items() {
            volume_claim::validate(claim.field("spec"), errors);
        }
    }
    not_negative_if_set(spec.field("replicas"), errors);
    not_negative_if_set(spec.field("minReadySeconds"), errors);
    not_negative_if_set(spec.field("ordinals").field("start"), errors);
    let service = spec.field("serviceName");
    if is_new && !service.str().is_empty() {
        report(service, names::dns1123_label, errors);
    }
    validate_pods(spec, errors);
}

fn validate_strategy(strategy: Node<'_, '_>, errors: &mut Errors) {
    let rolling = strategy.field("rollingUpdate");
    let show_rolling = || {
        let fields = [("Partition", "partition", json!(0)), ("MaxUnavailable", "maxUnavailable", Value::Null)];
        shown::fields(rolling.value, &fields)
    };
    match strategy.field("type").str() {
        "RollingUpdate" => {
            not_negative_if_set(rolling.field("partition"), errors);
            let unavailable = rolling.field("maxUnavailable");
            if unavailable.is_set() {
                share::validate(unavailable, errors);
                if share::amount(unavailable) == 0 {
                    errors.invalid(&unavailable.path, unavailable.value, "cannot be 0");
                }
                share::validate_not_more_than_all(unavailable, errors);
            }
        }
        "OnDelete" if rolling.is_set() => errors.push(Fault::Invalid, &rolling.path, || {
            format!("Invalid value: {}: only allowed for updateStrategy 'RollingUpdate'", show_rolling())
        }),
        "OnDelete" => {}
        other => errors.push(Fault::Invalid, &strategy.path, || {
            let rolling = if rolling.is_set() { show_rolling() } else { "null".to_owned() };
            let shown = format!("{{\"Type\":{},\"RollingUpdate\":{rolling}}}", json!(other));
            format!("Invalid value: {shown}: must be 'RollingUpdate' or 'OnDelete'")
        }),
    }
}

fn validate_pods(spec: Node<'_, '_>, errors: &mut Errors) {
    let (selector, template) = (spec.field("selector"), spec.field("template"));
    if selector.is_set() {
        labels::validate_label_selector(selector, errors);
        if labels::is_empty_selector(selector.value) {
            errors.invalid(&selector.path, selector.value, "empty selector is invalid for statefulset");
        }
    } else {
        errors.required(&selector.path, "");
    }
    let (metadata, pod) = (template.field("metadata"), template.field("spec"));
    if is_selector(selector.value) {
        let template_labels = metadata.field("labels");
        if !labels::is_empty_selector(selector.value)
            && !labels::selector_matches(selector.value, template_labels.value)
        {
            let detail = "`selector` does not match template `labels`";
            errors.invalid(&template_labels.path, template_labels.value, detail);
        }
        let numbered = as_numbered(template.value, spec.field("volumeClaimTemplates").value);
        validate_template(Node { value: &numbered, path: template.path }, errors);
    } else {
        errors.invalid(&selector.path, selector.value, "");
    }
    let (restart, deadline) = (pod.field("restartPolicy"), pod.field("activeDeadlineSeconds"));
    if restart.str() != "Always" {
        errors.unsupported(&restart.path, restart.str(), &["Always"]);
    }
    if deadline.is_set() {
        errors.forbidden(&deadline.path, "activeDeadlineSeconds in StatefulSet is not Supported");
    }
}

/// The template as its pods are made: with the volumes of their claims, and with names of their own.
fn as_numbered(template: &Value, claims: &Value) -> Value {
    let mut template = template.clone();
    let pod = &mut template["spec"];
    remove(pod, "subdomain");
    remove(pod, "hostname");
    let claims = claims.as_array().map(Vec::as_slice).unwrap_or_default();
    if claims.is_empty() {
        return template;
    }
    let name_of = |claim: &Value| claim["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let claimed: std::collections::BTreeSet<String> = claims.iter().map(name_of).collect();
    let own = pod["volumes"].take();
    let own = own.as_array().into_iter().flatten();
    let kept = own.filter(|volume| !claimed.contains(volume["name"].as_str().unwrap_or_default())).cloned();
    let volume = |name: &String| json!({"name": name, "persistentVolumeClaim": {"claimName": name}});
    pod["volumes"] = claimed.iter().map(volume).chain(kept).collect();
    template
}

fn validate_status(status: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let of = |field: &str| status.field(field).i64().unwrap_or(0);
    let counts = ["replicas", "readyReplicas", "currentReplicas", "updatedReplicas", "availableReplicas"];
    for field in counts.into_iter().chain(["observedGeneration", "collisionCount"]) {
        not_negative(of(field), &status.path.field(field), errors);
    }
    for field in &counts[1..] {
        if of(field) > of("replicas") {
            errors.invalid(&status.path.field(field), of(field), "cannot be greater than status.replicas");
        }
    }
    let available = status.path.field("availableReplicas");
    if of("availableReplicas") > of("readyReplicas") {
        errors.invalid(&available, of("availableReplicas"), "cannot be greater than status.readyReplicas");
    }
    if old["collisionCount"].as_i64().is_some_and(|before| of("collisionCount") < before) {
        errors.invalid(&status.path.field("collisionCount"), of("collisionCount"), "cannot be decremented");
    }
}

#[cfg(test)]
mod tests;
