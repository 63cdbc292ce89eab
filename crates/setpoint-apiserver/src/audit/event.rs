//! One line of the log: a request and what became of it, as an `Event` of `audit.k8s.io/v1`.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::net::IpAddr;

use http::header::{HeaderName, HeaderValue, USER_AGENT};
use http::{HeaderMap, Method, StatusCode};
use jiff::Timestamp;
use serde::{Serialize, Serializer};

use crate::authentication::{Caller, Identity};
use crate::failure::Failure;
use crate::query::Query;
use crate::request::{self, ResourcePath, Target, Verb};

/// The name under which client and server speak of one request.
pub const AUDIT_ID: HeaderName = HeaderName::from_static("audit-id");

/// The longest text from a client that is written down.
const LONGEST: usize = 1024;
const CUT: &str = "...TRUNCATED";

/// The id of a request: the client's, if it sent one that is fit to be one, or this one.
fn audit_id(headers: &HeaderMap, otherwise: uuid::Uuid) -> HeaderValue {
    let fit = |id: &&HeaderValue| {
        let word = |byte: &u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        (1..=64).contains(&id.len()) && id.as_bytes().iter().all(word)
    };
    match headers.get(AUDIT_ID).filter(fit) {
        Some(id) => id.clone(),
        None => HeaderValue::from_str(otherwise.hyphenated().encode_lower(&mut [0; 36]))
            .expect("a uuid is digits and hyphens"),
    }
}

/// What a request made, where its path does not say.
#[derive(Debug, Clone)]
pub struct Object {
    pub name: String,
    pub uid: String,
    pub revision: u64,
}

/// What a request did that its line would not show: a review that does not count, and why.
#[derive(Debug, Clone)]
pub struct RefusedReview(pub String);

/// A request, and what becomes known of it on its way.
#[derive(Debug, Clone)]
pub struct Request {
    pub id: HeaderValue,
    pub method: Method,
    pub uri: http::Uri,
    pub agent: Option<HeaderValue>,
    /// Where the request came from; unknown of one from this process.
    pub source: Option<IpAddr>,
    pub received: Timestamp,
    /// Whether it acts, although it is a GET.
    pub acts: bool,
    /// `None` of somebody nobody knows.
    pub caller: Option<Caller>,
    /// What was decided about it, `allow` or `forbid`, and why.
    pub decision: Option<(&'static str, String)>,
}

/// What became of a request.
#[derive(Debug, Clone, Copy)]
pub struct Outcome<'a> {
    pub code: StatusCode,
    pub failure: Option<&'a Failure>,
    pub made: Option<&'a Object>,
    pub refused_review: Option<&'a RefusedReview>,
    pub completed: Timestamp,
}

impl Request {
    pub fn new(parts: &http::request::Parts, source: Option<IpAddr>, received: Timestamp) -> Request {
        Request {
            id: audit_id(&parts.headers, uuid::Builder::from_random_bytes(rand::random()).into_uuid()),
            method: parts.method.clone(),
            uri: parts.uri.clone(),
            agent: parts.headers.get(USER_AGENT).cloned(),
            source,
            received,
            acts: false,
            caller: None,
            decision: None,
        }
    }

    /// Whether a request with this outcome is written down, in a log that has routine writes or has not.
    pub fn is_kept(&self, outcome: &Outcome<'_>, has_routine: bool) -> bool {
        let refusals = [StatusCode::UNAUTHORIZED, StatusCode::FORBIDDEN, StatusCode::TOO_MANY_REQUESTS];
        let is_told = refusals.contains(&outcome.code) || outcome.refused_review.is_some();
        is_told || self.is_mutating() && (has_routine || !self.is_routine())
    }

    /// Whether our own controllers or nodes say how things are: statuses, heartbeats, leases, Events. They do so without
    /// end, and decide nothing by it.
    fn is_routine(&self) -> bool {
        let Some(path) = self.path().filter(|_| self.is_from_our_own()) else { return false };
        match (path.group.as_str(), path.resource.as_str(), path.subresource.as_deref()) {
            (_, _, Some("status")) => true,
            ("" | "events.k8s.io", "events", _) | ("coordination.k8s.io", "leases", _) => true,
            ("", "endpoints", _) | ("discovery.k8s.io", "endpointslices", _) => true,
            ("", "nodes", None) => self.method == Method::PUT || self.method == Method::PATCH,
            _ => false,
        }
    }

