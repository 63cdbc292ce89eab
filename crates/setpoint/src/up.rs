//! `setpoint up`: everything in one process.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::{Args, ValueEnum};
use jiff::Timestamp;
use rustix::process::{Resource, getrlimit, setrlimit};
use setpoint_apiserver::audit::decisions::Retention;
use setpoint_apiserver::{Users, audit, listener};
use tokio::net::TcpListener;

use crate::control_plane::{Actors, ControlPlane, DRAIN, Parts, administrator};
use crate::data_dir::{DataDir, Location};
use crate::kubeconfig::{Access, Proof};
use crate::pki::{Authority, SERVING_LIFE, Serving};
use crate::user::USERS;
use crate::{decision_log, logging, stop, token, user};

const TOKEN: &str = "admin.token";
pub(crate) const KUBECONFIG: &str = "kubeconfig";
pub(crate) const AUDIT_LOG: &str = "audit/audit.log";
/// Open files that are not connections: the store's, mostly.
const OTHER_FILES: usize = 512;

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
    /// Where it is written who changed what and who was refused: a file, `-` for standard output, or `off`
    /// [default: audit/audit.log in the data folder]
    #[arg(long, value_name = "FILE|-|off")]
    audit_log: Option<PathBuf>,
    /// The size at which the audit log's file begins anew
    #[arg(long, value_name = "MIB", default_value_t = 50, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    audit_log_size: u64,
    /// Write the routine writes of our own controllers and nodes into the audit log, too: statuses, heartbeats, Events
    #[arg(long)]
    audit_log_all: bool,
    /// How many files of the audit log are kept
    #[arg(long, value_name = "COUNT", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1000))]
    audit_log_files: u64,
    /// For how many days it is kept who approved and who did what (`setpoint audit`)
    #[arg(long, value_name = "DAYS", default_value_t = 365, value_parser = clap::value_parser!(u32).range(1..=36_500))]
    decision_log_days: u32,
    /// How much of that is kept at most; beyond it the oldest goes before its time
    #[arg(long, value_name = "MIB", default_value_t = 1024, value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    decision_log_size: u64,
    /// Do not run Pods on this machine
    #[arg(long)]
    no_local: bool,
    /// Leave the controllers to `setpoint serve controllers`
    #[arg(long)]
    no_controllers: bool,
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
        let stop = stop::signal()?;
        let connections = allow_connections()?;
        let data = Location::of(self.data_dir.as_deref())?.make()?;
        // Before the authority: a folder that has none is new, also where a look has left keys in it.
        user::make_roster(data.path())?;
        let authority = Authority::open(&data, Timestamp::now())?;
        let token = admin_token(&data)?;
        let users = Users::new([(token.clone(), administrator())]).with_file(data.file(USERS))?;
        let listener = TcpListener::bind(self.listen)
            .await
            .with_context(|| format!("cannot listen on {}; choose another address with --listen", self.listen))?;
        let address = listener.local_addr()?;
        let url = format!("https://{}", reachable(address));
        let parts = Parts {
            users,
            in_memory: self.store == StoreKind::Memory,
            audit: self.open_audit_log(&data)?,
            decisions: Some(decision_log::open(&data, Some(self.decision_retention()))?),
            runs_pods: !self.no_local,
            runs_controllers: !self.no_controllers,
        };
        let plane = ControlPlane::start(&data, parts).await?;
        let access = Access {
            server: &url,
            tls_server_name: None,
            ca_pem: authority.certificate_pem(),
            context: "setpoint",
            user: "setpoint-admin",
            proof: Proof::Token(&token),
        };
        data.write(KUBECONFIG, &access.to_string())?;
        let serving = Serving::new(authority, address.ip(), SERVING_LIFE, Timestamp::now())?;
        let tls = serving.tls()?;
        tokio::spawn(serving.keep_valid());
        welcome(&url, &data.file(KUBECONFIG).display().to_string());
        let serve = |server, actors: Actors| {
            let stop = async {
                stop.await;
                actors.stop().await;
            };
            listener::serve(server, listener, tls, connections, stop, DRAIN)
        };
        plane.serve_until(serve).await?;
        tracing::info!("stopped");
        Ok(())
    }

    fn open_audit_log(&self, data: &DataDir) -> Result<Option<audit::Log>> {
        let path = match &self.audit_log {
            None => data.file(AUDIT_LOG),
            Some(path) if path.as_os_str() == "off" => return Ok(None),
            Some(path) if path.as_os_str() == "-" => {
                return Ok(Some(self.with_detail(audit::Log::to(std::io::stdout())?)));
            }
            Some(path) => path.clone(),
        };
        let files = usize::try_from(self.audit_log_files).context("--audit-log-files")?;
        let rotation = audit::Rotation { bytes: self.audit_log_size << 20, files };
        let file = audit::File::open(&path, rotation).with_context(|| {
            format!("cannot open the audit log {}; choose another with --audit-log", path.display())
        })?;
        Ok(Some(self.with_detail(audit::Log::to(file)?)))
    }

    fn with_detail(&self, log: audit::Log) -> audit::Log {
        if self.audit_log_all { log.with_routine() } else { log }
    }

    fn decision_retention(&self) -> Retention {
        Retention { days: self.decision_log_days, bytes: self.decision_log_size << 20 }
    }
}

/// Allows as many open files as the system lets us, and as many connections as then leave some for everything else.
fn allow_connections() -> Result<usize> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit).context("cannot raise the number of open files to its limit")?;
    let files = limit.maximum.and_then(|most| usize::try_from(most).ok()).unwrap_or(usize::MAX);
    Ok(files.saturating_sub(OTHER_FILES).clamp(1, listener::CONNECTIONS))
}

/// The administrator's token, made on first start.
fn admin_token(data: &DataDir) -> Result<String> {
    let kept = data.read_secret(TOKEN)?;
    if let Some(token) = kept.as_deref().map(str::trim).filter(|token| !token.is_empty()) {
        return Ok(token.to_owned());
    }
    let token = token::random();
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
