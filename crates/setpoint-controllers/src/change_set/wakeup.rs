//! Whom a change concerns: the change set itself, and those whose people, objects or rules changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::requester::requested_by;
use setpoint_core::authority::Subject;
use setpoint_core::stricter::rules;

use crate::environment::status::READY;
use crate::queue::Queue;
use crate::runtime::caches::{
    CHANGE_SETS_BY_ENVIRONMENT, CHANGE_SETS_BY_LIMIT, CHANGE_SETS_BY_OBJECT, CHANGE_SETS_BY_STEP,
};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>) {
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.change_sets.listen(move |change| {
        own.add(Name::of(&**change.latest()));
        for other in listing_the_same(change, &sets) {
            own.add(Name::of(&*other));
        }
    });
    let own = queue.clone();
    caches.reviews.listen(move |change| {
        let review = change.latest();
        own.add(Name::new(review.metadata.namespace.as_deref().unwrap_or_default(), &review.spec.gate));
    });
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.gates.listen(move |change| {
        let name = Name::of(&**change.latest());
        if sets.get(&name).is_some() {
            own.add(name);
        }
    });
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.machines.listen(move |change| of_machine(change, &sets).iter().for_each(|set| own.add(Name::of(&**set))));
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.environments.listen(move |change| {
        concerned(change, &sets).iter().for_each(|set| own.add(Name::of(&**set)));
    });
}

/// Those with the same steps, where entries of a change set opened or closed: of two that ask the same, the older counts.
fn listing_the_same(change: &Change<ChangeSet>, sets: &Cache<ChangeSet>) -> Vec<Arc<ChangeSet>> {
    let open = |set: Option<&ChangeSet>| -> BTreeSet<String> {
        let entries = set.and_then(|set| set.status.as_ref()).map_or(&[][..], |status| &status.entries);
        entries.iter().filter(|entry| !entry.state.is_closed()).map(|entry| entry.digest.clone()).collect()
    };
    let (before, after) = (open(change.before.as_deref()), open(change.after.as_deref()));
    let changed = before.symmetric_difference(&after);
    let listing = changed.flat_map(|digest| sets.by(&CHANGE_SETS_BY_STEP, digest));
    listing.filter(|set| set.metadata.uid != change.latest().metadata.uid).collect()
}

/// Those with open entries for a Machine and those that list what waits for it, where something that counts is otherwise.
fn of_machine(change: &Change<Machine>, sets: &Cache<ChangeSet>) -> Vec<Arc<ChangeSet>> {
    let counts = |machine: &Machine| {
        let status = machine.status.clone().unwrap_or_default();
        let planned = (status.observed_generation, status.pending, status.intents, status.done);
        (machine.metadata.generation, requested_by(&machine.metadata).to_owned(), planned)
    };
    let [before, after] = [&change.before, &change.after].map(|machine| machine.as_deref().map(counts));
    if before == after {
        return Vec::new();
    }
    let machine = change.latest();
    let owned = machine.metadata.uid.as_deref().map(|uid| sets.by(&CHANGE_SETS_BY_OBJECT, uid));
    owned.into_iter().flatten().chain(listing(&Subject::of_machine(machine), sets)).collect()
}

/// The change sets that list what an object wants.
fn listing(subject: &Subject<'_>, sets: &Cache<ChangeSet>) -> Vec<Arc<ChangeSet>> {
    let steps = subject.pending.map_or(&[][..], |pending| &pending.steps);
    steps.iter().flat_map(|step| sets.by(&CHANGE_SETS_BY_STEP, &step.digest)).collect()
}

/// The change sets that a change of their Environment concerns: all of them where its rules are others, those that a limit
/// holds where something else counts against it, and those about steps of its own where these changed.
fn concerned(change: &Change<Environment>, sets: &Cache<ChangeSet>) -> Vec<Arc<ChangeSet>> {
    let name = change.latest().metadata.name.as_deref().unwrap_or_default();
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return sets.by(&CHANGE_SETS_BY_ENVIRONMENT, name);
    };
    // What could not be planned while it was not open can be now.
    let judged_by = |environment: &Environment| {
        let conditions = environment.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let ready = conditions.iter().find(|condition| condition.type_ == READY).map(|ready| ready.status);
        let rules = rules(environment);
        let own = environment.status.as_ref().map(|status| (status.pending.clone(), status.done.clone()));
        (rules.approval.clone(), rules.guardrails.clone(), rules.windows.clone(), ready, own)
    };
    if judged_by(before) != judged_by(after) {
        let here = sets.by(&CHANGE_SETS_BY_ENVIRONMENT, name).into_iter();
        return here.filter(|set| set.spec.mode == Mode::Preview || !is_over(set)).collect();
    }
    let counted = |environment: &Environment| {
        let status = environment.status.as_ref();
        status.map(|status| (status.instances, status.gpus, status.hourly_cost, status.ledger.clone()))
    };
    let held = if counted(before) != counted(after) { sets.by(&CHANGE_SETS_BY_LIMIT, name) } else { Vec::new() };
    let own = |environment: &Environment| {
        environment.status.as_ref().map(|status| (status.pending.clone(), status.done.clone()))
    };
    if own(before) == own(after) {
        return held;
    }
    let owned = after.metadata.uid.as_deref().map(|uid| sets.by(&CHANGE_SETS_BY_OBJECT, uid));
    let listed = listing(&Subject::of_environment(after), sets);
    owned.into_iter().flatten().chain(listed).chain(held).collect()
}

