//! JSON patch (RFC 6902).
//!
//! As Kubernetes has it, a negative index counts from the end of a list. Copying, moving and shifting are counted, so that
//! a short patch cannot ask for unbounded work, memory or depth; what is copied may have as many bytes as an object.

use serde_json::{Map, Value};

use super::PatchError;
use crate::object_size::{OBJECT_LIMIT, least_text_len};
use crate::schema::MAX_DEPTH;

/// How many operations a patch may have.
const MAX_OPERATIONS: usize = 10_000;

/// How many values, characters and shifts of list elements a patch may cost.
const MAX_EFFORT: usize = 16 << 20;

/// A list of operations that are applied all or not at all.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPatch {
    operations: Vec<Operation>,
}

#[derive(Debug, Clone, PartialEq)]
enum Operation {
    Add { path: Pointer, value: Value },
    Remove { path: Pointer },
    Replace { path: Pointer, value: Value },
    Move { from: Pointer, path: Pointer },
    Copy { from: Pointer, path: Pointer },
    Test { path: Pointer, value: Value },
}

impl JsonPatch {
    pub fn parse(patch: Value) -> Result<JsonPatch, PatchError> {
        let Value::Array(operations) = patch else {
            return Err(PatchError::Malformed("a JSON patch is a list of operations".into()));
        };
        if operations.len() > MAX_OPERATIONS {
            let message =
                format!("The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}", operations.len());
            return Err(PatchError::TooLarge(message));
        }
        let operations = operations.into_iter().map(Operation::parse).collect::<Result<_, _>>()?;
        Ok(JsonPatch { operations })
    }

    /// The object with all operations applied, in order.
    pub fn apply(&self, object: Value) -> Result<Value, PatchError> {
        let mut document = Document { root: object, effort_left: MAX_EFFORT, copied_bytes: 0 };
        for operation in &self.operations {
            document.apply(operation)?;
        }
        Ok(document.root)
    }
}

impl Operation {
    fn parse(operation: Value) -> Result<Operation, PatchError> {
        let Value::Object(mut members) = operation else {
            return Err(PatchError::Malformed("an operation of a JSON patch is an object".into()));
        };
        let op = text(&mut members, "op")?.unwrap_or_default();
        let path = Pointer::member(&mut members, "path")?;
        match op.as_str() {
            "add" => Ok(Operation::Add { path, value: value(&mut members)? }),
            "remove" => Ok(Operation::Remove { path }),
            "replace" => Ok(Operation::Replace { path, value: value(&mut members)? }),
            "move" => Ok(Operation::Move { from: Pointer::member(&mut members, "from")?, path }),
            "copy" => Ok(Operation::Copy { from: Pointer::member(&mut members, "from")?, path }),
            "test" => Ok(Operation::Test { path, value: value(&mut members)? }),
            _ => Err(PatchError::Inapplicable(format!("there is no operation {op:?}"))),
        }
    }
}

fn text(members: &mut Map<String, Value>, name: &str) -> Result<Option<String>, PatchError> {
    match members.remove(name) {
        None | Some(Value::Null) => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(_) => Err(PatchError::Malformed(format!("{name:?} of an operation is a string"))),
    }
}

fn value(members: &mut Map<String, Value>) -> Result<Value, PatchError> {
    members.remove("value").ok_or_else(|| PatchError::Inapplicable("the operation has no \"value\"".into()))
}

/// A JSON pointer (RFC 6901).
#[derive(Debug, Clone, PartialEq, Eq)]
struct Pointer(Vec<String>);

