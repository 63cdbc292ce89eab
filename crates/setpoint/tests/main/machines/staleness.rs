//! An approval is of one change exactly: what has become another waits again, and what has not goes on.

use std::fs;
use std::process::{Command, Output};

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::wait_for;

use super::cluster::{CHANGE_SETS, Cluster, PATIENCE, condition, done, machine, text};
use super::people::{is_made_for, state, steps};
use crate::SETPOINT;

const DEFAULT: &str = "default";
const GATES: &str = "/apis/planspec.io/v1alpha1/namespaces/default/gates";

/// A Machine with data, of an image that only a new guest can have.
fn with_data(image: &str, more: Value) -> Value {
    let mut fields = json!({"image": image, "volumes": [{"name": "data", "size": "10Gi"}]});
    if let (Value::Object(fields), Value::Object(more)) = (&mut fields, more) {
        fields.extend(more);
    }
    fields
}

/// Why what a Machine asks for is not carried out.
fn message(machine: &Value) -> String {
    text(&condition(machine, "Synced")["message"])
}

/// Has `setpoint apply` write Machines, with the consent of who says so.
fn apply(cluster: &Cluster, machines: &[Value]) -> Result<Output> {
    let file = cluster.server.folder().join("shop.yaml");
    let documents: Vec<String> = machines.iter().map(ToString::to_string).collect();
    fs::write(&file, documents.join("\n---\n"))?;
    let mut command = Command::new(SETPOINT);
    command.args(["apply", "-y", "--timeout", "60", "-f"]).arg(&file);
    Ok(command.arg("--kubeconfig").arg(cluster.server.kubeconfig_path()).output()?)
}

