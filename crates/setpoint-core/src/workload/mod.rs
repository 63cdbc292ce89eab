//! What ReplicaSets, Deployments and Jobs do next, as Kubernetes 1.36 has it, from what is observed alone.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`selection`] | which objects are whose: kept, adopted, released, left alone |
//! | [`pod_state`] | what a pod's fields say: active, ready, available |
//! | [`ranking`] | which pods go first when there are too many |
//! | [`pod_name`] | how pods are called, so that none is made twice |
//! | [`replica_set`] | how many pods to create, which to delete; the status |
//! | [`template_hash`] | the name of a pod template |
//! | [`int_or_percent`] | `25%` of something, and the bounds of a rolling update |
//! | [`deployment`] | which ReplicaSets to create, scale and delete; the status; undo |
//! | [`job`] | which pods to create and delete until enough have succeeded; what is counted; the status |
//!
//! Objects come by reference and are never changed. What comes back is small, says why, and is the same for the same
//! input in whatever order it came.
//!
//! Two things are stricter here than in Kubernetes, so that the promises of `maxSurge` and `maxUnavailable` hold for
//! pods and not only for numbers: a rollout does not go on before each ReplicaSet has taken note of its last change,
//! and pods that are still to be deleted take up room.

pub mod deployment;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod int_or_percent;
pub mod job;
pub mod pod_name;
pub mod pod_state;
pub mod ranking;
pub mod replica_set;
pub mod selection;
pub mod template_hash;
