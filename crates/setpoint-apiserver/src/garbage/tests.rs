//! Tables over the graph and the verdict.

use super::facts::{Facts, Order, Reference};
use super::graph::{Graph, Key, Standing, Wait};
use super::search::{self, Kept, Kind, Search};
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
    assert_eq!(decide(&object, Standing::default(), &[Unserved]), Wait, "and perhaps its owner lets it go");
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
    assert!(!told.0.is_gone("top", "/top"), "it may be there");
    assert_eq!(told.change(Some(&facts("top", &[])), None), ["/a"]);
    assert!(told.0.is_gone("top", "/top") && !told.0.is_gone("other", "/other"));
    assert!(!told.0.is_gone("top", "/other"), "it went from elsewhere");
    told.change(Some(&facts("a", &["top", "other"])), Some(&facts("a", &["other"])));
    assert!(!told.0.is_gone("top", "/top"), "nobody asks any more");
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
fn only_who_can_be_owned_holds_up_a_deletion() {
    let rows = [
        ("one in its namespace", "/core/secrets/here/x", "/core/configmaps/here/x", true),
        ("one in another namespace", "/core/secrets/here/x", "/core/configmaps/there/x", false),
        ("one in no namespace", "/core/secrets/here/x", "/core/nodes/x", false),
        ("one in a namespace, of an owner in none", "/core/nodes/x", "/core/configmaps/here/x", true),
        ("one in no namespace, of an owner in none", "/core/nodes/x", "/core/persistentvolumes/x", true),
    ];
    for (row, owner, dependent, waits) in rows {
        let (owner, dependent): (Key, Key) = (owner.into(), dependent.into());
        let (order, blocking) = (deleted(facts("owner", &[]), FOREGROUND), facts("dependent", &["owner!"]));
        let expected = if waits { Wait::On } else { Wait::Over(Order::Foreground) };

        let mut graph = Graph::default();
        graph.apply(&dependent, None, Some(&blocking));
        graph.apply(&owner, None, Some(&order));
        assert_eq!(graph.standing("owner").wait, Some(expected), "{row}");

        let mut graph = Graph::default();
        graph.apply(&owner, None, Some(&order));
        graph.apply(&dependent, None, Some(&blocking));
        assert_eq!(graph.standing("owner").wait, Some(expected), "{row}, which comes later");

        let concerned = graph.apply(&dependent, Some(&blocking), None);
        assert_eq!(graph.standing("owner").wait, Some(Wait::Over(Order::Foreground)), "{row}, which goes");
        assert_eq!(concerned, [owner], "{row}");
    }
}

#[test]
fn a_circle_goes_through_those_that_can_be_owned() {
    let waiting = |uid: &str, owner: &str| deleted(facts(uid, &[owner]), FOREGROUND);
    for (row, other, expected) in [
        ("in one namespace", "/core/configmaps/here/b", Wait::Circular),
        ("across two", "/core/configmaps/there/b", Wait::Over(Order::Foreground)),
    ] {
        let mut graph = Graph::default();
        graph.apply(&"/core/configmaps/here/a".into(), None, Some(&waiting("a", "b!")));
        graph.apply(&other.into(), None, Some(&waiting("b", "a!")));
        assert_eq!(graph.standing("a").wait, Some(expected), "{row}");
    }
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

#[test]
fn a_search_ends_where_the_reference_leads_and_not_where_its_uid_is() {
    let kept = |directory: &str, namespaced| Kept { directory: directory.into(), namespaced };
    let maps = || kept("/core/configmaps/", true);
    let nodes = || kept("/core/nodes/", false);
    let mut graph = Graph::default();
    let mut note =
        |key: &str, before: Option<&Facts>, after: Option<&Facts>| drop(graph.apply(&key.into(), before, after));
    note("/core/secrets/here/a", None, Some(&facts("a", &["gone", "letting-go", "there"])));
    note("/core/configmaps/here/x", Some(&facts("gone", &[])), None);
    note("/core/configmaps/here/x", None, Some(&deleted(facts("letting-go", &[]), ORPHAN)));

    let at = |key: &str| Search::At(key.into());
    let over = Search::Over;
    let rows = [
        ("in the dependent's namespace", Kind::Served(maps()), Some("here"), "there", at("/core/configmaps/here/x")),
        ("in no namespace", Kind::Served(nodes()), Some("here"), "there", at("/core/nodes/x")),
        ("of a dependent in none", Kind::Served(nodes()), None, "there", at("/core/nodes/x")),
        ("it can never be looked up", Kind::Served(maps()), None, "there", over(Owner::OutOfReach)),
        ("nobody knows the kind", Kind::Unknown, Some("here"), "there", over(Owner::Unserved)),
        ("the kind was known once", Kind::Lapsed(maps()), Some("here"), "there", over(Owner::Unserved)),
        ("it went", Kind::Served(maps()), Some("here"), "gone", over(Owner::Absent)),
        ("it went with its kind", Kind::Lapsed(maps()), Some("here"), "gone", over(Owner::Absent)),
        ("what went was of another kind", Kind::Lapsed(nodes()), Some("here"), "gone", over(Owner::Unserved)),
        ("what went was of a known kind", Kind::Unknown, Some("here"), "gone", over(Owner::Unserved)),
        ("what went was elsewhere", Kind::Lapsed(maps()), Some("there"), "gone", over(Owner::Unserved)),
        ("what went was out of reach", Kind::Served(maps()), None, "gone", over(Owner::OutOfReach)),
        ("it lets go", Kind::Served(maps()), Some("here"), "letting-go", over(Owner::Orphaning)),
        ("also of those out of its reach", Kind::Served(maps()), None, "letting-go", over(Owner::Orphaning)),
        (
            "also of those of a kind that nobody knows",
            Kind::Unknown,
            Some("here"),
            "letting-go",
            over(Owner::Orphaning),
        ),
        ("or that is no longer known", Kind::Lapsed(nodes()), Some("here"), "letting-go", over(Owner::Orphaning)),
        ("another lets go", Kind::Served(nodes()), Some("here"), "letting-go", at("/core/nodes/x")),
    ];
    for (row, kind, namespace, uid, expected) in rows {
        let reference = Reference { name: "x".into(), uid: uid.into(), ..Reference::default() };
        assert_eq!(search::search(&graph, &kind, namespace, &reference), expected, "{row}");
    }
    let reference = Reference { name: "y".into(), uid: "gone".into(), ..Reference::default() };
    let found = search::search(&graph, &Kind::Lapsed(maps()), Some("here"), &reference);
    assert_eq!(found, over(Owner::Unserved), "what went had another name");
    for (uid, expected) in [("there", Owner::Absent), ("letting-go", Owner::Orphaning)] {
        let reference = Reference { uid: uid.into(), ..Reference::default() };
        assert_eq!(search::found(&graph, None, &reference), expected, "nobody is there, and {uid} is elsewhere");
    }
}

#[test]
fn whether_an_owner_is_elsewhere_is_found_out_once_until_it_goes() {
    let mut told = Told::default();
    told.add("a", &["top"]);
    let answer = told.0.elsewhere("top", "/core/configmaps/x");
    answer.set(true).expect("nobody has answered yet");
    assert_eq!(told.0.elsewhere("top", "/core/configmaps/x").get(), Some(&true), "all dependents share it");
    assert_eq!(told.0.elsewhere("top", "/core/configmaps/y").get(), None, "another name is another question");
    told.change(Some(&facts("top", &[])), None);
    assert_eq!(told.0.elsewhere("top", "/core/configmaps/x").get(), None, "it went");
}
