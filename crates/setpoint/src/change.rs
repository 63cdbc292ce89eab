//! Which fields differ between two versions of an object.
//!
//! Elements of a list are told apart as its owners do: the keys that `managedFields` names for it, in both versions. Where
//! it names none, a list is compared by position.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value};

use crate::terminal::inert;

/// Fields of metadata that every write changes, or that say who did.
const IGNORED: [&str; 3] = ["generation", "managedFields", "resourceVersion"];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Edit {
    Added,
    Changed,
    Removed,
}

/// A field that is not as it was.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Change {
    pub(crate) path: String,
    pub(crate) edit: Edit,
    /// What was and what is, null for nothing. `None` for a Secret's: its values are not even held here.
    pub(crate) values: Option<(Value, Value)>,
}

/// The fields that differ, in the order of their paths.
pub(crate) fn changes(old: &Value, new: &Value) -> Vec<Change> {
    let is_secret = |object: &Value| object["kind"] == "Secret" && object["apiVersion"] == "v1";
    let mut comparison = Comparison { withholds: is_secret(old) || is_secret(new), changes: Vec::new() };
    let owned: Vec<&Value> = [old, new].into_iter().flat_map(fields).collect();
    comparison.compare("", old, new, &owned);
    comparison.changes
}

/// What each manager owns.
fn fields(object: &Value) -> impl Iterator<Item = &Value> {
    object["metadata"]["managedFields"].as_array().into_iter().flatten().map(|entry| &entry["fieldsV1"])
}

struct Comparison {
    withholds: bool,
    changes: Vec<Change>,
}

impl Comparison {
    /// `owned` is what managers own of this place.
    fn compare(&mut self, path: &str, old: &Value, new: &Value, owned: &[&Value]) {
        match (old, new) {
            (old, new) if old == new => {}
            (Value::Object(old), Value::Object(new)) => self.compare_maps(path, old, new, owned),
            // Elements are told by what they hold, which is not shown of a Secret.
            (Value::Array(old), Value::Array(new)) if !self.withholds => self.compare_lists(path, old, new, owned),
            (old, new) => self.note(path, Some(old), Some(new)),
        }
    }

    fn compare_maps(&mut self, path: &str, old: &Map<String, Value>, new: &Map<String, Value>, owned: &[&Value]) {
        let empty = Value::Object(Map::new());
        let is_ignored = |key: &str| path == "metadata" && IGNORED.contains(&key);
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).filter(|key| !is_ignored(key)).collect();
        for key in keys {
            let below = below(path, key);
            let owned = children(owned, &format!("f:{key}"));
            match (old.get(key), new.get(key)) {
                (Some(old), Some(new)) => self.compare(&below, old, new, &owned),
                // A map of plain values is its entries.
                (Some(old), None) if is_plain_map(old) => self.compare(&below, old, &empty, &owned),
                (None, Some(new)) if is_plain_map(new) => self.compare(&below, &empty, new, &owned),
                (old, new) => self.note(&below, old, new),
            }
        }
    }

    fn compare_lists(&mut self, path: &str, old: &[Value], new: &[Value], owned: &[&Value]) {
        let before = self.changes.len();
        match identity(owned) {
            Identity::Keys(keys) => match (keyed(old, &keys), keyed(new, &keys)) {
                (Some(old), Some(new)) => self.compare_elements(path, &old, &new, owned),
                _ => self.compare_positions(path, old, new, owned),
            },
            Identity::Value => {
                new.iter().filter(|value| !old.contains(value)).for_each(|value| self.note(path, None, Some(value)));
                old.iter().filter(|value| !new.contains(value)).for_each(|value| self.note(path, Some(value), None));
            }
            Identity::Position => self.compare_positions(path, old, new, owned),
        }
        if self.changes.len() == before {
            // The same elements in another order, or another number of the same.
            self.note(path, Some(&Value::Array(old.to_vec())), Some(&Value::Array(new.to_vec())));
        }
    }

    fn compare_elements(&mut self, path: &str, old: &Elements<'_>, new: &Elements<'_>, owned: &[&Value]) {
        let keys: BTreeSet<&String> = old.keys().chain(new.keys()).collect();
        for key in keys {
            let below = format!("{path}[{key}]");
            match (old.get(key), new.get(key)) {
                (Some((own, old)), Some((_, new))) => self.compare(&below, old, new, &owned_element(owned, own)),
                (old, new) => self.note(&below, old.map(|(_, old)| *old), new.map(|(_, new)| *new)),
            }
        }
    }

    fn compare_positions(&mut self, path: &str, old: &[Value], new: &[Value], owned: &[&Value]) {
        if old.len() != new.len() {
            return self.note(path, Some(&Value::Array(old.to_vec())), Some(&Value::Array(new.to_vec())));
        }
        for (index, (old, new)) in old.iter().zip(new).enumerate() {
            self.compare(&format!("{path}[{index}]"), old, new, &children(owned, &format!("i:{index}")));
        }
    }

    fn note(&mut self, path: &str, old: Option<&Value>, new: Option<&Value>) {
        let edit = match (old, new) {
            (None, _) => Edit::Added,
            (_, None) => Edit::Removed,
            _ => Edit::Changed,
        };
        let held = |value: Option<&Value>| value.cloned().unwrap_or_default();
        let values = (!self.withholds).then(|| (held(old), held(new)));
        self.changes.push(Change { path: path.to_owned(), edit, values });
    }
}

