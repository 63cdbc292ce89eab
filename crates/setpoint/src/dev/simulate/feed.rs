//! What feeds a crew's caches: the same watches as ever, but each event comes when the driver says so.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::BoxFuture;
use futures::stream::BoxStream;
use k8s_openapi::api::coordination::v1::Lease;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client, Resource};
use serde::de::DeserializeOwned;
use setpoint_controllers::runtime::{Cache, Caches, Follows};
use setpoint_store::Revision;

use super::gate::{Cut, Cuttable};
use super::ledger::Ledger;
use super::world::World;

/// A moment in which everything that can happen happens; time stands still until nothing else is left to do.
pub(super) const MOMENT: Duration = Duration::from_millis(1);

/// What an event must be waited for, in moments, before it counts as not there.
pub(super) trait Feed {
    fn kind(&self) -> &'static str;

    /// Whether there is something that the cache has not been told.
    fn is_behind(&self) -> bool;

    /// Tells the cache one thing more, if there is any; a list is one thing. Says what.
    fn deliver(&mut self) -> BoxFuture<'_, Option<String>>;

    /// Ends the watch, which is taken up where it ended; or, if it is to forget, begun anew with a list.
    fn cut(&mut self, forgets: bool);
}

/// All feeds of a crew's caches.
pub(super) fn all(world: &World, caches: &Caches) -> Vec<Box<dyn Feed>> {
    let feeds = Feeds { world };
    vec![
        feeds.of("/core/pods/", &caches.pods),
        feeds.of("/apps/replicasets/", &caches.replica_sets),
        feeds.of("/apps/deployments/", &caches.deployments),
        feeds.of("/batch/jobs/", &caches.jobs),
        feeds.of("/core/services/", &caches.services),
        feeds.of("/discovery.k8s.io/endpointslices/", &caches.endpoint_slices),
        feeds.of("/core/endpoints/", &caches.endpoints),
        feeds.of("/core/nodes/", &caches.nodes),
        feeds.made("/coordination.k8s.io/leases/", &caches.node_leases, |client| {
            Api::<Lease>::namespaced(client, "kube-node-lease")
        }),
        feeds.of("/setpoint.dev/environments/", &caches.environments),
        feeds.of("/setpoint.dev/machines/", &caches.machines),
        feeds.of("/setpoint.dev/changesets/", &caches.change_sets),
        feeds.of("/planspec.io/gates/", &caches.gates),
        feeds.of("/setpoint.dev/reviews/", &caches.reviews),
        feeds.of("/core/secrets/", &caches.secrets),
        feeds.of("/core/configmaps/", &caches.config_maps),
        feeds.of("/planspec.io/goals/", &caches.goals),
        feeds.of("/planspec.io/plans/", &caches.plans),
    ]
}

struct Feeds<'w> {
    world: &'w World,
}

impl Feeds<'_> {
    fn of<K>(&self, directory: &'static str, cache: &Arc<Cache<K>>) -> Box<dyn Feed>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        self.made(directory, cache, Api::all)
    }

    fn made<K>(
        &self,
        directory: &'static str,
        cache: &Arc<Cache<K>>,
        api: impl FnOnce(Client) -> Api<K>,
    ) -> Box<dyn Feed>
    where
        K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
    {
        let cut = Cut::default();
        let server = self.world.as_controllers();
        let api = api(Client::new(Cuttable { server, cut: cut.clone() }, "default"));
        let (ledger, cache) = (self.world.ledger.clone(), cache.clone());
        Box::new(Watched { directory, events: events(&api), api, cache, ledger, told: None, cut })
    }
}

struct Watched<K: 'static> {
    directory: &'static str,
    api: Api<K>,
    events: BoxStream<'static, watcher::Result<Event<K>>>,
    cache: Arc<Cache<K>>,
    ledger: Arc<Ledger>,
    /// The last commit that the cache was told of; none before the first list.
    told: Option<Revision>,
    cut: Cut,
}

fn events<K>(api: &Api<K>) -> BoxStream<'static, watcher::Result<Event<K>>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    watcher::watcher(api.clone(), watcher::Config::default()).boxed()
}

impl<K> Feed for Watched<K>
where
    K: Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + Sync + 'static,
{
    fn kind(&self) -> &'static str {
        self.cache.kind()
    }

    fn is_behind(&self) -> bool {
        self.told.is_none_or(|told| told < self.ledger.latest(self.directory))
    }

    fn deliver(&mut self) -> BoxFuture<'_, Option<String>> {
        Box::pin(async move {
            loop {
                let newest = self.ledger.latest(self.directory);
                let Ok(Some(event)) = tokio::time::timeout(MOMENT, self.events.next()).await else {
                    // Whatever was committed does not concern this watch.
                    self.told = self.told.map(|told| told.max(newest));
                    return None;
                };
                let said = match &event {
                    Ok(Event::Apply(object)) => Some(self.told_of("is", object)),
                    Ok(Event::Delete(object)) => Some(self.told_of("is gone:", object)),
                    Ok(Event::InitDone) => {
                        self.told = Some(newest);
                        Some("is listed".to_owned())
                    }
                    Ok(Event::Init | Event::InitApply(_)) => None,
                    Err(error) => Some(format!("is interrupted: {error}")),
                };
                if let Ok(mut event) = event {
                    if let Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) = &mut event {
                        object.meta_mut().managed_fields = None;
                    }
                    self.cache.apply(event);
                }
                if said.is_some() {
                    return said;
                }
            }
        })
    }

    fn cut(&mut self, forgets: bool) {
        self.cut.cut();
        if forgets {
            self.events = events(&self.api);
            self.told = None;
        } else {
            self.cut.fail_once();
        }
    }
}

impl<K: Resource<DynamicType = ()>> Watched<K> {
    fn told_of(&mut self, what: &str, object: &K) -> String {
        let version = object.meta().resource_version.as_deref().unwrap_or_default();
        self.told = self.told.max(version.parse().ok());
        format!("{what} {} @{version}", object.meta().name.as_deref().unwrap_or_default())
    }
}
