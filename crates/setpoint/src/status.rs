//! `setpoint status`: environments, Machines, and what waits for people, at a glance.

use anyhow::Result;
use clap::Args;
use kube::Api;
use kube::api::ListParams;
use serde_json::{Value, json};
use setpoint_api::change_set::{ChangeSet, Mode, Phase, StepState};
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;

use crate::apply::{NOT_LOOKED_AT, condition, is_behind};
use crate::drift::{environments, machines, seconds};
use crate::outcome::Outcome;
use crate::output::Output;
use crate::session::{Place, Session};
use crate::style::{Style, Tone};
use crate::table::GAP;
use crate::terminal::{aligned, inert};

#[derive(Debug, Args)]
pub(crate) struct Status {
    /// Look in all namespaces
    #[arg(short = 'A', long, conflicts_with = "namespace")]
    all_namespaces: bool,
    /// The form to print it in
    #[arg(short, long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    place: Place,
}

impl Status {
    pub(crate) fn run(&self) -> Result<Outcome> {
        self.place.look(async |session| self.show(session).await)
    }

    async fn show(&self, session: &Session) -> Result<Outcome> {
        session.look().await?;
        let overview = Overview {
            environments: environments(session).await?,
            machines: machines(session, self.all_namespaces, None).await?,
            waiting: waiting(session, self.all_namespaces).await?,
        };
        self.output.print(|| overview.text(Style::of_stdout()), || Ok(overview.data()))?;
        Ok(Outcome::pending_if(overview.is_pending()))
    }
}

/// The change sets that wait for people.
async fn waiting(session: &Session, all: bool) -> Result<Vec<ChangeSet>> {
    let client = session.server.client.clone();
    let sets: Api<ChangeSet> = match all {
        true => Api::all(client),
        false => Api::namespaced(client, &session.server.namespace),
    };
    let list = sets.list(&ListParams::default()).await.map_err(|error| session.server.unreachable(error))?;
    let waits = |set: &ChangeSet| {
        let phase = set.status.as_ref().and_then(|status| status.phase);
        set.spec.mode == Mode::Execute && phase == Some(Phase::Waiting)
    };
    Ok(list.items.into_iter().filter(waits).collect())
}

#[derive(Debug)]
struct Overview {
    environments: Vec<Environment>,
    machines: Vec<Machine>,
    waiting: Vec<ChangeSet>,
}

impl Overview {
    /// Whether something is not as desired, or waits.
    fn is_pending(&self) -> bool {
        let unsettled = |environment: &Environment| {
            let conditions = environment.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            let orphans = environment.status.as_ref().and_then(|status| status.orphan_count).unwrap_or_default();
            word(conditions, "Ready") != "True" || orphans > 0
        };
        let unsynced = |machine: &Machine| {
            let conditions = machine.status.as_ref().map(|status| status.conditions.as_slice()).unwrap_or_default();
            is_behind(machine) || word(conditions, "Synced") != "True" || word(conditions, "Drifted") == "True"
        };
        !self.waiting.is_empty() || self.environments.iter().any(unsettled) || self.machines.iter().any(unsynced)
    }

    fn text(&self, style: Style) -> String {
        let head =
            ["ENVIRONMENT", "DEPLOYER", "READY", "INSTANCES", "COST/H", "DRIFTED", "ORPHANS", "OBSERVED", "REASON"];
        let environments = table(&head, self.environments.iter().map(environment_row).collect());
        let head = ["MACHINE", "ENVIRONMENT", "GUEST", "RUN", "READY", "SYNCED", "DRIFTED", "COST/H", "REASON"];
        let machines = table(&head, self.machines.iter().map(machine_row).collect());
        let head = ["WAITING", "ENVIRONMENT", "STEPS", "REQUESTED BY", "FOR"];
        let waiting = table(&head, self.waiting.iter().map(waiting_row).collect());
        let hint = self.waiting.first().map(|set| {
            let (namespace, name) = names(&set.metadata);
            let say = format!("`setpoint approve {name} -n {namespace}` shows its steps and asks");
            format!("{}\n", style.paint(Tone::Quiet, &inert(&say)))
        });
        let parts: Vec<String> =
            [environments, machines, waiting].into_iter().filter(|part| !part.is_empty()).collect();
        match parts.is_empty() {
            true => "There are no environments and no Machines here.\n".to_owned(),
            false => parts.join("\n") + &hint.unwrap_or_default(),
        }
    }