/// How the elements of a list are told apart.
enum Identity {
    Keys(Vec<String>),
    Value,
    Position,
}

fn identity(owned: &[&Value]) -> Identity {
    let names = || owned.iter().filter_map(|node| node.as_object()).flat_map(Map::keys);
    if let Some(key) = names().find_map(|name| element_key(name)) {
        return Identity::Keys(key.keys().cloned().collect());
    }
    if names().any(|name| name.starts_with("v:")) { Identity::Value } else { Identity::Position }
}

/// The key that a name in `fieldsV1` holds: `k:{"name":"web"}`.
fn element_key(name: &str) -> Option<Map<String, Value>> {
    serde_json::from_str(name.strip_prefix("k:")?).ok()
}

/// Elements by their keys as they are shown, each with its key.
type Elements<'a> = BTreeMap<String, (Map<String, Value>, &'a Value)>;

/// `None` if two elements have one key.
fn keyed<'a>(list: &'a [Value], keys: &[String]) -> Option<Elements<'a>> {
    let mut elements = Elements::new();
    for element in list {
        // A key that an element does not have is one that has a default.
        let own: Map<String, Value> =
            keys.iter().filter_map(|key| Some((key.clone(), element.get(key)?.clone()))).collect();
        let shown = own.iter().map(|(key, value)| format!("{}={}", inert(key), word(value))).collect::<Vec<_>>();
        if elements.insert(shown.join(","), (own, element)).is_some() {
            return None;
        }
    }
    Some(elements)
}

fn owned_element<'a>(owned: &[&'a Value], own: &Map<String, Value>) -> Vec<&'a Value> {
    let nodes = owned.iter().filter_map(|node| node.as_object()).flatten();
    let is_this = |name: &str| element_key(name).is_some_and(|key| own.iter().all(|(k, v)| key.get(k) == Some(v)));
    nodes.filter(|(name, _)| is_this(name)).map(|(_, node)| node).collect()
}

fn children<'a>(owned: &[&'a Value], name: &str) -> Vec<&'a Value> {
    owned.iter().filter_map(|node| node.get(name)).collect()
}

fn is_plain_map(value: &Value) -> bool {
    let is_plain = |value: &Value| !value.is_object() && !value.is_array();
    value.as_object().is_some_and(|map| !map.is_empty() && map.values().all(is_plain))
}

/// The path of a field: after a dot, or in brackets and quotes where a dot would mislead.
fn below(path: &str, key: &str) -> String {
    let is_word = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'));
    match (is_word, path) {
        (true, "") => key.to_owned(),
        (true, path) => format!("{path}.{key}"),
        (false, path) => format!("{path}[{}]", inert(&Value::from(key).to_string())),
    }
}

