//! The rules of a custom resource in one version: what its definition says, behind the trait of all kinds.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_store::Revision;

use super::scale::{FieldPath, ScalePaths};
use super::structure::Structure;
use super::table::PrinterColumn;
use super::validate::{Place, validate, validate_lists, validate_update};
use super::{default, embedded, prune};
use crate::cel::{Budget, Rules};
use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use crate::schema::{DecodeError, Decoded, Schema};
use setpoint_api::field::{Errors, Fault, Node, Path};
use setpoint_api::{names, validation};

const UNCHECKED: &str = "some validation rules were not checked because the object was invalid; correct the existing errors to complete validation";

/// A custom resource in one version.
#[derive(Debug)]
pub struct CustomKind {
    /// The definition's: one that is deleted and made again is another.
    pub uid: Box<str>,
    pub storage_version: Box<str>,
    /// Whether clients see this version; the one that is stored is known even where they do not.
    pub served: bool,
    /// The schema of this version.
    pub schema: Arc<Structure>,
    /// The schema of the version that is stored; the same one where they do not differ.
    pub stored_schema: Arc<Structure>,
    /// Objects stored before this revision may not be as the stored schema has them now.
    pub current_since: Arc<AtomicU64>,
    pub rules: Option<Rules>,
    /// What a kind of our own asks for beyond its schema.
    pub own_rules: Option<validation::Check>,
    pub has_status: bool,
    pub scale: Option<ScalePaths>,
    pub deprecation: Option<Box<str>>,
    /// The definition is being deleted: nothing new is made.
    pub terminating: bool,
    pub(super) columns: Box<[PrinterColumn]>,
    pub(super) selectable: Box<[FieldPath]>,
    pub(super) object_meta: Schema,
}

impl CustomKind {
    /// Reads a parsed body as an object of this kind, of which nothing but its metadata is checked yet.
    pub fn decode(&self, mut decoded: Decoded) -> Result<Decoded, DecodeError> {
        if let Some(metadata) = decoded.object.get("metadata").filter(|metadata| !metadata.is_null()) {
            let metadata = self.object_meta.decode_at(metadata, Path::of("metadata"))?;
            decoded.object["metadata"] = metadata.object;
            decoded.remarks.extend(metadata.remarks);
        }
        let pruned = prune::prune(&mut decoded.object, &self.schema);
        decoded.remarks.extend(pruned.iter().map(|path| format!("unknown field \"{path}\"")));
        Ok(decoded)
    }

    /// Whether an object that was stored at a revision may differ from how this version shows it.
    pub fn converts(&self, revision: Revision) -> bool {
        !self.is_stored_version() || self.is_outdated(revision)
    }

    fn is_stored_version(&self) -> bool {
        Arc::ptr_eq(&self.schema, &self.stored_schema)
    }

    /// Whether an object was stored at a revision by an earlier schema.
    pub fn is_outdated(&self, revision: Revision) -> bool {
        revision != 0 && revision < self.current_since.load(Ordering::Acquire)
    }

    /// Brings an object that was stored at a revision to the form this version shows.
    pub fn convert(&self, object: &mut Value, revision: Revision) {
        if self.is_outdated(revision) {
            prune::prune(object, &self.stored_schema);
            default::default(object, &self.stored_schema);
        }
        if !self.is_stored_version() {
            prune::prune(object, &self.schema);
        }
    }

    fn check_rules(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        let Some(rules) = &self.rules else { return };
        let blocks = |fault: Fault| {
            use Fault::{NotSupported, Required, TooLong, TooMany, TypeInvalid};
            matches!(fault, NotSupported | Required | TooLong | TooMany | TypeInvalid)
        };
        if errors.iter().any(|error| blocks(error.fault)) {
            errors.invalid(&Path::of("<nil>"), Value::Null, UNCHECKED);
        } else {
            rules.validate(object, old, Budget::default(), errors);
        }
    }

    /// The rules of our own kinds, of objects that are as their schema has them.
    fn check_own_rules(&self, object: &Value, old: Option<&Value>, errors: &mut Errors) {
        if let Some(check) = self.own_rules
            && errors.is_empty()
        {
            errors.extend(check(object, old));
        }
    }

    fn validate_status(&self, object: &Value, old: &Value, errors: &mut Errors) {
        if let (Some(status), Some(schema)) = (object.get("status"), self.schema.property("status")) {
            let (none, place) = (Value::Null, Place::at("status"));
            validate_update(status, old.get("status").unwrap_or(&none), schema, &place, errors);
        }
    }
}

