//! Writes Events, one after another and no faster than their source may.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Event, EventSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::{Patch, PatchParams, PostParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::time::Instant;

use super::backlog::{Group, word};
use super::{Shared, Source, is_code};
use crate::runtime::fence::NotLeading;

/// How far an Event has counted.
const COUNTED: &str = "setpoint.dev/counted";
/// How many may be written at once after a while of silence, and how many a second after that.
const BURST: f64 = 250.0;
const PER_SECOND: f64 = 50.0;
/// How often, and after how long, one is written again that the server could not take.
const TRIES: u32 = 3;
const TRY_AGAIN: Duration = Duration::from_secs(1);
/// For how many Events it is remembered how often they were counted; for others the server is asked.
const REMEMBERED: usize = 4096;
/// Where Events are about what has no namespace.
const CLUSTER: &str = "default";

/// Writes what is told until nobody tells any more and all is written.
pub(super) async fn write(client: Client, shared: Arc<Shared>) {
    let mut writer = Writer { client, source: shared.source.clone(), counts: BTreeMap::new() };
    let mut allowance = Allowance::new(Instant::now());
    loop {
        if !shared.backlog.lock().is_empty() {
            // What comes meanwhile may be the same.
            tokio::time::sleep_until(allowance.take(Instant::now())).await;
        }
        let next = shared.backlog.lock().take();
        match next {
            Some((name, group)) => writer.write(&name, &group).await,
            None if shared.closed.load(Ordering::Acquire) => return,
            None => shared.added.notified().await,
        }
    }
}

/// How many Events may be written now: a bucket that fills slowly.
#[derive(Debug)]
pub(super) struct Allowance {
    left: f64,
    at: Instant,
}

impl Allowance {
    pub(super) fn new(now: Instant) -> Allowance {
        Allowance { left: BURST, at: now }
    }

    /// Takes one, and says from when on it may be used.
    pub(super) fn take(&mut self, now: Instant) -> Instant {
        let since = now.saturating_duration_since(self.at).as_secs_f64();
        (self.left, self.at) = ((self.left + since * PER_SECOND).min(BURST) - 1.0, now);
        now + Duration::from_secs_f64((-self.left / PER_SECOND).max(0.0))
    }
}

struct Writer {
    client: Client,
    source: Source,
    /// How often each Event was counted.
    counts: BTreeMap<String, i32>,
}

impl Writer {
    async fn write(&mut self, name: &str, group: &Group) {
        for left in (0..TRIES).rev() {
            match self.count(name, group).await {
                Ok(count) => {
                    if self.counts.len() >= REMEMBERED {
                        self.counts.clear();
                    }
                    self.counts.insert(name.to_owned(), count);
                    return;
                }
                // In a namespace that is going, for example.
                Err(kube::Error::Api(status)) if status.code < 500 && status.code != 429 => {
                    tracing::debug!(event = name, %status, "an Event was refused");
                    return;
                }
                Err(error) if left == 0 || is_fenced(&error) => {
                    self.source.dropped.inc();
                    tracing::warn!(event = name, %error, "an Event could not be written");
                    return;
                }
                Err(_) => tokio::time::sleep(TRY_AGAIN).await,
            }
        }
    }

    /// Makes the Event, or counts on the one that is there. Returns how often it has happened.
    async fn count(&self, name: &str, group: &Group) -> kube::Result<i32> {
        let api: Api<Event> = Api::namespaced(self.client.clone(), namespace(group));
        let new = group.count_beyond(0);
        if let Some(counted) = self.counts.get(name) {
            let count = plus(*counted, new);
            match api.patch(name, &PatchParams::default(), &Patch::Merge(addition(group, count))).await {
                Ok(_) => return Ok(count),
                Err(error) if is_code(&error, 404) => {}
                Err(error) => return Err(error),
            }
        }
        match api.create(&PostParams::default(), &self.event(name, group)).await {
            Ok(_) => return Ok(plus(0, new)),
            Err(error) if is_code(&error, 409) => {}
            Err(error) => return Err(error),
        }
        let Some(event) = api.get_opt(name).await? else { return Ok(plus(0, new)) };
        let before = event.metadata.annotations.as_ref().and_then(|annotations| annotations.get(COUNTED));
        let since = group.count_beyond(before.and_then(|number| number.parse().ok()).unwrap_or_default());
        let count = plus(event.count.unwrap_or(1), since);
        if since > 0 {
            api.patch(name, &PatchParams::default(), &Patch::Merge(addition(group, count))).await?;
        }
        Ok(count)
    }

    fn event(&self, name: &str, group: &Group) -> Event {
        let (last, source) = (&group.last, &self.source);
        let counted = last.number.map(|number| BTreeMap::from([(COUNTED.to_owned(), number.to_string())]));
        Event {
            metadata: ObjectMeta {
                name: Some(name.to_owned()),
                namespace: Some(namespace(group).to_owned()),
                annotations: counted,
                ..ObjectMeta::default()
            },
            involved_object: last.about.clone(),
            type_: Some(word(last.kind).to_owned()),
            reason: Some(last.reason.clone()),
            message: Some(last.message.clone()),
            count: Some(plus(0, group.count_beyond(0))),
            first_timestamp: Some(Time(group.first_at)),
            last_timestamp: Some(Time(last.at)),
            source: Some(EventSource { component: Some(source.component.to_owned()), host: source.host.clone() }),
            reporting_component: Some(source.component.to_owned()),
            reporting_instance: source.host.clone(),
            ..Event::default()
        }
    }
}

/// What happened again. What is combined says what came last.
fn addition(group: &Group, count: i32) -> serde_json::Value {
    let last = &group.last;
    let mut addition = json!({"count": count, "message": last.message, "lastTimestamp": Time(last.at)});
    if let Some(number) = last.number {
        addition["metadata"] = json!({"annotations": {COUNTED: number.to_string()}});
    }
    addition
}

fn namespace(group: &Group) -> &str {
    group.last.about.namespace.as_deref().filter(|namespace| !namespace.is_empty()).unwrap_or(CLUSTER)
}

/// Whoever leads now tells it again if it is so.
fn is_fenced(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Service(error) if error.is::<NotLeading>())
}

fn plus(count: i32, more: usize) -> i32 {
    count.saturating_add(i32::try_from(more).unwrap_or(i32::MAX))
}
