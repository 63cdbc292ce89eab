//! The calls that make something in an Environment with limits and that may not show yet.
//!
//! They are on record, so the record says which are left: one that made nothing is taken off it, whoever finds that out.
//! Only until the caches show the record does the account know better than they do.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::machine::Machine;
use setpoint_api::step::Action;

use crate::runtime::cache::{Cache, Expected, Follows};
use crate::runtime::caches::MACHINES_BY_ENVIRONMENT;

/// What was begun in an Environment. Who holds it is the only one to spend there.
#[derive(Debug, Default)]
pub struct Account {
    /// Calls by their ids, each with the write that put it on record.
    begun: BTreeMap<String, Expected>,
}

impl Account {
    /// A call is about to be made; `machine` has it on record.
    pub(super) fn begin(&mut self, intent: &str, machine: &Machine, machines: &Cache<Machine>) {
        self.begun.insert(intent.to_owned(), machines.expect(machine));
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

/// Whether a step makes a guest.
pub(super) fn makes(action: Action) -> bool {
    matches!(action, Action::Create | Action::Replace)
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;
    use crate::runtime::Caches;

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
