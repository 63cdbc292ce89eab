//! The policy in force through the real binary: looser rules wait for the approvals that the old ones ask for, and windows
//! hold steps until they open.

use std::process::{Command, Output};

use anyhow::{Result, ensure};
use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};

use super::cluster::{Cluster, ENVIRONMENT, condition, loosening, text};
use super::people::steps;
use crate::SETPOINT;

const SYSTEM: &str = "kube-system";
const IN_FORCE: &str = "PolicyInForce";

fn strict() -> Value {
    json!({"approval": {"rules": [{"class": "Destructive", "approvals": 2}]}})
}

fn lax() -> Value {
    json!({"spec": {"approval": {"rules": [{"class": "Destructive", "approvals": 0}]}}})
}

fn with_data() -> Value {
    json!({"cores": 1, "volumes": [{"name": "data", "size": "10Gi"}]})
}

/// Whether a Machine waits for this many approvals.
fn waits_for(web: &Value, approvals: u32) -> bool {
    let synced = condition(web, "Synced");
    synced["reason"] == "Waiting" && text(&synced["message"]).contains(&format!("of {approvals} approval"))
}

async fn write(cluster: &Cluster, patch: Value) -> Result<()> {
    cluster.client()?.patch(ENVIRONMENT, "merge-patch", &patch).await?.success().map(drop)
}

/// The change set in which a looser policy is asked about.
async fn asked(cluster: &Cluster) -> Result<Value> {
    let lab = cluster.until_environment("a looser policy to wait", |lab| loosening(lab).is_some()).await?;
    let digest = loosening(&lab);
    let lists = |set: &Value| {
        // One of before may ask about the same, and be about to close.
        let mut entries = set["status"]["entries"].as_array().into_iter().flatten();
        let is_asked = entries.any(|entry| {
            let is_of_now = entry["generation"] == lab["status"]["pending"]["generation"];
            is_of_now && entry["digest"].as_str() == digest.as_deref()
        });
        is_asked && set["status"]["phase"] == "Waiting"
    };
    cluster.until_change_set(SYSTEM, "the looser policy to be asked about", lists).await
}

async fn in_force(cluster: &Cluster) -> Result<Value> {
    let is_so = |lab: &Value| condition(lab, IN_FORCE)["status"] == "True" && loosening(lab).is_none();
    cluster.until_environment("the policy to be in force", is_so).await
}

