//! A job's policies: which failures of pods count, and which successes are enough.

use std::collections::BTreeSet;

use serde_json::Value;

use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::names;

use super::pod_spec::not_negative;

const RULES_MAX: usize = 20;
const PATTERNS_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;
const INDEXES_LENGTH_MAX: usize = 64 * 1024;

/// Checks all policies in a job's spec.
pub(super) fn validate(spec: Node<'_, '_>, errors: &mut Errors) {
    let (failure, success) = (spec.field("podFailurePolicy"), spec.field("successPolicy"));
    if failure.is_set() {
        validate_failure_policy(failure, spec, errors);
    }
    if success.is_set() {
        if spec.field("completionMode").str() == "Indexed" {
            validate_success_policy(success, spec, errors);
        } else {
            errors.invalid(&success.path, success.value, "requires indexed completion mode");
        }
    }
    let replacement = spec.field("podReplacementPolicy");
    let supported: &[&str] = if failure.is_set() { &["Failed"] } else { &["Failed", "TerminatingOrFailed"] };
    if replacement.is_set() && !supported.contains(&replacement.str()) {
        errors.unsupported(&replacement.path, replacement.str(), supported);
    }
}

fn validate_failure_policy(policy: Node<'_, '_>, spec: Node<'_, '_>, errors: &mut Errors) {
    let rules = policy.field("rules");
    if rules.len() > RULES_MAX {
        errors.too_many(&rules.path, rules.len(), RULES_MAX);
    }
    let pod = &spec.value["template"]["spec"];
    let listed = ["containers", "initContainers"].iter().filter_map(|list| pod[*list].as_array()).flatten();
    let containers: BTreeSet<&str> = listed.filter_map(|container| container["name"].as_str()).collect();
    for rule in rules.items() {
        let action = rule.field("action");
        const ACTIONS: [&str; 4] = ["Count", "FailIndex", "FailJob", "Ignore"];
        match action.str() {
            "" => errors.required(&action.path, &valid_values(&ACTIONS)),
            "FailIndex" if !spec.field("backoffLimitPerIndex").is_set() => {
                errors.invalid(&action.path, action.str(), "requires the backoffLimitPerIndex to be set");
            }
            other if !ACTIONS.contains(&other) => errors.unsupported(&action.path, other, &ACTIONS),
            _ => {}
        }
        let (codes, conditions) = (rule.field("onExitCodes"), rule.field("onPodConditions"));
        if codes.is_set() {
            validate_exit_codes(codes, &containers, errors);
        }
        validate_conditions(conditions, errors);
        let problem = match (codes.is_set(), conditions.is_empty()) {
            (true, false) => "specifying both OnExitCodes and OnPodConditions is not supported",
            (false, true) => "specifying one of OnExitCodes and OnPodConditions is required",
            _ => continue,
        };
        errors.push(Fault::Invalid, &rule.path, || format!("Invalid value: {problem}"));
    }
}

fn valid_values(values: &[&str]) -> String {
    let quoted: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
    format!("valid values: [{}]", quoted.join(" "))
}

/// `containers` are the names of those in the template.
fn validate_exit_codes(codes: Node<'_, '_>, containers: &BTreeSet<&str>, errors: &mut Errors) {
    let (operator, container, values) = (codes.field("operator"), codes.field("containerName"), codes.field("values"));
    match operator.str() {
        "In" | "NotIn" => {}
        "" => errors.required(&operator.path, &valid_values(&["In", "NotIn"])),
        other => errors.unsupported(&operator.path, other, &["In", "NotIn"]),
    }
    if container.is_set() && !containers.contains(container.str()) {
        let detail = "must be one of the container or initContainer names in the pod template";
        errors.invalid(&container.path, container.str(), detail);
    }
    if values.is_empty() {
        errors.invalid(&values.path, values.value, "at least one value is required");
    } else if values.len() > EXIT_CODES_MAX {
        errors.too_many(&values.path, values.len(), EXIT_CODES_MAX);
    }
    let (mut seen, mut ordered, mut last) = (BTreeSet::new(), true, i64::MIN);
    for value in values.items() {
        let code = value.i64().unwrap_or(0);
        if operator.str() == "In" && code == 0 {
            errors.invalid(&value.path, code, "must not be 0 for the In operator");
        }
        if !seen.insert(code) {
            errors.duplicate(&value.path, code);
        }
        ordered &= last <= code;
        last = code;
    }
    if !ordered {
        errors.invalid(&values.path, values.value, "must be ordered");
    }
}

fn validate_conditions(patterns: Node<'_, '_>, errors: &mut Errors) {
    if patterns.len() > PATTERNS_MAX {
        errors.too_many(&patterns.path, patterns.len(), PATTERNS_MAX);
    }
    for pattern in patterns.items() {
        let (sort, status) = (pattern.field("type"), pattern.field("status"));
        for message in names::qualified_name(sort.str()) {
            errors.invalid(&sort.path, sort.str(), &message);
        }
        const STATUSES: [&str; 3] = ["False", "True", "Unknown"];
        match status.str() {
            "" => errors.required(&status.path, &valid_values(&STATUSES)),
            other if !STATUSES.contains(&other) => errors.unsupported(&status.path, other, &STATUSES),
            _ => {}
        }
    }
}

