//! Keeps a cache in step with the server.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::NamespaceResourceScope;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::cache::Cache;
use super::caches::Caches;

/// How many objects are read at once at the start: they are in memory together for a moment.
const PAGE: u32 = 50;

/// Feeds the caches until it is dropped.
pub fn feed(caches: &Caches, client: &Client) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(follow(Api::all(client.clone()), caches.pods.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.replica_sets.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.deployments.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.jobs.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.services.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.endpoint_slices.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.endpoints.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.nodes.clone()));
    tasks.spawn(follow(node_leases(client), caches.node_leases.clone()));
    tasks.spawn(follow(Api::all(client.clone()), caches.environments.clone()));
    tasks
}

/// The Leases by which Nodes say that they are alive.
fn node_leases<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(client: &Client) -> Api<K> {
    Api::namespaced(client.clone(), "kube-node-lease")
}

/// Objects come without the record of who owns which field, which takes many times the memory of the object itself.
async fn follow<K>(api: Api<K>, cache: Arc<Cache<K>>)
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    let events = watcher::watcher(api, watcher::Config::default().page_size(PAGE));
    let mut events = pin!(events.modify(|object| object.meta_mut().managed_fields = None).default_backoff());
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => cache.apply(event),
            Err(error) => {
                tracing::warn!(kind = cache.kind(), %error, "a watch was interrupted and is taken up again");
            }
        }
    }
}
