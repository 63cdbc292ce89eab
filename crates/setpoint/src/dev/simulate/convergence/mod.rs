//! What must be so in the end, when nothing goes wrong any more and nobody asks for anything else.
//!
//! | module | what of it |
//! | --- | --- |
//! | `pods` | nothing is left of what went, and all that should run runs |
//! | `workloads` | ReplicaSets and Deployments |
//! | `jobs` | Jobs |
//! | `services` | who is behind Services |
//! | `goals` | Goals and Plans |
//! | `machines` | Machines and their guests |

mod goals;
mod jobs;
mod machines;
mod pods;
mod services;
mod workloads;

use k8s_openapi::api::core::v1::Pod;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use setpoint_core::workload::selection;

pub(super) use self::machines::machine;
use super::ledger::Books;

/// What is not as it should be.
pub(super) fn unmet(books: &Books) -> Vec<String> {
    let mut unmet = Vec::new();
    pods::environments(books, &mut unmet);
    books.pods.values().for_each(|pod| pods::settled(books, pod, &mut unmet));
    books.replica_sets.values().for_each(|set| workloads::replica_set(books, set, &mut unmet));
    books.deployments.values().for_each(|deployment| workloads::deployment(books, deployment, &mut unmet));
    books.jobs.values().for_each(|job| jobs::job(books, job, &mut unmet));
    books.services.values().for_each(|service| services::service(books, service, &mut unmet));
    services::leftovers(books, &mut unmet);
    books.goals.values().for_each(|goal| goals::goal(books, goal, &mut unmet));
    books.plans.values().for_each(|plan| goals::plan(plan, &mut unmet));
    unmet
}

fn owned<'b>(books: &'b Books, owner: &ObjectMeta) -> Vec<&'b Pod> {
    books.pods.values().filter(|pod| is_owned(&pod.metadata, owner)).map(|pod| &**pod).collect()
}

fn is_owned(object: &ObjectMeta, owner: &ObjectMeta) -> bool {
    selection::controller_of(object).is_some_and(|reference| Some(&reference.uid) == owner.uid.as_ref())
}
