//! One look at everything, once in each period: what an Environment holds and costs, which Machines that is news to, and
//! what belongs to nothing.

use std::cell::LazyCell;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::environment::{Environment, Orphan};
use setpoint_api::machine::Machine;
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

/// How far apart looks are at least, however much comes and goes.
const APART: SignedDuration = SignedDuration::from_secs(5);

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
        // Where there is an agent, it tells; but a look may be answered first.
        if !has_agent || self.has_yet_to_answer(key) {
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
        self.news.looked(key, now);
        match self.nodes.read_only {
            true => Ok(()),
            false => self.remove_orphans(environment, &*provider, &look, &orphans, epoch, round).await,
        }
    }

    /// The place did not answer: it is asked again when it would have been anyway.
    fn put_off(&self, key: &Name, environment: &Environment, now: Timestamp) {
        self.news.looked(key, now);
        match self.surveys.lock().get_mut(key) {
            Some(before) => {
                (before.asked_at, before.wish) = (now, wish(environment));
                before.generation = environment.metadata.generation;
            }
            None => drop(self.unanswered.lock().insert(key.clone(), now)),
        }
    }

    /// How long it is until the next look; none where nothing was ever looked at. Where something came or went it is soon.
    pub(super) fn due_in(&self, key: &Name, environment: &Environment, now: Timestamp) -> Option<Duration> {
        let period = SignedDuration::from_secs(environment.spec.observe_interval_seconds.into());
        let left = |asked_at: Timestamp, period: SignedDuration| {
            Duration::try_from(period - now.duration_since(asked_at)).unwrap_or_default()
        };
        let surveys = self.surveys.lock();
        let Some(last) = surveys.get(key) else {
            return self.unanswered.lock().get(key).map(|asked_at| left(*asked_at, period));
        };
        let is_outdated = last.generation != environment.metadata.generation || last.wish != wish(environment);
        let soon = self.news.due_in(key, now).map(|due| due.max(left(last.asked_at, APART)));
        let regular = left(last.asked_at, period);
        Some(if is_outdated { Duration::ZERO } else { soon.map_or(regular, |soon| soon.min(regular)) })
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
            orphans: self.orphans(key, environment, look),
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
        let now = Register::of(look, &self.setup.cluster);
        // Only what is hidden is compared with what was there before.
        let then = LazyCell::new(|| before.map(|before| Register::of(before, &self.setup.cluster)));
        for machine in self.caches.machines.by(&MACHINES_BY_ENVIRONMENT, &key.name) {
            let guests = now.guests(&machine);
            let guest_then = || then.as_ref().and_then(|then| then.guests(&machine).first().copied());
            if is_news(&machine, &guests, guest_then, &look.completeness, capabilities) {
                self.sights.stir(Name::of(&*machine));
            } else if is_first {
                self.sights.wake(Name::of(&*machine));
            }
        }
    }

    /// What carries our mark and belongs to nothing, each since it was first seen so.
    fn orphans(&self, key: &Name, environment: &Environment, look: &Observation) -> Vec<Orphan> {
        let is_known = |uid: &str| {
            self.caches.machines.count_by(&MACHINES_BY_UID, uid) > 0 || self.caches.pods.count_by(&PODS_BY_UID, uid) > 0
        };
        let surveys = self.surveys.lock();
        let last = surveys.get(key).map(|last| last.orphans.as_slice()).unwrap_or_default();
        let listed = environment.status.as_ref().map(|status| status.orphans.as_slice()).unwrap_or_default();
        let since = orphaned_since(last, listed);
        let orphan = |guest: &Guest| Orphan {
            provider_id: guest.id.to_string(),
            name: Some(guest.name.to_string()).filter(|name| !name.is_empty()),
            since: since.get(&*guest.id).copied().unwrap_or(look.observed_at),
            hourly_cost: guest.hourly_price,
        };
        orphans(look, &self.setup.cluster, is_known).into_iter().map(orphan).collect()
    }
}

/// Since when guests have belonged to nothing, by id: as the last survey found, which has them all, or else as the status
/// lists, which lasts longer.
fn orphaned_since<'o>(last: &'o [Orphan], listed: &'o [Orphan]) -> BTreeMap<&'o str, Timestamp> {
    listed.iter().chain(last).map(|orphan| (orphan.provider_id.as_str(), orphan.since)).collect()
}

