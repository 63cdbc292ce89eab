//! Keeps what is served in step with the definitions that are stored.
//!
//! Every commit of a definition ends here before its writer is answered: the definition is read again, its names are
//! settled if they are not yet, and the registry is replaced. So what is served follows from what is stored, whoever
//! wrote it and in whatever order, and a definition can be used as soon as its create is answered. One that is deleted
//! stays until its objects are gone; [`Cleaner`] sees to that.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use serde_json::Value;
use setpoint_api::protection;
use setpoint_store::{At, Commit, Expected, Range, Revision};
use tokio::sync::mpsc;

use super::definition::{resources, stored_schema_digest};
use super::names::{self, Taken};
use crate::apply::Writer;
use crate::authentication::Caller;
use crate::deletion;
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::object::{self, Stored};
use crate::object_size;
use crate::query::{DeleteOptions, Propagation};
use crate::record;
use crate::registry::{DEFINITIONS, Lookup, Registry, Resource, text_at};
use crate::server::Shared;
use crate::verbs;

/// The finalizer that stands until the objects of a deleted definition are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
/// How many objects are deleted between two looks at the store.
const BATCH: usize = 500;
/// How long a definition that something keeps waits to be looked at again.
const SWEEP: Duration = Duration::from_secs(5);

/// What is known of the definitions.
#[derive(Debug)]
pub struct Definitions {
    /// Held while a definition is written, so that no two get one name.
    turn: tokio::sync::Mutex<()>,
    known: tokio::sync::Mutex<BTreeMap<String, Known>>,
    /// The names of those that are being deleted.
    terminating: Mutex<BTreeSet<String>>,
    wake: mpsc::UnboundedSender<String>,
}

/// Deletes the objects of definitions that are being deleted.
#[derive(Debug)]
pub struct Cleaner {
    woken: mpsc::UnboundedReceiver<String>,
}

#[derive(Debug)]
struct Known {
    uid: String,
    group: String,
    plural: String,
    accepted: Value,
    /// Whether it has all the names it asks for.
    settled: bool,
    stored_schema: [u8; 32],
    current_since: Arc<AtomicU64>,
}

impl Definitions {
    pub fn new() -> (Definitions, Cleaner) {
        let (wake, woken) = mpsc::unbounded_channel();
        let definitions = Definitions {
            turn: tokio::sync::Mutex::default(),
            known: tokio::sync::Mutex::default(),
            terminating: Mutex::default(),
            wake,
        };
        (definitions, Cleaner { woken })
    }

