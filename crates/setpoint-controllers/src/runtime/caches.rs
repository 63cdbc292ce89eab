//! The caches that all controllers share: one watch for each kind, however many read it.

use std::collections::BTreeSet;
use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Node, Pod, Secret, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::Resource;
use kube::core::PartialObjectMeta;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::condition::ConditionStatus;
use setpoint_api::environment::Environment;
use setpoint_api::interpolation::SourceKind;
use setpoint_api::machine::Machine;
use setpoint_api::planspec::Goal;
use setpoint_api::planspec::gate::Gate;
use setpoint_api::review::Review;
use setpoint_api::step::Target;
use setpoint_core::authority::WITHIN_LIMITS;
use setpoint_core::intent::makes_a_guest;
use setpoint_core::machine::{DRIFTED, SYNCED, condition, reason};
use setpoint_core::workload::selection;

use super::cache::{Cache, Follows, Index};
use crate::plan::Outline;
use crate::signature::Signatures;

/// By the uid of the controller that owns it.
pub const PODS_BY_OWNER: Index<Pod> = Index { name: "owner", values: owner };
/// By the node it is on; those on none are under "".
pub const PODS_BY_NODE: Index<Pod> = Index { name: "node", values: node };
/// By its uid. A name can be another Pod's tomorrow.
pub const PODS_BY_UID: Index<Pod> = Index { name: "uid", values: uid };
/// By each of its labels, as `namespace/key=value`.
pub const PODS_BY_LABEL: Index<Pod> = Index { name: "label", values: labels };
/// Those that nobody controls, by namespace, and by each of their labels as `namespace/key=value`. See [`orphans_of`].
pub const PODS_BY_ORPHANAGE: Index<Pod> = Index { name: "orphanage", values: orphanage };
pub const REPLICA_SETS_BY_OWNER: Index<ReplicaSet> = Index { name: "owner", values: owner };
pub const REPLICA_SETS_BY_ORPHANAGE: Index<ReplicaSet> = Index { name: "orphanage", values: orphanage };
/// By one pair of its selector, as `namespace/key=value`: whoever has all pairs has this one. Those whose selector has no
/// pairs are under `namespace/`. See [`selected_by`].
pub const REPLICA_SETS_BY_SELECTOR: Index<ReplicaSet> = Index { name: "selector", values: replica_set_selector };
pub const DEPLOYMENTS_BY_SELECTOR: Index<Deployment> = Index { name: "selector", values: deployment_selector };
pub const JOBS_BY_SELECTOR: Index<Job> = Index { name: "selector", values: job_selector };
/// By one pair of its selector, as `namespace/key=value`; those without a selector under nothing.
pub const SERVICES_BY_SELECTOR: Index<Service> = Index { name: "selector", values: service_selector };
/// By the Service that it is of, as `namespace/name`.
pub const SLICES_BY_SERVICE: Index<EndpointSlice> = Index { name: "service", values: service_of };
/// By the Goal that it names, as `namespace/name`.
pub const PLANS_BY_GOAL: Index<Outline> = Index { name: "goal", values: goal_of };

/// By the Environment that its guest is in.
pub const MACHINES_BY_ENVIRONMENT: Index<Machine> = Index { name: "environment", values: environment_of };
/// By its uid, as the mark on a guest names it.
pub const MACHINES_BY_UID: Index<Machine> = Index { name: "uid", values: machine_uid };
/// By the guest it insists on, as `environment/providerId`.
pub const MACHINES_BY_GUEST: Index<Machine> = Index { name: "guest", values: pinned };
/// By each Machine that it depends on, as `namespace/name`.
pub const MACHINES_BY_DEPENDENCY: Index<Machine> = Index { name: "dependency", values: dependencies };
/// By each Secret and ConfigMap that it names. See [`source_value`].
pub const MACHINES_BY_SOURCE: Index<Machine> = Index { name: "source", values: machine_sources };
/// By the Environment, if it drifts.
pub const MACHINES_BY_DRIFT: Index<Machine> = Index { name: "drift", values: drifting };
/// By the Environment, if a limit of it holds it back.
pub const MACHINES_BY_LIMIT: Index<Machine> = Index { name: "limit", values: limited };
/// By the Environment, if a call is on record that makes a guest.
pub const MACHINES_BY_MAKING: Index<Machine> = Index { name: "making", values: making };
/// By the Secret with its credentials, as `namespace/name`.
pub const ENVIRONMENTS_BY_SECRET: Index<Environment> = Index { name: "secret", values: credentials };
/// By the uid of the object that it was made for.
pub const CHANGE_SETS_BY_OWNER: Index<ChangeSet> = Index { name: "owner", values: owner };
/// By each object that it has steps for. See [`target_value`].
pub const CHANGE_SETS_BY_TARGET: Index<ChangeSet> = Index { name: "target", values: targets };
/// By the Environment that its steps are taken in.
pub const CHANGE_SETS_BY_ENVIRONMENT: Index<ChangeSet> = Index { name: "environment", values: place_of_steps };
/// By the Environment, if a limit of it holds one of its steps back.
pub const CHANGE_SETS_BY_LIMIT: Index<ChangeSet> = Index { name: "limit", values: held_back };
/// By the Gate that it is about, as `namespace/name`.
pub const REVIEWS_BY_GATE: Index<Review> = Index { name: "gate", values: gate_of };

