//! Sending a request to an endpoint of its group, and to another one where that may be done.
//!
//! A request that no endpoint has seen is sent again at no cost. One that an endpoint may have seen is sent again only if its
//! method is idempotent, nobody has read of its body, and the group's budget allows it.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use http::request::Parts;
use http::{Request, Response, StatusCode};
use hyper::body::Incoming;
use tokio::time::{Instant, timeout_at};

use super::answer::Problem;
use super::body::{AttemptBody, RequestBody};
use super::exchange::Exchange;
use super::live::Live;
use super::outgoing;
use super::service::too_large;
use super::upstream::{Lease, SendError, Way};
use super::worker::Worker;
use crate::table::{CompiledRoute, GroupId, Protocol, RouteId};

/// A request that has to be brought to a group.
pub(crate) struct Errand {
    pub(crate) worker: Rc<Worker>,
    pub(crate) live: Arc<Live>,
    pub(crate) group: GroupId,
    pub(crate) route: RouteId,
    pub(crate) parts: Parts,
    pub(crate) body: Rc<RequestBody>,
    pub(crate) deadline: Option<Instant>,
}

impl Errand {
    fn route(&self) -> &CompiledRoute {
        self.live.table.route(self.route)
    }
}

/// The head of a backend's answer, and the use of its connection until the end of the body.
pub(crate) struct Answer {
    pub(crate) response: Response<Incoming>,
    pub(crate) lease: Lease,
}

/// How one attempt failed.
enum Failed {
    Unreached(String),
    Broken(String),
    AttemptTimeout,
    RequestTimeout,
}

pub(crate) async fn run(errand: &mut Errand, exchange: &mut Exchange) -> Result<Answer, Problem> {
    let live = Arc::clone(&errand.live);
    let group = live.group(errand.group);
    if live.table.group(errand.group).protocol == Protocol::Http2 {
        outgoing::to_http2(&mut errand.parts, group.tls.is_some());
    }
    let mut tried: Vec<usize> = Vec::new();
    group.shared.budget.earn();
    loop {
        let now_ms = errand.worker.shared.now_ms();
        let random = errand.worker.random();
        let picked = group.pick(random, now_ms, &tried).or_else(|| group.pick(random, now_ms, &[]));
        let Some(place) = picked.or_else(|| (0..group.endpoints.len()).next()) else {
            return Err(failure(errand, &Failed::Unreached("it has no endpoint".to_owned())));
        };
        let is_last = tried.len() as u32 >= errand.route().limits.retries || !errand.body.can_be_sent_again();
        exchange.attempts += 1;
        exchange.endpoint = Some(group.endpoints[place].address);
        let failed = match attempt(errand, place, is_last).await {
            Ok(answer) => {
                // A gateway's complaint is about what is behind this endpoint; other errors are the application's own.
                let is_success = !matches!(answer.response.status().as_u16(), 502..=504);
                group.note(place, is_success, now_ms);
                return Ok(answer);
            }
            Err(failed) => failed,
        };
        if let Some(problem) = clients_fault(errand) {
            return Err(problem);
        }
        if matches!(failed, Failed::RequestTimeout) {
            return Err(failure(errand, &failed));
        }
        group.note(place, false, errand.worker.shared.now_ms());
        tracing::debug!(endpoint = %group.endpoints[place].address, "an attempt failed");
        let is_new = !tried.contains(&place);
        tried.push(place);
        let may_repeat = match failed {
            // Where there is no other endpoint, a refused connection is refused again.
            Failed::Unreached(_) => group.endpoints.len() > 1 || !is_new,
            _ => errand.parts.method.is_idempotent() && errand.body.can_be_sent_again() && group.shared.budget.spend(),
        };
        if is_last || !may_repeat || !errand.body.can_be_sent_again() {
            return Err(failure(errand, &failed));
        }
    }
}

