//! An honest provider in memory, to test the suite itself: instances are entries of a map, and time is the runtime's.
//!
//! It keeps nothing across processes, runs nothing, and has neither logs nor commands.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Reading};
use setpoint_core::split::Granularity;
use setpoint_core::value::Fields;
use tokio::time::Instant;

use super::pretenders::order;
use super::{CLUSTER, Faults, Kind, SECRET, Seen, Subject, Trouble, Witness};
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{Abilities, Answer, Body, Instance, Observed, Order, Provider, Scope};
use crate::registry::{Context, Driver, Parts, Settings};

#[derive(Debug)]
pub(crate) struct Reference;

static ABILITIES: Abilities = {
    let mut abilities = Abilities::of_pods("reference");
    abilities.guests.adopts = true;
    abilities.traffic = Granularity::PERCENT;
    abilities
};

impl Driver for Reference {
    fn name(&self) -> &str {
        "reference"
    }

    fn version(&self) -> &str {
        "1.0.0"
    }

    fn abilities(&self) -> &Abilities {
        &ABILITIES
    }

    fn open<'a>(&'a self, _: &'a Settings, _: &'a Context) -> Answer<'a, Parts> {
        Box::pin(async { Ok(Parts { provider: Arc::new(Client::default()), deployer: None }) })
    }

    fn subject(&self) -> Answer<'_, Box<dyn Subject>> {
        Box::pin(async { Ok(Box::new(Client::default()) as Box<dyn Subject>) })
    }
}

/// The place and every way into it: a client is nothing but a handle.
#[derive(Debug, Clone, Default)]
pub(crate) struct Client(Arc<Mutex<Place>>);

#[derive(Debug, Default)]
struct Place {
    entries: BTreeMap<String, Entry>,
    made: u64,
    calls: u64,
    trouble: Option<Trouble>,
}

#[derive(Debug)]
struct Entry {
    name: String,
    mark: Option<Mark>,
    /// How long it takes to end when it is asked to; nothing if it does not.
    needs: Option<Duration>,
    /// Half a create leaves one that has not begun.
    has_begun: bool,
    ends_at: Option<Instant>,
}

impl Entry {
    fn runs(&self) -> bool {
        self.has_begun && self.ends_at.is_none_or(|end| Instant::now() < end)
    }

    fn is_ours(&self) -> bool {
        self.mark.as_ref().is_some_and(|mark| &*mark.cluster == CLUSTER)
    }
}

impl Client {
    /// A changing call: whatever is wrong with the place befalls it before or after its effect.
    async fn change<T>(
        &self,
        operation: Operation,
        target: &str,
        effect: impl FnOnce(&mut Place, bool) -> Result<T>,
    ) -> Result<T> {
        self.arrive().await;
        let failed = |fault| Err(Error::provider(operation, target, fault, format!("out of order: {SECRET}")));
        let trouble = {
            let mut place = self.0.lock();
            place.calls += 1;
            place.trouble.take_if(|trouble| !matches!(trouble, Trouble::Slow(_) | Trouble::Dead))
        };
        let done = match trouble {
            Some(Trouble::FailBefore) => return failed(Fault::Broken),
            trouble => effect(&mut self.0.lock(), trouble != Some(Trouble::FailHalfway)),
        };
        tokio::task::yield_now().await;
        match trouble {
            Some(Trouble::FailHalfway) => failed(Fault::Broken),
            Some(Trouble::Garbage) => failed(Fault::Garbled),
            Some(Trouble::LoseAnswer) => std::future::pending().await,
            _ => done,
        }
    }

    async fn arrive(&self) {
        tokio::task::yield_now().await;
        let trouble = self.0.lock().trouble;
        match trouble {
            Some(Trouble::Dead) => std::future::pending().await,
            Some(Trouble::Slow(time)) => tokio::time::sleep(time).await,
            _ => {}
        }
    }
}

/// An entry that is ours; `None` if there is none.
fn own<'p>(place: &'p mut Place, operation: Operation, id: &str) -> Result<Option<&'p mut Entry>> {
    match place.entries.get_mut(id) {
        Some(entry) if !entry.is_ours() => Err(Error::provider(operation, id, Fault::Refused, "it is not ours")),
        entry => Ok(entry),
    }
}

fn not_found(operation: Operation, id: &str) -> Error {
    Error::provider(operation, id, Fault::NotFound, "")
}