    /// Whether it comes from our own controllers or nodes, and from nobody who acts as one of them.
    pub(super) fn is_from_our_own(&self) -> bool {
        let own = self.caller.as_ref().filter(|caller| caller.impersonator.is_none());
        own.is_some_and(|caller| caller.identity.is_our_own())
    }

    /// What is done to the resource of a path, if that can be done to it.
    pub(super) fn verb(&self, path: &ResourcePath) -> Option<Verb> {
        path.verb(&self.method, Query::parse(self.uri.query()).is_watch()).ok()
    }

    /// Whether it may change something.
    pub fn is_mutating(&self) -> bool {
        self.acts || !matches!(self.method, Method::GET | Method::HEAD | Method::OPTIONS)
    }

    /// Request and outcome as one line.
    pub fn line(&self, outcome: Outcome<'_>) -> Vec<u8> {
        let mut line = Vec::with_capacity(1024);
        let path = self.path();
        serde_json::to_writer(&mut line, &self.event(path.as_ref(), &outcome)).expect("writing to memory cannot fail");
        line.push(b'\n');
        line
    }

    /// The resource it is about; read only now, since most requests are not written down.
    pub(super) fn path(&self) -> Option<ResourcePath> {
        match request::target(self.uri.path()) {
            Ok(Target::Resource(path)) => Some(path),
            _ => None,
        }
    }

    fn event<'a>(&'a self, path: Option<&'a ResourcePath>, outcome: &'a Outcome<'a>) -> Event<'a> {
        let (user, impersonated) = match &self.caller {
            None => (User::anonymous(), None),
            Some(Caller { identity, impersonator: None, .. }) => (User::from(identity.as_ref()), None),
            Some(Caller { identity, impersonator: Some(real), .. }) => {
                (User::from(real.identity.as_ref()), Some(User::from(identity.as_ref())))
            }
        };
        let verb = path.and_then(|path| self.verb(path)).map(|verb| Cow::Borrowed(verb.name()));
        let agent = self.agent.as_ref().map(|agent| String::from_utf8_lossy(agent.as_bytes()));
        Event {
            kind: "Event",
            api_version: "audit.k8s.io/v1",
            level: "Metadata",
            audit_id: self.id.to_str().unwrap_or_default(),
            stage: "ResponseComplete",
            request_uri: bounded(self.uri.path_and_query().map_or("", |uri| uri.as_str()).into()),
            verb: verb.unwrap_or_else(|| self.method.as_str().to_ascii_lowercase().into()),
            user,
            impersonated_user: impersonated,
            source_ips: self.source,
            user_agent: agent.map(bounded),
            object_ref: path.map(|path| reference(path, outcome.made)),
            response_status: status(path, outcome),
            request_received_timestamp: Micros(self.received),
            stage_timestamp: Micros(outcome.completed),
            annotations: self.annotations(outcome),
        }
    }
}

impl Request {
    fn annotations<'a>(&'a self, outcome: &Outcome<'a>) -> Option<Annotations<'a>> {
        let refused_review = outcome.refused_review.map(|RefusedReview(why)| bounded(why.as_str().into()));
        let (decision, reason) = self.decision.as_ref().map(|(decision, reason)| (*decision, reason.as_str())).unzip();
        (decision.is_some() || refused_review.is_some()).then_some(Annotations { decision, reason, refused_review })
    }
}

fn status<'a>(path: Option<&ResourcePath>, outcome: &Outcome<'a>) -> Status<'a> {
    let Outcome { code, failure, .. } = *outcome;
    // What is said of a secret may quote it.
    let told = failure.filter(|_| !path.is_some_and(is_secret));
    Status {
        status: if code.is_client_error() || code.is_server_error() { "Failure" } else { "Success" },
        reason: failure.and_then(Failure::reason),
        message: told.map(|failure| bounded(failure.message().into())),
        code: code.as_u16(),
    }
}

fn reference<'a>(path: &'a ResourcePath, made: Option<&'a Object>) -> Reference<'a> {
    let text = |text: &'a str| bounded(text.into());
    Reference {
        resource: text(&path.resource),
        namespace: path.namespace.as_deref().map(text),
        name: path.name.as_deref().or(made.map(|made| made.name.as_str())).map(text),
        uid: made.map(|made| made.uid.as_str()),
        api_group: Some(path.group.as_str()).filter(|group| !group.is_empty()).map(text),
        api_version: text(&path.version),
        resource_version: made.filter(|made| made.revision > 0).map(|made| made.revision.to_string()),
        subresource: path.subresource.as_deref().map(text),
    }
}

