//! The form of a schema: which parts of OpenAPI a definition may use, and how they go together.

use serde_json::Value;

use setpoint_api::field::{Errors, Node};

const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];
const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];
const NOT_SUPPORTED: [&str; 6] = ["id", "additionalItems", "patternProperties", "definitions", "dependencies", "$ref"];
/// What may stand at the root of a schema whose status is validated apart.
const ALLOWED_AT_ROOT: [(&str, &str); 22] = [
    ("Description", "description"),
    ("Type", "type"),
    ("Format", "format"),
    ("Title", "title"),
    ("Maximum", "maximum"),
    ("ExclusiveMaximum", "exclusiveMaximum"),
    ("Minimum", "minimum"),
    ("ExclusiveMinimum", "exclusiveMinimum"),
    ("MaxLength", "maxLength"),
    ("MinLength", "minLength"),
    ("Pattern", "pattern"),
    ("MaxItems", "maxItems"),
    ("MinItems", "minItems"),
    ("UniqueItems", "uniqueItems"),
    ("MultipleOf", "multipleOf"),
    ("Required", "required"),
    ("Items", "items"),
    ("Properties", "properties"),
    ("ExternalDocs", "externalDocs"),
    ("Example", "example"),
    ("XPreserveUnknownFields", "x-kubernetes-preserve-unknown-fields"),
    ("XValidations", "x-kubernetes-validations"),
];

/// What is known of the schemas around one.
#[derive(Debug, Clone, Copy)]
pub(super) struct Context {
    is_root: bool,
    inside_meta: bool,
    /// Why there may be no default.
    no_default: Option<&'static str>,
}

impl Context {
    pub(super) const ROOT: Context = Context { is_root: true, inside_meta: false, no_default: None };
}

/// Checks the root of a schema whose objects have a status of their own.
pub(super) fn validate_root(schema: Node<'_, '_>, errors: &mut Errors) {
    let kind = schema.field("type");
    if kind.is_set() && kind.str() != "object" {
        let detail =
            r#"only "object" is allowed as the type at the root of the schema if the status subresource is enabled"#;
        errors.invalid(&kind.path, kind.str(), detail);
        return;
    }
    let fields = schema.value.as_object().into_iter().flatten();
    if fields
        .filter(|(_, value)| !value.is_null())
        .any(|(name, _)| !ALLOWED_AT_ROOT.iter().any(|(_, known)| known == name))
    {
        let allowed = ALLOWED_AT_ROOT.map(|(shown, _)| shown).join(" ");
        let detail = format!(
            "only [{allowed}] fields are allowed at the root of the schema if the status subresource is enabled"
        );
        errors.invalid(&schema.path, schema.value, &detail);
    }
}

/// Checks the form of a schema and of all within it.
pub(super) fn validate(schema: Node<'_, '_>, context: Context, errors: &mut Errors) {
    if !schema.value.is_object() {
        return;
    }
    validate_parts(schema, context, errors);
    if schema.field("uniqueItems").bool() == Some(true) {
        let detail = "uniqueItems cannot be set to true since the runtime complexity becomes quadratic";
        errors.forbidden(&schema.field("uniqueItems").path, detail);
    }
    let below = Context { is_root: false, ..context };
    let values = schema.field("additionalProperties");
    if values.is_set() {
        let properties = schema.value["properties"].as_object().is_some_and(|properties| !properties.is_empty());
        if properties && values.value != &Value::Bool(true) {
            errors.forbidden(&values.path, "additionalProperties and properties are mutual exclusive");
        }
        let reason = context.inside_meta.then_some("inside additionalProperties applying to object metadata");
        validate(values, Context { no_default: reason.or(below.no_default), ..below }, errors);
    }
    let embedded = schema.field("x-kubernetes-embedded-resource").bool() == Some(true);
    let parent = schema.path.field("properties");
    for (name, value) in schema.value["properties"].as_object().into_iter().flatten() {
        let mut below = below;
        if (context.is_root || embedded) && META_FIELDS.contains(&name.as_str()) {
            below.inside_meta = true;
            if context.is_root {
                below.no_default = match name.as_str() {
                    "metadata" => Some("in top-level metadata"),
                    "kind" => Some("in top-level kind"),
                    _ => Some("in top-level apiVersion"),
                };
            }
        }
        validate(Node { value, path: parent.key(name) }, below, errors);
    }
    validate(schema.field("not"), below, errors);
    for name in ["allOf", "oneOf", "anyOf"] {
        schema.field(name).items().for_each(|part| validate(part, below, errors));
    }
    validate(schema.field("items"), below, errors);
    validate_extensions(schema, errors);
}

fn validate_parts(schema: Node<'_, '_>, context: Context, errors: &mut Errors) {
    let kind = schema.field("type");
    if !kind.str().is_empty() && !TYPES.contains(&kind.str()) {
        errors.unsupported(&kind.path, kind.str(), &TYPES);
    }
    if let Some(reason) = context.no_default.filter(|_| schema.field("default").is_set()) {
        errors.forbidden(&schema.field("default").path, &format!("must not be set {reason}"));
    }
    for name in NOT_SUPPORTED {
        let part = schema.field(name);
        if part.is_set() && part.value != &Value::from("") {
            errors.forbidden(&part.path, &format!("{name} is not supported"));
        }
    }
    if kind.str() == "null" {
        errors.forbidden(&kind.path, "type cannot be set to null, use nullable as an alternative");
    }
    if schema.field("items").value.is_array() {
        errors.forbidden(&schema.field("items").path, "items must be a schema object and not an array");
    }
    if context.inside_meta && schema.field("x-kubernetes-embedded-resource").bool() == Some(true) {
        let path = schema.path.field("x-kubernetes-embedded-resource");
        errors.forbidden(&path, "must not be used inside of resource meta");
    }
}

