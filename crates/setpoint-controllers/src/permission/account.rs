//! What is known of an Environment with limits: the calls that make something there and may not show yet, and a look at all
//! of it that holds for as long as nobody spends.
//!
//! Calls are on record, so the record says which are left: one that made nothing is taken off it, whoever finds that out.
//! Only until the caches show the record does the account know better than they do.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use setpoint_api::machine::Machine;
use setpoint_api::step::Action;
use setpoint_core::observation::Observation;

use crate::runtime::cache::{Cache, Expected, Follows};
use crate::runtime::caches::MACHINES_BY_ENVIRONMENT;

/// What was begun in an Environment. Who holds it is the only one to spend there.
#[derive(Debug, Default)]
pub struct Account {
    /// Calls by their ids, each with the write that put it on record.
    begun: BTreeMap<String, Expected>,
    look: Option<Look>,
}

/// A look since which nobody has spent, and the generation of the rules it was made for: by others, anybody may have.
#[derive(Debug)]
struct Look {
    rules: Option<i64>,
    observation: Arc<Observation>,
}

impl Account {
    /// A call is about to be made; `machine` has it on record.
    pub(super) fn begin(&mut self, intent: &str, machine: &Machine, machines: &Cache<Machine>) {
        self.begun.insert(intent.to_owned(), machines.expect(machine));
    }

    /// Something is about to be spent: what was seen before does not hold any more.
    pub(super) fn spend(&mut self) {
        self.look = None;
    }

    /// A look that shows what these calls made, if there is one that holds. One that somebody else made later tells more.
    pub(super) fn look(
        &self,
        rules: Option<i64>,
        calls: &BTreeSet<String>,
        later: Option<Arc<Observation>>,
    ) -> Option<Arc<Observation>> {
        let own = self.look.as_ref().filter(|look| look.rules == rules).map(|look| &look.observation)?;
        let later = later.filter(|later| later.observed_at > own.observed_at && shows(later, calls));
        Some(later.unwrap_or_else(|| own.clone())).filter(|look| shows(look, calls))
    }

    /// Keeps a look for those who ask next, if it shows everything.
    pub(super) fn keep(&mut self, rules: Option<i64>, calls: &BTreeSet<String>, observation: &Arc<Observation>) {
        let observation = observation.clone();
        self.look = shows(&observation, calls).then_some(Look { rules, observation });
    }

    /// The calls that a look has to show before it tells how much there is. To be asked before that look is made: what is
    /// off the record by then was seen by others.
    pub(super) fn open_calls(&mut self, environment: &str, machines: &Cache<Machine>) -> BTreeSet<String> {
        self.begun.retain(|_, write| !machines.has_seen(write));
        let here = machines.by(&MACHINES_BY_ENVIRONMENT, environment);
        let intents = here.iter().filter_map(|machine| machine.status.as_ref()).flat_map(|status| &status.intents);
        let recorded = intents.filter(|intent| makes(intent.action)).map(|intent| intent.id.clone());
        recorded.chain(self.begun.keys().cloned()).collect()
    }
}

/// Whether a look tells how much there is: it shows everything, and what was made by each of these calls.
pub(super) fn shows(look: &Observation, calls: &BTreeSet<String>) -> bool {
    let marks = look.guests.iter().filter_map(|guest| guest.mark.as_ref());
    let shown: BTreeSet<&str> = marks.filter_map(|mark| mark.intent.as_deref()).collect();
    look.completeness.is_complete() && calls.iter().all(|call| shown.contains(call.as_str()))
}

/// Whether a step makes a guest.
pub(super) fn makes(action: Action) -> bool {
    matches!(action, Action::Create | Action::Replace)
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use setpoint_core::observation::Completeness;

    use super::*;
    use crate::runtime::Caches;

    fn look(second: i64) -> Arc<Observation> {
        let observed_at = Timestamp::constant(second, 0);
        Arc::new(Observation { completeness: Completeness::Complete, guests: Vec::new(), observed_at })
    }

    #[test]
    fn a_look_holds_until_somebody_spends() {
        let (none, call) = (BTreeSet::new(), BTreeSet::from(["call".to_owned()]));
        let mut account = Account::default();
        assert_eq!(account.look(Some(1), &none, Some(look(5))), None, "who knows what was spent before");
        account.keep(Some(1), &call, &look(10));
        assert_eq!(account.look(Some(1), &none, None), None, "one that lacks something is not kept");
        account.keep(Some(1), &none, &look(10));
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
        account.spend();
        assert_eq!(account.look(Some(1), &none, Some(look(30))), None);
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
