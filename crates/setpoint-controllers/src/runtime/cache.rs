//! The objects of a kind as a watch tells of them: one copy for all who read, found by name or by index.
//!
//! kube's own store has neither indexes nor the object as it was before, and does not say how far it has got; with them,
//! a change wakes exactly those whom it concerns, and a controller can wait until it sees what it wrote itself.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use kube::Resource;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;
use tokio::sync::watch;

use super::name::Name;

/// A way to find objects other than by name.
#[derive(Debug)]
pub struct Index<K> {
    pub name: &'static str,
    /// The values under which an object is found.
    pub values: fn(&K) -> Vec<String>,
}

/// What became of an object. One of the two is there.
#[derive(Debug)]
pub struct Change<K> {
    pub before: Option<Arc<K>>,
    pub after: Option<Arc<K>>,
}

impl<K> Change<K> {
    /// The object as it is, or as it was last.
    pub fn latest(&self) -> &Arc<K> {
        self.after.as_ref().or(self.before.as_ref()).expect("a change is of something")
    }

    /// The object as it is and as it was, as far as there are such.
    pub fn both(&self) -> impl Iterator<Item = &Arc<K>> {
        self.before.iter().chain(&self.after)
    }
}

type Listener<K> = Box<dyn Fn(&Change<K>) + Send + Sync>;

/// All objects of a kind. One task feeds it, any number read it.
pub struct Cache<K: 'static> {
    kind: &'static str,
    indexes: &'static [Index<K>],
    contents: RwLock<Contents<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
    progress: watch::Sender<Progress>,
}

struct Contents<K> {
    objects: BTreeMap<Name, Arc<K>>,
    /// For each index, what is found under each value.
    found: Vec<BTreeMap<String, BTreeMap<Name, Arc<K>>>>,
    /// What a list that is still coming has named so far.
    listed: BTreeMap<Name, Arc<K>>,
}

/// How far a cache has got.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Progress {
    /// The newest version that was told of.
    version: u64,
    /// Lists that were begun, and the last one of them that came to its end.
    begun: u64,
    complete: u64,
}

/// A write of ours that a cache has yet to show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Expected {
    what: What,
    /// A list that began after the write shows it, or what became of it.
    list: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum What {
    Version(u64),
    Gone(Name, Option<String>),
}

/// Something that follows the server and can be waited for.
pub trait Follows: Send + Sync {
    fn has_seen(&self, expected: &Expected) -> bool;

    /// Returns once it has been seen.
    fn seen<'a>(&'a self, expected: &'a Expected) -> BoxFuture<'a, ()>;

    fn is_complete(&self) -> bool;

    /// Returns once everything there is has been listed.
    fn completed(&self) -> BoxFuture<'_, ()>;
}