async fn attempt(errand: &mut Errand, place: usize, is_last: bool) -> Result<Answer, Failed> {
    let (way, request) = outfit(errand, place, is_last)?;
    let kept = errand.worker.shared.limits.idle_per_endpoint;
    let mut lease = Lease::new(&way, &errand.body, &errand.worker.pool, kept);
    let attempt_end = errand.route().timeouts.attempt_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let pool = &errand.worker.pool;
    let sent = match [attempt_end, errand.deadline].into_iter().flatten().min() {
        None => pool.send(&way, request, &mut lease).await,
        Some(end) => match Box::pin(timeout_at(end, pool.send(&way, request, &mut lease))).await {
            Ok(sent) => sent,
            Err(_) if errand.deadline.is_some_and(|deadline| deadline <= Instant::now()) => {
                return Err(Failed::RequestTimeout);
            }
            Err(_) => return Err(Failed::AttemptTimeout),
        },
    };
    match sent {
        Ok(response) => {
            let (live, worker, id) = (Arc::clone(&errand.live), Rc::clone(&errand.worker), errand.group);
            lease.on_failure(move || live.group(id).note(place, false, worker.shared.now_ms()));
            Ok(Answer { response, lease })
        }
        Err(SendError::Connect(error)) => Err(Failed::Unreached(chain(&error))),
        Err(SendError::Broken(error)) => Err(Failed::Broken(chain(&error))),
    }
}

/// The way to an endpoint, and the request as it is sent there. The last attempt takes the head along; others copy it.
fn outfit(errand: &mut Errand, place: usize, is_last: bool) -> Result<(Way, Request<AttemptBody>), Failed> {
    let group = errand.live.group(errand.group);
    let compiled = errand.live.table.group(errand.group);
    let tls = match (&group.tls, &compiled.tls) {
        (Some(Ok(config)), Some(tls)) => Some((Arc::clone(config), tls.server_name.clone())),
        (Some(Err(fault)), _) => return Err(Failed::Unreached(fault.clone())),
        _ => None,
    };
    let way = Way {
        endpoint: Arc::clone(&group.endpoints[place]),
        is_http2: compiled.protocol == Protocol::Http2,
        tls,
        connect_timeout: Duration::from_millis(errand.route().timeouts.connect_ms),
    };
    let mut request = Request::new(errand.body.attempt());
    if is_last {
        *request.method_mut() = errand.parts.method.clone();
        *request.uri_mut() = std::mem::take(&mut errand.parts.uri);
        *request.version_mut() = errand.parts.version;
        *request.headers_mut() = std::mem::take(&mut errand.parts.headers);
    } else {
        *request.method_mut() = errand.parts.method.clone();
        *request.uri_mut() = errand.parts.uri.clone();
        *request.version_mut() = errand.parts.version;
        *request.headers_mut() = errand.parts.headers.clone();
    }
    Ok((way, request))
}

/// What went wrong because of what the client sent, or did not send.
fn clients_fault(errand: &Errand) -> Option<Problem> {
    if errand.body.is_too_large.get() {
        return Some(too_large(errand.route(), errand.route().limits.request_body_bytes.unwrap_or(0)));
    }
    errand
        .body
        .is_too_slow
        .get()
        .then(|| Problem::new(StatusCode::REQUEST_TIMEOUT, "slow-body", "The body did not arrive in time.").closing())
}

fn failure(errand: &Errand, failed: &Failed) -> Problem {
    let title = &errand.live.table.group(errand.group).title;
    let timeout = StatusCode::GATEWAY_TIMEOUT;
    match failed {
        Failed::Unreached(why) => Problem::new(
            StatusCode::BAD_GATEWAY,
            "connect-failed",
            format!("No connection to an endpoint of {title} could be made: {why}."),
        ),
        Failed::Broken(why) => Problem::new(
            StatusCode::BAD_GATEWAY,
            "no-answer",
            format!("The endpoint of {title} ended the connection before it answered: {why}."),
        ),
        Failed::AttemptTimeout => {
            Problem::new(timeout, "attempt-timeout", format!("{title} did not answer in the time for one attempt."))
        }
        Failed::RequestTimeout => {
            Problem::new(timeout, "request-timeout", format!("{title} did not answer in the time for the request."))
        }
    }
}

/// An error with what is behind it.
fn chain(error: &dyn std::error::Error) -> String {
    let errors = std::iter::successors(Some(error), |error| error.source());
    errors.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}
