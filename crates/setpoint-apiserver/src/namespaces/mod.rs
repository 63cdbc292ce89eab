//! The life of namespaces: what may be put into one, and how one that is deleted becomes empty.
//!
//! A deleted namespace is marked, refuses new content, and is emptied kind by kind; when nothing is left it goes. The
//! emptier is woken by the deletion, by every object that goes out of such a namespace, and, for one that somebody
//! else's finalizers keep, by a slow timer.

mod conditions;

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use serde_json::{Value, json};
use setpoint_api::protection::{self, PROTECTED};
use setpoint_store::{At, Commit, Expected, Range};
use tokio::sync::mpsc;
use tokio::task::{Id, JoinSet};

use crate::apply::Writer;
use crate::authentication::Caller;
use crate::deletion;
use crate::failure::{Failure, Result};
use crate::kinds::namespace;
use crate::object::{self, Stored};
use crate::object_size::{self, OBJECT_LIMIT};
use crate::query::{DeleteOptions, Propagation};
use crate::record;
use crate::registry::{Resource, text_at};
use crate::server::Shared;
use crate::verbs;
use crate::write::{self, Stamp};

use self::conditions::Remaining;

/// The namespaces that every cluster has.
const INITIAL: [&str; 4] = ["default", "kube-node-lease", "kube-public", "kube-system"];
/// Who owns the fields of what the server makes by itself.
const ITSELF: &str = "setpoint";
/// How many objects are deleted between two looks at the store.
const BATCH: usize = 500;
/// How long a namespace that something keeps waits to be looked at again.
const SWEEP: Duration = Duration::from_secs(5);

/// Handles to the emptier.
#[derive(Debug)]
pub struct Namespaces {
    terminating: Mutex<BTreeSet<String>>,
    wake: mpsc::UnboundedSender<String>,
}

/// Empties namespaces.
#[derive(Debug)]
pub struct Emptier {
    woken: mpsc::UnboundedReceiver<String>,
}

impl Namespaces {
    pub fn new() -> (Namespaces, Emptier) {
        let (wake, woken) = mpsc::unbounded_channel();
        (Namespaces { terminating: Mutex::default(), wake }, Emptier { woken })
    }

