//! Garbage collection against a model: random graphs, random deletions, and events that come late.
//!
//! The model has the store's rules alone: what a deletion does, and that a finalizer holds. A look acts at once, because
//! what it reads and what it writes are bound by the object's revision. There are no names: an owner is found by its uid,
//! or is not there.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use proptest::prelude::*;

use super::facts::{Facts, Reference};
use super::graph::{Graph, Key};
use super::verdict::{Owner, Verdict, decide};
use crate::object_meta::{FOREGROUND, ORPHAN};
use crate::query::Propagation;

const HOLD: &str = "example.com/hold";
/// How many of the newest objects anything happens to: few enough that they come to own each other in circles.
const NEWEST: Range<usize> = 0..6;

/// What happens. Objects are named by how many have been made since.
#[derive(Debug, Clone)]
enum Happening {
    /// A new object, with references to objects that were there once; some hold on to life.
    Create {
        owners: Vec<(usize, bool)>,
        held: bool,
    },
    Refer {
        object: usize,
        owners: Vec<(usize, bool)>,
    },
    Delete {
        object: usize,
        policy: Propagation,
    },
    Release {
        object: usize,
    },
    /// The collector hears of some changes.
    Hear {
        changes: usize,
    },
    /// The collector looks at some object that it wants to look at.
    Look {
        which: usize,
    },
    /// The collector starts from nothing.
    Restart,
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let owners = || prop::collection::vec((NEWEST, prop::bool::weighted(0.7)), 0..3);
    let policy = prop_oneof![Just(Propagation::Background), Just(Propagation::Foreground), Just(Propagation::Orphan)];
    let happening = prop_oneof![
        6 => (owners(), prop::bool::weighted(0.15)).prop_map(|(owners, held)| Happening::Create { owners, held }),
        4 => (NEWEST, owners()).prop_map(|(object, owners)| Happening::Refer { object, owners }),
        4 => (NEWEST, policy).prop_map(|(object, policy)| Happening::Delete { object, policy }),
        1 => NEWEST.prop_map(|object| Happening::Release { object }),
        4 => (1..6_usize).prop_map(|changes| Happening::Hear { changes }),
        8 => NEWEST.prop_map(|which| Happening::Look { which }),
        1 => Just(Happening::Restart),
    ];
    prop::collection::vec(happening, 1..80)
}

#[derive(Debug, Default)]
struct World {
    objects: BTreeMap<usize, Facts>,
    /// How many there ever were; the number of an object is its uid.
    created: usize,
    /// What the collector has not heard yet.
    unheard: VecDeque<(usize, Option<Facts>, Option<Facts>)>,
    graph: Graph,
    queue: BTreeSet<usize>,
}

fn key(object: usize) -> Key {
    object.to_string().into()
}

impl World {
    fn put(&mut self, object: usize, facts: Option<Facts>) {
        // What is deleted and held by nothing is gone.
        let facts = facts.filter(|facts| !(facts.is_deleted() && facts.finalizers.is_empty()));
        let before = match &facts {
            Some(facts) => self.objects.insert(object, facts.clone()),
            None => self.objects.remove(&object),
        };
        self.unheard.push_back((object, before, facts));
    }

    fn change(&mut self, object: usize, change: impl FnOnce(&mut Facts)) {
        if let Some(mut facts) = self.objects.get(&object).cloned() {
            change(&mut facts);
            self.put(object, Some(facts));
        }
    }

    fn delete(&mut self, object: usize, policy: Propagation) {
        self.change(object, |facts| {
            facts.finalizers.retain(|finalizer| finalizer != ORPHAN && finalizer != FOREGROUND);
            match policy {
                Propagation::Background => {}
                Propagation::Foreground => facts.finalizers.push(FOREGROUND.into()),
                Propagation::Orphan => facts.finalizers.push(ORPHAN.into()),
            }
            facts.deletion_timestamp = Some("then".into());
        });
    }

    fn release(&mut self, object: usize) {
        self.change(object, |facts| facts.finalizers.retain(|finalizer| finalizer != HOLD));
    }

    /// References to objects that exist or have existed; nobody can know a uid before.
    fn references(&self, owners: &[(usize, bool)]) -> Vec<Reference> {
        let known = owners.iter().filter_map(|(owner, blocks)| Some((self.named(*owner)?, *blocks)));
        known
            .map(|(owner, block_owner_deletion)| Reference {
                uid: owner.to_string(),
                block_owner_deletion,
                ..Reference::default()
            })
            .collect()
    }

