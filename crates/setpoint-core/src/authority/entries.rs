//! How each entry of a change set goes on. An entry only closes.
//!
//! It is judged in this order, and stops at the first answer: it is closed; it is being taken, or was; its object is gone;
//! somebody rejected it; it is asked in an older change set; a write of its object went unseen; its price rose; it is not
//! wanted any more; and else it is open, and waits for what its verdict says.

use std::collections::BTreeMap;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::change_set::{ChangeSet, Entry, EntryState};
use setpoint_api::machine::DoneStep;
use setpoint_api::step::{Action, Step};

use super::is_within_price;
use super::subject::{Subject, Wanted};
use crate::gate::{Decision, Judged, Verdict};

/// For how long a step must not be wanted before its entry closes, where its object was not written: a guest that flaps does
/// not cost its approvals.
pub const UNWANTED_FOR: SignedDuration = SignedDuration::from_mins(5);
/// For how long a rejection is kept after its step was last wanted.
pub const REJECTION_KEPT: SignedDuration = SignedDuration::from_hours(30 * 24);
/// How exactly it is on record when a step was last wanted, as long as it is.
const WANTED_NOTED: SignedDuration = SignedDuration::from_hours(24);

/// What is known beyond a change set of one of its steps.
#[derive(Debug, Clone, Copy, Default)]
pub struct Fact<'a> {
    /// The object that it is for; none where that is not there.
    pub subject: Option<Subject<'a>>,
    /// Whether an older change set has an open entry for the same step of the same object.
    pub is_in_older: bool,
    /// Whether the rules at opening and those in force contradict each other.
    pub is_contradicted: bool,
}

/// The entries of a change set that executes, in the order of its steps, given what is known of each step and what the gate
/// says of those that are open.
pub fn entries(change_set: &ChangeSet, facts: &[Fact<'_>], decision: &Decision, now: Timestamp) -> Vec<Entry> {
    let previous = change_set.status.iter().flat_map(|status| &status.entries);
    let previous: BTreeMap<&str, &Entry> = previous.map(|entry| (entry.digest.as_str(), entry)).collect();
    let judged: BTreeMap<&str, &Judged> = decision.steps.iter().map(|judged| (&*judged.digest, judged)).collect();
    let opened_at = change_set.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0);
    let generations = change_set.spec.generations.iter().copied().map(Some).chain(std::iter::repeat(None));
    let steps = change_set.spec.steps.iter().zip(generations).zip(facts);
    let next = steps.map(|((step, planned), fact)| {
        let opened = previous.get(&*step.digest).map(|entry| (*entry).clone());
        let Some(entry) = opened.or_else(|| open(step, planned?, fact, now)) else {
            let message =
                "the object does not want exactly this step: a change set with steps is opened by Setpoint alone";
            return closed(new(step, EntryState::NotWanted, now), EntryState::NotWanted, message, now);
        };
        let verdict = judged.get(&*step.digest).map(|judged| &judged.verdict);
        let withdrawn = decision.withdrawn.get(&step.digest).copied();
        let uid = change_set.metadata.uid.as_deref().unwrap_or_default();
        Asked { uid, opened_at, step, fact, verdict, withdrawn, now }.next(entry)
    });
    next.collect()
}

/// The entry of a step whose object wants exactly it, as it did when the change set was opened: people may have approved it
/// by now.
fn open(step: &Step, planned: i64, fact: &Fact<'_>, now: Timestamp) -> Option<Entry> {
    let subject = fact.subject?;
    let Wanted::Yes { step: wanted, generation } = subject.wants(&step.digest) else { return None };
    let object = Some(subject.uid.to_owned());
    (wanted == step && subject.continues(planned)).then(|| Entry {
        object,
        generation: Some(generation),
        wanted_at: Some(now),
        ..new(step, EntryState::Waiting, now)
    })
}

fn new(step: &Step, state: EntryState, now: Timestamp) -> Entry {
    Entry {
        digest: step.digest.clone(),
        state,
        message: None,
        since: now,
        object: None,
        generation: None,
        wanted_at: None,
        unwanted_since: None,
    }
}

