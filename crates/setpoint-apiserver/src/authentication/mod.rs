//! Who is asking, and as whom.

mod identity;
pub mod impersonation;
mod users;

use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::authorization::{Attributes, MASTERS};
use crate::failure::{Failure, Result};
use crate::server::Shared;

pub use identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED, service_account_of};
pub use users::Users;

/// Who a request comes from.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Whose rights count.
    pub identity: Arc<Identity>,
    /// Who really asks, where that is somebody else.
    pub impersonator: Option<Arc<Identity>>,
}

impl Caller {
    /// The server itself, which may do anything.
    pub fn server() -> Caller {
        static SERVER: LazyLock<Arc<Identity>> =
            LazyLock::new(|| Arc::new(Identity::new("system:setpoint", [MASTERS])));
        Caller { identity: SERVER.clone(), impersonator: None }
    }
}

/// Establishes who a request comes from, and as whom it acts. An identity in the request's extensions was established by
/// its transport (a client in the same process).
pub async fn authenticate(server: &Shared, parts: &http::request::Parts) -> Result<Caller> {
    let mut identity = match parts.extensions.get::<Identity>() {
        Some(identity) => Arc::new(identity.clone()),
        None => recognize(server, &parts.headers)?,
    };
    if !identity.is_settled() {
        Arc::make_mut(&mut identity).join(AUTHENTICATED);
    }
    match impersonation::wanted(&parts.headers).map_err(|error| Failure::bad_request(error.to_string()))? {
        None => Ok(Caller { identity, impersonator: None }),
        Some(wanted) => impersonate(server, identity, wanted),
    }
}

/// Lets somebody act as another, if they may in all that makes the other one.
fn impersonate(server: &Shared, real: Arc<Identity>, wanted: Identity) -> Result<Caller> {
    let policy = server.policy.read();
    for target in impersonation::targets(&wanted) {
        let attributes = Attributes { user: &real, verb: impersonation::VERB, target };
        let decision = policy.decide(&attributes);
        if !decision.is_allowed() {
            return Err(Failure::access_denied(&attributes, &decision.reason()));
        }
    }
    drop(policy);
    Ok(Caller { identity: Arc::new(impersonation::granted(wanted)), impersonator: Some(real) })
}

fn recognize(server: &Shared, headers: &HeaderMap) -> Result<Arc<Identity>> {
    let token = bearer_token(headers).ok_or_else(Failure::unauthorized)?;
    server.users.by_token(token).ok_or_else(Failure::unauthorized)
}

/// The token that a request carries.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let (scheme, token) = headers.get(AUTHORIZATION)?.to_str().ok()?.split_once(' ')?;
    Some(token.trim()).filter(|token| scheme.eq_ignore_ascii_case("bearer") && !token.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_found() {
        let rows = [
            ("a token", Some("Bearer right"), Some("right")),
            ("any case of the scheme", Some("bearer right"), Some("right")),
            ("an empty token", Some("Bearer "), None),
            ("another scheme", Some("Basic right"), None),
            ("no scheme", Some("right"), None),
            ("nothing", None, None),
        ];
        for (row, header, token) in rows {
            let header = header.map(|value| (AUTHORIZATION, value.parse().expect("a header")));
            assert_eq!(bearer_token(&HeaderMap::from_iter(header)), token, "{row}");
        }
    }
}
