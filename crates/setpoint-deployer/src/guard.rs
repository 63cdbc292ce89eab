//! What stands in front of every provider: what cannot be is refused before it hears of it, and it answers in time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;

use crate::error::{Error, Fault, Operation, Result};
use crate::order;
use crate::provider::{Abilities, Answer, Change, Observed, Order, Provider, Scope};
use crate::session::{Exec, LogOptions, LogStream, Logs};

/// How long calls may take. What a person waits for, a command's end, has no deadline.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Deadlines {
    pub observe: Duration,
    /// For calls that change something. One that passes it may have had its effect all the same.
    pub change: Duration,
}

impl Default for Deadlines {
    fn default() -> Deadlines {
        Deadlines { observe: Duration::from_secs(30), change: Duration::from_secs(60) }
    }
}

/// A provider behind the rules that hold for all.
#[derive(Debug)]
pub struct Guarded {
    provider: Arc<dyn Provider>,
    deadlines: Deadlines,
}

impl Guarded {
    pub fn new(provider: Arc<dyn Provider>, deadlines: Deadlines) -> Guarded {
        Guarded { provider, deadlines }
    }

    async fn change<T>(&self, operation: Operation, target: &str, call: Answer<'_, T>) -> Result<T> {
        within(self.deadlines.change, call)
            .await
            .unwrap_or_else(|late| Err(Error::provider(operation, target, Fault::Unanswered, late)))
    }
}

/// Waits for an answer, or says how long that was done in vain.
pub(crate) async fn within<T>(deadline: Duration, call: Answer<'_, T>) -> std::result::Result<Result<T>, String> {
    let answer = tokio::time::timeout(deadline, call).await;
    answer.map_err(|_| format!("nothing came within {} seconds", deadline.as_secs_f64()))
}

impl Provider for Guarded {
    fn abilities(&self) -> &Abilities {
        self.provider.abilities()
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        Box::pin(async move {
            let target = scope.to_string();
            order::check_scope(scope)?;
            let answer = within(self.deadlines.observe, self.provider.observe(scope)).await;
            let observed = answer
                .unwrap_or_else(|late| Err(Error::provider(Operation::Observe, &target, Fault::Unreachable, late)))?;
            understood(&target, observed)
        })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move {
            order.check(self.abilities())?;
            let made = self.change(Operation::Create, &order.name, self.provider.create(order)).await;
            let id = made.map_err(|error| order.redact(error))?;
            if id.is_empty() {
                let response = "it gave the new instance no id";
                return Err(Error::provider(Operation::Create, &order.name, Fault::Garbled, response));
            }
            Ok(id)
        })
    }

    fn update<'a>(&'a self, intent: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move {
            order::check_call(intent, id)?;
            order.check(self.abilities())?;
            let updated = self.change(Operation::Update, id, self.provider.update(intent, id, order)).await;
            updated.map_err(|error| order.redact(error))
        })
    }

    fn start<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            order::check_call(intent, id)?;
            self.change(Operation::Start, id, self.provider.start(intent, id)).await
        })
    }

    fn stop<'a>(&'a self, intent: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            order::check_call(intent, id)?;
            self.change(Operation::Stop, id, self.provider.stop(intent, id, grace)).await
        })
    }

    fn delete<'a>(&'a self, intent: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            order::check_call(intent, id)?;
            self.change(Operation::Delete, id, self.provider.delete(intent, id)).await
        })
    }

    fn logs(&self) -> Option<&dyn Logs> {
        self.provider.logs().map(|_| self as &dyn Logs)
    }

    fn exec(&self) -> Option<&dyn Exec> {
        self.provider.exec()
    }

    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        self.provider.events()
    }
}

impl Logs for Guarded {
    fn read<'a>(&'a self, id: &'a str, container: &'a str, options: LogOptions) -> Answer<'a, LogStream> {
        Box::pin(async move {
            let Some(logs) = self.provider.logs() else {
                return Err(order::unable(self.abilities(), "show logs"));
            };
            let answer = within(self.deadlines.observe, logs.read(id, container, options)).await;
            answer.unwrap_or_else(|late| Err(Error::provider(Operation::Logs, id, Fault::Unreachable, late)))
        })
    }
}

/// What cannot be true of any place is not believed at all.
fn understood(target: &str, observed: Observed) -> Result<Observed> {
    let mut ids = BTreeSet::new();
    for instance in &observed.instances {
        let id = &*instance.guest.id;
        let nonsense = match id {
            "" => "it showed an instance without an id".to_owned(),
            _ if !ids.insert(id) => format!("it showed {id} twice"),
            _ => continue,
        };
        return Err(Error::provider(Operation::Observe, target, Fault::Garbled, nonsense));
    }
    Ok(observed)
}
