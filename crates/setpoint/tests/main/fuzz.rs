//! Throws mutated requests at a server: each must get an answer that blames the client, and harm nobody else.

mod case;
mod corpus;
mod json;
mod mutation;

use std::collections::BTreeMap;
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

/// The server's own deadline for a request is a minute.
const PATIENCE: Duration = Duration::from_secs(70);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn mutated_requests_harm_nobody() -> Result<()> {
    let seed = proof::seed();
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    corpus::create(&mut server.client()?).await?;
    let mut clients = JoinSet::new();
    for number in 0..CLIENTS {
        let cases = proof::extent(100_000, 1_000_000) / CLIENTS;
        clients.spawn(throw(server.kubeconfig()?, seed.wrapping_add(number), cases));
    }
    let mut answers = BTreeMap::new();
    while let Some(codes) = clients.join_next().await {
        codes??.into_iter().for_each(|code| *answers.entry(code).or_insert(0) += 1);
    }
    println!("answers by status: {answers:?}");
    ensure!(answers.keys().any(|code| *code < 300), "nothing was accepted: this proves little");
    prove_health(&server).await
}

/// The status of every answer, 0 where there was none.
async fn throw(kubeconfig: Kubeconfig, seed: u64, cases: u64) -> Result<Vec<u16>> {
    let mut random = SmallRng::seed_from_u64(seed);
    let mut client = Client::new(&kubeconfig)?;
    let (mut before, mut codes) = (None, Vec::new());
    for _ in 0..cases {
        let mut case = corpus::any(&mut random);
        mutation::mutate(&mut case, &mut random);
        let answered = timeout(PATIENCE, answer(&mut client, &kubeconfig, &case)).await;
        let judged = answered.context("no answer in time").flatten().and_then(|answer| judge(&case, answer));
        // The answer before may have broken the connection.
        codes.push(judged.with_context(|| format!("{case:?}\n--- came after ---\n{before:?}"))?);
        before = Some(case);
    }
    Ok(codes)
}

/// What the server says; `None` if it just closed the connection.
async fn answer(client: &mut Client, kubeconfig: &Kubeconfig, case: &Case) -> Result<Option<Answer>> {
    let Some(request) = case.request() else {
        return case.send_raw(kubeconfig).await;
    };
    // A watch has no end: its status is enough. And a server need not read all of what it refuses, and then the
    // connection breaks, maybe before the answer came.
    if case.is_watch() || case.is_oversized() {
        let response = match Client::new(kubeconfig)?.open(request).await {
            Err(_) if case.is_oversized() => return Ok(None),
            response => response?,
        };
        let (head, _) = response.into_parts();
        return Ok(Some(Answer { status: head.status, headers: head.headers, body: bytes::Bytes::new() }));
    }
    Ok(Some(client.send(request).await?))
}

fn judge(case: &Case, answer: Option<Answer>) -> Result<u16> {
    let Some(answer) = answer else { return Ok(0) };
    let code = answer.status.as_u16();
    // A revision that has not happened yet may happen: the answer is a timeout, in Kubernetes too.
    let is_future = code == 504 && case.query.iter().any(|(name, _)| name == "resourceVersion");
    ensure!(code < 500 || is_future, "{code}: {}", answer.text());
    if code >= 400 && is_plain_json(&answer) {
        let status = answer.json()?;
        ensure!(status["kind"] == "Status" && status["code"] == code, "{code} without a Status: {status}");
    }
    Ok(code)
}

fn is_plain_json(answer: &Answer) -> bool {
    let kind = answer.headers.get("content-type").map_or(&b""[..], |kind| kind.as_bytes());
    kind.starts_with(b"application/json") && !answer.headers.contains_key("content-encoding") && !answer.body.is_empty()
}

/// The server still works, has not panicked, and everything it has kept is whole.
async fn prove_health(server: &Server) -> Result<()> {
    if let Some(line) = server.log().lines().find(|line| line.contains("panicked")) {
        bail!("the server panicked: {line}");
    }
    let mut client = server.client()?;
    ensure!(client.get("/readyz").await?.status == 200, "the server is not ready");
    for list_path in corpus::LISTS {
        let list = client.get(list_path).await?.success().context(*list_path)?;
        for object in list["items"].as_array().context("a list without items")? {
            let name = object["metadata"]["name"].as_str().with_context(|| format!("no name: {object}"))?;
            ensure!(object["metadata"]["uid"].is_string(), "no uid: {object}");
            ensure!(object["metadata"]["resourceVersion"].is_string(), "no resourceVersion: {object}");
            let name = in_path(name);
            let path = match object["metadata"]["namespace"].as_str() {
                None => format!("{list_path}/{name}"),
                Some(namespace) => {
                    let (root, resource) = list_path.rsplit_once('/').context("a path")?;
                    format!("{root}/namespaces/{namespace}/{resource}/{name}")
                }
            };
            let answer = client.get(&path).await?;
            // The controllers are at work: what was listed may be gone, but then it is in no list any more.
            if answer.status == 404 && !is_listed(&mut client, list_path, object).await? {
                continue;
            }
            answer.success().with_context(|| format!("{path} is listed"))?;
        }
    }
    Ok(())
}

/// Whether a list names this very object.
async fn is_listed(client: &mut Client, path: &str, object: &Value) -> Result<bool> {
    let list = client.get(path).await?.success().context(path.to_owned())?;
    let items = list["items"].as_array().context("a list without items")?;
    Ok(items.iter().any(|item| item["metadata"]["uid"] == object["metadata"]["uid"]))
}

/// A name as it stands in a path: some kinds take names with any character.
fn in_path(name: &str) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~".contains(&byte);
    name.bytes()
        .map(|byte| if is_plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}
