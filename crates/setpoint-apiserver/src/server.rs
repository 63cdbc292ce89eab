//! The server: what all requests share, and the way of a request through it.

use std::convert::Infallible;
use std::future::Future;
use std::net::IpAddr;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::FutureExt;
use http::header::{CONNECTION, HeaderValue};
use http::{HeaderMap, Method, Request};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use jiff::Timestamp;
use parking_lot::Mutex;
use serde_json::Value;
use setpoint_store::Store;

use crate::authentication::{self, Caller, Issuer, Users};
use crate::authorization::{Access, Decision};
use crate::custom::Definitions;
use crate::failure::{Failure, Result};
use crate::fairness::{Fairness, Held, Holding, Limits, Place, Seat, Work};
use crate::linger::{Lingering, Sender};
use crate::listener::Lease;
use crate::live_policy::{self, LivePolicy};
use crate::metrics::Metrics;
use crate::namespaces::Namespaces;
use crate::query::Query;
use crate::registry::{Lookup, Registry, Resource, Subresource};
use crate::request::{self, ResourcePath, Target, Verb};
use crate::response::{self, Response};
use crate::schema::Schemas;
use crate::service_ip::Allocator;
use crate::settled::Settled;
use crate::streams::{PodAccess, Pods, Upgrade};
use crate::surroundings::Surroundings;
use crate::{audit, built_in, discovery, expiry, fairness, garbage, health, negotiate, openapi, own_kinds, verbs};

/// The largest body a request may have.
pub const BODY_LIMIT: usize = 3 * 1024 * 1024;

/// The largest body that is read, to be ignored, by what takes none.
const PLAIN_BODY_LIMIT: usize = 4 * 1024;

/// How long a request other than a watch may take.
pub(crate) const DEADLINE: Duration = Duration::from_secs(60);

/// The Kubernetes API over a store. Cheap to clone; also a `tower::Service`, so that a client in the same process
/// needs no socket.
#[derive(Debug, Clone)]
pub struct Server(Arc<Shared>);

#[derive(Debug)]
pub struct Shared {
    pub store: Arc<dyn Store>,
    registry: tokio::sync::watch::Sender<Arc<Registry>>,
    pub metrics: Metrics,
    pub namespaces: Namespaces,
    pub definitions: Definitions,
    pub services: Mutex<Allocator>,
    pub settled: Settled,
    pub schemas: Schemas,
    pub documents: openapi::Documents,
    /// What the `scale` subresources take and give.
    pub scale: Resource,
    /// What the `token` subresource takes and gives.
    pub token_request: Resource,
    pub users: Users,
    /// Who makes and knows the tokens of service accounts.
    pub issuer: Issuer,
    /// Who may do what, as roles and bindings are now.
    pub policy: LivePolicy,
    pub fairness: Fairness,
    /// The rest of the bodies of requests that are answered already.
    pub(crate) lingering: Lingering,
    /// The way to the Pods that run.
    pub pods: Pods,
    pub audit: Option<audit::Log>,
    /// Who approved and who did what, once it is said where that is kept.
    pub decisions: OnceLock<audit::Decisions>,
    /// Where time and chance come from.
    pub surroundings: Surroundings,
    ready: AtomicBool,
    stopping: tokio::sync::watch::Sender<bool>,
}

/// What a server is told when it starts.
#[derive(Debug)]
pub struct Setup {
    pub users: Users,
    pub issuer: Issuer,
    pub limits: Limits,
    /// Where it is written who did what; nowhere if `None`.
    pub audit: Option<audit::Log>,
    /// Where time and chance come from: by default, from the system.
    pub surroundings: Surroundings,
}

/// The address that a request came from, put into its extensions by the transport.
#[derive(Debug, Clone, Copy)]
pub struct Source(pub IpAddr);

/// A request to a resource, on its way through the server.
pub struct Call {
    pub caller: Caller,
    pub resource: Arc<Resource>,
    pub verb: Verb,
    pub path: ResourcePath,
    pub query: Query,
    pub headers: HeaderMap,
    pub body: Bytes,
    pub now: Timestamp,
    /// Where much is read, between two pieces of which others may go first.
    pub place: Option<Place>,
}

impl std::fmt::Debug for Call {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // Headers hold tokens, and bodies may be Secrets.
        f.debug_struct("Call").field("verb", &self.verb).field("path", &self.path).finish_non_exhaustive()
    }
}

