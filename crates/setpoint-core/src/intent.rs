//! What became of a call whose answer was lost.
//!
//! A call is written down before it is made, so a crash leaves an intent behind. What happened then is judged only by
//! what is observed: an answer may be lost after the work was done, and a claim of success proves nothing. So an intent
//! stays on record until an observation shows its outcome, even where the call was answered: a provider may list a new
//! guest only later, and without the intent that guest would look gone and be made again. Where the observation proves
//! nothing either, the outcome is unknown, and what could be done twice waits. So does what people approved: an approval
//! serves once, and is used up by a call that does not show within the time that the provider takes. A restart stays on record until the
//! guest runs again: it could stop half-way, and nothing else would say that the guest is to run.

use std::fmt;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::step::{Action, Effect};

use crate::desired::{Desired, Intent, Run};
use crate::diff::diff;
use crate::digest::Key;
use crate::observation::{Completeness, Guest, Observation};
use crate::order::natural;
use crate::registry::Capabilities;

/// What became of a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// It had its effect, on this guest.
    Done { provider_id: Box<str> },
    /// It had none, and will have none: it can be made again.
    Lost,
    /// It had its effect more than once: one guest is kept, the surplus is to go.
    Duplicated { keep: Box<str>, surplus: Vec<Box<str>> },
    /// It had half of its effect, and is to be finished.
    Unfinished,
    /// It removed this guest, and made none in its place: to make one is another step.
    Removed { provider_id: Box<str> },
    /// What was observed proves nothing yet.
    Unknown { reason: String },
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Outcome::Done { provider_id } => write!(f, "it was done, to {provider_id}"),
            Outcome::Lost => f.write_str("it was not done and can be tried again"),
            Outcome::Duplicated { keep, surplus } => {
                write!(f, "it was done twice: {keep} is kept, {} is surplus", surplus.join(", "))
            }
            Outcome::Unfinished => f.write_str("it was done by half and is to be finished"),
            Outcome::Removed { provider_id } => write!(f, "it removed {provider_id}, and nothing is in its place"),
            Outcome::Unknown { reason } => write!(f, "its outcome is not known: {reason}"),
        }
    }
}

/// What the calls that were begun for an object leave to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Settled {
    /// Nothing can be done twice by going on. The guest is this one, as far as the calls say; what is surplus is to go.
    /// The calls that are open are still under way or half done, and stay on record.
    Proceed { provider_id: Option<Box<str>>, surplus: Vec<Box<str>>, open: Vec<Box<str>> },
    /// A call may have made a guest that does not show, or nothing was observed since: nothing is done for the object.
    Wait { action: Action, reason: String },
}

impl fmt::Display for Settled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Settled::Proceed { provider_id: Some(id), surplus, .. } if surplus.is_empty() => {
                write!(f, "goes on with {id}")
            }
            Settled::Proceed { provider_id: Some(id), surplus, .. } => {
                write!(f, "goes on with {id}; {} is surplus", surplus.join(", "))
            }
            Settled::Proceed { provider_id: None, .. } => f.write_str("goes on without a guest"),
            Settled::Wait { action, reason } => write!(f, "waits for the outcome of {action:?}: {reason}"),
        }
    }
}

/// What an outcome is judged by.
#[derive(Debug, Clone)]
pub struct Evidence<'a> {
    pub cluster: &'a str,
    pub capabilities: &'a Capabilities,
    pub key: &'a Key,
    pub completeness: &'a Completeness,
    pub observed_at: Timestamp,
    /// The observed guests that can concern the object: those with its uid in our mark, and those that it pins, has on
    /// record or has an intent for.
    pub guests: Vec<&'a Guest>,
}