fn in_state(entry: Entry, state: EntryState, message: Option<String>, now: Timestamp) -> Entry {
    let since = if entry.state == state { entry.since } else { now };
    Entry { state, message, since, ..entry }
}

fn closed(entry: Entry, state: EntryState, message: &str, now: Timestamp) -> Entry {
    in_state(Entry { unwanted_since: None, ..entry }, state, Some(message.to_owned()), now)
}

/// An entry and all that its next state depends on.
struct Asked<'a> {
    uid: &'a str,
    opened_at: Timestamp,
    step: &'a Step,
    fact: &'a Fact<'a>,
    verdict: Option<&'a Verdict>,
    /// When a rejection of it was last withdrawn.
    withdrawn: Option<Timestamp>,
    now: Timestamp,
}

impl Asked<'_> {
    fn next(&self, entry: Entry) -> Entry {
        use EntryState::{NotWanted, Running, Superseded};
        if entry.state.is_closed() {
            return entry;
        }
        let now = self.now;
        let Some(subject) = self.fact.subject else { return self.without_object(entry) };
        if subject.is_under_way(&entry.digest) {
            return in_state(entry, Running, None, now);
        }
        if let Some((state, message)) =
            taken(&entry.digest, (self.uid, self.opened_at), (subject.done, subject.most_done))
        {
            return in_state(entry, state, message.map(str::to_owned), now);
        }
        let wanted = subject.wants(&entry.digest);
        if self.is_rejected(&entry) {
            return self.rejected(entry, &subject, wanted);
        }
        // What was rejected is asked anew where its object was written meanwhile.
        let is_seen_through = entry.generation.is_some_and(|generation| subject.continues(generation));
        match wanted {
            _ if self.fact.is_in_older => closed(entry, Superseded, "the same is asked in an older change set", now),
            _ if !is_seen_through => {
                closed(entry, Superseded, "the object was written more than once since: it is asked again", now)
            }
            _ if self.fact.is_contradicted => {
                closed(entry, Superseded, "the policy asks for other roles since: it is asked again", now)
            }
            Wanted::Yes { step, .. } if !is_within_price(self.step, step) => {
                closed(entry, Superseded, "it would cost more than was shown: it is asked again", now)
            }
            Wanted::No { generation } if Some(generation) > entry.generation => {
                closed(entry, NotWanted, "the object was written since, and it is no longer to be done", now)
            }
            Wanted::No { .. } => match entry.unwanted_since {
                Some(since) if now.duration_since(since) >= UNWANTED_FOR => {
                    closed(entry, NotWanted, "it is no longer to be done", now)
                }
                since => {
                    // Until here it was wanted.
                    let wanted_at = if since.is_none() { Some(now) } else { entry.wanted_at };
                    self.open(Entry { unwanted_since: since.or(Some(now)), wanted_at, ..entry })
                }
            },
            Wanted::Yes { generation, .. } => self.open(Entry { generation: Some(generation), ..self.noted(entry) }),
            Wanted::Unknown => self.open(Entry { unwanted_since: None, ..entry }),
        }
    }

    /// Whoever it was for is gone. What was begun then counts as done: nobody can tell any more.
    fn without_object(&self, entry: Entry) -> Entry {
        let removes = matches!(self.step.action, Action::Delete | Action::Release);
        match entry.state {
            EntryState::Running => closed(entry, EntryState::Done, "it was begun for an object that is gone", self.now),
            _ if !removes && self.is_rejected(&entry) => {
                let message = self.verdict.filter(|verdict| verdict.is_rejected()).map(Verdict::message);
                let message = message.or(entry.message.clone());
                self.kept(in_state(entry, EntryState::Rejected, message, self.now))
            }
            _ if removes => closed(entry, EntryState::Done, "the object is gone", self.now),
            _ => closed(entry, EntryState::NotWanted, "the object is gone", self.now),
        }
    }

    /// Whether somebody rejects it; and who deletes the review of a rejection withdraws nothing.
    fn is_rejected(&self, entry: &Entry) -> bool {
        let since = Timestamp::from_second(entry.since.as_second()).unwrap_or(entry.since);
        let is_withdrawn = self.withdrawn.is_some_and(|at| at >= since);
        let was_rejected = entry.state == EntryState::Rejected && !is_withdrawn;
        was_rejected || self.verdict.is_some_and(Verdict::is_rejected)
    }

    /// It stays listed and is blocked, whether or not it is wanted. Whether a write of its object was missed or took it away is
    /// noted, since it is asked anew then once the rejection is withdrawn.
    fn rejected(&self, entry: Entry, subject: &Subject<'_>, wanted: Wanted<'_>) -> Entry {
        let continues = entry.generation.filter(|generation| subject.continues(*generation));
        let generation = match (wanted, continues) {
            (Wanted::Yes { generation, .. }, Some(_)) => Some(generation),
            (Wanted::No { generation }, Some(last)) if generation > last => None,
            (_, continues) => continues,
        };
        let message =
            self.verdict.filter(|verdict| verdict.is_rejected()).map(Verdict::message).or(entry.message.clone());
        let entry = match wanted {
            Wanted::Yes { .. } => self.noted(entry),
            _ => entry,
        };
        let entry = Entry { generation, unwanted_since: None, ..entry };
        self.kept(in_state(entry, EntryState::Rejected, message, self.now))
    }

    /// A rejection is forgotten a while after its step was last wanted.
    fn kept(&self, entry: Entry) -> Entry {
        let is_over = entry.wanted_at.is_none_or(|at| self.now.duration_since(at) >= REJECTION_KEPT);
        match is_over {
            true => closed(entry, EntryState::NotWanted, "it was rejected, and was not wanted for 30 days", self.now),
            false => entry,
        }
    }

    /// It is wanted now; that is written down only now and then.
    fn noted(&self, entry: Entry) -> Entry {
        let is_old = entry.wanted_at.is_none_or(|at| self.now.duration_since(at) >= WANTED_NOTED);
        let wanted_at = if is_old { Some(self.now) } else { entry.wanted_at };
        Entry { wanted_at, unwanted_since: None, ..entry }
    }

    fn open(&self, entry: Entry) -> Entry {
        let (state, message) = match self.verdict {
            Some(Verdict::Run) => (EntryState::Approved, None),
            Some(verdict) if verdict.waits_for_people() => (EntryState::Waiting, Some(verdict.message())),
            Some(verdict) => (EntryState::Blocked, Some(verdict.message())),
            None => (EntryState::Waiting, None),
        };
        in_state(entry, state, message, self.now)
    }
}

