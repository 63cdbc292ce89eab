//! Everything in Setpoint that decides, as pure functions over data.
//!
//! Nothing here does I/O, reads a clock, draws a random number or depends on hash order: time, ids and keys come in as
//! arguments, and the same input gives the same bytes.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`value`], [`registry`], [`observation`], [`desired`] | the data: desired and observed, field by field |
//! | [`machine`] | what a Machine desires |
//! | [`diff`] | what differs, through each field's normalizer |
//! | [`plan`] | the steps to take, in order, and what waits or is refused |
//! | [`classify`] | what a step could cost: nothing, downtime, money, data |
//! | [`gate`] | which steps may run now |
//! | [`authority`] | which steps of an object may be taken, by the leave of which change set |
//! | [`check`] | whether a change set is sound, without asking the planner |
//! | [`drift`] | what differs, since when, muted or not |
//! | [`orphan`] | which guests of ours belong to nothing |
//! | [`intent`] | what became of a call whose answer was lost |
//! | [`split`], [`lifecycle`], [`rollout`] | which revision serves how much, and what comes next |
//! | [`workload`] | what ReplicaSets and Deployments do next |
//! | [`service`] | which Pods are behind a Service, and what tells of them |
//! | [`scheduling`] | which node a Pod is put on, and why on none |
//! | [`node_lifecycle`] | what becomes of a node that falls silent, and of its Pods |
//! | [`leadership`] | who of several acts |
//! | [`pod`] | what becomes of a Pod where it runs |
//! | [`version`], [`resolve`], [`graph`] | which Plan serves a Goal; whether its graph is sound |
//! | [`conditions`] | when a condition's transition time moves |
//! | [`derived_name`] | names that follow from what an object is for |
//! | [`digest`] | a name for exactly this content |
//! | [`count`] | how many there are, in words |

pub mod authority;
pub mod check;
pub mod classify;
pub mod conditions;
pub mod count;
mod cycles;
pub mod derived_name;
pub mod desired;
pub mod diff;
pub mod digest;
pub mod drift;
pub mod gate;
pub mod graph;
pub mod intent;
mod labels;
pub mod leadership;
pub mod lifecycle;
pub mod machine;
pub mod node_lifecycle;
pub mod observation;
pub mod order;
pub mod orphan;
pub mod plan;
pub mod pod;
pub mod registry;
pub mod resolve;
pub mod rollout;
pub mod scheduling;
pub mod service;
pub mod split;
pub mod value;
pub mod version;
pub mod workload;
