//! Pods in a table: how far each one is, in one word.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns;
use crate::kind::Column;

use super::lookup::first_by;

pub(super) const COLUMNS: [Column; 9] = [
    columns::NAME,
    columns::text("Ready", "How many containers are ready, of how many there are."),
    columns::text("Status", "What the containers are doing, or what keeps them from it."),
    columns::text("Restarts", "How often containers were started again, and when last."),
    columns::AGE,
    columns::wide("IP", "The pod's address."),
    columns::wide("Node", "Where the pod runs."),
    columns::wide("Nominated Node", "Where the pod will run once others have made room."),
    columns::wide("Readiness Gates", "How many of the conditions it waits for are true."),
];

/// What is counted over the containers of a pod.
#[derive(Debug, Default)]
struct Tally<'v> {
    ready: usize,
    restarts: i64,
    /// When the last container that was started again had ended.
    last_restart: Option<&'v str>,
}

impl<'v> Tally<'v> {
    fn count_restarts(&mut self, status: &'v Value) {
        self.restarts = self.restarts.saturating_add(status["restartCount"].as_i64().unwrap_or(0));
        let ended = status["lastState"]["terminated"]["finishedAt"].as_str();
        // Times of one form sort as text.
        self.last_restart = self.last_restart.max(ended);
    }

    fn shown(&self, now: Timestamp) -> String {
        match self.last_restart.filter(|_| self.restarts != 0) {
            Some(when) => format!("{} ({} ago)", self.restarts, columns::age(when, now)),
            None => self.restarts.to_string(),
        }
    }
}

/// One cell for each of [`COLUMNS`].
pub(super) fn cells(pod: &Value, now: Timestamp) -> Vec<Value> {
    let (spec, status) = (&pod["spec"], &pod["status"]);
    let sidecars = list(&spec["initContainers"]).iter().filter(|container| container["restartPolicy"] == "Always");
    let total = list(&spec["containers"]).len() + sidecars.count();
    let (reason, tally) = state_of(pod);
    let or_none = |value: &Value| columns::none_if_empty(text(value).to_owned()).into();
    vec![
        columns::name_cell(pod),
        format!("{}/{total}", tally.ready).into(),
        reason.into(),
        tally.shown(now).into(),
        columns::age_cell(pod, now),
        or_none(&status["podIPs"][0]["ip"]),
        or_none(&spec["nodeName"]),
        or_none(&status["nominatedNodeName"]),
        readiness_gates(pod).into(),
    ]
}

/// The word for what a pod is doing, and what was counted on the way to it.
fn state_of(pod: &Value) -> (String, Tally<'_>) {
    let status = &pod["status"];
    let phase = text(&status["phase"]);
    let mut reason = Some(text(&status["reason"])).filter(|reason| !reason.is_empty()).unwrap_or(phase).to_owned();
    if condition(status, "PodScheduled").is_some_and(|condition| condition["reason"] == "SchedulingGated") {
        reason = "SchedulingGated".to_owned();
    }
    let (initializing, mut tally, sidecars) = initialization(pod);
    let initialized = condition(status, "Initialized").is_some_and(|condition| condition["status"] == "True");
    match initializing {
        Some(initializing) if !initialized => reason = initializing,
        initializing => {
            reason = initializing.unwrap_or(reason);
            tally = Tally { ready: tally.ready, ..sidecars };
            running(status, &mut reason, &mut tally);
        }
    }
    if pod["metadata"]["deletionTimestamp"].is_string() {
        if status["reason"] == "NodeLost" {
            reason = "Unknown".to_owned();
        } else if !matches!(phase, "Failed" | "Succeeded") {
            reason = "Terminating".to_owned();
        }
    }
    (reason, tally)
}

/// What the init containers wait for (none, if they are done); and what was counted, over all and over sidecars alone.
fn initialization(pod: &Value) -> (Option<String>, Tally<'_>, Tally<'_>) {
    let containers = list(&pod["spec"]["initContainers"]);
    let by_name = first_by(&pod["spec"]["initContainers"], "name");
    let (mut tally, mut sidecars) = (Tally::default(), Tally::default());
    for (index, status) in list(&pod["status"]["initContainerStatuses"]).iter().enumerate() {
        let container = by_name.get(text(&status["name"]));
        let is_sidecar = container.is_some_and(|container| container["restartPolicy"] == "Always");
        tally.count_restarts(status);
        if is_sidecar {
            sidecars.count_restarts(status);
        }
        let state = &status["state"];
        let (terminated, waiting) = (&state["terminated"], text(&state["waiting"]["reason"]));
        if terminated.is_object() && terminated["exitCode"].as_i64().unwrap_or(0) == 0 {
            continue;
        }
        if is_sidecar && status["started"] == true {
            tally.ready += usize::from(status["ready"] == true);
            continue;
        }
        let reason = if terminated.is_object() {
            format!("Init:{}", ending(terminated))
        } else if !matches!(waiting, "" | "PodInitializing") {
            format!("Init:{waiting}")
        } else {
            format!("Init:{index}/{}", containers.len())
        };
        return (Some(reason), tally, sidecars);
    }
    (None, tally, sidecars)
}

