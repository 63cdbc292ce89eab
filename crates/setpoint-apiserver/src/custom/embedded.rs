//! The objects that a custom object carries inside it, where its schema says that there is one.

use serde_json::Value;

use super::structure::Structure;
use crate::object_meta;
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

/// Checks that every embedded object says what it is, and that its metadata is sound.
pub fn validate(node: Node<'_, '_>, schema: &Structure, errors: &mut Errors) {
    match node.value {
        Value::Object(_) => {
            if schema.embedded {
                validate_object(node, errors);
            }
            for (name, value) in node.value.as_object().into_iter().flatten() {
                if let Some(below) = schema.property(name) {
                    validate(Node { value, path: node.path.field(name) }, below, errors);
                } else if let Some(values) = &schema.values {
                    validate(Node { value, path: node.path.key(name) }, values, errors);
                }
            }
        }
        Value::Array(_) => {
            for item in node.items() {
                if let Some(element) = &schema.items {
                    validate(item, element, errors);
                }
            }
        }
        _ => {}
    }
}

fn validate_object(object: Node<'_, '_>, errors: &mut Errors) {
    let (version, kind, metadata) = (object.field("apiVersion"), object.field("kind"), object.field("metadata"));
    for node in [&version, &kind].into_iter().filter(|node| !node.is_set()) {
        errors.required(&node.path, "");
    }
    for node in [&version, &kind].into_iter().filter(|node| node.is_set()) {
        match node.value.as_str() {
            None => errors.invalid(&node.path, node.value, "must be a string"),
            Some("") => errors.invalid(&node.path, "", "must not be empty"),
            Some(_) => {}
        }
    }
    if version.str().matches('/').count() > 1 {
        let detail = format!("unexpected GroupVersion string: {}", version.str());
        errors.invalid(&version.path, version.str(), &detail);
    }
    let wrong = names::dns1035_label(&kind.str().to_lowercase());
    if !kind.str().is_empty() && !wrong.is_empty() {
        let detail = format!("may have mixed case, but should otherwise match: {}", wrong.join(","));
        errors.invalid(&kind.path, kind.str(), &detail);
    }
    if metadata.is_set() {
        let mut named = metadata.value.clone();
        if metadata.field("name").str().is_empty() && named.is_object() {
            // It need not have a name yet.
            named["name"] = "name".into();
        }
        let namespaced = !metadata.field("namespace").str().is_empty();
        let segment = |name: &str, _| names::path_segment(name);
        object_meta::validate(Node { value: &named, path: metadata.path }, namespaced, &segment, errors);
    }
}
