//! Who must approve what in an environment, as far as the user may know.

use anyhow::Result;
use kube::Api;
use setpoint_api::environment::{Approval, Environment};

use crate::session::Session;

/// The approval policy of an environment.
#[derive(Debug)]
pub(crate) enum Policy {
    /// There is no such environment.
    Absent,
    /// The user may not read it. What it shows is guessed to be the default, and nothing is approved by that guess.
    Hidden,
    Known(Option<Box<Approval>>),
}

impl Policy {
    pub(crate) async fn of(session: &Session, environment: &str) -> Result<Policy> {
        let environments: Api<Environment> = Api::all(session.server.client.clone());
        match environments.get_opt(environment).await {
            Ok(found) => Ok(found.map_or(Policy::Absent, |found| Policy::Known(found.spec.approval.map(Box::new)))),
            Err(kube::Error::Api(status)) if status.code == 403 => Ok(Policy::Hidden),
            Err(error) => Err(session.server.unreachable(error)),
        }
    }

    pub(crate) fn approval(&self) -> Option<&Approval> {
        match self {
            Policy::Known(approval) => approval.as_deref(),
            Policy::Absent | Policy::Hidden => None,
        }
    }

    /// The keys that it lists for a user.
    pub(crate) fn keys_of(&self, user: &str) -> Vec<String> {
        let keys = self.approval().map(|approval| approval.keys.as_slice()).unwrap_or_default();
        keys.iter().filter(|key| key.principal == user).map(|key| key.public_key.clone()).collect()
    }
}
