//! CronJobs: jobs that are made at certain times.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};

use super::cron_schedule;
use super::defaults::{fill, fill_text, section};
use super::job;
use super::pod_spec::not_negative_if_set;
use super::pod_template::{self, fill_template, hostname_warnings, template_cells};

#[derive(Debug)]
pub struct CronJob;

/// The names of jobs end in a dash and ten digits, and have at most 63 characters.
const NAME_MAX: usize = 52;
const ZONE_PART_MAX: usize = 14;
const POLICIES: [&str; 3] = ["Allow", "Forbid", "Replace"];

const COLUMNS: [Column; 10] = [
    columns::NAME,
    columns::text("Schedule", "When it runs."),
    columns::text("Timezone", "The time zone of the schedule."),
    Column { kind: "boolean", ..columns::text("Suspend", "Whether it is suspended.") },
    columns::integer("Active", "How many of its jobs are running."),
    columns::text("Last Schedule", "How long ago it ran."),
    columns::AGE,
    pod_template::CONTAINERS,
    pod_template::IMAGES,
    pod_template::SELECTOR,
];

impl Behaviour for CronJob {
    fn default(&self, object: &mut Value) {
        let spec = section(object, "spec");
        let template = section(spec, "jobTemplate");
        section(template, "metadata");
        fill_template(template);
        job::fill_failure_policy(&mut template["spec"]);
        fill_text(spec, "concurrencyPolicy", "Allow");
        fill(spec, "suspend", false);
        fill(spec, "successfulJobsHistoryLimit", 3);
        fill(spec, "failedJobsHistoryLimit", 1);
        section(object, "status");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({});
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_spec(object.field("spec"), &Value::Null, errors);
        let metadata = object.field("metadata");
        let name = metadata.field("name");
        if name.str().len() > NAME_MAX {
            errors.invalid(&name.path, name.str(), "must be no more than 52 characters");
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Main {
            validate_spec(object.field("spec"), &old["spec"], errors);
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        hostname_warnings(object, old)
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no Jobs will be created")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let (spec, status) = (&object["spec"], &object["status"]);
        let last = status["lastScheduleTime"].as_str().map(|time| columns::age(time, now));
        let suspended = match spec["suspend"].as_bool() {
            Some(true) => "True",
            Some(false) => "False",
            None => "<unset>",
        };
        let mut cells = vec![
            columns::name_cell(object),
            spec["schedule"].as_str().unwrap_or_default().into(),
            spec["timeZone"].as_str().unwrap_or(columns::NONE).into(),
            suspended.into(),
            status["active"].as_array().map_or(0, Vec::len).into(),
            last.unwrap_or_else(|| columns::NONE.to_owned()).into(),
            columns::age_cell(object, now),
        ];
        cells.extend(template_cells(&spec["jobTemplate"]));
        cells
    }
}

/// `old` is null for a new one.
fn validate_spec(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    validate_schedule(spec, old, errors);
    not_negative_if_set(spec.field("startingDeadlineSeconds"), errors);
    let zone = spec.field("timeZone");
    if old.is_null() || *zone.value != old["timeZone"] {
        validate_time_zone(zone, errors);
    }
    let policy = spec.field("concurrencyPolicy");
    if !POLICIES.contains(&policy.str()) {
        errors.unsupported(&policy.path, policy.str(), &POLICIES);
    }
    validate_job(spec.field("jobTemplate").field("spec"), errors);
    not_negative_if_set(spec.field("successfulJobsHistoryLimit"), errors);
    not_negative_if_set(spec.field("failedJobsHistoryLimit"), errors);
}

fn validate_schedule(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let schedule = spec.field("schedule");
    if schedule.str().is_empty() {
        return errors.required(&schedule.path, "");
    }
    if let Err(problem) = cron_schedule::check(schedule.str()) {
        errors.invalid(&schedule.path, schedule.str(), &problem);
    }
    let had_zone = old["schedule"].as_str().is_some_and(|schedule| schedule.contains("TZ"));
    let detail = match (schedule.str().contains("TZ"), had_zone) {
        (true, false) => "cannot use TZ or CRON_TZ in schedule, use timeZone field instead",
        (true, true) if spec.field("timeZone").is_set() => {
            "cannot use both timeZone field and TZ or CRON_TZ in schedule"
        }
        _ => return,
    };
    errors.invalid(&schedule.path, schedule.str(), detail);
}

/// Checks the form of a time zone's name. Which zones there are is known to whoever runs the job.
fn validate_time_zone(zone: Node<'_, '_>, errors: &mut Errors) {
    let text = zone.str();
    let in_form = |part: &str| {
        let characters = part.bytes().all(|b| b.is_ascii_alphanumeric() || b".-_+".contains(&b));
        characters && !matches!(part, "" | "." | "..") && !part.starts_with('-') && part.len() <= ZONE_PART_MAX
    };
    if !zone.is_set() {
    } else if text.is_empty() {
        errors.invalid(&zone.path, text, "timeZone must be nil or non-empty string");
    } else if !text.split('/').all(in_form) {
        errors.invalid(&zone.path, text, &format!("unknown time zone {text}"));
    } else if text.eq_ignore_ascii_case("Local") {
        let detail = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        errors.invalid(&zone.path, text, detail);
    }
}

/// The jobs find their pods by themselves, so the template cannot say how.
fn validate_job(spec: Node<'_, '_>, errors: &mut Errors) {
    job::validate_work(spec, errors);
    let (selector, manual) = (spec.field("selector"), spec.field("manualSelector"));
    if selector.is_set() {
        errors.invalid(&selector.path, selector.value, "`selector` will be auto-generated");
    }
    if manual.bool() == Some(true) {
        errors.unsupported(&manual.path, true, &["nil", "false"]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::probe::{completed, messages, update_messages};

    fn cron(change: impl FnOnce(&mut Value)) -> Value {
        let pod = json!({"restartPolicy": "OnFailure", "containers": [{"name": "c", "image": "tool:1"}]});
        let mut object = json!({
            "metadata": {"name": "nightly"},
            "spec": {"schedule": "0 3 * * *", "jobTemplate": {"spec": {"template": {"spec": pod}}}},
        });
        change(&mut object);
        object
    }

    #[test]
    fn a_cron_job_is_completed() {
        let object = completed(&CronJob, &cron(|_| {}));
        let spec = &object["spec"];
        assert_eq!((&spec["concurrencyPolicy"], &spec["suspend"]), (&json!("Allow"), &json!(false)));
        assert_eq!((&spec["successfulJobsHistoryLimit"], &spec["failedJobsHistoryLimit"]), (&json!(3), &json!(1)));
        let job = &spec["jobTemplate"]["spec"];
        assert_eq!(job["template"]["spec"]["dnsPolicy"], "ClusterFirst");
        assert_eq!(job.get("backoffLimit"), None, "a template leaves this to its jobs");
    }

    #[test]
    fn cron_jobs_are_checked() {
        type Change = fn(&mut Value);
        let rows: &[(&str, Change, &[&str])] = &[
            ("a good one", |_| {}, &[]),
            ("no time", |object| object["spec"]["schedule"] = json!(""), &["spec.schedule: Required value"]),
            (
                "no such time",
                |object| object["spec"]["schedule"] = json!("0 25 * * *"),
                &[r#"spec.schedule: Invalid value: "0 25 * * *": end of range (25) above maximum (23): 25"#],
            ),
            (
                "a zone in the schedule",
                |object| object["spec"]["schedule"] = json!("TZ=UTC 0 3 * * *"),
                &[
                    "spec.schedule: Invalid value: \"TZ=UTC 0 3 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone \
                     field instead",
                ],
            ),
            ("a zone", |object| object["spec"]["timeZone"] = json!("Europe/Berlin"), &[]),
            (
                "an empty zone",
                |object| object["spec"]["timeZone"] = json!(""),
                &[r#"spec.timeZone: Invalid value: "": timeZone must be nil or non-empty string"#],
            ),
            (
                "a zone that is none",
                |object| object["spec"]["timeZone"] = json!("Europe//Berlin"),
                &[r#"spec.timeZone: Invalid value: "Europe//Berlin": unknown time zone Europe//Berlin"#],
            ),
            (
                "the zone of whoever asks",
                |object| object["spec"]["timeZone"] = json!("local"),
                &["spec.timeZone: Invalid value: \"local\": timeZone must be an explicit time zone as defined in \
                   https://www.iana.org/time-zones"],
            ),
            (
                "a policy that is none",
                |object| object["spec"]["concurrencyPolicy"] = json!("Ask"),
                &[
                    r#"spec.concurrencyPolicy: Unsupported value: "Ask": supported values: "Allow", "Forbid", "Replace""#,
                ],
            ),
            (
                "pods that never end",
                |object| object["spec"]["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = json!("Always"),
                &[
                    "spec.jobTemplate.spec.template.spec.restartPolicy: Required value: valid values: \"OnFailure\", \"Never\"",
                ],
            ),
            (
                "pods that are looked for",
                |object| {
                    object["spec"]["jobTemplate"]["spec"]["selector"] = json!({"matchLabels": {"a": "b"}});
                    object["spec"]["jobTemplate"]["spec"]["manualSelector"] = json!(true);
                },
                &[
                    r#"spec.jobTemplate.spec.selector: Invalid value: {"matchLabels":{"a":"b"}}: `selector` will be auto-generated"#,
                    r#"spec.jobTemplate.spec.manualSelector: Unsupported value: true: supported values: "nil", "false""#,
                ],
            ),
            (
                "less than nothing",
                |object| {
                    object["spec"]["startingDeadlineSeconds"] = json!(-1);
                    object["spec"]["successfulJobsHistoryLimit"] = json!(-1);
                    object["spec"]["failedJobsHistoryLimit"] = json!(-1);
                },
                &[
                    "spec.startingDeadlineSeconds: Invalid value: -1: must be greater than or equal to 0",
                    "spec.successfulJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                    "spec.failedJobsHistoryLimit: Invalid value: -1: must be greater than or equal to 0",
                ],
            ),
            (
                "a name too long for its jobs",
                |object| object["metadata"]["name"] = json!("a".repeat(53)),
                &[
                    "metadata.name: Invalid value: \"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa\": must be no more \
                     than 52 characters",
                ],
            ),
        ];
        for (name, change, expected) in rows {
            assert_eq!(messages(&CronJob, &cron(change)), *expected, "{name}");
        }
    }

    #[test]
    fn what_was_taken_once_is_taken_again() {
        let zoned = cron(|object| object["spec"]["schedule"] = json!("TZ=UTC 0 3 * * *"));
        assert!(update_messages(&CronJob, &zoned, &zoned, Part::Main).is_empty());
        let local = cron(|object| object["spec"]["timeZone"] = json!("Local"));
        assert!(update_messages(&CronJob, &local, &local, Part::Main).is_empty());
        assert_eq!(update_messages(&CronJob, &local, &cron(|_| {}), Part::Main).len(), 1);
    }

    #[test]
    fn the_last_run_is_shown() {
        let now: Timestamp = "2030-01-01T00:05:00Z".parse().expect("a time");
        let object = completed(
            &CronJob,
            &cron(|object| {
                object["status"] = json!({"active": [{}], "lastScheduleTime": "2030-01-01T00:00:00Z"});
            }),
        );
        let cells = CronJob.cells(&object, now);
        assert_eq!(
            cells[..6],
            [json!("nightly"), json!("0 3 * * *"), json!("<none>"), json!("False"), json!(1), json!("5m")]
        );
        assert_eq!(cells[7..], [json!("c"), json!("tool:1"), json!("<none>")]);
    }
}
