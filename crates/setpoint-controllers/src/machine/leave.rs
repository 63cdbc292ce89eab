//! Which steps of a Machine may be taken now.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{DoneStep, Machine};
use setpoint_api::requester;
use setpoint_api::step::{Step, Target};
use setpoint_core::authority::{self, Authorized};
use setpoint_core::desired::Desired;
use setpoint_core::gate::{Gpus, Need, Verdict, gpus_held, gpus_wanted};
use setpoint_core::machine::{Held, HeldBy};
use setpoint_core::observation::Guest;

use super::account::Spending;
use crate::change_set::Case;

/// What is asked leave for.
pub(super) struct Asked<'a> {
    pub(super) environment: &'a Environment,
    pub(super) machine: &'a Machine,
    pub(super) steps: &'a [Step],
    pub(super) desired: &'a Desired,
    pub(super) guest: Option<&'a Guest>,
    pub(super) spending: &'a Spending,
    /// What people said of steps like these.
    pub(super) cases: &'a [Case],
    /// What was done for the Machine.
    pub(super) done: &'a [DoneStep],
    pub(super) cluster: &'a str,
    pub(super) now: Timestamp,
}

/// What becomes of each step, in their order.
pub(super) fn judge(asked: &Asked<'_>) -> Vec<Authorized> {
    let Asked { environment, machine, steps, .. } = asked;
    let status = machine.status.as_ref();
    let under_way: BTreeSet<String> =
        status.iter().flat_map(|status| &status.intents).map(|intent| intent.id.clone()).collect();
    let sets: Vec<authority::Set<'_>> = asked.cases.iter().filter_map(Case::as_set).collect();
    authority::authorize(&authority::Input {
        steps,
        owner: machine.metadata.uid.as_deref().unwrap_or_default(),
        requested_by: requested_by(machine),
        done: asked.done,
        sets: &sets,
        approval: environment.spec.approval.as_ref(),
        guardrails: environment.spec.guardrails.as_ref(),
        expires_at: None,
        ledger: &asked.spending.ledger,
        under_way: &under_way,
        usage: asked.spending.usage,
        gpus: &gpus(asked),
        cluster_uid: asked.cluster,
        now: asked.now,
    })
}

/// Whether a change set that outlives the Machine has yet to record what was done for it by its leave.
pub(super) fn is_remembered_here_alone(cases: &[Case], done: &[DoneStep]) -> bool {
    let sets = cases.iter().filter_map(Case::as_set).filter(|set| set.owner.is_none());
    sets.into_iter().any(|set| authority::is_unrecorded(&set, done))
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
