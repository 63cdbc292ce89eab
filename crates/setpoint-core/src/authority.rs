//! Which steps of an object may be taken now, and by whose leave.
//!
//! The gate judges the steps of one change set by what people said of that change set. An object can be in several: one
//! that its controller made, one of each `setpoint apply`. This is what whoever is about to act asks, at that moment,
//! of all of them; it believes no status but the record of what was done, and of the write for which people were asked.
//!
//! A change set authorizes a step of its own environment if it lists exactly its digest, and only once:
//!
//! 1. It is spent for a step that was done by its leave, as its own record or the object's says. The object's is written
//!    with the outcome of the call, so that a crash between the two records loses nothing. So it is for a step that was
//!    tried and of which no effect was seen, and for one whose outcome is not known yet: who approves something once does
//!    not approve that it is tried over and over.
//!    And for one of an object that is gone: one of the same name may ask for the same step.
//! 2. It is spent, too, for a step that was done by another's leave or by nobody's after it was made: what people
//!    approved then has happened.
//! 3. It is spent for everything if the object's record is full and does not reach back to when it was made.
//! 4. It is about one write of an object: the one that it brings along, the deletion that it announces, or the one that
//!    made the object's controller ask. Once the object is written again it says nothing any more, also if somebody writes
//!    later what it said.
//!
//! The start that finishes a restart has the restart's leave: who let the guest be stopped for a moment did not let it stay
//! down.
//!
//! Approvals in different change sets do not add up. A rejection holds in all of them, however much is done meanwhile: who
//! knows of one that was approved elsewhere says so by approving.

mod progress;
mod question;
mod ticket;

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, Mode, StepState};
use setpoint_api::environment::{Approval, Guardrails, LedgerEntry};
use setpoint_api::machine::{DoneStep, Intent, MAX_DONE};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Step, Target};

pub use self::progress::{Progress, Version, WITHIN_LIMITS, Wanted, Work, progress};
pub use self::question::{Outdated, Question, outdated};
use self::ticket::{Spent, Ticket};
use crate::gate::{self, Evidence, Gpus, Requesters, Standing, Usage, Verdict};
use crate::intent::Outcome;

/// Everything that the answer depends on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The steps of the object, in order. A step that one depends on and that is not among them is not done.
    pub steps: &'a [Step],
    /// The environment that they are taken in.
    pub environment: &'a str,
    /// The object, by its uid, and its generation.
    pub owner: &'a str,
    pub generation: Option<i64>,
    /// Who asked for what the object says.
    pub requested_by: &'a str,
    /// What was done for the object.
    pub done: &'a [DoneStep],
    /// The change sets that may list its steps.
    pub sets: &'a [Set<'a>],
    /// The environment's approval policy; the default one where it has none.
    pub approval: Option<&'a Approval>,
    /// The environment's limits; none where it has none.
    pub guardrails: Option<&'a Guardrails>,
    /// When the time of the object is over.
    pub expires_at: Option<Timestamp>,
    /// What was done lately in the environment and counts against a budget.
    pub ledger: &'a [LedgerEntry],
    /// The calls for the object whose outcome is not known.
    pub intents: &'a [Intent],
    /// What there is in the environment now.
    pub usage: Usage,
    /// The GPUs of every object that holds or wants any.
    pub gpus: &'a BTreeMap<Target, Gpus>,
    pub cluster_uid: &'a str,
    pub now: Timestamp,
}

/// A change set that is to be carried out, and what people said of it.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    pub namespace: &'a str,
    pub name: &'a str,
    pub uid: &'a str,
    pub created_at: Timestamp,
    /// The environment that its steps are taken in.
    pub environment: &'a str,
    /// The object that it was made for, by its uid; none where a user made it.
    pub owner: Option<&'a str>,
    pub requested_by: &'a str,
    /// The steps of it that matter, by their digests.
    pub steps: BTreeMap<&'a str, Listed<'a>>,
    /// Whether it says of the object that leave is asked for now something else than is written.
    pub is_contradicted: bool,
    /// The reviews of its gate.
    pub evidence: Vec<Evidence<'a>>,
    /// Reviewer and nonce of reviews that are not among the evidence.
    pub used_nonces: BTreeSet<(String, String)>,
}

