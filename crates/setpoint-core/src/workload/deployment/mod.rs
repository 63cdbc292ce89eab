//! What a Deployment does next: which ReplicaSets to create, scale and delete, and why nothing more.
//!
//! | module | what it decides |
//! | --- | --- |
//! | [`revision`] | numbers of revisions, what a new ReplicaSet looks like, history, undo |
//! | `family` | which ReplicaSet is new, which are old |
//! | `rolling`, `recreate` | the next step of a rollout |
//! | `scaling` | how a changed number of replicas is shared out while two revisions run |
//! | [`status`] | counts and conditions, the progress deadline |
//!
//! One call returns the steps of one round. After a step the ReplicaSets must have taken note of it before the rollout
//! goes on: numbers that do not speak of the present spec are not believed.

mod family;
mod recreate;
pub mod revision;
mod rolling;
mod scaling;
pub mod status;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::fmt;

use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec, ReplicaSet};
use k8s_openapi::api::core::v1::Pod;

use self::family::Family;
use super::int_or_percent::{Bounds, NotAPercentage};
use super::selection;

/// The steps of one round, and what the rest waits on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Decision {
    /// To be taken in this order; each may fail without harm.
    pub steps: Vec<Step>,
    /// What the Deployment's own `deployment.kubernetes.io/revision` must become, if it is not that.
    pub revision: Option<i64>,
    /// What the rollout waits on; nothing, if these steps are all there was to do.
    pub waits_on: Option<WaitsOn>,
}

/// One write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// Create the ReplicaSet of a new revision; [`revision::replica_set`] makes it.
    Create(NewReplicaSet),
    /// Bring the new ReplicaSet's annotations and `minReadySeconds` up to date.
    Update { name: String, annotations: BTreeMap<String, String>, min_ready_seconds: i32 },
    /// Set a ReplicaSet's size, and note in its annotations the size of the Deployment that it was set for.
    Scale { name: String, from: i64, to: i64, annotations: BTreeMap<String, String>, reason: Reason },
    /// Delete a ReplicaSet that history no longer keeps.
    Delete { name: String, revision: Option<i64> },
}

/// A ReplicaSet to create.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewReplicaSet {
    pub name: String,
    pub hash: String,
    pub replicas: i64,
    pub annotations: BTreeMap<String, String>,
}

/// Why a ReplicaSet is scaled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// The new revision grows into the room that `maxSurge` leaves.
    Surge,
    /// The new revision has more replicas than the Deployment.
    TooMany,
    /// Pods of an old revision that are not available anyway go first.
    Unhealthy,
    /// Enough pods of the new revision are available to give these up.
    Replaced,
    /// The Deployment was scaled, and this is the ReplicaSet that runs.
    Scaled,
    /// The Deployment was scaled while several revisions run: this is its share.
    Share,
    /// All pods of the new revision are available.
    Saturated,
    /// The strategy Recreate stops the old revision first.
    RecreateStop,
    /// The strategy Recreate has stopped the old revision.
    RecreateStart,
}

/// Why a Deployment does nothing more for now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WaitsOn {
    /// The ReplicaSet has not taken note of its last change.
    ReplicaSet(String),
    /// The ReplicaSet has more pods than it should: until they are deleted they take up room.
    Deletion { name: String, pods: i64, desired: i64 },
    /// The new revision's pods are not all available.
    Availability { available: i64, desired: i64 },
    /// Pods of the old revision are still there.
    OldPods,
    /// Somebody to resume the rollout.
    Resume,
    /// Nothing: the Deployment is being deleted.
    Deleted,
    /// A selector that selects something in particular.
    Selector,
    /// A strategy that exists.
    Strategy(String),
    /// `maxSurge` or `maxUnavailable` that can be understood.
    Bounds(NotAPercentage),
}

/// What a Deployment does next. `replica_sets` are those it owns and selects; `pods` are theirs, and needed by the
/// strategy Recreate alone.
pub fn decide(deployment: &Deployment, replica_sets: &[&ReplicaSet], pods: &[&Pod]) -> Decision {
    let Some(desired) = Desired::of(deployment) else { return Decision::default() };
    let family = Family::of(desired.spec, replica_sets);
    let mode = match desired.mode(&family) {
        Mode::Idle(waits_on) => return Decision::waiting(waits_on),
        mode => mode,
    };
    let revision = revision::to_note(&desired, &family);
    if let Some(update) = family.new.as_ref().and_then(|new| revision::update(&desired, &family, new)) {
        return Decision { steps: vec![update], revision, waits_on: None };
    }
    let mut decision = match mode {
        Mode::Scaling { .. } => scaling::scale(&desired, &family),
        Mode::Recreate => recreate::recreate(&desired, &family, pods),
        Mode::Rolling | Mode::Idle(_) => rolling::roll(&desired, &family),
    };
    let may_clean_up = matches!(mode, Mode::Scaling { is_paused: true }) || family.is_complete(desired.replicas);
    if decision.steps.is_empty() && may_clean_up {
        decision.steps = revision::beyond_history(&desired, &family);
    }
    if matches!(mode, Mode::Scaling { is_paused: true }) && decision.waits_on.is_none() {
        decision.waits_on = Some(WaitsOn::Resume);
    }
    Decision { revision, ..decision }
}

/// Whether [`decide`] looks at pods. The strategy Recreate waits for the end of each; others believe the ReplicaSets.
pub fn looks_at_pods(deployment: &Deployment) -> bool {
    Desired::of(deployment).is_some_and(|desired| desired.strategy() == "Recreate")
}