impl Behaviour for CustomKind {
    fn default(&self, object: &mut Value) {
        default::default(object, &self.schema);
    }

    fn prepare_create(&self, object: &mut Value) {
        if self.has_status
            && let Some(fields) = object.as_object_mut()
        {
            fields.remove("status");
        }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::object_name(names::dns1123_subdomain, name, prefix)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate(object.value, &self.schema, &Place::OBJECT, errors);
        if let Some(scale) = &self.scale {
            scale.validate_spec(object.value, errors);
            scale.validate_status(object.value, errors);
        }
        embedded::validate(object, &self.schema, errors);
        validate_lists(object.value, &self.schema, &Path::ROOT, errors);
        self.check_rules(object.value, None, errors);
        self.check_own_rules(object.value, None, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            self.validate_status(object.value, old, errors);
        } else {
            validate_update(object.value, old, &self.schema, &Place::OBJECT, errors);
        }
        if let Some(scale) = &self.scale {
            if part != Part::Status {
                scale.validate_spec(object.value, errors);
            }
            scale.validate_status(object.value, errors);
        }
        if part != Part::Status {
            embedded::validate(object, &self.schema, errors);
        }
        let mut before = Errors::default();
        validate_lists(old, &self.schema, &Path::ROOT, &mut before);
        if before.is_empty() {
            validate_lists(object.value, &self.schema, &Path::ROOT, errors);
        }
        self.check_rules(object.value, Some(old), errors);
        if part == Part::Main {
            self.check_own_rules(object.value, Some(old), errors);
        }
    }

    fn settle(&self, object: &mut Value) {
        if !self.is_stored_version() {
            prune::prune(object, &self.stored_schema);
            default::default(object, &self.stored_schema);
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn is_new_generation(&self, object: &Value, old: &Value) -> bool {
        let counts = |field: &str| field != "metadata" && !(self.has_status && field == "status");
        let same = |a: &Value, b: &Value| {
            let fields = a.as_object().into_iter().flatten();
            fields.filter(|(field, _)| counts(field)).all(|(field, value)| b.get(field) == Some(value))
        };
        !(same(object, old) && same(old, object))
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        let finalizers = |object: &Value| -> Vec<String> {
            let list = object["metadata"]["finalizers"].as_array().into_iter().flatten();
            list.filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let known = old.map(finalizers).unwrap_or_default();
        let mut added: Vec<String> =
            finalizers(object.value).into_iter().filter(|finalizer| !known.contains(finalizer)).collect();
        added.sort();
        added.iter().filter_map(|finalizer| finalizer_remark(finalizer)).collect()
    }

    fn columns(&self) -> &[Column] {
        &[columns::NAME]
    }

    fn column_definitions(&self) -> Vec<Value> {
        let own = self.columns.iter().map(PrinterColumn::definition);
        std::iter::once(columns::NAME.definition()).chain(own).collect()
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let own = self.columns.iter().map(|column| column.cell(object, now));
        std::iter::once(columns::name_cell(object)).chain(own).collect()
    }

    fn names_its_selectors(&self) -> bool {
        false
    }

    fn is_selectable(&self, field: &str) -> bool {
        self.selectable.iter().any(|path| path.text[1..] == *field)
    }

    fn selected(&self, object: &Value, field: &str) -> String {
        let path = self.selectable.iter().find(|path| path.text[1..] == *field);
        match path.and_then(|path| path.find(object)) {
            None | Some(Value::Null) => String::new(),
            Some(Value::String(text)) => text.clone(),
            Some(value) => value.to_string(),
        }
    }

    fn deprecation(&self) -> Option<&str> {
        self.deprecation.as_deref()
    }
}

/// What to tell somebody whose finalizer may be taken for somebody else's.
fn finalizer_remark(name: &str) -> Option<String> {
    if name.contains('/') || crate::object_meta::STANDARD_FINALIZERS.contains(&name) {
        return None;
    }
    let advice = if name.contains('.') {
        "a domain-qualified finalizer name including a path (/)"
    } else {
        "a domain-qualified finalizer name"
    };
    Some(format!(
        "metadata.finalizers: {}: prefer {advice} to avoid accidental conflicts with other finalizer writers",
        json!(name)
    ))
}
