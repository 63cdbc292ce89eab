//! What is known of an Environment with limits: the calls that make something there and may not show yet, and a look at all
//! of it.
//!
//! Calls are on record, so the record says which are left: one that made nothing is taken off it, whoever finds that out.
//! Only until the caches show the record does the account know better than they do.
//!
//! A look tells how much there is until something comes or goes. After that it still tells how much there is at most:
//! together with all that was begun since. As long as that leaves room, nobody has to look again. What comes without being
//! begun here shows in the looks of others, and the largest of them counts.
//!
//! While a look does not show all that was begun, nobody who comes next would see more: for a while they take its word.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::machine::Machine;
use setpoint_core::gate::{Added, Usage};
use setpoint_core::intent::makes_a_guest;
use setpoint_core::observation::Observation;

use crate::runtime::cache::{Cache, Expected, Follows};
use crate::runtime::caches::MACHINES_BY_MAKING;

/// For how long nobody looks again where a look did not show everything.
const UNSEEN: SignedDuration = SignedDuration::from_secs(4);

/// What was begun in an Environment. Who holds it is the only one to spend there.
#[derive(Debug, Default)]
pub struct Account {
    /// Calls by their ids, each with the write that put it on record.
    begun: BTreeMap<String, Expected>,
    look: Option<Look>,
    unseen: Option<Unseen>,
}

/// A look that did not tell how much there is, for the rules of this generation.
#[derive(Debug)]
struct Unseen {
    rules: Option<i64>,
    /// The calls that it did not show.
    calls: BTreeSet<String>,
    until: Timestamp,
}

/// A look, and the generation of the rules it was made for: by others, anybody may have spent.
#[derive(Debug)]
struct Look {
    rules: Option<i64>,
    observation: Arc<Observation>,
    /// How much it shows there is, or what others saw later if that is more.
    usage: Usage,
    /// When the last of these looks was made.
    seen_at: Timestamp,
    /// Whether nothing was begun since that changes how much there is.
    is_current: bool,
    /// What was begun since adds this at most.
    added: Added,
    /// The calls among it that may not show yet.
    since: BTreeSet<String>,
}

impl Account {
    /// A call is about to be made; `machine` has it on record.
    pub(super) fn begin(&mut self, intent: &str, machine: &Machine, machines: &Cache<Machine>) {
        self.begun.insert(intent.to_owned(), machines.expect(machine));
        if let Some(look) = &mut self.look {
            look.since.insert(intent.to_owned());
        }
    }

    /// Something is about to be spent or given back: what was seen before is not how much there is any more.
    pub(super) fn spend(&mut self, added: Added) {
        if let Some(look) = &mut self.look {
            look.is_current = false;
            look.added = look.added.and(added);
        }
    }

    /// How much there is at most, if there is a look by which that can be said: it shows what all calls made but those that
    /// were begun since.
    pub(super) fn at_most(
        &mut self,
        rules: Option<i64>,
        calls: &BTreeSet<String>,
        later: Option<&Observation>,
        usage: impl Fn(&Observation) -> Usage,
    ) -> Option<Usage> {
        let look = self.look.as_mut().filter(|look| look.rules == rules)?;
        let is_later = |later: &&Observation| later.observed_at > look.seen_at && later.completeness.is_complete();
        if let Some(later) = later.filter(is_later) {
            look.seen_at = later.observed_at;
            look.usage = look.usage.or_more(usage(later));
        }
        look.since.retain(|call| calls.contains(call));
        let earlier: BTreeSet<String> = calls.difference(&look.since).cloned().collect();
        shows(&look.observation, &earlier).then(|| look.usage.plus(look.added))
    }

    /// A look that shows how much there is, if there is one. One that somebody else made later tells more.
    pub(super) fn look(
        &self,
        rules: Option<i64>,
        calls: &BTreeSet<String>,
        later: Option<Arc<Observation>>,
    ) -> Option<Arc<Observation>> {
        let own = self.look.as_ref().filter(|look| look.rules == rules && look.is_current)?;
        let later = later.filter(|later| later.observed_at > own.observation.observed_at && shows(later, calls));
        Some(later.unwrap_or_else(|| own.observation.clone())).filter(|look| shows(look, calls))
    }

    /// Keeps a look for those who ask next, with what it shows there is, if it shows everything. Gives back how much there
    /// is, as far as that is known then.
    pub(super) fn keep(
        &mut self,
        rules: Option<i64>,
        calls: &BTreeSet<String>,
        observation: Arc<Observation>,
        usage: Usage,
        now: Timestamp,
    ) -> Usage {
        let (added, since) = (Added::default(), BTreeSet::new());
        let seen_at = observation.observed_at;
        let unseen = || Unseen { rules, calls: unshown(&observation, calls), until: now + UNSEEN };
        self.unseen = (!shows(&observation, calls)).then(unseen);
        let look = Look { rules, observation, usage, seen_at, is_current: true, added, since };
        self.look = Some(look).filter(|_| self.unseen.is_none());
        self.look.as_ref().map(|look| look.usage).unwrap_or_default()
    }

