//! A key, and what it does to a value: ChaCha20-Poly1305 under a key of the value's own.
//!
//! A sealed value is the id of the key (8 bytes), a random salt (24), the ciphertext, and its tag (16). The value's own
//! key is derived (HKDF-SHA256) from the key and the salt, so it is used once and its nonce is constant: unlike random
//! nonces of 96 bits, salts do not run out. The tag covers the object's key and the revision, so a sealed value opens
//! nowhere but where it was put.

use std::fmt;

use bytes::Bytes;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::digest::{self, SHA256};
use ring::hkdf::{HKDF_SHA256, Prk};
use ring::rand::{SecureRandom as _, SystemRandom};
use zeroize::Zeroizing;

use crate::store::Revision;

pub(crate) const KEY_BYTES: usize = 32;
const SALT_BYTES: usize = 24;
const ID_BYTES: usize = 8;
const TAG_BYTES: usize = 16;

#[derive(Debug, thiserror::Error)]
#[error("the system gives no random numbers")]
pub struct NoRandomness;

/// What a key is called; it says nothing about the key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct KeyId([u8; ID_BYTES]);

impl KeyId {
    /// The id of the key that a value was sealed with.
    pub(crate) fn of(sealed: &[u8]) -> Option<Self> {
        sealed.first_chunk().map(|id| Self(*id))
    }
}

impl fmt::Display for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for KeyId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "KeyId({self})")
    }
}

/// Where a value belongs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place<'a> {
    pub key: &'a str,
    pub written: Revision,
}

impl Place<'_> {
    fn associated_data(self) -> Aad<Vec<u8>> {
        Aad::from([&self.written.to_be_bytes(), self.key.as_bytes()].concat())
    }
}

/// A key that seals and opens. It shows itself to nobody, and leaves no trace in memory when it is dropped.
pub(crate) struct Key {
    pub(crate) id: KeyId,
    bytes: Zeroizing<[u8; KEY_BYTES]>,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Key").field("id", &self.id).finish_non_exhaustive()
    }
}

impl Key {
    /// The id follows from the key, so a key cannot be taken for another.
    pub(crate) fn new(bytes: Zeroizing<[u8; KEY_BYTES]>) -> Self {
        let mut context = digest::Context::new(&SHA256);
        context.update(b"setpoint key id");
        context.update(&*bytes);
        let id = context.finish().as_ref().first_chunk().copied().expect("a digest is longer than an id");
        Self { id: KeyId(id), bytes }
    }

    pub(crate) fn generate() -> Result<Self, NoRandomness> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        SystemRandom::new().fill(&mut *bytes).map_err(|_| NoRandomness)?;
        Ok(Self::new(bytes))
    }

    /// The key itself, for the one file that holds it.
    pub(crate) fn reveal(&self) -> &[u8; KEY_BYTES] {
        &self.bytes
    }

    /// Seals a value for a place.
    pub(crate) fn seal(&self, place: Place<'_>, value: &[u8]) -> Result<Vec<u8>, NoRandomness> {
        let mut salt = [0; SALT_BYTES];
        SystemRandom::new().fill(&mut salt).map_err(|_| NoRandomness)?;
        Ok(self.seal_with(&salt, place, value))
    }

    /// Seals a value under a salt that no other value has.
    fn seal_with(&self, salt: &[u8; SALT_BYTES], place: Place<'_>, value: &[u8]) -> Vec<u8> {
        let mut sealed = Vec::with_capacity(ID_BYTES + SALT_BYTES + value.len() + TAG_BYTES);
        sealed.extend_from_slice(&self.id.0);
        sealed.extend_from_slice(salt);
        sealed.extend_from_slice(value);
        let text = &mut sealed[ID_BYTES + SALT_BYTES..];
        let tag = self
            .of_value(salt)
            .seal_in_place_separate_tag(nonce(), place.associated_data(), text)
            .expect("a value is shorter than the 256 GiB that one key may seal");
        sealed.extend_from_slice(tag.as_ref());
        sealed
    }

    /// Opens a value that this key has sealed for this place; anything else gives nothing.
    pub(crate) fn open(&self, place: Place<'_>, sealed: &[u8]) -> Option<Bytes> {
        let (id, sealed) = sealed.split_first_chunk::<ID_BYTES>()?;
        let (salt, text) = sealed.split_first_chunk::<SALT_BYTES>()?;
        if *id != self.id.0 {
            return None;
        }
        let mut text = Zeroizing::new(text.to_vec());
        let value = self.of_value(salt).open_in_place(nonce(), place.associated_data(), &mut text).ok()?;
        Some(Bytes::copy_from_slice(value))
    }

    /// The key of one value.
    fn of_value(&self, salt: &[u8; SALT_BYTES]) -> LessSafeKey {
        let key = Prk::new_less_safe(HKDF_SHA256, &*self.bytes);
        let info = [&b"setpoint sealed value"[..], salt];
        let derived = key.expand(&info, &CHACHA20_POLY1305).expect("a key is shorter than what can be derived");
        LessSafeKey::new(UnboundKey::from(derived))
    }
}