impl<'a> Evidence<'a> {
    /// Everything that was observed. Who judges many objects has an index and gives each its own guests.
    pub fn new(
        cluster: &'a str,
        capabilities: &'a Capabilities,
        key: &'a Key,
        observation: &'a Observation,
    ) -> Evidence<'a> {
        Evidence {
            cluster,
            capabilities,
            key,
            completeness: &observation.completeness,
            observed_at: observation.observed_at,
            guests: observation.guests.iter().collect(),
        }
    }

    fn guest(&self, id: &str) -> Option<&'a Guest> {
        self.guests.iter().copied().find(|guest| *guest.id == *id)
    }

    fn is_owned(&self, guest: &Guest, desired: &Desired) -> bool {
        guest.mark.as_ref().is_some_and(|mark| *mark.cluster == *self.cluster && mark.owner_uid == desired.uid)
    }

    fn is_made_by(&self, guest: &Guest, intent: &Intent) -> bool {
        let mark = guest.mark.as_ref();
        mark.is_some_and(|mark| *mark.cluster == *self.cluster && mark.intent.as_ref() == Some(&intent.id))
    }

    /// Whether nothing was observed since the call.
    fn is_before(&self, intent: &Intent) -> bool {
        self.observed_at < intent.started_at
    }

    /// Whether the call would have shown by now, had it been made.
    fn is_settled(&self, intent: &Intent) -> bool {
        let settle = SignedDuration::from_secs(self.capabilities.settle_seconds);
        self.observed_at.duration_since(intent.started_at) >= settle
    }

    /// Whether it may yet show that approvals were used.
    fn is_awaited(&self, intent: &Intent) -> bool {
        intent.approved && intent.action != Action::Delete && !self.is_settled(intent)
    }

    /// What follows from not seeing a guest, unless it was made only now.
    fn absence(&self, proven: Outcome) -> Outcome {
        match self.completeness {
            Completeness::Complete => proven,
            Completeness::Partial(reason) => unknown(format!("not everything could be observed: {reason}")),
        }
    }

    /// What follows from not seeing a guest that may still be on its way.
    fn absence_of_new(&self, intent: &Intent, proven: Outcome) -> Outcome {
        if self.is_settled(intent) {
            return self.absence(proven);
        }
        unknown(format!("a new guest may take {}s to appear", self.capabilities.settle_seconds))
    }
}

/// What became of one call that was begun for an object.
pub fn recover(intent: &Intent, desired: &Desired, evidence: &Evidence<'_>) -> Outcome {
    if evidence.is_before(intent) {
        return unknown("nothing was observed since the call".to_owned());
    }
    if desired.record.is_newer_than(evidence.observed_at) {
        return unknown("what is on record was observed later".to_owned());
    }
    match intent.action {
        Action::Create => created(intent, desired, evidence),
        Action::Replace => replaced(intent, desired, evidence),
        action => match intent.provider_id.as_deref() {
            Some(id) => match evidence.guest(id) {
                Some(guest) => changed(intent, guest, desired, evidence),
                None if matches!(action, Action::Delete | Action::Release) => {
                    evidence.absence(Outcome::Done { provider_id: id.into() })
                }
                None => evidence.absence(Outcome::Lost),
            },
            // Without a guest there was nothing to call.
            None => Outcome::Lost,
        },
    }
}

/// What is left to do after all calls that were begun for an object.
pub fn settle(desired: &Desired, evidence: &Evidence<'_>) -> Settled {
    let mut intents: Vec<&Intent> = desired.record.intents.iter().collect();
    intents.sort_by(|a, b| (a.started_at, &a.id).cmp(&(b.started_at, &b.id)));
    let is_outdated = |intent| evidence.is_before(intent) || desired.record.is_newer_than(evidence.observed_at);
    let mut provider_id = desired.record.provider_id.clone();
    let (mut surplus, mut open) = (Vec::new(), Vec::new());
    for intent in intents {
        match (intent.action, recover(intent, desired, evidence)) {
            (action, Outcome::Unknown { reason })
                if makes_a_guest(action) || is_outdated(intent) || evidence.is_awaited(intent) =>
            {
                return Settled::Wait { action, reason };
            }
            // To do it again would do no harm, and what could not be read is not written anyway.
            (_, Outcome::Unknown { .. } | Outcome::Unfinished) => open.push(intent.id.clone()),
            (Action::Delete | Action::Release, Outcome::Done { provider_id: gone })
            | (_, Outcome::Removed { provider_id: gone }) => {
                provider_id.take_if(|id| *id == gone);
            }
            (action, Outcome::Done { provider_id: id }) => {
                open.extend(is_to_be_started(action, &id, desired, evidence).then(|| intent.id.clone()));
                provider_id = Some(id);
            }
            (action, Outcome::Duplicated { keep, surplus: more }) => {
                open.extend(is_to_be_started(action, &keep, desired, evidence).then(|| intent.id.clone()));
                provider_id = Some(keep);
                surplus.extend(more);
            }
            (_, Outcome::Lost) => {}
        }
    }
    surplus.retain(|id| provider_id.as_ref() != Some(id));
    sort_naturally(&mut surplus);
    surplus.dedup();
    Settled::Proceed { provider_id, surplus, open }
}

