//! What is remembered of a ReplicaSet's writes that were not answered, so that they are tried again and not anew.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::ReplicaSet;
use setpoint_core::workload::pod_name::Numbers;

use super::{ReplicaSets, uid};
use crate::runtime::Name;

/// A controller that starts anew has read everything there is and needs none of it.
#[derive(Debug)]
pub(super) struct Memory {
    /// The names that were given to Pods.
    pub(super) numbers: Numbers,
    /// The uids of Pods whose deletion was tried.
    pub(super) tried: BTreeSet<String>,
}

impl ReplicaSets {
    /// What is remembered of this very ReplicaSet, and not of one that had its name before.
    pub(super) fn remembered<T>(&self, set: &ReplicaSet, read: impl FnOnce(&mut Memory) -> T) -> T {
        let (key, mut memories) = (Name::of(set), self.memories.lock());
        let fresh = || Memory { numbers: Numbers::of(&key.name, uid(set)), tried: BTreeSet::new() };
        let memory = memories.entry(key.clone()).or_insert_with(fresh);
        if !memory.numbers.are_of(uid(set)) {
            *memory = fresh();
        }
        read(memory)
    }
}