    fn data(&self) -> Value {
        json!({"environments": self.environments, "machines": self.machines, "changeSets": self.waiting})
    }
}

fn environment_row(environment: &Environment) -> Vec<String> {
    let status = environment.status.clone().unwrap_or_default();
    let number = |number: Option<u32>| number.map(|number| number.to_string()).unwrap_or_default();
    vec![
        environment.metadata.name.clone().unwrap_or_default(),
        environment.spec.deployer.name.clone(),
        word(&status.conditions, "Ready"),
        number(status.instances),
        status.hourly_cost.map(|cost| cost.to_string()).unwrap_or_default(),
        number(status.drifted),
        number(status.orphan_count),
        status.observed_at.map(seconds).unwrap_or_default(),
        why(&status.conditions, "Ready"),
    ]
}

fn machine_row(machine: &Machine) -> Vec<String> {
    let status = machine.status.clone().unwrap_or_default();
    let (namespace, name) = names(&machine.metadata);
    // What is told is of what it was before.
    let (synced, why) = match is_behind(machine) {
        true => (format!("{:?}", ConditionStatus::Unknown), NOT_LOOKED_AT.to_owned()),
        false => (word(&status.conditions, "Synced"), why(&status.conditions, "Synced")),
    };
    vec![
        format!("{namespace}/{name}"),
        machine.spec.environment.clone(),
        status.provider_id.unwrap_or_default(),
        status.run.unwrap_or_default(),
        word(&status.conditions, "Ready"),
        synced,
        word(&status.conditions, "Drifted"),
        status.hourly_cost.map(|cost| cost.to_string()).unwrap_or_default(),
        why,
    ]
}

fn waiting_row(set: &ChangeSet) -> Vec<String> {
    let status = set.status.clone().unwrap_or_default();
    let (namespace, name) = names(&set.metadata);
    let waits = status.step_states.iter().filter(|state| state.state == StepState::Waiting);
    let what = waits.filter_map(|state| state.message.clone()).next();
    vec![
        format!("{namespace}/{name}"),
        set.spec.environment.clone(),
        status.steps.len().to_string(),
        set.spec.requested_by.clone(),
        what.unwrap_or_default(),
    ]
}

fn names(metadata: &kube::api::ObjectMeta) -> (String, String) {
    (metadata.namespace.clone().unwrap_or_default(), metadata.name.clone().unwrap_or_default())
}

fn word(conditions: &[Condition], type_: &str) -> String {
    condition(conditions, type_).map(|condition| format!("{:?}", condition.status)).unwrap_or_default()
}

/// Why a condition does not hold.
fn why(conditions: &[Condition], type_: &str) -> String {
    let unmet = condition(conditions, type_).filter(|condition| condition.status != ConditionStatus::True);
    unmet.and_then(|condition| condition.message.clone().or(condition.reason.clone())).unwrap_or_default()
}

/// A table without the columns that nobody fills; nothing, if it has no rows.
fn table(head: &[&str], rows: Vec<Vec<String>>) -> String {
    if rows.is_empty() {
        return String::new();
    }
    let is_used = |column: usize| column == 0 || rows.iter().any(|row| !row[column].is_empty());
    let used: Vec<usize> = (0..head.len()).filter(|&column| is_used(column)).collect();
    let mut lines = vec![used.iter().map(|&column| head[column].to_owned()).collect::<Vec<_>>()];
    lines.extend(rows.iter().map(|row| used.iter().map(|&column| inert(&row[column])).collect::<Vec<_>>()));
    aligned(&lines, GAP).join("\n") + "\n"
}

#[cfg(test)]
mod tests {
    use serde::de::DeserializeOwned;

    use super::*;

