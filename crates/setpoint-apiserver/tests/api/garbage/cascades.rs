//! Deletions and the three things they can do to dependents.

use std::time::Duration;

use serde_json::{Value, json};

use super::counted::Counted;
use super::*;
use crate::fixture::{tell, within};

#[tokio::test]
async fn in_the_background_dependents_go_after_their_owner_and_so_on_down() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    let middle = dependent(&api, "middle", &[blocking(&top)]).await;
    dependent(&api, "bottom", &[reference(&middle)]).await;
    let start = api.store.revision();
    let deleted = api.delete_with(path("top"), by("Background")).await.expect(200);
    assert_eq!(deleted["status"], "Success", "the owner is gone at once");
    let mut watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}")).watch().await;
    assert_eq!(watch.told(3).await, ["DELETED top", "DELETED middle", "DELETED bottom"]);
}

#[tokio::test]
async fn most_kinds_are_deleted_in_the_background_and_jobs_orphan() {
    let api = Api::new().await;
    let deployment = api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    dependent(&api, "of-deployment", &[reference(&deployment)]).await;
    api.delete(format!("{DEPLOYMENTS}/web")).await.expect(200);
    gone(&api, path("of-deployment")).await;

    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "a", "image": "a"}]}});
    let job =
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "once"}, "spec": {"template": template}});
    let job = api.post(jobs, job).await.expect(201);
    dependent(&api, "of-job", &[reference(&job)]).await;
    api.delete(format!("{jobs}/once")).await.expect(200);
    gone(&api, format!("{jobs}/once")).await;
    settle(&api).await;
    assert_eq!(metadata(&api, "of-job", "ownerReferences").await, Value::Null);
}

#[tokio::test]
async fn in_the_foreground_the_owner_goes_last() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    let middle = dependent(&api, "middle", &[blocking(&top)]).await;
    dependent(&api, "bottom", &[blocking(&middle)]).await;
    let start = api.store.revision();
    let marked = api.delete_with(path("top"), by("Foreground")).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    assert!(marked["metadata"]["deletionTimestamp"].is_string());
    gone(&api, path("top")).await;
    let watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=1")).watch().await;
    let told: Vec<String> = watch.rest().await.iter().map(tell).filter(|told| told.starts_with("DELETED")).collect();
    assert_eq!(told, ["DELETED bottom", "DELETED middle", "DELETED top"]);
}

#[tokio::test]
async fn only_a_dependent_that_blocks_is_waited_for() {
    let api = Api::new().await;
    for (name, reference, waits) in [
        ("blocking", blocking as fn(&Answer) -> Value, true),
        ("not-blocking", reference as fn(&Answer) -> Value, false),
    ] {
        let top = owner(&api, "top").await;
        let held = with(config_map(name), "finalizers", json!(["example.com/hold"]));
        api.post(CONFIG_MAPS, with(held, "ownerReferences", json!([reference(&top)]))).await.expect(201);
        api.delete_with(path("top"), by("Foreground")).await.expect(200);
        let is_marked = |answer: &Answer| answer["metadata"]["deletionTimestamp"].is_string();
        api.eventually(path(name), is_marked).await;
        if waits {
            settle(&api).await;
            assert_eq!(metadata(&api, "top", "finalizers").await, json!(["foregroundDeletion"]), "{name}");
            api.merge_patch(path(name), json!({"metadata": {"finalizers": null}})).await.expect(200);
            gone(&api, path(name)).await;
        }
        gone(&api, path("top")).await;
    }
    assert_eq!(metadata(&api, "not-blocking", "finalizers").await, json!(["example.com/hold"]), "it is still held");
}

