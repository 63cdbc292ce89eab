//! Applies that changed nothing, remembered, so that the same again is known to change nothing without looking.
//!
//! Controllers apply the same configuration over and over. What an apply does follows from the object, the configuration,
//! its manager and the schema; while all four are the same, so is the answer: nothing. Only digests are kept:
//! configurations may be Secrets.

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use setpoint_store::Revision;
use sha2::{Digest, Sha256};

use crate::registry::Resource;

/// How many applies each of the two halves remembers, in about 4 MB.
const MOST: usize = 32 * 1024;

/// An apply, but for when it came.
#[derive(Debug, Clone)]
pub struct Attempt {
    resource: Weak<Resource>,
    digest: [u8; 32],
}

impl Attempt {
    /// The subresource is "" for the object itself.
    pub fn new(resource: &Arc<Resource>, key: &str, manager: &str, subresource: &str, config: &[u8]) -> Attempt {
        let mut hasher = Sha256::new();
        for part in [key.as_bytes(), manager.as_bytes(), subresource.as_bytes(), config] {
            hasher.update((part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
        Attempt { resource: Arc::downgrade(resource), digest: hasher.finalize().into() }
    }
}

/// Which applies changed nothing.
#[derive(Debug, Default)]
pub struct Settled(Mutex<Halves>);

/// What was learned or asked for lately, and what was before that. When the young half is full and more is learned, it
/// becomes the old one, and what was old and not asked for since is forgotten. Asking forgets nothing, so that all of what
/// both halves hold can be asked for in turns.
#[derive(Debug, Default)]
struct Halves {
    young: HashMap<[u8; 32], Finding>,
    old: HashMap<[u8; 32], Finding>,
}

impl Halves {
    fn find(&mut self, digest: &[u8; 32]) -> Option<&Finding> {
        if self.young.len() < MOST
            && let Some(finding) = self.old.remove(digest)
        {
            self.young.insert(*digest, finding);
        }
        self.young.get(digest).or_else(|| self.old.get(digest))
    }

    fn insert(&mut self, digest: [u8; 32], finding: Finding) {
        self.old.remove(&digest);
        if self.young.len() >= MOST && !self.young.contains_key(&digest) {
            self.old = std::mem::take(&mut self.young);
        }
        self.young.insert(digest, finding);
    }
}

/// By which schema, and at which revision of its object, an apply changed nothing.
type Finding = (Weak<Resource>, Revision);

impl Settled {
    /// Whether this very apply is known to change nothing at this revision.
    pub fn knows(&self, attempt: &Attempt, revision: Revision) -> bool {
        let mut known = self.0.lock();
        known.find(&attempt.digest).is_some_and(|(by, at)| *at == revision && by.ptr_eq(&attempt.resource))
    }

    /// Takes note that an apply changed nothing at this revision.
    pub fn learn(&self, attempt: &Attempt, revision: Revision) {
        self.0.lock().insert(attempt.digest, (attempt.resource.clone(), revision));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::built_in;
    use crate::schema::Schemas;

    #[test]
    fn only_the_very_same_is_known() {
        let registry = built_in::registry(&Schemas::built_in());
        let resource = registry.built_in("", "v1", "configmaps");
        let attempt = Attempt::new(&resource, "/core/configmaps/default/a", "one", "", b"{}");
        let settled = Settled::default();
        settled.learn(&attempt, 7);
        assert!(settled.knows(&attempt, 7));
        assert!(!settled.knows(&attempt, 8), "the object has changed");
        let key = "/core/configmaps/default/a";
        let rows = [
            ("another object", Attempt::new(&resource, "/core/configmaps/default/b", "one", "", b"{}")),
            ("another manager", Attempt::new(&resource, key, "two", "", b"{}")),
            ("another part", Attempt::new(&resource, key, "one", "status", b"{}")),
            ("another configuration", Attempt::new(&resource, key, "one", "", b"{ }")),
            ("another schema", Attempt::new(&registry.built_in("", "v1", "secrets"), key, "one", "", b"{}")),
            ("the same letters, cut elsewhere", Attempt::new(&resource, key, "on", "e", b"{}")),
        ];
        for (row, other) in &rows {
            assert!(!settled.knows(other, 7), "{row}");
        }
        for (_, other) in &rows[..4] {
            settled.learn(other, 7);
        }
        assert!(settled.knows(&attempt, 7), "others beside it are known too");
    }

    #[test]
    fn what_is_asked_for_is_kept_and_the_rest_forgotten_in_halves() {
        let registry = built_in::registry(&Schemas::built_in());
        let resource = registry.built_in("", "v1", "configmaps");
        let attempt = |number: usize| Attempt::new(&resource, "", "one", "", number.to_string().as_bytes());
        let settled = Settled::default();
        let many = MOST + MOST / 4;
        (0..many).for_each(|number| settled.learn(&attempt(number), 7));
        for round in 0..2 {
            let hits = (0..many).filter(|number| settled.knows(&attempt(*number), 7)).count();
            assert_eq!(hits, many, "round {round} over more than a half holds");
        }
        for number in many..many + 3 * MOST {
            settled.learn(&attempt(number), 7);
            if number % 1_000 == 0 {
                assert!(settled.knows(&attempt(0), 7), "asked for again and again");
            }
        }
        assert!(!settled.knows(&attempt(1), 7), "there is an end to memory");
        let known = settled.0.lock();
        assert!(known.young.len() <= MOST && known.old.len() <= MOST);
    }
}
