//! What is particular to one kind: its defaults, its rules, its columns. Everything else is the same for all.
//!
//! The order of a write is the one Kubernetes has: decode and prune by schema, [`Behaviour::default`], then
//! [`Behaviour::prepare_create`] or [`Behaviour::prepare_update`], then the rules of metadata, then
//! [`Behaviour::validate`] or [`Behaviour::validate_update`]. All of it is pure.

use std::fmt::Debug;

use jiff::Timestamp;
use serde_json::{Value, json};

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

/// A column of `kubectl get`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Column {
    pub name: &'static str,
    /// `string`, `integer`, `number`, `boolean` or `date`.
    pub kind: &'static str,
    /// `name` for the column that holds the object's name, else "".
    pub format: &'static str,
    pub description: &'static str,
    /// 0 is always shown; 1 only with `-o wide`.
    pub priority: i32,
}

impl Column {
    /// What a table says of it.
    pub fn definition(&self) -> Value {
        let Column { name, kind, format, description, priority } = self;
        json!({"name": name, "type": kind, "format": format, "description": description, "priority": priority})
    }
}

/// A field that `--field-selector` may use, besides `metadata.name` and `metadata.namespace`.
#[derive(Debug, Clone, Copy)]
pub struct SelectableField {
    /// The selector's name for it, such as `spec.nodeName`.
    pub name: &'static str,
    /// Its value as text; "" where it is absent.
    pub value: fn(&Value) -> String,
}

/// Which part of an object a write may change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Part {
    /// The object without its status.
    Main,
    /// Only `status` (and some metadata).
    Status,
    /// A part with a name of its own, such as a Pod's `ephemeralcontainers` or a Namespace's `finalize`.
    Other(&'static str),
}

/// The rules of one kind. Objects are complete JSON objects with `apiVersion`, `kind` and `metadata`.
pub trait Behaviour: Debug + Send + Sync {
    /// Fills in what the writer left out, as Kubernetes defaults it. Idempotent; runs on every decoded object.
    fn default(&self, _object: &mut Value) {}

    /// Why an object may not be created, other than being invalid: a refusal is a 403 with these words.
    fn admit(&self, _object: &Value) -> Result<(), String> {
        Ok(())
    }

    /// Sets what a new object starts with, whatever its writer said (an initial status, for example).
    fn prepare_create(&self, _object: &mut Value) {}

    /// Takes over from `old` what a write to this part may not change. The server has already carried over `status`
    /// (for [`Part::Main`]) or everything but `status` (for [`Part::Status`]) where the kind has that subresource.
    fn prepare_update(&self, _object: &mut Value, _old: &Value, _part: Part) {}

    /// The fields, with all below them, that a write to this part does not set whatever it says, and so does not own. Where
    /// the kind has a status, a write to the object itself never sets that.
    fn untouched_fields(&self, part: Part) -> &'static [&'static [&'static str]] {
        match part {
            Part::Status => &[&["spec"]],
            Part::Main | Part::Other(_) => &[],
        }
    }

    /// Messages for what is wrong with a name; none if it is good. `prefix` is true for a `generateName`.
    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::object_name(names::dns1123_subdomain, name, prefix)
    }

    /// Everything that must hold of a new object, metadata aside.
    fn validate(&self, _object: Node<'_, '_>, _errors: &mut Errors) {}

    /// Everything that must hold of a changed object, metadata aside, in the order Kubernetes reports it. A kind that
    /// checks the whole object again on update calls its own `validate` from here; by default that is all it does.
    fn validate_update(&self, object: Node<'_, '_>, _old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Main {
            self.validate(object, errors);
        }
    }

    /// Whether `metadata.generation` counts the changes of this kind's spec.
    fn has_generation(&self) -> bool {
        false
    }

    /// Whether a change counts in `metadata.generation`: by default any change but to metadata and status.
    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let desired = |object: &Value, other: &Value| {
            let fields = object.as_object().into_iter().flatten();
            fields
                .filter(|(field, _)| !matches!(field.as_str(), "metadata" | "status"))
                .all(|(field, value)| other.get(field) == Some(value))
        };
        !(desired(object, old) && desired(old, object))
    }

    /// How long an object of this kind goes on after its deletion, given what the deletion asked for; `None` for a kind
    /// that goes at once. A negative answer is not possible.
    fn grace_period_seconds(&self, _object: &Value, _requested: Option<i64>) -> Option<i64> {
        None
    }

    /// Remarks for the writer of an object that is accepted (a `Warning` header each).
    fn warnings(&self, _object: Node<'_, '_>, _old: Option<&Value>) -> Vec<String> {
        Vec::new()
    }

    /// What does not happen because nothing acts on objects of this kind yet, such as `no Pods will be created`. Everybody
    /// who writes one is told.
    fn left_undone(&self) -> Option<&'static str> {
        None
    }

    /// The last step of a write that is in order: drops what the stored form does not hold.
    fn settle(&self, _object: &mut Value) {}

    /// The columns of this kind's table, the first of them its name.
    fn columns(&self) -> &[Column];

    /// The same as a table has them. Only for a kind whose columns are not known beforehand.
    fn column_definitions(&self) -> Vec<Value> {
        self.columns().iter().map(Column::definition).collect()
    }

    /// One cell for each column.
    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value>;

    fn selectable_fields(&self) -> &[SelectableField] {
        &[]
    }

    /// Whether a selector by another field is told which fields there are.
    fn names_its_selectors(&self) -> bool {
        self.selectable_fields().is_empty()
    }

    /// Whether `--field-selector` may use a field, besides those of metadata.
    fn is_selectable(&self, field: &str) -> bool {
        self.selectable_fields().iter().any(|known| known.name == field)
    }

    /// The value of a field for `--field-selector`; "" where it is absent or cannot be selected by.
    fn selected(&self, object: &Value, field: &str) -> String {
        let known = self.selectable_fields().iter().find(|known| known.name == field);
        known.map_or_else(String::new, |known| (known.value)(object))
    }

    /// What clients of this kind are told whatever they ask, if it is on its way out.
    fn deprecation(&self) -> Option<&str> {
        None
    }

    /// Turns an object as a client sent it into the form it is stored in, which all other methods work on. Only for a
    /// kind served in two shapes.
    fn to_stored(&self, object: Value) -> Value {
        object
    }

    /// Turns a stored object into the form this version serves.
    fn to_served(&self, object: Value) -> Value {
        object
    }
}