/// Of the two guests, only one has fields that somebody changes by hand: what is not managed is nobody's drift.
fn shop(version: u32) -> [Value; 2] {
    let managed = json!({"cores": 2, "memory": "1Gi", "description": "the database"});
    [
        machine("files", with_data(&format!("files:{version}"), json!({}))),
        machine("db", with_data(&format!("db:{version}"), managed)),
    ]
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_what_was_approved_the_step_that_changed_waits_again_and_the_rest_go_on() -> Result<()> {
    let rules = json!({"approval": {"rules": [{"class": "Destructive", "approvals": 2}]}});
    let cluster = Cluster::start(json!({}), rules).await?;
    cluster.appoint("alice", DEFAULT).await?;
    cluster.until_environment("a place", |lab| condition(lab, "Ready")["status"] == "True").await?;
    let made = apply(&cluster, &shop(1))?;
    ensure!(made.status.code() == Some(0), "{made:?}");

    // Who applies is the first of two to approve.
    let applied = apply(&cluster, &shop(2))?;
    ensure!(applied.status.code() == Some(2), "it waits for another: {applied:?}");
    let is_applied = |set: &Value| text(&set["metadata"]["name"]).starts_with("apply-");
    let waits = |set: &Value| is_applied(set) && set["status"]["phase"] == "Waiting";
    let set = cluster.until_change_set(DEFAULT, "the change set of the apply to wait", waits).await?;
    ensure!(steps(&set).len() == 2, "{set:#}");
    for name in ["files", "db"] {
        let is_approved = |machine: &Value| message(machine).contains("Destructive: 1 of 2 approvals (admin until ");
        cluster.until(name, "it to wait for the second", is_approved).await?;
    }
    let step = steps(&set).iter().find(|step| step["id"] == "default/db/replace").context("a step for db")?;
    let approved = step["digest"].clone();

    cluster.configure(json!({"driftEveryMs": 20, "drift": ["changed"]})).await?;
    let is_another =
        |own: &Value| is_made_for(own, "db") && steps(own).first().is_some_and(|step| step["digest"] != approved);
    cluster.until_change_set(DEFAULT, "db to need something else", is_another).await?;
    cluster.configure(json!({"driftEveryMs": null})).await?;

    cluster.approve("alice", &set).await?;
    let is_over = |set: &Value| is_applied(set) && set["status"]["phase"] == "Stale";
    let set = cluster.until_change_set(DEFAULT, "what is left to be stale", is_over).await?;
    ensure!(state(&set, "default/files/replace")["state"] == "Done", "{set:#}");
    let left = state(&set, "default/db/replace");
    ensure!(left["state"] == "Stale" && left["message"] == "it is no longer what is to be done", "{set:#}");
    let files = cluster.synced("files").await?;
    ensure!(cluster.guest(&files)?["machine"]["image"] == "files:2", "{files:#}");
    let waits = |db: &Value| message(db).contains("Destructive: 0 of 2 approvals");
    let db = cluster.until("db", "it to wait for both again", waits).await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:1" && done(&db) == ["Create"], "{db:#}");
    Ok(())
}

/// Keeps every step from being taken: the place takes no calls.
async fn go_silent(cluster: &Cluster) -> Result<()> {
    cluster.configure(json!({"down": "refuses"})).await?;
    let is_silent = |lab: &Value| condition(lab, "Ready")["reason"] == "Unreachable";
    cluster.until_environment("the place not to answer", is_silent).await.map(drop)
}

async fn come_back(cluster: &Cluster) -> Result<()> {
    cluster.configure(json!({"down": null})).await?;
    let is_back = |lab: &Value| {
        let ready = condition(lab, "Ready");
        ready["reason"] == "Reachable" && ready["observedGeneration"] == lab["metadata"]["generation"]
    };
    cluster.until_environment("the place to answer", is_back).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_does_not_outlive_an_edit() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.appoint("alice", DEFAULT).await?;
    cluster.make("db", with_data("db:1", json!({"cores": 2}))).await?;
    let before = cluster.synced("db").await?;
    cluster.change("db", json!({"spec": {"image": "db:2"}})).await?;
    let set = cluster.asked_for("db").await?;
    let is_at = |set: &Value, phase: &'static str| {
        let uid = set["metadata"]["uid"].clone();
        move |set: &Value| set["metadata"]["uid"] == uid && set["status"]["phase"] == phase
    };

    go_silent(&cluster).await?;
    let review = cluster.approve("alice", &set).await?;
    cluster.answered(&review, "Counted").await?;
    cluster.until_change_set(DEFAULT, "nobody to be waited for", is_at(&set, "Running")).await?;
    cluster.change("db", json!({"spec": {"image": "db:3"}})).await?;
    cluster.answered(&review, "Outdated").await?;
    come_back(&cluster).await?;
    let again = asked(&cluster, &["db:3"]).await?.remove(0);
    let db = cluster.look_again("db").await?;
    ensure!(condition(&db, "Synced")["reason"] == "Waiting" && done(&db) == ["Create"], "{db:#}");
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:1", "nobody approved another image: {db:#}");

    // It is approved, too, and by then nobody wants a new guest at all.
    go_silent(&cluster).await?;
    let review = cluster.approve("alice", &again).await?;
    cluster.answered(&review, "Counted").await?;
    cluster.change("db", json!({"spec": {"image": "db:1", "cores": 4}})).await?;
    come_back(&cluster).await?;
    let over = cluster.until_change_set(DEFAULT, "what was approved to be stale", is_at(&again, "Stale")).await?;
    ensure!(state(&over, "default/db/replace")["message"] == "it was written otherwise since", "{over:#}");
    let db = cluster.synced("db").await?;
    ensure!(db["status"]["providerId"] == before["status"]["providerId"], "it is the same guest: {db:#}");
    ensure!(done(&db) == ["Create", "Update"] && cluster.guest(&db)?["machine"]["cores"] == 4, "{db:#}");
    Ok(())
}

fn phase(set: &Value) -> String {
    text(&set["status"]["phase"])
}

/// The image that a change set would give a guest.
fn image(set: &Value) -> String {
    let changes = steps(set).iter().flat_map(|step| step["changes"].as_array().into_iter().flatten());
    let image = changes.filter(|change| change["field"] == "image").map(|change| text(&change["to"])).next();
    image.unwrap_or_default()
}

/// Waits until these are the images that people are asked about, and returns the change sets in which they are.
async fn asked(cluster: &Cluster, images: &[&str]) -> Result<Vec<Value>> {
    let found = wait_for(format!("people to be asked about {images:?} alone"), PATIENCE, || async {
        let sets = cluster.list(CHANGE_SETS).await?;
        let waiting: Vec<Value> = sets.into_iter().filter(|set| phase(set) == "Waiting").collect();
        Ok((waiting.iter().map(image).eq(images.iter().copied())).then_some(waiting))
    });
    match found.await {
        Ok(waiting) => Ok(waiting),
        Err(error) => Err(error.context(format!("{:#?}", cluster.list(CHANGE_SETS).await?))),
    }
}

fn approve(cluster: &Cluster, set: &Value) -> Result<Output> {
    let mut command = Command::new(SETPOINT);
    command.args(["approve", "-y"]).arg(text(&set["metadata"]["name"]));
    Ok(command.arg("--kubeconfig").arg(cluster.server.kubeconfig_path()).output()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_are_asked_about_a_machine_in_one_change_set_at_a_time() -> Result<()> {
    let rules = json!({"approval": {"rules": [{"class": "Destructive", "approvals": 2}]}});
    let cluster = Cluster::start(json!({}), rules).await?;
    cluster.until_environment("a place", |lab| condition(lab, "Ready")["status"] == "True").await?;
    let made = apply(&cluster, &[machine("db", with_data("db:1", json!({})))])?;
    ensure!(made.status.code() == Some(0), "{made:?}");

    let mut first = None;
    for wanted in ["db:2", "db:3", "db:2", "db:3"] {
        let applied = apply(&cluster, &[machine("db", with_data(wanted, json!({})))])?;
        ensure!(applied.status.code() == Some(2), "it waits for another: {applied:?}");
        let asked = asked(&cluster, &[wanted]).await?;
        first.get_or_insert_with(|| asked[0].clone());
    }
    let first = first.context("a first change set")?;
    let refused = approve(&cluster, &first)?;
    let said = String::from_utf8_lossy(&refused.stderr);
    ensure!(refused.status.code() == Some(1) && said.contains("is outdated: "), "{refused:?}");
    let gate = format!("{GATES}/{}", text(&first["metadata"]["name"]));
    let gate = cluster.client()?.get(&gate).await?.success()?;
    ensure!(gate["status"]["phase"] == "Pending", "nobody is waited for there: {gate:#}");

    // What is written without asking first is asked about by the controller.
    cluster.change("db", json!({"spec": {"image": "db:4"}})).await?;
    let own = asked(&cluster, &["db:4"]).await?;
    ensure!(is_made_for(&own[0], "db"), "{own:#?}");
    cluster.change("db", json!({"spec": {"image": "db:1"}})).await?;
    cluster.synced("db").await?;
    asked(&cluster, &[]).await?;
    cluster.change("db", json!({"spec": {"image": "db:4"}})).await?;
    asked(&cluster, &["db:4"]).await?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_rejected_leaves_no_other_question_open() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("db", with_data("db:1", json!({}))).await?;
    cluster.synced("db").await?;
    cluster.change("db", json!({"spec": {"image": "db:2"}})).await?;
    let rejected = asked(&cluster, &["db:2"]).await?.remove(0);
    let mut command = Command::new(SETPOINT);
    command.args(["reject", "-y"]).arg(text(&rejected["metadata"]["name"]));
    let said = command.arg("--kubeconfig").arg(cluster.server.kubeconfig_path()).output()?;
    ensure!(said.status.success(), "{said:?}");
    for (wanted, asks) in [("db:3", &["db:3"][..]), ("db:2", &[]), ("db:3", &["db:3"]), ("db:2", &[])] {
        cluster.change("db", json!({"spec": {"image": wanted}})).await?;
        asked(&cluster, asks).await?;
    }
    let is_it = |set: &Value| set["metadata"]["uid"] == rejected["metadata"]["uid"] && phase(set) == "Failed";
    cluster.until_change_set(DEFAULT, "the rejection to hold", is_it).await?;
    let db = cluster.until("db", "it to be refused", |db| message(db).contains("rejected by admin")).await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:1", "{db:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_approved_for_one_write_serves_no_other() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.appoint("alice", DEFAULT).await?;
    cluster.make("db", with_data("db:1", json!({}))).await?;
    let db = cluster.synced("db").await?;
    let mut proposed = machine("db", db["spec"].clone());
    proposed["spec"]["image"] = json!("db:2");
    let set = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "proposal"},
        "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "admin", "objects": [proposed]},
    });
    cluster.client()?.post(CHANGE_SETS, &set).await?.success()?;
    let set = asked(&cluster, &["db:2"]).await?.remove(0);
    let review = cluster.approve("alice", &set).await?;
    cluster.answered(&review, "Counted").await?;

    // Somebody else writes something else, and by and by what was proposed is there all the same.
    cluster.change("db", json!({"spec": {"description": "ours"}})).await?;
    cluster.answered(&review, "Outdated").await?;
    cluster.change("db", json!({"spec": {"description": null}})).await?;
    cluster.synced("db").await?;
    cluster.change("db", json!({"spec": {"image": "db:2"}})).await?;
    let own = asked(&cluster, &["db:2"]).await?.remove(0);
    ensure!(is_made_for(&own, "db"), "{own:#}");
    let db = cluster.look_again("db").await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:1", "nobody approved this write: {db:#}");
    cluster.approve("alice", &own).await?;
    let db = cluster.synced("db").await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:2", "{db:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_approval_that_is_gone_does_not_come_back_with_the_step() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.appoint("alice", DEFAULT).await?;
    cluster.make("db", with_data("db:1", json!({}))).await?;
    cluster.synced("db").await?;
    cluster.change("db", json!({"spec": {"image": "db:2"}})).await?;
    let set = asked(&cluster, &["db:2"]).await?.remove(0);
    cluster.change("db", json!({"spec": {"image": "db:3"}})).await?;
    asked(&cluster, &["db:3"]).await?;
    let late = cluster.approve("alice", &set).await?;
    cluster.answered(&late, "Outdated").await?;

    cluster.change("db", json!({"spec": {"image": "db:2"}})).await?;
    let again = asked(&cluster, &["db:2"]).await?.remove(0);
    ensure!(steps(&again)[0]["digest"] == steps(&set)[0]["digest"], "the very same step: {again:#}");
    let db = cluster.look_again("db").await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:1", "nobody approved this write: {db:#}");
    cluster.approve("alice", &again).await?;
    let db = cluster.synced("db").await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "db:2", "{db:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_approved_of_a_deletion_serves_no_other() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.appoint("alice", DEFAULT).await?;
    cluster.make("db", with_data("db:1", json!({}))).await?;
    cluster.synced("db").await?;
    let db = json!({"kind": "Machine", "namespace": DEFAULT, "name": "db"});
    let set = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "goodbye"},
        "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "admin", "deletes": [db]},
    });
    cluster.client()?.post(CHANGE_SETS, &set).await?.success()?;
    let waits = |set: &Value| set["metadata"]["name"] == "goodbye" && phase(set) == "Waiting";
    let set = cluster.until_change_set(DEFAULT, "people to be asked", waits).await?;
    let review = cluster.approve("alice", &set).await?;
    cluster.answered(&review, "Counted").await?;

    // It is written once more before somebody deletes it.
    cluster.change("db", json!({"spec": {"description": "still needed"}})).await?;
    cluster.answered(&review, "Outdated").await?;
    cluster.delete("db").await?;
    let own = cluster.asked_for("db").await?;
    ensure!(is_made_for(&own, "db"), "{own:#}");
    let db = cluster.look_again("db").await?;
    cluster.guest(&db).context("nobody approved this deletion")?;
    cluster.approve("alice", &own).await?;
    cluster.gone("db").await
}