/// Whether all entries of a change set are closed: nothing that happens changes that.
pub(super) fn is_over(set: &ChangeSet) -> bool {
    let entries = set.status.as_ref().map_or(&[][..], |status| &status.entries);
    !entries.is_empty() && entries.iter().all(|entry| entry.state.is_closed())
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};

    use super::*;

    fn step(digest: &str) -> Value {
        json!({
            "id": digest, "target": {"namespace": "shop", "name": "web", "kind": "Machine"}, "action": "Delete",
            "reason": "r", "origin": "Desired", "class": "Destructive", "classReason": "data", "digest": digest,
        })
    }

    fn set(name: &str, digest: &str, state: &str, object: &str, conditions: Value) -> ChangeSet {
        let entry = json!({"digest": digest, "state": state, "since": "2026-11-15T12:00:00Z", "object": object});
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": name, "namespace": "shop", "uid": name, "resourceVersion": "1"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol", "steps": [step(digest)]},
            "status": {"entries": [entry], "conditions": conditions},
        }))
        .expect("a change set")
    }

    fn caches() -> Caches {
        let caches = Caches::default();
        let held = json!([{"type": "WithinLimits", "status": "False", "reason": "HeldBack"}]);
        for set in [
            set("asks", "a", "Waiting", "web", json!([])),
            set("closed", "b", "Done", "web", json!([])),
            set("held", "c", "Blocked", "db", held),
            set("orphan", "d", "Waiting", "lab", json!([])),
        ] {
            caches.change_sets.apply(Event::Apply(set));
        }
        caches
    }

    fn names(sets: Vec<Arc<ChangeSet>>) -> BTreeSet<String> {
        sets.iter().filter_map(|set| set.metadata.name.clone()).collect()
    }

    #[test]
    fn a_change_of_an_environment_concerns_few_change_sets() {
        let environment = |spec: Value, status: Value| -> Arc<Environment> {
            let mut environment = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab", "uid": "lab"},
                "spec": {"deployer": {"name": "simulated"}}, "status": status,
            });
            environment["spec"].as_object_mut().expect("a spec").extend(spec.as_object().expect("a spec").clone());
            Arc::new(serde_json::from_value(environment).expect("an Environment"))
        };
        let old = || environment(json!({}), json!({"instances": 3}));
        let pending =
            json!({"generation": 1, "observedAt": "2026-11-15T12:00:00Z", "certainty": "Known", "steps": [step("d")]});
        let open: &[&str] = &["asks", "held", "orphan"];
        let rows: [(&str, Arc<Environment>, &[&str]); 5] = [
            ("it was looked at", environment(json!({}), json!({"instances": 3, "drifted": 1})), &[]),
            ("there is another guest", environment(json!({}), json!({"instances": 4})), &["held"]),
            ("a step of its own", environment(json!({}), json!({"instances": 3, "pending": pending})), &["orphan"]),
            ("other limits", environment(json!({"guardrails": {"maxGpus": 1}}), json!({"instances": 3})), open),
            ("another policy", environment(json!({"approval": {"rules": []}}), json!({"instances": 3})), open),
        ];
        for (name, new, expected) in rows {
            let change = Change { before: Some(old()), after: Some(new) };
            let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(names(concerned(&change, &caches().change_sets)), expected, "{name}");
        }
    }

    #[test]
    fn a_machine_concerns_the_change_sets_that_ask_about_it() {
        let machine = |generation: i64, status: Value| -> Arc<Machine> {
            Arc::new(
                serde_json::from_value(json!({
                    "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
                    "metadata": {"name": "web", "namespace": "shop", "uid": "web", "generation": generation},
                    "spec": {"environment": "lab"}, "status": status,
                }))
                .expect("a Machine"),
            )
        };
        let pending =
            json!({"generation": 1, "observedAt": "2026-11-15T12:00:00Z", "certainty": "Known", "steps": [step("c")]});
        let rows: [(&str, Arc<Machine>, &[&str]); 3] = [
            ("it was looked at", machine(1, json!({"run": "running"})), &[]),
            ("it was written", machine(2, json!({})), &["asks"]),
            ("it wants what another lists", machine(1, json!({"pending": pending})), &["asks", "held"]),
        ];
        for (name, new, expected) in rows {
            let change = Change { before: Some(machine(1, json!({}))), after: Some(new) };
            let expected: BTreeSet<String> = expected.iter().map(|name| (*name).to_owned()).collect();
            assert_eq!(names(of_machine(&change, &caches().change_sets)), expected, "{name}");
        }
    }
}
