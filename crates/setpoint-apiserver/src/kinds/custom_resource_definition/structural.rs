//! Whether a schema is structural: whether it says of every field what it is, in one place.

use serde_json::Value;

use super::validation::pattern_fault;
use setpoint_api::field::{Errors, Fault, FieldError, Node, Path};

/// Where in a schema something stands, which is how messages call it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Level {
    Root,
    Item,
    Field,
}

const NESTED: [&str; 3] = ["anyOf", "allOf", "oneOf"];

/// Everything that is not structural about a schema, in the order of the messages.
pub(super) fn validate(schema: Node<'_, '_>, errors: &mut Errors) {
    let mut found = Errors::default();
    invariants(schema, Level::Root, &mut found);
    completeness(schema, &mut found);
    let mut all: Vec<FieldError> = found.iter().cloned().collect();
    all.sort_by_key(ToString::to_string);
    for FieldError { fault, field, message } in all {
        errors.push(fault, &Path::of(&field), || message);
    }
}

fn text<'v>(schema: &Node<'v, '_>, name: &str) -> &'v str {
    schema.value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn flag(schema: &Node<'_, '_>, name: &str) -> bool {
    schema.value.get(name) == Some(&Value::Bool(true))
}

/// The schemas of fields, each under its path.
fn properties<'v>(schema: &Node<'v, '_>) -> impl Iterator<Item = (&'v str, &'v Value)> {
    schema.value.get("properties").and_then(Value::as_object).into_iter().flatten().map(|(name, v)| (name.as_str(), v))
}

fn invariants(schema: Node<'_, '_>, level: Level, errors: &mut Errors) {
    let (kind, items) = (text(&schema, "type"), schema.field("items"));
    if kind == "array" && !items.is_set() {
        errors.required(&items.path, "must be specified");
    }
    if items.value.is_object() {
        invariants(items, Level::Item, errors);
    }
    let parent = schema.path.field("properties");
    for (name, value) in properties(&schema) {
        invariants(Node { value, path: parent.key(name) }, Level::Field, errors);
    }
    let values = schema.field("additionalProperties");
    if values.is_set() && level == Level::Root {
        errors.forbidden(&values.path, "must not be used at the root");
    }
    if values.value.is_object() {
        invariants(values, Level::Field, errors);
    }
    let (int_or_string, preserves) =
        (flag(&schema, "x-kubernetes-int-or-string"), flag(&schema, "x-kubernetes-preserve-unknown-fields"));
    let embedded = flag(&schema, "x-kubernetes-embedded-resource");
    for (name, set) in
        [("x-kubernetes-preserve-unknown-fields", preserves), ("x-kubernetes-embedded-resource", embedded)]
    {
        if int_or_string && set {
            errors.invalid(&schema.field(name).path, true, "must be false if x-kubernetes-int-or-string is true");
        }
    }
    value_validation(schema, is_int_or_string(schema.value), is_int_or_string(&schema.value["allOf"][0]), errors);

    let type_path = schema.path.field("type");
    if embedded && kind != "object" {
        let detail = "must be object if x-kubernetes-embedded-resource is true";
        match kind {
            "" => errors.required(&type_path, detail),
            kind => errors.invalid(&type_path, kind, detail),
        }
    } else if kind.is_empty() && !int_or_string && !preserves {
        let detail = match level {
            Level::Root => "must not be empty at the root",
            Level::Item => "must not be empty for specified array items",
            Level::Field => "must not be empty for specified object fields",
        };
        errors.required(&type_path, detail);
    }
    if embedded && values.is_set() {
        errors.forbidden(&values.path, "must not be used if x-kubernetes-embedded-resource is set");
    }
    if level == Level::Root && !kind.is_empty() && kind != "object" {
        errors.invalid(&type_path, kind, "must be object at the root");
    }
    metadata(schema, level, embedded, errors);
    if embedded && !preserves && properties(&schema).next().is_none() {
        let detail =
            "must not be empty if x-kubernetes-embedded-resource is true without x-kubernetes-preserve-unknown-fields";
        errors.required(&parent, detail);
    }
}

/// What is known of every object is not said again, but for what its name may be.
fn metadata(schema: Node<'_, '_>, level: Level, embedded: bool, errors: &mut Errors) {
    let checked = level == Level::Root || embedded;
    let parent = schema.path.field("properties");
    for name in ["kind", "apiVersion"] {
        let Some(value) = schema.value["properties"].get(name).filter(|_| checked) else { continue };
        let kind = value["type"].as_str().unwrap_or_default();
        if kind != "string" {
            errors.invalid(&parent.key(name).field("type"), kind, "must be string");
        }
    }
    let Some(value) = schema.value["properties"].get("metadata") else { return };
    let path = parent.key("metadata");
    let kind = value["type"].as_str().unwrap_or_default();
    if checked && kind != "object" {
        errors.invalid(&path.field("type"), kind, "must be object");
    }
    let known = ["name", "generateName"];
    let fields = value["properties"].as_object();
    let only_names = fields.is_none_or(|fields| fields.keys().all(|name| known.contains(&name.as_str())));
    let only_fields = value.as_object().is_some_and(|all| {
        all.keys().all(|name| matches!(name.as_str(), "type" | "properties" | "default" | "description"))
    });
    if level == Level::Root && !(only_names && only_fields) {
        let detail = "must not specify anything other than name and generateName, but metadata is implicitly specified";
        errors.forbidden(&path, detail);
    }
}

