//! Kills the control plane at random moments while people approve: what they approve is tried once, and to do it again they
//! are asked again; also where it was killed before anything came of it, since nobody can tell.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_testkit::{proof, wait_for};

use super::cluster::{CHANGE_SETS, Cluster, PATIENCE, condition, is_synced};

const REVIEWS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/reviews";
const KILLS: u32 = 100;
/// Enough to try it where long proofs are not asked for.
const FEW_KILLS: u32 = 12;
const ENOUGH: Duration = Duration::from_secs(90);

/// The same step is asked for over and over: each time it has the digest that it had the last time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_is_used_once_whenever_the_control_plane_is_killed() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(proof::seed());
    let config = json!({"latencyMs": 1, "latencyMaxMs": 12, "stopMs": 5, "startMs": 5, "settleSeconds": 1});
    let rules = json!({"approval": {"rules": [{"class": "Disruptive", "approvals": 1}]}});
    let mut cluster = Cluster::start(config, rules).await?;
    cluster.make("web", json!({"cores": 1, "run": "Running"})).await?;
    cluster.synced("web").await?;
    let (start, mut kills) = (Instant::now(), 0);
    while kills < proof::extent(FEW_KILLS, KILLS) && start.elapsed() < proof::extent(ENOUGH, ENOUGH * 8) {
        cluster.change("web", json!({"spec": {"run": "Stopped"}})).await?;
        let web = cluster.until("web", "it to wait for people", waits).await?;
        ensure!(web["status"]["run"] == "running", "nobody has approved this time: {web:#}");
        approve(&cluster, &web, None).await?;
        // The moment is the point here: from before anybody has heard of it to after it was done.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..80))).await;
        cluster.server.kill9()?;
        kills += 1;
        cluster.server.restart().await?;
        let web = stopped(&cluster).await?;
        ensure!(web["status"]["run"] == "stopped", "{web:#}");
        let last = web["status"]["done"].as_array().and_then(|done| done.last()).context("something was done")?;
        ensure!(last["action"] == "Stop" && last["changeSet"].is_string(), "by whose leave: {web:#}");
        cluster.change("web", json!({"spec": {"run": "Running"}})).await?;
        cluster.synced("web").await?;
    }
    let web = cluster.synced("web").await?;
    let leaves: Vec<&str> =
        web["status"]["done"].as_array().into_iter().flatten().filter_map(|done| done["changeSet"].as_str()).collect();
    let distinct: BTreeSet<&str> = leaves.iter().copied().collect();
    ensure!(distinct.len() == leaves.len(), "an approval was used twice: {web:#}");
    println!("{kills} kills, {} approvals on record", leaves.len());
    Ok(())
}

/// Whether it says, of what it asks for now, that people have to approve it.
fn waits(machine: &Value) -> bool {
    let is_current = machine["status"]["observedGeneration"] == machine["metadata"]["generation"];
    is_current && condition(machine, "Synced")["reason"] == "Waiting"
}

/// The Machine once it is stopped; people approve it again where what they approved was used in vain.
async fn stopped(cluster: &Cluster) -> Result<Value> {
    let mut heard: Option<String> = None;
    loop {
        let is_asked = |web: &Value| waits(web) && used_in_vain(web).is_some() && used_in_vain(web) != heard;
        let what = "it to be stopped, or people to be asked again";
        let web = cluster.until("web", what, |web| is_synced(web) || is_asked(web)).await?;
        if is_synced(&web) {
            return Ok(web);
        }
        heard = used_in_vain(&web);
        approve(cluster, &web, heard.as_deref()).await?;
    }
}

/// The change set whose approvals were used by the last step, if no effect of that was seen.
fn used_in_vain(machine: &Value) -> Option<String> {
    let last = machine["status"]["done"].as_array()?.last().filter(|done| done["unseen"] == true)?;
    last["changeSet"].as_str().map(str::to_owned)
}

/// Approves what the Machine waits for, as whoever asked for it; `spent` is a change set in which that is of no use.
async fn approve(cluster: &Cluster, machine: &Value, spent: Option<&str>) -> Result<()> {
    let set = wait_for("a change set that waits", PATIENCE, || async {
        let sets = cluster.list(CHANGE_SETS).await?;
        let waits = |set: &Value| set["status"]["phase"] == "Waiting" && set["metadata"]["uid"].as_str() != spent;
        Ok(sets.into_iter().find(waits))
    });
    let set = set.await?;
    let steps = set["status"]["steps"].as_array().context("steps")?;
    let digests: Vec<&Value> = steps.iter().map(|step| &step["digest"]).collect();
    let review = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": {"generateName": "yes-"},
        "spec": {
            "gate": set["metadata"]["name"], "decision": "Approve", "digests": digests,
            "reviewer": machine["metadata"]["annotations"]["setpoint.dev/requested-by"],
        },
    });
    cluster.client()?.post(REVIEWS, &review).await?.success().map(drop)
}
