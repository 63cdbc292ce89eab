//! What is written down of requests, and what never is.

use std::io::Write;
use std::sync::Arc;

use http::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_apiserver::audit::Log;
use setpoint_apiserver::fairness::Limits;
use setpoint_store::{MemoryStore, Options};

use crate::fixture::Api;
use crate::objects::*;

/// A log in memory.
#[derive(Clone, Default)]
struct Paper(Arc<Mutex<Vec<u8>>>);

impl Write for Paper {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

struct Audited {
    api: Api,
    log: Log,
    paper: Paper,
}

impl Audited {
    async fn new() -> Audited {
        let paper = Paper::default();
        let log = Log::to(paper.clone()).expect("a thread");
        let store = Arc::new(MemoryStore::new(Options::default()));
        let api = Api::set_up(store, Limits::default(), Some(log.clone())).await;
        Audited { api, log, paper }
    }

    async fn text(&self) -> String {
        self.log.flush().await;
        String::from_utf8(self.paper.0.lock().clone()).expect("text")
    }

    async fn events(&self) -> Vec<Value> {
        self.text().await.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
    }
}

#[tokio::test]
async fn changes_and_refusals_are_written_down_and_reads_are_not() {
    let audited = Audited::new().await;
    let api = &audited.api;
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.get(CONFIG_MAPS).await.expect(200);
    api.get(format!("{CONFIG_MAPS}/missing")).await.expect(404);
    api.get("/readyz").anonymous().await.expect(200);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(409);
    api.merge_patch(format!("{CONFIG_MAPS}/a"), json!({"data": {"colour": "red"}})).await.expect(200);
    api.delete(format!("{CONFIG_MAPS}/a")).await.expect(200);
    api.delete(CONFIG_MAPS).await.expect(200);
    api.get(CONFIG_MAPS).token("wrong").await.expect(401);
    api.send(Method::POST, "/nowhere").await.expect(404);
    api.send(Method::POST, "/api/v1/nodes/%00").await.expect(400);
    api.post(CONFIG_MAPS, json!({"big": "x".repeat(4 << 20)})).await.expect(413);
    let told: Vec<Value> = audited
        .events()
        .await
        .iter()
        .map(|event| {
            let (object, status) = (&event["objectRef"], &event["responseStatus"]);
            json!([event["verb"], event["user"]["username"], object["name"], status["code"], status["reason"]])
        })
        .collect();
    let expected = json!([
        ["create", "tester", "a", 201, null],
        ["create", "tester", null, 409, "AlreadyExists"],
        ["patch", "tester", "a", 200, null],
        ["delete", "tester", "a", 200, null],
        ["deletecollection", "tester", null, 200, null],
        ["list", "system:anonymous", null, 401, "Unauthorized"],
        ["post", "tester", null, 404, null],
        ["post", "tester", null, 400, "BadRequest"],
        ["create", "tester", null, 413, "RequestEntityTooLarge"],
    ]);
    assert_eq!(Value::from(told), expected);
}

#[tokio::test]
async fn strangers_cannot_push_out_what_is_written_of_others() {
    let audited = Audited::new().await;
    for _ in 0..3_000 {
        audited.api.get(CONFIG_MAPS).header("user-agent", &"x".repeat(2_000)).token("wrong").await.expect(401);
    }
    audited.api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let text = audited.text().await;
    assert!(text.len() < 3 << 19, "{} bytes", text.len());
    assert!(text.lines().last().is_some_and(|line| line.contains("tester")), "others are written down all the same");
    let metrics = audited.api.get("/metrics").await.expect(200);
    let left_out = metrics.text().lines().find_map(|line| line.strip_prefix("setpoint_audit_left_out_total "));
    let left_out = left_out.and_then(|count| count.parse::<usize>().ok()).expect("a count");
    assert_eq!(left_out + text.lines().count(), 3_001);
}

#[tokio::test]
async fn a_refusal_is_written_down_though_its_body_never_comes() {
    let audited = Audited::new().await;
    let (_sender, body) = tokio::sync::mpsc::channel::<Result<http_body::Frame<bytes::Bytes>, std::io::Error>>(1);
    let endless = futures::stream::unfold(body, |mut body| async { body.recv().await.map(|frame| (frame, body)) });
    let mut request =
        http::Request::post(CONFIG_MAPS).body(http_body_util::StreamBody::new(endless)).expect("a request");
    request.extensions_mut().insert(setpoint_apiserver::Identity::new("nobody", ["none"]));
    let mut answer = std::pin::pin!(audited.api.server.handle(request));
    crate::fixture::within("its line", async {
        while audited.events().await.is_empty() {
            assert!(futures::poll!(answer.as_mut()).is_pending(), "the body is awaited");
        }
    })
    .await;
    assert_eq!(audited.events().await[0]["responseStatus"]["code"], 403);
}

#[tokio::test]
async fn a_generated_name_is_written_down() {
    let audited = Audited::new().await;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"generateName": "made-"}});
    let made = audited.api.post(CONFIG_MAPS, object).await.expect(201);
    let [event] = &audited.events().await[..] else { panic!("one event") };
    let metadata = &made["metadata"];
    let expected = json!({
        "resource": "configmaps", "namespace": "default", "apiVersion": "v1",
        "name": metadata["name"], "uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"],
    });
    assert_eq!(event["objectRef"], expected);
}

