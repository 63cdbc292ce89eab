//! Following a collection: every change after a revision, in order, once.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use futures::stream;
use serde_json::json;
use setpoint_store::{At, Event, Range, Revision, Store, Watch};
use tokio::time::{Instant, Interval, Sleep};

use super::leave::Leave;
use super::list::PIECE;
use super::past;
use crate::authentication;
use crate::failure::{Failure, Result};
use crate::fairness::{self, Holding, Pace};
use crate::filter::Filter;
use crate::metrics;
use crate::negotiate::{self, Encoding, Shape};
use crate::object::Stored;
use crate::pieces::{Pieces, SHARED_BYTES, Sink};
use crate::query::ListOptions;
use crate::registry::{Lookup, Registry, Resource};
use crate::render::Renderer;
use crate::response::{self, Response};
use crate::server::{Call, Shared};

/// A watch whose client names no end gets one between half an hour and an hour, so that not all come back at once.
const LONGEST_S: std::ops::Range<u64> = 30 * 60..60 * 60;
/// How often a client is told that nothing concerned it, so that it can resume from there.
const BOOKMARKS: Duration = Duration::from_secs(60);
/// Events that are ready are sent together up to about this size.
const CHUNK: usize = 32 * 1024;

/// Answers with the changes as they come, for as long as its caller is allowed to see them.
pub async fn watch(server: &Arc<Shared>, call: Call) -> Result<Response> {
    if call.resource.review.is_some() {
        return Err(Failure::method_not_allowed());
    }
    let leave = Leave::ask(server.clone(), &call, &["watch"])?;
    let form = negotiate::form(&call.headers)?;
    if form.encoding == Encoding::Yaml {
        return Err(Failure::not_acceptable());
    }
    let renderer = Renderer::new(call.resource.clone(), form, &call.query, call.now)?;
    let mut options = ListOptions::parse(&call.query, true)?;
    if !call.name().is_empty() {
        options.field_selector = format!("metadata.name={}", call.name());
    }
    let filter = Filter::parse(&call.resource, &options)?;
    let scope = filter.scope(&call.resource, call.namespace());
    let user = &call.caller.real().user;
    let (pace, held) = (server.fairness.pace(user), server.fairness.hold(user, Holding::Watch, 1)?);
    let start = match begin(server, &call, &scope, &options).await {
        Ok(start) => start,
        Err(failure) if failure.code == http::StatusCode::GONE => return Ok(ended(&failure)),
        Err(failure) => return Err(failure),
    };
    let timeout_s = options.timeout_seconds.filter(|seconds| *seconds > 0);
    let some_time_s = || LONGEST_S.start + server.surroundings.random() % (LONGEST_S.end - LONGEST_S.start);
    let timeout = Duration::from_secs(timeout_s.unwrap_or_else(some_time_s).min(LONGEST_S.end));
    let follower = Follower {
        leave,
        redefinitions: call.resource.custom.is_some().then(|| server.registry_changes()),
        last: None,
        store: server.store.clone(),
        resource: call.resource,
        renderer,
        filter,
        initial: start.initial.into(),
        initial_end: start.announce_end.then_some(start.revision),
        watch: start.watch,
        deadline: Box::pin(tokio::time::sleep(timeout)),
        bookmarks: options.allow_bookmarks.then(|| {
            let mut interval = tokio::time::interval_at(Instant::now() + BOOKMARKS, BOOKMARKS);
            interval.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
            interval
        }),
        stopping: server.stopping(),
        lapse: Box::pin(authentication::lapse(server, call.caller.standing)),
        columns_sent: false,
        unsent: VecDeque::new(),
        over: false,
        pace,
        _held: (server.metrics.watch(), held),
    };
    Ok(response::streamed(stream::unfold(follower, |mut follower| async move {
        let piece = follower.next_piece().await?;
        Some((piece, follower))
    })))
}

