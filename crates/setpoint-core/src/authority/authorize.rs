//! Which steps of an object may be taken now, and by the approvals of which change set.
//!
//! A change set authorizes a step of its own environment if it has an open entry with exactly its digest, for exactly this
//! object, whose writes it has all seen; if the step costs no more than was shown; and if neither an intent nor the record of
//! what was done names change set and digest already. If two do, the older counts: approvals in different change sets do not
//! add up. A rejection holds in all of them.
//!
//! The start that finishes a restart needs no further approval, nor does the creation that finishes a replacement of the
//! same spec and price.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, EntryState, Mode};
use setpoint_api::environment::{Approval, Guardrails, LedgerEntry, Window};
use setpoint_api::machine::{DoneStep, Intent};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Step, Target};

use super::entries::taken;
use super::{entry, is_within_price, stricter};
use crate::gate::{self, Evidence, Gpus, Requesters, Standing, Usage, Verdict};

/// Everything that the answer depends on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The steps of the object, in order. A step that one depends on and that is not among them is not done.
    pub steps: &'a [Step],
    /// The environment that they are taken in.
    pub environment: &'a str,
    /// The object, by its uid, and its generation.
    pub owner: &'a str,
    pub generation: i64,
    /// Who asked for what the object says, each on a line.
    pub requested_by: &'a str,
    /// What was done for the object, and how many steps that record holds.
    pub done: &'a [DoneStep],
    pub most_done: usize,
    /// The change sets that may list its steps.
    pub sets: &'a [Set<'a>],
    /// The environment's approval policy; the default one where it has none.
    pub approval: Option<&'a Approval>,
    /// The environment's limits; none where it has none.
    pub guardrails: Option<&'a Guardrails>,
    /// When steps may be taken there.
    pub windows: &'a [Window],
    /// When the time of the object is over.
    pub expires_at: Option<Timestamp>,
    /// What was done lately in the environment and counts against a budget.
    pub ledger: &'a [LedgerEntry],
    /// The calls for the object whose outcome is not known.
    pub intents: &'a [Intent],
    /// What there is in the environment now.
    pub usage: &'a Usage,
    /// The GPUs of every object that holds or wants any.
    pub gpus: &'a BTreeMap<Target, Gpus>,
    pub cluster_uid: &'a str,
    pub now: Timestamp,
}

/// A change set and the reviews of its gate.
#[derive(Debug, Clone)]
pub struct Set<'a> {
    pub change_set: &'a ChangeSet,
    pub evidence: Vec<Evidence<'a>>,
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
}

/// A verdict for each step of an object, in their order.
pub fn authorize(input: &Input<'_>) -> Vec<Authorized> {
    let under_way: BTreeSet<String> = input.intents.iter().map(|intent| intent.id.clone()).collect();
    let unasked = standings(input, None, input.approval, &under_way);
    let mut sets: Vec<Judged<'_>> = input.sets.iter().filter_map(|set| Judged::of(set, input, &under_way)).collect();
    sets.sort_by_key(|set| set.order());
    let permissions = input.steps.iter().enumerate().map(|(place, step)| {
        let unasked = &unasked[place];
        let rejections = sets.iter().filter_map(|set| set.rejection(place, step));
        let rejected_by: BTreeMap<String, String> = rejections.flatten().collect();
        let is_rejected = sets.iter().any(|set| set.rejection(place, step).is_some());
        let by = sets.iter().find(|set| set.may_authorize(step, input));
        let permission = match by {
            Some(set) if set.needs_approval(step) => {
                let missing = set.standings[place].missing.clone();
                Permission { missing, by: Some(set.uid().to_owned()), is_begun: false }
            }
            _ => Permission { missing: unasked.missing.clone(), by: None, is_begun: false },
        };
        let permission = finished(step, input).unwrap_or(permission);
        let rejected_by = match is_rejected && rejected_by.is_empty() {
            true => BTreeMap::from([("a review that was deleted since".to_owned(), String::new())]),
            false => rejected_by,
        };
        let Permission { missing, by, is_begun } = permission;
        let standing = Standing { missing, rejected_by, is_begun, ..Standing::default() };
        (standing, by)
    });
    let (standings, by): (Vec<Standing>, Vec<Option<String>>) = permissions.unzip();
    let judged = gate::decide(&gate_input(input, None, input.approval, &requesters(input), &under_way), &standings);
    let authorized = judged.into_iter().zip(by).map(|(judged, by)| Authorized {
        by: by.filter(|_| judged.verdict == Verdict::Run),
        step: judged.step,
        digest: judged.digest,
        verdict: judged.verdict,
    });
    authorized.collect()
}

/// What a step lacks, and whose approvals it has.
struct Permission {
    missing: Vec<gate::Approvals>,
    by: Option<String>,
    /// Whether it brings to its end what was begun.
    is_begun: bool,
}

/// A change set that executes, by the rules that hold for it.
struct Judged<'a> {
    change_set: &'a ChangeSet,
    /// None where nothing could meet the rules at opening and those in force.
    policy: Option<Approval>,
    standings: Vec<Standing>,
}

impl<'a> Judged<'a> {
    fn of(set: &'a Set<'a>, input: &Input<'_>, under_way: &BTreeSet<String>) -> Option<Judged<'a>> {
        let ChangeSet { metadata, spec, .. } = set.change_set;
        let is_here = spec.environment == input.environment && spec.mode == Mode::Execute;
        if !is_here || metadata.deletion_timestamp.is_some() {
            return None;
        }
        let policy = stricter(&spec.rules, input.approval);
        let standings = standings(input, Some(set), policy.as_ref().or(input.approval), under_way);
        Some(Judged { change_set: set.change_set, policy, standings })
    }

    fn uid(&self) -> &'a str {
        self.change_set.metadata.uid.as_deref().unwrap_or_default()
    }

