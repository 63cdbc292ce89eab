//! Telling a real listener and a real program.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use jiff::{SignedDuration, Timestamp};
use kube::runtime::watcher::Event;
use serde_json::json;
use setpoint_api::environment::Webhook;
use tempfile::TempDir;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Message, Notifier, Occasion, command, webhook};
use crate::runtime::{Caches, Clock, Context, Controller, Name, Round};

fn message() -> Message {
    Message {
        occasion: "GateWaiting",
        environment: "lab".to_owned(),
        object: "changesets.setpoint.dev/web-x2k4f".to_owned(),
        namespace: "shop".to_owned(),
        requested_by: Some("carol".to_owned()),
        message: "shop/web/replace: Destructive: 0 of 1 approval".to_owned(),
        since: "2026-11-15T12:00:00Z".parse().unwrap(),
    }
}

/// Answers one request, and gives back what it was.
async fn answer(listener: TcpListener, status: &str) -> String {
    let (mut stream, _) = listener.accept().await.unwrap();
    let (mut request, mut buffer) = (String::new(), [0; 4096]);
    while !request.contains("\r\n\r\n{") || !request.trim_end().ends_with('}') {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the request ends early: {request}");
        request.push_str(std::str::from_utf8(&buffer[..read]).unwrap());
    }
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
    stream.write_all(answer.as_bytes()).await.unwrap();
    request
}

/// A client of a server that is never asked.
fn nobody() -> kube::Client {
    kube::Client::try_from(kube::Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap()
}

#[tokio::test]
async fn a_webhook_is_posted_the_message() {
    for (status, is_told) in [("204 No Content", true), ("500 Internal Server Error", false)] {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/hook?room=1", listener.local_addr().unwrap());
        let heard = tokio::spawn(answer(listener, status));
        let told = webhook::send(&nobody(), &Webhook { url, secret_ref: None }, &message()).await;
        assert_eq!(told.is_ok(), is_told, "{status}: {told:?}");
        let heard = heard.await.unwrap();
        assert!(heard.starts_with("POST /hook?room=1 HTTP/1.1\r\n"), "{heard}");
        let body: serde_json::Value = serde_json::from_str(heard.split("\r\n\r\n").nth(1).unwrap()).unwrap();
        assert_eq!((&body["occasion"], &body["namespace"]), (&"GateWaiting".into(), &"shop".into()));
        assert_eq!(body["since"], "2026-11-15T12:00:00Z");
    }
}

fn script(folder: &Path, text: &str) -> PathBuf {
    let script = folder.join("notify");
    fs::write(&script, format!("#!/bin/sh\n{text}\n")).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    script
}

#[tokio::test]
async fn a_command_is_given_the_message_and_nothing_else_of_ours() {
    let folder = TempDir::new().unwrap();
    let heard = folder.path().join("heard");
    let script = script(folder.path(), "cat > \"$1\"; env >> \"$1\"");
    let words = [&script, &heard].map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(command::run(&words, &message()).await, Ok(()));
    let heard = fs::read_to_string(&heard).unwrap();
    let body: serde_json::Value = serde_json::from_str(heard.lines().next().unwrap()).unwrap();
    assert_eq!(body["object"], "changesets.setpoint.dev/web-x2k4f");
    assert!(!heard.contains("CARGO"), "{heard}");
}

/// An Environment that tells a script with this text, which is given the name of a file.
fn place(folder: &Path, heard: &Path, text: &str) -> (Caches, Notifier) {
    let context = Context { tells: false, ..Context::new(nobody(), Clock::System) };
    let caches = Caches::default();
    let environment = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
        "spec": {"deployer": {"name": "simulated"}, "notifications": {"command": [script(folder, text), heard]}},
    });
    caches.environments.apply(Event::Apply(serde_json::from_value(environment).unwrap()));
    let notifier = Notifier::new(&context, &caches);
    (caches, notifier)
}

