//! What must hold at every commit, whatever goes wrong.
//!
//! Controllers act on what they last saw, so a rule speaks of what was asked for since things were last calm: within that
//! time anything that was asked for may still be under way.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::planspec::{Goal, GoalPhase};
use setpoint_core::workload::{pod_state, selection};
use setpoint_deployer::simulated::Entry;

use super::approvals::{Approvals, ledger_holds};
use super::ledger::{Books, Shelf};

/// Who causes what is committed now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Actor {
    /// People, the server itself, or fate.
    #[default]
    World,
    Controllers,
}

/// The least and the most that was asked for since it was last calm.
#[derive(Debug, Clone, Copy)]
struct Span {
    least: usize,
    most: usize,
}

/// What the rules remember, and what was found to be against them.
#[derive(Debug, Default)]
pub(super) struct Rules {
    pub(super) actor: Actor,
    /// Whether two crews were at work since it was last calm. What one of them does the other does not know.
    pub(super) had_rivals: bool,
    pub(super) approvals: Approvals,
    broken: Vec<String>,
    asked: BTreeMap<String, Span>,
    /// Who made a Pod or a ReplicaSet, if somebody did: those that were adopted were not asked for.
    made_by: BTreeMap<String, String>,
    /// Available Pods of a Deployment that others took since it was last calm.
    losses: BTreeMap<String, usize>,
    /// The Pods of each Job that have succeeded, ever.
    successes: BTreeMap<String, BTreeSet<String>>,
}

impl Rules {
    /// What was found to be against the rules.
    pub(super) fn broken(&mut self) -> Vec<String> {
        std::mem::take(&mut self.broken)
    }

    /// Nothing is under way: from here on, only what is asked for now counts.
    pub(super) fn calm(&mut self, books: &Books) {
        self.had_rivals = false;
        self.losses.clear();
        self.asked.clear();
        books.replica_sets.values().for_each(|set| self.replica_set_changed(Some(set), Some(set)));
        books.deployments.values().for_each(|deployment| self.deployment_changed(Some(deployment)));
        books.jobs.values().for_each(|job| self.asks(&job.metadata, parallelism(job)));
    }

    pub(super) fn replica_set_changed(&mut self, before: Option<&ReplicaSet>, after: Option<&ReplicaSet>) {
        if let Some(set) = after {
            if before.is_none()
                && let Some(owner) = selection::controller_of(&set.metadata)
            {
                self.made_by.insert(uid(&set.metadata).to_owned(), owner.uid.clone());
            }
            let replicas = set.spec.as_ref().and_then(|spec| spec.replicas);
            self.asks(&set.metadata, count(replicas.unwrap_or(1)));
        }
    }

    pub(super) fn deployment_changed(&mut self, after: Option<&Deployment>) {
        if let Some(deployment) = after {
            let replicas = deployment.spec.as_ref().and_then(|spec| spec.replicas);
            self.asks(&deployment.metadata, count(replicas.unwrap_or(1)));
        }
    }

    /// What is over stays as it ended, and a condition that stays is as old as it was.
    pub(super) fn goal_changed(&mut self, before: Option<&Goal>, after: Option<&Goal>) {
        let (Some(before), Some(after), Actor::Controllers) = (before, after, self.actor) else { return };
        if before.metadata.uid != after.metadata.uid {
            return;
        }
        let title = title(&after.metadata);
        let old = before.status.clone().unwrap_or_default();
        let new = after.status.clone().unwrap_or_default();
        if old.phase.is_some_and(GoalPhase::is_terminal) && old != new {
            self.broken.push(format!("the Goal {title} was over: {:?}, and is now {:?}", old.phase, new.phase));
        }
        for (was, is) in old.conditions.iter().flat_map(|was| new.conditions.iter().map(move |is| (was, is))) {
            let is_moved = was.last_transition_time != is.last_transition_time;
            if was.type_ == is.type_ && was.status == is.status && is_moved {
                let times = (was.last_transition_time, is.last_transition_time);
                self.broken.push(format!("{} of the Goal {title} stays {:?}: {times:?}", is.type_, is.status));
            }
        }
    }

    /// What is about to be done to a guest has leave.
    pub(super) fn machine_changed(&mut self, books: &Books, after: Option<&Machine>) {
        if let Some(machine) = after {
            self.approvals.machine_changed(books, machine, &mut self.broken);
        }
    }

    pub(super) fn environment_changed(&mut self, after: Option<&Environment>) {
        if let Some(environment) = after {
            ledger_holds(environment, &mut self.broken);
        }
    }

    /// Something reached a place.
    pub(super) fn reached(&mut self, books: &Books, place: &str, entry: &Entry) {
        self.approvals.reached(books, place, entry, &mut self.broken);
    }

