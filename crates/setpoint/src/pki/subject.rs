//! A certificate's subject with any number of organizations: rcgen keeps one value of each sort, so the subject is put in
//! afterwards and the certificate signed again.

use anyhow::{Context as _, Result};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::SigningKey;
use yasna::models::ObjectIdentifier;

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];
/// Where the subject stands among the fields that are signed.
const SUBJECT: usize = 5;

/// Makes a certificate that differs from a template in its subject alone; in PEM.
pub(super) fn replace(template: &[u8], user: &str, groups: &[String], signer: &impl SigningKey) -> Result<String> {
    let (mut fields, algorithm) = yasna::parse_der(template, |reader| {
        reader.read_sequence(|certificate| {
            let fields = certificate.next().collect_sequence_of(|field| field.read_der())?;
            let algorithm = certificate.next().read_der()?;
            certificate.next().read_der()?;
            Ok((fields, algorithm))
        })
    })?;
    *fields.get_mut(SUBJECT).context("a certificate without a subject")? = subject(user, groups);
    let signed = yasna::construct_der(|writer| {
        writer.write_sequence(|tbs| fields.iter().for_each(|field| tbs.next().write_der(field)));
    });
    let signature = signer.sign(&signed)?;
    let certificate = yasna::construct_der(|writer| {
        writer.write_sequence(|certificate| {
            certificate.next().write_der(&signed);
            certificate.next().write_der(&algorithm);
            certificate.next().write_bitvec_bytes(&signature, signature.len() * 8);
        });
    });
    Ok(pem(&certificate))
}

fn subject(user: &str, groups: &[String]) -> Vec<u8> {
    let groups = groups.iter().map(|group| (ORGANIZATION, group.as_str()));
    let attributes: Vec<(&[u64], &str)> = groups.chain([(COMMON_NAME, user)]).collect();
    yasna::construct_der(|writer| {
        writer.write_sequence(|name| {
            for (kind, value) in attributes {
                name.next().write_set(|set| {
                    set.next().write_sequence(|attribute| {
                        attribute.next().write_oid(&ObjectIdentifier::from_slice(kind));
                        attribute.next().write_utf8_string(value);
                    });
                });
            }
        });
    })
}

fn pem(der: &[u8]) -> String {
    let encoded = STANDARD.encode(der);
    let lines: Vec<&str> =
        (0..encoded.len()).step_by(64).map(|start| &encoded[start..encoded.len().min(start + 64)]).collect();
    format!("-----BEGIN CERTIFICATE-----\n{}\n-----END CERTIFICATE-----\n", lines.join("\n"))
}
