//! A revision's life: staged, warm, drained, archived.

use std::time::Duration;

use setpoint_api::revision::RevisionPhase;
use tokio::time::Instant;

use super::record::{REPLICAS, Record};
use super::trial::{SLACK, broken, ensure};
use super::{Kind, Trial, Verdict};
use crate::error::{Error, SpecError};

const DRAIN_SECONDS: u32 = 2;
const LONG_DRAIN_SECONDS: u32 = 600;

pub async fn a_staged_revision_runs_nothing(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    // One that is warm, so that a place in which nothing ever runs is not taken for one that waits.
    record.warm(trial, "web-2").await?;
    trial.deployer()?.stage(&record.0, "web-1", "stage").await?;
    let observed = record.observe(trial, "web-1").await?;
    ensure!(observed.running == 0, "{} instances of a staged revision run", observed.running);
    ensure!(trial.running().await == REPLICAS as usize, "the witness sees {:?}", trial.seen().await);
    Ok(())
}

pub async fn a_warm_revision_runs_as_many_as_are_asked_for(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-1").await
}

pub async fn a_revision_lives_from_stage_to_archive(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-1").await?;
    record.warm(trial, "web-2").await?;
    record.set_split(&[("web-1", 10_000)]);
    trial.deployer()?.apply_split(&record.0).await?;
    record.set_split(&[("web-2", 10_000)]);
    trial.deployer()?.apply_split(&record.0).await?;
    record.drain(&trial.deployer()?, "web-1").await?;
    record.set_phase("web-1", RevisionPhase::Draining);
    record.wait_empty(trial, "web-1").await?;
    trial.deployer()?.archive(&record.0, "web-1").await?;
    nothing_left(trial, &record, "web-1").await?;
    record.wait_ready(trial, "web-2").await
}

pub async fn every_verb_of_a_revision_twice_is_as_once(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-1").await?;
    record.warm(trial, "web-1").await?;
    record.warm(trial, "web-2").await?;
    record.set_split(&[("web-2", 10_000)]);
    let first = trial.deployer()?.apply_split(&record.0).await?;
    let second = trial.deployer()?.apply_split(&record.0).await?;
    ensure!(first == second, "a split applied twice was {first:?} and then {second:?}");
    for _ in 0..2 {
        record.drain(&trial.deployer()?, "web-1").await?;
        record.set_phase("web-1", RevisionPhase::Draining);
    }
    record.wait_empty(trial, "web-1").await?;
    for _ in 0..2 {
        trial.deployer()?.archive(&record.0, "web-1").await?;
        nothing_left(trial, &record, "web-1").await?;
        record.set_phase("web-1", RevisionPhase::Archived);
    }
    record.wait_ready(trial, "web-2").await
}

pub async fn a_drained_revision_can_be_warmed_again(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    for _ in 0..2 {
        record.warm(trial, "web-1").await?;
        record.drain(&trial.deployer()?, "web-1").await?;
        record.wait_empty(trial, "web-1").await?;
    }
    Ok(())
}

pub async fn a_drain_ends_at_its_deadline(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Stubborn, DRAIN_SECONDS)?;
    record.warm(trial, "web-1").await?;
    let took = drained(trial, &mut record).await?;
    let deadline = Duration::from_secs(DRAIN_SECONDS.into());
    ensure!(took + Duration::from_millis(100) >= deadline, "instances had {deadline:?} and were gone after {took:?}");
    ensure!(took <= deadline + SLACK, "instances had {deadline:?} and ran for {took:?}");
    Ok(())
}

pub async fn a_drain_lets_instances_finish(trial: &Trial<'_>) -> Verdict {
    let need = Duration::from_secs(DRAIN_SECONDS.into());
    let mut record = Record::of(trial, "web", Kind::Lingering(need), LONG_DRAIN_SECONDS)?;
    record.warm(trial, "web-1").await?;
    let took = drained(trial, &mut record).await?;
    ensure!(took + Duration::from_millis(100) >= need, "instances needed {need:?} and were gone after {took:?}");
    ensure!(took <= need + SLACK, "instances needed {need:?} and ran for {took:?}");
    Ok(())
}

