//! Kills the control plane again and again under running workloads, and proves that they do not notice.
//!
//! The witness is the process table. Every workload has a word of its own in its command, so that there is exactly one
//! process with that word as long as it is neither lost nor doubled; its pid and the time it started stay as they were;
//! and it counts aloud, so that its log tells whether a line is missing. Meanwhile others come and go: what was
//! acknowledged just before a kill runs once afterwards, and what was deleted is gone.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_testkit::process_table::{self, Process};
use setpoint_testkit::{Client, Server, proof, wait_for};

use crate::SETPOINT;

const PODS: &str = "/api/v1/namespaces/default/pods";
const WORKLOADS: usize = 50;
const KILLS: u32 = 200;
const PATIENCE: Duration = Duration::from_secs(120);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn workloads_do_not_notice_that_the_control_plane_is_killed() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(proof::seed());
    let nonce = format!("{:08x}", random.random::<u32>());
    let mut server = Server::start_with_local_node(SETPOINT).await?;
    let mut client = server.client()?;
    let steady: Vec<String> = (0..WORKLOADS).map(|number| format!("steady-{number}-{nonce}")).collect();
    for name in &steady {
        client.post(PODS, &pod(name)).await?.success()?;
    }
    wait_until_ready(&mut client, &steady).await?;
    let before = witness(&steady)?;

    let mut coming_and_going = ComingAndGoing { nonce, made: 0, present: Vec::new(), gone: Vec::new() };
    let mut kills = KILLS;
    while kills > 0 {
        // The moment is the point here: from the middle of a start to a control plane in full swing.
        tokio::time::sleep(Duration::from_millis(random.random_range(0..60))).await;
        server.kill9()?;
        kills -= 1;
        ensure!(witness(&steady)? == before, "a workload changed when the control plane was killed");
        while kills > 0 && random.random_bool(0.4) {
            server.spawn()?;
            tokio::time::sleep(Duration::from_millis(random.random_range(0..120))).await;
            server.kill9()?;
            kills -= 1;
        }
        server.restart().await?;
        coming_and_going.go_on(&mut server.client()?, &mut random).await?;
    }

    let mut client = server.client()?;
    let ComingAndGoing { present, gone, .. } = &coming_and_going;
    wait_until_ready(&mut client, present).await?;
    wait_for("what was deleted to be gone", PATIENCE, || async { Ok(count(gone)?.is_empty().then_some(())) }).await?;
    ensure!(witness(&steady)? == before, "a workload is not the one it was");
    witness(present)?;
    for name in &steady {
        let pod = client.get(&format!("{PODS}/{name}")).await?.success()?;
        let container = &pod["status"]["containerStatuses"][0];
        ensure!(container["restartCount"] == 0 && container["ready"] == true, "{name}: {container:#}");
        let so_far = check_log(name, &client.get(&format!("{PODS}/{name}/log")).await?.text())?;
        wait_for(format!("{name} to be heard further"), PATIENCE, || async {
            let log = server.client()?.get(&format!("{PODS}/{name}/log")).await?.text();
            Ok((check_log(name, &log)? > so_far).then_some(()))
        })
        .await?;
    }

    wait_for("zombies to be reaped", PATIENCE, || async { Ok(zombies(&server)?.is_empty().then_some(())) }).await?;
    for name in steady.iter().chain(present) {
        client.delete(&format!("{PODS}/{name}?gracePeriodSeconds=1")).await?;
    }
    let all: Vec<String> = steady.iter().chain(present).chain(gone).cloned().collect();
    wait_for("all pods to be gone", PATIENCE, || async {
        let list = server.client()?.get(PODS).await?.success()?;
        Ok(list["items"].as_array().context("items")?.is_empty().then_some(()))
    })
    .await?;
    ensure!(count(&all)?.is_empty(), "workloads outlived their pods: {:?}", count(&all)?);
    wait_for("the last shim to end", PATIENCE, || async {
        Ok(process_table::shims_in(&server.data_dir())?.is_empty().then_some(()))
    })
    .await?;
    wait_for("the last zombie to be reaped", PATIENCE, || async { Ok(zombies(&server)?.is_empty().then_some(())) })
        .await
}

