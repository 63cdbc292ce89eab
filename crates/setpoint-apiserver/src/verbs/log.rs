//! Reading what a container logged.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::BoxFuture;
use futures::{StreamExt, stream};
use http::StatusCode;
use http::header::{CONTENT_TYPE, HeaderValue};

use super::leave::Leave;
use super::read;
use crate::failure::{Failure, Result};
use crate::fairness::{Held, Holding};
use crate::response::{self, Response};
use crate::server::{Call, DEADLINE, Shared};
use crate::streams::{LogStream, options, place};

/// Answers with a log as it is read, for as long as its caller is allowed to see it.
pub async fn log(server: &Arc<Shared>, call: Call) -> Result<Response> {
    let options = options::log(&call.query, call.name(), call.now)?;
    let pod = read(server, &call.resource, call.namespace(), call.name()).await?;
    let Some(pod) = place::find(&call.resource.value(&pod), call.query.text("container"))? else {
        return Ok(response::text(StatusCode::NO_CONTENT, ""));
    };
    let access = server.pods.get()?;
    let leave = Leave::ask(server.clone(), &call, &["get"])?;
    let held = server.fairness.hold(&call.caller.real().user, Holding::Stream, 1)?;
    let left = options.limit_bytes.unwrap_or(u64::MAX);
    let opened = tokio::time::timeout(DEADLINE, access.logs(&pod, options)).await;
    let source = opened.map_err(|_| Failure::timed_out())??;
    let reading = Reading { source, left, over: Box::pin(leave.lost()), _held: held };
    let mut response = response::streamed(stream::unfold(reading, Reading::next));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("text/plain"));
    Ok(response)
}

/// One client's reading of a log.
struct Reading {
    source: LogStream,
    /// How many bytes may still be sent.
    left: u64,
    /// Resolves when it may not go on.
    over: BoxFuture<'static, Failure>,
    _held: Option<Held>,
}

impl Reading {
    async fn next(mut self) -> Option<(Bytes, Reading)> {
        if self.left == 0 {
            return None;
        }
        let piece = tokio::select! {
            biased;
            _ = &mut self.over => return None,
            piece = self.source.next() => piece?,
        };
        // The answer has begun, so that only its text can say why it ends here.
        let Ok(mut piece) = piece else {
            let why = piece
                .map_or_else(|error| format!("\nthe log cannot be read any further: {error}\n"), |_| String::new());
            self.left = 0;
            return Some((why.into(), self));
        };
        piece.truncate(usize::try_from(self.left).unwrap_or(usize::MAX));
        self.left -= piece.len() as u64;
        Some((piece, self))
    }
}
