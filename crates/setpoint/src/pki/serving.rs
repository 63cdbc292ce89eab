//! The certificate that the server shows, which renews itself while it is in use.

use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Result;
use jiff::{SignedDuration, Timestamp};
use parking_lot::RwLock;
use rustls::ServerConfig;
use rustls::crypto::CryptoProvider;
use rustls::server::{ClientHello, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;

use super::Authority;
use super::authority::BACKDATED;

/// How long a certificate of the server is valid.
pub(crate) const SERVING_LIFE: SignedDuration = SignedDuration::from_hours(90 * 24);
/// How often the clock is looked at: it may be set, and the machine may sleep.
const LOOK: Duration = Duration::from_secs(60);
/// How often the operator is told that the authority is near its end.
const REMINDER: SignedDuration = SignedDuration::from_hours(24);

/// What the server serves with. New connections get the newest certificate, open ones go on.
#[derive(Debug)]
pub(crate) struct Serving {
    authority: Authority,
    address: IpAddr,
    life: SignedDuration,
    provider: Arc<CryptoProvider>,
    current: RwLock<Issued>,
}

#[derive(Debug)]
struct Issued {
    certificate: Arc<CertifiedKey>,
    term: Term,
}

/// From when to when a certificate is good.
#[derive(Debug, Clone, Copy)]
struct Term {
    issued: Timestamp,
    not_after: Timestamp,
}

impl Term {
    /// When two thirds of its life are over.
    fn renew_at(self) -> Timestamp {
        self.issued + self.not_after.duration_since(self.issued) * 2 / 3
    }

    /// Also when the clock was set back so far that the certificate is not valid yet.
    fn is_over(self, now: Timestamp) -> bool {
        now >= self.renew_at() || now < self.issued - BACKDATED
    }

    /// How long to wait until the next look.
    fn pause(self, now: Timestamp) -> Duration {
        Duration::try_from(self.renew_at().duration_since(now))
            .map_or(LOOK, |left| left.clamp(Duration::from_millis(100), LOOK))
    }
}

impl Serving {
    /// Issues the first certificate, for a server reached under loopback names and `address`.
    pub(crate) fn new(
        authority: Authority,
        address: IpAddr,
        life: SignedDuration,
        now: Timestamp,
    ) -> Result<Arc<Serving>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let (certificate, not_after) = authority.issue_server(address, life, now, &provider)?;
        let current = RwLock::new(Issued { certificate, term: Term { issued: now, not_after } });
        Ok(Arc::new(Serving { authority, address, life, provider, current }))
    }

    /// The TLS side of the server. A client may show a certificate; one that our authority did not sign, or that is not
    /// valid, ends the handshake.
    pub(crate) fn tls(self: &Arc<Serving>) -> Result<Arc<ServerConfig>> {
        let roots = Arc::new(self.authority.roots()?);
        let clients = WebPkiClientVerifier::builder_with_provider(roots, self.provider.clone());
        let mut config = ServerConfig::builder_with_provider(self.provider.clone())
            .with_safe_default_protocol_versions()?
            .with_client_cert_verifier(clients.allow_unauthenticated().build()?)
            .with_cert_resolver(self.clone());
        config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Ok(Arc::new(config))
    }

    /// Renews the certificate in time, for ever; tells when the authority is near its end.
    pub(crate) async fn keep_valid(self: Arc<Serving>) {
        let mut reminded: Option<Timestamp> = None;
        loop {
            let now = Timestamp::now();
            if let Some(notice) = self.authority.notice(now)
                && reminded.is_none_or(|last| now.duration_since(last).abs() >= REMINDER)
            {
                reminded = Some(now);
                tracing::warn!("{notice}");
            }
            let term = self.current.read().term;
            if term.is_over(now) {
                match self.renew(now) {
                    Ok(end) => tracing::info!(until = %end, "the server's certificate was renewed"),
                    Err(error) => tracing::error!("the server's certificate cannot be renewed: {error:#}"),
                }
            }
            let term = self.current.read().term;
            tokio::time::sleep(term.pause(now)).await;
        }
    }

    fn renew(&self, now: Timestamp) -> Result<Timestamp> {
        let (certificate, not_after) = self.authority.issue_server(self.address, self.life, now, &self.provider)?;
        *self.current.write() = Issued { certificate, term: Term { issued: now, not_after } };
        Ok(not_after)
    }
}

