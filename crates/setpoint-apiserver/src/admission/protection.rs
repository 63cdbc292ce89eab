//! What is protected is not deleted, whoever asks and by whatever way; nor is what it would go with.

use std::sync::Arc;

use serde_json::Value;
use setpoint_api::protection::{PROTECTED, mark};
use setpoint_store::{At, Range};

use super::Change;
use crate::deletion;
use crate::failure::{Failure, Result};
use crate::object::Stored;
use crate::registry::{Resource, text_at};
use crate::server::Shared;

/// How many objects are looked at between two looks at the store.
const BATCH: usize = 500;
/// How many protected objects a refusal names.
const TOLD: usize = 3;

pub(super) async fn check(server: &Shared, change: &Change<'_>) -> Result<()> {
    let Some(before) = change.before else { return Ok(()) };
    let last = match change.after {
        None => before,
        // Deleted before, and now nothing else keeps it.
        Some(after) if deletion::is_released(after) => after,
        Some(_) => return Ok(()),
    };
    if let Some(mark) = mark(&last["metadata"]) {
        let remedy = remedy(change.resource, None, change.name(), mark);
        let why = format!("it is protected: to delete it, first remove its {mark} with `{remedy}`");
        return Err(Failure::protected(change.resource, change.name(), &why));
    }
    // What was on its way out already is kept by what is protected, and says so.
    if change.after.is_some() || before["metadata"]["deletionTimestamp"].is_string() {
        return Ok(());
    }
    let contents = contents(server, change);
    let mut found = Vec::new();
    for (resource, namespace) in contents {
        find(server, &resource, namespace, &mut found).await?;
        if found.len() > TOLD {
            break;
        }
    }
    match found.first() {
        Some(first) => Err(Failure::protected(change.resource, change.name(), &held(&found, first))),
        None => Ok(()),
    }
}

/// The kinds of object that would go with this one, each with the namespace to look in.
fn contents<'a>(server: &Shared, change: &Change<'a>) -> Vec<(Arc<Resource>, Option<&'a str>)> {
    let registry = server.registry();
    if change.resource.is_namespaces() {
        let namespaced = registry.kept().filter(|resource| resource.namespaced);
        return namespaced.map(|resource| (resource.clone(), Some(change.name()))).collect();
    }
    if !change.resource.is_definitions() {
        return Vec::new();
    }
    let spec = &change.before.unwrap_or(&Value::Null)["spec"];
    let kept = registry.kept_as(text_at(spec, &["group"]), text_at(spec, &["names", "plural"]));
    kept.map(|resource| (resource.clone(), None)).into_iter().collect()
}

/// A protected object that would go with another.
struct Protected {
    shown: String,
    remedy: String,
}

/// Looks for protected objects of a kind until there are more than will be told.
async fn find(server: &Shared, resource: &Resource, namespace: Option<&str>, found: &mut Vec<Protected>) -> Result<()> {
    let scope = resource.directory(namespace);
    if server.store.count(&scope) == 0 {
        return Ok(());
    }
    let mut after: Option<Arc<str>> = None;
    loop {
        let page =
            server.store.range(Range { scope: &scope, after: after.as_deref(), limit: BATCH, at: At::Now }).await?;
        for stored in page.entries.iter().map(Stored::from).filter(|stored| stored.mentions(PROTECTED)) {
            let metadata = stored.metadata();
            let Some(mark) = mark(&metadata) else { continue };
            let name = text_at(&metadata, &["name"]);
            let place = metadata["namespace"].as_str();
            found.push(Protected { shown: resource.qualified(name), remedy: remedy(resource, place, name, mark) });
            if found.len() > TOLD {
                return Ok(());
            }
        }
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.clone()),
            _ => return Ok(()),
        }
        tokio::task::yield_now().await;
    }
}

fn held(found: &[Protected], first: &Protected) -> String {
    let told: Vec<&str> = found.iter().take(TOLD).map(|protected| protected.shown.as_str()).collect();
    let more = if found.len() > TOLD { " and more" } else { "" };
    let (told, remedy) = (told.join(", "), &first.remedy);
    format!("what is protected would go with it: {told}{more}; to delete it, first remove each mark as with `{remedy}`")
}

/// The command that removes a mark.
fn remedy(resource: &Resource, namespace: Option<&str>, name: &str, mark: &str) -> String {
    let verb = if mark == "label" { "label" } else { "annotate" };
    let place = namespace.map(|namespace| format!("-n {namespace} ")).unwrap_or_default();
    format!("kubectl {place}{verb} {} {name} {PROTECTED}-", resource.group_resource())
}
