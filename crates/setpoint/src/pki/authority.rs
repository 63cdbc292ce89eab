//! The server's own certificate authority, made on first start, and the certificates it signs.

use std::net::IpAddr;
use std::sync::Arc;

use anyhow::{Context as _, Result, bail};
use jiff::{SignedDuration, Timestamp};
use rand::RngCore as _;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, KeyUsagePurpose,
    SanType, SerialNumber,
};
use rustls::RootCertStore;
use rustls::crypto::CryptoProvider;
use rustls::sign::CertifiedKey;
use rustls_pki_types::pem::PemObject as _;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use setpoint_apiserver::authentication::{Serial, not_after};
use time::OffsetDateTime;

use super::subject;
use crate::data_dir::DataDir;

pub(crate) const CA_CERTIFICATE: &str = "ca.crt";
const CA_KEY: &str = "ca.key";

/// How long the authority is trusted.
const LIFE: SignedDuration = SignedDuration::from_hours(10 * 365 * 24);
/// How long before its end the authority asks to be replaced.
const NOTICE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How long ago certificates say that they became valid: a clock may be behind, or be set back.
pub(super) const BACKDATED: SignedDuration = SignedDuration::from_mins(10);

/// The certificate authority of one data folder.
#[derive(Debug)]
pub(crate) struct Authority {
    certificate_pem: String,
    certificate: CertificateDer<'static>,
    ends: Timestamp,
    issuer: Issuer<'static, KeyPair>,
}

/// A certificate and its key for a person, in PEM. Whoever has it is that person.
pub(crate) struct ClientIdentity {
    pub(crate) certificate_pem: String,
    pub(crate) key_pem: String,
    pub(crate) serial: Serial,
    pub(crate) not_after: Timestamp,
}

impl Authority {
    /// Loads the authority, or makes it if the folder has none.
    pub(crate) fn open(data: &DataDir, now: Timestamp) -> Result<Authority> {
        match Authority::load(data)? {
            Some(authority) => Ok(authority),
            // A key without a certificate is what a crash in between leaves; nobody has seen it.
            None => make(data, now),
        }
    }

    /// Loads the authority that the folder has.
    pub(crate) fn load(data: &DataDir) -> Result<Option<Authority>> {
        match (data.read(CA_CERTIFICATE)?, data.read_secret(CA_KEY)?) {
            (Some(certificate_pem), Some(key_pem)) => Authority::parse(certificate_pem, &key_pem).map(Some),
            (Some(_), None) => bail!(
                "the data folder has {CA_CERTIFICATE} but not its key {CA_KEY}; restore the key, or remove {CA_CERTIFICATE} \
                 to make a new authority, which every client then has to be given"
            ),
            (None, _) => Ok(None),
        }
    }

    fn parse(certificate_pem: String, key_pem: &str) -> Result<Authority> {
        let key = KeyPair::from_pem(key_pem).with_context(|| format!("{CA_KEY} in the data folder is damaged"))?;
        let damaged = || format!("{CA_CERTIFICATE} in the data folder is damaged");
        let certificate = CertificateDer::from_pem_slice(certificate_pem.as_bytes()).with_context(damaged)?;
        let ends = not_after(&certificate).with_context(damaged)?;
        if !is_pair(&certificate, &key)? {
            bail!(
                "{CA_KEY} in the data folder is not the key of {CA_CERTIFICATE}; restore both from the same backup, or \
                 remove both to make a new authority, which every client then has to be given"
            );
        }
        Ok(Authority { certificate_pem, certificate, ends, issuer: Issuer::new(parameters()?, key) })
    }

    pub(crate) fn certificate_pem(&self) -> &str {
        &self.certificate_pem
    }

    /// What clients' certificates are verified against.
    pub(super) fn roots(&self) -> Result<RootCertStore> {
        let mut roots = RootCertStore::empty();
        roots.add(self.certificate.clone())?;
        Ok(roots)
    }

