//! One look at everything, once in each period: what an Environment holds and costs, which Machines that is news to, and
//! what belongs to nothing.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::environment::{Environment, Orphan};
use setpoint_api::requester::RECONCILE_AT;
use setpoint_core::gate::Usage;
use setpoint_core::machine::is_news;
use setpoint_core::observation::{Guest, Observation};
use setpoint_core::orphan::orphans;
use setpoint_deployer::Provider;
use setpoint_deployer::provider::{Offer, Scope};

use super::Environments;
use crate::runtime::caches::{MACHINES_BY_ENVIRONMENT, MACHINES_BY_UID, PODS_BY_UID};
use crate::runtime::{Error, Name, Round};

/// What a sweep found.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Survey {
    /// When the place was asked, and for which opening of it.
    asked_at: Timestamp,
    pub(super) generation: Option<i64>,
    /// The wish for a fresh look that it has fulfilled.
    wish: Option<String>,
    pub(super) observed_at: Timestamp,
    pub(super) usage: Usage,
    pub(super) offer: Offer,
    /// All that belongs to nothing, by id.
    pub(super) orphans: Vec<Orphan>,
}

impl Environments {
    /// Looks at everything, if it is time to. A place that does not answer is what it was when it last did.
    pub(super) async fn sweep(&self, key: &Name, environment: &Environment, round: &mut Round) -> Result<(), Error> {
        let now = round.now;
        let Some((provider, has_agent)) = self.provider_of(key) else { return Ok(()) };
        if !provider.abilities().runs_machines || self.due_in(key, environment, now).is_some_and(|due| !due.is_zero()) {
            return Ok(());
        }
        self.sweeps.inc();
        let epoch = self.nodes.epoch();
        let look = provider.observe(&Scope::Everything).await;
        if !has_agent {
            self.reached(key, look.as_ref().map(drop).map_err(ToString::to_string));
        }
        let look = match look {
            Ok(observed) => Arc::new(observed.into_observation()),
            Err(error) => {
                tracing::warn!(environment = %key, %error, "the place could not be looked at");
                self.put_off(key, environment, now);
                return Ok(());
            }
        };
        let survey = self.survey(key, environment, &*provider, &look, now).await;
        let orphans = survey.orphans.clone();
        self.surveys.lock().insert(key.clone(), survey);
        self.remove_orphans(environment, &*provider, &look, &orphans, epoch, round).await
    }

    /// The place did not answer: it is asked again when it would have been anyway.
    fn put_off(&self, key: &Name, environment: &Environment, now: Timestamp) {
        match self.surveys.lock().get_mut(key) {
            Some(before) => {
                (before.asked_at, before.wish) = (now, wish(environment));
                before.generation = environment.metadata.generation;
            }
            None => drop(self.unanswered.lock().insert(key.clone(), now)),
        }
    }

    /// How long it is until the next look; none where nothing was ever looked at.
    pub(super) fn due_in(&self, key: &Name, environment: &Environment, now: Timestamp) -> Option<Duration> {
        let period = SignedDuration::from_secs(environment.spec.observe_interval_seconds.into());
        let left = |asked_at: Timestamp| Duration::try_from(period - now.duration_since(asked_at)).unwrap_or_default();
        let surveys = self.surveys.lock();
        let Some(last) = surveys.get(key) else {
            return self.unanswered.lock().get(key).map(|asked_at| left(*asked_at));
        };
        let is_outdated = last.generation != environment.metadata.generation || last.wish != wish(environment);
        Some(if is_outdated { Duration::ZERO } else { left(last.asked_at) })
    }

    async fn survey(
        &self,
        key: &Name,
        environment: &Environment,
        provider: &dyn Provider,
        look: &Arc<Observation>,
        now: Timestamp,
    ) -> Survey {
        let capabilities = &provider.abilities().guests;
        let before = self.sights.last(&key.name);
        self.sights.put(&key.name, look.clone());
        self.stir(key, look, before.as_deref(), capabilities, before.is_none());
        Survey {
            asked_at: now,
            generation: environment.metadata.generation,
            wish: wish(environment),
            observed_at: look.observed_at,
            usage: Usage::of(look, &self.setup.cluster, capabilities),
            offer: provider.offer().await.unwrap_or_default(),
            orphans: self.orphans(environment, look),
        }
    }

    /// Has those Machines looked at to which a look is news; and after the first one, those that wait for any.
    fn stir(
        &self,
        key: &Name,
        look: &Observation,
        before: Option<&Observation>,
        capabilities: &setpoint_core::registry::Capabilities,
        is_first: bool,
    ) {
        let (now, then) =
            (by_owner(look, &self.setup.cluster), before.map(|before| by_owner(before, &self.setup.cluster)));
        for machine in self.caches.machines.by(&MACHINES_BY_ENVIRONMENT, &key.name) {
            let uid = machine.metadata.uid.as_deref().unwrap_or_default();
            let guests = now.get(uid).map(Vec::as_slice).unwrap_or_default();
            let guest_then = then.as_ref().and_then(|then| then.get(uid)?.first().copied());
            if is_news(&machine, guests, guest_then, &look.completeness, capabilities) {
                self.sights.stir(Name::of(&*machine));
            } else if is_first {
                self.sights.wake(Name::of(&*machine));
            }
        }
    }

    /// What carries our mark and belongs to nothing, each since it was first seen so.
    fn orphans(&self, environment: &Environment, look: &Observation) -> Vec<Orphan> {
        let is_known = |uid: &str| {
            self.caches.machines.count_by(&MACHINES_BY_UID, uid) > 0 || self.caches.pods.count_by(&PODS_BY_UID, uid) > 0
        };
        let listed = environment.status.iter().flat_map(|status| &status.orphans);
        let since: BTreeMap<&str, Timestamp> =
            listed.map(|orphan| (orphan.provider_id.as_str(), orphan.since)).collect();
        let orphan = |guest: &Guest| Orphan {
            provider_id: guest.id.to_string(),
            name: Some(guest.name.to_string()).filter(|name| !name.is_empty()),
            since: since.get(&*guest.id).copied().unwrap_or(look.observed_at),
            hourly_cost: guest.hourly_price,
        };
        orphans(look, &self.setup.cluster, is_known).into_iter().map(orphan).collect()
    }
}

/// The guests with our mark, by the uid of their owner.
fn by_owner<'l>(look: &'l Observation, cluster: &str) -> BTreeMap<&'l str, Vec<&'l Guest>> {
    let mut all: BTreeMap<&str, Vec<&Guest>> = BTreeMap::new();
    for guest in &look.guests {
        if let Some(mark) = guest.mark.as_ref().filter(|mark| *mark.cluster == *cluster) {
            all.entry(&mark.owner_uid).or_default().push(guest);
        }
    }
    all
}

fn wish(environment: &Environment) -> Option<String> {
    environment.metadata.annotations.as_ref()?.get(RECONCILE_AT).cloned()
}
