//! The parameters that operations take.

use serde_json::{Value, json};

pub(super) fn in_path(name: &str) -> Value {
    json!({
        "name": name,
        "in": "path",
        "required": true,
        "description": match name {
            "namespace" => "The namespace of the object.",
            _ => "The name of the object.",
        },
        "schema": {"type": "string", "uniqueItems": true},
    })
}

/// For every operation.
pub(super) fn pretty() -> Value {
    query("pretty", "string", "If true, the answer is indented.")
}

pub(super) fn listing() -> Vec<Value> {
    vec![
        query("allowWatchBookmarks", "boolean", "Asks a watch for bookmarks, which say up to where it has come."),
        query("continue", "string", "The place where the page before this one ended."),
        query("fieldSelector", "string", "Only objects whose fields match."),
        query("labelSelector", "string", "Only objects whose labels match."),
        query("limit", "integer", "At most this many objects; the answer says where to continue."),
        query("resourceVersion", "string", "The revision to read at, or to watch from."),
        query("resourceVersionMatch", "string", "How the revision is meant: Exact or NotOlderThan."),
        query("sendInitialEvents", "boolean", "Begins a watch with the objects that exist, and a bookmark after them."),
        query("timeoutSeconds", "integer", "How long the call may take, at most."),
        query("watch", "boolean", "Streams changes instead of listing."),
    ]
}

pub(super) fn writing() -> Vec<Value> {
    vec![
        dry_run(),
        query("fieldManager", "string", "The name under which the writer owns the fields it sets."),
        query(
            "fieldValidation",
            "string",
            "What happens to unknown and repeated fields: Ignore drops them, Warn (the default) also tells, Strict refuses.",
        ),
    ]
}

pub(super) fn patching() -> Vec<Value> {
    let mut parameters = writing();
    parameters.push(query("force", "boolean", "Takes fields over that another manager owns. Only for an apply."));
    parameters
}

pub(super) fn deleting() -> Vec<Value> {
    vec![
        dry_run(),
        query("gracePeriodSeconds", "integer", "How long the object may take to end; 0 is at once."),
        query("orphanDependents", "boolean", "Whether dependents stay. Use propagationPolicy instead."),
        query("propagationPolicy", "string", "What happens to dependents: Orphan, Background or Foreground."),
    ]
}

fn dry_run() -> Value {
    query("dryRun", "string", "With the value All, nothing is stored.")
}

pub(super) fn query(name: &str, schema: &str, description: &str) -> Value {
    json!({
        "name": name,
        "in": "query",
        "description": description,
        "schema": {"type": schema, "uniqueItems": true},
    })
}
