//! What is ours is found again, and what is not is left alone.

use std::time::Duration;

use setpoint_core::observation::Mark;

use super::trial::{broken, ensure, not_applicable};
use super::{CLUSTER, Kind, Trial, Verdict, mark, owner};
use crate::error::{Error, SpecError};
use crate::provider::{Order, Provider, Scope};

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

/// What an instance is adopted with: nothing that we did made it.
fn adoption(name: &str) -> Mark {
    Mark { intent: None, spec_digest: None, ..mark(name, "adopt") }
}

/// The mark of an instance, by what is observed and by what the witness sees.
async fn marked(trial: &Trial<'_>, id: &str) -> Verdict<Option<Mark>> {
    let Some(instance) = trial.observe_instance(id).await? else { return broken(format!("{id} is not observed")) };
    let witnessed = trial.seen().await.into_iter().find(|seen| *seen.id == *id).and_then(|seen| seen.mark);
    let made_by = |mark: &Option<Mark>| mark.as_ref().map(|mark| mark.intent.clone());
    let observed = instance.guest.mark;
    ensure!(made_by(&observed) == made_by(&witnessed), "{id} carries {witnessed:?}, and {observed:?} is observed");
    Ok(observed)
}

/// Something that was not ours and is adopted.
async fn adopt(trial: &Trial<'_>, name: &str) -> Verdict<Box<str>> {
    if !trial.provider().abilities().guests.adopts {
        return not_applicable("it adopts nothing");
    }
    let foreign = trial.subject.plant_foreign().await;
    trial.wait_running(&foreign).await?;
    trial.until_done(async || trial.provider().mark("adopt", &foreign, Some(&adoption(name))).await).await?;
    Ok(foreign)
}

pub async fn a_mark_twice_is_as_once(trial: &Trial<'_>) -> Verdict {
    let adopted = adopt(trial, "one").await?;
    trial.until_done(async || trial.provider().mark("adopt", &adopted, Some(&adoption("one"))).await).await?;
    let carried = marked(trial, &adopted).await?;
    let is_so = carried.as_ref().is_some_and(|mark| &*mark.cluster == CLUSTER && *mark.owner_uid == *owner("one"));
    ensure!(is_so, "{adopted} was adopted, and carries {carried:?}");
    let owned = trial.provider().observe(&Scope::Owner(owner("one").into())).await?.instances.len();
    ensure!(owned == 1, "{owned} instances of the owner are observed");
    for _ in 0..2 {
        trial.until_done(async || trial.provider().mark("release", &adopted, None).await).await?;
        let carried = marked(trial, &adopted).await?;
        ensure!(carried.is_none(), "{adopted} was released, and carries {carried:?}");
    }
    ensure!(trial.is_seen_running(&adopted).await, "{adopted} was released, and does not run any more");
    Ok(())
}

pub async fn what_is_anothers_is_not_marked(trial: &Trial<'_>) -> Verdict {
    let adopted = adopt(trial, "one").await?;
    let (_, made) = trial.make("two", Kind::Ordinary).await?;
    for (id, whose) in [(&adopted, "one"), (&made, "two")] {
        let before = marked(trial, id).await?;
        let taken = trial.provider().mark("adopt", id, Some(&adoption("three"))).await;
        ensure!(taken.is_err(), "{id} belongs to {whose}, and was told to be marked for another");
        let after = marked(trial, id).await?;
        ensure!(before == after, "{id} carried {before:?}, and carries {after:?}");
    }
    Ok(())
}

pub async fn an_update_keeps_what_an_instance_is_known_by(trial: &Trial<'_>) -> Verdict {
    let (order, made) = trial.make("one", Kind::Ordinary).await?;
    let before = marked(trial, &made).await?;
    let changed = Order { mark: Mark { intent: Some("change".into()), ..order.mark.clone() }, ..order };
    match trial.provider().update("change", &made, &changed).await {
        Err(Error::Spec(SpecError::Unable { .. })) => return not_applicable("it updates nothing in place"),
        updated => updated?,
    }
    let after = marked(trial, &made).await?;
    let made_by = |mark: &Option<Mark>| mark.as_ref().and_then(|mark| mark.intent.clone());
    ensure!(made_by(&before) == made_by(&after), "{made} carried {before:?}, and after an update {after:?}");
    let Ok(adopted) = adopt(trial, "two").await else { return Ok(()) };
    // Whether it can be like this is for the place to say: what counts is what it carries then.
    let changed = Order { mark: Mark { intent: Some("change".into()), ..adoption("two") }, ..changed };
    let _ = trial.provider().update("change", &adopted, &changed).await;
    let carried = marked(trial, &adopted).await?;
    ensure!(made_by(&carried).is_none(), "{adopted} was adopted, and after an update carries {carried:?}");
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
