//! Jobs: Pods until enough of them have succeeded.
//!
//! | module | what it does |
//! | --- | --- |
//! | `wakeup` | which Jobs a change concerns |
//! | `pods` | makes Pods, takes them away, lets them go |
//! | `orphans` | lets go Pods whose Job is no more |
//!
//! What to do is decided in [`setpoint_core::workload::job`].

mod orphans;
mod pods;
mod wakeup;

use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::api::{DeleteParams, PostParams, Preconditions};
use kube::{Api, Client, Resource};
use setpoint_core::workload::job::{self, Decision, Facts};
use setpoint_core::workload::selection;

use crate::events::Recorder;
use crate::ownership::unless_moved;
use crate::queue::Queue;
use crate::runtime::{Caches, Configuration, Context, Controller, Error, Name, Next, Round};

/// How soon a write is tried again that met a change of somebody else's.
const MOVED: Duration = Duration::from_millis(20);

pub struct Jobs {
    client: Client,
    caches: Caches,
    recorder: Recorder,
}

/// What is worked on.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Subject {
    Job(Name),
    /// A Pod that is kept for a Job, which may be no more.
    Orphan(Name),
}

impl std::fmt::Debug for Jobs {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Jobs").finish_non_exhaustive()
    }
}

impl Controller for Jobs {
    type Key = Subject;

    const NAME: &'static str = "job";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Subject>>) {
        wakeup::wire(caches, queue);
    }

    async fn reconcile(&self, key: &Subject, round: &mut Round) -> Result<Next, Error> {
        match key {
            Subject::Job(name) => match self.caches.jobs.get(name) {
                Some(job) => self.work_on(&job, round).await,
                None => Ok(Next::Idle),
            },
            Subject::Orphan(name) => match self.caches.pods.get(name) {
                Some(pod) => self.let_go(&pod, round).await,
                None => Ok(Next::Idle),
            },
        }
    }

    fn about(&self, key: &Subject) -> Option<ObjectReference> {
        match key {
            Subject::Job(name) => self.caches.jobs.get(name).map(|job| job.object_ref(&())),
            Subject::Orphan(name) => self.caches.pods.get(name).map(|pod| pod.object_ref(&())),
        }
    }

    fn keys(&self) -> Vec<Subject> {
        let jobs = self.caches.jobs.names().into_iter().map(Subject::Job);
        let kept = self.caches.pods.all().into_iter().filter(|pod| job::is_tracked(pod) && !self.has_job(pod));
        jobs.chain(kept.map(|pod| Subject::Orphan(Name::of(&*pod)))).collect()
    }

    fn configuration() -> Configuration {
        Configuration::of_workloads()
    }
}

impl Jobs {
    pub fn new(context: &Context, caches: &Caches) -> Jobs {
        let (client, recorder) = (context.client.clone(), context.recorder("job-controller"));
        Jobs { client, caches: caches.clone(), recorder }
    }

    /// Whether the Job is seen that counts a Pod.
    fn has_job(&self, pod: &Pod) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        selection::controller_of(&pod.metadata).is_some_and(|owner| {
            let job = self.caches.jobs.get(&Name::new(namespace, &owner.name));
            job.is_some_and(|job| uid(&job) == owner.uid)
        })
    }

    async fn work_on(&self, job: &Job, round: &mut Round) -> Result<Next, Error> {
        let Some(pods) = self.claim(job, round).await? else { return Ok(Next::After(MOVED)) };
        let pods: Vec<&Pod> = pods.iter().map(|pod| &**pod).collect();
        let is_taken = |name: &str| self.caches.pods.get(&Name::new(namespace(job), name)).is_some();
        let decision = job::decide(&Facts { job, pods: &pods, is_taken: &is_taken, now: round.now });
        if decision.is_expired {
            return self.expire(job).await;
        }
        let made = self.make(job, &decision.create, round).await;
        let taken_away = self.take_away(job, &decision.remove, round).await;
        // Nobody is let go before it is written down that they are counted.
        if !self.write_status(job, &decision, made.count, round).await? {
            return Ok(Next::After(MOVED));
        }
        for notice in &decision.notices {
            self.recorder.say(job, notice.kind, &notice.reason, &notice.message);
        }
        self.release(job, &decision.release, round).await?;
        taken_away?;
        match made.error {
            Some(error) => Err(error.into()),
            None if made.is_unfinished => Ok(Next::After(MOVED)),
            None => Ok(decision.look_again.map_or(Next::Idle, |at| {
                Next::After(Duration::try_from(at.duration_since(round.now)).unwrap_or_default())
            })),
        }
    }

    /// Writes the status, if it is another. Says whether it is as it should be now.
    async fn write_status(
        &self,
        job: &Job,
        decision: &Decision<'_>,
        made: usize,
        round: &mut Round,
    ) -> Result<bool, Error> {
        let Some(status) = decision.status(job, made) else { return Ok(true) };
        let wanted = Job { status: Some(status), ..job.clone() };
        let written = unless_moved(self.jobs(job).replace_status(name(job), &PostParams::default(), &wanted).await)?;
        written.iter().for_each(|job| round.wrote(&self.caches.jobs, job));
        Ok(written.is_some())
    }

    /// Deletes a Job whose time after its end is over, and its Pods before it.
    async fn expire(&self, job: &Job) -> Result<Next, Error> {
        let only =
            Preconditions { uid: job.metadata.uid.clone(), resource_version: job.metadata.resource_version.clone() };
        let deleted = self.jobs(job).delete(name(job), &DeleteParams::foreground().preconditions(only)).await;
        let is_deleted = unless_moved(deleted)?.is_some();
        Ok(if is_deleted { Next::Idle } else { Next::After(MOVED) })
    }

    fn jobs(&self, job: &Job) -> Api<Job> {
        Api::namespaced(self.client.clone(), namespace(job))
    }

    fn pods(&self, job: &Job) -> Api<Pod> {
        Api::namespaced(self.client.clone(), namespace(job))
    }
}

fn namespace(job: &Job) -> &str {
    job.metadata.namespace.as_deref().unwrap_or_default()
}

fn name(job: &Job) -> &str {
    job.metadata.name.as_deref().unwrap_or_default()
}

fn uid(job: &Job) -> &str {
    job.metadata.uid.as_deref().unwrap_or_default()
}