/// How a step was taken since a change set was opened, by the record of its object, which holds so many.
pub(super) fn taken(
    digest: &str,
    (uid, opened_at): (&str, Timestamp),
    (done, most): (&[DoneStep], usize),
) -> Option<(EntryState, Option<&'static str>)> {
    // Times of objects are in whole seconds, so what was done within that second may have been done before.
    let is_after =
        |done: &DoneStep| done.at >= opened_at.checked_add(SignedDuration::from_secs(1)).unwrap_or(Timestamp::MAX);
    let mut of_step = done.iter().filter(|done| done.digest == digest);
    let own = of_step.clone().find(|done| done.change_set.as_deref() == Some(uid));
    match own {
        Some(done) if done.unseen => {
            return Some((EntryState::Tried, Some("it was tried, and its effect was not observed: it is asked again")));
        }
        Some(_) => return Some((EntryState::Done, None)),
        None => {}
    }
    if of_step.clone().any(|done| done.change_set.is_none() && done.at >= opened_at) {
        return Some((EntryState::Done, None));
    }
    if of_step.any(is_after) {
        return Some((EntryState::Superseded, Some("it was done by the approvals of another change set")));
    }
    let is_forgotten = done.len() >= most && done.iter().all(is_after);
    is_forgotten.then_some((
        EntryState::Superseded,
        Some("so much was done since that nobody knows whether this was: it is asked again"),
    ))
}
