//! The first look of a control plane that a command has started: until then, what is stored is what was.

use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use kube::Api;
use kube::api::ListParams;
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use tokio::time::Instant;

use crate::apply::condition;
use crate::drift::seconds;
use crate::session::Session;
use crate::terminal::{inert, remark};

/// How long it may take: who asks waits for it.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often it is asked whether it is over. All of it is in this process.
const AGAIN: Duration = Duration::from_millis(20);

impl Session {
    /// Waits until everything was looked at that the control plane of this process has to tell of. A server elsewhere has
    /// looked all along. What could not be looked at is said.
    pub(crate) async fn look(&self) -> Result<()> {
        let Some(here) = &self.here else { return Ok(()) };
        let environments: Api<Environment> = Api::all(self.server.client.clone());
        let deadline = Instant::now() + PATIENCE;
        loop {
            let list =
                environments.list(&ListParams::default()).await.map_err(|error| self.server.unreachable(error))?;
            let unseen: Vec<&Environment> =
                list.items.iter().filter(|environment| !is_looked_at(environment, here.since)).collect();
            let is_calm = here.plane.is_calm();
            let unjudged = self.unjudged().await?;
            if unseen.is_empty() && is_calm && unjudged.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                unseen.iter().for_each(|environment| remark(&apology(environment)));
                if !is_calm {
                    remark("some Machines are still being looked at; what is shown of them may be of before");
                }
                let tell = |set: &ChangeSet| {
                    let name = inert(set.metadata.name.as_deref().unwrap_or_default());
                    remark(&format!("nobody has said yet how far the change set {name} is; its Events may say why"));
                };
                unjudged.iter().for_each(tell);
                return Ok(());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The change sets that say what is to be done, and of which nobody has said yet how far they are.
    async fn unjudged(&self) -> Result<Vec<ChangeSet>> {
        let sets: Api<ChangeSet> = Api::all(self.server.client.clone());
        let list = sets.list(&ListParams::default()).await.map_err(|error| self.server.unreachable(error))?;
        Ok(list.items.into_iter().filter(is_unjudged).collect())
    }
}

fn is_unjudged(set: &ChangeSet) -> bool {
    let is_kept = set.metadata.deletion_timestamp.is_none() && set.spec.mode == Mode::Execute;
    let planned = set.status.as_ref().filter(|status| is_kept && status.digest.is_some());
    planned.is_some_and(|status| status.phase.is_none())
}

/// Whether an Environment was looked at since, or nothing will come of waiting for it.
fn is_looked_at(environment: &Environment, since: Timestamp) -> bool {
    let Some(status) = &environment.status else { return false };
    let ready = condition(&status.conditions, "Ready");
    let is_ready = ready.is_some_and(|ready| ready.status == ConditionStatus::True);
    // Conditions have whole seconds.
    let second = Timestamp::from_second(since.as_second()).unwrap_or(since);
    let failed = ready.filter(|ready| ready.status == ConditionStatus::False);
    let has_failed = failed.and_then(|failed| failed.last_transition_time).is_some_and(|at| at >= second);
    match status.observed_at {
        Some(at) if at >= since => true,
        // Where there can be no Machines, there is nothing to look at.
        None if is_ready => true,
        _ => has_failed || environment.metadata.deletion_timestamp.is_some(),
    }
}

/// What is said of one that was not looked at in time.
fn apology(environment: &Environment) -> String {
    let name = inert(environment.metadata.name.as_deref().unwrap_or_default());
    let status = environment.status.clone().unwrap_or_default();
    let ready = condition(&status.conditions, "Ready").filter(|ready| ready.status != ConditionStatus::True);
    let why = ready.and_then(|ready| ready.message.as_deref()).map(|why| format!(": {}", inert(why)));
    let last = status.observed_at.map(|at| format!("; what is shown of it is of {}", seconds(at)));
    let (why, last) = (why.unwrap_or_default(), last.unwrap_or_default());
    format!("environment {name} was not looked at within {} s{why}{last}", PATIENCE.as_secs())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn environment(observed_at: Option<&str>, ready: &str, since: &str) -> Environment {
        let ready = json!([{"type": "Ready", "status": ready, "message": "no answer", "lastTransitionTime": since}]);
        let object = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": "simulated"}},
            "status": {"observedAt": observed_at, "conditions": ready},
        });
        serde_json::from_value(object).expect("an Environment")
    }

    #[test]
    fn what_a_controller_asks_is_waited_for_until_somebody_has_judged_it() {
        let rows = [
            ("nobody has", "Execute", json!({"digest": "d"}), true),
            ("somebody has", "Execute", json!({"digest": "d", "phase": "Waiting"}), false),
            ("it does not say yet what is to be done", "Execute", json!({}), false),
            ("it shows only", "Preview", json!({"digest": "d"}), false),
        ];
        for (row, mode, status, expected) in rows {
            let set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "web"},
                "spec": {"environment": "lab", "mode": mode, "requestedBy": "carol"}, "status": status,
            });
            assert_eq!(is_unjudged(&serde_json::from_value(set).expect("a change set")), expected, "{row}");
        }
    }

    #[test]
    fn a_look_is_waited_for_where_one_will_come() {
        let since: Timestamp = "2026-01-01T10:00:00.5Z".parse().expect("a time");
        let (before, now, long_ago) = ("2026-01-01T10:00:00.4Z", "2026-01-01T10:00:00.6Z", "2026-01-01T09:00:00Z");
        let mut leaving = environment(Some(before), "False", long_ago);
        leaving.metadata.deletion_timestamp = serde_json::from_value(json!(long_ago)).ok();
        let mut new = environment(None, "True", long_ago);
        new.status = None;
        let rows = [
            ("it was", environment(Some(now), "True", long_ago), true),
            ("it was by the last process", environment(Some(before), "True", long_ago), false),
            ("it holds no Machines", environment(None, "True", long_ago), true),
            ("it does not answer now", environment(Some(before), "False", "2026-01-01T10:00:00Z"), true),
            ("it did not answer before", environment(Some(before), "False", long_ago), false),
            ("it was never asked", environment(None, "Unknown", long_ago), false),
            ("it is being deleted", leaving, true),
            ("it is new", new, false),
        ];
        for (row, environment, expected) in rows {
            assert_eq!(is_looked_at(&environment, since), expected, "{row}");
        }
        assert_eq!(
            apology(&environment(Some(before), "False", long_ago)),
            "environment lab was not looked at within 20 s: no answer; what is shown of it is of 2026-01-01T10:00:00Z"
        );
    }
}
