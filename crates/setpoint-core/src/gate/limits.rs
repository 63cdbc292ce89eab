//! The limits of an environment and of the namespaces in it, and what is said where one of them holds a step back.

use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::environment::{Guardrails, NamespaceLimits};
use setpoint_api::price::Price;

use crate::count::counted;

/// A limit, by what it limits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Limit {
    DestroysPerHour(u32),
    AddedCostPerHour(Price),
    HourlyCost(Price),
    Gpus(u32),
    Instances(u32),
    MovedBpsPerHour(u32),
}

/// A limit of the environment, or of one namespace in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Bound {
    pub limit: Limit,
    /// The namespace; none where it limits the environment.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
}

/// A limit that what is in use and a step exceed together.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Overrun {
    pub bound: Bound,
    /// What is in use, or was used up within the hour: millionths of dollars, or a number.
    pub in_use: u64,
    /// What the step adds, in the same unit.
    pub step: u64,
    /// From when on there is room again; absent where something else has to go first.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Timestamp>,
}

/// What limits there are, of an environment or of one namespace in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Limits {
    pub(super) max_hourly_cost: Option<Price>,
    pub(super) max_added_cost_per_hour: Option<Price>,
    pub(super) max_gpus: Option<u32>,
    pub(super) max_instances: Option<u32>,
    pub(super) max_destroys_per_hour: Option<u32>,
}

impl Limits {
    /// All that limit what is done for a namespace. What is done for none, as to a guest that belongs to nothing, may concern
    /// any of them.
    pub(super) fn concerning<'g>(guardrails: &'g Guardrails, namespace: &'g str) -> impl Iterator<Item = Limits> + 'g {
        let own = guardrails.of_namespace(namespace);
        let any = guardrails.namespaces.iter().filter(move |_| namespace.is_empty());
        [Limits::from(guardrails)].into_iter().chain(own.into_iter().chain(any).map(Limits::from))
    }
}

impl From<&Guardrails> for Limits {
    fn from(limits: &Guardrails) -> Limits {
        Limits {
            max_hourly_cost: limits.max_hourly_cost,
            max_added_cost_per_hour: limits.max_added_cost_per_hour,
            max_gpus: limits.max_gpus,
            max_instances: limits.max_instances,
            max_destroys_per_hour: limits.max_destroys_per_hour,
        }
    }
}

impl From<&NamespaceLimits> for Limits {
    fn from(limits: &NamespaceLimits) -> Limits {
        Limits {
            max_hourly_cost: limits.max_hourly_cost,
            max_added_cost_per_hour: limits.max_added_cost_per_hour,
            max_gpus: limits.max_gpus,
            max_instances: limits.max_instances,
            max_destroys_per_hour: limits.max_destroys_per_hour,
        }
    }
}

impl From<Limit> for Bound {
    fn from(limit: Limit) -> Bound {
        Bound { limit, namespace: None }
    }
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Limit::DestroysPerHour(limit) => write!(f, "maxDestroysPerHour {limit}"),
            Limit::AddedCostPerHour(limit) => write!(f, "maxAddedCostPerHour ${limit}/h"),
            Limit::HourlyCost(limit) => write!(f, "maxHourlyCost ${limit}/h"),
            Limit::Gpus(limit) => write!(f, "maxGpus {limit}"),
            Limit::Instances(limit) => write!(f, "maxInstances {limit}"),
            Limit::MovedBpsPerHour(limit) => write!(f, "maxMovedBpsPerHour {limit}"),
        }
    }
}

/// `maxGpus 4`, `maxGpus 4 of namespace shop`
impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{} of namespace {namespace}", self.limit),
            None => self.limit.fmt(f),
        }
    }
}

/// `$0.30/h in use by namespace shop + $0.10/h for this step exceeds maxHourlyCost $0.35/h`
impl fmt::Display for Overrun {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Overrun { bound: Bound { limit, namespace }, in_use, step, until } = self;
        let by = namespace.as_ref().map(|namespace| format!(" by namespace {namespace}")).unwrap_or_default();
        let price = |micros: u64| Price::from_micros(i64::try_from(micros).unwrap_or(i64::MAX));
        let count = |what| counted(usize::try_from(*in_use).unwrap_or(usize::MAX), what);
        match limit {
            Limit::HourlyCost(_) => write!(f, "${}/h in use{by} + ${}/h", price(*in_use), price(*step))?,
            Limit::AddedCostPerHour(_) => {
                write!(f, "${}/h added within the last hour{by} + ${}/h", price(*in_use), price(*step))?;
            }
            Limit::Gpus(_) => write!(f, "{} in use{by} + {step}", count("GPU"))?,
            Limit::Instances(_) => write!(f, "{} in use{by} + {step}", count("instance"))?,
            Limit::DestroysPerHour(_) => {
                write!(f, "{} taken within the last hour{by} + {step}", count("destructive step"))?;
            }
            Limit::MovedBpsPerHour(_) => write!(f, "{in_use} bps moved within the last hour + {step}")?,
        }
        write!(f, " for this step exceeds {limit}")?;
        until.map_or(Ok(()), |until| write!(f, " until {until}"))
    }
}
