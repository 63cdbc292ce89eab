//! Certificates that `setpoint user` would never issue, made with the key in the data folder or with another.

use std::fs;

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use rcgen::{
    CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair, date_time_ymd,
};
use serde_json::{Value, json};
use setpoint_testkit::Server;

/// Changes what a sound certificate of the user jane would say.
pub(super) type Change = fn(&mut CertificateParams);

/// A kubeconfig with a certificate from the server's own authority.
pub(super) fn issued(server: &Server, change: Change) -> Result<String> {
    let key = KeyPair::from_pem(&fs::read_to_string(server.data_dir().join("ca.key"))?)?;
    signed_by(server, authority()?, key, change)
}

/// A kubeconfig with a certificate from another authority of the same name.
pub(super) fn forged(server: &Server) -> Result<String> {
    signed_by(server, authority()?, KeyPair::generate()?, |_| ())
}

/// A kubeconfig with a certificate that nobody but its owner signed.
pub(super) fn self_signed(server: &Server) -> Result<String> {
    let key = KeyPair::generate()?;
    kubeconfig(server, &parameters(|_| ())?.self_signed(&key)?.pem(), &key)
}

fn signed_by(server: &Server, authority: CertificateParams, authority_key: KeyPair, change: Change) -> Result<String> {
    let key = KeyPair::generate()?;
    let certificate = parameters(change)?.signed_by(&key, &Issuer::new(authority, authority_key))?;
    kubeconfig(server, &certificate.pem(), &key)
}

fn parameters(change: Change) -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, "jane");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    (params.not_before, params.not_after) = (date_time_ymd(2020, 1, 1), date_time_ymd(2100, 1, 1));
    params.is_ca = IsCa::NoCa;
    change(&mut params);
    Ok(params)
}

fn authority() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::<String>::new())?;
    params.distinguished_name.push(DnType::CommonName, "setpoint-ca");
    Ok(params)
}

/// The administrator's kubeconfig with this certificate instead of the token.
fn kubeconfig(server: &Server, certificate_pem: &str, key: &KeyPair) -> Result<String> {
    let mut config: Value = serde_json::from_str(&fs::read_to_string(server.kubeconfig_path())?)?;
    *config.pointer_mut("/users/0/user").context("a user")? = json!({
        "client-certificate-data": STANDARD.encode(certificate_pem),
        "client-key-data": STANDARD.encode(key.serialize_pem()),
    });
    Ok(config.to_string())
}
