//! Which steps may be taken now.

use std::collections::BTreeMap;

use jiff::Timestamp;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{DoneStep, Intent, Machine};
use setpoint_api::step::{Step, Target};
use setpoint_core::authority::{self, Authorized};
use setpoint_core::gate::{Gpus, Need, Verdict};
use setpoint_core::machine::{Held, HeldBy};

use super::treasury::Spending;
use crate::change_set::Case;

/// What is asked leave for.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    pub environment: &'a Environment,
    pub steps: &'a [Step],
    /// When the time of the object is over that they serve.
    pub expires_at: Option<Timestamp>,
    /// The calls whose outcome is not known.
    pub intents: &'a [Intent],
    pub gpus: BTreeMap<Target, Gpus>,
    pub spending: &'a Spending,
    /// What people said of steps like these.
    pub cases: &'a [Case],
    /// What was done for the object that the steps serve.
    pub done: &'a [DoneStep],
    /// That object, by its uid, the Machine if it is one, and who asked for what it says.
    pub owner: &'a str,
    pub machine: Option<&'a Machine>,
    pub requested_by: &'a str,
    pub cluster: &'a str,
    pub now: Timestamp,
}

/// What becomes of each step, in their order.
pub fn judge(asked: &Asked<'_>) -> Vec<Authorized> {
    let digests = asked.steps.iter().map(|step| step.digest.as_str()).collect();
    let sets = asked.cases.iter().filter_map(|case| case.as_set(&digests, asked.machine));
    let sets: Vec<authority::Set<'_>> = sets.collect();
    authority::authorize(&authority::Input {
        steps: asked.steps,
        environment: asked.environment.metadata.name.as_deref().unwrap_or_default(),
        owner: asked.owner,
        generation: asked.machine.and_then(|machine| machine.metadata.generation),
        requested_by: asked.requested_by,
        done: asked.done,
        sets: &sets,
        approval: asked.environment.spec.approval.as_ref(),
        guardrails: asked.environment.spec.guardrails.as_ref(),
        expires_at: asked.expires_at,
        ledger: &asked.spending.ledger,
        intents: asked.intents,
        usage: asked.spending.usage,
        gpus: &asked.gpus,
        cluster_uid: asked.cluster,
        now: asked.now,
    })
}

/// Whether a change set that outlives an object has yet to record what was done for it by its leave.
pub fn is_remembered_here_alone(cases: &[Case], done: &[DoneStep]) -> bool {
    let digests = done.iter().map(|step| step.digest.as_str()).collect();
    let mut sets = cases.iter().filter_map(|case| case.as_set(&digests, None)).filter(|set| set.owner.is_none());
    sets.any(|set| authority::is_unrecorded(&set, done))
}

/// The steps that may not be taken now, and what holds them.
pub fn held<'s>(steps: &'s [Step], verdicts: &[Verdict]) -> Vec<Held<'s>> {
    let held = steps.iter().zip(verdicts).filter_map(|(step, verdict)| {
        let by = match verdict {
            Verdict::Run => return None,
            Verdict::Refuse { .. } => HeldBy::Refusal,
            Verdict::Wait { .. } if verdict.waits_for_people() => HeldBy::People,
            Verdict::Wait { needs } if needs.iter().any(|need| matches!(need, Need::Step { .. })) => HeldBy::Step,
            Verdict::Wait { .. } => HeldBy::Limit,
        };
        Some(Held { step, why: verdict.why(), by })
    });
    held.collect()
}

/// The steps that wait for people.
pub fn waits_for_people<'h, 's>(held: &'h [Held<'s>]) -> impl Iterator<Item = &'s Step> + 'h {
    held.iter().filter(|held| held.by == HeldBy::People).map(|held| held.step)
}