/// Whether what is done here is about something that nobody else may know.
pub(super) fn is_secret(path: &ResourcePath) -> bool {
    matches!(path.resource.as_str(), "secrets" | "tokenreviews") || path.subresource.as_deref() == Some("token")
}

fn bounded(text: Cow<'_, str>) -> Cow<'_, str> {
    shortened(text, LONGEST)
}

/// A text of bounded length, which says so if something is missing.
pub(super) fn shortened(text: Cow<'_, str>, longest: usize) -> Cow<'_, str> {
    if text.len() <= longest {
        return text;
    }
    let end = text.floor_char_boundary(longest);
    Cow::Owned(format!("{}{CUT}", &text[..end]))
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Event<'a> {
    kind: &'static str,
    api_version: &'static str,
    level: &'static str,
    #[serde(rename = "auditID")]
    audit_id: &'a str,
    stage: &'static str,
    #[serde(rename = "requestURI")]
    request_uri: Cow<'a, str>,
    verb: Cow<'a, str>,
    user: User<'a>,
    #[serde(skip_serializing_if = "Option::is_none")]
    impersonated_user: Option<User<'a>>,
    #[serde(rename = "sourceIPs", serialize_with = "as_list", skip_serializing_if = "Option::is_none")]
    source_ips: Option<IpAddr>,
    #[serde(skip_serializing_if = "Option::is_none")]
    user_agent: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    object_ref: Option<Reference<'a>>,
    response_status: Status<'a>,
    request_received_timestamp: Micros,
    stage_timestamp: Micros,
    #[serde(skip_serializing_if = "Option::is_none")]
    annotations: Option<Annotations<'a>>,
}

#[derive(Serialize)]
struct User<'a> {
    username: &'a str,
    #[serde(skip_serializing_if = "str::is_empty")]
    uid: &'a str,
    #[serde(skip_serializing_if = "is_empty")]
    groups: Cow<'a, [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extra: Option<&'a BTreeMap<String, Vec<String>>>,
}

impl User<'_> {
    fn anonymous() -> User<'static> {
        let groups = Cow::Owned(vec!["system:unauthenticated".to_owned()]);
        User { username: "system:anonymous", uid: "", groups, extra: None }
    }
}

impl<'a> From<&'a Identity> for User<'a> {
    fn from(identity: &'a Identity) -> User<'a> {
        let Identity { user, uid, groups, extra } = identity;
        User { username: user, uid, groups: groups.into(), extra: Some(extra).filter(|extra| !extra.is_empty()) }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Reference<'a> {
    resource: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    namespace: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<Cow<'a, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    api_group: Option<Cow<'a, str>>,
    api_version: Cow<'a, str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource_version: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    subresource: Option<Cow<'a, str>>,
}

#[derive(Serialize)]
struct Status<'a> {
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'static str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Cow<'a, str>>,
    code: u16,
}

#[derive(Serialize)]
struct Annotations<'a> {
    #[serde(rename = "authorization.k8s.io/decision", skip_serializing_if = "Option::is_none")]
    decision: Option<&'static str>,
    #[serde(rename = "authorization.k8s.io/reason", skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(rename = "setpoint.dev/refused-review", skip_serializing_if = "Option::is_none")]
    refused_review: Option<Cow<'a, str>>,
}

fn is_empty(groups: &[String]) -> bool {
    groups.is_empty()
}

/// A time to the microsecond, as Kubernetes writes it.
struct Micros(Timestamp);

impl Serialize for Micros {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!("{:.6}", self.0))
    }
}

