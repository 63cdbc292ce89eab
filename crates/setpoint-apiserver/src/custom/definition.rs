//! A stored CustomResourceDefinition, read into the resources that are served.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::kind::CustomKind;
use super::scale::{FieldPath, ScalePaths};
use super::structure::Structure;
use super::table::PrinterColumn;
use crate::cel::Rules as Expressions;
use crate::registry::{Resource, Rules, Subresource, Text, text_at};
use crate::schema::Schemas;
use setpoint_api::field::Path;
use setpoint_api::validation;

/// The resources of a definition: one for each version that is served or stored. `current_since` is the revision from which on its
/// objects are as the stored version's schema has them.
pub fn resources(definition: &Value, schemas: &Schemas, current_since: &Arc<AtomicU64>) -> Vec<Resource> {
    let versions = definition["spec"]["versions"].as_array().map(Vec::as_slice).unwrap_or_default();
    let Some(storage) = versions.iter().find(|version| version["storage"] == true) else { return Vec::new() };
    let stored_schema = Arc::new(Structure::compile(schema_of(storage)));
    let known = versions.iter().filter(|version| version["served"] == true || version["storage"] == true);
    known
        .map(|version| {
            let schema = match schema_of(version) == schema_of(storage) {
                true => stored_schema.clone(),
                false => Arc::new(Structure::compile(schema_of(version))),
            };
            let kind = CustomKind {
                uid: text_at(definition, &["metadata", "uid"]).into(),
                storage_version: text_at(storage, &["name"]).into(),
                served: version["served"] == true,
                schema,
                stored_schema: stored_schema.clone(),
                current_since: current_since.clone(),
                // What does not compile was refused when the definition was written.
                rules: Expressions::compile(schema_of(version), &Path::ROOT).ok().filter(|rules| !rules.is_empty()),
                own_rules: validation::check_of(
                    text_at(definition, &["spec", "group"]),
                    text_at(definition, &["spec", "names", "kind"]),
                ),
                has_status: version["subresources"]["status"].is_object(),
                scale: ScalePaths::parse(version),
                deprecation: deprecation(definition, version),
                terminating: definition["metadata"]["deletionTimestamp"].is_string(),
                columns: PrinterColumn::all(version),
                selectable: selectable(version),
                object_meta: schemas.object_meta(),
            };
            resource(definition, version, kind, schemas)
        })
        .collect()
}

fn resource(definition: &Value, version: &Value, kind: CustomKind, schemas: &Schemas) -> Resource {
    let names = &definition["status"]["acceptedNames"];
    let text = |field: &str| -> Text { text_at(names, &[field]).to_owned().into() };
    let list = |field: &str| -> Vec<Text> {
        let list = names[field].as_array().into_iter().flatten();
        list.filter_map(Value::as_str).map(|name| Text::from(name.to_owned())).collect()
    };
    let mut subresources = Vec::new();
    if kind.has_status {
        subresources.push(Subresource::Status);
    }
    if kind.scale.is_some() {
        subresources.push(Subresource::Scale);
    }
    let kind = Arc::new(kind);
    let group = text_at(definition, &["spec", "group"]).to_owned();
    let schema = schemas.structural(&kind.schema);
    Resource {
        plural: text("plural"),
        singular: text("singular"),
        list_kind: text("listKind"),
        short_names: list("shortNames"),
        categories: list("categories"),
        namespaced: definition["spec"]["scope"] == "Namespaced",
        subresources,
        rules: Rules { needs_revision: true, ..Rules::default() },
        custom: Some(kind.clone()),
        ..Resource::new(group, text_at(version, &["name"]).to_owned(), text("kind"), kind, schema)
    }
}

fn schema_of(version: &Value) -> &Value {
    &version["schema"]["openAPIV3Schema"]
}

/// A name for the schema that objects are stored by.
pub fn stored_schema_digest(definition: &Value) -> [u8; 32] {
    let versions = definition["spec"]["versions"].as_array().into_iter().flatten();
    let storage = versions.into_iter().find(|version| version["storage"] == true);
    Sha256::digest(storage.map(schema_of).unwrap_or(&Value::Null).to_string()).into()
}

fn deprecation(definition: &Value, version: &Value) -> Option<Box<str>> {
    if version["deprecated"] != true {
        return None;
    }
    Some(match version["deprecationWarning"].as_str() {
        Some(warning) => warning.into(),
        None => format!(
            "{}/{} {} is deprecated",
            text_at(definition, &["spec", "group"]),
            text_at(version, &["name"]),
            text_at(definition, &["spec", "names", "kind"])
        )
        .into(),
    })
}

fn selectable(version: &Value) -> Box<[FieldPath]> {
    let fields = version["selectableFields"].as_array().into_iter().flatten();
    fields
        .filter_map(|field| field["jsonPath"].as_str())
        .filter(|path| path.starts_with('.'))
        .map(FieldPath::new)
        .collect()
}
