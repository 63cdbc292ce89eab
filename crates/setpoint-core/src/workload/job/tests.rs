//! Tables of what a Job does next.

use jiff::Timestamp;
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};

use super::*;
use crate::workload::fixtures::{at, laid_over, object};

pub(super) fn job(over: Value) -> Job {
    let base = json!({
        "metadata": {"name": "sum", "namespace": "shop", "uid": "j-uid"},
        "spec": {
            "completions": 1, "parallelism": 1, "backoffLimit": 6, "completionMode": "NonIndexed", "suspend": false,
            "podReplacementPolicy": "TerminatingOrFailed",
            "selector": {"matchLabels": {"batch.kubernetes.io/controller-uid": "j-uid"}},
            "template": {
                "metadata": {"labels": {"batch.kubernetes.io/controller-uid": "j-uid"}},
                "spec": {"restartPolicy": "Never", "containers": [{"name": "c"}]},
            },
        },
    });
    object(laid_over(base, over))
}

/// A Pod that runs.
pub(super) fn running(name: &str) -> Value {
    json!({
        "metadata": {"name": name, "uid": name, "namespace": "shop", "finalizers": [TRACKING]},
        "spec": {"containers": []},
        "status": {"phase": "Running", "conditions": [{"type": "Ready", "status": "True"}]},
    })
}

/// One that ended some seconds after noon, with this code.
fn ended(name: &str, code: i32, seconds: i64) -> Value {
    let phase = if code == 0 { "Succeeded" } else { "Failed" };
    laid_over(
        running(name),
        json!({"status": {"phase": phase, "conditions": [], "containerStatuses": [{
            "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": code, "finishedAt": at(seconds).to_string()}},
        }]}}),
    )
}

fn released(pod: Value) -> Value {
    laid_over(pod, json!({"metadata": {"finalizers": []}}))
}

fn going(pod: Value) -> Value {
    laid_over(pod, json!({"metadata": {"deletionTimestamp": at(0).to_string()}}))
}

fn indexed(pod: Value, index: i32) -> Value {
    laid_over(pod, json!({"metadata": {"annotations": {indexes::COMPLETION_INDEX: index.to_string()}}}))
}

/// What is decided, in a line: `+` what is made, `-` what is taken away (`~` without blame), `!` who is let go, the
/// conditions that are true, and the numbers.
fn line(job: &Job, pods: &[Value], now: Timestamp) -> String {
    let pods: Vec<Pod> = pods.iter().map(|pod| object(pod.clone())).collect();
    let pods: Vec<&Pod> = pods.iter().collect();
    let is_taken = |name: &str| pods.iter().any(|pod| pod.metadata.name.as_deref() == Some(name));
    let decision = decide(&Facts { job, pods: &pods, is_taken: &is_taken, now });
    let name = |pod: &Pod| pod.metadata.name.clone().unwrap();
    let index = |pod: &Pod| {
        let annotations = pod.metadata.annotations.clone().unwrap_or_default();
        annotations.get(indexes::COMPLETION_INDEX).cloned().unwrap_or_default()
    };
    let mut words: Vec<String> = decision.create.iter().map(|pod| format!("+{}", index(pod))).collect();
    let mark = |removal: &Removal<'_>| if removal.is_blameless { '~' } else { '-' };
    words.extend(decision.remove.iter().map(|removal| format!("{}{}", mark(removal), name(removal.pod))));
    words.extend(decision.release.iter().map(|pod| format!("!{}", name(pod))));
    let status = decision.status(job, decision.create.len()).or_else(|| job.status.clone()).unwrap_or_default();
    let conditions = status.conditions.unwrap_or_default();
    words.extend(
        conditions.iter().filter(|condition| condition.status == "True").map(|condition| condition.type_.clone()),
    );
    let count =
        |word: &str, number: Option<i32>| number.filter(|number| *number != 0).map(|number| format!("{word}={number}"));
    let listed = status.uncounted_terminated_pods.unwrap_or_default();
    let length = |list: Option<Vec<String>>| list.map(|list| number(list.len()));
    words.extend(count("active", status.active));
    words.extend(count("ready", status.ready));
    words.extend(count("terminating", status.terminating));
    words.extend(count("succeeded", status.succeeded));
    words.extend(count("failed", status.failed));
    words.extend(count("new-succeeded", length(listed.succeeded)));
    words.extend(count("new-failed", length(listed.failed)));
    words.extend(status.completed_indexes.map(|text| format!("done={text}")));
    words.extend(status.failed_indexes.filter(|text| !text.is_empty()).map(|text| format!("given-up={text}")));
    words.extend(decision.is_expired.then(|| "expired".to_owned()));
    words.extend(decision.look_again.map(|then| format!("again@{}", then.as_second() - at(0).as_second())));
    words.join(" ")
}

