//! Sessions over TLS, on connections of a real listener.

use std::sync::atomic::Ordering;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use super::*;
use crate::listener;

const EXEC: &str = "/api/v1/namespaces/default/pods/web/exec?command=sleep&stdout=1";

/// A cluster that listens.
struct Listening {
    cluster: Cluster,
    port: u16,
    trust: CertificateDer<'static>,
    stop: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Listening {
    async fn new(connections: usize) -> Listening {
        let cluster = Cluster::new().await;
        let issued = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let trust: CertificateDer<'static> = issued.cert.der().clone();
        let key = PrivateKeyDer::try_from(issued.signing_key.serialize_der()).expect("a key");
        let mut tls = rustls::ServerConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_no_client_auth()
            .with_single_cert(vec![trust.clone()], key)
            .expect("a certificate and its key");
        tls.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        let socket = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let port = socket.local_addr().expect("an address").port();
        let (stop, stopped) = oneshot::channel();
        let stopped = async move { drop(stopped.await) };
        let server = cluster.server.clone();
        let served = tokio::spawn(listener::serve(server, socket, Arc::new(tls), connections, stopped, PATIENCE));
        Listening { cluster, port, trust, stop, served }
    }

    /// A connection of a client that offers these protocols, once there is room for it.
    async fn connect(&self, protocols: &[&str]) -> TlsStream<TcpStream> {
        let mut roots = rustls::RootCertStore::empty();
        roots.add(self.trust.clone()).expect("a certificate");
        let mut tls = rustls::ClientConfig::builder_with_provider(provider())
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_root_certificates(roots)
            .with_no_client_auth();
        tls.alpn_protocols = protocols.iter().map(|protocol| protocol.as_bytes().to_vec()).collect();
        let stream = TcpStream::connect(("127.0.0.1", self.port)).await.expect("a connection");
        let name = ServerName::try_from("localhost").expect("a name");
        TlsConnector::from(Arc::new(tls)).connect(name, stream).await.expect("a handshake")
    }

    async fn session(&self) -> Client {
        let stream = within("a connection", self.connect(&["http/1.1"])).await;
        let mut headers = websocket(V5);
        headers.insert(http::header::HOST, "localhost".parse().expect("a header"));
        headers.insert(http::header::AUTHORIZATION, format!("Bearer {TOKEN}").parse().expect("a header"));
        let opened = Client::connect(stream, Method::GET, EXEC, &headers).await;
        opened.unwrap_or_else(|(code, message)| panic!("{code} {message}"))
    }

    fn running(&self) -> usize {
        self.cluster.pods.open.load(Ordering::SeqCst)
    }
}

fn provider() -> Arc<rustls::crypto::CryptoProvider> {
    Arc::new(rustls::crypto::ring::default_provider())
}

#[tokio::test]
async fn a_session_keeps_its_connection_among_those_that_are_open() {
    let listening = Listening::new(1).await;
    let mut client = listening.session().await;
    until("it runs", || listening.running() == 1).await;
    let mut next = std::pin::pin!(listening.connect(&["http/1.1"]));
    let early = tokio::time::timeout(Duration::from_millis(200), &mut next).await;
    assert!(early.is_err(), "there is room for one connection");
    assert_eq!(client.hear().await, Some((1, String::new())), "which lives");
    drop(client);
    within("the next connection", next).await;
    until("it is over", || listening.running() == 0).await;
}

#[tokio::test]
async fn a_stop_tells_sessions_and_does_not_wait_for_their_commands() {
    let listening = Listening::new(8).await;
    let client = listening.session().await;
    until("it runs", || listening.running() == 1).await;
    let Listening { cluster, stop, served, .. } = listening;
    stop.send(()).expect("it listens");
    let [.., end] = client.rest().await;
    assert_eq!(message(&end), "the server is shutting down");
    within("the stop", served).await.expect("no panic");
    assert_eq!(cluster.pods.open.load(Ordering::SeqCst), 0);
}
