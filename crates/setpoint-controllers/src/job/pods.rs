//! Makes the Pods of a Job, takes them away and lets them go, many at once.

use std::sync::Arc;

use futures::{StreamExt, stream};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use serde_json::{Value, json};
use setpoint_core::pod::NoticeKind;
use setpoint_core::workload::job::{self, Removal, TRACKING};
use setpoint_core::workload::replica_set::slow_start;
use setpoint_core::workload::selection::{self, Claim, Owner};

use super::{Jobs, uid};
use crate::ownership::{self, Deleted, unless_moved};
use crate::refusal;
use crate::runtime::caches::{PODS_BY_ORPHANAGE, PODS_BY_OWNER, orphans_of};
use crate::runtime::{Error, Round};

/// How many requests are under way at once.
const AT_ONCE: usize = 64;

/// What came of making Pods.
#[derive(Debug, Default)]
pub(super) struct Made {
    pub(super) count: usize,
    pub(super) error: Option<kube::Error>,
    /// Whether something is to be tried once more soon.
    pub(super) is_unfinished: bool,
}

/// What became of one creation.
enum Created {
    /// It is there, whoever made it.
    Pod(Box<Pod>),
    /// Its name is somebody else's.
    NameTaken,
    Failed(kube::Error),
}

impl Jobs {
    /// The Pods that are the Job's, after it has adopted and released what it must.
    ///
    /// `None` if one of those is not as it was seen: who goes on without one that is to be adopted would make another, and
    /// nobody would come back for one that is to be released.
    pub(super) async fn claim(&self, job: &Job, round: &mut Round) -> Result<Option<Vec<Arc<Pod>>>, Error> {
        let owner = Owner::from(job);
        let (api, cache) = (self.pods(job), &self.caches.pods);
        let mut pods = cache.by(&PODS_BY_OWNER, uid(job));
        for pod in pods.extract_if(.., |pod| owner.claim_pod(pod) == Claim::Release) {
            let without = json!({"$patch": "delete", "uid": uid(job)});
            let patch = json!({"ownerReferences": [without], "$deleteFromPrimitiveList/finalizers": [TRACKING]});
            let Some(released) = patched(&api, &pod, patch, true).await? else { return Ok(None) };
            round.wrote(cache, &released);
        }
        let selector = job.spec.as_ref().and_then(|spec| spec.selector.as_ref());
        let mut orphans = cache.by(&PODS_BY_ORPHANAGE, &orphans_of(&job.metadata, selector));
        orphans.retain(|pod| owner.claim_pod(pod) == Claim::Adopt);
        if job::is_finished(job) || orphans.is_empty() || !ownership::is_still_there(&self.jobs(job), job).await? {
            return Ok(Some(pods));
        }
        for orphan in orphans {
            let patch = json!({"ownerReferences": [owner.reference()], "finalizers": [TRACKING]});
            let Some(adopted) = patched(&api, &orphan, patch, true).await? else { return Ok(None) };
            round.wrote(cache, &adopted);
            pods.push(Arc::new(adopted));
        }
        Ok(Some(pods))
    }

    /// Makes Pods in batches, each only if all before it went well.
    pub(super) async fn make(&self, job: &Job, pods: &[Pod], round: &mut Round) -> Made {
        let (api, mut made) = (self.pods(job), Made::default());
        let mut left = pods;
        for batch in slow_start(pods.len()) {
            let (now, later) = left.split_at(batch);
            left = later;
            let creations: Vec<_> = now.iter().map(|pod| create(&api, job, pod)).collect();
            let created: Vec<Created> = stream::iter(creations).buffered(AT_ONCE).collect().await;
            for created in created {
                self.note(job, created, &mut made, round);
            }
            if made.error.is_some() {
                break;
            }
        }
        if made.error.as_ref().is_some_and(refusal::is_of_a_namespace_that_goes) {
            made.error = None;
        }
        made
    }

    fn note(&self, job: &Job, created: Created, made: &mut Made, round: &mut Round) {
        match created {
            Created::Pod(pod) => {
                round.wrote(&self.caches.pods, &*pod);
                let message = format!("Created pod: {}", pod.metadata.name.as_deref().unwrap_or_default());
                self.recorder.say(job, NoticeKind::Normal, "SuccessfulCreate", &message);
                made.count += 1;
            }
            Created::NameTaken => made.is_unfinished = true,
            Created::Failed(error) => {
                if !refusal::is_of_a_namespace_that_goes(&error) {
                    let message = format!("Error creating: {}", refusal::words(&error));
                    self.recorder.say(job, NoticeKind::Warning, "FailedCreate", &message);
                }
                made.error.get_or_insert(error);
            }
        }
    }