#[tokio::test]
async fn an_answer_names_its_event() {
    let audited = Audited::new().await;
    let api = &audited.api;
    let own = api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    let named = api.post(CONFIG_MAPS, config_map("b")).header("audit-id", "request-7").await.expect(201);
    assert_eq!(named.header("audit-id"), "request-7");
    assert_eq!(api.get("/livez").await.header("audit-id").len(), 36, "a read has one too");
    let ids: Vec<Value> = audited.events().await.iter().map(|event| event["auditID"].clone()).collect();
    assert_eq!(ids, [own.header("audit-id"), "request-7"]);
}

#[tokio::test]
async fn no_secret_is_written_down() {
    const PLANTED: &str = "hunter2hunter2";
    let audited = Audited::new().await;
    let api = &audited.api;
    let secrets = "/api/v1/namespaces/default/secrets";
    let secret = |name: &str, data: Value| json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "stringData": data, "type": "Opaque"});
    api.post(secrets, secret("s", json!({"password": PLANTED}))).await.expect(201);
    api.post(secrets, secret("t", json!({PLANTED.to_owned() + "/": "x"}))).await.expect(422);
    api.post(secrets, secret("u", json!(PLANTED))).await.expect(400);
    api.merge_patch(format!("{secrets}/s"), json!({"data": {"a": PLANTED}})).await;
    api.get(secrets).token(PLANTED).await.expect(401);
    let text = audited.text().await;
    assert_eq!(text.lines().count(), 5, "{text}");
    assert!(!text.contains(PLANTED), "{text}");
}

#[tokio::test]
async fn a_write_is_written_down_though_its_client_has_gone() {
    let audited = Audited::new().await;
    for turn in 0..20 {
        let name = format!("c{turn}");
        let sending = audited.api.post(CONFIG_MAPS, config_map(&name)).into_future();
        // The write has begun with the first poll, and nobody waits for it.
        drop(futures::FutureExt::now_or_never(sending));
        audited.api.eventually(format!("{CONFIG_MAPS}/{name}"), |answer| answer.status == 200).await;
    }
    let mut names = Vec::new();
    crate::fixture::within("the last event", async {
        while names.len() < 20 {
            tokio::task::yield_now().await;
            names = audited.events().await.iter().map(|event| event["objectRef"]["name"].clone()).collect();
        }
    })
    .await;
    assert_eq!(names[19], "c19");
}

#[tokio::test]
async fn a_log_that_cannot_be_written_is_told_and_does_not_count() {
    struct Broken;
    impl Write for Broken {
        fn write(&mut self, _: &[u8]) -> std::io::Result<usize> {
            Err(std::io::ErrorKind::StorageFull.into())
        }

        fn flush(&mut self) -> std::io::Result<()> {
            Ok(())
        }
    }
    let log = Log::to(Broken).expect("a thread");
    let store = Arc::new(MemoryStore::new(Options::default()));
    let api = Api::set_up(store, Limits::default(), Some(log)).await;
    api.get("/readyz/audit").await.expect(200);
    api.post(CONFIG_MAPS, config_map("a")).await.expect(201);
    api.eventually("/readyz/audit", |answer| answer.status == 500).await;
    let answer = api.get("/readyz?verbose").await.expect(200);
    assert!(answer.text().contains("[-]audit failed\n"), "{}", answer.text());
    api.post(CONFIG_MAPS, config_map("b")).await.expect(201);
}
