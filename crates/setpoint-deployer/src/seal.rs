//! Seals what files of ours hold of Secrets: ChaCha20-Poly1305 under a key in a file of its own beside them.
//!
//! A sealed text is Base64 of a random nonce, the ciphertext and its tag. The tag covers where the text belongs, so it
//! opens nowhere else.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::aead::{Aad, CHACHA20_POLY1305, LessSafeKey, NONCE_LEN, Nonce, UnboundKey};
use ring::rand::{SecureRandom as _, SystemRandom};

const KEY_BYTES: usize = 32;

/// A key that seals and opens; it shows itself to nobody.
pub(crate) struct SealKey(LessSafeKey);

impl std::fmt::Debug for SealKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("SealKey").finish_non_exhaustive()
    }
}

impl SealKey {
    /// The key in a file, which is made if there is none. Nobody else may be making it.
    pub(crate) fn open_or_make(path: &Path) -> io::Result<SealKey> {
        match SealKey::open(path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => SealKey::make(path),
            opened => opened,
        }
    }

    /// The key in a file.
    pub(crate) fn open(path: &Path) -> io::Result<SealKey> {
        let bytes = fs::read(path)?;
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, format!("{} holds no key", path.display()));
        SealKey::of(&bytes).ok_or_else(damaged)
    }

    fn make(path: &Path) -> io::Result<SealKey> {
        let mut bytes = [0; KEY_BYTES];
        SystemRandom::new().fill(&mut bytes).map_err(|_| no_randomness())?;
        let aside = path.with_extension("new");
        match fs::remove_file(&aside) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
        file.write_all(&bytes)?;
        // Without it, what is sealed is lost.
        file.sync_all()?;
        fs::rename(aside, path)?;
        SealKey::of(&bytes).ok_or_else(no_randomness)
    }

    fn of(bytes: &[u8]) -> Option<SealKey> {
        UnboundKey::new(&CHACHA20_POLY1305, bytes).ok().map(|key| SealKey(LessSafeKey::new(key)))
    }

    /// Seals a text for a place.
    pub(crate) fn seal(&self, place: &str, text: &[u8]) -> io::Result<String> {
        let mut nonce = [0; NONCE_LEN];
        SystemRandom::new().fill(&mut nonce).map_err(|_| no_randomness())?;
        let mut sealed = text.to_vec();
        let nonce_once = Nonce::assume_unique_for_key(nonce);
        self.0.seal_in_place_append_tag(nonce_once, Aad::from(place), &mut sealed).map_err(|_| no_randomness())?;
        Ok(STANDARD.encode([&nonce[..], &sealed].concat()))
    }

    /// The text that was sealed for a place; `None` if this is not such a text.
    pub(crate) fn unseal(&self, place: &str, sealed: &str) -> Option<Vec<u8>> {
        let mut bytes = STANDARD.decode(sealed).ok()?;
        if bytes.len() < NONCE_LEN {
            return None;
        }
        let mut text = bytes.split_off(NONCE_LEN);
        let nonce = Nonce::try_assume_unique_for_key(&bytes).ok()?;
        let length = self.0.open_in_place(nonce, Aad::from(place), &mut text).ok()?.len();
        text.truncate(length);
        Some(text)
    }
}

fn no_randomness() -> io::Error {
    io::Error::other("the system gives no random numbers")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    #[test]
    fn what_is_sealed_opens_where_it_belongs_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join(".key");
        let key = SealKey::open_or_make(&path).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let sealed = key.seal("a", b"correct-horse").unwrap();
        assert!(!sealed.contains("correct-horse") && !format!("{key:?}").contains("correct"));
        assert_ne!(sealed, key.seal("a", b"correct-horse").unwrap(), "equal texts do not show as equal");
        let again = SealKey::open_or_make(&path).unwrap();
        assert_eq!(again.unseal("a", &sealed).as_deref(), Some(&b"correct-horse"[..]));
        for (what, place, text) in
            [("another place", "b", sealed.as_str()), ("no text", "a", ""), ("cut", "a", &sealed[..8])]
        {
            assert_eq!(again.unseal(place, text), None, "{what}");
        }
        fs::write(&path, "short").unwrap();
        assert!(SealKey::open_or_make(&path).is_err(), "a damaged key is not replaced");
    }
}
