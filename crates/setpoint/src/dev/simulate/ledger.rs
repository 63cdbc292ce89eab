//! What is stored, as it is committed: the truth that the rules are judged by, whatever caches show.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ConfigMap, Endpoints, Node, Pod, Service};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Resource;
use parking_lot::Mutex;
use serde::de::DeserializeOwned;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::environment::Environment;
use setpoint_api::machine::Machine;
use setpoint_api::planspec::{Gate, Goal, Plan};
use setpoint_api::review::Review;
use setpoint_apiserver::object::Stored;
use setpoint_store::Revision;

use super::rules::Rules;

/// Objects by namespace and name.
pub(super) type Shelf<K> = BTreeMap<String, Arc<K>>;

/// Everything that the controllers act on.
#[derive(Debug, Default)]
pub(super) struct Books {
    pub(super) pods: Shelf<Pod>,
    pub(super) replica_sets: Shelf<ReplicaSet>,
    pub(super) deployments: Shelf<Deployment>,
    pub(super) jobs: Shelf<Job>,
    pub(super) config_maps: Shelf<ConfigMap>,
    pub(super) services: Shelf<Service>,
    pub(super) endpoint_slices: Shelf<EndpointSlice>,
    pub(super) endpoints: Shelf<Endpoints>,
    pub(super) nodes: Shelf<Node>,
    pub(super) environments: Shelf<Environment>,
    pub(super) machines: Shelf<Machine>,
    pub(super) change_sets: Shelf<ChangeSet>,
    pub(super) gates: Shelf<Gate>,
    pub(super) reviews: Shelf<Review>,
    pub(super) goals: Shelf<Goal>,
    pub(super) plans: Shelf<Plan>,
}

/// The books, and who reads over one's shoulder.
#[derive(Debug, Default)]
pub(super) struct Ledger(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    books: Books,
    rules: Rules,
    /// The last commit of each directory, such as `/core/pods/`.
    latest: BTreeMap<String, Revision>,
    /// What was committed since that was last asked, but for what is said again and again: Leases, what Nodes and
    /// Environments say of themselves, and Events.
    changes: Vec<String>,
}

impl Ledger {
    /// Enters a commit.
    pub(super) fn enter(&self, key: &str, value: Option<&Bytes>, revision: Revision) {
        let state = &mut *self.0.lock();
        let Some((directory, name)) = split(key) else { return };
        state.latest.insert(directory.to_owned(), revision);
        let is_gone = value.is_none();
        let value = value.map(|bytes| Stored::new(bytes.clone(), revision));
        let State { books, rules, .. } = state;
        match directory {
            "/core/pods/" => {
                let (before, after) = put(&mut books.pods, name, value);
                rules.pod_changed(books, before.as_deref(), after.as_deref());
            }
            "/apps/replicasets/" => {
                let (before, after) = put(&mut books.replica_sets, name, value);
                rules.replica_set_changed(before.as_deref(), after.as_deref());
            }
            "/apps/deployments/" => {
                let (_, after) = put(&mut books.deployments, name, value);
                rules.deployment_changed(after.as_deref());
            }
            "/batch/jobs/" => {
                let (before, after) = put(&mut books.jobs, name, value);
                rules.job_changed(before.as_deref(), after.as_deref());
            }
            "/core/configmaps/" => drop(put(&mut books.config_maps, name, value)),
            "/core/services/" => drop(put(&mut books.services, name, value)),
            "/core/endpoints/" => drop(put(&mut books.endpoints, name, value)),
            "/discovery.k8s.io/endpointslices/" => drop(put(&mut books.endpoint_slices, name, value)),
            "/core/nodes/" => drop(put(&mut books.nodes, name, value)),
            "/setpoint.dev/environments/" => {
                let (before, after) = put(&mut books.environments, name, value);
                rules.environment_changed(after.as_deref());
                if before.zip(after).is_some_and(|(before, after)| is_another_look(&before, &after)) {
                    return;
                }
            }
            "/setpoint.dev/machines/" => {
                let (_, after) = put(&mut books.machines, name, value);
                rules.machine_changed(books, after.as_deref());
            }
            "/setpoint.dev/changesets/" => {
                let (_, after) = put(&mut books.change_sets, name, value);
                after.iter().for_each(|set| rules.approvals.change_set_changed(books, set));
            }
            "/setpoint.dev/reviews/" => {
                let (_, after) = put(&mut books.reviews, name, value);
                after.iter().for_each(|review| rules.approvals.review_changed(review));
            }
            "/planspec.io/gates/" => drop(put(&mut books.gates, name, value)),
            "/planspec.io/goals/" => {
                let (before, after) = put(&mut books.goals, name, value);
                rules.goal_changed(before.as_deref(), after.as_deref());
            }
            "/planspec.io/plans/" => drop(put(&mut books.plans, name, value)),
            _ => {}
        }
        let is_heartbeat = ["/coordination.k8s.io/", "/core/nodes/", "/core/events/"];
        let is_kept_for_a_while = ["/setpoint.dev/changesets/", "/setpoint.dev/reviews/", "/planspec.io/gates/"];
        let has_had_its_time = is_gone && is_kept_for_a_while.contains(&directory);
        if !has_had_its_time && !is_heartbeat.iter().any(|heartbeat| directory.starts_with(heartbeat)) {
            state.changes.push(key.to_owned());
        }
    }

    pub(super) fn read<T>(&self, read: impl FnOnce(&Books) -> T) -> T {
        read(&self.0.lock().books)
    }

    pub(super) fn rules<T>(&self, with: impl FnOnce(&mut Rules, &Books) -> T) -> T {
        let State { books, rules, .. } = &mut *self.0.lock();
        with(rules, books)
    }

    /// The last commit of a directory.
    pub(super) fn latest(&self, directory: &str) -> Revision {
        self.0.lock().latest.get(directory).copied().unwrap_or_default()
    }

    /// What was changed since this was last asked.
    pub(super) fn changes(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().changes)
    }
}

/// Whether an Environment tells nothing new but that its place was looked at again.
fn is_another_look(before: &Environment, after: &Environment) -> bool {
    let told = |environment: &Environment| {
        let mut status = environment.status.clone().unwrap_or_default();
        status.observed_at = None;
        (environment.metadata.generation, environment.metadata.deletion_timestamp.clone(), status)
    };
    told(before) == told(after)
}

/// `/core/pods/default/web` is `default/web` in `/core/pods/`.
fn split(key: &str) -> Option<(&str, &str)> {
    let group = key.get(1..)?.find('/')? + 2;
    let plural = key.get(group..)?.find('/')? + group + 1;
    Some(key.split_at(plural))
}

/// Puts an object where another may have been, and returns both.
fn put<K>(shelf: &mut Shelf<K>, name: &str, value: Option<Stored>) -> (Option<Arc<K>>, Option<Arc<K>>)
where
    K: Resource + DeserializeOwned,
{
    let Some(value) = value else { return (shelf.remove(name), None) };
    let object: K = serde_json::from_value(value.value(b"{")).expect("what is stored is of its kind");
    let object = Arc::new(object);
    (shelf.insert(name.to_owned(), object.clone()), Some(object))
}
