//! Which Machines a change concerns.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::Resource;
use kube::core::PartialObjectMeta;
use setpoint_api::change_set::{ChangeSet, StepStatus};
use setpoint_api::environment::Environment;
use setpoint_api::interpolation::SourceKind;
use setpoint_api::machine::Machine;
use setpoint_api::step::{Step, Target};
use setpoint_core::machine::{KIND, SYNCED, condition, is_settled};
use setpoint_core::workload::selection::controller_of;

use crate::change_set::is_open;
use crate::environment::Sights;
use crate::environment::status::not_opened;
use crate::queue::Queue;
use crate::runtime::caches::{
    MACHINES_BY_DEPENDENCY, MACHINES_BY_ENVIRONMENT, MACHINES_BY_GUEST, MACHINES_BY_LIMIT, MACHINES_BY_SOURCE,
    source_value,
};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>, sights: &Sights) {
    let (machines, stirs) = (caches.machines.clone(), sights.clone());
    caches.machines.listen(move |change| of_machine(change, &machines, &stirs));
    let (machines, own) = (caches.machines.clone(), queue.clone());
    caches.environments.listen(move |change| of_environment(change, &machines, &own));
    let own = queue.clone();
    caches.change_sets.listen(move |change| of_change_set(change, &own));
    let (machines, stirs) = (caches.machines.clone(), sights.clone());
    caches.secrets.listen(move |change: &Change<PartialObjectMeta<Secret>>| {
        of_source(SourceKind::Secret, &**change.latest(), &machines, &stirs);
    });
    let (machines, stirs) = (caches.machines.clone(), sights.clone());
    caches.config_maps.listen(move |change: &Change<PartialObjectMeta<ConfigMap>>| {
        of_source(SourceKind::ConfigMap, &**change.latest(), &machines, &stirs);
    });
}

/// Itself; and where it came, went, is carried out or turned to others, those that depend on it, on which it depends or did,
/// and its rivals.
fn of_machine(change: &Change<Machine>, machines: &Cache<Machine>, sights: &Sights) {
    let machine = change.latest();
    let name = Name::of(&**machine);
    let marks = |machine: &Machine| (machine.metadata.annotations.clone(), machine.metadata.labels.clone());
    match (&change.before, &change.after) {
        // What is protected or muted is no part of the spec, and neither is the wish for a fresh look.
        (Some(before), Some(after)) if marks(before) != marks(after) => sights.stir(name.clone()),
        // What it takes its values from may have changed while nobody was there to hear of it.
        (None, Some(first)) if !first.spec.sources().is_empty() => sights.stir(name.clone()),
        _ => sights.wake(name.clone()),
    }
    if gives_back(change) {
        wake_held(&machine.spec.environment, machines, |held| sights.wake(held));
    }
    if !is_turning(change) {
        return;
    }
    let dependents = machines.by(&MACHINES_BY_DEPENDENCY, &name.to_string());
    dependents.iter().for_each(|dependent| sights.wake(Name::of(&**dependent)));
    for machine in change.both() {
        let namespace = &name.namespace;
        machine.spec.depends_on.iter().for_each(|other| sights.wake(Name::new(namespace, other)));
        if let Some(id) = &machine.spec.provider_id {
            let rivals = machines.by(&MACHINES_BY_GUEST, &format!("{}/{id}", machine.spec.environment));
            rivals.iter().map(|rival| Name::of(&**rival)).filter(|rival| *rival != name).for_each(|rival| {
                sights.stir(rival);
            });
        }
    }
}

/// Whether others may have waited for it: it came, went, is carried out or not, needs others, or claims another guest.
fn is_turning(change: &Change<Machine>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let stands = |machine: &Machine| {
        let synced = machine.status.as_ref().and_then(|status| condition(status, SYNCED));
        (synced.map(|synced| synced.status), is_settled(machine), machine.metadata.deletion_timestamp.is_some())
    };
    let claims = |machine: &Machine| (machine.spec.depends_on.clone(), machine.spec.provider_id.clone());
    stands(before) != stands(after) || claims(before) != claims(after)
}

