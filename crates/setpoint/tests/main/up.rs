//! What `setpoint up` does for the user who starts and stops it.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use http::Request;
use serde_json::{Value, json};
use setpoint_testkit::{Client, Server};
use tokio::time::timeout;

use crate::SETPOINT;

const PATH: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn it_says_what_to_do_next() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let (address, kubeconfig) = (server.kubeconfig()?.address(), server.kubeconfig_path());
    let expected =
        format!("setpoint is ready at {address}\nexport KUBECONFIG={}\nkubectl get namespaces\n", kubeconfig.display());
    assert_eq!(server.stdout(), expected);
    Ok(())
}

#[tokio::test]
async fn only_its_owner_can_read_what_is_secret() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mode = |path: &Path| -> Result<u32> { Ok(fs::metadata(path)?.permissions().mode() & 0o777) };
    ensure!(mode(&server.data_dir())? == 0o700, "the folder");
    ensure!(mode(&server.kubeconfig_path())? == 0o600, "the kubeconfig");
    Ok(())
}

#[tokio::test]
async fn a_stop_ends_watches_in_good_order_and_loses_nothing() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    create(&mut server.client()?, "kept").await?;
    let before = fs::read_to_string(server.kubeconfig_path())?;
    let mut watch = server.client()?.watch(&format!("{PATH}?watch=true")).await?;
    watch.event().await?.context("what is there already")?;

    let status = server.terminate().await?;
    ensure!(status.success(), "{status}");
    ensure!(timeout(Duration::from_secs(5), watch.next()).await??.is_none(), "the watch ends, and does not break off");

    server.restart().await?;
    server.client()?.get(&format!("{PATH}/kept")).await?.success()?;
    let after = fs::read_to_string(server.kubeconfig_path())?;
    let without_address = |text: &str| text.lines().filter(|line| !line.contains("server")).collect::<String>();
    ensure!(without_address(&before) == without_address(&after), "the token and the authority stay");
    Ok(())
}

#[tokio::test]
async fn a_store_in_memory_ends_with_the_process() -> Result<()> {
    let mut server = Server::start_with(SETPOINT, &["--store", "memory"]).await?;
    create(&mut server.client()?, "lost").await?;
    server.terminate().await?;
    server.restart().await?;
    let answer = server.client()?.get(&format!("{PATH}/lost")).await?;
    ensure!(answer.status == 404, "{}", answer.text());
    Ok(())
}

#[tokio::test]
async fn a_second_process_is_refused() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    refused(server.command().output()?, "in use by another setpoint")?;
    server.client()?.get("/readyz").await.context("the first one goes on")?;

    let address = format!("127.0.0.1:{}", server.kubeconfig()?.port);
    let other = server.folder().join("other");
    let second = Command::new(SETPOINT).args(["up", "--listen", &address, "--data-dir"]).arg(other).output()?;
    refused(second, "choose another address with --listen")
}

#[tokio::test]
async fn a_folder_of_a_newer_release_is_refused() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    server.kill9()?;
    let format = server.data_dir().join("store/format");
    ensure!(format.exists(), "{}", format.display());
    fs::write(format, "999\n")?;
    refused(server.command().output()?, "use the newer binary")
}

#[tokio::test]
async fn strangers_are_turned_away() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    for authorization in ["", "Bearer", "Bearer wrong", "Basic YWRtaW46YWRtaW4="] {
        let request = Request::get(PATH).header("authorization", authorization).body(Default::default())?;
        let answer = server.client()?.send(request).await?;
        let status = answer.json()?;
        ensure!(answer.status == 401 && status["reason"] == "Unauthorized", "{authorization:?}: {status}");
    }
    Ok(())
}

#[tokio::test]
async fn log_lines_can_be_json() -> Result<()> {
    let mut server = Server::start_with(SETPOINT, &["--log-format", "json"]).await?;
    server.terminate().await?;
    let log = server.log();
    ensure!(!log.is_empty(), "a start and a stop are worth a line");
    for line in log.lines() {
        let line: Value = serde_json::from_str(line).with_context(|| line.to_owned())?;
        ensure!(line["level"].is_string() && line["timestamp"].is_string(), "{line}");
    }
    Ok(())
}

async fn create(client: &mut Client, name: &str) -> Result<()> {
    let object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name}});
    client.post(PATH, &object).await?.success()?;
    Ok(())
}

/// The process has ended with an error that tells the user what to do.
fn refused(output: Output, advice: &str) -> Result<()> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{}: {error}", output.status);
    ensure!(error.contains(advice), "{error}");
    Ok(())
}