    /// What to tell the operator when the authority is near its end.
    pub(super) fn notice(&self, now: Timestamp) -> Option<String> {
        let end = self.ends.strftime("%F");
        match self.ends.duration_since(now) {
            left if left > NOTICE => None,
            left if left.is_positive() => {
                Some(format!("the certificate authority ends on {end}; docs/users.md says how to replace it"))
            }
            _ => Some(format!(
                "the certificate authority ended on {end}, and clients refuse it; docs/users.md says how to replace it"
            )),
        }
    }

    /// A key and certificate for a server reached under loopback names and `address`, and the end of its term.
    pub(super) fn issue_server(
        &self,
        address: IpAddr,
        life: SignedDuration,
        now: Timestamp,
        provider: &CryptoProvider,
    ) -> Result<(Arc<CertifiedKey>, Timestamp)> {
        let mut params = CertificateParams::new(["localhost".to_owned(), "kubernetes.default.svc".to_owned()])?;
        params.distinguished_name.push(DnType::CommonName, "setpoint");
        let loopback = [IpAddr::from([127, 0, 0, 1]), IpAddr::from(std::net::Ipv6Addr::LOCALHOST)];
        params.subject_alt_names.extend(loopback.map(SanType::IpAddress));
        if !address.is_unspecified() && !loopback.contains(&address) {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        let end = self.limit(&mut params, life, now)?;
        let key = KeyPair::generate()?;
        let chain = vec![params.signed_by(&key, &self.issuer)?.der().clone(), self.certificate.clone()];
        let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        Ok((Arc::new(CertifiedKey::from_der(chain, key, provider)?), end))
    }

    /// A key and certificate that make whoever has them this user in these groups.
    pub(crate) fn issue_client(
        &self,
        user: &str,
        groups: &[String],
        life: SignedDuration,
        now: Timestamp,
    ) -> Result<ClientIdentity> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
        let not_after = self.limit(&mut params, life, now)?;
        let serial = params.serial_number.as_ref().map(|serial| Serial::from_bytes(serial.as_ref()));
        let key = KeyPair::generate()?;
        let template = params.signed_by(&key, &self.issuer)?;
        Ok(ClientIdentity {
            certificate_pem: subject::replace(template.der(), user, groups, self.issuer.key())?,
            key_pem: key.serialize_pem(),
            serial: serial.context("a certificate without a serial")?,
            not_after,
        })
    }

    /// Gives a certificate what all that are issued have: a number of its own, and a term within that of the authority.
    fn limit(&self, params: &mut CertificateParams, life: SignedDuration, now: Timestamp) -> Result<Timestamp> {
        let end = now.checked_add(life).unwrap_or(Timestamp::MAX).min(self.ends);
        params.not_before = seconds(now - BACKDATED)?;
        params.not_after = seconds(end)?;
        params.serial_number = Some(serial());
        params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
        // Certificates count whole seconds.
        Ok(Timestamp::from_second(end.as_second())?)
    }
}

fn make(data: &DataDir, now: Timestamp) -> Result<Authority> {
    let key = KeyPair::generate()?;
    let mut params = parameters()?;
    (params.not_before, params.not_after) = (seconds(now - BACKDATED)?, seconds(now + LIFE)?);
    let (certificate_pem, key_pem) = (params.self_signed(&key)?.pem(), key.serialize_pem());
    data.write(CA_KEY, &key_pem)?;
    data.write(CA_CERTIFICATE, &certificate_pem)?;
    Authority::parse(certificate_pem, &key_pem)
}

/// Whether a certificate is of this key.
fn is_pair(certificate: &CertificateDer<'static>, key: &KeyPair) -> Result<bool> {
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
    let provider = rustls::crypto::ring::default_provider();
    match CertifiedKey::from_der(vec![certificate.clone()], key, &provider) {
        Ok(_) => Ok(true),
        Err(rustls::Error::InconsistentKeys(_)) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// What the authority's certificate says, but for its term. Those it signs name it by this, so it must not change.
fn parameters() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "setpoint-ca");
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    Ok(params)
}

/// A number that no other certificate has.
fn serial() -> SerialNumber {
    let mut bytes = [0u8; 16];
    rand::rng().fill_bytes(&mut bytes);
    // Positive, and of one length, whatever was drawn.
    bytes[0] = bytes[0] & 0x7f | 0x40;
    SerialNumber::from_slice(&bytes)
}

