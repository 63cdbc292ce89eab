//! Garbage collection against a model: random graphs, random deletions, and events that come late.
//!
//! The model has the store's rules alone: what a deletion does, and that a finalizer holds. A look acts at once, because
//! what it reads and what it writes are bound by the object's revision. Objects are in one of two namespaces or in none;
//! their references may lie about the kind, and one kind is served only at times. The name of an object is its number, and
//! so is its uid.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Range;

use proptest::prelude::*;

use super::facts::{Facts, Order, Reference};
use super::graph::{Graph, Key};
use super::search::{Kept, Kind, Search, found, search};
use super::verdict::{Owner, Verdict, decide};
use crate::object_meta::{FOREGROUND, ORPHAN};
use crate::query::Propagation;

const HOLD: &str = "example.com/hold";
/// How many of the newest objects anything happens to: few enough that they come to own each other in circles.
const NEWEST: Range<usize> = 0..6;

/// What there is, and what references speak of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Resource {
    /// In no namespace.
    Nodes,
    Maps,
    /// Served at times. Its objects can always be written, as those of a kind in whose other versions they are served.
    Widgets,
    /// Never served.
    Ghosts,
}

impl Resource {
    const ALL: [Resource; 4] = [Resource::Nodes, Resource::Maps, Resource::Widgets, Resource::Ghosts];

    fn of(reference: &Reference) -> Resource {
        let named = |resource: &Resource| format!("{resource:?}") == reference.kind;
        Resource::ALL.into_iter().find(named).expect("references name what there is")
    }

    fn kept(self) -> Kept {
        Kept { directory: format!("/example.com/{self:?}/"), namespaced: self != Resource::Nodes }
    }
}

#[derive(Debug, Clone, Copy)]
struct Place {
    resource: Resource,
    namespace: Option<&'static str>,
}

/// A reference that somebody makes.
#[derive(Debug, Clone)]
struct Claim {
    owner: usize,
    blocks: bool,
    /// What the owner is said to be, if not what it is.
    lie: Option<Resource>,
}

