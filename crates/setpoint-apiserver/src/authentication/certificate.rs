//! What a certificate says, once TLS has verified it.
//!
//! Only certificates that our own authority signed come here, so their form is sound; one that is not read all the same
//! names nobody.

use std::sync::Arc;

use jiff::Timestamp;
use sha2::{Digest, Sha256};
use yasna::models::ObjectIdentifier;
use yasna::tags::{TAG_GENERALIZEDTIME, TAG_PRINTABLESTRING, TAG_UTF8STRING};
use yasna::{ASN1Result, BERReader, BERReaderSeq, Tag};

use super::{Identity, Serial};

const COMMON_NAME: &[u64] = &[2, 5, 4, 3];
const ORGANIZATION: &[u64] = &[2, 5, 4, 10];

/// The certificate that the client of a connection has proved to own. The transport puts it into the extensions of
/// each request.
#[derive(Debug, Clone)]
pub struct ClientCertificate {
    /// The common name is the user, each organization a group.
    pub identity: Arc<Identity>,
    pub serial: Serial,
    pub not_after: Timestamp,
}

impl ClientCertificate {
    /// Reads a certificate in DER; `None` if it names nobody.
    pub fn read(der: &[u8]) -> Option<ClientCertificate> {
        let content = Content::read(der)?;
        let user = content.common_name.filter(|name| !name.is_empty())?;
        let mut identity = Identity::new(user, content.organizations);
        let digest: String = Sha256::digest(der).iter().map(|byte| format!("{byte:02x}")).collect();
        let credential = vec![format!("X509SHA256={digest}")];
        identity.extra.insert("authentication.kubernetes.io/credential-id".to_owned(), credential);
        Some(ClientCertificate {
            identity: Arc::new(identity.proved()),
            serial: content.serial,
            not_after: content.not_after,
        })
    }
}

/// The end of a certificate's term; `None` if it is not read.
pub fn not_after(der: &[u8]) -> Option<Timestamp> {
    Some(Content::read(der)?.not_after)
}

/// The part of a certificate that this server goes by.
struct Content {
    serial: Serial,
    not_after: Timestamp,
    common_name: Option<String>,
    organizations: Vec<String>,
}

impl Content {
    fn read(der: &[u8]) -> Option<Content> {
        let (serial, not_after, attributes) = yasna::parse_der(der, |reader| {
            reader.read_sequence(|certificate| {
                let content = certificate.next().read_sequence(to_be_signed)?;
                skip(certificate, 2)?; // how it is signed, and the signature
                Ok(content)
            })
        })
        .ok()?;
        let named = |kind: &[u64]| {
            let kind = ObjectIdentifier::from_slice(kind);
            attributes.iter().filter(move |(name, _)| *name == kind).filter_map(|(_, value)| value.clone())
        };
        Some(Content {
            serial,
            not_after: Timestamp::from_second(not_after).ok()?,
            // As elsewhere, the last of several counts.
            common_name: named(COMMON_NAME).next_back(),
            organizations: named(ORGANIZATION).collect(),
        })
    }
}

/// A name's parts: what each is, and its text where it is one.
type Attributes = Vec<(ObjectIdentifier, Option<String>)>;

fn to_be_signed(reader: &mut BERReaderSeq<'_, '_>) -> ASN1Result<(Serial, i64, Attributes)> {
    reader.next().read_tagged(Tag::context(0), |version| version.read_u8())?;
    let (serial, _) = reader.next().read_bigint_bytes()?;
    skip(reader, 2)?; // how it is signed, and by whom
    let not_after = reader.next().read_sequence(|validity| {
        time(validity.next())?;
        time(validity.next())
    })?;
    let mut subject = Attributes::new();
    reader.next().read_sequence_of(|names| {
        names.read_set_of(|attribute| {
            subject.push(attribute.read_sequence(|pair| Ok((pair.next().read_oid()?, text(pair.next())?)))?);
            Ok(())
        })
    })?;
    skip(reader, 1)?; // its key
    // Extensions were TLS's to judge.
    while reader.read_optional(|rest| rest.read_der())?.is_some() {}
    Ok((Serial::from_bytes(&serial), not_after, subject))
}

