//! JSON merge patch (RFC 7386).

use serde_json::{Map, Value};

/// The target, changed by the patch: null removes a field, an object is merged, anything else replaces.
pub fn merge(target: Value, patch: Value) -> Value {
    let Value::Object(patch) = patch else { return patch };
    let mut object = match target {
        Value::Object(object) => object,
        _ => Map::new(),
    };
    for (key, value) in patch {
        if value.is_null() {
            object.remove(&key);
        } else {
            let old = object.remove(&key).unwrap_or_default();
            object.insert(key, merge(old, value));
        }
    }
    Value::Object(object)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    /// The test cases of the RFC's appendix A.
    #[test]
    fn the_examples_of_the_rfc() {
        for (target, patch, result) in [
            (json!({"a": "b"}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "b"}), json!({"b": "c"}), json!({"a": "b", "b": "c"})),
            (json!({"a": "b"}), json!({"a": null}), json!({})),
            (json!({"a": "b", "b": "c"}), json!({"a": null}), json!({"b": "c"})),
            (json!({"a": ["b"]}), json!({"a": "c"}), json!({"a": "c"})),
            (json!({"a": "c"}), json!({"a": ["b"]}), json!({"a": ["b"]})),
            (json!({"a": {"b": "c"}}), json!({"a": {"b": "d", "c": null}}), json!({"a": {"b": "d"}})),
            (json!({"a": [{"b": "c"}]}), json!({"a": [1]}), json!({"a": [1]})),
            (json!(["a", "b"]), json!(["c", "d"]), json!(["c", "d"])),
            (json!({"a": "b"}), json!(["c"]), json!(["c"])),
            (json!({"a": "foo"}), json!(null), json!(null)),
            (json!({"a": "foo"}), json!("bar"), json!("bar")),
            (json!({"e": null}), json!({"a": 1}), json!({"e": null, "a": 1})),
            (json!([1, 2]), json!({"a": "b", "c": null}), json!({"a": "b"})),
            (json!({}), json!({"a": {"bb": {"ccc": null}}}), json!({"a": {"bb": {}}})),
        ] {
            assert_eq!(merge(target.clone(), patch.clone()), result, "{target} with {patch}");
        }
    }

    /// The patch that makes `from` into `to`, if no field of `to` is null.
    fn difference(from: &Value, to: &Value) -> Value {
        let (Value::Object(from), Value::Object(to)) = (from, to) else { return to.clone() };
        let mut patch = Map::new();
        for (key, value) in to {
            match from.get(key) {
                Some(old) if old == value => {}
                Some(old) => drop(patch.insert(key.clone(), difference(old, value))),
                None => drop(patch.insert(key.clone(), value.clone())),
            }
        }
        patch.extend(from.keys().filter(|key| !to.contains_key(*key)).map(|key| (key.clone(), Value::Null)));
        Value::Object(patch)
    }

    fn value(leaf: BoxedStrategy<Value>) -> impl Strategy<Value = Value> {
        leaf.prop_recursive(4, 32, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::btree_map("[a-d]", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    fn without_null() -> impl Strategy<Value = Value> {
        value(prop_oneof![any::<bool>().prop_map(Value::from), (0..5).prop_map(Value::from)].boxed())
    }

    fn with_null() -> impl Strategy<Value = Value> {
        value(prop_oneof![Just(Value::Null), (0..5).prop_map(Value::from)].boxed())
    }

    proptest! {
        #[test]
        fn applying_twice_is_applying_once(target in with_null(), patch in with_null()) {
            let once = merge(target, patch.clone());
            prop_assert_eq!(merge(once.clone(), patch), once);
        }

        #[test]
        fn an_empty_patch_changes_no_object(entries in prop::collection::btree_map("[a-d]", with_null(), 0..4)) {
            let target = Value::Object(entries.into_iter().collect());
            prop_assert_eq!(merge(target.clone(), json!({})), target);
        }

        #[test]
        fn the_difference_of_two_leads_from_one_to_the_other(from in without_null(), to in without_null()) {
            let patch = difference(&from, &to);
            prop_assert_eq!(merge(from, patch), to);
        }
    }
}
