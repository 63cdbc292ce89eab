//! `planspec.io/v1alpha1`: Goal, Plan and Gate, with the fields of the published PlanSpec documents.
//!
//! The documents apply unchanged: every published field is here under its published name, free-form values are kept as
//! they were written, and what we add (`status.candidates`) is beside them. Where the published rules refuse what the
//! published text promises (durations in days), the promise is kept.

pub mod context;
pub mod criterion;
pub mod duration;
pub mod gate;
pub mod goal;
pub mod node;
pub mod plan;
pub mod reference;

#[cfg(test)]
mod round_trip;
#[cfg(test)]
mod rules;
#[cfg(test)]
mod schemas;

pub use context::{ContextFormat, ContextItem};
pub use criterion::{Criterion, CriterionType, ExpectedResponse};
pub use duration::{Duration, DurationError};
pub use gate::{Gate, GatePhase, GateSpec, GateStatus, GateType};
pub use goal::{AcceptanceCriterion, Goal, GoalCandidate, GoalPhase, GoalSpec, GoalStatus};
pub use node::{Effort, ExternalReference, ExternalType, GroupMode, Node, NodeKind};
pub use plan::{Edge, EdgeType, Graph, Plan, PlanPhase, PlanSpec, PlanStatus};
pub use reference::{ObjectReference, ResourceReference};

/// The group of the PlanSpec documents.
pub const GROUP: &str = "planspec.io";
/// Their version.
pub const VERSION: &str = "v1alpha1";
