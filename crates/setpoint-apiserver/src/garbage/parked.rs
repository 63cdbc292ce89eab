//! The objects that wait for something to be served; each waits for one thing at a time.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use super::facts::Reference;
use super::graph::Key;
use super::place::{self, Place};
use crate::registry::Registry;

/// Something that must be served before an object can be decided about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Unserved {
    Kind {
        api_version: String,
        kind: String,
    },
    /// The object's own resource, by a key.
    Resource(String),
}

impl Unserved {
    pub(super) fn is_served(&self, registry: &Registry) -> bool {
        match self {
            Unserved::Kind { api_version, kind } => {
                let (api_version, kind) = (api_version.clone(), kind.clone());
                place::owner_resource(registry, &Reference { api_version, kind, ..Reference::default() }).is_some()
            }
            Unserved::Resource(directory) => Place::of_key(registry, directory).is_some(),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Parked {
    waiting: BTreeMap<Arc<Unserved>, BTreeSet<Key>>,
    /// What each waits for, so that whoever goes is found without a search.
    reasons: HashMap<Key, Arc<Unserved>>,
}

impl Parked {
    pub(super) fn is_empty(&self) -> bool {
        self.reasons.is_empty()
    }

    pub(super) fn add(&mut self, key: Key, unserved: Unserved) {
        self.remove(&key);
        let reason = match self.waiting.get_key_value(&unserved) {
            Some((reason, _)) => reason.clone(),
            None => Arc::new(unserved),
        };
        self.waiting.entry(reason.clone()).or_default().insert(key.clone());
        self.reasons.insert(key, reason);
    }

    pub(super) fn remove(&mut self, key: &str) {
        let Some(reason) = self.reasons.remove(key) else { return };
        if let Some(keys) = self.waiting.get_mut(&reason) {
            keys.remove(key);
            if keys.is_empty() {
                self.waiting.remove(&reason);
            }
        }
    }

    /// Takes out those whose wait is over.
    pub(super) fn release(&mut self, is_served: impl Fn(&Unserved) -> bool) -> Vec<Key> {
        let served: Vec<Arc<Unserved>> = self.waiting.keys().filter(|reason| is_served(reason)).cloned().collect();
        let released: Vec<Key> = served.iter().filter_map(|reason| self.waiting.remove(reason)).flatten().collect();
        for key in &released {
            self.reasons.remove(key);
        }
        released
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn widgets() -> Unserved {
        Unserved::Kind { api_version: "example.com/v1".into(), kind: "Widget".into() }
    }

    fn gadgets() -> Unserved {
        Unserved::Resource("/example.com/gadgets/".into())
    }

    #[test]
    fn those_who_wait_for_a_kind_are_released_together_and_once() {
        let mut parked = Parked::default();
        for (key, unserved) in [("/b", widgets()), ("/a", widgets()), ("/c", gadgets())] {
            parked.add(key.into(), unserved);
        }
        assert_eq!(parked.release(|_| false), []);
        assert_eq!(parked.release(|unserved| *unserved == widgets()), ["/a".into(), "/b".into()]);
        assert_eq!(parked.release(|unserved| *unserved == widgets()), []);
        assert_eq!(parked.release(|_| true), ["/c".into()]);
        assert!(parked.is_empty(), "{parked:?}");
    }

    #[test]
    fn an_object_waits_for_one_thing_and_when_it_goes_for_none() {
        let mut parked = Parked::default();
        parked.add("/a".into(), widgets());
        parked.add("/a".into(), gadgets());
        assert_eq!(parked.release(|unserved| *unserved == widgets()), [], "it waits for something else by now");
        parked.remove("/a");
        parked.remove("/never");
        assert!(parked.is_empty() && parked.waiting.is_empty(), "{parked:?}");
    }
}
