//! Which guest belongs to which desire: by the id it insists on, by what is on record, by the mark on the guest.

use std::collections::BTreeMap;

use setpoint_api::step::{Refusal, Target, Waiting, WaitsOn};

use super::index::Index;
use super::{Input, Orphans};
use crate::desired::{DeletionPolicy, Desired};
use crate::intent::Evidence;
use crate::observation::{Completeness, Guest, Mark, Observation};
use crate::order::natural;
use crate::value::Printable;

/// What was found for a desire.
pub(super) enum Match<'a> {
    Guest(&'a Guest),
    /// Provably not there.
    Gone,
    Waiting(Box<Waiting>),
    Refused(Box<Refusal>),
}

/// A guest with our mark that no desire needs.
pub(super) struct Surplus<'a> {
    pub(super) guest: &'a Guest,
    /// The desire that has another guest; none where nothing desires it.
    pub(super) of: Option<&'a Desired>,
}

/// The guests of an environment, found by id and by owner.
pub(super) struct Guests<'a> {
    pub(super) input: &'a Input<'a>,
    by_id: Index<'a, Guest>,
    /// Only guests with the mark of this control plane.
    by_owner: Index<'a, Guest>,
}

/// For each desire, in their order, what was found. A guest that two of them claim is given to neither.
pub(super) fn matches<'a>(guests: &Guests<'a>) -> Vec<Match<'a>> {
    let desired = guests.input.desired;
    let mut found: Vec<Match<'a>> = desired.iter().map(|desired| guests.find(desired)).collect();
    let claims = Index::of(
        desired.iter().zip(&found).filter_map(|(desired, found)| claimed_id(desired, found).map(|id| (id, desired))),
    );
    // The first two that claim a guest: one of them is another than oneself.
    let mut rivals: BTreeMap<&str, Vec<&Target>> = BTreeMap::new();
    for (desired, found) in desired.iter().zip(&mut found) {
        let Some(id) = claimed_id(desired, found).filter(|id| claims.is_shared(id)) else { continue };
        let first_two = rivals.entry(id).or_insert_with(|| {
            let mut all: Vec<&Target> = claims.get(id).map(|rival| &rival.target).collect();
            all.sort_unstable();
            all.truncate(2);
            all
        });
        if let Some(rival) = first_two.iter().find(|rival| ***rival != desired.target) {
            let message = format!("guest {} is also claimed by {rival}; only one of them can have it", Printable(id),);
            *found = refused(desired, "spec.providerId", message);
        }
    }
    found
}

/// The guest that a desire takes for its own. An object that is being deleted claims only what is marked as its own.
fn claimed_id<'a>(desired: &'a Desired, found: &Match<'a>) -> Option<&'a str> {
    match found {
        Match::Guest(guest) => {
            let owns = guest.mark.as_ref().is_some_and(|mark| mark.owner_uid == desired.uid);
            let claims = match desired.deletion {
                None => true,
                Some(DeletionPolicy::Delete) => owns,
                Some(DeletionPolicy::Retain) => false,
            };
            claims.then_some(&*guest.id)
        }
        _ => desired.provider_id.as_deref().filter(|_| desired.deletion.is_none()),
    }
}