fn skip(reader: &mut BERReaderSeq<'_, '_>, fields: usize) -> ASN1Result<()> {
    (0..fields).try_for_each(|_| reader.next().read_der().map(drop))
}

fn time(reader: BERReader<'_, '_>) -> ASN1Result<i64> {
    if reader.lookahead_tag()? == TAG_GENERALIZEDTIME {
        return Ok(reader.read_generalized_time()?.datetime().unix_timestamp());
    }
    Ok(reader.read_utctime()?.datetime().unix_timestamp())
}

fn text(reader: BERReader<'_, '_>) -> ASN1Result<Option<String>> {
    match reader.lookahead_tag()? {
        TAG_UTF8STRING => reader.read_utf8string().map(Some),
        TAG_PRINTABLESTRING => reader.read_printable_string().map(Some),
        _ => reader.read_der().map(|_| None),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DistinguishedName, DnType, DnValue, KeyPair, SerialNumber, date_time_ymd};

    use super::*;

    fn certificate(names: &[(DnType, DnValue)], end_year: i32) -> Vec<u8> {
        let mut params = CertificateParams::new(["a.example".to_owned()]).expect("a name");
        params.distinguished_name = DistinguishedName::new();
        for (kind, name) in names {
            params.distinguished_name.push(kind.clone(), name.clone());
        }
        params.serial_number = Some(SerialNumber::from_slice(&[0x00, 0x8f, 0x01]));
        params.not_after = date_time_ymd(end_year, 1, 2);
        let key = KeyPair::generate().expect("a key");
        params.self_signed(&key).expect("a certificate").der().to_vec()
    }

    #[test]
    fn a_name_and_an_organization_are_a_user_and_a_group() {
        let utf8 = |text: &str| DnValue::Utf8String(text.to_owned());
        let printable = DnValue::PrintableString("plain".try_into().expect("printable"));
        type Names = Vec<(DnType, DnValue)>;
        type Named<'a> = Option<(&'a str, &'a [&'a str])>;
        let rows: [(&str, Names, Named<'_>); 6] = [
            (
                "both",
                vec![(DnType::CommonName, utf8("jane")), (DnType::OrganizationName, utf8("dev"))],
                Some(("jane", &["dev", "system:authenticated"])),
            ),
            (
                "a user in no group",
                vec![(DnType::CommonName, utf8("j\u{e4}ne"))],
                Some(("j\u{e4}ne", &["system:authenticated"])),
            ),
            ("another kind of text", vec![(DnType::CommonName, printable)], Some(("plain", &["system:authenticated"]))),
            ("an empty name", vec![(DnType::CommonName, utf8(""))], None),
            ("no name", vec![(DnType::OrganizationName, utf8("system:masters"))], None),
            ("nothing", vec![], None),
        ];
        for (row, names, expected) in rows {
            let read = ClientCertificate::read(&certificate(&names, 2040));
            let found = read.as_ref().map(|certificate| {
                let groups: Vec<&str> = certificate.identity.groups.iter().map(String::as_str).collect();
                (certificate.identity.user.as_str(), groups)
            });
            let expected = expected.map(|(user, groups)| (user, groups.to_vec()));
            assert_eq!(found, expected, "{row}");
        }
    }

    #[test]
    fn the_end_and_the_serial_are_read() {
        let names = [(DnType::CommonName, DnValue::Utf8String("jane".to_owned()))];
        for (year, end) in [(2040, "2040-01-02T00:00:00Z"), (4096, "4096-01-02T00:00:00Z")] {
            let certificate = ClientCertificate::read(&certificate(&names, year)).expect("it names somebody");
            assert_eq!(certificate.not_after.to_string(), end);
            assert_eq!(certificate.serial.to_string(), "8f01");
        }
    }

    #[test]
    fn a_damaged_certificate_names_nobody() {
        let names = [(DnType::CommonName, DnValue::Utf8String("jane".to_owned()))];
        let whole = certificate(&names, 2040);
        for length in 0..whole.len() {
            assert!(ClientCertificate::read(&whole[..length]).is_none(), "cut off after {length} bytes");
        }
        for position in 0..whole.len() {
            let mut damaged = whole.clone();
            damaged[position] ^= 0xff;
            // It may still be a certificate; it must not be a panic.
            let _ = ClientCertificate::read(&damaged);
        }
    }
}