    /// Makes the namespaces that must exist and takes up the deletions that an earlier process left.
    pub async fn create_initial(&self, server: &Shared) -> Result<()> {
        let resource = server.registry().built_in("", "v1", "namespaces");
        for name in INITIAL {
            let mut namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
            let stamp = Stamp { now: server.surroundings.now(), uid: server.surroundings.uid(), suffix: String::new() };
            write::begin_create(&resource, &mut namespace, &stamp)?;
            let now = deletion::seconds(stamp.now);
            let writer = Writer { manager: ITSELF, api_version: "v1", subresource: "", now: &now };
            let record = record::of_new(&resource, &namespace, &writer);
            write::finish_create(&resource, &mut namespace)?;
            let text = object::encode(&namespace, &record, OBJECT_LIMIT);
            let value = Some(text.map_err(|too_large| Failure::object_too_large(&resource, name, too_large))?);
            let commit = Commit { key: resource.key(None, name), value, expected: Expected::Absent };
            match server.store.commit(commit).await {
                Ok(_) | Err(setpoint_store::Error::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
        let scope = resource.directory(None);
        let page = server.store.range(Range { scope: &scope, after: None, limit: 0, at: At::Now }).await?;
        for metadata in page.entries.iter().map(|entry| Stored::from(entry).metadata()) {
            if metadata["deletionTimestamp"].is_string() {
                self.empty(text_at(&metadata, &["name"]));
            }
        }
        Ok(())
    }

    /// Refuses new content for a namespace that does not exist or is going away.
    pub async fn admit(&self, server: &Shared, resource: &Resource, namespace: &str, name: &str) -> Result<()> {
        match state(server, namespace).await? {
            State::Active => Ok(()),
            State::Terminating => Err(Failure::namespace_terminating(resource, name, namespace)),
            State::Missing => Err(Failure::not_found(&server.registry().built_in("", "v1", "namespaces"), namespace)),
        }
    }

    /// Looks at the namespace again after an object was put into it: if it was deleted in the meantime, the emptier may
    /// have passed already and has to come back.
    pub async fn recheck(&self, server: &Shared, namespace: &str) {
        if !matches!(state(server, namespace).await, Ok(State::Active)) {
            self.empty(namespace);
        }
    }

    /// Has a namespace emptied.
    pub fn empty(&self, namespace: &str) {
        self.terminating.lock().insert(namespace.to_owned());
        self.send(namespace);
    }

    /// Takes note of whether a namespace still has to be emptied.
    fn set_terminating(&self, namespace: &str, terminating: bool) {
        let mut namespaces = self.terminating.lock();
        if terminating {
            namespaces.insert(namespace.to_owned());
        } else {
            namespaces.remove(namespace);
        }
    }

    /// Tells the emptier that an object is gone, if it waits for that.
    pub fn object_removed(&self, namespace: &str) {
        if self.terminating.lock().contains(namespace) {
            self.send(namespace);
        }
    }

    fn send(&self, namespace: &str) {
        // Fails only when the emptier has ended, which it does with the server.
        let _ = self.wake.send(namespace.to_owned());
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    Active,
    Terminating,
    Missing,
}

async fn state(server: &Shared, namespace: &str) -> Result<State> {
    let key = server.registry().built_in("", "v1", "namespaces").key(None, namespace);
    Ok(match server.store.get(&key, At::Now).await?.value {
        None => State::Missing,
        Some(entry) if Stored::from(&entry).is_being_deleted() => State::Terminating,
        Some(_) => State::Active,
    })
}

impl Emptier {
    /// Empties namespaces side by side, but no namespace twice at once.
    pub async fn run(mut self, server: Arc<Shared>) {
        let mut stopping = server.stopping();
        let mut sweep = tokio::time::interval(SWEEP);
        sweep.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        // Each in a task of its own: one that breaks an invariant ends alone.
        let mut work = JoinSet::new();
        let mut busy: HashMap<Id, String> = HashMap::new();
        let mut again = BTreeSet::new();
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
                Some(ended) = work.join_next_with_id() => {
                    let (id, gone) = match ended {
                        Ok((id, gone)) => (id, gone),
                        // The panic has been logged; the sweep tries again.
                        Err(error) => (error.id(), false),
                    };
                    let namespace = busy.remove(&id).unwrap_or_default();
                    server.namespaces.set_terminating(&namespace, !gone);
                    again.take(&namespace).into_iter().collect()
                }
                _ = sweep.tick() => server.namespaces.terminating.lock().clone(),
                _ = stopping.wait_for(|stopping| *stopping) => return,
            };
            for namespace in due {
                if busy.values().any(|busy| *busy == namespace) {
                    again.insert(namespace);
                    continue;
                }
                let (server, name) = (server.clone(), namespace.clone());
                let task = work.spawn(async move {
                    empty(&server, &name).await.unwrap_or_else(|failure| {
                        tracing::warn!(namespace = %name, ?failure, "a namespace could not be emptied yet");
                        false
                    })
                });
                busy.insert(task.id(), namespace);
            }
        }
    }
}

/// Deletes what a namespace holds and, when nothing is left, the namespace. Whether that was achieved.
async fn empty(server: &Shared, namespace: &str) -> Result<bool> {
    if state(server, namespace).await? == State::Active {
        return Ok(true);
    }
    let mut remaining = Vec::new();
    let registry = server.registry();
    for resource in registry.kept().filter(|resource| resource.namespaced) {
        if server.store.count(&resource.directory(Some(namespace))) == 0 {
            continue;
        }
        let kept = empty_of(server, resource, namespace).await?;
        if !kept.is_empty() {
            remaining.push(Remaining { resource: resource.group_resource(), finalizers: kept });
        }
    }
    finish(server, namespace, &remaining).await
}

/// Deletes all objects of one kind. Returns the finalizers, or the mark, that keep some of them, one entry for each.
async fn empty_of(server: &Shared, resource: &Resource, namespace: &str) -> Result<Vec<Vec<String>>> {
    let itself = Caller::server();
    let options = DeleteOptions { propagation: Some(Propagation::Background), ..DeleteOptions::default() };
    let scope = resource.directory(Some(namespace));
    let mut after: Option<String> = None;
    let mut kept = Vec::new();
    loop {
        let range = Range { scope: &scope, after: after.as_deref(), limit: BATCH, at: At::Now };
        let page = server.store.range(range).await?;
        let items: Vec<Stored> = page.entries.iter().map(Stored::from).collect();
        let left =
            verbs::delete_all(server, &itself, resource, Some(namespace), &items, &options, server.surroundings.now())
                .await?;
        kept.extend(left.going.iter().map(finalizers));
        kept.extend(left.protected.iter().map(|_| vec![PROTECTED.to_owned()]));
        match page.entries.last() {
            Some(last) if page.more => after = Some(last.key.to_string()),
            _ => return Ok(kept),
        }
    }
}

fn finalizers(object: &Stored) -> Vec<String> {
    let metadata = object.metadata();
    let finalizers = metadata["finalizers"].as_array().into_iter().flatten();
    finalizers.filter_map(Value::as_str).map(str::to_owned).collect()
}

/// Removes an empty namespace; says in the status of any other what keeps it. Whether the namespace is gone.
async fn finish(server: &Shared, namespace: &str, remaining: &[Remaining]) -> Result<bool> {
    let resource = server.registry().built_in("", "v1", "namespaces");
    let key = resource.key(None, namespace);
    let Some(entry) = server.store.get(&key, At::Now).await?.value else { return Ok(remaining.is_empty()) };
    let current = Stored::from(&entry);
    let old = resource.value(&current);
    let mut new = old.clone();
    conditions::set(&mut new, remaining, server.surroundings.now());
    if remaining.is_empty()
        && let Some(finalizers) = new["spec"]["finalizers"].as_array_mut()
    {
        // Others may wait for something of their own.
        finalizers.retain(|finalizer| finalizer != namespace::FINALIZER);
    }
    // One that was marked since goes when the mark does.
    let released = remaining.is_empty() && deletion::is_released(&new) && protection::mark(&new["metadata"]).is_none();
    if new == old && !released {
        return Ok(false);
    }
    let value = match released {
        true => None,
        false => Some(
            object::encode(&new, current.record(), object_size::limit_for_server(current.size()))
                .map_err(|too_large| Failure::object_too_large(&resource, namespace, too_large))?,
        ),
    };
    match server.store.commit(Commit { key, value, expected: Expected::Revision(entry.revision) }).await {
        Ok(_) => Ok(released),
        Err(setpoint_store::Error::Conflict { .. }) => {
            server.namespaces.send(namespace);
            Ok(false)
        }
        Err(error) => Err(error.into()),
    }
}
