//! Pods whose variables, commands and volumes grow without bound: each is refused with a reason, the others run, and the
//! server starts again with all of them stored.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::pod_place::{PodPlace, script};

const MIB: u64 = 1 << 20;

/// A thousand bytes, then ten times what came before, and so on.
fn growing(steps: usize) -> Vec<Value> {
    let value = |step: usize| match step {
        0 => "x".repeat(1000),
        step => format!("$(A{})", step - 1).repeat(10),
    };
    (0..=steps).map(|step| json!({"name": format!("A{step}"), "value": value(step)})).collect()
}

fn with(fields: Value) -> Value {
    let mut container = script("true");
    for (name, value) in fields.as_object().into_iter().flatten() {
        container[name] = value.clone();
    }
    json!({"containers": [container]})
}

/// Each with its name, the reason with which it waits, and words of the message that names what is wrong.
fn bombs() -> Vec<(&'static str, Value, &'static str, &'static [&'static str])> {
    const CONFIG: &str = "CreateContainerConfigError";
    let many = |count: usize, one: &dyn Fn(usize) -> Value| (0..count).map(one).collect::<Vec<_>>();
    let container = |map: &'static str| {
        move |number: usize| {
            let from = json!([{"configMapRef": {"name": map}}]);
            json!({"name": format!("c{number}"), "command": ["true"], "envFrom": from})
        }
    };
    let volume = |number: usize| json!({"name": format!("v{number}"), "configMap": {"name": "big"}});
    vec![
        ("values", with(json!({"env": growing(8)})), CONFIG, &["env[A3]", "131072 bytes"]),
        (
            "arguments",
            with(json!({"env": growing(2), "args": vec!["$(A2)"; 2000]})),
            CONFIG,
            &["args[", "argument list too long", "2097152 bytes"],
        ),
        ("from", json!({"containers": many(500, &container("big"))}), CONFIG, &["all containers", "8388608 bytes"]),
        // Each character takes six bytes of JSON, and eight once that is sealed: 14 MB of JSON, 19 MB of a file.
        (
            "controls",
            json!({"containers": many(12, &container("controls"))}),
            "CreateContainerError",
            &["spec", "16777216 bytes"],
        ),
        (
            "brackets",
            with(json!({"env": [{"name": "OPEN", "value": "$(".repeat(500_000)}]})),
            CONFIG,
            &["env[OPEN]", "131072 bytes"],
        ),
        (
            "variables",
            with(
                json!({"env": many(10_000, &|number| json!({"name": format!("V{number}"), "value": "$(V0)$(V1)$(V2)"}))}),
            ),
            "",
            &[],
        ),
        ("files", json!({"containers": [script("true")], "volumes": many(500, &volume)}), "ContainerCreating", &[]),
        (
            "patience",
            json!({
                "activeDeadlineSeconds": 1, "terminationGracePeriodSeconds": i64::MAX,
                "containers": [script("trap 'sleep 1; exit 0' TERM; while :; do sleep 0.1; done")],
            }),
            "",
            &[],
        ),
    ]
}

async fn are_refused(place: &PodPlace) -> Result<()> {
    for (name, _, reason, words) in bombs() {
        if reason.is_empty() {
            place.ended(name).await?;
            continue;
        }
        let message = place.waiting(name, reason).await?;
        ensure!(words.iter().all(|word| message.contains(word)) && message.len() < 1100, "{name}: {message}");
    }
    let (message, _) = place.told("files", "FailedMount").await?;
    ensure!(message.contains("volume \"v") && message.contains("16777216 bytes"), "{message}");
    let (message, _) = place.told("values", "Failed").await?;
    ensure!(message.contains("env[A3]"), "{message}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pods_that_grow_without_bound_stop_neither_the_server_nor_its_next_start() -> Result<()> {
    let mut place = PodPlace::start().await?;
    place.runs("before").await?;
    let keys = (0..9).map(|key| (format!("key{key}"), json!("x".repeat(100_000))));
    let data = keys.collect::<serde_json::Map<_, _>>();
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "big"}, "data": data});
    place.server.client()?.post("/api/v1/namespaces/default/configmaps", &map).await?.success()?;
    let controls = json!({"a": "\u{1}".repeat(100_000), "b": "\u{1}".repeat(100_000)});
    let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "controls"}, "data": controls});
    place.server.client()?.post("/api/v1/namespaces/default/configmaps", &map).await?.success()?;
    let before = place.server.memory()?;
    for (name, spec, ..) in bombs() {
        place.create(name, spec).await?;
    }
    place.runs("beside").await?;
    are_refused(&place).await?;
    let growth = place.server.memory()?.saturating_sub(before);
    ensure!(growth < 400 * MIB, "memory grew by {} MiB", growth / MIB);

    place.server.kill9()?;
    place.server.restart().await?;
    place.runs("after").await?;
    are_refused(&place).await?;
    for name in ["values", "controls"] {
        let (_, count) = place.told(name, "Failed").await?;
        ensure!(count < 10, "the same was told of {name} {count} times: it is tried again and again");
    }
    Ok(())
}
