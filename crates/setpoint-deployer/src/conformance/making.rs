//! What is made is there, once, and is ours.

use super::trial::{broken, ensure, not_applicable};
use super::{Kind, Trial, Verdict, owner};
use crate::error::{Error, SpecError};
use crate::provider::{Provider, Scope};

pub async fn what_is_made_runs_and_carries_its_mark(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    let Some(instance) = trial.observe_instance(&id).await? else { return broken(format!("{id} is not observed")) };
    let Some(mark) = instance.guest.mark else { return broken(format!("{id} is observed without a mark")) };
    let known_by =
        |mark: &setpoint_core::observation::Mark| (mark.cluster.clone(), mark.owner_uid.clone(), mark.intent.clone());
    ensure!(known_by(&mark) == known_by(&order.mark), "{id} carries {mark:?} and not {:?}", order.mark);
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1 && seen[0].id == id, "the witness sees {seen:?} and not one instance {id}");
    Ok(())
}

pub async fn observing_changes_nothing(trial: &Trial<'_>) -> Verdict {
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    let (seen, calls) = (trial.seen().await, trial.calls().await);
    ensure!(seen.len() == 1 && calls > 0, "the witness has seen {calls} calls and sees {seen:?}");
    for scope in [Scope::Everything, Scope::Instance(id), Scope::Owner(owner("one").into())] {
        let observed = trial.provider().observe(&scope).await?;
        ensure!(observed.instances.len() == 1, "an observation of {scope} shows {}", observed.instances.len());
    }
    ensure!(trial.calls().await == calls, "observing made calls that change something");
    ensure!(trial.seen().await == seen, "observing changed what is there");
    Ok(())
}

pub async fn a_scope_shows_only_what_is_in_it(trial: &Trial<'_>) -> Verdict {
    let (_, one) = trial.make("one", Kind::Ordinary).await?;
    let (_, two) = trial.make("two", Kind::Ordinary).await?;
    let rows = [
        (Scope::Everything, vec![&one, &two]),
        (Scope::Instance(one.clone()), vec![&one]),
        (Scope::Owner(owner("two").into()), vec![&two]),
        (Scope::Owner(owner("three").into()), vec![]),
        (Scope::Instance("no-such-instance".into()), vec![]),
    ];
    for (scope, mut expected) in rows {
        let observed = trial.provider().observe(&scope).await?;
        ensure!(observed.completeness.is_complete(), "an observation of {scope} is not complete");
        let mut ids: Vec<_> = observed.instances.iter().map(|instance| &instance.guest.id).collect();
        ids.sort();
        expected.sort();
        ensure!(ids == expected, "an observation of {scope} shows {ids:?} and not {expected:?}");
    }
    Ok(())
}

pub async fn another_client_sees_and_does_the_same(trial: &Trial<'_>) -> Verdict {
    let first = trial.provider();
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    let second = trial.provider();
    let scope = Scope::Everything;
    let marks = |observed: crate::provider::Observed| -> Vec<_> {
        observed.instances.into_iter().map(|instance| (instance.guest.id, instance.guest.mark)).collect()
    };
    let (theirs, ours) = (marks(second.observe(&scope).await?), marks(first.observe(&scope).await?));
    ensure!(theirs == ours && ours.len() == 1, "one client observes {ours:?} and another {theirs:?}");
    let again = second.create(&order).await?;
    ensure!(again == id, "another client made {again} under the intent that made {id}");
    second.delete("remove", &id).await?;
    drop(second);
    trial.wait_gone(&id).await?;
    ensure!(first.observe(&scope).await?.instances.is_empty(), "the first client still sees what another one removed");
    Ok(())
}

pub async fn a_create_twice_makes_one_instance(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    for _ in 0..2 {
        let again = trial.provider().create(&order).await?;
        ensure!(again == id, "the same intent made {id} and then {again}");
    }
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1, "one intent made {seen:?}");
    trial.provider().stop("end", &id, trial.subject.patience()).await?;
    trial.wait_ended(&id).await?;
    let again = trial.provider().create(&order).await?;
    ensure!(again == id, "after a stop, the same intent made {again} beside {id}");
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1, "one intent made {seen:?}");
    Ok(())
}

pub async fn an_update_twice_is_as_once(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    for _ in 0..2 {
        match trial.provider().update("change", &id, &order).await {
            Ok(()) => {}
            Err(Error::Spec(SpecError::Unable { .. })) => return not_applicable("it updates nothing in place"),
            Err(error) => return Err(error.into()),
        }
        trial.wait_running(&id).await?;
    }
    let seen = trial.made_under(order.intent()).await;
    ensure!(seen.len() == 1 && seen[0].id == id, "after two updates the witness sees {seen:?}");
    Ok(())
}

pub async fn two_intents_make_two_instances(trial: &Trial<'_>) -> Verdict {
    let provider = trial.provider();
    let first = provider.create(&trial.subject.order("one", "first", Kind::Ordinary)).await?;
    let second = provider.create(&trial.subject.order("one", "second", Kind::Ordinary)).await?;
    ensure!(first != second, "two intents made one instance, {first}");
    trial.wait_running(&first).await?;
    trial.wait_running(&second).await?;
    let owned = provider.observe(&Scope::Owner(owner("one").into())).await?.instances.len();
    ensure!(owned == 2, "{owned} instances of their owner are observed");
    Ok(())
}
