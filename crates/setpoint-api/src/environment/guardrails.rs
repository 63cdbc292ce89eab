//! Limits that hold whatever is desired and whoever approves.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_LEDGER;
use crate::field::{Errors, Path};
use crate::price::Price;

/// Limits of an environment. One that is not set does not limit; zero allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Guardrails {
    /// What everything together may cost per hour, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hourly_cost: Option<Price>,
    /// By how much the cost may rise within an hour, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_added_cost_per_hour: Option<Price>,
    /// How many GPUs may be held at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<u32>,
    /// How many instances there may be at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_instances: Option<u32>,
    /// How many destructive steps may be taken within an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub max_destroys_per_hour: Option<u32>,
    /// How many basis points of traffic may be moved within an hour; 10 000 is all of an App's, once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_moved_bps_per_hour: Option<u32>,
    /// How long a Machine may have a guest, counted from when the Machine was made. Then the guest goes as the Machine's
    /// deletionPolicy says, if the gate lets it, and none is made in its place.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 60))]
    pub ttl_seconds: Option<u32>,
    /// Whether a Machine may get another type of GPU from its fallback list when its own cannot be had.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub allow_fallback: bool,
}

impl Guardrails {
    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let prices = [("maxHourlyCost", self.max_hourly_cost), ("maxAddedCostPerHour", self.max_added_cost_per_hour)];
        for (name, price) in prices {
            if let Some(price) = price.filter(|price| *price < Price::ZERO) {
                errors.invalid(&path.field(name), price, "must not be negative");
            }
        }
        // The ledger is what counts them: a limit beyond it could not be kept.
        if let Some(limit) = self.max_destroys_per_hour.filter(|limit| *limit as usize > MAX_LEDGER) {
            errors.invalid(&path.field("maxDestroysPerHour"), limit, "must be less than or equal to 1000");
        }
        if let Some(seconds) = self.ttl_seconds.filter(|seconds| *seconds < 60) {
            errors.invalid(&path.field("ttlSeconds"), seconds, "must be greater than or equal to 60");
        }
        if self.allow_fallback {
            errors.forbidden(&path.field("allowFallback"), "no deployer offers another type of GPU yet");
        }
    }
}
