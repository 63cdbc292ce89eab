//! Which steps may be taken now.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::environment::Environment;
use setpoint_api::step::{Step, Target};
use setpoint_core::gate::{self, Gpus, Need, Verdict, gate};
use setpoint_core::machine::{Held, HeldBy};

use super::treasury::Spending;

/// What is asked leave for.
#[derive(Debug)]
pub struct Asked<'a> {
    pub environment: &'a Environment,
    pub steps: &'a [Step],
    /// The calls whose outcome is not known.
    pub under_way: BTreeSet<String>,
    pub gpus: BTreeMap<Target, Gpus>,
    pub spending: &'a Spending,
    pub requested_by: &'a str,
    /// Where people would be asked.
    pub namespace: &'a str,
    pub cluster: &'a str,
    pub now: Timestamp,
}

/// A verdict for each step, in their order.
pub fn judge(asked: &Asked<'_>) -> Vec<Verdict> {
    let decision = gate(&gate::Input {
        steps: asked.steps,
        approval: asked.environment.spec.approval.as_ref(),
        guardrails: asked.environment.spec.guardrails.as_ref(),
        expires_at: None,
        evidence: &[],
        used_nonces: &BTreeSet::new(),
        ledger: &asked.spending.ledger,
        under_way: &asked.under_way,
        usage: asked.spending.usage,
        gpus: &asked.gpus,
        requested_by: asked.requested_by,
        cluster_uid: asked.cluster,
        namespace: asked.namespace,
        gate: "",
        opened_at: asked.now,
        now: asked.now,
    });
    decision.steps.into_iter().map(|judged| judged.verdict).collect()
}

/// The steps that may not be taken now, and what holds them.
pub fn held<'s>(steps: &'s [Step], verdicts: &[Verdict]) -> Vec<Held<'s>> {
    let held = steps.iter().zip(verdicts).filter_map(|(step, verdict)| {
        let (by, why) = match verdict {
            Verdict::Run => return None,
            Verdict::Refuse { reason } => (HeldBy::Refusal, reason.to_string()),
            Verdict::Wait { needs } => {
                let by = match verdict.waits_for_people() {
                    true => HeldBy::People,
                    false if needs.iter().any(|need| matches!(need, Need::Step { .. })) => HeldBy::Step,
                    false => HeldBy::Limit,
                };
                let needs: Vec<String> = needs.iter().map(ToString::to_string).collect();
                (by, format!("needs {}", needs.join("; ")))
            }
        };
        Some(Held { step, why, by })
    });
    held.collect()
}

/// The steps that wait for people.
pub fn waits_for_people<'h, 's>(held: &'h [Held<'s>]) -> impl Iterator<Item = &'s Step> + 'h {
    held.iter().filter(|held| held.by == HeldBy::People).map(|held| held.step)
}