fn setpoint(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(SETPOINT).args(arguments).output()?)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_apply_cannot_loosen_the_rules_and_destroy_by_them() -> Result<()> {
    let cluster = Cluster::start(json!({}), strict()).await?;
    for who in ["alice", "bob"] {
        cluster.appoint(who, SYSTEM).await?;
    }
    cluster.make("web", with_data()).await?;
    cluster.synced("web").await?;
    write(&cluster, lax()).await?;
    cluster.delete("web").await?;
    cluster.until("web", "it to wait for two", |web| waits_for(web, 2)).await?;
    let lab = cluster.until_environment("it to say so", |lab| condition(lab, IN_FORCE)["status"] == "False").await?;
    let why = text(&condition(&lab, IN_FORCE)["message"]);
    ensure!(why.contains("approval.rules[Destructive].approvals") && why.contains("0 of 2 approvals"), "{why}");
    let set = asked(&cluster).await?;
    let [step] = steps(&set) else { anyhow::bail!("one step: {set:#}") };
    let target = json!({"namespace": "", "name": "lab", "kind": "Environment"});
    ensure!(step["action"] == "Loosen" && step["class"] == "Destructive" && step["target"] == target, "{step:#}");
    let change = &step["changes"][0];
    ensure!(change["from"] == "2" && change["to"] == "0", "{step:#}");
    ensure!(cluster.truth()?.len() == 1, "nobody has agreed");

    // Who takes it back is asked no more.
    write(&cluster, json!({"spec": strict()})).await?;
    in_force(&cluster).await?;
    ensure!(waits_for(&cluster.until("web", "it still waits", |_| true).await?, 2), "the rules never changed");

    // Whom the old rules ask may let them be looser.
    write(&cluster, lax()).await?;
    let set = asked(&cluster).await?;
    cluster.approve("alice", &set).await?;
    let is_half = |lab: &Value| text(&condition(lab, IN_FORCE)["message"]).contains("1 of 2 approvals");
    cluster.until_environment("the first of two", is_half).await?;
    ensure!(cluster.truth()?.len() == 1, "one is not enough");
    cluster.approve("bob", &asked(&cluster).await?).await?;
    let lab = in_force(&cluster).await?;
    ensure!(lab["status"]["policy"]["spec"]["approval"]["rules"][0]["approvals"] == 0, "{lab:#}");
    ensure!(lab["status"]["done"][0]["action"] == "Loosen", "{lab:#}");
    // What was asked about before is still asked for by the rules of then; what comes later is not.
    cluster.make("late", with_data()).await?;
    cluster.synced("late").await?;
    cluster.delete("late").await?;
    cluster.gone("late").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_deletes_an_environment_and_makes_it_again_sheds_no_rule() -> Result<()> {
    let cluster = Cluster::start(json!({}), strict()).await?;
    cluster.until_environment("the rules to be in force", |lab| lab["status"]["policy"].is_object()).await?;
    cluster.client()?.delete(ENVIRONMENT).await?.success()?;
    let set = asked(&cluster).await?;
    ensure!(steps(&set)[0]["changes"][0]["field"] == "spec.approval.rules[Destructive].approvals", "{set:#}");
    let says = |lab: &Value| text(&condition(lab, "Ready")["message"]).contains("its rules would go with it");
    let lab = cluster.until_environment("it to say what keeps it", says).await?;
    ensure!(lab["metadata"]["deletionTimestamp"].is_string(), "{lab:#}");
    for who in ["alice", "bob"] {
        cluster.appoint(who, SYSTEM).await?;
        cluster.approve(who, &asked(&cluster).await?).await?;
        if who == "alice" {
            let is_half = |lab: &Value| text(&condition(lab, IN_FORCE)["message"]).contains("1 of 2 approvals");
            cluster.until_environment("the first of two", is_half).await?;
        }
    }
    setpoint_testkit::wait_for("the Environment to go", super::cluster::PATIENCE, || async {
        Ok((cluster.client()?.get(ENVIRONMENT).await?.status == 404).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_configuration_of_a_place_that_was_reached_waits_and_the_old_one_goes_on() -> Result<()> {
    let cluster = Cluster::start(json!({}), json!({})).await?;
    cluster.make("web", with_data()).await?;
    cluster.synced("web").await?;
    cluster.until_environment("it to be known", |lab| lab["status"]["policy"]["wasReady"] == true).await?;
    write(&cluster, json!({"spec": {"config": {"down": "refuses"}}})).await?;
    let set = asked(&cluster).await?;
    ensure!(steps(&set)[0]["changes"][0]["field"] == "spec.config.down", "{set:#}");
    let asked_at = Timestamp::now();
    let is_seen = |lab: &Value| {
        let seen = lab["status"]["observedAt"].as_str().and_then(|time| time.parse::<Timestamp>().ok());
        seen.is_some_and(|seen| seen > asked_at)
    };
    let lab = cluster.until_environment("a look by the old configuration", is_seen).await?;
    ensure!(condition(&lab, "Ready")["status"] == "True", "the old configuration goes on: {lab:#}");
    cluster.approve_loosening(&loosening(&lab).unwrap_or_default()).await?;
    let is_down = |lab: &Value| condition(lab, "Ready")["reason"] == "Unreachable";
    cluster.until_environment("the new configuration", is_down).await.map(drop)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_keeper_of_the_data_folder_unlocks_rules_that_nobody_can_approve() -> Result<()> {
    let cluster = Cluster::start(json!({}), strict()).await?;
    cluster.until_environment("the rules to be in force", |lab| lab["status"]["policy"].is_object()).await?;
    let folder = cluster.server.data_dir().display().to_string();
    let unlock = || setpoint(&["env", "unlock", "lab", "--data-dir", &folder]);
    let nothing = unlock()?;
    let said = String::from_utf8_lossy(&nothing.stderr).into_owned();
    ensure!(!nothing.status.success() && said.contains("nothing of"), "{said}");
    write(&cluster, lax()).await?;
    cluster.until_environment("it to wait", |lab| loosening(lab).is_some()).await?;
    let unlocked = unlock()?;
    let said = String::from_utf8_lossy(&unlocked.stderr).into_owned();
    ensure!(unlocked.status.success() && said.contains("approval.rules[Destructive].approvals: 2 -> 0"), "{said}");
    let lab = in_force(&cluster).await?;
    ensure!(text(&lab["status"]["policy"]["unlocked"]["by"]).starts_with("uid "), "{lab:#}");
    let audit = setpoint(&["audit", "--data-dir", &folder])?;
    let told = String::from_utf8_lossy(&audit.stdout).into_owned();
    ensure!(told.contains("unlock environment"), "{told}{}", String::from_utf8_lossy(&audit.stderr));
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_freeze_holds_steps_until_it_ends_or_is_lifted() -> Result<()> {
    let frozen = |until: Option<Timestamp>| {
        let freeze = json!({"from": "2026-01-01T00:00:00Z", "until": until, "reason": "end of the year"});
        json!({"windows": [{"classes": ["Benign", "Spend"], "freeze": freeze}]})
    };
    let cluster = Cluster::start(json!({}), frozen(None)).await?;
    cluster.make("web", with_data()).await?;
    let is_held = |web: &Value| condition(web, "Synced")["reason"] == "WindowClosed";
    let web = cluster.until("web", "it to be held", is_held).await?;
    let why = text(&condition(&web, "Synced")["message"]);
    ensure!(why.contains("until spec.windows is changed (end of the year)"), "{why}");
    // It is lifted where the classes that it is about need no approval.
    write(&cluster, json!({"spec": {"windows": null}})).await?;
    cluster.synced("web").await?;

    let until = Timestamp::from_second(Timestamp::now().as_second())? + SignedDuration::from_secs(6);
    write(&cluster, json!({"spec": frozen(Some(until))})).await?;
    cluster.make("db", with_data()).await?;
    let db = cluster.until("db", "it to be held", is_held).await?;
    ensure!(text(&condition(&db, "Synced")["message"]).contains(&format!("until {until}")), "{db:#}");
    let db = cluster.synced("db").await?;
    let done: Timestamp = text(&db["status"]["done"][0]["at"]).parse()?;
    ensure!(done >= until, "it was made while that was frozen: {db:#}");
    Ok(())
}

#[test]
fn init_writes_rules_to_start_from_and_overwrites_nothing() -> Result<()> {
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("new").display().to_string();
    let made = setpoint(&["init", &path, "--policy", "team"])?;
    let next = String::from_utf8_lossy(&made.stdout).into_owned();
    ensure!(made.status.success() && next.contains("setpoint up\n") && next.contains("--verbs use,approve"), "{next}");
    let file = format!("{path}/environment.yaml");
    let written = std::fs::read_to_string(&file)?;
    ensure!(written.contains("approvals: 2") && written.contains("requesterMayApprove: false"), "{written}");
    let again = setpoint(&["init", &path])?;
    let said = String::from_utf8_lossy(&again.stderr).into_owned();
    ensure!(!again.status.success() && said.contains("is there already"), "{said}");
    ensure!(std::fs::read_to_string(&file)? == written, "it stays as it is");
    let sound = setpoint(&["validate", "-f", &file])?;
    ensure!(sound.status.success(), "{}", String::from_utf8_lossy(&sound.stderr));
    Ok(())
}