    fn named(&self, made_since: usize) -> Option<usize> {
        self.created.checked_sub(made_since + 1)
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Create { owners, held } => {
                let object = self.created;
                let owner_references = self.references(owners);
                self.created += 1;
                let finalizers = if *held { vec![HOLD.to_owned()] } else { Vec::new() };
                let facts = Facts { uid: object.to_string(), owner_references, finalizers, ..Facts::default() };
                self.put(object, Some(facts));
            }
            Happening::Refer { object, owners } => {
                let references = self.references(owners);
                if let Some(object) = self.named(*object) {
                    self.change(object, |facts| facts.owner_references = references);
                }
            }
            Happening::Delete { object, policy } => {
                if let Some(object) = self.named(*object) {
                    self.delete(object, *policy);
                }
            }
            Happening::Release { object } => {
                if let Some(object) = self.named(*object) {
                    self.release(object);
                }
            }
            Happening::Hear { changes } => (0..*changes).for_each(|_| self.hear()),
            Happening::Look { which } => {
                let chosen = self.queue.iter().nth(which % self.queue.len().max(1)).copied();
                chosen.into_iter().for_each(|object| self.look(object));
            }
            Happening::Restart => {
                (self.graph, self.queue) = (Graph::default(), BTreeSet::new());
                self.unheard.clear();
                for (object, facts) in self.objects.clone() {
                    self.note(object, None, Some(&facts));
                }
            }
        }
    }

    fn note(&mut self, object: usize, before: Option<&Facts>, after: Option<&Facts>) {
        let concerned = self.graph.apply(&key(object), before, after);
        self.queue.extend(concerned.iter().map(|key| key.parse::<usize>().expect("a key is a number")));
    }

    fn hear(&mut self) {
        if let Some((object, before, after)) = self.unheard.pop_front() {
            self.note(object, before.as_ref(), after.as_ref());
        }
    }

    /// What is true of an owner, and not what the collector has heard.
    fn owner(&self, reference: &Reference) -> Owner {
        let number = reference.uid.parse::<usize>().expect("a uid is a number");
        let living = self.objects.get(&number);
        assert!(living.is_none() || !self.graph.is_gone(&reference.uid), "{number} is not gone");
        living.map_or(Owner::Absent, |owner| owner.order().map_or(Owner::Alive, Owner::from))
    }

    fn look(&mut self, object: usize) {
        self.queue.remove(&object);
        let Some(facts) = self.objects.get(&object).cloned() else { return };
        let owners: Vec<Owner> = facts.owner_references.iter().map(|reference| self.owner(reference)).collect();
        match decide(&facts, self.graph.standing(&facts.uid), &owners) {
            Verdict::Keep => {}
            Verdict::Wait => panic!("every kind is served"),
            Verdict::RemoveFinalizer(order) => {
                self.check_order(object, &facts);
                self.change(object, |facts| facts.finalizers.retain(|finalizer| finalizer != order.finalizer()));
            }
            Verdict::Unblock => self.change(object, |facts| {
                facts.owner_references.iter_mut().for_each(|reference| reference.block_owner_deletion = false);
            }),
            Verdict::RemoveReferences(positions) => {
                assert!(
                    positions.iter().all(|position| owners[*position] != Owner::Alive),
                    "{object} keeps its owners"
                );
                self.change(object, |facts| {
                    let mut position = 0..;
                    facts.owner_references.retain(|_| !position.next().is_some_and(|at| positions.contains(&at)));
                });
            }
            Verdict::Delete(policy) => {
                assert!(!owners.is_empty() && !owners.contains(&Owner::Alive), "{object} has a living owner");
                assert!(!facts.is_deleted(), "{object} is deleted once");
                self.delete(object, policy);
            }
        }
    }

    /// Whoever waited has nothing to wait for: of what was there when it was deleted, at least.
    fn check_order(&self, object: usize, facts: &Facts) {
        let unheard: BTreeSet<usize> = self.unheard.iter().map(|(object, ..)| *object).collect();
        for (number, dependent) in self.objects.iter().filter(|(number, _)| !unheard.contains(number)) {
            for reference in dependent.owner_references.iter().filter(|reference| reference.uid == facts.uid) {
                let waited_for = facts.has_finalizer(ORPHAN) || reference.block_owner_deletion;
                assert!(!waited_for, "{object} has waited for {number}");
            }
        }
    }

    /// Lets the collector do all it has to do.
    fn settle(&mut self) {
        let mut steps = 0;
        loop {
            while !self.unheard.is_empty() {
                self.hear();
            }
            let Some(next) = self.queue.first().copied() else { return };
            self.look(next);
            steps += 1;
            assert!(steps < 10_000, "it comes to an end");
        }
    }

    /// Everything that is left has a reason to be.
    fn check_settled(&self) {
        for (number, facts) in &self.objects {
            let owners: Vec<Owner> = facts.owner_references.iter().map(|reference| self.owner(reference)).collect();
            if facts.is_deleted() {
                let blocked = facts.order().is_some() && self.waits_for_held(*number, &mut BTreeSet::new());
                assert!(facts.has_finalizer(HOLD) || blocked, "{number} waits for nothing");
            } else {
                assert!(owners.iter().all(|owner| *owner == Owner::Alive), "{number} has no owner");
            }
        }
    }

    /// Whether some object below holds on to life.
    fn waits_for_held(&self, number: usize, seen: &mut BTreeSet<usize>) -> bool {
        let uid = number.to_string();
        let is_below = |object: &Facts| {
            object.owner_references.iter().any(|reference| reference.uid == uid && reference.block_owner_deletion)
        };
        let below: Vec<usize> =
            self.objects.iter().filter(|(_, object)| is_below(object)).map(|(number, _)| *number).collect();
        below.into_iter().any(|below| {
            seen.insert(below) && (self.objects[&below].has_finalizer(HOLD) || self.waits_for_held(below, seen))
        })
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_with_an_owner_is_deleted_and_nothing_without_stays(happenings in happenings()) {
        let mut world = World::default();
        happenings.iter().for_each(|happening| world.happen(happening));
        world.settle();
        world.check_settled();
        // When nothing holds on any more, all that is deleted goes, and the graph with it.
        for object in 0..world.created {
            world.release(object);
        }
        world.settle();
        world.check_settled();
        assert!(world.objects.values().all(|object| !object.is_deleted()));
        for object in 0..world.created {
            world.delete(object, Propagation::Background);
        }
        world.settle();
        assert!(world.objects.is_empty() && world.graph.is_empty(), "{world:?}");
    }
}