/// What happens. Objects are named by how many have been made since.
#[derive(Debug, Clone)]
enum Happening {
    /// A new object, with references to objects that were there once; some hold on to life.
    Create {
        place: Place,
        owners: Vec<Claim>,
        held: bool,
    },
    Refer {
        object: usize,
        owners: Vec<Claim>,
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
    /// Widgets are served from now on, or no longer.
    Serve {
        widgets: bool,
    },
}

fn happenings() -> impl Strategy<Value = Vec<Happening>> {
    let lie = || prop_oneof![8 => Just(None), 2 => prop::sample::select(&Resource::ALL[..]).prop_map(Some)];
    let claim = || (NEWEST, prop::bool::weighted(0.7), lie());
    let claim = move || claim().prop_map(|(owner, blocks, lie)| Claim { owner, blocks, lie });
    let owners = || prop::collection::vec(claim(), 0..3);
    let place = prop_oneof![
        2 => Just((Resource::Nodes, None)),
        4 => Just((Resource::Maps, Some("here"))),
        1 => Just((Resource::Maps, Some("there"))),
        2 => Just((Resource::Widgets, Some("here"))),
    ];
    let place = place.prop_map(|(resource, namespace)| Place { resource, namespace });
    let policy = prop_oneof![Just(Propagation::Background), Just(Propagation::Foreground), Just(Propagation::Orphan)];
    let happening = prop_oneof![
        6 => (place, owners(), prop::bool::weighted(0.15))
            .prop_map(|(place, owners, held)| Happening::Create { place, owners, held }),
        4 => (NEWEST, owners()).prop_map(|(object, owners)| Happening::Refer { object, owners }),
        4 => (NEWEST, policy).prop_map(|(object, policy)| Happening::Delete { object, policy }),
        1 => NEWEST.prop_map(|object| Happening::Release { object }),
        4 => (1..6_usize).prop_map(|changes| Happening::Hear { changes }),
        8 => NEWEST.prop_map(|which| Happening::Look { which }),
        1 => Just(Happening::Restart),
        2 => prop::bool::ANY.prop_map(|widgets| Happening::Serve { widgets }),
    ];
    prop::collection::vec(happening, 1..80)
}

#[derive(Debug, Default)]
struct World {
    objects: BTreeMap<usize, Facts>,
    /// Where each is that ever was; the number of an object is its uid.
    places: Vec<Place>,
    widgets_served: bool,
    /// Whether the collector knows how widgets are kept.
    widgets_known: bool,
    /// What the collector has not heard yet.
    unheard: VecDeque<(usize, Option<Facts>, Option<Facts>)>,
    graph: Graph,
    queue: BTreeSet<usize>,
    /// What waits for a kind to be served.
    parked: BTreeSet<usize>,
}

/// The number of the object at a key.
fn number(key: &str) -> usize {
    key.rsplit('/').next().and_then(|name| name.parse().ok()).expect("a name is a number")
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
    fn references(&self, owners: &[Claim]) -> Vec<Reference> {
        let known = owners.iter().filter_map(|claim| Some((self.named(claim.owner)?, claim)));
        known
            .map(|(owner, claim)| Reference {
                kind: format!("{:?}", claim.lie.unwrap_or(self.places[owner].resource)),
                name: owner.to_string(),
                uid: owner.to_string(),
                block_owner_deletion: claim.blocks,
                ..Reference::default()
            })
            .collect()
    }

    fn named(&self, made_since: usize) -> Option<usize> {
        self.places.len().checked_sub(made_since + 1)
    }

    fn key(&self, object: usize) -> Key {
        let Place { resource, namespace } = self.places[object];
        resource.kept().key(namespace, &object.to_string()).expect("objects are where they can be")
    }

    fn happen(&mut self, happening: &Happening) {
        match happening {
            Happening::Create { place, owners, held } => {
                let object = self.places.len();
                let owner_references = self.references(owners);
                self.places.push(*place);
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
                (self.graph, self.widgets_known) = (Graph::default(), false);
                self.queue.clear();
                self.parked.clear();
                self.unheard.clear();
                for (object, facts) in self.objects.clone() {
                    self.note(object, None, Some(&facts));
                }
            }
            Happening::Serve { widgets } => {
                self.widgets_served = *widgets;
                if *widgets {
                    self.queue.append(&mut self.parked);
                }
            }
        }
    }

    fn note(&mut self, object: usize, before: Option<&Facts>, after: Option<&Facts>) {
        let mut references = after.into_iter().flat_map(|after| &after.owner_references);
        self.widgets_known |=
            self.widgets_served && references.any(|reference| Resource::of(reference) == Resource::Widgets);
        let concerned = self.graph.apply(&self.key(object), before, after);
        self.queue.extend(concerned.iter().map(|key| number(key)));
    }

    fn hear(&mut self) {
        if let Some((object, before, after)) = self.unheard.pop_front() {
            self.note(object, before.as_ref(), after.as_ref());
        }
    }

    /// What the collector finds out about an owner.
    fn owner(&self, dependent: usize, reference: &Reference) -> Owner {
        let resource = Resource::of(reference);
        let kind = match resource {
            Resource::Nodes | Resource::Maps => Kind::Served(resource.kept()),
            Resource::Widgets if self.widgets_served => Kind::Served(resource.kept()),
            Resource::Widgets if self.widgets_known => Kind::Lapsed(resource.kept()),
            Resource::Widgets | Resource::Ghosts => Kind::Unknown,
        };
        match search(&self.graph, &kind, self.places[dependent].namespace, reference) {
            Search::Over(owner) => owner,
            Search::At(key) => {
                let there = self.objects.get(&number(&key)).filter(|_| self.key(number(&key)) == key);
                found(&self.graph, there, reference)
            }
        }
    }

    fn owners(&self, dependent: usize, facts: &Facts) -> Vec<Owner> {
        facts.owner_references.iter().map(|reference| self.owner(dependent, reference)).collect()
    }

    /// Whether an object can have an owner in this place: it is in the same namespace, or the owner is in none.
    fn is_within_reach(&self, owner: usize, dependent: usize) -> bool {
        let namespace = self.places[owner].namespace;
        namespace.is_none() || namespace == self.places[dependent].namespace
    }

    /// Whether a reference is to an object that is, or was, where it says.
    fn is_true(&self, dependent: usize, reference: &Reference) -> bool {
        let place = self.places[number(&reference.uid)];
        let namespace = place.namespace.or(self.places[dependent].namespace);
        place.resource == Resource::of(reference) && namespace == self.places[dependent].namespace
    }

    /// Whether a reference keeps its holder: its owner lives, or cannot be looked up. This asks nobody but the world.
    fn keeps(&self, dependent: usize, reference: &Reference) -> bool {
        let resource = Resource::of(reference);
        let owner = self.objects.get(&number(&reference.uid)).filter(|_| self.is_true(dependent, reference));
        let is_out_of_reach = resource.kept().namespaced && self.places[dependent].namespace.is_none();
        let is_served = match resource {
            Resource::Nodes | Resource::Maps => true,
            Resource::Widgets => self.widgets_served,
            Resource::Ghosts => false,
        };
        match owner {
            _ if is_out_of_reach => true,
            Some(owner) => !is_served || owner.order() != Some(Order::Foreground),
            // It was there, and may have been seen to go.
            None => !is_served && !self.is_true(dependent, reference),
        }
    }

    fn look(&mut self, object: usize) {
        self.queue.remove(&object);
        let Some(facts) = self.objects.get(&object).cloned() else { return };
        let owners = self.owners(object, &facts);
        match decide(&facts, self.graph.standing(&facts.uid), &owners) {
            Verdict::Keep => {}
            Verdict::Wait => {
                self.parked.insert(object);
            }
            Verdict::RemoveFinalizer(order) => {
                self.check_order(object, &facts);
                self.change(object, |facts| facts.finalizers.retain(|finalizer| finalizer != order.finalizer()));
            }
            Verdict::Unblock => self.change(object, |facts| {
                facts.owner_references.iter_mut().for_each(|reference| reference.block_owner_deletion = false);
            }),
            Verdict::RemoveReferences(positions) => {
                for reference in positions.iter().map(|position| &facts.owner_references[*position]) {
                    let owner = self.objects.get(&number(&reference.uid)).filter(|owner| !owner.is_deleted());
                    let is_needless = owner.is_none() || !self.keeps(object, reference);
                    let is_orphaned = self.graph.orphaning(&reference.uid).is_some();
                    let is_known = is_orphaned || Resource::of(reference) != Resource::Ghosts;
                    assert!(is_needless && is_known, "{object} keeps its owners");
                }
                self.change(object, |facts| {
                    let mut position = 0..;
                    facts.owner_references.retain(|_| !position.next().is_some_and(|at| positions.contains(&at)));
                });
            }
            Verdict::Delete(policy) => {
                let kept_by = facts.owner_references.iter().find(|reference| self.keeps(object, reference));
                assert!(!owners.is_empty() && kept_by.is_none(), "{object} has an owner: {kept_by:?}");
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
                let blocks = reference.block_owner_deletion && self.is_within_reach(object, *number);
                let waited_for = facts.has_finalizer(ORPHAN) || blocks;
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
            let owners = self.owners(*number, facts);
            if facts.is_deleted() {
                let blocked = facts.order().is_some() && self.waits(*number, facts, &mut BTreeSet::new());
                assert!(facts.has_finalizer(HOLD) || blocked, "{number} waits for nothing");
            } else if !owners.iter().any(|owner| is_beyond(*owner)) {
                assert!(owners.iter().all(|owner| *owner == Owner::Alive), "{number} has no owner");
            }
        }
    }

    /// Whether some object below holds on to life, or is kept by an owner that cannot be looked up.
    fn waits(&self, number: usize, facts: &Facts, seen: &mut BTreeSet<usize>) -> bool {
        if !seen.insert(number) {
            return false;
        }
        let waits_for_all = facts.has_finalizer(ORPHAN);
        let is_below = |below: usize, object: &Facts| {
            let mut references = object.owner_references.iter().filter(|reference| reference.uid == number.to_string());
            let may_block = self.is_within_reach(number, below);
            references.any(|reference| waits_for_all || may_block && reference.block_owner_deletion)
        };
        self.objects.iter().filter(|(below, object)| is_below(**below, object)).any(|(below, object)| {
            // One that is deleted goes by itself, but to forget an owner it has to know it.
            let may_stay = waits_for_all || !object.is_deleted();
            let stays = may_stay && self.owners(*below, object).into_iter().any(is_beyond);
            object.has_finalizer(HOLD) || stays || self.waits(*below, object, seen)
        })
    }
}

/// Whether an owner cannot be looked up.
fn is_beyond(owner: Owner) -> bool {
    matches!(owner, Owner::Unserved | Owner::OutOfReach)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, ..ProptestConfig::default() })]

    #[test]
    fn nothing_with_an_owner_is_deleted_and_nothing_without_stays(happenings in happenings()) {
        let mut world = World { widgets_served: true, ..World::default() };
        happenings.iter().for_each(|happening| world.happen(happening));
        world.settle();
        world.check_settled();
        for object in 0..world.places.len() {
            world.release(object);
        }
        world.settle();
        world.check_settled();
        // When nothing holds on any more and nobody claims what cannot be looked up, all that is deleted goes, and the
        // graph with it.
        for object in 0..world.places.len() {
            let (within_reach, facts) = (world.places[object].namespace.is_some(), world.objects.get(&object));
            let facts = facts.cloned().unwrap_or_default();
            let claims = |reference: &Reference| match Resource::of(reference) {
                Resource::Nodes => true,
                Resource::Maps | Resource::Widgets => within_reach,
                Resource::Ghosts => false,
            };
            let references = facts.owner_references.into_iter().filter(claims).collect();
            world.change(object, |facts| facts.owner_references = references);
        }
        world.happen(&Happening::Serve { widgets: true });
        world.settle();
        world.check_settled();
        assert!(world.objects.values().all(|object| !object.is_deleted()));
        for object in 0..world.places.len() {
            world.delete(object, Propagation::Background);
        }
        world.settle();
        assert!(world.objects.is_empty() && world.graph.is_empty(), "{world:?}");
    }
}
