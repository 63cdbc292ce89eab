//! Who is asking, and as whom.

mod certificate;
mod credential;
mod directory;
mod identity;
pub mod impersonation;
mod roster;
mod roster_file;
pub mod service_accounts;
mod users;

use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use http::header::AUTHORIZATION;
use jiff::Timestamp;

use crate::authorization::MASTERS;
use crate::failure::{Failure, Result};
use crate::server::Shared;

pub use certificate::{ClientCertificate, not_after};
pub use credential::{Credential, Serial, TokenDigest};
pub use identity::{ANONYMOUS, AUTHENTICATED, CONTROLLERS, Identity, UNAUTHENTICATED, service_account_of};
pub use impersonation::Impersonator;
pub use roster::{Roster, RosterError, User, group_fault, name_fault};
pub use roster_file::{FileError, read_roster};
pub use service_accounts::{Claims, Invalid, Issuer};
pub use users::Users;

/// Who a request comes from.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Whose rights count.
    pub identity: Arc<Identity>,
    /// Who really asks, where that is somebody else.
    pub impersonator: Option<Impersonator>,
    pub standing: Standing,
}

/// What a caller is let in for; a watch ends with it. By default it lasts.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What may be revoked.
    pub credential: Option<Credential>,
    /// The end that the credential itself states.
    pub expires: Option<Timestamp>,
    /// What a service account's token says; it ends with the objects that it was made for.
    pub token: Option<Arc<Claims>>,
}

impl Caller {
    pub fn new(identity: Arc<Identity>, standing: Standing) -> Caller {
        Caller { identity, impersonator: None, standing }
    }

    /// The server itself, which may do anything.
    pub fn server() -> Caller {
        static SERVER: LazyLock<Arc<Identity>> =
            LazyLock::new(|| Arc::new(Identity::new("system:setpoint", [MASTERS])));
        Caller::new(SERVER.clone(), Standing::default())
    }

    /// Who authenticated, whoever they act as.
    pub fn real(&self) -> &Identity {
        self.impersonator.as_ref().map_or(&self.identity, |impersonator| &impersonator.identity)
    }
}

/// The bearer of a token, and what the token is good for.
#[derive(Debug, Clone)]
pub struct Bearer {
    pub caller: Caller,
    pub audiences: Vec<String>,
}

/// Lets somebody act as whom the headers name, if they may in all that makes the other one.
pub fn impersonate(server: &Shared, real: Caller, headers: &HeaderMap) -> Result<Caller> {
    let wanted = impersonation::wanted(headers).map_err(|error| Failure::bad_request(error.to_string()))?;
    let Some(wanted) = wanted else { return Ok(real) };
    let impersonator = Impersonator { identity: real.identity, wanted: Arc::new(wanted.clone()) };
    impersonator.check(&server.policy.read())?;
    let identity = Arc::new(impersonation::granted(wanted));
    Ok(Caller { identity, impersonator: Some(impersonator), standing: real.standing })
}

/// Establishes who a request comes from.
///
/// What stands in the request's extensions was established by its transport: the identity of a client in the same process,
/// or the certificate of a connection. Whoever shows a certificate is not asked for a token.
pub async fn authenticate(server: &Shared, parts: &http::request::Parts) -> Result<Caller> {
    if let Some(identity) = parts.extensions.get::<Identity>() {
        return Ok(Caller::new(Arc::new(identity.clone().proved()), Standing::default()));
    }
    if let Some(certificate) = parts.extensions.get::<Arc<ClientCertificate>>() {
        return server.users.by_certificate(certificate).ok_or_else(Failure::unauthorized);
    }
    let token = bearer_token(&parts.headers).ok_or_else(Failure::unauthorized)?;
    let bearer = by_token(server, token, server.issuer.audiences(), Timestamp::now()).await?;
    Ok(bearer.map_err(|_| Failure::unauthorized())?.caller)
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
    if let Some(caller) = server.users.by_token(token).filter(|_| !ours.is_empty()) {
        return Ok(Ok(Bearer { caller, audiences: ours }));
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
    let standing = Standing { credential: None, expires: claims.expires(), token: Some(claims.clone()) };
    Ok(state.map(|()| Bearer { caller: Caller::new(Arc::new(claims.identity().proved()), standing), audiences }))
}

/// Resolves when somebody is no longer let in.
pub fn lapse(server: &Arc<Shared>, standing: Standing) -> impl Future<Output = ()> + Send + use<> {
    let (server, token) = (server.clone(), standing.token.clone());
    let ended = server.users.lapse(standing);
    let invalid = async move {
        match token {
            Some(claims) => service_accounts::until_invalid(&server, &claims).await,
            None => std::future::pending().await,
        }
    };
    async move {
        tokio::select! {
            () = ended => {}
            () = invalid => {}
        }
    }
}

/// The token that a request carries.
fn bearer_token(headers: &HeaderMap) -> Option<&str> {
    let mut values = headers.get_all(AUTHORIZATION).iter();
    let (Some(value), None) = (values.next(), values.next()) else { return None };
    let (scheme, token) = value.to_str().ok()?.split_once(' ')?;
    // Longer ones are nobody's, which a stranger need not have computed.
    let fit = |token: &&str| (1..=service_accounts::LIMIT_BYTES).contains(&token.len());
    Some(token.trim()).filter(|_| scheme.eq_ignore_ascii_case("bearer")).filter(fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bearer_token_is_found() {
        let longest = "x".repeat(service_accounts::LIMIT_BYTES);
        let (long, too_long) = (format!("Bearer {longest}"), format!("Bearer {longest}x"));
        let rows = [
            ("the longest token", Some(long.as_str()), Some(longest.as_str())),
            ("one that is longer", Some(&too_long), None),
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
