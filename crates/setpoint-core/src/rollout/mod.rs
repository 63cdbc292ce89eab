//! What a rollout does next: one function over facts, for canaries, blue/green and machines that exist once alike.
//!
//! [`decide`] is given what was observed and the little that is remembered ([`RolloutState`]), and answers with actions,
//! or with a new state to remember, never with both. So a state is durable before anything is done under it, and:
//!
//! - it can be called at any time, any number of times, after a crash at any point: the same facts give the same answer;
//! - no action relies on another: each is safe by the facts alone, whether or not the others happen;
//! - at most one action of a decision takes something away.
//!
//! What it holds to: a split is 10 000 basis points; only Ready revisions get traffic; what has traffic is never drained,
//! nor made smaller than its share needs ([`Promise`]); a revision that fails to warm changes nothing for the serving one;
//! nothing of the old is given up for a new one that cannot be placed.

mod analysis;
mod capacity;
mod heed;
mod settle;
mod shift;
mod stage;

use std::collections::BTreeMap;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use setpoint_api::app::{AskedSplit, RolloutPhase, RolloutRequest, RolloutState, Strategy};
use setpoint_api::revision::RevisionPhase;

pub use self::analysis::{LatencyBucket, Sample, Verdict, judge};
pub use self::capacity::{Promise, Stock};
use crate::split::{Granularity, Split};

/// Everything that a decision is made from.
#[derive(Debug, Clone, Copy)]
pub struct Facts<'f> {
    pub now: Timestamp,
    pub strategy: &'f Strategy,
    pub replicas: u32,
    pub revision_history_limit: u32,
    /// What a person asks for, if it was not heeded yet or is still written there.
    pub request: Option<&'f RolloutRequest>,
    /// What is remembered.
    pub state: &'f RolloutState,
    /// The revision that the App's template now is.
    pub template_revision: &'f str,
    /// All revisions of the App, by name.
    pub revisions: &'f BTreeMap<String, RevisionFacts>,
    /// The split that stands; `None` before the first.
    pub split: Option<&'f Split>,
    /// Since when the split that stands has had effect, and is measured; `None` until it has. A sample from before is of
    /// another split and says nothing.
    pub measured_since: Option<Timestamp>,
    /// What the proxy measured, by revision.
    pub samples: &'f BTreeMap<String, Sample>,
    /// Whether an instance of the target could be placed.
    pub stock: &'f Stock,
    /// How finely the deployer can split.
    pub granularity: Granularity,
}

/// What was observed of one revision.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct RevisionFacts {
    /// Its place in the order of revisions.
    pub number: u64,
    pub phase: RevisionPhase,
    /// How many instances are wanted of it.
    pub asked: u32,
    /// How many exist, those that are stopping included.
    pub existing: u32,
    /// How many are ready.
    pub ready: u32,
}

/// One thing to do. Done twice, it is as done once.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Prepare a revision.
    Stage { revision: String },
    /// Start so many instances of a staged revision.
    Warm { revision: String, replicas: u32 },
    /// Have so many instances of a revision. What is not ready is removed first.
    Scale { revision: String, replicas: u32 },
    /// Split traffic so.
    SetSplit { split: Split },
    /// Let a revision without traffic finish, and stop it.
    Drain { revision: String },
    /// Forget all but the record of a revision that does not run.
    Archive { revision: String },
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Stage { revision } => write!(f, "stage {revision}"),
            Action::Warm { revision, replicas } => write!(f, "warm {revision} with {replicas}"),
            Action::Scale { revision, replicas } => write!(f, "scale {revision} to {replicas}"),
            Action::SetSplit { split } => write!(f, "split {split}"),
            Action::Drain { revision } => write!(f, "drain {revision}"),
            Action::Archive { revision } => write!(f, "archive {revision}"),
        }
    }
}

/// What is waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum WaitsOn {
    /// A Revision that is not there, or cannot come back.
    Revision,
    /// Instances becoming ready.
    Replicas,
    /// Instances stopping, to make room.
    Room,
    /// The provider having an instance to give.
    Stock,
    /// A revision that is still draining.
    Draining,
    /// A time: a pause, or the time for which the old revision is kept.
    Time,
    /// An analysis.
    Analysis,
    /// A person.
    Person,
    /// Nothing: it is as it should be.
    Nothing,
}

/// What comes next.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Decision {
    /// What to remember. If it differs from what is remembered, write it, do nothing else, and ask again.
    pub state: RolloutState,
    /// What to do now, in this order. Empty if the state changes.
    pub actions: Vec<Action>,
    /// What is waited for when that is done.
    pub waits_on: WaitsOn,
    /// When to ask again even if nothing happens.
    pub until: Option<Timestamp>,
    /// Why, for people.
    pub reason: String,
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for action in &self.actions {
            write!(f, "{action}; ")?;
        }
        f.write_str(&self.reason)
    }
}

