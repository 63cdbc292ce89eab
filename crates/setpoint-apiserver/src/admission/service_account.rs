//! Who has something run as a service account uses its rights, and must be allowed to act as it.
//!
//! Without this, whoever may create a Pod had the rights of every service account of its namespace. The account `default`
//! is for everybody there. What was written before and stays as it is, is not asked about again.

use std::collections::BTreeSet;

use serde_json::Value;

use super::Change;
use crate::authorization::{Access, Policy};
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::registry::Resource;

/// The account of whatever names none.
const DEFAULT: &str = "default";

pub(super) fn check(policy: &Policy, change: &Change<'_>) -> Result<()> {
    let (Some(pointer), Some(after)) = (pod_spec(change.resource), change.after) else { return Ok(()) };
    // To put a Pod on a node is not to say what runs in it.
    if change.part == Part::Other("binding") {
        return Ok(());
    }
    let spec = after.pointer(pointer);
    if change.before.is_some_and(|before| before.pointer(pointer) == spec) {
        return Ok(());
    }
    for account in spec.map(accounts).unwrap_or_default() {
        let access = Access::to_object("impersonate", ["", "serviceaccounts", ""], account, change.place());
        access.check(policy, &change.caller.identity).map_err(|refusal| {
            let why =
                format!("it would run as a service account that its writer may not act as: {}", refusal.message());
            Failure::forbidden(change.resource, change.name(), &why)
        })?;
    }
    Ok(())
}

/// Where objects of a resource say what runs in their Pods; none if they have none.
fn pod_spec(resource: &Resource) -> Option<&'static str> {
    match (resource.group.as_ref(), resource.plural.as_ref()) {
        ("", "pods") => Some("/spec"),
        ("apps", "daemonsets" | "deployments" | "replicasets" | "statefulsets") | ("batch", "jobs") => {
            Some("/spec/template/spec")
        }
        ("batch", "cronjobs") => Some("/spec/jobTemplate/spec/template/spec"),
        (setpoint_api::GROUP, "apps" | "revisions") => Some("/spec/template/spec"),
        _ => None,
    }
}

/// The accounts that a Pod's spec names, by its newer or older field.
fn accounts(spec: &Value) -> BTreeSet<&str> {
    let named = ["serviceAccountName", "serviceAccount"].into_iter().filter_map(|field| spec[field].as_str());
    named.filter(|name| !name.is_empty() && *name != DEFAULT).collect()
}
