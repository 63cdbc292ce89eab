//! The annotation in which `kubectl apply` keeps what it applied, before servers knew how to apply.
//!
//! Who changes over from there to server-side apply meets a record in which `kubectl` has updated, not applied. What the
//! annotation says was applied, and still is so, is no conflict then; and the annotation is kept up to date for those who
//! change back.

use serde_json::Value;

use super::ownership::Conflict;
use super::remove::still_as_applied;
use crate::schema::Type;

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";
/// The manager for whom all this is done.
const KUBECTL: &str = "kubectl";
/// How large all annotations may be together.
const ANNOTATIONS_MAX: usize = 256 * 1024;

/// The conflicts that are left for a manager once those are forgiven that lie in what it applied last. None left means
/// that it may have what it asks for.
pub fn without_conflicts_of_last_applied(
    manager: &str,
    conflicts: Vec<Conflict>,
    live: &Value,
    object_type: Type<'_>,
) -> Vec<Conflict> {
    let Some(config) = last_applied(live).filter(|_| manager == KUBECTL) else { return conflicts };
    let Ok(config) = serde_json::from_str::<Value>(config) else { return conflicts };
    if config["apiVersion"] != live["apiVersion"] {
        return conflicts;
    }
    let applied = still_as_applied(&config, live, object_type);
    conflicts.into_iter().filter(|conflict| !applied.has(&conflict.path)).collect()
}

/// Writes what was applied to the annotation, if the manager is one that reads it and the object has it.
pub fn keep_last_applied(manager: &str, object: &mut Value, config: &Value) {
    if manager != KUBECTL || last_applied(object).is_none() {
        return;
    }
    let mut config = config.clone();
    if let Some(annotations) = config.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(ANNOTATION);
    }
    let text = format!("{config}\n");
    let Some(annotations) = object["metadata"]["annotations"].as_object_mut() else { return };
    annotations.remove(ANNOTATION);
    let others: usize = annotations.iter().map(|(key, value)| key.len() + value.as_str().map_or(0, str::len)).sum();
    if others + ANNOTATION.len() + text.len() <= ANNOTATIONS_MAX {
        annotations.insert(ANNOTATION.to_owned(), text.into());
    }
}

fn last_applied(object: &Value) -> Option<&str> {
    object["metadata"]["annotations"][ANNOTATION].as_str().filter(|text| !text.is_empty())
}