struct Start {
    watch: Box<dyn Watch>,
    initial: Vec<Stored>,
    revision: Revision,
    /// Whether the end of the initial events is marked.
    announce_end: bool,
}

/// Opens the store's watch, and reads what was there before it where the client wants that first.
async fn begin(server: &Shared, call: &Call, scope: &str, options: &ListOptions) -> Result<Start> {
    let from_state = options.send_initial_events.unwrap_or(options.revision.is_none_or(|revision| revision == 0));
    let newest = server.store.revision();
    if let Some(wanted) = options.revision.filter(|wanted| *wanted > newest) {
        return Err(Failure::revision_too_large(wanted, newest));
    }
    if from_state {
        let page = server.store.range(Range { scope, after: None, limit: 0, at: At::Now }).await?;
        let watch = server.store.watch(scope, page.revision)?;
        let initial = page.entries.iter().map(Stored::from).collect();
        let announce_end = options.send_initial_events == Some(true) && options.allow_bookmarks;
        return Ok(Start { watch, initial, revision: page.revision, announce_end });
    }
    let revision = match options.revision {
        Some(revision) if revision > 0 => {
            past::check(server, call, revision).await?;
            revision
        }
        _ => newest,
    };
    let watch = server.store.watch(scope, revision).map_err(too_old)?;
    Ok(Start { watch, initial: Vec::new(), revision, announce_end: false })
}

fn too_old(error: setpoint_store::Error) -> Failure {
    match error {
        setpoint_store::Error::Compacted { requested, oldest } => {
            Failure::expired(format!("too old resource version: {requested} ({oldest})"))
        }
        other => other.into(),
    }
}

/// A watch that ends before it began, as Kubernetes tells it: an answer of 200 with one ERROR event.
fn ended(failure: &Failure) -> Response {
    response::streamed(stream::iter([error_event(failure)]))
}

fn error_event(failure: &Failure) -> Bytes {
    let mut line = json!({"type": "ERROR", "object": failure.status()}).to_string();
    line.push('\n');
    Bytes::from(line)
}

/// How long to wait for the store to tell of commits that it has made.
const BEHIND: Duration = Duration::from_millis(2);

/// One client's watch.
struct Follower {
    leave: Leave,
    resource: Arc<Resource>,
    /// For a custom resource, of which a definition may change or go while it is watched.
    redefinitions: Option<tokio::sync::watch::Receiver<Arc<Registry>>>,
    /// The last revision to be told of, once the resource is no longer served.
    last: Option<Revision>,
    store: Arc<dyn Store>,
    renderer: Renderer,
    filter: Filter,
    initial: VecDeque<Stored>,
    /// The revision to announce when the initial events are through.
    initial_end: Option<Revision>,
    watch: Box<dyn Watch>,
    deadline: Pin<Box<Sleep>>,
    bookmarks: Option<Interval>,
    stopping: tokio::sync::watch::Receiver<bool>,
    /// Resolves when the client is no longer let in.
    lapse: Pin<Box<dyn Future<Output = ()> + Send>>,
    columns_sent: bool,
    /// What is left of lines of which the beginning was sent.
    unsent: VecDeque<Bytes>,
    over: bool,
    pace: Pace,
    _held: (metrics::Held, Option<fairness::Held>),
}

impl Follower {
    /// The next piece to send; `None` when the watch is over. Lines go on until their end whatever happens meanwhile.
    async fn next_piece(&mut self) -> Option<Bytes> {
        if self.unsent.is_empty() {
            self.unsent = self.next_lines().await?.finish().into();
        }
        self.unsent.pop_front()
    }