    /// Waits until nobody else writes a definition.
    pub async fn turn(&self) -> tokio::sync::MutexGuard<'_, ()> {
        self.turn.lock().await
    }

    /// Settles the names of a definition that is about to be stored, so that it is stored once. Returns the record of who
    /// owns its fields.
    pub async fn settle_new(&self, server: &Shared, definition: &mut Value, record: &[u8]) -> Result<Vec<u8>> {
        let known = self.known.lock().await;
        let old = definition.clone();
        let (name, group) = (text_at(definition, &["metadata", "name"]), text_at(definition, &["spec", "group"]));
        let taken = taken(&server.registry(), &known, name, group);
        names::settle(definition, &taken, server.surroundings.now());
        record_of_settled(server, definition, &old, record)
    }

    /// Serves what is defined in the store.
    pub async fn load(&self, server: &Shared) -> Result<()> {
        let directory = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1).directory(None);
        let page = server.store.range(Range { scope: &directory, after: None, limit: 0, at: At::Now }).await?;
        for entry in &page.entries {
            if let Some(name) = entry.key.strip_prefix(directory.as_str()) {
                self.changed(server, name).await?;
            }
        }
        Ok(())
    }

    /// Takes note that a definition was written or removed.
    pub async fn changed(&self, server: &Shared, name: &str) -> Result<()> {
        let mut known = self.known.lock().await;
        let mut due = vec![name.to_owned()];
        while let Some(name) = due.pop() {
            let freed = settle(server, &mut known, &name).await?;
            let Some(group) = freed else { continue };
            // Others may have waited for the names that are free now.
            let waiting = known.iter().filter(|(_, other)| other.group == group && !other.settled);
            due.extend(waiting.map(|(other, _)| other.clone()).filter(|other| *other != name));
        }
        Ok(())
    }

    /// Looks at a custom object that was just written, after its definition may have been changed or deleted.
    pub async fn recheck(
        &self,
        server: &Shared,
        resource: &Resource,
        key: &Arc<str>,
        revision: Revision,
        is_new: bool,
    ) -> Result<()> {
        let Some(custom) = &resource.custom else { return Ok(()) };
        let registry = server.registry();
        let now = registry.kept_as(&resource.group, &resource.plural).and_then(|kept| kept.custom.as_ref());
        let Some(now) = now.filter(|now| now.uid == custom.uid && (!now.terminating || custom.terminating)) else {
            // Whoever deletes the definition's objects may have looked before this one was there.
            return if is_new { self.take_back(server, resource, key, revision).await } else { Ok(()) };
        };
        match registry.find(&resource.group, &resource.version, &resource.plural) {
            Lookup::Found(same) if same.custom.as_ref().is_some_and(|same| Arc::ptr_eq(same, custom)) => {}
            // It was written by the schema as it was, and is read by the schema as it is.
            _ => {
                now.current_since.fetch_max(revision + 1, Ordering::AcqRel);
            }
        }
        Ok(())
    }

    /// Removes an object whose definition went while it was made.
    async fn take_back(&self, server: &Shared, resource: &Resource, key: &Arc<str>, revision: Revision) -> Result<()> {
        let commit = Commit { key: key.clone(), value: None, expected: Expected::Revision(revision) };
        match server.store.commit(commit).await {
            Ok(_) | Err(setpoint_store::Error::Conflict { .. }) => {
                self.object_removed(server, resource);
                Err(Failure::page_not_found_of(resource))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Tells the cleaner that an object is gone, if it waits for the last.
    pub fn object_removed(&self, server: &Shared, resource: &Resource) {
        if resource.custom.is_some() {
            let name = resource.group_resource();
            if self.terminating.lock().contains(&name) && server.store.count(&resource.directory(None)) == 0 {
                self.clean(name);
            }
        }
    }

    fn clean(&self, name: String) {
        // Fails only when the cleaner has ended, which it does with the server.
        let _ = self.wake.send(name);
    }
}

/// Settles one definition and serves it. Returns its group if names may have become free.
async fn settle(server: &Shared, known: &mut BTreeMap<String, Known>, name: &str) -> Result<Option<String>> {
    let resource = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1);
    let key = resource.key(None, name);
    loop {
        let Some(entry) = server.store.get(&key, At::Now).await?.value else {
            server.definitions.terminating.lock().remove(name);
            let Some(gone) = known.remove(name) else { return Ok(None) };
            server.change_registry(|registry| registry.remove(&gone.group, &gone.plural));
            return Ok(Some(gone.group));
        };
        let stored = Stored::from(&entry);
        let mut definition = resource.value(&stored);
        let terminating = definition["metadata"]["deletionTimestamp"].is_string();
        let mut revision = entry.revision;
        if !terminating {
            let taken = taken(&server.registry(), known, name, text_at(&definition, &["spec", "group"]));
            if names::settle(&mut definition, &taken, server.surroundings.now()) {
                let record = record_of_settled(server, &mut definition, &resource.value(&stored), stored.record())?;
                let value = encode(&resource, &definition, &record, &stored)?;
                let commit =
                    Commit { key: key.clone(), value: Some(value), expected: Expected::Revision(entry.revision) };
                match server.store.commit(commit).await {
                    Ok(committed) => revision = committed.revision,
                    Err(setpoint_store::Error::Conflict { .. }) => continue,
                    Err(error) => return Err(error.into()),
                }
            }
        }
        let freed = serve(server, known, name, &definition, revision);
        if terminating {
            server.definitions.terminating.lock().insert(name.to_owned());
            server.definitions.clean(name.to_owned());
        }
        return Ok(freed);
    }
}

/// The text of a definition of which only what the server says has changed.
fn encode(resource: &Resource, definition: &Value, record: &[u8], stored: &Stored) -> Result<Bytes> {
    let limit = object_size::limit_for_server(stored.size());
    let name = text_at(definition, &["metadata", "name"]);
    object::encode(definition, record, limit).map_err(|too_large| Failure::object_too_large(resource, name, too_large))
}

/// What the server says of a definition is the server's.
fn record_of_settled(server: &Shared, definition: &mut Value, old: &Value, record: &[u8]) -> Result<Vec<u8>> {
    let resource = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1);
    let (api_version, now) = (resource.api_version(), deletion::seconds(server.surroundings.now()));
    let writer = Writer { manager: "kube-apiserver", api_version: &api_version, subresource: "status", now: &now };
    record::of_changed(&resource, definition, old, record, Part::Status, &writer)
}

