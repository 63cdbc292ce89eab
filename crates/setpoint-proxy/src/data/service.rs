//! One request from end to end: judged, routed, sent on, answered.

use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, HeaderName, SET_COOKIE, UPGRADE};
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Version};
use hyper::body::Incoming;
use hyper::upgrade::OnUpgrade;
use tokio::time::Instant;

use super::answer::{Problem, Reader, redirect, response};
use super::attempts::{Answer, Errand, run};
use super::body::{RequestBody, ResponseBody};
use super::connection::Connection;
use super::exchange::Exchange;
use super::live::Live;
use super::outgoing;
use crate::head::has_dot_segment;
use crate::hop_by_hop;
use crate::stickiness;
use crate::table::{
    CompiledAction, CompiledListener, CompiledRoute, CompiledSplit, Found, GroupId, NotFound, Protocol, RequestHead,
    RouteId, SetId, host_of, port_of,
};

const X_REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

/// Answers one request. Whatever happens, there is an answer.
pub(crate) async fn serve(connection: Rc<Connection>, request: Request<Incoming>) -> Response<ResponseBody> {
    let place = connection.watch.served.fetch_add(1, Relaxed);
    let (method, uri, version) = (request.method().clone(), request.uri().clone(), request.version());
    let mut exchange = Exchange::begin(&connection, connection.worker.live(), method, uri, version);
    if let Some(refusal) = connection.watch.refusal_of(place) {
        connection.worker.shared.refused(refusal);
        let status = StatusCode::from_u16(refusal.status()).unwrap_or(StatusCode::BAD_REQUEST);
        let problem = Problem::new(status, "malformed", format!("The request is refused: {refusal}.")).closing();
        return finish(exchange, response(&problem, Reader::Program, None));
    }
    exchange.place = place;
    let reader = Reader::of(request.headers());
    let request_id = request_id(&connection, request.headers());
    exchange.request_id = Some(request_id.clone());
    let live = Arc::clone(exchange.live());
    // Deciding is synchronous, so that what it needs takes no room while the request is under way.
    let answered = match decide(&connection, &live, request, &mut exchange) {
        Ok(Decision::Answer(response)) => Ok(*response),
        Ok(Decision::Forward(mut forwarding)) => match run(&mut forwarding.errand, &mut exchange).await {
            Ok(answer) => pass_on(*forwarding, answer, &mut exchange),
            Err(problem) => Err(body_problem(&connection).unwrap_or(problem)),
        },
        Err(problem) => Err(problem),
    };
    let mut answered = answered.unwrap_or_else(|problem| {
        exchange.reason = Some(problem.reason);
        let mut response = response(&problem, reader, Some(&request_id));
        if exchange.version == Version::HTTP_2 {
            response.headers_mut().remove(http::header::CONNECTION);
        }
        response
    });
    if connection.watch.is_upgrade_awaited_by(place) && answered.status() != StatusCode::SWITCHING_PROTOCOLS {
        connection.watch.decide_upgrade(false);
    }
    answered.headers_mut().insert(X_REQUEST_ID, request_id);
    finish(exchange, answered)
}

/// The exchange ends with the body of its answer.
fn finish(mut exchange: Box<Exchange>, response: Response<ResponseBody>) -> Response<ResponseBody> {
    exchange.status = Some(response.status().as_u16());
    if exchange.status == Some(101) {
        // It ends with the other protocol, which has it already.
        exchange.is_whole = true;
    }
    response.map(|body| body.with_exchange(exchange))
}

/// The id that a trusted peer gave the request, or one of our own.
fn request_id(connection: &Connection, headers: &HeaderMap) -> HeaderValue {
    let given = headers.get(X_REQUEST_ID).filter(|id| {
        let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_.:/+=".contains(byte);
        connection.is_trusted && (1..=128).contains(&id.len()) && id.as_bytes().iter().all(is_plain)
    });
    given.cloned().unwrap_or_else(|| {
        let (high, low) = (connection.worker.random(), connection.worker.random());
        let mut digits = [0; 32];
        for (place, digit) in digits.iter_mut().enumerate() {
            let half = if place < 16 { high } else { low };
            *digit = b"0123456789abcdef"[(half >> (4 * (place % 16)) & 15) as usize];
        }
        HeaderValue::from_bytes(&digits).unwrap_or_else(|_| HeaderValue::from_static("none"))
    })
}

/// What becomes of a request.
enum Decision {
    Answer(Box<Response<ResponseBody>>),
    Forward(Box<Forwarding>),
}

/// A request that is to be brought to a backend, and what its answer has to be given.
struct Forwarding {
    connection: Rc<Connection>,
    errand: Errand,
    route: RouteId,
    upgrade: Option<OnUpgrade>,
    cookie: Option<HeaderValue>,
}

