//! `setpoint serve controllers`: the controllers of `setpoint up`, over HTTPS.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result};
use clap::Args;
use kube::Client;
use setpoint_controllers::environment::{self, in_a_task};
use setpoint_controllers::manager::{Clients, Manager};
use setpoint_controllers::metrics::Metrics;
use setpoint_controllers::node::{Dispatch, Providers};
use setpoint_controllers::runtime::{Caches, Clock};

use super::metrics;
use crate::data_dir::DataDir;
use crate::{client, controllers, deployers, logging, stop};

/// Where deployers of Environments keep files, under the user's data home.
const FOLDER: &str = "controllers";

#[derive(Debug, Args)]
pub(crate) struct Controllers {
    /// The file that says where the server is and who acts [default: $KUBECONFIG, else that of the data folder]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// What this process is called among those that might act: a name that no other has [default: made up]
    #[arg(long, value_name = "NAME", value_parser = identity)]
    identity: Option<String>,
    /// Where deployers of Environments keep files [default: setpoint/controllers under the user's data home]
    #[arg(long, value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where to show what is counted, as Prometheus reads it; an address of this machine alone
    #[arg(long, value_name = "ADDRESS", value_parser = loopback)]
    metrics: Option<SocketAddr>,
    /// How log lines are written
    #[arg(long, value_enum, default_value = "text")]
    log_format: logging::Format,
}

impl Controllers {
    pub(crate) fn run(self) -> Result<()> {
        logging::start(self.log_format);
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
        let result = runtime.block_on(self.serve());
        runtime.shutdown_timeout(Duration::from_secs(1));
        result
    }

    async fn serve(self) -> Result<()> {
        let stop = stop::signal()?;
        let config = client::configuration(self.kubeconfig.as_deref()).await?;
        let client = Client::try_from(config).context("the kubeconfig cannot be used")?;
        let counted = Metrics::default();
        if let Some(address) = self.metrics {
            tokio::spawn(metrics::serve(metrics::listen(address).await?, counted.registry()));
        }
        let caches = Caches::default();
        let manager = Manager {
            identity: self.identity.unwrap_or_else(|| format!("setpoint-{:016x}", rand::random::<u64>())),
            clients: Clients { controllers: client.clone(), scheduler: client.clone() },
            clock: Clock::System,
            metrics: counted,
            environments: environment::Setup {
                nodes: client.clone(),
                dispatch: Dispatch::new(&caches),
                registry: deployers::registry()?,
                folder: self.data_dir.map_or_else(|| anyhow::Ok(DataDir::default_path()?.join(FOLDER)), Ok)?,
                cluster: controllers::cluster_id(client.clone()).await?,
                providers: Providers::default(),
                sights: environment::Sights::default(),
                host: in_a_task(),
            },
            caches,
        };
        tracing::info!(identity = manager.identity, "stands for election");
        manager.run(stop).await?;
        tracing::info!("stopped");
        Ok(())
    }
}

/// What may stand in a Lease and in a header.
fn identity(text: &str) -> Result<String, String> {
    let is_fit = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '-' | '.' | '_');
    match !text.is_empty() && text.len() <= 253 && text.chars().all(is_fit) {
        true => Ok(text.to_owned()),
        false => Err("a name has letters, digits, '-', '.' and '_', at most 253 of them".to_owned()),
    }
}

/// Whoever can connect can read it.
fn loopback(text: &str) -> Result<SocketAddr, String> {
    let address: SocketAddr = text.parse().map_err(|_| "an address is like 127.0.0.1:9440".to_owned())?;
    match address.ip().is_loopback() {
        true => Ok(address),
        false => Err("it would be seen from elsewhere, without a password; choose a loopback address".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_safe_is_taken() {
        let rows = [
            ("a loopback address", loopback("127.0.0.1:0").is_ok(), true),
            ("one of version 6", loopback("[::1]:9440").is_ok(), true),
            ("every address", loopback("0.0.0.0:9440").is_ok(), false),
            ("a name", loopback("localhost:9440").is_ok(), false),
            ("a host's name", identity("node-1.example").is_ok(), true),
            ("nothing", identity("").is_ok(), false),
            ("a new line", identity("a\nb").is_ok(), false),
            ("a slash", identity("a/b").is_ok(), false),
        ];
        for (name, is_taken, expected) in rows {
            assert_eq!(is_taken, expected, "{name}");
        }
    }
}
