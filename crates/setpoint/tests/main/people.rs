//! Proves who is let in with which credential, and what the commands for people do, against the real binary.

mod authority;
mod certificates;
mod commands;
mod kubectl;
mod tokens;

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use setpoint_testkit::{Client, Kubeconfig, Server};
use tokio::time::timeout;

use crate::SETPOINT;

/// Something that nobody is shown who is not known.
const PATH: &str = "/api/v1/namespaces/default/configmaps";

/// For what has to happen within a second, on a machine that does other things meanwhile.
const SOON: Duration = Duration::from_secs(20);

/// What becomes of a request. Whether a known user may do it is not the question here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Known,
    /// 401.
    Unknown,
    /// TLS did not come about.
    NoConnection,
}

async fn outcome(client: &mut Client) -> Outcome {
    match client.get(PATH).await {
        Err(_) => Outcome::NoConnection,
        Ok(answer) if answer.status == 401 => Outcome::Unknown,
        Ok(_) => Outcome::Known,
    }
}

/// Asks on one connection until the answer is 401.
async fn until_unknown(client: &mut Client) -> Result<()> {
    let asking = async {
        while client.get(PATH).await?.status != 401 {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        anyhow::Ok(())
    };
    timeout(SOON, asking).await.context("still let in")?
}

/// A `setpoint user` command on a server's data folder.
fn user(server: &Server, arguments: &[&str]) -> Result<Output> {
    user_in(&server.data_dir(), arguments)
}

fn user_in(folder: &Path, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(SETPOINT);
    Ok(command.arg("user").args(arguments).arg("--data-dir").arg(folder).output()?)
}

/// What a command that succeeds prints.
fn printed(output: Output) -> Result<String> {
    ensure!(output.status.success(), "{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

/// Why a command fails.
fn refusal(output: Output) -> Result<String> {
    ensure!(output.status.code() == Some(1), "{}", output.status);
    ensure!(output.stdout.is_empty(), "{}", String::from_utf8_lossy(&output.stdout));
    Ok(String::from_utf8(output.stderr)?)
}

/// Creates a user and gives what is printed: a kubeconfig.
fn create(server: &Server, arguments: &[&str]) -> Result<String> {
    printed(user(server, &[&["create"], arguments].concat())?)
}

fn client(kubeconfig: &str) -> Result<Client> {
    Client::new(&Kubeconfig::parse(kubeconfig, Path::new("."))?)
}

fn users_file(server: &Server) -> Result<String> {
    fs::read_to_string(server.data_dir().join("users.json")).context("users.json")
}