impl Call {
    /// Reads the body as a type that is not a resource, such as `DeleteOptions`, by the full name of its schema.
    pub fn decode(&self, server: &Shared, definition: &str) -> Result<Value> {
        let kind = definition.rsplit('.').next().unwrap_or_default();
        let refused = |why: &str| Failure::bad_request(format!("{kind} cannot be handled: {why}"));
        let body = negotiate::body(&self.headers, &self.body)?;
        let stated = body.type_meta().map_err(|error| refused(&error.to_string()))?;
        if !stated.kind.is_empty() && stated.kind != kind {
            let version = stated.api_version;
            return Err(refused(&format!("no kind {:?} is registered for version {version:?} here", stated.kind)));
        }
        let schema =
            server.schemas.get(definition).unwrap_or_else(|| panic!("{definition} is among the built-in schemas"));
        Ok(body.decode(&schema).map_err(|error| refused(&error.to_string()))?.object)
    }

    pub fn namespace(&self) -> Option<&str> {
        self.path.namespace.as_deref()
    }

    /// The name in the path; "" for a collection.
    pub fn name(&self) -> &str {
        self.path.name.as_deref().unwrap_or_default()
    }
}

impl Server {
    /// Opens the API over a store: makes the namespaces every cluster has, installs our own kinds and starts what works in the background.
    /// Must be called on a tokio runtime.
    pub async fn open(store: Arc<dyn Store>, setup: Setup) -> Result<Server> {
        let (namespaces, emptier) = Namespaces::new();
        let (definitions, cleaner) = Definitions::new();
        let schemas = Schemas::built_in();
        let server = Server(Arc::new(Shared {
            metrics: Metrics::default(),
            registry: tokio::sync::watch::Sender::new(Arc::new(built_in::registry(&schemas))),
            scale: built_in::scale(&schemas),
            token_request: built_in::token_request(&schemas),
            schemas,
            documents: openapi::Documents::default(),
            namespaces,
            definitions,
            settled: Settled::default(),
            services: Mutex::new(Allocator::new(Allocator::DEFAULT_RANGE, Allocator::DEFAULT_PORTS)),
            users: setup.users,
            issuer: setup.issuer,
            policy: LivePolicy::default(),
            fairness: Fairness::new(setup.limits),
            lingering: Lingering::default(),
            pods: Pods::default(),
            audit: setup.audit,
            decisions: OnceLock::new(),
            surroundings: setup.surroundings,
            ready: AtomicBool::new(false),
            stopping: tokio::sync::watch::Sender::new(false),
            store,
        }));
        server.0.namespaces.create_initial(&server.0).await?;
        server.0.definitions.load(&server.0).await?;
        server.0.policy.load(&server.0).await?;
        own_kinds::install(&server.0).await?;
        live_policy::default_roles::install(&server.0).await?;
        live_policy::aggregated_rules::write(&server.0).await?;
        verbs::services::learn_addresses(&server.0).await?;
        tokio::spawn(emptier.run(server.0.clone()));
        tokio::spawn(cleaner.run(server.0.clone()));
        tokio::spawn(garbage::run(server.0.clone()));
        tokio::spawn(live_policy::aggregated_rules::run(server.0.clone()));
        tokio::spawn(expiry::run(server.0.clone()));
        let shared = server.0.clone();
        tokio::spawn(async move { shared.users.follow_file().await });
        server.0.ready.store(true, Ordering::Release);
        Ok(server)
    }

    /// Says how the Pods that run are reached: by what runs them, which is a client of this server and starts after it.
    pub fn connect_pods(&self, access: Arc<dyn PodAccess>) {
        self.0.pods.connect(access);
    }

    /// Says where it is kept who approved and who did what. From then on the log follows the store until that is closed.
    pub fn keep_decisions(&self, log: audit::Decisions) {
        log.follow(self.0.store.clone());
        // There is one server, and it is told once.
        let _ = self.0.decisions.set(log);
    }

    /// Shows what others in this process count beside what the server does.
    pub fn publish(&self, metrics: Arc<prometheus_client::registry::Registry>) {
        self.0.metrics.publish(metrics);
    }

    /// Ends all watches and sessions, and refuses to be ready, so that clients go elsewhere.
    pub fn stop(&self) {
        self.0.ready.store(false, Ordering::Release);
        self.0.stopping.send_replace(true);
    }

    /// Resolves when the server stops.
    pub(crate) async fn stopped(&self) {
        let _ = self.0.stopping().wait_for(|stopping| *stopping).await;
    }