fn as_list<S: Serializer>(source: &Option<IpAddr>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_seq(source)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::{Value, json};

    use super::*;
    use crate::authentication::{Impersonator, Standing};

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn request(method: Method, uri: &str) -> Request {
        let uri: http::Uri = uri.parse().expect("an address");
        Request {
            id: HeaderValue::from_static("an-id"),
            method,
            agent: Some(HeaderValue::from_static("kubectl/v1.36")),
            source: Some(IpAddr::from([127, 0, 0, 1])),
            received: time("2026-01-02T03:04:05Z"),
            acts: false,
            caller: somebody(),
            decision: None,
            uri,
        }
    }

    fn written(request: &Request, code: u16, failure: Option<&Failure>, made: Option<&Object>) -> Value {
        let completed = time("2026-01-02T03:04:05.000123Z");
        let line = request.line(Outcome {
            code: StatusCode::from_u16(code).expect("a code"),
            failure,
            made,
            refused_review: None,
            completed,
        });
        assert_eq!(line.iter().filter(|byte| **byte == b'\n').count(), 1, "one line");
        serde_json::from_slice(&line).expect("a line is JSON")
    }

    fn somebody() -> Option<Caller> {
        Some(Caller::new(Arc::new(Identity::new("ada", ["people"])), Standing::default()))
    }

    #[test]
    fn a_line_is_an_event_of_kubernetes() {
        let mut request = request(Method::POST, "/apis/apps/v1/namespaces/n/deployments?fieldManager=kubectl");
        request.decision = Some(("allow", "RBAC: allowed".into()));
        let made = Object { name: "web-x7k2p".into(), uid: "a-uid".into(), revision: 7 };
        let line = written(&request, 201, None, Some(&made));
        let expected = json!({
            "kind": "Event", "apiVersion": "audit.k8s.io/v1", "level": "Metadata", "auditID": "an-id",
            "stage": "ResponseComplete",
            "requestURI": "/apis/apps/v1/namespaces/n/deployments?fieldManager=kubectl",
            "verb": "create",
            "user": {"username": "ada", "groups": ["people"]},
            "sourceIPs": ["127.0.0.1"],
            "userAgent": "kubectl/v1.36",
            "objectRef": {
                "resource": "deployments", "namespace": "n", "name": "web-x7k2p", "uid": "a-uid",
                "apiGroup": "apps", "apiVersion": "v1", "resourceVersion": "7",
            },
            "responseStatus": {"status": "Success", "code": 201},
            "requestReceivedTimestamp": "2026-01-02T03:04:05.000000Z",
            "stageTimestamp": "2026-01-02T03:04:05.000123Z",
            "annotations": {
                "authorization.k8s.io/decision": "allow", "authorization.k8s.io/reason": "RBAC: allowed",
            },
        });
        assert_eq!(line, expected);
    }

    #[test]
    fn a_line_says_who_really_asked() {
        let acting = Caller {
            identity: Arc::new(Identity::new("ben", ["people"])),
            impersonator: Some(Impersonator {
                identity: Arc::new(Identity {
                    uid: "u1".into(),
                    extra: BTreeMap::from([("scopes".into(), vec!["all".into()])]),
                    ..Identity::new("ada", Vec::<String>::new())
                }),
                wanted: Arc::default(),
            }),
            standing: Standing::default(),
        };
        let anonymous = json!({"username": "system:anonymous", "groups": ["system:unauthenticated"]});
        let ada = json!({"username": "ada", "uid": "u1", "extra": {"scopes": ["all"]}});
        let ben = json!({"username": "ben", "groups": ["people"]});
        for (name, caller, user, impersonated) in
            [("nobody", None, anonymous, Value::Null), ("somebody as another", Some(acting), ada, ben)]
        {
            let line = written(&Request { caller, ..request(Method::GET, "/api") }, 401, None, None);
            assert_eq!((&line["user"], &line["impersonatedUser"]), (&user, &impersonated), "{name}");
        }
    }

    #[test]
    fn a_refusal_says_why_unless_that_could_quote_a_secret() {
        let why = "Unauthorized";
        for (name, uri, message) in [
            ("an object", "/api/v1/namespaces/n/configmaps/c", Some(why)),
            ("no object", "/nowhere", Some(why)),
            ("a Secret", "/api/v1/namespaces/n/secrets/s", None),
            ("a token", "/api/v1/namespaces/n/serviceaccounts/s/token", None),
            ("a token's review", "/apis/authentication.k8s.io/v1/tokenreviews", None),
        ] {
            let line = written(&request(Method::PUT, uri), 401, Some(&Failure::unauthorized()), None);
            let status = &line["responseStatus"];
            assert_eq!((status["status"].as_str(), status["code"].as_u64()), (Some("Failure"), Some(401)), "{name}");
            assert_eq!(status["reason"], "Unauthorized", "{name}");
            assert_eq!(status["message"].as_str(), message, "{name}");
        }
    }

    #[test]
    fn what_clients_send_is_bounded_and_stays_one_line() {
        let uri = format!("/api/v1/nodes/{}", "%C3%A9".repeat(LONGEST));
        let agent = HeaderValue::from_bytes(&[b'a', 0xff, b'\t'].repeat(LONGEST)).expect("a header");
        let request = Request { agent: Some(agent), ..request(Method::DELETE, &uri) };
        let line = written(&request, 200, None, None);
        for (field, text) in
            [("uri", &line["requestURI"]), ("agent", &line["userAgent"]), ("name", &line["objectRef"]["name"])]
        {
            let text = text.as_str().expect(field);
            assert!(text.len() <= LONGEST + CUT.len() && text.ends_with(CUT), "{field}: {}", text.len());
        }
    }

    #[test]
    fn changes_and_refusals_are_kept() {
        let session = Request { acts: true, ..request(Method::GET, "/api/v1/namespaces/n/pods/p/exec") };
        assert!(is_kept(&session, 101, false), "a session");
        let rows = [
            ("a read", Method::GET, 200, false),
            ("a read of what is not there", Method::GET, 404, false),
            ("a stranger's read", Method::GET, 401, true),
            ("a read that is not allowed", Method::HEAD, 403, true),
            ("one too many", Method::GET, 429, true),
            ("a write", Method::POST, 201, true),
            ("a write that failed", Method::PATCH, 422, true),
        ];
        for (row, method, code, kept) in rows {
            assert_eq!(is_kept(&request(method, "/api"), code, false), kept, "{row}");
        }
    }

    fn is_kept(request: &Request, code: u16, has_routine: bool) -> bool {
        let (code, completed) = (StatusCode::from_u16(code).expect("a code"), request.received);
        let outcome = Outcome { code, failure: None, made: None, refused_review: None, completed };
        request.is_kept(&outcome, has_routine)
    }

    #[test]
    fn what_our_own_controllers_write_all_the_time_is_left_out() {
        const STATUS: &str = "/apis/setpoint.dev/v1alpha1/namespaces/n/machines/web/status";
        const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/local";
        const EVENTS: &str = "/api/v1/namespaces/n/events";
        let controllers = ("system:kube-controller-manager", &[][..]);
        let node = ("system:node:local", &["system:nodes"][..]);
        let rows = [
            ("a status by a controller", controllers, Method::PATCH, STATUS, 200, false),
            ("a status that moved meanwhile", controllers, Method::PATCH, STATUS, 409, false),
            ("one that is not allowed", controllers, Method::PATCH, STATUS, 403, true),
            ("a status by somebody", ("ada", &[][..]), Method::PATCH, STATUS, 200, true),
            ("a status by who is called a node", ("system:node:x", &[][..]), Method::PATCH, STATUS, 200, true),
            ("a lease by a node", node, Method::PUT, LEASE, 200, false),
            ("a lease by somebody", ("ada", &[][..]), Method::PUT, LEASE, 200, true),
            ("a heartbeat of a node", node, Method::PATCH, "/api/v1/nodes/local", 200, false),
            ("a node's deletion", controllers, Method::DELETE, "/api/v1/nodes/local", 200, true),
            ("an Event by the scheduler", ("system:kube-scheduler", &[][..]), Method::POST, EVENTS, 201, false),
            ("a Pod by a controller", controllers, Method::POST, "/api/v1/namespaces/n/pods", 201, true),
        ];
        for (row, (user, groups), method, uri, code, kept) in rows {
            let identity = Arc::new(Identity::new(user, groups.iter().copied()));
            let caller = Caller::new(identity.clone(), Standing::default());
            let request = Request { caller: Some(caller.clone()), ..request(method, uri) };
            assert_eq!(is_kept(&request, code, false), kept, "{row}");
            assert!(is_kept(&request, code, true), "{row}: with routine writes");
            let ada = Arc::new(Identity::new("ada", Vec::<String>::new()));
            let impersonator = Some(Impersonator { identity: ada, wanted: Arc::default() });
            let acting = Request { caller: Some(Caller { impersonator, ..caller }), ..request.clone() };
            assert!(is_kept(&acting, code, false), "{row}: by who acts as them");
        }
    }

    #[test]
    fn a_client_may_name_its_request() {
        let own = uuid::Uuid::nil();
        let rows = [
            ("an id", "7b9a2c1e-req.1", "7b9a2c1e-req.1"),
            ("nothing", "", "00000000-0000-0000-0000-000000000000"),
            ("a sentence", "drop table", "00000000-0000-0000-0000-000000000000"),
            ("a quote", "a\"b", "00000000-0000-0000-0000-000000000000"),
        ];
        for (row, sent, used) in rows {
            let headers = HeaderMap::from_iter([(AUDIT_ID, sent.parse().expect("a header"))]);
            assert_eq!(audit_id(&headers, own), used, "{row}");
        }
        let long = HeaderMap::from_iter([(AUDIT_ID, "a".repeat(65).parse().expect("a header"))]);
        assert_eq!(audit_id(&long, own).len(), 36, "too long");
    }
}
