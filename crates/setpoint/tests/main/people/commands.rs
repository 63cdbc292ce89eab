//! What `setpoint user` prints, refuses and keeps.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde_json::Value;
use setpoint_testkit::{Kubeconfig, Server};

use super::Outcome::Known;
use super::{client, create, outcome, printed, refusal, user, user_in, users_file};
use crate::SETPOINT;

#[tokio::test]
async fn users_created_at_the_same_time_are_all_kept() -> Result<()> {
    const USERS: usize = 8;
    let server = Server::start(SETPOINT).await?;
    let start = |number: usize| {
        let mut command = Command::new(SETPOINT);
        command.args(["user", "create", &format!("user-{number}"), "--data-dir"]).arg(server.data_dir());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()
    };
    let processes: Vec<_> = (0..USERS).map(start).collect::<Result<_, _>>()?;
    for process in processes {
        let kubeconfig = printed(process.wait_with_output()?)?;
        ensure!(outcome(&mut client(&kubeconfig)?).await == Known);
    }
    let listed: Value = serde_json::from_str(&printed(user(&server, &["list", "--output", "json"])?)?)?;
    ensure!(listed.as_array().map(Vec::len) == Some(USERS), "{listed}");
    Ok(())
}

#[tokio::test]
async fn no_secret_is_kept_or_listed() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let token = create(&server, &["jane", "--group", "dev", "--token"])?;
    let token = Kubeconfig::parse(&token, server.folder())?.token.context("a token")?;
    let certificate: Value = serde_json::from_str(&create(&server, &["joe"])?)?;
    let key = certificate["users"][0]["user"]["client-key-data"].as_str().context("a key")?.to_owned();
    let table = printed(user(&server, &["list"])?)?;
    let (head, rows) = table.split_once('\n').context("a head")?;
    ensure!(head.split_whitespace().eq(["NAME", "GROUPS", "CREDENTIAL", "CREATED", "EXPIRES", "STATUS"]), "{head}");
    ensure!(rows.starts_with("jane   dev      token         20") && rows.ends_with("   active\n"), "{rows}");

    let json = printed(user(&server, &["list", "--output", "json"])?)?;
    for (what, text) in
        [("the table", &table), ("the list", &json), ("the file", &users_file(&server)?), ("the log", &server.log())]
    {
        ensure!(!text.contains(&token) && !text.contains(&key), "{what} holds a secret");
    }
    let digest = setpoint_apiserver::authentication::TokenDigest::of(&token);
    let digest = serde_json::to_value(digest)?.as_str().context("text")?.to_owned();
    ensure!(users_file(&server)?.contains(&digest) && !json.contains(&digest) && !table.contains(&digest));
    let mode = fs::metadata(server.data_dir().join("users.json"))?.permissions().mode() & 0o777;
    ensure!(mode == 0o600, "{mode:o}");
    Ok(())
}

#[tokio::test]
async fn mistakes_are_told_with_what_to_do() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    create(&server, &["jane"])?;
    let long = "a".repeat(257);
    let rows: [(&str, &[&str], &str); 8] = [
        ("a name that is taken", &["create", "jane"], "`setpoint user revoke` takes the credential away"),
        ("a name of the server's", &["create", "system:admin"], "names that begin with system:"),
        ("no name", &["create", ""], "a name is empty"),
        ("a line end", &["create", "a\nb"], "control characters"),
        ("a long name", &["create", &long], "longer than 256"),
        ("an empty group", &["create", "joe", "--group", ""], "cannot be a group"),
        ("somebody unknown", &["revoke", "joe"], "there is no user \"joe\"; there are \"jane\""),
        ("somebody almost known", &["revoke", "JANE"], "there is no user \"JANE\""),
    ];
    for (row, arguments, expected) in rows {
        let error = refusal(user(&server, arguments)?)?;
        ensure!(error.contains(expected), "{row}: {error}");
    }
    for arguments in [["--expires", "soon"], ["--expires", "0s"], ["--server", "http://a.example"]] {
        let output = user(&server, &[&["create", "joe"], arguments.as_slice()].concat())?;
        ensure!(output.status.code() == Some(1), "{arguments:?}");
    }
    let nowhere = refusal(user_in(&server.folder().join("nowhere"), &["list"])?)?;
    ensure!(nowhere.contains("there is no data directory"), "{nowhere}");
    Ok(())
}

#[tokio::test]
async fn a_revocation_can_be_repeated() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    create(&server, &["jane"])?;
    printed(user(&server, &["revoke", "jane"])?)?;
    let once = users_file(&server)?;
    printed(user(&server, &["revoke", "jane"])?)?;
    ensure!(users_file(&server)? == once, "the time of the first revocation stays");
    ensure!(printed(user(&server, &["list"])?)?.contains("revoked"));
    Ok(())
}

#[tokio::test]
async fn a_user_can_be_created_while_no_server_runs() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    server.terminate().await?;
    let address = "https://cluster.example:6440";
    let config: Value = serde_json::from_str(&create(&server, &["jane", "--server", address])?)?;
    let cluster = &config["clusters"][0]["cluster"];
    ensure!(cluster["server"] == address && cluster["tls-server-name"] == "localhost", "{cluster}");

    server.restart().await?;
    let here = config.to_string().replace(address, &server.kubeconfig()?.address());
    ensure!(outcome(&mut client(&here)?).await == Known);
    Ok(())
}

#[tokio::test]
async fn whoever_is_given_all_rights_is_warned_of() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let output = user(&server, &["create", "jane", "--group", "system:masters"])?;
    let remarks = String::from_utf8(output.stderr)?;
    ensure!(output.status.success() && remarks.contains("warning: whoever is in system:masters"), "{remarks}");
    let output = user(&server, &["create", "joe"])?;
    let remarks = String::from_utf8(output.stderr)?;
    ensure!(remarks.contains("kubectl create clusterrolebinding joe-view --clusterrole=view --user=joe"), "{remarks}");
    Ok(())
}