    /// Whether somebody has just looked and did not see how much there is, and nothing that they missed was settled since.
    pub(super) fn is_unseen(&self, rules: Option<i64>, calls: &BTreeSet<String>, now: Timestamp) -> bool {
        let unseen = self.unseen.as_ref().filter(|unseen| unseen.rules == rules && now < unseen.until);
        unseen.is_some_and(|unseen| unseen.calls.is_subset(calls))
    }

    /// The calls that a look has to show before it tells how much there is. To be asked before that look is made: what is
    /// off the record by then was seen by others.
    pub(super) fn open_calls(&mut self, environment: &str, machines: &Cache<Machine>) -> BTreeSet<String> {
        self.begun.retain(|_, write| !machines.has_seen(write));
        let making = machines.by(&MACHINES_BY_MAKING, environment);
        let intents = making.iter().filter_map(|machine| machine.status.as_ref()).flat_map(|status| &status.intents);
        let recorded = intents.filter(|intent| makes_a_guest(intent.action)).map(|intent| intent.id.clone());
        recorded.chain(self.begun.keys().cloned()).collect()
    }
}

/// Whether a look tells how much there is: it shows everything, and what was made by each of these calls.
fn shows(look: &Observation, calls: &BTreeSet<String>) -> bool {
    look.completeness.is_complete() && unshown(look, calls).is_empty()
}

