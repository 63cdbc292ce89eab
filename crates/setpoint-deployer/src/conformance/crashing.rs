//! A caller may die at any moment: within a call, wherever that waits, and between two of them.

use std::time::Duration;

use super::trial::{crash_after, ensure};
use super::{Kind, Trial, Verdict};
use crate::provider::Provider;

/// How many moments of one call a caller dies in, at most. A call that waits more often is tried at its first ones.
const MOMENTS: usize = 40;

pub async fn a_crash_within_a_create_leaves_one_instance(trial: &Trial<'_>) -> Verdict {
    for moment in 0..MOMENTS {
        let order = trial.subject.order(&format!("at-{moment}"), &format!("make-at-{moment}"), Kind::Ordinary);
        let done = crash_after(moment, trial.provider().create(&order)).await;
        let provider = trial.provider();
        let id = trial.until_done(async || provider.create(&order).await).await?;
        trial.wait_running(&id).await?;
        let seen = trial.made_under(order.intent()).await;
        ensure!(seen.len() == 1, "after a crash at the {moment}. wait of a create there is {seen:?}");
        provider.delete("remove", &id).await?;
        trial.wait_gone(&id).await?;
        if done.is_some() {
            break;
        }
    }
    nothing_is_left(trial).await
}

pub async fn a_crash_within_a_stop_is_mended_by_asking_again(trial: &Trial<'_>) -> Verdict {
    for moment in 0..MOMENTS {
        let (_, id) = trial.make(&format!("at-{moment}"), Kind::Ordinary).await?;
        let grace = trial.subject.patience();
        let done = crash_after(moment, trial.provider().stop("end", &id, grace)).await;
        let provider = trial.provider();
        trial.until_done(async || provider.stop("end", &id, grace).await).await?;
        trial.wait_ended(&id).await?;
        provider.delete("remove", &id).await?;
        trial.wait_gone(&id).await?;
        if done.is_some() {
            break;
        }
    }
    nothing_is_left(trial).await
}

pub async fn a_crash_within_a_delete_is_mended_by_asking_again(trial: &Trial<'_>) -> Verdict {
    for moment in 0..MOMENTS {
        let (_, id) = trial.make(&format!("at-{moment}"), Kind::Ordinary).await?;
        let done = crash_after(moment, trial.provider().delete("remove", &id)).await;
        let provider = trial.provider();
        trial.until_done(async || provider.delete("remove", &id).await).await?;
        trial.wait_gone(&id).await?;
        if done.is_some() {
            break;
        }
    }
    nothing_is_left(trial).await
}

/// Every call is made by a client that has seen nothing of the calls before.
pub async fn a_crash_between_calls_loses_nothing(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let id = trial.provider().create(&order).await?;
    trial.wait_running(&id).await?;
    let again = trial.provider().create(&order).await?;
    ensure!(again == id, "the same intent made {id} and then {again}");
    trial.provider().stop("end", &id, Duration::from_secs(60)).await?;
    trial.wait_ended(&id).await?;
    if trial.provider().abilities().guests.has_run_state {
        trial.provider().start("begin", &id).await?;
        trial.wait_running(&id).await?;
    }
    trial.provider().delete("remove", &id).await?;
    trial.wait_gone(&id).await?;
    nothing_is_left(trial).await
}

/// What a caller began before it died has not come about later, either.
async fn nothing_is_left(trial: &Trial<'_>) -> Verdict {
    let seen = trial.seen().await;
    ensure!(seen.is_empty(), "the witness still sees {seen:?}");
    Ok(())
}
