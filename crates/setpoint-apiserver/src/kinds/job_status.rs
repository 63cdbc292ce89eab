//! The status of a job: which counts and conditions can go together, and which way they can move.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::Value;

use setpoint_api::field::{Errors, Fault, Node, Path};

use super::job_policy::{count_indexes, indexes_overlap};
use super::pod_spec::not_negative_if_set;

/// Whether a condition is true.
pub(super) fn has_condition(status: &Value, sort: &str) -> bool {
    let conditions = status["conditions"].as_array().map(Vec::as_slice).unwrap_or_default();
    conditions.iter().any(|condition| condition["type"] == sort && condition["status"] == "True")
}

fn is_finished(status: &Value) -> bool {
    has_condition(status, "Complete") || has_condition(status, "Failed")
}

/// Checks a new status against the old one. What was wrong already and did not change is let be.
pub(super) fn validate_status(object: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let status = object.field("status");
    let before = &old["status"];
    for field in ["active", "succeeded", "failed", "ready", "terminating"] {
        not_negative_if_set(status.field(field), errors);
    }
    validate_uncounted(status.field("uncountedTerminatedPods"), errors);
    validate_conditions(status, before, errors);
    validate_times(status, before, errors);
    validate_finished(object, before, errors);
    validate_indexes(object, before, errors);
    let (ready, active) = (status.field("ready"), status.field("active").i64().unwrap_or(0));
    let changed = changed(status.value, before, "ready") || changed(status.value, before, "active");
    if let Some(count) = ready.i64().filter(|count| changed && *count > active) {
        errors.invalid(&ready.path, count, "cannot set more ready pods than active");
    }
    validate_movement(object, old, errors);
}

fn changed(status: &Value, before: &Value, field: &str) -> bool {
    status.get(field) != before.get(field)
}

fn validate_uncounted(uncounted: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for list in ["succeeded", "failed"] {
        for uid in uncounted.field(list).items() {
            if uid.str().is_empty() {
                errors.invalid(&uid.path, "", "must not be empty");
            } else if !seen.insert(uid.str()) {
                errors.duplicate(&uid.path, uid.str());
            }
        }
    }
}

