//! What a strategic merge patch does to the objects of built-in kinds.

use std::sync::LazyLock;

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{PatchError, strategic_merge};
use crate::schema::Schemas;

static SCHEMAS: LazyLock<Schemas> = LazyLock::new(Schemas::built_in);

fn patched(kind: &str, object: Value, patch: Value) -> Result<Value, PatchError> {
    strategic_merge(object, patch, &SCHEMAS.get(&format!("io.k8s.api.{kind}")).expect(kind))
}

fn pod(spec: Value) -> Value {
    json!({"metadata": {"name": "p"}, "spec": spec})
}

#[test]
fn lists_are_merged_by_their_key() {
    let containers =
        json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "x"}]}, {"name": "b"}]});
    for (why, patch, result) in [
        (
            "a known element is changed in place",
            json!({"containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "X", "value": "x"}]}, {"name": "b", "image": "2"}]}),
        ),
        (
            "a new element comes first",
            json!({"containers": [{"name": "c"}]}),
            json!({"containers": [{"name": "c"}, {"name": "a", "image": "1", "env": [{"name": "X", "value": "x"}]}, {"name": "b"}]}),
        ),
        (
            "lists in elements are merged too",
            json!({"containers": [{"name": "a", "env": [{"name": "Y", "value": "y"}, {"name": "X", "value": "z"}]}]}),
            json!({"containers": [{"name": "a", "image": "1", "env": [{"name": "Y", "value": "y"}, {"name": "X", "value": "z"}]}, {"name": "b"}]}),
        ),
        (
            "an element is deleted",
            json!({"containers": [{"name": "a", "$patch": "delete"}]}),
            json!({"containers": [{"name": "b"}]}),
        ),
        (
            "deleting what is not there changes nothing",
            json!({"containers": [{"name": "z", "$patch": "delete"}]}),
            containers.clone(),
        ),
        (
            "the list is replaced",
            json!({"containers": [{"$patch": "replace"}, {"name": "z"}]}),
            json!({"containers": [{"name": "z"}]}),
        ),
        (
            "the order is set",
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}], "containers": [{"name": "b", "image": "2"}]}),
            json!({"containers": [{"name": "b", "image": "2"}, {"name": "a", "image": "1", "env": [{"name": "X", "value": "x"}]}]}),
        ),
        (
            "the order is set and nothing else changes",
            json!({"$setElementOrder/containers": [{"name": "b"}, {"name": "a"}]}),
            json!({"containers": [{"name": "b"}, {"name": "a", "image": "1", "env": [{"name": "X", "value": "x"}]}]}),
        ),
        ("null deletes the list", json!({"containers": null, "nodeName": null}), json!({})),
        (
            "nulls in a field delete it",
            json!({"containers": [{"name": "a", "image": null, "env": null}]}),
            json!({"containers": [{"name": "a"}, {"name": "b"}]}),
        ),
    ] {
        assert_eq!(patched("core.v1.Pod", pod(containers.clone()), json!({"spec": patch})), Ok(pod(result)), "{why}");
    }
}

#[test]
fn other_fields_follow_their_strategy() {
    for (why, kind, object, patch, result) in [
        (
            "an atomic list is replaced",
            "core.v1.Pod",
            pod(json!({"tolerations": [{"key": "a"}, {"key": "b"}]})),
            json!({"spec": {"tolerations": [{"key": "c"}]}}),
            pod(json!({"tolerations": [{"key": "c"}]})),
        ),
        (
            "a list of texts is united, the patch's first",
            "core.v1.ConfigMap",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "b"]}}),
            json!({"metadata": {"finalizers": ["c", "a", "b"]}}),
        ),
        (
            "texts are deleted from a list",
            "core.v1.ConfigMap",
            json!({"metadata": {"finalizers": ["a", "b"]}}),
            json!({"metadata": {"$deleteFromPrimitiveList/finalizers": ["a", "z"]}}),
            json!({"metadata": {"finalizers": ["b"]}}),
        ),
        (
            "maps are merged",
            "core.v1.ConfigMap",
            json!({"data": {"a": "1", "b": "2"}}),
            json!({"data": {"b": null, "c": "3"}}),
            json!({"data": {"a": "1", "c": "3"}}),
        ),
        (
            "a map is replaced",
            "core.v1.ConfigMap",
            json!({"data": {"a": "1"}}),
            json!({"data": {"$patch": "replace", "c": "3"}}),
            json!({"data": {"c": "3"}}),
        ),
        (
            "a map is emptied",
            "core.v1.ConfigMap",
            json!({"data": {"a": "1"}}),
            json!({"data": {"$patch": "delete", "c": "3"}}),
            json!({"data": {}}),
        ),
        (
            "a directive in a new object makes it none",
            "core.v1.ConfigMap",
            json!({}),
            json!({"data": {"$patch": "replace", "c": "3"}, "metadata": {"labels": {"a": null}}}),
            json!({"metadata": {"labels": {}}}),
        ),
        (
            "the whole object is replaced",
            "core.v1.ConfigMap",
            json!({"data": {"a": "1"}}),
            json!({"$patch": "replace", "immutable": true}),
            json!({"immutable": true}),
        ),
        (
            "only the retained keys stay",
            "core.v1.Pod",
            pod(json!({"volumes": [{"name": "v", "emptyDir": {}}]})),
            json!({"spec": {"volumes": [{"name": "v", "$retainKeys": ["name", "secret"], "secret": {"secretName": "s"}}]}}),
            pod(json!({"volumes": [{"name": "v", "secret": {"secretName": "s"}}]})),
        ),
        (
            "numbers are keys too",
            "core.v1.Service",
            json!({"spec": {"ports": [{"port": 80}, {"port": 443}]}}),
            json!({"spec": {"ports": [{"port": 80, "$patch": "delete"}, {"port": 443, "name": "s"}]}}),
            json!({"spec": {"ports": [{"port": 443, "name": "s"}]}}),
        ),
        (
            "a null list is as good as none",
            "core.v1.Pod",
            pod(json!({"containers": null})),
            json!({"spec": {"$setElementOrder/containers": [{"name": "a"}], "containers": [{"name": "a"}]}}),
            pod(json!({"containers": [{"name": "a"}]})),
        ),
    ] {
        assert_eq!(patched(kind, object, patch), Ok(result), "{why}");
    }
}