/// The only nonce that each value's own key is used with.
fn nonce() -> Nonce {
    Nonce::assume_unique_for_key([0; NONCE_LEN])
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use super::*;

    const SALT: [u8; SALT_BYTES] = [7; SALT_BYTES];
    const PLACE: Place<'static> = Place { key: "/secrets/a", written: 3 };

    fn key(byte: u8) -> Key {
        Key::new(Zeroizing::new([byte; KEY_BYTES]))
    }

    #[test]
    fn a_value_opens_where_it_was_sealed_and_nowhere_else() {
        for (name, value) in [
            ("a text", &b"password"[..]),
            ("nothing", b""),
            ("what looks sealed already", &key(1).seal_with(&SALT, PLACE, b"password")),
            ("a large value", &[7; 100_000]),
        ] {
            let sealed = key(1).seal_with(&SALT, PLACE, value);
            assert_eq!(key(1).open(PLACE, &sealed).as_deref(), Some(value), "{name}");
            for (elsewhere, opener, place) in [
                ("another key", key(2), PLACE),
                ("another object", key(1), Place { key: "/secrets/b", ..PLACE }),
                ("another object whose name begins the same", key(1), Place { key: "/secrets/ab", ..PLACE }),
                ("another revision", key(1), Place { written: 4, ..PLACE }),
            ] {
                assert_eq!(opener.open(place, &sealed), None, "{name} under {elsewhere}");
            }
        }
    }

    #[test]
    fn no_damage_opens() {
        let sealed = key(1).seal_with(&SALT, PLACE, b"password");
        for length in 0..sealed.len() {
            assert_eq!(key(1).open(PLACE, &sealed[..length]), None, "cut to {length} bytes");
        }
        for bit in 0..sealed.len() * 8 {
            let mut damaged = sealed.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(key(1).open(PLACE, &damaged), None, "bit {bit}");
        }
        assert_eq!(key(1).open(PLACE, &[&sealed[..], b"x"].concat()), None, "one byte more");
        let mut other = key(2).seal_with(&SALT, PLACE, b"password");
        other[..ID_BYTES].copy_from_slice(&key(1).id.0);
        assert_eq!(key(1).open(PLACE, &other), None, "another key's value under this key's name");
    }

    #[test]
    fn the_same_value_never_looks_the_same() {
        let sealed = key(1).seal_with(&SALT, PLACE, b"password");
        let again = key(1).seal_with(&[8; SALT_BYTES], PLACE, b"password");
        assert_eq!(sealed.len(), again.len());
        let (text, other) = (&sealed[ID_BYTES + SALT_BYTES..], &again[ID_BYTES + SALT_BYTES..]);
        assert!(text.iter().zip(other).filter(|(a, b)| a == b).count() < 4, "{text:02x?} {other:02x?}");
    }

    #[test]
    fn a_key_shows_its_id_only() {
        assert_eq!(key(b'k').id, key(b'k').id);
        assert_ne!(key(1).id, key(2).id);
        assert_eq!(format!("{:?}", key(b'k')), format!("Key {{ id: KeyId({}), .. }}", key(b'k').id));
    }
}
