//! CustomResourceDefinitions: what a custom resource is called, in which versions it is served, and what its objects are.

mod defaults;
mod openapi;
mod paths;
mod structural;
mod validation;

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::defaults as filling;
use crate::columns;
use crate::custom::definitions::FINALIZER;
use crate::custom::{format, names};
use crate::deletion::{Deletion, seconds};
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};

#[derive(Debug, Clone, Copy)]
pub struct CustomResourceDefinition;

impl Behaviour for CustomResourceDefinition {
    fn default(&self, object: &mut Value) {
        let spec = filling::section(object, "spec");
        let kind = spec["names"]["kind"].as_str().unwrap_or_default().to_owned();
        let asked = filling::section(spec, "names");
        if !kind.is_empty() {
            filling::fill_text(asked, "singular", &kind.to_lowercase());
            filling::fill_text(asked, "listKind", &format!("{kind}List"));
        }
        filling::fill_text(filling::section(spec, "conversion"), "strategy", "None");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({
            "conditions": null,
            "acceptedNames": {"plural": "", "kind": ""},
            "storedVersions": null,
        });
        note_stored_version(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, part: Part) {
        if part == Part::Main {
            note_stored_version(object);
        }
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validation::validate_name(object, errors);
        validation::validate(object, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        match part {
            Part::Main => validation::validate_update(object, old, errors),
            _ => validation::validate_status(object, errors),
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        let known: HashSet<String> = old.map(unknown_formats).unwrap_or_default().into_iter().collect();
        let unknown = unknown_formats(object.value).into_iter().filter(|format| !known.contains(format));
        unknown.map(|format| format!("unrecognized format {format:?}")).collect()
    }

    fn columns(&self) -> &[Column] {
        const CREATED: Column = Column { name: "Created At", kind: "date", ..columns::AGE };
        const COLUMNS: [Column; 2] = [columns::NAME, CREATED];
        &COLUMNS
    }

    fn cells(&self, object: &Value, _: Timestamp) -> Vec<Value> {
        vec![columns::name_cell(object), object["metadata"]["creationTimestamp"].clone()]
    }
}

/// A version that is stored now may have objects for as long as nobody says otherwise.
fn note_stored_version(object: &mut Value) {
    let versions = object["spec"]["versions"].as_array().into_iter().flatten();
    let storage =
        versions.into_iter().find(|version| version["storage"] == true).map(|version| version["name"].clone());
    let Some(name) = storage else { return };
    let stored = &mut object["status"]["storedVersions"];
    match stored {
        Value::Array(known) if known.contains(&name) => {}
        Value::Array(known) => known.push(name),
        _ => *stored = json!([name]),
    }
}

/// The formats of texts in all schemas that this server does not know.
fn unknown_formats(definition: &Value) -> Vec<String> {
    fn collect<'v>(schema: &'v Value, seen: &mut HashSet<&'v str>, found: &mut Vec<String>) {
        match schema {
            Value::Object(fields) => {
                if let Some(name) = fields.get("format").and_then(Value::as_str).filter(|name| !format::is_known(name))
                    && seen.insert(name)
                {
                    found.push(name.to_owned());
                }
                fields
                    .iter()
                    .filter(|(name, _)| *name != "default" && *name != "enum")
                    .for_each(|(_, v)| collect(v, seen, found));
            }
            Value::Array(items) => items.iter().for_each(|item| collect(item, seen, found)),
            _ => {}
        }
    }
    let (mut seen, mut found) = (HashSet::new(), Vec::new());
    for version in definition["spec"]["versions"].as_array().into_iter().flatten() {
        collect(&version["schema"]["openAPIV3Schema"], &mut seen, &mut found);
    }
    found
}

/// A definition stays until its objects are gone.
pub fn decide_deletion(object: &Value, now: Timestamp) -> Deletion {
    let metadata = &object["metadata"];
    let finalizers = metadata["finalizers"].as_array().map(Vec::as_slice).unwrap_or_default();
    if metadata["deletionTimestamp"].is_string() {
        return if finalizers.is_empty() { Deletion::Remove(object.clone()) } else { Deletion::Keep };
    }
    let mut marked = object.clone();
    marked["metadata"]["deletionTimestamp"] = seconds(now).into();
    if !finalizers.iter().any(|finalizer| finalizer == FINALIZER) {
        let finalizers = finalizers.iter().cloned().chain([FINALIZER.into()]);
        marked["metadata"]["finalizers"] = finalizers.collect();
    }
    let message = "CustomResourceDefinition marked for deletion; CustomResource deletion will begin soon";
    names::set_condition(&mut marked, "Terminating", true, "InstanceDeletionPending", message, now);
    Deletion::Mark(marked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_definitions_are_in_order() {
        for definition in setpoint_api::crds::all() {
            let mut object = serde_json::to_value(&definition).expect("a definition is JSON");
            CustomResourceDefinition.default(&mut object);
            CustomResourceDefinition.prepare_create(&mut object);
            let mut errors = Errors::default();
            CustomResourceDefinition.validate(Node::root(&object), &mut errors);
            assert!(errors.is_empty(), "{:?}: {errors:?}", definition.metadata.name);
        }
    }
}