#[test]
fn what_a_job_does_next() {
    let spec = |spec: Value| json!({"spec": spec});
    let said = |type_: &str, reason: &str| {
        json!({"status": {"startTime": at(0).to_string(), "conditions": [
        {"type": type_, "status": "True", "reason": reason, "message": "m", "lastTransitionTime": at(0).to_string()}]}})
    };
    let done = || {
        json!({"status": {"succeeded": 1, "startTime": at(0).to_string(), "conditions": [
        {"type": "Complete", "status": "True", "lastTransitionTime": at(0).to_string()}]}})
    };
    let listed = |list: &str, uid: &str| json!({"status": {"uncountedTerminatedPods": {list: [uid]}}});
    let policy = |action: &str| {
        json!({"spec": {"podReplacementPolicy": "Failed", "podFailurePolicy": {"rules": [
        {"action": action, "onExitCodes": {"operator": "In", "values": [42]}}]}}})
    };
    let rows: Vec<(&str, Value, Vec<Value>, &str)> = vec![
        ("at first, a Pod", json!({}), vec![], "+ active=1"),
        ("then it runs", json!({}), vec![running("a")], "active=1 ready=1"),
        (
            "as many at once as may be, no more than are needed",
            spec(json!({"completions": 5, "parallelism": 2})),
            vec![],
            "+ + active=2",
        ),
        (
            "the last ones only",
            laid_over(spec(json!({"completions": 5, "parallelism": 3})), json!({"status": {"succeeded": 3}})),
            vec![running("a")],
            "+ active=2 ready=1 succeeded=3",
        ),
        ("success is listed, then let go", json!({}), vec![ended("a", 0, 0)], "!a SuccessCriteriaMet new-succeeded=1"),
        (
            "what is listed is let go again if somebody died there",
            laid_over(said("SuccessCriteriaMet", "CompletionsReached"), listed("succeeded", "a")),
            vec![ended("a", 0, 0)],
            "!a SuccessCriteriaMet new-succeeded=1",
        ),
        (
            "what was let go is counted, and the Job is complete",
            laid_over(said("SuccessCriteriaMet", "CompletionsReached"), listed("succeeded", "a")),
            vec![released(ended("a", 0, 0))],
            "SuccessCriteriaMet Complete succeeded=1",
        ),
        (
            "what was listed and is gone is counted too",
            laid_over(said("SuccessCriteriaMet", "CompletionsReached"), listed("succeeded", "a")),
            vec![],
            "SuccessCriteriaMet Complete succeeded=1",
        ),
        ("a failure is listed, and the next try waits", json!({}), vec![ended("a", 1, -2)], "!a new-failed=1 again@8"),
        (
            "after ten seconds it is tried again",
            json!({"status": {"failed": 1}}),
            vec![released(ended("a", 1, -11))],
            "+ active=1 failed=1",
        ),
        (
            "after two failures the wait is twice as long",
            json!({"status": {"failed": 2}}),
            vec![released(ended("a", 1, -30)), released(ended("b", 1, -11))],
            "failed=2 again@9",
        ),
        (
            "a success between them ends that",
            laid_over(spec(json!({"completions": 3})), json!({"status": {"failed": 2, "succeeded": 1}})),
            vec![released(ended("a", 1, -30)), released(ended("s", 0, -20)), released(ended("b", 1, -11))],
            "+ active=1 succeeded=1 failed=2",
        ),
        (
            "one failure too many",
            laid_over(spec(json!({"backoffLimit": 0, "parallelism": 2, "completions": 2})), json!({})),
            vec![ended("a", 1, 0), running("b")],
            "-b !a FailureTarget terminating=1 new-failed=1",
        ),
        (
            "what still runs then has failed as well",
            laid_over(said("FailureTarget", "BackoffLimitExceeded"), json!({"status": {"failed": 1}})),
            vec![going(running("b"))],
            "!b FailureTarget terminating=1 failed=1 new-failed=1",
        ),
        (
            "it has failed when nothing is left",
            laid_over(said("FailureTarget", "BackoffLimitExceeded"), listed("failed", "b")),
            vec![],
            "FailureTarget Failed failed=1",
        ),
        (
            "restarts in place count where that is the way to try again",
            spec(json!({"backoffLimit": 2, "template": {"spec": {"restartPolicy": "OnFailure"}}})),
            vec![laid_over(
                running("a"),
                json!({"status": {"containerStatuses": [
                {"name": "c", "image": "", "imageID": "", "ready": true, "restartCount": 2}]}}),
            )],
            "-a FailureTarget terminating=1",
        ),
        (
            "the time is over",
            laid_over(
                spec(json!({"activeDeadlineSeconds": 60})),
                json!({"status": {"startTime": at(-60).to_string()}}),
            ),
            vec![running("a")],
            "-a FailureTarget terminating=1",
        ),
        (
            "the time is not over yet",
            laid_over(
                spec(json!({"activeDeadlineSeconds": 60})),
                json!({"status": {"startTime": at(-50).to_string()}}),
            ),
            vec![running("a")],
            "active=1 ready=1 again@10",
        ),
        ("suspended from the start", spec(json!({"suspend": true})), vec![], "Suspended"),
        (
            "suspended later: Pods go without blame",
            spec(json!({"suspend": true})),
            vec![running("a")],
            "~a Suspended terminating=1",
        ),
        (
            "resumed, and the time begins anew",
            laid_over(
                said("Suspended", "JobSuspended"),
                json!({"spec": {"activeDeadlineSeconds": 5}, "status": {"startTime": at(-60).to_string()}}),
            ),
            vec![],
            "+ active=1 again@5",
        ),
        ("a Pod that was let go but not deleted goes now", json!({}), vec![released(running("a"))], "~a terminating=1"),
        (
            "too many",
            spec(json!({"parallelism": 1, "completions": 4})),
            vec![running("a"), running("b")],
            "~a active=1 ready=1 terminating=1",
        ),
        (
            "somebody deletes a Pod: it failed, and is replaced after a while",
            json!({}),
            vec![going(running("a"))],
            "!a terminating=1 new-failed=1 again@10",
        ),
        (
            "unless its end is waited for",
            spec(json!({"podReplacementPolicy": "Failed"})),
            vec![going(running("a"))],
            "terminating=1",
        ),
        (
            "what was listed as failed does not succeed",
            listed("failed", "a"),
            vec![going(ended("a", 0, -20))],
            "+ !a active=1 new-failed=1",
        ),
        (
            "a work queue is begun by as many as may",
            spec(json!({"completions": null, "parallelism": 2})),
            vec![],
            "+ + active=2",
        ),
        (
            "a work queue: after one success no more are begun",
            spec(json!({"completions": null, "parallelism": 2})),
            vec![ended("a", 0, 0), running("b")],
            "!a active=1 ready=1 new-succeeded=1",
        ),
        (
            "a policy: this code fails the Job",
            policy("FailJob"),
            vec![ended("a", 42, -20)],
            "!a FailureTarget new-failed=1",
        ),
        ("a policy: this code does not count", policy("Ignore"), vec![ended("a", 42, -20)], "+ !a active=1"),
        ("a policy: another code does", policy("Ignore"), vec![ended("a", 1, -20)], "+ !a active=1 new-failed=1"),
        (
            "it is over, and nothing is said of its end",
            done(),
            vec![released(ended("a", 0, 0))],
            "Complete succeeded=1",
        ),
        ("it is over and keeps nobody", done(), vec![ended("a", 0, 0)], "!a Complete succeeded=1"),
        (
            "it goes a while after",
            laid_over(done(), spec(json!({"ttlSecondsAfterFinished": 10}))),
            vec![],
            "Complete succeeded=1 again@10",
        ),
        (
            "or at once",
            laid_over(done(), spec(json!({"ttlSecondsAfterFinished": 0}))),
            vec![],
            "Complete succeeded=1 expired",
        ),
        (
            "a deleted Job keeps nobody",
            json!({"metadata": {"deletionTimestamp": at(0).to_string()}}),
            vec![running("a")],
            "!a",
        ),
        ("somebody else's", spec(json!({"managedBy": "example.com/queue"})), vec![running("a")], ""),
    ];
    for (name, over, pods, expected) in rows {
        assert_eq!(line(&job(over), &pods, at(0)), expected, "{name}");
    }
}

