//! What happens in a session, and how it ends.

use std::sync::atomic::Ordering;

use super::*;

fn exec(command: &str, streams: &str) -> String {
    format!("{POD}/exec?command={command}&{streams}")
}

const ALL: &str = "stdin=1&stdout=1&stderr=1";

#[tokio::test]
async fn a_command_reads_and_writes_until_its_input_ends() {
    let cluster = Cluster::new().await;
    let mut client = cluster.session(&exec("cat", ALL), V5).await;
    assert_eq!(client.hear().await, Some((1, String::new())), "it has begun");
    client.say(0, b"hello ").await;
    assert_eq!(client.hear().await, Some((1, "hello ".into())));
    client.say(0, b"again").await;
    client.say(255, &[0]).await;
    let [out, err, end] = client.rest().await;
    assert_eq!((out.as_str(), err.as_str()), ("again", ""));
    assert_eq!(end, r#"{"metadata":{},"status":"Success"}"#);
    let asked = cluster.pods.asked.lock().clone().expect("the Pod was asked for").0;
    assert_eq!((asked.name.as_str(), asked.container.as_str(), asked.node.as_str()), ("web", "c", "local"));
    assert!(!asked.uid.is_empty());
}

#[tokio::test]
async fn a_session_ends_with_what_became_of_its_command() {
    let cluster = Cluster::new().await;
    let nonzero = "command terminated with non-zero exit code: command terminated with exit code 7";
    let rows = [
        ("fail", ["out", "err"], nonzero),
        ("lose", ["", ""], "Internal error occurred: the container is gone"),
        ("nothing", ["", ""], "nothing cannot run now"),
    ];
    for (command, written, words) in rows {
        for protocol in [V5, V4] {
            let [out, err, end] = cluster.session(&exec(command, ALL), protocol).await.rest().await;
            assert_eq!([out.as_str(), err.as_str()], written, "{command}");
            assert_eq!(message(&end), words, "{command}");
        }
        for protocol in ["", "channel.k8s.io"] {
            let [.., end] = cluster.session(&exec(command, ALL), protocol).await.rest().await;
            assert_eq!(end, words, "{command} in words");
        }
    }
}

#[tokio::test]
async fn only_the_newest_protocol_can_end_the_input() {
    let cluster = Cluster::new().await;
    let mut client = cluster.session(&exec("cat", ALL), V4).await;
    client.say(255, &[0]).await;
    client.say(0, b"still here").await;
    assert_eq!(client.hear().await, Some((1, String::new())));
    assert_eq!(client.hear().await, Some((1, "still here".into())));
    drop(client);
    until("the session ends with its client", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_terminal_has_a_size() {
    let cluster = Cluster::new().await;
    let mut client = cluster.session(&exec("size", "stdin=1&stdout=1&tty=1"), V5).await;
    client.say(4, br#"{"Width":120,"Height":40}"#).await;
    let [out, ..] = client.rest().await;
    assert_eq!(out, "120x40");
}

#[tokio::test]
async fn a_container_can_be_joined() {
    let cluster = Cluster::new().await;
    let path = "/api/v1/namespaces/default/pods/pair/attach?container=b&stdin=1&stdout=1";
    let mut client = cluster.session(path, V5).await;
    client.say(0, b"hi").await;
    client.say(255, &[0]).await;
    let [out, ..] = client.rest().await;
    assert_eq!(out, "hi");
    assert_eq!(cluster.pods.asked.lock().clone().expect("it was asked for").0.container, "b");
}

#[tokio::test]
async fn a_client_that_vanishes_takes_its_command_along() {
    let cluster = Cluster::new().await;
    let open = || cluster.pods.open.load(Ordering::SeqCst);
    for protocol in [V5, V4] {
        let client = cluster.session(&exec("sleep", ALL), protocol).await;
        until("it runs", || open() == 1).await;
        drop(client);
        until("it is over", || open() == 0).await;
    }
}

#[tokio::test]
async fn a_client_that_does_not_read_is_waited_for() {
    let cluster = Cluster::new().await;
    let mut client = cluster.session(&exec("yes", "stdout=1"), V5).await;
    let pieces = || cluster.pods.pieces.load(Ordering::SeqCst);
    // The connection holds 64 KiB each way, so no more than a few pieces of 32 KiB find room on their way.
    until("it writes", || pieces() >= 4).await;
    let mut before = 0;
    while before != pieces() {
        before = pieces();
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(before < 32, "{before} pieces wait for a client that reads none");
    // Once it reads, it goes on.
    for _ in 0..100 {
        client.hear().await.expect("there is no end to it");
    }
    assert!(pieces() > before);
    drop(client);
    until("it is over", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_client_that_talks_nonsense_is_told_so() {
    let cluster = Cluster::new().await;
    let mut client = cluster.session(&exec("cat", ALL), V5).await;
    client.say(255, &[9]).await;
    let [.., end] = client.rest().await;
    assert_eq!(message(&end), "there is no channel 9 to close");
    until("it is over", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_client_that_talks_too_much_at_once_is_cut_off() {
    let cluster = Cluster::new().await;
    let mut client = cluster.session(&exec("cat", ALL), V5).await;
    let too_much = Message::Binary(vec![0; 5 * 1024 * 1024].into());
    let _ = within("sending too much", client.0.send(too_much)).await;
    until("it is over", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
}

#[tokio::test]
async fn a_session_ends_when_the_server_stops() {
    let cluster = Cluster::new().await;
    let client = cluster.session(&exec("sleep", ALL), V5).await;
    until("it runs", || cluster.pods.open.load(Ordering::SeqCst) == 1).await;
    cluster.server.stop();
    let [.., end] = client.rest().await;
    assert_eq!(message(&end), "the server is shutting down");
    until("it is over", || cluster.pods.open.load(Ordering::SeqCst) == 0).await;
}