/// The calls of which a look shows nothing that they made.
fn unshown(look: &Observation, calls: &BTreeSet<String>) -> BTreeSet<String> {
    if calls.is_empty() {
        return BTreeSet::new();
    }
    let marks = look.guests.iter().filter_map(|guest| guest.mark.as_ref());
    let shown: BTreeSet<&str> = marks.filter_map(|mark| mark.intent.as_deref()).collect();
    calls.iter().filter(|call| !shown.contains(call.as_str())).cloned().collect()
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use setpoint_core::observation::Completeness;

    use super::*;
    use crate::runtime::Caches;

    fn look(second: i64) -> Arc<Observation> {
        Arc::new(Observation { completeness: Completeness::Complete, guests: Vec::new(), observed_at: at(second) })
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::constant(second, 0)
    }

    fn seen(instances: u32) -> Usage {
        Usage { instances: Some(instances), gpus: Some(0), hourly_cost: None }
    }

    #[test]
    fn a_look_holds_until_something_comes_or_goes() {
        let (none, call) = (BTreeSet::new(), BTreeSet::from(["call".to_owned()]));
        let mut account = Account::default();
        assert_eq!(account.look(Some(1), &none, Some(look(5))), None, "who knows what was spent before");
        assert_eq!(
            account.keep(Some(1), &call, look(10), seen(1), at(10)),
            Usage::default(),
            "it does not show all there is"
        );
        assert_eq!(account.look(Some(1), &none, None), None, "one that lacks something is not kept");
        assert_eq!(account.keep(Some(1), &none, look(10), seen(1), at(10)), seen(1));
        let rows = [
            ("as it was kept", Some(1), &none, None, Some(10)),
            ("a later one tells more", Some(1), &none, Some(look(20)), Some(20)),
            ("an earlier one does not", Some(1), &none, Some(look(5)), Some(10)),
            ("something has to show that does not", Some(1), &call, Some(look(20)), None),
            ("other rules", Some(2), &none, None, None),
        ];
        for (name, rules, calls, later, expected) in rows {
            let found = account.look(rules, calls, later).map(|look| look.observed_at.as_second());
            assert_eq!(found, expected, "{name}");
        }
        account.spend(Added::default());
        assert_eq!(account.look(Some(1), &none, Some(look(30))), None);
    }

    #[test]
    fn who_comes_after_a_look_that_showed_too_little_does_not_look_again_at_once() {
        let calls = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<BTreeSet<String>>();
        let mut account = Account::default();
        assert!(!account.is_unseen(Some(1), &calls(&[]), at(10)), "nobody has looked");
        account.keep(Some(1), &calls(&["a"]), look(10), seen(1), at(10));
        let rows = [
            ("at once", Some(1), calls(&["a"]), 10, true),
            ("something else was begun", Some(1), calls(&["a", "b"]), 12, true),
            ("what was missed is settled", Some(1), calls(&["b"]), 12, false),
            ("a while later", Some(1), calls(&["a"]), 14, false),
            ("by other rules", Some(2), calls(&["a"]), 12, false),
        ];
        for (name, rules, calls, second, expected) in rows {
            assert_eq!(account.is_unseen(rules, &calls, at(second)), expected, "{name}");
        }
        let partial = Observation { completeness: Completeness::Partial("half".into()), ..(*look(20)).clone() };
        account.keep(Some(1), &calls(&[]), Arc::new(partial), seen(1), at(20));
        assert!(account.is_unseen(Some(1), &calls(&[]), at(21)), "it did not show all of the place");
        account.keep(Some(1), &calls(&[]), look(22), seen(1), at(22));
        assert!(!account.is_unseen(Some(1), &calls(&[]), at(22)), "everything is seen");
    }

    #[test]
    fn a_look_and_what_was_begun_since_tell_how_much_there_is_at_most() {
        let (machines, none) = (Caches::default().machines, BTreeSet::new());
        let one = Added { instances: 1, ..Added::default() };
        let mut account = Account::default();
        let at_most = |account: &mut Account, rules, calls: &BTreeSet<String>| {
            account.at_most(Some(rules), calls, None, |_| Usage::default())
        };
        assert_eq!(at_most(&mut account, 1, &none), None, "nobody has looked");
        account.keep(Some(1), &none, look(10), seen(3), at(10));
        assert_eq!(at_most(&mut account, 1, &none), Some(seen(3)));
        assert_eq!(at_most(&mut account, 2, &none), None, "by other rules anybody may have spent");
        account.spend(one);
        account.begin("call", &machine(5, &["call"]), &machines);
        let calls = account.open_calls("lab", &machines);
        assert_eq!(at_most(&mut account, 1, &calls), Some(seen(4)), "it need not show yet");
        assert_eq!(at_most(&mut account, 1, &none), Some(seen(4)), "it may have been made");
        account.spend(Added::default());
        assert_eq!(at_most(&mut account, 1, &none), Some(seen(4)), "what goes leaves no room before it was seen to");
        let strange = BTreeSet::from(["of another".to_owned()]);
        assert_eq!(at_most(&mut account, 1, &strange), None, "what an earlier leader began has to show");
        for (name, at, instances, expected) in
            [("others came", 15, 6, 7), ("that was seen before", 12, 9, 7), ("some went", 16, 0, 7)]
        {
            let found = account.at_most(Some(1), &none, Some(&look(at)), |_| seen(instances));
            assert_eq!(found, Some(seen(expected)), "{name}");
        }
        account.keep(Some(1), &none, look(20), seen(2), at(20));
        assert_eq!(at_most(&mut account, 1, &none), Some(seen(2)), "what was seen is seen");
    }

    fn machine(version: u32, intents: &[&str]) -> Machine {
        let intent = |id: &&str| -> Value {
            json!({"id": id, "action": "Create", "digest": "d", "startedAt": "2026-03-01T12:00:00Z", "epoch": 1})
        };
        let intents: Vec<Value> = intents.iter().map(intent).collect();
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web", "namespace": "default", "uid": "u", "resourceVersion": version.to_string()},
            "spec": {"environment": "lab"}, "status": {"intents": intents},
        }))
        .expect("a Machine")
    }

    #[test]
    fn a_call_is_open_until_the_record_says_otherwise() {
        let machines = Caches::default().machines;
        let mut account = Account::default();
        machines.apply(Event::Apply(machine(1, &[])));
        account.begin("call", &machine(5, &["call"]), &machines);
        let rows = [
            ("the caches do not show it yet", None, vec!["call"]),
            ("something older is shown", Some(machine(3, &[])), vec!["call"]),
            ("it is on record", Some(machine(5, &["call"])), vec!["call"]),
            ("so it is while its outcome is not known", Some(machine(6, &["call"])), vec!["call"]),
            ("it made nothing, and was taken off the record", Some(machine(7, &[])), vec![]),
        ];
        for (name, shown, open) in rows {
            shown.into_iter().for_each(|machine| machines.apply(Event::Apply(machine)));
            assert_eq!(account.open_calls("lab", &machines), open.into_iter().map(str::to_owned).collect(), "{name}");
        }
        assert_eq!(
            account.open_calls("elsewhere", &machines),
            BTreeSet::new(),
            "another place has nothing to do with it"
        );
    }

    #[test]
    fn a_call_of_a_machine_that_is_gone_holds_nobody() {
        let machines = Caches::default().machines;
        let mut account = Account::default();
        account.begin("call", &machine(5, &["call"]), &machines);
        machines.apply(Event::Init);
        machines.apply(Event::InitDone);
        assert_eq!(account.open_calls("lab", &machines), BTreeSet::new());
    }
}
