//! Tables of what a Deployment's status says.

use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DeploymentCondition, ReplicaSet};
use serde_json::{Value, json};

use super::{deployment, plain, set};
use crate::workload::deployment::status::{self, Happened, Progress};
use crate::workload::fixtures::{NOON, at, laid_over, noon};

/// A Progressing condition, last updated so many seconds after noon.
fn progressing(status: &str, reason: &str, updated: i64) -> Value {
    json!([{
        "type": "Progressing", "status": status, "reason": reason, "message": "as before",
        "lastUpdateTime": at(updated).to_string(), "lastTransitionTime": at(-5000).to_string(),
    }])
}

/// `status reason lastUpdateTime lastTransitionTime`, times in seconds after noon.
fn shown(condition: Option<&DeploymentCondition>) -> String {
    let Some(condition) = condition else { return "none".to_owned() };
    let seconds = |time: &Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>| {
        time.as_ref().map_or(0, |time| time.0.as_second() - noon().as_second())
    };
    let (updated, since) = (seconds(&condition.last_update_time), seconds(&condition.last_transition_time));
    format!("{} {} {updated} {since}", condition.status, condition.reason.as_deref().unwrap_or_default())
}

#[test]
fn whether_a_rollout_makes_progress() {
    struct Row {
        name: &'static str,
        over: Value,
        before: Value,
        sets: Vec<ReplicaSet>,
        happened: Happened<'static>,
        progressing: &'static str,
        look_again: Option<Timestamp>,
    }
    let row = |name, before, sets, progressing, look_again| Row {
        name,
        over: json!({}),
        before,
        sets,
        happened: Happened::Nothing,
        progressing,
        look_again,
    };
    let mid = || vec![plain(2, 8, 8), plain(3, 5, 2)];
    let counts = |conditions: Value| json!({"replicas": 13, "updatedReplicas": 5, "readyReplicas": 10, "availableReplicas": 10, "conditions": conditions});
    let started = || progressing("True", "NewReplicaSetCreated", -300);
    let late = || progressing("False", "ProgressDeadlineExceeded", -900);
    let done = || progressing("True", "NewReplicaSetAvailable", -4000);
    let rows = vec![
        row(
            "standing still within the deadline changes nothing",
            counts(started()),
            mid(),
            "True NewReplicaSetCreated -300 -5000",
            Some(at(300)),
        ),
        row(
            "standing still for too long is late",
            counts(progressing("True", "ReplicaSetUpdated", -600)),
            mid(),
            "False ProgressDeadlineExceeded 0 0",
            None,
        ),
        row(
            "a second less is not",
            counts(progressing("True", "ReplicaSetUpdated", -599)),
            mid(),
            "True ReplicaSetUpdated -599 -5000",
            Some(at(1)),
        ),
        row("what is late stays late", counts(late()), mid(), "False ProgressDeadlineExceeded -900 -5000", None),
        row(
            "progress after being late is progress",
            counts(late()),
            vec![plain(2, 8, 8), plain(3, 5, 3)],
            "True ReplicaSetUpdated 0 0",
            Some(at(600)),
        ),
        row(
            "one more available moves the time of the update, not of the transition",
            counts(started()),
            vec![plain(2, 8, 8), plain(3, 5, 3)],
            "True ReplicaSetUpdated 0 -5000",
            Some(at(600)),
        ),
        row(
            "one old pod less is progress",
            counts(started()),
            vec![plain(2, 7, 7), plain(3, 5, 3)],
            "True ReplicaSetUpdated 0 -5000",
            Some(at(600)),
        ),
        row(
            "all new and available is done",
            counts(started()),
            vec![plain(3, 10, 10)],
            "True NewReplicaSetAvailable 0 -5000",
            None,
        ),
        row(
            "done stays done though a pod is lost",
            counts(done()),
            vec![plain(3, 10, 9)],
            "True NewReplicaSetAvailable -4000 -5000",
            None,
        ),
        row(
            "a rollout long ago does not make the next one late",
            counts(done()),
            vec![plain(2, 8, 8), plain(3, 5, 2)],
            "True NewReplicaSetAvailable -4000 -5000",
            None,
        ),
        row("the first look starts the clock", counts(json!([])), mid(), "True FoundNewReplicaSet 0 0", Some(at(600))),
        Row {
            happened: Happened::Created("web-3"),
            ..row(
                "a new revision starts the clock anew",
                counts(started()),
                mid(),
                "True NewReplicaSetCreated 0 -5000",
                Some(at(600)),
            )
        },
        Row {
            happened: Happened::CreateFailed { name: "web-3", message: "no" },
            ..row(
                "a revision that cannot be created is said",
                counts(started()),
                vec![plain(2, 10, 10)],
                "False ReplicaSetCreateError 0 0",
                Some(at(600)),
            )
        },
        Row {
            over: json!({"spec": {"progressDeadlineSeconds": null}}),
            ..row("without a deadline there is no such condition", counts(started()), mid(), "none", None)
        },
        Row {
            over: json!({"spec": {"progressDeadlineSeconds": i32::MAX}}),
            ..row("the largest deadline is none", counts(started()), mid(), "none", None)
        },
        Row {
            over: json!({"spec": {"paused": true}}),
            ..row("a pause stops the clock", counts(started()), mid(), "Unknown DeploymentPaused 0 0", None)
        },
        Row {
            over: json!({"spec": {"paused": true}}),
            ..row(
                "a pause does not hide that it was late",
                counts(late()),
                mid(),
                "False ProgressDeadlineExceeded -900 -5000",
                None,
            )
        },
        row(
            "resuming starts the clock anew, however long the pause",
            counts(progressing("Unknown", "DeploymentPaused", -90_000)),
            mid(),
            "Unknown DeploymentResumed 0 -5000",
            Some(at(600)),
        ),
        Row {
            over: json!({"metadata": {"deletionTimestamp": NOON}}),
            ..row(
                "a deleted Deployment only counts",
                counts(progressing("True", "ReplicaSetUpdated", -900)),
                mid(),
                "True ReplicaSetUpdated -900 -5000",
                None,
            )
        },
    ];
    for row in rows {
        let deployment = deployment(laid_over(json!({"status": row.before}), row.over));
        let sets: Vec<&ReplicaSet> = row.sets.iter().collect();
        let answer = status::status(&deployment, &sets, row.happened, noon()).unwrap();
        let conditions = answer.status.conditions.unwrap_or_default();
        let progressing = conditions.iter().find(|condition| condition.type_ == "Progressing");
        assert_eq!(shown(progressing), row.progressing, "{}", row.name);
        assert_eq!(answer.look_again, row.look_again, "{}: when to look again", row.name);
    }
}

