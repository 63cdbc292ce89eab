//! How much of an environment is used, by a look at all of it.

use std::collections::BTreeMap;

use setpoint_api::environment::Guardrails;
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Step, Target};

use super::budget::{added_cost, added_gpus, added_instances};
use super::ledger::is_limited;
use super::{Gpus, Usage};
use crate::observation::{Config, Guest, Observation, Reading};
use crate::registry::Capabilities;
use crate::value::{Fields, Value};

/// The field that says how many GPUs a guest has.
const GPU_COUNT: &str = "gpu.count";
const GPU_TYPE: &str = "gpu.type";

/// What steps add to what there is, at most. What they give back counts for nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Added {
    pub instances: u32,
    pub gpus: u32,
    pub hourly_cost: Price,
}

impl Added {
    /// By steps, given the GPUs of every object that holds or wants any.
    pub fn by<'s>(steps: impl IntoIterator<Item = &'s Step>, gpus: &BTreeMap<Target, Gpus>) -> Added {
        steps.into_iter().fold(Added::default(), |sum, step| {
            let gpus = gpus.get(&step.target).map(|gpus| added_gpus(step, *gpus)).unwrap_or_default();
            let cost = added_cost(step).unwrap_or_default().max(Price::ZERO);
            sum.and(Added { instances: added_instances(step), gpus, hourly_cost: cost })
        })
    }

    pub fn and(self, more: Added) -> Added {
        Added {
            instances: self.instances.saturating_add(more.instances),
            gpus: self.gpus.saturating_add(more.gpus),
            hourly_cost: self.hourly_cost + more.hourly_cost,
        }
    }

    /// Whether a limit on what there is at once counts it, so that how much there is has to be known.
    pub fn is_limited(&self, limits: &Guardrails) -> bool {
        (limits.max_instances.is_some() && self.instances > 0)
            || (limits.max_gpus.is_some() && self.gpus > 0)
            || (limits.max_hourly_cost.is_some() && self.hourly_cost > Price::ZERO)
    }
}

/// Whether a step has to do with a limit: it uses it up, or gives something back that others may wait for.
pub fn bears_on_limits(step: &Step, gpus: &BTreeMap<Target, Gpus>, limits: &Guardrails) -> bool {
    let comes_or_goes =
        matches!(step.action, Action::Create | Action::Replace | Action::Adopt | Action::Delete | Action::Release);
    is_limited(step, limits)
        || (limits.max_instances.is_some() && comes_or_goes)
        || (limits.max_gpus.is_some() && (comes_or_goes || gpus.contains_key(&step.target)))
        || (limits.max_hourly_cost.is_some() && added_cost(step) != Some(Price::ZERO))
}

impl Usage {
    /// The same with something more.
    pub fn plus(self, added: Added) -> Usage {
        Usage {
            instances: self.instances.map(|now| now.saturating_add(added.instances)),
            gpus: self.gpus.map(|now| now.saturating_add(added.gpus)),
            hourly_cost: self.hourly_cost.map(|now| now + added.hourly_cost),
        }
    }

    /// The larger of two, as far as both are known.
    pub fn or_more(self, other: Usage) -> Usage {
        Usage {
            instances: self.instances.zip(other.instances).map(|(one, other)| one.max(other)),
            gpus: self.gpus.zip(other.gpus).map(|(one, other)| one.max(other)),
            hourly_cost: self.hourly_cost.zip(other.hourly_cost).map(|(one, other)| one.max(other)),
        }
    }

    /// Whether so much more is within the limits on what there is at once, as far as they count it.
    pub fn has_room_for(self, added: Added, limits: &Guardrails) -> bool {
        let after = self.plus(added);
        let counts = |more: u32, limit: Option<u32>, after: Option<u32>| {
            more == 0 || limit.is_none_or(|limit| after.is_some_and(|after| after <= limit))
        };
        counts(added.instances, limits.max_instances, after.instances)
            && counts(added.gpus, limits.max_gpus, after.gpus)
            && (added.hourly_cost == Price::ZERO
                || limits.max_hourly_cost.is_none_or(|limit| after.hourly_cost.is_some_and(|after| after <= limit)))
    }

    /// What there is of ours. What a look does not show, or what could not be read, is not known.
    pub fn of(observation: &Observation, cluster: &str, capabilities: &Capabilities) -> Usage {
        if !observation.completeness.is_complete() {
            return Usage::default();
        }
        let is_ours = |guest: &&Guest| guest.mark.as_ref().is_some_and(|mark| *mark.cluster == *cluster);
        let ours: Vec<&Guest> = observation.guests.iter().filter(is_ours).collect();
        let price = |guest: &&Guest| guest.hourly_price.or((!capabilities.bills).then_some(Price::ZERO));
        Usage {
            instances: u32::try_from(ours.len()).ok(),
            gpus: ours.iter().map(|guest| gpus_held(&guest.config)).try_fold(0_u32, |sum, gpus| sum.checked_add(gpus?)),
            hourly_cost: ours.iter().map(price).sum(),
        }
    }
}

/// How many GPUs a guest holds; none where that could not be read.
pub(crate) fn gpus_held(config: &Config) -> Option<u32> {
    match (config.field(GPU_COUNT), config.field(GPU_TYPE)) {
        (Reading::Unknown, _) | (Reading::Absent, Reading::Unknown) => None,
        (Reading::Known(count), _) => count_of(count),
        (Reading::Absent, Reading::Known(_)) => Some(1),
        (Reading::Absent, Reading::Absent) => Some(0),
    }
}