#[tokio::test]
async fn an_occasion_is_told_once_and_again_where_that_failed() {
    let folder = TempDir::new().unwrap();
    let heard = folder.path().join("heard");
    let (caches, notifier) = place(folder.path(), &heard, "[ -e \"$1.ready\" ] || exit 1; cat >> \"$1\"");
    let waiting_since = |since: Timestamp| {
        let approved = json!({"type": "Approved", "status": "False", "reason": "Waiting", "lastTransitionTime": since});
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
            "status": {"gateRef": {"name": "web"}, "conditions": [approved]},
        });
        caches.change_sets.apply(Event::Apply(serde_json::from_value(change_set).unwrap()));
    };
    assert!(notifier.keys().is_empty(), "what was there before is not told");
    let occasion = Occasion::GateWaiting(Name::new("shop", "web"));
    let now = Timestamp::now();
    let tell = || async { notifier.reconcile(&occasion, &mut Round::new(Timestamp::now())).await.is_ok() };
    let times = || fs::read_to_string(&heard).unwrap_or_default().lines().count();

    waiting_since(now - SignedDuration::from_mins(1));
    assert!(tell().await && times() == 0, "it began before anybody told of anything");
    waiting_since(now);
    assert!(!tell().await && times() == 0, "the command fails, and will be tried again");
    fs::write(folder.path().join("heard.ready"), "").unwrap();
    assert!(tell().await && times() == 1);
    assert!(tell().await && times() == 1, "once");
    waiting_since(now + SignedDuration::from_secs(2));
    assert!(tell().await && times() == 2, "another occasion");
}

#[tokio::test]
async fn each_question_of_a_gate_is_told_once() {
    let folder = TempDir::new().unwrap();
    let heard = folder.path().join("heard");
    let (caches, notifier) = place(folder.path(), &heard, "cat >> \"$1\"");
    notifier.keys();
    let now = Timestamp::now();
    let occasion = Occasion::GateWaiting(Name::new("shop", "web"));
    let times = || fs::read_to_string(&heard).unwrap_or_default().lines().count();
    /// What is said of a step, and since how many seconds from now on.
    type Said = (&'static str, i64);
    let rows: [(&str, &[Said], usize); 6] = [
        ("a gate waits", &[("Waiting", 1)], 1),
        ("nothing is new", &[("Waiting", 1), ("Pending", 5)], 1),
        ("another step waits, too", &[("Waiting", 1), ("Waiting", 7)], 2),
        ("one of them is approved", &[("Waiting", 1), ("Approved", 8)], 2),
        ("and the other", &[("Running", 9), ("Approved", 8)], 2),
        ("one waits anew", &[("Waiting", 12), ("Approved", 8)], 3),
    ];
    for (name, steps, expected) in rows {
        let state = |(number, (state, seconds)): (usize, &Said)| {
            let since = now + SignedDuration::from_secs(*seconds);
            json!({"id": format!("step-{number}"), "digest": "d", "state": state, "since": since})
        };
        let approved = json!({"type": "Approved", "status": "False", "reason": "Waiting", "lastTransitionTime": now});
        let states: Vec<serde_json::Value> = steps.iter().enumerate().map(state).collect();
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
            "status": {"gateRef": {"name": "web"}, "conditions": [approved], "stepStates": states},
        });
        caches.change_sets.apply(Event::Apply(serde_json::from_value(change_set).unwrap()));
        let told = notifier.reconcile(&occasion, &mut Round::new(Timestamp::now())).await;
        assert!(told.is_ok() && times() == expected, "{name}: {told:?}, {} times", times());
    }
}

#[tokio::test]
async fn a_command_that_does_not_read_is_ended_in_time() {
    let long = Message { message: "web ".repeat(1 << 18), ..message() };
    let folder = TempDir::new().unwrap();
    let heard = folder.path().join("heard");
    let reads = script(folder.path(), "cat > \"$1\"");
    let words = [&reads, &heard].map(|path| path.to_str().unwrap().to_owned());
    assert_eq!(command::run(&words, &long).await, Ok(()));
    let read: serde_json::Value = serde_json::from_str(&fs::read_to_string(&heard).unwrap()).unwrap();
    assert_eq!(read["message"], long.message.as_str(), "all of it is told, however long it is");
    assert_eq!(command::run(&["/bin/true".to_owned()], &long).await, Ok(()), "who does not want it is content");

    tokio::time::pause();
    let told = command::run(&["sleep".to_owned(), "20".to_owned()], &long).await;
    assert_eq!(told, Err("sleep did not end within 30 s".to_owned()));
}

#[tokio::test]
async fn a_command_that_fails_says_so() {
    for (command, why) in [("/bin/false", "failed"), ("/nowhere/at/all", "cannot be run")] {
        let told = command::run(&[command.to_owned()], &message()).await;
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{command}: {told:?}");
    }
}
