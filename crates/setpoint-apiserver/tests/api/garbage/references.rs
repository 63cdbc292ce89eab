//! Which references count, and which do not.

use serde_json::{Value, json};

use super::*;
use crate::crds::{DEFINITION, DEFINITIONS, WIDGETS, widget, widgets};
use crate::fixture::names;

const NODES: &str = "/api/v1/nodes";

async fn node(api: &Api, name: &str) -> Answer {
    api.post(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": {"name": name}})).await.expect(201)
}

#[tokio::test]
async fn an_object_whose_owner_never_was_is_collected() {
    let api = Api::new().await;
    let real = owner(&api, "real").await;
    let mut of_another_kind = reference(&real);
    of_another_kind["kind"] = "Secret".into();
    let mut recreated = reference(&real);
    recreated["uid"] = "1b4e28ba-2fa1-41d2-883f-0016d3cca427".into();
    for (row, reference) in [
        ("nothing-by-that-name", dangling()),
        ("a-name-of-another-kind", of_another_kind),
        ("another-by-that-name", recreated),
    ] {
        dependent(&api, row, &[reference]).await;
        gone(&api, path(row)).await;
    }
    assert_eq!(api.names(CONFIG_MAPS).await, ["real"]);
}

#[tokio::test]
async fn one_living_owner_is_enough_and_the_dead_are_forgotten() {
    let api = Api::new().await;
    let (first, second) = (owner(&api, "first").await, owner(&api, "second").await);
    dependent(&api, "a", &[dangling(), reference(&first), reference(&second)]).await;
    let owners = |names: Value| move |answer: &Answer| owner_names(answer) == names;
    api.eventually(path("a"), owners(json!(["first", "second"]))).await;
    api.delete(path("first")).await.expect(200);
    api.eventually(path("a"), owners(json!(["second"]))).await;
    api.delete_with(path("second"), by("Foreground")).await.expect(200);
    gone(&api, path("a")).await;
}

fn owner_names(answer: &Answer) -> Value {
    let references = answer["metadata"]["ownerReferences"].as_array().into_iter().flatten();
    references.map(|reference| reference["name"].clone()).collect()
}

#[tokio::test]
async fn an_owner_in_the_foreground_does_not_wait_for_what_another_keeps() {
    let api = Api::new().await;
    let (going, staying) = (owner(&api, "going").await, owner(&api, "staying").await);
    dependent(&api, "a", &[blocking(&going), reference(&staying)]).await;
    api.delete_with(path("going"), by("Foreground")).await.expect(200);
    gone(&api, path("going")).await;
    assert_eq!(metadata(&api, "a", "ownerReferences").await, json!([reference(&staying)]));
}

#[tokio::test]
async fn an_owner_of_a_kind_that_is_not_served_is_never_taken_to_be_absent() {
    let api = Api::new().await;
    let first = owner(&api, "first").await;
    let unknown =
        |api_version: &str, kind: &str| json!({"apiVersion": api_version, "kind": kind, "name": "x", "uid": "u"});
    let rows = [
        ("a-group", unknown("example.com/v1", "Widget")),
        ("a-version", unknown("apps/v9", "Deployment")),
        ("a-kind", unknown("v1", "Widget")),
    ];
    for (row, reference) in &rows {
        dependent(&api, row, std::slice::from_ref(reference)).await;
    }
    dependent(&api, "beside-others", &[reference(&first), dangling(), rows[0].1.clone()]).await;
    api.delete(path("first")).await.expect(200);
    settle(&api).await;
    assert_eq!(api.names(CONFIG_MAPS).await, ["a-group", "a-kind", "a-version", "beside-others"]);
    let kept = api.get(path("beside-others")).await.expect(200);
    assert_eq!(owner_names(&kept), json!(["first", "never", "x"]), "nothing is changed before all is known");

    let known = json!({"metadata": {"ownerReferences": [dangling()]}});
    api.merge_patch(path("a-kind"), known).await.expect(200);
    gone(&api, path("a-kind")).await;
}

#[tokio::test]
async fn an_owner_of_an_unknown_kind_is_not_mistaken_for_an_object_with_its_uid() {
    let api = Api::new().await;
    let real = owner(&api, "real").await;
    let mut liar = reference(&real);
    for (field, value) in [("apiVersion", "nobody/v1"), ("kind", "X"), ("name", "x")] {
        liar[field] = value.into();
    }
    let mut namesake = liar.clone();
    namesake["name"] = "real".into();
    dependent(&api, "liar", &[liar]).await;
    dependent(&api, "namesake", &[namesake]).await;
    dependent(&api, "honest", &[reference(&real)]).await;
    api.delete(path("real")).await.expect(200);
    gone(&api, path("honest")).await;
    settle(&api).await;
    assert_eq!(api.names(CONFIG_MAPS).await, ["liar", "namesake"]);
}

#[tokio::test]
async fn an_owner_that_went_with_its_kind_takes_its_dependents_along() {
    let api = Api::new().await;
    api.post(DEFINITIONS, widgets(json!({}))).await.expect(201);
    let held = with(widget("w", json!({})), "finalizers", json!(["example.com/hold"]));
    let owner = api.post(WIDGETS, held).await.expect(201);
    dependent(&api, "a", &[reference(&owner)]).await;
    dependent(&api, "b", &[reference(&owner)]).await;
    settle(&api).await;
    api.delete(DEFINITION).await.expect(200);
    api.merge_patch(format!("{WIDGETS}/w"), json!({"metadata": {"finalizers": null}})).await.expect(200);
    gone(&api, DEFINITION).await;
    for name in ["a", "b"] {
        gone(&api, path(name)).await;
    }
}

#[tokio::test]
async fn an_owner_in_another_namespace_counts_as_absent_and_an_event_says_so() {
    let api = Api::new().await;
    api.post(NAMESPACES, namespace("elsewhere")).await.expect(201);
    let real = owner(&api, "real").await;
    let maps = "/api/v1/namespaces/elsewhere/configmaps";
    let misled = with(config_map("misled"), "ownerReferences", json!([reference(&real)]));
    let misled = api.post(maps, misled).await.expect(201);
    gone(&api, format!("{maps}/misled")).await;
    api.get(path("real")).await.expect(200);

    let events = api.get("/api/v1/namespaces/elsewhere/events").await.expect(200);
    let event = &events["items"][0];
    assert_eq!((&event["reason"], &event["type"]), (&json!("OwnerRefInvalidNamespace"), &json!("Warning")));
    assert_eq!(event["involvedObject"]["uid"], misled["metadata"]["uid"]);
    let uid = real["metadata"]["uid"].as_str().unwrap_or_default();
    assert_eq!(
        event["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: elsewhere, name: real, uid: {uid}] does not exist in namespace \"elsewhere\""
        )
    );
}

#[tokio::test]
async fn an_owner_without_a_namespace_owns_across_all() {
    let api = Api::new().await;
    let node = node(&api, "n1").await;
    let lease = with(lease("n1", "n1"), "ownerReferences", json!([reference(&node)]));
    let leases = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
    api.post(leases, lease).await.expect(201);
    settle(&api).await;
    api.get(format!("{leases}/n1")).await.expect(200);
    api.delete(format!("{NODES}/n1")).await.expect(200);
    gone(&api, format!("{leases}/n1")).await;
}

#[tokio::test]
async fn an_object_without_a_namespace_is_kept_by_an_owner_that_has_one() {
    let api = Api::new().await;
    let real = owner(&api, "real").await;
    let owned = |name: &str, reference: Value| {
        let metadata = json!({"name": name, "ownerReferences": [reference]});
        json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})
    };
    api.post(NODES, owned("by-a-real-one", reference(&real))).await.expect(201);
    api.post(NODES, owned("by-none", dangling())).await.expect(201);
    settle(&api).await;
    assert_eq!(api.names(NODES).await, ["by-a-real-one", "by-none"]);
    let events = api.get("/api/v1/namespaces/default/events").await.expect(200);
    let told: Vec<&Value> =
        events["items"].as_array().into_iter().flatten().map(|event| &event["involvedObject"]["name"]).collect();
    assert_eq!(told, [&json!("by-a-real-one")]);
    api.delete(path("real")).await.expect(200);
    settle(&api).await;
    assert_eq!(api.names(NODES).await, ["by-a-real-one", "by-none"], "also when the owner goes");
}

