//! What is told, and how often it is written.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::time::Duration;

use http::{Method, Request, Response, StatusCode};
use kube::client::Body;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::writer::Allowance;
use super::*;

/// A server that keeps Events and counts requests.
#[derive(Clone, Default)]
struct Ledger(Arc<Mutex<(BTreeMap<String, Value>, usize)>>);

impl Ledger {
    fn client(&self) -> Client {
        let ledger = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let ledger = ledger.clone();
            async move { Ok::<_, Infallible>(ledger.answer(request).await) }
        });
        Client::new(service, "default")
    }

    async fn answer(&self, request: Request<Body>) -> Response<Body> {
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let body = request.into_body().collect_bytes().await.unwrap();
        let body: Value = serde_json::from_slice(&body).unwrap_or_default();
        let (events, requests) = &mut *self.0.lock();
        *requests += 1;
        let named = path.rsplit('/').next().unwrap_or_default().to_owned();
        let (code, answer) = match method {
            Method::POST => {
                let name = body["metadata"]["name"].as_str().unwrap_or_default().to_owned();
                match events.contains_key(&name) {
                    true => {
                        (409, json!({"kind": "Status", "code": 409, "reason": "AlreadyExists", "message": "there"}))
                    }
                    false => (201, events.entry(name).or_insert(body).clone()),
                }
            }
            Method::PATCH => {
                let event = events.get_mut(&named).expect("an Event that is there");
                body.as_object().into_iter().flatten().for_each(|(field, value)| match field.as_str() {
                    "metadata" => event["metadata"]["annotations"] = value["annotations"].clone(),
                    field => event[field] = value.clone(),
                });
                (200, event.clone())
            }
            _ => (200, events[&named].clone()),
        };
        let body = Body::from(serde_json::to_vec(&answer).unwrap());
        Response::builder().status(StatusCode::from_u16(code).unwrap()).body(body).unwrap()
    }

    /// Waits until there are as many, and returns what each says and how often.
    async fn events(&self, count: usize) -> Vec<(String, i64)> {
        for _ in 0..1000 {
            tokio::time::sleep(Duration::from_millis(100)).await;
            let total: i64 = self.0.lock().0.values().filter_map(|event| event["count"].as_i64()).sum();
            if total >= count as i64 {
                break;
            }
        }
        let events = self.0.lock().0.clone();
        let said = |event: &Value| (event["message"].as_str().unwrap_or_default().to_owned(), event["count"].as_i64());
        let mut said: Vec<_> =
            events.values().map(said).map(|(message, count)| (message, count.unwrap_or(0))).collect();
        said.sort();
        said
    }
}

fn pod(name: &str) -> Pod {
    let meta = json!({"name": name, "namespace": "default", "uid": format!("uid-{name}"), "resourceVersion": "7"});
    serde_json::from_value(json!({"metadata": meta, "spec": {"containers": [{"name": "web"}]}})).unwrap()
}

fn notice(number: u64, message: &str) -> Notice {
    let (at, reason) = (Timestamp::now(), "Started".to_owned());
    Notice { number, at, kind: NoticeKind::Normal, reason, container: Some("web".to_owned()), message: message.into() }
}

#[tokio::test(start_paused = true)]
async fn the_same_is_counted_and_the_similar_is_combined() {
    let ledger = Ledger::default();
    let recorder = Recorder::new(ledger.client(), "test", None);
    for _ in 0..3 {
        recorder.say(&pod("a"), NoticeKind::Warning, "Failed", "no");
    }
    for number in 0..20 {
        recorder.say(&pod("b"), NoticeKind::Normal, "SuccessfulCreate", &format!("Created pod: b-{number:02}"));
    }
    let events = ledger.events(23).await;
    assert_eq!(events.len(), 12, "{events:?}");
    assert_eq!(events[0], ("(combined from similar events): Created pod: b-19".to_owned(), 10));
    assert_eq!(events[1], ("Created pod: b-00".to_owned(), 1));
    assert_eq!(events[11], ("no".to_owned(), 3));
}

#[tokio::test(start_paused = true)]
async fn what_is_numbered_is_counted_once_across_restarts() {
    let ledger = Ledger::default();
    let first = Recorder::new(ledger.client(), "kubelet", Some("local"));
    let mut told = Told::default();
    first.tell(&pod("a"), &[notice(1, "up"), notice(2, "up")], &mut told, Timestamp::now());
    first.tell(&pod("a"), &[notice(1, "up"), notice(2, "up")], &mut told, Timestamp::now());
    assert_eq!(ledger.events(2).await, [("up".to_owned(), 2)]);
    let second = Recorder::new(ledger.client(), "kubelet", Some("local"));
    let notices = [notice(1, "up"), notice(2, "up"), notice(3, "up")];
    second.tell(&pod("a"), &notices, &mut Told::default(), Timestamp::now());
    assert_eq!(ledger.events(3).await, [("up".to_owned(), 3)]);
    let event = ledger.0.lock().0.values().next().cloned().unwrap_or_default();
    assert_eq!(event["involvedObject"]["fieldPath"], "spec.containers{web}");
    assert_eq!(event["involvedObject"]["kind"], "Pod");
}

#[tokio::test(start_paused = true)]
async fn too_much_is_dropped_and_counted_and_nobody_waits() {
    let ledger = Ledger::default();
    let dropped = Counter::default();
    let source = Source { component: "test", host: None, clock: Clock::System, dropped: dropped.clone() };
    let recorder = Recorder::open(ledger.client(), source);
    for number in 0..3000 {
        recorder.say(&pod(&format!("p-{number}")), NoticeKind::Normal, "Scheduled", "there");
    }
    assert_eq!(dropped.get(), 2000);
    assert_eq!(ledger.events(1000).await.len(), 1000);
    let mut told = Told::default();
    let silent = Recorder::silent();
    silent.tell(&pod("a"), &[notice(1, "up")], &mut told, Timestamp::now());
    silent.say(&pod("a"), NoticeKind::Normal, "Scheduled", "there");
}

#[tokio::test(start_paused = true)]
async fn what_there_is_no_room_for_is_told_later() {
    let ledger = Ledger::default();
    let recorder = Recorder::new(ledger.client(), "kubelet", None);
    for number in 0..1000 {
        recorder.say(&pod(&format!("p-{number}")), NoticeKind::Normal, "Scheduled", "there");
    }
    let mut told = Told::default();
    recorder.tell(&pod("late"), &[notice(1, "up")], &mut told, Timestamp::now());
    ledger.events(1000).await;
    recorder.tell(&pod("late"), &[notice(1, "up")], &mut told, Timestamp::now());
    assert_eq!(ledger.events(1001).await.len(), 1001);
}

#[test]
fn a_source_may_write_so_many_at_once_and_so_many_a_second() {
    let start = Instant::now();
    let mut allowance = Allowance::new(start);
    let waits: Vec<Duration> = (0..300).map(|_| allowance.take(start) - start).collect();
    assert_eq!(waits[249], Duration::ZERO);
    assert_eq!(waits[299].as_secs_f64(), 1.0, "fifty more take a second");
    let later = start + Duration::from_secs(100);
    assert_eq!(allowance.take(later), later, "silence is made good");
}
