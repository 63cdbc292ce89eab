//! A place may lose answers, fail half-way, be slow, be dead, and talk nonsense. Whoever asks again is well served.

use std::time::Duration;

use tokio::time::Instant;

use super::trial::{SHORT, SLACK, broken, ensure};
use super::{Kind, Trial, Trouble, Verdict};
use crate::error::{Error, Fault, ProviderError, Retry};
use crate::provider::{Order, Provider, Scope};

/// Slower than anybody waits here.
const VERY_SLOW: Duration = Duration::from_secs(60);

pub async fn a_lost_answer_to_a_create_leaves_one_instance(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let faults = trial.trouble(Trouble::LoseAnswer)?;
    let first = trial.impatient_provider().create(&order).await;
    faults.end();
    if let Err(error) = &first {
        ensure!(error.is_ambiguous(), "a lost answer was taken for a failure: {error}");
    }
    one_in_the_end(trial, &order).await
}

pub async fn a_lost_answer_to_a_delete_is_mended_by_asking_again(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    let faults = trial.trouble(Trouble::LoseAnswer)?;
    let first = trial.impatient_provider().delete("remove", &id).await;
    faults.end();
    if let Err(error) = &first {
        ensure!(error.is_ambiguous(), "a lost answer was taken for a failure: {error}");
    }
    trial.provider().delete("remove", &id).await?;
    trial.wait_gone(&id).await
}

pub async fn a_call_that_failed_can_be_made_again(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let faults = trial.trouble(Trouble::FailBefore)?;
    let first = trial.provider().create(&order).await;
    faults.end();
    if first.is_ok() {
        return broken("a create that failed was told to be done");
    }
    one_in_the_end(trial, &order).await?;
    let id = trial.provider().create(&order).await?;
    let faults = trial.trouble(Trouble::FailBefore)?;
    let stopped = trial.provider().stop("end", &id, VERY_SLOW).await;
    faults.end();
    if stopped.is_ok() {
        return broken("a stop that failed was told to be done");
    }
    trial.provider().stop("end", &id, VERY_SLOW).await?;
    trial.wait_ended(&id).await
}

pub async fn half_a_create_is_found_and_finished(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    half_made(trial, &order).await?;
    one_in_the_end(trial, &order).await
}

pub async fn half_a_create_is_found_and_removed(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    half_made(trial, &order).await?;
    let found = trial.provider().observe(&Scope::Owner(order.mark.owner_uid.clone())).await?;
    for instance in found.instances {
        trial.provider().delete("sweep", &instance.guest.id).await?;
    }
    trial.eventually("nothing is left", async || Ok(trial.seen().await.is_empty())).await
}

/// Whatever is half made carries its mark, so that it is found.
async fn half_made(trial: &Trial<'_>, order: &Order) -> Verdict {
    let faults = trial.trouble(Trouble::FailHalfway)?;
    let first = trial.provider().create(order).await;
    faults.end();
    if first.is_ok() {
        return broken("half a create was told to be a whole one");
    }
    let observed = trial.provider().observe(&Scope::Everything).await?;
    for seen in trial.seen().await {
        let shown = observed.instance(&seen.id);
        let is_marked = shown.is_some_and(|shown| {
            shown
                .guest
                .mark
                .as_ref()
                .is_some_and(|mark| (&mark.owner_uid, &mark.intent) == (&order.mark.owner_uid, &order.mark.intent))
        });
        ensure!(is_marked, "{} was made by half, and is not found by its mark", seen.id);
    }
    Ok(())
}

pub async fn a_slow_provider_is_given_up_on_in_time(trial: &Trial<'_>) -> Verdict {
    given_up_on_in_time(trial, Trouble::Slow(VERY_SLOW)).await
}

pub async fn a_dead_provider_is_given_up_on_in_time(trial: &Trial<'_>) -> Verdict {
    given_up_on_in_time(trial, Trouble::Dead).await
}

async fn given_up_on_in_time(trial: &Trial<'_>, trouble: Trouble) -> Verdict {
    let (_, id) = trial.make("before", Kind::Ordinary).await?;
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let faults = trial.trouble(trouble)?;
    let provider = trial.impatient_provider();
    let asked = Instant::now();
    let answers = [
        provider.observe(&Scope::Everything).await.map(drop),
        provider.create(&order).await.map(drop),
        provider.stop("end", &id, VERY_SLOW).await,
        provider.delete("remove", &id).await,
    ];
    let took = asked.elapsed();
    faults.end();
    ensure!(took < SHORT * 4 + SLACK, "four calls of {SHORT:?} each took {took:?}");
    for answer in answers {
        let Err(error) = answer else { return broken("a call that nobody answered was told to be done") };
        let is_told =
            matches!(&error, Error::Provider(ProviderError { fault: Fault::Unreachable | Fault::Unanswered, .. }));
        ensure!(is_told, "a call that nobody answered gave: {error}");
        ensure!(
            error.retry() == Retry::BackOff,
            "who is not answered should try again later, and not {:?}",
            error.retry()
        );
    }
    one_in_the_end(trial, &order).await?;
    trial.provider().delete("remove", &id).await?;
    trial.wait_gone(&id).await
}

pub async fn garbage_is_no_observation(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    let faults = trial.trouble(Trouble::Garbage)?;
    let observed = trial.provider().observe(&Scope::Everything).await;
    faults.end();
    garbled(observed.map(|observed| observed.instances.len()))?;
    trial.wait_running(&id).await
}

pub async fn garbage_is_no_instance(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let faults = trial.trouble(Trouble::Garbage)?;
    let created = trial.provider().create(&order).await;
    faults.end();
    garbled(created)?;
    one_in_the_end(trial, &order).await
}

fn garbled<T: std::fmt::Debug>(answer: Result<T, Error>) -> Verdict {
    match answer {
        Err(Error::Provider(ProviderError { fault: Fault::Garbled, .. })) => Ok(()),
        Err(error) => broken(format!("an answer that nobody can understand was understood as: {error}")),
        Ok(believed) => broken(format!("an answer that nobody can understand was believed: {believed:?}")),
    }
}

/// Whatever became of it: who asks once more has exactly one instance.
async fn one_in_the_end(trial: &Trial<'_>, order: &Order) -> Verdict {
    let provider = trial.provider();
    let id = trial.until_done(async || provider.create(order).await).await?;
    trial.wait_running(&id).await?;
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1 && seen[0].id == id, "one intent made {seen:?}");
    Ok(())
}