fn validate_success_policy(policy: Node<'_, '_>, spec: Node<'_, '_>, errors: &mut Errors) {
    let completions = spec.field("completions").i64().unwrap_or(0);
    let rules = policy.field("rules");
    if rules.is_empty() {
        errors.required(&rules.path, "at least one rules must be specified when the successPolicy is specified");
    }
    if rules.len() > RULES_MAX {
        errors.too_many(&rules.path, rules.len(), RULES_MAX);
    }
    for rule in rules.items() {
        let (count, indexes) = (rule.field("succeededCount"), rule.field("succeededIndexes"));
        if !count.is_set() && !indexes.is_set() {
            errors.required(&rule.path, "at least one of succeededCount or succeededIndexes must be specified");
        }
        let mut listed = 0;
        if indexes.is_set() {
            if indexes.str().len() > INDEXES_LENGTH_MAX {
                errors.too_long(&indexes.path, INDEXES_LENGTH_MAX);
            }
            match count_indexes(indexes.str(), completions) {
                Ok(total) => listed = total,
                Err(problem) => {
                    let detail = format!("error parsing succeededIndexes: {problem}");
                    errors.invalid(&indexes.path, indexes.str(), &detail);
                }
            }
        }
        let Some(wanted) = count.i64() else { continue };
        not_negative(wanted, &count.path, errors);
        if wanted > completions {
            let detail = format!("must be less than or equal to {completions} (the number of specified completions)");
            errors.invalid(&count.path, wanted, &detail);
        }
        if indexes.is_set() && wanted > listed {
            let detail = format!(
                "must be less than or equal to {listed} (the number of indexes in the specified succeededIndexes field)"
            );
            errors.invalid(&count.path, wanted, &detail);
        }
    }
}

/// How many indexes a list such as `0,2-4` has, each below `completions`, in order.
pub(super) fn count_indexes(text: &str, completions: i64) -> Result<i64, String> {
    let index = |text: &str| match text.parse::<i64>() {
        Err(_) => Err(format!("cannot convert string to integer for index: \"{text}\"")),
        Ok(index) if index >= completions => Err(format!("too large index: \"{text}\"")),
        Ok(index) => Ok(index),
    };
    let (mut total, mut last) = (0, None);
    for interval in text.split(',').filter(|_| !text.is_empty()) {
        let mut ends = interval.split('-');
        let (first, second) = (ends.next().unwrap_or_default(), ends.next());
        if ends.next().is_some() {
            return Err(format!(
                "the fragment \"{interval}\" violates the requirement that an index interval can have at most two \
                 parts separated by '-'"
            ));
        }
        let low = index(first)?;
        let high = second.map(index).transpose()?.unwrap_or(low);
        let previous = if second.is_some() && low >= high { Some((low, high)) } else { None };
        let out_of_order = previous.or(last.filter(|last| *last >= low).map(|last| (last, low)));
        if let Some((previous, current)) = out_of_order {
            return Err(format!("non-increasing order, previous: {previous}, current: {current}"));
        }
        total += high - low + 1;
        last = Some(high);
    }
    Ok(total)
}

/// Whether two lists of indexes have one in common.
pub(super) fn indexes_overlap(one: &Value, other: &Value) -> bool {
    let intervals = |value: &Value| -> Vec<(i64, i64)> {
        let text = value.as_str().unwrap_or_default();
        text.split(',')
            .filter_map(|interval| {
                let (low, high) = interval.split_once('-').unwrap_or((interval, interval));
                Some((low.parse().ok()?, high.parse().ok()?))
            })
            .collect()
    };
    let mut all: Vec<((i64, i64), usize)> = Vec::new();
    for (list, value) in [one, other].into_iter().enumerate() {
        all.extend(intervals(value).into_iter().map(|interval| (interval, list)));
    }
    all.sort_unstable();
    let mut ends = [None, None];
    all.into_iter().any(|((low, high), list)| {
        ends[list] = ends[list].max(Some(high));
        ends[1 - list].is_some_and(|end| low <= end)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indexes_are_counted() {
        let rows = [
            ("none", "", Ok(0)),
            ("one", "3", Ok(1)),
            ("some", "0,2-4,9", Ok(5)),
            ("out of order", "2,1", Err("non-increasing order, previous: 2, current: 1")),
            ("an interval backwards", "4-2", Err("non-increasing order, previous: 4, current: 2")),
            ("too large", "10", Err("too large index: \"10\"")),
            ("no number", "a", Err("cannot convert string to integer for index: \"a\"")),
        ];
        for (name, text, expected) in rows {
            assert_eq!(count_indexes(text, 10), expected.map_err(str::to_owned), "{name}");
        }
        assert!(indexes_overlap(&"0,2-4".into(), &"3".into()));
        assert!(indexes_overlap(&"5".into(), &"0-9".into()));
        assert!(!indexes_overlap(&"0,2-4".into(), &"1,5".into()));
        assert!(!indexes_overlap(&"1,1".into(), &"".into()));
    }
}
