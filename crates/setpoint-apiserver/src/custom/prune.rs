//! Taking out of a custom object what its schema does not specify.

use serde_json::Value;

use super::structure::Structure;
use setpoint_api::field::Path;

const META_FIELDS: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Kubernetes tells at most this many.
const MAX_TOLD: usize = 100;

/// Prunes a whole object. Returns the paths of what went, in their order.
pub fn prune(object: &mut Value, schema: &Structure) -> Vec<String> {
    let mut pruned = Pruned(Vec::new());
    pruned.object(object, schema, &Path::ROOT, true);
    let Pruned(mut paths) = pruned;
    paths.sort();
    paths.dedup();
    paths.truncate(MAX_TOLD);
    paths
}

/// Whether a value that stands alone, such as a default, has nothing that its schema does not specify.
pub fn is_pruned(value: &Value, schema: &Structure) -> bool {
    let mut copy = value.clone();
    Pruned(Vec::new()).value(&mut copy, Some(schema), &Path::ROOT);
    copy == *value
}

struct Pruned(Vec<String>);

impl Pruned {
    /// `schema` is `None` below a map of anything, where no field is specified.
    fn value(&mut self, value: &mut Value, schema: Option<&Structure>, path: &Path<'_>) {
        match (value, schema) {
            (Value::Object(fields), None) => {
                for field in std::mem::take(fields).keys() {
                    self.tell(&path.field(field));
                }
            }
            (value @ Value::Object(_), Some(schema)) => self.object(value, schema, path, schema.embedded),
            (Value::Array(items), schema) => {
                // A list below something that keeps what it does not know is kept, too.
                let keeps = schema.is_some_and(|schema| schema.preserves_unknown && schema.items.is_none());
                let element = schema.and_then(|schema| schema.items.as_deref());
                for (index, item) in items.iter_mut().enumerate().filter(|_| !keeps) {
                    self.value(item, element, &path.index(index));
                }
            }
            _ => {}
        }
    }

    fn object(&mut self, value: &mut Value, schema: &Structure, path: &Path<'_>, is_resource: bool) {
        let Some(fields) = value.as_object_mut() else { return };
        let mut unknown = Vec::new();
        for (name, field) in fields.iter_mut() {
            if is_resource && META_FIELDS.contains(&name.as_str()) {
                continue;
            }
            match (schema.property(name), &schema.values) {
                (Some(property), _) => self.value(field, Some(property), &path.field(name)),
                (None, Some(values)) => {
                    // `additionalProperties: true` says nothing of what stands below.
                    let below = (!is_anything(values)).then_some(&**values);
                    self.value(field, below, &path.field(name));
                }
                (None, None) if schema.preserves_unknown => {}
                (None, None) => unknown.push(name.clone()),
            }
        }
        for name in unknown {
            fields.remove(&name);
            self.tell(&path.field(&name));
        }
    }

    fn tell(&mut self, path: &Path<'_>) {
        if self.0.len() < 10 * MAX_TOLD {
            self.0.push(path.to_string());
        }
    }
}

fn is_anything(schema: &Structure) -> bool {
    use super::structure::Kind;
    schema.kind == Kind::Any && !schema.preserves_unknown && schema.properties().next().is_none()
}