#[test]
fn what_an_indexed_job_does_next() {
    let of = |over: Value| {
        laid_over(json!({"spec": {"completionMode": "Indexed", "completions": 4, "parallelism": 2}}), over)
    };
    let per_index =
        |over: Value| of(laid_over(json!({"spec": {"backoffLimitPerIndex": 1, "backoffLimit": i32::MAX}}), over));
    let tried = |pod: Value, failures: i32| {
        laid_over(pod, json!({"metadata": {"annotations": {per_index::FAILURE_COUNT: failures.to_string()}}}))
    };
    let rows: Vec<(&str, Value, Vec<Value>, &str)> = vec![
        ("the first indexes", json!({}), vec![], "+0 +1 active=2"),
        (
            "an index that is done is noted at once, and the next begun",
            json!({}),
            vec![indexed(ended("a", 0, 0), 0), indexed(running("b"), 1)],
            "+2 !a active=2 ready=1 succeeded=1 done=0",
        ),
        (
            "a failed index is tried again",
            json!({}),
            vec![released(indexed(ended("a", 1, -20), 0)), indexed(running("b"), 1)],
            "+0 active=2 ready=1",
        ),
        (
            "two for one index: one goes",
            json!({}),
            vec![indexed(running("a"), 0), indexed(running("b"), 0)],
            "~b active=1 ready=1 terminating=1",
        ),
        (
            "one for no index goes",
            json!({}),
            vec![indexed(running("a"), 9), indexed(running("b"), 0)],
            "~a active=1 ready=1 terminating=1",
        ),
        (
            "all are done",
            json!({"status": {"succeeded": 3, "completedIndexes": "0-2"}}),
            vec![indexed(ended("a", 0, 0), 3)],
            "!a SuccessCriteriaMet succeeded=4 done=0-3",
        ),
        (
            "enough are done by a policy",
            json!({"spec": {"successPolicy": {"rules": [{"succeededIndexes": "0", "succeededCount": 1}]}}}),
            vec![indexed(ended("a", 0, 0), 0), indexed(running("b"), 1)],
            "-b !a SuccessCriteriaMet terminating=1 succeeded=1 done=0",
        ),
    ];
    for (name, over, pods, expected) in rows {
        assert_eq!(line(&job(of(over)), &pods, at(0)), expected, "{name}");
    }
    let rows: Vec<(&str, Value, Vec<Value>, &str)> = vec![
        (
            "an index that failed waits by itself, and its Pod is kept until it is replaced",
            json!({}),
            vec![tried(indexed(ended("a", 1, -2), 0), 0)],
            "+1 active=1 again@8",
        ),
        (
            "it is replaced, with the number of its failures",
            json!({}),
            vec![tried(indexed(ended("a", 1, -10), 0), 0), indexed(running("b"), 1)],
            "+0 active=2 ready=1",
        ),
        (
            "once replaced, it is listed and let go",
            json!({}),
            vec![
                tried(indexed(ended("a", 1, -10), 0), 0),
                tried(indexed(running("b"), 0), 1),
                indexed(running("c"), 1),
            ],
            "!a active=2 ready=2 new-failed=1",
        ),
        (
            "after too many failures an index is given up, and others go on",
            json!({}),
            vec![tried(indexed(ended("b", 1, -1), 0), 1), indexed(running("c"), 1)],
            "+2 !b active=2 ready=1 new-failed=1 given-up=0",
        ),
        (
            "too many indexes are given up",
            json!({"spec": {"maxFailedIndexes": 0}}),
            vec![tried(indexed(ended("b", 1, -1), 0), 1), indexed(running("c"), 1)],
            "-c !b FailureTarget terminating=1 new-failed=1 given-up=0",
        ),
    ];
    for (name, over, pods, expected) in rows {
        assert_eq!(line(&job(per_index(over)), &pods, at(0)), expected, "{name}");
    }
}

