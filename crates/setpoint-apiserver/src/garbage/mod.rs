//! Garbage collection: objects go when all their owners are gone.
//!
//! `facts` is what counts of an object, `graph` who owns whom, `search` where an owner must be, `verdict` what follows; all
//! of that is pure. The collector here follows every change of the store, keeps the graph, and has each object that a change concerns looked at (`look`):
//! read afresh, decided about, and deleted or changed in the way a client would do it. What one look finds may be out of
//! date by the time it acts; then the write is refused, because it names the revision that was looked at, and the object
//! is looked at again. Nothing is remembered across a restart: the graph is read from the store, and everything that has
//! an owner is looked at once.

pub mod facts;
pub mod graph;
mod look;
mod notice;
mod parked;
mod place;
mod queue;
pub mod search;
pub mod verdict;

#[cfg(test)]
mod model_tests;
#[cfg(test)]
mod tests;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use setpoint_store::{At, Error, Event, Range, Revision, Watch};
use tokio::task::{Id, JoinSet};
use tokio::time::{Instant, MissedTickBehavior};

use self::facts::Facts;
use self::graph::Key;
use self::look::{Known, Looked};
use self::parked::Parked;
use self::queue::Queue;
use crate::object::Stored;
use crate::server::Shared;

/// How many objects are looked at at the same time; what they write shares durable transactions.
const AT_ONCE: usize = 64;
/// How many objects are read at a time to learn who owns whom.
const PAGE: usize = 1000;
/// How many changes are taken note of before others have their turn.
const CHANGES: usize = 1000;
/// How often it is asked whether the kind of an unknown owner is served by now.
const ASK: Duration = Duration::from_secs(1);
/// How long to wait after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);
/// Events neither own nor are owned; they expire.
pub(crate) const EVENTS: &str = "/core/events/";

/// Collects garbage until the server stops.
pub(crate) async fn run(server: Arc<Shared>) {
    let mut stopping = server.stopping();
    tokio::select! {
        biased;
        () = collect(&server) => {}
        _ = stopping.wait_for(|stopping| *stopping) => {}
    }
}

async fn collect(server: &Arc<Shared>) {
    loop {
        let ended = match Collector::learn(server.clone()).await {
            Ok((mut collector, watch)) => collector.follow(watch).await,
            Err(error) => error,
        };
        match ended {
            Error::Closed => return,
            // The store has forgotten what comes next: begin again.
            Error::Compacted { .. } => {}
            error => {
                tracing::warn!(%error, "the garbage collector cannot read the store");
                tokio::time::sleep(PAUSE).await;
            }
        }
    }
}

#[derive(Debug)]
struct Collector {
    server: Arc<Shared>,
    known: Arc<Known>,
    queue: Queue,
    looks: JoinSet<Looked>,
    busy: HashMap<Id, Key>,
    parked: Parked,
    /// The objects that may not be deleted as they are.
    refused: HashSet<Key>,
}

impl Collector {
    /// Reads the store once.
    async fn learn(server: Arc<Shared>) -> Result<(Collector, Box<dyn Watch>), Error> {
        let mut collector = Collector {
            known: Arc::default(),
            queue: Queue::default(),
            looks: JoinSet::new(),
            busy: HashMap::new(),
            parked: Parked::default(),
            refused: HashSet::new(),
            server,
        };
        let mut at = At::Now;
        let mut after: Option<Key> = None;
        loop {
            let range = Range { scope: "/", after: after.as_deref(), limit: PAGE, at };
            let page = collector.server.store.range(range).await?;
            at = At::Revision(page.revision);
            for entry in page.entries.iter().filter(|entry| !entry.key.starts_with(EVENTS)) {
                let facts = Facts::of_concerned(&Stored::from(entry));
                collector.note(&entry.key, None, facts.as_ref());
            }
            match page.entries.last() {
                Some(last) if page.more => after = Some(last.key.clone()),
                _ => {
                    let watch = collector.server.store.watch("/", page.revision)?;
                    return Ok((collector, watch));
                }
            }
            tokio::task::yield_now().await;
        }
    }

