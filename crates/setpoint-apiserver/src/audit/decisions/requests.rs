//! Which requests the decision log has: what people were refused, and what they wrote that changes who may do what or
//! removes what we manage.

use http::StatusCode;

use super::files::Family;
use super::record::{Fact, RequestFact, message};
use crate::audit::event::{Outcome, Request, is_secret};
use crate::kinds::rbac;
use crate::query::Query;
use crate::request::{ResourcePath, Verb};

const ENVIRONMENTS: &str = "environments";

/// What there is to say of a request and what became of it.
pub(crate) fn fact(request: &Request, outcome: &Outcome<'_>) -> Option<(Family, Fact)> {
    // Most requests are reads, and need not be looked at.
    let is_concerned = outcome.code == StatusCode::FORBIDDEN || outcome.code.is_success() && request.is_mutating();
    let caller = request.caller.as_ref().filter(|_| is_concerned && !request.is_from_our_own())?;
    let path = request.path();
    let verb = path.as_ref().and_then(|path| request.verb(path));
    let family = match outcome.code {
        StatusCode::FORBIDDEN => Family::Refusals,
        code if code.is_success() && !is_dry_run(request) => path.as_ref().zip(verb).and_then(decision)?,
        _ => return None,
    };
    let is_refused = family == Family::Refusals;
    let told = outcome.failure.filter(|_| is_refused && !path.as_ref().is_some_and(is_secret));
    let resource = match &path {
        Some(path) => resource(path),
        None => request.uri.path().to_owned(),
    };
    let name = path.as_ref().and_then(|path| path.name.as_deref());
    let fact = RequestFact {
        by: message(&caller.real().user),
        acting_as: caller.impersonator.as_ref().map(|_| message(&caller.identity.user)),
        verb: verb.map_or_else(|| request.method.as_str().to_ascii_lowercase(), |verb| verb.name().to_owned()),
        resource: message(&resource),
        namespace: path.as_ref().and_then(|path| path.namespace.as_deref()).map(message),
        name: name.or(outcome.made.map(|made| made.name.as_str())).map(message),
        uid: outcome.made.map(|made| made.uid.clone()),
        message: told.map(|failure| message(failure.message())),
        source: request.source,
        request: request.id.to_str().unwrap_or_default().to_owned(),
    };
    Some((family, if is_refused { Fact::Refusal(fact) } else { Fact::Write(fact) }))
}

fn resource(path: &ResourcePath) -> String {
    let group = if path.group.is_empty() { String::new() } else { format!(".{}", path.group) };
    let subresource = path.subresource.as_deref().map(|name| format!("/{name}")).unwrap_or_default();
    format!("{}{group}{subresource}", path.resource)
}

fn is_dry_run(request: &Request) -> bool {
    !Query::parse(request.uri.query()).all("dryRun").is_empty()
}