/// A step that a change set lists, and what that records of it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Listed<'a> {
    /// Whether it was done.
    is_done: bool,
    /// Whether the change set gives leave for it no more.
    is_used_up: bool,
    /// The object, by its uid, that it is or was taken for.
    object: Option<&'a str>,
    /// The generation of the object with which that is as the change set says: with any other, and where that is not on
    /// record yet, there is no leave. What is no object's has none.
    generation: Option<i64>,
}

/// What becomes of one step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Authorized {
    /// The step, by its id.
    pub step: String,
    pub digest: String,
    pub verdict: Verdict,
    /// The change set, by its uid, whose approvals let the step run; none where it needs none. It goes on record with
    /// the intent, and with what was done.
    pub by: Option<String>,
    /// The change sets, by name, in which people can still decide on the step.
    pub asked: Vec<String>,
}

/// A verdict for each step of an object, in their order.
pub fn authorize(input: &Input<'_>) -> Vec<Authorized> {
    let under_way: BTreeSet<String> = input.intents.iter().map(|intent| intent.id.clone()).collect();
    let unasked = standings(input, None, &under_way);
    let answers: Vec<Vec<Standing>> = input.sets.iter().map(|set| standings(input, Some(set), &under_way)).collect();
    let leaves = input.steps.iter().enumerate().map(|(place, step)| {
        let sets = || input.sets.iter().zip(&answers).map(|(set, standings)| (set, &standings[place]));
        let rejecting = sets().filter(|(set, _)| set.may_reject(step, input));
        let rejected_by = rejecting.flat_map(|(_, standing)| standing.rejected_by.clone()).collect();
        let asked = sets().filter(|(set, _)| set.may_authorize(step, input)).collect();
        let leave = Leave::of(&unasked[place], asked, rejected_by);
        match input.intents.iter().find(|intent| finishes(step, intent)) {
            Some(restart) => leave.inherited(restart.change_set.as_deref()),
            None => leave,
        }
    });
    let leaves: Vec<Leave<'_>> = leaves.collect();
    let standings: Vec<Standing> = leaves.iter().map(|leave| leave.standing.clone()).collect();
    let judged = gate::decide(&gate_input(input, None, &requesters(input, None), &under_way), &standings);
    let authorized = judged.into_iter().zip(leaves).map(|(judged, leave)| Authorized {
        by: leave.by.filter(|_| judged.verdict == Verdict::Run).map(str::to_owned),
        asked: leave.asked,
        step: judged.step,
        digest: judged.digest,
        verdict: judged.verdict,
    });
    authorized.collect()
}

/// The record of what was done after a call came to an end. What used an approval goes on record whatever came of it,
/// except where a look proves that there was no call: what would have been made is not there, or what would have gone is.
/// A replacement that got as far as the removal is on record as one that does not show.
/// Of what is changed in place, a look only shows whether it is as it is desired now.
pub fn close(done: Vec<DoneStep>, intent: Intent, outcome: &Outcome, at: Timestamp) -> Vec<DoneStep> {
    let was_seen = matches!(outcome, Outcome::Done { .. } | Outcome::Duplicated { .. });
    let would_show = matches!(intent.action, Action::Create | Action::Replace | Action::Delete);
    let is_halved = matches!(outcome, Outcome::Removed { .. });
    if !was_seen && ((would_show && !is_halved) || intent.change_set.is_none()) {
        return done;
    }
    let Intent { action, digest, change_set, .. } = intent;
    record_done(done, DoneStep { action, digest, at, change_set, unseen: !was_seen })
}

/// The record of what was done with one step more. What used an approval is remembered before what needed none.
pub fn record_done(mut done: Vec<DoneStep>, step: DoneStep) -> Vec<DoneStep> {
    done.retain(|recorded| recorded.digest != step.digest || recorded.change_set != step.change_set);
    done.push(step);
    while done.len() > MAX_DONE {
        let oldest = done.iter().position(|recorded| recorded.change_set.is_none()).unwrap_or_default();
        done.remove(oldest);
    }
    done
}

