//! TLS on both sides: certificates by server name, taken from the table at each handshake, and authorities for backends.

use std::collections::HashMap;
use std::sync::Arc;

use rustls::client::Resumption;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::shared::Shared;
use crate::table::{Certificate, UpstreamTls};

/// The certificates of one listener.
#[derive(Debug, Default)]
pub(crate) struct Certificates {
    by_name: HashMap<String, Arc<CertifiedKey>>,
    default: Option<Arc<CertifiedKey>>,
}

impl Certificates {
    /// Takes what can be used, and tells what cannot: one bad Secret takes no other host down.
    pub(crate) fn new<'a>(certificates: impl Iterator<Item = (&'a str, &'a Certificate)>) -> (Self, Vec<String>) {
        let mut taken = Self::default();
        let mut wrong = Vec::new();
        for (name, certificate) in certificates {
            match certified_key(certificate) {
                Ok(key) => {
                    let key = Arc::new(key);
                    for host in &certificate.hosts {
                        taken.by_name.entry(host.to_ascii_lowercase()).or_insert_with(|| Arc::clone(&key));
                    }
                    taken.default.get_or_insert(key);
                }
                Err(what) => wrong.push(format!("certificate {name}: {what}")),
            }
        }
        (taken, wrong)
    }

    /// The certificate for a server name: its own, a wildcard's, or the first.
    fn find(&self, server_name: Option<&str>) -> Option<Arc<CertifiedKey>> {
        let named = server_name.and_then(|name| {
            let name = name.to_ascii_lowercase();
            let wildcard = || self.by_name.get(&format!("*.{}", name.split_once('.')?.1));
            self.by_name.get(&name).or_else(wildcard)
        });
        named.or(self.default.as_ref()).cloned()
    }
}

fn certified_key(certificate: &Certificate) -> Result<CertifiedKey, String> {
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_slice_iter(certificate.chain_pem.as_bytes())
        .collect::<Result<_, _>>()
        .map_err(|error| format!("its chain is not PEM: {error}"))?;
    if chain.is_empty() {
        return Err("its chain is empty".to_owned());
    }
    let key = PrivateKeyDer::from_pem_slice(certificate.key_pem.as_bytes())
        .map_err(|_| "its key is not a private key in PEM".to_owned())?;
    let key =
        ring::sign::any_supported_type(&key).map_err(|_| "its key is of a kind that is not supported".to_owned())?;
    let certified = CertifiedKey::new(chain, key);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(rustls::InconsistentKeys::Unknown)) => Ok(certified),
        Err(_) => Err("its key is not the one of its certificate".to_owned()),
    }
}

/// Finds the certificate in the table of this moment.
#[derive(Debug)]
struct Resolver {
    shared: Arc<Shared>,
    listener: String,
}

impl ResolvesServerCert for Resolver {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let live = self.shared.live();
        live.certificates(&self.listener)?.find(hello.server_name())
    }
}

/// What encrypts session tickets: one for the process, so that any thread and listener can resume a session.
pub(crate) fn ticketer() -> Result<Arc<dyn ProducesTickets>, rustls::Error> {
    ring::Ticketer::new()
}

pub(crate) fn server_config(shared: &Arc<Shared>, listener: &str) -> Arc<ServerConfig> {
    let resolver = Resolver { shared: Arc::clone(shared), listener: listener.to_owned() };
    let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12, &rustls::version::TLS13])
        .expect("ring supports TLS 1.2 and 1.3")
        .with_no_client_auth()
        .with_cert_resolver(Arc::new(resolver));
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    config.ticketer = Arc::clone(&shared.ticketer);
    config.max_early_data_size = 0;
    Arc::new(config)
}

/// How backends of a group are spoken to, and whom they must show to be.
pub(crate) fn client_config(tls: &UpstreamTls, is_http2: bool) -> Result<Arc<ClientConfig>, String> {
    let mut roots = RootCertStore::empty();
    for authority in CertificateDer::pem_slice_iter(tls.ca_pem.as_bytes()) {
        let authority = authority.map_err(|error| format!("the authority is not PEM: {error}"))?;
        roots.add(authority).map_err(|error| format!("the authority cannot be used: {error}"))?;
    }
    if roots.is_empty() {
        return Err("there is no authority to believe its endpoints by".to_owned());
    }
    rustls::pki_types::ServerName::try_from(tls.server_name.as_str())
        .map_err(|_| format!("{:?} is not a server name", tls.server_name))?;
    let mut config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS12, &rustls::version::TLS13])
        .map_err(|error| error.to_string())?
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![if is_http2 { b"h2".to_vec() } else { b"http/1.1".to_vec() }];
    config.resumption = Resumption::in_memory_sessions(256);
    Ok(Arc::new(config))
}