    /// Follows the changes of the store until it ends or forgets.
    async fn follow(&mut self, mut watch: Box<dyn Watch>) -> Error {
        let mut ask = tokio::time::interval(ASK);
        ask.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            self.start_looks();
            let due = self.queue.due();
            tokio::select! {
                biased;
                event = watch.next() => {
                    if let Err(error) = event.and_then(|event| self.take_note(&event, watch.as_mut())) {
                        return error;
                    }
                }
                Some(ended) = self.looks.join_next_with_id() => {
                    let (id, looked) = match ended {
                        Ok((id, looked)) => (id, looked),
                        // The panic has been logged.
                        Err(error) => (error.id(), Looked::Again),
                    };
                    self.finish(id, looked);
                }
                () = tokio::time::sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {
                    self.queue.wake(Instant::now());
                }
                _ = ask.tick(), if !self.parked.is_empty() => self.unpark(),
            }
        }
    }

    /// Takes note of an event and of those that are at hand after it.
    fn take_note(&mut self, event: &Event, watch: &mut dyn Watch) -> Result<(), Error> {
        self.note_event(event);
        for _ in 0..CHANGES {
            match watch.try_next()? {
                Some(event) => self.note_event(&event),
                None => break,
            }
        }
        Ok(())
    }

    fn note_event(&mut self, event: &Event) {
        if event.key.starts_with(EVENTS) {
            return;
        }
        if self.refused.remove(&event.key) && event.value.is_some() {
            self.queue.add(event.key.clone());
        }
        let stored = |bytes: &bytes::Bytes, revision: Revision| Stored::new(bytes.clone(), revision);
        let before = event.previous.as_ref().map(|(bytes, revision)| stored(bytes, *revision));
        let after = event.value.as_ref().map(|bytes| stored(bytes, event.revision));
        let (before, after) = match (before, after) {
            // Of what is gone the uid counts, if anybody is owned at all.
            (Some(before), None) => {
                self.parked.remove(&event.key);
                ((!self.known.graph.lock().is_empty()).then(|| Facts::of(&before)), None)
            }
            (before, after) => {
                let concerned = |stored: &Option<Stored>| stored.as_ref().and_then(Facts::of_concerned);
                match (concerned(&before), concerned(&after)) {
                    (None, None) => return,
                    // One that concerns us has a uid to be compared with that of the other.
                    (old, new) => {
                        (old.or_else(|| before.as_ref().map(Facts::of)), new.or_else(|| after.as_ref().map(Facts::of)))
                    }
                }
            }
        };
        self.note(&event.key, before.as_ref(), after.as_ref());
    }

    fn note(&mut self, key: &Key, before: Option<&Facts>, after: Option<&Facts>) {
        let references = after.map(|after| after.owner_references.as_slice()).unwrap_or_default();
        if !references.is_empty() {
            let (registry, mut kinds) = (self.server.registry(), self.known.kinds.lock());
            references.iter().for_each(|reference| drop(kinds.find(&registry, reference)));
        }
        let concerned = self.known.graph.lock().apply(key, before, after);
        concerned.into_iter().for_each(|key| self.queue.add(key));
    }

    fn start_looks(&mut self) {
        while self.looks.len() < AT_ONCE
            && let Some(key) = self.queue.start()
        {
            let (server, known, looked_at) = (self.server.clone(), self.known.clone(), key.clone());
            let task = self.looks.spawn(async move { look::look(&server, &known, &looked_at).await });
            self.busy.insert(task.id(), key);
        }
    }

    fn finish(&mut self, look: Id, looked: Looked) {
        let Some(key) = self.busy.remove(&look) else { return };
        self.queue.finish(key.clone(), !matches!(looked, Looked::Again), Instant::now());
        match looked {
            Looked::Parked(unserved) => self.parked.add(key, unserved),
            Looked::Done | Looked::Again => self.parked.remove(&key),
            // Whoever is refused is looked at once more: what changed it during the look may have been heard already, and
            // only what is heard from now on wakes it.
            Looked::Refused => {
                self.parked.remove(&key);
                if self.refused.insert(key.clone()) {
                    self.queue.add(key);
                }
            }
        }
    }

    /// Has looked at again what waited for something that is served by now.
    fn unpark(&mut self) {
        let registry = self.server.registry();
        let released = self.parked.release(|unserved| unserved.is_served(&registry));
        released.into_iter().for_each(|key| self.queue.add(key));
    }
}
