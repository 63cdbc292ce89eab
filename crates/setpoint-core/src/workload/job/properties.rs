//! What holds for a Job whatever becomes of its Pods, and whoever dies at whichever write.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use proptest::prelude::*;
use serde_json::json;

use super::tests::job;
use super::{Facts, TRACKING, decide, is_finished, is_tracked};
use crate::workload::fixtures::noon;
use crate::workload::pod_state;

/// What becomes of a write.
#[derive(Debug, Clone, Copy)]
enum Fate {
    Done,
    /// It is done, but whoever asked for it never learns that and starts anew.
    AnswerLost,
    /// It is not done, and whoever asked starts anew.
    Lost,
}

#[derive(Debug, Clone, Copy)]
enum Happening {
    Round,
    Succeeds(usize),
    Fails(usize),
    DeletedBySomebody(usize),
    Goes(usize),
    Parallelism(i32),
    Suspends,
    Resumes,
    TimePasses(i64),
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        8 => Just(Happening::Round),
        3 => any::<usize>().prop_map(Happening::Succeeds),
        2 => any::<usize>().prop_map(Happening::Fails),
        1 => any::<usize>().prop_map(Happening::DeletedBySomebody),
        2 => any::<usize>().prop_map(Happening::Goes),
        1 => (1..5_i32).prop_map(Happening::Parallelism),
        1 => Just(Happening::Suspends),
        1 => Just(Happening::Resumes),
        2 => (0..400_i64).prop_map(Happening::TimePasses),
    ]
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![6 => Just(Fate::Done), 1 => Just(Fate::AnswerLost), 1 => Just(Fate::Lost)]
}

/// A server with one Job, and what really happened.
struct World {
    job: Job,
    pods: BTreeMap<String, Pod>,
    now: Timestamp,
    made: usize,
    fates: Vec<Fate>,
    /// The Pods that ended well while they were kept to be counted, by uid; of an indexed Job, their indexes.
    succeeded: BTreeSet<String>,
}

impl World {
    fn new(job: Job, fates: Vec<Fate>) -> World {
        World { job, pods: BTreeMap::new(), now: noon(), made: 0, fates, succeeded: BTreeSet::new() }
    }

    /// Does something, if that is its fate. Returns whether whoever asked can go on.
    fn write(&mut self, act: impl FnOnce(&mut World)) -> bool {
        let fate = self.fates.pop().unwrap_or(Fate::Done);
        if !matches!(fate, Fate::Lost) {
            act(self);
        }
        matches!(fate, Fate::Done)
    }

    /// What a controller does in a round, up to the first write that fails.
    fn round(&mut self) -> Option<()> {
        let (job, seen) = (self.job.clone(), self.pods.clone());
        let pods: Vec<&Pod> = seen.values().collect();
        let is_taken = |name: &str| seen.contains_key(name);
        let decision = decide(&Facts { job: &job, pods: &pods, is_taken: &is_taken, now: self.now });
        let parallelism = job.spec.as_ref().unwrap().parallelism.unwrap() as usize;
        let made = decision.create.len();
        for pod in &decision.create {
            self.write(|world| world.create(pod)).then_some(())?;
            let active = self.pods.values().filter(|pod| pod_state::is_active(pod)).count();
            assert!(active <= parallelism, "{active} Pods are active, {parallelism} may be");
        }
        for removal in &decision.remove {
            let name = removal.pod.metadata.name.clone().unwrap();
            if removal.is_blameless {
                self.write(|world| world.release(&name)).then_some(())?;
            }
            self.write(|world| world.delete(&name)).then_some(())?;
        }
        if let Some(status) = decision.status(&job, made) {
            self.write(|world| world.job.status = Some(status)).then_some(())?;
        }
        for pod in &decision.release {
            let name = pod.metadata.name.clone().unwrap();
            self.write(|world| world.release(&name)).then_some(())?;
        }
        Some(())
    }

    fn create(&mut self, pod: &Pod) {
        let name = pod.metadata.name.clone().unwrap();
        let (made, now) = (self.made, self.now);
        self.pods.entry(name).or_insert_with(|| {
            let mut pod = pod.clone();
            pod.metadata.uid = Some(format!("uid-{made}"));
            pod.metadata.creation_timestamp = Some(Time(now));
            pod
        });
        self.made += 1;
    }

    fn delete(&mut self, name: &str) {
        let now = self.now;
        if let Some(pod) = self.pods.get_mut(name) {
            pod.metadata.deletion_timestamp.get_or_insert(Time(now));
        }
        self.collect(name);
    }

    fn release(&mut self, name: &str) {
        if let Some(pod) = self.pods.get_mut(name) {
            pod.metadata.finalizers.iter_mut().for_each(|finalizers| finalizers.retain(|name| name != TRACKING));
        }
        self.collect(name);
    }

