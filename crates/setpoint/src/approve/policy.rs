//! Who must approve what in an environment, as far as the user may know.

use anyhow::Result;
use kube::Api;
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::{Approval, Environment};

use crate::apply::condition;
use crate::session::Session;

/// The approval policy of an environment.
#[derive(Debug)]
pub(crate) enum Policy {
    /// There is no such environment.
    Absent,
    /// The user may not read it. What it shows is guessed to be the default, and nothing is approved by that guess.
    Hidden,
    Known {
        approval: Option<Box<Approval>>,
        /// Why nothing can be planned for there before somebody changes it, in its own words.
        broken: Option<String>,
    },
}

impl Policy {
    pub(crate) async fn of(session: &Session, environment: &str) -> Result<Policy> {
        let environments: Api<Environment> = Api::all(session.server.client.clone());
        match environments.get_opt(environment).await {
            Ok(Some(found)) => {
                Ok(Policy::Known { broken: broken(&found), approval: found.spec.approval.map(Box::new) })
            }
            Ok(None) => Ok(Policy::Absent),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Policy::Hidden),
            Err(error) => Err(session.server.unreachable(error)),
        }
    }

    pub(crate) fn approval(&self) -> Option<&Approval> {
        match self {
            Policy::Known { approval, .. } => approval.as_deref(),
            Policy::Absent | Policy::Hidden => None,
        }
    }

    /// The keys that it lists for a user.
    pub(crate) fn keys_of(&self, user: &str) -> Vec<String> {
        let keys = self.approval().map(|approval| approval.keys.as_slice()).unwrap_or_default();
        keys.iter().filter(|key| key.principal == user).map(|key| key.public_key.clone()).collect()
    }
}

/// Why it is not open. One that was looked at before goes on by an earlier configuration where the new one is wrong.
fn broken(environment: &Environment) -> Option<String> {
    let status = environment.status.as_ref()?;
    let ready = condition(&status.conditions, "Ready").filter(|ready| ready.status == ConditionStatus::False)?;
    let is_closed = match ready.reason.as_deref()? {
        "CredentialsMissing" => true,
        "InvalidConfig" => status.observed_at.is_none(),
        _ => false,
    };
    let is_of_this = ready.observed_generation == environment.metadata.generation;
    (is_of_this && is_closed).then(|| ready.message.clone().unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn an_environment_is_broken_where_nothing_of_it_is_open() {
        let looked_at = || json!("2026-11-15T12:00:00Z");
        let rows = [
            ("its config never was right", "False", "InvalidConfig", 2, json!(null), true),
            ("it goes on by the one before", "False", "InvalidConfig", 2, looked_at(), false),
            ("its credentials were taken away", "False", "CredentialsMissing", 2, looked_at(), true),
            ("it was written since", "False", "InvalidConfig", 1, json!(null), false),
            ("it does not answer, and may", "False", "Unreachable", 2, json!(null), false),
            ("all is well", "True", "Reachable", 2, looked_at(), false),
        ];
        for (name, status, reason, generation, observed_at, expected) in rows {
            let ready: Value = json!({
                "type": "Ready", "status": status, "reason": reason, "message": "why", "observedGeneration": generation,
            });
            let environment = serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment",
                "metadata": {"name": "lab", "generation": 2}, "spec": {"deployer": {"name": "simulated"}},
                "status": {"conditions": [ready], "observedAt": observed_at},
            }));
            assert_eq!(broken(&environment.expect(name)).is_some(), expected, "{name}");
        }
    }
}
