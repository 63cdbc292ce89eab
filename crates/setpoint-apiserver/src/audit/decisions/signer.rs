//! Which key an SSH signature names.

use base64::Engine as _;
use base64::engine::general_purpose::{STANDARD, STANDARD_NO_PAD};
use sha2::{Digest as _, Sha256};

const MAGIC: &[u8] = b"SSHSIG";

/// The fingerprint of the key that an armored SSH signature says it is by, as `ssh-keygen -l` shows it. Whether it is by
/// that key is for whoever counts it to say.
pub(super) fn fingerprint(armored: &str) -> Option<String> {
    let inner = armored.lines().filter(|line| !line.starts_with("-----"));
    let blob = STANDARD.decode(inner.map(str::trim).collect::<String>()).ok()?;
    // The magic, a version, and then the key with its length before it.
    let rest = blob.strip_prefix(MAGIC)?.get(4..)?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let key = rest.get(..usize::try_from(u32::from_be_bytes(*length)).ok()?)?;
    Some(format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(key))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signature_names_its_key() {
        let mut blob = b"SSHSIG\0\0\0\x01\0\0\0\x03key".to_vec();
        blob.extend(b"\0\0\0\x04more");
        let armored = |blob: &[u8]| {
            format!("-----BEGIN SSH SIGNATURE-----\n{}\n-----END SSH SIGNATURE-----\n", STANDARD.encode(blob))
        };
        let expected = format!("SHA256:{}", STANDARD_NO_PAD.encode(Sha256::digest(b"key")));
        assert_eq!(fingerprint(&armored(&blob)), Some(expected));
        for (name, blob) in [("cut", &blob[..14]), ("another format", &b"SSHGIS\0\0\0\x01"[..]), ("nothing", &[])] {
            assert_eq!(fingerprint(&armored(blob)), None, "{name}");
        }
        assert_eq!(fingerprint("no base64!"), None);
    }
}
