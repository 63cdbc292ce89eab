//! Whom a change concerns: the change set itself, and those whose people, objects or rules changed.

use std::collections::BTreeSet;
use std::sync::Arc;

use setpoint_api::change_set::ChangeSet;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::requester::requested_by;
use setpoint_api::step::Target;
use setpoint_core::machine::{SYNCED, condition, target};
use setpoint_core::plan::GUEST;

use super::own::{is_approved, is_settled, rejected, used_up};
use crate::environment::status::READY;
use crate::queue::Queue;
use crate::runtime::caches::{
    CHANGE_SETS_BY_ENVIRONMENT, CHANGE_SETS_BY_LIMIT, CHANGE_SETS_BY_OWNER, CHANGE_SETS_BY_TARGET, limited,
    target_value,
};
use crate::runtime::{Cache, Caches, Change, Name};

pub(super) fn wire(caches: &Caches, queue: &Arc<Queue<Name>>) {
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.change_sets.listen(move |change| {
        own.add(Name::of(&**change.latest()));
        rivals(change, &sets).iter().for_each(|set| own.add(Name::of(&**set)));
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
    caches.machines.listen(move |change| {
        if !concerns_change_sets(change) {
            return;
        }
        let machine = change.latest();
        let listed = sets.by(&CHANGE_SETS_BY_TARGET, &target_value(&target(&machine.metadata)));
        let owned = machine.metadata.uid.as_deref().map(|uid| sets.by(&CHANGE_SETS_BY_OWNER, uid));
        for set in listed.into_iter().chain(owned.into_iter().flatten()).filter(|set| !is_settled(set)) {
            own.add(Name::of(&*set));
        }
    });
    let (own, sets) = (queue.clone(), caches.change_sets.clone());
    caches.environments.listen(move |change| {
        concerned(change, &sets).iter().for_each(|set| own.add(Name::of(&**set)));
    });
}

/// Those that list steps of the same objects, where a change set asks about something else than it did: people are asked in
/// one of them.
fn rivals(change: &Change<ChangeSet>, sets: &Cache<ChangeSet>) -> Vec<Arc<ChangeSet>> {
    let (before, after) = (change.before.as_deref().map(asks), change.after.as_deref().map(asks));
    let (before, after) = (before.unwrap_or_default(), after.unwrap_or_default());
    let changed: BTreeSet<&Target> = before.symmetric_difference(&after).map(|(target, ..)| *target).collect();
    let uid = &change.latest().metadata.uid;
    let of_same = changed.iter().flat_map(|target| sets.by(&CHANGE_SETS_BY_TARGET, &target_value(target)));
    of_same.filter(|set| set.metadata.uid != *uid && !is_settled(set)).collect()
}

/// What people are asked in a change set: the steps that it lists, of each whether nobody can decide on it any more and
/// whether it was rejected, and whether nobody is waited for.
fn asks(set: &ChangeSet) -> BTreeSet<(&Target, &str, bool, bool, bool)> {
    let Some(status) = set.status.as_ref().filter(|_| set.metadata.deletion_timestamp.is_none()) else {
        return BTreeSet::new();
    };
    let (used_up, rejected, is_approved) = (used_up(set), rejected(set), is_approved(set));
    let asks = status.steps.iter().map(|step| {
        let digest = step.digest.as_str();
        (&step.target, digest, used_up.contains(digest), rejected.contains(digest), is_approved)
    });
    asks.collect()
}

/// Whether a Machine was written, something was begun or done for it, or a limit holds it or no longer does.
fn concerns_change_sets(change: &Change<Machine>) -> bool {
    let (Some(before), Some(after)) = (&change.before, &change.after) else { return true };
    let what_counts = |machine: &Machine| {
        let (metadata, status) = (&machine.metadata, machine.status.as_ref());
        let synced = status.and_then(|status| Some(condition(status, SYNCED)?.status));
        let calls = status.map(|status| (status.intents.clone(), status.done.clone(), status.observed_generation));
        let wanted = status.and_then(|status| status.wanted.clone());
        let (uid, requester) = (metadata.uid.clone(), requested_by(metadata).to_owned());
        let is_limited = !limited(machine).is_empty();
        let asked = (metadata.generation, metadata.deletion_timestamp.is_some(), wanted);
        (uid, requester, asked, synced, is_limited, calls)
    };
    what_counts(before) != what_counts(after)
}

/// The change sets that a change of their Environment concerns: all of them where its rules are others, those that a limit
/// holds where something else counts against it, and those about guests that became orphans or are none any more.
fn concerned(change: &Change<Environment>, sets: &Cache<ChangeSet>) -> Vec<Arc<ChangeSet>> {
    let name = change.latest().metadata.name.as_deref().unwrap_or_default();
    let (Some(before), Some(after)) = (&change.before, &change.after) else {
        return sets.by(&CHANGE_SETS_BY_ENVIRONMENT, name);
    };
    // What could not be planned while it was not open can be now.
    let rules = |environment: &Environment| {
        let conditions = environment.status.as_ref().map_or(&[][..], |status| &status.conditions);
        let ready = conditions.iter().find(|condition| condition.type_ == READY).map(|ready| ready.status);
        (environment.spec.approval.clone(), environment.spec.guardrails.clone(), ready)
    };
    if rules(before) != rules(after) {
        return sets.by(&CHANGE_SETS_BY_ENVIRONMENT, name);
    }
    let counted = |environment: &Environment| {
        let status = environment.status.as_ref();
        status.map(|status| (status.instances, status.gpus, status.hourly_cost, status.ledger.clone()))
    };
    let held = if counted(before) != counted(after) { sets.by(&CHANGE_SETS_BY_LIMIT, name) } else { Vec::new() };
    let (gone, new) = (orphans(before), orphans(after));
    let turned = gone.symmetric_difference(&new).map(|id| {
        let guest = Target { namespace: String::new(), name: (*id).to_owned(), kind: GUEST.to_owned() };
        sets.by(&CHANGE_SETS_BY_TARGET, &target_value(&guest))
    });
    turned.flatten().filter(|set| set.spec.environment == name).chain(held).collect()
}

/// The guests that belong to nothing, by id.
fn orphans(environment: &Environment) -> BTreeSet<&str> {
    let listed = environment.status.iter().flat_map(|status| &status.orphans);
    listed.map(|orphan| orphan.provider_id.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use setpoint_api::change_set::Phase;

    use super::*;

    fn environment(spec: Value, status: Value) -> Arc<Environment> {
        let mut environment = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": "simulated"}}, "status": status,
        });
        environment["spec"].as_object_mut().expect("a spec").extend(spec.as_object().expect("a spec").clone());
        Arc::new(serde_json::from_value(environment).expect("an Environment"))
    }

    fn change_set(name: &str, environment: &str, status: Value) -> ChangeSet {
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {"name": name, "namespace": "shop", "resourceVersion": "1"},
            "spec": {"environment": environment, "mode": "Execute", "requestedBy": "carol"}, "status": status,
        }))
        .expect("a change set")
    }

    #[test]
    fn a_change_of_an_environment_concerns_few_change_sets() {
        let sets = Caches::default().change_sets;
        let removal = json!({
            "id": "7/delete", "target": {"namespace": "", "name": "7", "kind": "Guest"}, "action": "Delete",
            "providerId": "7", "reason": "it belongs to nothing", "origin": "Unrecorded", "class": "Destructive",
            "classReason": "it may hold data", "digest": "sha256:a",
        });
        let held = json!({"conditions": [{"type": "WithinLimits", "status": "False", "reason": "HeldBack"}]});
        let free = json!({"conditions": [{"type": "WithinLimits", "status": "True", "reason": "WithinLimits"}]});
        sets.apply(Event::Apply(change_set("asks", "lab", json!({}))));
        sets.apply(Event::Apply(change_set("free", "lab", free)));
        sets.apply(Event::Apply(change_set("held", "lab", held)));
        sets.apply(Event::Apply(change_set("orphan", "lab", json!({"steps": [removal]}))));
        sets.apply(Event::Apply(change_set("elsewhere", "other", json!({"steps": [removal]}))));
        let old = || environment(json!({}), json!({"instances": 3}));
        let orphan = json!({"providerId": "7", "since": "2026-03-01T12:00:00Z"});
        let entry = json!({
            "time": "2026-03-01T12:00:00Z", "target": {"namespace": "shop", "name": "web", "kind": "Machine"},
            "digest": "sha256:b", "destroyed": true,
        });
        let all = ["asks", "free", "held", "orphan"];
        let rows: [(&str, Arc<Environment>, &[&str]); 7] = [
            ("it was looked at", environment(json!({}), json!({"instances": 3, "drifted": 1})), &[]),
            ("there is another guest", environment(json!({}), json!({"instances": 4})), &["held"]),
            ("something was done", environment(json!({}), json!({"instances": 3, "ledger": [entry]})), &["held"]),
            ("an orphan was found", environment(json!({}), json!({"instances": 3, "orphans": [orphan]})), &["orphan"]),
            ("other limits", environment(json!({"guardrails": {"maxGpus": 1}}), json!({"instances": 3})), &all),
            ("another policy", environment(json!({"approval": {"rules": []}}), json!({"instances": 3})), &all),
            (
                "it is reachable",
                environment(json!({}), json!({"instances": 3, "conditions": [{"type": "Ready", "status": "True"}]})),
                &all,
            ),
        ];
        for (name, new, expected) in rows {
            let change = Change { before: Some(old()), after: Some(new) };
            let woken: Vec<String> =
                concerned(&change, &sets).iter().filter_map(|set| set.metadata.name.clone()).collect();
            assert_eq!(woken, expected, "{name}");
        }
    }

    fn listing(name: &str, version: u32, digest: &str, state: &str) -> ChangeSet {
        let step = json!({
            "id": "shop/db/replace", "target": {"namespace": "shop", "name": "db", "kind": "Machine"},
            "action": "Replace", "reason": "another image", "origin": "Desired", "class": "Destructive",
            "classReason": "its data would be lost", "digest": digest,
        });
        let state = json!({
            "id": "shop/db/replace", "digest": digest, "state": state, "since": "2026-11-15T12:00:00Z",
        });
        let mut set = change_set(name, "lab", json!({"steps": [step], "stepStates": [state]}));
        (set.metadata.uid, set.metadata.resource_version) = (Some(name.to_owned()), Some(version.to_string()));
        set
    }

    #[test]
    fn a_change_set_that_asks_about_something_else_concerns_those_about_the_same_object() {
        let rows = [
            ("it says the same", Event::Apply(listing("one", 2, "a", "Waiting")), false),
            ("it was approved", Event::Apply(listing("one", 2, "a", "Approved")), false),
            ("it asks about another step", Event::Apply(listing("one", 2, "b", "Waiting")), true),
            ("it was rejected", Event::Apply(listing("one", 2, "a", "Failed")), true),
            ("it was done", Event::Apply(listing("one", 2, "a", "Done")), true),
            ("it is gone", Event::Delete(listing("one", 1, "a", "Waiting")), true),
        ];
        for (name, event, is_woken) in rows {
            let (caches, queue) = (Caches::default(), Arc::new(Queue::new(crate::queue::Options::default())));
            caches.change_sets.apply(Event::Apply(listing("one", 1, "a", "Waiting")));
            caches.change_sets.apply(Event::Apply(listing("other", 1, "a", "Stale")));
            let mut settled = listing("settled", 1, "a", "Done");
            settled.status.as_mut().expect("a status").phase = Some(Phase::Succeeded);
            caches.change_sets.apply(Event::Apply(settled));
            wire(&caches, &queue);
            caches.change_sets.apply(event);
            assert_eq!(queue.ready().contains(&Name::new("shop", "other")), is_woken, "{name}");
            assert!(!queue.ready().contains(&Name::new("shop", "settled")), "{name}");
        }
    }
}
