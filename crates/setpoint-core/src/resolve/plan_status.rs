//! What a Plan's status says of the plan itself, whichever goal it is for.

use jiff::Timestamp;
use setpoint_api::condition::ConditionStatus;
use setpoint_api::planspec::{PlanPhase, PlanStatus};

use super::status::condition;
use crate::conditions;

const VALID: &str = "Valid";

/// The plan's new status, or none where it would say the same. `error` is what [`first_error`](super::first_error) found.
pub fn plan_status(
    current: Option<&PlanStatus>,
    generation: Option<i64>,
    node_count: usize,
    error: Option<&str>,
    now: Timestamp,
) -> Option<PlanStatus> {
    let mut status = current.cloned().unwrap_or_default();
    let (phase, holds, reason, message) = match error {
        None => (PlanPhase::Ready, ConditionStatus::True, "Valid", "the plan can be carried out"),
        Some(error) => (PlanPhase::Invalid, ConditionStatus::False, "Invalid", error),
    };
    status.phase = Some(phase);
    status.node_count = i64::try_from(node_count).ok();
    status.observed_generation = generation;
    conditions::set(&mut status.conditions, condition(VALID, holds, reason, message.to_owned(), generation), now);
    (Some(&status) != current).then_some(status)
}
