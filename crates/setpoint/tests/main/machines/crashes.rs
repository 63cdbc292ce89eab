//! Kills the control plane at random moments while Machines are made, changed and deleted: nothing is made twice, and
//! nothing is lost.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_testkit::{proof, wait_for};

use super::cluster::{Cluster, MACHINES, PATIENCE, is_synced, machine, text};

const KILLS: u32 = 100;
/// Enough to try it where long proofs are not asked for.
const FEW_KILLS: u32 = 25;
const ENOUGH: Duration = Duration::from_secs(90);

/// What somebody asked for, as far as the server acknowledged it.
#[derive(Debug, Default)]
struct Wishes {
    made: u64,
    /// How often a guest was to be made anew.
    replaced: u64,
    /// What is there, and of which image it is to be.
    present: Vec<(String, String)>,
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_control_plane_makes_nothing_twice_and_loses_nothing() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(proof::seed());
    let config = json!({"latencyMs": 1, "latencyMaxMs": 12, "startMs": 5, "settleSeconds": 1});
    let mut cluster = Cluster::start(config, json!({})).await?;
    let mut wishes = Wishes::default();
    let (start, mut kills) = (Instant::now(), 0);
    while kills < proof::extent(FEW_KILLS, KILLS) && start.elapsed() < proof::extent(ENOUGH, ENOUGH * 8) {
        for _ in 0..random.random_range(1..4) {
            wishes.wish(&cluster, &mut random).await?;
        }
        // The moment is the point here: from before the first call to a place in full swing.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..120))).await;
        cluster.server.kill9()?;
        kills += 1;
        cluster.server.restart().await?;
    }
    println!("{kills} kills, {} Machines made, {} present", wishes.made, wishes.present.len());
    settled(&cluster).await?;
    prove(&cluster, &wishes).await
}

impl Wishes {
    async fn wish(&mut self, cluster: &Cluster, random: &mut SmallRng) -> Result<()> {
        let mut client = cluster.client()?;
        let chosen = (!self.present.is_empty()).then(|| random.random_range(0..self.present.len()));
        match (random.random_range(0..10), chosen) {
            (0..2, Some(at)) => {
                let (name, _) = self.present.swap_remove(at);
                client.delete(&format!("{MACHINES}/{name}")).await?.success()?;
            }
            (2..6, Some(at)) => {
                let cores = random.random_range(1..32);
                let (name, image) = &mut self.present[at];
                let another = format!("a:{}", random.random_range(1..3));
                let patch = match random.random_bool(0.3) {
                    true => json!({"spec": {"image": another}}),
                    false => json!({"spec": {"cores": cores}}),
                };
                client.patch(&format!("{MACHINES}/{name}"), "merge-patch", &patch).await?.success()?;
                if patch["spec"]["image"].is_string() && another != *image {
                    self.replaced += 1;
                    *image = another;
                }
            }
            _ => {
                let name = format!("m{}", self.made);
                client.post(MACHINES, &machine(&name, json!({"cores": 1, "image": "a:1"}))).await?.success()?;
                self.made += 1;
                self.present.push((name, "a:1".to_owned()));
            }
        }
        Ok(())
    }
}

/// Waits until all that was asked for is carried out.
async fn settled(cluster: &Cluster) -> Result<()> {
    let settled = wait_for("all Machines to be as desired", PATIENCE * 2, || async {
        let machines = cluster.list(MACHINES).await?;
        let is_whole = |machine: &Value| is_synced(machine) && machine["metadata"]["deletionTimestamp"].is_null();
        Ok(machines.iter().all(is_whole).then_some(()))
    });
    match settled.await {
        Ok(()) => Ok(()),
        Err(error) => {
            let machines = cluster.list(MACHINES).await?;
            let late: Vec<&Value> = machines.iter().filter(|machine| !is_synced(machine)).collect();
            Err(error.context(format!("{late:#?}")))
        }
    }
}

/// There is one guest for each Machine and no other, each as desired, and each was made for something.
async fn prove(cluster: &Cluster, wishes: &Wishes) -> Result<()> {
    let machines = cluster.list(MACHINES).await?;
    let names: BTreeSet<String> = machines.iter().map(|machine| text(&machine["metadata"]["name"])).collect();
    let wanted: BTreeSet<String> = wishes.present.iter().map(|(name, _)| name.clone()).collect();
    ensure!(names == wanted, "there are {names:?}, not {wanted:?}");
    for machine in &machines {
        let guest = cluster.guest(machine)?;
        for field in ["cores", "image"] {
            ensure!(guest["machine"][field] == machine["spec"][field], "{machine:#} {guest:#}");
        }
    }
    let truth = cluster.truth()?;
    ensure!(truth.len() == machines.len(), "something is there that belongs to nothing: {truth:#?}");
    let (made, most) = (cluster.made()?, wishes.made + wishes.replaced);
    ensure!(made <= most, "{made} guests were made for {} Machines and {} changes", wishes.made, wishes.replaced);
    Ok(())
}
