//! An Environment as the place of Machines: its credentials, what it says, and that it does not go before they do.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::wait_for;

use super::cluster::{Cluster, ENVIRONMENT, PATIENCE, condition, text};

const SECRETS: &str = "/api/v1/namespaces/default/secrets";

fn is_ready_because(environment: &Value, reason: &str) -> bool {
    condition(environment, "Ready")["reason"] == reason
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_environment_goes_after_its_machines() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", json!({"cores": 1})).await?;
    cluster.synced("web").await?;
    cluster.client()?.delete(ENVIRONMENT).await?.success()?;
    let lab = cluster.until_environment("it to wait", |lab| is_ready_because(lab, "Deleting")).await?;
    let message = text(&condition(&lab, "Ready")["message"]);
    ensure!(message == "1 Machine is yet to be deleted", "{message}");
    cluster.delete("web").await?;
    cluster.gone("web").await?;
    ensure!(cluster.truth()?.is_empty(), "its guest is gone with it");
    wait_for("the Environment to go", PATIENCE, || async {
        Ok((cluster.client()?.get(ENVIRONMENT).await?.status == 404).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn credentials_take_effect_without_a_restart() -> Result<()> {
    let rules = json!({"credentialsSecretRef": {"namespace": "default", "name": "keys"}});
    let cluster = Cluster::start(json!({}), rules).await?;
    cluster.make("web", json!({"cores": 1})).await?;
    cluster.until_environment("a refusal", |lab| is_ready_because(lab, "CredentialsMissing")).await?;
    let why = "the Environment lab is not open: there is no Secret default/keys with the credentials";
    let is_told = |web: &Value| {
        let synced = condition(web, "Synced");
        synced["reason"] == "Unobserved" && text(&synced["message"]) == why
    };
    cluster.until("web", "a word", is_told).await?;
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret", "metadata": {"name": "keys"}, "stringData": {"token": "s3cret"},
    });
    cluster.client()?.post(SECRETS, &secret).await?.success()?;
    cluster.synced("web").await?;
    cluster.until_environment("it to be open", |lab| is_ready_because(lab, "Reachable")).await?;
    let later = json!({"stringData": {"token": "an0ther"}});
    cluster.client()?.patch(&format!("{SECRETS}/keys"), "merge-patch", &later).await?.success()?;
    cluster.change("web", json!({"spec": {"cores": 2}})).await?;
    let web = cluster.synced("web").await?;
    ensure!(cluster.guest(&web)?["machine"]["cores"] == 2, "{web:#}");
    let is_lost = |web: &Value| {
        let is_unknown = |type_: &str| condition(web, type_)["status"] == "Unknown";
        is_unknown("Synced") && is_unknown("Ready") && condition(web, "Synced")["reason"] == "Unobserved"
    };
    let taken_away = json!({"data": null});
    for (name, goes, cores) in [("gone", true, 3), ("empty", false, 4)] {
        match goes {
            true => cluster.client()?.delete(&format!("{SECRETS}/keys")).await?.success()?,
            false => {
                let path = format!("{SECRETS}/keys");
                cluster.client()?.patch(&path, "merge-patch", &taken_away).await?.success()?
            }
        };
        cluster.until_environment(name, |lab| is_ready_because(lab, "CredentialsMissing")).await?;
        cluster.until("web", "nobody to know how it is", is_lost).await?;
        cluster.change("web", json!({"spec": {"cores": cores}})).await?;
        let is_told = |web: &Value| web["status"]["observedGeneration"] == web["metadata"]["generation"];
        let web = cluster.until("web", "it to be heard", is_told).await?;
        ensure!(is_lost(&web) && cluster.guest(&web)?["machine"]["cores"] == cores - 1, "{name}: {web:#}");
        match goes {
            true => cluster.client()?.post(SECRETS, &secret).await?.success()?,
            false => cluster.client()?.patch(&format!("{SECRETS}/keys"), "merge-patch", &later).await?.success()?,
        };
        let web = cluster.synced("web").await?;
        ensure!(cluster.guest(&web)?["machine"]["cores"] == cores, "{name}: {web:#}");
        cluster.until_environment("it to be open", |lab| is_ready_because(lab, "Reachable")).await?;
    }
    ensure!(!cluster.server.log().contains("s3cret"), "a secret is in the log");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_an_environment_holds_is_told_soon_after_it_came_or_went() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({"observeIntervalSeconds": 3600})).await?;
    cluster.until_environment("a first look", |lab| lab["status"]["instances"] == 0).await?;
    for name in ["web", "db"] {
        cluster.make(name, json!({"cores": 1})).await?;
    }
    cluster.until_environment("both to be counted", |lab| lab["status"]["instances"] == 2).await?;
    cluster.delete("web").await?;
    cluster.gone("web").await?;
    cluster.until_environment("the other to be counted", |lab| lab["status"]["instances"] == 1).await?;
    Ok(())
}
