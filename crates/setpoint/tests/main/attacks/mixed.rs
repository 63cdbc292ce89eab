//! Attacks on memory, on files and on what others own, mixed by chance on one server, with crashes in between. Whatever was
//! sent, the server goes on, keeps what others own and tells nobody its token, and no attack costs more memory than it may.

use std::fs;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use rand::rngs::SmallRng;
use rand::{Rng, SeedableRng};
use serde_json::{Value, json};
use setpoint_testkit::{Client, proof, wait_for};

use super::api_size::{BOXES, a_box, define_boxes, ensure_too_large};
use super::pod_place::{PodPlace, script};

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";
const PODS: &str = "/api/v1/namespaces/default/pods";
const KEPT: &str = "/api/v1/namespaces/default/configmaps/kept";

const MIB: u64 = 1 << 20;
/// The most that the server's memory may grow by one attack: what it stores and remembers, and what the allocator keeps of
/// what its requests were read into.
const GROWTH_OF_ONE: u64 = 64 * MIB;
/// The most that it may grow by all attacks since its start: history is bounded.
const GROWTH: u64 = 256 * MIB;
const SETTLING: Duration = Duration::from_secs(30);

/// How many watches nobody reads, how often what they watch is written, and with how many bytes. With a copy of every event
/// for each watch, they would take three times what an attack may cost.
const WATCHES: usize = 40;
const WRITES: usize = 5;
const WRITTEN: usize = 1_000_000;
const _: () = assert!((WATCHES * WRITES * WRITTEN) as u64 > 2 * GROWTH_OF_ONE);

const ATTACKS: u32 = 9;
const CRASH: u32 = 8;

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
        wait_for("the owner to go", Duration::from_secs(60), is_gone).await?;
        client.delete(&format!("/api/v1/namespaces/{namespace}")).await?.success()?;
        Ok(())
    }

    async fn watches_that_nobody_reads(&self) -> Result<()> {
        let before = self.place.server.memory()?;
        let mut watches = Vec::new();
        for _ in 0..WATCHES {
            watches.push(self.place.server.client()?.watch(&format!("{CONFIG_MAPS}?watch=1")).await?);
        }
        let mut client = self.place.server.client()?;
        let name = format!("watched-{}", self.round);
        let path = format!("{CONFIG_MAPS}/{name}");
        for turn in 0..WRITES {
            let object = json!({
                "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
                "data": {"text": format!("{turn}").repeat(WRITTEN)},
            });
            match turn {
                0 => client.post(CONFIG_MAPS, &object).await?.success()?,
                _ => client.put(&path, &object).await?.success()?,
            };
        }
        // While they are open: what they hold is given back with them.
        self.settles(before, GROWTH_OF_ONE).await?;
        client.delete(&path).await?.success()?;
        drop(watches);
        Ok(())
    }

    /// Waits until the server's memory has grown by less than this.
    async fn settles(&self, before: u64, bound: u64) -> Result<()> {
        let server = &self.place.server;
        let settled = wait_for("memory to settle", SETTLING, || async {
            Ok((server.memory()?.saturating_sub(before) < bound).then_some(()))
        });
        match settled.await {
            Ok(()) => Ok(()),
            Err(error) => {
                let growth = server.memory()?.saturating_sub(before) / MIB;
                Err(error.context(format!("memory grew by {growth} MiB, more than {} MiB", bound / MIB)))
            }
        }
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
    let path = format!("{BOXES}/{name}");
    client.post(BOXES, &a_box(&name, json!({"data": {"a": "b"}}))).await?.success()?;
    for turn in 0..16 {
        let patch = json!({"spec": {"data": {format!("k{turn}"): "x".repeat(200_000)}}});
        let answer = client.patch(&path, "merge-patch", &patch).await?;
        if !answer.status.is_success() {
            ensure_too_large("patches", &answer)?;
            ensure!(turn > 5, "only {turn} patches of 200 000 bytes were taken");
            client.delete(&path).await?.success()?;
            return Ok(());
        }
    }
    bail!("16 patches of 200 000 bytes were taken")
}

/// A patch of which each operation doubles a part of the object in which anything may stand.
async fn copies(client: &mut Client, round: u32) -> Result<()> {
    let name = format!("copied-{round}");
    let path = format!("{BOXES}/{name}");
    client.post(BOXES, &a_box(&name, json!({"free": {"a": "b"}}))).await?.success()?;
    let doubled = |times: usize| -> Value {
        let copy = |turn| json!({"op": "copy", "from": "/spec/free", "path": format!("/spec/free/k{turn}")});
        (0..times).map(copy).collect::<Vec<_>>().into()
    };
    client.patch(&path, "json-patch", &doubled(3)).await?.success()?;
    let answer = client.patch(&path, "json-patch", &doubled(40)).await?;
    let is_told = answer.status == 413 && answer.text().contains("the patch copies");
    ensure!(is_told, "{}: {:.200}", answer.status, answer.text());
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
    define_boxes(&place.server).await?;
    let mut at_start = place.server.memory()?;
    let mut attacker = Attacker { place, token, round: 0 };
    for round in 0..proof::extent(12, 300) {
        attacker.round = round;
        // Each once, then by chance.
        let attack = if round < ATTACKS { round } else { random.random_range(0..ATTACKS) };
        let before = attacker.place.server.memory()?;
        let name = attacker.attack(attack).await.with_context(|| format!("round {round}, attack {attack}"))?;
        let server = &attacker.place.server;
        let now = server.client()?.get(KEPT).await?.success()?;
        ensure!(now == kept, "after {name} (round {round}), what somebody else owns is {now}");
        if attack == CRASH {
            at_start = server.memory()?;
        } else {
            let after = || format!("after {name} (round {round})");
            attacker.settles(before, GROWTH_OF_ONE).await.with_context(after)?;
            attacker.settles(at_start, GROWTH).await.with_context(after)?;
        }
    }
    attacker.place.runs("after").await?;
    let log = attacker.place.server.log();
    ensure!(!log.contains(&attacker.token), "the log tells the token");
    Ok(())
}
