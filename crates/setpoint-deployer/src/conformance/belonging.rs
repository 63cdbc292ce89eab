//! What is ours is found again, and what is not is left alone.

use std::time::Duration;

use super::trial::{broken, ensure};
use super::{CLUSTER, Kind, Trial, Verdict, owner};
use crate::provider::{Provider, Scope};

pub async fn an_owner_who_lost_the_record_finds_the_instances(trial: &Trial<'_>) -> Verdict {
    trial.make("one", Kind::Ordinary).await?;
    trial.make("two", Kind::Ordinary).await?;
    let found = trial.provider().observe(&Scope::Owner(owner("one").into())).await?;
    ensure!(found.instances.len() == 1, "{} instances of the owner are found", found.instances.len());
    let everything = trial.provider().observe(&Scope::Everything).await?;
    ensure!(everything.instances.len() == 2, "{} of two instances are found", everything.instances.len());
    for instance in everything.instances {
        let id = &instance.guest.id;
        let Some(mark) = &instance.guest.mark else { return broken(format!("{id} carries no mark")) };
        ensure!(&*mark.cluster == CLUSTER && mark.intent.is_some(), "{id} carries only {mark:?}");
        trial.provider().delete("sweep", id).await?;
        trial.wait_gone(id).await?;
    }
    ensure!(trial.seen().await.is_empty(), "the sweep left {:?}", trial.seen().await);
    Ok(())
}

pub async fn what_is_foreign_is_shown_and_never_touched(trial: &Trial<'_>) -> Verdict {
    let foreign = trial.subject.plant_foreign().await;
    ensure!(trial.is_seen_running(&foreign).await, "the witness does not see {foreign}, which is not ours, running");
    let (order, own) = trial.make("one", Kind::Ordinary).await?;
    let Some(shown) = trial.observe_instance(&foreign).await? else {
        return broken(format!("{foreign}, which is not ours, is not shown"));
    };
    let is_ours = shown.guest.mark.is_some_and(|mark| &*mark.cluster == CLUSTER);
    ensure!(!is_ours, "{foreign} is taken for ours");
    // Whatever these say: what counts is what the witness sees then.
    let provider = trial.provider();
    let _ = provider.stop("end", &foreign, Duration::ZERO).await;
    let _ = provider.update("change", &foreign, &order).await;
    let deleted = provider.delete("remove", &foreign).await;
    ensure!(deleted.is_err(), "a delete of what is not ours was told to be done");
    provider.delete("remove", &own).await?;
    trial.wait_gone(&own).await?;
    ensure!(trial.is_seen_running(&foreign).await, "{foreign}, which is not ours, was touched");
    Ok(())
}

pub async fn a_neighbour_is_left_alone(trial: &Trial<'_>) -> Verdict {
    let (_, one) = trial.make("one", Kind::Ordinary).await?;
    let (_, two) = trial.make("one-two", Kind::Ordinary).await?;
    let (_, three) = trial.make("three", Kind::Ordinary).await?;
    let before = trial.observe_instance(&two).await?.map(|instance| instance.guest.mark);
    trial.provider().stop("end", &one, trial.subject.patience()).await?;
    trial.wait_ended(&one).await?;
    trial.provider().delete("remove", &one).await?;
    trial.provider().delete("remove", &three).await?;
    trial.wait_gone(&one).await?;
    trial.wait_gone(&three).await?;
    trial.wait_running(&two).await?;
    let after = trial.observe_instance(&two).await?.map(|instance| instance.guest.mark);
    ensure!(before == after, "a neighbour's mark was {before:?} and is {after:?}");
    Ok(())
}
