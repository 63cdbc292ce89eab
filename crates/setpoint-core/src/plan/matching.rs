//! Which guest belongs to which desire: by the id it insists on, by what is on record, by the mark on the guest.

use setpoint_api::step::{Refusal, Waiting, WaitsOn};

use super::index::Index;
use super::{Input, Orphans};
use crate::desired::{DeletionPolicy, Desired};
use crate::intent::Evidence;
use crate::observation::{Completeness, Guest, Mark, Observation};
use crate::order::natural;

/// What was found for a desire.
pub(super) enum Match<'a> {
    Guest(&'a Guest),
    /// Provably not there; `was` is the id it had.
    Gone {
        was: Option<&'a str>,
    },
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
        desired
            .iter()
            .zip(&found)
            .filter(|(desired, _)| desired.deletion != Some(DeletionPolicy::Retain))
            .filter_map(|(desired, found)| claimed_id(desired, found).map(|id| (id, desired))),
    );
    for (desired, found) in desired.iter().zip(&mut found) {
        let Some(id) = claimed_id(desired, found) else { continue };
        let rival = claims.get(id).map(|rival| &rival.target).filter(|target| **target != desired.target).min();
        if let Some(rival) = rival {
            let message = format!(
                "guest {id} is also claimed by {}/{}; only one of them can have it",
                rival.namespace, rival.name
            );
            *found = refused(desired, "spec.providerId", message);
        }
    }
    found
}

fn claimed_id<'a>(desired: &'a Desired, found: &Match<'a>) -> Option<&'a str> {
    match found {
        Match::Guest(guest) => Some(&guest.id),
        _ => desired.provider_id.as_deref(),
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
            return self.unless_ambiguous(desired, guest);
        }
        match &desired.record.provider_id {
            Some(recorded) => self.find_recorded(desired, recorded),
            None => self.not_seen(desired, None),
        }
    }

    fn find_pinned(&self, desired: &'a Desired, id: &'a str) -> Match<'a> {
        let Some(guest) = self.by_id.get(id).next() else { return self.not_seen(desired, Some(id)) };
        let owned_elsewhere = self.kept(desired).filter(|kept| *kept.id != *id);
        let message = match &guest.mark {
            _ if guest.is_template => format!("guest {id} is a template; name a guest"),
            Some(mark) if *mark.cluster != *self.input.cluster => {
                format!("guest {id} belongs to another control plane ({})", mark.cluster)
            }
            Some(mark) if mark.owner_uid != desired.uid => {
                format!("guest {id} belongs to another object (uid {})", mark.owner_uid)
            }
            None if !self.input.capabilities.adopts => {
                format!("guest {id} is not ours, and {} cannot adopt", self.input.capabilities.deployer)
            }
            _ => match owned_elsewhere {
                Some(other) => format!("its guest is {}; an object cannot move to another guest", other.id),
                None => return self.unless_ambiguous(desired, guest),
            },
        };
        refused(desired, "spec.providerId", message)
    }

    /// No guest carries the desire's mark, but one is on record.
    fn find_recorded(&self, desired: &'a Desired, id: &'a str) -> Match<'a> {
        match self.by_id.get(id).next() {
            // The mark was taken off, or the id was given to somebody else's guest: it is not for us to say.
            Some(guest) if guest.mark.is_none() => waiting(
                desired,
                WaitsOn::Policy,
                format!("guest {id} no longer carries our mark; set spec.providerId to adopt it"),
            ),
            // Somebody else's guest has the id now, so ours is gone.
            _ => self.not_seen(desired, Some(id)),
        }
    }

    fn not_seen(&self, desired: &Desired, was: Option<&'a str>) -> Match<'a> {
        match &self.input.observation.completeness {
            Completeness::Complete => Match::Gone { was },
            Completeness::Partial(reason) => {
                waiting(desired, WaitsOn::Observation, format!("not seen, but not everything could be read: {reason}"))
            }
        }
    }

    fn unless_ambiguous(&self, desired: &Desired, guest: &'a Guest) -> Match<'a> {
        if self.by_id.is_shared(&guest.id) {
            let message = format!("the provider shows several guests with the id {}", guest.id);
            return waiting(desired, WaitsOn::Observation, message);
        }
        Match::Guest(guest)
    }

    /// Of the guests that carry the desire's mark, the one that is its guest: the pinned one; one made from just this
    /// desire (a replacement was under way); the one on record; the first.
    fn kept(&self, desired: &Desired) -> Option<&'a Guest> {
        let mut owned = self.by_owner.get(&desired.uid);
        if !self.by_owner.is_shared(&desired.uid) {
            return owned.next();
        }
        let digest = desired.spec_digest(self.input.key);
        let preference = |guest: &Guest| {
            let is_pinned = desired.provider_id.as_ref() == Some(&guest.id);
            let is_current = guest.mark.as_ref().and_then(|mark| mark.spec_digest.as_deref()) == Some(&*digest);
            let is_recorded = desired.record.provider_id.as_ref() == Some(&guest.id);
            (!is_pinned, !is_current, !is_recorded)
        };
        owned.min_by(|one, other| preference(one).cmp(&preference(other)).then_with(|| natural(&one.id, &other.id)))
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
        let Input { cluster, capabilities, observation, .. } = *self.input;
        let Observation { completeness, observed_at, .. } = observation;
        Evidence { cluster, capabilities, completeness, observed_at: *observed_at, guests }
    }

    /// The guests with our mark that nothing needs, in their order.
    pub(super) fn surplus(&self) -> Vec<Surplus<'a>> {
        let owners = Index::of(self.input.desired.iter().map(|desired| (&*desired.uid, desired)));
        let mut surplus: Vec<Surplus<'a>> = self
            .input
            .observation
            .guests
            .iter()
            .filter_map(|guest| Some((guest, our_mark(guest, self.input.cluster)?)))
            .filter_map(|(guest, mark)| match owners.get(&mark.owner_uid).next() {
                None if self.input.policy.orphans == Orphans::Ignore => None,
                None => Some(Surplus { guest, of: None }),
                Some(_) if !self.by_owner.is_shared(&mark.owner_uid) => None,
                Some(owner) => {
                    let is_kept = self.kept(owner).is_some_and(|kept| kept.id == guest.id);
                    (!is_kept).then_some(Surplus { guest, of: Some(owner) })
                }
            })
            .filter(|surplus| !self.by_id.is_shared(&surplus.guest.id))
            .collect();
        surplus.sort_by(|one, other| natural(&one.guest.id, &other.guest.id));
        surplus
    }
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
