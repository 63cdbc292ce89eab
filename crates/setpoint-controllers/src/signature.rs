//! What cryptography says of a review's SSH signature.
//!
//! It is judged in the order of `ssh-keygen -Y verify`: whether it can be read, what it was made for, by which key it says
//! to be, and whether that key signed just this. Whether the key counts for anything is the gate's to say.

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use parking_lot::Mutex;
use setpoint_api::review::{Review, SIGNATURE_NAMESPACE};
use setpoint_core::gate::Signature;
use ssh_key::{PublicKey, SshSig};

/// How many signatures are remembered; then all are forgotten, and checked once more.
const MAX_REMEMBERED: usize = 10_000;

/// What was found of signatures, by the uid of their review: a review never changes, and is judged often.
#[derive(Debug, Default)]
pub struct Signatures {
    found: Mutex<BTreeMap<String, Arc<Checked>>>,
}

impl Signatures {
    pub fn check(&self, review: &Review) -> Arc<Checked> {
        let Some(uid) = review.metadata.uid.as_ref().filter(|_| review.spec.signature.is_some()) else {
            return Arc::new(Checked::of(review));
        };
        if let Some(found) = self.found.lock().get(uid) {
            return found.clone();
        }
        let checked = Arc::new(Checked::of(review));
        let mut found = self.found.lock();
        if found.len() >= MAX_REMEMBERED {
            found.clear();
        }
        found.insert(uid.clone(), checked.clone());
        checked
    }
}

/// What was found of a signature.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Checked {
    Unsigned,
    Malformed { reason: String },
    OtherNamespace { namespace: String },
    Valid { material: String },
    Invalid { material: String, reason: String },
}

impl Checked {
    /// Judges the signature of a review over its own statement.
    pub fn of(review: &Review) -> Checked {
        let Some(armored) = &review.spec.signature else { return Checked::Unsigned };
        let namespace = review.metadata.namespace.as_deref().unwrap_or_default();
        check(armored, review.spec.statement(namespace).as_bytes())
    }

    /// The same as the gate reads it.
    pub fn as_signature(&self) -> Signature<'_> {
        match self {
            Checked::Unsigned => Signature::Unsigned,
            Checked::Malformed { reason } => Signature::Malformed { reason },
            Checked::OtherNamespace { namespace } => Signature::OtherNamespace { namespace },
            Checked::Valid { material } => Signature::Valid { material },
            Checked::Invalid { material, reason } => Signature::Invalid { material, reason },
        }
    }
}

fn check(armored: &str, statement: &[u8]) -> Checked {
    let signature = match SshSig::from_pem(armored.trim()) {
        Ok(signature) => signature,
        Err(error) => return Checked::Malformed { reason: error.to_string() },
    };
    if signature.namespace() != SIGNATURE_NAMESPACE {
        return Checked::OtherNamespace { namespace: signature.namespace().to_owned() };
    }
    let key = PublicKey::from(signature.public_key().clone());
    // `TYPE MATERIAL`, as in an authorized_keys file.
    let written = key.to_openssh().unwrap_or_default();
    let Some(material) = written.split_ascii_whitespace().nth(1).map(str::to_owned) else {
        return Checked::Malformed { reason: "its key cannot be written".to_owned() };
    };
    match key.verify(SIGNATURE_NAMESPACE, statement, &signature) {
        Ok(()) => Checked::Valid { material },
        Err(_) => Checked::Invalid { material, reason: "the key did not sign this review as it stands".to_owned() },
    }
}