    fn opened_at(&self) -> Timestamp {
        self.change_set.metadata.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0)
    }

    fn order(&self) -> (Timestamp, Option<String>) {
        (self.opened_at(), self.change_set.metadata.name.clone())
    }

    fn needs_approval(&self, step: &Step) -> bool {
        super::needs_approval(step, self.policy.as_ref())
    }

    /// Who rejects the step in it, and by which review; empty where that is on record and the review is gone.
    fn rejection(&self, place: usize, step: &Step) -> Option<BTreeMap<String, String>> {
        let entry = entry(self.change_set, &step.digest).filter(|entry| !entry.state.is_closed())?;
        let standing = &self.standings[place];
        let since = Timestamp::from_second(entry.since.as_second()).unwrap_or(entry.since);
        let is_withdrawn = standing.withdrawn_at.is_some_and(|at| at >= since);
        let is_on_record = entry.state == EntryState::Rejected && !is_withdrawn;
        (is_on_record || !standing.rejected_by.is_empty()).then(|| standing.rejected_by.clone())
    }

    fn may_authorize(&self, step: &Step, input: &Input<'_>) -> bool {
        let Some(entry) = entry(self.change_set, &step.digest) else { return false };
        let listed = self.change_set.spec.steps.iter().find(|listed| listed.digest == step.digest);
        let is_open = !entry.state.is_closed() && entry.object.as_deref() == Some(input.owner) && self.policy.is_some();
        let has_seen_all = entry.generation.is_some_and(|generation| input.generation.saturating_sub(generation) <= 1);
        let uses = |intent: &Intent| intent.digest == step.digest && intent.change_set.as_deref() == Some(self.uid());
        let is_used = taken(&step.digest, (self.uid(), self.opened_at()), (input.done, input.most_done)).is_some();
        let is_as_shown = listed.is_some_and(|listed| is_within_price(listed, step));
        is_open && has_seen_all && is_as_shown && !is_used && !input.intents.iter().any(uses)
    }
}

/// The approvals of an earlier step that this one brings to its end. A rejection holds all the same.
fn finished(step: &Step, input: &Input<'_>) -> Option<Permission> {
    let by = match step.action {
        Action::Start => {
            let restart = input.intents.iter().find(|intent| {
                let is_plain = step.depends_on.is_empty() && step.hourly_cost_delta == Some(Price::ZERO);
                let is_same = step.provider_id.is_some() && intent.provider_id == step.provider_id;
                is_plain && is_same && intent.action == Action::Restart
            });
            restart?.change_set.clone()
        }
        Action::Create => {
            let last = input.done.last().filter(|done| done.action == Action::Replace && done.unseen)?;
            let set = input.sets.iter().find(|set| set.change_set.metadata.uid == last.change_set)?.change_set;
            let replace = set.spec.steps.iter().find(|listed| listed.digest == last.digest)?;
            let entry = entry(set, &last.digest)?;
            let is_same = replace.new_spec_digest == step.new_spec_digest && entry.generation == Some(input.generation);
            let is_as_dear = match (last.hourly_price, step.hourly_cost_delta) {
                (Some(shown), Some(now)) => now <= shown,
                (None, None) => true,
                _ => false,
            };
            let is_its_own = entry.object.as_deref() == Some(input.owner);
            (is_same && is_as_dear && is_its_own).then(|| last.change_set.clone())?
        }
        _ => return None,
    };
    Some(Permission { missing: Vec::new(), by, is_begun: true })
}

/// What people said of each step in one change set; without one, what each step needs.
fn standings(
    input: &Input<'_>,
    set: Option<&Set<'_>>,
    approval: Option<&Approval>,
    under_way: &BTreeSet<String>,
) -> Vec<Standing> {
    gate::standings(&gate_input(input, set, approval, &requesters(input), under_way)).0
}

fn requesters<'a>(input: &Input<'a>) -> Requesters<'a> {
    Requesters::of_all([input.requested_by])
}

fn gate_input<'a>(
    input: &Input<'a>,
    set: Option<&'a Set<'a>>,
    approval: Option<&'a Approval>,
    requesters: &'a Requesters<'a>,
    under_way: &'a BTreeSet<String>,
) -> gate::Input<'a> {
    let metadata = set.map(|set| &set.change_set.metadata);
    let text = |text: Option<&'a String>| text.map_or("", String::as_str);
    gate::Input {
        steps: input.steps,
        approval,
        guardrails: input.guardrails,
        windows: input.windows,
        expires_at: input.expires_at,
        evidence: set.map_or(&[], |set| &set.evidence),
        ledger: input.ledger,
        under_way,
        usage: input.usage,
        gpus: input.gpus,
        requesters,
        cluster_uid: input.cluster_uid,
        namespace: text(metadata.and_then(|metadata| metadata.namespace.as_ref())),
        gate: text(metadata.and_then(|metadata| metadata.name.as_ref())),
        change_set_uid: text(metadata.and_then(|metadata| metadata.uid.as_ref())),
        opened_at: metadata.and_then(|metadata| metadata.creation_timestamp.as_ref()).map_or(input.now, |time| time.0),
        now: input.now,
    }
}