/// Whether a change set has yet to record something that was done by its leave. Until it has, the object that remembers
/// it must stay.
pub fn is_unrecorded(set: &Set<'_>, done: &[DoneStep]) -> bool {
    let mut by_its_leave = done.iter().filter(|step| step.change_set.as_deref() == Some(set.uid));
    by_its_leave.any(|step| set.steps.get(step.digest.as_str()).is_some_and(|listed| !listed.is_used_up))
}

impl<'a> Set<'a> {
    /// What it says of the steps with these digests; it may list a thousand others. None where it authorizes nothing: it is a
    /// preview, it is being deleted, or it was never stored.
    pub fn of(
        change_set: &'a ChangeSet,
        digests: &BTreeSet<&str>,
        is_contradicted: bool,
        evidence: Vec<Evidence<'a>>,
        used_nonces: BTreeSet<(String, String)>,
    ) -> Option<Set<'a>> {
        let metadata = &change_set.metadata;
        if change_set.spec.mode != Mode::Execute || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let owners = metadata.owner_references.as_deref().unwrap_or_default();
        Some(Set {
            namespace: metadata.namespace.as_deref()?,
            name: metadata.name.as_deref()?,
            uid: metadata.uid.as_deref()?,
            created_at: metadata.creation_timestamp.as_ref()?.0,
            owner: owners.iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid.as_str()),
            environment: &change_set.spec.environment,
            requested_by: &change_set.spec.requested_by,
            steps: change_set.status.as_ref().map(|status| listed(status, digests)).unwrap_or_default(),
            is_contradicted,
            evidence,
            used_nonces,
        })
    }

    /// Whether it is about a step of this object.
    fn lists(&self, step: &Step, input: &Input<'_>) -> bool {
        let is_here = self.environment == input.environment;
        let is_meant = is_here && self.owner.is_none_or(|owner| owner == input.owner);
        is_meant && self.steps.contains_key(step.digest.as_str())
    }

    fn may_authorize(&self, step: &Step, input: &Input<'_>) -> bool {
        let listed = self.steps.get(step.digest.as_str()).filter(|_| self.lists(step, input));
        let gives_leave = listed.is_some_and(|listed| self.gives_leave(listed, &step.digest, input));
        gives_leave && self.used(&step.digest, input).is_none()
    }

    /// Whether a rejection in it holds: not once the step was taken, but however much else was done or written since.
    fn may_reject(&self, step: &Step, input: &Input<'_>) -> bool {
        let is_done = self.steps.get(step.digest.as_str()).is_some_and(|listed| listed.is_done);
        let is_used = self.used(&step.digest, input).is_some_and(|spent| spent != Spent::Forgotten);
        self.lists(step, input) && !is_done && !is_used
    }

    /// Whether it authorizes a step by its own record, for this object as it is written, and not just now already.
    fn gives_leave(&self, listed: &Listed<'_>, digest: &str, input: &Input<'_>) -> bool {
        let is_its = listed.object.is_none_or(|uid| uid == input.owner);
        let is_as_said = !self.is_contradicted && listed.generation == input.generation;
        let uses = |intent: &Intent| intent.digest == digest && intent.change_set.as_deref() == Some(self.uid);
        !listed.is_used_up && is_its && is_as_said && !input.intents.iter().any(uses)
    }

    fn used(&self, digest: &str, input: &Input<'_>) -> Option<Spent> {
        Ticket { uid: self.uid, created_at: self.created_at }.spent(digest, input.done)
    }
}

