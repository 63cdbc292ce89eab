//! Connections that do nothing.

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use setpoint_testkit::client::connect_tls;

use super::{Victim, allow_open_files};

const CONNECTIONS: usize = 10_000;
/// What a connection that does nothing may cost: buffers of TLS and HTTP, and a task.
const EACH: u64 = 64 * 1024;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn ten_thousand_idle_connections_keep_nobody_out() -> Result<()> {
    allow_open_files(CONNECTIONS as u64 + 200)?;
    let victim = Victim::start().await?;
    let kubeconfig = victim.server.kubeconfig()?;
    let opening = stream::iter((0..CONNECTIONS).map(|_| connect_tls(&kubeconfig))).buffer_unordered(64);
    let idle: Vec<_> = opening.try_collect().await.context("a connection was refused")?;
    let output = victim.server.kubectl(&["get", "namespaces"])?;
    ensure!(output.status.success(), "kubectl: {}", String::from_utf8_lossy(&output.stderr));
    victim.ensure_growth_below(CONNECTIONS as u64 * EACH)?;
    drop(idle);
    victim.survives().await
}
