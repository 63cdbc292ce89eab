//! Who is asking, and as whom.

mod identity;
pub mod impersonation;
pub mod service_accounts;
mod users;

use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use crate::authorization::MASTERS;
use crate::failure::{Failure, Result};
use crate::server::Shared;

pub use identity::{ANONYMOUS, AUTHENTICATED, Identity, UNAUTHENTICATED, service_account_of};
pub use service_accounts::{Invalid, Issuer};
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

/// The bearer of a token, and what the token is good for.
#[derive(Debug, Clone)]
pub struct Bearer {
    pub identity: Arc<Identity>,
    pub audiences: Vec<String>,
}

/// Establishes who a request comes from, and as whom it acts. An identity in the request's extensions was established by
/// its transport (a client in the same process).
pub async fn authenticate(server: &Shared, parts: &http::request::Parts) -> Result<Caller> {
    let identity = match parts.extensions.get::<Identity>() {
        Some(identity) => proved(Arc::new(identity.clone())),
        None => recognize(server, &parts.headers).await?,
    };
    match impersonation::wanted(&parts.headers).map_err(|error| Failure::bad_request(error.to_string()))? {
        None => Ok(Caller { identity, impersonator: None }),
        Some(wanted) => impersonate(server, identity, wanted),
    }
}

/// Lets somebody act as another, if they may in all that makes the other one.
fn impersonate(server: &Shared, real: Arc<Identity>, wanted: Identity) -> Result<Caller> {
    let policy = server.policy.read();
    impersonation::needed(&wanted).iter().try_for_each(|access| access.check(&policy, &real))?;
    drop(policy);
    Ok(Caller { identity: Arc::new(impersonation::granted(wanted)), impersonator: Some(real) })
}

async fn recognize(server: &Shared, headers: &HeaderMap) -> Result<Arc<Identity>> {
    let token = bearer_token(headers).ok_or_else(Failure::unauthorized)?;
    let bearer = by_token(server, token, server.issuer.audiences(), Timestamp::now()).await?;
    Ok(bearer.map_err(|_| Failure::unauthorized())?.identity)
}

/// Whose token it is, among those that are meant for one of these audiences. The token of a person is meant for this
/// server.
pub async fn by_token(
    server: &Shared,
    token: &str,
    audiences: &[String],
    now: Timestamp,
) -> Result<std::result::Result<Bearer, Invalid>> {
    let ours = server.issuer.audiences().iter().filter(|audience| audiences.contains(audience));
    let ours: Vec<String> = ours.cloned().collect();
    if let Some(identity) = server.users.by_token(token).filter(|_| !ours.is_empty()) {
        return Ok(Ok(Bearer { identity: proved(identity), audiences: ours }));
    }
    let read = || {
        let claims = server.issuer.read(token)?;
        let audiences = claims.audiences_among(audiences)?;
        claims.check_time(now)?;
        Ok((claims, audiences))
    };
    let (claims, audiences) = match read() {
        Ok(read) => read,
        Err(invalid) => return Ok(Err(invalid)),
    };
    let state = service_accounts::check_state(server, &claims, now).await?;
    Ok(state.map(|()| Bearer { identity: proved(Arc::new(claims.identity())), audiences }))
}

/// Puts somebody among those who proved who they are.
fn proved(mut identity: Arc<Identity>) -> Arc<Identity> {
    if !identity.is_settled() {
        Arc::make_mut(&mut identity).join(AUTHENTICATED);
    }
    identity
}

/// The token that a request carries.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
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
