//! The change sets that list steps of one Machine: people are asked about it in one of them at most.
//!
//! A change set may have a thousand steps, and as many of others may list the same Machines: each is read once.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, Mode};
use setpoint_api::machine::Machine;
use setpoint_api::step::Target;
use setpoint_core::authority::{self, Question};
use setpoint_core::gate::Decision;
use setpoint_core::workload::selection::controller_of;

use super::own::{is_approved, is_settled, rejected, used_up};
use super::work::Said;
use crate::runtime::Caches;
use crate::runtime::caches::{CHANGE_SETS_BY_OWNER, CHANGE_SETS_BY_TARGET, target_value};

/// The other change sets in which people could be asked about these Machines where this one does, by uid.
pub(super) fn rivals<'m>(
    caches: &Caches,
    change_set: &ChangeSet,
    machines: impl Iterator<Item = (&'m Target, &'m Machine)>,
) -> BTreeMap<String, Arc<ChangeSet>> {
    let all = machines.flat_map(|(target, machine)| {
        let listed = caches.change_sets.by(&CHANGE_SETS_BY_TARGET, &target_value(target));
        let owned = machine.metadata.uid.as_deref().map(|uid| caches.change_sets.by(&CHANGE_SETS_BY_OWNER, uid));
        listed.into_iter().chain(owned.into_iter().flatten())
    });
    let is_rival = |set: &Arc<ChangeSet>| {
        let (meta, spec) = (&set.metadata, &set.spec);
        meta.uid != change_set.metadata.uid
            && meta.namespace == change_set.metadata.namespace
            && meta.deletion_timestamp.is_none()
            && spec.mode == Mode::Execute
            && spec.environment == change_set.spec.environment
            && !is_settled(set)
    };
    all.filter(is_rival).filter_map(|set| Some((set.metadata.uid.clone()?, set))).collect()
}

/// What people are asked in a change set and in its rivals.
#[derive(Debug)]
pub(super) struct Inquiries<'a> {
    change_set: &'a ChangeSet,
    all: Vec<Inquiry<'a>>,
    /// Those that list steps of a target, and those that were made for an object, by its uid.
    by_target: BTreeMap<&'a Target, Vec<usize>>,
    by_owner: BTreeMap<&'a str, Vec<usize>>,
}

/// A change set, as far as it asks people.
#[derive(Debug)]
struct Inquiry<'a> {
    change_set: &'a ChangeSet,
    said: Said<'a>,
    /// The object that it was made for, by its uid.
    owner: Option<&'a str>,
    is_approved: bool,
    /// The digests of its steps, for which generations of objects these are, those on which nobody can decide any more, and
    /// those that somebody rejected.
    listed: BTreeMap<&'a Target, Vec<&'a str>>,
    generations: BTreeMap<&'a str, i64>,
    used_up: BTreeSet<&'a str>,
    rejected: BTreeSet<&'a str>,
}

impl<'a> Inquiries<'a> {
    /// `targets` are what its steps are for, and `decision` is what is said of the change set by now.
    pub(super) fn of(
        change_set: &'a ChangeSet,
        decision: &'a Decision,
        targets: &BTreeSet<&Target>,
        rivals: &'a BTreeMap<String, Arc<ChangeSet>>,
    ) -> Inquiries<'a> {
        let said = decision.steps.iter().filter(|judged| judged.verdict.is_rejected());
        let rejected_now: BTreeSet<&str> = said.map(|judged| &*judged.digest).collect();
        let is_approved_now = !decision.steps.is_empty() && rejected_now.is_empty() && !decision.waits_for_people();
        let others = rivals.values().map(|set| Inquiry::of(set, targets, is_approved(set), rejected(set)));
        let all: Vec<Inquiry<'_>> =
            others.chain([Inquiry::of(change_set, targets, is_approved_now, rejected_now)]).collect();
        let (mut by_target, mut by_owner): (BTreeMap<_, Vec<usize>>, BTreeMap<_, Vec<usize>>) = Default::default();
        for (place, inquiry) in all.iter().enumerate() {
            inquiry.listed.keys().for_each(|target| by_target.entry(*target).or_default().push(place));
            inquiry.owner.into_iter().for_each(|owner| by_owner.entry(owner).or_default().push(place));
        }
        Inquiries { change_set, all, by_target, by_owner }
    }

    /// Why people are not asked about a Machine in the change set, if they are not, given what the Machine wants as far as
    /// that is known.
    pub(super) fn outdated(
        &self,
        target: &Target,
        machine: &Machine,
        wanted: Option<&BTreeSet<&str>>,
    ) -> Option<String> {
        let owner = machine.metadata.uid.as_deref().unwrap_or_default();
        let places = self.by_target.get(target).into_iter().chain(self.by_owner.get(owner)).flatten();
        let places: BTreeSet<usize> = places.copied().collect();
        let questions: Vec<Question<'_>> =
            places.into_iter().filter_map(|place| self.all[place].question(target, machine)).collect();
        let outdated = authority::outdated(&questions, wanted);
        outdated.get(self.change_set.metadata.uid.as_deref()?).map(ToString::to_string)
    }
}

