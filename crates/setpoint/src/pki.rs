//! The server's own certificate authority, made on first start, and the certificate it serves with.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType,
};
use rustls::ServerConfig;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};

use crate::data_dir::DataDir;

const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

/// The certificate authority of one data folder.
#[derive(Debug)]
pub(crate) struct Authority {
    certificate_pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    /// Loads the authority, or makes it if the folder has none.
    pub(crate) fn open(data: &DataDir) -> Result<Authority> {
        let (certificate_pem, key_pem) = match (data.read(CA_CERTIFICATE)?, data.read(CA_KEY)?) {
            (Some(certificate), Some(key)) => (certificate, key),
            (Some(_), None) => bail!(
                "the data folder has {CA_CERTIFICATE} but not its key {CA_KEY}; restore the key, or remove {CA_CERTIFICATE} \
                 to make a new authority, which every client then has to be given"
            ),
            // A key without a certificate is what a crash in between leaves; nobody has seen it.
            (None, _) => make(data)?,
        };
        let key = KeyPair::from_pem(&key_pem).with_context(|| format!("{CA_KEY} in the data folder is damaged"))?;
        CertificateDer::from_pem_slice(certificate_pem.as_bytes())
            .with_context(|| format!("{CA_CERTIFICATE} in the data folder is damaged"))?;
        Ok(Authority { certificate_pem, issuer: Issuer::new(parameters()?, key) })
    }

    pub(crate) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// The TLS side of a server reached under loopback names and `address`. Its certificate is made at every start, so
    /// it never outlives its names or its term.
    pub(crate) fn server_config(&self, address: IpAddr) -> Result<Arc<ServerConfig>> {
        let key = KeyPair::generate()?;
        let mut params = CertificateParams::new(["localhost".to_owned(), "kubernetes.default.svc".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "setpoint");
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
        params.subject_alt_names.extend(loopback.map(SanType::IpAddress));
        if !address.is_unspecified() && !loopback.contains(&address) {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let certificate = params.signed_by(&key, &self.issuer)?;
        let chain = vec![
            certificate.der().clone(),
            CertificateDer::from_pem_slice(self.certificate_pem.as_bytes()).context("the authority's certificate")?,
        ];
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let mut config = ServerConfig::builder_with_provider(Arc::new(rustls::crypto::ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(chain, key)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }
}

fn make(data: &DataDir) -> Result<(String, String)> {
    let key = KeyPair::generate()?;
    let certificate = parameters()?.self_signed(&key)?;
    let (certificate_pem, key_pem) = (certificate.pem(), key.serialize_pem());
    data.write(CA_KEY, &key_pem)?;
    data.write(CA_CERTIFICATE, &certificate_pem)?;
    Ok((certificate_pem, key_pem))
}

/// What the authority's certificate says. Those it signs name it by this, so it must not change.
fn parameters() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "setpoint-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}
