//! What is written down of those who reach into a Pod.

use std::io::Write;

use parking_lot::Mutex;

use super::*;

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

#[tokio::test]
async fn a_session_is_written_down_and_the_reading_of_a_log_is_not() {
    let paper = Paper::default();
    let log = audit::Log::to(paper.clone()).expect("a thread");
    let cluster = Cluster::set_up(Limits::default(), Some(log.clone())).await;
    cluster.server.connect_pods(cluster.pods.clone());
    log.flush().await;
    paper.0.lock().clear();

    cluster.ask(Method::GET, &format!("{POD}/log"), Value::Null).await;
    drop(cluster.session(&format!("{POD}/exec?command=cat&stdout=1&stdin=1"), V5).await);
    // Another way to write the same.
    drop(cluster.session(&format!("{POD}/%65xec?command=cat&stdout=1&stdin=1"), V5).await);
    let _ = cluster.open(&admin(), Method::GET, &format!("{POD}/attach"), &websocket(V5)).await;
    log.flush().await;

    let written = paper.0.lock().clone();
    let seen: Vec<(String, u64)> = written
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
        .map(|line| serde_json::from_slice::<Value>(line).expect("a line is JSON"))
        .map(|event| {
            assert_eq!(event["annotations"]["authorization.k8s.io/decision"], "allow", "{event}");
            let subresource = event["objectRef"]["subresource"].as_str().unwrap_or_default().to_owned();
            (subresource, event["responseStatus"]["code"].as_u64().unwrap_or_default())
        })
        .collect();
    let expected = [("exec", 101), ("exec", 101), ("attach", 400)].map(|(part, code)| (part.to_owned(), code));
    assert_eq!(seen, expected);
}
