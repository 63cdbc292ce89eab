//! Tables of revisions: their numbers, and the way back.

use k8s_openapi::api::apps::v1::ReplicaSet;
use serde_json::{Value, json};

use super::{deployment, plain, set};
use crate::workload::deployment::revision::{self, REVISION, REVISION_HISTORY, UndoError};
use crate::workload::deployment::{Step, decide};

#[test]
fn a_revision_gets_its_number() {
    let annotated = |annotations: Value| json!({"metadata": {"annotations": annotations}});
    let returned = annotated(json!({REVISION: "1"}));
    let long: String = (100..600).map(|number| format!("{number},")).collect();
    let long = long.trim_end_matches(',');
    type Row = (&'static str, Value, Vec<ReplicaSet>, Value, Option<i64>);
    let rows: Vec<Row> = vec![
        ("the newest already: nothing", json!({}), vec![plain(2, 0, 0), plain(3, 10, 10)], json!({}), None),
        (
            "one that is returned to gets the next number and remembers its own",
            json!({}),
            vec![plain(2, 10, 10), set(3, 0, 0, returned.clone())],
            json!({REVISION: "3", REVISION_HISTORY: "1"}),
            None,
        ),
        (
            "one that is returned to again remembers all",
            json!({}),
            vec![plain(8, 10, 10), set(3, 0, 0, annotated(json!({REVISION_HISTORY: "1"})))],
            json!({REVISION: "9", REVISION_HISTORY: "1,3"}),
            Some(9),
        ),
        (
            "the number that cannot be read is set right",
            json!({}),
            vec![plain(2, 10, 10), set(3, 0, 0, annotated(json!({REVISION: "three"})))],
            json!({REVISION: "3"}),
            None,
        ),
        (
            "an old one's number that cannot be read is passed over",
            json!({}),
            vec![set(2, 10, 10, annotated(json!({REVISION: "two"}))), plain(3, 0, 0)],
            json!({}),
            None,
        ),
        (
            "a number that was higher stays, though its elders are gone",
            json!({}),
            vec![set(3, 10, 10, annotated(json!({REVISION: "17"})))],
            json!({}),
            Some(17),
        ),
        (
            "the Deployment's annotations are copied, its bookkeeping is not",
            annotated(json!({"team": "a", "kubectl.kubernetes.io/last-applied-configuration": "{}"})),
            vec![plain(3, 10, 10)],
            json!({"team": "a"}),
            None,
        ),
        (
            "the memory of numbers is bounded: the earliest go",
            json!({}),
            vec![plain(8, 10, 10), set(3, 0, 0, annotated(json!({REVISION_HISTORY: long})))],
            json!({REVISION: "9", REVISION_HISTORY: format!("{},3", &long[4..])}),
            Some(9),
        ),
    ];
    for (name, over, sets, annotations, note) in rows {
        let sets: Vec<&ReplicaSet> = sets.iter().collect();
        let decision = decide(&deployment(over), &sets, &[]);
        let written = decision.steps.iter().find_map(|step| match step {
            Step::Update { annotations, .. } => Some(json!(annotations)),
            _ => None,
        });
        assert_eq!(written.unwrap_or_else(|| json!({})), annotations, "{name}");
        assert_eq!(decision.revision, note, "{name}");
    }
}

#[test]
fn a_new_replica_set_is_the_deployments_and_finds_its_own_pods() {
    let deployment = deployment(json!({"spec": {"minReadySeconds": 5}, "metadata": {"annotations": {"team": "a"}}}));
    let old = plain(2, 10, 10);
    let Some(Step::Create(new)) = decide(&deployment, &[&old], &[]).steps.pop() else { panic!("it is created") };
    let set = revision::replica_set(&deployment, &new);
    let value = serde_json::to_value(&set).unwrap();
    let rows = [
        ("its name ends in its hash", "/metadata/name", json!(format!("web-{}", new.hash))),
        ("it is labelled with it", "/metadata/labels/pod-template-hash", json!(new.hash)),
        ("so are its pods", "/spec/template/metadata/labels/pod-template-hash", json!(new.hash)),
        ("it selects by it", "/spec/selector/matchLabels/pod-template-hash", json!(new.hash)),
        ("and by what the Deployment selects by", "/spec/selector/matchLabels/app", json!("web")),
        ("the Deployment controls it", "/metadata/ownerReferences/0/uid", json!("d-uid")),
        ("it has the next number", "/metadata/annotations/deployment.kubernetes.io~1revision", json!("3")),
        (
            "it notes the Deployment's size",
            "/metadata/annotations/deployment.kubernetes.io~1desired-replicas",
            json!("10"),
        ),
        ("and its most", "/metadata/annotations/deployment.kubernetes.io~1max-replicas", json!("13")),
        ("it has the Deployment's annotations", "/metadata/annotations/team", json!("a")),
        ("and its patience", "/spec/minReadySeconds", json!(5)),
    ];
    for (name, pointer, expected) in rows {
        assert_eq!(value.pointer(pointer), Some(&expected), "{name}");
    }
}

#[test]
fn the_way_back() {
    let sets = [
        plain(1, 0, 0),
        plain(2, 0, 0),
        plain(3, 10, 10),
        set(9, 0, 0, json!({"metadata": {"annotations": {REVISION: "x"}}})),
    ];
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    type Row = (&'static str, Value, i64, Result<(i64, &'static str), UndoError>);
    let rows: Vec<Row> = vec![
        ("0 is the one before", json!({}), 0, Ok((2, "v2"))),
        ("a number is that one", json!({}), 1, Ok((1, "v1"))),
        ("a number that is not kept is said", json!({}), 7, Err(UndoError::NotFound(7))),
        ("the present one is said to be it", json!({}), 3, Err(UndoError::Unchanged(3))),
        ("a paused rollout is not turned back", json!({"spec": {"paused": true}}), 0, Err(UndoError::Paused)),
    ];
    for (name, over, number, expected) in rows {
        let undone = revision::undo(&deployment(over), &sets, number).map(|undo| {
            let image = undo.template.spec.and_then(|spec| spec.containers[0].image.clone()).unwrap();
            (undo.revision, image)
        });
        assert_eq!(undone, expected.map(|(revision, image)| (revision, image.to_owned())), "{name}");
    }
    let only = plain(3, 10, 10);
    assert_eq!(revision::undo(&deployment(json!({})), &[&only], 0), Err(UndoError::NoPrevious));
}

#[test]
fn the_way_back_brings_the_annotations_and_leaves_the_hash() {
    let labelled = json!({
        "metadata": {"annotations": {"kubernetes.io/change-cause": "first", REVISION_HISTORY: "1"}},
        "spec": {"template": {"metadata": {"labels": {"pod-template-hash": "bcdfg"}}}},
    });
    let sets = [set(2, 0, 0, labelled), plain(3, 10, 10)];
    let sets: Vec<&ReplicaSet> = sets.iter().collect();
    let now = deployment(json!({"metadata": {"annotations": {"kubernetes.io/change-cause": "second"}}}));
    let undo = revision::undo(&now, &sets, 0).unwrap();
    assert_eq!(json!(undo.annotations), json!({"kubernetes.io/change-cause": "first", REVISION: "3"}));
    assert_eq!(json!(undo.template.metadata.unwrap().labels), json!({"app": "web"}));
    let lines: Vec<String> = revision::history(&sets).iter().map(ToString::to_string).collect();
    assert_eq!(lines, ["2  first", "3  <none>"]);
}
