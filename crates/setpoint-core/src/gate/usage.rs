//! How much of an environment is used, by a look at all of it.

use setpoint_api::price::Price;

use super::Usage;
use crate::observation::{Config, Guest, Observation, Reading};
use crate::registry::Capabilities;
use crate::value::{Fields, Value};

/// The field that says how many GPUs a guest has.
const GPU_COUNT: &str = "gpu.count";
const GPU_TYPE: &str = "gpu.type";

impl Usage {
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
pub fn gpus_held(config: &Config) -> Option<u32> {
    match (config.field(GPU_COUNT), config.field(GPU_TYPE)) {
        (Reading::Unknown, _) | (Reading::Absent, Reading::Unknown) => None,
        (Reading::Known(count), _) => count_of(count),
        (Reading::Absent, Reading::Known(_)) => Some(1),
        (Reading::Absent, Reading::Absent) => Some(0),
    }
}

/// How many GPUs are wanted.
pub fn gpus_wanted(fields: &Fields) -> u32 {
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
