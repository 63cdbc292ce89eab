//! What a simulated container wrote: a few lines that follow from its state, always the same.

use std::io;

use bytes::Bytes;
use futures::{StreamExt, stream};
use jiff::Timestamp;
use setpoint_core::pod::{ContainerState, Exit, Phase};

use super::blueprint::Body;
use super::client::Simulated;
use super::place::State;
use crate::error::{Error, Fault, Operation};
use crate::provider::Answer;
use crate::session::{LogOptions, LogSource, LogStream, Logs};

/// How long a reader who follows waits for more.
const LOOK_AGAIN: std::time::Duration = std::time::Duration::from_secs(1);

/// A container's log as it is: what was written, and whether that is all.
struct Written {
    lines: Vec<(Timestamp, String)>,
    is_over: bool,
}

impl Logs for Simulated {
    fn read<'a>(&'a self, id: &'a str, container: &'a str, options: LogOptions) -> Answer<'a, LogStream> {
        Box::pin(async move {
            let first = self.written(id, container, options.previous)?;
            let text = Bytes::from(select(&first.lines, &options));
            let begin = stream::iter((!text.is_empty()).then_some(Ok(text)));
            if !options.follow || first.is_over || options.previous {
                return Ok(begin.boxed());
            }
            Ok(begin.chain(self.clone().followed(id.into(), container.to_owned(), first.lines.len(), options)).boxed())
        })
    }
}

impl Simulated {
    fn written(&self, id: &str, container: &str, previous: bool) -> Result<Written, Error> {
        let error = |words: &str| Error::provider(Operation::Logs, id, Fault::NotFound, words);
        self.place.read(|state, now| written(state, id, container, previous, now)).map_err(error)
    }

    /// What is written from now on, until the container has ended.
    fn followed(
        self,
        id: Box<str>,
        container: String,
        seen: usize,
        options: LogOptions,
    ) -> impl futures::Stream<Item = io::Result<Bytes>> + Send {
        stream::unfold((self, seen, false), move |(client, seen, is_over)| {
            let (id, container, options) = (id.clone(), container.clone(), options.clone());
            async move {
                if is_over {
                    return None;
                }
                tokio::time::sleep(LOOK_AGAIN).await;
                // What is gone has written all it will.
                let written =
                    client.written(&id, &container, false).unwrap_or(Written { lines: vec![], is_over: true });
                let more = written.lines.get(seen..).unwrap_or_default();
                let text = Bytes::from(select(more, &LogOptions { tail_lines: None, ..options }));
                let seen = seen.max(written.lines.len());
                Some((Ok(text), (client, seen, written.is_over)))
            }
        })
        .filter(|piece| std::future::ready(!matches!(piece, Ok(piece) if piece.is_empty())))
    }
}

fn written(state: &State, id: &str, container: &str, previous: bool, now: Timestamp) -> Result<Written, &'static str> {
    let found = state.cloud.serial(id).and_then(|serial| Some((serial, state.cloud.get(serial)?)));
    let Some((serial, instance)) = found else { return Err("there is no such instance") };
    let Body::Pod(plan) = &instance.body else { return Err("a Machine has no logs here") };
    let ready_after = std::time::Duration::from_millis(state.program.ready_ms);
    let pod = plan.state(serial, &instance.power, ready_after, now);
    let Some(container) = pod.container(container) else { return Err("there is no such container") };
    let says = plan.containers.iter().find(|plan| *plan.name == *container.name).and_then(|plan| plan.says.as_deref());
    let lines = if previous { container.last_exit.as_ref().map(|exit| of_run(says, None, Some(exit))) } else { None };
    Ok(Written {
        lines: if previous { lines.unwrap_or_default() } else { present(says, container) },
        is_over: matches!(container.phase, Phase::Ended(_)),
    })
}

fn present(says: Option<&str>, container: &ContainerState) -> Vec<(Timestamp, String)> {
    match &container.phase {
        Phase::Running { started_at } => of_run(says, Some(*started_at), None),
        Phase::Ended(exit) => of_run(says, None, Some(exit)),
        Phase::Waiting { .. } => {
            container.last_exit.as_ref().map(|exit| of_run(says, None, Some(exit))).unwrap_or_default()
        }
    }
}

/// What one run writes: as it starts, and as it ends.
fn of_run(says: Option<&str>, started_at: Option<Timestamp>, exit: Option<&Exit>) -> Vec<(Timestamp, String)> {
    let began = started_at.or(exit.and_then(|exit| exit.started_at));
    let begun = began.map(|at| (at, says.unwrap_or("started, and pretends to work").to_owned()));
    let ended = exit.map(|exit| (exit.finished_at, format!("ended with code {}", exit.code)));
    begun.into_iter().chain(ended).collect()
}

/// The part of a log that was asked for.
fn select(lines: &[(Timestamp, String)], options: &LogOptions) -> String {
    if options.source == LogSource::Errors {
        return String::new();
    }
    let wanted = |(at, _): &&(Timestamp, String)| options.since.is_none_or(|since| since <= *at);
    let wanted: Vec<_> = lines.iter().filter(wanted).collect();
    let tail = options.tail_lines.map_or(usize::MAX, |lines| usize::try_from(lines).unwrap_or(usize::MAX));
    let mut text = String::new();
    for (at, line) in &wanted[wanted.len().saturating_sub(tail)..] {
        if options.timestamps {
            text.push_str(&format!("{at} "));
        }
        text.push_str(line);
        text.push('\n');
    }
    let limit = options.limit_bytes.map_or(usize::MAX, |bytes| usize::try_from(bytes).unwrap_or(usize::MAX));
    if limit < text.len() {
        text.truncate(text.floor_char_boundary(limit));
    }
    text
}
