//! What a decision says as the status of its Gate.

use std::collections::BTreeSet;

use setpoint_api::planspec::gate::{
    GateOutcome, GatePhase, GateResolution, GateStatus, ReviewAction, ReviewActionType,
};
use setpoint_api::review;

use super::{Decision, Evidence, Outcome};

/// The status of the gate that a decision was made for. Conditions and generations are the caller's to set: they depend
/// on the status before.
///
/// A gate is about people: it is approved as soon as nobody is waited for, whether or not a budget holds a step back. It
/// is rejected once a step is, and nobody is waited for to decide on another.
pub fn gate_status(evidence: &[Evidence<'_>], decision: &Decision) -> GateStatus {
    let phase = phase(decision);
    let mut evidence: Vec<&Evidence<'_>> = evidence.iter().collect();
    evidence.sort_by(|one, other| one.order().cmp(&other.order()));
    GateStatus {
        phase: Some(phase),
        review_history: evidence.iter().map(|evidence| action(evidence)).collect(),
        resolution: resolution(phase, decision, &evidence),
        ..GateStatus::default()
    }
}

fn phase(decision: &Decision) -> GatePhase {
    if decision.steps.is_empty() {
        GatePhase::Pending
    } else if decision.waits_for_people() {
        GatePhase::Waiting
    } else if decision.steps.iter().any(|judged| judged.verdict.is_rejected()) {
        GatePhase::Rejected
    } else {
        GatePhase::Approved
    }
}

fn action(evidence: &Evidence<'_>) -> ReviewAction {
    let spec = &evidence.review.spec;
    ReviewAction {
        reviewer: spec.reviewer.clone(),
        action: match spec.decision {
            review::Decision::Approve => ReviewActionType::Approve,
            review::Decision::Reject => ReviewActionType::Reject,
            review::Decision::Comment => ReviewActionType::Comment,
        },
        timestamp: evidence.created_at,
        comment: spec.comment.clone(),
        target_generation: None,
    }
}

/// Who decided, and when the last of them did; nothing where nobody had to.
fn resolution(phase: GatePhase, decision: &Decision, evidence: &[&Evidence<'_>]) -> Option<GateResolution> {
    let (outcome, verdict) = match phase {
        GatePhase::Approved => (GateOutcome::Approved, review::Decision::Approve),
        GatePhase::Rejected => (GateOutcome::Rejected, review::Decision::Reject),
        GatePhase::Pending | GatePhase::Waiting => return None,
    };
    let counted = decision.reviews.iter().filter(|reviewed| matches!(reviewed.outcome, Outcome::Counted { .. }));
    let counted: BTreeSet<&str> = counted.map(|reviewed| reviewed.review.as_str()).collect();
    let deciding = evidence.iter().filter(|evidence| evidence.review.spec.decision == verdict);
    let deciding: Vec<_> = deciding.filter(|evidence| counted.contains(evidence.name())).collect();
    let last = deciding.last()?;
    let actors: BTreeSet<&str> = deciding.iter().map(|evidence| evidence.review.spec.reviewer.as_str()).collect();
    Some(GateResolution {
        outcome,
        actors: actors.into_iter().map(str::to_owned).collect(),
        timestamp: last.created_at,
        comment: last.review.spec.comment.clone(),
    })
}
