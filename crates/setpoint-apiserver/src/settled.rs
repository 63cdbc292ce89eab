//! Applies that changed nothing, remembered, so that the same again is known to change nothing without looking.
//!
//! Controllers apply the same configuration over and over. What an apply does follows from the object, the configuration,
//! its manager and the schema; while all four are the same, so is the answer: nothing.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::Mutex;
use setpoint_store::Revision;

use crate::registry::Resource;

/// How much is remembered, in bytes of configurations. What does not fit any more is forgotten with all the rest.
const MAX_BYTES: usize = 4 * 1024 * 1024;

/// An apply, but for when it came.
#[derive(Debug, Clone)]
pub struct Attempt {
    pub resource: Arc<Resource>,
    pub key: Arc<str>,
    pub manager: String,
    /// "" for the object itself.
    pub subresource: &'static str,
    pub config: Bytes,
}

/// Which applies changed nothing, at which revision of their object.
#[derive(Debug, Default)]
pub struct Settled(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    /// By the object; the last of it alone, which is enough for one applier.
    applies: HashMap<Arc<str>, (Attempt, Revision)>,
    bytes: usize,
}

impl Settled {
    /// Whether this very apply is known to change nothing at this revision.
    pub fn knows(&self, attempt: &Attempt, revision: Revision) -> bool {
        let memory = self.0.lock();
        memory.applies.get(&attempt.key).is_some_and(|(last, at)| *at == revision && last.is(attempt))
    }

    /// Takes note that an apply changed nothing at this revision.
    pub fn learn(&self, attempt: Attempt, revision: Revision) {
        let mut memory = self.0.lock();
        if memory.bytes + attempt.size() > MAX_BYTES {
            *memory = Memory::default();
        }
        if attempt.size() > MAX_BYTES {
            return;
        }
        memory.bytes += attempt.size();
        if let Some((replaced, _)) = memory.applies.insert(attempt.key.clone(), (attempt, revision)) {
            memory.bytes -= replaced.size();
        }
    }
}

impl Attempt {
    fn is(&self, other: &Attempt) -> bool {
        Arc::ptr_eq(&self.resource, &other.resource)
            && self.manager == other.manager
            && self.subresource == other.subresource
            && self.config == other.config
    }

    /// About what it takes to remember it.
    fn size(&self) -> usize {
        256 + self.key.len() + self.manager.len() + self.config.len()
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
        let attempt = Attempt {
            resource,
            key: "/core/configmaps/default/a".into(),
            manager: "one".to_owned(),
            subresource: "",
            config: Bytes::from_static(b"{}"),
        };
        let settled = Settled::default();
        settled.learn(attempt.clone(), 7);
        assert!(settled.knows(&attempt, 7));
        assert!(!settled.knows(&attempt, 8), "the object has changed");
        let rows = [
            ("another object", Attempt { key: "/core/configmaps/default/b".into(), ..attempt.clone() }),
            ("another manager", Attempt { manager: "two".to_owned(), ..attempt.clone() }),
            ("another part", Attempt { subresource: "status", ..attempt.clone() }),
            ("another configuration", Attempt { config: Bytes::from_static(b"{ }"), ..attempt.clone() }),
            ("another schema", Attempt { resource: registry.built_in("", "v1", "secrets"), ..attempt.clone() }),
        ];
        for (row, other) in rows {
            assert!(!settled.knows(&other, 7), "{row}");
        }
        let large = Attempt { config: vec![b' '; MAX_BYTES].into(), ..attempt.clone() };
        settled.learn(large.clone(), 7);
        assert!(!settled.knows(&large, 7) && !settled.knows(&attempt, 7), "there is an end to memory");
    }
}
