//! `setpoint up`: everything in one process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use rand::RngCore as _;
use setpoint_apiserver::{Identity, Server, Setup, Users, listener};
use setpoint_store::{EmbeddedStore, MemoryStore, Store};
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};

use crate::data_dir::DataDir;
use crate::kubeconfig::kubeconfig;
use crate::pki::Authority;
use crate::{issuer, logging};

const TOKEN: &str = "admin.token";
const KUBECONFIG: &str = "kubeconfig";
/// How long requests under way may take after the program was told to stop.
const DRAIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum StoreKind {
    /// In the data folder; survives crashes
    Embedded,
    /// In memory; gone when the program ends
    Memory,
}

#[derive(Debug, Args)]
pub(crate) struct Up {
    /// The folder for everything that must not be lost [default: setpoint under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to listen; port 0 takes a free one
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:6440")]
    listen: SocketAddr,
    /// Where objects are kept
    #[arg(long, value_enum, default_value = "embedded")]
    store: StoreKind,
    /// How log lines are written
    #[arg(long, value_enum, default_value = "text")]
    log_format: logging::Format,
}

impl Up {
    pub(crate) fn run(self) -> Result<()> {
        logging::start(self.log_format);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.serve());
        // What is still running after the drain has had its time.
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }

    async fn serve(self) -> Result<()> {
        let stop = stop_signal()?;
        let path = match self.data_dir {
            Some(path) => path,
            None => DataDir::default_path()?,
        };
        let data = DataDir::open(&path)?;
        let authority = Authority::open(&data)?;
        let token = admin_token(&data)?;
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("cannot listen on {}; choose another address with --listen", self.listen))?;
        let address = listener.local_addr()?;
        let store: Arc<dyn Store> = match self.store {
            StoreKind::Memory => Arc::new(MemoryStore::new(setpoint_store::Options::default())),
            StoreKind::Embedded => Arc::new(open_embedded(data.file("store")).await?),
        };
        let users = Users::new([(token.clone(), Identity::new("admin", ["system:masters"]))]);
        let url = format!("https://{}", reachable(address));
        let issuer = issuer::open(&data, &url)?;
        let server = Server::open(store.clone(), Setup { users, issuer })
            .await
            .map_err(|failure| anyhow::anyhow!("the API server cannot start: {failure:?}"))?;
        data.write(KUBECONFIG, &kubeconfig(&url, authority.certificate_pem(), &token))?;
        let tls = authority.server_config(address.ip())?;
        welcome(&url, &data.file(KUBECONFIG).display().to_string());
        listener::serve(server, listener, tls, stop, DRAIN).await;
        tokio::time::timeout(DRAIN, store.close())
            .await
            .context("the store did not close in time; what was acknowledged is safe")?
            .context("the store did not close cleanly")?;
        tracing::info!("stopped");
        Ok(())
    }
}

async fn open_embedded(path: PathBuf) -> Result<EmbeddedStore> {
    let shown = path.display().to_string();
    let opened = tokio::task::spawn_blocking(move || EmbeddedStore::open(&path, setpoint_store::Options::default()));
    opened.await?.with_context(|| format!("cannot open the store in {shown}"))
}

/// The administrator's token, made on first start.
fn admin_token(data: &DataDir) -> Result<String> {
    if let Some(token) = data.read(TOKEN)?.map(|token| token.trim().to_owned()).filter(|token| !token.is_empty()) {
        return Ok(token);
    }
    let mut bytes = [0u8; 32];
    rand::rng().fill_bytes(&mut bytes);
    let token: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    data.write(TOKEN, &token)?;
    Ok(token)
}

/// The address that a client on this machine can use.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

#[expect(clippy::print_stdout, reason = "what to do next is this command's output")]
fn welcome(url: &str, kubeconfig: &str) {
    println!("setpoint is ready at {url}");
    println!("export KUBECONFIG={kubeconfig}");
    println!("kubectl get namespaces");
}

/// Resolves when the process is told to stop.
fn stop_signal() -> Result<impl Future<Output = ()>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("stopping; a second signal ends at once");
        tokio::spawn(async move {
            tokio::select! {
                _ = terminate.recv() => {}
                _ = interrupt.recv() => {}
            }
            std::process::exit(1);
        });
    })
}
