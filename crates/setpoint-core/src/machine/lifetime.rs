//! How long a Machine may have a guest.

use jiff::{SignedDuration, Timestamp};
use setpoint_api::environment::Guardrails;
use setpoint_api::machine::Machine;

/// When the time of a Machine is over by the limits of its Environment: from then on it is planned for as if it were being
/// deleted, and stays without a guest.
pub fn expires_at(machine: &Machine, limits: Option<&Guardrails>) -> Option<Timestamp> {
    let lifetime = SignedDuration::from_secs(limits?.ttl_seconds?.into());
    let made_at = machine.metadata.creation_timestamp.as_ref()?.0;
    made_at.checked_add(lifetime).ok()
}
