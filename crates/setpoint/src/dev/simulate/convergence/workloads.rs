//! ReplicaSets have what they were asked for, Deployments are rolled out, and both say how it is.

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use setpoint_core::workload::pod_state;

use super::{is_owned, owned};
use crate::dev::simulate::ledger::Books;
use crate::dev::simulate::rules::{is_available, title};

pub(super) fn replica_set(books: &Books, set: &ReplicaSet, unmet: &mut Vec<String>) {
    let title = title(&set.metadata);
    if set.metadata.deletion_timestamp.is_some() {
        unmet.push(format!("the ReplicaSet {title} is still being deleted"));
        return;
    }
    let pods = owned(books, &set.metadata);
    let active = pods.iter().filter(|pod| pod_state::is_active(pod)).count();
    let available = pods.iter().filter(|pod| is_available(pod)).count();
    let asked = set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    if Ok(active) != usize::try_from(asked) {
        unmet.push(format!("the ReplicaSet {title} has {active} Pods of {asked}"));
    }
    let status = set.status.clone().unwrap_or_default();
    let told = [
        ("replicas", Some(status.replicas), active),
        ("readyReplicas", status.ready_replicas, available),
        ("availableReplicas", status.available_replicas, available),
    ];
    for (field, told, count) in told {
        if usize::try_from(told.unwrap_or_default()) != Ok(count) {
            unmet.push(format!("the ReplicaSet {title} says {field}: {told:?}, and it is {count}"));
        }
    }
    if status.observed_generation != set.metadata.generation {
        unmet.push(format!("the ReplicaSet {title} was not looked at since it changed"));
    }
}

pub(super) fn deployment(books: &Books, deployment: &Deployment, unmet: &mut Vec<String>) {
    let title = title(&deployment.metadata);
    if deployment.metadata.deletion_timestamp.is_some() {
        unmet.push(format!("the Deployment {title} is still being deleted"));
        return;
    }
    let Some(spec) = &deployment.spec else { return };
    let is_its_own = |set: &&std::sync::Arc<ReplicaSet>| is_owned(&set.metadata, &deployment.metadata);
    let sets: Vec<_> = books.replica_sets.values().filter(is_its_own).collect();
    let asked = spec.replicas.unwrap_or(1);
    let replicas = |set: &ReplicaSet| set.spec.as_ref().and_then(|spec| spec.replicas).unwrap_or(1);
    let status = deployment.status.clone().unwrap_or_default();
    if status.observed_generation != deployment.metadata.generation {
        unmet.push(format!("the Deployment {title} was not looked at since it changed"));
    }
    let available: i32 = sets.iter().map(|set| {
        let available = owned(books, &set.metadata).iter().filter(|pod| is_available(pod)).count();
        i32::try_from(available).unwrap_or(i32::MAX)
    }).sum();
    if status.available_replicas.unwrap_or_default() != available {
        let told = status.available_replicas;
        unmet.push(format!("the Deployment {title} says availableReplicas: {told:?}, and it is {available}"));
    }
    // What is paused stays as it is, wherever that was.
    if spec.paused == Some(true) {
        return;
    }
    let is_new = |set: &ReplicaSet| {
        let template = set.spec.as_ref().and_then(|spec| spec.template.as_ref());
        let pod = template.and_then(|template| template.spec.as_ref());
        pod == spec.template.spec.as_ref()
    };
    let new: Vec<_> = sets.iter().filter(|set| is_new(set) && replicas(set) == asked).collect();
    let old = sets.iter().filter(|set| replicas(set) > 0).count() - usize::from(asked > 0 && !new.is_empty());
    if new.is_empty() || (old > 0) {
        let sets: Vec<String> = sets.iter().map(|set| format!("{}: {}", name(set), replicas(set))).collect();
        unmet.push(format!("the Deployment {title} is not rolled out to {asked}: {}", sets.join(", ")));
    }
    let kept = usize::try_from(spec.revision_history_limit.unwrap_or(10)).unwrap_or_default();
    if sets.len() > kept + 1 {
        unmet.push(format!("the Deployment {title} has {} old ReplicaSets and keeps {kept}", sets.len() - 1));
    }
}

fn name(set: &ReplicaSet) -> &str {
    set.metadata.name.as_deref().unwrap_or_default()
}
