//! That people were asked: judged by what is written down before each call, by what people wrote, and by what reached the
//! places; never by what a controller says of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::{Environment, LedgerEntry};
use setpoint_api::machine::{Intent, Machine};
use setpoint_api::price::Price;
use setpoint_api::requester::requested_by;
use setpoint_api::review::{Decision, Review};
use setpoint_api::step::{Action, Step};
use setpoint_core::plan::GUEST;
use setpoint_deployer::Operation;
use setpoint_deployer::simulated::{Effect, Entry};

use super::ledger::Books;
use super::places::TAKEN;
use super::rules::{title, uid};
use super::users::EXISTING;

const HOUR: SignedDuration = SignedDuration::from_hours(1);
/// For how long somebody may act by what they read just before.
const UNDER_WAY: SignedDuration = SignedDuration::from_secs(120);

/// What was ever written down. Controllers act on what they last saw, so what is gone since still counts.
#[derive(Debug, Default)]
pub(super) struct Approvals {
    machines: BTreeSet<String>,
    /// Calls, by their ids.
    calls: BTreeMap<String, Call>,
    /// Change sets that were to be carried out, by uid.
    sets: BTreeMap<String, ChangeSet>,
    /// The steps that each of them ever listed, by its uid and their digest.
    listed: BTreeMap<(String, String), Step>,
    reviews: BTreeMap<String, Review>,
    /// Those that are on record as counted.
    accepted: BTreeSet<String>,
    /// The rejections that were accepted: the digest, who gave it, and when.
    rejections: Vec<(String, String, Timestamp)>,
    /// The steps of change sets that were closed without being done, by change set and digest, and when that was written.
    closed: BTreeMap<(String, String), Timestamp>,
    /// The call that made use of an approval: it reached a place and took effect there.
    used: BTreeMap<(String, String), String>,
}

/// A call that was written down before it was made.
#[derive(Debug)]
struct Call {
    machine: String,
    action: Action,
    digest: String,
    change_set: Option<String>,
}

impl Approvals {
    /// A Machine was written: each call that it tells of for the first time must have leave.
    pub(super) fn machine_changed(&mut self, books: &Books, machine: &Machine, broken: &mut Vec<String>) {
        self.machines.insert(uid(&machine.metadata).to_owned());
        for intent in machine.status.iter().flat_map(|status| &status.intents) {
            if self.calls.contains_key(&intent.id) {
                continue;
            }
            if let Err(fault) = self.judge(books, machine, intent) {
                broken.push(format!("{:?} of {} {fault}", intent.action, title(&machine.metadata)));
            }
            let (machine, digest) = (uid(&machine.metadata).to_owned(), intent.digest.clone());
            let call = Call { machine, action: intent.action, digest, change_set: intent.change_set.clone() };
            self.calls.insert(intent.id.clone(), call);
        }
    }

    pub(super) fn change_set_changed(&mut self, set: &ChangeSet, broken: &mut Vec<String>) {
        if set.spec.mode != Mode::Execute {
            return;
        }
        let id = uid(&set.metadata).to_owned();
        for step in &set.spec.steps {
            self.listed.insert((id.clone(), step.digest.clone()), step.clone());
        }
        let entries = set.status.iter().flat_map(|status| &status.entries);
        for entry in entries {
            let key = (id.clone(), entry.digest.clone());
            if entry.state.is_closed() {
                self.closed.entry(key).or_insert(entry.since);
            } else if self.closed.contains_key(&key) {
                broken.push(format!(
                    "{} of {} was closed, and is {:?}",
                    entry.digest,
                    title(&set.metadata),
                    entry.state
                ));
            }
        }
        self.sets.insert(id, set.clone());
    }

