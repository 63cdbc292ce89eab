//! What was last seen of each Environment, and which Machines that concerns: what the sweep of Environments and the work on
//! Machines share.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_core::observation::Observation;

use crate::permission::Account;
use crate::queue::Queue;
use crate::runtime::Name;

/// Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Sights(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    looks: BTreeMap<String, Arc<Observation>>,
    /// Machines that have to be looked at although their status says that all is well.
    stirred: BTreeSet<Name>,
    machines: Option<Arc<Queue<Name>>>,
    accounts: BTreeMap<String, Arc<tokio::sync::Mutex<Account>>>,
}

impl Sights {
    pub(crate) fn connect(&self, machines: &Arc<Queue<Name>>) {
        self.0.lock().machines = Some(machines.clone());
    }

    /// The last look at an environment.
    pub fn last(&self, environment: &str) -> Option<Arc<Observation>> {
        self.0.lock().looks.get(environment).cloned()
    }

    pub(crate) fn put(&self, environment: &str, look: Arc<Observation>) {
        self.0.lock().looks.insert(environment.to_owned(), look);
    }

    pub(crate) fn forget(&self, environment: &str) {
        self.0.lock().looks.remove(environment);
    }

    /// Has a Machine looked at, whatever its status says.
    pub fn stir(&self, machine: Name) {
        let mut seen = self.0.lock();
        seen.stirred.insert(machine.clone());
        let queue = seen.machines.clone();
        drop(seen);
        queue.iter().for_each(|queue| queue.add(machine.clone()));
    }

    /// Has a Machine worked on, if there is anything to do.
    pub(crate) fn wake(&self, machine: Name) {
        let queue = self.0.lock().machines.clone();
        queue.iter().for_each(|queue| queue.add(machine.clone()));
    }

    /// Whether a Machine is to be looked at; from then on it is not, until it is stirred again.
    pub(crate) fn take_stirred(&self, machine: &Name) -> bool {
        self.0.lock().stirred.remove(machine)
    }

    /// It was not looked at after all.
    pub(crate) fn keep_stirred(&self, machine: &Name) {
        self.0.lock().stirred.insert(machine.clone());
    }

    /// The account of an environment, which one at a time may hold.
    pub(crate) fn account(&self, environment: &str) -> Arc<tokio::sync::Mutex<Account>> {
        self.0.lock().accounts.entry(environment.to_owned()).or_default().clone()
    }
}
