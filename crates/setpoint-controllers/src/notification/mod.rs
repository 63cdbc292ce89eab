//! Tells people that they are needed: a gate waits, a Machine drifted, a budget is used up.
//!
//! | module | what it does |
//! | --- | --- |
//! | `occasion` | what is told, and when it began |
//! | `webhook`, `command` | the two ways to tell it |
//!
//! Each occasion is told once, by both ways that its Environment names, and tried again for an hour where that fails. What
//! waits to be told is never more than one thing for each object. Who begins to lead tells of what begins from then on:
//! what was there before was told by who led before, or happened while nobody did.

mod command;
mod occasion;
#[cfg(test)]
mod tests;
mod webhook;

use std::collections::BTreeMap;
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::ObjectReference;
use kube::{Client, Resource};
use parking_lot::Mutex;
use setpoint_api::environment::{Environment, Notifications};
use setpoint_core::pod::NoticeKind;

pub use self::occasion::{Message, Occasion};
use crate::events::Recorder;
use crate::queue::{Lane, Queue};
use crate::runtime::{Caches, Clock, Configuration, Context, Controller, Error, Name, Next, Round};

/// For how long it is tried to tell of something.
const PATIENCE: SignedDuration = SignedDuration::from_hours(1);

pub struct Notifier {
    client: Client,
    caches: Caches,
    clock: Clock,
    recorder: Recorder,
    /// Since when it tells, and what was told last of each object: when it began, and by which ways.
    memory: Mutex<Memory>,
}

#[derive(Debug, Default)]
struct Memory {
    since: Option<Timestamp>,
    told: BTreeMap<Occasion, Told>,
}

#[derive(Debug, Clone, Default)]
struct Told {
    began: Timestamp,
    webhook: bool,
    command: bool,
}

impl std::fmt::Debug for Notifier {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Notifier").finish_non_exhaustive()
    }
}

impl Notifier {
    pub fn new(context: &Context, caches: &Caches) -> Notifier {
        let (client, recorder) = (context.client.clone(), context.recorder("notifier"));
        Notifier { client, caches: caches.clone(), clock: context.clock, recorder, memory: Mutex::default() }
    }

    /// What has yet to be told of an occasion; none where it was told, or is none of ours to tell.
    fn untold(&self, occasion: &Occasion, message: &Message, now: Timestamp) -> Option<Told> {
        let mut memory = self.memory.lock();
        let since = *memory.since.get_or_insert(self.clock.now());
        // Times of conditions are in whole seconds.
        let is_ours = message.since.as_second() >= since.as_second();
        // What began earlier was part of what was told: the rest of it is no longer waited for.
        let told = memory.told.get(occasion).filter(|told| told.began >= message.since).cloned();
        let told = told.unwrap_or(Told { began: message.since, ..Told::default() });
        (is_ours && now.duration_since(message.since) < PATIENCE).then_some(told)
    }

    /// Tells what has yet to be told, by each way by itself: one that fails does not keep the other, and is tried again.
    async fn tell(
        &self,
        environment: &Environment,
        ways: &Notifications,
        message: &Message,
        told: &mut Told,
    ) -> Result<(), String> {
        let mut failures = Vec::new();
        if let Some(webhook) = ways.webhook.as_ref().filter(|_| !told.webhook) {
            match webhook::send(&self.client, webhook, message).await {
                Ok(()) => told.webhook = true,
                Err(why) => failures.push(format!("webhook: {why}")),
            }
        }
        if !ways.command.is_empty() && !told.command {
            match command::run(&ways.command, message).await {
                Ok(()) => told.command = true,
                Err(why) => failures.push(format!("command: {why}")),
            }
        }
        if failures.is_empty() {
            return Ok(());
        }
        let failures = failures.join("; ");
        self.recorder.say(environment, NoticeKind::Warning, "NotificationFailed", &failures);
        Err(failures)
    }
}

impl Controller for Notifier {
    type Key = Occasion;
    const NAME: &'static str = "notification";

    fn wire(self: &Arc<Self>, caches: &Caches, queue: &Arc<Queue<Occasion>>) {
        occasion::wire(caches, queue);
    }

    async fn reconcile(&self, occasion: &Occasion, round: &mut Round) -> Result<Next, Error> {
        let Some(message) = occasion.message(&self.caches) else {
            self.memory.lock().told.remove(occasion);
            return Ok(Next::Idle);
        };
        let Some(environment) = self.caches.environments.get(&Name::new("", &message.environment)) else {
            return Ok(Next::Idle);
        };
        let Some(ways) = &environment.spec.notifications else { return Ok(Next::Idle) };
        let Some(mut told) = self.untold(occasion, &message, round.now) else { return Ok(Next::Idle) };
        let outcome = self.tell(&environment, ways, &message, &mut told).await;
        self.memory.lock().told.insert(occasion.clone(), told);
        outcome.map(|()| Next::Idle).map_err(Error::Held)
    }

    /// Who does not answer for one Environment keeps nobody from being told of another.
    fn lane(&self, occasion: &Occasion) -> Lane {
        occasion.environment(&self.caches)
    }

    fn about(&self, occasion: &Occasion) -> Option<ObjectReference> {
        let message = occasion.message(&self.caches)?;
        let environment = self.caches.environments.get(&Name::new("", &message.environment))?;
        Some(environment.object_ref(&()))
    }

    /// Nothing has to be looked at unasked: what was there before is not told.
    fn keys(&self) -> Vec<Occasion> {
        self.memory.lock().since.get_or_insert(self.clock.now());
        Vec::new()
    }

    fn resign(&self) {
        *self.memory.lock() = Memory::default();
    }

    fn configuration() -> Configuration {
        Configuration { sweep: None, ..Configuration::of_places() }
    }
}
