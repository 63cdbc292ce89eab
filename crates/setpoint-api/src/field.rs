//! Reading a JSON object field by field, and saying exactly which field is wrong.
//!
//! A [`Node`] is a value and the path that led to it. Paths are linked through the stack and become text only when
//! an error is reported, so that validating a good object allocates nothing. Types were checked against the schema
//! before validation runs; an accessor on a value of another type answers as if the field were absent.

use std::fmt;

use serde::Serialize;
use serde_json::Value;

static NULL: Value = Value::Null;

/// Where a value stands in its object, such as `spec.containers[0].ports[1]` or `metadata.labels[app]`.
#[derive(Debug, Clone, Copy)]
pub struct Path<'p> {
    parent: Option<&'p Path<'p>>,
    step: Step<'p>,
}

#[derive(Debug, Clone, Copy)]
enum Step<'p> {
    Root,
    Field(&'p str),
    Index(usize),
    Key(&'p str),
}

impl<'p> Path<'p> {
    /// The object itself.
    pub const ROOT: Path<'static> = Path { parent: None, step: Step::Root };

    /// A path that starts at a named field.
    pub const fn of(name: &'p str) -> Path<'p> {
        Path { parent: None, step: Step::Field(name) }
    }

    pub fn field<'n>(&'n self, name: &'n str) -> Path<'n> {
        Path { parent: Some(self), step: Step::Field(name) }
    }

    pub fn index<'n>(&'n self, index: usize) -> Path<'n> {
        Path { parent: Some(self), step: Step::Index(index) }
    }

    pub fn key<'n>(&'n self, key: &'n str) -> Path<'n> {
        Path { parent: Some(self), step: Step::Key(key) }
    }
}

impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at_start = match self.parent {
            Some(parent) => {
                parent.fmt(f)?;
                matches!(parent.step, Step::Root)
            }
            None => true,
        };
        match self.step {
            Step::Root => Ok(()),
            Step::Field(name) if at_start => f.write_str(name),
            Step::Field(name) => write!(f, ".{name}"),
            Step::Index(index) => write!(f, "[{index}]"),
            Step::Key(key) => write!(f, "[{key}]"),
        }
    }
}

/// A value together with where it stands. An absent field is a node whose value is null.
#[derive(Debug, Clone, Copy)]
pub struct Node<'v, 'p> {
    pub value: &'v Value,
    pub path: Path<'p>,
}

impl<'v, 'p> Node<'v, 'p> {
    /// The whole object.
    pub fn root(value: &'v Value) -> Node<'v, 'static> {
        Node { value, path: Path::ROOT }
    }

    pub fn field<'n>(&'n self, name: &'n str) -> Node<'v, 'n> {
        Node { value: self.value.get(name).unwrap_or(&NULL), path: self.path.field(name) }
    }

    /// The elements of a list; none if there is no list.
    pub fn items<'n>(&'n self) -> impl ExactSizeIterator<Item = Node<'v, 'n>> + DoubleEndedIterator + Clone {
        let items: &'v [Value] = self.value.as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().enumerate().map(|(index, value)| Node { value, path: self.path.index(index) })
    }

    /// The entries of a map, each under its key's path (`labels[app]`); none if there is no map.
    pub fn entries<'n>(&'n self) -> impl Iterator<Item = (&'v str, Node<'v, 'n>)>
    where
        'v: 'n,
    {
        self.value
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), Node { value, path: self.path.key(key) }))
    }

    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// The number of elements or entries.
    pub fn len(&self) -> usize {
        match self.value {
            Value::Array(items) => items.len(),
            Value::Object(entries) => entries.len(),
            _ => 0,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The text, or "" where there is none (as Kubernetes' own types have it).
    pub fn str(&self) -> &'v str {
        self.value.as_str().unwrap_or_default()
    }

    pub fn i64(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub fn bool(&self) -> Option<bool> {
        self.value.as_bool()
    }
}

/// What is wrong with a field, in Kubernetes' vocabulary.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    Required,
    Invalid,
    NotSupported,
    Duplicate,
    Forbidden,
    TooLong,
    TooMany,
    NotFound,
    TypeInvalid,
}

impl Fault {
    /// The `reason` of a Status cause.
    pub fn reason(self) -> &'static str {
        match self {
            Fault::Required => "FieldValueRequired",
            Fault::Invalid => "FieldValueInvalid",
            Fault::NotSupported => "FieldValueNotSupported",
            Fault::Duplicate => "FieldValueDuplicate",
            Fault::Forbidden => "FieldValueForbidden",
            Fault::TooLong => "FieldValueTooLong",
            Fault::TooMany => "FieldValueTooMany",
            Fault::NotFound => "FieldValueNotFound",
            Fault::TypeInvalid => "FieldValueTypeInvalid",
        }
    }
}

/// One problem with one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FieldError {
    pub fault: Fault,
    pub field: String,
    /// What follows the field's name, such as `Invalid value: "x": must be y`.
    pub message: String,
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.message)
    }
}

/// How many problems are told, and how long their texts may be together. A body of some megabytes can be wrong in a
/// million places, and each message may repeat much of it.
const MAX_TOLD: usize = 1_000;
const MAX_TOLD_BYTES: usize = 1 << 20;

/// All problems found so far: validation reports everything, not only the first. Problems beyond what anybody reads are
/// only counted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Errors {
    told: Vec<FieldError>,
    told_bytes: usize,
    untold: usize,
    remarks: Vec<String>,
}

impl Errors {
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many problems there are.
    pub fn len(&self) -> usize {
        self.told.len() + self.untold
    }