fn validate_conditions(status: Node<'_, '_>, before: &Value, errors: &mut Errors) {
    let path = status.path.field("conditions");
    let has = |sort: &str| has_condition(status.value, sort);
    let moved = |sort: &str| has(sort) != has_condition(before, sort);
    let contradictions = [
        ("Complete", "Failed", "cannot set Complete=True and Failed=true conditions"),
        ("Complete", "FailureTarget", "cannot set Complete=True and FailureTarget=true conditions"),
    ];
    for (one, other, detail) in contradictions {
        if has(one) && has(other) && (moved(one) || moved(other)) {
            reject(&path, detail, errors);
        }
    }
    if has("Failed") && !has("FailureTarget") && moved("Failed") {
        reject(&path, "cannot set Failed=True condition without the FailureTarget=true condition", errors);
    }
    let met = "SuccessCriteriaMet";
    if has("Complete") && !has(met) && (moved("Complete") || moved(met)) {
        reject(&path, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition", errors);
    }
    if has(met) && has("Failed") {
        reject(&path, "cannot set SuccessCriteriaMet=True and Failed=true conditions", errors);
    }
    if has(met) && has("FailureTarget") {
        reject(&path, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions", errors);
    }
}

/// Says what is wrong with the conditions without showing them all.
fn reject(path: &Path<'_>, detail: &str, errors: &mut Errors) {
    errors.push(Fault::Invalid, path, || format!("Invalid value: {detail}"));
}

fn validate_times(status: Node<'_, '_>, before: &Value, errors: &mut Errors) {
    let completion = status.field("completionTime");
    let complete = has_condition(status.value, "Complete");
    let moved = complete != has_condition(before, "Complete") || changed(status.value, before, "completionTime");
    if moved && completion.is_set() && !complete {
        let detail = "cannot set completionTime when there is no Complete=True condition";
        errors.invalid(&completion.path, completion.value, detail);
    }
    if moved && complete && !completion.is_set() {
        errors.required(&completion.path, "completionTime is required for Complete jobs");
    }
    let time = |field: &str| status.field(field).str().parse::<Timestamp>().ok();
    if let (Some(start), Some(end)) = (time("startTime"), time("completionTime"))
        && end < start
        && (changed(status.value, before, "startTime") || changed(status.value, before, "completionTime"))
    {
        errors.invalid(&completion.path, completion.value, "must be equal to or after `startTime`");
    }
}

/// What cannot be, once a job is over.
fn validate_finished(object: Node<'_, '_>, before: &Value, errors: &mut Errors) {
    let (spec, status) = (object.field("spec"), object.field("status"));
    if !is_finished(status.value) {
        return;
    }
    let moved = |field: &str| !is_finished(before) || changed(status.value, before, field);
    let (active, start) = (status.field("active"), status.field("startTime"));
    if let Some(count) = active.i64().filter(|count| *count > 0 && moved("active")) {
        errors.invalid(&active.path, count, "active>0 is invalid for finished job");
    }
    let never_started = spec.field("suspend").bool() == Some(true) && spec.field("completions").i64() == Some(0);
    if !start.is_set() && moved("startTime") && !never_started {
        errors.required(&start.path, "startTime is required for finished job");
    }
    let uncounted = status.field("uncountedTerminatedPods");
    let some = ["failed", "succeeded"].iter().any(|list| !uncounted.field(list).is_empty());
    if some && moved("uncountedTerminatedPods") {
        errors.invalid(&uncounted.path, uncounted.value, "must be empty for finished job");
    }
    let terminating = status.field("terminating");
    if let Some(count) = terminating.i64().filter(|count| *count > 0 && moved("terminating")) {
        errors.invalid(&terminating.path, count, "terminating>0 is invalid for finished job");
    }
}

fn validate_indexes(object: Node<'_, '_>, before: &Value, errors: &mut Errors) {
    let (spec, status) = (object.field("spec"), object.field("status"));
    let (completed, failed) = (status.field("completedIndexes"), status.field("failedIndexes"));
    let completed_changed = changed(status.value, before, "completedIndexes");
    let failed_changed = changed(status.value, before, "failedIndexes");
    if let Some(completions) = spec.field("completions").i64() {
        for (indexes, changed) in [(completed, completed_changed), (failed, failed_changed)] {
            let name = if indexes.value == completed.value { "completedIndexes" } else { "failedIndexes" };
            if let Err(problem) = count_indexes(indexes.str(), completions)
                && changed
            {
                errors.invalid(&indexes.path, indexes.str(), &format!("error parsing {name}: {problem}"));
            }
        }
    }
    if completed_changed && !completed.str().is_empty() && spec.field("completionMode").str() != "Indexed" {
        let detail = "cannot set non-empty completedIndexes when non-indexed completion mode";
        errors.invalid(&completed.path, completed.str(), detail);
    }
    if failed_changed && failed.is_set() && !spec.field("backoffLimitPerIndex").is_set() {
        let detail = "cannot set non-null failedIndexes when backoffLimitPerIndex is null";
        errors.invalid(&failed.path, failed.str(), detail);
    }
    if (completed_changed || failed_changed) && indexes_overlap(completed.value, failed.value) {
        errors.invalid(&failed.path, failed.str(), "failedIndexes and completedIndexes overlap");
    }
}

/// What only moves one way.
fn validate_movement(object: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let (spec, status) = (object.field("spec"), object.field("status"));
    let before = &old["status"];
    let path = status.path.field("conditions");
    for sort in ["Failed", "Complete", "FailureTarget"] {
        if has_condition(before, sort) && !has_condition(status.value, sort) {
            reject(&path, &format!("cannot disable the terminal {sort}=True condition"), errors);
        }
    }
    let elastic = spec.field("completionMode").str() == "Indexed"
        && spec.field("completions").value == spec.field("parallelism").value;
    for field in ["failed", "succeeded"] {
        let (now, was) = (status.field(field).i64().unwrap_or(0), before[field].as_i64().unwrap_or(0));
        if now < was && !(elastic && field == "succeeded") {
            errors.invalid(&status.path.field(field), now, &format!("cannot decrease the {field} counter"));
        }
    }
    let (completion, start) = (status.field("completionTime"), status.field("startTime"));
    if completion.is_set() && before["completionTime"].is_string() && changed(status.value, before, "completionTime") {
        errors.invalid(&completion.path, completion.value, "field is immutable");
    }
    let resuming = has_condition(before, "Suspended") && !has_condition(status.value, "Suspended");
    let suspended = spec.field("suspend").bool() == Some(true);
    if before["startTime"].is_string() && changed(status.value, before, "startTime") && !resuming && !suspended {
        let detail = "field is immutable for unsuspended job once set";
        errors.invalid(&start.path, start.value, detail);
    }
    let met = "SuccessCriteriaMet";
    if has_condition(before, met) && !has_condition(status.value, met) {
        reject(&path, "cannot disable the SuccessCriteriaMet=True condition", errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn statuses_are_checked() {
        let (start, end) = ("2030-01-01T00:00:00Z", "2030-01-01T01:00:00Z");
        let done = json!([{"type": "SuccessCriteriaMet", "status": "True"}, {"type": "Complete", "status": "True"}]);
        let complete = json!({"startTime": start, "completionTime": end, "conditions": done, "succeeded": 1});
        let mut active = complete.clone();
        active["active"] = json!(1);
        let rows = [
            ("started", json!({}), json!({"startTime": start, "active": 1, "ready": 1}), vec![]),
            ("done", json!({"startTime": start}), complete.clone(), vec![]),
            ("done, yet running", json!({"startTime": start}), active, vec!["status.active"]),
            (
                "ended before it began",
                json!({}),
                json!({"startTime": end, "completionTime": start, "conditions": done}),
                vec!["status.completionTime"],
            ),
            ("more ready than there are", json!({}), json!({"ready": 2, "active": 1}), vec!["status.ready"]),
            ("fewer failures", json!({"failed": 2}), json!({"failed": 1}), vec!["status.failed"]),
            (
                "undone",
                complete,
                json!({"startTime": start, "succeeded": 1}),
                vec!["status.conditions", "status.conditions"],
            ),
        ];
        for (name, before, status, expected) in rows {
            let spec = json!({"completions": 1, "completionMode": "NonIndexed"});
            let (old, new) = (json!({"spec": spec, "status": before}), json!({"spec": spec, "status": status}));
            let mut errors = Errors::default();
            validate_status(Node::root(&new), &old, &mut errors);
            assert_eq!(errors.iter().map(|error| error.field.as_str()).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