#[test]
fn bad_patches_are_refused_with_their_fault() {
    for (patch, message) in [
        (json!([]), "a strategic merge patch is an object"),
        (
            json!({"spec": {"containers": [{"image": "x"}]}}),
            "map: map[image:x] does not contain declared merge key: name",
        ),
        (
            json!({"spec": {"containers": [{"$patch": "delete"}]}}),
            "map: map[$patch:delete] does not contain declared merge key: name",
        ),
        (json!({"spec": {"$patch": "bogus"}}), "unknown patch type: bogus in map: map[$patch:bogus]"),
        (json!({"spec": {"containers": [{"name": "a", "$patch": 1}]}}), "unknown patch type: a number"),
        (json!({"spec": {"containers": ["x"]}}), "expected an object in the list, but received a string"),
        (json!({"metadata": {"finalizers": [{}]}}), "expected a plain value in the list, but received an object"),
        (json!({"spec": {"$retainKeys": ["x"], "nodeName": "n"}}), "invalid patch format of retainKeys"),
        (json!({"spec": {"$retainKeys": "x"}}), "invalid patch format of retainKeys"),
        (json!({"metadata": {"$deleteFromPrimitiveList/finalizers": "a"}}), "invalid patch format of primitive list"),
        (json!({"spec": {"$setElementOrder/containers": {}}}), "invalid patch format of setElementOrder list"),
        (
            json!({"spec": {"$setElementOrder/containers": [{"name": "b"}], "containers": [{"name": "a"}]}}),
            "an element is not where $setElementOrder has it",
        ),
    ] {
        let object = json!({"metadata": {"finalizers": ["f"]}, "spec": {"containers": [{"name": "a"}]}});
        assert_eq!(patched("core.v1.Pod", object, patch), Err(PatchError::Malformed(message.into())));
    }
}

fn containers() -> impl Strategy<Value = Value> {
    let container = ("[a-d]", 0..3u8).prop_map(|(name, image)| (name, image.to_string()));
    prop::collection::vec(container, 0..5).prop_map(|containers| {
        let mut seen = Vec::new();
        let fresh = containers.into_iter().filter(|(name, _)| {
            let new = !seen.contains(name);
            seen.push(name.clone());
            new
        });
        fresh.map(|(name, image)| json!({"name": name, "image": image})).collect()
    })
}

proptest! {
    #[test]
    fn applying_twice_is_applying_once(old in containers(), new in containers()) {
        let patch = json!({"spec": {"containers": new}});
        let once = patched("core.v1.Pod", pod(json!({"containers": old})), patch.clone()).expect("it applies");
        prop_assert_eq!(patched("core.v1.Pod", once.clone(), patch), Ok(once));
    }

    #[test]
    fn an_empty_patch_changes_nothing(old in containers()) {
        let object = pod(json!({"containers": old}));
        prop_assert_eq!(patched("core.v1.Pod", object.clone(), json!({})), Ok(object));
    }

    #[test]
    fn merging_loses_and_invents_no_element(old in containers(), new in containers()) {
        let names = |list: &Value| -> std::collections::BTreeSet<String> {
            list.as_array().into_iter().flatten().map(|container| container["name"].to_string()).collect()
        };
        let expected: std::collections::BTreeSet<String> = &names(&old) | &names(&new);
        let merged = patched("core.v1.Pod", pod(json!({"containers": old})), json!({"spec": {"containers": new}}));
        let merged = merged.expect("it applies")["spec"]["containers"].clone();
        prop_assert_eq!(merged.as_array().map(Vec::len), Some(expected.len()));
        prop_assert_eq!(names(&merged), expected);
    }
}
