//! Bearer tokens.

use rand::RngCore as _;

/// A token that nobody can guess: 256 random bits.
pub(crate) fn random() -> String {
    let mut bytes = [0u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
