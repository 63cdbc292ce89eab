//! Why the spec of a Machine is not carried out, in one word for machines and one sentence for people.

use jiff::Timestamp;
use setpoint_api::condition::ConditionStatus;
use setpoint_api::machine::FINALIZER;
use setpoint_api::step::{Refusal, Step, Waiting, WaitsOn};

use crate::plan::ChangeSet;

/// The reasons of the condition `Synced`.
pub mod reason {
    pub const SYNCED: &str = "Synced";
    pub const PROGRESSING: &str = "Progressing";
    pub const WAITING: &str = "Waiting";
    pub const OVER_LIMIT: &str = "OverLimit";
    pub const REFUSED: &str = "Refused";
    pub const UNOBSERVED: &str = "Unobserved";
    pub const ENVIRONMENT_MISSING: &str = "EnvironmentMissing";
    pub const ENVIRONMENT_LEAVING: &str = "EnvironmentLeaving";
    pub const PROVIDER_ERROR: &str = "ProviderError";
    pub const UNSOUND: &str = "Unsound";
    pub const EXPIRED: &str = "Expired";
}

/// Whether somebody has to be told of a Machine that stands for this reason.
pub fn concerns_people(reason: &str) -> bool {
    [
        reason::WAITING,
        reason::OVER_LIMIT,
        reason::REFUSED,
        reason::ENVIRONMENT_LEAVING,
        reason::PROVIDER_ERROR,
        reason::UNSOUND,
        reason::EXPIRED,
    ]
    .contains(&reason)
}

/// Whether the spec of a Machine is carried out, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub status: ConditionStatus,
    pub reason: &'static str,
    pub message: String,
}

/// A step that may not be taken now.
#[derive(Debug, Clone)]
pub struct Held<'a> {
    pub step: &'a Step,
    /// What it waits for, or why it is refused.
    pub why: String,
    pub by: HeldBy,
}

/// What holds a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HeldBy {
    /// People, who have yet to approve it.
    People,
    /// Another step that is not taken.
    Step,
    Limit,
    Refusal,
}

impl Standing {
    fn new(status: ConditionStatus, reason: &'static str, message: impl Into<String>) -> Standing {
        Standing { status, reason, message: message.into() }
    }

    /// Nothing was seen of the place.
    pub fn unobserved(message: impl Into<String>) -> Standing {
        Standing::new(ConditionStatus::Unknown, reason::UNOBSERVED, message)
    }

    /// There is no place to look at.
    pub fn without_environment(name: &str) -> Standing {
        let message = format!("there is no Environment {name}: create it, or delete this Machine");
        Standing::new(ConditionStatus::Unknown, reason::ENVIRONMENT_MISSING, message)
    }

    pub fn provider_error(message: impl Into<String>) -> Standing {
        Standing::new(ConditionStatus::False, reason::PROVIDER_ERROR, message)
    }

    /// What was planned breaks a rule, and is not carried out: a fault of ours.
    pub fn unsound(message: impl Into<String>) -> Standing {
        Standing::new(ConditionStatus::False, reason::UNSOUND, message)
    }

    /// The same for one with steps that are held because its Environment is being deleted. What is refused is so anywhere.
    pub fn or_leaving(self, environment: &str, held: &[Step]) -> Standing {
        match held.first() {
            Some(step) if self.reason != reason::REFUSED => {
                let message = format!(
                    "the Environment {environment} is being deleted, and nothing comes there any more ({}): delete this \
                     Machine",
                    step.reason
                );
                Standing::new(ConditionStatus::False, reason::ENVIRONMENT_LEAVING, message)
            }
            _ => self,
        }
    }

    /// The same for one that has had its time, if it has: that it is without a guest is not what its spec asks for.
    pub fn or_expired(self, expired_at: Option<Timestamp>) -> Standing {
        match expired_at {
            Some(at) if self.is_synced() => {
                let message = format!("its time was over at {at}: it has no guest any more, and gets none");
                Standing::new(ConditionStatus::False, reason::EXPIRED, message)
            }
            _ => self,
        }
    }

    /// The same for one that waits for people where nobody can be asked any more.
    pub fn unheard(self) -> Standing {
        let message = format!(
            "its namespace is being deleted, where nobody can be asked any more ({}): to let it go, remove the finalizer \
             {FINALIZER}; its guest stays then, and its Environment tells of it as an orphan",
            self.message
        );
        Standing::new(ConditionStatus::False, reason::WAITING, message)
    }

    pub fn refused(refused: &[Refusal]) -> Standing {
        let told: Vec<String> =
            refused.iter().map(|refusal| format!("{}: {}", refusal.field, refusal.message)).collect();
        Standing::new(ConditionStatus::False, reason::REFUSED, told.join("; "))
    }

    /// By a plan for the Machine alone, and the steps of it that are held. `is_open` says whether a call is on record.
    pub fn of(change_set: &ChangeSet, held: &[Held<'_>], is_open: bool) -> Standing {
        let of = |by: HeldBy| held.iter().filter(move |held| held.by == by);
        let told = |by: HeldBy| {
            let words = of(by).map(|held| format!("{}: {}", held.step.reason, held.why));
            words.collect::<Vec<_>>().join("; ")
        };
        let on = |kinds: &[WaitsOn]| -> Vec<&Waiting> {
            change_set.waiting.iter().filter(|waiting| kinds.contains(&waiting.on)).collect()
        };
        let words = |waiting: &[&Waiting]| {
            let words: Vec<&str> = waiting.iter().map(|waiting| waiting.message.as_str()).collect();
            words.join("; ")
        };
        let (people, unseen) = (on(&[WaitsOn::Policy, WaitsOn::Dependency]), on(&[WaitsOn::Observation]));
        let passing = on(&[WaitsOn::Intent, WaitsOn::Provider]);
        let free = change_set.steps.iter().find(|step| !held.iter().any(|held| held.step.id == step.id));
        let no = |reason, message: String| Standing::new(ConditionStatus::False, reason, message);
        match () {
            () if !change_set.refused.is_empty() => Standing::refused(&change_set.refused),
            () if of(HeldBy::Refusal).next().is_some() => no(reason::REFUSED, told(HeldBy::Refusal)),
            () if of(HeldBy::People).next().is_some() => no(reason::WAITING, told(HeldBy::People)),
            () if of(HeldBy::Limit).next().is_some() => no(reason::OVER_LIMIT, told(HeldBy::Limit)),
            () if of(HeldBy::Step).next().is_some() => no(reason::WAITING, told(HeldBy::Step)),
            () if !people.is_empty() => no(reason::WAITING, words(&people)),
            () if !unseen.is_empty() => no(reason::UNOBSERVED, words(&unseen)),
            () if free.is_some() => no(reason::PROGRESSING, free.map(|step| step.reason.clone()).unwrap_or_default()),
            () if !passing.is_empty() => no(reason::PROGRESSING, words(&passing)),
            () if is_open => no(reason::PROGRESSING, "the outcome of a call has yet to show".to_owned()),
            () => Standing::new(ConditionStatus::True, reason::SYNCED, "the spec is carried out"),
        }
    }

    pub fn is_synced(&self) -> bool {
        self.reason == reason::SYNCED
    }
}
