//! The objects of a kind as a watch tells of them: one copy for all who read, found by name or by index.
//!
//! kube's own store has neither indexes nor the object as it was before, and does not say how far it has got; with them,
//! a change wakes exactly those whom it concerns, and a controller can wait until it sees what it wrote itself.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::AssertUnwindSafe;
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
type ListListener = Box<dyn Fn() + Send + Sync>;

/// All objects of a kind. One task feeds it, any number read it.
pub struct Cache<K: 'static> {
    kind: &'static str,
    indexes: &'static [Index<K>],
    contents: RwLock<Contents<K>>,
    listeners: RwLock<Vec<Listener<K>>>,
    list_listeners: RwLock<Vec<ListListener>>,
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
    /// The newest version that was told of before that one.
    before_list: u64,
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
    /// Of what kind the objects are.
    fn kind(&self) -> &'static str;

    /// How many listen.
    fn listeners(&self) -> usize;

    /// Forgets those who listen, but for so many who did first.
    fn keep_listeners(&self, count: usize);

    /// Is told when a list is complete, after those who listen heard what differs. Must not block.
    fn listen_to_lists(&self, listener: ListListener);

    fn has_seen(&self, expected: &Expected) -> bool;

    /// Whether a list came before the watch told of the write. If what was written was gone again by then, those who listen
    /// have not heard of it and never will.
    fn has_passed_over(&self, expected: &Expected) -> bool;

    /// Returns once it has been seen.
    fn seen<'a>(&'a self, expected: &'a Expected) -> BoxFuture<'a, ()>;

    /// How many lists were begun.
    fn lists(&self) -> u64;

    /// Whether everything there is has been listed, by a list that was begun after so many others.
    fn is_complete_since(&self, lists: u64) -> bool;

    /// Returns once that is so.
    fn completed_since(&self, lists: u64) -> BoxFuture<'_, ()>;

    /// Whether everything there is has been listed.
    fn is_complete(&self) -> bool {
        self.is_complete_since(0)
    }

    fn completed(&self) -> BoxFuture<'_, ()> {
        self.completed_since(0)
    }
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
        Arc::new(Cache {
            kind,
            indexes,
            contents: RwLock::new(contents),
            listeners: RwLock::default(),
            list_listeners: RwLock::default(),
            progress: watch::Sender::default(),
        })
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

    /// The values under which an index finds anything.
    pub fn values(&self, index: &Index<K>) -> Vec<String> {
        self.contents.read().found[self.position(index)].keys().cloned().collect()
    }

    fn found<T: Default>(&self, index: &Index<K>, value: &str, read: impl FnOnce(&BTreeMap<Name, Arc<K>>) -> T) -> T {
        self.contents.read().found[self.position(index)].get(value).map(read).unwrap_or_default()
    }

    fn position(&self, index: &Index<K>) -> usize {
        let position = self.indexes.iter().position(|own| own.name == index.name);
        position.unwrap_or_else(|| panic!("{} are indexed by {}", self.kind, index.name))
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
        let (is_begun, is_complete) = (matches!(event, Event::Init), matches!(event, Event::InitDone));
        let (changes, newest) = {
            let mut contents = self.contents.write();
            let newest = match &event {
                Event::Apply(object) | Event::Delete(object) => version(object),
                // What a list names counts once all of it is shown.
                Event::InitDone => contents.listed.values().map(|object| version(&**object)).max().unwrap_or_default(),
                Event::Init | Event::InitApply(_) => 0,
            };
            (contents.apply(self.indexes, event), newest)
        };
        for change in &changes {
            self.listeners.read().iter().for_each(|listener| self.tell(listener, change));
        }
        // Only now: whoever waits for the cache also counts on what those have taken down who listen.
        self.progress.send_modify(|progress| {
            if is_complete {
                (progress.complete, progress.before_list) = (progress.begun, progress.version);
            }
            progress.version = progress.version.max(newest);
            progress.begun += u64::from(is_begun);
        });
        if is_complete {
            self.list_listeners.read().iter().for_each(|listener| listener());
        }
    }

    /// One who panics is a fault of ours, and keeps the news from nobody else.
    fn tell(&self, listener: &Listener<K>, change: &Change<K>) {
        if std::panic::catch_unwind(AssertUnwindSafe(|| listener(change))).is_err() {
            let object = Name::of(&**change.latest());
            tracing::error!(kind = self.kind, %object, "one who was told of this object panicked");
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
    fn kind(&self) -> &'static str {
        self.kind
    }

    fn listeners(&self) -> usize {
        self.listeners.read().len()
    }

    fn keep_listeners(&self, count: usize) {
        self.listeners.write().truncate(count);
    }

    fn listen_to_lists(&self, listener: ListListener) {
        self.list_listeners.write().push(listener);
    }

    fn has_seen(&self, expected: &Expected) -> bool {
        let progress = *self.progress.borrow();
        self.shows(progress, expected)
    }

    fn has_passed_over(&self, expected: &Expected) -> bool {
        let progress = *self.progress.borrow();
        match expected.what {
            What::Version(version) => progress.complete > expected.list && progress.before_list < version,
            // Whoever knew of it is told that it is gone, by a list as well.
            What::Gone(..) => false,
        }
    }

    fn seen<'a>(&'a self, expected: &'a Expected) -> BoxFuture<'a, ()> {
        Box::pin(async move {
            let mut progress = self.progress.subscribe();
            // It cannot end: the sender is ours.
            let _ = progress.wait_for(|progress| self.shows(*progress, expected)).await;
        })
    }

    fn lists(&self) -> u64 {
        self.progress.borrow().begun
    }

    fn is_complete_since(&self, lists: u64) -> bool {
        self.progress.borrow().complete > lists
    }

    fn completed_since(&self, lists: u64) -> BoxFuture<'_, ()> {
        Box::pin(async move {
            let _ = self.progress.subscribe().wait_for(|progress| progress.complete > lists).await;
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use k8s_openapi::api::core::v1::Pod;
    use parking_lot::Mutex;
    use serde_json::json;

    use super::*;

    const BY_NODE: Index<Pod> = Index {
        name: "node",
        values: |pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).into_iter().collect(),
    };

    fn pod(name: &str, uid: &str, version: u64, node: &str) -> Pod {
        let meta = json!({"name": name, "namespace": "shop", "uid": uid, "resourceVersion": version.to_string()});
        serde_json::from_value(json!({"metadata": meta, "spec": {"nodeName": node, "containers": []}})).unwrap()
    }

    fn cache() -> Arc<Cache<Pod>> {
        Cache::new("Pod", const { &[BY_NODE] })
    }

    fn list(cache: &Cache<Pod>, pods: &[Pod]) {
        cache.apply(Event::Init);
        pods.iter().for_each(|pod| cache.apply(Event::InitApply(pod.clone())));
        cache.apply(Event::InitDone);
    }

    fn on(cache: &Cache<Pod>, node: &str) -> Vec<String> {
        cache.by(&BY_NODE, node).iter().map(|pod| pod.metadata.name.clone().unwrap()).collect()
    }

    #[test]
    fn a_list_shows_all_at_once_and_tells_only_what_differs() {
        let cache = cache();
        let told = Arc::new(Mutex::new(Vec::new()));
        cache.listen({
            let told = told.clone();
            move |change: &Change<Pod>| {
                let shown = |pod: &Option<Arc<Pod>>| pod.as_ref().and_then(|pod| pod.metadata.uid.clone());
                told.lock().push((shown(&change.before), shown(&change.after)));
            }
        });
        let heard = || std::mem::take(&mut *told.lock());
        let some = |uid: &str| Some(uid.to_owned());

        cache.apply(Event::Init);
        cache.apply(Event::InitApply(pod("a", "a1", 1, "n")));
        assert!(cache.is_empty() && !cache.is_complete(), "half a list proves nothing");
        list(&cache, &[pod("a", "a1", 1, "n"), pod("b", "b1", 2, "n")]);
        assert!(cache.is_complete());
        assert_eq!(heard(), [(None, some("a1")), (None, some("b1"))], "the first list names all");
        list(&cache, &[pod("a", "a1", 1, "n"), pod("b", "b1", 9, "n"), pod("c", "c1", 8, "n")]);
        assert_eq!(heard(), [(some("b1"), some("b1")), (None, some("c1"))]);
        list(&cache, &[pod("c", "c2", 12, "n")]);
        assert_eq!(heard(), [(some("a1"), None), (some("b1"), None), (some("c1"), some("c2"))]);
        cache.apply(Event::Apply(pod("c", "c2", 12, "n")));
        cache.apply(Event::Delete(pod("x", "x1", 13, "n")));
        assert_eq!(heard(), [], "what is known, and what was never there, is no news");
    }

    #[test]
    fn who_listens_has_heard_of_all_before_the_cache_calls_itself_complete() {
        let cache = cache();
        let was_complete = Arc::new(Mutex::new(Vec::new()));
        cache.listen(|_: &Change<Pod>| panic!("a fault in one"));
        let (progress, told) = (cache.progress.subscribe(), was_complete.clone());
        cache.listen(move |_: &Change<Pod>| told.lock().push(progress.borrow().complete > 0));
        list(&cache, &[pod("a", "a1", 1, "n"), pod("b", "b1", 2, "n")]);
        assert_eq!(*was_complete.lock(), [false, false], "and one who panics keeps it from nobody");
        assert!(cache.is_complete());
    }

    #[test]
    fn an_index_follows_its_objects() {
        let cache = cache();
        list(&cache, &[pod("b", "b1", 1, "east"), pod("a", "a1", 2, "east")]);
        assert_eq!(on(&cache, "east"), ["a", "b"], "in the order of names");
        cache.apply(Event::Apply(pod("a", "a1", 3, "west")));
        assert_eq!((on(&cache, "east"), on(&cache, "west")), (vec!["b".to_owned()], vec!["a".to_owned()]));
        cache.apply(Event::Delete(pod("a", "a1", 4, "west")));
        assert_eq!((cache.count_by(&BY_NODE, "east"), cache.count_by(&BY_NODE, "west")), (1, 0));
        assert_eq!(cache.values(&BY_NODE), ["east"]);
        list(&cache, &[]);
        assert!(on(&cache, "east").is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn a_write_is_seen_when_the_watch_or_a_later_list_shows_it() {
        struct Row {
            name: &'static str,
            expected: fn(&Cache<Pod>) -> Expected,
            then: &'static [fn(&Cache<Pod>)],
            is_seen: bool,
        }
        let created: fn(&Cache<Pod>) -> Expected = |cache| cache.expect(&pod("new", "n1", 20, ""));
        let removed: fn(&Cache<Pod>) -> Expected = |cache| cache.expect_gone(&pod("a", "a1", 1, ""));
        let rows = [
            Row { name: "nothing happened", expected: created, then: &[], is_seen: false },
            Row {
                name: "an older change",
                expected: created,
                then: &[|cache| cache.apply(Event::Apply(pod("b", "b1", 19, "")))],
                is_seen: false,
            },
            Row {
                name: "the write itself",
                expected: created,
                then: &[|cache| cache.apply(Event::Apply(pod("new", "n1", 20, "")))],
                is_seen: true,
            },
            Row {
                name: "something later",
                expected: created,
                then: &[|cache| cache.apply(Event::Apply(pod("b", "b1", 21, "")))],
                is_seen: true,
            },
            Row {
                name: "half of a list",
                expected: created,
                then: &[|cache| {
                    cache.apply(Event::Init);
                    cache.apply(Event::InitApply(pod("z", "z1", 30, "")));
                }],
                is_seen: false,
            },
            Row {
                name: "a later list without it: it came and went",
                expected: created,
                then: &[|cache| list(cache, &[])],
                is_seen: true,
            },
            Row { name: "still there", expected: removed, then: &[], is_seen: false },
            Row {
                name: "gone",
                expected: removed,
                then: &[|cache| cache.apply(Event::Delete(pod("a", "a1", 22, "")))],
                is_seen: true,
            },
            Row {
                name: "replaced by another of its name",
                expected: removed,
                then: &[|cache| cache.apply(Event::Apply(pod("a", "a2", 23, "")))],
                is_seen: true,
            },
        ];
        for row in rows {
            let cache = cache();
            list(&cache, &[pod("a", "a1", 1, "")]);
            let expected = (row.expected)(&cache);
            let waiting = tokio::spawn({
                let (cache, expected) = (cache.clone(), expected.clone());
                async move { cache.seen(&expected).await }
            });
            tokio::time::sleep(Duration::from_secs(1)).await;
            row.then.iter().for_each(|then| then(&cache));
            assert_eq!(cache.has_seen(&expected), row.is_seen, "{}", row.name);
            tokio::time::sleep(Duration::from_secs(1)).await;
            assert_eq!(waiting.is_finished(), row.is_seen, "{}", row.name);
            waiting.abort();
        }
    }

    #[test]
    fn a_write_that_changed_nothing_is_seen_already() {
        let cache = cache();
        list(&cache, &[pod("a", "a1", 25, "")]);
        assert!(cache.has_seen(&cache.expect(&pod("a", "a1", 25, ""))));
    }

    #[tokio::test(start_paused = true)]
    async fn a_list_that_was_under_way_before_the_write_does_not_show_it() {
        let cache = cache();
        list(&cache, &[]);
        cache.apply(Event::Init);
        let expected = cache.expect(&pod("new", "n1", 20, ""));
        cache.apply(Event::InitDone);
        assert!(!cache.has_seen(&expected));
        list(&cache, &[]);
        assert!(cache.has_seen(&expected));
    }
}
