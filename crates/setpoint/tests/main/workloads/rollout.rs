//! Rollouts that a client watches: what was promised holds at every change.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::cluster::{
    Cluster, DEPLOYMENTS, PODS, REPLICA_SETS, broken, condition, deployment, is_ready, name, names, template,
};
use super::probe::Probe;

fn with_strategy(mut deployment: Value, strategy: Value) -> Value {
    deployment["spec"]["strategy"] = strategy;
    deployment
}

fn rolling(max_surge: usize, max_unavailable: usize) -> Value {
    json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": max_surge, "maxUnavailable": max_unavailable}})
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rolling_update_keeps_what_it_promises() -> Result<()> {
    let cluster = Cluster::start().await?;
    let rows = [("surge", 1, 0, 4, 5), ("more surge", 2, 0, 4, 6), ("no surge", 0, 1, 3, 4), ("both", 1, 2, 2, 5)];
    for (app, max_surge, max_unavailable, fewest_ready, most) in rows {
        let app = &app.replace(' ', "-");
        let strategy = rolling(max_surge, max_unavailable);
        cluster.create(DEPLOYMENTS, &with_strategy(deployment(app, 4, &template(app, "1")), strategy)).await?;
        cluster.rolled_out(app).await?;
        let probe = Probe::start(&cluster).await?;
        cluster.patch(DEPLOYMENTS, app, &json!({"spec": {"template": template(app, "2")}})).await?;
        cluster.rolled_out(app).await?;
        let seen = probe.end(&cluster).await?;
        ensure!(seen.fewest_ready >= fewest_ready && seen.most <= most, "{app}: {seen:?}");
        ensure!(seen.changes >= 16, "{app}: four Pods come and four go: {seen:?}");
        cluster.kubectl(&["delete", "deployment", app, "--cascade=foreground"])?;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_old_revision_is_gone_before_a_recreated_one_starts() -> Result<()> {
    let cluster = Cluster::start().await?;
    let recreated = with_strategy(deployment("web", 3, &template("web", "1")), json!({"type": "Recreate"}));
    cluster.create(DEPLOYMENTS, &recreated).await?;
    cluster.rolled_out("web").await?;
    let old = cluster.pods().await?;
    let probe = Probe::start(&cluster).await?;
    cluster.patch(DEPLOYMENTS, "web", &json!({"spec": {"template": template("web", "2")}})).await?;
    cluster.rolled_out("web").await?;
    let seen = probe.end(&cluster).await?;
    ensure!((seen.fewest_ready, seen.most) == (0, 3), "{seen:?}");
    let (now, gone) = (cluster.list(PODS).await?, names(&old));
    ensure!(now.len() == 3 && now.iter().all(|pod| !gone.contains(&name(pod))), "{:?}", names(&now));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_template_that_never_becomes_ready_stops_at_its_deadline() -> Result<()> {
    let cluster = Cluster::start().await?;
    let mut web = with_strategy(deployment("web", 3, &template("web", "1")), rolling(1, 0));
    web["spec"]["progressDeadlineSeconds"] = 2.into();
    cluster.create(DEPLOYMENTS, &web).await?;
    cluster.rolled_out("web").await?;
    let old: Vec<String> = names(&cluster.pods().await?).into_iter().map(str::to_owned).collect();

    let probe = Probe::start(&cluster).await?;
    cluster.patch(DEPLOYMENTS, "web", &json!({"spec": {"template": broken("web")}})).await?;
    let late = |web: &Value| condition(web, "Progressing") == Some(("False", "ProgressDeadlineExceeded"));
    let late = cluster.until("the rollout to be late", DEPLOYMENTS, "web", late).await?;
    ensure!(condition(&late, "Available") == Some(("True", "MinimumReplicasAvailable")), "{late}");
    let said = cluster.kubectl_fails(&["rollout", "status", "deployment/web"])?;
    ensure!(said.contains("exceeded its progress deadline"), "{said}");
    let seen = probe.end(&cluster).await?;
    ensure!((seen.fewest_ready, seen.most) == (3, 4), "the old ones go on serving: {seen:?}");

    cluster.kubectl(&["rollout", "undo", "deployment/web"])?;
    cluster.rolled_out("web").await?;
    let pods = cluster.until_pods("the broken Pod to go", |pods| pods.len() == 3).await?;
    ensure!(names(&pods) == old, "the same Pods as ever: {:?}, not {old:?}", names(&pods));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_kept_revision_can_be_returned_to() -> Result<()> {
    let cluster = Cluster::start().await?;
    let mut web = deployment("web", 2, &template("web", "1"));
    web["spec"]["revisionHistoryLimit"] = 2.into();
    cluster.create(DEPLOYMENTS, &web).await?;
    cluster.rolled_out("web").await?;
    for version in ["2", "3", "4"] {
        cluster.patch(DEPLOYMENTS, "web", &json!({"spec": {"template": template("web", version)}})).await?;
        cluster.rolled_out("web").await?;
    }
    let kept = |history: &str| -> Vec<u32> {
        history.lines().filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
    };
    let history = || cluster.kubectl(&["rollout", "history", "deployment/web"]);
    setpoint_testkit::wait_for("history to be cut", super::cluster::PATIENCE, || {
        let history = history();
        async move { Ok((kept(&history?) == [2, 3, 4]).then_some(())) }
    })
    .await?;
    let gone = cluster.kubectl_fails(&["rollout", "undo", "deployment/web", "--to-revision=1"])?;
    ensure!(gone.contains("unable to find specified revision 1 in history"), "{gone}");
    for (revision, version) in [("2", "2"), ("3", "3"), ("4", "4")] {
        cluster.kubectl(&["rollout", "undo", "deployment/web", &format!("--to-revision={revision}")])?;
        cluster.rolled_out("web").await?;
        let said = cluster.kubectl(&["logs", "deployment/web", "--tail=1"])?;
        ensure!(said == format!("version {version}\n"), "revision {revision}: {said}");
    }
    ensure!(cluster.list(REPLICA_SETS).await?.len() == 3, "each was returned to, none was made anew");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_rollout_is_scaled_up_and_down_on_its_way() -> Result<()> {
    let cluster = Cluster::start().await?;
    let web = with_strategy(deployment("web", 4, &template("web", "1")), rolling(2, 1));
    cluster.create(DEPLOYMENTS, &web).await?;
    cluster.rolled_out("web").await?;
    // It stands still half way: the new ones never become ready.
    cluster.patch(DEPLOYMENTS, "web", &json!({"spec": {"template": broken("web")}})).await?;
    let half_way = |web: &Value| web["status"]["updatedReplicas"] == 3 && web["status"]["readyReplicas"] == 3;
    cluster.until("the rollout to be half way", DEPLOYMENTS, "web", half_way).await?;

    let sizes = |sets: &[Value]| -> Vec<u64> {
        let mut sizes: Vec<u64> = sets.iter().filter_map(|set| set["spec"]["replicas"].as_u64()).collect();
        sizes.sort_unstable();
        sizes
    };
    for (replicas, shares, ready) in [(8, vec![5, 5], 5), (4, vec![3, 3], 3)] {
        cluster.kubectl(&["scale", "deployment/web", &format!("--replicas={replicas}")])?;
        cluster
            .until_pods("each revision to have its share", |pods| {
                pods.len() as u64 == shares.iter().sum::<u64>()
                    && pods.iter().filter(|pod| is_ready(pod)).count() == ready
            })
            .await?;
        let found = sizes(&cluster.list(REPLICA_SETS).await?);
        ensure!(found == shares, "{replicas} replicas are shared out as {found:?}");
    }
    cluster.patch(DEPLOYMENTS, "web", &json!({"spec": {"template": template("web", "3")}})).await?;
    cluster.rolled_out("web").await?;
    let pods = cluster.until_pods("the rest to go", |pods| pods.len() == 4).await?;
    ensure!(pods.iter().all(is_ready), "all of them serve");
    Ok(())
}
