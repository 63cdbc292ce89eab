//! How much of an environment is used, by a look at all of it.

use std::collections::BTreeMap;

use setpoint_api::environment::{Guardrails, ReleasedGuest};
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Step, Target};

use super::Gpus;
use super::budget::{added_cost, added_gpus, added_instances};
use super::ledger::is_limited;
use super::limits::Limits;
use crate::observation::{Config, Guest, Observation, Reading};
use crate::registry::Capabilities;
use crate::value::{Fields, Value};

/// The field that says how many GPUs a guest has.
const GPU_COUNT: &str = "gpu.count";
const GPU_TYPE: &str = "gpu.type";

/// What there is in an environment now. What is not known leaves no room.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Usage {
    pub all: Level,
    /// What the objects of each namespace have of it. One that is not here has nothing, if it is known what there is.
    pub namespaces: BTreeMap<String, Level>,
}

/// How much there is, as far as that is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Level {
    pub instances: Option<u32>,
    pub gpus: Option<u32>,
    pub hourly_cost: Option<Price>,
}

/// What steps add to what there is, at most. What they give back counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Added {
    pub all: Amount,
    /// What they add for each namespace.
    pub namespaces: BTreeMap<String, Amount>,
}

/// How much is added.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Amount {
    pub instances: u32,
    pub gpus: u32,
    pub hourly_cost: Price,
}

/// Which guests count, and for whom.
#[derive(Clone, Copy)]
pub struct Holders<'a> {
    /// This control plane, as marks name it.
    pub cluster: &'a str,
    pub capabilities: &'a Capabilities,
    /// Guests that were released and still count.
    pub released: &'a [ReleasedGuest],
    /// The namespace of the object with a uid, if there is one.
    pub namespace_of: &'a dyn Fn(&str) -> Option<String>,
}

impl std::fmt::Debug for Holders<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holders").field("released", &self.released).finish_non_exhaustive()
    }
}

impl Amount {
    pub fn and(self, more: Amount) -> Amount {
        Amount {
            instances: self.instances.saturating_add(more.instances),
            gpus: self.gpus.saturating_add(more.gpus),
            hourly_cost: self.hourly_cost + more.hourly_cost,
        }
    }

    fn is_limited(&self, limits: &Limits) -> bool {
        (limits.max_instances.is_some() && self.instances > 0)
            || (limits.max_gpus.is_some() && self.gpus > 0)
            || (limits.max_hourly_cost.is_some() && self.hourly_cost > Price::ZERO)
    }
}

impl Added {
    /// By steps, given the GPUs of every object that holds or wants any.
    pub fn by<'s>(steps: impl IntoIterator<Item = &'s Step>, gpus: &BTreeMap<Target, Gpus>) -> Added {
        steps.into_iter().fold(Added::default(), |sum, step| {
            let gpus = gpus.get(&step.target).map(|gpus| added_gpus(step, *gpus)).unwrap_or_default();
            let cost = added_cost(step).unwrap_or_default().max(Price::ZERO);
            let amount = Amount { instances: added_instances(step), gpus, hourly_cost: cost };
            sum.and(&Added::to(&step.target.namespace, amount))
        })
    }

    /// An amount for a namespace.
    pub fn to(namespace: &str, amount: Amount) -> Added {
        let is_counted = amount != Amount::default() && !namespace.is_empty();
        let namespaces = is_counted.then(|| (namespace.to_owned(), amount)).into_iter().collect();
        Added { all: amount, namespaces }
    }

    pub fn and(mut self, more: &Added) -> Added {
        self.all = self.all.and(more.all);
        for (namespace, amount) in &more.namespaces {
            let sum = self.namespaces.entry(namespace.clone()).or_default();
            *sum = sum.and(*amount);
        }
        self
    }

    /// Whether a limit on what there is at once counts it, so that how much there is has to be known.
    pub fn is_limited(&self, limits: &Guardrails) -> bool {
        let of_namespace = |(namespace, amount): (&String, &Amount)| {
            limits.of_namespace(namespace).is_some_and(|limits| amount.is_limited(&limits.into()))
        };
        self.all.is_limited(&limits.into()) || self.namespaces.iter().any(of_namespace)
    }
}

