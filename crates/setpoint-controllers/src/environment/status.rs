//! What an Environment says of itself: pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::{Environment, EnvironmentStatus, Guardrails, MAX_ORPHANS, Orphan};
use setpoint_core::conditions;
use setpoint_core::gate::Usage;
use setpoint_deployer::provider::Offer;

use crate::runtime::Next;

pub const READY: &str = "Ready";
const INVALID_CONFIG: &str = "InvalidConfig";
const CREDENTIALS_MISSING: &str = "CredentialsMissing";
const WITHIN_LIMITS: &str = "WithinLimits";
/// When to try again what may be otherwise without a word to us.
const TRY_AGAIN: Duration = Duration::from_secs(10);

/// How an Environment stands, as its condition `Ready` says it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    pub status: ConditionStatus,
    pub reason: &'static str,
    pub message: String,
    /// Whether it has its Node.
    has_node: bool,
    /// Whether it has to be looked at again although nothing changes.
    is_tried_again: bool,
}

impl Standing {
    /// By what came of the last call to its provider, if there was one.
    pub fn of_reach(reach: Option<Result<(), String>>) -> Standing {
        let (status, reason, message) = match reach {
            None => (ConditionStatus::Unknown, "Connecting", "the provider has yet to answer".to_owned()),
            Some(Ok(())) => (ConditionStatus::True, "Reachable", "the provider answers".to_owned()),
            Some(Err(message)) => (ConditionStatus::False, "Unreachable", message),
        };
        Standing { status, reason, message, has_node: true, is_tried_again: false }
    }

    /// Its Node cannot be made.
    pub fn name_taken(name: &str) -> Standing {
        let message = format!("there is a Node {name} already that is not this Environment's: choose another name");
        Standing::refused("NameTaken", message)
    }

    /// Its deployer refuses its configuration, or there is no such deployer.
    pub fn not_opened(why: &str) -> Standing {
        Standing { is_tried_again: true, ..Standing::refused(INVALID_CONFIG, why.to_owned()) }
    }

    pub fn no_credentials(namespace: &str, name: &str) -> Standing {
        let message = format!("there is no Secret {namespace}/{name} with the credentials");
        Standing { is_tried_again: true, ..Standing::refused(CREDENTIALS_MISSING, message) }
    }

    pub fn empty_credentials(namespace: &str, name: &str) -> Standing {
        let message = format!("the Secret {namespace}/{name} holds no credentials");
        Standing { is_tried_again: true, ..Standing::refused(CREDENTIALS_MISSING, message) }
    }

    /// Whether it has what the provider wants to see.
    pub(super) fn has_credentials(&self) -> bool {
        self.reason != CREDENTIALS_MISSING
    }

    /// The same, with something more to say.
    pub fn and(self, more: &str) -> Standing {
        Standing { message: format!("{}; {more}", self.message), ..self }
    }

    /// It is deleted, but something keeps it.
    pub fn leaving(why: String) -> Standing {
        Standing { has_node: true, ..Standing::refused("Deleting", why) }
    }

    fn refused(reason: &'static str, message: String) -> Standing {
        Standing { status: ConditionStatus::False, reason, message, has_node: false, is_tried_again: false }
    }

    pub(super) fn next(&self) -> Next {
        if self.is_tried_again { Next::After(TRY_AGAIN) } else { Next::Idle }
    }
}

/// Why an Environment cannot be opened, as it says itself.
pub fn not_opened(environment: &Environment) -> Option<&str> {
    let mut conditions = environment.status.iter().flat_map(|status| &status.conditions);
    let is_why = |reason: &str| [INVALID_CONFIG, CREDENTIALS_MISSING].contains(&reason);
    let ready = conditions.find(|condition| condition.type_ == READY)?;
    ready.message.as_deref().filter(|_| ready.reason.as_deref().is_some_and(is_why))
}

/// What there is in an Environment.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Census {
    /// How many Machines are not as desired.
    pub drifted: u32,
    /// How many Machines a limit holds back.
    pub limited: u32,
    pub usage: Usage,
    pub offer: Offer,
    pub orphans: Vec<Orphan>,
    pub observed_at: Timestamp,
}

