//! Events: one object in two groups.

use serde_json::{Value, json};

use crate::fixture::{Api, escaped};

const CORE: &str = "/api/v1/namespaces/default/events";
const GROUP: &str = "/apis/events.k8s.io/v1/namespaces/default/events";

fn core_event(name: &str) -> Value {
    json!({
        "metadata": {"name": name},
        "involvedObject": {"kind": "Pod", "name": "p", "namespace": "default"},
        "reason": "Pulled",
        "message": "the image is here",
        "type": "Normal",
        "count": 2,
        "source": {"component": "agent"},
    })
}

#[tokio::test]
async fn an_event_is_the_same_in_both_of_its_groups() {
    let api = Api::new().await;
    let created = api.post(CORE, core_event("a")).await.expect(201);
    let seen = api.get(format!("{GROUP}/a")).await.expect(200);
    assert_eq!(seen["apiVersion"], "events.k8s.io/v1");
    assert_eq!((&seen["note"], &seen["regarding"]["name"]), (&json!("the image is here"), &json!("p")));
    assert_eq!((&seen["deprecatedCount"], &seen["deprecatedSource"]["component"]), (&json!(2), &json!("agent")));
    assert_eq!(seen["metadata"], created["metadata"]);

    api.merge_patch(format!("{CORE}/a"), json!({"count": 3})).await.expect(200);
    assert_eq!(api.get(format!("{GROUP}/a")).await.expect(200)["deprecatedCount"], 3);
    let counted = api.merge_patch(format!("{GROUP}/a"), json!({"deprecatedCount": 4})).await;
    counted.refused(422, "Invalid", &["count", "field is immutable"]);
    api.delete(format!("{GROUP}/a")).await.expect(200);
    api.get(format!("{CORE}/a")).await.expect(404);
}

#[tokio::test]
async fn a_watch_of_one_group_tells_the_writes_of_the_other() {
    let api = Api::new().await;
    let mut watch = api.get(format!("{GROUP}?watch=1")).watch().await;
    api.post(CORE, core_event("a")).await.expect(201);
    let added = watch.event().await;
    assert_eq!((&added["type"], &added["object"]["apiVersion"]), (&json!("ADDED"), &json!("events.k8s.io/v1")));
    assert_eq!(added["object"]["note"], "the image is here");
}

#[tokio::test]
async fn each_group_has_rules_and_selectors_of_its_own() {
    let api = Api::new().await;
    api.post(CORE, core_event("a")).await.expect(201);
    let bare = json!({"metadata": {"name": "b"}, "regarding": {"kind": "Pod", "name": "p", "namespace": "default"}});
    let answer = api.post(GROUP, bare).await.refused(422, "Invalid", &[]);
    assert!(answer.fields().contains("eventTime"), "{}", answer.text());
    let mut elsewhere = core_event("c");
    elsewhere["involvedObject"]["namespace"] = "kube-system".into();
    api.post(CORE, elsewhere).await.refused(422, "Invalid", &["involvedObject.namespace"]);
    for (selector, expected) in [("involvedObject.name=p", 1), ("reason=Pulled,type=Normal", 1), ("source=other", 0)] {
        let found = api.names(format!("{CORE}?fieldSelector={}", escaped(selector))).await;
        assert_eq!(found.len(), expected, "{selector}");
    }
}