    /// A deleted Pod goes once it has ended and nobody keeps it.
    fn collect(&mut self, name: &str) {
        let is_gone =
            |pod: &Pod| pod.metadata.deletion_timestamp.is_some() && pod_state::is_finished(pod) && !is_tracked(pod);
        if self.pods.get(name).is_some_and(is_gone) {
            self.pods.remove(name);
        }
    }

    fn ends(&mut self, which: usize, phase: &str, is_meant: fn(&Pod) -> bool) {
        let names: Vec<String> =
            self.pods.iter().filter(|(_, pod)| is_meant(pod)).map(|(name, _)| name.clone()).collect();
        let Some(name) = names.get(which % names.len().max(1)) else { return };
        let status = json!({"phase": phase, "containerStatuses": [{
            "name": "c", "image": "", "imageID": "", "ready": false, "restartCount": 0,
            "state": {"terminated": {"exitCode": 1, "finishedAt": self.now.to_string()}},
        }]});
        if let Some(pod) = self.pods.get_mut(name) {
            pod.status = Some(serde_json::from_value(status).unwrap());
            if phase == "Succeeded" && is_tracked(pod) {
                let index = pod.metadata.annotations.as_ref().and_then(|all| all.get(super::indexes::COMPLETION_INDEX));
                self.succeeded.insert(index.cloned().unwrap_or_else(|| pod.metadata.uid.clone().unwrap()));
            }
        }
        self.collect(name);
    }

    fn happen(&mut self, happening: Happening) {
        let spec = self.job.spec.as_mut().unwrap();
        match happening {
            Happening::Round => {
                self.round();
            }
            Happening::Succeeds(which) => self.ends(which, "Succeeded", pod_state::is_active),
            Happening::Fails(which) => self.ends(which, "Failed", pod_state::is_active),
            Happening::Goes(which) => self.ends(which, "Failed", pod_state::is_terminating),
            Happening::DeletedBySomebody(which) => {
                let names: Vec<String> = self.pods.keys().cloned().collect();
                if let Some(name) = names.get(which % names.len().max(1)) {
                    self.delete(name);
                }
            }
            Happening::Parallelism(parallelism) => spec.parallelism = Some(parallelism),
            Happening::Suspends => spec.suspend = Some(true),
            Happening::Resumes => spec.suspend = Some(false),
            Happening::TimePasses(seconds) => self.now += SignedDuration::from_secs(seconds),
        }
    }

    /// From here on all goes well, and what runs succeeds.
    fn settle(&mut self) {
        self.fates.clear();
        self.job.spec.as_mut().unwrap().suspend = Some(false);
        for _ in 0..200 {
            self.round();
            if is_finished(&self.job) {
                return;
            }
            self.ends(0, "Failed", pod_state::is_terminating);
            self.ends(0, "Succeeded", pod_state::is_active);
            self.now += SignedDuration::from_secs(60);
        }
        panic!("it does not end: {:?}", self.job.status);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_success_is_counted_once_and_a_job_ends(
        completions in 1..6_i32,
        parallelism in 1..4_i32,
        limit in 0..8_i32,
        is_indexed in any::<bool>(),
        waits in any::<bool>(),
        happenings in prop::collection::vec(happening(), 0..80),
        fates in prop::collection::vec(fate(), 0..200),
    ) {
        let mode = if is_indexed { "Indexed" } else { "NonIndexed" };
        let replacement = if waits { "Failed" } else { "TerminatingOrFailed" };
        let job = job(json!({"spec": {
            "completions": completions, "parallelism": parallelism, "backoffLimit": limit, "completionMode": mode,
            "podReplacementPolicy": replacement,
        }}));
        let mut world = World::new(job, fates);
        for happening in happenings {
            world.happen(happening);
        }
        world.settle();
        let status = world.job.status.clone().unwrap();
        let is = |type_: &str| status.conditions.iter().flatten().any(|condition| condition.type_ == type_);
        prop_assert!(is("Complete") != is("Failed"), "{:?}", status.conditions);
        prop_assert_eq!(status.succeeded.unwrap_or_default(), world.succeeded.len() as i32, "each is counted once");
        if is("Complete") {
            prop_assert_eq!(status.succeeded, Some(completions));
        } else {
            prop_assert!(status.failed.unwrap_or_default() > limit);
        }
        prop_assert_eq!(status.uncounted_terminated_pods, Some(Default::default()));
        prop_assert!(world.pods.values().all(|pod| !is_tracked(pod)), "nobody is kept for ever");
        let pods: Vec<&Pod> = world.pods.values().collect();
        let again = decide(&Facts { job: &world.job, pods: &pods, is_taken: &|_| false, now: world.now });
        prop_assert!(again.status(&world.job, 0).is_none() && again.release.is_empty() && again.create.is_empty());
    }
}
