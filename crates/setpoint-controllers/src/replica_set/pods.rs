//! Creates and deletes the Pods of a ReplicaSet, many at once, and says what came of it.

use futures::{StreamExt, stream};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::core::response::StatusDetails;
use kube::{Api, Resource};
use setpoint_core::pod::NoticeKind;
use setpoint_core::workload::pod_name::Chosen;
use setpoint_core::workload::pod_state::is_ready;
use setpoint_core::workload::replica_set::{self, Unseen};
use setpoint_core::workload::selection;

use super::{ReplicaSets, uid};
use crate::ownership::{self, Deleted};
use crate::runtime::{Name, Round};

/// How many requests are under way at once.
const AT_ONCE: usize = 64;

/// What came of creating or deleting Pods.
#[derive(Debug, Default)]
pub(super) struct Attempt {
    /// What was written.
    pub(super) unseen: Unseen,
    /// What the server said to what it refused first.
    pub(super) failure: Option<String>,
    pub(super) error: Option<kube::Error>,
    /// Whether something is to be tried once more at once.
    pub(super) is_unfinished: bool,
}

/// What became of one creation.
enum Created {
    /// It is there, whoever made it.
    Pod(Box<Pod>),
    /// Its name is somebody else's.
    NameTaken,
    /// Nothing can be created in a namespace that goes.
    NamespaceGoes,
    Failed(kube::Error),
}

impl ReplicaSets {
    /// Creates Pods in batches, each only if all before it went well.
    pub(super) async fn create(&self, set: &ReplicaSet, count: usize, round: &mut Round) -> Attempt {
        let (api, mut attempt) = (self.pods(set), Attempt::default());
        let names = self.names(set, count);
        let mut left = names.as_slice();
        for batch in replica_set::slow_start(names.len()) {
            let (now, later) = left.split_at(batch);
            left = later;
            let creations: Vec<_> = now.iter().map(|chosen| create(&api, set, chosen)).collect();
            let created: Vec<Created> = stream::iter(creations).buffered(AT_ONCE).collect().await;
            let goes_on = now.iter().zip(created).fold(true, |goes_on, (chosen, created)| {
                self.note_creation(set, chosen, created, &mut attempt, round) && goes_on
            });
            if !goes_on {
                break;
            }
        }
        attempt
    }

    /// Names for Pods to come, none of which is seen to be taken.
    fn names(&self, set: &ReplicaSet, count: usize) -> Vec<Chosen> {
        let key = Name::of(set);
        let is_taken = |name: &str| self.caches.pods.get(&Name { name: name.into(), ..key.clone() }).is_some();
        self.remembered(set, |memory| memory.numbers.choose(count, is_taken))
    }

    /// Says whether to go on.
    fn note_creation(
        &self,
        set: &ReplicaSet,
        chosen: &Chosen,
        created: Created,
        attempt: &mut Attempt,
        round: &mut Round,
    ) -> bool {
        match created {
            Created::Pod(pod) => {
                self.remembered(set, |memory| memory.numbers.settle(chosen.number));
                round.wrote(&self.caches.pods, &*pod);
                self.recorder.say(
                    set,
                    NoticeKind::Normal,
                    "SuccessfulCreate",
                    &format!("Created pod: {}", chosen.name),
                );
                attempt.unseen.created.extend(pod.metadata.uid);
                true
            }
            Created::NameTaken => {
                self.remembered(set, |memory| memory.numbers.settle(chosen.number));
                attempt.is_unfinished = true;
                true
            }
            Created::NamespaceGoes => false,
            Created::Failed(error) => {
                let said = what_was_said(&error);
                self.recorder.say(set, NoticeKind::Warning, "FailedCreate", &format!("Error creating: {said}"));
                attempt.fail(error, said);
                false
            }
        }
    }

