//! Who owns whom, as far as anybody owns anybody: an index that is kept from one change to the next.
//!
//! An object without owners, of which nobody says that it is an owner, is not in it. Owners are known by uid, and
//! whether one exists is not asked here; only what was found out is remembered, as long as a dependent still names it:
//! that it is gone, and from where.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use tokio::sync::OnceCell;

use super::facts::{Facts, Order};

/// The key of an object in the store.
pub type Key = Arc<str>;

#[derive(Debug, Default)]
pub struct Graph {
    /// By the uid of the owner.
    owned: HashMap<String, Owned>,
    /// The deleted objects that wait for their dependents, by uid.
    waiting: HashMap<String, Waiting>,
    /// The uids of those that wait for their dependents to be deleted.
    deleting: HashMap<Key, String>,
}

#[derive(Debug, Default)]
struct Owned {
    /// The dependents, and whether each asks that the owner waits for it when it is deleted in the foreground.
    dependents: BTreeMap<Key, bool>,
    /// How many ask for that, by their namespace.
    blocking: HashMap<Box<str>, usize>,
    /// Where the owner was.
    gone: Option<Key>,
    /// Whether it is in another namespace than a dependent, by the path that was asked for.
    elsewhere: HashMap<String, Arc<OnceCell<bool>>>,
}

#[derive(Debug)]
struct Waiting {
    key: Key,
    order: Order,
}

/// How an object stands to its dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Standing {
    pub has_dependents: bool,
    /// For a deleted object that waits for its dependents.
    pub wait: Option<Wait>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wait {
    /// There are dependents yet.
    On,
    /// It is carried out.
    Over(Order),
    /// It waits for itself: for an object that waits for it.
    Circular,
}

impl Graph {
    /// Takes note of a change of one object. Returns the objects for which something may follow from it.
    pub fn apply(&mut self, key: &Key, before: Option<&Facts>, after: Option<&Facts>) -> Vec<Key> {
        if let (Some(old), Some(new)) = (before, after)
            && old.uid != new.uid
        {
            let mut concerned = self.apply(key, before, None);
            concerned.extend(self.apply(key, None, after));
            return concerned;
        }
        let mut concerned = Vec::new();
        self.change_references(key, before, after, &mut concerned);
        self.change_order(key, before, after, &mut concerned);
        if let (Some(gone), None) = (before, after)
            && let Some(owned) = self.owned.get_mut(&gone.uid)
        {
            owned.gone = Some(key.clone());
            owned.elsewhere.clear();
            concerned.extend(owned.dependents.keys().cloned());
        }
        concerned
    }

    /// How an object with this uid stands.
    pub fn standing(&self, uid: &str) -> Standing {
        let wait = self.waiting.get(uid).map(|waiting| match waiting.order {
            order if self.is_over(uid, waiting) => Wait::Over(order),
            Order::Foreground if self.waits_for_itself(uid) => Wait::Circular,
            _ => Wait::On,
        });
        Standing { has_dependents: self.owned.contains_key(uid), wait }
    }

    /// Whether an owner is known to have existed at this key and to be gone.
    pub fn is_gone(&self, uid: &str, key: &str) -> bool {
        self.owned.get(uid).is_some_and(|owned| owned.gone.as_deref() == Some(key))
    }

    /// The key of a deleted owner that waits for its dependents to forget it.
    pub fn orphaning(&self, uid: &str) -> Option<&Key> {
        self.waiting.get(uid).filter(|waiting| waiting.order == Order::Orphan).map(|waiting| &waiting.key)
    }

    /// The place for the answer to whether an owner is in some namespace, so that it is found out once for all its
    /// dependents. It is forgotten when the owner goes; before, nothing can change it, since a uid comes with an object.
    pub fn elsewhere(&mut self, uid: &str, path: &str) -> Arc<OnceCell<bool>> {
        let Some(owned) = self.owned.get_mut(uid) else { return Arc::default() };
        owned.elsewhere.entry(path.to_owned()).or_default().clone()
    }

    /// Whether nothing is in it.
    pub fn is_empty(&self) -> bool {
        self.owned.is_empty() && self.waiting.is_empty()
    }

    fn change_references(
        &mut self,
        key: &Key,
        before: Option<&Facts>,
        after: Option<&Facts>,
        concerned: &mut Vec<Key>,
    ) {
        let (old, new) = (owners(before), owners(after));
        for uid in old.keys().filter(|uid| !new.contains_key(*uid)) {
            self.detach(key, uid, concerned);
        }
        for (uid, blocks) in new {
            self.attach(key, uid, blocks, concerned);
        }
        if let Some(after) = after.filter(|after| !after.owner_references.is_empty())
            && before.is_none_or(|before| before.owner_references != after.owner_references)
        {
            concerned.push(key.clone());
        }
    }