#[derive(Debug, Clone)]
pub struct Caches {
    pub pods: Arc<Cache<Pod>>,
    pub replica_sets: Arc<Cache<ReplicaSet>>,
    pub deployments: Arc<Cache<Deployment>>,
    pub jobs: Arc<Cache<Job>>,
    pub services: Arc<Cache<Service>>,
    pub endpoint_slices: Arc<Cache<EndpointSlice>>,
    pub endpoints: Arc<Cache<Endpoints>>,
    pub nodes: Arc<Cache<Node>>,
    /// Those of `kube-node-lease` alone.
    pub node_leases: Arc<Cache<Lease>>,
    pub environments: Arc<Cache<Environment>>,
    pub machines: Arc<Cache<Machine>>,
    pub change_sets: Arc<Cache<ChangeSet>>,
    pub gates: Arc<Cache<Gate>>,
    pub reviews: Arc<Cache<Review>>,
    /// Which there are, and in which version; what is in them is read by those who need it.
    pub secrets: Arc<Cache<PartialObjectMeta<Secret>>>,
    pub config_maps: Arc<Cache<PartialObjectMeta<ConfigMap>>>,
    pub goals: Arc<Cache<Goal>>,
    /// Without their work.
    pub plans: Arc<Cache<Outline>>,
    /// What was found of the signatures of reviews.
    pub signatures: Arc<Signatures>,
}

/// A moment in the life of the caches: how many lists of each kind were begun.
#[derive(Debug, Clone, Default)]
pub struct Moment(Vec<u64>);

impl Moment {
    fn of<'c>(&self, caches: &'c Caches) -> impl Iterator<Item = (&'c dyn Follows, u64)> {
        caches.all().into_iter().zip(self.0.iter().copied().chain(std::iter::repeat(0)))
    }
}

impl Default for Caches {
    fn default() -> Caches {
        Caches {
            pods: Cache::new("Pod", &[PODS_BY_OWNER, PODS_BY_NODE, PODS_BY_UID, PODS_BY_LABEL, PODS_BY_ORPHANAGE]),
            replica_sets: Cache::new(
                "ReplicaSet",
                &[REPLICA_SETS_BY_OWNER, REPLICA_SETS_BY_ORPHANAGE, REPLICA_SETS_BY_SELECTOR],
            ),
            deployments: Cache::new("Deployment", &[DEPLOYMENTS_BY_SELECTOR]),
            jobs: Cache::new("Job", &[JOBS_BY_SELECTOR]),
            services: Cache::new("Service", &[SERVICES_BY_SELECTOR]),
            endpoint_slices: Cache::new("EndpointSlice", &[SLICES_BY_SERVICE]),
            endpoints: Cache::new("Endpoints", &[]),
            nodes: Cache::new("Node", &[]),
            node_leases: Cache::new("Lease", &[]),
            environments: Cache::new("Environment", &[ENVIRONMENTS_BY_SECRET]),
            machines: Cache::new(
                "Machine",
                &[
                    MACHINES_BY_ENVIRONMENT,
                    MACHINES_BY_UID,
                    MACHINES_BY_GUEST,
                    MACHINES_BY_DEPENDENCY,
                    MACHINES_BY_SOURCE,
                    MACHINES_BY_DRIFT,
                    MACHINES_BY_LIMIT,
                    MACHINES_BY_MAKING,
                ],
            ),
            change_sets: Cache::new(
                "ChangeSet",
                &[CHANGE_SETS_BY_OWNER, CHANGE_SETS_BY_TARGET, CHANGE_SETS_BY_ENVIRONMENT, CHANGE_SETS_BY_LIMIT],
            ),
            gates: Cache::new("Gate", &[]),
            reviews: Cache::new("Review", &[REVIEWS_BY_GATE]),
            secrets: Cache::new("Secret", &[]),
            config_maps: Cache::new("ConfigMap", &[]),
            goals: Cache::new("Goal", &[]),
            plans: Cache::new("Plan", &[PLANS_BY_GOAL]),
            signatures: Arc::default(),
        }
    }
}