impl Pointer {
    fn member(members: &mut Map<String, Value>, name: &str) -> Result<Pointer, PatchError> {
        let Some(pointer) = text(members, name)? else {
            return Err(PatchError::Inapplicable(format!("the operation has no {name:?}")));
        };
        if pointer.is_empty() {
            return Ok(Pointer(Vec::new()));
        }
        let Some(tokens) = pointer.strip_prefix('/') else {
            return Err(PatchError::Inapplicable(format!("the path {pointer:?} does not begin with a slash")));
        };
        let tokens: Vec<String> = tokens.split('/').map(|token| token.replace("~1", "/").replace("~0", "~")).collect();
        if tokens.len() > MAX_DEPTH {
            return Err(PatchError::TooLarge(format!("a path may be {MAX_DEPTH} deep")));
        }
        Ok(Pointer(tokens))
    }

    fn missing(&self) -> PatchError {
        let path: String =
            self.0.iter().map(|token| format!("/{}", token.replace('~', "~0").replace('/', "~1"))).collect();
        PatchError::Inapplicable(format!("there is nothing at {path:?}"))
    }
}

/// The object while operations change it.
struct Document {
    root: Value,
    effort_left: usize,
    copied_bytes: usize,
}

impl Document {
    fn apply(&mut self, operation: &Operation) -> Result<(), PatchError> {
        match operation {
            Operation::Add { path, value } => self.add(path, value.clone()),
            Operation::Remove { path } => self.remove(path).map(drop),
            Operation::Replace { path, value } => {
                *self.find(path)? = value.clone();
                Ok(())
            }
            Operation::Move { from, path } => {
                let value = self.remove(from)?;
                self.weigh(&value, path.0.len())?;
                self.add(path, value)
            }
            Operation::Copy { from, path } => {
                let value = self.copy(from)?;
                self.weigh(&value, path.0.len())?;
                self.add(path, value)
            }
            Operation::Test { path, value } => {
                // As in Kubernetes, a member that an object does not have passes for null; clients rely on it.
                let absent_is_null = value.is_null() && self.has_parent(path);
                match descend(&mut self.root, &path.0) {
                    Some(found) if found == value => Ok(()),
                    Some(_) => Err(PatchError::Inapplicable("a test failed: the value is another one".into())),
                    None if absent_is_null => Ok(()),
                    None => Err(path.missing()),
                }
            }
        }
    }

    fn has_parent(&mut self, path: &Pointer) -> bool {
        let parent = path.0.split_last().and_then(|(_, parent)| descend(&mut self.root, parent));
        parent.is_some_and(|parent| parent.is_object())
    }

    fn find(&mut self, path: &Pointer) -> Result<&mut Value, PatchError> {
        descend(&mut self.root, &path.0).ok_or_else(|| path.missing())
    }

    fn copy(&mut self, from: &Pointer) -> Result<Value, PatchError> {
        let copied_bytes = self.copied_bytes + least_text_len(self.find(from)?);
        if copied_bytes > OBJECT_LIMIT {
            return Err(PatchError::TooLarge(format!(
                "the patch copies {copied_bytes} bytes or more, and an object may have {OBJECT_LIMIT}; copy less"
            )));
        }
        let copy = self.find(from)?.clone();
        self.copied_bytes = copied_bytes;
        Ok(copy)
    }

    fn add(&mut self, path: &Pointer, value: Value) -> Result<(), PatchError> {
        let Some((last, parents)) = path.0.split_last() else {
            self.root = value;
            return Ok(());
        };
        match descend(&mut self.root, parents) {
            Some(Value::Object(members)) => {
                members.insert(last.clone(), value);
                Ok(())
            }
            Some(Value::Array(items)) => {
                let end = items.len();
                let index = if last == "-" {
                    Some(end)
                } else {
                    index(last, end).or((last == &end.to_string()).then_some(end))
                };
                let index = index.ok_or_else(|| path.missing())?;
                items.insert(index, value);
                self.spend(end - index)
            }
            _ => Err(path.missing()),
        }
    }

