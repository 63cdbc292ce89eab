//! Kills the control plane at random moments of `setpoint apply`, whose changes destroy data: whoever says it again has it
//! carried out, each guest is made once for each time that it was asked for, and each approval is used once.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_testkit::{proof, wait_for};

use super::cluster::{CHANGE_SETS, Cluster, MACHINES, PATIENCE, condition, is_synced, machine, text};
use crate::SETPOINT;

const KILLS: u32 = 100;
/// Enough to try it where long proofs are not asked for.
const FEW_KILLS: u32 = 10;
const ENOUGH: Duration = Duration::from_secs(90);
const NAMES: [&str; 3] = ["db", "files", "mail"];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_apply_that_is_cut_short_is_carried_out_once_by_whoever_says_it_again() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(proof::seed());
    let config = json!({"latencyMs": 1, "latencyMaxMs": 12, "startMs": 5, "settleSeconds": 1});
    let mut cluster = Cluster::start(config, json!({})).await?;
    let (start, mut kills, mut used) = (Instant::now(), 0, BTreeMap::new());
    while kills < proof::extent(FEW_KILLS, KILLS) && start.elapsed() < proof::extent(ENOUGH, ENOUGH * 8) {
        let mut apply = begin(&cluster, kills)?;
        // The moment is the point here: from before the first request to after the last.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..600))).await;
        cluster.server.kill9()?;
        kills += 1;
        // It would wait for a server that comes back at another address.
        apply.kill()?;
        apply.wait()?;
        cluster.server.restart().await?;
        note_leaves(&cluster, &mut used).await?;
    }
    // While a call is under way nobody can say what comes after it, and so nobody can agree to that.
    wait_for("every Machine to be at rest", PATIENCE, || async {
        let machines = cluster.list(MACHINES).await?;
        Ok(machines.iter().all(is_at_rest).then_some(()))
    })
    .await?;
    let output = begin(&cluster, kills)?.wait_with_output()?;
    // What a replacement that was cut short left behind is asked about by itself, whoever says what.
    let is_left = AtomicBool::new(false);
    let synced = wait_for("every Machine to be as desired", PATIENCE, || async {
        is_left.fetch_or(let_surplus_go(&cluster).await?, Ordering::Relaxed);
        let machines = cluster.list(MACHINES).await?;
        Ok(machines.iter().all(is_synced).then_some(()))
    });
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    synced.await.with_context(said)?;
    ensure!(output.status.success() || is_left.into_inner(), "{}", said());
    note_leaves(&cluster, &mut used).await?;
    let machines = cluster.list(MACHINES).await?;
    ensure!(machines.len() == NAMES.len(), "{machines:#?}");
    for machine in &machines {
        let guest = cluster.guest(machine)?;
        ensure!(guest["machine"]["image"] == format!("image:{kills}"), "{guest:#}");
    }
    let truth = cluster.truth()?;
    ensure!(truth.len() == NAMES.len(), "something is there that belongs to nothing: {truth:#?}");
    let (made, most) = (cluster.made()?, NAMES.len() as u64 * u64::from(kills + 1));
    ensure!(made <= most, "{made} guests were made, and {most} were asked for");
    println!("{kills} kills, {made} guests made, {} approvals used", used.len());
    Ok(())
}

/// Whether nothing is done for a Machine before somebody says something.
fn is_at_rest(machine: &Value) -> bool {
    let (synced, status) = (condition(machine, "Synced"), &machine["status"]);
    let is_told = status["observedGeneration"] == machine["metadata"]["generation"];
    let is_settled = status["intents"].as_array().is_none_or(Vec::is_empty);
    is_told && is_settled && (synced["status"] == "True" || synced["reason"] == "Waiting")
}

/// Has `setpoint apply` ask for Machines with data, of an image that only new guests can have.
fn begin(cluster: &Cluster, version: u32) -> Result<Child> {
    let volumes = json!([{"name": "data", "size": "10Gi"}]);
    let fields = json!({"image": format!("image:{version}"), "volumes": volumes});
    let documents = NAMES.map(|name| machine(name, fields.clone()).to_string());
    let file = cluster.server.folder().join("shop.yaml");
    fs::write(&file, documents.join("\n---\n"))?;
    let mut command = Command::new(SETPOINT);
    command.args(["apply", "-y", "--timeout", "60", "-f"]).arg(&file);
    command.arg("--kubeconfig").arg(cluster.server.kubeconfig_path());
    Ok(command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn()?)
}

/// Approves the removal of guests that Machines have too many. Says whether there were any.
async fn let_surplus_go(cluster: &Cluster) -> Result<bool> {
    let is_surplus = |step: &Value| step["target"]["kind"] == "Guest";
    let mut sets = cluster.list(CHANGE_SETS).await?;
    let asks = |set: &Value| set["status"]["steps"].as_array().is_some_and(|steps| steps.iter().any(is_surplus));
    sets.retain(|set| set["status"]["phase"] == "Waiting" && asks(set));
    for set in &sets {
        let mut command = Command::new(SETPOINT);
        command.args(["approve", "-y", &text(&set["metadata"]["name"]), "--kubeconfig"]);
        // It may be over by now: the next one asks again.
        command.arg(cluster.server.kubeconfig_path()).output()?;
    }
    Ok(!sets.is_empty())
}

/// Notes when each approval was used, by what the Machines have on record: it was at one time only.
async fn note_leaves(cluster: &Cluster, used: &mut BTreeMap<(String, String, String), String>) -> Result<()> {
    for machine in cluster.list(MACHINES).await? {
        let mut here = BTreeSet::new();
        for done in machine["status"]["done"].as_array().into_iter().flatten() {
            let Some(set) = done["changeSet"].as_str() else { continue };
            let leave = (text(&machine["metadata"]["uid"]), set.to_owned(), text(&done["digest"]));
            ensure!(here.insert(leave.clone()), "an approval is on record twice: {machine:#}");
            let at = done["at"].as_str().context("a time")?.to_owned();
            let first = used.entry(leave).or_insert_with(|| at.clone());
            ensure!(*first == at, "an approval was used at {first} and at {at}: {machine:#}");
        }
    }
    Ok(())
}
