//! Asks by HTTP, or by HTTPS without looking at the certificate: who answers is known by the port that it was given.

use std::sync::Arc;

use http::{HeaderName, HeaderValue, Request, header};
use http_body_util::Empty;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use k8s_openapi::api::core::v1::HTTPGetAction;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;

use super::{LOCALHOST, connect};

/// Where a request goes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in crate::process) struct HttpTarget {
    is_secure: bool,
    host: String,
    port: u16,
    path: String,
    headers: Vec<(String, String)>,
}

impl HttpTarget {
    pub(super) fn of(action: &HTTPGetAction, port: u16) -> HttpTarget {
        let path = action.path.as_deref().unwrap_or("/");
        let slash = if path.starts_with('/') { "" } else { "/" };
        let headers = action.http_headers.iter().flatten();
        HttpTarget {
            is_secure: action.scheme.as_deref() == Some("HTTPS"),
            host: action.host.clone().unwrap_or_else(|| LOCALHOST.to_owned()),
            port,
            path: format!("{slash}{path}"),
            headers: headers.map(|header| (header.name.clone(), header.value.clone())).collect(),
        }
    }

    fn request(&self) -> Result<Request<Empty<bytes::Bytes>>, http::Error> {
        let mut request = Request::get(self.path.as_str())
            .header(header::USER_AGENT, "kube-probe/1.36")
            .header(header::ACCEPT, "*/*")
            .header(header::CONNECTION, "close");
        for (name, value) in &self.headers {
            // What the probe says itself stands alone.
            let (name, value) = (HeaderName::try_from(name)?, HeaderValue::try_from(value)?);
            if let Some(headers) = request.headers_mut() {
                headers.insert(name, value);
            }
        }
        let mut request = request.body(Empty::new())?;
        let host = HeaderValue::try_from(format!("{}:{}", self.host, self.port))?;
        request.headers_mut().entry(header::HOST).or_insert(host);
        Ok(request)
    }
}

/// Succeeds if the answer is neither an error nor nothing.
pub(super) async fn get(target: &HttpTarget) -> Result<(), String> {
    let scheme = if target.is_secure { "https" } else { "http" };
    let url = format!("{scheme}://{}:{}{}", target.host, target.port, target.path);
    let failed = |message: String| format!("Get {url:?}: {message}");
    let stream = connect(&target.host, target.port).await.map_err(failed)?;
    let status = if target.is_secure {
        let name = ServerName::try_from(target.host.clone()).map_err(|error| failed(error.to_string()))?;
        let stream = TlsConnector::from(Arc::new(trusting())).connect(name, stream).await;
        exchange(target, stream.map_err(|error| failed(error.to_string()))?).await
    } else {
        exchange(target, stream).await
    };
    match status.map_err(failed)? {
        200..400 => Ok(()),
        status => Err(format!("HTTP probe failed with statuscode: {status}")),
    }
}

async fn exchange<S>(target: &HttpTarget, stream: S) -> Result<u16, String>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let request = target.request().map_err(|error| error.to_string())?;
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let response = sender.send_request(request).await;
    connection.abort();
    response.map(|response| response.status().as_u16()).map_err(|error| error.to_string())
}

fn trusting() -> ClientConfig {
    let provider = Arc::new(ring::default_provider());
    ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .expect("the provider knows the versions that are safe by default")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Trusting(provider)))
        .with_no_client_auth()
}

/// Takes any certificate, as those who probe do; that its owner holds the key is still checked.
#[derive(Debug)]
struct Trusting(Arc<CryptoProvider>);

impl ServerCertVerifier for Trusting {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