/// The patch that makes the status say so, unless it does.
pub(super) fn patch(
    environment: &Environment,
    standing: &Standing,
    census: Option<&Census>,
    now: Timestamp,
) -> Option<Value> {
    let old = environment.status.clone().unwrap_or_default();
    let generation = environment.metadata.generation;
    let condition = Condition {
        type_: READY.to_owned(),
        status: standing.status,
        reason: Some(standing.reason.to_owned()),
        message: Some(standing.message.clone()),
        last_transition_time: None,
        observed_generation: generation,
    };
    let mut conditions = old.conditions.clone();
    let now = Timestamp::from_second(now.as_second()).unwrap_or(now);
    conditions::set(&mut conditions, condition, now);
    if let Some(census) = census {
        conditions::set(&mut conditions, within_limits(environment, census), now);
    }
    // What ran by an earlier configuration goes on, and so does its Node.
    let node_name = environment.metadata.name.clone().filter(|_| standing.has_node).or(old.node_name.clone());
    let told = EnvironmentStatus { observed_generation: generation, conditions, node_name, ..old.clone() };
    let told = census.map_or(told.clone(), |census| counted(told, census));
    (told != old).then(|| {
        json!({
            "metadata": {"uid": environment.metadata.uid},
            "status": {
                "conditions": told.conditions,
                "observedGeneration": told.observed_generation,
                "nodeName": told.node_name,
                "capacity": told.capacity,
                "prices": told.prices,
                "hourlyCost": told.hourly_cost,
                "instances": told.instances,
                "gpus": told.gpus,
                "drifted": told.drifted,
                "orphanCount": told.orphan_count,
                "orphans": told.orphans,
                "observedAt": told.observed_at,
            },
        })
    })
}

fn counted(status: EnvironmentStatus, census: &Census) -> EnvironmentStatus {
    EnvironmentStatus {
        capacity: census.offer.capacity.clone(),
        prices: census.offer.prices.clone(),
        hourly_cost: census.usage.hourly_cost,
        instances: census.usage.instances,
        gpus: census.usage.gpus,
        drifted: Some(census.drifted),
        orphan_count: u32::try_from(census.orphans.len()).ok(),
        orphans: census.orphans.iter().take(MAX_ORPHANS).cloned().collect(),
        observed_at: Some(census.observed_at),
        ..status
    }
}

/// Whether there is more than there may be, or something is held back so that there is not.
fn within_limits(environment: &Environment, census: &Census) -> Condition {
    let over = environment.spec.guardrails.as_ref().map(|limits| exceeded(limits, census.usage)).unwrap_or_default();
    let (status, reason, message) = match (over.is_empty(), census.limited) {
        (false, _) => (ConditionStatus::False, "OverLimit", over.join("; ")),
        (true, 0) => (ConditionStatus::True, "WithinLimits", "no limit holds anything back".to_owned()),
        (true, 1) => (ConditionStatus::False, "HeldBack", "a limit holds one Machine back".to_owned()),
        (true, held) => (ConditionStatus::False, "HeldBack", format!("limits hold {held} Machines back")),
    };
    Condition {
        type_: WITHIN_LIMITS.to_owned(),
        status,
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: None,
        observed_generation: environment.metadata.generation,
    }
}

/// The limits that what there is exceeds, as far as it is known.
fn exceeded(limits: &Guardrails, usage: Usage) -> Vec<String> {
    let count = |name: &str, limit: Option<u32>, now: Option<u32>| {
        let (limit, now) = (limit?, now?);
        (now > limit).then(|| format!("{name} {limit} is exceeded: there are {now}"))
    };
    let cost = limits.max_hourly_cost.zip(usage.hourly_cost).filter(|(limit, now)| now > limit);
    [
        cost.map(|(limit, now)| format!("maxHourlyCost ${limit} is exceeded: it costs ${now} an hour")),
        count("maxGpus", limits.max_gpus, usage.gpus),
        count("maxInstances", limits.max_instances, usage.instances),
    ]
    .into_iter()
    .flatten()
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn environment(status: Value) -> Environment {
        let spec = json!({"deployer": {"name": "simulated"}});
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment",
            "metadata": {"name": "lab", "uid": "u", "generation": 2}, "spec": spec, "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn a_status_is_written_where_it_says_something_else() {
        let now: Timestamp = "2026-03-01T12:00:00Z".parse().unwrap();
        let reachable = Standing::of_reach(Some(Ok(())));
        let first = patch(&environment(json!({})), &reachable, None, now).expect("a first status");
        assert_eq!(first["status"]["nodeName"], "lab");
        assert_eq!(first["status"]["observedGeneration"], 2);
        assert_eq!(first["status"]["conditions"][0]["lastTransitionTime"], "2026-03-01T12:00:00Z");
        let told = environment(first["status"].clone());
        assert_eq!(patch(&told, &reachable, None, now + Duration::from_secs(60)), None, "nothing is new");
        let broken = Standing::not_opened("spec.config.latency: unknown field");
        let later = patch(&told, &broken, None, now + Duration::from_secs(60)).expect("it is broken now");
        assert_eq!(later["status"]["conditions"][0]["lastTransitionTime"], "2026-03-01T12:01:00Z");
        assert_eq!(later["status"]["nodeName"], "lab", "what was there before goes on");
        let taken = patch(&environment(json!({})), &Standing::name_taken("local"), None, now).expect("it is refused");
        assert_eq!(taken["status"]["nodeName"], Value::Null);
    }
}