    /// The next lines; `None` when the watch is over.
    async fn next_lines(&mut self) -> Option<Pieces> {
        if self.over {
            return None;
        }
        if self.leave.is_stale()
            && let Err(refusal) = self.leave.renew()
        {
            return Some(self.end(&refusal));
        }
        let mut chunk = Pieces::default();
        // What is told to begin with is work, unlike the wait for what comes then.
        let mut place = match self.initial.is_empty() {
            true => None,
            false => Some(self.pace.place().await),
        };
        while chunk.len() < CHUNK
            && let Some(stored) = self.initial.pop_front()
        {
            if self.filter.matches(&self.resource, &stored) {
                self.write_event("ADDED", &stored, &mut chunk);
            }
            if let Some(place) = place.as_mut().filter(|_| self.initial.len().is_multiple_of(PIECE)) {
                place.pass().await;
            }
        }
        if self.initial.is_empty()
            && let Some(revision) = self.initial_end.take()
        {
            self.write_bookmark(revision, true, &mut chunk);
        }
        if !chunk.is_empty() {
            return Some(chunk);
        }
        drop(place);
        while chunk.is_empty() {
            match self.wait().await {
                Woken::Event(event) => {
                    self.write_line(&event, &mut chunk);
                    if !chunk.is_empty() {
                        self.write_ready(&mut chunk);
                    }
                }
                Woken::Redefined => {
                    if !self.redefine() {
                        self.redefinitions = None;
                        self.last = Some(self.store.revision());
                    }
                }
                Woken::RightsChanged => {
                    if let Err(refusal) = self.leave.renew() {
                        return Some(self.end(&refusal));
                    }
                }
                Woken::Behind => {}
                Woken::Bookmark => self.write_bookmark(self.watch.progress(), false, &mut chunk),
                Woken::Failed(error) => return Some(self.end(&too_old(error))),
                Woken::Over => {
                    self.over = true;
                    if self.bookmarks.is_some() {
                        self.write_bookmark(self.watch.progress(), false, &mut chunk);
                    }
                    return (!chunk.is_empty()).then_some(chunk);
                }
            }
        }
        Some(chunk)
    }

    /// The last line of a watch that cannot go on.
    fn end(&mut self, failure: &Failure) -> Pieces {
        self.over = true;
        let mut line = Pieces::default();
        line.put_text(&error_event(failure));
        line
    }

