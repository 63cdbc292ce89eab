//! The people who were given a token.

use std::sync::Arc;

use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use super::Identity;

/// Everybody with a token. Keeps digests only, and compares in constant time.
#[derive(Clone)]
pub struct Users {
    tokens: Vec<([u8; 32], Arc<Identity>)>,
}

impl std::fmt::Debug for Users {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Users").field("tokens", &self.tokens.len()).finish()
    }
}

impl Users {
    pub fn new(tokens: impl IntoIterator<Item = (String, Identity)>) -> Users {
        let tokens = tokens.into_iter().map(|(token, identity)| (Sha256::digest(token).into(), Arc::new(identity)));
        Users { tokens: tokens.collect() }
    }

    pub fn by_token(&self, token: &str) -> Option<Arc<Identity>> {
        let digest: [u8; 32] = Sha256::digest(token).into();
        // Every token is compared, so that the time taken does not tell which one came close.
        let mut found = None;
        for (known, identity) in &self.tokens {
            if bool::from(known.ct_eq(&digest)) {
                found = Some(identity);
            }
        }
        found.cloned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_known_token_is_let_in() {
        let admin = Identity::new("admin", ["system:masters"]);
        let users = Users::new([("right".to_owned(), admin.clone())]);
        for (token, known) in [("right", true), ("wrong", false), ("", false), ("right ", false)] {
            assert_eq!(users.by_token(token).as_deref(), known.then_some(&admin), "{token:?}");
        }
    }

    #[test]
    fn tokens_are_not_shown() {
        let users = Users::new([("s3cret".to_owned(), Identity::new("a", ["g"]))]);
        assert!(!format!("{users:?}").contains("s3cret"));
    }
}
