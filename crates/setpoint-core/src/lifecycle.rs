//! The life of a Revision: which verb leads where, and what forbids it.
//!
//! ```text
//! Inactive ─stage→ Staged ─warm→ Warming ─seen ready→ Ready ─drain→ Draining ─seen empty→ Inactive ─archive→ Archived
//!                    ╰────────────┴──failed──→ Failed ─stage→ Staged
//! ```
//!
//! A verb only begins something. That it has come about is an observation: a warm whose instances were never seen ready
//! leaves a revision Warming for ever. A revision that is Ready and loses an instance is still Ready, with fewer ready
//! instances: the phase says that it was proven, the numbers say how it is.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use setpoint_api::revision::{ConfigSnapshot, RevisionPhase, RevisionSpec};
use thiserror::Error;

use crate::split::{Split, SplitError};

/// What happens to a revision: a verb, or an observation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Event {
    /// Prepare it.
    Stage,
    /// Start its instances.
    Warm,
    /// Let its instances finish, and stop them.
    Drain,
    /// Forget all but its record.
    Archive,
    /// Its instances were counted.
    Observed,
    /// Staging or warming it did not work.
    Failed,
}

/// What is known of a revision when something happens to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Life {
    pub phase: RevisionPhase,
    /// How many instances are wanted.
    pub asked: u32,
    /// How many exist, those that are stopping included.
    pub existing: u32,
    /// How many are ready.
    pub ready: u32,
}

/// Why a verb is refused, and what to do instead.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum LifecycleError {
    #[error("there is no revision {revision}: `kubectl get revisions` shows those there are")]
    RevisionNotFound { revision: String },
    #[error("{revision} is {phase} and cannot be warmed: stage it first")]
    NotStaged { revision: String, phase: RevisionPhase },
    #[error("{revision} is still draining: it can be staged again when its {instances} instances have stopped")]
    StillDraining { revision: String, instances: u32 },
    #[error("{revision} is archived and cannot come back: apply its template to the App again")]
    Archived { revision: String },
    #[error("{revision} gets {weight_bps} basis points of the traffic and cannot be drained: move its traffic first")]
    HasTraffic { revision: String, weight_bps: u32 },
    #[error("{revision} is {phase} and cannot be archived: drain it first")]
    StillRuns { revision: String, phase: RevisionPhase },
    #[error("{revision} failed and {instances} of its instances are still to stop: it can be archived when they have")]
    StillStops { revision: String, instances: u32 },
    #[error("{revision} stands in the split `{split}` and cannot be archived: remove it from the split first")]
    InSplit { revision: String, split: String },
}

/// What happens to the revision called `name`, by the one way that all callers go: unknown names are refused, except to
/// archive what is gone, which is done already. `None` is what is gone.
pub fn happen(
    revisions: &BTreeMap<String, Life>,
    name: &str,
    event: Event,
    splits: &[Split],
) -> Result<Option<RevisionPhase>, LifecycleError> {
    match revisions.get(name) {
        Some(life) => step(name, life, event, splits).map(Some),
        None if event == Event::Archive => Ok(None),
        None => Err(LifecycleError::RevisionNotFound { revision: name.to_owned() }),
    }
}

/// Where `event` leads the revision `name`. Every verb twice is as once.
pub fn step(name: &str, life: &Life, event: Event, splits: &[Split]) -> Result<RevisionPhase, LifecycleError> {
    match event {
        Event::Stage => stage(name, life),
        Event::Warm => warm(name, life),
        Event::Drain => drain(name, life, splits),
        Event::Archive => archive(name, life, splits),
        Event::Observed => Ok(observed(life)),
        Event::Failed => Ok(failed(life)),
    }
}

fn stage(name: &str, life: &Life) -> Result<RevisionPhase, LifecycleError> {
    use RevisionPhase::{Archived, Draining, Failed, Inactive, Ready, Staged, Warming};
    let revision = name.to_owned();
    match life.phase {
        Inactive | Failed | Staged => Ok(Staged),
        Warming => Ok(Warming),
        Ready => Ok(Ready),
        Draining => Err(LifecycleError::StillDraining { revision, instances: life.existing }),
        Archived => Err(LifecycleError::Archived { revision }),
    }
}

