//! Guests that were released and still count against the limits, so that to create, release and create again makes no room.
//!
//! An entry is written before the call, so that a crash forgets nothing. As long as the guest carries our mark it counts as
//! ours, and the entry adds nothing.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use setpoint_api::environment::{MAX_RELEASED, ReleasedGuest};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Step, Target};

use crate::observation::{Guest, Observation};
use crate::registry::Capabilities;

/// How long after an entry was written its call may still be under way, at least.
const LATE_S: i64 = 120;

/// What is written down before a step releases a guest of a Machine by this call. None where nothing has to count: the step
/// releases nothing, or the guest was there before us and costs nothing.
pub fn released_guest(
    step: &Step,
    call: &str,
    machine: &Target,
    guest: &Guest,
    capabilities: &Capabilities,
    now: Timestamp,
) -> Option<ReleasedGuest> {
    let is_made_by_us = guest.mark.as_ref().is_some_and(|mark| mark.intent.is_some());
    let bills = guest.hourly_price.map_or(capabilities.bills, |price| price > Price::ZERO);
    (step.action == Action::Release && (is_made_by_us || bills)).then(|| ReleasedGuest {
        provider_id: guest.id.to_string(),
        namespace: machine.namespace.clone(),
        machine: machine.name.clone(),
        call: call.to_owned(),
        since: now,
        hourly_cost: guest.hourly_price,
    })
}

/// The list with an entry more, oldest first; none if it is full. A guest counts once, for who released it last.
pub fn record_released(mut released: Vec<ReleasedGuest>, entry: ReleasedGuest) -> Option<Vec<ReleasedGuest>> {
    released.retain(|other| other.provider_id != entry.provider_id);
    released.push(entry);
    (released.len() <= MAX_RELEASED).then_some(released)
}

/// The entries that still count after a look: not those that are written off, whose guest is gone, or that belong to an object
/// of ours again. What is shown shortly after an entry was written may be from before its call.
pub fn settle_released(
    released: &[ReleasedGuest],
    written_off: &str,
    look: &Observation,
    cluster: &str,
    settle_seconds: i64,
) -> Vec<ReleasedGuest> {
    let written_off: BTreeSet<&str> = written_off.split(',').map(str::trim).collect();
    let late = SignedDuration::from_secs(settle_seconds.max(LATE_S));
    let is_left = |entry: &&ReleasedGuest| {
        if !look.completeness.is_complete() || look.observed_at.duration_since(entry.since) < late {
            return true;
        }
        let guest = look.guests.iter().find(|guest| *guest.id == *entry.provider_id);
        guest.is_some_and(|guest| guest.mark.as_ref().is_none_or(|mark| *mark.cluster != *cluster))
    };
    let counts = released.iter().filter(|entry| !written_off.contains(entry.call.as_str()));
    counts.filter(is_left).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::observation::{Completeness, Mark};

    const NOW: Timestamp = Timestamp::constant(1_900_000_000, 0);

    fn entry(id: &str, call: &str, seconds_ago: i64) -> ReleasedGuest {
        ReleasedGuest {
            provider_id: id.to_owned(),
            namespace: "shop".to_owned(),
            machine: "web".to_owned(),
            call: call.to_owned(),
            since: NOW - SignedDuration::from_secs(seconds_ago),
            hourly_cost: None,
        }
    }

    #[test]
    fn what_was_released_counts_until_it_is_gone_or_written_off() {
        let complete = || Completeness::Complete;
        let free = |id: &str| Guest::new(id, None);
        let marked = |id: &str, cluster: &str| Guest::new(id, Some(Mark::new(cluster, "web", None)));
        let rows = [
            ("it is still there", 600, "", complete(), vec![free("7")], true),
            ("it is gone", 600, "", complete(), vec![free("8")], false),
            ("it is not shown, and not everything is", 600, "", Completeness::Partial("half".into()), vec![], true),
            ("it was released a moment ago", 60, "", complete(), vec![], true),
            ("it is ours again, or was never released", 600, "", complete(), vec![marked("7", "ours")], false),
            ("its release may still be under way", 60, "", complete(), vec![marked("7", "ours")], true),
            ("another control plane has it", 600, "", complete(), vec![marked("7", "theirs")], true),
            ("it is written off", 60, "x, call", complete(), vec![free("7")], false),
            ("another is written off", 600, "other,", complete(), vec![free("7")], true),
        ];
        for (name, seconds, written_off, completeness, guests, expected) in rows {
            let look = Observation { completeness, guests, observed_at: NOW };
            let left = settle_released(&[entry("7", "call", seconds)], written_off, &look, "ours", 30);
            assert_eq!(!left.is_empty(), expected, "{name}");
        }
        let slow = Observation { completeness: complete(), guests: vec![], observed_at: NOW };
        assert_eq!(settle_released(&[entry("7", "call", 600)], "", &slow, "ours", 900).len(), 1, "news take longer");
    }

    #[test]
    fn a_guest_is_listed_once_and_the_list_has_an_end() {
        let list = record_released(vec![entry("7", "a", 9), entry("8", "b", 8)], entry("7", "c", 0));
        assert_eq!(list, Some(vec![entry("8", "b", 8), entry("7", "c", 0)]));
        let full: Vec<ReleasedGuest> = (0..MAX_RELEASED).map(|number| entry(&number.to_string(), "x", 1)).collect();
        assert!(record_released(full.clone(), entry("new", "y", 0)).is_none());
        assert!(record_released(full, entry("5", "y", 0)).is_some(), "it is in the list already");
    }

    #[test]
    fn what_is_released_counts_if_we_made_it_or_it_bills() {
        let mut step: Step = serde_json::from_value(serde_json::json!({
            "id": "shop/web/release", "target": {"namespace": "shop", "name": "web", "kind": "Machine"},
            "action": "Release", "reason": "it goes", "origin": "Desired", "class": "Benign", "classReason": "free",
            "digest": "sha256:a",
        }))
        .expect("a step");
        let guest = |made_by, price: Option<i64>| Guest {
            hourly_price: price.map(Price::from_micros),
            ..Guest::new("7", Some(Mark::new("ours", "web", made_by)))
        };
        let rows = [
            ("made here, and free", guest(Some("call"), Some(0)), false, true),
            ("adopted, and free", guest(None, Some(0)), true, false),
            ("adopted, and it costs something", guest(None, Some(1)), false, true),
            ("adopted where everything is billed, and the price is not known", guest(None, None), true, true),
            ("adopted where nothing is billed", guest(None, None), false, false),
        ];
        for (name, guest, bills, expected) in rows {
            let capabilities = Capabilities { bills, ..rack() };
            let entry = released_guest(&step, "call", &step.target, &guest, &capabilities, NOW);
            assert_eq!(entry.is_some(), expected, "{name}");
        }
        step.action = Action::Delete;
        let capabilities = rack();
        let guest = guest(Some("call"), Some(1));
        assert_eq!(released_guest(&step, "call", &step.target, &guest, &capabilities, NOW), None, "it is deleted");
    }

    fn rack() -> Capabilities {
        Capabilities {
            deployer: "rack",
            fields: &[],
            creates: true,
            adopts: true,
            has_run_state: true,
            chooses_ids: false,
            creates_before_delete: true,
            update_restarts: false,
            bills: false,
            ephemeral_disks: true,
            settle_seconds: 0,
            running_words: &[],
            stopped_words: &[],
            passing_words: &[],
        }
    }
}