/// How many GPUs are wanted.
pub(crate) fn gpus_wanted(fields: &Fields) -> u32 {
    match (fields.get(GPU_COUNT), fields.get(GPU_TYPE)) {
        (Some(count), _) => count_of(count).unwrap_or(u32::MAX),
        (None, Some(_)) => 1,
        (None, None) => 0,
    }
}

fn count_of(value: &Value) -> Option<u32> {
    if let Value::Integer(count) = value { u32::try_from(*count).ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(action: &str, delta: Option<&str>) -> Step {
        serde_json::from_value(serde_json::json!({
            "id": "shop/web/step", "target": {"namespace": "shop", "name": "web", "kind": "Machine"}, "action": action,
            "reason": "new", "origin": "Desired", "class": "Benign", "classReason": "nothing can be lost",
            "hourlyCostDelta": delta, "digest": "sha256:a",
        }))
        .expect("a step")
    }

    fn limits(limits: serde_json::Value) -> Guardrails {
        serde_json::from_value(limits).expect("guardrails")
    }

    #[test]
    fn a_step_bears_on_the_limits_that_count_what_it_does() {
        let gpus: BTreeMap<Target, Gpus> = [(step("Create", None).target, Gpus { held: 0, wanted: 2 })].into();
        let none = BTreeMap::new();
        let at_once = || limits(serde_json::json!({"maxInstances": 5, "maxHourlyCost": "9"}));
        let hourly = || limits(serde_json::json!({"maxDestroysPerHour": 1, "maxAddedCostPerHour": "1"}));
        let of_gpus = || limits(serde_json::json!({"maxGpus": 4}));
        // Whether it has to do with a limit, and whether how much there is has to be known.
        type Row<'a> = (&'a str, Step, &'a BTreeMap<Target, Gpus>, Guardrails, (bool, bool));
        let rows: [Row<'_>; 12] = [
            ("nothing is limited", step("Create", Some("1")), &none, limits(serde_json::json!({})), (false, false)),
            ("a guest more", step("Create", Some("0")), &none, at_once(), (true, true)),
            ("a guest less", step("Delete", Some("-1")), &none, at_once(), (true, false)),
            ("a change that costs nothing", step("Update", Some("0")), &none, at_once(), (false, false)),
            ("a change that costs more", step("Update", Some("1")), &none, at_once(), (true, true)),
            ("a change that costs less", step("Update", Some("-1")), &none, at_once(), (true, false)),
            ("a stop", step("Stop", Some("-1")), &none, at_once(), (true, false)),
            ("a cost of this hour", step("Update", Some("1")), &none, hourly(), (true, false)),
            ("no cost of this hour", step("Create", Some("0")), &none, hourly(), (false, false)),
            ("some GPUs more", step("Update", Some("0")), &gpus, of_gpus(), (true, true)),
            ("no GPUs", step("Update", Some("0")), &none, of_gpus(), (false, false)),
            ("what goes may have had GPUs", step("Delete", None), &none, of_gpus(), (true, false)),
        ];
        for (name, step, gpus, limits, expected) in rows {
            let is_limited = Added::by([&step], gpus).is_limited(&limits);
            assert_eq!((bears_on_limits(&step, gpus, &limits), is_limited), expected, "{name}");
        }
    }

    #[test]
    fn there_is_room_as_far_as_limits_count() {
        let limits = limits(serde_json::json!({"maxInstances": 3, "maxHourlyCost": "2"}));
        let usage = |instances, cost: Option<i64>| Usage {
            instances,
            gpus: None,
            hourly_cost: cost.map(|dollars| Price::from_micros(dollars * 1_000_000)),
        };
        let more = Added::by([&step("Create", Some("1"))], &BTreeMap::new());
        let rows = [
            ("there is", usage(Some(2), Some(1)), more, true),
            ("there are too many", usage(Some(3), Some(0)), more, false),
            ("it would cost too much", usage(Some(0), Some(2)), more, false),
            ("how many there are is not known", usage(None, Some(0)), more, false),
            ("what it costs is not known", usage(Some(0), None), more, false),
            ("nothing is asked for", usage(None, None), Added::default(), true),
            ("what is not limited", usage(Some(3), Some(2)), Added { gpus: 1, ..Added::default() }, true),
        ];
        for (name, usage, added, expected) in rows {
            assert_eq!(usage.has_room_for(added, &limits), expected, "{name}");
        }
        assert_eq!(usage(Some(3), Some(1)).or_more(usage(Some(2), Some(4))), usage(Some(3), Some(4)));
        assert_eq!(usage(Some(3), Some(1)).or_more(usage(None, Some(4))), usage(None, Some(4)), "what is not known");
    }

    #[test]
    fn gpus_are_counted_as_far_as_they_can_be_read() {
        let read = |entries: &[(&'static str, Value)]| Config::known(entries.iter().cloned().collect());
        let unknown = Config::Read { known: Fields::default(), pending: Fields::default(), unknown: vec![GPU_COUNT] };
        let rows = [
            ("none", read(&[]), Some(0)),
            ("a type alone is one", read(&[(GPU_TYPE, "A100".into())]), Some(1)),
            ("a number", read(&[(GPU_COUNT, Value::Integer(8))]), Some(8)),
            ("what could not be read", unknown, None),
            ("nothing could be read", Config::Unreadable("locked".into()), None),
        ];
        for (name, config, expected) in rows {
            assert_eq!(gpus_held(&config), expected, "{name}");
        }
    }
}