    fn object<K: DeserializeOwned>(kind: &str, name: &str, spec: Value, status: Value) -> K {
        let metadata = json!({"name": name, "namespace": "shop"});
        let object = json!({"apiVersion": "setpoint.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec, "status": status});
        serde_json::from_value(object).expect("an object")
    }

    fn conditions(type_: &str, status: &str, message: &str) -> Value {
        json!([{"type": type_, "status": status, "message": message}])
    }

    #[test]
    fn an_overview_shows_what_there_is() {
        let empty = Overview { environments: Vec::new(), machines: Vec::new(), waiting: Vec::new() };
        assert_eq!(empty.text(Style::Plain), "There are no environments and no Machines here.\n");
        assert!(!empty.is_pending());

        let ready =
            json!({"conditions": conditions("Ready", "True", "it answers"), "instances": 2, "hourlyCost": "0.20"});
        let lab = || object("Environment", "lab", json!({"deployer": {"name": "simulated"}}), ready.clone());
        let synced = json!({"providerId": "sim-1", "run": "running", "conditions": conditions("Synced", "True", "")});
        let web = object("Machine", "web", json!({"environment": "lab"}), synced);
        let calm = Overview { environments: vec![lab()], machines: vec![web], waiting: Vec::new() };
        assert_eq!(
            calm.text(Style::Plain),
            "ENVIRONMENT   DEPLOYER    READY   INSTANCES   COST/H\n\
             lab           simulated   True    2           0.20\n\n\
             MACHINE    ENVIRONMENT   GUEST   RUN       SYNCED\n\
             shop/web   lab           sim-1   running   True\n"
        );
        assert!(!calm.is_pending());
        let orphaned = json!({"conditions": conditions("Ready", "True", ""), "orphanCount": 1});
        let lost = object("Environment", "lab", json!({"deployer": {"name": "simulated"}}), orphaned);
        let lost = Overview { environments: vec![lost], machines: Vec::new(), waiting: Vec::new() };
        assert!(lost.is_pending(), "somebody has to decide what becomes of an orphan");

        let stuck = json!({"conditions": conditions("Synced", "False", "waits for 1 person\u{7}")});
        let db = object("Machine", "db", json!({"environment": "lab"}), stuck);
        let spec = json!({"environment": "lab", "mode": "Execute", "requestedBy": "alice"});
        let since = "2026-01-01T00:00:00Z";
        let states = json!([{"id": "a", "digest": "d", "state": "Waiting", "message": "1 person", "since": since}]);
        let set = object("ChangeSet", "db-x", spec, json!({"phase": "Waiting", "stepStates": states}));
        let held = Overview { environments: vec![lab()], machines: vec![db], waiting: vec![set] };
        assert_eq!(
            held.text(Style::Plain),
            "ENVIRONMENT   DEPLOYER    READY   INSTANCES   COST/H\n\
             lab           simulated   True    2           0.20\n\n\
             MACHINE   ENVIRONMENT   SYNCED   REASON\n\
             shop/db   lab           False    waits for 1 person\\u0007\n\n\
             WAITING     ENVIRONMENT   STEPS   REQUESTED BY   FOR\n\
             shop/db-x   lab           0       alice          1 person\n\
             `setpoint approve db-x -n shop` shows its steps and asks\n"
        );
        assert!(held.is_pending());
    }

    #[test]
    fn what_was_changed_since_it_was_looked_at_is_not_said_to_be_as_desired() {
        let status = json!({"observedGeneration": 2, "conditions": conditions("Synced", "True", "")});
        let mut web: Machine = object("Machine", "web", json!({"environment": "lab"}), status);
        web.metadata.generation = Some(3);
        let changed = Overview { environments: Vec::new(), machines: vec![web.clone()], waiting: Vec::new() };
        assert_eq!(
            changed.text(Style::Plain),
            "MACHINE    ENVIRONMENT   SYNCED    REASON\n\
             shop/web   lab           Unknown   not looked at since it was changed\n"
        );
        assert!(changed.is_pending());
        web.metadata.generation = Some(2);
        let looked_at = Overview { environments: Vec::new(), machines: vec![web], waiting: Vec::new() };
        assert!(!looked_at.is_pending());
    }
}
