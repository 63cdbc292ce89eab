//! Server-side apply: what changes an object, and what finds it as it should be.

use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use http::Request;
use serde_json::{Value, json};
use setpoint_testkit::Client;

use crate::arguments::Arguments;
use crate::load::{self, Operation, Until};
use crate::object;
use crate::parts::{add_load, median};
use crate::report::Report;
use crate::subject::{Api, Subject};

const CLIENTS: [usize; 2] = [1, 64];

/// How many objects are applied in turn.
const OBJECTS: u64 = 1_000;

/// Applies that make objects, that change them, and that change nothing, in turn with gets of the same objects.
pub(crate) async fn measure(subject: &Subject, arguments: &Arguments, report: &mut Report) -> Result<()> {
    let api = subject.start().await?;
    load::run(appliers(&api, 64, Change::Nothing).await?, 0, Until::Count(OBJECTS)).await?;
    for clients in CLIENTS {
        let (mut changes, mut nothings, mut gets) = (Vec::new(), Vec::new(), Vec::new());
        for round in 0..=arguments.rounds() {
            let until = Until::Elapsed(if round == 0 { arguments.duration() / 4 } else { arguments.duration() });
            // Numbers go on from round to round, so that every apply says something new.
            let first = 1_000_000 * round as u64;
            changes.push(load::run(appliers(&api, clients, Change::Always).await?, first, until).await?);
            // Brings all objects back, and is the first of those that change nothing.
            load::run(appliers(&api, 64, Change::Nothing).await?, 0, Until::Count(2 * OBJECTS)).await?;
            let before = revision(&api).await?;
            gets.push(load::run(api.getters(clients, OBJECTS).await?, 0, until).await?);
            nothings.push(load::run(appliers(&api, clients, Change::Nothing).await?, 0, until).await?);
            ensure!(revision(&api).await? == before, "an apply that changes nothing has changed something");
        }
        add_load(report, "apply that changes", clients, median(changes).as_ref(), None);
        let (nothings, gets) = (median(nothings), median(gets));
        add_load(report, "apply that changes nothing", clients, nothings.as_ref(), gets.as_ref().map(|g| ("get", g)));
    }
    api.finish().await
}

/// The revision of the last change to the objects.
async fn revision(api: &Api) -> Result<u64> {
    let list = Client::new(&api.kubeconfig)?.get(&api.path()).await?.success()?;
    let items = list["items"].as_array().context("a list without items")?;
    let revision = |item: &Value| item["metadata"]["resourceVersion"].as_str()?.parse().ok();
    items.iter().map(revision).max().flatten().context("a list without objects")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Change {
    Always,
    Nothing,
}

async fn appliers(api: &Api, count: usize, change: Change) -> Result<Vec<Applier>> {
    let path = api.path();
    let clients = api.clients(count).await?;
    Ok(clients.into_iter().map(|client| Applier { client, path: path.clone(), change }).collect())
}

/// Applies ConfigMaps, each in turn.
#[derive(Debug)]
struct Applier {
    client: Client,
    path: String,
    change: Change,
}

impl Operation for Applier {
    async fn run(&mut self, sequence: u64) -> Result<()> {
        let name = object::name(sequence % OBJECTS);
        let turn = if self.change == Change::Always { sequence.to_string() } else { String::new() };
        let data = json!({"text": object::fixed_text(), "turn": turn});
        let metadata = json!({"name": name, "labels": {"app": "bench"}});
        let config = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data}).to_string();
        let request = Request::patch(format!("{}/{name}?fieldManager=bench", self.path))
            .header("content-type", "application/apply-patch+yaml")
            .body(Bytes::from(config))?;
        let answer = self.client.send(request).await?;
        ensure!(answer.status.is_success(), "apply failed: {} {}", answer.status, answer.text());
        Ok(())
    }
}