#[test]
fn what_the_status_counts() {
    let failing = json!({"status": {"conditions": [
        {"type": "ReplicaFailure", "status": "True", "reason": "FailedCreate", "message": "quota"},
    ]}});
    let sets = [set(2, 8, 6, json!({"status": {"terminatingReplicas": 2}})), set(3, 5, 1, failing)];
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    let before = deployment(json!({"status": {"collisionCount": 2}}));
    let status = status::status(&before, &sets, Happened::Nothing, noon()).unwrap().status;
    let rows = [
        ("replicas of all", status.replicas, Some(13)),
        ("updated are the new one's", status.updated_replicas, Some(5)),
        ("ready of all", status.ready_replicas, Some(7)),
        ("available of all", status.available_replicas, Some(7)),
        ("unavailable are the wanted ones that are not", status.unavailable_replicas, Some(6)),
        ("terminating of all", status.terminating_replicas, Some(2)),
        ("collisions are remembered", status.collision_count, Some(2)),
    ];
    for (name, count, expected) in rows {
        assert_eq!(count, expected, "{name}");
    }
    let conditions = status.conditions.clone().unwrap();
    let find = |type_: &str| conditions.iter().find(|condition| condition.type_ == type_);
    assert_eq!(shown(find("Available")), "False MinimumReplicasUnavailable 0 0", "7 of at least 8 are available");
    assert_eq!(find("ReplicaFailure").unwrap().message.as_deref(), Some("quota"), "a ReplicaSet's failure is told");

    let next = deployment(json!({"status": status}));
    let again = status::status(&next, &sets, Happened::Nothing, at(60)).unwrap().status;
    assert_eq!(Some(again), next.status, "a minute later nothing is different, and nothing is written");
    let healthy = plain(3, 10, 8);
    let after = status::status(&next, &[&healthy], Happened::Nothing, at(60)).unwrap().status.conditions.unwrap();
    let available = after.iter().find(|condition| condition.type_ == "Available");
    assert_eq!(shown(available), "True MinimumReplicasAvailable 60 60", "8 of 10 will do");
    assert!(!after.iter().any(|condition| condition.type_ == "ReplicaFailure"), "the failure is over");
}

