//! Names that follow from what an object is for: `web-x2k4f`.
//!
//! Who creates the same thing twice, because an answer was lost or because two of them are at work, chooses the same name
//! twice, and the second meets the first.

use sha2::{Digest, Sha256};

use crate::workload::template_hash::letters;

const SUFFIX_LENGTH: usize = 5;

/// The stem, cut so that the name is no longer than `max`, and a word that stands for the parts.
pub fn derive(stem: &str, max: usize, parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_be_bytes());
        hasher.update(part);
    }
    let suffix = letters(&hasher.finalize(), SUFFIX_LENGTH);
    let room = max.saturating_sub(1 + SUFFIX_LENGTH);
    let cut = (0..=stem.len().min(room)).rev().find(|end| stem.is_char_boundary(*end)).unwrap_or_default();
    format!("{}-{suffix}", stem[..cut].trim_end_matches(['-', '.']))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_follows_from_its_parts() {
        let name = derive("web", 63, &["uid", "0"]);
        assert_eq!(name, derive("web", 63, &["uid", "0"]));
        assert_ne!(name, derive("web", 63, &["uid", "1"]));
        assert_ne!(derive("web", 63, &["a", "bc"]), derive("web", 63, &["ab", "c"]), "parts are apart");
        assert!(name.starts_with("web-") && name.len() == 9, "{name}");
    }

    #[test]
    fn a_name_fits() {
        assert_eq!(derive(&"x".repeat(90), 63, &[]).len(), 63);
        let cut = derive(&format!("{}-y", "x".repeat(56)), 63, &[]);
        assert!(!cut.contains("--"), "{cut}");
    }
}
