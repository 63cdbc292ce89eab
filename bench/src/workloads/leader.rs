//! A leader that is killed in the middle of a rollout: how soon another goes on, and whether anything was done twice.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::{Value, json};
use setpoint_testkit::Server;

use super::{DEPLOYMENTS, PODS, available, declare_environment, deployment, watch};
use crate::report::{Report, Row, Target};

const PODS_WANTED: usize = 300;
/// After so long without news, what was under way has arrived.
const QUIET: Duration = Duration::from_millis(500);
const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases/setpoint-controllers";

/// Controllers in a process of their own, ended with this value.
#[derive(Debug)]
struct Controllers {
    identity: &'static str,
    child: Child,
}

impl Controllers {
    fn start(program: &Path, server: &Server, identity: &'static str) -> Result<Controllers> {
        let kubeconfig = server.kubeconfig_path();
        let child = Command::new(program)
            .args(["serve", "controllers", "--identity", identity, "--kubeconfig"])
            .arg(kubeconfig)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .context("cannot start the controllers")?;
        Ok(Controllers { identity, child })
    }
}

impl Drop for Controllers {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

pub(super) async fn measure(program: &Path, report: &mut Report) -> Result<()> {
    let server = Server::start_with(program, &["--no-controllers"]).await?;
    declare_environment(&server).await?;
    let both = ["first", "second"].map(|identity| Controllers::start(program, &server, identity));
    let mut both = both.into_iter().collect::<Result<Vec<_>>>()?;
    let mut client = server.client()?;
    client.post(DEPLOYMENTS, &deployment("web", PODS_WANTED)).await?.success()?;
    available(&server, "web", PODS_WANTED).await?;

    let mut events = watch(&server, PODS).await?;
    let patch = json!({"spec": {"template": {"metadata": {"annotations": {"round": "2"}}}}});
    client.patch(&format!("{DEPLOYMENTS}/web"), "merge-patch", &patch).await?.success()?;
    let mut new = BTreeSet::new();
    while new.len() < PODS_WANTED / 4 {
        note_new(&events.event().await?.context("the watch ended")?, &mut new);
    }
    let holder = client.get(LEASE).await?.success()?["spec"]["holderIdentity"].clone();
    both.retain_mut(|controllers| {
        let is_leader = holder.as_str().is_some_and(|holder| holder.starts_with(controllers.identity));
        if is_leader {
            let _ = controllers.child.kill();
        }
        !is_leader
    });
    anyhow::ensure!(both.len() == 1, "the Lease is held by {holder}, which is none of ours");
    let killed = Instant::now();
    while let Ok(event) = tokio::time::timeout(QUIET, events.event()).await {
        note_new(&event?.context("the watch ended")?, &mut new);
    }
    let known = new.len();
    while new.len() == known {
        note_new(&events.event().await?.context("the watch ended")?, &mut new);
    }
    let taken_over = killed.elapsed();
    rolled_out(&server).await?;
    while let Ok(event) = tokio::time::timeout(QUIET, events.event()).await {
        note_new(&event?.context("the watch ended")?, &mut new);
    }
    let row = Row::new("leader killed in a rollout until another goes on", "s", taken_over.as_secs_f64());
    report.add(row.target(Target::AtMost(5.0)));
    let surplus = new.len() as f64 - PODS_WANTED as f64;
    report.add(Row::new("Pods of the new revision made beyond those wanted", "", surplus).target(Target::AtMost(0.0)));
    Ok(())
}

/// Waits until all Pods are of the new revision.
async fn rolled_out(server: &Server) -> Result<()> {
    let mut events = watch(server, DEPLOYMENTS).await?;
    let mut deployment = server.client()?.get(&format!("{DEPLOYMENTS}/web")).await?.success()?;
    loop {
        let counts = ["replicas", "updatedReplicas", "availableReplicas"].map(|count| &deployment["status"][count]);
        if counts.iter().all(|count| **count == json!(PODS_WANTED)) {
            return Ok(());
        }
        deployment = events.event().await?.context("the watch ended")?["object"].take();
    }
}

/// Takes in Pods of the second round, by their uids.
fn note_new(event: &Value, new: &mut BTreeSet<String>) {
    let pod = &event["object"];
    if pod["metadata"]["annotations"]["round"] == "2" {
        new.insert(pod["metadata"]["uid"].as_str().unwrap_or_default().to_owned());
    }
}
