//! What cannot be is refused before the place hears of it; and what errors say.

use std::time::Duration;

use setpoint_core::value::Fields;

use super::trial::{broken, ensure};
use super::{Kind, SECRET, Trial, Trouble, Verdict};
use crate::error::{Error, Operation};
use crate::provider::{Body, Order, Provider, Scope};

pub async fn a_wrong_order_is_refused_before_anything_is_sent(trial: &Trial<'_>) -> Verdict {
    // Something that works, so that a place which hears nothing at all is not taken for one that refuses.
    let (_, id) = trial.make("one", Kind::Ordinary).await?;
    let wrong = trial.subject.order("two", "make-two", Kind::Invalid);
    let calls = trial.calls().await;
    refused("a create", trial.provider().create(&wrong).await)?;
    refused("an update", trial.provider().update("change", &id, &wrong).await)?;
    ensure!(trial.calls().await == calls, "the place was called all the same");
    ensure!(trial.seen().await.len() == 1, "the place shows {:?}", trial.seen().await);
    Ok(())
}

pub async fn an_incomplete_order_is_refused_before_anything_is_sent(trial: &Trial<'_>) -> Verdict {
    type Spoil = fn(&mut Order);
    trial.make("one", Kind::Ordinary).await?;
    let calls = trial.calls().await;
    let abilities = trial.provider().abilities().clone();
    let mut rows: Vec<(&str, Spoil)> = vec![
        ("without an intent", |order| order.mark.intent = None),
        ("with an empty intent", |order| order.mark.intent = Some("".into())),
        ("without an owner", |order| order.mark.owner_uid = "".into()),
        ("without a cluster", |order| order.mark.cluster = "".into()),
        ("without a name", |order| order.name.clear()),
        ("with a name that moves the cursor", |order| order.name = "a\u{1b}[2J".to_owned()),
        ("with an empty id", |order| order.provider_id = Some("".into())),
    ];
    if !abilities.runs_machines {
        rows.push(("for a Machine", |order| order.body = Body::Machine(Fields::default())));
    }
    if abilities.runs_pods {
        rows.push(("without containers", |order| {
            if let Body::Pod(pod) = &mut order.body {
                pod.spec.containers.clear();
            }
        }));
    }
    for (name, spoil) in rows {
        let mut order = trial.subject.order("two", "make-two", Kind::Ordinary);
        spoil(&mut order);
        refused(&format!("an order {name}"), trial.provider().create(&order).await)?;
    }
    ensure!(trial.calls().await == calls, "the place was called all the same");
    Ok(())
}

pub async fn a_call_without_an_id_is_refused_before_anything_is_sent(trial: &Trial<'_>) -> Verdict {
    let (order, id) = trial.make("one", Kind::Ordinary).await?;
    let calls = trial.calls().await;
    let provider = trial.provider();
    for (intent, id) in [("", &*id), ("act", "")] {
        refused("a start", provider.start(intent, id).await)?;
        refused("a stop", provider.stop(intent, id, Duration::ZERO).await)?;
        refused("a delete", provider.delete(intent, id).await)?;
        refused("an update", provider.update(intent, id, &order).await)?;
    }
    refused("an observation", provider.observe(&Scope::Instance("".into())).await)?;
    refused("an observation", provider.observe(&Scope::Owner("".into())).await)?;
    ensure!(trial.calls().await == calls, "the place was called all the same");
    Ok(())
}

pub async fn errors_name_the_call_and_tell_no_secret(trial: &Trial<'_>) -> Verdict {
    trial.make("one", Kind::Ordinary).await?;
    let start = trial.provider().start("begin", "no-such-instance").await;
    named("start", Operation::Start, "no-such-instance", start)?;
    let wrong = trial.subject.order("two", "make-two", Kind::Invalid);
    silent(trial.provider().create(&wrong).await)?;
    // The rest can only be seen where the place can be made to fail.
    for trouble in [Trouble::FailBefore, Trouble::FailHalfway] {
        let Ok(faults) = trial.trouble(trouble) else { continue };
        let order = trial.subject.order("three", "make-three", Kind::Ordinary);
        let created = trial.provider().create(&order).await;
        faults.end();
        silent(created.clone())?;
        named("create", Operation::Create, "three", created)?;
    }
    Ok(())
}

fn refused<T>(what: &str, answer: Result<T, Error>) -> Verdict {
    match answer {
        Err(Error::Spec(_)) => Ok(()),
        Err(error) => broken(format!("{what} that cannot be was sent, and then: {error}")),
        Ok(_) => broken(format!("{what} that cannot be was told to be done")),
    }
}

fn named<T: std::fmt::Debug>(what: &str, operation: Operation, target: &str, answer: Result<T, Error>) -> Verdict {
    match answer {
        Err(Error::Provider(error)) => {
            ensure!(error.operation == operation, "the error of a {what} names a {}", error.operation);
            ensure!(error.target.contains(target), "the error of a {what} of {target} names {}", error.target);
            Ok(())
        }
        other => broken(format!("a {what} that must fail gave {other:?}")),
    }
}

fn silent<T>(answer: Result<T, Error>) -> Verdict {
    let Err(error) = answer else { return broken("what must fail was told to be done") };
    let told = format!("{error} {error:?}");
    ensure!(!told.contains(SECRET), "an error tells a secret: {}", told.replace(SECRET, "(the secret)"));
    Ok(())
}
