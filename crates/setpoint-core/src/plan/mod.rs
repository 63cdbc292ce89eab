//! From what is desired and what was observed to the smallest safe ordered steps.
//!
//! The same input gives the same bytes, in whatever order it comes. Nothing is written that could not be read, nothing
//! is touched that is not ours, and whatever is not done says what it waits on or why it is refused.

mod bounds;
mod dependencies;
mod draft;
mod index;
mod matching;
mod target;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Counts, Refusal, Step, Target, Waiting, WaitsOn};

use crate::desired::{Create, Desired};
use crate::digest::Key;
use crate::observation::Observation;
use crate::registry::Capabilities;
use matching::{Guests, Surplus};
use target::{Fate, Outcome, outcome, surplus_outcome};

/// The kind of a target that is a guest which belongs to nothing, or to an object that has another.
pub const GUEST: &str = "Guest";

/// Everything a plan depends on. The time is that of the observation.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The environment's name, for people.
    pub environment: &'a str,
    /// This control plane's identity: a mark that names another one is foreign.
    pub cluster: &'a str,
    pub capabilities: &'a Capabilities,
    pub desired: &'a [Desired],
    pub observation: &'a Observation,
    pub policy: Policy,
    /// The key of digests of secret values.
    pub key: &'a Key,
}

/// What the environment allows of itself, before anybody is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    pub create: Create,
    pub orphans: Orphans,
}

/// What becomes of a guest that carries our mark and that nothing desires.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Orphans {
    /// Not looked for, because what is desired is only a part of all that is.
    Ignore,
    /// Said, and left alone.
    Report,
    /// Removed, as far as the gate allows.
    Delete,
}

/// What will be done in an environment, in order; what waits; and what is refused.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ChangeSet {
    pub environment: String,
    pub steps: Vec<Step>,
    pub waiting: Vec<Waiting>,
    pub refused: Vec<Refusal>,
    pub counts: Counts,
}

impl ChangeSet {
    /// Whether anything would be done.
    pub fn has_changes(&self) -> bool {
        !self.steps.is_empty()
    }

    /// The objects for which something would be done, and the guests that would be deleted.
    pub fn actionable(&self) -> BTreeSet<&Target> {
        self.steps.iter().map(|step| &step.target).collect()
    }

    /// By how much the hourly cost changes, as far as prices are known.
    pub fn hourly_cost_delta(&self) -> Option<Price> {
        let known: Vec<Price> = self.steps.iter().filter_map(|step| step.hourly_cost_delta).collect();
        (!known.is_empty()).then(|| known.into_iter().sum())
    }

    /// What of it is about some objects; `guests` says which guests that belong to nothing, or to one of them once more,
    /// count as theirs. Steps still name those of others that they depend on.
    pub fn only(mut self, targets: &BTreeSet<&Target>, guests: impl Fn(&str) -> bool) -> ChangeSet {
        let concerns = |target: &Target| match target.kind.as_str() {
            GUEST => guests(&target.name),
            _ => targets.contains(target),
        };
        self.steps.retain(|step| concerns(&step.target));
        self.waiting.retain(|waiting| concerns(&waiting.target));
        self.refused.retain(|refusal| concerns(&refusal.target));
        let mut touched = self.actionable();
        touched.extend(self.waiting.iter().map(|waiting| &waiting.target));
        touched.extend(self.refused.iter().map(|refusal| &refusal.target));
        let unchanged = targets.iter().filter(|target| !touched.contains(*target)).count();
        self.counts = self.count(unchanged);
        self
    }

    /// What of it is for the objects themselves. What one has too many is for its controller to see to, and to ask about, whoever
    /// writes the object: it is told as something that waits.
    pub fn without_surplus(mut self) -> ChangeSet {
        let unchanged = self.counts.unchanged as usize;
        let (surplus, steps): (Vec<Step>, Vec<Step>) =
            std::mem::take(&mut self.steps).into_iter().partition(|step| step.target.kind == GUEST);
        self.steps = steps;
        self.waiting.extend(surplus.into_iter().map(|step| Waiting {
            target: step.target,
            action: Some(step.action),
            on: WaitsOn::Policy,
            message: format!("{}; that is seen to by itself, and asked about where people must agree", step.reason),
        }));
        self.counts = self.count(unchanged);
        self
    }

