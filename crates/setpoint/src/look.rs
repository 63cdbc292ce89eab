//! The first look of a control plane that a command has started: until then, what is stored is what was.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use jiff::Timestamp;
use kube::api::ListParams;
use kube::{Api, ResourceExt as _};
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use tokio::time::Instant;

use crate::drift::seconds;
use crate::follow::condition;
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
            let unasked = self.unasked().await?;
            if unseen.is_empty() && is_calm && unasked.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                unseen.iter().for_each(|environment| remark(&apology(environment)));
                if !is_calm {
                    remark("some Machines are still being looked at; what is shown of them may be of before");
                }
                for machine in unasked {
                    let name = inert(&machine.name_any());
                    remark(&format!("no change set lists the steps of {name} yet that need an approval"));
                }
                return Ok(());
            }
            tokio::time::sleep(AGAIN).await;
        }
    }

    /// The Machines with steps that need an approval and that no change set lists yet, or none that was judged.
    async fn unasked(&self) -> Result<Vec<Machine>> {
        let machines: Api<Machine> = Api::all(self.server.client.clone());
        let machines = machines.list(&ListParams::default()).await.map_err(|error| self.server.unreachable(error))?;
        let sets: Api<ChangeSet> = Api::all(self.server.client.clone());
        let sets = sets.list(&ListParams::default()).await.map_err(|error| self.server.unreachable(error))?;
        Ok(machines.items.into_iter().filter(|machine| is_unasked(machine, &sets.items)).collect())
    }
}

fn is_unasked(machine: &Machine, sets: &[ChangeSet]) -> bool {
    let executing = sets.iter().filter(|set| set.spec.mode == Mode::Execute).filter_map(|set| set.status.as_ref());
    let open = executing.flat_map(|status| &status.entries).filter(|entry| !entry.state.is_closed());
    let judged: BTreeSet<&str> = open.map(|entry| entry.digest.as_str()).collect();
    let pending = machine.status.as_ref().and_then(|status| status.pending.as_ref());
    pending.is_some_and(|pending| pending.steps.iter().any(|step| !judged.contains(step.digest.as_str())))
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
    fn what_needs_an_approval_is_waited_for_until_a_change_set_lists_it() {
        let rows = [
            ("no change set lists it", "Execute", "e", "Waiting", true),
            ("one lists it", "Execute", "d", "Waiting", false),
            ("one listed it, and it was taken then", "Execute", "d", "Done", true),
            ("a preview lists it", "Preview", "d", "Blocked", true),
        ];
        let step = json!({
            "id": "shop/db/delete", "digest": "d", "action": "Delete", "reason": "it goes", "origin": "Desired",
            "target": {"namespace": "shop", "name": "db", "kind": "Machine"}, "class": "Destructive", "classReason": "data",
        });
        let at = "2026-01-01T10:00:00Z";
        let pending = json!({"generation": 1, "observedAt": at, "certainty": "Known", "steps": [step]});
        let machine = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "db"},
            "spec": {"environment": "lab"}, "status": {"pending": pending},
        });
        let machine: Machine = serde_json::from_value(machine).expect("a Machine");
        for (row, mode, digest, state, expected) in rows {
            let set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "lab-1"},
                "spec": {"environment": "lab", "mode": mode, "requestedBy": "carol"},
                "status": {"entries": [{"digest": digest, "state": state, "since": at}]},
            });
            let set: ChangeSet = serde_json::from_value(set).expect("a change set");
            assert_eq!(is_unasked(&machine, &[set]), expected, "{row}");
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