#[tokio::test]
async fn an_owner_no_longer_waits_for_a_dependent_that_ceases_to_block() {
    let api = Api::new().await;
    for (row, change) in [("unblocked", json!(false)), ("forgotten", Value::Null)] {
        let top = owner(&api, "top").await;
        let held = with(config_map(row), "finalizers", json!(["example.com/hold"]));
        api.post(CONFIG_MAPS, with(held, "ownerReferences", json!([blocking(&top)]))).await.expect(201);
        api.delete_with(path("top"), by("Foreground")).await.expect(200);
        let mut references = json!([blocking(&top)]);
        if change.is_null() {
            references = change;
        } else {
            references[0]["blockOwnerDeletion"] = change;
        }
        api.merge_patch(path(row), json!({"metadata": {"ownerReferences": references}})).await.expect(200);
        gone(&api, path("top")).await;
        api.get(path(row)).await.expect(200);
    }
}

#[tokio::test]
async fn an_orphaning_owner_goes_when_its_dependents_have_forgotten_it() {
    let api = Api::new().await;
    let (top, other) = (owner(&api, "top").await, owner(&api, "other").await);
    dependent(&api, "only", &[blocking(&top)]).await;
    dependent(&api, "shared", &[reference(&top), reference(&other)]).await;
    let start = api.store.revision();
    let marked = api.delete_with(path("top"), by("Orphan")).await.expect(200);
    assert_eq!(marked["metadata"]["finalizers"], json!(["orphan"]));
    gone(&api, path("top")).await;
    assert_eq!(metadata(&api, "only", "ownerReferences").await, Value::Null);
    assert_eq!(metadata(&api, "shared", "ownerReferences").await, json!([reference(&other)]));
    let watch = api.get(format!("{CONFIG_MAPS}?watch=1&resourceVersion={start}&timeoutSeconds=1")).watch().await;
    let told: Vec<String> = watch.rest().await.iter().map(tell).collect();
    assert_eq!(told.last().map(String::as_str), Some("DELETED top"), "{told:?}");
    settle(&api).await;
    assert_eq!(api.names(CONFIG_MAPS).await, ["only", "other", "shared"]);
}

#[tokio::test]
async fn a_dependent_that_is_deleted_already_is_orphaned_too() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    let held = with(config_map("held"), "finalizers", json!(["example.com/hold"]));
    api.post(CONFIG_MAPS, with(held, "ownerReferences", json!([reference(&top)]))).await.expect(201);
    api.delete(path("held")).await.expect(200);
    api.delete_with(path("top"), by("Orphan")).await.expect(200);
    gone(&api, path("top")).await;
    assert_eq!(metadata(&api, "held", "ownerReferences").await, Value::Null);
}

