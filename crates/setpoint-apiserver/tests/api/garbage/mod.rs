//! What becomes of the dependents of a deleted object, and of those who never had an owner.

mod cascades;
mod counted;
mod expiry;
mod protected;
mod references;
mod refusals;

use std::sync::Arc;

use serde_json::{Value, json};

use crate::fixture::{Answer, Api};
use crate::objects::*;

/// Makes a ConfigMap with these owners.
async fn dependent(api: &Api, name: &str, owners: &[Value]) -> Answer {
    api.post(CONFIG_MAPS, with(config_map(name), "ownerReferences", json!(owners))).await.expect(201)
}

/// Makes a ConfigMap that nobody owns.
async fn owner(api: &Api, name: &str) -> Answer {
    api.post(CONFIG_MAPS, config_map(name)).await.expect(201)
}

/// A reference to an object, as a dependent has it.
fn reference(owner: &Answer) -> Value {
    let [kind, api_version] = [&owner["kind"], &owner["apiVersion"]];
    let metadata = &owner["metadata"];
    json!({"apiVersion": api_version, "kind": kind, "name": metadata["name"], "uid": metadata["uid"]})
}

fn blocking(owner: &Answer) -> Value {
    let mut reference = reference(owner);
    reference["blockOwnerDeletion"] = true.into();
    reference
}

/// A reference to a ConfigMap that never was.
fn dangling() -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "never", "uid": "9b1deb4d-3b7d-4bad-9bdd-2b0d7b3dcb6d"})
}

fn path(name: &str) -> String {
    format!("{CONFIG_MAPS}/{name}")
}

async fn gone(api: &Api, path: impl AsRef<str>) {
    api.eventually(path, |answer| answer.status == 404).await;
}

/// Waits until everything that happened before has been looked at: garbage that comes later is collected later.
async fn settle(api: &Api) {
    for _ in 0..2 {
        dependent(api, "last", &[dangling()]).await;
        gone(api, path("last")).await;
    }
}

fn by(policy: &str) -> Value {
    json!({"propagationPolicy": policy})
}

/// What an object's metadata says under this name.
async fn metadata(api: &Api, name: &str, field: &str) -> Value {
    api.get(path(name)).await.expect(200)["metadata"][field].clone()
}
