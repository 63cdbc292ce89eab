//! Whether a look at everything shows something of a Machine that its status does not say.

use std::collections::BTreeMap;

use setpoint_api::machine::Machine;

use super::sight::observed;
use crate::observation::{Completeness, Guest, Reading};
use crate::registry::{Capabilities, Field};
use crate::value::SENSITIVE;

/// Whether a Machine has to be looked at, by the guests that carry its mark, or the one that it insists on and that nobody
/// has. `before` finds its guest in the look before this one: what is secret is not in the status, and can only be compared
/// with that.
pub fn is_news<'g>(
    machine: &Machine,
    guests: &[&Guest],
    before: impl FnOnce() -> Option<&'g Guest>,
    completeness: &Completeness,
    capabilities: &Capabilities,
) -> bool {
    let Some(status) = &machine.status else { return true };
    let recorded = status.provider_id.as_deref();
    let guest = match guests {
        [] => return completeness.is_complete() && (status.run.is_some() || !status.observed.is_empty()),
        [guest] => guest,
        // One of them is too many.
        _ => return true,
    };
    // Only what is ours is on record; what was and is not any more has lost our mark.
    let expected = guest.mark.as_ref().map(|_| &*guest.id);
    if recorded != expected || status.hourly_cost != guest.hourly_price {
        return true;
    }
    let is_moved = matches!(&guest.run, Reading::Known(word) if status.run.as_deref() != Some(&**word));
    is_moved || is_configured_otherwise(&status.observed, guest, before, capabilities)
}

fn is_configured_otherwise<'g>(
    told: &BTreeMap<String, String>,
    guest: &Guest,
    before: impl FnOnce() -> Option<&'g Guest>,
    capabilities: &Capabilities,
) -> bool {
    let is_hidden = |_: &Field, path: &str| told.get(path).is_some_and(|text| text == SENSITIVE);
    let Some(shown) = observed(&guest.config, capabilities, is_hidden) else { return false };
    if shown != *told {
        return true;
    }
    let hides = shown.values().any(|text| text == SENSITIVE);
    hides && before().is_none_or(|before| before.config != guest.config)
}
