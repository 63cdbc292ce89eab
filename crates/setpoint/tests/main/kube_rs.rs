//! Runs kube-rs against the server: the library that the controllers are written with.

mod custom;

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use futures::{Stream, StreamExt};
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use kube::api::{DeleteParams, ObjectMeta, Patch, PatchParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::runtime::controller::Action;
use kube::runtime::finalizer::{Event as Finalization, finalizer};
use kube::runtime::watcher::{self, Event, watcher};
use kube::runtime::{WatchStreamExt, reflector};
use kube::{Api, Client, Config, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::json;
use setpoint_testkit::{Server, wait_for};
use tokio::time::timeout;

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(30);

#[tokio::test]
async fn a_watcher_sees_what_is_and_what_happens() -> Result<()> {
    let (_server, client) = start().await?;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let strategies = [
        ("a list, then a watch", watcher::Config::default().page_size(1)),
        ("a watch that begins with what is", watcher::Config::default().streaming_lists()),
    ];
    for (strategy, config) in strategies {
        api.create(&PostParams::default(), &config_map("first")).await?;
        api.create(&PostParams::default(), &config_map("second")).await?;
        let mut events = std::pin::pin!(watcher(api.clone(), config.labels("from=kube-rs")));
        let initial = take(&mut events, 4).await.context(strategy)?;
        ensure!(initial == ["init", "is first", "is second", "init done"], "{strategy}: {initial:?}");

        merge(&api, "first", json!({"data": {"a": "b"}})).await?;
        merge(&api, "second", json!({"metadata": {"labels": {"from": "elsewhere"}}})).await?;
        merge(&api, "second", json!({"metadata": {"labels": {"from": "kube-rs"}}})).await?;
        api.delete("first", &DeleteParams::default()).await?;
        let seen = take(&mut events, 4).await.context(strategy)?;
        // An object that no longer matches a selector is gone for those who watch with it.
        ensure!(seen == ["apply first", "delete second", "apply second", "delete first"], "{strategy}: {seen:?}");
        api.delete("second", &DeleteParams::default()).await?;
    }
    Ok(())
}

#[tokio::test]
async fn a_reflector_mirrors_the_server() -> Result<()> {
    let (_server, client) = start().await?;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    for number in 0..5 {
        api.create(&PostParams::default(), &config_map(&format!("map-{number}"))).await?;
    }
    let (mirror, writer) = reflector::store();
    let config = watcher::Config::default().labels("from=kube-rs").page_size(2);
    let stream = reflector(writer, watcher(api.clone(), config)).touched_objects();
    tokio::spawn(stream.for_each(|_| std::future::ready(())));
    timeout(PATIENCE, mirror.wait_until_ready()).await??;
    ensure!(mirror.len() == 5, "{} objects", mirror.len());

    merge(&api, "map-1", json!({"data": {"a": "b"}})).await?;
    api.delete("map-4", &DeleteParams::default()).await?;
    wait_for("the mirror to follow", PATIENCE, || async {
        let changed = mirror.find(|map| map.name_any() == "map-1").is_some_and(|map| map.data.is_some());
        Ok((changed && mirror.len() == 4).then_some(()))
    })
    .await
}

#[tokio::test]
async fn the_finalizer_helper_holds_an_object_until_it_is_cleaned_up() -> Result<()> {
    const FINALIZER: &str = "setpoint.dev/golden";
    let (_server, client) = start().await?;
    let api: Api<ConfigMap> = Api::namespaced(client, "default");
    let object = api.create(&PostParams::default(), &config_map("held")).await?;

    let reconcile = async |object: ConfigMap| -> Result<&'static str> {
        let mut told = "nothing";
        finalizer(&api, FINALIZER, Arc::new(object), |event| {
            told = if matches!(event, Finalization::Apply(_)) { "apply" } else { "clean up" };
            async { Ok::<_, Infallible>(Action::await_change()) }
        })
        .await?;
        Ok(told)
    };
    ensure!(reconcile(object).await? == "nothing", "the finalizer comes before any work");
    let object = api.get("held").await?;
    ensure!(object.finalizers() == [FINALIZER], "{:?}", object.finalizers());
    ensure!(reconcile(object).await? == "apply", "now there is work to do");

    api.delete("held", &DeleteParams::default()).await?;
    let object = api.get("held").await.context("a finalizer keeps the object")?;
    ensure!(object.metadata.deletion_timestamp.is_some(), "it is marked as deleted");
    ensure!(reconcile(object).await? == "clean up", "it is cleaned up");
    ensure!(api.get_opt("held").await?.is_none(), "the last finalizer's removal ends it");
    Ok(())
}

#[tokio::test]
async fn only_one_of_two_takes_a_lease() -> Result<()> {
    let (_server, client) = start().await?;
    let api: Api<Lease> = Api::namespaced(client, "default");
    let renewed = MicroTime("2024-05-06T07:08:09.123456Z".parse()?);
    let spec = LeaseSpec {
        holder_identity: Some("one".to_owned()),
        lease_duration_seconds: Some(15),
        renew_time: Some(renewed.clone()),
        ..Default::default()
    };
    let lease = Lease { metadata: metadata("leader"), spec: Some(spec) };
    let taken = api.create(&PostParams::default(), &lease).await?;
    refused(409, "AlreadyExists", api.create(&PostParams::default(), &lease).await)?;

    let take = |holder: &str| {
        let mut lease = taken.clone();
        lease.spec.get_or_insert_default().holder_identity = Some(holder.to_owned());
        let api = api.clone();
        async move { api.replace("leader", &PostParams::default(), &lease).await }
    };
    let (two, three) = tokio::join!(take("two"), take("three"));
    ensure!(two.is_ok() != three.is_ok(), "both or neither: {two:?} {three:?}");
    let (winner, loser) = if two.is_ok() { (two, three) } else { (three, two) };
    refused(409, "Conflict", loser)?;

    let found = api.get("leader").await?;
    let spec = found.spec.context("a spec")?;
    ensure!(spec.holder_identity == winner?.spec.context("a spec")?.holder_identity, "the winner holds it");
    ensure!(spec.renew_time == Some(renewed), "microseconds are kept");
    Ok(())
}

async fn start() -> Result<(Server, Client)> {
    let server = Server::start(SETPOINT).await?;
    let kubeconfig = Kubeconfig::read_from(server.kubeconfig_path())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok((server, Client::try_from(config)?))
}

fn config_map(name: &str) -> ConfigMap {
    ConfigMap { metadata: metadata(name), ..Default::default() }
}

fn metadata(name: &str) -> ObjectMeta {
    let labels = BTreeMap::from([("from".to_owned(), "kube-rs".to_owned())]);
    ObjectMeta { name: Some(name.to_owned()), labels: Some(labels), ..Default::default() }
}

async fn merge<K>(api: &Api<K>, name: &str, patch: serde_json::Value) -> Result<()>
where
    K: Clone + DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await?;
    Ok(())
}

/// The next events in words.
async fn take<K: ResourceExt>(
    events: &mut (impl Stream<Item = watcher::Result<Event<K>>> + Unpin),
    count: usize,
) -> Result<Vec<String>> {
    let mut seen = Vec::new();
    while seen.len() < count {
        let event = timeout(PATIENCE, events.next()).await.with_context(|| format!("no event after {seen:?}"))?;
        seen.push(match event.context("the watcher ended")?? {
            Event::Init => "init".to_owned(),
            Event::InitApply(object) => format!("is {}", object.name_any()),
            Event::InitDone => "init done".to_owned(),
            Event::Apply(object) => format!("apply {}", object.name_any()),
            Event::Delete(object) => format!("delete {}", object.name_any()),
        });
    }
    Ok(seen)
}

fn refused<T>(code: u16, reason: &str, result: kube::Result<T>) -> Result<()> {
    match result {
        Err(kube::Error::Api(status)) if status.code == code && status.reason == reason => Ok(()),
        Err(error) => Err(error).with_context(|| format!("expected {reason}")),
        Ok(_) => Err(anyhow::anyhow!("expected {reason}, but it was carried out")),
    }
}
