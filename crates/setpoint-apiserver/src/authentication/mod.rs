//! Who is asking, and as whom.

mod certificate;
mod credential;
mod directory;
mod identity;
mod roster;
mod roster_file;
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
pub use identity::Identity;
pub use roster::{Roster, RosterError, User, group_fault, name_fault};
pub use roster_file::FileError;
pub use users::Users;

/// Who a request comes from.
#[derive(Debug, Clone)]
pub struct Caller {
    /// Whose rights count.
    pub identity: Arc<Identity>,
    /// Who really asks, where that is somebody else.
    pub impersonator: Option<Arc<Identity>>,
    pub standing: Standing,
}

/// What a caller is let in for; a watch ends with it. By default it lasts.
#[derive(Debug, Clone, Default)]
pub struct Standing {
    /// What may be revoked.
    pub credential: Option<Credential>,
    /// The end that the credential itself states.
    pub expires: Option<Timestamp>,
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
        self.impersonator.as_ref().unwrap_or(&self.identity)
    }
}

/// Establishes who a request comes from.
pub async fn authenticate(server: &Shared, parts: &http::request::Parts) -> Result<Caller> {
    let caller = recognize(server, parts).ok_or_else(Failure::unauthorized)?;
    // To act as somebody else is not possible yet, and doing it as oneself is not what was asked for.
    match parts.headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
        None => Ok(caller),
        Some(_) => Err(Failure::not_allowed("impersonation is not supported")),
    }
}

/// What stands in the request's extensions was established by its transport: the identity of a client in the same process,
/// or the certificate of a connection. Whoever shows a certificate is not asked for a token.
fn recognize(server: &Shared, parts: &http::request::Parts) -> Option<Caller> {
    if let Some(identity) = parts.extensions.get::<Identity>() {
        return Some(Caller::new(Arc::new(identity.clone()), Standing::default()));
    }
    if let Some(certificate) = parts.extensions.get::<Arc<ClientCertificate>>() {
        return server.users.by_certificate(certificate);
    }
    server.users.by_token(bearer_token(&parts.headers)?)
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