    /// Answers one request. An identity or a certificate put into the request's extensions by the transport counts; a
    /// bearer token is looked at where there is none.
    pub async fn handle<B>(&self, request: Request<B>) -> Response
    where
        B: http_body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send> + Send + 'static,
    {
        let started = Instant::now();
        let (parts, body) = request.into_parts();
        let mut body = Box::pin(body);
        let source = parts.extensions.get::<Source>().map(|source| source.0);
        let record = audit::Request::new(&parts, source, Timestamp::now());
        let audit_id = record.id.clone();
        let mut about = About { record: Some(record), ..About::default() };
        let answer = guarded(self.answer(&parts, body.as_mut(), &mut about)).await;
        if let Some(record) = about.record {
            let lines = self.0.lines(&record, &answer);
            self.0.write_down(lines).await;
        }
        let mut response = match answer {
            Ok(response) => response::compress(response, &parts.headers),
            Err(failure) => response::failure(&failure),
        };
        response.headers_mut().insert(audit::AUDIT_ID, audit_id);
        response::warn(&mut response, about.deprecation);
        if !about.body_read {
            if parts.version < http::Version::HTTP_2 {
                response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
            }
            if !body.is_end_stream() {
                let connection = parts.extensions.get::<Lease>();
                self.0.lingering.read_on(body, about.sender, connection, self.0.stopping());
            }
        }
        self.0.metrics.observe(about.verb, &about.resource, response.status(), started.elapsed());
        response
    }

    async fn answer<B>(&self, parts: &http::request::Parts, body: Pin<&mut B>, about: &mut About) -> Result<Response>
    where
        B: http_body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
    {
        let target = request::target(parts.uri.path());
        let query = Query::parse(parts.uri.query());
        let session = match &target {
            Ok(Target::Resource(path)) if path.is_session() => Some(path),
            _ => None,
        };
        about.acts(session.is_some());
        // Whether all is well is told to everybody, and whatever else is going on.
        if let Ok(Target::Health { .. }) = target {
            // A body is nobody's business here, and a stranger may never send what it announced.
            about.body_read = body.is_end_stream();
            return self.0.answer_plain(target?, parts, &query).await;
        }
        let caller = authentication::authenticate(&self.0, parts).await?;
        about.is_from(&caller);
        about.sender = Sender::Known;
        let caller = authentication::impersonate(&self.0, caller, &parts.headers)?;
        about.is_from(&caller);
        let access = Access::of(&target, parts.uri.path(), &parts.method, &query);
        let decided = access.check(&self.0.policy.read(), &caller.identity).map(|decision| about.is_allowed(&decision));
        // A WebSocket is asked for with a GET, but who may only look may not act by it.
        let decided = decided.and_then(|()| match session.map(|path| Access::by_path("create", path, &query)) {
            Some(access) => access.check(&self.0.policy.read(), &caller.identity).map(drop),
            None => Ok(()),
        });
        if let Err(refusal) = decided {
            about.is_forbidden();
            let refused = Err(refusal);
            // Whether or not its body ever comes.
            if let Some(record) = about.record.take() {
                let lines = self.0.lines(&record, &refused);
                self.0.write_down(lines).await;
            }
            about.body_read = matches!(tokio::time::timeout(DEADLINE, read(body, PLAIN_BODY_LIMIT)).await, Ok(Ok(_)));
            return refused;
        }
        let (fairness, user) = (&self.0.fairness, caller.real().user.clone());
        // Before anything is refused, so that the next request on the connection begins where this one ends.
        let limit = if matches!(target, Ok(Target::Resource(_))) { BODY_LIMIT } else { PLAIN_BODY_LIMIT };
        let held = fairness.hold(&user, Holding::BodyByte, announced(&*body, limit)?)?;
        let body = tokio::time::timeout(DEADLINE, read(body, limit)).await.map_err(|_| Failure::timed_out())??;
        about.body_read = true;
        negotiate::check_encoding(&parts.headers)?;
        let path = match target? {
            Target::Resource(path) => path,
            target => {
                let _seat = fairness.seat(&user, Work::Piece).await?;
                return self.0.answer_plain(target, parts, &query).await;
            }
        };
        if path.beyond {
            return Err(Failure::no_such_resource());
        }
        let registry = self.0.registry();
        let resource = match registry.find(&path.group, &path.version, &path.resource) {
            Lookup::Found(resource) => resource,
            Lookup::NoResource if !registry.is_custom_group(&path.group) => return Err(Failure::no_such_resource()),
            Lookup::NoResource | Lookup::NoGroup => return Err(Failure::page_not_found()),
        };
        check_scope(&resource, &path, &parts.method)?;
        let verb = path.verb(&parts.method, query.is_watch())?;
        about.verb = verb.name();
        about.resource = resource.plural.to_string();
        about.deprecation = resource.behaviour.deprecation().map(str::to_owned);
        let _in_flight = self.0.metrics.in_flight(verb);
        let (headers, now) = (parts.headers.clone(), self.0.surroundings.now());
        let call = Call { caller, resource, verb, path, query, headers, body, now, place: None };
        let subresource = call.path.subresource.as_deref().and_then(|name| call.resource.subresource(name));
        match (verb, subresource) {
            (Verb::Get, Some(Subresource::Log)) => {
                about.verb = "connect";
                let seat = fairness.seat(&user, Work::Piece).await?;
                fairness::until_it_waits(seat, verbs::log(&self.0, call)).await
            }
            (Verb::Get | Verb::Create, Some(session @ (Subresource::Exec | Subresource::Attach))) => {
                about.verb = "connect";
                let (seat, upgrade) = (fairness.seat(&user, Work::Piece).await?, Upgrade::of(&parts.extensions));
                fairness::until_it_waits(seat, verbs::connect(&self.0, call, session, upgrade)).await
            }
            (Verb::Watch, _) => {
                let seat = fairness.seat(&user, Work::Piece).await?;
                let answer = verbs::watch(&self.0, call).await;
                seat.leave_later();
                answer
            }
            (Verb::Get, _) => {
                let _seat = fairness.seat(&user, Work::Piece).await?;
                self.read(call).await
            }
            (Verb::List, _) => self.list(call, &user).await,
            _ => {
                let place = (fairness.seat(&user, Work::Write).await?, held);
                let seat = fairness.seat(&user, Work::Piece).await?;
                self.write(call, seat, place, about.record.take()).await
            }
        }
    }

