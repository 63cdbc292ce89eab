//! What a Kubernetes API server demands of a definition before it takes it, checked independently of what makes ours.
//!
//! Not checked here: whether a pattern is one that Go compiles, and the exact cost of a rule, of which the bounds of
//! what it iterates over are the part that can be wrong.

use serde_json::{Map, Value};

/// Keywords that a structural schema may have. What is not here is refused by an API server, or silently dropped.
const KEYWORDS: &[&str] = &[
    "additionalProperties",
    "allOf",
    "anyOf",
    "default",
    "description",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "format",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "oneOf",
    "pattern",
    "properties",
    "required",
    "type",
    "x-kubernetes-embedded-resource",
    "x-kubernetes-int-or-string",
    "x-kubernetes-list-map-keys",
    "x-kubernetes-list-type",
    "x-kubernetes-map-type",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];
const TYPES: &[&str] = &["array", "boolean", "integer", "number", "object", "string"];
const FORMATS: &[&str] = &["byte", "date", "date-time", "double", "duration", "float", "int32", "int64", "password"];

/// What surrounds a schema.
#[derive(Clone, Copy)]
struct Place {
    is_root: bool,
    /// Whether an old and a new value can be matched here, so that a rule may compare them.
    is_correlatable: bool,
    /// Whether every list and map around it has a bound.
    is_bounded: bool,
    is_below_template: bool,
}

/// Everything that an API server would refuse in the schema of a version.
pub(crate) fn faults(schema: &Value) -> Vec<String> {
    let mut faults = Vec::new();
    let place = Place { is_root: true, is_correlatable: true, is_bounded: true, is_below_template: false };
    check(schema, "", place, &mut faults);
    faults
}

fn check(schema: &Value, path: &str, place: Place, faults: &mut Vec<String>) {
    let Some(members) = schema.as_object() else {
        faults.push(format!("{path}: a schema is an object"));
        return;
    };
    let mut fault = |message: &str| faults.push(format!("{path}: {message}"));
    for keyword in members.keys().filter(|keyword| !KEYWORDS.contains(&keyword.as_str())) {
        fault(&format!("the keyword {keyword} is not supported"));
    }
    let type_ = schema["type"].as_str().unwrap_or_default();
    let keeps_all = schema["x-kubernetes-preserve-unknown-fields"] == true;
    let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
    if !TYPES.contains(&type_) && !is_int_or_string && !keeps_all {
        fault("a type is needed");
    }
    if place.is_root && type_ != "object" {
        fault("the root is an object");
    }
    if schema["format"].as_str().is_some_and(|format| !FORMATS.contains(&format)) {
        fault("the format is not known");
    }
    let is_item = path.ends_with("[]") || path.ends_with("{}");
    let is_standard = ["", ".apiVersion", ".kind", ".metadata"].contains(&path);
    if !members.contains_key("description") && !is_item && !is_standard && !place.is_below_template {
        fault("a description is needed");
    }
    if members.contains_key("x-kubernetes-preserve-unknown-fields") && !keeps_all {
        fault("x-kubernetes-preserve-unknown-fields is true or absent");
    }
    if schema["x-kubernetes-embedded-resource"] == true
        && (type_ != "object" || !(keeps_all || members.contains_key("properties")))
    {
        fault("an embedded resource is an object with properties, or keeps unknown fields");
    }
    if members.contains_key("additionalProperties") && (place.is_root || members.contains_key("properties")) {
        fault("additionalProperties stand alone, and not at the root");
    }
    if path == ".metadata" && members.keys().any(|keyword| keyword != "type") {
        fault("metadata is not restricted");
    }
    check_required(schema, &mut fault);
    check_list(schema, &mut fault);
    check_default(schema, &mut fault);
    check_rules(schema, place, &mut fault);
    check_junctors(schema, path, faults);
    descend(schema, path, place, faults);
}

fn check_required(schema: &Value, fault: &mut impl FnMut(&str)) {
    for name in schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str) {
        if schema["properties"].get(name).is_none() {
            fault(&format!("{name} is required and not defined"));
        } else if schema["properties"][name].get("default").is_some() {
            fault(&format!("{name} is required and has a default"));
        }
    }
}

fn check_list(schema: &Value, fault: &mut impl FnMut(&str)) {
    let type_ = schema["type"].as_str().unwrap_or_default();
    if (type_ == "array") != schema.get("items").is_some() {
        fault("a list has items, and nothing else has");
    }
    let list_type = schema.get("x-kubernetes-list-type").and_then(Value::as_str);
    let keys: Vec<&str> =
        schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let items = &schema["items"];
    match list_type {
        None if !keys.is_empty() => fault("keys are for lists of type map"),
        None => {}
        Some(_) if type_ != "array" => fault("a list type is for lists"),
        Some("atomic") => {}
        Some("set") if ["object", "array"].contains(&items["type"].as_str().unwrap_or_default()) => {
            fault("a set holds plain values");
        }
        Some("set") => {}
        Some("map") if keys.is_empty() || items["type"] != "object" => fault("a list of type map has keys and objects"),
        Some("map") => {
            let required: Vec<&str> =
                items["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            for key in keys {
                let property = &items["properties"][key];
                if property.is_null() || ["object", "array"].contains(&property["type"].as_str().unwrap_or_default()) {
                    fault(&format!("the key {key} is a plain property"));
                } else if !required.contains(&key) && property.get("default").is_none() {
                    fault(&format!("the key {key} is required or has a default"));
                }
            }
        }
        Some(_) => fault("a list is atomic, set or map"),
    }
}

