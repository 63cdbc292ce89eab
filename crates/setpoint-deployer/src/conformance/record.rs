//! What is on record of an App that the suite plays with, kept as a controller would keep it.

use k8s_openapi::api::core::v1::{EnvVar, PodTemplateSpec};
use setpoint_api::revision::{AppRef, RevisionPhase, RevisionSpec};
use setpoint_api::traffic_split::SplitEntry;
use setpoint_core::split::Split;

use super::trial::{ensure, not_applicable};
use super::{Kind, Seen, Trial, Verdict};
use crate::checked::Checked;
use crate::deployer::{AppName, Deployment, KnownRevision, ObservedRevision};
use crate::error::{Error, Result, SpecError};
use crate::provider::Body;

/// An App, its two revisions `APP-1` and `APP-2`, and a strange one, `other-1`, that is another App's.
#[derive(Debug, Clone)]
pub(super) struct Record(pub Deployment);

pub(super) const REPLICAS: u32 = 2;

impl Record {
    pub(super) fn of(trial: &Trial<'_>, app: &str, kind: Kind, drain_seconds: u32) -> Verdict<Record> {
        // A place that has no deployer says so before anything else.
        trial.deployer()?;
        let revision = |of: &str, number: u64| -> Verdict<(String, KnownRevision)> {
            let name = format!("{of}-{number}");
            let spec = RevisionSpec {
                app_ref: AppRef { name: of.to_owned(), uid: None },
                number,
                environment: "conformance".to_owned(),
                template: template(trial, &name, kind)?,
                config: Vec::new(),
                parameters: [("number".to_owned(), number.to_string())].into(),
                drain_seconds,
                digest: format!("digest-of-{name}"),
            };
            let uid = format!("uid-{name}");
            let phase = RevisionPhase::Inactive;
            Ok((name, KnownRevision { uid, spec, phase, replicas: REPLICAS, existing: 0, ready: 0 }))
        };
        let revisions = [revision(app, 1)?, revision(app, 2)?, revision("other", 1)?].into();
        let app = AppName { namespace: "shop".to_owned(), name: app.to_owned() };
        Ok(Record(Deployment { app, revisions, split: None }))
    }

    pub(super) fn set_phase(&mut self, revision: &str, phase: RevisionPhase) {
        if let Some(known) = self.0.revisions.get_mut(revision) {
            known.phase = phase;
        }
    }

    pub(super) fn set_split(&mut self, entries: &[(&str, u32)]) {
        self.0.split = Some(split(entries));
    }

    /// Stages and warms a revision, waits until it is ready, and puts that on record.
    pub(super) async fn warm(&mut self, trial: &Trial<'_>, revision: &str) -> Verdict {
        trial.deployer()?.stage(&self.0, revision, "stage").await?;
        self.set_phase(revision, RevisionPhase::Staged);
        trial.deployer()?.warm(&self.0, revision, "warm").await?;
        self.wait_ready(trial, revision).await
    }

    /// Waits until as many instances as asked for are observed ready, and seen by the witness; no more and no fewer.
    pub(super) async fn wait_ready(&mut self, trial: &Trial<'_>, revision: &str) -> Verdict {
        let ready = async || {
            let observed = self.observe(trial, revision).await?;
            Ok(observed.ready == REPLICAS && observed.running == REPLICAS)
        };
        trial.eventually(&format!("{revision} is ready"), ready).await?;
        let seen = self.seen(trial, revision).await;
        let running = seen.iter().filter(|seen| seen.running).count();
        ensure!(
            running == REPLICAS as usize && seen.len() == running,
            "{REPLICAS} instances of {revision} were asked for, and the witness sees {seen:?}"
        );
        self.set_phase(revision, RevisionPhase::Ready);
        Ok(())
    }

    /// Waits until nothing of a revision runs, and puts that on record.
    pub(super) async fn wait_empty(&mut self, trial: &Trial<'_>, revision: &str) -> Verdict {
        let empty = async || {
            let ObservedRevision { running, draining, .. } = self.observe(trial, revision).await?;
            let is_seen = self.seen(trial, revision).await.iter().any(|seen| seen.running);
            Ok(running == 0 && draining == 0 && !is_seen)
        };
        trial.eventually(&format!("nothing of {revision} runs"), empty).await?;
        self.set_phase(revision, RevisionPhase::Inactive);
        Ok(())
    }

    pub(super) async fn observe(&self, trial: &Trial<'_>, revision: &str) -> Verdict<ObservedRevision> {
        let observed = trial.deployer()?.observe(&self.0.app).await?;
        Ok(observed.revisions.get(revision).cloned().unwrap_or_default())
    }

    pub(super) async fn observed_split(&self, trial: &Trial<'_>) -> Verdict<Option<Vec<SplitEntry>>> {
        Ok(trial.deployer()?.observe(&self.0.app).await?.split)
    }

    /// The split on record, as finely as the deployer can divide traffic.
    pub(super) fn rounded_split(&self, deployer: &Checked) -> Verdict<Option<Vec<SplitEntry>>> {
        let Some(entries) = &self.0.split else { return Ok(None) };
        let split = Split::new(entries.clone()).map_err(|error| Error::from(SpecError::from(error)))?;
        Ok(Some(split.rounded(deployer.granularity()).into_entries()))
    }

    /// What the witness sees of a revision.
    pub(super) async fn seen(&self, trial: &Trial<'_>, revision: &str) -> Vec<Seen> {
        let uid = self.0.revisions.get(revision).map(|known| known.uid.as_str()).unwrap_or_default();
        let is_its = |seen: &Seen| seen.mark.as_ref().is_some_and(|mark| *mark.owner_uid == *uid);
        trial.seen().await.into_iter().filter(is_its).collect()
    }

    pub(super) async fn drain(&self, deployer: &Checked, revision: &str) -> Result<()> {
        deployer.drain(&self.0, revision, "drain").await
    }
}

pub(super) fn split(entries: &[(&str, u32)]) -> Vec<SplitEntry> {
    let entry = |&(revision, weight_bps): &(&str, u32)| SplitEntry { revision: revision.to_owned(), weight_bps };
    entries.iter().map(entry).collect()
}

/// What the subject would order for an instance, as a template says it.
fn template(trial: &Trial<'_>, name: &str, kind: Kind) -> Verdict<PodTemplateSpec> {
    let Body::Pod(pod) = trial.subject.order(name, "template", kind).body else {
        return not_applicable("its instances are no Pods");
    };
    let mut spec = pod.spec;
    for container in &mut spec.containers {
        let variables = pod.variables.get(&container.name).map(|variables| variables.0.as_slice());
        let variable = |(name, value): &(String, String)| EnvVar {
            name: name.clone(),
            value: Some(value.clone()),
            value_from: None,
        };
        container.env = Some(variables.unwrap_or_default().iter().map(variable).collect());
    }
    Ok(PodTemplateSpec { metadata: None, spec: Some(spec) })
}
