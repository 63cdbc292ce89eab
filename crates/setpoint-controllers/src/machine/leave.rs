//! Which steps of a Machine may be taken now.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::requester;
use setpoint_api::step::{Step, Target};
use setpoint_core::desired::Desired;
use setpoint_core::gate::{self, Gpus, Need, Verdict, gate, gpus_held, gpus_wanted};
use setpoint_core::machine::{Held, HeldBy};
use setpoint_core::observation::Guest;

use super::account::Spending;

/// What is asked leave for.
pub(super) struct Asked<'a> {
    pub(super) environment: &'a Environment,
    pub(super) machine: &'a Machine,
    pub(super) steps: &'a [Step],
    pub(super) desired: &'a Desired,
    pub(super) guest: Option<&'a Guest>,
    pub(super) spending: &'a Spending,
    pub(super) cluster: &'a str,
    pub(super) now: Timestamp,
}

/// A verdict for each step, in their order.
pub(super) fn judge(asked: &Asked<'_>) -> Vec<Verdict> {
    let Asked { environment, machine, steps, .. } = asked;
    let status = machine.status.as_ref();
    let under_way: BTreeSet<String> =
        status.iter().flat_map(|status| &status.intents).map(|intent| intent.id.clone()).collect();
    let decision = gate(&gate::Input {
        steps,
        approval: environment.spec.approval.as_ref(),
        guardrails: environment.spec.guardrails.as_ref(),
        expires_at: None,
        evidence: &[],
        used_nonces: &BTreeSet::new(),
        ledger: &asked.spending.ledger,
        under_way: &under_way,
        usage: asked.spending.usage,
        gpus: &gpus(asked),
        requested_by: requested_by(machine),
        cluster_uid: asked.cluster,
        namespace: machine.metadata.namespace.as_deref().unwrap_or_default(),
        gate: "",
        opened_at: asked.now,
        now: asked.now,
    });
    decision.steps.into_iter().map(|judged| judged.verdict).collect()
}

/// The steps that may not be taken now, and what holds them.
pub(super) fn held<'s>(steps: &'s [Step], verdicts: &[Verdict]) -> Vec<Held<'s>> {
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

/// Who asked for what a Machine says.
pub(super) fn requested_by(machine: &Machine) -> &str {
    let annotations = machine.metadata.annotations.as_ref();
    annotations.and_then(|all| all.get(requester::REQUESTED_BY)).map_or(requester::UNKNOWN, String::as_str)
}

fn gpus(asked: &Asked<'_>) -> BTreeMap<Target, Gpus> {
    let held = asked.guest.map_or(Some(0), |guest| gpus_held(&guest.config)).unwrap_or_default();
    let gpus = Gpus { held, wanted: gpus_wanted(&asked.desired.fields) };
    [(asked.desired.target.clone(), gpus)].into_iter().filter(|(_, gpus)| *gpus != Gpus::default()).collect()
}
