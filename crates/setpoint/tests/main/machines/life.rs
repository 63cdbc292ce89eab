//! The life of a Machine: made, changed in place, stopped, replaced, adopted, deleted.

use anyhow::{Result, ensure};
use serde_json::json;

use super::cluster::{Cluster, condition, done, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_is_made_changed_and_deleted() -> Result<()> {
    let cluster = Cluster::start(json!({"hourlyPrice": "0.10", "startMs": 20}), json!({})).await?;
    cluster.make("web", json!({"cores": 2, "memory": "1Gi", "env": [{"name": "MODE", "value": "test"}]})).await?;
    cluster.synced("web").await?;
    let web = cluster.until("web", "its guest to run", |web| condition(web, "Ready")["status"] == "True").await?;
    ensure!(condition(&web, "Drifted")["status"] == "False", "{web:#}");
    ensure!(web["status"]["run"] == "running" && web["status"]["hourlyCost"] == "0.10", "{web:#}");
    ensure!(web["status"]["observed"]["memory"] == "1024MiB", "{web:#}");
    ensure!(done(&web) == ["Create"], "{web:#}");
    let id = text(&web["status"]["providerId"]);

    cluster.change("web", json!({"spec": {"cores": 4, "description": "the web server"}})).await?;
    let web = cluster.synced("web").await?;
    ensure!(done(&web) == ["Create", "Update"], "one write for all: {web:#}");
    ensure!(web["status"]["providerId"] == *id && web["status"]["observed"]["cores"] == "4", "{web:#}");
    ensure!(cluster.guest(&web)?["machine"]["cores"] == 4, "the guest itself was changed");

    cluster.change("web", json!({"spec": {"run": "Stopped"}})).await?;
    let web = cluster.synced("web").await?;
    ensure!(web["status"]["run"] == "stopped" && condition(&web, "Ready")["status"] == "True", "{web:#}");
    ensure!(condition(&web, "Drifted")["status"] == "False", "a wish is no drift: {web:#}");
    cluster.change("web", json!({"spec": {"run": "Running"}})).await?;
    let web = cluster.synced("web").await?;
    ensure!(done(&web).ends_with(&["Stop".to_owned(), "Start".to_owned()]), "{web:#}");

    cluster.change("web", json!({"spec": {"env": [{"name": "MODE", "value": "prod"}]}})).await?;
    let web = cluster.synced("web").await?;
    ensure!(done(&web).ends_with(&["Update".to_owned(), "Restart".to_owned()]), "{web:#}");
    ensure!(web["status"]["observed"]["env.MODE"] == "prod", "{web:#}");

    let lab = cluster.until_environment("its census", |lab| lab["status"]["instances"] == 1).await?;
    ensure!(lab["status"]["hourlyCost"] == "0.10" && lab["status"]["drifted"] == 0, "{lab:#}");
    ensure!(condition(&lab, "WithinLimits")["status"] == "True", "{lab:#}");

    cluster.delete("web").await?;
    cluster.gone("web").await?;
    ensure!(cluster.truth()?.is_empty(), "its guest is gone with it");
    ensure!(cluster.made()? == 1, "it was made once");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_changed_in_place_is_made_anew() -> Result<()> {
    let rules = json!({"approval": {"rules": [{"class": "Disruptive", "approvals": 0}]}});
    let cluster = Cluster::start(json!({}), rules).await?;
    cluster.make("gpu", json!({"image": "a:1", "disk": "10Gi"})).await?;
    let before = cluster.synced("gpu").await?;
    cluster.change("gpu", json!({"spec": {"disk": "20Gi"}})).await?;
    let grown = cluster.synced("gpu").await?;
    ensure!(done(&grown) == ["Create", "Grow"], "{grown:#}");
    cluster.change("gpu", json!({"spec": {"disk": "5Gi"}})).await?;
    let shrunk = cluster.until("gpu", "a refusal", |gpu| condition(gpu, "Synced")["reason"] == "Refused").await?;
    let message = text(&condition(&shrunk, "Synced")["message"]);
    ensure!(message.contains("spec.disk: it can only grow"), "{message}");
    cluster.change("gpu", json!({"spec": {"disk": "20Gi", "image": "a:2"}})).await?;
    let after = cluster.synced("gpu").await?;
    ensure!(after["status"]["providerId"] != before["status"]["providerId"], "{after:#}");
    ensure!(cluster.guest(&after)?["machine"]["image"] == "a:2", "the new guest is as desired");
    ensure!(cluster.truth()?.len() == 1, "the old guest is gone");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_of_somebody_else_is_adopted_and_released() -> Result<()> {
    let existing = json!([
        {"id": "101", "name": "db", "cores": 2, "memory": "2Gi", "holdsData": true},
        {"id": "102", "name": "mail", "cores": 1},
    ]);
    let cluster = Cluster::start(json!({"existing": existing}), json!({})).await?;
    cluster.make("db", json!({"providerId": "101", "cores": 4, "deletionPolicy": "Retain"})).await?;
    let db = cluster.synced("db").await?;
    ensure!(done(&db) == ["Adopt", "Update"], "{db:#}");
    ensure!(db["status"]["providerId"] == "101" && db["status"]["observed"]["cores"] == "4", "{db:#}");
    ensure!(db["status"]["observed"]["memory"] == "2048MiB", "what is not managed is shown and left alone: {db:#}");

    cluster.make("rival", json!({"providerId": "101"})).await?;
    let is_refused = |machine: &serde_json::Value| condition(machine, "Synced")["reason"] == "Refused";
    let rival = cluster.until("rival", "a refusal", is_refused).await?;
    ensure!(text(&condition(&rival, "Synced")["message"]).contains("101"), "{rival:#}");
    cluster.delete("rival").await?;
    cluster.gone("rival").await?;

    cluster.delete("db").await?;
    cluster.gone("db").await?;
    let truth = cluster.truth()?;
    ensure!(
        truth.len() == 2 && truth.values().all(|guest| guest["mark"].is_null()),
        "it stays, without a mark: {truth:?}"
    );
    ensure!(cluster.made()? == 2, "nothing was made");
    Ok(())
}
