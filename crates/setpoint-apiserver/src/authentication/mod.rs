//! Who is asking, and as whom.

mod identity;
mod users;

use std::sync::{Arc, LazyLock};

use http::HeaderMap;
use http::header::AUTHORIZATION;

use crate::authorization::MASTERS;
use crate::failure::{Failure, Result};
use crate::server::Shared;

pub use identity::Identity;
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

    /// Who authenticated, whoever they act as.
    pub fn real(&self) -> &Identity {
        self.impersonator.as_ref().unwrap_or(&self.identity)
    }
}

/// Establishes who a request comes from. An identity in the request's extensions was established by its transport (a
/// client in the same process).
pub async fn authenticate(server: &Shared, parts: &http::request::Parts) -> Result<Caller> {
    let identity = match parts.extensions.get::<Identity>() {
        Some(identity) => Arc::new(identity.clone()),
        None => recognize(server, &parts.headers)?,
    };
    // To act as somebody else is not possible yet, and doing it as oneself is not what was asked for.
    match parts.headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
        None => Ok(Caller { identity, impersonator: None }),
        Some(_) => Err(Failure::not_allowed("impersonation is not supported")),
    }
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
