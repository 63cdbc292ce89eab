//! Reading objects and lists as they were.

use std::sync::Arc;

use serde_json::{Value, json};
use setpoint_store::{EmbeddedStore, Options};

use crate::authorization::{binding, give_everywhere};
use crate::crds::{DEFINITION, DEFINITIONS, WIDGETS, version, widget, widgets};
use crate::fixture::{Answer, Api, METADATA, TABLE, escaped, names};
use crate::objects::*;

/// The path as it was answered at a revision.
fn then(path: impl AsRef<str>, revision: u64) -> String {
    let path = path.as_ref();
    let mark = if path.contains('?') { '&' } else { '?' };
    format!("{path}{mark}resourceVersion={revision}&resourceVersionMatch=Exact")
}

/// A server over a store in a folder, which goes with it.
async fn embedded() -> (Api, tempfile::TempDir) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let store = EmbeddedStore::open(folder.path(), Options::default()).expect("a new folder holds a new store");
    (Api::over(Arc::new(store)).await, folder)
}

async fn recolour(api: &Api, name: &str, colour: &str) -> Answer {
    api.merge_patch(format!("{CONFIG_MAPS}/{name}"), json!({"data": {"colour": colour}})).await.expect(200)
}

/// What a reader of a ConfigMap notices: its colour, its own revision and its uid.
fn seen(map: &Value) -> (Value, Value, Value) {
    let metadata = &map["metadata"];
    (map["data"]["colour"].clone(), metadata["resourceVersion"].clone(), metadata["uid"].clone())
}

async fn follow_one_life_and_the_next(api: &Api) {
    let path = format!("{CONFIG_MAPS}/a");
    let created = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let other = api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
    let changed = recolour(api, "a", "red").await;
    api.delete(&path).await.expect(200);
    let deleted = api.store.revision();
    let again = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let labelled = api.merge_patch(&path, json!({"metadata": {"labels": {"x": "y"}}})).await.expect(200);
    assert_ne!(created["metadata"]["uid"], again["metadata"]["uid"]);
    let rows = [
        ("before it was made", created.revision() - 1, None),
        ("made", created.revision(), Some(&created)),
        ("while another was made", other.revision(), Some(&created)),
        ("changed", changed.revision(), Some(&changed)),
        ("just before it was deleted", deleted - 1, Some(&changed)),
        ("deleted", deleted, None),
        ("made again", again.revision(), Some(&again)),
        ("labelled, which is now", labelled.revision(), Some(&labelled)),
    ];
    for (row, revision, expected) in rows {
        let answer = api.get(then(&path, revision)).await;
        match expected {
            Some(expected) => assert_eq!(answer.expect(200).object, expected.object, "{row}"),
            None => drop(answer.refused(404, "NotFound", &["configmaps \"a\" not found"])),
        }
        let list = api.get(then(CONFIG_MAPS, revision)).await.expect(200);
        assert_eq!(list.revision(), revision, "{row}");
        let items = list["items"].as_array().expect("a list has items");
        let found = items.iter().find(|item| item["metadata"]["name"] == "a").map(seen);
        assert_eq!(found, expected.map(|expected| seen(&expected.object)), "{row}");
    }
}

#[tokio::test]
async fn every_moment_of_an_object_can_be_read() {
    follow_one_life_and_the_next(&Api::new().await).await;
}

#[tokio::test]
async fn the_embedded_store_remembers_as_well() {
    let (api, _folder) = embedded().await;
    follow_one_life_and_the_next(&api).await;
}

#[tokio::test]
async fn each_of_many_changes_is_found() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.post(CONFIG_MAPS, config_map("busy")).await.expect(201);
    let mut changes = Vec::new();
    for round in 0..100 {
        changes.push((recolour(&api, "a", &round.to_string()).await.revision(), round));
        recolour(&api, "busy", &round.to_string()).await;
    }
    for (revision, round) in changes {
        for at in [revision, revision + 1] {
            let answer = api.get(then(format!("{CONFIG_MAPS}/a"), at)).await.expect(200);
            assert_eq!((&answer["data"]["colour"], answer.revision()), (&json!(round.to_string()), revision), "{at}");
        }
    }
}

#[tokio::test]
async fn history_says_where_it_begins() {
    let api = Api::forgetting_after(8).await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    for round in 0..40 {
        recolour(&api, "a", &round.to_string()).await;
    }
    let (oldest, path) = (api.store.oldest(), format!("{CONFIG_MAPS}/a"));
    let first = api.get(then(&path, oldest)).await.expect(200);
    assert!(first.revision() <= oldest, "the first moment that is held");
    let begins = format!("history begins at revision {oldest}");
    for (row, path) in
        [("an object", path), ("its status", format!("{DEPLOYMENTS}/gone/status")), ("a list", CONFIG_MAPS.to_owned())]
    {
        let answer = api.get(then(path, oldest - 1)).await.refused(410, "Expired", &["too old"]);
        assert_eq!(answer["details"]["causes"][0]["message"], begins, "{row}: one before");
    }
    let scale = api.get(then(format!("{DEPLOYMENTS}/gone/scale"), oldest - 1)).await;
    scale.refused(410, "Expired", &["too old"]);
}

