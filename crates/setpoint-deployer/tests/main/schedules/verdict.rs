//! What is promised of a place under an honest operator, judged by what is really there and by the log of requests.
//!
//! At every time:
//!
//! - What is foreign is letter by letter as it was.
//! - Nothing was made or removed but under a call that was written down for that owner; only what belongs to an object
//!   that is gone is swept without.
//! - Of one owner's instances at most one was made by a create. Others were made by replacements, and only where those
//!   come before the removal.
//! - What an object wants is removed only to be replaced, or while another instance of it is there.
//!
//! An owner whose instances were touched behind our back is excused from the last two: a mark that is given back brings
//! an instance back too.
//!
//! In the end: one instance for every object, as desired; nothing else with our mark; no call on record.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::step::Action;
use setpoint_core::desired::Run;
use setpoint_core::diff::diff;
use setpoint_core::observation::Guest;
use setpoint_deployer::Operation;
use setpoint_deployer::provider::{Abilities, Provider};
use setpoint_deployer::simulated::{Effect, Entry, Place, Simulated};

use super::ledger::Ledger;
use super::operator::CLUSTER;

#[derive(Debug)]
pub(super) struct Inspector {
    foreign: Vec<Guest>,
    excused: BTreeSet<Box<str>>,
    abilities: Abilities,
    seen: u64,
    /// The instances of each owner, as the log tells.
    living: BTreeMap<Box<str>, BTreeSet<Box<str>>>,
}

impl Inspector {
    /// What is there now is foreign.
    pub(super) fn new(place: &Place) -> Inspector {
        Inspector {
            foreign: place.truth().into_iter().map(|instance| instance.guest).collect(),
            excused: BTreeSet::new(),
            abilities: Simulated::new(place, CLUSTER).abilities().clone(),
            seen: 0,
            living: BTreeMap::new(),
        }
    }

    pub(super) fn excuse(&mut self, owner: &str) {
        self.excused.insert(owner.into());
    }

    /// What holds at every time.
    pub(super) fn inspect(&mut self, place: &Place, ledger: &Ledger) -> Result<(), String> {
        let entries: Vec<Entry> = place.log(|log| log.since(self.seen).cloned().collect());
        for entry in &entries {
            self.seen = entry.number;
            if entry.effect != Effect::None {
                self.inspect_entry(entry, ledger).map_err(|problem| format!("{problem}: {entry}"))?;
            }
        }
        let truth: Vec<Guest> = place.truth().into_iter().map(|instance| instance.guest).collect();
        for foreign in &self.foreign {
            if !truth.contains(foreign) {
                return Err(format!("{} is foreign and was touched", foreign.id));
            }
        }
        self.inspect_doubles(&truth, ledger)
    }

    fn inspect_entry(&mut self, entry: &Entry, ledger: &Ledger) -> Result<(), String> {
        let (Some(owner), Some(instance)) = (&entry.owner, &entry.instance) else {
            return Err("something was done to nobody's instance".to_owned());
        };
        let promise = ledger.promises.get(&entry.intent);
        match (promise, entry.operation) {
            (Some(promise), _) if promise.uid != *owner => return Err(format!("it was for {}", promise.uid)),
            (Some(_), Operation::Create) => {
                self.living.entry(owner.clone()).or_default().insert(instance.clone());
            }
            (None, Operation::Delete) if ledger.past.contains(owner) => {}
            (None, _) => return Err("nothing was on record".to_owned()),
            (Some(promise), Operation::Delete) if entry.effect == Effect::Full => {
                let living = self.living.entry(owner.clone()).or_default();
                living.remove(instance);
                let is_replaced = promise.action == Action::Replace && promise.provider_id.as_ref() == Some(instance);
                let is_allowed = promise.is_unwanted || is_replaced || !living.is_empty();
                if !is_allowed && !self.excused.contains(owner) {
                    return Err("the only instance of what is wanted was removed".to_owned());
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn inspect_doubles(&self, truth: &[Guest], ledger: &Ledger) -> Result<(), String> {
        let mut made: BTreeMap<&str, Vec<Action>> = BTreeMap::new();
        for mark in truth.iter().filter_map(|guest| guest.mark.as_ref()).filter(|mark| *mark.cluster == *CLUSTER) {
            let promise = mark.intent.as_ref().and_then(|intent| ledger.promises.get(intent));
            made.entry(&mark.owner_uid).or_default().extend(promise.map(|promise| promise.action));
        }
        for (owner, actions) in made.iter().filter(|(owner, _)| !self.excused.contains(**owner)) {
            let creates = actions.iter().filter(|action| **action == Action::Create).count();
            let is_double = actions.len() > 1 && !self.abilities.guests.creates_before_delete;
            if creates > 1 || is_double {
                return Err(format!("{owner} has {} instances, made by {actions:?}", actions.len()));
            }
        }
        Ok(())
    }

    /// What holds in the end.
    pub(super) fn verdict(&self, place: &Place, ledger: &Ledger) -> Result<(), String> {
        let truth: Vec<Guest> = place.truth().into_iter().map(|instance| instance.guest).collect();
        let ours = |guest: &&Guest| guest.mark.as_ref().is_some_and(|mark| *mark.cluster == *CLUSTER);
        let owner = |guest: &Guest| guest.mark.as_ref().map(|mark| mark.owner_uid.clone()).unwrap_or_default();
        for guest in truth.iter().filter(ours) {
            if !ledger.objects.contains_key(&owner(guest)) {
                return Err(format!("{} is an orphan of {}", guest.id, owner(guest)));
            }
        }
        for (uid, object) in &ledger.objects {
            let desired = &object.desired;
            if desired.deletion.is_some() {
                return Err(format!("{uid} is being deleted and did not go: {:?}", desired.record));
            }
            if !desired.record.intents.is_empty() {
                return Err(format!("{uid} has calls on record: {:?}", desired.record.intents));
            }
            let own: Vec<&Guest> = truth.iter().filter(ours).filter(|guest| owner(guest) == *uid).collect();
            let [guest] = own.as_slice() else { return Err(format!("{uid} has {} instances", own.len())) };
            let word = guest.run.known().map(|word| &**word).unwrap_or_default();
            let wanted = match desired.run {
                Some(Run::Running) => "running",
                Some(Run::Stopped) => "stopped",
                None => word,
            };
            if word != wanted {
                return Err(format!("{uid} is {word} and should be {wanted}"));
            }
            let diff = diff(desired, &guest.config, &self.abilities.guests);
            // What is stopped has it once it starts.
            if let Some(change) = diff.changes.iter().find(|change| !change.is_pending || word != "stopped") {
                return Err(format!("{uid} is not as desired: {change}"));
            }
        }
        let unmarked = truth.iter().filter(|guest| guest.mark.is_none()).count();
        let foreign = self.foreign.iter().filter(|guest| guest.mark.is_none()).count();
        if unmarked != foreign { Err(format!("{unmarked} instances carry no mark")) } else { Ok(()) }
    }
}