#[tokio::test]
async fn an_orphaning_owner_is_forgotten_by_those_who_cannot_look_it_up() {
    let api = Api::new().await;
    let real = owner(&api, "real").await;
    let metadata = json!({"name": "n1", "ownerReferences": [reference(&real)]});
    api.post(NODES, json!({"apiVersion": "v1", "kind": "Node", "metadata": metadata})).await.expect(201);
    api.delete_with(path("real"), by("Orphan")).await.expect(200);
    gone(&api, path("real")).await;
    let kept = api.get(format!("{NODES}/n1")).await.expect(200);
    assert_eq!(kept["metadata"]["ownerReferences"], Value::Null);
}

#[tokio::test]
async fn events_are_not_collected_by_owner() {
    let api = Api::new().await;
    let events = "/api/v1/namespaces/default/events";
    let involved = json!({"kind": "ConfigMap", "namespace": "default", "name": "x"});
    let metadata = json!({"name": "e", "ownerReferences": [dangling()]});
    let event = json!({"apiVersion": "v1", "kind": "Event", "metadata": metadata, "involvedObject": involved});
    api.post(events, event).await.expect(201);
    settle(&api).await;
    assert_eq!(names(&api.get(events).await["items"]), ["e"]);
}

#[tokio::test]
async fn an_object_that_gains_a_dead_owner_goes_and_one_that_loses_it_in_time_stays() {
    let api = Api::new().await;
    owner(&api, "a").await;
    api.merge_patch(path("a"), json!({"metadata": {"ownerReferences": [dangling()]}})).await.expect(200);
    gone(&api, path("a")).await;

    let first = owner(&api, "first").await;
    dependent(&api, "b", &[reference(&first)]).await;
    api.merge_patch(path("b"), json!({"metadata": {"ownerReferences": null}})).await.expect(200);
    api.delete(path("first")).await.expect(200);
    settle(&api).await;
    api.get(path("b")).await.expect(200);
}