#[tokio::test]
async fn the_past_has_every_form() {
    let api = Api::new().await;
    let made = api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/web");
    let more = json!({"spec": {"replicas": 7}, "metadata": {"labels": {"tier": "front"}}});
    api.merge_patch(&path, more).await.expect(200);
    let (revision, past) = (made["metadata"]["resourceVersion"].clone(), then(&path, made.revision()));

    let table = api.get(&past).accept(TABLE).await.expect(200);
    assert_eq!((&table["rows"][0]["cells"][1], &table["metadata"]["resourceVersion"]), (&json!("0/2"), &revision));
    let metadata = api.get(&past).accept(METADATA).await.expect(200);
    assert_eq!((&metadata["kind"], &metadata["metadata"]), (&json!("PartialObjectMetadata"), &made["metadata"]));
    let yaml = api.get(&past).accept("application/yaml").await.expect(200);
    let read: Value = serde_saphyr::from_str(yaml.text()).expect("YAML is answered");
    assert_eq!(read, made.object);
}

#[tokio::test]
async fn parts_of_an_object_have_a_past_too() {
    let api = Api::new().await;
    let made = api.post(DEPLOYMENTS, deployment("web")).await.expect(201);
    let path = format!("{DEPLOYMENTS}/web");
    let scaled = api.merge_patch(format!("{path}/scale"), json!({"spec": {"replicas": 5}})).await.expect(200);
    let status = json!({"status": {"replicas": 5}});
    let reported = api.merge_patch(format!("{path}/status"), status).await.expect(200);
    api.delete(&path).await.expect(200);
    let rows = [
        ("made", made.revision(), json!([2, null])),
        ("scaled", scaled.revision(), json!([5, null])),
        ("reported", reported.revision(), json!([5, 5])),
    ];
    for (row, revision, expected) in rows {
        let scale = api.get(then(format!("{path}/scale"), revision)).await.expect(200);
        let status = api.get(then(format!("{path}/status"), revision)).await.expect(200);
        assert_eq!(json!([scale["spec"]["replicas"], status["status"]["replicas"]]), expected, "{row}");
        assert_eq!((scale.revision(), status.revision()), (revision, revision), "{row}");
    }
    for part in ["scale", "status"] {
        api.get(then(format!("{path}/{part}"), api.store.revision())).await.refused(404, "NotFound", &["web"]);
        let future = api.get(then(format!("{path}/{part}"), api.store.revision() + 9)).await;
        future.refused(504, "Timeout", &["Too large resource version"]);
    }
}

#[tokio::test]
async fn custom_objects_are_shown_by_the_schema_of_their_time() {
    let api = Api::new().await;
    let text = json!({"type": "string"});
    api.post(DEFINITIONS, widgets(json!({"size": text, "note": text}))).await.expect(201);
    let made = api.post(WIDGETS, widget("a", json!({"size": "small", "note": "first"}))).await.expect(201);
    let shape = json!({"type": "string", "default": "round"});
    let versions = json!({"spec": {"versions": [version("v1", json!({"size": text, "shape": shape}))]}});
    let redefined = api.merge_patch(DEFINITION, versions).await.expect(200);
    let path = format!("{WIDGETS}/a");
    let changed = api.merge_patch(&path, json!({"spec": {"size": "large"}})).await.expect(200);
    let rows = [
        ("by its first schema", made.revision(), json!({"size": "small", "note": "first"})),
        ("by the next, not yet rewritten", redefined.revision(), json!({"size": "small", "shape": "round"})),
        ("rewritten", changed.revision(), json!({"size": "large", "shape": "round"})),
    ];
    for (row, revision, spec) in rows {
        assert_eq!(api.get(then(&path, revision)).await.expect(200)["spec"], spec, "{row}");
        assert_eq!(api.get(then(WIDGETS, revision)).await.expect(200)["items"][0]["spec"], spec, "{row}: in a list");
    }

    api.delete(DEFINITION).await.expect(200);
    api.eventually(DEFINITION, |answer| answer.status == 404).await;
    api.post(DEFINITIONS, widgets(json!({"other": text}))).await.expect(201);
    let kept = api.get(then(&path, made.revision())).await.expect(200);
    assert_eq!(kept.object, made.object, "a definition that was made again shows what the first one had");
    api.get(&path).await.expect(404);
}