/// Whether there is less of a Machine than there was, so that others may have more.
fn gives_back(change: &Change<Machine>) -> bool {
    let (Some(before), after) = (&change.before, &change.after) else { return false };
    let takes = |machine: &Machine| {
        let status = machine.status.as_ref();
        (status.is_some_and(|status| status.run.is_some()), status.and_then(|status| status.hourly_cost))
    };
    let ((was_there, cost_then), (is_there, cost)) = (takes(before), after.as_deref().map(takes).unwrap_or_default());
    after.is_none() || (was_there && !is_there) || cost < cost_then
}

/// Those that a limit of an Environment holds back.
fn wake_held(environment: &str, machines: &Cache<Machine>, wake: impl Fn(Name)) {
    machines.by(&MACHINES_BY_LIMIT, environment).iter().for_each(|held| wake(Name::of(&**held)));
}

/// Its rules are others: what waited may go on. Or there is something else there than there was: what a limit held may.
fn of_environment(change: &Change<Environment>, machines: &Cache<Machine>, queue: &Queue<Name>) {
    let name = change.latest().metadata.name.as_deref().unwrap_or_default();
    if let (Some(before), Some(after)) = (&change.before, &change.after)
        && before.metadata.generation == after.metadata.generation
    {
        let usage = |environment: &Environment| {
            let status = environment.status.as_ref();
            status.map(|status| (status.instances, status.gpus, status.hourly_cost, status.prices.clone()))
        };
        if usage(before) != usage(after) {
            wake_held(name, machines, |held| queue.add(held));
        }
        // Nobody can say any more how they are.
        if not_opened(after).is_some() && not_opened(before) != not_opened(after) {
            let here = machines.by(&MACHINES_BY_ENVIRONMENT, name);
            here.iter().for_each(|machine| queue.add(Name::of(&**machine)));
        }
        return;
    }
    let time = |environment: &Option<Arc<Environment>>| {
        environment.as_ref().map(|it| it.spec.guardrails.as_ref().and_then(|limits| limits.ttl_seconds))
    };
    // Whatever else the rules are, one that is as desired has nothing to ask; looks tell what is there by now.
    let concerns_all = time(&change.before) != time(&change.after);
    let here = machines.by(&MACHINES_BY_ENVIRONMENT, name);
    let concerned = here.iter().filter(|machine| concerns_all || !is_settled(machine));
    concerned.for_each(|machine| queue.add(Name::of(&**machine)));
}

/// Those of whose steps it says something else: people may have decided. Where it came, went or is over, all of them.
fn of_change_set(change: &Change<ChangeSet>, queue: &Queue<Name>) {
    let both = (change.before.as_deref(), change.after.as_deref());
    let (before, after) = (both.0.map(told).unwrap_or_default(), both.1.map(told).unwrap_or_default());
    let is_otherwise = both.0.map(is_open) != both.1.map(is_open);
    let steps = before.keys().chain(after.keys()).filter(|step| is_otherwise || before.get(*step) != after.get(*step));
    let targets: BTreeSet<&Target> = steps.map(|(target, _)| *target).collect();
    // A guest that a Machine has too many is that Machine's.
    let metadata = &change.latest().metadata;
    let owner = controller_of(metadata).filter(|owner| owner.kind == KIND && !targets.is_empty());
    if let (Some(owner), Some(namespace)) = (owner, &metadata.namespace) {
        queue.add(Name::new(namespace, &owner.name));
    }
    for target in targets.into_iter().filter(|target| !target.namespace.is_empty()) {
        queue.add(Name::new(&target.namespace, &target.name));
    }
}

/// What a change set says of each of its steps, by object and digest.
fn told(set: &ChangeSet) -> BTreeMap<(&Target, &str), Option<&StepStatus>> {
    let Some(status) = &set.status else { return BTreeMap::new() };
    let states: BTreeMap<(&str, &str), &StepStatus> =
        status.step_states.iter().map(|state| ((&*state.id, &*state.digest), state)).collect();
    let state = |step: &Step| states.get(&(&*step.id, &*step.digest)).copied();
    status.steps.iter().map(|step| ((&step.target, &*step.digest), state(step))).collect()
}

