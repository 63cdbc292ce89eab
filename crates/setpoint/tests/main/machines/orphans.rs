//! What carries our mark and belongs to nothing is told of, and goes where policy and people let it; what is not ours stays.

use anyhow::{Context, Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use setpoint_testkit::wait_for;

use super::cluster::{Cluster, ENVIRONMENT, PATIENCE, condition, text};
use super::people::{state, steps};

const SYSTEM: &str = "kube-system";
const SYSTEM_CHANGE_SETS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/kube-system/changesets";
/// How much longer than the period of a second an orphan is left alone in this test.
const A_WHILE: SignedDuration = SignedDuration::from_secs(3);

/// Leaves a guest with data behind that belongs to nothing, and returns its id.
async fn left_behind(cluster: &Cluster) -> Result<String> {
    cluster.make("web", json!({"cores": 1, "volumes": [{"name": "data", "size": "10Gi"}]})).await?;
    let web = cluster.synced("web").await?;
    cluster.delete("web").await?;
    cluster.until("web", "it to wait", |web| condition(web, "Synced")["reason"] == "Waiting").await?;
    // Somebody takes it out of our hands.
    cluster.change("web", json!({"metadata": {"finalizers": null}})).await?;
    cluster.gone("web").await?;
    Ok(text(&web["status"]["providerId"]))
}

/// The guest of somebody else, as the place itself has it.
fn foreign(cluster: &Cluster) -> Result<Value> {
    let foreign = cluster.truth()?.into_values().find(|guest| guest["name"] == "theirs");
    foreign.context("the guest of somebody else is gone")
}

fn time(value: &Value) -> Result<Timestamp> {
    Ok(text(value).parse()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_nothing_goes_when_policy_and_people_let_it() -> Result<()> {
    let existing = json!([{"id": "101", "name": "theirs", "cores": 2, "holdsData": true}]);
    let cluster = Cluster::start(json!({"existing": existing}), json!({})).await?;
    cluster.appoint("alice", SYSTEM).await?;
    let id = left_behind(&cluster).await?;
    let theirs = foreign(&cluster)?;

    // By default it is told of, however long it has been there.
    let lab = cluster.until_environment("an orphan", |lab| lab["status"]["orphanCount"] == 1).await?;
    let orphan = &lab["status"]["orphans"][0];
    ensure!(orphan["providerId"] == *id && orphan["name"] == "web", "{lab:#}");
    let enough = time(&orphan["since"])? + A_WHILE;
    let is_seen = |lab: &Value| time(&lab["status"]["observedAt"]).is_ok_and(|seen| seen > enough);
    cluster.until_environment("it to be there for a while", is_seen).await?;
    let asked = cluster.list(SYSTEM_CHANGE_SETS).await?;
    ensure!(asked.is_empty() && cluster.truth()?.len() == 2, "nobody is asked: {asked:?}");

    let policy = json!({"spec": {"orphanPolicy": "Delete"}});
    cluster.client()?.patch(ENVIRONMENT, "merge-patch", &policy).await?.success()?;
    let waits = |set: &Value| set["status"]["phase"] == "Waiting";
    let set = cluster.until_change_set(SYSTEM, "people to be asked", waits).await?;
    ensure!(set["spec"]["requestedBy"] == "system:nobody" && set["spec"]["environment"] == "lab", "{set:#}");
    let [step] = steps(&set) else { anyhow::bail!("one step, and none for what is not ours: {set:#}") };
    let guest = json!({"namespace": "", "name": id, "kind": "Guest"});
    ensure!(step["action"] == "Delete" && step["target"] == guest, "{set:#}");
    ensure!(step["class"] == "Destructive" && step["classReason"] == "its data would be lost", "{set:#}");
    ensure!(cluster.truth()?.len() == 2, "nobody has agreed yet");

    let review = cluster.approve("alice", &set).await?;
    cluster.answered(&review, "Counted").await?;
    wait_for("the guest to go", PATIENCE, || async { Ok((cluster.truth()?.len() == 1).then_some(())) }).await?;
    cluster.until_environment("no orphan", |lab| lab["status"]["orphanCount"] == 0).await?;
    let is_over = |set: &Value| set["status"]["phase"] == "Succeeded";
    let set = cluster.until_change_set(SYSTEM, "everything to be done", is_over).await?;
    ensure!(state(&set, &format!("guest:{id}/delete"))["state"] == "Done", "{set:#}");
    ensure!(foreign(&cluster)? == theirs, "what is not ours is touched");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_nothing_stays_when_somebody_rejects_that_it_goes() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({"orphanPolicy": "Delete"})).await?;
    left_behind(&cluster).await?;
    let waits = |set: &Value| set["status"]["phase"] == "Waiting";
    let set = cluster.until_change_set(SYSTEM, "people to be asked", waits).await?;
    let digests: Vec<&Value> = steps(&set).iter().map(|step| &step["digest"]).collect();
    let review = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": {"name": "no"},
        "spec": {"gate": set["metadata"]["name"], "decision": "Reject", "digests": digests, "reviewer": "admin"},
    });
    let path = "/apis/setpoint.dev/v1alpha1/namespaces/kube-system/reviews";
    cluster.client()?.post(path, &review).await?.success()?;
    let is_over = |set: &Value| set["status"]["phase"] == "Failed";
    cluster.until_change_set(SYSTEM, "it to be rejected", is_over).await?;
    let since = Timestamp::now() + A_WHILE;
    let is_later = |lab: &Value| time(&lab["status"]["observedAt"]).is_ok_and(|seen| seen > since);
    cluster.until_environment("it to be looked at again", is_later).await?;
    let sets = cluster.list(SYSTEM_CHANGE_SETS).await?;
    ensure!(sets.len() == 1 && cluster.truth()?.len() == 1, "nobody is asked over and over: {sets:?}");
    Ok(())
}