    pub(super) fn review_changed(&mut self, review: &Review) {
        let accepted = review.status.iter().flat_map(|status| &status.conditions);
        let is_accepted = accepted.into_iter().any(|it| it.type_ == "Accepted" && it.status == ConditionStatus::True);
        let key = uid(&review.metadata).to_owned();
        let created = review.metadata.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0);
        let was_accepted = !self.accepted.insert(key.clone()) || !is_accepted;
        if !is_accepted {
            self.accepted.remove(&key);
        }
        for digest in &review.spec.digests {
            match review.spec.decision {
                Decision::Reject if !was_accepted => {
                    self.rejections.push((digest.clone(), review.spec.reviewer.clone(), created));
                }
                // Who says otherwise later no longer rejects it; and whoever may approve withdraws for all.
                Decision::Withdraw => {
                    let others = |by: &str, at: Timestamp| by != review.spec.reviewer && at >= created;
                    self.rejections.retain(|(of, by, at)| of != digest || others(by, *at));
                }
                Decision::Approve => {
                    self.rejections.retain(|(of, by, at)| of != digest || *by != review.spec.reviewer || *at > created);
                }
                Decision::Reject | Decision::Comment => {}
            }
        }
        self.reviews.insert(key, review.clone());
    }

    /// Whether two guests of one owner are one too many: they were made by one call, or by two that each were to make the
    /// first. A replacement stands beside what it replaces for a while.
    pub(super) fn are_doubled(&self, one: &str, other: &str) -> bool {
        let is_first = |call: &str| self.calls.get(call).is_none_or(|call| call.action == Action::Create);
        one == other || (is_first(one) && is_first(other))
    }

    /// Whether this is or was the uid of a Machine.
    pub(super) fn is_machine(&self, uid: &str) -> bool {
        self.machines.contains(uid)
    }

    /// Something reached a place.
    pub(super) fn reached(&mut self, books: &Books, place: &str, entry: &Entry, broken: &mut Vec<String>) {
        let owner = entry.owner.as_deref().unwrap_or_default();
        let goes = entry.operation == Operation::Delete && entry.effect != Effect::None;
        if goes && owner.starts_with(TAKEN) && !self.may_go(books, place, entry) {
            broken.push(format!("this was there before us, belongs to nothing, and goes without leave: {entry}"));
        }
        if entry.operation == Operation::Observe || entry.effect == Effect::None || !self.machines.contains(owner) {
            return;
        }
        let Some(call) = self.calls.get(&*entry.intent) else {
            broken.push(format!("this was done and never written down: {entry}"));
            return;
        };
        if call.machine != owner {
            broken.push(format!("this was written down for {} and done to another's: {entry}", call.machine));
        }
        if call.action == Action::Release && !is_on_record(books, place, entry) {
            broken.push(format!("this was released, and counts against no limit: {entry}"));
        }
        let Some(set) = call.change_set.clone().filter(|_| entry.effect == Effect::Full) else { return };
        let approval = (set, call.digest.clone());
        let first = self.used.entry(approval).or_insert_with(|| entry.intent.to_string());
        if **first != *entry.intent {
            broken.push(format!("an approval was used twice, first by {first}: {entry}"));
        }
    }

    /// Whether enough people were asked about a guest that belongs to nothing, and agreed.
    fn may_go(&self, books: &Books, place: &str, entry: &Entry) -> bool {
        let environment = books.environments.get(place);
        let approval = environment.and_then(|environment| environment.spec.approval.clone()).unwrap_or_default();
        let is_it = |step: &Step| step.target.kind == GUEST && Some(&*step.target.name) == entry.instance.as_deref();
        let mut asked = self.listed.iter().filter(|(_, step)| is_it(step));
        asked.any(|((set, digest), step)| {
            let Some(set) = self.sets.get(set).filter(|set| set.spec.environment == place) else { return false };
            let agrees = |review: &&Review, expiry| self.approves(review, set, digest, entry.at, expiry);
            step.classes().into_iter().all(|class| {
                let needed = approval.requirement(class);
                let approvers = self.reviews.values().filter(|review| agrees(review, needed.expiry_seconds));
                let approvers: BTreeSet<&str> = approvers.map(|review| review.spec.reviewer.as_str()).collect();
                approvers.len() >= needed.approvals as usize
            })
        })
    }

    fn judge(&self, books: &Books, machine: &Machine, intent: &Intent) -> Result<(), String> {
        let environment = books.environments.get(&machine.spec.environment);
        let approval = environment.and_then(|environment| environment.spec.approval.clone()).unwrap_or_default();
        let is_late = |at: Timestamp| at.checked_add(UNDER_WAY).is_ok_and(|late| late < intent.started_at);
        let mut rejections = self.rejections.iter().filter(|(digest, ..)| *digest == intent.digest);
        if let Some((_, by, _)) = rejections.find(|(_, _, at)| is_late(*at)) {
            return Err(format!("was rejected by {by}"));
        }
        let Some(set) = &intent.change_set else {
            // What was there before us is lost for ever.
            let is_loss =
                matches!(intent.action, Action::Delete | Action::Replace) && machine.spec.provider_id.is_some();
            return if is_loss { Err("destroys what is not ours, and nobody was asked".to_owned()) } else { Ok(()) };
        };
        let listed = self.sets.get(set).zip(self.listed.get(&(set.clone(), intent.digest.clone())));
        let Some((set, step)) = listed else {
            return match self.finishes(machine, intent) {
                true => Ok(()),
                false => Err(format!("is in no change set {set}")),
            };
        };
        let key = (uid(&set.metadata).to_owned(), intent.digest.clone());
        if self.closed.get(&key).is_some_and(|at| is_late(*at)) {
            return Err(format!("was closed, in {}", title(&set.metadata)));
        }
        for class in step.classes() {
            let needed = approval.requirement(class);
            let counts = |review: &&Review| {
                let mut has_asked = requested_by(&machine.metadata).split('\n');
                self.approves(review, set, &intent.digest, intent.started_at, needed.expiry_seconds)
                    && (needed.requester_may_approve || !has_asked.any(|user| user == review.spec.reviewer))
            };
            let approvers: BTreeSet<&str> =
                self.reviews.values().filter(counts).map(|review| review.spec.reviewer.as_str()).collect();
            if approvers.len() < needed.approvals as usize {
                return Err(format!("is {class:?}, and was approved by {approvers:?}, which is not enough"));
            }
        }
        Ok(())
    }

    /// Whether a call brings one to its end that was approved: the start of a restart, or the creation of a replacement.
    fn finishes(&self, machine: &Machine, intent: &Intent) -> bool {
        let status = machine.status.as_ref();
        let mut restarts = status.into_iter().flat_map(|status| &status.intents);
        let mut replaced = status.into_iter().flat_map(|status| &status.done);
        match intent.action {
            Action::Start => restarts.any(|it| it.action == Action::Restart && it.change_set == intent.change_set),
            Action::Create => {
                replaced.any(|it| it.action == Action::Replace && it.unseen && it.change_set == intent.change_set)
            }
            _ => false,
        }
    }

    /// Whether a review approves exactly this step of exactly this change set, and did so in time.
    fn approves(
        &self,
        review: &Review,
        set: &ChangeSet,
        digest: &String,
        when: Timestamp,
        expiry_seconds: u32,
    ) -> bool {
        let created = |meta: &k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta| {
            meta.creation_timestamp.as_ref().map_or(Timestamp::MIN, |time| time.0)
        };
        let at = created(&review.metadata);
        let ends = at.checked_add(SignedDuration::from_secs(expiry_seconds.into())).unwrap_or(Timestamp::MAX);
        let ends = review.spec.expires_at.map_or(ends, |own| own.min(ends));
        review.spec.decision == Decision::Approve
            && review.metadata.namespace == set.metadata.namespace
            && Some(&review.spec.gate) == set.metadata.name.as_ref()
            && review.spec.digests.contains(digest)
            && at >= created(&set.metadata)
            && when <= ends
    }
}