/// Whether this says that a value is a number or a text, which is the one thing said by alternatives.
fn is_int_or_string(schema: &Value) -> bool {
    schema["anyOf"].as_array().is_some_and(|any| {
        any.len() == 2
            && any[0] == serde_json::json!({"type": "integer"})
            && any[1] == serde_json::json!({"type": "string"})
    })
}

fn value_validation(schema: Node<'_, '_>, skip_any_of: bool, skip_first_all_of: bool, errors: &mut Errors) {
    for name in NESTED.into_iter().filter(|name| *name != "anyOf" || !skip_any_of) {
        for (index, part) in schema.field(name).items().enumerate() {
            nested(part, skip_first_all_of && name == "allOf" && index == 0, errors);
        }
    }
    if schema.field("not").value.is_object() {
        nested(schema.field("not"), false, errors);
    }
    let pattern = schema.field("pattern");
    if let Some(fault) = Some(pattern.str()).filter(|pattern| !pattern.is_empty()).and_then(pattern_fault) {
        errors.invalid(&pattern.path, pattern.str(), &fault);
    }
}

/// An alternative limits values; it does not say what they are.
fn nested(schema: Node<'_, '_>, skip_any_of: bool, errors: &mut Errors) {
    value_validation(schema, skip_any_of, false, errors);
    if schema.field("items").value.is_object() {
        nested(schema.field("items"), false, errors);
    }
    let parent = schema.path.field("properties");
    for (name, value) in properties(&schema) {
        nested(Node { value, path: parent.key(name) }, false, errors);
    }
    let mut forbid = |name: &str, state: &str| {
        let given = schema.value.get(name).filter(|value| !matches!(value, Value::Null | Value::Bool(false)));
        if given.is_some_and(|value| value != "" && value.as_array().is_none_or(|list| !list.is_empty())) {
            errors.forbidden(&schema.path.field(name), &format!("must be {state} to be structural"));
        }
    };
    for (name, state) in [
        ("type", "empty"),
        ("additionalProperties", "undefined"),
        ("default", "undefined"),
        ("title", "empty"),
        ("description", "empty"),
        ("nullable", "false"),
        ("x-kubernetes-preserve-unknown-fields", "false"),
        ("x-kubernetes-embedded-resource", "false"),
        ("x-kubernetes-int-or-string", "false"),
        ("x-kubernetes-list-map-keys", "empty"),
        ("x-kubernetes-list-type", "undefined"),
        ("x-kubernetes-map-type", "undefined"),
        ("x-kubernetes-validations", "empty"),
    ] {
        forbid(name, state);
    }
    if schema.value["properties"].get("metadata").is_some() {
        errors.forbidden(&parent.key("metadata"), "must not be specified in a nested context");
    }
}

/// Everything that is limited is also specified.
fn completeness(schema: Node<'_, '_>, errors: &mut Errors) {
    limits_are_specified(schema, Some(schema), schema.path, errors);
    if schema.field("items").value.is_object() {
        completeness(schema.field("items"), errors);
    }
    let parent = schema.path.field("properties");
    for (name, value) in properties(&schema) {
        completeness(Node { value, path: parent.key(name) }, errors);
    }
    if schema.field("additionalProperties").value.is_object() {
        completeness(schema.field("additionalProperties"), errors);
    }
}

fn limits_are_specified(limits: Node<'_, '_>, schema: Option<Node<'_, '_>>, path: Path<'_>, errors: &mut Errors) {
    for name in NESTED {
        for part in limits.field(name).items() {
            is_specified(part, schema, path, errors);
        }
    }
    if limits.field("not").value.is_object() {
        is_specified(limits.field("not"), schema, path, errors);
    }
}

fn is_specified(limits: Node<'_, '_>, schema: Option<Node<'_, '_>>, path: Path<'_>, errors: &mut Errors) {
    let Some(schema) = schema else {
        errors.push(Fault::Required, &path, || format!("Required value: because it is defined in {}", limits.path));
        return;
    };
    limits_are_specified(limits, Some(schema), path, errors);
    let items = limits.field("items");
    if items.value.is_object() {
        let own = schema.field("items");
        is_specified(items, own.value.is_object().then_some(own), path.field("items"), errors);
    }
    let (parent, own_parent) = (limits.path.field("properties"), path.field("properties"));
    for (name, value) in properties(&limits) {
        let own_path = own_parent.key(name);
        let own = schema.value["properties"].get(name).map(|value| Node { value, path: own_path });
        is_specified(Node { value, path: parent.key(name) }, own, own_path, errors);
    }
}
