//! The change sets that list steps of one Machine: people are asked about it in one of them at most.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, Mode};
use setpoint_api::machine::Machine;
use setpoint_api::step::Target;
use setpoint_core::authority::{self, Question};
use setpoint_core::gate::Decision;
use setpoint_core::workload::selection::controller_of;

use super::own::{is_approved, rejected, used_up};
use super::work::is_written;
use crate::runtime::Caches;
use crate::runtime::caches::{CHANGE_SETS_BY_OWNER, CHANGE_SETS_BY_TARGET, target_value};

/// Why people are not asked about a Machine in a change set, if they are not, given what the Machine wants as far as that is
/// known. `decision` is what is said of the change set by now.
pub(super) fn outdated(
    caches: &Caches,
    change_set: &ChangeSet,
    decision: &Decision,
    target: &Target,
    machine: &Machine,
    wanted: Option<&BTreeSet<&str>>,
) -> Option<String> {
    let uid = change_set.metadata.uid.as_deref()?;
    let sets = rivals(caches, change_set, target, machine);
    let on_record = |set| Verdicts { is_approved: is_approved(set), rejected: rejected(set) };
    let others = sets.iter().filter_map(|set| question(set, target, machine, on_record(set)));
    let mut questions: Vec<Question<'_>> = others.collect();
    questions.extend(question(change_set, target, machine, Verdicts::by(decision)));
    let outdated = authority::outdated(&questions, wanted);
    outdated.get(uid).map(ToString::to_string)
}

/// The other change sets in which people could be asked about a Machine where this one does.
fn rivals(caches: &Caches, change_set: &ChangeSet, target: &Target, machine: &Machine) -> Vec<Arc<ChangeSet>> {
    let listed = caches.change_sets.by(&CHANGE_SETS_BY_TARGET, &target_value(target));
    let owned = machine.metadata.uid.as_deref().map(|uid| caches.change_sets.by(&CHANGE_SETS_BY_OWNER, uid));
    let all = listed.into_iter().chain(owned.into_iter().flatten());
    let is_rival = |set: &Arc<ChangeSet>| {
        let (meta, spec) = (&set.metadata, &set.spec);
        meta.uid != change_set.metadata.uid
            && meta.namespace == change_set.metadata.namespace
            && meta.deletion_timestamp.is_none()
            && spec.mode == Mode::Execute
            && spec.environment == change_set.spec.environment
    };
    let rivals: BTreeMap<Option<String>, Arc<ChangeSet>> =
        all.filter(is_rival).map(|set| (set.metadata.uid.clone(), set)).collect();
    rivals.into_values().collect()
}

/// What people said in a change set.
struct Verdicts<'a> {
    is_approved: bool,
    rejected: BTreeSet<&'a str>,
}

