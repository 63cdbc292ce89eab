//! A change set beside what it was made from, indexed.

use std::collections::BTreeMap;

use setpoint_api::step::{Action, Step, Target};

use crate::desired::{DeletionPolicy, Desired, Run};
use crate::observation::{Completeness, Guest, Reading};
use crate::order::natural;
use crate::plan::{ChangeSet, Input};

/// The kind of the target of a step on a guest that belongs to nothing.
pub(super) const GUEST: &str = "Guest";

pub(super) struct Scene<'a> {
    pub(super) input: &'a Input<'a>,
    pub(super) change_set: &'a ChangeSet,
    pub(super) desired: BTreeMap<&'a Target, &'a Desired>,
    pub(super) steps: BTreeMap<&'a Target, Vec<&'a Step>>,
    guests: BTreeMap<&'a str, &'a Guest>,
    marked: BTreeMap<&'a str, Vec<&'a Guest>>,
    owners: BTreeMap<&'a str, &'a Desired>,
    claims: BTreeMap<&'a str, u32>,
}

/// What an object has to do with the guests that were observed.
#[derive(Clone, Copy)]
pub(super) enum Claim<'a> {
    /// This guest is its own, or would be.
    Guest(&'a Guest),
    /// It insists on this id, and no such guest was observed.
    Id(&'a str),
    /// It has none.
    Nothing,
}

impl<'a> Scene<'a> {
    pub(super) fn new(input: &'a Input<'a>, change_set: &'a ChangeSet) -> Scene<'a> {
        let mut scene = Scene {
            input,
            change_set,
            desired: input.desired.iter().map(|desired| (&desired.target, desired)).collect(),
            steps: BTreeMap::new(),
            guests: input.observation.guests.iter().map(|guest| (&*guest.id, guest)).collect(),
            marked: BTreeMap::new(),
            owners: input.desired.iter().map(|desired| (&*desired.uid, desired)).collect(),
            claims: BTreeMap::new(),
        };
        for step in &change_set.steps {
            scene.steps.entry(&step.target).or_default().push(step);
        }
        for guest in &input.observation.guests {
            if let Some(mark) = guest.mark.as_ref().filter(|mark| *mark.cluster == *input.cluster) {
                scene.marked.entry(&mark.owner_uid).or_default().push(guest);
            }
        }
        for desired in input.desired {
            if let Some(id) = scene.claim(desired).id().filter(|id| scene.insists(desired, id)) {
                *scene.claims.entry(id).or_default() += 1;
            }
        }
        scene
    }

    pub(super) fn guest(&self, id: &str) -> Option<&'a Guest> {
        self.guests.get(id).copied()
    }

    /// The guest that a step is done to.
    pub(super) fn guest_of(&self, step: &Step) -> Option<&'a Guest> {
        step.provider_id.as_deref().and_then(|id| self.guest(id))
    }

    /// The guests with our mark and an object's uid.
    pub(super) fn marked(&self, uid: &str) -> &[&'a Guest] {
        self.marked.get(uid).map_or(&[], Vec::as_slice)
    }

    /// The object with this uid.
    pub(super) fn owner(&self, uid: &str) -> Option<&'a Desired> {
        self.owners.get(uid).copied()
    }

    /// Which guest an object claims: the one it insists on, else one with its mark.
    pub(super) fn claim(&self, desired: &'a Desired) -> Claim<'a> {
        if let Some(id) = desired.provider_id.as_deref() {
            return self.guest(id).map_or(Claim::Id(id), Claim::Guest);
        }
        let marked = self.marked(&desired.uid).iter().copied();
        marked.min_by(|one, other| natural(&one.id, &other.id)).map_or(Claim::Nothing, Claim::Guest)
    }

    /// Whether an object's claim counts: once it is being deleted, only to what is marked as its own.
    fn insists(&self, desired: &Desired, id: &str) -> bool {
        match desired.deletion {
            None => true,
            Some(DeletionPolicy::Delete) => self.guest(id).is_some_and(|guest| self.owns(desired, guest)),
            Some(DeletionPolicy::Retain) => false,
        }
    }

    /// Whether another object claims the same guest.
    pub(super) fn is_contested(&self, desired: &'a Desired) -> bool {
        self.claim(desired).id().is_some_and(|id| self.claims.get(id).is_some_and(|claims| *claims > 1))
    }

    pub(super) fn is_complete(&self) -> bool {
        self.input.observation.completeness == Completeness::Complete
    }

    /// Whether a guest was marked for this object, by us.
    pub(super) fn owns(&self, desired: &Desired, guest: &Guest) -> bool {
        guest.mark.as_ref().is_some_and(|mark| *mark.cluster == *self.input.cluster && mark.owner_uid == desired.uid)
    }

    pub(super) fn runs(&self, guest: &Guest) -> Reading<Run> {
        let capabilities = self.input.capabilities;
        match guest.run.known() {
            Some(word) if capabilities.running_words.contains(&&**word) => Reading::Known(Run::Running),
            Some(word) if capabilities.stopped_words.contains(&&**word) => Reading::Known(Run::Stopped),
            // A state without a name is not the desired one, whichever that is.
            Some(_) => Reading::Absent,
            None => Reading::Unknown,
        }
    }

    pub(super) fn is_passing(&self, guest: &Guest) -> bool {
        let words = self.input.capabilities.passing_words;
        guest.run.known().is_some_and(|word| words.contains(&&**word))
    }

    pub(super) fn step_of(&self, target: &Target, action: Action) -> Option<&'a Step> {
        self.steps.get(target)?.iter().copied().find(|step| step.action == action)
    }
}

impl<'a> Claim<'a> {
    pub(super) fn id(self) -> Option<&'a str> {
        match self {
            Claim::Guest(guest) => Some(&guest.id),
            Claim::Id(id) => Some(id),
            Claim::Nothing => None,
        }
    }
}
