//! What cannot be undone waits, and says for whom; limits hold across restarts; what belongs to nothing is told of.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::wait_for;

use super::cluster::{CHANGE_SETS, Cluster, MACHINES, PATIENCE, condition, text};

fn with_data() -> Value {
    json!({"cores": 1, "volumes": [{"name": "data", "size": "10Gi"}]})
}

fn stands(machine: &Value, reason: &str) -> bool {
    condition(machine, "Synced")["reason"] == reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_with_data_is_not_deleted_before_somebody_says_so() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("db", with_data()).await?;
    cluster.synced("db").await?;
    cluster.delete("db").await?;
    let db = cluster.until("db", "it to wait", |db| stands(db, "Waiting")).await?;
    let message = text(&condition(&db, "Synced")["message"]);
    ensure!(message.contains("Destructive: 0 of 1 approval"), "{message}");
    ensure!(cluster.truth()?.len() == 1, "its guest is there");
    let sets = cluster.list(CHANGE_SETS).await?;
    ensure!(sets.len() == 1, "{sets:?}");
    let set = &sets[0];
    ensure!(set["spec"]["mode"] == "Execute" && set["metadata"]["ownerReferences"][0]["name"] == "db", "{set:#}");
    let step = &set["status"]["steps"][0];
    ensure!(step["action"] == "Delete" && step["classReason"] == "its data would be lost", "{set:#}");
    let told = setpoint_testkit::wait_for("an Event", super::cluster::PATIENCE, || async {
        let told = cluster.told("db", "Waiting").await?;
        Ok((!told.is_empty()).then_some(told))
    });
    ensure!(told.await?[0].contains("approval"), "people are told");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_protected_is_neither_deleted_nor_replaced() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", json!({"image": "a:1"})).await?;
    cluster.synced("web").await?;
    cluster.change("web", json!({"metadata": {"annotations": {"setpoint.dev/protected": "true"}}})).await?;
    let refused = cluster.client()?.delete(&format!("{MACHINES}/web")).await?;
    ensure!(!refused.status.is_success() && refused.text().contains("protected"), "{}", refused.text());
    cluster.change("web", json!({"spec": {"image": "a:2"}})).await?;
    let web = cluster.until("web", "it to wait", |web| stands(web, "Waiting")).await?;
    let message = text(&condition(&web, "Synced")["message"]);
    ensure!(message.contains("image a:1->a:2 would replace it, and it is protected"), "{message}");
    ensure!(cluster.guest(&web)?["machine"]["image"] == "a:1", "{web:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn limits_hold_across_a_restart() -> Result<()> {
    let rules = json!({
        "approval": {"rules": [{"class": "Destructive", "approvals": 0}]},
        "guardrails": {"maxDestroysPerHour": 1, "maxInstances": 2},
    });
    let mut cluster = Cluster::start(json!({}), rules).await?;
    for name in ["one", "two", "three"] {
        cluster.make(name, with_data()).await?;
    }
    let lab = cluster.until_environment("two instances", |lab| {
        lab["status"]["instances"] == 2 && condition(lab, "WithinLimits")["reason"] == "HeldBack"
    });
    lab.await?;
    ensure!(cluster.made()? == 2, "there is no third");
    let mut made = Vec::new();
    for name in ["one", "two", "three"] {
        let machine = cluster.client()?.get(&format!("{MACHINES}/{name}")).await?.success()?;
        made.extend(machine["status"]["providerId"].is_string().then_some(name));
    }
    ensure!(made.len() == 2, "{made:?}");
    cluster.delete(made[0]).await?;
    cluster.gone(made[0]).await?;
    cluster.delete(made[1]).await?;
    cluster.until(made[1], "the limit to hold it", |machine| stands(machine, "OverLimit")).await?;
    cluster.server.kill9()?;
    cluster.server.restart().await?;
    let held = cluster.look_again(made[1]).await?;
    ensure!(stands(&held, "OverLimit"), "the limit holds it no longer: {held:#}");
    let message = text(&condition(&held, "Synced")["message"]);
    ensure!(message.contains("maxDestroysPerHour 1 is used up until "), "{message}");
    let ledger = cluster.environment().await?["status"]["ledger"].clone();
    ensure!(ledger.as_array().is_some_and(|ledger| ledger.len() == 1), "{ledger:#}");
    cluster.guest(&held)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_limit_holds_is_made_when_something_goes() -> Result<()> {
    let mut cluster = Cluster::start(json!({}), json!({"guardrails": {"maxInstances": 1}})).await?;
    cluster.make("first", json!({"cores": 1})).await?;
    cluster.synced("first").await?;
    cluster.make("second", json!({"cores": 1})).await?;
    let is_full = |machine: &Value| {
        let message = text(&condition(machine, "Synced")["message"]);
        stands(machine, "OverLimit") && message.contains("maxInstances 1 is used up until something else goes")
    };
    cluster.until("second", "the limit to hold it", is_full).await?;
    cluster.server.kill9()?;
    cluster.server.restart().await?;
    let held = cluster.look_again("second").await?;
    ensure!(stands(&held, "OverLimit") && cluster.made()? == 1, "the limit holds it no longer: {held:#}");
    cluster.until("second", "the limit to say so", is_full).await?;
    cluster.delete("first").await?;
    cluster.gone("first").await?;
    let second = cluster.synced("second").await?;
    cluster.guest(&second)?;
    ensure!(cluster.truth()?.len() == 1 && cluster.made()? == 2, "one after the other: {second:#}");
    cluster.until_environment("room", |lab| condition(lab, "WithinLimits")["status"] == "True").await?;
    Ok(())
}

/// It takes a minute: less time cannot be given.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_goes_when_its_time_is_over_and_one_with_data_waits_for_people() -> Result<()> {
    let mut cluster = Cluster::start(json!({}), json!({"guardrails": {"ttlSeconds": 60}})).await?;
    cluster.make("web", json!({"cores": 1})).await?;
    cluster.make("db", with_data()).await?;
    cluster.synced("db").await?;
    cluster.synced("web").await?;
    cluster.server.kill9()?;
    cluster.server.restart().await?;
    let over = wait_for("its time to be over", PATIENCE * 2, || async {
        let web = cluster.client()?.get(&format!("{MACHINES}/web")).await?.success()?;
        Ok(stands(&web, "Expired").then_some(web))
    });
    let web = over.await?;
    let message = text(&condition(&web, "Synced")["message"]);
    ensure!(message.contains("it has no guest any more, and gets none"), "{message}");
    let db = cluster.until("db", "it to wait", |db| stands(db, "Waiting")).await?;
    let message = text(&condition(&db, "Synced")["message"]);
    ensure!(message.contains("Destructive: 0 of 1 approval"), "{message}");
    cluster.guest(&db)?;
    ensure!(cluster.truth()?.len() == 1 && cluster.made()? == 2, "one is left, and none was made anew");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_belongs_to_nothing_is_told_of_and_left_alone() -> Result<()> {
    let cluster = Cluster::start(json!({"existing": [{"name": "theirs"}], "hourlyPrice": "0.10"}), json!({})).await?;
    cluster.make("web", with_data()).await?;
    let web = cluster.synced("web").await?;
    cluster.delete("web").await?;
    cluster.until("web", "it to wait", |web| stands(web, "Waiting")).await?;
    // Somebody takes it out of our hands, and its guest is left behind.
    cluster.change("web", json!({"metadata": {"finalizers": null}})).await?;
    cluster.gone("web").await?;
    let lab = cluster.until_environment("an orphan", |lab| lab["status"]["orphanCount"] == 1).await?;
    let orphan = &lab["status"]["orphans"][0];
    ensure!(orphan["providerId"] == web["status"]["providerId"] && orphan["hourlyCost"] == "0.10", "{lab:#}");
    ensure!(cluster.truth()?.len() == 2, "nothing is touched");
    Ok(())
}