/// Whether a guest was made and not started. Where its run state is not managed, only the call says that it is to run.
fn is_to_be_started(action: Action, id: &str, desired: &Desired, evidence: &Evidence<'_>) -> bool {
    let is_stopped = |guest: &Guest| is_stopped(guest, evidence.capabilities);
    makes_a_guest(action) && desired.run.is_none() && evidence.guest(id).is_some_and(is_stopped)
}

/// Whether a step makes a guest.
pub fn makes_a_guest(action: Action) -> bool {
    matches!(action, Action::Create | Action::Replace)
}

fn created(intent: &Intent, desired: &Desired, evidence: &Evidence<'_>) -> Outcome {
    let found = (evidence.guests.iter().copied())
        .filter(|guest| evidence.is_made_by(guest, intent) || evidence.is_owned(guest, desired));
    let Some(kept) = desired.kept(found.clone(), evidence.key) else {
        return evidence.absence_of_new(intent, Outcome::Lost);
    };
    let mut surplus: Vec<Box<str>> = found.filter(|guest| guest.id != kept.id).map(|guest| guest.id.clone()).collect();
    sort_naturally(&mut surplus);
    match surplus.is_empty() {
        true => Outcome::Done { provider_id: kept.id.clone() },
        false => Outcome::Duplicated { keep: kept.id.clone(), surplus },
    }
}

/// A replacement is a removal and a creation, in one order or the other: it can stop between them.
fn replaced(intent: &Intent, desired: &Desired, evidence: &Evidence<'_>) -> Outcome {
    let mut made: Vec<Box<str>> = (evidence.guests.iter())
        .filter(|guest| evidence.is_made_by(guest, intent))
        .map(|guest| guest.id.clone())
        .collect();
    sort_naturally(&mut made);
    let old = intent.provider_id.as_deref().and_then(|id| evidence.guest(id));
    // A guest with the old id may be the new one, where ids can be chosen.
    let old = old.filter(|guest| !evidence.is_made_by(guest, intent) && evidence.is_owned(guest, desired));
    match (made.as_slice(), old) {
        ([], None) => evidence.absence_of_new(intent, removed(intent, evidence)),
        ([], Some(guest)) if guest.busy.is_some() => busy(guest),
        ([], Some(_)) if evidence.capabilities.creates_before_delete => evidence.absence_of_new(intent, Outcome::Lost),
        // The removal comes first and has not happened, so nothing has; unless whoever wrote it down is only about to.
        ([], Some(_)) if evidence.is_settled(intent) => Outcome::Lost,
        ([], Some(_)) => unknown(format!("it may be under way for {}s", evidence.capabilities.settle_seconds)),
        ([new], None) => match evidence.absence(Outcome::Lost) {
            Outcome::Lost => Outcome::Done { provider_id: new.clone() },
            unproven => unproven,
        },
        ([keep, rest @ ..], old) => {
            let mut surplus: Vec<Box<str>> = rest.to_vec();
            surplus.extend(old.map(|guest| guest.id.clone()));
            sort_naturally(&mut surplus);
            Outcome::Duplicated { keep: keep.clone(), surplus }
        }
    }
}

