//! What changes behind our back is brought back; what cannot be read is left alone.

use anyhow::{Result, ensure};
use serde_json::{Value, json};

use super::cluster::{Cluster, condition, done, is_synced, text};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_somebody_changes_by_hand_is_brought_back() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster
        .make("web", json!({"cores": 2, "memory": "1Gi", "description": "the web server", "run": "Running"}))
        .await?;
    cluster.synced("web").await?;
    cluster.configure(json!({"driftEveryMs": 100, "drift": ["changed", "stopped"]})).await?;
    let corrected = |web: &Value| done(web).iter().filter(|action| *action != "Create").count() >= 3;
    let web = cluster.until("web", "three corrections", corrected).await?;
    let told = cluster.told("web", "Updated").await?.into_iter().chain(cluster.told("web", "Started").await?);
    let told: Vec<String> = told.collect();
    ensure!(told.iter().all(|message| message.contains("spec drift: ") || message.contains("run \"")), "{told:?}");
    cluster.configure(json!({"driftEveryMs": null})).await?;
    let is_back = |web: &Value| is_synced(web) && condition(web, "Drifted")["status"] == "False";
    let after = cluster.until("web", "the guest to be as desired", is_back).await?;
    ensure!(after["status"]["providerId"] == web["status"]["providerId"], "it is the same guest");
    cluster.until_environment("no drift", |lab| lab["status"]["drifted"] == 0).await?;
    let guest = cluster.guest(&after)?;
    ensure!(guest["machine"]["cores"] == 2 && guest["machine"]["description"] == "the web server\n", "{guest:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_muted_field_may_differ() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", json!({"cores": 2})).await?;
    cluster.synced("web").await?;
    cluster.change("web", json!({"metadata": {"annotations": {"setpoint.dev/mute-drift": "cores"}}})).await?;
    cluster.configure(json!({"driftEveryMs": 50, "drift": ["changed"]})).await?;
    let is_muted = |web: &Value| web["status"]["drift"][0]["muted"] == true;
    let web = cluster.until("web", "a muted drift", is_muted).await?;
    ensure!(condition(&web, "Drifted")["status"] == "False" && is_synced(&web), "{web:#}");
    ensure!(done(&web) == ["Create"], "it is not corrected: {web:#}");
    cluster.configure(json!({"driftEveryMs": null})).await?;
    cluster.change("web", json!({"metadata": {"annotations": {"setpoint.dev/mute-drift": null}}})).await?;
    let is_corrected = |web: &Value| done(web).contains(&"Update".to_owned()) && is_synced(web);
    let corrected = cluster.until("web", "a correction", is_corrected).await?;
    ensure!(corrected["status"]["observed"]["cores"] == "2", "{corrected:#}");
    ensure!(corrected["status"]["providerId"] == web["status"]["providerId"], "{corrected:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_could_not_be_read_is_not_written_while_the_guest_is_kept_running() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", json!({"cores": 2, "run": "Running"})).await?;
    cluster.synced("web").await?;
    cluster.configure(json!({"unreadableConfigRate": 1.0})).await?;
    let is_opened = |lab: &Value| condition(lab, "Ready")["observedGeneration"] == lab["metadata"]["generation"];
    cluster.until_environment("the place to behave so", is_opened).await?;
    cluster.change("web", json!({"spec": {"cores": 4}})).await?;
    let is_unread = |web: &Value| condition(web, "Synced")["reason"] == "Unobserved";
    let web = cluster.until("web", "the config to be unreadable", is_unread).await?;
    let message = text(&condition(&web, "Synced")["message"]);
    ensure!(message.contains("its configuration could not be read and is not changed"), "{message}");
    cluster.configure(json!({"driftEveryMs": 200, "drift": ["stopped"]})).await?;
    let web = cluster.until("web", "a start", |web| done(web).contains(&"Start".to_owned())).await?;
    ensure!(cluster.guest(&web)?["machine"]["cores"] == 2, "nothing was written blindly");
    cluster.configure(json!({"driftEveryMs": null, "unreadableConfigRate": 0.0})).await?;
    let web = cluster.synced("web").await?;
    ensure!(cluster.guest(&web)?["machine"]["cores"] == 4, "{web:#}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_guest_that_vanished_is_made_again() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", json!({"cores": 2})).await?;
    let before = cluster.synced("web").await?;
    cluster.configure(json!({"driftEveryMs": 300, "drift": ["vanished"]})).await?;
    let is_new = |web: &Value| {
        web["status"]["providerId"].is_string() && web["status"]["providerId"] != before["status"]["providerId"]
    };
    cluster.until("web", "another guest", is_new).await?;
    cluster.configure(json!({"driftEveryMs": null})).await?;
    let is_whole = |web: &Value| is_synced(web) && condition(web, "Ready")["status"] == "True";
    let web = cluster.until("web", "a guest", is_whole).await?;
    ensure!(web["status"]["providerId"] != before["status"]["providerId"], "{web:#}");
    let told = cluster.told("web", "Created").await?;
    ensure!(told.iter().any(|message| message.starts_with("missing (was ")), "{told:?}");
    ensure!(cluster.truth()?.len() == 1, "there is one");
    Ok(())
}
