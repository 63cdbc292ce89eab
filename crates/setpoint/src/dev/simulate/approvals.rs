//! That people were asked: judged by what is written down before each call, by what people wrote, and by what reached the
//! places; never by what a controller says of it.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use serde_json::{Map, Value};
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::environment::Environment;
use setpoint_api::machine::{Intent, Machine, MachineSpec};
use setpoint_api::price::Price;
use setpoint_api::requester::requested_by;
use setpoint_api::review::{Decision, Review};
use setpoint_api::step::{Action, Step};
use setpoint_core::machine::target;
use setpoint_core::plan::GUEST;
use setpoint_core::workload::selection::controller_of;
use setpoint_deployer::Operation;
use setpoint_deployer::simulated::{Effect, Entry};

use super::ledger::Books;
use super::places::TAKEN;
use super::rules::{title, uid};

const HOUR: SignedDuration = SignedDuration::from_hours(1);

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
    /// The generations that Machines had by when their controller asked about them, by the uids of these change sets.
    asked: BTreeMap<String, i64>,
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

    pub(super) fn change_set_changed(&mut self, books: &Books, set: &ChangeSet) {
        if set.spec.mode != Mode::Execute {
            return;
        }
        let id = uid(&set.metadata).to_owned();
        let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
        let is_asked = set.status.as_ref().is_some_and(|status| status.digest.is_some());
        let asks = controller_of(&set.metadata).filter(|_| is_asked).and_then(|owner| {
            let machine = books.machines.get(&format!("{namespace}/{}", owner.name))?;
            machine.metadata.generation.filter(|_| uid(&machine.metadata) == owner.uid)
        });
        if let Some(generation) = asks {
            self.asked.entry(id.clone()).or_insert(generation);
        }
        for step in set.status.iter().flat_map(|status| &status.steps) {
            self.listed.insert((id.clone(), step.digest.clone()), step.clone());
        }
        self.sets.insert(id, set.clone());
    }

    pub(super) fn review_changed(&mut self, review: &Review) {
        self.reviews.insert(uid(&review.metadata).to_owned(), review.clone());
    }

    /// Whether two guests of one owner are one too many: they were made by one call, or by two that each were to make the
    /// first. A replacement stands beside what it replaces for a while.
    pub(super) fn are_doubled(&self, one: &str, other: &str) -> bool {
        let is_first = |call: &str| self.calls.get(call).is_none_or(|call| call.action == Action::Create);
        one == other || (is_first(one) && is_first(other))
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
        let Some(set) = &intent.change_set else {
            // What was there before us is lost for ever.
            let is_loss =
                matches!(intent.action, Action::Delete | Action::Replace) && machine.spec.provider_id.is_some();
            return if is_loss { Err("destroys what is not ours, and nobody was asked".to_owned()) } else { Ok(()) };
        };
        let listed = self.sets.get(set).zip(self.listed.get(&(set.clone(), intent.digest.clone())));
        let Some((set, step)) = listed else { return Err(format!("is in no change set {set}")) };
        let announced = set.spec.deletes.contains(&target(&machine.metadata));
        let is_kept = announced && machine.metadata.deletion_timestamp.is_none();
        if is_kept || brings(set, machine).is_some_and(|said| said != machine.spec) {
            return Err(format!("was approved for something else than was written, in {}", title(&set.metadata)));
        }
        let asked = self.asked.get(uid(&set.metadata)).copied();
        if asked.is_some_and(|asked| machine.metadata.generation > Some(asked)) {
            return Err(format!("was approved before it was written, in {}", title(&set.metadata)));
        }
        for class in step.classes() {
            let needed = approval.requirement(class);
            let counts = |review: &&Review| {
                let mut has_asked = requested_by(&machine.metadata).split('\n').chain([&*set.spec.requested_by]);
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

/// What the ledger of an Environment counts is never more than its guardrails allow within an hour.
pub(super) fn ledger_holds(environment: &Environment, broken: &mut Vec<String>) {
    let name = environment.metadata.name.as_deref().unwrap_or_default();
    let Some(limits) = &environment.spec.guardrails else { return };
    let ledger = environment.status.as_ref().map_or(&[][..], |status| &status.ledger);
    for last in ledger {
        let lately = ledger.iter().filter(|entry| entry.time <= last.time && entry.time > last.time - HOUR);
        let lately: Vec<_> = lately.collect();
        let destroyed = lately.iter().filter(|entry| entry.destroyed).count();
        if let Some(most) = limits.max_destroys_per_hour.filter(|most| destroyed > *most as usize) {
            broken.push(format!("{destroyed} things were destroyed within an hour at {name}, which allows {most}"));
        }
        let deltas = lately.iter().filter_map(|entry| entry.hourly_cost_delta).filter(|delta| *delta > Price::ZERO);
        let added: Price = deltas.sum();
        if let Some(most) = limits.max_added_cost_per_hour.filter(|most| added > *most) {
            broken.push(format!("{added} were added within an hour at {name}, which allows {most}"));
        }
    }
}

/// What a change set says of a Machine that it brings along.
fn brings(set: &ChangeSet, machine: &Machine) -> Option<MachineSpec> {
    let is_it = |object: &&Map<String, Value>| {
        let name = object.get("metadata").and_then(|metadata| metadata.get("name")?.as_str());
        name == machine.metadata.name.as_deref()
    };
    let spec = set.spec.objects.iter().find(is_it)?.get("spec")?;
    serde_json::from_value(spec.clone()).ok()
}
