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

/// Why an environment is not opened that is written or given wrongly.
const BROKEN: [&str; 2] = ["InvalidConfig", "CredentialsMissing"];

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

fn broken(environment: &Environment) -> Option<String> {
    let ready = condition(&environment.status.as_ref()?.conditions, "Ready")?;
    let is_of_this = ready.observed_generation == environment.metadata.generation;
    let is_broken = ready.status == ConditionStatus::False && BROKEN.contains(&ready.reason.as_deref()?);
    (is_of_this && is_broken).then(|| ready.message.clone().unwrap_or_default())
}
