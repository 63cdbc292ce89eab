//! Jobs: pods that run until enough of them have succeeded.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part, SelectableField};
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::defaults::{fill, remove, section};
use super::domain_path;
use super::immutable::validate_immutable;
use super::job_policy;
use super::job_status::{self, has_condition};
use super::pod_spec::{each, not_negative_if_set, template_as_text, within};
use super::pod_template::{self, fill_template, hostname_warnings, template_cells, validate_template};

#[derive(Debug)]
pub struct Job;

const UID_LABELS: [&str; 2] = ["batch.kubernetes.io/controller-uid", "controller-uid"];
const NAME_LABELS: [&str; 2] = ["batch.kubernetes.io/job-name", "job-name"];

const INDEXED_PARALLELISM_MAX: i64 = 100_000;
const FAILED_INDEXES_MAX: i64 = 100_000;
const MANAGED_BY_MAX: usize = 63;
/// With more completions than this, retrying each index by itself is limited further.
const MANY_COMPLETIONS: i64 = 100_000;
const MANY_COMPLETIONS_MAX: i64 = 10_000;

const COLUMNS: [Column; 8] = [
    columns::NAME,
    columns::text("Status", "How far the job is."),
    columns::text("Completions", "How many pods have succeeded, of how many should."),
    columns::text("Duration", "How long it has run."),
    columns::AGE,
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    pod_template::SELECTOR,
];

impl Behaviour for Job {
    fn default(&self, object: &mut Value) {
        fill_template(object);
        // A new job gets its labels together with its selector.
        let labels = &object["spec"]["template"]["metadata"]["labels"];
        if object["spec"]["manualSelector"] == true || labels.get(UID_LABELS[0]).is_some() {
            take_labels_of_pods(object);
        }
        let spec = &mut object["spec"];
        if spec["completions"].is_null() && spec["parallelism"].is_null() {
            fill(spec, "completions", 1);
        }
        fill(spec, "parallelism", 1);
        let retries = if spec["backoffLimitPerIndex"].is_null() { 6 } else { i32::MAX };
        fill(spec, "backoffLimit", retries);
        fill(spec, "completionMode", "NonIndexed");
        fill(spec, "suspend", false);
        let replacement = if spec["podFailurePolicy"].is_null() { "TerminatingOrFailed" } else { "Failed" };
        fill(spec, "podReplacementPolicy", replacement);
        fill(spec, "manualSelector", false);
        fill_failure_policy(spec);
        section(object, "status");
    }

    fn prepare_create(&self, object: &mut Value) {
        if object["spec"]["manualSelector"] != true {
            generate_selector(object);
        }
        take_labels_of_pods(object);
        object["status"] = json!({});
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_generated_selector(object, errors);
        validate_spec(object.field("spec"), errors);
        validate_name(object, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            return job_status::validate_status(object, old, errors);
        }
        let (spec, before) = (object.field("spec"), &old["spec"]);
        validate_spec(spec, errors);
        validate_completions(spec, before, errors);
        validate_immutable(spec.field("selector"), &before["selector"], errors);
        validate_template_change(spec, old, errors);
        for field in ["completionMode", "podFailurePolicy", "backoffLimitPerIndex", "managedBy", "successPolicy"] {
            validate_immutable(spec.field(field), &before[field], errors);
        }
        validate_name(object, errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        hostname_warnings(object, old)
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let mut cells = vec![
            columns::name_cell(object),
            state_of(object).into(),
            completions_of(object).into(),
            duration_of(object, now).into(),
            columns::age_cell(object, now),
        ];
        cells.extend(template_cells(object));
        cells
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        const FIELDS: [SelectableField; 1] = [SelectableField {
            name: "status.successful",
            value: |job| job["status"]["succeeded"].as_i64().unwrap_or(0).to_string(),
        }];
        &FIELDS
    }
}

/// A condition of a pod that a rule waits for is true unless the rule says otherwise.
pub(super) fn fill_failure_policy(spec: &mut Value) {
    within(spec, "podFailurePolicy", |policy| {
        each(policy, "rules", |rule| {
            each(rule, "onPodConditions", |pattern| fill(pattern, "status", "True"));
        });
    });
}

/// A job finds its pods by its own uid, so that no two jobs ever share a pod.
fn generate_selector(object: &mut Value) {
    let (uid, name) = (object["metadata"]["uid"].clone(), object["metadata"]["name"].clone());
    let labels = section(&mut object["spec"]["template"]["metadata"], "labels");
    for (keys, value) in [(NAME_LABELS, name), (UID_LABELS, uid.clone())] {
        for key in keys {
            fill(labels, key, value.clone());
        }
    }
    fill(section(section(&mut object["spec"], "selector"), "matchLabels"), UID_LABELS[0], uid);
}

/// A job without labels has those of its pods.
fn take_labels_of_pods(object: &mut Value) {
    let labels = object["spec"]["template"]["metadata"]["labels"].clone();
    if labels.is_object() && object["metadata"]["labels"].as_object().is_none_or(|own| own.is_empty()) {
        object["metadata"]["labels"] = labels;
    }
}

fn validate_generated_selector(object: Node<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let selector = spec.field("selector");
    if spec.field("manualSelector").bool() == Some(true) || !selector.is_set() {
        return;
    }
    let (uid, name) = (metadata.field("uid"), metadata.field("name"));
    if uid.str().is_empty() {
        errors.required(&uid.path, "");
    }
    let template = spec.field("template");
    let template_metadata = template.field("metadata");
    let template_labels = template_metadata.field("labels");
    let mut expected = serde_json::Map::new();
    // The labels without a prefix are older, and checked first.
    for index in [1, 0] {
        for (key, value) in [(UID_LABELS[index], uid.value), (NAME_LABELS[index], name.value)] {
            expected.insert(key.to_owned(), value.clone());
            match template_labels.value.get(key) {
                None => errors.required(&template_labels.path.key(key), &format!("must be '{}'", text(value))),
                Some(found) if found != value => {
                    let detail = format!("must be '{}'", text(value));
                    errors.invalid(&template_labels.path.key(key), template_labels.value, &detail);
                }
                Some(_) => {}
            }
        }
    }
    if !labels::selector_matches(selector.value, &expected.into()) {
        errors.invalid(&selector.path, selector.value, "`selector` not auto-generated");
    }
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn validate_spec(spec: Node<'_, '_>, errors: &mut Errors) {
    validate_work(spec, errors);
    let selector = spec.field("selector");
    if selector.is_set() {
        labels::validate_label_selector(selector, errors);
    } else {
        errors.required(&selector.path, "");
    }
    let template = spec.field("template");
    let metadata = template.field("metadata");
    let template_labels = metadata.field("labels");
    if !labels::selector_matches(selector.value, template_labels.value) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&template_labels.path, template_labels.value, detail);
    }
}