impl<'a> Guests<'a> {
    pub(super) fn of(input: &'a Input<'a>) -> Guests<'a> {
        let guests = &input.observation.guests;
        Guests {
            input,
            by_id: Index::of(guests.iter().map(|guest| (&*guest.id, guest))),
            by_owner: Index::of(
                guests.iter().filter_map(|guest| Some((&*our_mark(guest, input.cluster)?.owner_uid, guest))),
            ),
        }
    }

    fn find(&self, desired: &'a Desired) -> Match<'a> {
        if let Some(pinned) = &desired.provider_id {
            return self.find_pinned(desired, pinned);
        }
        if let Some(guest) = self.kept(desired) {
            let recorded = desired.record.provider_id.as_deref().filter(|recorded| **recorded != *guest.id);
            let is_elsewhere = recorded.is_some_and(|recorded| self.by_id.get(recorded).next().is_none());
            // The one on record may still be there, and this one a leftover.
            if is_elsewhere && !self.input.observation.completeness.is_complete() {
                return self.not_seen(desired);
            }
            return self.unless_untouchable(desired, guest);
        }
        match &desired.record.provider_id {
            Some(recorded) => self.find_recorded(desired, recorded),
            None => self.not_seen(desired),
        }
    }

    fn find_pinned(&self, desired: &'a Desired, id: &'a str) -> Match<'a> {
        let owned_elsewhere = self.kept(desired).filter(|kept| *kept.id != *id);
        if self.by_id.is_shared(id) {
            return several(desired, id);
        }
        let Some(guest) = self.by_id.get(id).next() else {
            return match owned_elsewhere {
                Some(other) => moved(desired, other),
                None => self.not_seen(desired),
            };
        };
        let message = match &guest.mark {
            _ if guest.is_template => format!("guest {id} is a template; name a guest"),
            Some(mark) if *mark.cluster != *self.input.cluster => {
                format!("guest {id} belongs to another control plane ({})", Printable(&mark.cluster))
            }
            Some(mark) if mark.owner_uid != desired.uid => {
                format!("guest {id} belongs to another object (uid {})", Printable(&mark.owner_uid))
            }
            None if !self.input.capabilities.adopts => {
                format!("guest {id} is not ours, and {} cannot adopt", self.input.capabilities.deployer)
            }
            _ => match owned_elsewhere {
                Some(other) => return moved(desired, other),
                None => return Match::Guest(guest),
            },
        };
        refused(desired, "spec.providerId", message)
    }

    /// No guest carries the desire's mark, but one is on record.
    fn find_recorded(&self, desired: &'a Desired, id: &'a str) -> Match<'a> {
        match self.by_id.get(id).next() {
            Some(_) if self.by_id.is_shared(id) => several(desired, id),
            // The mark was taken off, or the id was given to somebody else's guest: it is not for us to say.
            Some(guest) if guest.mark.is_none() => waiting(
                desired,
                WaitsOn::Policy,
                format!("guest {id} no longer carries our mark; set spec.providerId to adopt it"),
            ),
            // Somebody else's guest has the id now, so ours is gone.
            _ => self.not_seen(desired),
        }
    }

    fn not_seen(&self, desired: &Desired) -> Match<'a> {
        match &self.input.observation.completeness {
            Completeness::Complete => Match::Gone,
            Completeness::Partial(reason) => waiting(
                desired,
                WaitsOn::Observation,
                format!("not seen, but not everything could be read: {}", Printable(reason)),
            ),
        }
    }

    fn unless_untouchable(&self, desired: &Desired, guest: &'a Guest) -> Match<'a> {
        if self.by_id.is_shared(&guest.id) {
            return several(desired, &guest.id);
        }
        if guest.is_template {
            let message = format!("guest {} is a template, and templates are not touched", Printable(&guest.id));
            return waiting(desired, WaitsOn::Policy, message);
        }
        Match::Guest(guest)
    }

    fn kept(&self, desired: &Desired) -> Option<&'a Guest> {
        desired.kept(self.by_owner.get(&desired.uid), self.input.key)
    }

    /// What the calls that were begun for an object are judged by.
    pub(super) fn evidence(&self, desired: &Desired) -> Evidence<'a> {
        let record = &desired.record;
        let intended = record.intents.iter().filter_map(|intent| intent.provider_id.as_deref());
        let ids = intended.chain(desired.provider_id.as_deref()).chain(record.provider_id.as_deref());
        let mut guests: Vec<&'a Guest> = self.by_owner.get(&desired.uid).collect();
        for id in ids {
            guests.extend(self.by_id.get(id));
        }
        guests.sort_by(|one, other| natural(&one.id, &other.id));
        guests.dedup_by(|one, other| one.id == other.id);
        let Input { cluster, capabilities, observation, key, .. } = *self.input;
        let Observation { completeness, observed_at, .. } = observation;
        Evidence { cluster, capabilities, key, completeness, observed_at: *observed_at, guests }
    }

    /// The guests with our mark that nothing needs, in their order.
    pub(super) fn surplus(&self) -> Vec<Surplus<'a>> {
        let mut surplus = self.duplicates();
        if self.input.policy.orphans != Orphans::Ignore {
            surplus.extend(self.orphans());
        }
        surplus.retain(|surplus| !surplus.guest.is_template && !self.by_id.is_shared(&surplus.guest.id));
        surplus.sort_by(|one, other| natural(&one.guest.id, &other.guest.id));
        surplus
    }

    /// The guests of desires that have another, which stays.
    fn duplicates(&self) -> Vec<Surplus<'a>> {
        let several = self.input.desired.iter().filter(|desired| self.by_owner.is_shared(&desired.uid));
        several
            .filter_map(|desired| Some((desired, self.kept(desired)?)))
            .flat_map(|(desired, kept)| {
                let others = self.by_owner.get(&desired.uid).filter(move |guest| guest.id != kept.id);
                others.map(move |guest| Surplus { guest, of: Some(desired) })
            })
            .collect()
    }

    fn orphans(&self) -> Vec<Surplus<'a>> {
        let owners = Index::of(self.input.desired.iter().map(|desired| (&*desired.uid, desired)));
        let ours = self.input.observation.guests.iter();
        let ours = ours.filter_map(|guest| Some((guest, our_mark(guest, self.input.cluster)?)));
        let orphans = ours.filter(|(_, mark)| owners.get(&mark.owner_uid).next().is_none());
        orphans.map(|(guest, _)| Surplus { guest, of: None }).collect()
    }
}

fn several<'a>(desired: &Desired, id: &str) -> Match<'a> {
    let message = format!("the provider shows several guests with the id {}", Printable(id));
    waiting(desired, WaitsOn::Observation, message)
}

fn moved<'a>(desired: &Desired, other: &Guest) -> Match<'a> {
    let message = format!("its guest is {}; an object cannot move to another guest", Printable(&other.id));
    refused(desired, "spec.providerId", message)
}

fn our_mark<'a>(guest: &'a Guest, cluster: &str) -> Option<&'a Mark> {
    guest.mark.as_ref().filter(|mark| *mark.cluster == *cluster)
}

fn waiting<'a>(desired: &Desired, on: WaitsOn, message: String) -> Match<'a> {
    Match::Waiting(Box::new(Waiting { target: desired.target.clone(), action: None, on, message }))
}

fn refused<'a>(desired: &Desired, field: &str, message: String) -> Match<'a> {
    Match::Refused(Box::new(Refusal { target: desired.target.clone(), field: field.to_owned(), message }))
}