    fn change_order(&mut self, key: &Key, before: Option<&Facts>, after: Option<&Facts>, concerned: &mut Vec<Key>) {
        let (was, is) = (before.and_then(Facts::order), after.and_then(Facts::order));
        if was == is {
            return;
        }
        if let Some(before) = before {
            self.waiting.remove(&before.uid);
            self.deleting.remove(key);
        }
        // What was left aside for the order has its turn: an owner may have let go of it.
        if let (None, Some(after)) = (is, after)
            && !after.owner_references.is_empty()
        {
            concerned.push(key.clone());
        }
        if let (Some(order), Some(after)) = (is, after) {
            self.waiting.insert(after.uid.clone(), Waiting { key: key.clone(), order });
            if order == Order::Foreground {
                self.deleting.insert(key.clone(), after.uid.clone());
            }
            concerned.push(key.clone());
            concerned.extend(self.owned.get(&after.uid).into_iter().flat_map(|owned| owned.dependents.keys().cloned()));
        }
    }

    fn attach(&mut self, key: &Key, owner: &str, blocks: bool, concerned: &mut Vec<Key>) {
        let owned = match self.owned.get_mut(owner) {
            Some(owned) => owned,
            None => self.owned.entry(owner.to_owned()).or_default(),
        };
        let blocked = owned.dependents.insert(key.clone(), blocks).unwrap_or(false);
        owned.count(key, blocked, blocks);
        if blocked && !blocks {
            self.wake(owner, concerned);
        }
    }

    fn detach(&mut self, key: &Key, owner: &str, concerned: &mut Vec<Key>) {
        let Some(owned) = self.owned.get_mut(owner) else { return };
        let blocked = owned.dependents.remove(key).unwrap_or(false);
        owned.count(key, blocked, false);
        if owned.dependents.is_empty() {
            self.owned.remove(owner);
        }
        self.wake(owner, concerned);
    }

    /// Has an owner looked at if it waits for nothing any more.
    fn wake(&self, owner: &str, concerned: &mut Vec<Key>) {
        if let Some(waiting) = self.waiting.get(owner)
            && self.is_over(owner, waiting)
        {
            concerned.push(waiting.key.clone());
        }
    }

    fn is_over(&self, uid: &str, waiting: &Waiting) -> bool {
        self.owned.get(uid).is_none_or(|owned| waiting.order == Order::Foreground && !owned.is_blocked(&waiting.key))
    }

    /// Follows what blocks the owner through those that are blocked themselves.
    fn waits_for_itself(&self, uid: &str) -> bool {
        let mut seen = HashSet::new();
        let mut next = vec![uid];
        while let Some(owner) = next.pop() {
            let Some(Waiting { key: owner_key, .. }) = self.waiting.get(owner) else { continue };
            let dependents = self.owned.get(owner).into_iter().flat_map(|owned| &owned.dependents);
            let blocking = dependents.filter(|(key, blocks)| **blocks && can_own(owner_key, key));
            for blocked in blocking.filter_map(|(key, _)| self.deleting.get(key)) {
                if blocked == uid {
                    return true;
                }
                if seen.insert(blocked) {
                    next.push(blocked);
                }
            }
        }
        false
    }
}

impl Owned {
    /// Counts what a dependent asks for now instead of what it asked for before.
    fn count(&mut self, dependent: &str, blocked: bool, blocks: bool) {
        if blocked == blocks {
            return;
        }
        let namespace = namespace(dependent).unwrap_or_default();
        if blocks {
            *self.blocking.entry(namespace.into()).or_default() += 1;
        } else if let Some(count) = self.blocking.get_mut(namespace) {
            *count -= 1;
            if *count == 0 {
                self.blocking.remove(namespace);
            }
        }
    }

    /// Whether the owner at this key has to wait. Whoever names an owner that it cannot have does not hold it up.
    fn is_blocked(&self, owner: &str) -> bool {
        match namespace(owner) {
            Some(namespace) => self.blocking.contains_key(namespace),
            None => !self.blocking.is_empty(),
        }
    }
}

/// Whether the one can be an owner of the other: it is in the same namespace, or in none.
fn can_own(owner: &str, dependent: &str) -> bool {
    namespace(owner).is_none_or(|own| namespace(dependent) == Some(own))
}

/// The namespace in a key, which is `/group/resource/name` or `/group/resource/namespace/name`.
fn namespace(key: &str) -> Option<&str> {
    let mut segments = key.split('/').skip(3);
    let (first, second) = (segments.next()?, segments.next());
    second.map(|_| first)
}

/// The uids of an object's owners, and whether it blocks each.
fn owners(facts: Option<&Facts>) -> BTreeMap<&str, bool> {
    let mut owners = BTreeMap::new();
    for reference in facts.into_iter().flat_map(|facts| &facts.owner_references) {
        *owners.entry(reference.uid.as_str()).or_default() |= reference.block_owner_deletion;
    }
    owners
}
