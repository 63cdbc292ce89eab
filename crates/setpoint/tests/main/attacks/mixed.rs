//! All attacks again, mixed by chance on one server, with crashes in between. Whatever was sent, the server goes on, keeps
//! what others own, and tells nobody its token.

use std::fs;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_testkit::{Client, proof};

use super::pod_place::{PodPlace, script};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const KEPT: &str = "/api/v1/namespaces/default/configmaps/kept";

/// The most that the server's memory may grow, whatever is sent to it.
const GROWTH: u64 = 500 << 20;

const ATTACKS: u32 = 9;

struct Attacker {
    place: PodPlace,
    token: String,
    round: u32,
}

impl Attacker {
    async fn attack(&mut self, attack: u32) -> Result<&'static str> {
        let mut client = self.place.server.client()?;
        match attack {
            0 => self.variables_that_grow().await.map(|()| "variables that grow"),
            1 => self.links_in_place_of_files().await.map(|()| "links in the place of files"),
            2 => many_keys(&mut client).await.map(|()| "many keys"),
            3 => growth_by_patches(&mut client, self.round).await.map(|()| "growth by patches"),
            4 => copies(&mut client, self.round).await.map(|()| "copies in a patch"),
            5 => a_body_too_large(&mut client).await.map(|()| "a body too large"),
            6 => self.owners_elsewhere(&mut client).await.map(|()| "owners elsewhere"),
            7 => self.watches_that_nobody_reads().await.map(|()| "watches that nobody reads"),
            _ => {
                self.place.server.kill9()?;
                self.place.server.restart().await?;
                Ok("a crash")
            }
        }
    }

    async fn variables_that_grow(&self) -> Result<()> {
        let value = |step: u32| if step == 0 { "x".repeat(1000) } else { format!("$(A{})", step - 1).repeat(10) };
        let variables: Vec<Value> =
            (0..9).map(|step| json!({"name": format!("A{step}"), "value": value(step)})).collect();
        let mut container = script("true");
        container["env"] = variables.into();
        let name = format!("grows-{}", self.round);
        self.place.create(&name, json!({"containers": [container]})).await?;
        self.place.waiting(&name, "CreateContainerConfigError").await?;
        self.remove(&name).await
    }

    async fn links_in_place_of_files(&self) -> Result<()> {
        let token = self.place.server.data_dir().join("admin.token");
        let name = format!("links-{}", self.round);
        let what = format!("ln -sf '{}' \"$SETPOINT_TERMINATION_LOG\"; exit 1", token.display());
        self.place.create(&name, json!({"containers": [script(&what)]})).await?;
        self.place.ended(&name).await?;
        let pod = self.place.pod(&name).await?.to_string();
        ensure!(!pod.contains(&self.token), "the Pod's status tells the token");
        self.remove(&name).await
    }

    async fn owners_elsewhere(&self, client: &mut Client) -> Result<()> {
        let (namespace, name) = (format!("theirs-{}", self.round), format!("owner-{}", self.round));
        let object = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace}});
        client.post("/api/v1/namespaces", &object).await?.success()?;
        let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
        let owner = client.post(CONFIG_MAPS, &owner).await?.success()?;
        let reference = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": owner["metadata"]["uid"],
            "blockOwnerDeletion": true,
        });
        let dependent = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {
            "name": "dependent", "ownerReferences": [reference],
        }});
        client.post(&format!("/api/v1/namespaces/{namespace}/configmaps"), &dependent).await?.success()?;
        let path = format!("{CONFIG_MAPS}/{name}");
        client.delete(&format!("{path}?propagationPolicy=Foreground")).await?.success()?;
        let server = &self.place.server;
        let is_gone = || async { Ok((server.client()?.get(&path).await?.status == 404).then_some(())) };
        setpoint_testkit::wait_for("the owner to go", std::time::Duration::from_secs(60), is_gone).await?;
        client.delete(&format!("/api/v1/namespaces/{namespace}")).await?.success()?;
        Ok(())
    }

    async fn watches_that_nobody_reads(&self) -> Result<()> {
        let mut watches = Vec::new();
        for _ in 0..10 {
            watches.push(self.place.server.client()?.watch(&format!("{CONFIG_MAPS}?watch=1")).await?);
        }
        let mut client = self.place.server.client()?;
        let name = format!("watched-{}", self.round);
        for turn in 0..5 {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"text": format!("{turn}").repeat(900_000)},
            });
            let path = format!("{CONFIG_MAPS}/{name}");
            match turn {
                0 => client.post(CONFIG_MAPS, &object).await?.success()?,
                _ => client.put(&path, &object).await?.success()?,
            };
        }
        client.delete(&format!("{CONFIG_MAPS}/{name}")).await?.success()?;
        drop(watches);
        Ok(())
    }

    async fn remove(&self, pod: &str) -> Result<()> {
        self.place.server.client()?.delete(&format!("{PODS}/{pod}?gracePeriodSeconds=0")).await?.success()?;
        Ok(())
    }
}