    /// Deletes Pods. Those that are not to blame are let go first, so that they are never counted.
    pub(super) async fn take_away(&self, job: &Job, removals: &[Removal<'_>], round: &mut Round) -> Result<(), Error> {
        let api = self.pods(job);
        let blameless = removals.iter().filter(|removal| removal.is_blameless && job::is_tracked(removal.pod));
        let blameless: Vec<&Pod> = blameless.map(|removal| removal.pod).collect();
        self.release(job, &blameless, round).await?;
        let deletions: Vec<_> = removals.iter().map(|removal| delete(&api, removal.pod)).collect();
        let deleted: Vec<kube::Result<Option<Pod>>> = stream::iter(deletions).buffered(AT_ONCE).collect().await;
        let mut failure = None;
        for (removal, deleted) in removals.iter().zip(deleted) {
            match deleted {
                Ok(Some(pod)) => round.wrote(&self.caches.pods, &pod),
                Ok(None) => round.removed(&self.caches.pods, removal.pod),
                Err(error) => {
                    failure = failure.or(Some(error));
                    continue;
                }
            }
            let message = format!("Deleted pod: {}", removal.pod.metadata.name.as_deref().unwrap_or_default());
            self.recorder.say(job, NoticeKind::Normal, "SuccessfulDelete", &message);
        }
        failure.map_or(Ok(()), |error| Err(error.into()))
    }

    /// Takes the finalizer from Pods.
    pub(super) async fn release(&self, job: &Job, pods: &[&Pod], round: &mut Round) -> Result<(), Error> {
        let api = self.pods(job);
        let patches: Vec<_> = pods.iter().map(|pod| patched(&api, pod, untracking(), false)).collect();
        let released: Vec<kube::Result<Option<Pod>>> = stream::iter(patches).buffered(AT_ONCE).collect().await;
        for (pod, released) in pods.iter().zip(released) {
            self.note_release(pod, released?, round);
        }
        Ok(())
    }

    pub(super) async fn untrack(&self, api: &Api<Pod>, pod: &Pod, round: &mut Round) -> Result<(), Error> {
        let released = patched(api, pod, untracking(), false).await?;
        self.note_release(pod, released, round);
        Ok(())
    }

    /// A Pod that was only kept for this goes with its last finalizer.
    fn note_release(&self, pod: &Pod, released: Option<Pod>, round: &mut Round) {
        let Some(released) = released else { return };
        let is_ended = released.metadata.deletion_grace_period_seconds == Some(0);
        let is_kept = released.metadata.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
        if is_ended && !is_kept && released.metadata.deletion_timestamp.is_some() {
            round.removed(&self.caches.pods, pod);
        } else {
            round.wrote(&self.caches.pods, &released);
        }
    }
}

fn untracking() -> Value {
    json!({"$deleteFromPrimitiveList/finalizers": [TRACKING]})
}

/// Patches the metadata of this very Pod; if that is asked for, only as it was seen.
async fn patched(api: &Api<Pod>, pod: &Pod, mut metadata: Value, as_seen: bool) -> kube::Result<Option<Pod>> {
    metadata["uid"] = json!(pod.metadata.uid);
    if as_seen {
        metadata["resourceVersion"] = json!(pod.metadata.resource_version);
    }
    let name = pod.metadata.name.as_deref().unwrap_or_default();
    let patch = Patch::Strategic(json!({"metadata": metadata}));
    unless_moved(api.patch(name, &PatchParams::default(), &patch).await)
}

/// Makes a Pod; or finds that it was made before, and that only the answer was lost.
async fn create(api: &Api<Pod>, job: &Job, pod: &Pod) -> Created {
    let error = match api.create(&PostParams::default(), pod).await {
        Ok(pod) => return Created::Pod(Box::new(pod)),
        Err(error) => error,
    };
    if !matches!(&error, kube::Error::Api(status) if status.code == 409 && status.reason == "AlreadyExists") {
        return Created::Failed(error);
    }
    let is_ours = |pod: &Pod| selection::controller_of(&pod.metadata).is_some_and(|owner| owner.uid == uid(job));
    match api.get_opt(pod.metadata.name.as_deref().unwrap_or_default()).await {
        Ok(Some(found)) if is_ours(&found) => Created::Pod(Box::new(found)),
        Ok(_) => Created::NameTaken,
        Err(error) => Created::Failed(error),
    }
}

/// The Pod on its way out; `None` if it is gone.
async fn delete(api: &Api<Pod>, pod: &Pod) -> kube::Result<Option<Pod>> {
    match ownership::delete(api, pod, DeleteParams::default()).await? {
        Deleted::Marked(pod) => Ok(Some(pod)),
        Deleted::Removed | Deleted::Moved => Ok(None),
    }
}