/// A key's value, in quotes only where they are needed.
fn word(value: &Value) -> String {
    match value {
        Value::String(text) if !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || "-_./:".contains(c)) => {
            text.clone()
        }
        other => inert(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Changes as `+ path new`, `- path old`, `~ path old new`.
    fn told(old: Value, new: Value) -> Vec<String> {
        let tell = |change: Change| {
            let path = change.path;
            match (change.edit, change.values) {
                (Edit::Added, Some((_, new))) => format!("+ {path} {new}"),
                (Edit::Removed, Some((old, _))) => format!("- {path} {old}"),
                (Edit::Changed, Some((old, new))) => format!("~ {path} {old} {new}"),
                (edit, None) => format!("{edit:?} {path}"),
            }
        };
        changes(&old, &new).into_iter().map(tell).collect()
    }

    /// An object whose list `spec.items` is owned with these names of elements.
    fn list(names: &[&str], items: Value) -> Value {
        let owned: Map<String, Value> = names.iter().map(|&name| (name.to_owned(), json!({}))).collect();
        let fields = json!({"f:spec": {"f:items": owned}});
        json!({"metadata": {"managedFields": [{"fieldsV1": fields}]}, "spec": {"items": items}})
    }

    #[test]
    fn fields_that_differ_are_told() {
        let rows = [
            ("nothing", json!({"a": 1}), json!({"a": 1}), vec![]),
            (
                "a value",
                json!({"spec": {"replicas": 2}}),
                json!({"spec": {"replicas": 3}}),
                vec!["~ spec.replicas 2 3"],
            ),
            ("a type", json!({"a": 1}), json!({"a": {"b": 1}}), vec![r#"~ a 1 {"b":1}"#]),
            ("null is a value", json!({"a": null}), json!({}), vec!["- a null"]),
            (
                "what every write changes",
                json!({"metadata": {"resourceVersion": "1", "generation": 1, "managedFields": []}}),
                json!({"metadata": {"resourceVersion": "2", "generation": 2, "managedFields": [{}]}}),
                vec![],
            ),
            (
                "the same names elsewhere",
                json!({"spec": {"generation": 1}}),
                json!({"spec": {"generation": 2}}),
                vec!["~ spec.generation 1 2"],
            ),
            (
                "entries of a map, in order",
                json!({"data": {"b": "1", "c": "1"}}),
                json!({"data": {"a": "2", "c": "3"}}),
                vec![r#"+ data.a "2""#, r#"- data.b "1""#, r#"~ data.c "1" "3""#],
            ),
            (
                "a new map of plain values",
                json!({"metadata": {}}),
                json!({"metadata": {"labels": {"a": "b", "x.y/z": "c"}}}),
                vec![r#"+ metadata.labels.a "b""#, r#"+ metadata.labels["x.y/z"] "c""#],
            ),
            ("a map that goes", json!({"labels": {"a": "b"}}), json!({}), vec![r#"- labels.a "b""#]),
            ("an empty map", json!({}), json!({"emptyDir": {}}), vec!["+ emptyDir {}"]),
            ("a new map that holds more", json!({}), json!({"a": {"b": {"c": 1}}}), vec![r#"+ a {"b":{"c":1}}"#]),
            ("a key that commands a terminal", json!({}), json!({"\u{1b}[2J": 1}), vec![r#"+ ["\u001b[2J"] 1"#]),
        ];
        for (row, old, new, expected) in rows {
            assert_eq!(told(old, new), expected, "{row}");
        }
    }

    #[test]
    fn elements_are_told_apart_as_their_owners_do() {
        let by_name: &[&str] = &[r#"k:{"name":"web"}"#];
        let ports: &[&str] = &[r#"k:{"port":80,"protocol":"TCP"}"#];
        let rows = [
            (
                "by a key, whatever the position",
                by_name,
                json!([{"name": "web", "image": "1"}]),
                json!([{"name": "new one"}, {"name": "web", "image": "2"}]),
                vec![r#"+ spec.items[name="new one"] {"name":"new one"}"#, r#"~ spec.items[name=web].image "1" "2""#],
            ),
            (
                "by two keys",
                ports,
                json!([{"port": 80, "protocol": "TCP"}, {"port": 80, "protocol": "UDP", "name": "a"}]),
                json!([{"port": 80, "protocol": "UDP", "name": "b"}]),
                vec![
                    r#"- spec.items[port=80,protocol=TCP] {"port":80,"protocol":"TCP"}"#,
                    r#"~ spec.items[port=80,protocol=UDP].name "a" "b""#,
                ],
            ),
            (
                "by a key that two have",
                by_name,
                json!([{"name": "a", "v": 1}, {"name": "a", "v": 2}]),
                json!([{"name": "a", "v": 1}, {"name": "a", "v": 3}]),
                vec!["~ spec.items[1].v 2 3"],
            ),
            (
                "in another order",
                by_name,
                json!([{"name": "a"}, {"name": "b"}]),
                json!([{"name": "b"}, {"name": "a"}]),
                vec![r#"~ spec.items [{"name":"a"},{"name":"b"}] [{"name":"b"},{"name":"a"}]"#],
            ),
            (
                "by value",
                &[r#"v:"a""#],
                json!(["a", "b"]),
                json!(["c", "a"]),
                vec![r#"+ spec.items "c""#, r#"- spec.items "b""#],
            ),
            ("by position", &[], json!([{"a": 1}, 2]), json!([{"a": 3}, 2]), vec!["~ spec.items[0].a 1 3"]),
            ("of another length", &[], json!([1]), json!([1, 2]), vec!["~ spec.items [1] [1,2]"]),
        ];
        for (row, names, old, new, expected) in rows {
            assert_eq!(told(list(names, old), list(names, new)), expected, "{row}");
        }
    }

    #[test]
    fn no_value_of_a_secret_is_held() {
        let secret = |metadata: Value, data: Value| {
            let fields = json!({"f:metadata": {"f:finalizers": {"v:\"planted\"": {}}}});
            let mut object = json!({"apiVersion": "v1", "kind": "Secret", "metadata": metadata, "data": data});
            object["metadata"]["managedFields"] = json!([{"fieldsV1": fields}]);
            object
        };
        let old = secret(json!({"finalizers": ["planted"]}), json!({"password": "planted", "gone": "planted"}));
        let annotations = json!({"kubectl.kubernetes.io/last-applied-configuration": "planted"});
        let new = secret(
            json!({"annotations": annotations, "finalizers": ["planted", "planted2"]}),
            json!({"password": "planted3", "new": "planted"}),
        );
        let changes = changes(&old, &new);
        assert!(!format!("{changes:?}").contains("planted"), "{changes:?}");
        assert_eq!(
            told(old, new),
            [
                "Removed data.gone",
                "Added data.new",
                "Changed data.password",
                "Added metadata.annotations[\"kubectl.kubernetes.io/last-applied-configuration\"]",
                "Changed metadata.finalizers",
            ]
        );
    }
}