/// What a change set records of the steps with these digests that it lists.
fn listed<'a>(status: &'a ChangeSetStatus, digests: &BTreeSet<&str>) -> BTreeMap<&'a str, Listed<'a>> {
    let steps = status.steps.iter().map(|step| step.digest.as_str()).filter(|digest| digests.contains(digest));
    let asked = Listed { generation: status.object_generation, ..Listed::default() };
    let mut listed: BTreeMap<&str, Listed<'_>> = steps.map(|digest| (digest, asked)).collect();
    for state in &status.step_states {
        if let Some(listed) = listed.get_mut(state.digest.as_str()) {
            *listed = Listed {
                is_done: state.state == StepState::Done,
                is_used_up: state.is_used_up(),
                object: state.object.as_deref(),
                generation: state.generation.or(status.object_generation),
            };
        }
    }
    listed
}

/// Whose leave a step has, or what it lacks.
struct Leave<'a> {
    standing: Standing,
    by: Option<&'a str>,
    asked: Vec<String>,
}

impl<'a> Leave<'a> {
    /// The first change set with all approvals gives its leave; where none has, the one that lacks least is told of.
    fn of(
        unasked: &Standing,
        mut sets: Vec<(&'a Set<'a>, &Standing)>,
        rejected_by: BTreeMap<String, String>,
    ) -> Leave<'a> {
        let lacks = |standing: &Standing| standing.missing.iter().map(gate::Approvals::missing).sum::<u32>();
        sets.sort_by_key(|(set, standing)| (lacks(standing), set.created_at, set.name));
        let asked = sets.iter().map(|(set, _)| set.name.to_owned()).collect();
        let best = sets.first().filter(|_| !unasked.missing.is_empty());
        let missing = best.map_or(&unasked.missing, |(_, standing)| &standing.missing).clone();
        let by = best.filter(|_| missing.is_empty()).map(|(set, _)| set.uid);
        Leave { standing: Standing { missing, rejected_by, approved_until: None }, by, asked }
    }

    /// The leave of an earlier step, which this one brings to its end; a rejection holds all the same.
    fn inherited(self, by: Option<&'a str>) -> Leave<'a> {
        Leave { standing: Standing { missing: Vec::new(), ..self.standing }, by, asked: self.asked }
    }
}

/// Whether a step does nothing but bring a restart to its end.
fn finishes(step: &Step, intent: &Intent) -> bool {
    let is_plain = step.depends_on.is_empty() && step.hourly_cost_delta == Some(Price::ZERO);
    let is_start = step.action == Action::Start && is_plain && step.provider_id.is_some();
    is_start && intent.action == Action::Restart && intent.provider_id == step.provider_id
}

/// What people said of each step in one change set; without one, what each step needs.
fn standings(input: &Input<'_>, set: Option<&Set<'_>>, under_way: &BTreeSet<String>) -> Vec<Standing> {
    gate::standings(&gate_input(input, set, &requesters(input, set), under_way)).0
}

/// Who asks in a change set, and who wrote what is asked for: neither may approve it where the requester may not. One that
/// a controller made asks for those who wrote the object, whoever these were when it was made.
fn requesters<'a>(input: &Input<'a>, set: Option<&'a Set<'a>>) -> Requesters<'a> {
    let asks = set.filter(|set| set.owner.is_none()).map(|set| set.requested_by);
    Requesters::of_all(asks.into_iter().chain([input.requested_by]))
}

fn gate_input<'a>(
    input: &Input<'a>,
    set: Option<&'a Set<'a>>,
    requesters: &'a Requesters<'a>,
    under_way: &'a BTreeSet<String>,
) -> gate::Input<'a> {
    static NO_NONCES: BTreeSet<(String, String)> = BTreeSet::new();
    gate::Input {
        steps: input.steps,
        approval: input.approval,
        guardrails: input.guardrails,
        expires_at: input.expires_at,
        evidence: set.map_or(&[], |set| &set.evidence),
        used_nonces: set.map_or(&NO_NONCES, |set| &set.used_nonces),
        ledger: input.ledger,
        under_way,
        usage: input.usage,
        gpus: input.gpus,
        requesters,
        cluster_uid: input.cluster_uid,
        namespace: set.map_or("", |set| set.namespace),
        gate: set.map_or("", |set| set.name),
        change_set_uid: set.map_or("", |set| set.uid),
        opened_at: set.map_or(input.now, |set| set.created_at),
        now: input.now,
    }
}