async fn many_keys(client: &mut Client) -> Result<()> {
    let data = (0..5_000).map(|key| (format!("{key:0>250}"), json!(""))).collect::<serde_json::Map<_, _>>();
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "keys"}, "data": data});
    let answer = client.post(CONFIG_MAPS, &object).await?;
    ensure!(answer.status == 422, "{}: {:.200}", answer.status, answer.text());
    Ok(())
}

/// Writes that each may be made, until one would make the object too large.
async fn growth_by_patches(client: &mut Client, round: u32) -> Result<()> {
    let name = format!("patched-{round}");
    let path = format!("{CONFIG_MAPS}/{name}");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    client.post(CONFIG_MAPS, &object).await?.success()?;
    for turn in 0..40 {
        let patch = json!({"metadata": {"annotations": {format!("example.com/a{turn}"): "x".repeat(50_000)}}});
        let answer = client.patch(&path, "merge-patch", &patch).await?;
        if !answer.status.is_success() {
            ensure!(matches!(answer.status.as_u16(), 413 | 422), "{}: {:.200}", answer.status, answer.text());
            client.delete(&path).await?.success()?;
            return Ok(());
        }
    }
    bail!("40 patches of 50 000 bytes were taken")
}

/// A patch of which each operation doubles the object.
async fn copies(client: &mut Client, round: u32) -> Result<()> {
    let name = format!("copied-{round}");
    let path = format!("{CONFIG_MAPS}/{name}");
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": {"a": "b"}});
    client.post(CONFIG_MAPS, &object).await?.success()?;
    let patch: Vec<Value> =
        (0..40).map(|turn| json!({"op": "copy", "from": "/data", "path": format!("/data/k{turn}")})).collect();
    let answer = client.patch(&path, "json-patch", &patch.into()).await?;
    ensure!(answer.status.is_client_error(), "{}: {:.200}", answer.status, answer.text());
    client.delete(&path).await?.success()?;
    Ok(())
}

async fn a_body_too_large(client: &mut Client) -> Result<()> {
    let object = json!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "large"}, "data": {"a": "x".repeat(5 << 20)},
    });
    let answer = client.post(CONFIG_MAPS, &object).await?;
    ensure!(answer.status == 413, "{}: {:.200}", answer.status, answer.text());
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn attacks_in_any_order_leave_the_server_and_what_others_own_as_they_were() -> Result<()> {
    let mut random = SmallRng::seed_from_u64(proof::seed());
    let place = PodPlace::start().await?;
    let token = fs::read_to_string(place.server.data_dir().join("admin.token"))?.trim().to_owned();
    let kept = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "kept"}, "data": {"a": "b"}});
    let kept = place.server.client()?.post(CONFIG_MAPS, &kept).await?.success()?;
    place.runs("before").await?;
    let before = place.server.memory()?;
    let mut attacker = Attacker { place, token, round: 0 };
    for round in 0..proof::extent(12, 300) {
        attacker.round = round;
        // Each once, then by chance.
        let attack = if round < ATTACKS { round } else { random.random_range(0..ATTACKS) };
        let name = attacker.attack(attack).await.with_context(|| format!("round {round}, attack {attack}"))?;
        let server = &attacker.place.server;
        let now = server.client()?.get(KEPT).await?.success()?;
        ensure!(now == kept, "after {name} (round {round}), what somebody else owns is {now}");
        let growth = server.memory()?.saturating_sub(before);
        ensure!(growth < GROWTH, "after {name} (round {round}), memory grew by {} MiB", growth >> 20);
    }
    attacker.place.runs("after").await?;
    let log = attacker.place.server.log();
    ensure!(!log.contains(&attacker.token), "the log tells the token");
    Ok(())
}