/// What a replacement came to of which no new guest shows, and no old one of ours. Where the removal comes first, that one
/// is gone by this call; where it comes last, by somebody else's.
fn removed(intent: &Intent, evidence: &Evidence<'_>) -> Outcome {
    match intent.provider_id.as_deref().filter(|id| evidence.guest(id).is_none()) {
        Some(id) if !evidence.capabilities.creates_before_delete => Outcome::Removed { provider_id: id.into() },
        _ => Outcome::Lost,
    }
}

/// A call to a guest that is there.
fn changed(intent: &Intent, guest: &Guest, desired: &Desired, evidence: &Evidence<'_>) -> Outcome {
    if guest.busy.is_some() {
        return busy(guest);
    }
    let had_effect = match intent.action {
        Action::Adopt => Ok(evidence.is_owned(guest, desired)),
        Action::Update => writes_are_done(guest, desired, evidence, &[Effect::InPlace, Effect::Restart]),
        Action::Grow => writes_are_done(guest, desired, evidence, &[Effect::Grow]),
        // Nothing else would say that it is to run, or that it ran before and costs no more than it did.
        Action::Restart if desired.run != Some(Run::Stopped) && is_stopped(guest, evidence.capabilities) => {
            return Outcome::Unfinished;
        }
        // A guest whose run state is not managed is started only to finish a restart.
        Action::Start if desired.run.is_none() && is_stopped(guest, evidence.capabilities) => {
            return Outcome::Unfinished;
        }
        Action::Start | Action::Restart => has_state(guest, evidence.capabilities, evidence.capabilities.running_words),
        Action::Stop => has_state(guest, evidence.capabilities, evidence.capabilities.stopped_words),
        Action::Release => Ok(!evidence.is_owned(guest, desired)),
        Action::Create | Action::Replace | Action::Delete => Ok(false),
    };
    match had_effect {
        Ok(true) => Outcome::Done { provider_id: guest.id.clone() },
        Ok(false) if evidence.is_awaited(intent) => {
            unknown(format!("what was approved may take {}s to show", evidence.capabilities.settle_seconds))
        }
        Ok(false) => Outcome::Lost,
        Err(reason) => unknown(reason),
    }
}

/// Whether all desired fields of these effects are as desired, in effect or waiting for the next start.
fn writes_are_done(
    guest: &Guest,
    desired: &Desired,
    evidence: &Evidence<'_>,
    effects: &[Effect],
) -> Result<bool, String> {
    let capabilities = evidence.capabilities;
    let diff = diff(desired, &guest.config, capabilities).unmuted(desired);
    let concerns = |name: &str| capabilities.field(name).is_some_and(|field| effects.contains(&field.effect));
    // What is seen to differ proves it, whatever could not be read beside it.
    if diff.changes.iter().any(|change| concerns(change.field.name) && !change.is_pending) {
        return Ok(false);
    }
    match diff.unknown.iter().find(|name| concerns(name)) {
        Some(name) => Err(format!("{name} of {} could not be read", guest.id)),
        None => Ok(true),
    }
}

fn has_state(guest: &Guest, capabilities: &Capabilities, words: &[&str]) -> Result<bool, String> {
    match guest.run.known() {
        None => Err(format!("the state of {} could not be read", guest.id)),
        Some(word) if capabilities.passing_words.contains(&&**word) => Err(format!("{} is {word}", guest.id)),
        Some(word) => Ok(words.contains(&&**word)),
    }
}

fn is_stopped(guest: &Guest, capabilities: &Capabilities) -> bool {
    guest.run.known().is_some_and(|word| capabilities.stopped_words.contains(&&**word))
}

fn busy(guest: &Guest) -> Outcome {
    unknown(format!("{} is busy: {}", guest.id, guest.busy.as_deref().unwrap_or_default()))
}

fn unknown(reason: String) -> Outcome {
    Outcome::Unknown { reason }
}

fn sort_naturally(ids: &mut [Box<str>]) {
    ids.sort_by(|one, other| natural(one, other));
}
