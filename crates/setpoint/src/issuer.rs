//! The keys with which service accounts' tokens are signed, in the data folder.

use anyhow::{Context as _, Result};
use rcgen::KeyPair;
use rustls_pki_types::PrivatePkcs8KeyDer;
use rustls_pki_types::pem::PemObject as _;
use setpoint_apiserver::Issuer;

use crate::data_dir::DataDir;

/// One key or more, as PEM. The first signs, and tokens of all are known.
pub(crate) const KEYS: &str = "service-accounts.key";

/// The name under which this server issues tokens, and for which they are meant unless somebody says otherwise. It is the
/// same at every address, so that tokens live on when a server moves.
const NAME: &str = "https://kubernetes.default.svc";

/// The issuer of tokens; its key is made on first start.
pub(crate) fn open(data: &DataDir) -> Result<Issuer> {
    let pem = match data.read_secret(KEYS)? {
        Some(pem) => pem,
        None => {
            let pem = KeyPair::generate()?.serialize_pem();
            data.write(KEYS, &pem)?;
            pem
        }
    };
    of_pem(&pem)
}

/// An issuer whose key is kept nowhere, for a control plane that lasts as long as a look does.
pub(crate) fn passing() -> Result<Issuer> {
    of_pem(&KeyPair::generate()?.serialize_pem())
}

fn of_pem(pem: &str) -> Result<Issuer> {
    let damaged = || format!("{KEYS} in the data folder is damaged");
    let keys: Vec<PrivatePkcs8KeyDer<'_>> =
        PrivatePkcs8KeyDer::pem_slice_iter(pem.as_bytes()).collect::<Result<_, _>>().with_context(damaged)?;
    Issuer::new(NAME, keys.iter().map(|key| key.secret_pkcs8_der())).with_context(damaged)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_made_once_and_more_can_be_added() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let data = DataDir::open(&folder.path().join("data")).expect("nobody uses it");
        open(&data).expect("a key is made");
        let made = data.read(KEYS).expect("readable").expect("it was made");
        open(&data).expect("the key is found");
        assert_eq!(data.read(KEYS).expect("readable").as_ref(), Some(&made));
        let rotated = KeyPair::generate().expect("a key").serialize_pem() + &made;
        data.write(KEYS, &rotated).expect("the folder is writable");
        let issuer = open(&data).expect("two keys are read");
        assert!(format!("{issuer:?}").ends_with("keys: 2 }"), "{issuer:?}");
        for damaged in ["", "no key", &made[..made.len() / 2]] {
            data.write(KEYS, damaged).expect("the folder is writable");
            let error = open(&data).expect_err("a damaged key must not be replaced in silence");
            assert!(error.to_string().contains("service-accounts.key"), "{error}");
        }
    }
}
