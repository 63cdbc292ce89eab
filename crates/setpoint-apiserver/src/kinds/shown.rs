//! Objects in messages, as Kubernetes shows them: with the names and in the order of its internal types.

use serde_json::{Value, json};

/// Shows some fields of a value. Each is its name in the message, its name in the object, and what is shown when it is
/// absent.
pub(super) fn fields(value: &Value, fields: &[(&str, &str, Value)]) -> String {
    let shown: Vec<String> = fields
        .iter()
        .map(|(shown, name, absent)| {
            format!("{}:{}", json!(shown), value.get(name).filter(|v| !v.is_null()).unwrap_or(absent))
        })
        .collect();
    format!("{{{}}}", shown.join(","))
}