#[tokio::test]
async fn pages_and_selections_stay_in_the_past() {
    let api = Api::new().await;
    for (index, team) in ["red", "blue", "red", "blue", "red"].into_iter().enumerate() {
        api.post(CONFIG_MAPS, labelled(config_map(&format!("m{index}")), "team", team)).await.expect(201);
    }
    let moment = api.store.revision();
    api.delete(format!("{CONFIG_MAPS}/m0")).await.expect(200);
    api.merge_patch(format!("{CONFIG_MAPS}/m2"), json!({"metadata": {"labels": {"team": "blue"}}})).await.expect(200);
    api.post(CONFIG_MAPS, labelled(config_map("m9"), "team", "red")).await.expect(201);
    let rows = [
        ("all", String::new(), vec!["m0", "m1", "m2", "m3", "m4"]),
        ("one team", format!("&labelSelector={}", escaped("team=red")), vec!["m0", "m2", "m4"]),
        ("one name, which is gone", format!("&fieldSelector={}", escaped("metadata.name=m0")), vec!["m0"]),
    ];
    for (row, selection, expected) in rows {
        let whole = api.get(format!("{}{selection}", then(CONFIG_MAPS, moment))).await.expect(200);
        assert_eq!((names(&whole["items"]), whole.revision()), (owned(&expected), moment), "{row}");
        let mut page = api.get(format!("{}{selection}&limit=2", then(CONFIG_MAPS, moment))).await.expect(200);
        let mut found = names(&page["items"]);
        while let Some(next) = page["metadata"]["continue"].as_str().map(escaped) {
            recolour(&api, "m9", &next).await;
            page = api.get(format!("{CONFIG_MAPS}?limit=2{selection}&continue={next}")).await.expect(200);
            assert_eq!(page.revision(), moment, "{row}");
            found.extend(names(&page["items"]));
        }
        assert_eq!(found, owned(&expected), "{row}: page by page");
    }
}

fn owned(names: &[&str]) -> Vec<String> {
    names.iter().map(|&name| name.to_owned()).collect()
}

#[tokio::test]
async fn the_past_of_a_namespace_begins_with_it() {
    let api = Api::new().await;
    let (path, secrets) = (format!("{NAMESPACES}/team"), "/api/v1/namespaces/team/secrets");
    api.post(NAMESPACES, namespace("team")).await.expect(201);
    let first = api.post(secrets, secret("s")).await.expect(201).revision();
    api.delete(&path).await.expect(200);
    api.eventually(&path, |answer| answer.status == 404).await;
    let between = api.store.revision();
    let again = api.post(NAMESPACES, namespace("team")).await.expect(201).revision();
    let bindings = "/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings";
    api.post(bindings, binding("RoleBinding", "new", "ClusterRole/admin", "new")).await.expect(201);
    give_everywhere(&api, "old", "ClusterRole/cluster-admin").await;
    let kept = api.post(secrets, secret("s")).await.expect(201).revision();
    let (new, old, one) = (api.as_user("new", []), api.as_user("old", []), format!("{secrets}/s"));
    for (row, moment) in [("in the earlier one", first), ("between the two", between)] {
        for path in [then(&one, moment), then(secrets, moment), then(&path, moment)] {
            new.get(&path).await.refused(410, "Expired", &["\"team\" was created after"]);
        }
        let watch = new.get(format!("{secrets}?watch=true&resourceVersion={moment}&timeoutSeconds=1")).await;
        assert!(watch.text().contains("was created after") && !watch.text().contains("DELETED"), "{row}: a watch");
        new.delete(then(secrets, moment)).await.refused(410, "Expired", &["was created after"]);
    }
    assert_eq!(old.get(then(&one, first)).await.expect(200).revision(), first, "who may see all sees it");
    for moment in [again, kept] {
        new.get(then(secrets, moment)).await.expect(200);
    }
    assert_eq!(new.get(then(&one, kept)).await.expect(200).revision(), kept, "what one's own namespace held");
}

#[tokio::test]
async fn a_get_ignores_what_names_no_moment() {
    let api = Api::new().await;
    let made = api.post(CONFIG_MAPS, config_map("a")).await.expect(201).revision();
    recolour(&api, "a", "red").await;
    let rows = [
        ("exactly nothing", "resourceVersionMatch=Exact".to_owned()),
        ("exactly anything", "resourceVersion=0&resourceVersionMatch=Exact".to_owned()),
        ("not older", format!("resourceVersion={made}&resourceVersionMatch=NotOlderThan")),
        ("a word that nobody knows", format!("resourceVersion={made}&resourceVersionMatch=Roughly")),
    ];
    for (row, query) in rows {
        let answer = api.get(format!("{CONFIG_MAPS}/a?{query}")).await.expect(200);
        assert_eq!(answer["data"]["colour"], "red", "{row}");
    }
}