/// What the regular containers do. The first one that has something to say decides.
fn running<'v>(status: &'v Value, reason: &mut String, tally: &mut Tally<'v>) {
    let (mut some_running, mut failure) = (false, None);
    for container in list(&status["containerStatuses"]).iter().rev() {
        tally.count_restarts(container);
        let state = &container["state"];
        let (terminated, waiting) = (&state["terminated"], text(&state["waiting"]["reason"]));
        if !waiting.is_empty() {
            *reason = waiting.to_owned();
        } else if terminated.is_object() {
            *reason = ending(terminated);
            if terminated["exitCode"].as_i64().unwrap_or(0) != 0 {
                failure = Some(reason.clone());
            }
        } else if container["ready"] == true && state["running"].is_object() {
            some_running = true;
            tally.ready += 1;
        }
    }
    // Not all of a pod is completed while something in it still runs, or if something in it failed.
    if reason == "Completed" {
        let ready = condition(status, "Ready").is_some_and(|condition| condition["status"] == "True");
        if some_running && ready {
            *reason = "Running".to_owned();
        } else if let Some(failure) = failure {
            *reason = failure;
        } else if some_running {
            *reason = "NotReady".to_owned();
        }
    }
}

/// How a container ended.
fn ending(terminated: &Value) -> String {
    let number = |field: &str| terminated[field].as_i64().unwrap_or(0);
    match text(&terminated["reason"]) {
        "" if number("signal") != 0 => format!("Signal:{}", number("signal")),
        "" => format!("ExitCode:{}", number("exitCode")),
        reason => reason.to_owned(),
    }
}

fn readiness_gates(pod: &Value) -> String {
    let gates = list(&pod["spec"]["readinessGates"]);
    if gates.is_empty() {
        return columns::NONE.to_owned();
    }
    let conditions = first_by(&pod["status"]["conditions"], "type");
    let is_true = |gate: &&Value| {
        conditions.get(text(&gate["conditionType"])).is_some_and(|condition| condition["status"] == "True")
    };
    format!("{}/{}", gates.iter().filter(is_true).count(), gates.len())
}

fn condition<'v>(status: &'v Value, sort: &str) -> Option<&'v Value> {
    list(&status["conditions"]).iter().find(|condition| condition["type"] == sort)
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_summed_up() {
        let two = json!({"containers": [{"name": "a"}, {"name": "b"}]});
        let init = json!({"containers": [{"name": "a"}], "initContainers": [{"name": "i"}, {"name": "j"}]});
        let sidecar =
            json!({"containers": [{"name": "a"}], "initContainers": [{"name": "s", "restartPolicy": "Always"}]});
        let up = json!({"running": {}});
        let ended = |code: i64, reason: &str| json!({"terminated": {"exitCode": code, "reason": reason}});
        let rows = [
            ("new", two.clone(), json!({"phase": "Pending"}), ["0/2", "Pending", "0"]),
            (
                "gated",
                two.clone(),
                json!({"phase": "Pending", "conditions": [{"type": "PodScheduled", "reason": "SchedulingGated"}]}),
                ["0/2", "SchedulingGated", "0"],
            ),
            (
                "one of two up",
                two.clone(),
                json!({"phase": "Running", "containerStatuses": [{"ready": true, "state": up}, {"state": up}]}),
                ["1/2", "Running", "0"],
            ),
            (
                "crashing",
                two.clone(),
                json!({"phase": "Running", "containerStatuses": [{
                    "restartCount": 3,
                    "state": {"waiting": {"reason": "CrashLoopBackOff"}},
                    "lastState": {"terminated": {"finishedAt": "2029-12-31T23:59:00Z"}},
                }]}),
                ["0/2", "CrashLoopBackOff", "3 (60s ago)"],
            ),
            (
                "failed without a reason",
                two.clone(),
                json!({"phase": "Failed", "containerStatuses": [{"state": ended(3, "")}]}),
                ["0/2", "ExitCode:3", "0"],
            ),
            (
                "one completed, one up",
                two.clone(),
                json!({"phase": "Running", "containerStatuses": [
                    {"state": ended(0, "Completed")},
                    {"ready": true, "state": up},
                ]}),
                ["1/2", "NotReady", "0"],
            ),
            (
                "initializing",
                init.clone(),
                json!({"phase": "Pending", "initContainerStatuses": [
                    {"name": "i", "state": ended(0, "Completed")},
                    {"name": "j", "state": {"waiting": {"reason": "PodInitializing"}}},
                ]}),
                ["0/1", "Init:1/2", "0"],
            ),
            (
                "initialization failed",
                init,
                json!({"phase": "Pending", "initContainerStatuses": [{"name": "i", "restartCount": 1, "state": ended(1, "Error")}]}),
                ["0/1", "Init:Error", "1"],
            ),
            (
                "with a sidecar",
                sidecar,
                json!({
                    "phase": "Running",
                    "initContainerStatuses": [{"name": "s", "started": true, "ready": true, "restartCount": 1, "state": up}],
                    "containerStatuses": [{"ready": true, "state": up}],
                }),
                ["2/2", "Running", "1"],
            ),
        ];
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().expect("a time");
        for (name, spec, status, expected) in rows {
            let mut pod = json!({"metadata": {"name": "p"}, "spec": spec, "status": status});
            assert_eq!(cells(&pod, now)[1..4], expected.map(Value::from), "{name}");
            pod["metadata"]["deletionTimestamp"] = json!("2030-01-01T00:00:00Z");
            let over = pod["status"]["phase"] == "Failed";
            assert_eq!(cells(&pod, now)[2] == "Terminating", !over, "{name}, being deleted");
        }
    }
}
