//! Tables of the steps of a rollout.

use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::json;

use super::{bounds, check, decided, deployment, plain, set, template};
use crate::workload::deployment::revision::{DESIRED_REPLICAS, REVISION};
use crate::workload::fixtures::{NOON, laid_over, pod};

#[test]
fn a_rolling_update_step_by_step() {
    let unobserved = json!({"metadata": {"generation": 3}});
    let crowded = json!({"status": {"replicas": 10}});
    check(vec![
        ("the first revision starts whole", json!({}), vec![], "create NEW with 10 replicas"),
        ("a new revision starts within the surge", json!({}), vec![plain(2, 10, 10)], "create NEW with 3 replicas"),
        (
            "a new revision starts with none where no surge is allowed",
            bounds(json!(0), json!(1)),
            vec![plain(2, 10, 10)],
            "create NEW with 0 replicas",
        ),
        (
            "with maxUnavailable 0 the old revision stays whole until new pods are available",
            bounds(json!(1), json!(0)),
            vec![plain(2, 10, 10), plain(3, 1, 0)],
            "waits until more new pods are available: 0 of 10",
        ),
        (
            "with maxUnavailable 0 one new pod frees one old",
            bounds(json!(1), json!(0)),
            vec![plain(2, 10, 10), plain(3, 1, 1)],
            "scale down web-2 from 10 to 9: enough pods are available without these",
        ),
        (
            "old pods go as far as may be missing, before new ones are available",
            json!({}),
            vec![plain(2, 10, 10), plain(3, 3, 0)],
            "scale down web-2 from 10 to 8: enough pods are available without these",
        ),
        (
            "the new revision grows into the room",
            json!({}),
            vec![plain(2, 8, 8), plain(3, 3, 0)],
            "scale up web-3 from 3 to 5: there is room for the new revision",
        ),
        (
            "pods that are yet to be deleted take up room",
            json!({}),
            vec![set(2, 8, 8, crowded), plain(3, 3, 0)],
            "waits until web-2 has deleted 2 of its 10 pods",
        ),
        (
            "a ReplicaSet that has not taken note of its change is waited for",
            json!({}),
            vec![set(2, 8, 10, unobserved.clone()), plain(3, 5, 5)],
            "waits until web-2 has taken note of its last change",
        ),
        (
            "a new ReplicaSet that has not taken note of its change is waited for",
            json!({}),
            vec![plain(2, 8, 8), set(3, 5, 5, unobserved)],
            "waits until web-3 has taken note of its last change",
        ),
        (
            "new pods that never become available hold everything",
            json!({}),
            vec![plain(2, 8, 8), plain(3, 5, 0)],
            "waits until more new pods are available: 0 of 10",
        ),
        (
            "an old pod that fails meanwhile is no reason to give up another",
            json!({}),
            vec![plain(2, 8, 7), plain(3, 5, 0)],
            "waits until more new pods are available: 0 of 10",
        ),
        (
            "unhealthy old pods go first, the oldest revision's before",
            json!({}),
            vec![plain(1, 3, 1), plain(2, 8, 7), plain(3, 2, 2)],
            "scale down web-1 from 3 to 0: enough pods are available without these; \
             scale down web-2 from 8 to 6: enough pods are available without these",
        ),
        (
            "unhealthy old pods do not hold up a rollout",
            bounds(json!(0), json!(1)),
            vec![plain(2, 10, 0), plain(3, 0, 0)],
            "scale down web-2 from 10 to 9: these pods are not available",
        ),
        (
            "back to a good revision: the bad one's pods go at once",
            json!({}),
            vec![plain(4, 5, 0), set(3, 8, 8, json!({"metadata": {"annotations": {REVISION: "5"}}}))],
            "scale down web-4 from 5 to 0: these pods are not available",
        ),
        (
            "over to a third revision: it waits for room, the second gives it",
            json!({}),
            vec![plain(1, 8, 8), plain(2, 5, 0), plain(3, 0, 0)],
            "scale down web-2 from 5 to 0: these pods are not available",
        ),
        (
            "a claim of more available pods than there should be is not believed",
            bounds(json!(0), json!(2)),
            vec![plain(2, 8, 10), plain(3, 2, 1)],
            "scale down web-2 from 8 to 7: enough pods are available without these",
        ),
        (
            "one replica, surge only: the old pod outlives the start of the new one",
            laid_over(bounds(json!(1), json!(0)), json!({"spec": {"replicas": 1}})),
            vec![
                set(2, 1, 1, json!({"metadata": {"annotations": {DESIRED_REPLICAS: "1"}}})),
                set(3, 1, 0, json!({"metadata": {"annotations": {DESIRED_REPLICAS: "1"}}})),
            ],
            "waits until more new pods are available: 0 of 1",
        ),
        (
            "too many of the new revision",
            json!({}),
            vec![plain(3, 12, 12)],
            "scale down web-3 from 12 to 10: it has more replicas than the Deployment",
        ),
        ("all new: nothing", json!({}), vec![plain(2, 0, 0), plain(3, 10, 10)], "nothing to do"),
        (
            "all new, not all available",
            json!({}),
            vec![plain(3, 10, 9)],
            "waits until more new pods are available: 9 of 10",
        ),
        (
            "what cannot be understood is refused, and nothing is touched",
            bounds(json!("many"), json!(0)),
            vec![plain(2, 10, 10)],
            "waits for bounds that can be understood: \"many\" is not a percentage such as \"25%\"",
        ),
        (
            "an unknown strategy is refused",
            json!({"spec": {"strategy": {"type": "Sideways"}}}),
            vec![plain(2, 10, 10)],
            "waits for a strategy other than \"Sideways\"",
        ),
        (
            "a selector that selects everything is refused",
            json!({"spec": {"selector": {"matchLabels": null}}}),
            vec![plain(2, 10, 10)],
            "waits for a selector that is not empty",
        ),
        (
            "a deleted Deployment does nothing",
            json!({"metadata": {"deletionTimestamp": NOON}}),
            vec![plain(2, 10, 10)],
            "waits for nothing: it is being deleted",
        ),
        ("a Deployment without a spec does nothing", json!({"spec": null}), vec![], "nothing to do"),
        (
            "of two with the same template the older is the new one",
            json!({}),
            vec![
                plain(3, 10, 10),
                set(
                    4,
                    2,
                    2,
                    json!({"spec": {"template": template("v3")}, "metadata": {"annotations": {REVISION: "1"}}}),
                ),
            ],
            "scale down web-4 from 2 to 0: enough pods are available without these",
        ),
    ]);
}

