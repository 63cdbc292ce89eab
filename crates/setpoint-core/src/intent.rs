//! What became of a call whose answer was lost.

use setpoint_api::step::Action;

use crate::desired::Desired;
use crate::plan::Input;

/// The first call on record whose outcome is still not known, and why it is not.
pub fn unsettled(_desired: &Desired, _input: &Input<'_>) -> Option<(Action, String)> {
    None
}