impl Caches {
    pub fn all(&self) -> [&dyn Follows; 18] {
        [
            &*self.pods,
            &*self.replica_sets,
            &*self.deployments,
            &*self.jobs,
            &*self.services,
            &*self.endpoint_slices,
            &*self.endpoints,
            &*self.nodes,
            &*self.node_leases,
            &*self.environments,
            &*self.machines,
            &*self.change_sets,
            &*self.gates,
            &*self.reviews,
            &*self.secrets,
            &*self.config_maps,
            &*self.goals,
            &*self.plans,
        ]
    }

    /// What is listed by now; nothing at the start, which is the default.
    pub fn moment(&self) -> Moment {
        Moment(self.all().map(Follows::lists).into())
    }

    /// Whether everything there is has been listed since then.
    pub fn are_complete_since(&self, moment: &Moment) -> bool {
        moment.of(self).all(|(cache, lists)| cache.is_complete_since(lists))
    }

    /// Returns once that is so. Before that nobody may act: what is not there yet would be made again.
    pub async fn completed_since(&self, moment: &Moment) {
        for (cache, lists) in moment.of(self) {
            cache.completed_since(lists).await;
        }
    }
}

fn owner<K: Resource>(object: &K) -> Vec<String> {
    selection::controller_of(object.meta()).map(|owner| owner.uid.clone()).into_iter().collect()
}

fn orphanage<K: Resource>(object: &K) -> Vec<String> {
    if selection::controller_of(object.meta()).is_some() {
        return Vec::new();
    }
    let namespace = object.meta().namespace.clone().unwrap_or_default();
    let labels = object.meta().labels.iter().flatten().map(|(key, value)| label_value(&namespace, key, value));
    labels.chain([namespace.clone()]).collect()
}

/// Where the orphans are found that an owner may adopt: for each, the whole selector has yet to be asked.
pub fn orphans_of(owner: &ObjectMeta, selector: Option<&LabelSelector>) -> String {
    let namespace = owner.namespace.as_deref().unwrap_or_default();
    let mut pairs = selector.iter().flat_map(|selector| selector.match_labels.iter().flatten());
    pairs.next().map_or_else(|| namespace.to_owned(), |(key, value)| label_value(namespace, key, value))
}

fn node(pod: &Pod) -> Vec<String> {
    vec![pod.spec.as_ref().and_then(|spec| spec.node_name.clone()).unwrap_or_default()]
}

fn uid(pod: &Pod) -> Vec<String> {
    pod.metadata.uid.clone().into_iter().collect()
}

fn labels(pod: &Pod) -> Vec<String> {
    let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
    pod.metadata.labels.iter().flatten().map(|(key, value)| label_value(namespace, key, value)).collect()
}

fn service_selector(service: &Service) -> Vec<String> {
    let namespace = service.metadata.namespace.as_deref().unwrap_or_default();
    let mut pairs = service.spec.iter().flat_map(|spec| spec.selector.iter().flatten());
    pairs.next().map(|(key, value)| label_value(namespace, key, value)).into_iter().collect()
}

fn replica_set_selector(set: &ReplicaSet) -> Vec<String> {
    selector(&set.metadata, set.spec.as_ref().map(|spec| &spec.selector))
}

fn deployment_selector(deployment: &Deployment) -> Vec<String> {
    selector(&deployment.metadata, deployment.spec.as_ref().map(|spec| &spec.selector))
}

fn job_selector(job: &Job) -> Vec<String> {
    selector(&job.metadata, job.spec.as_ref().and_then(|spec| spec.selector.as_ref()))
}

fn selector(meta: &ObjectMeta, selector: Option<&LabelSelector>) -> Vec<String> {
    let namespace = meta.namespace.as_deref().unwrap_or_default();
    let mut pairs = selector.iter().flat_map(|selector| selector.match_labels.iter().flatten());
    let pair = pairs.next().map(|(key, value)| label_value(namespace, key, value));
    vec![pair.unwrap_or_else(|| format!("{namespace}/"))]
}