/// The guests of a look, as they are found.
struct Register<'l> {
    /// Those with our mark, by the uid of their owner.
    owned: BTreeMap<&'l str, Vec<&'l Guest>>,
    /// Those without any, by id.
    unmarked: BTreeMap<&'l str, &'l Guest>,
}

impl<'l> Register<'l> {
    fn of(look: &'l Observation, cluster: &str) -> Register<'l> {
        let mut register = Register { owned: BTreeMap::new(), unmarked: BTreeMap::new() };
        for guest in &look.guests {
            match &guest.mark {
                Some(mark) if *mark.cluster == *cluster => {
                    register.owned.entry(&mark.owner_uid).or_default().push(guest);
                }
                Some(_) => {}
                None => drop(register.unmarked.insert(&guest.id, guest)),
            }
        }
        register
    }

    /// The guests that carry a Machine's mark; where none does, the one that it insists on and that nobody has.
    fn guests(&self, machine: &Machine) -> Vec<&'l Guest> {
        let owned = machine.metadata.uid.as_deref().and_then(|uid| self.owned.get(uid));
        let pinned = || machine.spec.provider_id.as_deref().and_then(|id| self.unmarked.get(id));
        owned.cloned().unwrap_or_else(|| pinned().into_iter().copied().collect())
    }
}

fn wish(environment: &Environment) -> Option<String> {
    environment.metadata.annotations.as_ref()?.get(RECONCILE_AT).cloned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use setpoint_api::environment::MAX_ORPHANS;
    use setpoint_core::observation::{Completeness, Mark};

    use super::*;

    fn guest(id: &str, mark: Option<(&str, &str)>) -> Guest {
        Guest::new(id, mark.map(|(cluster, owner)| Mark::new(cluster, owner, None)))
    }

    #[test]
    fn an_orphan_lasts_since_it_was_first_seen_however_many_there_are() {
        let orphan = |id: &str, second: i64| {
            let since = Timestamp::constant(second, 0);
            Orphan { provider_id: id.to_owned(), name: None, since, hourly_cost: None }
        };
        let many = || -> Vec<Orphan> { (0..MAX_ORPHANS + 50).map(|number| orphan(&number.to_string(), 10)).collect() };
        let rows = [
            ("nothing was seen before", vec![], vec![], "7", None),
            ("it is listed, and nobody here has looked yet", vec![], vec![orphan("7", 5)], "7", Some(5)),
            ("it is listed", many(), many()[..MAX_ORPHANS].to_vec(), "7", Some(10)),
            ("there are more than are listed", many(), many()[..MAX_ORPHANS].to_vec(), "140", Some(10)),
            (
                "the last survey knows better than the status",
                vec![orphan("7", 20)],
                vec![orphan("7", 5)],
                "7",
                Some(20),
            ),
        ];
        for (name, last, listed, id, expected) in rows {
            let since = orphaned_since(&last, &listed).get(id).map(|since| since.as_second());
            assert_eq!(since, expected, "{name}");
        }
    }

    #[test]
    fn a_machine_is_told_of_its_guests_and_of_the_one_it_insists_on() {
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "web", "uid": "web"},
            "spec": {"environment": "lab", "providerId": "101"},
        }))
        .expect("a Machine");
        let own = || guest("7", Some(("ours", "web")));
        let rows: [(&str, Vec<Guest>, &[&str]); 5] = [
            ("nothing is there", vec![], &[]),
            ("what carries its mark", vec![own(), guest("8", Some(("ours", "db")))], &["7"]),
            ("what it insists on", vec![guest("101", None), guest("102", None)], &["101"]),
            ("its own comes first", vec![guest("101", None), own()], &["7"]),
            ("what it insists on is another's", vec![guest("101", Some(("theirs", "x")))], &[]),
        ];
        for (name, guests, expected) in rows {
            let look = Observation { completeness: Completeness::Complete, guests, observed_at: Timestamp::UNIX_EPOCH };
            let register = Register::of(&look, "ours");
            let found: Vec<&str> = register.guests(&machine).iter().map(|guest| &*guest.id).collect();
            assert_eq!(found, expected, "{name}");
        }
    }
}