/// Those that take something from it.
fn of_source(kind: SourceKind, source: &impl Resource<DynamicType = ()>, machines: &Cache<Machine>, sights: &Sights) {
    let Name { namespace, name } = Name::of(source);
    let readers = machines.by(&MACHINES_BY_SOURCE, &source_value(kind, &namespace, &name));
    readers.iter().for_each(|machine| sights.stir(Name::of(&**machine)));
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn machine(spec: Value) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web", "namespace": "default", "resourceVersion": "1"}, "spec": spec,
        }))
        .expect("a Machine")
    }

    fn config_map() -> PartialObjectMeta<ConfigMap> {
        serde_json::from_value(json!({
            "metadata": {"name": "settings", "namespace": "default", "resourceVersion": "2"},
        }))
        .expect("a ConfigMap")
    }

    /// A Machine with a status, by its name.
    fn with_status(name: &str, status: Value) -> Machine {
        let mut machine = machine(json!({"environment": "lab"}));
        machine.metadata.name = Some(name.to_owned());
        machine.status = Some(serde_json::from_value(status).expect("a status"));
        machine
    }

    fn costly(version: u32, hourly_cost: &str) -> Machine {
        let mut machine = with_status("other", json!({"run": "running", "hourlyCost": hourly_cost}));
        machine.metadata.resource_version = Some(version.to_string());
        machine
    }

    fn environment(version: u32, instances: u32) -> Environment {
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment",
            "metadata": {"name": "lab", "generation": 1, "resourceVersion": version.to_string()},
            "spec": {"deployer": {"name": "simulated"}}, "status": {"instances": instances},
        }))
        .expect("an Environment")
    }

    #[test]
    fn what_a_limit_holds_is_woken_when_there_is_less() {
        let held = json!({"conditions": [{"type": "Synced", "status": "False", "reason": "OverLimit"}]});
        type Happens = fn(&Caches);
        let rows: [(&str, Happens, bool); 5] = [
            ("another costs more", |caches| caches.machines.apply(Event::Apply(costly(2, "2"))), false),
            ("another costs less", |caches| caches.machines.apply(Event::Apply(costly(2, "0.5"))), true),
            ("another is gone", |caches| caches.machines.apply(Event::Delete(costly(2, "1"))), true),
            ("a look shows as much", |caches| caches.environments.apply(Event::Apply(environment(2, 1))), false),
            ("a look shows less", |caches| caches.environments.apply(Event::Apply(environment(2, 0))), true),
        ];
        for (name, happens, is_woken) in rows {
            let (caches, sights) = (Caches::default(), Sights::default());
            let queue = Arc::new(Queue::new(crate::queue::Options::default()));
            caches.machines.apply(Event::Apply(with_status("held", held.clone())));
            caches.machines.apply(Event::Apply(costly(1, "1")));
            caches.environments.apply(Event::Apply(environment(1, 1)));
            sights.connect(&queue);
            wire(&caches, &queue, &sights);
            happens(&caches);
            let woken = queue.ready().contains(&Name::new("default", "held"));
            assert_eq!(woken, is_woken, "{name}");
        }
    }

    /// `web`, which needs `db` and claims the guest 101, with something otherwise.
    fn web(version: u32, change: impl FnOnce(&mut Value)) -> Machine {
        let mut web = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {
                "name": "web", "namespace": "default", "generation": 1, "resourceVersion": version.to_string(),
            },
            "spec": {"environment": "lab", "dependsOn": ["db"], "providerId": "101"},
            "status": {"observedGeneration": 1, "conditions": [{"type": "Synced", "status": "True"}]},
        });
        change(&mut web);
        serde_json::from_value(web).expect("a Machine")
    }

    fn of_spec(name: &str, spec: Value) -> Machine {
        let mut machine = machine(spec);
        machine.metadata.name = Some(name.to_owned());
        machine
    }

    #[test]
    fn whoever_may_have_waited_for_a_machine_is_woken_when_it_turns() {
        type Otherwise = fn(&mut Value);
        let rows: [(&str, Otherwise, Otherwise, &[&str]); 7] = [
            ("nothing is otherwise", |_| {}, |_| {}, &[]),
            ("it was looked at", |_| {}, |web| web["status"]["observedAt"] = json!("2026-03-01T12:00:00Z"), &[]),
            (
                "it needs another",
                |_| {},
                |web| web["spec"]["dependsOn"] = json!(["cache"]),
                &["api", "cache", "db", "rival"],
            ),
            ("it needs nothing any more", |_| {}, |web| web["spec"]["dependsOn"] = json!([]), &["api", "db", "rival"]),
            (
                "it leaves its guest to others",
                |_| {},
                |web| web["spec"]["providerId"] = json!(null),
                &["api", "db", "rival"],
            ),
            (
                "what was written is carried out, and needed no step",
                |web| web["metadata"]["generation"] = json!(2),
                |web| {
                    web["metadata"]["generation"] = json!(2);
                    web["status"]["observedGeneration"] = json!(2);
                },
                &["api", "db", "rival"],
            ),
            (
                "it is not as desired any more",
                |_| {},
                |web| web["status"]["conditions"][0]["status"] = json!("False"),
                &["api", "db", "rival"],
            ),
        ];
        for (name, before, after, expected) in rows {
            let (caches, sights) = (Caches::default(), Sights::default());
            let queue = Arc::new(Queue::new(crate::queue::Options::default()));
            caches.machines.apply(Event::Apply(web(1, before)));
            caches.machines.apply(Event::Apply(of_spec("db", json!({"environment": "lab"}))));
            caches.machines.apply(Event::Apply(of_spec("cache", json!({"environment": "lab"}))));
            let needs_web = json!({"environment": "cloud", "dependsOn": ["web"]});
            caches.machines.apply(Event::Apply(of_spec("api", needs_web)));
            let claims_too = json!({"environment": "lab", "providerId": "101"});
            caches.machines.apply(Event::Apply(of_spec("rival", claims_too)));
            sights.connect(&queue);
            wire(&caches, &queue, &sights);
            caches.machines.apply(Event::Apply(web(2, after)));
            let woken = queue.ready();
            let mut woken: Vec<&str> =
                woken.iter().map(|machine| &*machine.name).filter(|name| *name != "web").collect();
            woken.sort_unstable();
            assert_eq!(woken, expected, "{name}");
        }
    }

    /// A change set with a step for each of these Machines, in these states.
    fn change_set(version: u32, phase: &str, states: &[(&str, &str)]) -> ChangeSet {
        let step = |(name, _): &(&str, &str)| {
            json!({
                "id": format!("default/{name}/delete"), "action": "Delete", "digest": format!("sha256:{name}"),
                "target": {"namespace": "default", "name": name, "kind": "Machine"}, "reason": "it goes",
                "origin": "Desired", "class": "Destructive", "classReason": "it holds data",
            })
        };
        let state = |(name, state): &(&str, &str)| {
            json!({
                "id": format!("default/{name}/delete"), "digest": format!("sha256:{name}"), "state": state,
                "since": "2026-03-01T12:00:00Z",
            })
        };
        let (steps, states): (Vec<Value>, Vec<Value>) =
            (states.iter().map(step).collect(), states.iter().map(state).collect());
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": "all", "namespace": "default", "resourceVersion": version.to_string()},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"},
            "status": {"phase": phase, "steps": steps, "stepStates": states},
        }))
        .expect("a change set")
    }

    #[test]
    fn a_change_set_wakes_those_of_whom_it_says_something_else() {
        let first = || change_set(1, "Running", &[("a", "Waiting"), ("b", "Approved")]);
        let rows: [(&str, Event<ChangeSet>, &[&str]); 6] = [
            ("nothing of theirs", Event::Apply(change_set(2, "Running", &[("a", "Waiting"), ("b", "Approved")])), &[]),
            ("one may go on", Event::Apply(change_set(2, "Running", &[("a", "Approved"), ("b", "Approved")])), &["a"]),
            (
                "one is new",
                Event::Apply(change_set(2, "Running", &[("a", "Waiting"), ("b", "Approved"), ("c", "Pending")])),
                &["c"],
            ),
            ("one is not in it any more", Event::Apply(change_set(2, "Running", &[("a", "Waiting")])), &["b"]),
            ("it is over", Event::Apply(change_set(2, "Stale", &[("a", "Waiting"), ("b", "Approved")])), &["a", "b"]),
            ("it is gone", Event::Delete(first()), &["a", "b"]),
        ];
        for (name, event, expected) in rows {
            let (caches, queue) = (Caches::default(), Arc::new(Queue::new(crate::queue::Options::default())));
            caches.change_sets.apply(Event::Apply(first()));
            wire(&caches, &queue, &Sights::default());
            caches.change_sets.apply(event);
            let mut woken: Vec<String> = queue.ready().iter().map(|machine| machine.name.to_string()).collect();
            woken.sort();
            assert_eq!(woken, expected, "{name}");
        }
    }

    #[test]
    fn other_rules_wake_whoever_may_have_waited_for_them() {
        let with = |version: u32, spec: Value| -> Environment {
            let mut environment = environment(version, 1);
            environment.metadata.generation = Some(version.into());
            environment.spec = serde_json::from_value(spec).expect("a spec");
            environment
        };
        let first = json!({"deployer": {"name": "simulated"}});
        let rows = [
            ("other approvals", json!({"deployer": {"name": "simulated"}, "approval": {"rules": []}}), false),
            ("another time", json!({"deployer": {"name": "simulated"}, "guardrails": {"ttlSeconds": 60}}), true),
        ];
        let synced = json!({"conditions": [{"type": "Synced", "status": "True"}], "observedGeneration": null});
        for (name, spec, wakes_all) in rows {
            let (caches, sights) = (Caches::default(), Sights::default());
            let queue = Arc::new(Queue::new(crate::queue::Options::default()));
            caches.machines.apply(Event::Apply(with_status("calm", synced.clone())));
            caches.machines.apply(Event::Apply(with_status("waits", json!({}))));
            caches.environments.apply(Event::Apply(with(1, first.clone())));
            sights.connect(&queue);
            wire(&caches, &queue, &sights);
            caches.environments.apply(Event::Apply(with(2, spec)));
            let woken = queue.ready();
            assert!(woken.contains(&Name::new("default", "waits")), "{name}");
            assert_eq!(woken.contains(&Name::new("default", "calm")), wakes_all, "{name}");
        }
    }

    #[test]
    fn an_environment_that_cannot_be_opened_any_more_wakes_all_who_are_there() {
        let synced = json!({"conditions": [{"type": "Synced", "status": "True"}], "observedGeneration": null});
        let ready = |version: u32, status: &str, reason: &str| {
            let mut environment = environment(version, 1);
            let condition = json!({"type": "Ready", "status": status, "reason": reason, "message": reason});
            let status = environment.status.as_mut().expect("a status");
            status.conditions = vec![serde_json::from_value(condition).expect("a condition")];
            environment
        };
        let rows = [
            ("it answers no more", "False", "Unreachable", false),
            ("its credentials were taken away", "False", "CredentialsMissing", true),
            ("it answers", "True", "Reachable", false),
        ];
        for (name, status, reason, is_woken) in rows {
            let (caches, sights) = (Caches::default(), Sights::default());
            let queue = Arc::new(Queue::new(crate::queue::Options::default()));
            caches.machines.apply(Event::Apply(with_status("calm", synced.clone())));
            caches.environments.apply(Event::Apply(ready(1, "True", "Reachable")));
            sights.connect(&queue);
            wire(&caches, &queue, &sights);
            caches.environments.apply(Event::Apply(ready(2, status, reason)));
            assert_eq!(queue.ready().contains(&Name::new("default", "calm")), is_woken, "{name}");
        }
    }

    /// In whatever order the server tells of them.
    #[test]
    fn what_changed_before_anybody_listened_is_looked_at() {
        let reads = json!({"environment": "lab", "variablesFrom": [{"configMap": "settings"}]});
        let rows = [
            ("the Machine comes first", reads.clone(), true, true),
            ("the ConfigMap comes first", reads, false, true),
            ("it reads nothing", json!({"environment": "lab"}), false, false),
        ];
        for (name, spec, machine_first, is_stirred) in rows {
            let (caches, sights) = (Caches::default(), Sights::default());
            let queue = Arc::new(Queue::new(crate::queue::Options::default()));
            wire(&caches, &queue, &sights);
            if !machine_first {
                caches.config_maps.apply(Event::Apply(config_map()));
            }
            caches.machines.apply(Event::Apply(machine(spec)));
            if machine_first {
                caches.config_maps.apply(Event::Apply(config_map()));
            }
            assert_eq!(sights.stirred(&Name::new("default", "web")).is_some(), is_stirred, "{name}");
        }
    }
}
