//! Whether the defaults of a schema are themselves what the schema asks for.

use crate::cel::Rules;
use crate::custom::prune::is_pruned;
use crate::custom::structure::Structure;
use crate::custom::validate::{Place, validate as validate_value};
use setpoint_api::field::{Errors, Node};

/// Checks every default. `is_resource` says that the schema is of a whole object.
pub(super) fn validate(schema: Node<'_, '_>, structure: &Structure, is_resource: bool, errors: &mut Errors) {
    if let Some(default) = &structure.default {
        let path = schema.path.field("default");
        if !is_pruned(default, structure) {
            errors.invalid(&path, default, "must not have unknown fields");
        }
        let before = errors.len();
        validate_value(default, structure, &Place::at(&path.to_string()), errors);
        // Rules that do not compile are refused on their own.
        if errors.len() == before
            && let Ok(rules) = Rules::compile_part(schema.value, &schema.path)
        {
            rules.validate_default(default, &path, errors);
        }
    }
    if let Some(items) = &structure.items {
        validate(schema.field("items"), items, false, errors);
    }
    let parent = schema.path.field("properties");
    for (name, property) in structure.properties() {
        // What is known of metadata is not said by a schema.
        if is_resource && matches!(name, "apiVersion" | "kind" | "metadata") {
            continue;
        }
        let value = &schema.value["properties"][name];
        validate(Node { value, path: parent.key(name) }, property, property.embedded, errors);
    }
}
