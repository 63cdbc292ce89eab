//! What is to end ends: in its own time, but no later than it may.

use std::time::Duration;

use tokio::time::Instant;

use super::trial::{SLACK, ensure, not_applicable};
use super::{Kind, Trial, Verdict};
use crate::provider::Provider;

/// A grace that nothing here should need.
const LONG: Duration = Duration::from_secs(600);
const GRACE: Duration = Duration::from_secs(2);

pub async fn what_is_asked_to_stop_stops(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    trial.provider().stop("end", &id, LONG).await?;
    trial.wait_ended(&id).await
}

pub async fn a_stop_twice_is_as_once(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    for _ in 0..2 {
        trial.provider().stop("end", &id, LONG).await?;
    }
    trial.wait_ended(&id).await?;
    trial.provider().stop("end", &id, LONG).await?;
    ensure!(trial.made_under(order.intent()).await.len() <= 1, "stops made instances");
    trial.wait_ended(&id).await
}

pub async fn what_does_not_end_is_made_to_when_its_grace_is_over(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Stubborn).await?;
    let asked = Instant::now();
    trial.provider().stop("end", &id, GRACE).await?;
    ends_between(trial, &id, asked, GRACE, GRACE + SLACK).await
}

pub async fn what_ends_within_its_grace_is_not_killed(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Lingering(GRACE)).await?;
    let asked = Instant::now();
    trial.provider().stop("end", &id, LONG).await?;
    ends_between(trial, &id, asked, GRACE, GRACE + SLACK).await
}

pub async fn a_later_stop_may_shorten_the_grace(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Stubborn).await?;
    trial.provider().stop("end", &id, LONG).await?;
    let asked = Instant::now();
    trial.provider().stop("end sooner", &id, GRACE).await?;
    ends_between(trial, &id, asked, Duration::ZERO, GRACE + SLACK).await
}

pub async fn a_later_stop_never_lengthens_the_grace(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Stubborn).await?;
    let asked = Instant::now();
    trial.provider().stop("end", &id, GRACE).await?;
    trial.provider().stop("end later", &id, LONG).await?;
    ends_between(trial, &id, asked, Duration::ZERO, GRACE + SLACK).await
}

pub async fn what_was_stopped_can_be_started_again(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    if !trial.provider().abilities().guests.has_run_state {
        return not_applicable("its instances are not started again");
    }
    for _ in 0..2 {
        trial.provider().stop("end", &id, LONG).await?;
        trial.wait_ended(&id).await?;
        trial.provider().start("begin", &id).await?;
        trial.provider().start("begin", &id).await?;
        trial.wait_running(&id).await?;
    }
    ensure!(trial.made_under(order.intent()).await.len() == 1, "starts made instances");
    Ok(())
}

pub async fn a_delete_removes_what_runs(trial: &Trial<'_>) -> Verdict {
    let (_, ordinary) = trial.make("one", Kind::Ordinary).await?;
    let (_, stubborn) = trial.make("two", Kind::Stubborn).await?;
    for id in [&ordinary, &stubborn] {
        trial.provider().delete("remove", id).await?;
    }
    trial.wait_gone(&ordinary).await?;
    trial.wait_gone(&stubborn).await
}

pub async fn a_delete_twice_is_as_once(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    trial.provider().delete("remove", &id).await?;
    trial.provider().delete("remove", &id).await?;
    trial.wait_gone(&id).await?;
    trial.provider().delete("remove", &id).await?;
    trial.wait_gone(&id).await
}

pub async fn verbs_on_what_is_not_there_do_no_harm(trial: &Trial<'_>) -> Verdict {
    let (order, gone) = trial.make("one", Kind::Ordinary).await?;
    trial.provider().delete("remove", &gone).await?;
    trial.wait_gone(&gone).await?;
    let provider = trial.provider();
    for id in [&*gone, "no-such-instance"] {
        provider.stop("end", id, LONG).await?;
        provider.delete("remove", id).await?;
        let started = provider.start("begin", id).await;
        ensure!(
            started.as_ref().is_err_and(crate::Error::is_not_found),
            "a start of {id}, which is not there, gave {started:?}"
        );
        let updated = provider.update("change", id, &order).await;
        ensure!(updated.is_err(), "an update of {id}, which is not there, was told to be done");
    }
    ensure!(trial.seen().await.is_empty(), "verbs on what is not there made {:?}", trial.seen().await);
    Ok(())
}

/// It runs until the earliest time, and no longer than until the latest.
async fn ends_between(trial: &Trial<'_>, id: &str, asked: Instant, earliest: Duration, latest: Duration) -> Verdict {
    trial.wait_ended(id).await?;
    let took = asked.elapsed();
    // Clocks that round may make it a little less.
    let earliest = earliest.saturating_sub(Duration::from_millis(100));
    ensure!(took >= earliest, "{id} ended after {took:?} and had {earliest:?}");
    ensure!(took <= latest, "{id} ended only after {took:?}");
    Ok(())
}
