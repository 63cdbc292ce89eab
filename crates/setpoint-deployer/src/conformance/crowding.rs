//! Callers may be many at once, of one instance and of many.

use std::collections::BTreeSet;
use std::time::Duration;

use futures::future::{join_all, try_join_all};

use super::trial::ensure;
use super::{Kind, Trial, Verdict};
use crate::error::{Error, Retry};
use crate::provider::Provider;

const CALLERS: usize = 12;

pub async fn many_callers_of_one_create_get_one_instance(trial: &Trial<'_>) -> Verdict {
    let order = trial.subject.order("one", "make-one", Kind::Ordinary);
    let callers = (0..CALLERS).map(|_| async {
        let provider = trial.provider();
        trial.until_done(async || provider.create(&order).await).await
    });
    let ids: BTreeSet<_> = try_join_all(callers).await?.into_iter().collect();
    ensure!(ids.len() == 1, "one intent made {ids:?}");
    for id in &ids {
        trial.wait_running(id).await?;
    }
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1, "one intent made {seen:?}");
    Ok(())
}

pub async fn many_instances_are_made_at_once(trial: &Trial<'_>) -> Verdict {
    let provider = trial.provider();
    let provider = &provider;
    let callers = (0..CALLERS).map(|number| async move {
        let name = format!("number-{number}");
        let order = trial.subject.order(&name, &format!("make-{name}"), Kind::Ordinary);
        trial.until_done(async || provider.create(&order).await).await
    });
    let ids: BTreeSet<_> = try_join_all(callers).await?.into_iter().collect();
    ensure!(ids.len() == CALLERS, "{CALLERS} intents made {} instances", ids.len());
    trial.eventually("all of them run", async || Ok(trial.running().await == CALLERS)).await?;
    let provider = trial.provider();
    let deletes = ids.iter().map(|id| trial.until_done(async || provider.delete("remove", id).await));
    try_join_all(deletes).await?;
    trial.eventually("all of them are gone", async || Ok(trial.seen().await.is_empty())).await
}

pub async fn many_callers_of_all_verbs_leave_no_mess(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    let callers = (0..CALLERS).map(|number| {
        let (order, id) = (&order, &id);
        async move {
            let provider = trial.provider();
            match number % 4 {
                0 => provider.stop("end", id, Duration::from_secs(60)).await,
                1 => provider.start("begin", id).await,
                2 => provider.create(order).await.map(drop),
                _ => provider.update("change", id, order).await,
            }
        }
    });
    for answer in join_all(callers).await {
        let is_fair = |error: &Error| error.retry() != Retry::Never || matches!(error, Error::Spec(_));
        ensure!(answer.as_ref().err().is_none_or(is_fair), "a verb among many gave {answer:?}");
    }
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1, "one intent made {seen:?}");
    let provider = trial.provider();
    trial.until_done(async || provider.delete("remove", &id).await).await?;
    trial.wait_gone(&id).await?;
    ensure!(trial.seen().await.is_empty(), "the witness still sees {:?}", trial.seen().await);
    Ok(())
}
