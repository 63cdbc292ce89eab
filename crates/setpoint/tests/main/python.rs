//! Runs the Python `kubernetes` client against the server.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use setpoint_testkit::Server;

use crate::SETPOINT;

#[tokio::test]
async fn the_python_client_lists_watches_patches_and_deletes() -> Result<()> {
    run("client.py").await
}

#[tokio::test]
async fn the_dynamic_client_defines_applies_and_watches() -> Result<()> {
    run("custom_resources.py").await
}

/// Runs a script on a server of its own.
async fn run(script: &str) -> Result<()> {
    let python = python_with("kubernetes")?;
    let server = Server::start(SETPOINT).await?;
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/python").join(script);
    let output = Command::new(python).arg(script).arg(server.kubeconfig_path()).output()?;
    let said = [output.stdout, output.stderr].concat();
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&said));
    Ok(())
}

/// A Python that has a module.
pub(crate) fn python_with(module: &str) -> Result<String> {
    let given = std::env::var("SETPOINT_PYTHON").ok();
    for python in given.into_iter().chain(["python3".to_owned()]) {
        let import = Command::new(&python).args(["-c", &format!("import {module}")]).output();
        if import.context("no Python")?.status.success() {
            return Ok(python);
        }
    }
    bail!("no Python with the module `{module}`: run ./test, or name one in SETPOINT_PYTHON")
}
