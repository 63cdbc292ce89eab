//! The key of all digests: a Secret that is made once, and that nobody is shown.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use setpoint_core::digest::Key;

use crate::events::is_code;

const NAMESPACE: &str = "kube-system";
const NAME: &str = "setpoint-digest-key";
const ENTRY: &str = "key";
const LENGTH: usize = 32;

/// The key of this control plane. It is drawn if there is none yet; where all chance follows from a seed, so does it.
pub(super) async fn open(client: &Client, seed: Option<u64>) -> Result<Key, kube::Error> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), NAMESPACE);
    loop {
        if let Some(secret) = secrets.get_opt(NAME).await? {
            return read(&secret);
        }
        match secrets.create(&PostParams::default(), &secret(draw(seed))).await {
            Ok(secret) => return read(&secret),
            // Somebody else made it meanwhile.
            Err(error) if is_code(&error, 409) => {}
            Err(error) => return Err(error),
        }
    }
}

fn draw(seed: Option<u64>) -> [u8; LENGTH] {
    let mut bytes = [0; LENGTH];
    match seed {
        Some(seed) => bytes.chunks_mut(8).for_each(|part| part.copy_from_slice(&seed.to_be_bytes())),
        None => rand::fill(&mut bytes),
    }
    bytes
}

fn secret(key: [u8; LENGTH]) -> Secret {
    Secret {
        metadata: ObjectMeta { name: Some(NAME.to_owned()), ..ObjectMeta::default() },
        data: Some(BTreeMap::from([(ENTRY.to_owned(), ByteString(key.to_vec()))])),
        type_: Some("Opaque".to_owned()),
        ..Secret::default()
    }
}

fn read(secret: &Secret) -> Result<Key, kube::Error> {
    let bytes = secret.data.as_ref().and_then(|data| data.get(ENTRY)).map(|bytes| bytes.0.as_slice());
    let key: Option<[u8; LENGTH]> = bytes.and_then(|bytes| bytes.try_into().ok());
    key.map(Key::new).ok_or_else(|| {
        let problem = format!("the Secret {NAMESPACE}/{NAME} must hold {LENGTH} bytes under {ENTRY}");
        kube::Error::Service(problem.into())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_read_as_it_was_written() {
        let key = read(&secret([7; LENGTH])).expect("a whole key");
        assert_eq!(key.digest(&"x".into()), Key::new([7; LENGTH]).digest(&"x".into()));
        let mut short = secret([7; LENGTH]);
        short.data = Some(BTreeMap::from([(ENTRY.to_owned(), ByteString(vec![7; 5]))]));
        let problem = read(&short).expect_err("a short key").to_string();
        assert!(problem.contains("must hold 32 bytes"), "{problem}");
        assert_eq!(draw(Some(3)), draw(Some(3)));
        assert_ne!(draw(None), draw(None));
    }
}
