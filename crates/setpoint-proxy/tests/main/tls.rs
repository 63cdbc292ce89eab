//! TLS on both sides of the proxy.

use std::sync::Arc;

use anyhow::{Context, Result, ensure};
use rcgen::{CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::ServerConfig;
use rustls::pki_types::PrivateKeyDer;
use setpoint_proxy::Proxy;
use setpoint_proxy::table::{Certificate, Serves, Table, TableSpec, UpstreamTls};
use tokio_rustls::TlsAcceptor;

use crate::fixture::{Backend, address, curl, listener, simple, start};

struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    folder: tempfile::TempDir,
}

impl Authority {
    fn new() -> Result<Self> {
        let mut params = CertificateParams::new(Vec::<String>::new())?;
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        // OpenSSL takes a certificate whose subject is its issuer's for self-signed.
        params.distinguished_name.push(rcgen::DnType::CommonName, "authority");
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let folder = tempfile::tempdir()?;
        std::fs::write(folder.path().join("ca.pem"), issuer.pem())?;
        Ok(Self { issuer, folder })
    }

    fn issue(&self, host: &str) -> Result<Certificate> {
        let key = KeyPair::generate()?;
        let signed = CertificateParams::new(vec![host.to_owned()])?.signed_by(&key, &self.issuer)?;
        Ok(Certificate { hosts: vec![host.to_owned()], chain_pem: signed.pem(), key_pem: key.serialize_pem() })
    }

    fn ca_file(&self) -> Result<String> {
        Ok(self.folder.path().join("ca.pem").to_str().context("a path")?.to_owned())
    }

    fn acceptor(&self, host: &str) -> Result<TlsAcceptor> {
        let key = KeyPair::generate()?;
        let signed = CertificateParams::new(vec![host.to_owned()])?.signed_by(&key, &self.issuer)?;
        let private = PrivateKeyDer::try_from(key.serialize_der()).map_err(anyhow::Error::msg)?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![signed.der().clone()], private)?;
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(TlsAcceptor::from(Arc::new(config)))
    }
}

fn https(backends: &[&Backend], certificates: Vec<(&str, Certificate)>) -> TableSpec {
    let mut spec = simple(backends);
    let names = certificates.iter().map(|(name, _)| (*name).to_owned()).collect();
    spec.listeners = vec![listener("web", Serves::Https { routes: "main".to_owned(), certificates: names })];
    spec.certificates = certificates.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
    spec
}

fn get(proxy: &Proxy, authority: &Authority, host: &str, more: &[&str]) -> Result<String> {
    let port = address(proxy)?.port();
    let resolve = format!("{host}:{port}:127.0.0.1");
    let (ca, url) = (authority.ca_file()?, format!("https://{host}:{port}/head"));
    curl(&[&["--cacert", &ca, "--resolve", &resolve], more, &[url.as_str()]].concat())
}

#[test]
fn certificates_are_chosen_by_server_name_and_swapped_while_serving() -> Result<()> {
    let backend = Backend::start("web")?;
    let authority = Authority::new()?;
    let certificates =
        |extra: &str| -> Result<_> { Ok(vec![("a", authority.issue("a.test")?), ("b", authority.issue(extra)?)]) };
    let mut spec = https(&[&backend], certificates("*.b.test")?);
    let proxy = start(spec.clone())?;
    ensure!(get(&proxy, &authority, "a.test", &[])?.contains("x-forwarded-proto: https"));
    ensure!(get(&proxy, &authority, "x.b.test", &["--http1.1"])?.contains("x-forwarded-proto: https"));
    ensure!(get(&proxy, &authority, "c.test", &[]).is_err(), "the first certificate is not for it");
    spec.version = 2;
    spec.certificates = certificates("c.test")?.into_iter().map(|(name, it)| (name.to_owned(), it)).collect();
    proxy.apply(Table::compile(spec)?);
    ensure!(get(&proxy, &authority, "c.test", &[]).is_ok());
    ensure!(get(&proxy, &authority, "x.b.test", &[]).is_err());
    Ok(())
}

