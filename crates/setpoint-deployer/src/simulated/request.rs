//! What is asked of a simulated place, and the log of all that reached it: the outside witness.

use std::collections::VecDeque;
use std::fmt;
use std::hash::{DefaultHasher, Hasher};
use std::time::Duration;

use jiff::Timestamp;
use setpoint_core::observation::Mark;
use setpoint_core::split::Split;

use crate::deployer::{AppName, Applied, ObservedApp};
use crate::error::{Fault, Operation};
use crate::provider::{Observed, Scope};

use super::blueprint::Blueprint;

/// How many entries of the log are kept: the newest.
const KEPT: usize = 16_384;

/// Something that is asked of a place.
#[derive(Debug, Clone)]
pub(super) struct Request {
    /// The control plane that asks. What carries another one's mark, or none, is not touched for it.
    pub(super) cluster: Box<str>,
    pub(super) intent: Box<str>,
    pub(super) verb: Verb,
}

#[derive(Debug, Clone)]
pub(super) enum Verb {
    Observe(Scope),
    Create(Blueprint),
    Update {
        id: Box<str>,
        blueprint: Blueprint,
    },
    Start {
        id: Box<str>,
    },
    Stop {
        id: Box<str>,
        grace: Duration,
    },
    Delete {
        id: Box<str>,
    },
    /// Without a mark, ours is taken off.
    Mark {
        id: Box<str>,
        mark: Option<Mark>,
    },
    App {
        app: AppName,
        verb: AppVerb,
    },
}

/// What is asked about an App.
#[derive(Debug, Clone)]
pub(super) enum AppVerb {
    Observe,
    Stage { revision: RevisionBrief },
    Warm { revision: RevisionBrief, replicas: u32 },
    Drain { revision: String, within: Duration },
    Archive { revision: String },
    Split(Split),
}

/// What a place has to know of a revision.
#[derive(Debug, Clone)]
pub(super) struct RevisionBrief {
    pub(super) name: String,
    pub(super) uid: Box<str>,
    pub(super) stops_after: Option<Duration>,
}

/// What is answered.
#[derive(Debug)]
pub(super) enum Reply {
    Observed(Observed),
    Made(Box<str>),
    Done,
    App(ObservedApp),
    Applied(Applied),
}

impl Request {
    pub(super) fn operation(&self) -> Operation {
        match &self.verb {
            Verb::Observe(_) | Verb::App { verb: AppVerb::Observe, .. } => Operation::Observe,
            Verb::Create(_) => Operation::Create,
            Verb::Update { .. } => Operation::Update,
            Verb::Start { .. } => Operation::Start,
            Verb::Stop { .. } => Operation::Stop,
            Verb::Delete { .. } => Operation::Delete,
            Verb::Mark { .. } => Operation::Mark,
            Verb::App { verb, .. } => match verb {
                AppVerb::Observe => Operation::Observe,
                AppVerb::Stage { .. } => Operation::Stage,
                AppVerb::Warm { .. } => Operation::Warm,
                AppVerb::Drain { .. } => Operation::Drain,
                AppVerb::Archive { .. } => Operation::Archive,
                AppVerb::Split(_) => Operation::ApplySplit,
            },
        }
    }

    /// What it is about, for people.
    pub(super) fn target(&self) -> String {
        match &self.verb {
            Verb::Observe(Scope::Everything) => "everything".to_owned(),
            Verb::Observe(Scope::Instance(id)) => id.to_string(),
            Verb::Observe(Scope::Owner(owner)) => format!("what {owner} owns"),
            Verb::Create(blueprint) => blueprint.name.to_string(),
            Verb::Update { id, .. }
            | Verb::Start { id }
            | Verb::Stop { id, .. }
            | Verb::Delete { id }
            | Verb::Mark { id, .. } => id.to_string(),
            Verb::App { app, verb } => match verb {
                AppVerb::Observe | AppVerb::Split(_) => app.to_string(),
                AppVerb::Stage { revision } | AppVerb::Warm { revision, .. } => format!("{app}/{}", revision.name),
                AppVerb::Drain { revision, .. } | AppVerb::Archive { revision } => format!("{app}/{revision}"),
            },
        }
    }
}

/// A request that reached the place, and what it did there, whatever its sender was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Counts all requests that reached the place, from 1.
    pub number: u64,
    pub at: Timestamp,
    pub operation: Operation,
    pub target: String,
    pub intent: Box<str>,
    /// The instance that it was done to or that it made, if any.
    pub instance: Option<Box<str>>,
    /// The owner in that instance's mark.
    pub owner: Option<Box<str>>,
    pub effect: Effect,
    /// What was answered, or would have been.
    pub answer: Result<(), Fault>,
}

/// What a request did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: it only looked, it was refused, or all was so already.
    None,
    Half,
    Full,
}

/// The requests that reached a place.
#[derive(Debug)]
pub struct RequestLog {
    entries: VecDeque<Entry>,
    count: u64,
    changing: u64,
    hasher: DefaultHasher,
}

impl RequestLog {
    pub(super) fn new() -> RequestLog {
        RequestLog { entries: VecDeque::new(), count: 0, changing: 0, hasher: DefaultHasher::new() }
    }

    pub(super) fn push(&mut self, mut entry: Entry) {
        self.count += 1;
        self.changing += u64::from(entry.operation != Operation::Observe);
        entry.number = self.count;
        self.hasher.write(entry.to_string().as_bytes());
        if self.entries.len() == KEPT {
            self.entries.pop_front();
        }
        self.entries.push_back(entry);
    }

    /// How many requests there were.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// How many of them were to change something.
    pub fn changing(&self) -> u64 {
        self.changing
    }

    /// Those after the one of this number, as far as they are kept.
    pub fn since(&self, number: u64) -> impl Iterator<Item = &Entry> {
        let first = self.count - self.entries.len() as u64;
        self.entries.iter().skip(usize::try_from(number.saturating_sub(first)).unwrap_or(usize::MAX))
    }

    /// A hash of all there ever were: the same choices give the same.
    pub fn hash(&self) -> u64 {
        self.hasher.finish()
    }
}

/// `17 2026-03-01T00:00:04Z create of web under intent-9: full on sim-2a-5 of uid-3: done`.
impl fmt::Display for Entry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Entry { number, at, operation, target, intent, effect, .. } = self;
        let effect = match effect {
            Effect::None => "nothing",
            Effect::Half => "half",
            Effect::Full => "full",
        };
        write!(f, "{number} {at} {operation} of {target}")?;
        if !intent.is_empty() {
            write!(f, " under {intent}")?;
        }
        write!(f, ": {effect}")?;
        if let Some(instance) = &self.instance {
            write!(f, " on {instance}")?;
        }
        if let Some(owner) = &self.owner {
            write!(f, " of {owner}")?;
        }
        match &self.answer {
            Ok(()) => f.write_str(": done"),
            Err(fault) => write!(f, ": {fault}"),
        }
    }
}
