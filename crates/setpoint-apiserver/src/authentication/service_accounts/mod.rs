//! Service accounts prove who they are by tokens (JWT) that this server made.
//!
//! A token is good if one of our [keys](key) has signed it, it is for this server, its time has come and not passed, and
//! the account and the object it is bound to are still those it was made for. Only the signature can be remembered: it is
//! what costs, and all else may change.

mod claims;
mod key;
mod memory;
mod request;
mod state;
#[cfg(test)]
mod tests;
mod token;

use std::sync::Arc;

use jiff::Timestamp;
use parking_lot::Mutex;
use uuid::Uuid;

pub use claims::{Claims, Holder, Reference};
pub use key::Rejected;
pub use request::{Bond, default as default_request, validate as validate_request};
pub use state::{check_state, until_invalid};
pub use token::LIMIT_BYTES;

use super::Identity;
use key::Key;
use memory::Memory;

/// Why a token is not good. Only those who asked about a token are told; its bearer learns nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Invalid {
    /// It is not one of ours, or not a token at all.
    #[error("invalid bearer token")]
    Unknown,
    #[error("token audiences {} is invalid for the target audiences {}", listed(.found), listed(.wanted))]
    Audience { found: Vec<String>, wanted: Vec<String> },
    #[error("service account token has expired")]
    Expired,
    #[error("service account token is not valid yet")]
    NotYetValid,
    #[error("service account token is issued in the future")]
    IssuedInFuture,
    #[error("serviceaccounts {0:?} not found")]
    NoAccount(String),
    #[error("service account UID ({found}) does not match claim ({claimed})")]
    OtherAccount { found: String, claimed: String },
    #[error("service account {0} has been deleted")]
    AccountDeleted(String),
    /// What it was bound to is gone.
    #[error("service account token has been invalidated")]
    Unbound,
    #[error("{kind} UID ({found}) does not match service account {kind} ref claim ({claimed})")]
    OtherObject { kind: &'static str, found: String, claimed: String },
}

/// Texts as Go lists them.
fn listed(texts: &[String]) -> String {
    let texts: Vec<String> = texts.iter().map(|text| format!("{text:?}")).collect();
    format!("[{}]", texts.join(" "))
}

/// Makes tokens, and knows them again. Cheap to clone.
#[derive(Clone)]
pub struct Issuer(Arc<Inner>);

struct Inner {
    /// Names this server in tokens: their `iss`, and their audience where none is asked for.
    url: String,
    /// The first signs; all are known.
    keys: Vec<Key>,
    memory: Mutex<Memory>,
}

impl std::fmt::Debug for Issuer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Issuer").field("url", &self.0.url).field("keys", &self.0.keys.len()).finish()
    }
}

impl Issuer {
    /// An issuer by its URL and its keys in PKCS#8. The first key signs; tokens of the others are still good, so a key is
    /// replaced by putting a new one before it, and taken out when its tokens have expired.
    pub fn new(url: impl Into<String>, keys: impl IntoIterator<Item = impl AsRef<[u8]>>) -> Result<Issuer, Rejected> {
        let keys: Vec<Key> = keys.into_iter().map(|key| Key::read(key.as_ref())).collect::<Result<_, _>>()?;
        if keys.is_empty() {
            return Err(Rejected);
        }
        Ok(Issuer(Arc::new(Inner { url: url.into(), keys, memory: Mutex::default() })))
    }

    /// A new key for an issuer, in PKCS#8.
    pub fn new_key() -> Vec<u8> {
        Key::generate()
    }

    /// The audiences that mean this server.
    pub fn audiences(&self) -> &[String] {
        std::slice::from_ref(&self.0.url)
    }

    /// A token for a service account, good from now on.
    pub fn issue(&self, holder: Holder, audiences: Vec<String>, now: Timestamp, lifetime_s: i64) -> String {
        let now_s = now.as_second();
        let claims = Claims {
            audiences,
            expires_s: now_s.saturating_add(lifetime_s),
            issued_s: now_s,
            issuer: self.0.url.clone(),
            id: Uuid::new_v4().to_string(),
            not_before_s: now_s,
            subject: Identity::service_account(&holder.namespace, &holder.serviceaccount.name).user,
            holder,
        };
        token::sign(&self.0.keys[0], &claims)
    }

    /// The claims of a token of ours. Whether they hold is not looked at here.
    pub fn read(&self, token: &str) -> Result<Arc<Claims>, Invalid> {
        let digest = memory::digest(token);
        if let Some(claims) = self.0.memory.lock().recall(&digest) {
            return Ok(claims);
        }
        let claims = token::read(&self.0.keys, token)?;
        let Holder { namespace, serviceaccount, .. } = &claims.holder;
        let subject = Identity::service_account(namespace, &serviceaccount.name).user;
        if claims.issuer != self.0.url || claims.subject != subject {
            return Err(Invalid::Unknown);
        }
        let claims = Arc::new(claims);
        self.0.memory.lock().remember(digest, claims.clone());
        Ok(claims)
    }
}
