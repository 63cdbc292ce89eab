//! What would change, as data: for a person to read, for a program, and for a file that is applied later.

mod approval;
mod object;
mod saved;
#[cfg(test)]
mod tests;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use setpoint_api::change_set::{StepState, StepStatus};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Counts, Refusal, Step, Target, Waiting};

pub(crate) use self::approval::{Hold, holds};
pub(crate) use self::object::{FieldEdit, ObjectAction, ObjectChange};
pub(crate) use self::saved::{Saved, Seals, differences};
pub(crate) use self::text::steps_text;

/// The kind whose objects stand for guests.
pub(crate) const MACHINE: &str = "machine.setpoint.dev";
/// The kind of the places that guests are in.
pub(crate) const ENVIRONMENT: &str = "environment.setpoint.dev";

/// Everything that would change.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Proposal {
    /// The objects, in the order they are written in.
    pub(crate) objects: Vec<ObjectChange>,
    /// What that does to guests.
    pub(crate) change_sets: Vec<ProposedSet>,
}

/// What would be done to the guests of one environment for the objects of one namespace.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ProposedSet {
    pub(crate) namespace: String,
    pub(crate) environment: String,
    #[serde(default)]
    pub(crate) steps: Vec<Step>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) waiting: Vec<Waiting>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) refused: Vec<Refusal>,
    #[serde(default)]
    pub(crate) counts: Counts,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) hourly_cost_delta: Option<Price>,
    /// What each step that waits for people waits for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) holds: Vec<Hold>,
    /// The steps that limits of the environment hold back or refuse, however many people agree.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) limited: Vec<Limited>,
}

/// What a limit of an environment makes of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Limited {
    /// The step, by its id.
    pub(crate) step: String,
    /// Whether it never has room, instead of not now.
    pub(crate) is_refused: bool,
    pub(crate) why: String,
}

impl Limited {
    /// What a preview says of a step that is not taken for want of room.
    pub(crate) fn of(status: &StepStatus) -> Limited {
        let (is_refused, message) = (status.state == StepState::Failed, status.message.as_deref().unwrap_or_default());
        let limited = Limited { step: status.id.clone(), is_refused, why: String::new() };
        let why = message.strip_prefix(limited.title()).map_or(message, str::trim_start);
        Limited { why: why.to_owned(), ..limited }
    }

    /// `waits:` or `refused:`.
    pub(crate) fn title(&self) -> &'static str {
        if self.is_refused { "refused:" } else { "waits:" }
    }
}

impl Proposal {
    /// Whether anything would be done.
    pub(crate) fn has_changes(&self) -> bool {
        let guests = self.change_sets.iter().any(|set| !set.steps.is_empty());
        guests || self.objects.iter().any(|object| object.action != ObjectAction::Unchanged)
    }

    /// Whether something is left that this cannot do: it waits, is refused as it is written, or cannot be planned yet.
    pub(crate) fn is_stuck(&self) -> bool {
        self.change_sets.iter().any(|set| !set.waiting.is_empty() || !set.refused.is_empty())
            || self.objects.iter().any(|object| object.note.is_some())
    }

    /// How much would be done, to guests and to objects that stand for none.
    pub(crate) fn counts(&self) -> Counts {
        let mut counts = Counts::default();
        for set in &self.change_sets {
            counts.creates += set.counts.creates;
            counts.updates += set.counts.updates;
            counts.deletes += set.counts.deletes;
            counts.waiting += set.counts.waiting;
            counts.refused += set.counts.refused;
        }
        for object in self.objects.iter().filter(|object| !self.is_told_by_steps(object)) {
            match object.action {
                ObjectAction::Create => counts.creates += 1,
                ObjectAction::Update => counts.updates += 1,
                ObjectAction::Delete => counts.deletes += 1,
                ObjectAction::Unchanged => counts.unchanged += 1,
            }
        }
        counts
    }

    /// How much of it was done: `is_done` says so of a Machine by its namespace and name, `is_cleared` of what others stood
    /// on, which goes last. All else is done by writing it.
    pub(crate) fn done(&self, is_done: impl Fn(&str, &str) -> bool, is_cleared: bool) -> Counts {
        let mut counts = Counts::default();
        let mut guests: BTreeMap<&Target, BTreeSet<Action>> = BTreeMap::new();
        for step in self.change_sets.iter().flat_map(|set| &set.steps) {
            guests.entry(&step.target).or_default().insert(step.action);
        }
        for (_, actions) in guests.iter().filter(|(target, _)| is_done(&target.namespace, &target.name)) {
            match () {
                () if actions.contains(&Action::Create) => counts.creates += 1,
                () if actions.contains(&Action::Delete) => counts.deletes += 1,
                () => counts.updates += 1,
            }
        }
        for object in self.objects.iter().filter(|object| !self.is_told_by_steps(object)) {
            let is_left = match object.kind == MACHINE {
                true => !is_done(object.namespace.as_deref().unwrap_or_default(), &object.name),
                false => object.action == ObjectAction::Delete && object.is_ground() && !is_cleared,
            };
            match object.action {
                _ if is_left => {}
                ObjectAction::Create => counts.creates += 1,
                ObjectAction::Update => counts.updates += 1,
                ObjectAction::Delete => counts.deletes += 1,
                ObjectAction::Unchanged => {}
            }
        }
        counts
    }

    /// By how much the hourly cost changes, as far as prices are known.
    pub(crate) fn hourly_cost_delta(&self) -> Option<Price> {
        let known: Vec<Price> = self.change_sets.iter().filter_map(|set| set.hourly_cost_delta).collect();
        (!known.is_empty()).then(|| known.into_iter().sum())
    }

    /// Whether the steps of a change set say what becomes of an object: a Machine is told by what its guest goes through.
    fn is_told_by_steps(&self, object: &ObjectChange) -> bool {
        object.kind == MACHINE && self.change_sets.iter().any(|set| set.tells_of(object))
    }
}

impl ProposedSet {
    /// What the step with this id waits for, where that is people.
    pub(crate) fn hold(&self, step: &str) -> Option<&Hold> {
        self.holds.iter().find(|hold| hold.step == step)
    }

    /// What a limit makes of the step with this id.
    pub(crate) fn limit(&self, step: &str) -> Option<&Limited> {
        self.limited.iter().find(|limited| limited.step == step)
    }

    /// The digests of the steps that who asks may approve too, with a signature or without.
    pub(crate) fn own(&self, signs: bool) -> Vec<String> {
        let held = self.steps.iter().filter_map(|step| Some((step, self.hold(&step.id)?)));
        let own = held.filter(|(_, hold)| hold.own_counts && (signs || !hold.signed));
        own.map(|(step, _)| step.digest.clone()).collect()
    }

    fn tells_of(&self, object: &ObjectChange) -> bool {
        let is_it = |target: &Target| {
            target.kind == "Machine"
                && object.namespace.as_deref() == Some(&target.namespace)
                && object.name == target.name
        };
        self.steps.iter().any(|step| is_it(&step.target))
            || self.waiting.iter().any(|waiting| is_it(&waiting.target))
            || self.refused.iter().any(|refusal| is_it(&refusal.target))
    }
}
