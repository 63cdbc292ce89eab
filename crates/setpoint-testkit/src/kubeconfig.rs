//! Where an API server is and how to speak to it, as a kubeconfig's current context says.
//!
//! Reads what this project writes and what `kubeadm` or a cloud writes for an administrator: a CA, and a token or a
//! client certificate. Plug-ins that fetch credentials and password logins are not supported.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use rustls::{ClientConfig, RootCertStore};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use serde::Deserialize;

/// One API server and the identity to use on it.
#[derive(Debug, Clone)]
pub struct Kubeconfig {
    pub host: String,
    pub port: u16,
    pub token: Option<String>,
    pub(crate) tls: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl Kubeconfig {
    pub fn read(path: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let folder = path.parent().unwrap_or(Path::new("."));
        Self::parse(&text, folder).with_context(|| format!("in {}", path.display()))
    }

    /// Files that the text names are looked for in `folder`.
    pub fn parse(text: &str, folder: &Path) -> Result<Self> {
        let file: File = serde_saphyr::from_str(text)?;
        let context = find(&file.contexts, &file.current_context)?;
        let cluster = find(&file.clusters, &context.cluster)?;
        let user = find(&file.users, &context.user)?;

        let address = cluster.server.strip_prefix("https://").context("the server's address is not https")?;
        let authority: http::uri::Authority = address.trim_end_matches('/').parse()?;
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        let name = ServerName::try_from(cluster.tls_server_name.clone().unwrap_or_else(|| host.clone()))?;
        let ca = material(&cluster.ca_data, &cluster.ca_file, folder)?.context("no certificate authority")?;
        let certificate = material(&user.certificate_data, &user.certificate_file, folder)?;
        let key = material(&user.key_data, &user.key_file, folder)?;
        let tls = Arc::new(tls(&ca, certificate.as_deref().zip(key.as_deref()))?);
        Ok(Self { host, port: authority.port_u16().unwrap_or(443), token: user.token.clone(), tls, name })
    }

    pub fn address(&self) -> String {
        format!("https://{}:{}", self.host, self.port)
    }
}

fn tls(ca: &[u8], identity: Option<(&[u8], &[u8])>) -> Result<ClientConfig> {
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(ca) {
        roots.add(certificate?)?;
    }
    ensure!(!roots.is_empty(), "the certificate authority holds no certificate");
    let builder = ClientConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
        .with_safe_default_protocol_versions()?
        .with_root_certificates(roots);
    Ok(match identity {
        None => builder.with_no_client_auth(),
        Some((certificate, key)) => {
            let chain = CertificateDer::pem_slice_iter(certificate).collect::<Result<Vec<_>, _>>()?;
            builder.with_client_auth_cert(chain, PrivateKeyDer::from_pem_slice(key)?)?
        }
    })
}

/// PEM text given inline in base64, or in a file.
fn material(inline: &Option<String>, file: &Option<PathBuf>, folder: &Path) -> Result<Option<Vec<u8>>> {
    match (inline, file) {
        (Some(text), _) => Ok(Some(BASE64_STANDARD.decode(text.trim())?)),
        (None, Some(path)) => {
            let path = folder.join(path);
            Ok(Some(std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?))
        }
        (None, None) => Ok(None),
    }
}

fn find<'a, T>(entries: &'a [Entry<T>], name: &str) -> Result<&'a T> {
    let entry = entries.iter().find(|entry| entry.name == name);
    Ok(&entry.with_context(|| format!("nothing is named {name:?}"))?.value)
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct File {
    current_context: String,
    clusters: Vec<Entry<Cluster>>,
    contexts: Vec<Entry<Choice>>,
    users: Vec<Entry<User>>,
}

#[derive(Debug, Deserialize)]
struct Entry<T> {
    name: String,
    #[serde(alias = "cluster", alias = "context", alias = "user")]
    value: T,
}

/// What kubeconfig calls a context.
#[derive(Debug, Deserialize)]
struct Choice {
    cluster: String,
    user: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Cluster {
    server: String,
    tls_server_name: Option<String>,
    #[serde(rename = "certificate-authority-data")]
    ca_data: Option<String>,
    #[serde(rename = "certificate-authority")]
    ca_file: Option<PathBuf>,
}

#[derive(Debug, Deserialize)]
struct User {
    token: Option<String>,
    #[serde(rename = "client-certificate-data")]
    certificate_data: Option<String>,
    #[serde(rename = "client-certificate")]
    certificate_file: Option<PathBuf>,
    #[serde(rename = "client-key-data")]
    key_data: Option<String>,
    #[serde(rename = "client-key")]
    key_file: Option<PathBuf>,
}
