//! Tables of what a changed number of replicas does, and of history that is cleaned up.

use serde_json::{Value, json};

use super::{bounds, check, plain, set};
use crate::workload::deployment::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use crate::workload::fixtures::{NOON, laid_over};

#[test]
fn a_changed_number_of_replicas() {
    let replicas = |count: i64| json!({"spec": {"replicas": count}});
    let paused = json!({"spec": {"paused": true}});
    let unnoted = json!({"metadata": {"annotations": {MAX_REPLICAS: "some"}}});
    check(vec![
        (
            "the one that runs is scaled",
            replicas(15),
            vec![plain(2, 0, 0), plain(3, 10, 10)],
            "scale up web-3 from 10 to 15: the Deployment was scaled",
        ),
        (
            "the one that runs is scaled to nothing",
            replicas(0),
            vec![plain(3, 10, 10)],
            "scale down web-3 from 10 to 0: the Deployment was scaled",
        ),
        (
            "mid-rollout, growth is shared out by size and the largest gets what is left",
            replicas(15),
            vec![plain(2, 8, 8), plain(3, 5, 0)],
            "scale up web-2 from 8 to 12: its share of the Deployment's new size; \
             scale up web-3 from 5 to 7: its share of the Deployment's new size",
        ),
        (
            "mid-rollout, equal ones grow the younger first",
            laid_over(replicas(11), bounds(json!(0), json!(1))),
            vec![
                set(2, 5, 5, json!({"metadata": {"annotations": {MAX_REPLICAS: "10"}}})),
                set(3, 5, 5, json!({"metadata": {"annotations": {MAX_REPLICAS: "10"}}})),
            ],
            "scale up web-3 from 5 to 6: its share of the Deployment's new size; note the Deployment's size on web-2",
        ),
        (
            "mid-rollout, equal ones shrink the older first",
            laid_over(replicas(9), bounds(json!(0), json!(1))),
            vec![
                set(2, 5, 5, json!({"metadata": {"annotations": {MAX_REPLICAS: "10"}}})),
                set(3, 5, 5, json!({"metadata": {"annotations": {MAX_REPLICAS: "10"}}})),
            ],
            "scale down web-2 from 5 to 4: its share of the Deployment's new size; note the Deployment's size on web-3",
        ),
        (
            "mid-rollout, to nothing: all go",
            replicas(0),
            vec![plain(2, 8, 8), plain(3, 5, 0)],
            "scale down web-2 from 8 to 0: its share of the Deployment's new size; \
             scale down web-3 from 5 to 0: its share of the Deployment's new size",
        ),
        (
            "a note that cannot be read falls back to what the status says",
            laid_over(replicas(20), json!({"status": {"replicas": 13}})),
            vec![set(2, 8, 8, unnoted.clone()), set(3, 5, 0, unnoted.clone())],
            "scale up web-2 from 8 to 15: its share of the Deployment's new size; \
             scale up web-3 from 5 to 10: its share of the Deployment's new size",
        ),
        (
            "growth waits for pods that are yet to be deleted",
            replicas(15),
            vec![set(2, 8, 8, json!({"status": {"replicas": 10}})), plain(3, 5, 0)],
            "waits until web-2 has deleted 2 of its 10 pods",
        ),
        (
            "paused: a new template changes nothing",
            paused.clone(),
            vec![plain(2, 10, 10)],
            "waits until the rollout is resumed",
        ),
        ("paused: a new Deployment creates nothing", paused.clone(), vec![], "waits until the rollout is resumed"),
        (
            "paused: scaling scales what runs",
            laid_over(paused.clone(), replicas(12)),
            vec![plain(2, 10, 10)],
            "scale up web-2 from 10 to 12: the Deployment was scaled; waits until the rollout is resumed",
        ),
        (
            "paused: from nothing, the youngest grows",
            paused.clone(),
            vec![plain(1, 0, 0), plain(2, 0, 0)],
            "scale up web-2 from 0 to 10: the Deployment was scaled; waits until the rollout is resumed",
        ),
        (
            "paused: old history is still cleaned up",
            json!({"spec": {"paused": true, "revisionHistoryLimit": 0}}),
            vec![plain(1, 0, 0), plain(3, 10, 10)],
            "delete web-1, revision 1; waits until the rollout is resumed",
        ),
        (
            "a complete new revision lets an adopted old one go",
            paused,
            vec![plain(2, 4, 4), plain(3, 10, 10)],
            "scale down web-2 from 4 to 0: the new revision is complete; waits until the rollout is resumed",
        ),
        (
            "the size is noted anew where only the note is wrong, or it would scale for ever",
            json!({}),
            vec![set(3, 10, 10, json!({"metadata": {"annotations": {DESIRED_REPLICAS: "8"}}}))],
            "note the Deployment's size on web-3",
        ),
    ]);
}

#[test]
fn how_much_history_is_kept() {
    let limit = |limit: i64| json!({"spec": {"revisionHistoryLimit": limit}});
    let six = |over: Value| {
        vec![
            set(1, 0, 0, over),
            plain(2, 0, 0),
            plain(3, 10, 10),
            set(0, 0, 0, json!({"metadata": {"annotations": {REVISION: "x"}}})),
        ]
    };
    check(vec![
        ("as many as allowed: all are kept", limit(3), six(json!({})), "nothing to do"),
        ("where nothing is said all are kept", json!({}), six(json!({})), "nothing to do"),
        ("one too many: the oldest goes, an unreadable one before", limit(2), six(json!({})), "delete web-0"),
        ("none are kept", limit(0), six(json!({})), "delete web-0; delete web-1, revision 1; delete web-2, revision 2"),
        (
            "one that still has a pod is not deleted",
            limit(0),
            vec![set(1, 0, 0, json!({"status": {"replicas": 1}})), plain(2, 0, 0), plain(3, 10, 10)],
            "waits until web-1 has deleted 1 of its 1 pods",
        ),
        (
            "one that is being deleted already does not count",
            limit(2),
            six(json!({"metadata": {"deletionTimestamp": NOON}})),
            "nothing to do",
        ),
        (
            "nothing is deleted before the rollout is complete",
            limit(0),
            vec![plain(2, 0, 0), plain(3, 10, 9)],
            "waits until more new pods are available: 9 of 10",
        ),
    ]);
}
