//! The one way to a deployer: what is wrong with a request is refused here, before the deployer hears of it.

use std::collections::BTreeMap;
use std::sync::Arc;

use setpoint_api::traffic_split::SplitEntry;
use setpoint_core::lifecycle::{self, Event, Life, LifecycleError};
use setpoint_core::split::{self, Granularity, Split, SplitError};

use crate::deployer::{
    AppName, Applied, Deployer, Deployment, KnownRevision, ObservedApp, RevisionOrder, RuntimeConfig,
};
use crate::error::{Error, Fault, Operation, Result, SpecError};
use crate::guard::{Deadlines, within};
use crate::provider::Answer;

/// A deployer behind the rules that hold for all. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Checked {
    deployer: Arc<dyn Deployer>,
    deadlines: Deadlines,
}

impl Checked {
    pub fn new(deployer: Arc<dyn Deployer>) -> Checked {
        Checked::with_deadlines(deployer, Deadlines::default())
    }

    pub fn with_deadlines(deployer: Arc<dyn Deployer>, deadlines: Deadlines) -> Checked {
        Checked { deployer, deadlines }
    }

    /// How finely it can divide traffic.
    pub fn granularity(&self) -> Granularity {
        self.deployer.granularity()
    }

    pub async fn observe(&self, app: &AppName) -> Result<ObservedApp> {
        let answer = within(self.deadlines.observe, self.deployer.observe(app)).await;
        answer
            .unwrap_or_else(|late| Err(Error::provider(Operation::Observe, &app.to_string(), Fault::Unreachable, late)))
    }

    pub async fn stage(&self, deployment: &Deployment, revision: &str, intent: &str) -> Result<()> {
        let order = deployment.order(revision, Event::Stage, intent)?;
        self.change(Operation::Stage, revision, self.deployer.stage(&order)).await
    }

    pub async fn warm(&self, deployment: &Deployment, revision: &str, intent: &str) -> Result<()> {
        let order = deployment.order(revision, Event::Warm, intent)?;
        self.change(Operation::Warm, revision, self.deployer.warm(&order)).await
    }

    /// Refused while the split on record sends the revision traffic.
    pub async fn drain(&self, deployment: &Deployment, revision: &str, intent: &str) -> Result<()> {
        let order = deployment.order(revision, Event::Drain, intent)?;
        self.change(Operation::Drain, revision, self.deployer.drain(&order)).await
    }

    /// Refused while the split on record names the revision. What is no longer on record can still be archived.
    pub async fn archive(&self, deployment: &Deployment, revision: &str) -> Result<()> {
        deployment.allow(revision, Event::Archive)?;
        self.change(Operation::Archive, revision, self.deployer.archive(&deployment.app, revision)).await
    }

    /// Applies the split on record.
    pub async fn apply_split(&self, deployment: &Deployment) -> Result<Applied> {
        let split = deployment.split()?.rounded(self.deployer.granularity());
        let target = deployment.app.to_string();
        self.change(Operation::ApplySplit, &target, self.deployer.apply_split(&deployment.app, &split)).await
    }

    pub async fn runtime_config(&self, deployment: &Deployment) -> Result<RuntimeConfig> {
        match deployment.split {
            Some(_) => deployment.split().map(drop)?,
            None => return Ok(RuntimeConfig::default()),
        }
        let target = deployment.app.to_string();
        self.change(Operation::RuntimeConfig, &target, self.deployer.runtime_config(deployment)).await
    }

    async fn change<T>(&self, operation: Operation, target: &str, call: Answer<'_, T>) -> Result<T> {
        within(self.deadlines.change, call)
            .await
            .unwrap_or_else(|late| Err(Error::provider(operation, target, Fault::Unanswered, late)))
    }
}

impl Deployment {
    /// A revision of this App.
    pub fn own(&self, revision: &str) -> Result<&KnownRevision> {
        let known = self.revisions.get(revision);
        let app = self.app.name.clone();
        match known {
            Some(known) if known.spec.app_ref.name == app => Ok(known),
            Some(known) => {
                let (revision, owner) = (revision.to_owned(), known.spec.app_ref.name.clone());
                Err(SpecError::from(SplitError::ForeignRevision { app, revision, owner }).into())
            }
            None => Err(SpecError::from(LifecycleError::RevisionNotFound { revision: revision.to_owned() }).into()),
        }
    }

    /// The split on record, if it can be applied.
    fn split(&self) -> Result<Split> {
        self.valid_split().map_err(|error| SpecError::from(error).into())
    }

    fn valid_split(&self) -> std::result::Result<Split, SplitError> {
        let app = &self.app.name;
        let entries: Vec<SplitEntry> =
            self.split.clone().ok_or_else(|| SplitError::SplitNotFound { app: app.clone() })?;
        let split = Split::new(entries)?;
        let known = |(name, known): (&String, &KnownRevision)| {
            (name.clone(), split::KnownRevision { app: known.spec.app_ref.name.clone(), phase: known.phase })
        };
        split.check(app, &self.revisions.iter().map(known).collect())?;
        Ok(split)
    }

    /// Whether a revision's life allows what is to happen to it. A record of a split that is itself wrong names no
    /// revision safely, so then nothing is drained or archived.
    fn allow(&self, revision: &str, event: Event) -> Result<()> {
        if self.revisions.contains_key(revision) || event != Event::Archive {
            self.own(revision)?;
        }
        let split = match (&self.split, event) {
            (Some(entries), Event::Drain | Event::Archive) => {
                Some(Split::new(entries.clone()).map_err(SpecError::from)?)
            }
            _ => None,
        };
        let life = |(name, known): (&String, &KnownRevision)| {
            let KnownRevision { phase, replicas, existing, ready, .. } = *known;
            (name.clone(), Life { phase, asked: replicas, existing, ready })
        };
        let lives: BTreeMap<String, Life> = self.revisions.iter().map(life).collect();
        lifecycle::happen(&lives, revision, event, split.as_slice()).map_err(SpecError::from)?;
        Ok(())
    }

    fn order(&self, revision: &str, event: Event, intent: &str) -> Result<RevisionOrder> {
        self.allow(revision, event)?;
        let known = self.own(revision)?;
        Ok(RevisionOrder {
            app: self.app.clone(),
            name: revision.to_owned(),
            uid: known.uid.clone(),
            spec: known.spec.clone(),
            replicas: known.replicas,
            intent: intent.to_owned(),
        })
    }
}