fn warm(name: &str, life: &Life) -> Result<RevisionPhase, LifecycleError> {
    use RevisionPhase::{Archived, Draining, Failed, Inactive, Ready, Staged, Warming};
    let revision = name.to_owned();
    match life.phase {
        Staged | Warming => Ok(Warming),
        Ready => Ok(Ready),
        Inactive | Failed => Err(LifecycleError::NotStaged { revision, phase: life.phase }),
        Draining => Err(LifecycleError::StillDraining { revision, instances: life.existing }),
        Archived => Err(LifecycleError::Archived { revision }),
    }
}

fn drain(name: &str, life: &Life, splits: &[Split]) -> Result<RevisionPhase, LifecycleError> {
    use RevisionPhase::{Archived, Draining, Failed, Inactive, Ready, Staged, Warming};
    if let Some(split) = splits.iter().find(|split| split.weight(name) > 0) {
        return Err(LifecycleError::HasTraffic { revision: name.to_owned(), weight_bps: split.weight(name) });
    }
    match life.phase {
        Staged | Warming | Ready | Draining => Ok(Draining),
        done @ (Inactive | Failed | Archived) => Ok(done),
    }
}

fn archive(name: &str, life: &Life, splits: &[Split]) -> Result<RevisionPhase, LifecycleError> {
    use RevisionPhase::{Archived, Draining, Failed, Inactive, Ready, Staged, Warming};
    let revision = name.to_owned();
    if let Some(split) = splits.iter().find(|split| split.names(name)) {
        return Err(LifecycleError::InSplit { revision, split: split.to_string() });
    }
    match life.phase {
        Inactive | Archived => Ok(Archived),
        Failed if life.existing == 0 => Ok(Archived),
        Failed => Err(LifecycleError::StillStops { revision, instances: life.existing }),
        Staged | Warming | Ready | Draining => Err(LifecycleError::StillRuns { revision, phase: life.phase }),
    }
}

fn observed(life: &Life) -> RevisionPhase {
    match life.phase {
        // Where nothing was asked for, nothing was proven.
        RevisionPhase::Warming if life.ready >= life.asked && life.ready > 0 => RevisionPhase::Ready,
        RevisionPhase::Draining if life.existing == 0 => RevisionPhase::Inactive,
        same => same,
    }
}

fn failed(life: &Life) -> RevisionPhase {
    match life.phase {
        RevisionPhase::Inactive | RevisionPhase::Staged | RevisionPhase::Warming => RevisionPhase::Failed,
        same => same,
    }
}

/// What a router must know of one revision.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RuntimeBlock {
    pub revision: String,
    pub weight_bps: u32,
    pub environment: String,
    pub digest: String,
    pub drain_seconds: u32,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub config: Vec<ConfigSnapshot>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub parameters: BTreeMap<String, String>,
}

impl fmt::Display for RuntimeBlock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {} in {}", self.revision, self.weight_bps, self.environment)
    }
}

/// What a router must know of an App: a block for each entry of the split, in its order; nothing where there is no split.
pub fn runtime_config(
    app: &str,
    split: Option<&Split>,
    revisions: &BTreeMap<String, RevisionSpec>,
) -> Result<Vec<RuntimeBlock>, SplitError> {
    let block = |revision: &str, weight_bps: u32| {
        let Some(spec) = revisions.get(revision) else {
            return Err(SplitError::RevisionNotFound { app: app.to_owned(), revision: revision.to_owned() });
        };
        if spec.app_ref.name != app {
            let owner = spec.app_ref.name.clone();
            return Err(SplitError::ForeignRevision { app: app.to_owned(), revision: revision.to_owned(), owner });
        }
        Ok(RuntimeBlock {
            revision: revision.to_owned(),
            weight_bps,
            environment: spec.environment.clone(),
            digest: spec.digest.clone(),
            drain_seconds: spec.drain_seconds,
            config: spec.config.clone(),
            parameters: spec.parameters.clone(),
        })
    };
    let entries = split.map(Split::entries).unwrap_or_default();
    entries.iter().map(|entry| block(&entry.revision, entry.weight_bps)).collect()
}
