//! What stands in front of a provider where people only look: it is asked and never told to do anything.

use std::sync::Arc;
use std::time::Duration;

use setpoint_api::price::Price;
use setpoint_core::observation::Mark;
use setpoint_core::value::Fields;
use tokio::sync::mpsc;

use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{Abilities, Answer, Change, Observed, Offer, Order, Provider, Scope};
use crate::session::Logs;

/// A provider that refuses every call that changes something, whoever makes it.
#[derive(Debug)]
pub(crate) struct ReadOnly(pub(crate) Arc<dyn Provider>);

/// A place that is not opened for a look.
#[derive(Debug)]
pub(crate) struct Unopened(pub(crate) &'static Abilities);

fn refused<T>(operation: Operation, target: &str) -> Result<T> {
    Err(Error::provider(operation, target, Fault::Refused, "this process only looks: it changes nothing"))
}

impl Provider for ReadOnly {
    fn abilities(&self) -> &Abilities {
        self.0.abilities()
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        self.0.observe(scope)
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move { refused(Operation::Create, &order.name) })
    }

    fn update<'a>(&'a self, _: &'a str, id: &'a str, _: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Update, id) })
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Start, id) })
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, _: Duration) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Stop, id) })
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Delete, id) })
    }

    fn mark<'a>(&'a self, _: &'a str, id: &'a str, _: Option<&'a Mark>) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Mark, id) })
    }

    fn quote<'a>(&'a self, fields: &'a Fields) -> Answer<'a, Option<Price>> {
        self.0.quote(fields)
    }

    fn offer(&self) -> Answer<'_, Offer> {
        self.0.offer()
    }

    fn logs(&self) -> Option<&dyn Logs> {
        self.0.logs()
    }

    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        self.0.events()
    }
}

impl Provider for Unopened {
    fn abilities(&self) -> &Abilities {
        self.0
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        let why = "this process only looks: it does not open what runs Pods";
        Box::pin(async move { Err(Error::provider(Operation::Observe, &scope.to_string(), Fault::Unreachable, why)) })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move { refused(Operation::Create, &order.name) })
    }

    fn update<'a>(&'a self, _: &'a str, id: &'a str, _: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Update, id) })
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Start, id) })
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, _: Duration) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Stop, id) })
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { refused(Operation::Delete, id) })
    }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;

    use super::*;
    use crate::provider::Body;
    use crate::simulated::{Place, Program, Simulated};

    #[tokio::test(start_paused = true)]
    async fn who_looks_sees_everything_and_changes_nothing() {
        let place = Place::new(Program::default(), Timestamp::UNIX_EPOCH);
        let acting = Simulated::new(&place, "cluster");
        let looking = ReadOnly(Arc::new(Simulated::new(&place, "cluster")));
        let mark = |intent: &str| Mark::new("cluster", "owner", Some(intent));
        let order = |intent: &str| Order {
            mark: mark(intent),
            name: "web".to_owned(),
            provider_id: None,
            body: Body::Machine(Fields::default()),
        };
        let id = acting.create(&order("one")).await.unwrap();
        let before = place.log(|log| log.count());
        let refusals = [
            looking.create(&order("two")).await.map(drop),
            looking.update("two", &id, &order("two")).await,
            looking.start("two", &id).await,
            looking.stop("two", &id, Duration::ZERO).await,
            looking.mark("two", &id, None).await,
            looking.delete("two", &id).await,
        ];
        for refusal in refusals {
            let error = refusal.expect_err("it changes something").to_string();
            assert!(error.contains("only looks"), "{error}");
        }
        assert_eq!(place.log(|log| log.count()), before, "nothing reached the place");
        let seen = looking.observe(&Scope::Everything).await.unwrap();
        assert_eq!(seen.instances.len(), 1);
        assert!(looking.exec().is_none(), "a command may change anything");
    }
}