/// Checks everything in a job's spec but how it finds its pods.
pub(super) fn validate_work(spec: Node<'_, '_>, errors: &mut Errors) {
    for field in [
        "parallelism",
        "completions",
        "activeDeadlineSeconds",
        "backoffLimit",
        "ttlSecondsAfterFinished",
        "backoffLimitPerIndex",
        "maxFailedIndexes",
    ] {
        not_negative_if_set(spec.field(field), errors);
    }
    let per_index = spec.field("backoffLimitPerIndex");
    if spec.field("maxFailedIndexes").is_set() && !per_index.is_set() {
        errors.required(&per_index.path, "when maxFailedIndexes is specified");
    }
    validate_managed_by(spec.field("managedBy"), errors);
    let mode = spec.field("completionMode");
    match mode.str() {
        "Indexed" => validate_indexed(spec, errors),
        "NonIndexed" | "" => {
            for field in ["backoffLimitPerIndex", "maxFailedIndexes"] {
                let field = spec.field(field);
                if field.is_set() {
                    errors.invalid(&field.path, field.value, "requires indexed completion mode");
                }
            }
        }
        other => errors.unsupported(&mode.path, other, &["NonIndexed", "Indexed"]),
    }
    job_policy::validate(spec, errors);
    let template = spec.field("template");
    validate_template(template, errors);
    validate_restart_policy(template, spec.field("podFailurePolicy").is_set(), errors);
}

fn validate_managed_by(managed_by: Node<'_, '_>, errors: &mut Errors) {
    if !managed_by.is_set() {
        return;
    }
    domain_path::validate(managed_by, errors);
    if managed_by.str().len() > MANAGED_BY_MAX {
        errors.too_long(&managed_by.path, MANAGED_BY_MAX);
    }
}

fn validate_indexed(spec: Node<'_, '_>, errors: &mut Errors) {
    let (completions, parallelism) = (spec.field("completions"), spec.field("parallelism"));
    let failed = spec.field("maxFailedIndexes");
    if !completions.is_set() {
        errors.required(&completions.path, "when completion mode is Indexed");
    }
    let mut at_most = |number: Node<'_, '_>, max: i64, detail: String| {
        if let Some(value) = number.i64().filter(|value| *value > max) {
            errors.invalid(&number.path, value, &detail);
        }
    };
    let limit = INDEXED_PARALLELISM_MAX;
    at_most(parallelism, limit, format!("must be less than or equal to {limit} when completion mode is Indexed"));
    if let Some(count) = completions.i64() {
        at_most(failed, count, "must be less than or equal to completions".to_owned());
    }
    at_most(failed, FAILED_INDEXES_MAX, format!("must be less than or equal to {FAILED_INDEXES_MAX}"));
    let many = completions.i64().is_some_and(|count| count > MANY_COMPLETIONS);
    if many && spec.field("backoffLimitPerIndex").is_set() {
        let detail = format!(
            "must be less than or equal to {MANY_COMPLETIONS_MAX} when completions are above {MANY_COMPLETIONS} and \
             used with backoff limit per index"
        );
        at_most(parallelism, MANY_COMPLETIONS_MAX, detail.clone());
        at_most(failed, MANY_COMPLETIONS_MAX, detail);
        if !failed.is_set() {
            let detail = format!("must be specified when completions is above {MANY_COMPLETIONS}");
            errors.required(&failed.path, &detail);
        }
    }
}

