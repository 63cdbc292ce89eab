//! Pods that are kept to be counted although nobody counts them any more: their Job is gone, or has let go of them.

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use kube::Api;
use setpoint_core::workload::job;
use setpoint_core::workload::selection::{self, Claim, Owner};

use super::Jobs;
use crate::runtime::caches::{JOBS_BY_SELECTOR, selected_by};
use crate::runtime::{Error, Next, Round};

impl Jobs {
    /// Takes the finalizer from a Pod, unless there is a Job after all that counts it.
    pub(super) async fn let_go(&self, pod: &Pod, round: &mut Round) -> Result<Next, Error> {
        if !job::is_tracked(pod) || self.is_counted_by_somebody(pod).await? {
            return Ok(Next::Idle);
        }
        let api: Api<Pod> = Api::namespaced(self.client.clone(), pod.metadata.namespace.as_deref().unwrap_or_default());
        self.untrack(&api, pod, round).await?;
        Ok(Next::Idle)
    }

    /// The server is asked: that a cache does not show a Job yet is no reason to lose what its Pods came to.
    async fn is_counted_by_somebody(&self, pod: &Pod) -> Result<bool, Error> {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let Some(owner) = selection::controller_of(&pod.metadata) else {
            let mut found = selected_by(&pod.metadata).flat_map(|value| self.caches.jobs.by(&JOBS_BY_SELECTOR, &value));
            return Ok(found.any(|job| Owner::from(&*job).claim_pod(pod) == Claim::Adopt));
        };
        if owner.kind != "Job" {
            return Ok(true);
        }
        let api: Api<Job> = Api::namespaced(self.client.clone(), namespace);
        let found = api.get_opt(&owner.name).await?;
        Ok(found.is_some_and(|job| job.metadata.uid.as_deref() == Some(&owner.uid)))
    }
}
