//! Revisions made of instances: what turns any provider that runs Pods into a deployer.
//!
//! Nothing is remembered here. Which instance belongs to which revision stands in its mark: the revision's uid is its
//! owner, and the intent names App, revision and number. So every verb can be asked again, by anybody, at any time.

mod instance_name;
mod pod;
mod routing;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::stream::{self, TryStreamExt};
use setpoint_core::observation::{Completeness, Guest, Mark};
use setpoint_core::pod::{ContainerState, PodState, Role};
use setpoint_core::split::{Granularity, Split};

use crate::deployer::{
    AppName, Applied, Deployer, Deployment, ObservedApp, ObservedRevision, RevisionOrder, RuntimeConfig,
};
use crate::error::{Error, Fault, Operation, Result};
use crate::guard::Guarded;
use crate::provider::{Answer, Body, Instance, Observed, Order, Provider, Scope};

use instance_name::InstanceName;
pub use routing::{Router, RoutingTable};

/// How many instances of a revision are called for at a time.
const CALLS_AT_ONCE: usize = 16;

/// A deployer over a provider's instances and a router.
#[derive(Debug, Clone)]
pub struct OverInstances {
    /// The control plane, as it stands in marks.
    pub cluster: Box<str>,
    pub provider: Arc<Guarded>,
    pub router: Arc<dyn Router>,
}

impl OverInstances {
    /// What is needed for one of a revision's instances.
    fn instance(&self, revision: &RevisionOrder, index: u32) -> Result<Order> {
        let name = InstanceName::new(revision, index);
        let mark = Mark {
            cluster: self.cluster.clone(),
            owner_uid: revision.uid.as_str().into(),
            intent: Some(name.to_string().into()),
            spec_digest: Some(revision.spec.digest.as_str().into()),
        };
        let pod = pod::order(revision, index)?;
        Ok(Order { mark, name: pod.name.clone(), provider_id: None, body: Body::Pod(Box::new(pod)) })
    }

    fn instances(&self, revision: &RevisionOrder) -> Result<Vec<Order>> {
        (0..revision.replicas).map(|index| self.instance(revision, index)).collect()
    }

    /// The instance runs, whatever was left of an earlier attempt: nothing, half of one, a stopped one, one that runs.
    async fn run(&self, intent: &str, order: &Order, found: Option<&Instance>) -> Result<()> {
        let stopped = found.filter(|instance| self.state(instance) == State::Stopped).map(|stopped| &stopped.guest.id);
        let can_start = self.provider.abilities().guests.has_run_state;
        if let Some(id) = stopped.filter(|_| !can_start) {
            self.provider.delete(intent, id).await?;
        }
        let id = self.provider.create(order).await?;
        if stopped.is_some() && can_start { self.provider.start(intent, &id).await } else { Ok(()) }
    }

    /// What there is of an App's revisions, and what the instances are called. A provider lists everything or one owner, and
    /// an App has many.
    async fn of_app(&self, app: &AppName) -> Result<(Observed, Vec<(InstanceName, Instance)>)> {
        let observed = self.provider.observe(&Scope::Everything).await?;
        let named = |instance: &Instance| Some((self.name_of(&instance.guest)?, instance.clone()));
        let own = observed.instances.iter().filter_map(named).filter(|(name, _)| name.is_of(app)).collect();
        Ok((observed, own))
    }

    fn name_of(&self, guest: &Guest) -> Option<InstanceName> {
        let mark = guest.mark.as_ref().filter(|mark| mark.cluster == self.cluster)?;
        mark.intent.as_deref()?.parse().ok()
    }