fn decide(
    connection: &Rc<Connection>,
    live: &Arc<Live>,
    request: Request<Incoming>,
    exchange: &mut Exchange,
) -> Result<Decision, Problem> {
    // The one asks for a tunnel, the other shows what was added on the way.
    if matches!(*request.method(), Method::CONNECT | Method::TRACE) {
        let what = format!("{} is not served.", request.method());
        return Err(Problem::new(StatusCode::METHOD_NOT_ALLOWED, "method", what));
    }
    let authority = authority(&request)?;
    exchange.host = Rc::clone(&authority);
    let (set, redirect_to_https_port) = match live.table.listener(&connection.listener) {
        Some(CompiledListener::Http { set, redirect_to_https_port }) => (*set, *redirect_to_https_port),
        Some(CompiledListener::Https { set }) => (*set, None),
        _ => {
            return Err(
                Problem::new(StatusCode::NOT_FOUND, "no-listener", "Nothing is served here any more.").closing()
            );
        }
    };
    if let Some(port) = redirect_to_https_port {
        return to_https(&authority, port, &request).map(|response| Decision::Answer(Box::new(response)));
    }
    let found = find(live, set, &authority, &request)?;
    let route = live.table.route(found.route);
    let state = live.route(found.route);
    if let Some(limit) = route.limits.concurrent_requests
        && state.measures.in_flight.load(Relaxed) >= limit
    {
        let what = format!("Route {} already works on {limit} requests, as many as it may.", route.name);
        return Err(Problem::new(StatusCode::SERVICE_UNAVAILABLE, "too-many-requests", what).retry_after(1));
    }
    exchange.take_route(found.route);
    match &route.action {
        CompiledAction::Redirect(rule) => outgoing::redirect_location(rule, connection, &authority, &request, found)
            .and_then(|location| redirect(StatusCode::from_u16(rule.status).ok()?, &location))
            .map(|response| Decision::Answer(Box::new(response)))
            .ok_or_else(|| Problem::new(StatusCode::BAD_REQUEST, "redirect", "The request cannot be redirected.")),
        CompiledAction::Forward(split) => {
            let arrived = Arrived { connection, live, found, route, authority: &authority };
            forward(&arrived, split, request, exchange).map(|forwarding| Decision::Forward(Box::new(forwarding)))
        }
    }
}

/// Whom the request is for. In HTTP/1 the scanner has already compared the target with Host.
fn authority(request: &Request<Incoming>) -> Result<Rc<str>, Problem> {
    let malformed = |what: &str| Problem::new(StatusCode::BAD_REQUEST, "malformed", what.to_owned()).closing();
    let host = request.headers().get(HOST).map(|host| host.to_str().map_err(|_| malformed("The Host is malformed.")));
    let host = host.transpose()?;
    let named = request.uri().authority().map(http::uri::Authority::as_str);
    if request.version() == Version::HTTP_2 {
        if let (Some(host), Some(named)) = (host, named)
            && !host.eq_ignore_ascii_case(named)
        {
            return Err(malformed("The request is refused: :authority and Host disagree."));
        }
        if has_dot_segment(request.uri().path().as_bytes()) {
            return Err(malformed("The request is refused: the path has a dot segment."));
        }
        if named.or(host).is_some_and(|authority| authority.contains('@')) {
            return Err(malformed("The request is refused: the authority names a user."));
        }
    }
    Ok(named.or(host).unwrap_or("").into())
}

fn to_https(authority: &str, port: u16, request: &Request<Incoming>) -> Result<Response<ResponseBody>, Problem> {
    let host = authority.rsplit_once(':').filter(|_| port_of(authority).is_some()).map_or(authority, |(host, _)| host);
    let port = if port == 443 { String::new() } else { format!(":{port}") };
    let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
    // A method other than these would be changed into GET by a 301.
    let keeps = matches!(*request.method(), Method::GET | Method::HEAD);
    let status = if keeps { StatusCode::MOVED_PERMANENTLY } else { StatusCode::PERMANENT_REDIRECT };
    redirect(status, &format!("https://{host}{port}{path}")).filter(|_| !host.is_empty()).ok_or_else(|| {
        Problem::new(StatusCode::BAD_REQUEST, "redirect", "The request names no host to be redirected to.")
    })
}

fn find(live: &Live, set: SetId, authority: &str, request: &Request<Incoming>) -> Result<Found, Problem> {
    let host = host_of(authority);
    let uri = request.uri();
    let head = RequestHead {
        host: &host,
        path: if uri.path().is_empty() { "/" } else { uri.path() },
        query: uri.query(),
        method: request.method(),
        headers: request.headers(),
    };
    live.table.find(set, &head).map_err(|missing| match missing {
        NotFound::Host => {
            Problem::new(StatusCode::NOT_FOUND, "unknown-host", format!("No route is for the host {host:?}."))
        }
        NotFound::Path => Problem::new(
            StatusCode::NOT_FOUND,
            "unknown-path",
            format!("No route of the host {host:?} takes this path, method and headers."),
        ),
    })
}

/// A request that has found its route.
struct Arrived<'a> {
    connection: &'a Rc<Connection>,
    live: &'a Arc<Live>,
    found: Found,
    route: &'a CompiledRoute,
    authority: &'a Rc<str>,
}