impl ResolvesServerCert for Serving {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.current.read().certificate.clone())
    }
}

#[cfg(test)]
mod tests {
    use anyhow::Context as _;
    use setpoint_apiserver::fairness::Limits;
    use setpoint_apiserver::{Identity, Server, Setup, Surroundings, Users, listener};
    use setpoint_store::MemoryStore;
    use setpoint_testkit::client::connect_tls;
    use setpoint_testkit::{Client, Kubeconfig, wait_for};
    use tokio::net::TcpListener;

    use super::*;
    use crate::data_dir::DataDir;
    use crate::kubeconfig::{Access, Proof};

    #[test]
    fn a_certificate_is_renewed_when_two_thirds_of_its_life_are_over() {
        let time = |text: &str| -> Timestamp { text.parse().expect("a time") };
        let term = Term { issued: time("2026-01-01T00:00:00Z"), not_after: time("2026-04-01T00:00:00Z") };
        assert_eq!(term.renew_at(), time("2026-03-02T00:00:00Z"));
        let rows = [
            ("new", "2026-01-01T00:00:00Z", false),
            ("by a clock that is somewhat behind", "2025-12-31T23:51:00Z", false),
            ("by a clock that was set back", "2025-12-31T00:00:00Z", true),
            ("a moment before", "2026-03-01T23:59:59Z", false),
            ("in time", "2026-03-02T00:00:00Z", true),
            ("after a long sleep", "2027-01-01T00:00:00Z", true),
        ];
        for (row, now, over) in rows {
            assert_eq!(term.is_over(time(now)), over, "{row}");
            assert!(term.pause(time(now)) <= LOOK, "{row}");
        }
    }

    async fn shown(kubeconfig: &Kubeconfig) -> Result<Vec<u8>> {
        let stream = connect_tls(kubeconfig).await?;
        let chain = stream.get_ref().1.peer_certificates().context("a server shows a certificate")?;
        Ok(chain.first().context("a chain is not empty")?.to_vec())
    }

    #[tokio::test]
    async fn a_running_server_renews_its_certificate_and_keeps_its_connections() -> Result<()> {
        let folder = tempfile::tempdir()?;
        let data = DataDir::open(&folder.path().join("data"))?;
        let authority = Authority::open(&data, Timestamp::now())?;
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let url = format!("https://{address}");
        let access = Access {
            server: &url,
            tls_server_name: None,
            ca_pem: authority.certificate_pem(),
            context: "setpoint",
            user: "admin",
            proof: Proof::Token("right"),
        };
        let kubeconfig = Kubeconfig::parse(&access.to_string(), folder.path())?;
        let users = Users::new([("right".to_owned(), Identity::new("admin", ["system:masters"]))]);
        let server = Server::open(
            Arc::new(MemoryStore::new(setpoint_store::Options::default())),
            Setup {
                users,
                issuer: crate::issuer::open(&data)?,
                limits: Limits::default(),
                audit: None,
                surroundings: Surroundings::default(),
            },
        )
        .await
        .map_err(|failure| anyhow::anyhow!("{failure:?}"))?;
        let serving = Serving::new(authority, address.ip(), SignedDuration::from_secs(6), Timestamp::now())?;
        let renewal = tokio::spawn(serving.clone().keep_valid());
        let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
        let stopped = async { drop(stopped.await) };
        let (tls, drain) = (serving.tls()?, Duration::from_secs(5));
        let served = tokio::spawn(listener::serve(server, listener, tls, listener::CONNECTIONS, stopped, drain));

        let mut open = Client::new(&kubeconfig)?;
        open.get("/version").await?.success()?;
        let first = shown(&kubeconfig).await?;
        let renewed = wait_for("another certificate", Duration::from_secs(30), || async {
            // On a slow machine, a certificate of a few seconds may have ended before it was looked at.
            Ok(shown(&kubeconfig).await.ok().filter(|shown| *shown != first))
        });
        renewed.await?;
        open.get("/version").await.context("the connection from before goes on")?.success()?;

        renewal.abort();
        drop(stop);
        drop(open);
        served.await?;
        Ok(())
    }
}