/// Puts a definition's resources into the registry. Returns its group if it gave up names.
fn serve(
    server: &Shared,
    known: &mut BTreeMap<String, Known>,
    name: &str,
    definition: &Value,
    revision: Revision,
) -> Option<String> {
    let uid = text_at(definition, &["metadata", "uid"]).to_owned();
    let accepted = definition["status"]["acceptedNames"].clone();
    let stored_schema = stored_schema_digest(definition);
    let before = known.remove(name).filter(|before| before.uid == uid);
    // A schema that is new to this process may be older than its objects.
    let current_since = match &before {
        Some(before) if before.stored_schema == stored_schema => before.current_since.clone(),
        Some(before) => {
            before.current_since.fetch_max(revision, Ordering::AcqRel);
            before.current_since.clone()
        }
        None => Arc::new(AtomicU64::new(revision)),
    };
    let new = Known {
        group: text_at(definition, &["spec", "group"]).to_owned(),
        plural: text_at(definition, &["spec", "names", "plural"]).to_owned(),
        settled: names::is_true(definition, "NamesAccepted"),
        accepted,
        uid,
        stored_schema,
        current_since,
    };
    let served = match names::is_true(definition, "Established") {
        true => resources(definition, &server.schemas, &new.current_since),
        false => Vec::new(),
    };
    server.change_registry(|registry| {
        if before.is_some() || !served.is_empty() {
            registry.remove(&new.group, &new.plural);
        }
        served.into_iter().for_each(|resource| registry.add(resource));
    });
    let freed = before.is_some_and(|before| before.accepted != new.accepted).then(|| new.group.clone());
    known.insert(name.to_owned(), new);
    freed
}

/// The names that a definition of this group cannot have.
fn taken(registry: &Registry, known: &BTreeMap<String, Known>, name: &str, group: &str) -> Taken {
    let mut taken = Taken::default();
    for resource in registry.resources().filter(|resource| resource.group == group && resource.custom.is_none()) {
        let short_names = resource.short_names.iter().map(|name| name.to_string());
        taken.resources.extend([resource.plural.to_string(), resource.singular.to_string()]);
        taken.resources.extend(short_names);
        taken.kinds.extend([resource.kind.to_string(), resource.list_kind.to_string()]);
    }
    for (_, other) in known.iter().filter(|(other, known)| *other != name && known.group == group) {
        taken.add(&other.accepted);
    }
    taken
}

impl Cleaner {
    /// Cleans up after one definition at a time, until the server stops.
    pub async fn run(mut self, server: Arc<Shared>) {
        let mut stopping = server.stopping();
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            let due: BTreeSet<String> = tokio::select! {
                biased;
                Some(first) = self.woken.recv() => {
                    let mut due = BTreeSet::from([first]);
                    while let Ok(next) = self.woken.try_recv() {
                        due.insert(next);
                    }
                    due
                }
                _ = sweep.tick() => server.definitions.terminating.lock().clone(),
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            for name in due {
                if let Err(failure) = clean_up(&server, &name).await {
                    tracing::warn!(definition = %name, ?failure, "the objects of a definition could not be deleted yet");
                }
            }
        }
    }
}