/// Where a write that took place is told, if it gives or takes rights, changes the rules of a place, or removes what we
/// manage.
fn decision((path, verb): (&ResourcePath, Verb)) -> Option<Family> {
    if matches!(verb, Verb::Get | Verb::List | Verb::Watch) {
        return None;
    }
    let is_deletion = matches!(verb, Verb::Delete | Verb::DeleteCollection);
    match (path.group.as_str(), path.resource.as_str(), path.subresource.as_deref()) {
        (rbac::GROUP, _, _) | (setpoint_api::GROUP, ENVIRONMENTS, None) => Some(Family::Writes),
        ("", "serviceaccounts", Some("token")) => Some(Family::Tokens),
        (setpoint_api::GROUP | setpoint_api::planspec::GROUP, _, None) if is_deletion => Some(Family::Writes),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use http::{HeaderValue, Method};
    use jiff::Timestamp;

    use super::*;
    use crate::authentication::{Caller, Identity, Standing};
    use crate::failure::Failure;

    fn request(user: &str, method: &Method, uri: &str) -> Request {
        Request {
            id: HeaderValue::from_static("an-id"),
            method: method.clone(),
            uri: uri.parse().expect("an address"),
            agent: None,
            source: None,
            received: Timestamp::UNIX_EPOCH,
            acts: false,
            caller: Some(Caller::new(Arc::new(Identity::new(user, Vec::<String>::new())), Standing::default())),
            decision: None,
        }
    }

    fn found(request: &Request, code: u16, failure: Option<&Failure>) -> Option<(Family, Fact)> {
        let code = StatusCode::from_u16(code).expect("a code");
        let completed = Timestamp::UNIX_EPOCH;
        fact(request, &Outcome { code, failure, made: None, refused_review: None, completed })
    }

    #[test]
    fn what_people_were_refused_and_what_gives_rights_is_a_decision() {
        const MACHINE: &str = "/apis/setpoint.dev/v1alpha1/namespaces/shop/machines/web";
        const BINDING: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/shop/rolebindings/b";
        let controllers = "system:kube-controller-manager";
        let (refusal, write) = (Some(Family::Refusals), Some(Family::Writes));
        let rows = [
            ("a read that is not allowed", "bob", Method::GET, "/api/v1/namespaces/a/secrets", 403, refusal),
            ("a deletion that is not allowed", "bob", Method::DELETE, MACHINE, 403, refusal),
            ("a path that is not allowed", "bob", Method::GET, "/metrics", 403, refusal),
            ("our own controllers", controllers, Method::DELETE, MACHINE, 403, None),
            ("a conflict", "bob", Method::PUT, MACHINE, 409, None),
            ("too many", "bob", Method::PUT, MACHINE, 429, None),
            ("a change of what is managed", "bob", Method::PUT, MACHINE, 200, None),
            ("its deletion", "bob", Method::DELETE, MACHINE, 200, write),
            ("its deletion by us", controllers, Method::DELETE, MACHINE, 200, None),
            (
                "as if",
                "bob",
                Method::DELETE,
                "/apis/setpoint.dev/v1alpha1/namespaces/a/machines/w?dryRun=All",
                200,
                None,
            ),
            ("a binding", "bob", Method::PUT, BINDING, 200, write),
            ("a look at one", "bob", Method::GET, BINDING, 200, None),
            ("rules of a place", "bob", Method::PATCH, "/apis/setpoint.dev/v1alpha1/environments/lab", 200, write),
            ("its status", "bob", Method::PATCH, "/apis/setpoint.dev/v1alpha1/environments/lab/status", 200, None),
            ("a token", "bob", Method::POST, "/api/v1/namespaces/a/serviceaccounts/s/token", 201, Some(Family::Tokens)),
            ("something else", "bob", Method::DELETE, "/api/v1/namespaces/a/configmaps/c", 200, None),
        ];
        for (name, user, method, uri, code, expected) in rows {
            let found = found(&request(user, &method, uri), code, None);
            assert_eq!(found.map(|(family, _)| family), expected, "{name}");
        }
    }

    #[test]
    fn an_entry_says_who_was_refused_what_and_quotes_no_secret() {
        let failure = Failure::not_allowed("the value is hunter2");
        let uri = "/apis/setpoint.dev/v1alpha1/namespaces/shop/machines/web/status";
        let Some((_, Fact::Refusal(fact))) = found(&request("bob", &Method::PATCH, uri), 403, Some(&failure)) else {
            panic!("a refusal")
        };
        assert_eq!((fact.by.as_str(), fact.verb.as_str()), ("bob", "patch"));
        assert_eq!(fact.resource, "machines.setpoint.dev/status");
        assert_eq!((fact.namespace.as_deref(), fact.name.as_deref()), (Some("shop"), Some("web")));
        assert_eq!(fact.message.as_deref(), Some("forbidden: the value is hunter2"));
        let secret = request("bob", &Method::PUT, "/api/v1/namespaces/shop/secrets/s");
        let Some((_, Fact::Refusal(fact))) = found(&secret, 403, Some(&failure)) else { panic!("a refusal") };
        assert_eq!(fact.message, None);
    }
}