    async fn read(&self, call: Call) -> Result<Response> {
        tokio::time::timeout(DEADLINE, verbs::run(&self.0, call)).await.map_err(|_| Failure::timed_out())?
    }

    /// Runs a list, which is sent piece by piece, each of which waits for its turn.
    async fn list(&self, mut call: Call, user: &str) -> Result<Response> {
        let fairness = &self.0.fairness;
        let held = fairness.hold(user, Holding::List, 1)?;
        call.place = Some(fairness.place(user).await?);
        let list = self.read(call).await?;
        Ok(if response::is_whole(&list) { list } else { response::paced(list, fairness.pace(user), held) })
    }

    /// Runs a write, which goes on when its client goes away: the commit may have happened, and what follows from it must
    /// too. Until then it keeps its place and its body counts; and it is written down whoever is there to be answered.
    async fn write(
        &self,
        call: Call,
        seat: Seat,
        place: (Seat, Option<Held>),
        record: Option<audit::Request>,
    ) -> Result<Response> {
        let shared = self.0.clone();
        let write = tokio::spawn(async move {
            let _place = place;
            let answer = guarded(fairness::until_it_waits(seat, verbs::run(&shared, call))).await;
            if let Some(record) = record {
                let lines = shared.lines(&record, &answer);
                shared.write_down(lines).await;
            }
            answer
        });
        match tokio::time::timeout(DEADLINE, write).await {
            Ok(Ok(answer)) => answer,
            Ok(Err(_)) => Err(Failure::unavailable("the server is shutting down")),
            Err(_) => Err(Failure::timed_out()),
        }
    }
}

/// One bad object must not end the process; the panic hook logs where it was.
async fn guarded(answer: impl Future<Output = Result<Response>>) -> Result<Response> {
    let broken = |_| Err(Failure::internal("a broken invariant; the server's log says which"));
    AssertUnwindSafe(answer).catch_unwind().await.unwrap_or_else(broken)
}

/// What is known of a request once its path is read.
struct About {
    verb: &'static str,
    resource: String,
    deprecation: Option<String>,
    body_read: bool,
    /// How much of the body is read after the answer, if it was not read before.
    sender: Sender,
    /// What is written down of the request; a write takes it along.
    record: Option<audit::Request>,
}

impl Default for About {
    fn default() -> About {
        About {
            verb: "other",
            resource: String::new(),
            deprecation: None,
            body_read: false,
            sender: Sender::Stranger,
            record: None,
        }
    }
}

impl About {
    fn is_from(&mut self, caller: &Caller) {
        if let Some(record) = &mut self.record {
            record.caller = Some(caller.clone());
        }
    }

    /// It is written down as what it does.
    fn acts(&mut self, acts: bool) {
        if let Some(record) = &mut self.record {
            record.acts = acts;
        }
    }