#[tokio::test]
async fn finalizers_of_dependents_are_honoured() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    let held = with(config_map("held"), "finalizers", json!(["example.com/hold"]));
    let held = api.post(CONFIG_MAPS, with(held, "ownerReferences", json!([reference(&top)]))).await.expect(201);
    dependent(&api, "below", &[reference(&held)]).await;
    api.delete(path("top")).await.expect(200);
    api.eventually(path("held"), |answer| answer["metadata"]["deletionTimestamp"].is_string()).await;
    settle(&api).await;
    api.get(path("below")).await.expect(200);
    api.merge_patch(path("held"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    gone(&api, path("below")).await;
}

#[tokio::test]
async fn a_dependent_with_an_order_of_its_own_passes_it_on() {
    let api = Api::new().await;
    let top = owner(&api, "top").await;
    let keeping = with(config_map("keeping"), "finalizers", json!(["orphan"]));
    let keeping = api.post(CONFIG_MAPS, with(keeping, "ownerReferences", json!([reference(&top)]))).await.expect(201);
    dependent(&api, "kept", &[reference(&keeping)]).await;
    api.delete(path("top")).await.expect(200);
    gone(&api, path("keeping")).await;
    settle(&api).await;
    assert_eq!(metadata(&api, "kept", "ownerReferences").await, Value::Null);
}

#[tokio::test]
async fn objects_that_own_each_other_can_be_deleted() {
    let api = Api::new().await;
    for policy in ["Background", "Foreground"] {
        let a = owner(&api, "a").await;
        let b = dependent(&api, "b", &[blocking(&a)]).await;
        let c = dependent(&api, "c", &[blocking(&b)]).await;
        let owned = json!({"metadata": {"ownerReferences": [blocking(&c)]}});
        api.merge_patch(path("a"), owned).await.expect(200);
        settle(&api).await;
        assert_eq!(api.names(CONFIG_MAPS).await, ["a", "b", "c"], "they keep each other");
        api.delete_with(path("b"), by(policy)).await.expect(200);
        for name in ["a", "b", "c"] {
            gone(&api, path(name)).await;
        }
    }
}

#[tokio::test]
async fn all_of_a_circle_can_be_deleted_in_the_foreground() {
    let api = Api::new().await;
    let hold = |object: Value| with(object, "finalizers", json!(["example.com/hold"]));
    let a = api.post(CONFIG_MAPS, hold(config_map("a"))).await.expect(201);
    let b = with(config_map("b"), "ownerReferences", json!([blocking(&a)]));
    let b = api.post(CONFIG_MAPS, hold(b)).await.expect(201);
    api.merge_patch(path("a"), json!({"metadata": {"ownerReferences": [blocking(&b)]}})).await.expect(200);
    for name in ["a", "b"] {
        api.delete_with(path(name), by("Foreground")).await.expect(200);
    }
    // The circle is broken at one of them, whichever is looked at first; the other waits for it.
    within("the circle", async {
        loop {
            let mut left = 0;
            for name in ["a", "b"] {
                let answer = api.get(path(name)).await;
                if answer["metadata"]["finalizers"] == json!(["example.com/hold"]) {
                    api.merge_patch(path(name), json!({"metadata": {"finalizers": null}})).await;
                }
                left += usize::from(answer.status != 404);
            }
            if left == 0 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn what_was_begun_before_a_restart_is_finished_after_it() {
    let api = Api::new().await;
    let (gone_before, foreground, orphan) =
        (owner(&api, "gone").await, owner(&api, "foreground").await, owner(&api, "orphan").await);
    api.server.stop();
    dependent(&api, "a", &[reference(&gone_before)]).await;
    dependent(&api, "b", &[blocking(&foreground)]).await;
    dependent(&api, "c", &[reference(&orphan)]).await;
    api.delete(path("gone")).await.expect(200);
    api.delete_with(path("foreground"), by("Foreground")).await.expect(200);
    api.delete_with(path("orphan"), by("Orphan")).await.expect(200);
    assert_eq!(api.names(CONFIG_MAPS).await, ["a", "b", "c", "foreground", "orphan"], "nobody collects");
    let api = api.reopened().await;
    for name in ["a", "b", "foreground", "orphan"] {
        gone(&api, path(name)).await;
    }
    settle(&api).await;
    assert_eq!(api.names(CONFIG_MAPS).await, ["c"]);
}

#[tokio::test]
async fn after_a_restart_namespaces_are_asked_for_an_owner_once_and_not_for_each_dependent() {
    const MANY: usize = 60;
    let api = Api::new().await;
    for number in 0..MANY {
        api.post(NAMESPACES, namespace(&format!("n{number}"))).await.expect(201);
    }
    let top = owner(&api, "top").await;
    api.server.stop();
    for number in 0..MANY {
        dependent(&api, &format!("d{number}"), &[reference(&top)]).await;
    }
    api.delete(path("top")).await.expect(200);
    let store = Counted::over(api.store.clone());
    let api = Api::over(store.clone()).await;
    for number in 0..MANY {
        gone(&api, path(&format!("d{number}"))).await;
    }
    assert_eq!(store.gets("/core/configmaps/n0/"), 1, "the others have heard the answer");
    assert_eq!(store.gets("/core/configmaps/n59/"), 1);
}