async fn drained(trial: &Trial<'_>, record: &mut Record) -> Verdict<Duration> {
    let asked = Instant::now();
    record.drain(&trial.deployer()?, "web-1").await?;
    record.set_phase("web-1", RevisionPhase::Draining);
    record.wait_empty(trial, "web-1").await?;
    Ok(asked.elapsed())
}

pub async fn an_archive_of_what_is_gone_is_done_already(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-2").await?;
    trial.deployer()?.archive(&record.0, "web-1").await?;
    trial.deployer()?.archive(&record.0, "web-999").await?;
    record.wait_ready(trial, "web-2").await
}

pub async fn verbs_of_a_revision_out_of_order_do_no_harm(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-2").await?;
    let deployer = trial.deployer()?;
    let calls = trial.calls().await;
    refused("a warm of what is not staged", deployer.warm(&record.0, "web-1", "warm").await)?;
    refused("an archive of what runs", deployer.archive(&record.0, "web-2").await)?;
    deployer.drain(&record.0, "web-1", "drain").await?;
    deployer.stage(&record.0, "web-2", "stage").await?;
    ensure!(trial.calls().await == calls, "the place was called to do what is done or cannot be");
    record.set_phase("web-1", RevisionPhase::Archived);
    refused("a stage of what is archived", deployer.stage(&record.0, "web-1", "stage").await)?;
    record.wait_ready(trial, "web-2").await
}

pub async fn an_unknown_revision_is_refused_before_anything_is_sent(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-1").await?;
    let deployer = trial.deployer()?;
    let calls = trial.calls().await;
    for revision in ["web-999", "other-1"] {
        refused("a stage of what is unknown", deployer.stage(&record.0, revision, "stage").await)?;
        refused("a warm of what is unknown", deployer.warm(&record.0, revision, "warm").await)?;
        refused("a drain of what is unknown", record.drain(&deployer, revision).await)?;
    }
    refused("an archive of another's", deployer.archive(&record.0, "other-1").await)?;
    ensure!(trial.calls().await == calls, "the place was called all the same");
    record.wait_ready(trial, "web-1").await
}

pub async fn a_drain_of_what_has_traffic_is_refused(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-1").await?;
    record.set_split(&[("web-1", 10_000)]);
    let deployer = trial.deployer()?;
    deployer.apply_split(&record.0).await?;
    let calls = trial.calls().await;
    refused("a drain of what has traffic", record.drain(&deployer, "web-1").await)?;
    ensure!(trial.calls().await == calls, "the place was called all the same");
    record.wait_ready(trial, "web-1").await
}

pub async fn an_archive_of_what_stands_in_the_split_is_refused(trial: &Trial<'_>) -> Verdict {
    let mut record = Record::of(trial, "web", Kind::Ordinary, 30)?;
    record.warm(trial, "web-1").await?;
    record.warm(trial, "web-2").await?;
    record.set_split(&[("web-1", 10_000), ("web-2", 0)]);
    let deployer = trial.deployer()?;
    deployer.apply_split(&record.0).await?;
    record.set_phase("web-2", RevisionPhase::Inactive);
    let calls = trial.calls().await;
    refused("an archive of what has traffic", deployer.archive(&record.0, "web-1").await)?;
    refused("an archive of what stands in the split", deployer.archive(&record.0, "web-2").await)?;
    ensure!(trial.calls().await == calls, "the place was called all the same");
    record.wait_ready(trial, "web-2").await
}

pub(super) async fn nothing_left(trial: &Trial<'_>, record: &Record, revision: &str) -> Verdict {
    let gone = async || {
        let observed = trial.deployer()?.observe(&record.0.app).await?;
        let is_observed = observed.revisions.get(revision).is_some_and(|of| of.running + of.draining > 0);
        Ok(!is_observed && record.seen(trial, revision).await.is_empty())
    };
    trial.eventually(&format!("nothing is left of {revision}"), gone).await
}

/// Refused for what is wrong with the request, in words that are about revisions and splits.
pub(super) fn refused<T>(what: &str, answer: Result<T, Error>) -> Verdict {
    match answer {
        Err(Error::Spec(SpecError::Lifecycle(_) | SpecError::Split(_))) => Ok(()),
        Err(error) => broken(format!("{what} gave: {error}")),
        Ok(_) => broken(format!("{what} was told to be done")),
    }
}