/// Pods that are made and deleted just before the control plane is killed.
struct ComingAndGoing {
    nonce: String,
    made: u32,
    present: Vec<String>,
    gone: Vec<String>,
}

impl ComingAndGoing {
    async fn go_on(&mut self, client: &mut Client, random: &mut SmallRng) -> Result<()> {
        if random.random_bool(0.3) {
            let name = format!("passing-{}-{}", self.made, self.nonce);
            client.post(PODS, &pod(&name)).await?.success()?;
            self.made += 1;
            self.present.push(name);
        }
        if self.present.len() > 5 {
            let name = self.present.swap_remove(random.random_range(0..self.present.len()));
            client.delete(&format!("{PODS}/{name}?gracePeriodSeconds=1")).await?;
            self.gone.push(name);
        }
        Ok(())
    }
}

/// It counts aloud, and its name stands in its command.
fn pod(name: &str) -> Value {
    let script = format!(": {name}; i=0; while :; do echo \"$i\"; i=$((i+1)); sleep 0.2; done");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {"containers": [{"name": "count", "command": ["sh", "-c", script]}]},
    })
}

async fn wait_until_ready(client: &mut Client, names: &[String]) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    for name in names {
        loop {
            let pod = client.get(&format!("{PODS}/{name}")).await?.success()?;
            let mut conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
            if conditions.any(|condition| condition["type"] == "Ready" && condition["status"] == "True") {
                break;
            }
            ensure!(Instant::now() < deadline, "{name} does not become ready: {:#}", pod["status"]);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    Ok(())
}

/// The one process of each workload: which it is, and since when.
fn witness(names: &[String]) -> Result<BTreeMap<String, (u32, u64)>> {
    let found = count(names)?;
    let one = |name: &String| match found.get(name).map(Vec::as_slice) {
        Some([process]) => Ok((name.clone(), (process.pid, process.start_time))),
        Some(several) => anyhow::bail!("{name} runs {} times: {several:?}", several.len()),
        None => anyhow::bail!("{name} does not run"),
    };
    names.iter().map(one).collect()
}

fn count(names: &[String]) -> Result<BTreeMap<String, Vec<Process>>> {
    let mut found: BTreeMap<String, Vec<Process>> = BTreeMap::new();
    let running = process_table::commanded("sh -c : ")?;
    for name in names {
        let word = format!("sh -c : {name};");
        let mut processes: Vec<Process> =
            running.iter().filter(|process| process.command.starts_with(&word)).cloned().collect();
        // A shell that is about to run something looks like its parent for an instant.
        let pids: Vec<u32> = processes.iter().map(|process| process.pid).collect();
        processes.retain(|process| !pids.contains(&process.parent));
        if !processes.is_empty() {
            found.insert(name.clone(), processes);
        }
    }
    Ok(found)
}

/// How many lines it has: every number from 0 on, each once.
fn check_log(name: &str, log: &str) -> Result<usize> {
    ensure!(!log.is_empty(), "{name} has written nothing");
    for (expected, line) in log.lines().enumerate() {
        ensure!(line == expected.to_string(), "{name}: line {expected} of its log is {line:?}");
    }
    Ok(log.lines().count())
}

/// The children of the control plane and of its shims that nobody has waited for.
fn zombies(server: &Server) -> Result<Vec<Process>> {
    let shims = process_table::shims_in(&server.data_dir())?;
    let parents: Vec<u32> = shims.iter().map(|shim| shim.pid).chain(server.pid()).collect();
    let all = process_table::processes()?.into_iter();
    Ok(all.filter(|process| process.is_zombie && parents.contains(&process.parent)).collect())
}
