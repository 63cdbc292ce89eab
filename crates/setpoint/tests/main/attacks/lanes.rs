//! One slow place holds up nobody who has nothing to do with it, and its own calls are made side by side.

use std::time::Duration;

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(120);
const MACHINES: &str = "/apis/setpoint.dev/v1alpha1/namespaces/default/machines";
const ENVIRONMENTS: &str = "/apis/setpoint.dev/v1alpha1/environments";

/// More than the control plane works on at the same time in one Environment.
const MANY: usize = 40;

async fn declare(server: &Server, name: &str, config: Value, guardrails: Value) -> Result<()> {
    let environment = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": name},
        "spec": {"deployer": {"name": "simulated"}, "config": config, "guardrails": guardrails},
    });
    server.client()?.post(ENVIRONMENTS, &environment).await?.success().map(drop)
}

async fn make(server: &Server, name: &str, environment: &str) -> Result<()> {
    let machine = json!({
        "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": name},
        "spec": {"environment": environment, "cores": 1},
    });
    server.client()?.post(MACHINES, &machine).await?.success().map(drop)
}

async fn machines(server: &Server, environment: &str) -> Result<Vec<Value>> {
    let mut list = server.client()?.get(MACHINES).await?.success()?;
    let all = list["items"].as_array_mut().map(std::mem::take).unwrap_or_default();
    Ok(all.into_iter().filter(|machine| machine["spec"]["environment"] == environment).collect())
}

fn condition<'o>(object: &'o Value, kind: &str) -> &'o Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|condition| condition["type"] == kind).unwrap_or(&Value::Null)
}

fn is_synced(machine: &&Value) -> bool {
    condition(machine, "Synced")["status"] == "True"
}

/// Whether a call for it is on record whose outcome is not known.
fn has_call(machine: &&Value) -> bool {
    machine["status"]["intents"].as_array().is_some_and(|intents| !intents.is_empty())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn machines_of_a_fast_place_are_made_side_by_side_beside_many_places_that_are_stuck() -> Result<()> {
    /// As many Machines as are worked on at once.
    const STUCK: usize = 16;
    const IN_EACH: usize = 16;
    let server = Server::start(SETPOINT).await?;
    declare(&server, "fast", json!({"latencyMs": 1_000}), json!({})).await?;
    for place in 0..STUCK {
        let name = format!("stuck{place}");
        declare(&server, &name, json!({"latencyMs": 600_000}), json!({})).await?;
        for number in 0..IN_EACH {
            make(&server, &format!("{name}-{number}"), &name).await?;
        }
    }
    for number in 0..8 {
        make(&server, &format!("fast{number}"), "fast").await?;
    }
    wait_for("several calls at the same time", PATIENCE, || async {
        let calls = machines(&server, "fast").await?.iter().filter(has_call).count();
        Ok((calls > 1).then_some(()))
    })
    .await?;
    wait_for("the Machines to be made", PATIENCE, || async {
        Ok(machines(&server, "fast").await?.iter().all(|machine| is_synced(&machine)).then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_machine_of_a_fast_place_does_not_wait_for_those_of_a_slow_one() -> Result<()> {
    for guardrails in [json!({}), json!({"maxInstances": 1000, "maxHourlyCost": "1000"})] {
        let server = Server::start(SETPOINT).await?;
        declare(&server, "slow", json!({"latencyMs": 15_000, "hourlyPrice": "0.01"}), guardrails.clone()).await?;
        declare(&server, "fast", json!({"hourlyPrice": "0.01"}), guardrails.clone()).await?;
        for number in 0..MANY {
            make(&server, &format!("slow{number}"), "slow").await?;
        }
        for name in ["web", "db", "mail"] {
            make(&server, name, "fast").await?;
            wait_for(format!("{name} to be made"), PATIENCE, || async {
                Ok(machines(&server, "fast").await?.iter().all(|machine| is_synced(&machine)).then_some(()))
            })
            .await?;
            let slow = machines(&server, "slow").await?;
            let done = slow.iter().filter(is_synced).count();
            ensure!(done == 0, "{name} came after {done} of the {MANY} Machines of the slow place: {guardrails}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_there_are_limits_calls_are_made_side_by_side_and_none_too_many() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    declare(&server, "lab", json!({"latencyMs": 2_000}), json!({"maxInstances": 5})).await?;
    for number in 0..8 {
        make(&server, &format!("m{number}"), "lab").await?;
    }
    wait_for("four calls under way together", PATIENCE, || async {
        Ok((machines(&server, "lab").await?.iter().filter(has_call).count() >= 4).then_some(()))
    })
    .await?;
    let all = wait_for("as many as the limit allows, and a word of the others", PATIENCE, || async {
        let all = machines(&server, "lab").await?;
        let held = all.iter().filter(|machine| condition(machine, "Synced")["reason"] == "OverLimit").count();
        Ok((all.iter().filter(is_synced).count() >= 5 && held == 3).then_some(all))
    })
    .await?;
    let made = all.iter().filter(|machine| machine["status"]["providerId"].is_string()).count();
    ensure!(made == 5, "{made} are there, and 5 may be: {all:#?}");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_place_that_does_not_answer_says_so_and_holds_up_no_other() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    // More of them than the control plane would work on together, were they all one.
    for number in 0..20 {
        declare(&server, &format!("dead{number}"), json!({"lostRequestRate": 1.0}), json!({})).await?;
        make(&server, &format!("lost{number}"), &format!("dead{number}")).await?;
    }
    declare(&server, "alive", json!({}), json!({})).await?;
    make(&server, "web", "alive").await?;
    wait_for("the Machine of the place that answers", PATIENCE, || async {
        Ok(machines(&server, "alive").await?.iter().all(|machine| is_synced(&machine)).then_some(()))
    })
    .await?;
    let dead = |list: &Value| -> Vec<Value> {
        let all = list["items"].as_array().into_iter().flatten();
        all.filter(|environment| environment["metadata"]["name"] != "alive").cloned().collect()
    };
    let list = server.client()?.get(ENVIRONMENTS).await?.success()?;
    let told = dead(&list).iter().filter(|environment| condition(environment, "Ready")["status"] == "False").count();
    ensure!(told == 0, "it came after {told} of those that do not answer");
    let said = |list: &Value, reason: &str| {
        dead(list).iter().filter(|environment| condition(environment, "Ready")["reason"] == reason).count()
    };
    wait_for("all the others to say that they are waited for", PATIENCE, || async {
        let list = server.client()?.get(ENVIRONMENTS).await?.success()?;
        let (connecting, unreachable) = (said(&list, "Connecting"), said(&list, "Unreachable"));
        Ok((connecting > 0 && connecting + unreachable == 20).then_some(()))
    })
    .await?;
    wait_for("all the others to be said not to answer", PATIENCE, || async {
        let list = server.client()?.get(ENVIRONMENTS).await?.success()?;
        Ok((said(&list, "Unreachable") == 20).then_some(()))
    })
    .await
}
