//! Keeps a cache in step with the server.

use std::fmt::Debug;
use std::pin::pin;
use std::sync::Arc;

use futures::{Stream, StreamExt};
use k8s_openapi::NamespaceResourceScope;
use kube::core::PartialObjectMeta;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client, Resource};
use prometheus_client::metrics::counter::Counter;
use serde::de::DeserializeOwned;
use tokio::task::JoinSet;

use super::cache::{Cache, Follows};
use super::caches::Caches;
use crate::metrics::Metrics;
use crate::refusal::words_of_watch;

/// How many objects are read at once at the start: they are in memory together for a moment.
const PAGE: u32 = 50;

/// Feeds the caches until it is dropped.
pub fn feed(caches: &Caches, client: &Client, metrics: &Metrics) -> JoinSet<()> {
    let mut feeds = Feeds { tasks: JoinSet::new(), client, metrics };
    feeds.all(&caches.pods);
    feeds.all(&caches.replica_sets);
    feeds.all(&caches.deployments);
    feeds.all(&caches.jobs);
    feeds.all(&caches.services);
    feeds.all(&caches.endpoint_slices);
    feeds.all(&caches.endpoints);
    feeds.all(&caches.nodes);
    feeds.those(node_leases(client), &caches.node_leases);
    feeds.all(&caches.environments);
    feeds.all(&caches.machines);
    feeds.all(&caches.change_sets);
    feeds.all(&caches.gates);
    feeds.all(&caches.reviews);
    feeds.metadata(&caches.secrets);
    feeds.metadata(&caches.config_maps);
    feeds.all(&caches.goals);
    feeds.all(&caches.plans);
    feeds.tasks
}

struct Feeds<'a> {
    tasks: JoinSet<()>,
    client: &'a Client,
    metrics: &'a Metrics,
}

impl Feeds<'_> {
    fn all<K>(&mut self, cache: &Arc<Cache<K>>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.those(Api::all(self.client.clone()), cache);
    }

    /// Objects come without the record of who owns which field, which takes many times the memory of the object itself.
    fn those<K>(&mut self, api: Api<K>, cache: &Arc<Cache<K>>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let events = watcher::watcher(api, watcher::Config::default().page_size(PAGE));
        let events = events.modify(|object| object.meta_mut().managed_fields = None).default_backoff();
        self.tasks.spawn(follow(events, cache.clone(), self.metrics.gaps(cache.kind())));
    }

    fn metadata<K>(&mut self, cache: &Arc<Cache<PartialObjectMeta<K>>>)
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let config = watcher::Config::default().page_size(PAGE);
        let events = watcher::watcher(Api::<PartialObjectMeta<K>>::all(self.client.clone()), config);
        let events = events.modify(bare).default_backoff();
        self.tasks.spawn(follow(events, cache.clone(), self.metrics.gaps(cache.kind())));
    }
}

/// What is kept of an object of which only its name and version matter: what people apply stands in an annotation, and a
/// Secret with it.
pub fn bare<K>(object: &mut PartialObjectMeta<K>) {
    let metadata = &mut object.metadata;
    metadata.annotations = None;
    metadata.labels = None;
    metadata.managed_fields = None;
}

/// The Leases by which Nodes say that they are alive.
fn node_leases<K: Resource<DynamicType = (), Scope = NamespaceResourceScope>>(client: &Client) -> Api<K> {
    Api::namespaced(client.clone(), "kube-node-lease")
}

/// Follows what a watch says until it ends. After an interruption the watch is taken up again where it was or with a list;
/// either way those who listen hear at once of what differs, and of nothing else.
pub(super) async fn follow<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
    cache: Arc<Cache<K>>,
    gaps: Counter,
) where
    K: Resource<DynamicType = ()> + Send + Sync + 'static,
{
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event {
            Ok(event) => cache.apply(event),
            Err(error) => {
                gaps.inc();
                let error = words_of_watch(&error);
                tracing::warn!(kind = cache.kind(), error, "a watch was interrupted and is taken up again");
            }
        }
    }
}
