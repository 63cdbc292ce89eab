//! What was last seen of each Environment, and which Machines that concerns: what the sweep of Environments and the work on
//! Machines share.

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_core::observation::Observation;

use crate::permission::SharedAccount;
use crate::queue::Queue;
use crate::runtime::Name;

/// Cheap to clone; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Sights(Arc<Mutex<Seen>>);

#[derive(Debug, Default)]
struct Seen {
    looks: BTreeMap<String, Arc<Observation>>,
    /// Machines that have to be looked at although their status says that all is well, each since which stir.
    stirred: BTreeMap<Name, Stir>,
    stirs: u64,
    machines: Option<Arc<Queue<Name>>>,
    accounts: BTreeMap<String, Arc<SharedAccount>>,
}

/// One time that a Machine was stirred.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Stir(u64);

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
        let mut seen = self.0.lock();
        seen.looks.remove(environment);
        // Another may act there from now on: what was known of it does not hold then.
        seen.accounts.remove(environment);
    }

    /// Has a Machine looked at, whatever its status says.
    pub fn stir(&self, machine: Name) {
        let mut seen = self.0.lock();
        seen.stirs += 1;
        let stir = Stir(seen.stirs);
        seen.stirred.insert(machine.clone(), stir);
        let queue = seen.machines.clone();
        drop(seen);
        queue.iter().for_each(|queue| queue.add(machine.clone()));
    }

    /// Has a Machine worked on, if there is anything to do.
    pub(crate) fn wake(&self, machine: Name) {
        let queue = self.0.lock().machines.clone();
        queue.iter().for_each(|queue| queue.add(machine.clone()));
    }

    /// Whether a Machine is to be looked at, and since when.
    pub(crate) fn stirred(&self, machine: &Name) -> Option<Stir> {
        self.0.lock().stirred.get(machine).copied()
    }

    /// A Machine was looked at, and what was seen is on record. If it was stirred again meanwhile, it stays so.
    pub(crate) fn calm(&self, machine: &Name, stir: Option<Stir>) {
        let mut seen = self.0.lock();
        if seen.stirred.get(machine).copied() == stir {
            seen.stirred.remove(machine);
        }
    }

    /// Whether every Machine that was stirred has been looked at, and what was seen is on record.
    pub fn is_calm(&self) -> bool {
        self.0.lock().stirred.is_empty()
    }

    /// The account of an environment.
    pub(crate) fn account(&self, environment: &str) -> Arc<SharedAccount> {
        self.0.lock().accounts.entry(environment.to_owned()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stir_lasts_until_a_look_that_began_after_it_is_on_record() {
        let (sights, web) = (Sights::default(), Name::new("default", "web"));
        assert_eq!(sights.stirred(&web), None);
        assert!(sights.is_calm());
        sights.stir(web.clone());
        let first = sights.stirred(&web);
        assert!(first.is_some());
        assert_eq!(sights.stirred(&web), first, "a round that comes to nothing takes nothing away");
        sights.stir(web.clone());
        sights.calm(&web, first);
        let second = sights.stirred(&web);
        assert!(second.is_some() && !sights.is_calm(), "it was stirred again while it was looked at");
        sights.calm(&web, second);
        assert_eq!(sights.stirred(&web), None);
        assert!(sights.is_calm());
    }
}