#[test]
fn versions_and_protocols_are_agreed_on() -> Result<()> {
    let backend = Backend::start("web")?;
    let authority = Authority::new()?;
    let proxy = start(https(&[&backend], vec![("a", authority.issue("a.test")?)]))?;
    let rows: [(&str, &[&str], &str); 4] = [
        ("HTTP/2 by ALPN", &["--http2"], "2"),
        ("HTTP/1.1", &["--http1.1"], "1.1"),
        ("TLS 1.2", &["--tls-max", "1.2"], "2"),
        ("TLS 1.3", &["--tlsv1.3"], "2"),
    ];
    for (what, arguments, version) in rows {
        let told =
            get(&proxy, &authority, "a.test", &[arguments, &["-o", "/dev/null", "-w", "%{http_version}"]].concat())?;
        ensure!(told == version, "{what}: HTTP/{told}");
    }
    ensure!(get(&proxy, &authority, "a.test", &["--tls-max", "1.1"]).is_err(), "TLS 1.1 is not spoken");
    Ok(())
}

#[test]
fn a_bad_certificate_is_told_and_takes_no_other_host_down() -> Result<()> {
    let backend = Backend::start("web")?;
    let authority = Authority::new()?;
    let mut wrong = authority.issue("b.test")?;
    wrong.key_pem = "no key".to_owned();
    let spec = https(&[&backend], vec![("b", wrong), ("a", authority.issue("a.test")?)]);
    let (proxy, applied) = Proxy::start(Table::compile(spec)?, crate::fixture::limits(), None, vec![])?;
    ensure!(applied.faults["web"].contains("certificate b: its key is not a private key"), "{applied:?}");
    ensure!(get(&proxy, &authority, "a.test", &[]).is_ok());
    Ok(())
}

#[test]
fn backends_have_to_show_who_they_are() -> Result<()> {
    let (authority, stranger) = (Authority::new()?, Authority::new()?);
    let backend = Backend::start_with("web", Some(authority.acceptor("inner.test")?))?;
    let mut spec = simple(&[&backend]);
    let tls = |name: &str, authority: &Authority| UpstreamTls {
        server_name: name.to_owned(),
        ca_pem: authority.issuer.pem(),
    };
    let mut group = spec.groups["web"].clone();
    group.tls = Some(tls("inner.test", &authority));
    spec.groups.insert("web".to_owned(), group.clone());
    let proxy = start(spec.clone())?;
    let url = format!("http://{}/", address(&proxy)?);
    ensure!(curl(&[&url])? == "web");
    let rows = [
        ("HTTP/2 to it", tls("inner.test", &authority), true, 200),
        ("another name", tls("other.test", &authority), false, 502),
        ("another authority", tls("inner.test", &stranger), false, 502),
    ];
    for (version, (what, tls, is_http2, status)) in (2..).zip(rows) {
        spec.version = version;
        group.tls = Some(tls);
        group.protocol = if is_http2 { setpoint_proxy::table::Protocol::Http2 } else { Default::default() };
        spec.groups.insert("web".to_owned(), group.clone());
        proxy.apply(Table::compile(spec.clone())?);
        let told = curl(&["-o", "/dev/null", "-w", "%{http_code}", &url])?;
        ensure!(told == status.to_string(), "{what}: {told}");
    }
    Ok(())
}

#[test]
fn sessions_are_resumed() -> Result<()> {
    use std::io::{Read, Write};
    let backend = Backend::start("web")?;
    let authority = Authority::new()?;
    let proxy = start(https(&[&backend], vec![("a", authority.issue("a.test")?)]))?;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(authority.issuer.der().clone())?;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = rustls::ClientConfig::builder_with_provider(provider)
            .with_protocol_versions(&[version])?
            .with_root_certificates(roots.clone())
            .with_no_client_auth();
        let config = Arc::new(config);
        let mut kinds = Vec::new();
        for _ in 0..2 {
            let mut session = rustls::ClientConnection::new(Arc::clone(&config), "a.test".try_into()?)?;
            let mut socket = std::net::TcpStream::connect(address(&proxy)?)?;
            let mut stream = rustls::Stream::new(&mut session, &mut socket);
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a.test\r\nConnection: close\r\n\r\n")?;
            let mut answer = String::new();
            stream.read_to_string(&mut answer)?;
            ensure!(answer.starts_with("HTTP/1.1 200 "), "{answer}");
            kinds.push(session.handshake_kind());
        }
        ensure!(kinds[1] == Some(rustls::HandshakeKind::Resumed), "{version:?}: {kinds:?}");
    }
    Ok(())
}
