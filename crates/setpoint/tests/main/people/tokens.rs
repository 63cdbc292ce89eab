//! Tokens of the users' file: whose is let in, and until when.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;

use anyhow::{Context, Result, ensure};
use http::Request;
use serde_json::{Value, json};
use setpoint_testkit::{Kubeconfig, Server};

use super::Outcome::{Known, Unknown};
use super::{PATH, client, create, outcome, printed, refusal, until_unknown, user, users_file};
use crate::SETPOINT;

#[tokio::test]
async fn only_whole_and_living_tokens_are_let_in() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let token = |arguments: &[&str]| -> Result<String> {
        let kubeconfig = create(&server, &[arguments, &["--token"]].concat())?;
        Kubeconfig::parse(&kubeconfig, server.folder())?.token.context("a token")
    };
    let (right, revoked) = (token(&["jane"])?, token(&["joe"])?);
    printed(user(&server, &["revoke", "joe"])?)?;
    let rows = [
        ("right", right.clone(), true),
        ("truncated", right[..right.len() - 1].to_owned(), false),
        ("with more", format!("{right}0"), false),
        ("in capitals", right.to_uppercase(), false),
        ("empty", String::new(), false),
        ("another", "0".repeat(64), false),
        ("revoked", revoked, false),
        ("its digest", digest(&server, "jane")?, false),
    ];
    for (row, token, known) in rows {
        let request = Request::get(PATH).header("authorization", format!("Bearer {token}")).body(Default::default())?;
        let answer = server.client()?.send(request).await?;
        ensure!((answer.status != 401) == known, "{row}: {}", answer.text());
    }
    Ok(())
}

/// What the file says of somebody's token.
fn digest(server: &Server, name: &str) -> Result<String> {
    let file: Value = serde_json::from_str(&users_file(server)?)?;
    let users = file["users"].as_array().context("users")?;
    let user = users.iter().find(|user| user["name"] == name).context("the user is listed")?;
    Ok(user["credential"]["tokenSha256"].as_str().context("a digest")?.to_owned())
}

#[tokio::test]
async fn a_token_ends_on_open_connections_too() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut expiring = client(&create(&server, &["jane", "--token", "--expires", "5s"])?)?;
    let mut revoked = client(&create(&server, &["joe", "--token"])?)?;
    ensure!((outcome(&mut expiring).await, outcome(&mut revoked).await) == (Known, Known));
    printed(user(&server, &["revoke", "joe"])?)?;
    ensure!(outcome(&mut revoked).await == Unknown, "from the next request on");
    until_unknown(&mut expiring).await
}

#[tokio::test]
async fn others_may_write_the_file() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let path = server.data_dir().join("users.json");
    let write = |text: &str| -> Result<()> {
        let temporary = server.data_dir().join("users.json.provisioned");
        fs::write(&temporary, text)?;
        fs::set_permissions(&temporary, Permissions::from_mode(0o600))?;
        Ok(fs::rename(temporary, &path)?)
    };
    // printf %s provisioned | sha256sum
    let digest = "caa05615e5eaaf27243607d3157f6ebf1a17af89b78afc8c57fd7a881dcadbab";
    let sound = |digest: &str| {
        let jane = json!({"name": "jane", "credential": {"tokenSha256": digest}, "created": "2026-01-02T03:04:05Z"});
        json!({"version": 1, "users": [jane]}).to_string()
    };
    let known = || async {
        let request = Request::get(PATH).header("authorization", "Bearer provisioned").body(Default::default())?;
        anyhow::Ok(server.client()?.send(request).await?.status != 401)
    };
    ensure!(!known().await?);
    write(&sound(digest))?;
    ensure!(known().await?, "from the next request on");

    for (row, text) in [("damaged", "{"), ("with a token", &sound("s3cret-in-the-wrong-place"))] {
        write(text)?;
        ensure!(known().await?, "{row}: nobody is locked out");
        server.client()?.get("/readyz").await?;
    }
    let log = server.log();
    ensure!(log.contains("the users stay as they were") && log.contains("users.json is damaged"), "{log}");
    ensure!(!log.contains("s3cret"), "{log}");
    refusal(user(&server, &["create", "joe"])?).context("a damaged file is not written over")?;

    write(&sound(&"0".repeat(64)))?;
    ensure!(!known().await?, "what is repaired counts at once");
    Ok(())
}

#[tokio::test]
async fn a_server_does_not_start_with_a_damaged_file() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    server.kill9()?;
    let path = server.data_dir().join("users.json");
    for (row, text, mode, advice) in [("damaged", "{", 0o600, "restore it"), ("open", "{}", 0o644, "chmod 600")] {
        fs::write(&path, text)?;
        fs::set_permissions(&path, Permissions::from_mode(mode))?;
        let error = String::from_utf8(server.command().output()?.stderr)?;
        ensure!(error.contains("users.json") && error.contains(advice), "{row}: {error}");
    }
    fs::remove_file(&path)?;
    let error = String::from_utf8(server.command().output()?.stderr)?;
    ensure!(error.contains("users.json is gone, and with it"), "who was revoked would come back: {error}");
    refusal(user(&server, &["create", "joe"])?).context("the loss must not be hidden")?;
    Ok(())
}

#[tokio::test]
async fn a_server_does_not_start_with_a_secret_that_others_may_read() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    server.kill9()?;
    for name in ["admin.token", "ca.key", "service-accounts.key"] {
        let path = server.data_dir().join(name);
        fs::set_permissions(&path, Permissions::from_mode(0o640))?;
        let error = String::from_utf8(server.command().output()?.stderr)?;
        ensure!(error.contains(&format!("run `chmod 600 {}`", path.display())), "{name}: {error}");
        fs::set_permissions(&path, Permissions::from_mode(0o600))?;
    }
    Ok(())
}