impl<K: 'static> fmt::Debug for Cache<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let objects = self.contents.read().objects.len();
        f.debug_struct("Cache").field("kind", &self.kind).field("objects", &objects).finish_non_exhaustive()
    }
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Cache<K> {
    pub fn new(kind: &'static str, indexes: &'static [Index<K>]) -> Arc<Cache<K>> {
        let found = indexes.iter().map(|_| BTreeMap::new()).collect();
        let contents = Contents { objects: BTreeMap::new(), found, listed: BTreeMap::new() };
        let (contents, listeners) = (RwLock::new(contents), RwLock::default());
        Arc::new(Cache { kind, indexes, contents, listeners, progress: watch::Sender::default() })
    }

    pub fn kind(&self) -> &'static str {
        self.kind
    }

    /// Is told of every change, in order, once the cache shows it. Must not block: it adds keys to queues.
    ///
    /// Whoever listens from before the first list hears of every object.
    pub fn listen(&self, listener: impl Fn(&Change<K>) + Send + Sync + 'static) {
        self.listeners.write().push(Box::new(listener));
    }

    pub fn get(&self, name: &Name) -> Option<Arc<K>> {
        self.contents.read().objects.get(name).cloned()
    }

    /// All of them, by name.
    pub fn all(&self) -> Vec<Arc<K>> {
        self.contents.read().objects.values().cloned().collect()
    }

    pub fn names(&self) -> Vec<Name> {
        self.contents.read().objects.keys().cloned().collect()
    }

    pub fn len(&self) -> usize {
        self.contents.read().objects.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// What an index finds under a value, by name.
    pub fn by(&self, index: &Index<K>, value: &str) -> Vec<Arc<K>> {
        self.found(index, value, |found| found.values().cloned().collect())
    }

    /// How many an index finds under a value, without visiting them.
    pub fn count_by(&self, index: &Index<K>, value: &str) -> usize {
        self.found(index, value, BTreeMap::len)
    }

    fn found<T: Default>(&self, index: &Index<K>, value: &str, read: impl FnOnce(&BTreeMap<Name, Arc<K>>) -> T) -> T {
        let position = self.indexes.iter().position(|own| own.name == index.name);
        let position = position.unwrap_or_else(|| panic!("{} are indexed by {}", self.kind, index.name));
        self.contents.read().found[position].get(value).map(read).unwrap_or_default()
    }

    /// To wait for a write that made this version of an object.
    pub fn expect(&self, written: &K) -> Expected {
        Expected { what: What::Version(version(written)), list: self.progress.borrow().begun }
    }

    /// To wait for an object to go that was deleted at once.
    pub fn expect_gone(&self, deleted: &K) -> Expected {
        let what = What::Gone(Name::of(deleted), deleted.meta().uid.clone());
        Expected { what, list: self.progress.borrow().begun }
    }

    /// Takes in what a watch says. Only one task may do so.
    pub fn apply(&self, event: Event<K>) {
        let newest = match &event {
            Event::Apply(object) | Event::InitApply(object) | Event::Delete(object) => version(object),
            Event::Init | Event::InitDone => 0,
        };
        let (is_begun, is_complete) = (matches!(event, Event::Init), matches!(event, Event::InitDone));
        let changes = self.contents.write().apply(self.indexes, event);
        // What a list names counts once all of it is shown.
        self.progress.send_modify(|progress| {
            progress.version = progress.version.max(if changes.is_empty() { 0 } else { newest });
            progress.begun += u64::from(is_begun);
            if is_complete {
                progress.complete = progress.begun;
            }
        });
        let listeners = self.listeners.read();
        for change in &changes {
            listeners.iter().for_each(|listener| listener(change));
        }
    }

    fn shows(&self, progress: Progress, expected: &Expected) -> bool {
        progress.complete > expected.list
            || match &expected.what {
                What::Version(version) => progress.version >= *version,
                What::Gone(name, uid) => self.get(name).is_none_or(|object| object.meta().uid != *uid),
            }
    }
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Follows for Cache<K> {
    fn has_seen(&self, expected: &Expected) -> bool {
        let progress = *self.progress.borrow();
        self.shows(progress, expected)
    }

    fn seen<'a>(&'a self, expected: &'a Expected) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut progress = self.progress.subscribe();
            // It cannot end: the sender is ours.
            let _ = progress.wait_for(|progress| self.shows(*progress, expected)).await;
        })
    }

    fn is_complete(&self) -> bool {
        self.progress.borrow().complete > 0
    }

    fn completed(&self) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _ = self.progress.subscribe().wait_for(|progress| progress.complete > 0).await;
        })
    }
}

impl<K: Resource<DynamicType = ()> + 'static> Contents<K> {
    fn apply(&mut self, indexes: &[Index<K>], event: Event<K>) -> Vec<Change<K>> {
        match event {
            Event::Init => {
                self.listed.clear();
                Vec::new()
            }
            Event::InitApply(object) => {
                self.listed.insert(Name::of(&object), Arc::new(object));
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut self.listed);
                let gone: Vec<Name> = self.objects.keys().filter(|name| !listed.contains_key(*name)).cloned().collect();
                let gone: Vec<Change<K>> =
                    gone.into_iter().filter_map(|name| self.replace(indexes, name, None)).collect();
                let changed = listed.into_iter().filter_map(|(name, object)| self.replace(indexes, name, Some(object)));
                gone.into_iter().chain(changed).collect()
            }
            Event::Apply(object) => {
                self.replace(indexes, Name::of(&object), Some(Arc::new(object))).into_iter().collect()
            }
            Event::Delete(object) => self.replace(indexes, Name::of(&object), None).into_iter().collect(),
        }
    }

    /// Puts an object where another may have been; `None` if nothing changes.
    fn replace(&mut self, indexes: &[Index<K>], name: Name, after: Option<Arc<K>>) -> Option<Change<K>> {
        let before = match &after {
            Some(object) => self.objects.insert(name.clone(), object.clone()),
            None => self.objects.remove(&name),
        };
        for (index, found) in indexes.iter().zip(&mut self.found) {
            for value in before.iter().flat_map(|object| (index.values)(object)) {
                if let Some(under) = found.get_mut(&value) {
                    under.remove(&name);
                    if under.is_empty() {
                        found.remove(&value);
                    }
                }
            }
            for value in after.iter().flat_map(|object| (index.values)(object)) {
                found.entry(value).or_default().insert(name.clone(), after.clone()?);
            }
        }
        let same = |before: &Arc<K>, after: &Arc<K>| before.meta().resource_version == after.meta().resource_version;
        match (&before, &after) {
            (None, None) => None,
            (Some(old), Some(new)) if same(old, new) => None,
            _ => Some(Change { before, after }),
        }
    }
}

/// Versions are numbers that grow; what is none (no server does that today) is before all.
fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