fn forward(
    arrived: &Arrived<'_>,
    split: &CompiledSplit,
    mut request: Request<Incoming>,
    exchange: &mut Exchange,
) -> Result<Forwarding, Problem> {
    let Arrived { connection, live, route, .. } = *arrived;
    if let Some(limit) = route.limits.request_body_bytes
        && declared_bytes(request.headers()).is_some_and(|bytes| bytes > limit)
    {
        return Err(too_large(route, limit));
    }
    let state = live.route(arrived.found.route);
    let (group, point, source) = match (split.only_group(), &split.sticky) {
        (Some(group), _) => (Some(group).filter(|group| live.group(*group).is_usable()), 0, None),
        (None, sticky) => {
            let (point, source) = stickiness::point(sticky.as_ref(), request.headers(), || state.points.next());
            let choice = split.choose(point, |group| live.group(group).is_usable());
            exchange.instead_of = choice.instead_of.filter(|_| choice.group.is_some());
            (choice.group, point, Some(source))
        }
    };
    let Some(group) = group else {
        let of = split.only_group().unwrap_or_else(|| split.group_at(point));
        exchange.take_group(of);
        return Err(unavailable(live, route, of));
    };
    exchange.take_group(group);

    let wanted_upgrade = hop_by_hop::wanted_upgrade(request.headers())
        .filter(|_| live.table.group(group).protocol == Protocol::Http1)
        // Where the scanner saw no such wish, it goes on reading HTTP.
        .filter(|_| connection.watch.is_upgrade_awaited_by(exchange.place));
    let upgrade = wanted_upgrade.is_some().then(|| hyper::upgrade::on(&mut request));
    let (mut parts, incoming) = request.into_parts();
    let body =
        RequestBody::new(incoming, route.limits.request_body_bytes, connection.worker.shared.limits.patience.body);
    exchange.body = Some(Rc::clone(&body));
    outgoing::prepare(&mut parts, connection, arrived.authority, arrived.found, route);
    if let Some(protocol) = &wanted_upgrade {
        parts.headers.insert(UPGRADE, protocol.clone());
        parts.headers.insert(http::header::CONNECTION, HeaderValue::from_static("upgrade"));
    }
    if let Some(id) = &exchange.request_id {
        parts.headers.insert(X_REQUEST_ID, id.clone());
    }
    let deadline = route.timeouts.request_ms.map(|ms| Instant::now() + Duration::from_millis(ms));
    let cookie =
        source.and_then(|source| stickiness::cookie(split.sticky.as_ref(), point, source, connection.is_https));
    let live = Arc::clone(live);
    let route = arrived.found.route;
    let errand = Errand { worker: Rc::clone(&connection.worker), live, group, route, parts, body, deadline };
    Ok(Forwarding { connection: Rc::clone(connection), errand, route, upgrade, cookie })
}

/// Gives a backend's answer what the route adds to it.
fn pass_on(forwarding: Forwarding, answer: Answer, exchange: &mut Exchange) -> Result<Response<ResponseBody>, Problem> {
    let Forwarding { connection, errand, route, upgrade, cookie } = forwarding;
    let Answer { mut response, lease } = answer;
    if response.status() == StatusCode::SWITCHING_PROTOCOLS {
        return super::upgrade::switch(&connection, response, lease, upgrade, exchange);
    }
    hop_by_hop::remove(response.headers_mut());
    errand.live.table.route(route).response_headers.apply(response.headers_mut());
    if let Some(cookie) = cookie {
        response.headers_mut().append(SET_COOKIE, cookie);
    }
    *response.version_mut() = Version::HTTP_11;
    Ok(response.map(|incoming| ResponseBody::backend(incoming, lease, errand.deadline)))
}

/// What was wrong with a body that broke off, if the scanner refused it.
fn body_problem(connection: &Connection) -> Option<Problem> {
    let refusal = connection.watch.body_refusal()?;
    connection.worker.shared.refused(refusal);
    Some(Problem::new(StatusCode::BAD_REQUEST, "malformed", format!("The body is refused: {refusal}.")).closing())
}

fn declared_bytes(headers: &HeaderMap) -> Option<u64> {
    headers.get(CONTENT_LENGTH)?.to_str().ok()?.parse().ok()
}

pub(crate) fn too_large(route: &CompiledRoute, limit: u64) -> Problem {
    let what = format!("Route {} takes bodies of at most {limit} bytes.", route.name);
    Problem::new(StatusCode::PAYLOAD_TOO_LARGE, "body-too-large", what).closing()
}

/// Nothing is ready: the page says what, and why.
fn unavailable(live: &Live, route: &CompiledRoute, group: GroupId) -> Problem {
    let group = live.table.group(group);
    let why = match (&group.unavailable, group.total) {
        (Some(why), _) => why.clone(),
        (None, 0) => "it has no endpoints".to_owned(),
        (None, total) => format!("none of its {total} endpoints is ready"),
    };
    let what = format!("{} has nothing to answer with: {why}. (Route {})", group.title, route.name);
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, "no-endpoint", what).retry_after(5)
}