    pub(super) fn job_changed(&mut self, before: Option<&Job>, after: Option<&Job>) {
        let Some(job) = after else { return };
        self.asks(&job.metadata, parallelism(job));
        let succeeded = |job: &Job| job.status.as_ref().and_then(|status| status.succeeded).unwrap_or_default();
        let known = self.successes.get(uid(&job.metadata)).map_or(0, BTreeSet::len);
        if count(succeeded(job)) > known {
            let told = succeeded(job);
            self.broken.push(format!("{} counts {told} successes, of {known} Pods", title(&job.metadata)));
        }
        if let Some(before) = before.filter(|before| before.metadata.uid == job.metadata.uid)
            && succeeded(before) > succeeded(job)
        {
            self.broken.push(format!("{} forgets successes", title(&job.metadata)));
        }
    }

    pub(super) fn pod_changed(&mut self, books: &Books, before: Option<&Pod>, after: Option<&Pod>) {
        let same = before.zip(after).is_none_or(|(before, after)| before.metadata.uid == after.metadata.uid);
        if !same {
            self.broken
                .push(after.map(|pod| format!("{} became another Pod", title(&pod.metadata))).unwrap_or_default());
        }
        if let Some(pod) = after {
            self.pod_written(books, before, pod);
        }
        if let Some(before) = before.filter(|pod| is_available(pod))
            && !after.is_some_and(is_available)
        {
            self.pod_lost(books, before, after);
        }
    }

    fn pod_written(&mut self, books: &Books, before: Option<&Pod>, pod: &Pod) {
        let owner = selection::controller_of(&pod.metadata);
        if before.is_none()
            && let Some(owner) = owner
        {
            self.made_by.insert(uid(&pod.metadata).to_owned(), owner.uid.clone());
        }
        let node = |pod: &Pod| pod.spec.as_ref().and_then(|spec| spec.node_name.clone());
        if let Some(was) = before.and_then(node)
            && node(pod) != Some(was.clone())
        {
            self.broken.push(format!("{} was on {was} and is now on {:?}", title(&pod.metadata), node(pod)));
        }
        let phase = |pod: &Pod| pod.status.as_ref().and_then(|status| status.phase.clone()).unwrap_or_default();
        if let Some(was) = before.map(phase).filter(|was| was == "Succeeded" || was == "Failed")
            && phase(pod) != was
            && !self.had_rivals
        {
            self.broken.push(format!("{} had {was} and is now {}", title(&pod.metadata), phase(pod)));
        }
        let Some(owner) = owner else { return };
        if phase(pod) == "Succeeded" && owner.kind == "Job" {
            self.successes.entry(owner.uid.clone()).or_default().insert(uid(&pod.metadata).to_owned());
        }
        if before.is_none() {
            self.not_too_many(books, &owner.kind, &owner.uid);
        }
    }

    /// Nobody has more Pods than it was asked for.
    fn not_too_many(&mut self, books: &Books, kind: &str, owner: &str) {
        let is_its_own = |pod: &&std::sync::Arc<Pod>| {
            selection::controller_of(&pod.metadata).is_some_and(|reference| reference.uid == owner)
                && self.made_by.get(uid(&pod.metadata)).is_some_and(|made_by| made_by == owner)
                && pod_state::is_active(pod)
        };
        let active = books.pods.values().filter(is_its_own).count();
        let Some(asked) = self.asked.get(owner).copied() else {
            self.broken.push(format!("a Pod was made for the {kind} {owner}, which is not there"));
            return;
        };
        // Two who do not know of each other may each make what they miss.
        let most = if self.had_rivals { asked.most * 2 } else { asked.most };
        if active > most {
            self.broken.push(format!("the {kind} {owner} has {active} active Pods and was asked for {most} at most"));
        }
        if kind == "ReplicaSet" && !self.had_rivals {
            self.no_surge(books, owner);
        }
    }

    /// A Deployment has no more Pods than it may have while it is rolled out.
    fn no_surge(&mut self, books: &Books, set: &str) {
        let Some(deployment) = deployment_of(books, set) else { return };
        let Some(asked) = self.asked.get(uid(&deployment.metadata)) else { return };
        let Some((surge, _)) = rolling(deployment) else { return };
        let is_its_own = |pod: &&Pod| {
            let set = self.made_by.get(uid(&pod.metadata)).and_then(|set| self.made_by.get(set));
            set.is_some_and(|made_by| made_by == uid(&deployment.metadata))
        };
        let active = pods_of(books, deployment).filter(|pod| pod_state::is_active(pod)).filter(is_its_own).count();
        if active > asked.most + surge {
            let title = title(&deployment.metadata);
            let most = asked.most;
            self.broken.push(format!("{title} has {active} Pods; it was asked for {most}, and {surge} more"));
        }
    }