fn validate_extensions(schema: Node<'_, '_>, errors: &mut Errors) {
    let preserves = schema.field("x-kubernetes-preserve-unknown-fields");
    if preserves.bool() == Some(false) {
        errors.invalid(&preserves.path, false, "must be true or undefined");
    }
    let (map_type, list_type) = (schema.field("x-kubernetes-map-type"), schema.field("x-kubernetes-list-type"));
    needs_type(schema, map_type, "object", "x-kubernetes-map-type", errors);
    let map_types = ["atomic", "granular"];
    if map_type.is_set() && !map_types.contains(&map_type.str()) {
        errors.unsupported(&map_type.path, map_type.str(), &map_types);
    }
    needs_type(schema, list_type, "array", "x-kubernetes-list-type", errors);
    validate_list(schema, list_type, errors);
}

fn needs_type(schema: Node<'_, '_>, node: Node<'_, '_>, needed: &str, name: &str, errors: &mut Errors) {
    let kind = schema.field("type");
    if !node.is_set() || kind.str() == needed {
        return;
    }
    let detail = format!("must be {needed} if {name} is specified");
    match kind.str() {
        "" => errors.required(&kind.path, &detail),
        other => errors.invalid(&kind.path, other, &detail),
    }
}

fn validate_list(schema: Node<'_, '_>, list_type: Node<'_, '_>, errors: &mut Errors) {
    let (items, keys) = (schema.field("items"), schema.field("x-kubernetes-list-map-keys"));
    let detail = "must be atomic as item of a list with x-kubernetes-list-type=set";
    if list_type.str() == "set" && schema.field("type").str() == "array" {
        let (list, map) = (items.field("x-kubernetes-list-type"), items.field("x-kubernetes-map-type"));
        match items.field("type").str() {
            "array" if list.is_set() && list.str() != "atomic" => errors.invalid(&list.path, list.value, detail),
            "object" if map.str() != "atomic" => errors.invalid(&map.path, list.value, detail),
            _ => {}
        }
    }
    let list_types = ["atomic", "set", "map"];
    if list_type.is_set() && !list_types.contains(&list_type.str()) {
        errors.unsupported(&list_type.path, list_type.str(), &list_types);
    }
    let detail = "must be map if x-kubernetes-list-map-keys is non-empty";
    if !keys.is_empty() && !list_type.is_set() {
        errors.required(&list_type.path, detail);
    } else if !keys.is_empty() && list_type.str() != "map" {
        errors.invalid(&list_type.path, list_type.str(), detail);
    }
    if list_type.str() == "map" {
        validate_map(items, keys, errors);
    }
    if matches!(list_type.str(), "set" | "map") && items.field("nullable").bool() == Some(true) {
        let detail = format!("cannot be nullable when x-kubernetes-list-type is {}", list_type.str());
        errors.forbidden(&items.field("nullable").path, &detail);
    }
    if list_type.str() == "map" {
        validate_keys(items, keys, errors);
    }
}

fn validate_map(items: Node<'_, '_>, keys: Node<'_, '_>, errors: &mut Errors) {
    if keys.is_empty() {
        errors.required(&keys.path, "must not be empty if x-kubernetes-list-type is map");
    }
    if !items.is_set() {
        errors.required(&items.path, "must have a schema if x-kubernetes-list-type is map");
        return;
    }
    let kind = items.field("type");
    if kind.str() != "object" {
        errors.invalid(&kind.path, kind.str(), "must be object if parent array's x-kubernetes-list-type is map");
        return;
    }
    let parent = items.path.field("properties");
    let mut seen = Vec::new();
    for key in keys.items().map(|key| key.str()) {
        match items.value["properties"].get(key) {
            Some(property) if matches!(property["type"].as_str(), Some("array" | "object")) => {
                let detail = "must be a scalar type if parent array's x-kubernetes-list-type is map";
                errors.invalid(&parent.key(key).field("type"), kind.str(), detail);
            }
            Some(_) => {}
            None => errors.invalid(&keys.path, keys.value, "entries must all be names of item properties"),
        }
        if seen.contains(&key) {
            errors.invalid(&keys.path, keys.value, "must not contain duplicate entries");
        }
        seen.push(key);
    }
}

/// A key is always there.
fn validate_keys(items: Node<'_, '_>, keys: Node<'_, '_>, errors: &mut Errors) {
    let parent = items.path.field("properties");
    for key in keys.items().map(|key| key.str()) {
        let Some(property) = items.value["properties"].get(key) else { continue };
        let required =
            items.value["required"].as_array().is_some_and(|required| required.iter().any(|name| name == key));
        if !required && property.get("default").is_none() {
            let detail =
                "this property is in x-kubernetes-list-map-keys, so it must have a default or be a required property";
            errors.required(&parent.key(key).field("default"), detail);
        }
        if property["nullable"] == true {
            let detail = "this property is in x-kubernetes-list-map-keys, so it cannot be nullable";
            errors.forbidden(&parent.key(key).field("nullable"), detail);
        }
    }
}
