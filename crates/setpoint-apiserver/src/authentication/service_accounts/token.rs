//! A token: claims and a signature over them, as JWS writes them (RFC 7515) with ES256 and nothing else.
//!
//! Nothing is taken from a token before its signature is known to be good but the name of the key. A header with anything
//! beside `alg` and `kid` is not one of ours, so neither keys from elsewhere nor other algorithms can be brought along.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};

use super::Invalid;
use super::claims::Claims;
use super::key::Key;

/// The longest token that is looked at.
pub const LIMIT_BYTES: usize = 16 * 1024;

const ALGORITHM: &str = "ES256";

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Header {
    alg: String,
    kid: String,
}

pub(super) fn sign(key: &Key, claims: &Claims) -> String {
    let encode = |part: &[u8]| URL_SAFE_NO_PAD.encode(part);
    let json = |value: Result<Vec<u8>, serde_json::Error>| encode(&value.expect("texts and numbers are JSON"));
    let header = Header { alg: ALGORITHM.to_owned(), kid: key.id.clone() };
    let message = format!("{}.{}", json(serde_json::to_vec(&header)), json(serde_json::to_vec(claims)));
    let signature = encode(&key.sign(message.as_bytes()));
    format!("{message}.{signature}")
}

/// The claims of a token that one of these keys has signed.
pub(super) fn read(keys: &[Key], token: &str) -> Result<Claims, Invalid> {
    if token.len() > LIMIT_BYTES {
        return Err(Invalid::Unknown);
    }
    let (message, signature) = token.rsplit_once('.').ok_or(Invalid::Unknown)?;
    let (header, claims) = message.split_once('.').ok_or(Invalid::Unknown)?;
    // No padding, no other alphabet, no stray bits: a token can be written in one way only.
    let decode = |part: &str| URL_SAFE_NO_PAD.decode(part).map_err(|_| Invalid::Unknown);
    let header: Header = serde_json::from_slice(&decode(header)?).map_err(|_| Invalid::Unknown)?;
    let key = keys.iter().find(|key| key.id == header.kid).filter(|_| header.alg == ALGORITHM);
    let signature = decode(signature)?;
    if !key.is_some_and(|key| key.has_signed(message.as_bytes(), &signature)) {
        return Err(Invalid::Unknown);
    }
    serde_json::from_slice(&decode(claims)?).map_err(|_| Invalid::Unknown)
}