/// Whether a step has to do with a limit: it uses it up, or gives something back that others may wait for. What is released
/// always does: it still counts, so it is written down.
pub fn bears_on_limits(step: &Step, gpus: &BTreeMap<Target, Gpus>, limits: &Guardrails) -> bool {
    let comes_or_goes =
        matches!(step.action, Action::Create | Action::Replace | Action::Adopt | Action::Delete | Action::Release);
    let bears = |limits: Limits| {
        (limits.max_instances.is_some() && comes_or_goes)
            || (limits.max_gpus.is_some() && (comes_or_goes || gpus.contains_key(&step.target)))
            || (limits.max_hourly_cost.is_some() && added_cost(step) != Some(Price::ZERO))
    };
    step.action == Action::Release
        || is_limited(step, limits)
        || Limits::concerning(limits, &step.target.namespace).any(bears)
}

impl Level {
    const NOTHING: Level = Level { instances: Some(0), gpus: Some(0), hourly_cost: Some(Price::ZERO) };

    /// The same with something more.
    fn plus(self, added: Amount) -> Level {
        Level {
            instances: self.instances.map(|now| now.saturating_add(added.instances)),
            gpus: self.gpus.map(|now| now.saturating_add(added.gpus)),
            hourly_cost: self.hourly_cost.map(|now| now + added.hourly_cost),
        }
    }

    /// The same with a guest more, of which not everything may be known.
    fn plus_guest(self, gpus: Option<u32>, hourly_cost: Option<Price>) -> Level {
        Level {
            instances: self.instances.and_then(|now| now.checked_add(1)),
            gpus: self.gpus.zip(gpus).and_then(|(now, more)| now.checked_add(more)),
            hourly_cost: self.hourly_cost.zip(hourly_cost).map(|(now, more)| now + more),
        }
    }

    /// The larger of two, as far as both are known.
    fn or_more(self, other: Level) -> Level {
        Level {
            instances: self.instances.zip(other.instances).map(|(one, other)| one.max(other)),
            gpus: self.gpus.zip(other.gpus).map(|(one, other)| one.max(other)),
            hourly_cost: self.hourly_cost.zip(other.hourly_cost).map(|(one, other)| one.max(other)),
        }
    }

    /// Whether so much more is within the limits on what there is at once, as far as they count it.
    fn has_room_for(self, added: Amount, limits: &Limits) -> bool {
        let after = self.plus(added);
        let counts = |more: u32, limit: Option<u32>, after: Option<u32>| {
            more == 0 || limit.is_none_or(|limit| after.is_some_and(|after| after <= limit))
        };
        counts(added.instances, limits.max_instances, after.instances)
            && counts(added.gpus, limits.max_gpus, after.gpus)
            && (added.hourly_cost == Price::ZERO
                || limits.max_hourly_cost.is_none_or(|limit| after.hourly_cost.is_some_and(|after| after <= limit)))
    }
}

impl From<Level> for Usage {
    /// Of what belongs to no namespace.
    fn from(all: Level) -> Usage {
        Usage { all, namespaces: BTreeMap::new() }
    }
}

impl Usage {
    /// What the objects of a namespace have.
    pub fn of_namespace(&self, namespace: &str) -> Level {
        let unlisted = if self.all.instances.is_some() { Level::NOTHING } else { Level::default() };
        self.namespaces.get(namespace).copied().unwrap_or(unlisted)
    }

    /// The same with something more.
    pub fn plus(mut self, added: &Added) -> Usage {
        for (namespace, amount) in &added.namespaces {
            let level = self.of_namespace(namespace).plus(*amount);
            self.namespaces.insert(namespace.clone(), level);
        }
        self.all = self.all.plus(added.all);
        self
    }

