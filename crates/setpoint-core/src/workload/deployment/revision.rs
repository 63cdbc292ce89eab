//! Revisions of a Deployment: their numbers, what a new ReplicaSet looks like, how many old ones are kept, and undo.

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet, ReplicaSetSpec};
use k8s_openapi::api::core::v1::PodTemplateSpec;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::family::{Family, Member, size_notes};
use super::{Desired, NewReplicaSet, Step};
use crate::workload::selection::Owner;
use crate::workload::template_hash::{self, Identity};

/// The number of a revision, on its ReplicaSet and, for the newest, on the Deployment.
pub const REVISION: &str = "deployment.kubernetes.io/revision";
/// The numbers that a ReplicaSet had before it was returned to.
pub const REVISION_HISTORY: &str = "deployment.kubernetes.io/revision-history";
/// The size of the Deployment when the ReplicaSet was last scaled.
pub const DESIRED_REPLICAS: &str = "deployment.kubernetes.io/desired-replicas";
/// The most pods that the Deployment could have then.
pub const MAX_REPLICAS: &str = "deployment.kubernetes.io/max-replicas";
/// Why a revision was made, in its author's words.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// Annotations that belong to one object and are not copied to another.
const NOT_COPIED: [&str; 6] = [
    REVISION,
    REVISION_HISTORY,
    DESIRED_REPLICAS,
    MAX_REPLICAS,
    "kubectl.kubernetes.io/last-applied-configuration",
    "deprecated.deployment.rollback.to",
];

/// How long the list of former numbers may become.
const HISTORY_MAX_BYTES: usize = 2000;

/// One line of the history.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Revision {
    pub number: i64,
    pub replica_set: String,
    pub change_cause: Option<String>,
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}  {}", self.number, self.change_cause.as_deref().unwrap_or("<none>"))
    }
}

/// What a Deployment must become to return to a revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Undo {
    pub revision: i64,
    pub template: PodTemplateSpec,
    /// All annotations of the Deployment afterwards.
    pub annotations: BTreeMap<String, String>,
}

/// Why there is no way back.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UndoError {
    #[error("unable to find revision {0} in history")]
    NotFound(i64),
    #[error("there is no revision before this one")]
    NoPrevious,
    #[error("the current template already is that of revision {0}")]
    Unchanged(i64),
    #[error("the rollout is paused: resume it first")]
    Paused,
}

/// The revisions that can be returned to, oldest first. Of what cannot be read there is no line.
pub fn history(replica_sets: &[&ReplicaSet]) -> Vec<Revision> {
    let mut revisions: Vec<Revision> = replica_sets.iter().filter_map(|set| line(set)).collect();
    revisions.sort_by(|left, right| (left.number, &left.replica_set).cmp(&(right.number, &right.replica_set)));
    revisions
}

/// The way back to a revision; 0 is the one before the present.
pub fn undo(deployment: &Deployment, replica_sets: &[&ReplicaSet], to_revision: i64) -> Result<Undo, UndoError> {
    let spec = deployment.spec.as_ref().ok_or(UndoError::NotFound(to_revision))?;
    if spec.paused == Some(true) {
        return Err(UndoError::Paused);
    }
    let revisions = history(replica_sets);
    let revision = match to_revision {
        0 => revisions.iter().rev().nth(1).ok_or(UndoError::NoPrevious)?,
        number => revisions.iter().find(|it| it.number == number).ok_or(UndoError::NotFound(number))?,
    };
    let named = |set: &&&ReplicaSet| set.metadata.name.as_deref().unwrap_or_default() == revision.replica_set;
    let set = replica_sets.iter().find(named).ok_or(UndoError::NotFound(revision.number))?;
    let found = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
    let mut template = found.cloned().ok_or(UndoError::NotFound(revision.number))?;
    if Identity::of(&template) == Identity::of(&spec.template) {
        return Err(UndoError::Unchanged(revision.number));
    }
    if let Some(labels) = template.metadata.as_mut().and_then(|metadata| metadata.labels.as_mut()) {
        labels.remove(template_hash::LABEL);
    }
    let own = deployment.metadata.annotations.iter().flatten().filter(|(key, _)| !is_copied(key));
    let former = set.metadata.annotations.iter().flatten().filter(|(key, _)| is_copied(key));
    let annotations = own.chain(former).map(|(key, value)| (key.clone(), value.clone())).collect();
    Ok(Undo { revision: revision.number, template, annotations })
}

/// The whole ReplicaSet that a step creates.
pub fn replica_set(deployment: &Deployment, new: &NewReplicaSet) -> ReplicaSet {
    let spec = deployment.spec.clone().unwrap_or_default();
    let hash_label = || (template_hash::LABEL.to_owned(), new.hash.clone());
    let mut template = spec.template;
    let metadata = template.metadata.get_or_insert_default();
    metadata.labels.get_or_insert_default().extend([hash_label()]);
    let labels = metadata.labels.clone();
    let mut selector = spec.selector;
    selector.match_labels.get_or_insert_default().extend([hash_label()]);
    ReplicaSet {
        metadata: ObjectMeta {
            name: Some(new.name.clone()),
            namespace: deployment.metadata.namespace.clone(),
            labels,
            annotations: Some(new.annotations.clone()),
            owner_references: Some(vec![Owner::from(deployment).reference()]),
            ..ObjectMeta::default()
        },
        spec: Some(ReplicaSetSpec {
            replicas: Some(i32::try_from(new.replicas).unwrap_or(i32::MAX)),
            min_ready_seconds: spec.min_ready_seconds,
            selector,
            template: Some(template),
        }),
        status: None,
    }
}

