//! A Deployment's ReplicaSets: which one is new, which are old, and the few numbers of each that decisions need.

use std::collections::BTreeMap;

use k8s_openapi::api::apps::v1::{DeploymentSpec, ReplicaSet};

use super::revision::{DESIRED_REPLICAS, MAX_REPLICAS, REVISION};
use super::{Desired, Reason, Step, WaitsOn};
use crate::workload::template_hash::Identity;

/// One ReplicaSet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Member<'a> {
    pub(super) set: &'a ReplicaSet,
    /// How many pods it should have.
    pub(super) replicas: i64,
    /// How many it says it has.
    pub(super) pods: i64,
    /// How many of those that it should have are available, as far as it says.
    pub(super) available: i64,
}

/// All ReplicaSets of a Deployment.
#[derive(Debug, Clone)]
pub(super) struct Family<'a> {
    /// The one whose template is the Deployment's.
    pub(super) new: Option<Member<'a>>,
    /// The others, oldest first.
    pub(super) old: Vec<Member<'a>>,
}

impl<'a> Family<'a> {
    /// Should several have the Deployment's template, the oldest is the new one, so that the answer does not change
    /// when another is added.
    pub(super) fn of(spec: &DeploymentSpec, replica_sets: &[&'a ReplicaSet]) -> Family<'a> {
        let wanted = Identity::of(&spec.template);
        let mut old: Vec<Member<'a>> = replica_sets.iter().map(|set| Member::of(set)).collect();
        old.sort_by(|left, right| left.age().cmp(&right.age()));
        let is_new = |member: &Member<'_>| {
            let template = member.set.spec.as_ref().and_then(|spec| spec.template.as_ref());
            template.is_some_and(|template| Identity::of(template) == wanted)
        };
        let new = old.iter().position(is_new).map(|index| old.remove(index));
        Family { new, old }
    }

    /// The old ones, oldest first, then the new one.
    pub(super) fn all(&self) -> impl Iterator<Item = &Member<'a>> {
        self.old.iter().chain(&self.new)
    }

    /// Those that should have pods.
    pub(super) fn active(&self) -> impl Iterator<Item = &Member<'a>> {
        self.all().filter(|member| member.replicas > 0)
    }

    /// Whether all pods are of the new revision, available, and as many as desired.
    pub(super) fn is_complete(&self, desired: i64) -> bool {
        let is_whole = |new: &Member<'_>| (new.replicas, new.pods, new.available) == (desired, desired, desired);
        self.new.as_ref().is_some_and(is_whole) && self.old.iter().all(|old| old.pods == 0 && old.replicas == 0)
    }

    /// The first ReplicaSet whose numbers do not speak of its present spec.
    pub(super) fn unobserved(&self) -> Option<WaitsOn> {
        self.all().find(|member| !member.is_observed()).map(|member| WaitsOn::ReplicaSet(member.name().to_owned()))
    }

    /// The first ReplicaSet with pods that it should not have any more.
    pub(super) fn excess(&self) -> Option<WaitsOn> {
        self.all().find(|member| member.pods > member.replicas).map(|member| WaitsOn::Deletion {
            name: member.name().to_owned(),
            pods: member.pods,
            desired: member.replicas,
        })
    }
}

impl<'a> Member<'a> {
    fn of(set: &'a ReplicaSet) -> Member<'a> {
        let replicas = set.spec.as_ref().map_or(0, |spec| spec.replicas.unwrap_or(1));
        let status = set.status.as_ref();
        let available = status.and_then(|status| status.available_replicas).unwrap_or_default();
        Member {
            set,
            replicas: i64::from(replicas).max(0),
            pods: i64::from(status.map_or(0, |status| status.replicas)).max(0),
            available: i64::from(available).clamp(0, i64::from(replicas).max(0)),
        }
    }

    pub(super) fn name(&self) -> &'a str {
        self.set.metadata.name.as_deref().unwrap_or_default()
    }

    /// How old it is, as something to sort by: the oldest first, those of one second by name.
    pub(super) fn age(&self) -> impl Ord + use<'a> {
        (self.set.metadata.creation_timestamp.as_ref(), self.name())
    }

    /// The room it takes up: pods that it should have, and those it still has.
    pub(super) fn room(&self) -> i64 {
        self.replicas.max(self.pods)
    }

    pub(super) fn annotations(&self) -> Option<&'a BTreeMap<String, String>> {
        self.set.metadata.annotations.as_ref()
    }

    /// The number of its revision; none where there is none that can be read.
    pub(super) fn revision(&self) -> Option<i64> {
        self.noted(REVISION)
    }

    /// The size of the Deployment that its own size was set for.
    pub(super) fn noted_desired(&self) -> Option<i64> {
        self.noted(DESIRED_REPLICAS)
    }

    /// The most pods that the Deployment could have then.
    pub(super) fn noted_max(&self) -> Option<i64> {
        self.noted(MAX_REPLICAS)
    }

    fn noted(&self, annotation: &str) -> Option<i64> {
        let value = self.annotations()?.get(annotation)?.parse().ok()?;
        (value >= 0).then_some(value)
    }

    /// Whether its status speaks of its present spec.
    pub(super) fn is_observed(&self) -> bool {
        let observed = self.set.status.as_ref().and_then(|status| status.observed_generation).unwrap_or_default();
        observed >= self.set.metadata.generation.unwrap_or_default()
    }

    pub(super) fn is_deleted(&self) -> bool {
        self.set.metadata.deletion_timestamp.is_some()
    }

    /// The step that gives it this size; none if it has the size already, and notes the Deployment's.
    pub(super) fn scale(&self, to: i64, desired: &Desired<'_>, reason: Reason) -> Option<Step> {
        let notes = size_notes(desired);
        let has_notes = notes.iter().all(|(key, value)| self.annotations().and_then(|all| all.get(key)) == Some(value));
        let step = || Step::Scale { name: self.name().to_owned(), from: self.replicas, to, annotations: notes, reason };
        (to != self.replicas || !has_notes).then(step)
    }
}

/// The annotations by which a ReplicaSet remembers the Deployment's size.
pub(super) fn size_notes(desired: &Desired<'_>) -> BTreeMap<String, String> {
    BTreeMap::from([
        (DESIRED_REPLICAS.to_owned(), desired.replicas.to_string()),
        (MAX_REPLICAS.to_owned(), desired.max_total().to_string()),
    ])
}
