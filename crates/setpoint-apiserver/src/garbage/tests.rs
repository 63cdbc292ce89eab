//! Tables over the graph and the verdict.

use super::facts::{Facts, Order, Reference};
use super::graph::{Graph, Key, Standing, Wait};
use super::verdict::{Owner, Verdict, decide};
use crate::object_meta::{FOREGROUND, ORPHAN};
use crate::query::Propagation;

fn facts(uid: &str, owners: &[&str]) -> Facts {
    Facts { uid: uid.into(), owner_references: owners.iter().map(|uid| reference(uid)).collect(), ..Facts::default() }
}

/// A reference to an owner; it blocks if the uid ends in an exclamation mark.
fn reference(uid: &str) -> Reference {
    let (uid, block_owner_deletion) = uid.strip_suffix('!').map_or((uid, false), |uid| (uid, true));
    Reference { uid: uid.into(), block_owner_deletion, ..Reference::default() }
}

fn deleted(mut facts: Facts, finalizer: &str) -> Facts {
    facts.deletion_timestamp = Some("2030-01-01T00:00:00Z".into());
    facts.finalizers = vec![finalizer.into()];
    facts
}

#[test]
fn a_verdict_follows_from_what_is_known_of_the_owners() {
    use Owner::{Absent, Alive, DeletingDependents, Orphaning, OutOfReach, Unserved};
    use Propagation::{Background, Foreground, Orphan};
    use Verdict::{Delete, Keep, RemoveReferences, Wait};
    let rows: &[(&str, &[Owner], Verdict)] = &[
        ("nobody owns it", &[], Keep),
        ("its owner is there", &[Alive], Keep),
        ("its owner is not", &[Absent], Delete(Background)),
        ("none of its owners is", &[Absent, Absent], Delete(Background)),
        ("one of them is", &[Absent, Alive, Absent], RemoveReferences(vec![0, 2])),
        ("one is of a kind that is not served", &[Absent, Unserved], Wait),
        ("even beside one that is there", &[Alive, Absent, Unserved], Wait),
        ("one can never be looked up", &[Absent, OutOfReach], Keep),
        ("its owner waits for it", &[DeletingDependents], Delete(Background)),
        ("one waits and another is gone", &[DeletingDependents, Absent], Delete(Background)),
        ("one waits and another keeps it", &[DeletingDependents, Alive], RemoveReferences(vec![0])),
        ("its owner lets it go", &[Orphaning], RemoveReferences(vec![0])),
        ("one lets it go and another is gone", &[Absent, Orphaning], RemoveReferences(vec![1])),
        ("one lets it go and another is not served", &[Orphaning, Unserved], RemoveReferences(vec![0])),
    ];
    for (row, owners, expected) in rows {
        assert_eq!(decide(&facts("a", &[]), Standing::default(), owners), *expected, "{row}");
    }
    let owning = Standing { has_dependents: true, wait: None };
    assert_eq!(decide(&facts("a", &[]), owning, &[DeletingDependents]), Delete(Foreground), "it has dependents itself");
    assert_eq!(decide(&facts("a", &[]), owning, &[Absent]), Delete(Background), "but nobody waits");
    for (finalizer, expected) in [(ORPHAN, Orphan), (FOREGROUND, Foreground), ("example.com/x", Background)] {
        let object = Facts { finalizers: vec![finalizer.into()], ..facts("a", &[]) };
        assert_eq!(decide(&object, Standing::default(), &[Absent]), Delete(expected), "it has {finalizer}");
    }
    let object = deleted(facts("a", &["b"]), "example.com/x");
    assert_eq!(decide(&object, Standing::default(), &[Absent]), Keep, "it is deleted already");
    assert_eq!(decide(&object, Standing::default(), &[Orphaning]), RemoveReferences(vec![0]), "but still let go");
}

#[test]
fn an_order_is_over_when_nothing_is_left_to_wait_for() {
    let wait = |wait| Standing { has_dependents: false, wait: Some(wait) };
    for order in [Order::Foreground, Order::Orphan] {
        let object = deleted(facts("a", &["b!"]), order.finalizer());
        let alive = [Owner::Alive];
        assert_eq!(decide(&object, wait(Wait::Over(order)), &alive), Verdict::RemoveFinalizer(order));
        assert_eq!(decide(&object, wait(Wait::On), &alive), Verdict::Keep);
        assert_eq!(decide(&object, wait(Wait::Circular), &alive), Verdict::Unblock);
        let done = facts("a", &["b"]);
        assert_eq!(decide(&done, wait(Wait::Over(order)), &alive), Verdict::Keep, "somebody has done it");
    }
}

/// A graph that is told of changes by short names: `/x` is the key of the object with the uid `x`.
#[derive(Default)]
struct Told(Graph);

