//! Trouble on the way to a place that does not fail by itself: calls that are slow, never arrive or are never answered.
//!
//! It cannot make the place do half of something.

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use setpoint_api::price::Price;
use setpoint_core::observation::Mark;
use setpoint_core::value::Fields;
use tokio::sync::mpsc;

use super::subject::{Faults, Trouble};
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{Abilities, Answer, Change, Observed, Offer, Order, Provider, Scope};
use crate::session::{Exec, Logs};

/// What goes wrong on the way, for all who go it.
#[derive(Debug, Clone, Default)]
pub struct Weather(Arc<Mutex<Conditions>>);

#[derive(Debug, Clone, Default)]
struct Conditions {
    /// What happens to the next call.
    next: Option<Trouble>,
    delay: Duration,
    is_dead: bool,
}

/// A provider behind that way.
#[derive(Debug)]
pub struct Faulty {
    provider: Arc<dyn Provider>,
    weather: Weather,
}

impl Faults for Weather {
    fn arrange(&self, trouble: Trouble) -> bool {
        let mut conditions = self.0.lock();
        match trouble {
            Trouble::LoseAnswer | Trouble::FailBefore | Trouble::Garbage => conditions.next = Some(trouble),
            Trouble::Slow(delay) => conditions.delay = delay,
            Trouble::Dead => conditions.is_dead = true,
            Trouble::FailHalfway => return false,
        }
        true
    }

    fn end(&self) {
        *self.0.lock() = Conditions::default();
    }
}

impl Weather {
    /// What becomes of the next call. Only one that changes something can fail before it or lose its answer.
    fn take(&self, operation: Operation) -> Option<Trouble> {
        let mut conditions = self.0.lock();
        let concerns = |trouble: &mut Trouble| operation != Operation::Observe || *trouble == Trouble::Garbage;
        conditions.next.take_if(concerns)
    }

    async fn pass<T>(&self, operation: Operation, target: &str, call: Answer<'_, T>) -> Result<T> {
        let Conditions { delay, is_dead, .. } = self.0.lock().clone();
        if is_dead {
            return std::future::pending().await;
        }
        tokio::time::sleep(delay).await;
        let failed = |fault| Err(Error::provider(operation, target, fault, "trouble on the way"));
        match self.take(operation) {
            Some(Trouble::FailBefore) => failed(Fault::Unreachable),
            Some(Trouble::LoseAnswer) => call.await.and_then(|_| failed(Fault::Unanswered)),
            Some(Trouble::Garbage) => call.await.and_then(|_| failed(Fault::Garbled)),
            _ => call.await,
        }
    }
}

impl Faulty {
    pub fn new(provider: Arc<dyn Provider>, weather: Weather) -> Faulty {
        Faulty { provider, weather }
    }
}

impl Provider for Faulty {
    fn abilities(&self) -> &Abilities {
        self.provider.abilities()
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        Box::pin(self.weather.pass(Operation::Observe, "the place", self.provider.observe(scope)))
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(self.weather.pass(Operation::Create, &order.name, self.provider.create(order)))
    }

    fn update<'a>(&'a self, intent: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()> {
        Box::pin(self.weather.pass(Operation::Update, id, self.provider.update(intent, id, order)))
    }

    fn start<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.weather.pass(Operation::Start, id, self.provider.start(intent, id)))
    }

    fn stop<'a>(&'a self, intent: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(self.weather.pass(Operation::Stop, id, self.provider.stop(intent, id, grace)))
    }

    fn delete<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.weather.pass(Operation::Delete, id, self.provider.delete(intent, id)))
    }

    fn mark<'a>(&'a self, intent: &'a str, id: &'a str, mark: Option<&'a Mark>) -> Answer<'a, ()> {
        Box::pin(self.weather.pass(Operation::Mark, id, self.provider.mark(intent, id, mark)))
    }

    fn quote<'a>(&'a self, fields: &'a Fields) -> Answer<'a, Option<Price>> {
        self.provider.quote(fields)
    }

    fn offer(&self) -> Answer<'_, Offer> {
        self.provider.offer()
    }

    fn logs(&self) -> Option<&dyn Logs> {
        self.provider.logs()
    }

    fn exec(&self) -> Option<&dyn Exec> {
        self.provider.exec()
    }

    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        self.provider.events()
    }
}
