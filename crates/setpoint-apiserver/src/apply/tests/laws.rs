//! What holds of every configuration, by whomever.

use proptest::prelude::*;

use super::*;
use crate::apply::{Path, PathElement};

fn element() -> impl Strategy<Value = PathElement> {
    prop_oneof![
        "[a-c]".prop_map(|name| PathElement::field(&name)),
        ("[ab]", 0..3).prop_map(|(name, value)| PathElement::key(vec![(name.into(), json!(value))])),
        prop_oneof![(0..3).prop_map(Value::from), "[a-b\"]".prop_map(Value::from)].prop_map(PathElement::Value),
        (0..3i64).prop_map(PathElement::Index),
    ]
}

fn paths() -> impl Strategy<Value = Vec<Path>> {
    prop::collection::vec(prop::collection::vec(element(), 1..4), 0..8)
}

fn sets() -> impl Strategy<Value = FieldSet> {
    paths().prop_map(|paths| paths.into_iter().collect())
}

/// Configurations of a Deployment's Pods that use maps, sets, lists by key and whole values.
fn config(prefix: &'static str) -> impl Strategy<Value = Value> {
    let name = move || prop::sample::select(vec!["a", "b", "c"]).prop_map(move |name| format!("{prefix}{name}"));
    let value = || prop::sample::select(vec!["1", "2"]);
    let entries = move || prop::collection::btree_map(name(), value(), 0..3);
    // An empty map is a value, which two may not apply without meeting; so what is empty is left out.
    let container = (entries(), prop::option::of(value())).prop_map(|(env, image)| {
        let env: Vec<Value> = env.into_iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
        let mut container = json!({});
        if !env.is_empty() {
            container["env"] = env.into();
        }
        if let Some(image) = image {
            container["image"] = image.into();
        }
        container
    });
    let containers = prop::collection::btree_map(name(), container, 0..3).prop_map(|containers| {
        let named = containers.into_iter().map(|(name, mut container)| {
            container["name"] = name.into();
            container
        });
        Value::Array(named.collect())
    });
    let finalizers = prop::collection::btree_set(name(), 0..3);
    (entries(), finalizers, containers, any::<bool>()).prop_map(|(labels, finalizers, containers, with_spec)| {
        let mut config = json!({"metadata": {"finalizers": finalizers}});
        if !labels.is_empty() {
            config["metadata"]["labels"] = json!(labels);
        }
        if with_spec && containers != json!([]) {
            config["spec"] = json!({"containers": containers});
        }
        config
    })
}

proptest! {
    #[test]
    fn a_set_reads_as_it_is_written(set in sets()) {
        let text = serde_json::to_string(&set).expect("a set is JSON");
        let read: FieldSet = serde_json::from_str(&text).expect("what was written can be read");
        prop_assert_eq!(&read, &set);
        prop_assert_eq!(serde_json::to_string(&read).expect("a set is JSON"), text);
        prop_assert_eq!(set.paths().into_iter().collect::<FieldSet>(), set);
    }

    #[test]
    fn sets_obey_the_laws_of_sets(a in sets(), b in sets()) {
        let union = a.clone().union(b.clone());
        let common = a.intersection(&b);
        prop_assert_eq!(&union, &b.clone().union(a.clone()));
        prop_assert_eq!(&common, &b.intersection(&a));
        prop_assert_eq!(&a.clone().union(a.clone()), &a);
        prop_assert_eq!(&a.clone().difference(&b).union(common.clone()), &a);
        prop_assert!(a.clone().difference(&b).intersection(&b).is_empty());
        prop_assert!(a.clone().difference(&a).is_empty());
        for path in a.paths() {
            prop_assert!(union.has(&path));
            prop_assert_eq!(common.has(&path), b.has(&path));
        }
        for path in a.clone().recursive_difference(&b).paths() {
            prop_assert!((1..=path.len()).all(|end| !b.has(&path[..end])));
        }
        prop_assert!(a.leaves().difference(&a).is_empty());
    }

    #[test]
    fn applying_twice_is_applying_once(first in config("x"), second in config("x")) {
        let mut world = World::new("core.v1.Pod");
        world.apply("one", first).apply("one", second.clone());
        let before = (world.object.clone(), world.managers.text());
        world.apply("one", second);
        prop_assert_eq!((world.object.clone(), world.managers.text()), before);
    }

    #[test]
    fn an_applier_gets_what_it_applies_and_leaves_nothing_else(first in config("x"), second in config("x")) {
        let mut changed = World::new("core.v1.Pod");
        changed.apply("one", first).apply("one", second.clone());
        let mut fresh = World::new("core.v1.Pod");
        fresh.apply("one", second);
        prop_assert_eq!(changed.owned(), fresh.owned());
        prop_assert_eq!(sorted(&changed.object), sorted(&fresh.object));
    }

    #[test]
    fn disjoint_appliers_commute(one in config("x"), two in config("y")) {
        let (mut a, mut b) = (World::new("core.v1.Pod"), World::new("core.v1.Pod"));
        a.apply("one", one.clone()).apply("two", two.clone());
        b.apply("two", two).apply("one", one);
        prop_assert_eq!(a.owned(), b.owned());
        prop_assert_eq!(sorted(&a.object), sorted(&b.object));
    }

    #[test]
    fn force_always_gets_through_and_then_owns_it(one in config("x"), two in config("x")) {
        let mut world = World::new("core.v1.Pod");
        world.apply("one", one).force("two", two.clone());
        let before = (world.object.clone(), world.managers.text());
        world.apply("two", two);
        prop_assert_eq!((world.object.clone(), world.managers.text()), before);
    }

    #[test]
    fn an_update_leaves_no_field_without_an_owner(one in config("x"), two in config("x")) {
        let mut world = World::new("core.v1.Pod");
        world.update("one", one).update("two", two);
        let all = world.managers.0.iter().fold(FieldSet::default(), |all, entry| all.union(entry.fields.clone()));
        let mut fresh = World::new("core.v1.Pod");
        fresh.update("all", world.object.clone());
        let wanted = fresh.managers.0.first().map(|entry| entry.fields.clone()).unwrap_or_default();
        prop_assert!(wanted.clone().difference(&all).is_empty(), "{wanted} is not in {all}");
    }
}

/// Lists by key and sets have an order, which depends on who came first.
fn sorted(value: &Value) -> Value {
    match value {
        Value::Array(items) => {
            let mut items: Vec<Value> = items.iter().map(sorted).collect();
            items.sort_by_key(Value::to_string);
            Value::Array(items)
        }
        Value::Object(entries) => entries.iter().map(|(key, value)| (key.clone(), sorted(value))).collect(),
        value => value.clone(),
    }
}
