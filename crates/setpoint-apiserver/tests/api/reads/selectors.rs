//! Choosing by labels and fields.

use serde_json::json;

use crate::fixture::{Api, escaped};
use crate::objects::*;

#[tokio::test]
async fn labels_choose() {
    let api = Api::new().await;
    for (name, labels) in [
        ("dev", json!({"app": "web", "stage": "dev"})),
        ("old", json!({"app": "db", "stage": "prod"})),
        ("plain", json!({})),
        ("prod", json!({"app": "web", "stage": "prod"})),
    ] {
        api.post(CONFIG_MAPS, with(config_map(name), "labels", labels)).await.expect(201);
    }
    let rows: [(&str, &[&str]); 13] = [
        ("", &["dev", "old", "plain", "prod"]),
        ("app", &["dev", "old", "prod"]),
        ("!app", &["plain"]),
        ("app=web", &["dev", "prod"]),
        ("app==web,stage=prod", &["prod"]),
        ("app!=web", &["old", "plain"]),
        ("stage in (dev,test)", &["dev"]),
        ("stage notin (dev)", &["old", "plain", "prod"]),
        ("app,stage notin (dev)", &["old", "prod"]),
        ("stage in (dev), stage in (prod)", &[]),
        (" app = web ", &["dev", "prod"]),
        ("app=", &[]),
        ("example.com/none", &[]),
    ];
    for (selector, expected) in rows {
        let found = api.names(format!("{CONFIG_MAPS}?labelSelector={}", escaped(selector))).await;
        assert_eq!(found, expected, "{selector:?}");
    }
}

#[tokio::test]
async fn a_selector_that_is_none_is_refused() {
    let api = Api::new().await;
    let labels = ["a=b=c", "a in (b", "a in b", ",", "two words=1", "a=two words", "-bad=1", "a in ()x", "=a"];
    for selector in labels {
        let answer = api.get(format!("{CONFIG_MAPS}?labelSelector={}", escaped(selector))).await;
        assert_eq!((answer.status, &answer["reason"]), (400, &json!("BadRequest")), "{selector:?}: {}", answer.text());
    }
    let fields = [("nothing", "nothing"), ("data.colour=green", "data.colour"), ("spec=1", "spec")];
    for (selector, words) in fields {
        let answer = api.get(format!("{CONFIG_MAPS}?fieldSelector={}", escaped(selector))).await;
        answer.refused(400, "BadRequest", &[words]);
    }
}

#[tokio::test]
async fn fields_choose() {
    let api = Api::new().await;
    for name in ["a", "b"] {
        api.post(CONFIG_MAPS, config_map(name)).await.expect(201);
    }
    api.post("/api/v1/namespaces/kube-public/configmaps", config_map("a")).await.expect(201);
    let rows: [(&str, &str, usize); 6] = [
        ("by name", "metadata.name=a", 2),
        ("by name and namespace", "metadata.name=a,metadata.namespace=default", 1),
        ("by all but a name", "metadata.name!=a", 1),
        ("by a name nobody has", "metadata.name=z", 0),
        ("by two names at once", "metadata.name=a,metadata.name=b", 0),
        ("by namespace", "metadata.namespace==kube-public", 1),
    ];
    for (row, selector, expected) in rows {
        let found = api.names(format!("/api/v1/configmaps?fieldSelector={}", escaped(selector))).await;
        assert_eq!(found.len(), expected, "{row}: {found:?}");
    }
    let here = api.names(format!("{CONFIG_MAPS}?fieldSelector={}", escaped("metadata.name=b"))).await;
    assert_eq!(here, ["b"]);
    let both = format!("{CONFIG_MAPS}?labelSelector=none&fieldSelector={}", escaped("metadata.name=b"));
    assert!(api.names(both).await.is_empty(), "both selectors count");
}

#[tokio::test]
async fn kinds_have_fields_of_their_own() {
    let api = Api::new().await;
    for (name, node) in [("here", "n1"), ("there", "n2"), ("nowhere", "")] {
        let mut object = pod(name);
        object["spec"]["nodeName"] = node.into();
        api.post(PODS, object).await.expect(201);
    }
    api.merge_patch(format!("{PODS}/here/status"), json!({"status": {"phase": "Running"}})).await.expect(200);
    let mut typed = secret("typed");
    typed["type"] = "example.com/typed".into();
    api.post(SECRETS, typed).await.expect(201);
    let rows = [
        (PODS, "spec.nodeName=n1", vec!["here"]),
        (PODS, "spec.nodeName=", vec!["nowhere"]),
        (PODS, "status.phase!=Running", vec!["nowhere", "there"]),
        (SECRETS, "type=example.com/typed", vec!["typed"]),
        (NAMESPACES, "status.phase=Terminating", vec![]),
    ];
    for (path, selector, expected) in rows {
        let found = api.names(format!("{path}?fieldSelector={}", escaped(selector))).await;
        assert_eq!(found, expected, "{selector}");
    }
    let unknown = api.get(format!("{PODS}?fieldSelector={}", escaped("spec.image=x"))).await;
    unknown.refused(400, "BadRequest", &["field label not supported: spec.image"]);
}

#[tokio::test]
async fn a_get_is_not_chosen() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.get(format!("{CONFIG_MAPS}/a?labelSelector=none")).await.expect(200);
}
