//! Which node a Pod is put on, and if none, why not.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`board`] | what there is: nodes, and what is placed on each, kept in step change by change |
//! | [`place`] | the node for a Pod: of those that it fits on, the best |
//! | [`refusal`] | why a Pod fits nowhere, in Kubernetes' words |
//! | [`resources`] | what a Pod asks for and a node has |
//! | [`node_affinity`], [`tolerations`] | which nodes a Pod wants, and which put it off |
//! | [`terms`], [`spread`] | where a Pod wants to be among other Pods |
//!
//! Nobody is driven out for another: there is no preemption. Nothing is counted anew: what is placed is added and taken
//! away as it comes and goes, and what many Pods ask for is tallied once.

pub mod board;
pub mod node_affinity;
pub mod place;
pub mod refusal;
pub mod resources;
pub mod spread;
pub mod terms;
#[cfg(test)]
mod tests;
pub mod tolerations;

pub use board::{Board, NodeState};
pub use place::place;
pub use refusal::Refusal;
