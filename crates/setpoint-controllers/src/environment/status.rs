//! What an Environment says of itself: pure.

use std::time::Duration;

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::Environment;
use setpoint_core::conditions;

use crate::runtime::Next;

const READY: &str = "Ready";
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
        Standing { is_tried_again: true, ..Standing::refused("InvalidConfig", why.to_owned()) }
    }

    pub fn no_credentials(namespace: &str, name: &str) -> Standing {
        let message = format!("there is no Secret {namespace}/{name} with the credentials");
        Standing { is_tried_again: true, ..Standing::refused("CredentialsMissing", message) }
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

/// The patch that makes the status say so, unless it does.
pub(super) fn patch(environment: &Environment, standing: &Standing, now: Timestamp) -> Option<Value> {
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
    conditions::set(&mut conditions, condition, Timestamp::from_second(now.as_second()).unwrap_or(now));
    // What ran by an earlier configuration goes on, and so does its Node.
    let node_name = environment.metadata.name.clone().filter(|_| standing.has_node).or(old.node_name.clone());
    let is_same = old.conditions == conditions && old.observed_generation == generation && old.node_name == node_name;
    (!is_same).then(|| {
        json!({
            "metadata": {"uid": environment.metadata.uid},
            "status": {"conditions": conditions, "observedGeneration": generation, "nodeName": node_name},
        })
    })
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
        let first = patch(&environment(json!({})), &reachable, now).expect("a first status");
        assert_eq!(first["status"]["nodeName"], "lab");
        assert_eq!(first["status"]["observedGeneration"], 2);
        assert_eq!(first["status"]["conditions"][0]["lastTransitionTime"], "2026-03-01T12:00:00Z");
        let told = environment(first["status"].clone());
        assert_eq!(patch(&told, &reachable, now + Duration::from_secs(60)), None, "nothing is new");
        let broken = Standing::not_opened("spec.config.latency: unknown field");
        let later = patch(&told, &broken, now + Duration::from_secs(60)).expect("it is broken now");
        assert_eq!(later["status"]["conditions"][0]["lastTransitionTime"], "2026-03-01T12:01:00Z");
        assert_eq!(later["status"]["nodeName"], "lab", "what was there before goes on");
        let taken = patch(&environment(json!({})), &Standing::name_taken("local"), now).expect("it is refused");
        assert_eq!(taken["status"]["nodeName"], Value::Null);
    }
}