    fn state(&self, instance: &Instance) -> State {
        let words = &self.provider.abilities().guests;
        let word = instance.guest.run.known().map(|word| &**word).unwrap_or_default();
        match &instance.pod {
            _ if words.stopped_words.contains(&word) => State::Stopped,
            Some(pod) if pod.has_ended() => State::Stopped,
            Some(pod) if pod.stopping_since.is_some() => State::Draining,
            Some(pod) => State::Running { is_ready: is_ready(pod) },
            None => State::Running { is_ready: words.running_words.contains(&word) },
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Running { is_ready: bool },
    Draining,
    Stopped,
}

fn is_ready(pod: &PodState) -> bool {
    let serves = |container: &&ContainerState| container.role != Role::Init;
    pod.containers.iter().filter(serves).all(|container| container.is_ready)
}

/// Makes calls, a few at a time. After the first that fails no more are begun.
async fn all<C: Future<Output = Result<()>>>(calls: impl Iterator<Item = C>) -> Result<()> {
    stream::iter(calls.map(Ok)).try_for_each_concurrent(CALLS_AT_ONCE, |call| call).await
}

/// What was not seen was not stopped either: then it is to be asked again.
fn seen_all(operation: Operation, target: &str, observed: &Observed) -> Result<()> {
    match &observed.completeness {
        Completeness::Complete => Ok(()),
        Completeness::Partial(reason) => {
            Err(Error::provider(operation, target, Fault::Busy, format!("not everything was seen: {reason}")))
        }
    }
}

/// Where a Pod's ports can be reached.
fn endpoints(pod: &PodState) -> impl Iterator<Item = String> {
    let ip = pod.ip;
    pod.ports.iter().filter_map(move |port| ip.map(|ip| std::net::SocketAddr::new(ip, port.assigned_port).to_string()))
}

impl Deployer for OverInstances {
    fn granularity(&self) -> Granularity {
        self.provider.abilities().traffic
    }

    fn observe<'a>(&'a self, app: &'a AppName) -> Answer<'a, ObservedApp> {
        Box::pin(async move {
            let (observed, own) = self.of_app(app).await?;
            let split = self.router.observe(app).await?;
            let mut revisions: BTreeMap<String, ObservedRevision> = BTreeMap::new();
            for (name, instance) in &own {
                let revision = revisions.entry(name.revision.clone()).or_default();
                revision.is_staged = true;
                match self.state(instance) {
                    State::Running { is_ready } => {
                        revision.running += 1;
                        revision.ready += u32::from(is_ready);
                        let reached = instance.pod.iter().filter(|_| is_ready).flat_map(endpoints);
                        revision.endpoints.extend(reached);
                    }
                    State::Draining => revision.draining += 1,
                    State::Stopped => {}
                }
            }
            let Observed { completeness, observed_at, .. } = observed;
            Ok(ObservedApp { completeness, revisions, split, observed_at })
        })
    }

    fn stage<'a>(&'a self, revision: &'a RevisionOrder) -> Answer<'a, ()> {
        Box::pin(async move {
            let abilities = self.provider.abilities();
            self.instances(revision)?.iter().try_for_each(|order| order.check(abilities))
        })
    }

    fn warm<'a>(&'a self, revision: &'a RevisionOrder) -> Answer<'a, ()> {
        Box::pin(async move {
            let orders = self.instances(revision)?;
            let (_, own) = self.of_app(&revision.app).await?;
            let found = |intent: &str| own.iter().find(|(name, _)| name.to_string() == intent).map(|(_, found)| found);
            all(orders.iter().map(|order| self.run(&revision.intent, order, found(order.intent())))).await
        })
    }

    fn drain<'a>(&'a self, revision: &'a RevisionOrder) -> Answer<'a, ()> {
        Box::pin(async move {
            let grace = Duration::from_secs(revision.spec.drain_seconds.into());
            let (observed, own) = self.of_app(&revision.app).await?;
            let ids: Vec<&str> = own
                .iter()
                .filter(|(name, instance)| name.revision == revision.name && self.state(instance) != State::Stopped)
                .map(|(_, instance)| &*instance.guest.id)
                .collect();
            all(ids.into_iter().map(|id| self.provider.stop(&revision.intent, id, grace))).await?;
            seen_all(Operation::Drain, &revision.name, &observed)
        })
    }

    fn archive<'a>(&'a self, app: &'a AppName, revision: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let (observed, own) = self.of_app(app).await?;
            let intent = format!("archive/{revision}");
            let of_revision = own.iter().filter(|(name, _)| name.revision == revision);
            let ids: Vec<&str> = of_revision.map(|(_, instance)| &*instance.guest.id).collect();
            all(ids.into_iter().map(|id| self.provider.delete(&intent, id))).await?;
            seen_all(Operation::Archive, revision, &observed)
        })
    }

    fn apply_split<'a>(&'a self, app: &'a AppName, split: &'a Split) -> Answer<'a, Applied> {
        Box::pin(async move {
            let entries = self.router.apply(app, split.entries()).await?;
            Ok(Applied { app: app.clone(), entries })
        })
    }

    fn runtime_config<'a>(&'a self, deployment: &'a Deployment) -> Answer<'a, RuntimeConfig> {
        Box::pin(async move {
            let mut config = RuntimeConfig::project(deployment)?;
            let observed = self.observe(&deployment.app).await?;
            for block in &mut config.blocks {
                let found = observed.revisions.get(&block.revision);
                block.endpoints = found.map(|revision| revision.endpoints.clone()).unwrap_or_default();
            }
            Ok(config)
        })
    }
}
