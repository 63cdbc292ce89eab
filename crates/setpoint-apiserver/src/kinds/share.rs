//! Shares of a number of pods: so many, or a percentage of all.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::pod_spec::not_negative;

pub(super) fn validate(share: Node<'_, '_>, errors: &mut Errors) {
    if share.value.is_string() {
        for message in names::percent(share.str()) {
            errors.invalid(&share.path, share.str(), &message);
        }
    } else {
        not_negative(share.i64().unwrap_or(0), &share.path, errors);
    }
}

/// Checks that a percentage is not more than there can be.
pub(super) fn validate_not_more_than_all(share: Node<'_, '_>, errors: &mut Errors) {
    if names::percent(share.str()).is_empty() && amount(share) > 100 {
        errors.invalid(&share.path, share.value, "must not be greater than 100%");
    }
}

/// The number, of pods or of percents.
pub(super) fn amount(share: Node<'_, '_>) -> i64 {
    let percent = share.str().strip_suffix('%').unwrap_or(share.str());
    share.i64().unwrap_or_else(|| percent.parse().unwrap_or(0))
}