    /// The same with desires that could not even be read.
    pub fn refusing(mut self, refused: impl IntoIterator<Item = Refusal>) -> ChangeSet {
        let unchanged = self.counts.unchanged as usize;
        self.refused.extend(refused);
        self.counts = self.count(unchanged);
        self
    }

    /// How many objects and guests something is done to.
    pub fn total(&self) -> u32 {
        self.counts.creates + self.counts.updates + self.counts.deletes
    }
}

/// What to do in an environment.
pub fn plan(input: &Input<'_>) -> ChangeSet {
    let guests = Guests::of(input);
    let outcomes = outcomes(input, &guests);
    let unchanged = input.desired.len() - outcomes.len();
    let ordered = dependencies::in_order(input.desired, outcomes);
    // What is ours and needed by nothing goes last.
    let surplus = surplus_outcomes(input, &guests, &ordered);
    ChangeSet::of(input.environment, ordered.into_iter().chain(surplus), unchanged)
}

fn surplus_outcomes(input: &Input<'_>, guests: &Guests<'_>, ordered: &[Outcome]) -> Vec<Outcome> {
    let surplus = guests.surplus();
    if surplus.is_empty() {
        return Vec::new();
    }
    let mut fates: BTreeMap<&Target, Fate<'_>> = BTreeMap::new();
    for outcome in ordered {
        for step in &outcome.steps {
            fates.insert(&step.target, Fate::Changed { last_step: &step.id });
        }
        let waiting = outcome.waiting.iter().map(|waiting| &waiting.target);
        let refused = outcome.refused.iter().map(|refusal| &refusal.target);
        fates.extend(waiting.chain(refused).map(|target| (target, Fate::Stuck)));
    }
    let fate = |owner: Option<&Desired>| owner.and_then(|owner| fates.get(&owner.target)).copied();
    let outcome = |surplus: &Surplus<'_>| surplus_outcome(input, surplus, fate(surplus.of).unwrap_or(Fate::AsDesired));
    surplus.iter().map(outcome).collect()
}

/// What becomes of each object that is not as desired.
fn outcomes<'a>(input: &'a Input<'a>, guests: &Guests<'a>) -> Vec<(&'a Desired, Outcome)> {
    let matches = matching::matches(guests);
    let outcomes = input.desired.iter().zip(matches).map(|(desired, found)| (desired, outcome(guests, desired, found)));
    outcomes.filter(|(_, outcome)| !outcome.is_unchanged()).collect()
}

impl ChangeSet {
    fn of(environment: &str, outcomes: impl Iterator<Item = Outcome>, unchanged: usize) -> ChangeSet {
        let mut change_set = ChangeSet {
            environment: environment.to_owned(),
            steps: Vec::new(),
            waiting: Vec::new(),
            refused: Vec::new(),
            counts: Counts::default(),
        };
        for outcome in outcomes {
            change_set.steps.extend(outcome.steps);
            change_set.waiting.extend(outcome.waiting);
            change_set.refused.extend(outcome.refused);
        }
        change_set.counts = change_set.count(unchanged);
        change_set
    }

    fn count(&self, unchanged: usize) -> Counts {
        let mut kinds: BTreeMap<&Target, BTreeSet<Action>> = BTreeMap::new();
        for step in &self.steps {
            kinds.entry(&step.target).or_default().insert(step.action);
        }
        let count = |counts: &dyn Fn(&BTreeSet<Action>) -> bool| number(kinds.values().filter(|k| counts(k)).count());
        let creates = |actions: &BTreeSet<Action>| actions.contains(&Action::Create);
        let deletes = |actions: &BTreeSet<Action>| actions.contains(&Action::Delete);
        let distinct = |targets: BTreeSet<&Target>| number(targets.len());
        Counts {
            creates: count(&creates),
            updates: count(&|actions| !creates(actions) && !deletes(actions)),
            deletes: count(&deletes),
            unchanged: number(unchanged),
            waiting: distinct(self.waiting.iter().map(|waiting| &waiting.target).collect()),
            refused: distinct(self.refused.iter().map(|refusal| &refusal.target).collect()),
        }
    }
}

fn number(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}