fn validate_restart_policy(template: Node<'_, '_>, failure_policy: bool, errors: &mut Errors) {
    let pod = template.field("spec");
    let policy = pod.field("restartPolicy");
    match policy.str() {
        "Always" | "" => errors.required(&policy.path, "valid values: \"OnFailure\", \"Never\""),
        "OnFailure" if failure_policy => {
            let detail = "only \"Never\" is supported when podFailurePolicy is specified";
            errors.invalid(&policy.path, policy.str(), detail);
        }
        "OnFailure" | "Never" => {}
        other => errors.unsupported(&policy.path, other, &["OnFailure", "Never"]),
    }
}

/// The pods of an indexed job are named after it, and hosts cannot have any name.
fn validate_name(object: Node<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (name, completions) = (metadata.field("name"), spec.field("completions").i64().unwrap_or(0));
    if spec.field("completionMode").str() == "Indexed" && completions > 0 {
        let hostname = format!("{}-{}", name.str(), completions - 1);
        if !names::dns1123_label(&hostname).is_empty() {
            let detail = format!("will not able to create pod with invalid DNS label: {hostname}");
            errors.invalid(&name.path, name.str(), &detail);
        }
    }
}

/// Only an indexed job can change how many completions it needs, and only together with its parallelism.
fn validate_completions(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let completions = spec.field("completions");
    if spec.field("completionMode").str() != "Indexed" {
        return validate_immutable(completions, &old["completions"], errors);
    }
    let changed = *completions.value != old["completions"] && completions.is_set();
    if changed && completions.i64() != spec.field("parallelism").i64() {
        let detail = "can only be modified in tandem with spec.parallelism";
        errors.invalid(&completions.path, completions.value, detail);
    }
}

/// The template stays as it is, except that a suspended job that has no pods may be steered elsewhere.
fn validate_template_change(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let template = spec.field("template");
    let mut before = old["spec"]["template"].clone();
    let suspended = old["spec"]["suspend"] == true;
    let stopped = old["status"]["startTime"].is_null() || has_condition(&old["status"], "Suspended");
    if suspended && stopped && old["status"]["active"].as_i64().unwrap_or(0) == 0 {
        take_over(&mut before["metadata"], &template.value["metadata"], &["labels", "annotations"]);
        let pod = &template.value["spec"];
        take_over(&mut before["spec"], pod, &["nodeSelector", "tolerations", "schedulingGates"]);
        if before["spec"]["affinity"].is_object() || pod["affinity"].is_object() {
            take_over(section(&mut before["spec"], "affinity"), &pod["affinity"], &["nodeAffinity"]);
            if pod["affinity"].is_null() && before["spec"]["affinity"] == json!({}) {
                remove(&mut before["spec"], "affinity");
            }
        }
    }
    if *template.value != before {
        let message = || format!("Invalid value: {}: field is immutable", template_as_text(template.value));
        errors.push(Fault::Invalid, &template.path, message);
    }
}

fn take_over(object: &mut Value, from: &Value, fields: &[&str]) {
    let Some(object) = object.as_object_mut() else { return };
    for field in fields {
        match from.get(field) {
            Some(value) => object.insert((*field).to_owned(), value.clone()),
            None => object.remove(*field),
        };
    }
}

fn state_of(job: &Value) -> &'static str {
    let has = |sort: &str| has_condition(&job["status"], sort);
    if has("Complete") {
        "Complete"
    } else if has("Failed") {
        "Failed"
    } else if job["metadata"]["deletionTimestamp"].is_string() {
        "Terminating"
    } else if has("Suspended") {
        "Suspended"
    } else if has("FailureTarget") {
        "FailureTarget"
    } else if has("SuccessCriteriaMet") {
        "SuccessCriteriaMet"
    } else {
        "Running"
    }
}

fn completions_of(job: &Value) -> String {
    let succeeded = job["status"]["succeeded"].as_i64().unwrap_or(0);
    match (job["spec"]["completions"].as_i64(), job["spec"]["parallelism"].as_i64().unwrap_or(0)) {
        (Some(completions), _) => format!("{succeeded}/{completions}"),
        (None, parallelism) if parallelism > 1 => format!("{succeeded}/1 of {parallelism}"),
        (None, _) => format!("{succeeded}/1"),
    }
}

fn duration_of(job: &Value, now: Timestamp) -> String {
    let time = |field: &str| job["status"][field].as_str().and_then(|text| text.parse::<Timestamp>().ok());
    match time("startTime") {
        None => String::new(),
        Some(start) => columns::human_duration(time("completionTime").unwrap_or(now).duration_since(start)),
    }
}

#[cfg(test)]
mod tests;
