//! CustomResourceDefinitions: what each costs in memory, and how soon it can be used.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use serde_json::{Map, Value, json};
use setpoint_testkit::Client;

use crate::arguments::Arguments;
use crate::latency::Latencies;
use crate::process;
use crate::report::{Report, Row, Target};
use crate::subject::Subject;

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const COUNT: usize = 200;
/// Fields of each, in sections of ten.
const SECTIONS: usize = 30;
const FIELDS: usize = 10;

/// Makes many definitions, and an object of each as soon as its definition is answered.
pub(crate) async fn measure(subject: &Subject, _: &Arguments, report: &mut Report) -> Result<()> {
    let api = subject.start().await?;
    let mut client = Client::new(&api.kubeconfig)?;
    process::settle().await;
    let before = process::memory(&api.pids)?;
    let (mut made, mut usable) = (Vec::new(), Vec::new());
    for number in 0..COUNT {
        let start = Instant::now();
        client.post(DEFINITIONS, &definition(number)).await?.success()?;
        made.push(start.elapsed());
        usable.push(first_use(&mut client, number).await?);
    }
    let (made, usable) = (Latencies::from_iter(made), Latencies::from_iter(usable));
    report.add(Row::new("create of a definition with 300 fields: p50", "ms", made.quantile_ms(0.5)));
    let row = |figure: &str, share| {
        Row::new(format!("definition usable after its create: {figure}"), "ms", usable.quantile_ms(share))
    };
    report.add(row("p50", 0.5));
    report.add(row("longest", 1.0).target(Target::AtMost(50.0)));
    if !api.pids.is_empty() {
        let per_definition = |label: &str, mb: f64| {
            let kilobytes = (mb - before.resident_mb) * 1e3 / COUNT as f64;
            Row::new(format!("memory (RSS) of each of {COUNT} definitions{label}"), "KB", kilobytes)
        };
        process::settle().await;
        let after = process::memory(&api.pids)?.resident_mb;
        report.add(per_definition("", after).target(Target::AtMost(150.0)));
        read_descriptions(&mut client).await?;
        process::settle().await;
        report.add(per_definition(", descriptions read", process::memory(&api.pids)?.resident_mb));
    }
    api.finish().await
}

/// How long until an object of a definition that was just answered is made, and seen.
async fn first_use(client: &mut Client, number: usize) -> Result<Duration> {
    let start = Instant::now();
    let path = format!("/apis/bench{number}.example.com/v1/namespaces/default/things");
    let object = json!({
        "apiVersion": format!("bench{number}.example.com/v1"), "kind": "Thing",
        "metadata": {"name": "first"}, "spec": {"section0": {"field0": "a"}},
    });
    loop {
        let answer = client.post(&path, &object).await?;
        if answer.status == 201 {
            return Ok(start.elapsed());
        }
        ensure!(answer.status == 404, "{}", answer.text());
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

/// Reads the OpenAPI document of every group, as clients do that validate or explain.
async fn read_descriptions(client: &mut Client) -> Result<()> {
    let index = client.get("/openapi/v3").await?.success()?;
    for (_, document) in index["paths"].as_object().context("no documents")? {
        let path = document["serverRelativeURL"].as_str().context("a document without a path")?;
        client.get(path).await?.success()?;
    }
    client.get("/openapi/v2").await?.success()?;
    Ok(())
}

fn definition(number: usize) -> Value {
    let field = |n: usize| match n % 3 {
        0 => json!({"type": "string", "maxLength": 64, "description": "a text that somebody has described in a line"}),
        1 => json!({"type": "integer", "minimum": 0, "description": "a number that somebody has described in a line"}),
        _ => json!({"type": "array", "items": {"type": "string"}, "description": "some texts, described in a line"}),
    };
    let section = || {
        let fields: Map<String, Value> = (0..FIELDS).map(|n| (format!("field{n}"), field(n))).collect();
        json!({"type": "object", "description": "a section of fields", "properties": fields})
    };
    let sections: Map<String, Value> = (0..SECTIONS).map(|n| (format!("section{n}"), section())).collect();
    let group = format!("bench{number}.example.com");
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": format!("things.{group}")},
        "spec": {
            "group": group, "scope": "Namespaced",
            "names": {"plural": "things", "singular": "thing", "kind": "Thing", "listKind": "ThingList"},
            "versions": [{
                "name": "v1", "served": true, "storage": true,
                "schema": {"openAPIV3Schema": {
                    "type": "object", "properties": {"spec": {"type": "object", "properties": sections}},
                }},
            }],
        },
    })
}