impl Provider for Client {
    fn abilities(&self) -> &Abilities {
        &ABILITIES
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        Box::pin(async move {
            self.arrive().await;
            let mut place = self.0.lock();
            if place.trouble.take_if(|trouble| *trouble == Trouble::Garbage).is_some() {
                return Err(Error::provider(Operation::Observe, &scope.to_string(), Fault::Garbled, "}{"));
            }
            let is_shown = |(id, entry): &(&String, &Entry)| match scope {
                Scope::Everything => true,
                Scope::Instance(of) => ***id == **of,
                Scope::Owner(owner) => entry.mark.as_ref().is_some_and(|mark| mark.owner_uid == *owner),
            };
            let instances = place.entries.iter().filter(is_shown).map(instance).collect();
            Ok(Observed { completeness: Completeness::Complete, instances, observed_at: Timestamp::now() })
        })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move {
            let needs = needs(order)?;
            self.change(Operation::Create, &order.name, |place, whole| {
                let made = place.entries.iter_mut().find(|(_, entry)| entry.mark.as_ref() == Some(&order.mark));
                if let Some((id, entry)) = made {
                    entry.has_begun |= whole;
                    return Ok(id.as_str().into());
                }
                place.made += 1;
                let id = format!("entry-{}", place.made);
                let mark = Some(order.mark.clone());
                let entry = Entry { name: order.name.clone(), mark, needs, has_begun: whole, ends_at: None };
                place.entries.insert(id.clone(), entry);
                Ok(id.into())
            })
            .await
        })
    }

    fn update<'a>(&'a self, _: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move {
            let needs = needs(order)?;
            self.change(Operation::Update, id, |place, _| {
                let entry = own(place, Operation::Update, id)?.ok_or_else(|| not_found(Operation::Update, id))?;
                entry.needs = needs;
                Ok(())
            })
            .await
        })
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.change(Operation::Start, id, move |place, _| {
            let entry = own(place, Operation::Start, id)?.ok_or_else(|| not_found(Operation::Start, id))?;
            entry.ends_at = None;
            Ok(())
        }))
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(self.change(Operation::Stop, id, move |place, _| {
            if let Some(entry) = own(place, Operation::Stop, id)? {
                let end = Instant::now() + entry.needs.map_or(grace, |needs| needs.min(grace));
                entry.ends_at = Some(entry.ends_at.map_or(end, |earlier| earlier.min(end)));
            }
            Ok(())
        }))
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(self.change(Operation::Delete, id, move |place, _| {
            if own(place, Operation::Delete, id)?.is_some() {
                place.entries.remove(id);
            }
            Ok(())
        }))
    }

    fn mark<'a>(&'a self, _: &'a str, id: &'a str, mark: Option<&'a Mark>) -> Answer<'a, ()> {
        Box::pin(self.change(Operation::Mark, id, move |place, _| {
            let refused = || Err(Error::provider(Operation::Mark, id, Fault::Refused, "it is another's"));
            match (place.entries.get_mut(id), mark) {
                (None, None) => Ok(()),
                (None, Some(_)) => Err(not_found(Operation::Mark, id)),
                (Some(entry), _) if entry.mark.is_some() && !entry.is_ours() => refused(),
                (Some(Entry { mark: Some(own), .. }), Some(new)) if own.owner_uid != new.owner_uid => refused(),
                // What it carries says more than what it would be given.
                (Some(Entry { mark: Some(_), .. }), Some(_)) => Ok(()),
                (Some(entry), mark) => {
                    entry.mark = mark.cloned();
                    Ok(())
                }
            }
        }))
    }
}

fn needs(order: &Order) -> Result<Option<Duration>> {
    let words = command(order);
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run"] => Ok(Some(Duration::ZERO)),
        ["stay"] => Ok(None),
        ["linger", time] => Ok(time.parse().ok().map(Duration::from_millis)),
        _ => Err(Error::field(&order.name, "spec.containers[main].command", "is none that can be run here")),
    }
}

fn command(order: &Order) -> Vec<String> {
    match &order.body {
        Body::Pod(pod) => pod.spec.containers.first().and_then(|first| first.command.clone()).unwrap_or_default(),
        Body::Machine(_) => Vec::new(),
    }
}

fn instance((id, entry): (&String, &Entry)) -> Instance {
    let guest = Guest {
        id: id.as_str().into(),
        name: entry.name.as_str().into(),
        mark: entry.mark.clone(),
        config: Config::known(Fields::default()),
        run: Reading::Known(if entry.runs() { "running" } else { "stopped" }.into()),
        holds_data: Reading::Known(false),
        busy: None,
        is_template: false,
        hourly_price: None,
    };
    Instance { guest, pod: None }
}

impl Subject for Client {
    fn provider(&self) -> Arc<dyn Provider> {
        Arc::new(self.clone())
    }

    fn witness(&self) -> &dyn Witness {
        self
    }

    fn faults(&self) -> Option<&dyn Faults> {
        Some(self)
    }

    fn order(&self, name: &str, intent: &str, kind: Kind) -> Order {
        order(name, intent, kind)
    }

    fn plant_foreign(&self) -> BoxFuture<'_, Box<str>> {
        let entry = Entry { name: "foreign".to_owned(), mark: None, needs: None, has_begun: true, ends_at: None };
        self.0.lock().entries.insert("foreign".to_owned(), entry);
        async { "foreign".into() }.boxed()
    }
}

impl Witness for Client {
    fn instances(&self) -> BoxFuture<'_, Vec<Seen>> {
        let seen = |(id, entry): (&String, &Entry)| Seen {
            id: id.as_str().into(),
            mark: entry.mark.clone(),
            running: entry.runs(),
        };
        let seen = self.0.lock().entries.iter().map(seen).collect();
        async { seen }.boxed()
    }

    fn calls(&self) -> BoxFuture<'_, u64> {
        let calls = self.0.lock().calls;
        async move { calls }.boxed()
    }
}

impl Faults for Client {
    fn arrange(&self, trouble: Trouble) -> bool {
        self.0.lock().trouble = Some(trouble);
        true
    }

    fn end(&self) {
        self.0.lock().trouble = None;
    }
}
