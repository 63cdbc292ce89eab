//! Health and metrics.

use serde_json::json;

use crate::fixture::Api;
use crate::objects::*;

#[tokio::test]
async fn a_healthy_server_says_ok() {
    let api = Api::new().await;
    for path in ["/healthz", "/livez", "/readyz"] {
        let answer = api.get(path).anonymous().await.expect(200);
        assert_eq!((answer.text(), answer.header("content-type")), ("ok", "text/plain; charset=utf-8"), "{path}");
    }
}

#[tokio::test]
async fn a_verbose_answer_names_every_check() {
    let api = Api::new().await;
    let answer = api.get("/readyz?verbose").await.expect(200);
    let lines: Vec<&str> = answer.text().lines().collect();
    assert_eq!(lines.last(), Some(&"readyz check passed"));
    assert!(lines.contains(&"[+]ping ok") && lines.contains(&"[+]store ok"), "{lines:?}");
    let without = api.get("/readyz?verbose&exclude=store").await.expect(200);
    assert!(!without.text().contains("[+]store"), "{}", without.text());
    api.get("/readyz/ping").await.expect(200);
    api.get("/readyz/nothing").await.expect(404);
}

#[tokio::test]
async fn a_server_whose_store_fails_says_so_and_still_reads() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.store.close().await.expect("a store closes");

    for endpoint in ["healthz", "livez", "readyz"] {
        let answer = api.get(format!("/{endpoint}")).await.expect(500);
        assert!(answer.text().contains("[-]store failed"), "{}", answer.text());
        assert!(answer.text().contains(&format!("{endpoint} check failed")), "{}", answer.text());
    }
    api.get("/readyz/store").await.expect(500);
    api.get("/readyz?exclude=store").await.expect(200);

    let write = api.post(CONFIG_MAPS, config_map("b")).await;
    write.refused(503, "ServiceUnavailable", &[]);
    api.get(format!("{CONFIG_MAPS}/a")).await.expect(200);
}

#[tokio::test]
async fn a_stopping_server_is_not_ready() {
    let api = Api::new().await;
    api.server.stop();
    api.get("/readyz").await.expect(500);
    api.get("/livez").await.expect(200);
}

#[tokio::test]
async fn what_happened_is_counted() {
    let api = Api::new().await;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(409);
    api.get(CONFIG_MAPS).await.expect(200);
    let _watch = api.get(format!("{CONFIG_MAPS}?watch=1")).watch().await;

    let metrics = api.get("/metrics").await.expect(200);
    assert!(metrics.header("content-type").contains("text"), "{}", metrics.header("content-type"));
    let value = |start: &str, labels: &[&str]| {
        let mut lines = metrics.text().lines().filter(|line| line.starts_with(start));
        let line = lines.find(|line| labels.iter().all(|label| line.contains(label)));
        let line = line.unwrap_or_else(|| panic!("no {start} with {labels:?}"));
        line.rsplit(' ').next().and_then(|text| text.parse::<f64>().ok()).expect("a metric has a value")
    };
    let create = ["verb=\"create\"", "resource=\"configmaps\""];
    assert_eq!(value("apiserver_request_total", &[create[0], create[1], "code=\"201\""]), 1.0);
    assert_eq!(value("apiserver_request_total", &[create[0], create[1], "code=\"409\""]), 1.0);
    assert_eq!(value("apiserver_request_duration_seconds_count", &create), 2.0);
    assert!(value("apiserver_current_inflight_requests", &["request_kind=\"mutating\""]) >= 0.0);
    assert_eq!(value("apiserver_longrunning_requests", &[]), 1.0);
    assert_eq!(value("apiserver_storage_objects", &["resource=\"configmaps\""]), 1.0);
    assert!(value("store_commits_total", &[]) >= 5.0, "the namespaces and the ConfigMap");
    assert!(value("store_revision", &[]) >= 5.0);
    for name in ["store_commit_duration_seconds_count", "store_batch_commits_count", "store_watches", "store_keys"] {
        value(name, &[]);
    }
}

#[tokio::test]
async fn a_watch_that_is_over_is_not_counted() {
    let api = Api::new().await;
    let watch = api.get(format!("{CONFIG_MAPS}?watch=1")).watch().await;
    drop(watch);
    let open = |text: &str| text.lines().any(|line| line == "apiserver_longrunning_requests 0");
    api.eventually("/metrics", |answer| open(answer.text())).await;
}

#[tokio::test]
async fn only_reads_are_answered_here() {
    let api = Api::new().await;
    for path in ["/version", "/healthz", "/metrics", "/api", "/apis/apps/v1", "/openapi/v3"] {
        api.post(path, json!({})).await.refused(405, "MethodNotAllowed", &[]);
    }
}