    fn is_allowed(&mut self, decision: &Decision<'_>) {
        if let Some(record) = self.record.as_mut().filter(|record| record.is_mutating()) {
            record.decision = Some(("allow", decision.reason()));
        }
    }

    fn is_forbidden(&mut self) {
        if let Some(record) = &mut self.record {
            record.decision = Some(("forbid", String::new()));
        }
    }
}

impl Shared {
    pub fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Acquire)
    }

    /// The resources that are served now.
    pub fn registry(&self) -> Arc<Registry> {
        self.registry.borrow().clone()
    }

    /// Changes what is served. Requests that are under way go on with what was served before.
    pub fn change_registry(&self, change: impl FnOnce(&mut Registry)) {
        self.registry.send_modify(|registry| change(Arc::make_mut(registry)));
    }

    /// Tells when what is served changes.
    pub fn registry_changes(&self) -> tokio::sync::watch::Receiver<Arc<Registry>> {
        self.registry.subscribe()
    }

    /// Becomes true when the server stops; long answers end then.
    pub fn stopping(&self) -> tokio::sync::watch::Receiver<bool> {
        self.stopping.subscribe()
    }

    async fn answer_plain(
        self: &Arc<Shared>,
        target: Target,
        parts: &http::request::Parts,
        query: &Query,
    ) -> Result<Response> {
        if !matches!(parts.method, Method::GET | Method::HEAD) {
            return Err(Failure::method_not_allowed());
        }
        let registry = self.registry();
        match target {
            Target::Index => Ok(discovery::index(&registry)),
            Target::Version => Ok(discovery::version()),
            Target::Metrics => Ok(self.metrics.answer(self)),
            Target::Health { endpoint, check } => health::answer(self, endpoint, check.as_deref(), query),
            Target::CoreVersions => Ok(discovery::core_versions(&registry, &parts.headers)),
            Target::Groups => Ok(discovery::groups(&registry, &parts.headers)),
            Target::Group { group } => discovery::group(&registry, &group),
            Target::GroupVersion { group, version } => discovery::resources(&registry, &group, &version),
            Target::OldOpenApi => openapi::answer_v2(self, &parts.headers).await,
            Target::OpenApi { document: None } => openapi::answer_index(self, &parts.headers).await,
            Target::OpenApi { document: Some(document) } => {
                openapi::answer_document(self, &document, &parts.headers, query).await
            }
            Target::Resource(_) => unreachable!("resources are answered by their verbs"),
        }
    }
}

/// A namespaced object is reached through its namespace, any other is not.
fn check_scope(resource: &Resource, path: &ResourcePath, method: &Method) -> Result<()> {
    if let Some(name) = &path.subresource
        && resource.subresource(name).is_none()
    {
        return Err(match path.name.as_deref().filter(|_| resource.custom.is_some()) {
            Some(name) => Failure::not_found(resource, name),
            None => Failure::no_such_resource(),
        });
    }
    match (resource.namespaced, &path.namespace, &path.name) {
        (true, None, Some(_)) | (false, Some(_), _) => Err(Failure::page_not_found_of(resource)),
        // What is never stored has no name to be reached by.
        (_, _, Some(_)) if resource.review.is_some() => Err(Failure::no_such_resource()),
        (true, None, None) if !matches!(*method, Method::GET | Method::HEAD) => Err(Failure::method_not_allowed()),
        _ => Ok(()),
    }
}

/// How many bytes of a body are to be expected: what it announces, or else as many as are allowed.
fn announced<B: http_body::Body>(body: &B, limit: usize) -> Result<usize> {
    let most = body.size_hint().upper().map_or(limit, |upper| usize::try_from(upper).unwrap_or(usize::MAX));
    if body.size_hint().exact().is_some_and(|exact| exact > limit as u64) {
        return Err(Failure::too_large(limit));
    }
    Ok(most.min(limit))
}

async fn read<B>(body: Pin<&mut B>, limit: usize) -> Result<Bytes>
where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>>> + Send,
{
    match Limited::new(body, limit).collect().await {
        Ok(body) => Ok(body.to_bytes()),
        Err(error) if error.is::<LengthLimitError>() => Err(Failure::too_large(limit)),
        Err(error) => Err(Failure::bad_request(format!("the body could not be read: {error}"))),
    }
}

impl<B> tower::Service<Request<B>> for Server
where
    B: http_body::Body<Data: Send, Error: Into<Box<dyn std::error::Error + Send + Sync>> + Send> + Send + 'static,
{
    type Response = Response;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = std::result::Result<Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<std::result::Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let server = self.clone();
        Box::pin(async move { Ok(server.handle(request).await) })
    }
}