    fn remove(&mut self, path: &Pointer) -> Result<Value, PatchError> {
        let Some((last, parents)) = path.0.split_last() else {
            return Ok(std::mem::take(&mut self.root));
        };
        match descend(&mut self.root, parents) {
            Some(Value::Object(members)) => members.remove(last).ok_or_else(|| path.missing()),
            Some(Value::Array(items)) => {
                let index = index(last, items.len()).ok_or_else(|| path.missing())?;
                let value = items.remove(index);
                let shifted = items.len() - index;
                self.spend(shifted)?;
                Ok(value)
            }
            _ => Err(path.missing()),
        }
    }

    /// Counts a value that is to stand at `depth`.
    fn weigh(&mut self, value: &Value, depth: usize) -> Result<(), PatchError> {
        if depth > MAX_DEPTH {
            return Err(PatchError::TooLarge(format!("objects may be nested {MAX_DEPTH} deep")));
        }
        match value {
            Value::String(text) => self.spend(1 + text.len()),
            Value::Array(items) => {
                self.spend(1)?;
                items.iter().try_for_each(|item| self.weigh(item, depth + 1))
            }
            Value::Object(members) => {
                self.spend(1)?;
                members.iter().try_for_each(|(key, value)| {
                    self.spend(key.len())?;
                    self.weigh(value, depth + 1)
                })
            }
            _ => self.spend(1),
        }
    }

    fn spend(&mut self, effort: usize) -> Result<(), PatchError> {
        match self.effort_left.checked_sub(effort) {
            Some(left) => {
                self.effort_left = left;
                Ok(())
            }
            None => Err(PatchError::TooLarge("the patch copies or moves too much".into())),
        }
    }
}

fn descend<'v>(root: &'v mut Value, tokens: &[String]) -> Option<&'v mut Value> {
    tokens.iter().try_fold(root, |value, token| match value {
        Value::Object(members) => members.get_mut(token),
        Value::Array(items) => {
            let index = index(token, items.len())?;
            items.get_mut(index)
        }
        _ => None,
    })
}

