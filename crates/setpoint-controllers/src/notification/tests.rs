//! Telling a real listener and a real program.

use std::fs;
use std::os::unix::fs::PermissionsExt;

use setpoint_api::environment::Webhook;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::{Message, command, webhook};

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

#[tokio::test]
async fn a_command_is_given_the_message_and_nothing_else_of_ours() {
    let folder = std::env::temp_dir().join(format!("setpoint-notify-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    let (script, heard) = (folder.join("notify"), folder.join("heard"));
    fs::write(&script, "#!/bin/sh\ncat > \"$1\"\nenv >> \"$1\"\n").unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o755)).unwrap();
    let words = [&script, &heard].map(|path| path.to_str().unwrap().to_owned());
    let told = command::run(&words, &message()).await;
    let heard = fs::read_to_string(&heard).unwrap_or_default();
    fs::remove_dir_all(&folder).unwrap();
    assert_eq!(told, Ok(()));
    let line = heard.lines().next().unwrap();
    let body: serde_json::Value = serde_json::from_str(line).unwrap();
    assert_eq!(body["object"], "changesets.setpoint.dev/web-x2k4f");
    assert!(!heard.contains("CARGO"), "{heard}");
}

#[tokio::test]
async fn a_command_that_fails_says_so() {
    for (command, why) in [("/bin/false", "failed"), ("/nowhere/at/all", "cannot be run")] {
        let told = command::run(&[command.to_owned()], &message()).await;
        assert!(told.as_ref().is_err_and(|told| told.contains(why)), "{command}: {told:?}");
    }
}