fn seconds(time: Timestamp) -> Result<OffsetDateTime> {
    Ok(OffsetDateTime::from_unix_timestamp(time.as_second())?)
}

#[cfg(test)]
mod tests {
    use setpoint_apiserver::authentication::ClientCertificate;

    use super::*;

    fn time(text: &str) -> Timestamp {
        text.parse().expect("a time")
    }

    fn open(folder: &tempfile::TempDir, now: Timestamp) -> Authority {
        let data = DataDir::open(&folder.path().join("data")).expect("nobody uses it");
        Authority::open(&data, now).expect("it is made or loaded")
    }

    #[test]
    fn a_certificate_names_its_holder_and_ends() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let now = time("2026-01-01T00:00:00.5Z");
        let authority = open(&folder, now);
        let groups = ["dev".to_owned(), "ops".to_owned()];
        let day = SignedDuration::from_hours(24);
        let issued = authority.issue_client("jane", &groups, day, now).expect("it is issued");
        assert_eq!(issued.not_after, time("2026-01-02T00:00:00Z"));
        let der = CertificateDer::from_pem_slice(issued.certificate_pem.as_bytes()).expect("PEM");
        let read = ClientCertificate::read(&der).expect("it names somebody");
        assert_eq!(read.identity.user, "jane");
        assert_eq!(read.identity.groups, ["dev", "ops", "system:authenticated"]);
        assert_eq!((read.serial, read.not_after), (issued.serial, issued.not_after));
    }

    #[test]
    fn nothing_outlives_the_authority() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let authority = open(&folder, time("2026-01-01T00:00:00Z"));
        let long = SignedDuration::from_hours(100 * 365 * 24);
        for life in [long, SignedDuration::MAX] {
            let issued = authority.issue_client("jane", &[], life, time("2035-01-01T00:00:00Z")).expect("it is issued");
            assert_eq!(issued.not_after, authority.ends);
        }
    }

    #[test]
    fn an_authority_stays_the_same_and_a_crash_in_between_does_no_harm() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let now = time("2026-01-01T00:00:00Z");
        let first = open(&folder, now);
        assert_eq!(first.ends, now + LIFE);
        assert_eq!(open(&folder, now + NOTICE).certificate_pem, first.certificate_pem);
        // The key is written first; the certificate is what the crash prevented.
        std::fs::remove_file(folder.path().join("data").join(CA_CERTIFICATE)).expect("it is there");
        assert_ne!(open(&folder, now).certificate_pem, first.certificate_pem);
    }

    #[test]
    fn a_mix_of_two_authorities_is_refused() {
        let now = time("2026-01-01T00:00:00Z");
        let folders = [(); 2].map(|()| tempfile::tempdir().expect("a temporary folder"));
        let [one, other] = [0, 1].map(|index| {
            let data = DataDir::open(folders[index].path()).expect("nobody uses it");
            Authority::open(&data, now).expect("it is made");
            data
        });
        let key = other.read_secret(CA_KEY).expect("readable").expect("it was made");
        one.write(CA_KEY, &key).expect("the folder is writable");
        let error = Authority::open(&one, now).expect_err("clients would be given what nobody trusts").to_string();
        assert!(error.contains("ca.key") && error.contains("ca.crt; restore both from the same backup"), "{error}");
        Authority::open(&other, now).expect("that one is whole");
    }

    #[test]
    fn an_authority_near_its_end_says_so() {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let now = time("2026-01-01T00:00:00Z");
        let authority = open(&folder, now);
        let rows = [
            ("new", now, None),
            ("91 days before", authority.ends - NOTICE - SignedDuration::from_hours(24), None),
            ("at the time of notice", authority.ends - NOTICE, Some("ends on 2035-12-30")),
            ("at its end", authority.ends, Some("ended on 2035-12-30, and clients refuse it")),
        ];
        for (row, now, expected) in rows {
            match (authority.notice(now), expected) {
                (None, None) => {}
                (Some(notice), Some(expected)) => assert!(notice.contains(expected), "{row}: {notice}"),
                (notice, _) => panic!("{row}: {notice:?}"),
            }
        }
    }
}