#[test]
fn a_pod_of_a_job_says_what_it_is_for() {
    let made = |over: Value, taken: &[String]| -> Pod {
        let job = job(over);
        let is_taken = |name: &str| taken.iter().any(|taken| taken == name);
        decide(&Facts { job: &job, pods: &[], is_taken: &is_taken, now: at(0) }).create.remove(0)
    };
    let pod = made(json!({}), &[]);
    let name = pod.metadata.name.clone().unwrap();
    assert!(name.starts_with("sum-"), "{name}");
    assert_eq!(pod.metadata.finalizers, Some(vec![TRACKING.to_owned()]));
    let owner = &pod.metadata.owner_references.as_ref().unwrap()[0];
    assert_eq!((owner.api_version.as_str(), owner.kind.as_str(), owner.uid.as_str()), ("batch/v1", "Job", "j-uid"));
    assert_eq!(made(json!({}), &[]).metadata.name, pod.metadata.name, "whoever makes it again meets it");
    assert_ne!(made(json!({}), &[name]).metadata.name, pod.metadata.name, "a name that is taken is passed over");
    assert_ne!(
        made(json!({"status": {"failed": 1}}), &[]).metadata.name,
        pod.metadata.name,
        "the next try has another"
    );

    let pod = made(json!({"spec": {"completionMode": "Indexed"}}), &[]);
    let spec = pod.spec.unwrap();
    assert!(pod.metadata.name.unwrap().starts_with("sum-0-"));
    assert_eq!(spec.hostname.as_deref(), Some("sum-0"));
    assert_eq!(pod.metadata.labels.unwrap()[indexes::COMPLETION_INDEX], "0");
    let variable = &spec.containers[0].env.as_ref().unwrap()[0];
    assert_eq!(variable.name, "JOB_COMPLETION_INDEX");
    let field = variable.value_from.as_ref().unwrap().field_ref.as_ref().unwrap();
    assert_eq!(field.field_path, "metadata.annotations['batch.kubernetes.io/job-completion-index']");
}
