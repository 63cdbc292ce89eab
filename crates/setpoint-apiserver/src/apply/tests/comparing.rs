//! What differs between two objects, field by field.

use super::*;
use crate::apply::{Comparison, compare};

#[test]
fn objects_differ_field_by_field() {
    let rows = [
        ("nothing", json!({"data": {"a": "1"}}), json!({"data": {"a": "1"}}), json!({}), json!({}), json!({})),
        (
            "one of each",
            json!({"data": {"a": "1", "b": "1"}}),
            json!({"data": {"b": "2", "c": "1"}}),
            json!({"f:data": {"f:a": {}}}),
            json!({"f:data": {"f:b": {}}}),
            json!({"f:data": {"f:c": {}}}),
        ),
        (
            "a whole map",
            json!({}),
            json!({"data": {"a": "1"}}),
            json!({}),
            json!({}),
            json!({"f:data": {".": {}, "f:a": {}}}),
        ),
        (
            "elements of a set",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["b", "c"]}}),
            json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}),
            json!({}),
            json!({"f:metadata": {"f:finalizers": {"v:\"c\"": {}}}}),
        ),
        (
            "twice is not once",
            json!({"metadata": {"finalizers": ["a"]}}),
            json!({"metadata": {"finalizers": ["a", "a"]}}),
            json!({}),
            json!({}),
            json!({"f:metadata": {"f:finalizers": {"v:\"a\"": {}}}}),
        ),
        ("an empty map is a value", json!({"data": {}}), json!({}), json!({"f:data": {}}), json!({}), json!({})),
    ];
    for (row, old, new, removed, modified, added) in rows {
        let found = compare(&old, &new, schema("core.v1.ConfigMap").root());
        let sets = |value: Value| if value == json!({}) { FieldSet::default() } else { set(value) };
        let wanted = Comparison { removed: sets(removed), modified: sets(modified), added: sets(added) };
        assert_eq!(found, wanted, "{row}");
    }
}

#[test]
fn what_no_schema_knows_is_seen_by_what_it_is() {
    let any = crate::schema::Type::ANY;
    let found =
        compare(&json!({"a": {"b": 1, "l": [1]}, "s": 1}), &json!({"a": {"b": 1.0, "l": [2]}, "s": {"x": 1}}), any);
    assert_eq!(found.modified, set(json!({"f:a": {"f:l": {}}, "f:s": {}})));
    assert_eq!(found.added, set(json!({"f:s": {"f:x": {}}})));
    assert!(found.removed.is_empty());
}