    /// An available Pod is no longer: if controllers took it, enough must be left.
    fn pod_lost(&mut self, books: &Books, before: &Pod, after: Option<&Pod>) {
        let Some(owner) = selection::controller_of(&before.metadata) else { return };
        let Some(deployment) = deployment_of(books, &owner.uid) else { return };
        let set = by_uid(&books.replica_sets, &owner.uid);
        let is_leaving = |meta: &ObjectMeta| meta.deletion_timestamp.is_some();
        let is_taken = self.actor == Actor::Controllers
            && after.is_none_or(|pod| is_leaving(&pod.metadata))
            && set.is_some_and(|set| !is_leaving(&set.metadata))
            && !is_leaving(&deployment.metadata)
            && on_a_live_node(books, before);
        let losses = self.losses.entry(uid(&deployment.metadata).to_owned()).or_default();
        if !is_taken {
            *losses += 1;
            return;
        }
        let (Some((_, unavailable)), Some(asked)) = (rolling(deployment), self.asked.get(uid(&deployment.metadata)))
        else {
            return;
        };
        let available = pods_of(books, deployment).filter(|pod| is_available(pod)).count();
        let promised = asked.least.saturating_sub(unavailable + *losses);
        if available < promised && !self.had_rivals {
            let title = title(&deployment.metadata);
            let taken = title_of(before);
            self.broken
                .push(format!("{title} is left with {available} available Pods of {promised}: {taken} was taken"));
        }
    }

    fn asks(&mut self, of: &ObjectMeta, number: usize) {
        let span = self.asked.entry(uid(of).to_owned()).or_insert(Span { least: number, most: number });
        *span = Span { least: span.least.min(number), most: span.most.max(number) };
    }
}

pub(super) fn is_available(pod: &Pod) -> bool {
    pod_state::is_active(pod) && pod_state::is_ready(pod)
}

/// Whether a Pod is where Pods may stay: on a node that is ready, of an Environment that nobody has deleted.
fn on_a_live_node(books: &Books, pod: &Pod) -> bool {
    let Some(name) = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref()) else { return false };
    let stays = books.environments.get(name).is_some_and(|it| it.metadata.deletion_timestamp.is_none());
    stays
        && books.nodes.get(name).is_some_and(|node| {
            let conditions = node.status.iter().flat_map(|status| status.conditions.iter().flatten());
            conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True")
        })
}

/// How many more and how many fewer Pods a rolling update may have.
fn rolling(deployment: &Deployment) -> Option<(usize, usize)> {
    let rolling = deployment.spec.as_ref()?.strategy.as_ref()?.rolling_update.as_ref()?;
    let number = |value: &Option<IntOrString>| match value {
        Some(IntOrString::Int(number)) => Some(count(*number)),
        _ => None,
    };
    number(&rolling.max_surge).zip(number(&rolling.max_unavailable))
}

pub(super) fn by_uid<'b, K: kube::Resource>(shelf: &'b Shelf<K>, uid: &str) -> Option<&'b K> {
    shelf.values().map(|object| &**object).find(|object| object.meta().uid.as_deref() == Some(uid))
}

pub(super) fn deployment_of<'b>(books: &'b Books, set: &str) -> Option<&'b Deployment> {
    let set = by_uid(&books.replica_sets, set)?;
    by_uid(&books.deployments, &selection::controller_of(&set.metadata)?.uid)
}

/// The Pods of all ReplicaSets of a Deployment.
pub(super) fn pods_of<'b>(books: &'b Books, deployment: &Deployment) -> impl Iterator<Item = &'b Pod> {
    let is_owned =
        |meta: &ObjectMeta, owner: &str| selection::controller_of(meta).is_some_and(|reference| reference.uid == owner);
    let owner = uid(&deployment.metadata);
    let sets = books.replica_sets.values().filter(|set| is_owned(&set.metadata, owner));
    let sets: Vec<String> = sets.map(|set| uid(&set.metadata).to_owned()).collect();
    let is_its_own = move |pod: &&Pod| sets.iter().any(|set| is_owned(&pod.metadata, set));
    books.pods.values().map(|pod| &**pod).filter(is_its_own)
}

fn parallelism(job: &Job) -> usize {
    job.spec.as_ref().map_or(0, |spec| count(spec.parallelism.unwrap_or(1)))
}

pub(super) fn uid(meta: &ObjectMeta) -> &str {
    meta.uid.as_deref().unwrap_or_default()
}

pub(super) fn title(meta: &ObjectMeta) -> String {
    format!("{}/{}", meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default())
}

fn title_of(pod: &Pod) -> String {
    title(&pod.metadata)
}

fn count(number: i32) -> usize {
    usize::try_from(number).unwrap_or_default()
}
