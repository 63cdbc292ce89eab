//! The controllers of Setpoint: glue between the Kubernetes API, the pure core and the deployers.
//!
//! | module | what it does |
//! | --- | --- |
//! | [`node`] | runs the Pods of a node through a provider, and tells of them as a kubelet does |
//! | [`replica_set`] | as many Pods of a template as are asked for |
//! | [`deployment`] | revisions of a template, one rolled out after the other |
//! | [`job`] | Pods until enough of them have succeeded |
//! | [`endpoints`] | who is behind each Service |
//! | [`change_set`] | the gatekeeper: previews, gates, reviews |
//! | [`notification`] | tells people that they are needed |
//! | [`environment`] | gives each Environment its Node and its agent |
//! | [`permission`] | what is asked before a step is taken |
//! | [`planning`] | what would be done for Machines, for those who do it and those who show it |
//! | [`machine`] | guests, each as its Machine wants it |
//! | [`goal`] | finds the Plan that serves each Goal |
//! | [`plan`] | says of each Plan whether it can be carried out |
//! | [`node_lifecycle`] | nodes that fall silent, and what becomes of their Pods |
//! | [`scheduler`] | puts Pods on nodes |
//! | [`signature`] | what cryptography says of a review |
//! | [`manager`] | all of them together |
//! | [`runtime`] | what all of them share: caches, queues, leadership |
//! | [`queue`] | work by key, for all of them |
//! | [`events`] | Events that people read, each told once |
//! | [`metrics`] | what they count |
//!
//! They reach the API with `kube` alone and do not know which server it is.

pub mod change_set;
pub mod deployment;
pub mod endpoints;
pub mod environment;
pub mod events;
pub mod goal;
pub mod job;
pub mod machine;
pub mod manager;
pub mod metrics;
pub mod node;
pub mod node_lifecycle;
pub mod notification;
mod ownership;
pub mod permission;
pub mod plan;
pub mod planning;
pub mod queue;
mod refusal;
pub mod replica_set;
pub mod runtime;
pub mod scheduler;
pub mod signature;

pub use manager::Manager;
pub use node::NodeAgent;
pub use scheduler::Scheduler;