    async fn wait(&mut self) -> Woken {
        if self.last.is_some_and(|last| last <= self.watch.progress()) {
            return Woken::Over;
        }
        let behind = async {
            match self.last {
                Some(_) => tokio::time::sleep(BEHIND).await,
                None => std::future::pending().await,
            }
        };
        let bookmark = async {
            match &mut self.bookmarks {
                Some(interval) => interval.tick().await,
                None => std::future::pending().await,
            }
        };
        let redefined = async {
            match &mut self.redefinitions {
                Some(changes) => changes.changed().await.is_ok(),
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            biased;
            () = &mut self.lapse => Woken::Over,
            // First, so that nothing is told that was written after the right to see it was taken away.
            () = self.leave.stale() => Woken::RightsChanged,
            _ = redefined => Woken::Redefined,
            event = self.watch.next() => match event {
                Ok(event) => Woken::Event(event),
                Err(setpoint_store::Error::Closed) => Woken::Over,
                Err(error) => Woken::Failed(error),
            },
            () = &mut self.deadline => Woken::Over,
            _ = self.stopping.wait_for(|stopping| *stopping) => Woken::Over,
            _ = bookmark => Woken::Bookmark,
            () = behind => Woken::Behind,
        }
    }

    /// Takes the resource as it is defined now. False if its definition is gone, or is another one by the same name.
    fn redefine(&mut self) -> bool {
        let Some(changes) = &mut self.redefinitions else { return true };
        let registry = changes.borrow_and_update().clone();
        let Resource { group, version, plural, .. } = self.resource.as_ref();
        let Lookup::Found(now) = registry.find(group, version, plural) else { return false };
        let uid = |resource: &Resource| resource.custom.as_ref().map(|custom| custom.uid.clone());
        if uid(&now) != uid(&self.resource) {
            return false;
        }
        self.renderer.redefine(now.clone());
        self.resource = now;
        true
    }

    /// Adds the lines of all events that are there already.
    fn write_ready(&mut self, chunk: &mut Pieces) {
        // An error comes again from the next wait.
        while !self.leave.is_stale()
            && chunk.len() < CHUNK
            && let Ok(Some(event)) = self.watch.try_next()
        {
            self.write_line(&event, chunk);
        }
    }

    /// Adds what this client sees of a commit: its selector may make an update an ADDED or a DELETED, or nothing.
    fn write_line(&mut self, event: &Event, into: &mut Pieces) {
        let is = event.value.as_ref().map(|bytes| Stored::new(bytes.clone(), event.revision));
        let was = event.previous.as_ref().map(|(bytes, _)| Stored::new(bytes.clone(), event.revision));
        let matches =
            |stored: &Option<Stored>| stored.as_ref().is_some_and(|stored| self.filter.matches(&self.resource, stored));
        let (kind, stored) = match (matches(&was), matches(&is)) {
            (false, true) => ("ADDED", is),
            (true, true) => ("MODIFIED", is),
            (true, false) => ("DELETED", was),
            (false, false) => return,
        };
        let Some(stored) = stored else { return };
        // Of a large object it is the stored text that is shared, also by those who read the event from history.
        if !self.renderer.is_shared() || stored.text_len() >= SHARED_BYTES {
            return self.write_event(kind, &stored, into);
        }
        let lines = event.derived.get_or_init(|| Box::new(Lines::default()));
        let Some(lines) = lines.downcast_ref::<Lines>() else { return };
        let line = lines.of(kind).get_or_init(|| {
            let mut line = Vec::with_capacity(stored.text_len() + 96);
            self.write_event(kind, &stored, &mut line);
            line.into()
        });
        into.put_text(line);
    }

    fn write_event(&mut self, kind: &str, stored: &Stored, into: &mut impl Sink) {
        into.put(br#"{"type":""#);
        into.put(kind.as_bytes());
        into.put(br#"","object":"#);
        let columns = !std::mem::replace(&mut self.columns_sent, true);
        self.renderer.write_object(stored, columns, into);
        into.put(b"}\n");
    }

    /// Says that this client has seen everything up to a revision.
    fn write_bookmark(&self, revision: Revision, initial_end: bool, into: &mut impl Sink) {
        let mut metadata = json!({"resourceVersion": revision.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let (kind, version) = match self.renderer.form().shape {
            Shape::Full => (self.resource.kind.to_string(), self.resource.api_version()),
            Shape::Partial => ("PartialObjectMetadata".to_owned(), "meta.k8s.io/v1".to_owned()),
            Shape::Table => ("Table".to_owned(), "meta.k8s.io/v1".to_owned()),
        };
        let mut object = json!({"kind": kind, "apiVersion": version, "metadata": metadata});
        if self.renderer.form().shape == Shape::Table {
            object["rows"] = json!([]);
            object["columnDefinitions"] = json!([]);
        }
        into.put(json!({"type": "BOOKMARK", "object": object}).to_string().as_bytes());
        into.put(b"\n");
    }
}

enum Woken {
    Event(Arc<Event>),
    RightsChanged,
    Redefined,
    /// What is to be told last may not have arrived yet.
    Behind,
    Bookmark,
    Failed(setpoint_store::Error),
    Over,
}

/// An event's lines, each written once for all its watchers, as long as they are small.
#[derive(Default)]
struct Lines {
    added: OnceLock<Bytes>,
    modified: OnceLock<Bytes>,
    deleted: OnceLock<Bytes>,
}

impl Lines {
    fn of(&self, kind: &str) -> &OnceLock<Bytes> {
        match kind {
            "ADDED" => &self.added,
            "MODIFIED" => &self.modified,
            _ => &self.deleted,
        }
    }
}