/// What the ledger of an Environment counts is never more than its guardrails allow within an hour, nor what it counts for a
/// namespace more than those of the namespace.
pub(super) fn ledger_holds(environment: &Environment, broken: &mut Vec<String>) {
    let name = environment.metadata.name.as_deref().unwrap_or_default();
    let Some(limits) = &environment.spec.guardrails else { return };
    let ledger = environment.status.as_ref().map_or(&[][..], |status| &status.ledger);
    let namespaces: BTreeSet<&str> = ledger.iter().map(|entry| entry.target.namespace.as_str()).collect();
    for namespace in namespaces {
        let own = ledger.iter().filter(|entry| entry.target.namespace == namespace).collect::<Vec<_>>();
        if let Some(limits) = limits.of_namespace(namespace) {
            let most = (limits.max_destroys_per_hour, limits.max_added_cost_per_hour);
            hours_hold(&format!("for {namespace} at {name}"), most, &own, broken);
        }
    }
    let most = (limits.max_destroys_per_hour, limits.max_added_cost_per_hour);
    hours_hold(&format!("at {name}"), most, &ledger.iter().collect::<Vec<_>>(), broken);
}

/// No hour of a ledger has more in it than that: destructive steps, and added cost.
fn hours_hold(
    place: &str,
    (max_destroys, max_added_cost): (Option<u32>, Option<Price>),
    ledger: &[&LedgerEntry],
    broken: &mut Vec<String>,
) {
    for last in ledger {
        let lately = ledger.iter().filter(|entry| entry.time <= last.time && entry.time > last.time - HOUR);
        let lately: Vec<_> = lately.collect();
        let destroyed = lately.iter().filter(|entry| entry.destroyed).count();
        if let Some(most) = max_destroys.filter(|most| destroyed > *most as usize) {
            broken.push(format!("{destroyed} things were destroyed within an hour {place}, which allows {most}"));
        }
        let deltas = lately.iter().filter_map(|entry| entry.hourly_cost_delta).filter(|delta| *delta > Price::ZERO);
        let added: Price = deltas.sum();
        if let Some(most) = max_added_cost.filter(|most| added > *most) {
            broken.push(format!("{added} were added within an hour {place}, which allows {most}"));
        }
    }
}

/// Whether the Environment says of a guest that it was released by this call, if it has to: what was there before us and costs
/// nothing may go uncounted.
fn is_on_record(books: &Books, place: &str, entry: &Entry) -> bool {
    let status = books.environments.get(place).and_then(|environment| environment.status.as_ref());
    let mut released = status.iter().flat_map(|status| &status.released);
    entry.instance.as_deref() == Some(EXISTING) || released.any(|guest| guest.call == *entry.intent)
}
