//! Limits that hold whatever is desired and whoever approves.

use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::MAX_LEDGER;
use crate::field::{Errors, Path};
use crate::names;
use crate::price::Price;
use crate::rules::{self, Seen};

/// The name in [`NamespaceLimits`] that stands for every namespace without an entry of its own.
pub const EVERY_NAMESPACE: &str = "*";
const MAX_NAMESPACES: usize = 500;

/// Limits of an environment. One that is not set does not limit; zero allows nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
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
    /// Limits of single namespaces, beside those of the whole environment: both hold.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 500))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["namespace".into()]))]
    pub namespaces: Vec<NamespaceLimits>,
}

/// Limits of what the objects of one namespace have in an environment. One that is not set does not limit; zero allows
/// nothing.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct NamespaceLimits {
    /// The name of the namespace, or `*` for each namespace that has no entry of its own.
    #[schemars(length(min = 1, max = 63), regex(pattern = r"^(\*|[a-z0-9]([-a-z0-9]*[a-z0-9])?)$"))]
    pub namespace: String,
    /// What everything of the namespace together may cost per hour, in dollars.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_hourly_cost: Option<Price>,
    /// By how much its cost may rise within an hour, in dollars per hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_added_cost_per_hour: Option<Price>,
    /// How many GPUs it may hold at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_gpus: Option<u32>,
    /// How many instances it may have at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_instances: Option<u32>,
    /// How many destructive steps may be taken for it within an hour.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(max = 1_000))]
    pub max_destroys_per_hour: Option<u32>,
}

impl Guardrails {
    /// The limits of a namespace: those of its own entry, or else of the entry `*`. What belongs to no namespace has none.
    pub fn of_namespace(&self, namespace: &str) -> Option<&NamespaceLimits> {
        let named = |name: &str| self.namespaces.iter().find(|limits| limits.namespace == name);
        named(namespace).or_else(|| named(EVERY_NAMESPACE)).filter(|_| !namespace.is_empty())
    }

    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        validate_prices(path, self.max_hourly_cost, self.max_added_cost_per_hour, errors);
        validate_destroys(path, self.max_destroys_per_hour, errors);
        if let Some(seconds) = self.ttl_seconds.filter(|seconds| *seconds < 60) {
            errors.invalid(&path.field("ttlSeconds"), seconds, "must be greater than or equal to 60");
        }
        if self.allow_fallback {
            errors.forbidden(&path.field("allowFallback"), "no deployer offers another type of GPU yet");
        }
        let namespaces = path.field("namespaces");
        rules::count(&namespaces, self.namespaces.len(), MAX_NAMESPACES, errors);
        let mut seen = Seen::default();
        for (index, limits) in self.namespaces.iter().enumerate().take(MAX_NAMESPACES) {
            let path = namespaces.index(index);
            if limits.namespace != EVERY_NAMESPACE {
                rules::name(&path.field("namespace"), &limits.namespace, names::dns1123_label, errors);
            }
            seen.check(&path.field("namespace"), &limits.namespace, errors);
            validate_prices(&path, limits.max_hourly_cost, limits.max_added_cost_per_hour, errors);
            validate_destroys(&path, limits.max_destroys_per_hour, errors);
        }
    }
}

fn validate_prices(path: &Path<'_>, hourly: Option<Price>, added: Option<Price>, errors: &mut Errors) {
    for (name, price) in [("maxHourlyCost", hourly), ("maxAddedCostPerHour", added)] {
        if let Some(price) = price.filter(|price| *price < Price::ZERO) {
            errors.invalid(&path.field(name), price, "must not be negative");
        }
    }
}

/// The ledger is what counts them: a limit beyond it could not be kept.
fn validate_destroys(path: &Path<'_>, limit: Option<u32>, errors: &mut Errors) {
    if let Some(limit) = limit.filter(|limit| *limit as usize > MAX_LEDGER) {
        errors.invalid(&path.field("maxDestroysPerHour"), limit, "must be less than or equal to 1000");
    }
}
