//! Events that people read, each told once.
//!
//! | module | what it does |
//! | --- | --- |
//! | `backlog` | what waits to be written, with what is the same counted and what is similar combined |
//! | `writer` | writes it, no faster than its source may |
//!
//! An Event's name follows from what it is about and says: whoever tells the same after a restart finds it told. What
//! happens again is counted on the Event that is there. Things that happened may be numbered by whoever saw them; then the
//! Event says up to which number it has counted.
//!
//! Events are of no use to the machine: to tell of something never waits and never fails, and where there is too much to
//! tell some of it is dropped, and counted.

mod backlog;
#[cfg(test)]
mod tests;
mod writer;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ObjectReference, Pod};
use kube::{Client, Resource};
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use setpoint_core::pod::{Notice, NoticeKind};
use tokio::sync::Notify;

use crate::runtime::Clock;
use backlog::{Backlog, Occurrence};

/// What is older is not told any more: the server would have forgotten it by now.
const MEMORY: SignedDuration = SignedDuration::from_hours(1);

/// Tells of things on behalf of a component. Cheap to clone; what it was told is written as long as a clone is there.
#[derive(Debug, Clone)]
pub struct Recorder(Option<Arc<Telling>>);

/// Who tells.
#[derive(Debug, Clone)]
pub struct Source {
    pub component: &'static str,
    pub host: Option<String>,
    pub clock: Clock,
    /// Counts what is dropped.
    pub dropped: Counter,
}

/// How much was told of one object. It may be forgotten.
#[derive(Debug, Clone, Default)]
pub struct Told {
    /// The number up to which all was told.
    number: u64,
}

/// What those who tell and the one who writes share.
#[derive(Debug)]
struct Shared {
    source: Source,
    backlog: Mutex<Backlog>,
    added: Notify,
    closed: AtomicBool,
}

/// Ends the writing when nobody tells any more.
#[derive(Debug)]
struct Telling(Arc<Shared>);

impl Drop for Telling {
    fn drop(&mut self) {
        self.0.closed.store(true, Ordering::Release);
        self.0.added.notify_one();
    }
}

impl Recorder {
    /// Must be called on a tokio runtime.
    pub fn new(client: Client, component: &'static str, host: Option<&str>) -> Recorder {
        let host = host.map(str::to_owned);
        Recorder::open(client, Source { component, host, clock: Clock::System, dropped: Counter::default() })
    }

    /// Must be called on a tokio runtime.
    pub fn open(client: Client, source: Source) -> Recorder {
        let (backlog, added, closed) = (Mutex::default(), Notify::new(), AtomicBool::new(false));
        let shared = Arc::new(Shared { source, backlog, added, closed });
        tokio::spawn(writer::write(client, shared.clone()));
        Recorder(Some(Arc::new(Telling(shared))))
    }

    /// One that tells nobody.
    pub fn silent() -> Recorder {
        Recorder(None)
    }

    /// Tells of an object.
    pub fn say<K: Resource<DynamicType = ()>>(&self, object: &K, kind: NoticeKind, reason: &str, message: &str) {
        self.say_about(reference(object), kind, reason, message);
    }

    /// Tells of a container of a Pod.
    pub fn say_of_container(&self, pod: &Pod, container: &str, kind: NoticeKind, reason: &str, message: &str) {
        let field_path = Some(field_path(pod, container));
        self.say_about(ObjectReference { field_path, ..reference(pod) }, kind, reason, message);
    }

    /// Tells of what a reference names.
    pub fn say_about(&self, about: ObjectReference, kind: NoticeKind, reason: &str, message: &str) {
        let Some(telling) = &self.0 else { return };
        let (reason, message, at) = (reason.to_owned(), message.to_owned(), telling.0.source.clock.now());
        if !telling.0.add(Occurrence { about, kind, reason, message, at, number: None }) {
            telling.0.source.dropped.inc();
        }
    }

    /// Tells what happened to a Pod, as far as that was not told before. What there is no room for now is told with the
    /// next call.
    pub fn tell(&self, pod: &Pod, notices: &[Notice], told: &mut Told, now: Timestamp) {
        let Some(telling) = &self.0 else { return };
        let before = told.number;
        for notice in notices.iter().filter(|notice| notice.number > before) {
            let field_path = notice.container.as_deref().map(|container| field_path(pod, container));
            let occurrence = Occurrence {
                about: ObjectReference { field_path, ..reference(pod) },
                kind: notice.kind,
                reason: notice.reason.clone(),
                message: notice.message.clone(),
                at: notice.at,
                number: Some(notice.number),
            };
            if now.duration_since(notice.at) < MEMORY && !telling.0.add(occurrence) {
                return;
            }
            told.number = notice.number;
        }
    }
}

impl Shared {
    /// False if there is no room.
    fn add(&self, occurrence: Occurrence) -> bool {
        let is_added = self.backlog.lock().add(occurrence);
        self.added.notify_one();
        is_added
    }
}

/// How an Event refers to an object.
pub fn reference<K: Resource<DynamicType = ()>>(object: &K) -> ObjectReference {
    ObjectReference { resource_version: object.meta().resource_version.clone(), ..object.object_ref(&()) }
}

/// `spec.containers{web}`.
fn field_path(pod: &Pod, container: &str) -> String {
    let mut init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let list = if init.any(|init| init.name == container) { "initContainers" } else { "containers" };
    format!("spec.{list}{{{container}}}")
}

pub(crate) fn title(pod: &Pod) -> String {
    let part = |part: &Option<String>| part.clone().unwrap_or_default();
    format!("{}/{}", part(&pod.metadata.namespace), part(&pod.metadata.name))
}

pub(crate) fn is_code(error: &kube::Error, code: u16) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == code)
}
