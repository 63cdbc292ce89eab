//! Secrets on disk: nobody who has the store's files can read them, and their keys can be changed.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::{Client, Server};

use crate::SETPOINT;

const SECRETS: &str = "/api/v1/namespaces/default/secrets";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps";

#[tokio::test]
async fn a_secret_lies_sealed_and_survives_a_rotation() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    create(&mut server.client()?, SECRETS, "Secret").await?;
    create(&mut server.client()?, CONFIG_MAPS, "ConfigMap").await?;
    let before = server.client()?.get(&format!("{SECRETS}/a")).await?.success()?;
    server.kill9()?;
    let store = server.data_dir().join("store");
    ensure!(holds(&store, &planted("ConfigMap"))?, "the search finds what is there");
    ensure!(!holds(&server.data_dir(), &planted("Secret"))?);
    ensure!(fs::metadata(key_file(&server))?.permissions().mode() & 0o777 == 0o600);

    server.restart().await?;
    ensure!(read(&server).await? == before, "as it was before the restart");

    let old = fs::read_to_string(key_file(&server))?;
    let rotated = rotate(&server)?;
    let said = String::from_utf8(rotated.stdout)?;
    ensure!(rotated.status.success() && said.contains("the next start of `setpoint up`"), "{said}");
    let old_key = old.lines().last().unwrap_or_default();
    ensure!(fs::read_to_string(key_file(&server))?.contains(old_key), "what is there still needs it");
    ensure!(read(&server).await? == before, "the server that runs goes on");

    server.terminate().await?;
    server.restart().await?;
    ensure!(read(&server).await? == before, "as it was before the rotation");
    let keys = fs::read_to_string(key_file(&server))?;
    ensure!(!keys.contains(old_key) && keys.lines().count() == old.lines().count(), "the old key is gone");
    ensure!(!holds(&server.data_dir(), &planted("Secret"))?);
    Ok(())
}

#[tokio::test]
async fn without_its_keys_it_does_not_start() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    create(&mut server.client()?, SECRETS, "Secret").await?;
    let before = read(&server).await?;
    server.terminate().await?;
    let (file, aside) = (key_file(&server), server.folder().join("aside"));

    fs::set_permissions(&file, fs::Permissions::from_mode(0o644))?;
    refused(server.command().output()?, &[&format!("chmod 600 {}", file.display())])?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o600))?;

    fs::rename(&file, &aside)?;
    let missing = format!("the key file {} is missing; restore the key file", file.display());
    refused(server.command().output()?, &["/core/secrets/default/a is sealed with key", &missing])?;
    refused(rotate(&server)?, &["there is no key file"])?;

    fs::rename(&aside, &file)?;
    server.restart().await?;
    ensure!(read(&server).await? == before, "with its keys it does");
    Ok(())
}

async fn create(client: &mut Client, path: &str, kind: &str) -> Result<()> {
    // Data becomes Base64 on the way; an annotation can be looked for as it is.
    let metadata = json!({"name": "a", "annotations": {"example.com/note": planted(kind)}});
    let object = json!({"apiVersion": "v1", "kind": kind, "metadata": metadata, "data": {"password": "aHVudGVyMg=="}});
    client.post(path, &object).await?.success()?;
    Ok(())
}

/// A text that is found in the object of a kind and nowhere else.
fn planted(kind: &str) -> String {
    format!("{kind}-where-nobody-looks")
}

async fn read(server: &Server) -> Result<Value> {
    server.client()?.get(&format!("{SECRETS}/a")).await?.success()
}

fn rotate(server: &Server) -> Result<Output> {
    Ok(Command::new(SETPOINT).args(["secrets", "rotate", "--data-dir"]).arg(server.data_dir()).output()?)
}

fn key_file(server: &Server) -> PathBuf {
    server.data_dir().join("secrets.key")
}

/// Whether any file of a folder holds a text.
fn holds(folder: &Path, text: &str) -> Result<bool> {
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        let found = if path.is_dir() {
            holds(&path, text)?
        } else {
            memchr::memmem::find(&fs::read(path)?, text.as_bytes()).is_some()
        };
        if found {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The process has ended with an error that says all of this.
fn refused(output: Output, expected: &[&str]) -> Result<()> {
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.code() == Some(1), "{}: {error}", output.status);
    for part in expected {
        ensure!(error.contains(part), "{part:?} is not in {error}");
    }
    Ok(())
}