/// The step that creates the new revision.
pub(super) fn create(desired: &Desired<'_>, family: &Family<'_>, replicas: i64) -> Step {
    let hash = Identity::of(&desired.spec.template).hash(template_hash::collision_count(desired.deployment));
    let name = desired.deployment.metadata.name.as_deref().unwrap_or_default();
    let mut annotations = copied(desired.deployment);
    annotations.insert(REVISION.to_owned(), next_number(family).to_string());
    annotations.extend(size_notes(desired));
    Step::Create(NewReplicaSet { name: template_hash::replica_set_name(name, &hash), hash, replicas, annotations })
}

/// The step that brings the new ReplicaSet's annotations and `minReadySeconds` up to date, where they are not. A
/// ReplicaSet that is returned to gets the next number and remembers those it had.
pub(super) fn update(desired: &Desired<'_>, family: &Family<'_>, new: &Member<'_>) -> Option<Step> {
    let present = new.annotations();
    let mut annotations = copied(desired.deployment);
    let number = next_number(family);
    if new.revision().is_none_or(|revision| revision < number) {
        annotations.insert(REVISION.to_owned(), number.to_string());
        if let Some(former) = new.revision() {
            let history = present.and_then(|all| all.get(REVISION_HISTORY)).map(String::as_str).unwrap_or_default();
            annotations.insert(REVISION_HISTORY.to_owned(), with_former(history, former));
        }
    }
    annotations.retain(|key, value| present.and_then(|all| all.get(key)) != Some(value));
    let min_ready_seconds = desired.spec.min_ready_seconds.unwrap_or_default();
    let present_min_ready = new.set.spec.as_ref().and_then(|spec| spec.min_ready_seconds).unwrap_or_default();
    let is_needed = !annotations.is_empty() || min_ready_seconds != present_min_ready;
    is_needed.then(|| Step::Update { name: new.name().to_owned(), annotations, min_ready_seconds })
}

/// The number that the Deployment must note, if it does not yet.
pub(super) fn to_note(desired: &Desired<'_>, family: &Family<'_>) -> Option<i64> {
    let number = family.new.as_ref()?.revision().unwrap_or_default().max(next_number(family));
    let noted = desired.deployment.metadata.annotations.as_ref().and_then(|all| all.get(REVISION));
    (noted.map(String::as_str) != Some(number.to_string().as_str())).then_some(number)
}

/// The old ReplicaSets beyond `revisionHistoryLimit`, oldest revision first; never one that has pods or may have.
pub(super) fn beyond_history(desired: &Desired<'_>, family: &Family<'_>) -> Vec<Step> {
    let Some(limit) = desired.spec.revision_history_limit.filter(|limit| *limit != i32::MAX) else {
        return Vec::new();
    };
    let mut kept: Vec<&Member<'_>> = family.old.iter().filter(|old| !old.is_deleted()).collect();
    kept.sort_by_key(|old| (old.revision().unwrap_or_default(), old.age()));
    let excess = kept.len().saturating_sub(usize::try_from(limit).unwrap_or_default());
    let is_empty = |old: &&&Member<'_>| old.replicas == 0 && old.pods == 0 && old.is_observed();
    let step = |old: &&Member<'_>| Step::Delete { name: old.name().to_owned(), revision: old.revision() };
    kept.iter().take(excess).filter(is_empty).map(step).collect()
}

fn next_number(family: &Family<'_>) -> i64 {
    family.old.iter().filter_map(Member::revision).max().unwrap_or_default().saturating_add(1)
}

/// `history` with one number more; the earliest make room.
fn with_former(history: &str, former: i64) -> String {
    let mut list = if history.is_empty() { former.to_string() } else { format!("{history},{former}") };
    while list.len() > HISTORY_MAX_BYTES {
        match list.split_once(',') {
            Some((_, later)) => list = later.to_owned(),
            None => break,
        }
    }
    list
}

fn copied(deployment: &Deployment) -> BTreeMap<String, String> {
    let all = deployment.metadata.annotations.iter().flatten();
    all.filter(|(key, _)| is_copied(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn is_copied(key: &str) -> bool {
    !NOT_COPIED.contains(&key)
}

fn line(set: &ReplicaSet) -> Option<Revision> {
    let annotations = set.metadata.annotations.as_ref()?;
    Some(Revision {
        number: annotations.get(REVISION)?.parse().ok()?,
        replica_set: set.metadata.name.clone().unwrap_or_default(),
        change_cause: annotations.get(CHANGE_CAUSE).cloned(),
    })
}
