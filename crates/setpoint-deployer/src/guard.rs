//! What stands in front of every provider: what cannot be is refused before it hears of it, and it answers in time.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use setpoint_api::price::Price;
use setpoint_core::observation::Mark;
use setpoint_core::value::Fields;
use tokio::sync::mpsc;

use crate::error::{Error, Fault, Operation, Result};
use crate::order;
use crate::provider::{Abilities, Answer, Change, Observed, Offer, Order, Provider, Scope};
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

    /// Asks for something that changes nothing.
    async fn ask<T>(&self, target: &str, call: Answer<'_, T>) -> Result<T> {
        let answer = within(self.deadlines.observe, call).await;
        answer.unwrap_or_else(|late| Err(Error::provider(Operation::Quote, target, Fault::Unreachable, late)))
    }
}

/// Waits for an answer, or says how long that was done in vain.
pub(crate) async fn within<T>(deadline: Duration, call: Answer<'_, T>) -> std::result::Result<Result<T>, String> {
    let answer = tokio::time::timeout(deadline, call).await;
    answer.map_err(|_| format!("nothing came within {} s", deadline.as_secs_f64()))
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
            order.check_change(self.abilities())?;
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

    fn mark<'a>(&'a self, intent: &'a str, id: &'a str, mark: Option<&'a Mark>) -> Answer<'a, ()> {
        Box::pin(async move {
            order::check_call(intent, id)?;
            order::check_mark(id, mark, self.abilities())?;
            self.change(Operation::Mark, id, self.provider.mark(intent, id, mark)).await
        })
    }

    fn quote<'a>(&'a self, fields: &'a Fields) -> Answer<'a, Option<Price>> {
        Box::pin(self.ask("a price", self.provider.quote(fields)))
    }

    fn offer(&self) -> Answer<'_, Offer> {
        Box::pin(self.ask("what is offered", self.provider.offer()))
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

#[cfg(test)]
mod tests {
    use setpoint_core::observation::{Completeness, Mark};
    use setpoint_core::value::{Fields, Value};

    use super::*;
    use crate::conformance::{Kind, SECRET};
    use crate::error::{ProviderError, Retry};
    use crate::provider::Body;

    /// Says what it is told to say, or nothing at all.
    #[derive(Debug)]
    struct Parrot {
        abilities: Abilities,
        says: Option<Result<Box<str>>>,
    }

    impl Provider for Parrot {
        fn abilities(&self) -> &Abilities {
            &self.abilities
        }

        fn observe<'a>(&'a self, _: &'a Scope) -> Answer<'a, Observed> {
            Box::pin(async move {
                if self.says.is_none() {
                    std::future::pending::<()>().await;
                }
                let (completeness, observed_at) = (Completeness::Complete, jiff::Timestamp::UNIX_EPOCH);
                Ok(Observed { completeness, instances: Vec::new(), observed_at })
            })
        }

        fn create<'a>(&'a self, _: &'a Order) -> Answer<'a, Box<str>> {
            match self.says.clone() {
                Some(says) => Box::pin(async { says }),
                None => Box::pin(std::future::pending()),
            }
        }

        fn update<'a>(&'a self, _: &'a str, _: &'a str, order: &'a Order) -> Answer<'a, ()> {
            Box::pin(async { self.create(order).await.map(drop) })
        }

        fn start<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, ()> {
            Box::pin(std::future::pending())
        }

        fn stop<'a>(&'a self, _: &'a str, _: &'a str, _: Duration) -> Answer<'a, ()> {
            Box::pin(std::future::pending())
        }

        fn delete<'a>(&'a self, _: &'a str, _: &'a str) -> Answer<'a, ()> {
            Box::pin(std::future::pending())
        }

        fn mark<'a>(&'a self, _: &'a str, _: &'a str, _: Option<&'a Mark>) -> Answer<'a, ()> {
            Box::pin(std::future::pending())
        }
    }

    fn abilities() -> Abilities {
        crate::registry::Driver::abilities(&crate::conformance::Noop).clone()
    }

    fn guarded(says: Option<Result<Box<str>>>, change: fn(&mut Abilities)) -> Guarded {
        let mut abilities = abilities();
        change(&mut abilities);
        let deadlines = Deadlines { observe: Duration::from_secs(1), change: Duration::from_secs(2) };
        Guarded::new(Arc::new(Parrot { abilities, says }), deadlines)
    }

    fn order() -> Order {
        crate::conformance::sample_order("one", "make-one", Kind::Ordinary)
    }

    fn broken(response: &str) -> Error {
        Error::provider(Operation::Create, "one", Fault::Broken, response)
    }

    #[tokio::test(start_paused = true)]
    async fn who_is_not_answered_is_told_so_in_time() {
        let silent = guarded(None, |abilities| abilities.guests.adopts = true);
        let late = "nothing came within 2 s".to_owned();
        let expected = |operation, target: &str| ProviderError {
            operation,
            target: target.to_owned(),
            fault: Fault::Unanswered,
            response: late.clone(),
        };
        let order = order();
        let rows = [
            (silent.create(&order).await.map(drop), expected(Operation::Create, "one")),
            (silent.update("change", "id", &order).await, expected(Operation::Update, "id")),
            (silent.start("begin", "id").await, expected(Operation::Start, "id")),
            (silent.stop("end", "id", Duration::ZERO).await, expected(Operation::Stop, "id")),
            (silent.delete("remove", "id").await, expected(Operation::Delete, "id")),
            (silent.mark("adopt", "id", None).await, expected(Operation::Mark, "id")),
            (
                silent.observe(&Scope::Everything).await.map(drop),
                ProviderError {
                    operation: Operation::Observe,
                    target: "everything".to_owned(),
                    fault: Fault::Unreachable,
                    response: "nothing came within 1 s".to_owned(),
                },
            ),
        ];
        for (answer, expected) in rows {
            assert_eq!(answer.clone(), Err(expected.into()));
            assert_eq!(answer.map_err(|error| error.retry()), Err(Retry::BackOff));
        }
    }

    #[tokio::test]
    async fn what_a_provider_cannot_do_is_refused() {
        type Case = (&'static str, fn(&mut Abilities), fn(&mut Order), &'static str);
        let rows: [Case; 7] = [
            (
                "a Pod where none run",
                |abilities| abilities.runs_pods = false,
                |_| {},
                "the deployer noop cannot run Pods: choose an environment whose deployer can",
            ),
            (
                "a Machine where none run",
                |_| {},
                |order| order.body = Body::Machine(Fields::default()),
                "the deployer noop cannot run Machines: choose an environment whose deployer can",
            ),
            (
                "a container without an image",
                |abilities| abilities.needs_image = true,
                |_| {},
                "one: spec.containers[main].image: is required here",
            ),
            (
                "a field that nobody knows",
                |abilities| abilities.runs_machines = true,
                |order| {
                    let mut fields = Fields::default();
                    fields.set("colour", Value::secret("red"));
                    order.body = Body::Machine(fields);
                },
                "one: colour: the deployer noop knows no such field",
            ),
            (
                "an id where the provider chooses",
                |_| {},
                |order| order.provider_id = Some("7".into()),
                "the deployer noop cannot give an instance an id of our choice: choose an environment whose deployer can",
            ),
            (
                "an order without a mark",
                |_| {},
                |order| {
                    order.mark = Mark { cluster: "".into(), owner_uid: "".into(), intent: None, spec_digest: None };
                },
                "one: mark.intent: is required",
            ),
            ("an order without a name", |_| {}, |order| order.name.clear(), "an order: name: is required"),
        ];
        for (name, change, spoil, expected) in rows {
            let mut order = order();
            spoil(&mut order);
            let refused = guarded(Some(Ok("id".into())), change).create(&order).await;
            let refused = refused.expect_err("it cannot be made");
            assert!(matches!(refused, Error::Spec(_)), "{name}: {refused:?}");
            assert_eq!(refused.to_string(), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn what_a_provider_says_is_shown_without_secrets_and_in_short() {
        let long = "no ".repeat(5_000);
        let rows = [
            ("what is harmless", "no such image", "no such image".to_owned()),
            ("a secret", &*format!("PASSWORD={SECRET} is bad"), "PASSWORD=(sensitive) is bad".to_owned()),
            ("a novel", &*long, format!("{}…", &long[..4096])),
        ];
        for (name, response, expected) in rows {
            let created = guarded(Some(Err(broken(response))), |_| {}).create(&order()).await;
            assert_eq!(created, Err(broken(&expected)), "{name}");
        }
    }

    #[tokio::test]
    async fn what_cannot_be_true_is_not_believed() {
        let nameless = guarded(Some(Ok("".into())), |_| {}).create(&order()).await;
        assert!(matches!(nameless, Err(Error::Provider(ProviderError { fault: Fault::Garbled, .. }))), "{nameless:?}");
    }
}
