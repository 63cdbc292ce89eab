//! What differs from what was carried out last, since when, and whether anybody wants to hear of it.
//!
//! Drift is kept from one look to the next, so that it can say since when. What could not be read neither adds to it
//! nor clears it: not seeing a difference is not the same as seeing none.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use setpoint_api::machine::{DriftedField, MAX_DRIFT};
use setpoint_api::step::{FieldChange, Origin};

use crate::desired::Desired;
use crate::observation::{Config, Guest, Reading};

/// The field under which a drift of the run state is kept.
pub const RUN: &str = "run";
/// The field under which it is kept that a guest is gone as a whole.
pub const GUEST: &str = "guest";

/// A drifted field as a sentence.
#[derive(Debug, Clone, Copy)]
pub struct Told<'a>(pub &'a DriftedField);

impl fmt::Display for Told<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let DriftedField { field, desired, observed, since, muted } = self.0;
        let shown = |value: &Option<String>| value.clone().unwrap_or_else(|| "(absent)".to_owned());
        write!(f, "{field} is {}, not {}", shown(observed), shown(desired))?;
        write!(f, ", since {since}{}", if *muted { " (muted)" } else { "" })
    }
}

/// The drift of a guest after a look at it, sorted by field. It is since when a field differs, whatever its value was in
/// the meantime.
///
/// `differences` are all that the look showed; they are drift if `origin` says that reality changed and not the desire.
/// After a change of the desire, what drifted before and still differs goes on drifting; the rest is yet to be done.
pub fn track(
    previous: &[DriftedField],
    differences: &[FieldChange],
    origin: Origin,
    guest: &Guest,
    desired: &Desired,
    now: Timestamp,
) -> Vec<DriftedField> {
    let earlier: BTreeMap<&str, &DriftedField> = previous.iter().map(|drift| (drift.field.as_str(), drift)).collect();
    let seen = differences.iter().filter(|change| !is_unknown(guest, &change.field)).filter_map(|change| {
        let since = match earlier.get(change.field.as_str()) {
            Some(drift) => drift.since,
            None if origin == Origin::Drift => now,
            None => return None,
        };
        Some(DriftedField {
            field: change.field.clone(),
            desired: change.to.clone(),
            observed: change.from.clone(),
            since,
            muted: desired.mutes(&change.field),
        })
    });
    let unseen = earlier.values().filter(|drift| is_unknown(guest, &drift.field) && is_managed(desired, &drift.field));
    let kept = unseen.map(|drift| DriftedField { muted: desired.mutes(&drift.field), ..(*drift).clone() });
    let all: BTreeMap<String, DriftedField> = seen.chain(kept).map(|drift| (drift.field.clone(), drift)).collect();
    all.into_values().take(MAX_DRIFT).collect()
}

/// The drift of a guest that is gone behind our back. What of it differed before is gone with it.
pub fn vanished(previous: &[DriftedField], was: &str, now: Timestamp) -> DriftedField {
    let earlier = previous.iter().find(|drift| drift.field == GUEST);
    DriftedField {
        field: GUEST.to_owned(),
        desired: Some(was.to_owned()),
        observed: None,
        since: earlier.map_or(now, |drift| drift.since),
        muted: false,
    }
}

/// How much a guest drifts, in one line.
#[derive(Debug, Clone, Copy)]
pub struct Summary<'a>(pub &'a [DriftedField]);

impl Summary<'_> {
    /// Since when something that is not muted differs.
    pub fn since(&self) -> Option<Timestamp> {
        self.heard().map(|drift| drift.since).min()
    }

    fn heard(&self) -> impl Iterator<Item = &DriftedField> {
        self.0.iter().filter(|drift| !drift.muted)
    }
}

impl fmt::Display for Summary<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let muted = self.0.iter().filter(|drift| drift.muted).count();
        match self.since() {
            None => f.write_str("no drift")?,
            Some(since) => {
                let fields: Vec<&str> = self.heard().map(|drift| drift.field.as_str()).collect();
                write!(f, "drift: {} since {since}", fields.join(", "))?;
            }
        }
        if muted > 0 { write!(f, " ({muted} muted)") } else { Ok(()) }
    }
}

fn is_unknown(guest: &Guest, path: &str) -> bool {
    if path == RUN {
        return guest.run == Reading::Unknown;
    }
    match &guest.config {
        Config::Unreadable(_) => true,
        Config::Read { unknown, .. } => unknown.iter().any(|name| is_within(path, name)),
    }
}

/// Whether the desire still says anything of it: what is no longer managed cannot drift.
fn is_managed(desired: &Desired, path: &str) -> bool {
    match path {
        RUN => desired.run.is_some(),
        path => desired.fields.iter().any(|(name, _)| is_within(path, name)),
    }
}

/// Whether a path is a field, or a key of it.
fn is_within(path: &str, field: &str) -> bool {
    path.strip_prefix(field).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
