//! Watches that nobody reads.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::future::try_join_all;
use http::Request;
use serde_json::{Value, json};
use setpoint_testkit::{Client, Kubeconfig, Server, wait_for};
use tokio::time::timeout;

use crate::SETPOINT;

const MIB: u64 = 1 << 20;
const PATIENCE: Duration = Duration::from_secs(30);
const WATCHES: usize = 80;
const BOXES: &str = "/apis/example.com/v1/namespaces/default/boxes";
/// What a connection may cost, whatever it is sent.
const EACH: u64 = 384 * 1024;

/// A kind that is stored in one version and shown in two.
fn definition() -> Value {
    let version = |name: &str, storage: bool, fields: Value| {
        json!({
            "name": name, "served": true, "storage": storage,
            "schema": {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object", "properties": fields}}}},
        })
    };
    let text = json!({"type": "string"});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "boxes.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"plural": "boxes", "singular": "box", "kind": "Box", "listKind": "BoxList"},
            "versions": [
                version("v1", true, json!({"text": text, "turn": text})),
                version("v2", false, json!({"text": text})),
            ],
        },
    })
}

fn a_box(turn: usize) -> Value {
    let spec = json!({"text": "x".repeat(1_400_000), "turn": turn.to_string()});
    json!({"apiVersion": "example.com/v1", "kind": "Box", "metadata": {"name": "large"}, "spec": spec})
}

/// Opens many watches that are not read beyond their head, all at the same time.
async fn open(kubeconfig: &Kubeconfig, path: &str, accept: &str) -> Result<Vec<(Client, impl Sized)>> {
    try_join_all((0..WATCHES).map(|_| async {
        let mut client = Client::new(kubeconfig)?;
        let request = Request::get(path).header("accept", accept).body(Default::default())?;
        let response = timeout(PATIENCE, client.open(request)).await??;
        ensure!(response.status() == 200, "{path}: {}", response.status());
        Ok((client, response))
    }))
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn watches_that_nobody_reads_hold_an_event_once() -> Result<()> {
    const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";
    const JSON: &str = "application/json";
    let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    let mut client = server.client()?;
    client.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", &definition()).await?.success()?;
    client.post(BOXES, &a_box(0)).await?.success()?;
    let now = client.get(&format!("{BOXES}/large")).await?.success()?;
    let now = now["metadata"]["resourceVersion"].as_str().context("a revision")?.to_owned();
    let kubeconfig = server.kubeconfig()?;
    for (row, path, accept) in [
        ("what there is, and its changes", format!("{BOXES}?watch=true"), JSON),
        ("changes from a revision on", format!("{BOXES}?watch=true&resourceVersion={now}"), JSON),
        ("in another version", BOXES.replace("v1", "v2") + "?watch=true", JSON),
        ("as tables with whole objects", format!("{BOXES}?watch=true&includeObject=Object"), TABLE),
    ] {
        let before = server.memory()?;
        let watches = open(&kubeconfig, &path, accept).await?;
        for turn in 1..6 {
            client.apply(&format!("{BOXES}/large?fieldManager=me&force=true"), &a_box(turn)).await?.success()?;
        }
        // Whoever reads is told all the same, and after that everybody was told what they can hold.
        let mut reader = server.client()?.watch(&format!("{BOXES}?watch=true")).await?;
        let event = timeout(PATIENCE, reader.event()).await??.context("an event")?;
        ensure!(event["object"]["spec"]["turn"] == "5", "{row}: the newest");
        // What was replaced meanwhile is history, which is held once.
        let bound = WATCHES as u64 * EACH + 24 * MIB;
        let growth = wait_for(format!("memory to settle ({row})"), PATIENCE, || async {
            let growth = server.memory()?.saturating_sub(before);
            Ok((growth < bound).then_some(growth))
        })
        .await?;
        println!("{row}: {WATCHES} unread watches of 1.4 MB cost {} MiB", growth / MIB);
        drop(watches);
    }
    Ok(())
}