#[test]
fn terminating_pods_are_unknown_if_one_does_not_say() {
    let silent = json!({"status": {"terminatingReplicas": null}});
    let newborn = json!({"status": null});
    let rows = [
        ("all say", vec![plain(2, 8, 8), plain(3, 5, 5)], Some(0)),
        ("one does not say", vec![set(2, 8, 8, silent), plain(3, 5, 5)], None),
        ("one that has not begun has none", vec![plain(2, 8, 8), set(3, 5, 0, newborn)], Some(0)),
    ];
    for (name, sets, expected) in rows {
        let sets: Vec<&ReplicaSet> = sets.iter().collect();
        let status = status::status(&deployment(json!({})), &sets, Happened::Nothing, noon()).unwrap().status;
        assert_eq!(status.terminating_replicas, expected, "{name}");
    }
}

#[test]
fn counts_beyond_all_bounds_are_told_as_the_bound() {
    for (name, number) in [("the most", i32::MAX), ("the least", i32::MIN)] {
        let hostile = json!({"status": {
            "replicas": number, "readyReplicas": number, "availableReplicas": number, "terminatingReplicas": number,
        }});
        let sets = [set(2, 8, 8, hostile.clone()), set(3, 5, 5, hostile)];
        let sets: Vec<&ReplicaSet> = sets.iter().collect();
        let before = json!({"status": {"replicas": number, "updatedReplicas": number.wrapping_neg()}});
        let status = status::status(&deployment(before), &sets, Happened::Nothing, noon()).unwrap().status;
        let told = (status.replicas, status.ready_replicas, status.available_replicas, status.terminating_replicas);
        assert_eq!(told, (Some(number), Some(number), Some(number), Some(number)), "{name}");
    }
}

#[test]
fn how_far_a_rollout_is() {
    let counts = |replicas, updated, available| json!({"observedGeneration": 7, "replicas": replicas, "updatedReplicas": updated, "availableReplicas": available});
    let rows = [
        ("not seen", json!({"observedGeneration": 6}), Progress::Unobserved),
        (
            "late",
            laid_over(counts(13, 5, 8), json!({"conditions": progressing("False", "ProgressDeadlineExceeded", 0)})),
            Progress::Late,
        ),
        ("not all exist", counts(13, 5, 8), Progress::Updating { updated: 5, desired: 10 }),
        ("old ones remain", counts(12, 10, 8), Progress::Retiring { old: 2 }),
        ("not all are available", counts(10, 10, 8), Progress::Starting { available: 8, updated: 10 }),
        ("done", counts(10, 10, 10), Progress::Done),
    ];
    for (name, status, expected) in rows {
        assert_eq!(status::progress(&deployment(json!({"status": status}))), expected, "{name}");
    }
}
