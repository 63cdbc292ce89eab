//! Whose a Pod is: replicas that are deleted, relabelled, found, and left behind.

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};

use super::cluster::{
    Cluster, DEPLOYMENTS, PODS, REPLICA_SETS, deployment, is_ready, name, names, owner, replica_set, template,
};

fn pod(name: &str, app: &str) -> Value {
    let mut pod = template(app, "found");
    pod["apiVersion"] = "v1".into();
    pod["kind"] = "Pod".into();
    pod["metadata"]["name"] = name.into();
    pod
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whichever_replica_is_deleted_it_heals() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.create(DEPLOYMENTS, &deployment("web", 3, &template("web", "1"))).await?;
    cluster.rolled_out("web").await?;
    for which in 0..3 {
        for force in [false, true] {
            let pods = cluster.pods().await?;
            let victim = name(&pods[which]).to_owned();
            let by_force: &[&str] = if force { &["--grace-period=0", "--force"] } else { &[] };
            cluster.kubectl(&[&["delete", "pod", &victim], by_force].concat())?;
            let is_whole = |pods: &[Value]| pods.len() == 3 && pods.iter().all(is_ready);
            let healed = cluster.until_pods("three replicas", is_whole).await?;
            ensure!(!names(&healed).contains(&victim.as_str()), "no name is used twice: {victim}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_fits_is_adopted_and_what_does_not_is_released() -> Result<()> {
    let cluster = Cluster::start().await?;
    cluster.create(PODS, &pod("found", "web")).await?;
    let set = cluster.create(REPLICA_SETS, &replica_set("web", 2, &template("web", "1"))).await?;
    let uid = set["metadata"]["uid"].as_str().context("a uid")?;
    let has_two = |pods: &[Value]| pods.iter().filter(|pod| owner(pod) == Some(uid)).count() == 2;
    let pods = cluster.until_pods("two replicas, the one that was there among them", has_two).await?;
    ensure!(pods.len() == 2 && names(&pods).contains(&"found"), "one was found, one was made: {:?}", names(&pods));

    cluster.patch(PODS, "found", &json!({"metadata": {"labels": {"app": "free"}}})).await?;
    let pods = cluster.until_pods("a replica for the one that left", |pods| pods.len() == 3 && has_two(pods)).await?;
    let left = pods.iter().find(|pod| name(pod) == "found").context("it goes on")?;
    ensure!(owner(left).is_none(), "it is nobody's: {left}");

    cluster.patch(PODS, "found", &json!({"metadata": {"labels": {"app": "web"}}})).await?;
    let pods = cluster.until_pods("one of three to go", |pods| pods.len() == 2 && has_two(pods)).await?;
    ensure!(pods.len() == 2, "as many as asked for");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_with_one_selector_leave_each_other_alone() -> Result<()> {
    let cluster = Cluster::start().await?;
    let mut uids = Vec::new();
    for set in ["one", "other"] {
        let set = cluster.create(REPLICA_SETS, &replica_set(set, 2, &template("web", "1"))).await?;
        uids.push(set["metadata"]["uid"].as_str().context("a uid")?.to_owned());
    }
    let of = |pods: &[Value], uid: &str| pods.iter().filter(|pod| owner(pod) == Some(uid)).count();
    let is_fair = |pods: &[Value]| pods.len() == 4 && uids.iter().all(|uid| of(pods, uid) == 2);
    cluster.until_pods("two replicas of each", is_fair).await?;
    cluster.kubectl(&["scale", "replicaset/one", "--replicas=3"])?;
    cluster.until_pods("one more of one", |pods| of(pods, &uids[0]) == 3 && of(pods, &uids[1]) == 2).await?;
    cluster.kubectl(&["delete", "replicaset", "one", "--cascade=foreground"])?;
    let left = cluster.list(PODS).await?;
    ensure!(left.len() == 2 && of(&left, &uids[1]) == 2, "the other keeps its own: {:?}", names(&left));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn orphans_go_on_and_find_a_new_owner() -> Result<()> {
    let cluster = Cluster::start().await?;
    let web = deployment("web", 2, &template("web", "1"));
    cluster.create(DEPLOYMENTS, &web).await?;
    cluster.rolled_out("web").await?;
    let before = cluster.pods().await?;
    let sets = cluster.list(REPLICA_SETS).await?;
    let set = name(sets.first().context("a ReplicaSet")?);

    cluster.kubectl(&["delete", "deployment", "web", "--cascade=orphan"])?;
    let orphan = cluster.get(REPLICA_SETS, set).await?;
    ensure!(owner(&orphan).is_none(), "the ReplicaSet is nobody's: {orphan}");
    cluster.create(DEPLOYMENTS, &web).await?;
    cluster.rolled_out("web").await?;
    let adopted = cluster.list(REPLICA_SETS).await?;
    ensure!(names(&adopted) == [set] && owner(&adopted[0]).is_some(), "it is found again: {:?}", names(&adopted));

    let old = adopted[0]["metadata"]["uid"].clone();
    // Another of its name is there so soon that kubectl may not see that this one went.
    cluster.kubectl(&["delete", "replicaset", set, "--cascade=orphan", "--wait=false"])?;
    // The Deployment makes it anew, and that takes over what runs.
    let is_adopted = |pods: &[Value]| {
        let owner = |pod: &Value| pod["metadata"]["ownerReferences"][0]["uid"].clone();
        pods.iter().all(|pod| owner(pod).is_string() && owner(pod) != old)
    };
    cluster.until_pods("the Pods to have an owner again", is_adopted).await?;
    cluster.rolled_out("web").await?;
    let after = cluster.pods().await?;
    ensure!(names(&after) == names(&before), "the same processes all along: {:?}", names(&after));
    Ok(())
}
