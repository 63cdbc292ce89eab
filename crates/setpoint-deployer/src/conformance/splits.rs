//! Who gets how much: what is returned is what is recorded and observed, and what cannot be is refused.

use setpoint_core::split::SplitError;

use super::record::{Record, split};
use super::trial::{broken, ensure};
use super::{Kind, Trial, Verdict};
use crate::deployer::RuntimeConfig;
use crate::error::{Error, SpecError};

/// An App with two ready revisions, of which the first has all the traffic.
async fn serving(trial: &Trial<'_>, app: &str) -> Verdict<Record> {
    let mut record = Record::of(trial, app, Kind::Ordinary, 30)?;
    record.warm(trial, &format!("{app}-1")).await?;
    record.warm(trial, &format!("{app}-2")).await?;
    record.set_split(&[(&format!("{app}-1"), 10_000)]);
    trial.deployer()?.apply_split(&record.0).await?;
    ensure!(record.observed_split(trial).await? == record.0.split, "a split of everything to one is not observed");
    Ok(record)
}

pub async fn the_split_returned_is_the_one_recorded_and_observed(trial: &Trial<'_>) -> Verdict {
    let mut record = serving(trial, "web").await?;
    for weight in [5_000, 2_500, 10_000, 0] {
        record.set_split(&[("web-2", weight), ("web-1", 10_000 - weight)]);
        let applied = trial.deployer()?.apply_split(&record.0).await?;
        ensure!(applied.app == record.0.app, "a split of {} was told to be one of {}", record.0.app, applied.app);
        let (observed, returned) = (record.observed_split(trial).await?, Some(applied.entries));
        let recorded = record.rounded_split(&trial.deployer()?)?;
        ensure!(
            returned == recorded && observed == recorded,
            "{recorded:?} is on record, {returned:?} was returned, and {observed:?} is observed"
        );
    }
    Ok(())
}

pub async fn a_split_outlives_its_caller(trial: &Trial<'_>) -> Verdict {
    let mut record = serving(trial, "web").await?;
    record.set_split(&[("web-1", 5_000), ("web-2", 5_000)]);
    let deployer = trial.deployer()?;
    deployer.apply_split(&record.0).await?;
    drop(deployer);
    let observed = record.observed_split(trial).await?;
    ensure!(observed == record.rounded_split(&trial.deployer()?)?, "after a crash the split is {observed:?}");
    Ok(())
}

pub async fn a_siblings_instances_and_split_are_left_alone(trial: &Trial<'_>) -> Verdict {
    let mut sibling = serving(trial, "web-shop").await?;
    let mut record = serving(trial, "web").await?;
    record.set_split(&[("web-2", 10_000)]);
    trial.deployer()?.apply_split(&record.0).await?;
    record.drain(&trial.deployer()?, "web-1").await?;
    record.wait_empty(trial, "web-1").await?;
    trial.deployer()?.archive(&record.0, "web-1").await?;
    super::revision_life::nothing_left(trial, &record, "web-1").await?;
    let observed = sibling.observed_split(trial).await?;
    ensure!(observed == sibling.0.split, "a sibling's split became {observed:?}");
    sibling.wait_ready(trial, "web-shop-1").await?;
    sibling.wait_ready(trial, "web-shop-2").await
}

pub async fn a_split_that_does_not_add_up_is_refused(trial: &Trial<'_>) -> Verdict {
    let is_told = |error: &SplitError| matches!(error, SplitError::InvalidSplit { sum: 9_999 | 10_001 | 0 });
    for entries in [split(&[("web-1", 9_999)]), split(&[("web-1", 5_000), ("web-2", 5_001)]), split(&[])] {
        refuses(trial, Some(entries), is_told).await?;
    }
    Ok(())
}

/// Weights that are 10 000 together in 32 bits, and are not in truth.
pub async fn a_sum_is_made_in_64_bits(trial: &Trial<'_>) -> Verdict {
    let entries = split(&[("web-1", u32::MAX), ("web-2", 10_001)]);
    refuses(trial, Some(entries), |error| {
        matches!(error, SplitError::WeightTooLarge { .. } | SplitError::InvalidSplit { sum: 4_294_977_296 })
    })
    .await
}

pub async fn a_weight_above_the_whole_is_refused(trial: &Trial<'_>) -> Verdict {
    let entries = split(&[("web-1", 10_001)]);
    refuses(trial, Some(entries), |error| matches!(error, SplitError::WeightTooLarge { .. })).await
}

pub async fn a_revision_twice_in_a_split_is_refused(trial: &Trial<'_>) -> Verdict {
    let entries = split(&[("web-1", 5_000), ("web-1", 5_000)]);
    refuses(trial, Some(entries), |error| matches!(error, SplitError::RevisionTwice { .. })).await
}

pub async fn a_split_with_an_unknown_revision_is_refused(trial: &Trial<'_>) -> Verdict {
    let entries = split(&[("web-1", 5_000), ("web-999", 5_000)]);
    refuses(trial, Some(entries), |error| matches!(error, SplitError::RevisionNotFound { .. })).await
}

pub async fn a_split_with_a_strange_revision_is_refused(trial: &Trial<'_>) -> Verdict {
    let entries = split(&[("web-1", 5_000), ("other-1", 5_000)]);
    refuses(trial, Some(entries), |error| matches!(error, SplitError::ForeignRevision { .. })).await
}

pub async fn a_missing_split_is_refused(trial: &Trial<'_>) -> Verdict {
    refuses(trial, None, |error| matches!(error, SplitError::SplitNotFound { .. })).await
}

/// Such a split is refused, nothing is called, and the split in effect stays.
async fn refuses(
    trial: &Trial<'_>,
    entries: Option<Vec<setpoint_api::traffic_split::SplitEntry>>,
    is_told: impl Fn(&SplitError) -> bool,
) -> Verdict {
    let mut record = serving(trial, "web").await?;
    let before = record.0.split.clone();
    record.0.split = entries;
    let calls = trial.calls().await;
    match trial.deployer()?.apply_split(&record.0).await {
        Err(Error::Spec(SpecError::Split(error))) if is_told(&error) => {}
        Err(error) => return broken(format!("the error says something else: {error}")),
        Ok(applied) => return broken(format!("it was applied: {applied:?}")),
    }
    ensure!(trial.calls().await == calls, "the place was called all the same");
    let observed = record.observed_split(trial).await?;
    ensure!(observed == before, "the split in effect became {observed:?}");
    Ok(())
}

pub async fn the_runtime_configuration_is_the_split_in_order(trial: &Trial<'_>) -> Verdict {
    let mut record = serving(trial, "web").await?;
    record.set_split(&[("web-2", 1_000), ("web-1", 9_000)]);
    let mut config = trial.deployer()?.runtime_config(&record.0).await?;
    for block in &mut config.blocks {
        // The one thing that a provider may add.
        block.endpoints.clear();
    }
    let projected = RuntimeConfig::project(&record.0)?;
    ensure!(config == projected, "the configuration is {config:?} and not {projected:?}");
    let order: Vec<(&str, u32)> = config.blocks.iter().map(|block| (&*block.revision, block.weight_bps)).collect();
    ensure!(order == [("web-2", 1_000), ("web-1", 9_000)], "the blocks are {order:?}");
    Ok(())
}

pub async fn the_runtime_configuration_without_a_split_is_empty(trial: &Trial<'_>) -> Verdict {
    let mut record = serving(trial, "web").await?;
    record.0.split = None;
    let config = trial.deployer()?.runtime_config(&record.0).await?;
    ensure!(config == RuntimeConfig::default(), "without a split the configuration is {config:?}");
    Ok(())
}