/// What a Deployment says it wants, in the terms of this directory.
#[derive(Debug, Clone, Copy)]
struct Desired<'a> {
    deployment: &'a Deployment,
    spec: &'a DeploymentSpec,
    replicas: i64,
}

/// What kind of round this is.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Mode {
    /// Only the number of replicas is served: it changed, or the rollout is paused.
    Scaling {
        is_paused: bool,
    },
    Rolling,
    Recreate,
    /// Nothing can be done.
    Idle(WaitsOn),
}

impl<'a> Desired<'a> {
    fn of(deployment: &'a Deployment) -> Option<Desired<'a>> {
        let spec = deployment.spec.as_ref()?;
        Some(Desired { deployment, spec, replicas: i64::from(spec.replicas.unwrap_or(1)).max(0) })
    }

    fn mode(&self, family: &Family<'_>) -> Mode {
        if self.deployment.metadata.deletion_timestamp.is_some() {
            return Mode::Idle(WaitsOn::Deleted);
        }
        if selection::is_empty(&self.spec.selector) {
            return Mode::Idle(WaitsOn::Selector);
        }
        let strategy = match self.strategy() {
            "RollingUpdate" => Mode::Rolling,
            "Recreate" => Mode::Recreate,
            other => return Mode::Idle(WaitsOn::Strategy(other.to_owned())),
        };
        if let Err(error) = self.checked_bounds() {
            return Mode::Idle(WaitsOn::Bounds(error));
        }
        if self.is_paused() {
            return Mode::Scaling { is_paused: true };
        }
        let was_scaled = family.active().any(|set| set.noted_desired().is_some_and(|noted| noted != self.replicas));
        if was_scaled { Mode::Scaling { is_paused: false } } else { strategy }
    }

    fn strategy(&self) -> &'a str {
        let strategy = self.spec.strategy.as_ref().and_then(|strategy| strategy.type_.as_deref());
        strategy.unwrap_or("RollingUpdate")
    }

    fn is_paused(&self) -> bool {
        self.spec.paused == Some(true)
    }

    fn checked_bounds(&self) -> Result<Bounds, NotAPercentage> {
        if self.strategy() != "RollingUpdate" {
            return Ok(Bounds::NONE);
        }
        let rolling = self.spec.strategy.as_ref().and_then(|strategy| strategy.rolling_update.as_ref());
        Bounds::of(rolling, self.replicas)
    }

    /// The bounds; those that cannot be understood allow nothing.
    fn bounds(&self) -> Bounds {
        self.checked_bounds().unwrap_or(Bounds::NONE)
    }

    /// The most pods there may be.
    fn max_total(&self) -> i64 {
        self.replicas + self.bounds().max_surge
    }

    /// The fewest pods that must be available.
    fn min_available(&self) -> i64 {
        self.replicas - self.bounds().max_unavailable
    }
}

impl Decision {
    fn waiting(waits_on: WaitsOn) -> Decision {
        Decision { waits_on: Some(waits_on), ..Decision::default() }
    }

    fn steps(steps: Vec<Step>) -> Decision {
        Decision { steps, ..Decision::default() }
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
        match (&self.waits_on, self.steps.is_empty()) {
            (Some(waits_on), _) => writeln!(f, "waits {waits_on}"),
            (None, true) => writeln!(f, "nothing to do"),
            (None, false) => Ok(()),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Create(new) => write!(f, "create {} with {} replicas", new.name, new.replicas),
            Step::Update { name, .. } => write!(f, "update the annotations of {name}"),
            Step::Scale { name, from, to, .. } if from == to => write!(f, "note the Deployment's size on {name}"),
            Step::Scale { name, from, to, reason, .. } => {
                let direction = if from < to { "up" } else { "down" };
                write!(f, "scale {direction} {name} from {from} to {to}: {reason}")
            }
            Step::Delete { name, revision: Some(revision) } => write!(f, "delete {name}, revision {revision}"),
            Step::Delete { name, revision: None } => write!(f, "delete {name}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Reason::Surge => "there is room for the new revision",
            Reason::TooMany => "it has more replicas than the Deployment",
            Reason::Unhealthy => "these pods are not available",
            Reason::Replaced => "enough pods are available without these",
            Reason::Scaled => "the Deployment was scaled",
            Reason::Share => "its share of the Deployment's new size",
            Reason::Saturated => "the new revision is complete",
            Reason::RecreateStop => "the old revision stops before the new one starts",
            Reason::RecreateStart => "the old revision has stopped",
        })
    }
}

impl fmt::Display for WaitsOn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            WaitsOn::ReplicaSet(name) => write!(f, "until {name} has taken note of its last change"),
            WaitsOn::Deletion { name, pods, desired } => {
                write!(f, "until {name} has deleted {} of its {pods} pods", pods - desired)
            }
            WaitsOn::Availability { available, desired } => {
                write!(f, "until more new pods are available: {available} of {desired}")
            }
            WaitsOn::OldPods => f.write_str("until the pods of the old revision are gone"),
            WaitsOn::Resume => f.write_str("until the rollout is resumed"),
            WaitsOn::Deleted => f.write_str("for nothing: it is being deleted"),
            WaitsOn::Selector => f.write_str("for a selector that is not empty"),
            WaitsOn::Strategy(strategy) => write!(f, "for a strategy other than {strategy:?}"),
            WaitsOn::Bounds(error) => write!(f, "for bounds that can be understood: {error}"),
        }
    }
}