#[test]
fn the_strategy_recreate() {
    let recreate = json!({"spec": {"strategy": {"type": "Recreate", "rollingUpdate": null}}});
    let owned_by = |uid: &str| {
        let reference =
            json!({"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "x", "uid": uid, "controller": true});
        json!({"metadata": {"ownerReferences": [reference], "deletionTimestamp": NOON}})
    };
    let leaving: Pod = pod("p", owned_by("rs-2"));
    let fresh: Pod = pod("p", owned_by("rs-3"));
    let ended: Pod = pod("p", laid_over(owned_by("rs-2"), json!({"status": {"phase": "Failed"}})));
    let lagging = json!({"metadata": {"generation": 3}});
    let rows: Vec<(&str, Vec<ReplicaSet>, Vec<&Pod>, &str)> = vec![
        ("the first revision starts whole", vec![], vec![], "create NEW with 10 replicas"),
        (
            "the old revision stops first",
            vec![plain(2, 10, 10)],
            vec![],
            "scale down web-2 from 10 to 0: the old revision stops before the new one starts; \
             waits until the pods of the old revision are gone",
        ),
        (
            "nothing starts while the old ReplicaSet says it has pods",
            vec![set(2, 0, 0, json!({"status": {"replicas": 1}}))],
            vec![],
            "waits until the pods of the old revision are gone",
        ),
        (
            "nothing starts before the old ReplicaSet has taken note",
            vec![set(2, 0, 0, lagging)],
            vec![],
            "waits until the pods of the old revision are gone",
        ),
        (
            "nothing starts while an old pod terminates",
            vec![plain(2, 0, 0)],
            vec![&leaving],
            "waits until the pods of the old revision are gone",
        ),
        (
            "an old pod that has ended is no hindrance",
            vec![plain(2, 0, 0)],
            vec![&ended],
            "create NEW with 10 replicas",
        ),
        (
            "pods of the new revision are no hindrance",
            vec![plain(2, 0, 0), plain(3, 0, 0)],
            vec![&fresh],
            "scale up web-3 from 0 to 10: the old revision has stopped",
        ),
        (
            "then it waits for the new pods",
            vec![plain(3, 10, 4)],
            vec![],
            "waits until more new pods are available: 4 of 10",
        ),
        ("all new: nothing", vec![plain(2, 0, 0), plain(3, 10, 10)], vec![], "nothing to do"),
    ];
    for (name, sets, pods, expected) in rows {
        assert_eq!(decided(&deployment(recreate.clone()), &sets, &pods), expected, "{name}");
    }
}
