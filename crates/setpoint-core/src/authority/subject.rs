//! What is known of the object that a step is for.

use setpoint_api::environment::Environment;
use setpoint_api::machine::{DoneStep, MAX_DONE, Machine};
use setpoint_api::pending::{Certainty, MAX_PENDING, PendingSteps};
use setpoint_api::requester::{NOBODY, requested_by};
use setpoint_api::step::{Action, Step};

/// An object as its controller last told of it.
#[derive(Debug, Clone, Copy)]
pub struct Subject<'a> {
    pub uid: &'a str,
    pub generation: i64,
    /// The generation that was planned last.
    pub planned: i64,
    /// The steps that need an approval; none where it is known that there are none.
    pub pending: Option<&'a PendingSteps>,
    calls: Calls<'a>,
    pub done: &'a [DoneStep],
    /// How many steps the record of what was done holds.
    pub most_done: usize,
    requested_by: &'a str,
    /// Who wrote the policy of an Environment.
    policy_by: &'a str,
}

/// The calls that are under way.
#[derive(Debug, Clone, Copy)]
enum Calls<'a> {
    Machine(&'a Machine),
    /// What is marked as used and was not seen to have an effect is under way, as long as it is not pending again.
    Environment,
}

/// Whether an object wants a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wanted<'a> {
    Yes { step: &'a Step, generation: i64 },
    No { generation: i64 },
    Unknown,
}

impl<'a> Subject<'a> {
    pub fn of_machine(machine: &'a Machine) -> Subject<'a> {
        let status = machine.status.as_ref();
        Subject {
            uid: machine.metadata.uid.as_deref().unwrap_or_default(),
            generation: machine.metadata.generation.unwrap_or_default(),
            planned: status.and_then(|status| status.observed_generation).unwrap_or_default(),
            pending: status.and_then(|status| status.pending.as_ref()),
            calls: Calls::Machine(machine),
            done: status.map_or(&[], |status| &status.done),
            most_done: MAX_DONE,
            requested_by: requested_by(&machine.metadata),
            policy_by: "",
        }
    }

    /// The steps of an Environment are about what was found, such as guests that belong to nothing, and about its policy.
    pub fn of_environment(environment: &'a Environment) -> Subject<'a> {
        let status = environment.status.as_ref();
        let pending = status.and_then(|status| status.pending.as_ref());
        Subject {
            uid: environment.metadata.uid.as_deref().unwrap_or_default(),
            generation: environment.metadata.generation.unwrap_or_default(),
            planned: pending.map_or(0, |pending| pending.generation),
            pending,
            calls: Calls::Environment,
            done: status.map_or(&[], |status| &status.done),
            most_done: MAX_PENDING,
            requested_by: NOBODY,
            policy_by: requested_by(&environment.metadata),
        }
    }

    /// Who asked for a step, each on a line: of what was found, nobody.
    pub fn requested_by(&self, step: &Step) -> &'a str {
        if step.action == Action::Loosen { self.policy_by } else { self.requested_by }
    }

    /// Whether the object wants the step with this digest.
    pub fn wants(&self, digest: &str) -> Wanted<'a> {
        let listed = self.pending.and_then(|pending| pending.steps.iter().find(|step| step.digest == digest));
        match (listed, self.pending) {
            (Some(step), Some(pending)) => Wanted::Yes { step, generation: pending.generation },
            _ if self.planned != self.generation => Wanted::Unknown,
            (_, Some(pending)) if pending.certainty == Certainty::Unknown => Wanted::Unknown,
            _ => Wanted::No { generation: self.planned },
        }
    }

    /// Whether a call for the step is under way.
    pub fn is_under_way(&self, digest: &str) -> bool {
        match self.calls {
            Calls::Machine(machine) => {
                let mut intents = machine.status.iter().flat_map(|status| &status.intents);
                intents.any(|intent| intent.digest == digest)
            }
            Calls::Environment => {
                let is_pending = !matches!(self.wants(digest), Wanted::No { .. } | Wanted::Unknown);
                self.done.iter().any(|done| done.digest == digest && done.unseen && !self.is_retried(done, is_pending))
            }
        }
    }

    /// Whether a step was listed again by a look that was made after it was tried.
    fn is_retried(&self, done: &DoneStep, is_pending: bool) -> bool {
        is_pending && self.pending.is_some_and(|pending| pending.observed_at > done.at)
    }

    /// Whether no write of the object went unseen since a step was wanted at a generation.
    pub fn continues(&self, at: i64) -> bool {
        self.generation.saturating_sub(at) <= 1
    }
}
