//! Deployments and ReplicaSets of processes on this machine, through the real binary.

mod cluster;
mod ownership;
mod probe;
mod rollout;
