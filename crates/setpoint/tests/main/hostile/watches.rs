//! One client that opens watch after watch.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use http::Request;
use serde_json::json;
use setpoint_testkit::{Client, wait_for};

use super::{CONFIG_MAPS, MIB, PATIENCE, Victim, allow_open_files};

/// What one user may have open.
const ALLOWED: usize = 2_000;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_watches_ends_with_its_user() -> Result<()> {
    allow_open_files(ALLOWED as u64 + 200)?;
    let victim = Victim::start().await?;
    let (admin, neighbour) = (victim.server.kubeconfig()?, victim.neighbour().await?);
    let path = format!("{CONFIG_MAPS}?watch=true");
    let open = || async { Client::new(&admin)?.watch(&path).await };
    let mut watches: Vec<_> = stream::iter((0..ALLOWED).map(|_| open())).buffer_unordered(32).try_collect().await?;

    let refused = Client::new(&admin)?.open(Request::get(&path).body(Default::default())?).await?;
    ensure!(refused.status() == 429, "{}", refused.status());
    ensure!(refused.headers().get("retry-after").is_some_and(|seconds| seconds == "1"), "{:?}", refused.headers());

    let mut other = Client::new(&neighbour)?.watch(&path).await.context("somebody else may watch")?;
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
    Client::new(&neighbour)?.post(CONFIG_MAPS, &object).await?.success()?;
    for watch in watches.iter_mut().chain([&mut other]) {
        let event = tokio::time::timeout(PATIENCE, watch.event()).await??.context("an event")?;
        ensure!(event["type"] == "ADDED", "{event}");
    }
    victim.ensure_growth_below(ALLOWED as u64 * 128 * 1024 + 32 * MIB)?;

    watches.pop();
    wait_for("room for another watch", PATIENCE, || async { Ok(open().await.ok()) }).await?;
    victim.survives().await
}
