//! Server-side apply, and the record of who owns which field.

mod configurations;
mod migration;
mod refusals;
mod repeats;
mod subresources;
mod updates;

use serde_json::{Value, json};

/// A configuration of a ConfigMap.
fn config(name: &str, data: Value) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}, "data": data})
}
