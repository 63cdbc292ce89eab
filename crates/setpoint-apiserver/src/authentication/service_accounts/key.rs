//! The keys that tokens are signed with, and known by.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use ring::rand::SystemRandom;
use ring::signature::{
    ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, UnparsedPublicKey,
};
use sha2::{Digest, Sha256};

/// What is not a private key on the curve P-256 in PKCS#8.
#[derive(Debug, thiserror::Error)]
#[error("not a private key for ECDSA on P-256 in PKCS#8")]
pub struct Rejected;

/// A pair of keys for ES256.
pub(super) struct Key {
    pair: EcdsaKeyPair,
    /// The `kid` of what it signs: a digest of the public key.
    pub(super) id: String,
}

impl Key {
    pub(super) fn read(pkcs8: &[u8]) -> Result<Key, Rejected> {
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, pkcs8, &SystemRandom::new())
            .map_err(|_| Rejected)?;
        let id = URL_SAFE_NO_PAD.encode(Sha256::digest(pair.public_key()));
        Ok(Key { pair, id })
    }

    /// A new key, in PKCS#8.
    pub(super) fn generate() -> Vec<u8> {
        let made = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &SystemRandom::new());
        made.expect("the system gives random numbers").as_ref().to_vec()
    }

    pub(super) fn sign(&self, message: &[u8]) -> Vec<u8> {
        let signature = self.pair.sign(&SystemRandom::new(), message).expect("the system gives random numbers");
        signature.as_ref().to_vec()
    }

    pub(super) fn has_signed(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.pair.public_key()).verify(message, signature).is_ok()
    }
}