impl Told {
    fn change(&mut self, before: Option<&Facts>, after: Option<&Facts>) -> Vec<String> {
        let uid = &before.or(after).expect("a change of something").uid;
        let key: Key = format!("/{uid}").into();
        let mut concerned: Vec<String> = self.0.apply(&key, before, after).iter().map(ToString::to_string).collect();
        concerned.sort();
        concerned
    }

    fn add(&mut self, uid: &str, owners: &[&str]) -> Vec<String> {
        self.change(None, Some(&facts(uid, owners)))
    }
}

#[test]
fn a_change_concerns_whom_it_may_matter_to() {
    let nobody = Vec::<String>::new();
    let mut told = Told::default();
    assert_eq!(told.add("top", &[]), nobody, "an object without owners");
    assert_eq!(told.add("a", &["top!"]), ["/a"], "a new reference is looked at");
    assert_eq!(told.add("b", &["top"]), ["/b"]);
    assert_eq!(told.change(Some(&facts("a", &["top!"])), Some(&facts("a", &["top!"]))), nobody, "the same references");

    let marked = deleted(facts("top", &[]), FOREGROUND);
    assert_eq!(told.change(Some(&facts("top", &[])), Some(&marked)), ["/a", "/b", "/top"], "an order concerns all");
    assert_eq!(told.0.standing("top"), Standing { has_dependents: true, wait: Some(Wait::On) });
    assert_eq!(told.change(Some(&facts("b", &["top"])), None), nobody, "one that is not waited for");
    assert_eq!(told.change(Some(&facts("a", &["top!"])), None), ["/top"], "the last that is waited for");
    assert_eq!(told.0.standing("top"), Standing { has_dependents: false, wait: Some(Wait::Over(Order::Foreground)) });
    assert_eq!(told.change(Some(&marked), None), nobody);
    assert!(told.0.is_empty(), "{:?}", told.0);
}

#[test]
fn an_owner_that_goes_concerns_its_dependents_and_is_remembered_for_them() {
    let mut told = Told::default();
    told.add("a", &["top", "other"]);
    assert!(!told.0.is_gone("top"), "it may be there");
    assert_eq!(told.change(Some(&facts("top", &[])), None), ["/a"]);
    assert!(told.0.is_gone("top") && !told.0.is_gone("other"));
    told.change(Some(&facts("a", &["top", "other"])), Some(&facts("a", &["other"])));
    assert!(!told.0.is_gone("top"), "nobody asks any more");
    told.change(Some(&facts("a", &["other"])), Some(&facts("a", &[])));
    assert!(told.0.is_empty(), "{:?}", told.0);
}

#[test]
fn who_ceases_to_block_ends_a_wait() {
    let mut told = Told::default();
    told.add("a", &["top!"]);
    told.change(None, Some(&deleted(facts("top", &[]), FOREGROUND)));
    assert_eq!(told.change(Some(&facts("a", &["top!"])), Some(&facts("a", &["top"]))), ["/a", "/top"]);
    assert_eq!(told.0.standing("top").wait, Some(Wait::Over(Order::Foreground)));

    let mut told = Told::default();
    told.add("a", &["top"]);
    told.change(None, Some(&deleted(facts("top", &[]), ORPHAN)));
    assert_eq!(told.0.standing("top").wait, Some(Wait::On), "an orphaning owner waits for all");
    assert_eq!(told.change(Some(&facts("a", &["top"])), Some(&facts("a", &[]))), ["/top"]);
    assert_eq!(told.0.standing("top").wait, Some(Wait::Over(Order::Orphan)));
}

#[test]
fn a_wait_for_itself_is_told_from_a_long_chain() {
    let waiting = |uid: &str, owners: &[&str]| deleted(facts(uid, owners), FOREGROUND);
    let mut told = Told::default();
    told.change(None, Some(&waiting("a", &[])));
    told.change(None, Some(&waiting("b", &["a!"])));
    told.change(None, Some(&waiting("c", &["b!"])));
    told.add("d", &["c!"]);
    for uid in ["a", "b", "c"] {
        assert_eq!(told.0.standing(uid).wait, Some(Wait::On), "{uid} of a chain");
    }
    told.change(Some(&waiting("a", &[])), Some(&waiting("a", &["c!"])));
    for uid in ["a", "b", "c"] {
        assert_eq!(told.0.standing(uid).wait, Some(Wait::Circular), "{uid} of a circle");
    }
    told.change(Some(&waiting("b", &["a!"])), Some(&waiting("b", &["a"])));
    assert_eq!(told.0.standing("a").wait, Some(Wait::Over(Order::Foreground)), "the circle is open");
}