    /// How many problems there are besides those of [`Errors::iter`].
    pub fn untold(&self) -> usize {
        self.untold
    }

    pub fn iter(&self) -> impl Iterator<Item = &FieldError> {
        self.told.iter()
    }

    /// The problems that are not among others.
    pub fn without(mut self, known: &Errors) -> Errors {
        self.told.retain(|error| !known.told.contains(error));
        self.untold = self.untold.saturating_sub(known.untold);
        self
    }

    /// Says something that is no problem, or is none of this writer's.
    pub fn remark(&mut self, remark: String) {
        if self.remarks.len() < MAX_TOLD {
            self.remarks.push(remark);
        }
    }

    /// What was remarked upon, whether there are problems or not.
    pub fn into_remarks(self) -> Vec<String> {
        self.remarks
    }

    pub fn extend(&mut self, other: Errors) {
        self.untold += other.untold;
        other.remarks.into_iter().for_each(|remark| self.remark(remark));
        other.told.into_iter().for_each(|error| self.tell(|| error));
    }

    pub fn required(&mut self, path: &Path<'_>, detail: &str) {
        self.push(Fault::Required, path, || with_detail("Required value", detail));
    }

    /// `value` is shown as JSON; for a field of a Kubernetes type whose zero value is not null, pass that zero value.
    pub fn invalid(&mut self, path: &Path<'_>, value: impl Serialize, detail: &str) {
        self.push(Fault::Invalid, path, || with_detail(&format!("Invalid value: {}", shown(value)), detail));
    }

    pub fn unsupported(&mut self, path: &Path<'_>, value: impl Serialize, supported: &[&str]) {
        self.push(Fault::NotSupported, path, || {
            let list: Vec<String> = supported.iter().map(shown).collect();
            format!("Unsupported value: {}: supported values: {}", shown(value), list.join(", "))
        });
    }

    pub fn duplicate(&mut self, path: &Path<'_>, value: impl Serialize) {
        self.push(Fault::Duplicate, path, || format!("Duplicate value: {}", shown(value)));
    }

    pub fn forbidden(&mut self, path: &Path<'_>, detail: &str) {
        self.push(Fault::Forbidden, path, || with_detail("Forbidden", detail));
    }

    pub fn too_long(&mut self, path: &Path<'_>, max: usize) {
        self.push(Fault::TooLong, path, || format!("Too long: may not be more than {max} bytes"));
    }

    pub fn too_many(&mut self, path: &Path<'_>, actual: usize, max: usize) {
        let items = if max == 1 { "item" } else { "items" };
        self.push(Fault::TooMany, path, || format!("Too many: {actual}: must have at most {max} {items}"));
    }

    pub fn not_found(&mut self, path: &Path<'_>, value: impl Serialize) {
        self.push(Fault::NotFound, path, || format!("Not found: {}", shown(value)));
    }

    /// For a message that cannot be said with the methods above, such as one that shows an object in the order in which
    /// Kubernetes declares its fields.
    pub fn push(&mut self, fault: Fault, path: &Path<'_>, message: impl FnOnce() -> String) {
        self.tell(|| FieldError { fault, field: path.to_string(), message: message() });
    }

    fn tell(&mut self, error: impl FnOnce() -> FieldError) {
        if self.told.len() >= MAX_TOLD || self.told_bytes >= MAX_TOLD_BYTES {
            self.untold += 1;
            return;
        }
        let error = error();
        self.told_bytes += error.field.len() + error.message.len();
        self.told.push(error);
    }
}

fn shown(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("a value that was read as JSON can be written as JSON")
}

fn with_detail(head: &str, detail: &str) -> String {
    if detail.is_empty() { head.to_owned() } else { format!("{head}: {detail}") }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn paths_read_as_kubernetes_writes_them() {
        let object = json!({"spec": {"containers": [{"name": ""}]}, "metadata": {"labels": {"a/b": "c"}}});
        let root = Node::root(&object);
        let spec = root.field("spec");
        let containers = spec.field("containers");
        let first = containers.items().next().expect("one container");
        assert_eq!(first.field("name").path.to_string(), "spec.containers[0].name");
        let metadata = root.field("metadata");
        let labels = metadata.field("labels");
        let (key, value) = labels.entries().next().expect("one label");
        assert_eq!((key, value.str(), value.path.to_string().as_str()), ("a/b", "c", "metadata.labels[a/b]"));
    }

    #[test]
    fn no_more_is_told_than_anybody_reads() {
        let rows = [("many", "x".to_owned(), 5_000, 1_000), ("long", "x".repeat(1 << 20), 5, 1)];
        for (name, value, count, told) in rows {
            let mut errors = Errors::default();
            (0..count).for_each(|_| errors.invalid(&Path::of("spec"), &value, ""));
            assert_eq!((errors.iter().count(), errors.untold()), (told, count - told), "{name}");
            let mut all = errors.clone();
            all.extend(errors);
            assert_eq!((all.iter().count(), all.len()), (told, 2 * count), "{name}");
        }
    }

    #[test]
    fn messages_read_as_kubernetes_writes_them() {
        let mut errors = Errors::default();
        let path = Path::of("spec");
        errors.required(&path, "");
        errors.invalid(&path, "x", "must be y");
        errors.unsupported(&path, "x", &["a", "b"]);
        errors.too_long(&path, 63);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "spec: Required value",
                r#"spec: Invalid value: "x": must be y"#,
                r#"spec: Unsupported value: "x": supported values: "a", "b""#,
                "spec: Too long: may not be more than 63 bytes",
            ]
        );
    }
}
