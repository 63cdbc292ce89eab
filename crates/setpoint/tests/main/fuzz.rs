//! Throws mutated requests at a server: each must get an answer that blames the client, and harm nobody else.

mod case;
mod corpus;
mod json;
mod mutation;

use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::SeedableRng;
use rand::rngs::SmallRng;
use serde_json::Value;
use setpoint_testkit::{Answer, Client, Kubeconfig, Server, proof};
use tokio::task::JoinSet;
use tokio::time::timeout;

use self::case::Case;
use crate::SETPOINT;

const CLIENTS: u64 = 8;

/// The server's own deadline for a request is a minute; none of these needs one.
const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_requests_harm_nobody() -> Result<()> {
    let seed = proof::seed();
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    corpus::create(&mut server.client()?).await?;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let cases = proof::extent(10_000, 100_000) / CLIENTS;
        clients.spawn(throw(server.kubeconfig()?, seed.wrapping_add(number), cases));
    }
    while let Some(result) = clients.join_next().await {
        result??;
    }
    prove_health(&server).await
}

async fn throw(kubeconfig: Kubeconfig, seed: u64, cases: u64) -> Result<()> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut client = Client::new(&kubeconfig)?;
    let mut before = None;
    for _ in 0..cases {
        let mut case = corpus::any(&mut random);
        mutation::mutate(&mut case, &mut random);
        let answered = timeout(PATIENCE, answer(&mut client, &kubeconfig, &case)).await;
        let judged = answered.context("no answer in time").flatten().and_then(|answer| judge(&case, answer));
        // The answer before may have broken the connection.
        judged.with_context(|| format!("{case:?}\n--- came after ---\n{before:?}"))?;
        before = Some(case);
    }
    Ok(())
}

/// What the server says; `None` if it just closed the connection.
async fn answer(client: &mut Client, kubeconfig: &Kubeconfig, case: &Case) -> Result<Option<Answer>> {
    let Some(request) = case.request() else {
        return case.send_raw(kubeconfig).await;
    };
    if case.is_watch() {
        // A watch has no end: its status is enough.
        let response = Client::new(kubeconfig)?.open(request).await?;
        let (head, _) = response.into_parts();
        return Ok(Some(Answer { status: head.status, headers: head.headers, body: bytes::Bytes::new() }));
    }
    match client.send(request).await {
        Ok(answer) => Ok(Some(answer)),
        // A server need not read all of what it refuses, and then the connection may break first.
        Err(_) if case.is_oversized() => Ok(None),
        Err(error) => Err(error),
    }
}

fn judge(case: &Case, answer: Option<Answer>) -> Result<()> {
    let Some(answer) = answer else { return Ok(()) };
    let code = answer.status.as_u16();
    let is_json =
        answer.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"));
    let body = if is_json && !answer.body.is_empty() && case.method != "HEAD" { answer.json()? } else { Value::Null };
    // A revision that has not happened yet may happen: the answer is a timeout, in Kubernetes too.
    let is_future = code == 504 && body["reason"] == "Timeout";
    ensure!(code < 500 || is_future, "{code}: {}", answer.text());
    if code >= 400 && body != Value::Null {
        ensure!(body["kind"] == "Status" && body["code"] == code, "{code} without a Status: {body}");
    }
    Ok(())
}

/// The server still works, has not panicked, and everything it has kept is whole.
async fn prove_health(server: &Server) -> Result<()> {
    if let Some(line) = server.log().lines().find(|line| line.contains("panicked")) {
        bail!("the server panicked: {line}");
    }
    let mut client = server.client()?;
    ensure!(client.get("/readyz").await?.status == 200, "the server is not ready");
    for path in corpus::LISTS {
        let list = client.get(path).await?.success().context(*path)?;
        for object in list["items"].as_array().context("a list without items")? {
            let name = object["metadata"]["name"].as_str().with_context(|| format!("no name: {object}"))?;
            ensure!(object["metadata"]["uid"].is_string(), "no uid: {object}");
            ensure!(object["metadata"]["resourceVersion"].is_string(), "no resourceVersion: {object}");
            let path = match object["metadata"]["namespace"].as_str() {
                None => format!("{path}/{name}"),
                Some(namespace) => {
                    let (root, resource) = path.rsplit_once('/').context("a path")?;
                    format!("{root}/namespaces/{namespace}/{resource}/{name}")
                }
            };
            client.get(&path).await?.success().with_context(|| format!("{path} is listed"))?;
        }
    }
    Ok(())
}
