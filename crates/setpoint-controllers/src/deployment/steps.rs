//! Takes the steps of a rollout: creates, scales and deletes ReplicaSets, and says what came of it.

use std::cmp::Ordering;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use serde_json::{Value, json};
use setpoint_core::pod::NoticeKind;
use setpoint_core::workload::deployment::status::Happened;
use setpoint_core::workload::deployment::{NewReplicaSet, Step, revision};
use setpoint_core::workload::template_hash::{NameTaken, name_taken};

use super::Deployments;
use crate::ownership::{self, unless_moved};
use crate::runtime::Round;

/// What came of the steps of one round.
#[derive(Debug, Default)]
pub(super) struct Outcome {
    /// The ReplicaSet that was created.
    created: Option<String>,
    /// The one that could not be created, and what the server said.
    refused: Option<(String, String)>,
    /// How often names have collided now, if they did once more.
    pub(super) collision_count: Option<i32>,
    pub(super) error: Option<kube::Error>,
}

impl Outcome {
    pub(super) fn happened(&self) -> Happened<'_> {
        match (&self.created, &self.refused) {
            (Some(name), _) => Happened::Created(name),
            (None, Some((name, message))) => Happened::CreateFailed { name, message },
            (None, None) => Happened::Nothing,
        }
    }
}

impl Deployments {
    /// Takes the steps in order, up to the first that fails.
    pub(super) async fn take(
        &self,
        deployment: &Deployment,
        sets: &[&ReplicaSet],
        steps: Vec<Step>,
        round: &mut Round,
    ) -> Outcome {
        let mut outcome = Outcome::default();
        for step in steps {
            let named = |name: &str| sets.iter().find(|set| set.metadata.name.as_deref() == Some(name)).copied();
            let taken = match &step {
                Step::Create(new) => self.create(deployment, new, &mut outcome, round).await,
                Step::Update { name, annotations, min_ready_seconds } => {
                    let change = json!({"annotations": annotations});
                    let spec = json!({"minReadySeconds": min_ready_seconds});
                    self.change(deployment, named(name), change, spec, round).await.map(drop)
                }
                Step::Scale { name, from, to, annotations, .. } => {
                    let (change, spec) = (json!({"annotations": annotations}), json!({"replicas": to}));
                    let scaled = self.change(deployment, named(name), change, spec, round).await;
                    if matches!(scaled, Ok(Some(_))) {
                        self.tell_of_scaling(deployment, name, *from, *to);
                    }
                    scaled.map(drop)
                }
                Step::Delete { name, .. } => self.delete(deployment, named(name), round).await,
            };
            if let Err(error) = taken {
                outcome.error = Some(error);
                break;
            }
        }
        outcome
    }

    async fn create(
        &self,
        deployment: &Deployment,
        new: &NewReplicaSet,
        outcome: &mut Outcome,
        round: &mut Round,
    ) -> kube::Result<()> {
        let (api, cache) = (self.sets(deployment), &self.caches.replica_sets);
        let error = match api.create(&PostParams::default(), &revision::replica_set(deployment, new)).await {
            Ok(created) => {
                round.wrote(cache, &created);
                self.tell_of_scaling(deployment, &new.name, 0, new.replicas);
                outcome.created = Some(new.name.clone());
                return Ok(());
            }
            Err(error) => error,
        };
        let kube::Error::Api(status) = &error else { return Err(error) };
        if status.code == 409 && status.reason == "AlreadyExists" {
            // Gone again if it is not found: then the next round makes it.
            let Some(existing) = api.get_opt(&new.name).await? else { return Err(error) };
            match name_taken(deployment, &existing) {
                NameTaken::ByItself => round.wrote(cache, &existing),
                NameTaken::ByAnother { collision_count } => outcome.collision_count = Some(collision_count),
            }
            return Ok(());
        }
        let message = format!("Failed to create new replica set {:?}: {}", new.name, status.message);
        self.recorder.say(deployment, NoticeKind::Warning, "ReplicaSetCreateError", &message);
        outcome.refused = Some((new.name.clone(), status.message.clone()));
        Err(error)
    }

    /// Changes a ReplicaSet, if it is as it was seen; else the caches tell what it has become.
    async fn change(
        &self,
        deployment: &Deployment,
        set: Option<&ReplicaSet>,
        mut metadata: Value,
        spec: Value,
        round: &mut Round,
    ) -> kube::Result<Option<ReplicaSet>> {
        let Some(set) = set else { return Ok(None) };
        metadata["uid"] = json!(set.metadata.uid);
        metadata["resourceVersion"] = json!(set.metadata.resource_version);
        let patch = Patch::Merge(json!({"metadata": metadata, "spec": spec}));
        let name = set.metadata.name.as_deref().unwrap_or_default();
        let written = unless_moved(self.sets(deployment).patch(name, &PatchParams::default(), &patch).await)?;
        written.iter().for_each(|set| round.wrote(&self.caches.replica_sets, set));
        Ok(written)
    }

    /// Deletes a ReplicaSet that has no Pods, if it is as it was seen.
    async fn delete(&self, deployment: &Deployment, set: Option<&ReplicaSet>, round: &mut Round) -> kube::Result<()> {
        let Some(set) = set else { return Ok(()) };
        let as_seen = Preconditions { uid: None, resource_version: set.metadata.resource_version.clone() };
        let how = DeleteParams::background().preconditions(as_seen);
        let deleted = ownership::delete(&self.sets(deployment), set, how).await?;
        deleted.note(set, &self.caches.replica_sets, round);
        Ok(())
    }

    fn tell_of_scaling(&self, deployment: &Deployment, name: &str, from: i64, to: i64) {
        let direction = match from.cmp(&to) {
            Ordering::Less => "up",
            Ordering::Greater => "down",
            Ordering::Equal => return,
        };
        let message = format!("Scaled {direction} replica set {name} from {from} to {to}");
        self.recorder.say(deployment, NoticeKind::Normal, "ScalingReplicaSet", &message);
    }
}
