//! The provider: its verbs change files.
//!
//! The file of an instance is named by its intent. So a create that is made again, by whomever, finds the first one's file.
//! No call waits for anything, so none can be dropped half-way; a real provider has to think about that.

use std::io;
use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use setpoint_core::observation::{Completeness, Config, Guest, Mark, Reading};
use setpoint_core::value::Fields;
use setpoint_deployer::provider::{Abilities, Answer, Body, Instance, Observed, Order, Provider, Scope};
use setpoint_deployer::{Error, Fault, Operation, Result};

use crate::folder::{Entry, EntryMark, Folder};

pub static ABILITIES: Abilities = Abilities::of_pods("folder");

/// A client of a folder. It remembers nothing.
#[derive(Debug)]
pub struct Client {
    cluster: Box<str>,
    folder: Folder,
}

impl Client {
    pub fn new(cluster: &str, folder: Folder) -> Client {
        Client { cluster: cluster.into(), folder }
    }

    fn create(&self, order: &Order) -> Result<Box<str>> {
        let needs_ms = needs(order)?;
        let id = id_of(order)?;
        let failed = |error| failed(Operation::Create, &order.name, &error);
        let _lock = self.folder.lock().map_err(failed)?;
        if self.folder.read(&id).map_err(failed)?.is_none() {
            let Mark { cluster, owner_uid, intent, spec_digest } = order.mark.clone();
            let mark = Some(EntryMark { cluster, owner_uid, intent, spec_digest });
            let entry = Entry { name: order.name.clone(), mark, needs_ms, ends_at: None };
            self.folder.write(&id, &entry).map_err(failed)?;
        }
        Ok(id.into())
    }

    /// Changes what is there and ours, and writes it down if it became something else. `None` if it is not there.
    fn change(&self, operation: Operation, id: &str, change: impl FnOnce(&mut Entry) -> bool) -> Result<Option<()>> {
        let failed = |error| failed(operation, id, &error);
        let _lock = self.folder.lock().map_err(failed)?;
        let Some(mut entry) = self.folder.read(id).map_err(failed)? else { return Ok(None) };
        self.own(operation, id, &entry)?;
        if change(&mut entry) {
            self.folder.write(id, &entry).map_err(failed)?;
        }
        Ok(Some(()))
    }

    fn delete(&self, id: &str) -> Result<()> {
        let failed = |error| failed(Operation::Delete, id, &error);
        let _lock = self.folder.lock().map_err(failed)?;
        let Some(entry) = self.folder.read(id).map_err(failed)? else { return Ok(()) };
        self.own(Operation::Delete, id, &entry)?;
        self.folder.remove(id).map_err(failed)
    }

    fn own(&self, operation: Operation, id: &str, entry: &Entry) -> Result<()> {
        match &entry.mark {
            Some(mark) if mark.cluster == self.cluster => Ok(()),
            _ => Err(Error::provider(operation, id, Fault::Refused, "it is not ours")),
        }
    }
}

impl Provider for Client {
    fn abilities(&self) -> &Abilities {
        &ABILITIES
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        Box::pin(async move {
            let entries =
                self.folder.entries().map_err(|error| failed(Operation::Observe, &scope.to_string(), &error))?;
            let is_shown = |(id, entry): &(&String, &Entry)| match scope {
                Scope::Everything => true,
                Scope::Instance(of) => ***id == **of,
                Scope::Owner(owner) => entry.mark.as_ref().is_some_and(|mark| mark.owner_uid == *owner),
            };
            let instances = entries.iter().filter(is_shown).map(|(id, entry)| instance(id, entry)).collect();
            Ok(Observed { completeness: Completeness::Complete, instances, observed_at: Timestamp::now() })
        })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move { Client::create(self, order) })
    }

    fn update<'a>(&'a self, _: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move {
            let needs_ms = needs(order)?;
            let updated = self
                .change(Operation::Update, id, |entry| std::mem::replace(&mut entry.needs_ms, needs_ms) != needs_ms);
            updated?.ok_or_else(|| Error::provider(Operation::Update, id, Fault::NotFound, ""))
        })
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let started = self.change(Operation::Start, id, |entry| entry.ends_at.take().is_some());
            started?.ok_or_else(|| Error::provider(Operation::Start, id, Fault::NotFound, ""))
        })
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            let grace = SignedDuration::try_from(grace).unwrap_or(SignedDuration::MAX);
            self.change(Operation::Stop, id, |entry| {
                let time = entry.needs_ms.map_or(grace, |needs| grace.min(SignedDuration::from_millis(needs)));
                let end = Timestamp::now().saturating_add(time).unwrap_or(Timestamp::MAX);
                let is_sooner = entry.ends_at.is_none_or(|earlier| end < earlier);
                if is_sooner {
                    entry.ends_at = Some(end);
                }
                is_sooner
            })
            .map(drop)
        })
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move { Client::delete(self, id) })
    }
}

fn instance(id: &str, entry: &Entry) -> Instance {
    let mark = entry.mark.clone().map(|EntryMark { cluster, owner_uid, intent, spec_digest }| Mark {
        cluster,
        owner_uid,
        intent,
        spec_digest,
    });
    let guest = Guest {
        id: id.into(),
        name: entry.name.as_str().into(),
        mark,
        config: Config::known(Fields::default()),
        run: Reading::Known(if entry.runs() { "running" } else { "stopped" }.into()),
        holds_data: Reading::Known(false),
        busy: None,
        is_template: false,
        hourly_price: None,
    };
    Instance { guest, pod: None }
}

/// The intent, as it can stand in a file's name.
fn id_of(order: &Order) -> Result<String> {
    let mut id = String::new();
    for byte in order.intent().bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' => id.push(char::from(byte)),
            other => id.push_str(&format!("_{other:02x}")),
        }
    }
    if id.len() > 200 { Err(Error::field(&order.name, "mark.intent", "is too long for a file's name")) } else { Ok(id) }
}

/// How long an instance takes to end: its command says so, since nothing really runs.
fn needs(order: &Order) -> Result<Option<i64>> {
    let Body::Pod(pod) = &order.body else { return Ok(Some(0)) };
    let command = pod.spec.containers.first().and_then(|container| container.command.as_deref()).unwrap_or_default();
    match command.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["run"] => Ok(Some(0)),
        ["stay"] => Ok(None),
        ["linger", time] => time.parse().map(Some).map_err(|_| {
            Error::field(
                &order.name,
                "spec.containers[main].command",
                "lingers for milliseconds, and that is no number",
            )
        }),
        _ => Err(Error::field(&order.name, "spec.containers[main].command", "is none that this deployer knows")),
    }
}

fn failed(operation: Operation, target: &str, error: &io::Error) -> Error {
    let fault = if error.kind() == io::ErrorKind::InvalidData { Fault::Garbled } else { Fault::Broken };
    Error::provider(operation, target, fault, error.to_string())
}
