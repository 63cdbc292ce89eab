//! What people are known by, in the form in which the server keeps it.

use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use sha2::{Digest as _, Sha256};

/// What proves who somebody is: enough to know it again, too little to use it.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Credential {
    TokenSha256(TokenDigest),
    CertificateSerial(Serial),
}

/// The SHA-256 of a token.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub fn of(token: &str) -> TokenDigest {
        TokenDigest(Sha256::digest(token).into())
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Debug for TokenDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("TokenDigest")
    }
}

impl Serialize for TokenDigest {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hexadecimal(&self.0))
    }
}

impl<'de> Deserialize<'de> for TokenDigest {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TokenDigest, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digit = |byte: &u8| char::from(*byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let digits: Option<Vec<u8>> = text.as_bytes().iter().map(digit).collect();
        let bytes: Vec<u8> = digits
            .unwrap_or_default()
            .chunks(2)
            .map(|pair| pair.iter().fold(0, |byte, digit| byte << 4 | digit))
            .collect();
        // The text is not repeated: it may be the token itself, put here by mistake.
        bytes
            .try_into()
            .ok()
            .filter(|_| text.len() == 64)
            .map(TokenDigest)
            .ok_or_else(|| de::Error::custom("a token's SHA-256 has 64 hexadecimal digits"))
    }
}

/// The number of a certificate, in hexadecimal digits without leading zeros.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
pub struct Serial(String);

impl Serial {
    /// The longest that a certificate may have.
    const DIGITS: usize = 40;

    pub fn from_bytes(bytes: &[u8]) -> Serial {
        Serial(hexadecimal(bytes).trim_start_matches('0').to_owned())
    }
}

impl fmt::Display for Serial {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for Serial {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Serial, D::Error> {
        let text = String::deserialize(deserializer)?;
        let digits = text.trim_start_matches('0');
        if digits.is_empty() || digits.len() > Serial::DIGITS || !digits.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(de::Error::custom("a certificate's serial has 1 to 40 hexadecimal digits"));
        }
        Ok(Serial(digits.to_ascii_lowercase()))
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_token_is_kept_as_its_digest() {
        let credential = Credential::TokenSha256(TokenDigest::of("abc"));
        let text = json!({"tokenSha256": "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"});
        assert_eq!(serde_json::to_value(&credential).expect("it is JSON"), text);
        assert_eq!(serde_json::from_value::<Credential>(text).expect("the same"), credential);
        assert!(!format!("{credential:?}").contains("ba78"));
    }

    #[test]
    fn what_is_no_digest_is_refused_and_not_repeated() {
        for text in ["", "s3cret", &"a".repeat(63), &"a".repeat(65), &"g".repeat(64), &"\u{e4}".repeat(32)] {
            let error = serde_json::from_value::<TokenDigest>(json!(text)).expect_err(text).to_string();
            assert!(text.is_empty() || !error.contains(text), "{error}");
        }
    }

    #[test]
    fn a_serial_has_one_form() {
        let rows = [("8f01", Some("8f01")), ("008F01", Some("8f01")), ("", None), ("0", None), ("8f:01", None)];
        for (text, expected) in rows {
            let read = serde_json::from_value::<Serial>(json!(text)).ok();
            assert_eq!(read.map(|serial| serial.to_string()).as_deref(), expected, "{text:?}");
        }
        assert_eq!(Serial::from_bytes(&[0x00, 0x8f, 0x01]).to_string(), "8f01");
        assert!(serde_json::from_value::<Serial>(json!("1".repeat(41))).is_err());
    }
}