/// The index of an existing element. Negative ones count from the end.
fn index(token: &str, len: usize) -> Option<usize> {
    let (digits, from_end) = token.strip_prefix('-').map_or((token, false), |digits| (digits, true));
    let plain = digits == "0" || !digits.starts_with('0');
    if !plain || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let number: usize = digits.parse().ok()?;
    let index = if from_end { len.checked_sub(number)? } else { number };
    (index < len).then_some(index)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn patched(object: Value, patch: Value) -> Result<Value, PatchError> {
        JsonPatch::parse(patch)?.apply(object)
    }

    /// The examples of the RFC's appendix A, by their number.
    #[test]
    fn the_examples_of_the_rfc() {
        for (number, object, patch, result) in [
            (
                "A.1",
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/baz", "value": "qux"}]),
                json!({"baz": "qux", "foo": "bar"}),
            ),
            (
                "A.2",
                json!({"foo": ["bar", "baz"]}),
                json!([{"op": "add", "path": "/foo/1", "value": "qux"}]),
                json!({"foo": ["bar", "qux", "baz"]}),
            ),
            (
                "A.3",
                json!({"baz": "qux", "foo": "bar"}),
                json!([{"op": "remove", "path": "/baz"}]),
                json!({"foo": "bar"}),
            ),
            (
                "A.4",
                json!({"foo": ["bar", "qux", "baz"]}),
                json!([{"op": "remove", "path": "/foo/1"}]),
                json!({"foo": ["bar", "baz"]}),
            ),
            (
                "A.5",
                json!({"baz": "qux", "foo": "bar"}),
                json!([{"op": "replace", "path": "/baz", "value": "boo"}]),
                json!({"baz": "boo", "foo": "bar"}),
            ),
            (
                "A.6",
                json!({"foo": {"bar": "baz", "waldo": "fred"}, "qux": {"corge": "grault"}}),
                json!([{"op": "move", "from": "/foo/waldo", "path": "/qux/thud"}]),
                json!({"foo": {"bar": "baz"}, "qux": {"corge": "grault", "thud": "fred"}}),
            ),
            (
                "A.7",
                json!({"foo": ["all", "grass", "cows", "eat"]}),
                json!([{"op": "move", "from": "/foo/1", "path": "/foo/3"}]),
                json!({"foo": ["all", "cows", "eat", "grass"]}),
            ),
            (
                "A.8",
                json!({"baz": "qux", "foo": ["a", 2, "c"]}),
                json!([{"op": "test", "path": "/baz", "value": "qux"}, {"op": "test", "path": "/foo/1", "value": 2}]),
                json!({"baz": "qux", "foo": ["a", 2, "c"]}),
            ),
            (
                "a missing member is null",
                json!({"foo": "bar"}),
                json!([{"op": "test", "path": "/baz", "value": null}]),
                json!({"foo": "bar"}),
            ),
            (
                "A.10",
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/child", "value": {"grandchild": {}}}]),
                json!({"foo": "bar", "child": {"grandchild": {}}}),
            ),
            (
                "A.11",
                json!({"foo": "bar"}),
                json!([{"op": "add", "path": "/baz", "value": "qux", "xyz": 123}]),
                json!({"foo": "bar", "baz": "qux"}),
            ),
            (
                "A.14",
                json!({"/": 9, "~1": 10}),
                json!([{"op": "test", "path": "/~01", "value": 10}]),
                json!({"/": 9, "~1": 10}),
            ),
            (
                "A.16",
                json!({"foo": ["bar"]}),
                json!([{"op": "add", "path": "/foo/-", "value": ["abc", "def"]}]),
                json!({"foo": ["bar", ["abc", "def"]]}),
            ),
        ] {
            assert_eq!(patched(object, patch), Ok(result), "{number}");
        }
        for (number, object, patch) in [
            ("A.9", json!({"baz": "qux"}), json!([{"op": "test", "path": "/baz", "value": "bar"}])),
            ("a member of nothing", json!({}), json!([{"op": "test", "path": "/a/b", "value": null}])),
            ("A.12", json!({"foo": "bar"}), json!([{"op": "add", "path": "/baz/bat", "value": "qux"}])),
            ("A.15", json!({"/": 9, "~1": 10}), json!([{"op": "test", "path": "/~01", "value": "10"}])),
        ] {
            assert!(matches!(patched(object, patch), Err(PatchError::Inapplicable(_))), "{number}");
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let object = json!({"a": {"b": 1}, "l": [1, 2]});
        for operation in [
            json!({"op": "bogus", "path": "/a"}),
            json!({"op": "add", "value": 1}),
            json!({"op": "add", "path": "/x"}),
            json!({"op": "add", "path": "x", "value": 1}),
            json!({"op": "add", "path": "/l/3", "value": 1}),
            json!({"op": "add", "path": "/l/01", "value": 1}),
            json!({"op": "add", "path": "/l/x", "value": 1}),
            json!({"op": "add", "path": "/a/b/c", "value": 1}),
            json!({"op": "remove", "path": "/none"}),
            json!({"op": "remove", "path": "/l/2"}),
            json!({"op": "replace", "path": "/none", "value": 1}),
            json!({"op": "move", "path": "/x"}),
            json!({"op": "move", "from": "/a", "path": "/a/b"}),
            json!({"op": "copy", "from": "/none", "path": "/x"}),
            json!({"op": "test", "path": "/none/none", "value": null}),
        ] {
            let result = patched(object.clone(), json!([operation]));
            assert!(matches!(result, Err(PatchError::Inapplicable(_))), "{operation} gave {result:?}");
        }
        for patch in
            [json!({}), json!(null), json!([1]), json!([{"op": 1, "path": ""}]), json!([{"op": "add", "path": []}])]
        {
            assert!(matches!(patched(object.clone(), patch.clone()), Err(PatchError::Malformed(_))), "{patch}");
        }
    }

    #[test]
    fn lists_count_from_both_ends() {
        let list = json!({"l": [1, 2, 3]});
        for (patch, result) in [
            (json!([{"op": "replace", "path": "/l/-1", "value": 9}]), json!([1, 2, 9])),
            (json!([{"op": "remove", "path": "/l/-3"}]), json!([2, 3])),
            (json!([{"op": "add", "path": "/l/3", "value": 4}]), json!([1, 2, 3, 4])),
            (json!([{"op": "add", "path": "/l/0", "value": 0}]), json!([0, 1, 2, 3])),
        ] {
            assert_eq!(patched(list.clone(), patch.clone()), Ok(json!({"l": result})), "{patch}");
        }
        assert!(patched(list.clone(), json!([{"op": "remove", "path": "/l/-4"}])).is_err());
        assert!(patched(list, json!([{"op": "remove", "path": "/l/-0"}])).is_err());
    }

    #[test]
    fn work_and_depth_are_bounded() {
        let many = Value::Array(vec![json!({"op": "test", "path": "", "value": 1}); MAX_OPERATIONS + 1]);
        assert!(matches!(JsonPatch::parse(many), Err(PatchError::TooLarge(_))));

        let doubling = Value::Array(vec![json!({"op": "copy", "from": "", "path": "/a"}); 200]);
        assert!(matches!(patched(json!({"x": "y"}), doubling), Err(PatchError::TooLarge(_))));

        let deeper: Vec<Value> = (0..1000)
            .flat_map(|i| {
                let (inner, outer) = (format!("/f{i}"), format!("/f{}", i + 1));
                [
                    json!({"op": "add", "path": outer, "value": {}}),
                    json!({"op": "move", "from": inner, "path": format!("{outer}/x")}),
                ]
            })
            .collect();
        assert!(matches!(patched(json!({"f0": {}}), Value::Array(deeper)), Err(PatchError::TooLarge(_))));
        let path = "/a".repeat(MAX_DEPTH + 1);
        assert!(patched(json!({}), json!([{"op": "test", "path": path, "value": 1}])).is_err());
    }

    proptest! {
        #[test]
        fn a_tested_value_is_the_value(key in "[a-z~/]{0,4}", value in any::<i32>(), other in any::<i32>()) {
            let path = format!("/{}", key.replace('~', "~0").replace('/', "~1"));
            let patch = json!([
                {"op": "add", "path": path, "value": value},
                {"op": "test", "path": path, "value": other},
            ]);
            let result = patched(json!({}), patch);
            prop_assert_eq!(result.is_ok(), value == other);
            if value == other {
                prop_assert_eq!(result, Ok(json!({key: value})));
            }
        }

        #[test]
        fn adding_then_removing_changes_nothing(list in prop::collection::vec(any::<u8>(), 0..6), at in 0usize..8) {
            let object = json!({"l": list});
            let path = format!("/l/{at}");
            let patch = json!([{"op": "add", "path": path, "value": "x"}, {"op": "remove", "path": path}]);
            match patched(object.clone(), patch) {
                Ok(result) => prop_assert_eq!(result, object),
                Err(_) => prop_assert!(at > list.len()),
            }
        }

        #[test]
        fn moving_is_removing_and_adding(list in prop::collection::vec(any::<u8>(), 1..6), from in 0usize..6, to in 0usize..6) {
            let object = json!({"l": list});
            let moved = patched(object.clone(), json!([{"op": "move", "from": format!("/l/{from}"), "path": format!("/l/{to}")}]));
            let by_hand = list.get(from).map(|value| {
                patched(object, json!([
                    {"op": "remove", "path": format!("/l/{from}")},
                    {"op": "add", "path": format!("/l/{to}"), "value": value},
                ]))
            });
            prop_assert_eq!(moved.ok(), by_hand.and_then(Result::ok));
        }
    }
}