/// What comes next in a rollout.
pub fn decide(facts: &Facts<'_>) -> Decision {
    if let Some(state) = heed::heed(facts) {
        return facts.remember(state);
    }
    if let Some(split) = settle::without_the_lost(facts) {
        return facts.ask(split, "a revision that is not Ready gets no traffic".to_owned());
    }
    if let Some(split) = settle::restored(facts) {
        return facts.ask(split, "the split was lost and is set again".to_owned());
    }
    match facts.state.phase {
        RolloutPhase::Pending => {
            facts.wait(WaitsOn::Revision, None, format!("waits for the revision {}", facts.template_revision))
        }
        RolloutPhase::Progressing | RolloutPhase::Aborting if facts.state.paused.is_some() => settle::hold(facts),
        RolloutPhase::Progressing => stage::advance(facts),
        RolloutPhase::Aborting => stage::retreat(facts),
        RolloutPhase::Aborted | RolloutPhase::Complete => settle::settle(facts),
    }
}

impl<'f> Facts<'f> {
    fn promise(&self) -> Promise {
        Promise::of(self.strategy, self.replicas, self.granularity)
    }

    fn revision(&self, name: &str) -> Option<&'f RevisionFacts> {
        self.revisions.get(name)
    }

    fn ready(&self, name: &str) -> u32 {
        self.revision(name).map_or(0, |revision| revision.ready)
    }

    fn weight(&self, name: &str) -> u32 {
        self.split.map_or(0, |split| split.weight(name))
    }

    fn names(&self, name: &str) -> bool {
        self.split.is_some_and(|split| split.names(name))
    }

    /// How many more instances may exist, besides those of `name`.
    fn room_for(&self, name: &str) -> u32 {
        let others = self.revisions.iter().filter(|(other, _)| *other != name);
        let held: u64 = others.map(|(_, revision)| u64::from(revision.held())).sum();
        self.promise().limit().saturating_sub(u32::try_from(held).unwrap_or(u32::MAX))
    }

    /// The fewest instances that `name` can do with: its own share is borne, and enough serve in all. `None` if it has
    /// fewer already: what others lack is not made worse by it.
    fn fewest(&self, name: &str) -> Option<u32> {
        let Some(split) = self.split.filter(|split| split.weight(name) > 0) else { return Some(0) };
        let promise = self.promise();
        let others = split.routed().filter(|entry| entry.revision != name);
        let serving: u64 = others.map(|entry| u64::from(self.ready(&entry.revision))).sum();
        let owed = promise.owed().saturating_sub(u32::try_from(serving).unwrap_or(u32::MAX));
        Some(promise.need(split.weight(name)).max(owed)).filter(|fewest| self.ready(name) >= *fewest)
    }

    /// The fewest instances that `name` can be made to have, so that it can do with them or loses nothing that is ready.
    fn trimmed(&self, name: &str) -> u32 {
        self.fewest(name).unwrap_or_else(|| self.ready(name))
    }

    /// The split that stands, or the one that was asked for and is lost.
    fn stood(&self) -> Option<Split> {
        let asked = || Split::new(self.state.asked.as_ref()?.entries.clone()).ok();
        self.split.cloned().or_else(asked)
    }

    /// Whether the split that stands is the one last asked for, or the one before it.
    fn split_is_ours(&self) -> bool {
        let stands = self.split.map(Split::entries);
        let ours = |asked: &AskedSplit| stands == Some(&asked.entries) || stands == asked.before.as_deref();
        self.state.asked.as_ref().is_some_and(ours)
    }

    fn after(&self, since: Option<Timestamp>, seconds: u32) -> Timestamp {
        let since = since.unwrap_or(self.now);
        since.checked_add(SignedDuration::from_secs(seconds.into())).unwrap_or(Timestamp::MAX)
    }

    fn remember(&self, state: RolloutState) -> Decision {
        let reason = state.message.clone().unwrap_or_default();
        Decision { state, actions: Vec::new(), waits_on: WaitsOn::Nothing, until: Some(self.now), reason }
    }

    fn act(&self, actions: Vec<Action>, reason: String) -> Decision {
        let state = self.state.clone();
        Decision { state, actions, waits_on: WaitsOn::Replicas, until: None, reason }
    }

    fn wait(&self, waits_on: WaitsOn, until: Option<Timestamp>, reason: String) -> Decision {
        Decision { state: self.state.clone(), actions: Vec::new(), waits_on, until, reason }
    }

    /// Sets a split once it is remembered that it was asked for: that is how a person's split is told from ours.
    fn ask(&self, split: Split, reason: String) -> Decision {
        if self.state.asked.as_ref().is_some_and(|asked| asked.entries == split.entries()) {
            return self.act(vec![Action::SetSplit { split }], reason);
        }
        let before = self.split.map(|split| split.entries().to_vec());
        let asked = Some(AskedSplit { entries: split.into_entries(), before });
        Decision { reason, ..self.remember(RolloutState { asked, ..self.state.clone() }) }
    }
}

impl RevisionFacts {
    /// How many places it takes.
    fn held(&self) -> u32 {
        self.asked.max(self.existing)
    }
}