impl<'a> Inquiry<'a> {
    fn of(
        change_set: &'a ChangeSet,
        targets: &BTreeSet<&Target>,
        is_approved: bool,
        rejected: BTreeSet<&'a str>,
    ) -> Inquiry<'a> {
        let mut listed: BTreeMap<&Target, Vec<&str>> = BTreeMap::new();
        for step in change_set.status.iter().flat_map(|status| &status.steps) {
            listed.entry(&step.target).or_default().push(&step.digest);
        }
        Inquiry {
            change_set,
            said: Said::by(change_set, targets),
            owner: controller_of(&change_set.metadata).map(|owner| owner.uid.as_str()),
            is_approved,
            listed,
            generations: change_set.status.as_ref().map(ChangeSetStatus::generations).unwrap_or_default(),
            used_up: used_up(change_set),
            rejected,
        }
    }

    /// What it asks about a Machine, or about a guest that the Machine has too many.
    fn question(&self, target: &Target, machine: &Machine) -> Option<Question<'a>> {
        let meta = &self.change_set.metadata;
        let is_own = self.owner.is_some() && self.owner == machine.metadata.uid.as_deref();
        let listed = self.listed.get(target).map_or(&[][..], Vec::as_slice);
        // What was asked before the Machine was written again may not be on record as void yet.
        let version = self.said.version(target, machine);
        let is_past = |digest: &str| version.is_some_and(|now| now.is_past(self.generations.get(digest).copied()));
        let is_open = |digest: &str| !self.used_up.contains(digest) && !is_past(digest);
        Some(Question {
            uid: meta.uid.as_deref()?,
            name: meta.name.as_deref()?,
            created_at: meta.creation_timestamp.as_ref().map_or(Timestamp::MAX, |time| time.0),
            is_own,
            is_approved: self.is_approved,
            is_written: self.said.is_written(target, machine),
            open: listed.iter().copied().filter(|digest| is_open(digest)).collect(),
            rejected: listed.iter().copied().filter(|digest| self.rejected.contains(digest)).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use kube::runtime::watcher::Event;
    use serde_json::{Value, json};
    use setpoint_api::change_set::StepState;
    use setpoint_api::environment::Environment;
    use setpoint_api::step::Step;
    use setpoint_core::plan::GUEST;

    use super::super::Case;
    use super::super::work::{Objects, asked_generations};
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
            "generation": 3,
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
            "status": {
                "steps": [step], "stepStates": [state], "digest": "sha256:all", "phase": "Waiting",
                "objectGeneration": if brings.is_none() { json!(3) } else { json!(null) },
            },
        }))
        .expect("a change set")
    }

    /// The same where nobody is waited for.
    fn approved(mut set: ChangeSet) -> ChangeSet {
        let conditions = json!([{"type": "Approved", "status": "True"}]);
        set.status.as_mut().expect("a status").conditions = serde_json::from_value(conditions).expect("conditions");
        set
    }

    #[test]
    fn of_all_change_sets_about_a_machine_one_asks() {
        let waits = || json!({});
        let of = |generation: i64| json!({"generation": generation});
        let was_written = |generation: i64| json!({"object": "db", "generation": generation});
        let three = || {
            vec![
                set("1", 1, "a", Some("db:2"), was_written(1)),
                set("2", 2, "b", Some("db:3"), was_written(2)),
                set("3", 3, "a", Some("db:2"), was_written(3)),
            ]
        };
        type Row = (&'static str, Machine, Vec<ChangeSet>, &'static [&'static str]);
        let rows: [Row; 9] = [
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
                vec![set("own", 1, "c", None, waits()), set("next", 2, "d", Some("db:5"), of(4))],
                &["own", "next"],
            ),
            (
                "the controller's own are as many as there were occasions",
                machine("db:4", Some(&["c"])),
                vec![set("old", 1, "c", None, waits()), set("own", 2, "c", None, waits())],
                &["own"],
            ),
            (
                "what was approved before it was written again has no say, though nobody wrote that down yet",
                machine("db:4", Some(&["c"])),
                vec![approved(set("old", 1, "c", None, of(2))), set("own", 2, "c", None, waits())],
                &["own"],
            ),
            (
                "nor has what was approved for a later write of one that was made anew",
                machine("db:4", Some(&["c"])),
                vec![approved(set("old", 1, "c", Some("db:4"), of(7))), set("own", 2, "c", None, waits())],
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
    fn a_guest_too_many_takes_nothing_from_what_a_user_asks() {
        let guest = Target { namespace: String::new(), name: "sim-9".to_owned(), kind: GUEST.to_owned() };
        let users = set("users", 2, "a", Some("db:2"), json!({}));
        let mut own = set("own", 3, "a", None, json!({}));
        let status = own.status.as_mut().expect("a status");
        let surplus = Step { target: guest, id: "g".to_owned(), digest: "g".to_owned(), ..status.steps[0].clone() };
        status.steps.push(surplus);
        let caches = Caches::default();
        [&approved(users.clone()), &own].iter().for_each(|set| caches.change_sets.apply(Event::Apply((*set).clone())));
        caches.machines.apply(Event::Apply(machine("db:2", Some(&["a", "g"]))));
        let nothing = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
        let objects = Objects::of(&caches, &own, &nothing, &lab());
        let known = objects.known();
        let works = known.iter().map(|(target, wants)| (*target, objects.work(target, wants))).collect();
        let progress = authority::progress(&own, &nothing, &works, None, NOW);
        let states: Vec<StepState> = progress.step_states.iter().map(|step| step.state).collect();
        assert_eq!(states, [StepState::Stale, StepState::Pending], "only the guest is asked about here");
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
    fn a_rejection_is_needed_until_it_is_known_that_nobody_wants_the_step() {
        let unseen = |machine: Machine| {
            let mut machine = machine;
            machine.metadata.generation = Some(4);
            machine
        };
        let rows = [
            ("it is wanted", Some(machine("db:2", Some(&["a"]))), true),
            ("it was written otherwise and wants it all the same", Some(machine("db:3", Some(&["a"]))), true),
            ("nobody has looked since it was written", Some(unseen(machine("db:3", Some(&["b"])))), true),
            ("nobody knows what it wants", Some(machine("db:2", None)), true),
            ("something else is wanted", Some(machine("db:3", Some(&["b"]))), false),
            ("it is gone", None, false),
        ];
        let nothing = Decision { steps: Vec::new(), reviews: Vec::new(), approved_until: None };
        for (name, machine, expected) in rows {
            let (caches, set) = (Caches::default(), set("1", 1, "a", Some("db:2"), json!({"state": "Failed"})));
            machine.into_iter().for_each(|machine| caches.machines.apply(Event::Apply(machine)));
            let step = &set.status.as_ref().expect("a status").steps[0];
            assert_eq!(Objects::of(&caches, &set, &nothing, &lab()).may_want(step), expected, "{name}");
        }
    }

    #[test]
    fn what_is_asked_is_of_one_write_from_the_beginning() {
        let rows = [
            ("it is not there yet", None, Some(1)),
            ("it is as the change set says", Some(machine("db:2", None)), Some(3)),
            ("it will be with the next write", Some(machine("db:1", None)), Some(4)),
        ];
        for (name, machine, expected) in rows {
            let (caches, set) = (Caches::default(), set("1", 1, "a", Some("db:2"), json!({})));
            machine.into_iter().for_each(|machine| caches.machines.apply(Event::Apply(machine)));
            let steps = &set.status.as_ref().expect("a status").steps;
            assert_eq!(asked_generations(&caches, &set, steps), [expected], "{name}");
        }
    }

    #[test]
    fn nobody_is_asked_where_a_step_is_stale() {
        let set_of = |generation: i64| Arc::new(set("1", 1, "a", Some("db:2"), json!({"generation": generation})));
        for (name, image, generation, is_asked) in [
            ("as it is", "db:2", 3, true),
            ("as it was before", "db:2", 2, false),
            ("as it might be", "db:2", 4, false),
            ("it is otherwise", "db:3", 3, false),
        ] {
            let case = Case::of(&Caches::default(), set_of(generation));
            assert_eq!(case.asked_by_users(&machine(image, None)).contains("a"), is_asked, "{name}");
        }
        for (state, asked) in [("Waiting", &["a"][..]), ("Stale", &[]), ("Done", &[])] {
            let set = set("1", 1, "a", Some("db:2"), json!({"state": state}));
            let case = Case::of(&Caches::default(), Arc::new(set));
            assert_eq!(case.asked_by_users(&machine("db:2", None)), asked.iter().copied().collect(), "{state}");
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
