//! Tokens whose signatures were found good: to check one costs more than all the rest of a small request.

use std::collections::HashMap;
use std::sync::Arc;

use sha2::{Digest as _, Sha256};

use super::claims::Claims;

type Digest = [u8; 32];

/// How many tokens are remembered at least, of those in use; at most twice as many are.
const CAPACITY: usize = 1_000;

/// What was looked at lately, and what was before that. When the first is full it becomes the second, and what nobody has
/// asked for since is forgotten.
#[derive(Debug, Default)]
pub(super) struct Memory {
    recent: HashMap<Digest, Arc<Claims>>,
    older: HashMap<Digest, Arc<Claims>>,
}

/// Tokens are remembered by this alone.
pub(super) fn digest(token: &str) -> Digest {
    Sha256::digest(token).into()
}

impl Memory {
    pub(super) fn recall(&mut self, digest: &Digest) -> Option<Arc<Claims>> {
        if let Some(claims) = self.recent.get(digest) {
            return Some(claims.clone());
        }
        let claims = self.older.remove(digest)?;
        self.remember(*digest, claims.clone());
        Some(claims)
    }

    pub(super) fn remember(&mut self, digest: Digest, claims: Arc<Claims>) {
        if self.recent.len() >= CAPACITY {
            self.older = std::mem::take(&mut self.recent);
        }
        self.recent.insert(digest, claims);
    }

    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.recent.len() + self.older.len()
    }
}
