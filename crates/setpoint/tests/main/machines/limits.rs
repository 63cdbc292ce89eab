//! Limits that hold for single namespaces and for what was released, and what is protected until its mark is gone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_api::environment::WRITTEN_OFF;
use setpoint_testkit::wait_for;

use super::cluster::{Cluster, ENVIRONMENT, MACHINES, PATIENCE, condition, is_synced, machine, text};

const OF_CRM: &str = "/apis/setpoint.dev/v1alpha1/namespaces/crm/machines";

fn stands(machine: &Value, reason: &str, words: &str) -> bool {
    let synced = condition(machine, "Synced");
    synced["reason"] == reason && text(&synced["message"]).contains(words)
}

/// Waits until a Machine of the namespace `crm` is so.
async fn until_in_crm(cluster: &Cluster, name: &str, is_so: impl Fn(&Value) -> bool) -> Result<()> {
    let (is_so, path) = (&is_so, &format!("{OF_CRM}/{name}"));
    let found = wait_for(format!("{name} to be so"), PATIENCE, || async move {
        let machine = cluster.client()?.get(path).await?.success()?;
        Ok(is_so(&machine).then_some(()))
    });
    match found.await {
        Ok(()) => Ok(()),
        Err(error) => Err(error.context(cluster.client()?.get(path).await?.text())),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_namespace_does_not_use_up_the_place_for_all() -> Result<()> {
    let limits = json!([{"namespace": "default", "maxHourlyCost": "0.35"}, {"namespace": "*", "maxInstances": 1}]);
    let rules = json!({"guardrails": {"maxInstances": 9, "namespaces": limits}});
    let mut cluster = Cluster::start(json!({"hourlyPrice": "0.10"}), rules).await?;
    for name in ["one", "two", "three"] {
        cluster.make(name, json!({"cores": 1})).await?;
        cluster.synced(name).await?;
    }
    cluster.make("four", json!({"cores": 1})).await?;
    let over = "$0.30/h in use by namespace default + $0.10/h for this step exceeds maxHourlyCost $0.35/h";
    cluster.until("four", "the limit to hold it", |four| stands(four, "OverLimit", over)).await?;

    let crm = json!({"metadata": {"name": "crm"}});
    cluster.client()?.post("/api/v1/namespaces", &crm).await?.success()?;
    for name in ["one", "two"] {
        cluster.client()?.post(OF_CRM, &machine(name, json!({"cores": 1}))).await?.success()?;
        if name == "one" {
            until_in_crm(&cluster, name, is_synced).await?;
        }
    }
    let full = "1 instance in use by namespace crm + 1 for this step exceeds maxInstances 1";
    until_in_crm(&cluster, "two", |two| stands(two, "OverLimit", full)).await?;

    cluster.server.kill9()?;
    cluster.server.restart().await?;
    let held = cluster.look_again("four").await?;
    ensure!(stands(&held, "OverLimit", "") && cluster.made()? == 4, "the limit holds it no longer: {held:#}");
    cluster.delete("one").await?;
    cluster.gone("one").await?;
    cluster.synced("four").await?;
    ensure!(cluster.truth()?.len() == 4 && cluster.made()? == 5, "one after the other");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_released_counts_until_it_is_written_off() -> Result<()> {
    let rules = json!({"guardrails": {"maxHourlyCost": "0.15"}});
    let mut cluster = Cluster::start(json!({"hourlyPrice": "0.10"}), rules).await?;
    let kept = || json!({"cores": 1, "deletionPolicy": "Retain"});
    cluster.make("web", kept()).await?;
    let web = cluster.synced("web").await?;
    cluster.delete("web").await?;
    cluster.gone("web").await?;
    let truth = cluster.truth()?;
    ensure!(
        truth.len() == 1 && truth.values().all(|guest| guest["mark"].is_null()),
        "it stays, without a mark: {truth:?}"
    );
    let lab = cluster.until_environment("it to be listed", |lab| !lab["status"]["released"].is_null()).await?;
    let released = &lab["status"]["released"][0];
    ensure!(released["providerId"] == web["status"]["providerId"] && released["hourlyCost"] == "0.10", "{lab:#}");
    ensure!(released["namespace"] == "default" && released["machine"] == "web", "{lab:#}");

    cluster.make("web", kept()).await?;
    let over = "$0.10/h in use + $0.10/h for this step exceeds maxHourlyCost $0.15/h";
    cluster.until("web", "the limit to hold it", |web| stands(web, "OverLimit", over)).await?;
    cluster.server.kill9()?;
    cluster.server.restart().await?;
    let held = cluster.look_again("web").await?;
    ensure!(stands(&held, "OverLimit", "") && cluster.made()? == 1, "the limit holds it no longer: {held:#}");

    let written_off = json!({"metadata": {"annotations": {WRITTEN_OFF: text(&released["call"])}}});
    cluster.client()?.patch(ENVIRONMENT, "merge-patch", &written_off).await?.success()?;
    cluster.synced("web").await?;
    ensure!(cluster.truth()?.len() == 2, "what was released is left alone");
    let lab = cluster.environment().await?;
    ensure!(lab["status"]["released"].as_array().is_none_or(Vec::is_empty), "{lab:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn to_release_what_costs_money_is_to_spend_it() -> Result<()> {
    let cluster = Cluster::start(json!({"hourlyPrice": "0.10"}), json!({})).await?;
    cluster.make("web", json!({"cores": 1, "deletionPolicy": "Retain"})).await?;
    cluster.synced("web").await?;
    let stricter = json!({"spec": {"approval": {"rules": [{"class": "Spend", "approvals": 1}]}}});
    cluster.client()?.patch(ENVIRONMENT, "merge-patch", &stricter).await?.success()?;
    cluster.delete("web").await?;
    cluster.until("web", "people to be asked", |web| stands(web, "Waiting", "Spend: 0 of 1 approval")).await?;
    cluster.guest(&cluster.look_again("web").await?)?;
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_protected_volume_keeps_its_guest() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    let data = |protected: bool| json!([{"name": "data", "size": "10Gi", "protected": protected}]);
    cluster.make("db", json!({"image": "a:1", "volumes": data(true)})).await?;
    let db = cluster.synced("db").await?;
    ensure!(db["status"]["protected"] == json!(["volumes.data"]), "{db:#}");
    let path = format!("{MACHINES}/db");
    let refused = cluster.client()?.delete(&path).await?;
    ensure!(refused.status == 403 && refused.text().contains("its volume data is protected"), "{}", refused.text());
    let refused = cluster.client()?.delete(MACHINES).await?;
    ensure!(refused.status == 403 && refused.text().contains("its volume data is protected"), "{}", refused.text());
    for volumes in [json!([]), json!(null), json!([{"name": "other", "size": "1Gi"}])] {
        let without = json!({"spec": {"volumes": volumes}});
        let refused = cluster.client()?.patch(&path, "merge-patch", &without).await?;
        ensure!(refused.status == 422 && refused.text().contains("protected volume"), "{}", refused.text());
    }
    cluster.change("db", json!({"spec": {"image": "a:2"}})).await?;
    let is_kept = |db: &Value| stands(db, "Waiting", "would replace it, and its volume data is protected");
    cluster.until("db", "it to wait", is_kept).await?;

    cluster.change("db", json!({"spec": {"volumes": data(false)}})).await?;
    let db =
        cluster.until("db", "people to be asked", |db| stands(db, "Waiting", "Destructive: 0 of 1 approval")).await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "a:1", "{db:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_mark_that_is_taken_off_with_the_same_write_protects_once_more() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", json!({"image": "a:1"})).await?;
    cluster.synced("web").await?;
    let mark = |value: Value| json!({"metadata": {"annotations": {"setpoint.dev/protected": value}}});
    cluster.change("web", mark(json!("true"))).await?;
    cluster.until("web", "the mark to be on record", |web| web["status"]["protected"] == json!(["guest"])).await?;
    let mut at_once = mark(Value::Null);
    at_once["spec"] = json!({"image": "a:2"});
    cluster.change("web", at_once).await?;
    let asked = |web: &Value| stands(web, "Waiting", "Destructive: 0 of 1 approval");
    cluster.until("web", "people to be asked", asked).await?;
    cluster.change("web", json!({"spec": {"image": "a:1"}})).await?;
    let is_free = |web: &Value| is_synced(web) && web["status"]["protected"].is_null();
    cluster.until("web", "nothing to be protected", is_free).await?;
    cluster.change("web", json!({"spec": {"image": "a:2"}})).await?;
    let web = cluster.synced("web").await?;
    ensure!(cluster.guest(&web)?["machine"]["image"] == "a:2", "without the mark it is a matter of course: {web:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_survives_a_stop_is_data() -> Result<()> {
    let cluster = Cluster::start(json!({"ephemeralDisks": false}), json!({})).await?;
    cluster.make("db", json!({"image": "a:1", "disk": "10Gi"})).await?;
    cluster.make("web", json!({"image": "a:1"})).await?;
    cluster.synced("db").await?;
    cluster.synced("web").await?;
    for name in ["db", "web"] {
        cluster.change(name, json!({"spec": {"image": "a:2"}})).await?;
    }
    let asked = |db: &Value| stands(db, "Waiting", "Destructive: 0 of 1 approval");
    let db = cluster.until("db", "people to be asked", asked).await?;
    ensure!(cluster.guest(&db)?["machine"]["image"] == "a:1", "{db:#}");
    let web = cluster.synced("web").await?;
    ensure!(cluster.guest(&web)?["machine"]["image"] == "a:2", "it has no disk: {web:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_was_there_before_stays_when_its_machine_goes() -> Result<()> {
    let existing = json!([{"id": "101", "name": "old", "cores": 1}]);
    let rules = json!({"approval": {"rules": [{"class": "Destructive", "approvals": 0}]}});
    let cluster = Cluster::start(json!({"existing": existing}), rules).await?;
    cluster.make("old", json!({"providerId": "101"})).await?;
    cluster.synced("old").await?;
    cluster.delete("old").await?;
    cluster.gone("old").await?;
    let truth = cluster.truth()?;
    ensure!(truth.len() == 1 && truth.values().all(|guest| guest["mark"].is_null()), "it stays: {truth:?}");
    let released = cluster.environment().await?["status"]["released"].clone();
    ensure!(released.is_null(), "it costs nothing and was there before us: {released:#}");
    Ok(())
}