/// Deletes the objects of a definition that is being deleted and, when none is left, lets it go.
async fn clean_up(server: &Shared, name: &str) -> Result<()> {
    let resource = server.registry().built_in(DEFINITIONS.0, "v1", DEFINITIONS.1);
    let key = resource.key(None, name);
    loop {
        let Some(entry) = server.store.get(&key, At::Now).await?.value else { return Ok(()) };
        let stored = Stored::from(&entry);
        let mut definition = resource.value(&stored);
        let finalizers = definition["metadata"]["finalizers"].as_array();
        let waits = finalizers.is_some_and(|finalizers| finalizers.iter().any(|finalizer| finalizer == FINALIZER));
        if !definition["metadata"]["deletionTimestamp"].is_string() || !waits {
            return Ok(());
        }
        let outcome = match names::is_true(&definition, "Established") {
            false => Outcome::NeverServed,
            true => delete_objects(server, &definition).await?,
        };
        let _turn = server.definitions.turn().await;
        let (status, reason, message) = outcome.condition();
        names::set_condition(&mut definition, "Terminating", status, reason, &message, server.surroundings.now());
        if !matches!(outcome, Outcome::Left(_))
            && let Some(finalizers) = definition["metadata"]["finalizers"].as_array_mut()
        {
            finalizers.retain(|finalizer| finalizer != FINALIZER);
        }
        let bytes = encode(&resource, &definition, stored.record(), &stored)?;
        if stored.is(&bytes) {
            return Ok(());
        }
        // One that was marked since goes when the mark does.
        let goes = deletion::is_released(&definition) && protection::mark(&definition["metadata"]).is_none();
        let value = (!goes).then_some(bytes);
        let commit = Commit { key: key.clone(), value, expected: Expected::Revision(entry.revision) };
        match server.store.commit(commit).await {
            Ok(_) if matches!(outcome, Outcome::Left(_)) => return Ok(()),
            Ok(_) => return server.definitions.changed(server, name).await,
            Err(setpoint_store::Error::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// What became of a definition's objects.
enum Outcome {
    Gone,
    NeverServed,
    Left(u64),
}

impl Outcome {
    fn condition(&self) -> (bool, &'static str, String) {
        match self {
            Outcome::Gone => (false, "InstanceDeletionCompleted", "removed all instances".to_owned()),
            Outcome::NeverServed => (false, "NeverEstablished", "resource was never established".to_owned()),
            Outcome::Left(count) => {
                (true, "InstanceDeletionInProgress", format!("CustomResource deletion is in progress: {count} left"))
            }
        }
    }
}

async fn delete_objects(server: &Shared, definition: &Value) -> Result<Outcome> {
    let (group, plural) = (text_at(definition, &["spec", "group"]), text_at(definition, &["spec", "names", "plural"]));
    let resource = server.registry().kept_as(group, plural).cloned();
    let resource = resource.ok_or_else(|| Failure::internal(format!("{plural}.{group} is kept nowhere")))?;
    let itself = Caller::server();
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let scope = resource.directory(None);
    let mut after: Option<String> = None;
    loop {
        let range = Range { scope: &scope, after: after.as_deref(), limit: BATCH, at: At::Now };
        let page = server.store.range(range).await?;
        let mut by_namespace: BTreeMap<Option<String>, Vec<Stored>> = BTreeMap::new();
        for stored in page.entries.iter().map(Stored::from) {
            let namespace = stored.metadata()["namespace"].as_str().map(str::to_owned);
            by_namespace.entry(namespace).or_default().push(stored);
        }
        for (namespace, items) in by_namespace {
            verbs::delete_all(
                server,
                &itself,
                &resource,
                namespace.as_deref(),
                &items,
                &options,
                server.surroundings.now(),
            )
            .await?;
        }
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.to_string()),
            _ => break,
        }
    }
    Ok(match server.store.count(&scope) {
        0 => Outcome::Gone,
        left => Outcome::Left(left),
    })
}