    /// Deletes these very Pods, and no others of their names; and one that was not ready only as it was seen, since it may
    /// have become ready meanwhile and be counted on.
    pub(super) async fn delete(&self, set: &ReplicaSet, pods: &[&Pod], round: &mut Round) -> Attempt {
        let (api, mut attempt) = (self.pods(set), Attempt::default());
        let uids = || pods.iter().filter_map(|pod| pod.metadata.uid.clone());
        self.remembered(set, |memory| memory.tried = uids().collect());
        let deletions: Vec<_> = pods.iter().map(|pod| ownership::delete(&api, *pod, as_seen(pod))).collect();
        let deleted: Vec<kube::Result<Deleted<Pod>>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
        let mut spared = Vec::new();
        for (pod, deleted) in pods.iter().zip(deleted) {
            let name = pod.metadata.name.as_deref().unwrap_or_default();
            match deleted {
                Err(error) => {
                    let said = what_was_said(&error);
                    self.recorder.say(set, NoticeKind::Warning, "FailedDelete", &format!("Error deleting: {said}"));
                    attempt.fail(error, said);
                    continue;
                }
                // It is as before, and whoever is told of what it is now chooses anew.
                Ok(Deleted::Moved) => {
                    spared.extend(pod.metadata.uid.clone());
                    continue;
                }
                Ok(deleted) => deleted.note(pod, &self.caches.pods, round),
            }
            self.recorder.say(set, NoticeKind::Normal, "SuccessfulDelete", &format!("Deleted pod: {name}"));
            attempt.unseen.deleted.extend(pod.metadata.uid.clone());
        }
        let is_answered = |uid: &String| attempt.unseen.deleted.contains(uid) || spared.contains(uid);
        self.remembered(set, |memory| memory.tried.retain(|uid| !is_answered(uid)));
        attempt
    }
}

impl Attempt {
    fn fail(&mut self, error: kube::Error, said: String) {
        if self.error.is_none() {
            (self.error, self.failure) = (Some(error), Some(said));
        }
    }
}

async fn create(api: &Api<Pod>, set: &ReplicaSet, chosen: &Chosen) -> Created {
    let error = match api.create(&PostParams::default(), &replica_set::pod(set, &chosen.name)).await {
        Ok(pod) => return Created::Pod(Box::new(pod)),
        Err(error) => error,
    };
    match &error {
        kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists" => {}
        kube::Error::Api(status) if goes(status.details.as_ref()) => return Created::NamespaceGoes,
        _ => return Created::Failed(error),
    }
    // A creation of ours whose answer was lost, or of another leader, or somebody else's Pod.
    match api.get_opt(&chosen.name).await {
        Ok(Some(pod)) if is_of(&pod, set) => Created::Pod(Box::new(pod)),
        Ok(_) => Created::NameTaken,
        Err(error) => Created::Failed(error),
    }
}

/// How a Pod is deleted that was chosen as it was seen.
fn as_seen(pod: &Pod) -> DeleteParams {
    let resource_version = pod.metadata.resource_version.clone().filter(|_| !is_ready(pod));
    DeleteParams { preconditions: Some(Preconditions { resource_version, uid: None }), ..DeleteParams::default() }
}

fn is_of(pod: &Pod, set: &ReplicaSet) -> bool {
    selection::controller_of(pod.meta()).is_some_and(|owner| owner.uid == uid(set))
}

fn goes(details: Option<&StatusDetails>) -> bool {
    details.is_some_and(|details| details.causes.iter().any(|cause| cause.reason == "NamespaceTerminating"))
}

/// What people are told: the server's own words.
fn what_was_said(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_a_pod_that_is_counted_on_goes_whatever_became_of_it() {
        let rows = [("True", None), ("False", Some("7")), ("Unknown", Some("7"))];
        for (ready, expected) in rows {
            let pod: Pod = serde_json::from_value(json!({
                "metadata": {"name": "web-1", "resourceVersion": "7"},
                "status": {"conditions": [{"type": "Ready", "status": ready}]},
            }))
            .expect("a Pod");
            let only = as_seen(&pod).preconditions.expect("preconditions");
            assert_eq!(only.resource_version.as_deref(), expected, "ready: {ready}");
        }
    }
}