impl<'a> Verdicts<'a> {
    fn by(decision: &'a Decision) -> Verdicts<'a> {
        let rejected = decision.steps.iter().filter(|judged| judged.verdict.is_rejected());
        let rejected: BTreeSet<&str> = rejected.map(|judged| &*judged.digest).collect();
        let is_judged = !decision.steps.is_empty();
        Verdicts { is_approved: is_judged && rejected.is_empty() && !decision.waits_for_people(), rejected }
    }
}

fn question<'a>(
    set: &'a ChangeSet,
    target: &Target,
    machine: &Machine,
    verdicts: Verdicts<'a>,
) -> Option<Question<'a>> {
    let meta = &set.metadata;
    let used_up = used_up(set);
    let steps = set.status.iter().flat_map(|status| &status.steps);
    let own = controller_of(meta).filter(|owner| Some(&owner.uid) == machine.metadata.uid.as_ref());
    // What its controller asks about a Machine is also about guests that it has too many.
    let listed = steps.filter(|step| own.is_some() || step.target == *target).map(|step| step.digest.as_str());
    Some(Question {
        uid: meta.uid.as_deref()?,
        name: meta.name.as_deref()?,
        created_at: meta.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0),
        is_own: own.is_some(),
        is_approved: verdicts.is_approved,
        is_written: is_written(set, target, machine),
        open: listed.filter(|digest| !used_up.contains(digest)).collect(),
        rejected: verdicts.rejected,
    })
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use setpoint_api::change_set::StepState;
    use setpoint_api::environment::Environment;
    use setpoint_core::plan::GUEST;

    use super::super::Case;
    use super::super::work::Objects;
    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_794_744_000, 0);

    /// A Machine with this image that waits and wants these steps.
    fn machine(image: &str, wanted: Option<&[&str]>) -> Machine {
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "db", "namespace": "shop", "uid": "db", "generation": 3, "resourceVersion": "1"},
            "spec": {"environment": "lab", "image": image},
            "status": {"observedGeneration": 3, "wanted": wanted, "conditions": [{"type": "Synced", "status": "False"}]},
        }))
        .expect("a Machine")
    }

    /// A change set that was made in this minute and lists one step; a user's brings the Machine along with an image.
    fn set(name: &str, minute: u32, digest: &str, brings: Option<&str>, more: Value) -> ChangeSet {
        let owner = json!({"apiVersion": "a/v1", "kind": "Machine", "name": "db", "uid": "db", "controller": true});
        let object = brings.map(|image| {
            json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine", "metadata": {"name": "db"},
                "spec": {"environment": "lab", "image": image},
            })
        });
        let step = json!({
            "id": "shop/db/replace", "target": {"namespace": "shop", "name": "db", "kind": "Machine"},
            "action": "Replace", "reason": "another image", "origin": "Desired", "class": "Destructive",
            "classReason": "its data would be lost", "digest": digest,
        });
        let mut state = json!({
            "id": "shop/db/replace", "digest": digest, "state": "Waiting", "since": "2026-11-15T12:00:00Z",
        });
        state.as_object_mut().expect("a state").extend(more.as_object().expect("more").clone());
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
            "metadata": {
                "name": name, "namespace": "shop", "uid": name, "resourceVersion": "1",
                "creationTimestamp": format!("2026-11-15T12:{minute:02}:00Z"),
                "ownerReferences": if brings.is_none() { json!([owner]) } else { json!([]) },
            },
            "spec": {
                "environment": "lab", "mode": "Execute", "requestedBy": "carol",
                "objects": object.into_iter().collect::<Vec<_>>(),
            },
            "status": {"steps": [step], "stepStates": [state], "digest": "sha256:all", "phase": "Waiting"},
        }))
        .expect("a change set")
    }

    #[test]
    fn of_all_change_sets_about_a_machine_one_asks() {
        let waits = || json!({});
        let was_written = |generation: i64| json!({"object": "db", "generation": generation});
        let three = || {
            vec![
                set("1", 1, "a", Some("db:2"), was_written(1)),
                set("2", 2, "b", Some("db:3"), was_written(2)),
                set("3", 3, "a", Some("db:2"), was_written(3)),
            ]
        };
        type Row = (&'static str, Machine, Vec<ChangeSet>, &'static [&'static str]);
        let rows: [Row; 7] = [
            ("back to what was asked for first", machine("db:2", Some(&["a"])), three(), &["3"]),
            ("what is wanted is not known", machine("db:2", None), three(), &["3"]),
            (
                "the controller asks for what was written without a word",
                machine("db:4", Some(&["c"])),
                [three(), vec![set("own", 4, "c", None, waits())]].concat(),
                &["own"],
            ),
            (
                "what is yet to be written can be decided on before",
                machine("db:4", Some(&["c"])),
                vec![set("own", 1, "c", None, waits()), set("next", 2, "d", Some("db:5"), waits())],
                &["own", "next"],
            ),
            (
                "the controller's own are as many as there were occasions",
                machine("db:4", Some(&["c"])),
                vec![set("old", 1, "c", None, waits()), set("own", 2, "c", None, waits())],
                &["own"],
            ),
            (
                "it was done in one",
                machine("db:4", Some(&["c"])),
                vec![set("old", 1, "c", None, json!({"state": "Done"})), set("new", 2, "c", Some("db:4"), waits())],
                &["new"],
            ),
            (
                "what was rejected in one is asked anew in none",
                machine("db:4", Some(&["c"])),
                vec![set("no", 1, "c", Some("db:4"), json!({"state": "Failed"})), set("own", 2, "c", None, waits())],
                &[],
            ),
        ];
        for (name, machine, sets, asking) in rows {
            let caches = Caches::default();
            sets.iter().for_each(|set| caches.change_sets.apply(Event::Apply(set.clone())));
            caches.machines.apply(Event::Apply(machine.clone()));
            let nothing = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
            let asks = |set: &&ChangeSet| {
                let objects = Objects::of(&caches, set, &nothing, &lab());
                let known = objects.known();
                let works = known.iter().map(|(target, wants)| (*target, objects.work(target, wants))).collect();
                let progress = authority::progress(set, &nothing, &works, None, NOW);
                progress.step_states[0].state == StepState::Pending
            };
            let found: Vec<&str> = sets.iter().filter(asks).filter_map(|set| set.metadata.name.as_deref()).collect();
            assert_eq!(found, asking, "{name}");
        }
    }

    #[test]
    fn a_guest_that_a_machine_has_too_many_is_asked_about_for_that_machine() {
        let guest = Target { namespace: String::new(), name: "sim-9".to_owned(), kind: GUEST.to_owned() };
        let mut set = set("own", 1, "c", None, json!({}));
        set.status.as_mut().expect("a status").steps[0].target = guest.clone();
        let caches = Caches::default();
        caches.change_sets.apply(Event::Apply(set.clone()));
        caches.machines.apply(Event::Apply(machine("db:4", Some(&["c"]))));
        let nothing = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
        let objects = Objects::of(&caches, &set, &nothing, &lab());
        assert_eq!(objects.known(), [(&guest, Some(BTreeSet::from(["c"])))]);
        assert_eq!(objects.work(&guest, &None).outdated, None);
        caches.machines.apply(Event::Delete(machine("db:4", None)));
        assert_eq!(Objects::of(&caches, &set, &nothing, &lab()).known(), [], "it is nobody's any more");
    }

    #[test]
    fn what_was_written_and_is_gone_was_not_forgotten() {
        let rows = [
            ("it waits to be written", json!({}), true),
            ("it was written, and is something else or gone by now", json!({"object": "db"}), false),
            ("it was done", json!({"state": "Done"}), false),
        ];
        let nothing = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
        for (name, state, is_unwritten) in rows {
            let set = set("1", 1, "a", Some("db:2"), state);
            assert_eq!(Objects::of(&Caches::default(), &set, &nothing, &lab()).is_unwritten(), is_unwritten, "{name}");
        }
    }

    #[test]
    fn nobody_is_asked_where_a_step_is_stale() {
        for (state, asked) in [("Waiting", &["a"][..]), ("Stale", &[]), ("Done", &[])] {
            let set = set("1", 1, "a", Some("db:2"), json!({"state": state}));
            let case = Case::of(&Caches::default(), Arc::new(set));
            assert_eq!(case.asked_by_users("lab"), asked.iter().copied().collect(), "{state}");
        }
    }

    fn lab() -> Environment {
        serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": "simulated"}},
        }))
        .expect("an Environment")
    }
}
