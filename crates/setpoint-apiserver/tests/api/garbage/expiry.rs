//! Events come to an end by themselves.

use serde_json::{Value, json};
use setpoint_apiserver::object;
use setpoint_store::{Commit, Expected};

use super::*;

const EVENTS: &str = "/api/v1/namespaces/default/events";

fn event(name: &str, created: &str, last: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": "default", "uid": name, "creationTimestamp": created},
        "involvedObject": {"kind": "Pod", "namespace": "default", "name": "p"},
        "lastTimestamp": last,
    })
}

#[tokio::test]
async fn an_event_of_long_ago_goes_after_a_restart_and_a_fresh_one_stays() {
    let api = Api::new().await;
    api.server.stop();
    let now = jiff::Timestamp::now().to_string();
    for event in [
        event("old", "2020-01-01T00:00:00Z", json!("2020-01-01T00:00:00Z")),
        event("seen-again", "2020-01-01T00:00:00Z", json!(now)),
        event("new", &now, Value::Null),
    ] {
        let key = format!("/core/events/default/{}", event["metadata"]["name"].as_str().expect("a name"));
        let commit =
            Commit { key: key.into(), value: Some(object::encode_answer(&event, &[])), expected: Expected::Absent };
        api.store.commit(commit).await.expect("it is stored");
    }
    assert_eq!(api.names(EVENTS).await, ["new", "old", "seen-again"]);
    let api = api.reopened().await;
    gone(&api, format!("{EVENTS}/old")).await;
    assert_eq!(api.names(EVENTS).await, ["new", "seen-again"]);
}
