//! One round of work on one object: when it is, and what it wrote.

use std::fmt;
use std::sync::Arc;

use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::Resource;

use super::cache::{Cache, Expected, Follows};

/// What the work on an object is given, and where it notes its writes. The next round begins when the caches show them, so
/// that nobody decides without knowing what they did themselves.
#[derive(Debug)]
pub struct Round {
    pub now: Timestamp,
    pub(super) writes: Vec<Unseen>,
}

/// A write of ours, and the cache that has yet to show it.
#[derive(Clone)]
pub struct Unseen {
    cache: Arc<dyn Follows>,
    expected: Expected,
}

impl fmt::Debug for Unseen {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.expected.fmt(f)
    }
}

impl Unseen {
    pub fn is_seen(&self) -> bool {
        self.cache.has_seen(&self.expected)
    }

    /// Whether it may have come and gone without anybody having been told.
    pub fn is_passed_over(&self) -> bool {
        self.cache.has_passed_over(&self.expected)
    }

    pub fn seen(&self) -> BoxFuture<'_, ()> {
        self.cache.seen(&self.expected)
    }
}

impl Round {
    pub fn new(now: Timestamp) -> Round {
        Round { now, writes: Vec::new() }
    }

    /// The time that statuses tell: Kubernetes' times have no fractions of a second.
    pub fn second(&self) -> Timestamp {
        Timestamp::from_second(self.now.as_second()).unwrap_or(self.now)
    }

    /// Notes an object as the server gave it back after a write.
    pub fn wrote<K: Resource<DynamicType = ()> + Send + Sync + 'static>(&mut self, cache: &Arc<Cache<K>>, object: &K) {
        let expected = cache.expect(object);
        self.writes.push(Unseen { cache: cache.clone(), expected });
    }

    /// Notes an object that was deleted and is gone.
    pub fn removed<K: Resource<DynamicType = ()> + Send + Sync + 'static>(
        &mut self,
        cache: &Arc<Cache<K>>,
        object: &K,
    ) {
        let expected = cache.expect_gone(object);
        self.writes.push(Unseen { cache: cache.clone(), expected });
    }
}
