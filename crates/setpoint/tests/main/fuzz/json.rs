//! Mutations of JSON trees: one node becomes something that the schema, or the parser, does not expect.

use rand::Rng;
use rand::rngs::SmallRng;
use rand::seq::IndexedRandom;
use serde_json::{Value, json};

/// Changes one node somewhere in the tree.
pub(super) fn mutate(tree: &mut Value, random: &mut SmallRng) {
    let nodes = count(tree);
    let mut target = random.random_range(0..nodes);
    let name = NAMES.choose(random).copied().unwrap_or_default();
    let replacement = hostile(random);
    let choice = random.random_range(0..6);
    change(tree, &mut target, &mut |node| match (choice, node) {
        (0, Value::Object(fields)) => fields.clear(),
        (1, Value::Object(fields)) => {
            let first = fields.keys().next().cloned();
            first.map(|first| fields.remove(&first));
        }
        (2 | 3, Value::Object(fields)) => {
            fields.insert(name.to_owned(), replacement.clone());
        }
        (2 | 3, Value::Array(items)) => {
            let copy = items.first().cloned().unwrap_or_else(|| replacement.clone());
            items.push(copy);
        }
        (_, node) => *node = replacement.clone(),
    });
}

const NAMES: &[&str] = &[
    "",
    "a/b/c",
    "-",
    "unknown",
    "spec",
    "status",
    "metadata",
    "name",
    "namespace",
    "generateName",
    "uid",
    "resourceVersion",
    "creationTimestamp",
    "deletionTimestamp",
    "finalizers",
    "ownerReferences",
    "labels",
    "annotations",
    "managedFields",
    "immutable",
    "data",
    "stringData",
    "$patch",
    "$retainKeys",
    "$setElementOrder/containers",
    "$deleteFromPrimitiveList/finalizers",
    "containers",
    "initContainers",
    "ports",
    "selector",
    "clusterIP",
    "replicas",
    "template",
    "op",
    "path",
    "from",
    "kubernetes.io/metadata.name",
];

fn hostile(random: &mut SmallRng) -> Value {
    match random.random_range(0..24) {
        0 => Value::Null,
        1 => json!(true),
        2 => json!(-1),
        3 => json!(0),
        4 => json!(9_007_199_254_740_993_u64),
        5 => json!(u64::MAX),
        6 => json!(i64::MIN),
        7 => json!(1e300),
        8 => json!(0.5),
        9 => json!(""),
        10 => json!("\u{0}"),
        11 => json!("../../etc/passwd"),
        12 => json!("a".repeat(random.random_range(1..5000))),
        13 => json!("Ünïcödé 🦀"),
        14 => json!([]),
        15 => json!({}),
        16 => json!([null]),
        17 => json!({"": null}),
        18 => json!([[[[[]]]]]),
        19 => json!({"key": "a", "operator": "In", "values": []}),
        20 => json!("1e1000000000Ei"),
        21 => json!("99999-99-99T99:99:99Z"),
        22 => json!({"name": "a", "uid": "b", "kind": "C", "apiVersion": "d/e/f"}),
        _ => json!(random.random::<i64>()),
    }
}

fn count(tree: &Value) -> usize {
    1 + match tree {
        Value::Object(fields) => fields.values().map(count).sum(),
        Value::Array(items) => items.iter().map(count).sum(),
        _ => 0,
    }
}

/// Visits nodes in order until `target` of them have been passed, and applies `edit` to the next.
fn change(tree: &mut Value, target: &mut usize, edit: &mut impl FnMut(&mut Value)) -> bool {
    if *target == 0 {
        edit(tree);
        return true;
    }
    *target -= 1;
    match tree {
        Value::Object(fields) => fields.values_mut().any(|field| change(field, target, edit)),
        Value::Array(items) => items.iter_mut().any(|item| change(item, target, edit)),
        _ => false,
    }
}