/// Where those are found in an index by selector who may select an object: for each, the whole selector has yet to be asked.
pub fn selected_by(object: &ObjectMeta) -> impl Iterator<Item = String> {
    let namespace = object.namespace.as_deref().unwrap_or_default();
    let pairs = object.labels.iter().flatten().map(move |(key, value)| label_value(namespace, key, value));
    pairs.chain([format!("{namespace}/")])
}

fn service_of(slice: &EndpointSlice) -> Vec<String> {
    let service = slice.metadata.labels.iter().flatten().find(|(key, _)| *key == "kubernetes.io/service-name");
    let namespace = slice.metadata.namespace.as_deref().unwrap_or_default();
    service.map(|(_, name)| format!("{namespace}/{name}")).into_iter().collect()
}

fn environment_of(machine: &Machine) -> Vec<String> {
    vec![machine.spec.environment.clone()]
}

/// The Environment of a Machine that drifts.
pub fn drifting(machine: &Machine) -> Vec<String> {
    let drifted = machine.status.as_ref().and_then(|status| condition(status, DRIFTED));
    let is_drifting = drifted.is_some_and(|drifted| drifted.status == ConditionStatus::True);
    is_drifting.then(|| machine.spec.environment.clone()).into_iter().collect()
}

/// The Environment of a Machine that one of its limits holds back.
pub fn limited(machine: &Machine) -> Vec<String> {
    let synced = machine.status.as_ref().and_then(|status| condition(status, SYNCED));
    let is_limited = synced.is_some_and(|synced| synced.reason.as_deref() == Some(reason::OVER_LIMIT));
    is_limited.then(|| machine.spec.environment.clone()).into_iter().collect()
}

/// The Environment of a Machine for which a guest is being made, as far as is known.
fn making(machine: &Machine) -> Vec<String> {
    let mut intents = machine.status.iter().flat_map(|status| &status.intents);
    let is_making = intents.any(|intent| makes_a_guest(intent.action));
    is_making.then(|| machine.spec.environment.clone()).into_iter().collect()
}

fn machine_uid(machine: &Machine) -> Vec<String> {
    machine.metadata.uid.clone().into_iter().collect()
}

fn pinned(machine: &Machine) -> Vec<String> {
    let id = machine.spec.provider_id.as_ref();
    id.map(|id| format!("{}/{id}", machine.spec.environment)).into_iter().collect()
}

fn dependencies(machine: &Machine) -> Vec<String> {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    machine.spec.depends_on.iter().map(|name| format!("{namespace}/{name}")).collect()
}

fn machine_sources(machine: &Machine) -> Vec<String> {
    let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
    machine.spec.sources().into_iter().map(|(kind, name)| source_value(kind, namespace, name)).collect()
}

/// How a Secret or ConfigMap is written in an index.
pub fn source_value(kind: SourceKind, namespace: &str, name: &str) -> String {
    format!("{kind} {namespace}/{name}")
}

fn targets(change_set: &ChangeSet) -> Vec<String> {
    let steps = change_set.status.iter().flat_map(|status| &status.steps);
    let values: BTreeSet<String> = steps.map(|step| target_value(&step.target)).collect();
    values.into_iter().collect()
}

/// How the object of a step is written in an index.
pub fn target_value(target: &Target) -> String {
    format!("{} {}/{}", target.kind, target.namespace, target.name)
}

fn place_of_steps(change_set: &ChangeSet) -> Vec<String> {
    vec![change_set.spec.environment.clone()]
}

fn held_back(change_set: &ChangeSet) -> Vec<String> {
    let mut conditions = change_set.status.iter().flat_map(|status| &status.conditions);
    let within = conditions.find(|condition| condition.type_ == WITHIN_LIMITS);
    let is_held = within.is_some_and(|within| within.status == ConditionStatus::False);
    is_held.then(|| change_set.spec.environment.clone()).into_iter().collect()
}

fn gate_of(review: &Review) -> Vec<String> {
    let namespace = review.metadata.namespace.as_deref().unwrap_or_default();
    vec![format!("{namespace}/{}", review.spec.gate)]
}

fn credentials(environment: &Environment) -> Vec<String> {
    let secret = environment.spec.credentials_secret_ref.as_ref();
    secret.map(|secret| format!("{}/{}", secret.namespace, secret.name)).into_iter().collect()
}

fn goal_of(plan: &Outline) -> Vec<String> {
    plan.goal().map(|goal| goal.to_string()).into_iter().collect()
}

/// How a label is written in an index.
pub fn label_value(namespace: &str, key: &str, value: &str) -> String {
    format!("{namespace}/{key}={value}")
}