fn check_default(schema: &Value, fault: &mut impl FnMut(&str)) {
    if let Some(default) = schema.get("default")
        && !fits(default, schema)
    {
        fault("the default does not fit");
    }
}

/// Whether a value has the type that its schema says, knows no other fields, and is one of its words.
fn fits(value: &Value, schema: &Value) -> bool {
    let has_type = match schema["type"].as_str().unwrap_or_default() {
        "array" => value.is_array(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_i64() || value.is_u64(),
        "number" => value.is_number(),
        "object" => value.is_object(),
        "string" => value.is_string(),
        _ => true,
    };
    let is_word = schema["enum"].as_array().is_none_or(|words| words.contains(value));
    let number = value.as_f64();
    let in_range = schema["minimum"].as_f64().is_none_or(|least| number.is_none_or(|number| number >= least))
        && schema["maximum"].as_f64().is_none_or(|most| number.is_none_or(|number| number <= most));
    let no_members = Map::new();
    let members_fit = value.as_object().unwrap_or(&no_members).iter().all(|(name, member)| {
        schema["x-kubernetes-preserve-unknown-fields"] == true
            || schema["properties"].get(name).is_some_and(|schema| fits(member, schema))
    });
    has_type && is_word && in_range && members_fit
}

fn check_rules(schema: &Value, place: Place, fault: &mut impl FnMut(&str)) {
    for rule in schema["x-kubernetes-validations"].as_array().into_iter().flatten() {
        let text = rule["rule"].as_str().unwrap_or_default();
        if text.trim().is_empty() || text.contains('\n') {
            fault("a rule is one line");
        }
        if rule["message"].as_str().unwrap_or_default().trim().is_empty() {
            fault("a rule says what is wrong");
        }
        if text.contains("oldSelf") && !place.is_correlatable {
            fault("a rule compares old and new where they cannot be matched");
        }
        if !place.is_bounded {
            fault("a rule stands in a list or map without a bound");
        }
        for method in [".all(", ".exists(", ".exists_one(", ".filter(", ".map("] {
            for (at, _) in text.match_indices(method) {
                if !is_bounded_list(schema, &text[..at]) {
                    fault("a rule iterates over what has no bound");
                }
            }
        }
    }
}

/// Whether what a rule iterates over, `self.a.b`, has a bound.
fn is_bounded_list(schema: &Value, before: &str) -> bool {
    let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '.').map_or(0, |at| at + 1);
    let list = before[start..].split('.').skip(1).fold(schema, |schema, name| &schema["properties"][name]);
    list.get("maxItems").is_some() || list.get("maxProperties").is_some()
}

/// Below `allOf`, `anyOf`, `oneOf` and `not`, a schema restricts values and says nothing of structure.
fn check_junctors(schema: &Value, path: &str, faults: &mut Vec<String>) {
    let lists = ["allOf", "anyOf", "oneOf"].into_iter().filter_map(|keyword| schema[keyword].as_array()).flatten();
    let is_int_or_string = schema["x-kubernetes-int-or-string"] == true;
    for nested in lists.chain(schema.get("not")).filter(|_| !is_int_or_string) {
        for keyword in ["type", "default", "description", "additionalProperties", "x-kubernetes-validations"] {
            if nested.get(keyword).is_some() {
                faults.push(format!("{path}: {keyword} is not allowed below a junctor"));
            }
        }
    }
}

fn descend(schema: &Value, path: &str, place: Place, faults: &mut Vec<String>) {
    let inner = Place { is_root: false, ..place };
    for (name, child) in schema["properties"].as_object().into_iter().flatten() {
        let is_atomic = schema["x-kubernetes-map-type"] == "atomic";
        let place = Place {
            is_correlatable: inner.is_correlatable && !is_atomic,
            is_below_template: inner.is_below_template || name == "template",
            ..inner
        };
        check(child, &format!("{path}.{name}"), place, faults);
    }
    if let Some(items) = schema.get("items") {
        let place = Place {
            is_correlatable: inner.is_correlatable && schema["x-kubernetes-list-type"] == "map",
            is_bounded: inner.is_bounded && schema.get("maxItems").is_some(),
            ..inner
        };
        check(items, &format!("{path}[]"), place, faults);
    }
    if let Some(values) = schema.get("additionalProperties").filter(|values| values.is_object()) {
        let place = Place { is_bounded: inner.is_bounded && schema.get("maxProperties").is_some(), ..inner };
        check(values, &format!("{path}{{}}"), place, faults);
    }
}
