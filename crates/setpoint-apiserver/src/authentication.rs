//! Who is asking.

use http::HeaderMap;
use http::header::AUTHORIZATION;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::failure::{Failure, Result};

/// Somebody this server knows. A transport that has established it by itself (a client in the same process) puts it
/// into the request's extensions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    pub user: String,
    pub groups: Vec<String>,
}

/// Recognizes bearer tokens. Keeps their digests only, and compares in constant time.
#[derive(Clone)]
pub struct Authenticator {
    tokens: Vec<([u8; 32], Identity)>,
}

impl std::fmt::Debug for Authenticator {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Authenticator").field("tokens", &self.tokens.len()).finish()
    }
}

impl Authenticator {
    pub fn new(tokens: impl IntoIterator<Item = (String, Identity)>) -> Authenticator {
        let tokens = tokens.into_iter().map(|(token, identity)| (Sha256::digest(token).into(), identity));
        Authenticator { tokens: tokens.collect() }
    }

    pub fn authenticate(&self, headers: &HeaderMap) -> Result<&Identity> {
        let identity = self.recognize(headers)?;
        // To act as somebody else is not possible yet, and doing it as oneself is not what was asked for.
        match headers.keys().find(|name| name.as_str().starts_with("impersonate-")) {
            None => Ok(identity),
            Some(_) => Err(Failure::not_allowed("impersonation is not supported")),
        }
    }

    fn recognize(&self, headers: &HeaderMap) -> Result<&Identity> {
        let header = headers.get(AUTHORIZATION).and_then(|value| value.to_str().ok()).unwrap_or_default();
        let token = match header.split_once(' ') {
            Some((scheme, token)) if scheme.eq_ignore_ascii_case("bearer") => token.trim(),
            _ => return Err(Failure::unauthorized()),
        };
        let digest: [u8; 32] = Sha256::digest(token).into();
        // Every token is compared, so that the time taken does not tell which one came close.
        let mut found = None;
        for (known, identity) in &self.tokens {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(identity);
            }
        }
        found.ok_or_else(Failure::unauthorized)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_token_is_let_in() {
        let admin = Identity { user: "admin".into(), groups: vec!["system:masters".into()] };
        let authenticator = Authenticator::new([("right".to_owned(), admin.clone())]);
        let rows = [
            ("the right token", Some("Bearer right"), true),
            ("any case of the scheme", Some("bearer right"), true),
            ("a wrong token", Some("Bearer wrong"), false),
            ("an empty token", Some("Bearer "), false),
            ("another scheme", Some("Basic right"), false),
            ("nothing", None, false),
        ];
        for (row, header, known) in rows {
            let headers = header.map(|value| (AUTHORIZATION, value.parse().expect("a header")));
            let headers = HeaderMap::from_iter(headers);
            assert_eq!(authenticator.authenticate(&headers).ok(), known.then_some(&admin), "{row}");
        }
    }

    #[test]
    fn nobody_acts_as_somebody_else() {
        let admin = Identity { user: "admin".into(), groups: Vec::new() };
        let authenticator = Authenticator::new([("right".to_owned(), admin)]);
        let headers = [("authorization", "Bearer right"), ("impersonate-user", "other")];
        let headers = headers.map(|(name, value)| (name.parse().expect("a name"), value.parse().expect("a value")));
        let refused = authenticator.authenticate(&HeaderMap::from_iter(headers)).expect_err("not supported");
        assert_eq!(refused.code, http::StatusCode::FORBIDDEN);
    }

    #[test]
    fn tokens_are_not_shown() {
        let identity = Identity { user: "a".into(), groups: Vec::new() };
        let authenticator = Authenticator::new([("s3cret".to_owned(), identity)]);
        assert!(!format!("{authenticator:?}").contains("s3cret"));
    }
}
