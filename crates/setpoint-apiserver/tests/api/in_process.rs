//! The same server through kube-rs, as controllers in this process use it.

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams, WatchEvent, WatchParams};
use kube::runtime::watcher::{self, watcher};
use kube::{Client, ResourceExt};
use serde_json::json;
use tower::ServiceExt as _;

use crate::fixture::{Api, identity, within};

fn client(api: &Api) -> Client {
    let service = api.server.clone().map_request(|mut request: http::Request<kube::client::Body>| {
        request.extensions_mut().insert(identity());
        request
    });
    Client::new(service, "default")
}

fn config_map(name: &str) -> ConfigMap {
    let object = json!({"metadata": {"name": name}, "data": {"colour": "green"}});
    serde_json::from_value(object).expect("a ConfigMap")
}

fn colour(object: &ConfigMap) -> &str {
    object.data.as_ref().map_or("", |data| data["colour"].as_str())
}

#[tokio::test]
async fn objects_live_and_die_through_kube() {
    let api = Api::new().await;
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client(&api));
    let created = maps.create(&PostParams::default(), &config_map("a")).await.expect("it is created");
    assert!(created.uid().is_some());

    let mut read = maps.get("a").await.expect("it is there");
    assert_eq!(colour(&read), "green");
    read.data.get_or_insert_default().insert("colour".into(), "blue".into());
    let replaced = maps.replace("a", &PostParams::default(), &read).await.expect("it is replaced");
    assert_eq!(colour(&replaced), "blue");
    let late = maps.replace("a", &PostParams::default(), &created).await.expect_err("it has changed since");
    assert!(matches!(late, kube::Error::Api(status) if status.is_conflict()));

    let patch = Patch::Merge(json!({"data": {"colour": "red"}}));
    let patched = maps.patch("a", &PatchParams::default(), &patch).await.expect("it is patched");
    assert_eq!(colour(&patched), "red");
    assert_eq!(maps.list(&ListParams::default()).await.expect("a list").items.len(), 1);

    maps.delete("a", &DeleteParams::default()).await.expect("it is deleted");
    assert!(maps.get_opt("a").await.expect("an answer").is_none());
}

#[tokio::test]
async fn a_watch_tells_kube_what_happens() {
    let api = Api::new().await;
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client(&api));
    let start = api.store.revision().to_string();
    let events = maps.watch(&WatchParams::default().timeout(60), &start).await.expect("a watch");
    let mut events = events.boxed();
    maps.create(&PostParams::default(), &config_map("a")).await.expect("it is created");
    maps.delete("a", &DeleteParams::default()).await.expect("it is deleted");
    let mut told = Vec::new();
    while told.len() < 2 {
        match within("an event", events.next()).await.expect("the watch goes on").expect("an event") {
            WatchEvent::Added(object) => told.push(format!("added {}", object.name_any())),
            WatchEvent::Deleted(object) => told.push(format!("deleted {}", object.name_any())),
            WatchEvent::Bookmark(_) => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(told, ["added a", "deleted a"]);
}

#[tokio::test]
async fn both_ways_of_listing_and_watching_fill_a_cache() {
    let api = Api::new().await;
    let client = client(&api);
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(client.clone());
    for name in ["a", "b", "c"] {
        maps.create(&PostParams::default(), &config_map(name)).await.expect("it is created");
    }
    let paged = watcher::Config::default().page_size(2);
    for (row, config) in [("paged lists", paged), ("a streamed list", watcher::Config::default().streaming_lists())] {
        let mut events = watcher(maps.clone(), config).boxed();
        let mut names = Vec::new();
        loop {
            match within("an event", events.next()).await.expect("the watcher goes on").expect("an event") {
                watcher::Event::InitApply(object) => names.push(object.name_any()),
                watcher::Event::InitDone => break,
                _ => {}
            }
        }
        assert_eq!(names, ["a", "b", "c"], "{row}");
    }
}

#[tokio::test]
async fn what_goes_wrong_is_an_error_that_kube_knows() {
    let api = Api::new().await;
    let namespaces: kube::Api<Namespace> = kube::Api::all(client(&api));
    let missing = namespaces.get("nowhere").await.expect_err("it is not there");
    assert!(matches!(missing, kube::Error::Api(status) if status.is_not_found()));
    let version = client(&api).apiserver_version().await.expect("a version");
    assert_eq!((version.major.as_str(), version.minor.as_str()), ("1", "36"));
}

#[tokio::test]
async fn a_client_without_an_identity_is_nobody() {
    let api = Api::new().await;
    let maps: kube::Api<ConfigMap> = kube::Api::default_namespaced(Client::new(api.server.clone(), "default"));
    let refused = maps.list(&ListParams::default()).await.expect_err("nobody is let in");
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 401));
}
