//! Reading logs.

use http_body_util::BodyExt;

use super::fake::LINE;
use super::*;

#[tokio::test]
async fn a_log_is_plain_text() {
    let cluster = Cluster::new().await;
    let rows = [
        ("all of it", "web/log?tailLines=5", 200, LINE),
        ("a part", "web/log?limitBytes=3", 200, "all"),
        ("of a container", "pair/log?container=b", 200, LINE),
        ("of a Pod on no node", "waiting/log", 204, ""),
    ];
    for (row, path, code, text) in rows {
        let answer = cluster.ask(Method::GET, &format!("/api/v1/namespaces/default/pods/{path}"), Value::Null).await;
        assert_eq!((answer.0.as_u16(), answer.1.as_str()), (code, text), "{row}");
    }
    let (pod, options) = cluster.pods.asked.lock().clone().expect("the last one was asked for");
    assert_eq!((pod.name.as_str(), pod.container.as_str()), ("pair", "b"));
    assert!(options.is_some_and(|options| !options.follow));
}

#[tokio::test]
async fn a_log_that_cannot_be_read_is_refused() {
    let cluster = Cluster::new().await;
    let rows = [
        ("of no Pod", "none/log", 404, "pods \"none\" not found"),
        ("of no container", "web/log?container=x", 400, "container x is not valid for pod web"),
        ("of one of two", "pair/log", 400, "a container name must be specified for pod pair, choose one of: [a b]"),
        (
            "of less than nothing",
            "web/log?tailLines=-1",
            422,
            "PodLogOptions \"web\" is invalid: tailLines: Invalid value: -1: must be greater than or equal to 0",
        ),
        ("of no run", "web/log?previous=true", 404, "there was no run before this one"),
    ];
    for (row, path, code, words) in rows {
        let path = format!("/api/v1/namespaces/default/pods/{path}");
        let (found, status) = cluster.ask(Method::GET, &path, Value::Null).await;
        assert_eq!((found.as_u16(), message(&status).as_str()), (code, words), "{row}");
    }
    let (code, _) = cluster.ask(Method::POST, &format!("{POD}/log"), Value::Null).await;
    assert_eq!(code, StatusCode::METHOD_NOT_ALLOWED);
}

/// A log that is being followed.
struct Following(crate::response::Body);

impl Following {
    async fn begin(cluster: &Cluster) -> Following {
        let mut request = Request::new(Empty::<Bytes>::new());
        *request.uri_mut() = format!("{POD}/log?follow=true").parse().expect("a path");
        request.extensions_mut().insert(admin());
        let answer = within("a log", cluster.server.handle(request)).await;
        assert_eq!(answer.headers()[http::header::CONTENT_TYPE], "text/plain");
        Following(answer.into_body())
    }

    async fn next(&mut self) -> Option<String> {
        let frame = within("more of the log", self.0.frame()).await?.expect("a body cannot fail");
        let data = frame.into_data().expect("there are no trailers");
        Some(String::from_utf8_lossy(&data).into_owned())
    }
}

#[tokio::test]
async fn a_log_is_followed_until_its_container_ends() {
    let cluster = Cluster::new().await;
    let mut log = Following::begin(&cluster).await;
    assert_eq!(log.next().await.as_deref(), Some(LINE));
    let more = cluster.pods.log.lock().take().expect("it is followed");
    more.send(Bytes::from_static(b"more\n")).expect("it is followed");
    assert_eq!(log.next().await.as_deref(), Some("more\n"));
    drop(more);
    assert_eq!(log.next().await, None);
}

#[tokio::test]
async fn who_stops_following_stops_the_reading() {
    let cluster = Cluster::new().await;
    let log = Following::begin(&cluster).await;
    let more = cluster.pods.log.lock().take().expect("it is followed");
    drop(log);
    within("the end of the reading", more.closed()).await;
}

#[tokio::test]
async fn a_log_is_followed_no_longer_than_the_server_runs() {
    let cluster = Cluster::new().await;
    let mut log = Following::begin(&cluster).await;
    assert_eq!(log.next().await.as_deref(), Some(LINE));
    cluster.server.stop();
    assert_eq!(log.next().await, None);
}