    /// The larger of two, as far as both are known.
    pub fn or_more(&self, other: &Usage) -> Usage {
        let names = self.namespaces.keys().chain(other.namespaces.keys());
        let larger = |name: &String| (name.clone(), self.of_namespace(name).or_more(other.of_namespace(name)));
        Usage { all: self.all.or_more(other.all), namespaces: names.map(larger).collect() }
    }

    /// Whether so much more is within the limits on what there is at once, as far as they count it.
    pub fn has_room_for(&self, added: &Added, limits: &Guardrails) -> bool {
        let has_room = |(namespace, amount): (&String, &Amount)| {
            let of_namespace = limits.of_namespace(namespace);
            of_namespace.is_none_or(|limits| self.of_namespace(namespace).has_room_for(*amount, &limits.into()))
        };
        self.all.has_room_for(added.all, &limits.into()) && added.namespaces.iter().all(has_room)
    }

    /// What there is of ours, and of what was released and still counts. What a look does not show, or what could not be read,
    /// is not known.
    pub fn of(observation: &Observation, holders: &Holders<'_>) -> Usage {
        if !observation.completeness.is_complete() {
            return Usage::default();
        }
        let released: BTreeMap<&str, &ReleasedGuest> =
            holders.released.iter().map(|released| (released.provider_id.as_str(), released)).collect();
        let mut usage = Usage::from(Level::NOTHING);
        for guest in &observation.guests {
            let mark = guest.mark.as_ref().filter(|mark| *mark.cluster == *holders.cluster);
            let released = released.get(&*guest.id).filter(|_| mark.is_none());
            let namespace = match (mark, released) {
                (Some(mark), _) => (holders.namespace_of)(&mark.owner_uid),
                (None, Some(released)) => Some(released.namespace.clone()),
                (None, None) => continue,
            };
            let price = guest.hourly_price.or_else(|| released.and_then(|released| released.hourly_cost));
            usage.count(namespace, guest, price.or((!holders.capabilities.bills).then_some(Price::ZERO)));
        }
        usage
    }

    fn count(&mut self, namespace: Option<String>, guest: &Guest, hourly_cost: Option<Price>) {
        let gpus = gpus_held(&guest.config);
        if let Some(namespace) = namespace {
            let level = self.namespaces.entry(namespace).or_insert(Level::NOTHING);
            *level = level.plus_guest(gpus, hourly_cost);
        }
        self.all = self.all.plus_guest(gpus, hourly_cost);
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
        let dollars = |dollars: i64| Price::from_micros(dollars * 1_000_000);
        let usage =
            |instances, cost: Option<i64>| Usage::from(Level { instances, gpus: None, hourly_cost: cost.map(dollars) });
        let gpu = Added::to("shop", Amount { gpus: 1, ..Amount::default() });
        let more = || Added::by([&step("Create", Some("1"))], &BTreeMap::new());
        let rows = [
            ("there is", usage(Some(2), Some(1)), more(), true),
            ("there are too many", usage(Some(3), Some(0)), more(), false),
            ("it would cost too much", usage(Some(0), Some(2)), more(), false),
            ("how many there are is not known", usage(None, Some(0)), more(), false),
            ("what it costs is not known", usage(Some(0), None), more(), false),
            ("nothing is asked for", usage(None, None), Added::default(), true),
            ("what is not limited", usage(Some(3), Some(2)), gpu, true),
        ];
        for (name, usage, added, expected) in rows {
            assert_eq!(usage.has_room_for(&added, &limits), expected, "{name}");
        }
        assert_eq!(usage(Some(3), Some(1)).or_more(&usage(Some(2), Some(4))), usage(Some(3), Some(4)));
        assert_eq!(usage(Some(3), Some(1)).or_more(&usage(None, Some(4))), usage(None, Some(4)), "what is not known");
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
