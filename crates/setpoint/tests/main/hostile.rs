//! Clients that mean harm: whatever they do, others are served, memory stays bounded, and nothing is let through.

mod bombs;
mod connections;
mod frames;
mod heads;
mod neighbour;
mod paths;
mod watches;

use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use setpoint_testkit::client::connect_tls;
use setpoint_testkit::{Client, Kubeconfig, Server, wait_for};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use crate::SETPOINT;

const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

/// How long a server that is being harmed may take to answer somebody else.
const PATIENCE: Duration = Duration::from_secs(20);

const MIB: u64 = 1 << 20;

/// A server, and somebody who looks after it all the time.
struct Victim {
    server: Server,
    before: u64,
    stop: oneshot::Sender<()>,
    health: JoinHandle<Result<Duration>>,
}

impl Victim {
    async fn start() -> Result<Victim> {
        let server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
        server.client()?.get(CONFIG_MAPS).await?.success()?;
        let (stop, stopped) = oneshot::channel();
        let health = tokio::spawn(look_after(server.kubeconfig()?, stopped));
        let before = server.memory()?;
        Ok(Victim { server, before, stop, health })
    }

    /// Somebody besides the administrator, with all rights.
    async fn neighbour(&self) -> Result<Kubeconfig> {
        let mut command = Command::new(SETPOINT);
        command.args(["user", "create", "neighbour", "--group", "system:masters", "--data-dir"]);
        let output = command.arg(self.server.data_dir()).output()?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        let kubeconfig = Kubeconfig::parse(&String::from_utf8(output.stdout)?, self.server.folder())?;
        wait_for("the neighbour to be known", PATIENCE, || async {
            let answer = Client::new(&kubeconfig)?.get(CONFIG_MAPS).await;
            Ok(answer.is_ok_and(|answer| answer.status == 200).then_some(()))
        })
        .await?;
        Ok(kubeconfig)
    }

    /// Memory that came since the start.
    fn growth(&self) -> Result<u64> {
        Ok(self.server.memory()?.saturating_sub(self.before))
    }

    fn ensure_growth_below(&self, bound: u64) -> Result<()> {
        let growth = self.growth()?;
        println!("memory grew by {} MiB", growth / MIB);
        ensure!(growth < bound, "memory grew by {} MiB, and {} would be too much", growth / MIB, bound / MIB);
        Ok(())
    }

    /// The administrator is still served, and was told of health all the time.
    async fn survives(self) -> Result<()> {
        timeout(PATIENCE, self.server.client()?.get(CONFIG_MAPS)).await??.success()?;
        let _ = self.stop.send(());
        let slowest = self.health.await?.context("health must be told at any time")?;
        println!("the slowest answer about health took {slowest:?}");
        Ok(())
    }
}

/// Asks after health until told to stop; the slowest answer.
async fn look_after(kubeconfig: Kubeconfig, mut stopped: oneshot::Receiver<()>) -> Result<Duration> {
    let (mut client, mut slowest) = (Client::new(&kubeconfig)?, Duration::ZERO);
    while stopped.try_recv().is_err() {
        let started = Instant::now();
        let answer = timeout(PATIENCE, client.get("/readyz")).await.context("no answer in time")??;
        ensure!(answer.status == 200, "{}: {}", answer.status, answer.text());
        slowest = slowest.max(started.elapsed());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Ok(slowest)
}

/// Lets this test have that many open files.
fn allow_open_files(count: u64) -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    let allowed = limit.maximum.unwrap_or(u64::MAX);
    ensure!(allowed >= count, "this machine allows {allowed} open files, and this test needs {count}");
    Ok(())
}

/// Sends bytes as they are on a connection of their own and returns what comes back until the server closes it, or the
/// beginning if it does not.
async fn send_raw(kubeconfig: &Kubeconfig, bytes: &[u8]) -> Result<String> {
    let mut stream = connect_tls(kubeconfig).await?;
    // The server may close before it has read everything.
    let _ = stream.write_all(bytes).await;
    // Else what TLS has made of them may wait for a next write.
    let _ = stream.flush().await;
    let mut answer = Vec::new();
    let read = async {
        let mut buffer = [0; 16 * 1024];
        while let Ok(count @ 1..) = stream.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..count]);
            if answer.len() > 1 << 20 || is_complete(&answer) {
                break;
            }
        }
    };
    timeout(PATIENCE, read).await.context("neither an answer nor the end of the connection")?;
    Ok(String::from_utf8_lossy(&answer).into_owned())
}

/// Whether an answer of known length is all there.
fn is_complete(answer: &[u8]) -> bool {
    let text = String::from_utf8_lossy(answer);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    length.is_some_and(|length| body.len() >= length)
}

/// The status of a raw answer; 0 if the connection was just closed.
fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|code| code.parse().ok()).unwrap_or(0)
}
