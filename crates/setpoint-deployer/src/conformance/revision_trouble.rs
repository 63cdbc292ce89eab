//! What a revision is left with when its caller dies, is one of many, or is not answered.

use futures::future::try_join_all;
use setpoint_api::revision::RevisionPhase;
use tokio::time::Instant;

use super::record::Record;
use super::revision_life::nothing_left;
use super::trial::{SHORT, SLACK, broken, crash_after, ensure};
use super::{Kind, Trial, Trouble, Verdict};
use crate::error::{Error, Retry};

/// How many moments of one call a caller dies in, at most.
const MOMENTS: usize = 20;

async fn staged(trial: &Trial<'_>, app: &str) -> Verdict<Record> {
    let mut record = Record::of(trial, app, Kind::Ordinary, 30)?;
    let revision = format!("{app}-1");
    trial.deployer()?.stage(&record.0, &revision, "stage").await?;
    record.set_phase(&revision, RevisionPhase::Staged);
    Ok(record)
}

/// Asks until it is done, and then there are as many as were asked for.
async fn warm_in_the_end(trial: &Trial<'_>, record: &mut Record, revision: &str) -> Verdict {
    let deployer = trial.deployer()?;
    trial.until_done(async || deployer.warm(&record.0, revision, "warm").await).await?;
    record.wait_ready(trial, revision).await
}

pub async fn a_crash_within_a_warm_leaves_as_many_as_were_asked_for(trial: &Trial<'_>) -> Verdict {
    for moment in 0..MOMENTS {
        let app = format!("at-{moment}");
        let revision = format!("{app}-1");
        let mut record = staged(trial, &app).await?;
        let deployer = trial.deployer()?;
        let done = crash_after(moment, deployer.warm(&record.0, &revision, "warm")).await;
        warm_in_the_end(trial, &mut record, &revision).await?;
        record.set_phase(&revision, RevisionPhase::Inactive);
        trial.deployer()?.archive(&record.0, &revision).await?;
        nothing_left(trial, &record, &revision).await?;
        if done.is_some() {
            break;
        }
    }
    Ok(())
}

pub async fn a_crash_within_an_archive_is_mended_by_asking_again(trial: &Trial<'_>) -> Verdict {
    for moment in 0..MOMENTS {
        let app = format!("at-{moment}");
        let revision = format!("{app}-1");
        let mut record = staged(trial, &app).await?;
        warm_in_the_end(trial, &mut record, &revision).await?;
        record.set_phase(&revision, RevisionPhase::Inactive);
        let deployer = trial.deployer()?;
        let done = crash_after(moment, deployer.archive(&record.0, &revision)).await;
        let deployer = trial.deployer()?;
        trial.until_done(async || deployer.archive(&record.0, &revision).await).await?;
        nothing_left(trial, &record, &revision).await?;
        if done.is_some() {
            break;
        }
    }
    Ok(())
}

pub async fn many_callers_of_one_warm_leave_as_many_as_were_asked_for(trial: &Trial<'_>) -> Verdict {
    let mut record = staged(trial, "web").await?;
    let callers = (0..6).map(|_| async {
        let deployer = trial.deployer()?;
        trial.until_done(async || deployer.warm(&record.0, "web-1", "warm").await).await
    });
    try_join_all(callers).await?;
    record.wait_ready(trial, "web-1").await
}

pub async fn a_lost_answer_to_a_warm_leaves_as_many_as_were_asked_for(trial: &Trial<'_>) -> Verdict {
    let mut record = staged(trial, "web").await?;
    let faults = trial.trouble(Trouble::LoseAnswer)?;
    let first = trial.impatient_deployer()?.warm(&record.0, "web-1", "warm").await;
    faults.end();
    if let Err(error) = &first {
        ensure!(error.retry() != Retry::Never, "a lost answer was taken for the last word: {error}");
    }
    warm_in_the_end(trial, &mut record, "web-1").await
}

pub async fn half_a_warm_is_mended_by_asking_again(trial: &Trial<'_>) -> Verdict {
    let mut record = staged(trial, "web").await?;
    let faults = trial.trouble(Trouble::FailHalfway)?;
    let first = trial.deployer()?.warm(&record.0, "web-1", "warm").await;
    faults.end();
    if first.is_ok() {
        return broken("half a warm was told to be a whole one");
    }
    warm_in_the_end(trial, &mut record, "web-1").await
}

pub async fn a_dead_place_is_given_up_on_in_time(trial: &Trial<'_>) -> Verdict {
    let mut record = staged(trial, "web").await?;
    let faults = trial.trouble(Trouble::Dead)?;
    let deployer = trial.impatient_deployer()?;
    let asked = Instant::now();
    let answers = [deployer.observe(&record.0.app).await.map(drop), deployer.warm(&record.0, "web-1", "warm").await];
    let took = asked.elapsed();
    faults.end();
    ensure!(took < SHORT * 4 + SLACK, "two calls of {SHORT:?} each took {took:?}");
    for answer in answers {
        let Err(error) = answer else { return broken("a call that nobody answered was told to be done") };
        ensure!(
            matches!(&error, Error::Provider(_)) && error.retry() == Retry::BackOff,
            "a call that nobody answered gave: {error}"
        );
    }
    warm_in_the_end(trial, &mut record, "web-1").await
}
