//! `setpoint get` and `setpoint history` show what kubectl saw and did.

use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::Server;

use crate::SETPOINT;

fn setpoint(server: &Server, arguments: &[&str]) -> Result<Output> {
    let mut command = Command::new(SETPOINT);
    command.env("KUBECONFIG", server.kubeconfig_path()).env("HOME", server.folder());
    Ok(command.args(arguments).output()?)
}

/// What a command printed that must succeed without a word of trouble.
fn printed(output: Output) -> Result<String> {
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success() && errors.is_empty(), "{}: {errors}", output.status);
    Ok(String::from_utf8(output.stdout)?)
}

fn kubectl(server: &Server, arguments: &[&str]) -> Result<String> {
    let output = server.kubectl(arguments)?;
    ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}

#[tokio::test]
async fn what_kubectl_saw_is_shown_again() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let mut seen = Vec::new();
    for step in [
        &["create", "deployment", "web", "--image=web:1"][..],
        &["scale", "deployment", "web", "--replicas=3"],
        &["annotate", "deployment", "web", "note=a: \"b\"\n# c\u{9b}"],
        &["annotate", "deployment", "web", "note=#!/bin/sh\n\tls\n", "--overwrite"],
        &["label", "deployment", "web", "yes=no", "number=010"],
        &["delete", "deployment", "web"],
        &["create", "deployment", "web", "--image=web:2"],
    ] {
        kubectl(&server, step)?;
        if step[0] != "delete" {
            seen.push(kubectl(&server, &["get", "deployment", "web", "-o", "json"])?);
        }
    }
    for text in &seen {
        let expected: Value = serde_json::from_str(text)?;
        let revision = expected["metadata"]["resourceVersion"].as_str().context("a revision")?;
        let shown = |form: &str| printed(setpoint(&server, &["get", "deploy", "web", "--at", revision, "-o", form])?);
        let (yaml, json) = (shown("yaml")?, shown("json")?);
        assert_eq!(serde_saphyr::from_str::<Value>(&yaml)?, expected, "at {revision}, as YAML");
        assert_eq!(serde_json::from_str::<Value>(&json)?, expected, "at {revision}, as JSON");
        ensure!(!yaml.contains('\u{9b}') && !json.contains('\u{9b}'), "nothing commands the terminal");
    }
    let now = printed(setpoint(&server, &["get", "deployments"])?)?;
    assert_eq!(ageless(&now), ageless(&kubectl(&server, &["get", "deployments"])?), "the same columns");
    Ok(())
}

/// The lines of a table without the last column, which time changes.
fn ageless(table: &str) -> Vec<&str> {
    table.lines().filter_map(|line| Some(line.rsplit_once(' ')?.0.trim_end())).collect()
}

#[tokio::test]
async fn who_is_not_there_is_not_asked() -> Result<()> {
    let mut server = Server::start(SETPOINT).await?;
    let refused = |command: &mut Command, words: &[&str]| -> Result<()> {
        let output = command.args(["get", "pods"]).output()?;
        let errors = String::from_utf8(output.stderr)?;
        assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true), "{errors}");
        ensure!(words.iter().all(|word| errors.contains(word)) && errors.lines().count() == 1, "{errors}");
        Ok(())
    };
    let command = |kubeconfig: &str| {
        let mut command = Command::new(SETPOINT);
        command.env_remove("XDG_DATA_HOME").env("HOME", server.folder()).env("KUBECONFIG", kubeconfig);
        command
    };
    refused(&mut command(""), &["no server is known", ".local/share/setpoint/kubeconfig", "`setpoint up`"])?;
    refused(&mut command("/nowhere"), &["$KUBECONFIG cannot be used", "/nowhere", "--kubeconfig"])?;
    let kubeconfig = server.kubeconfig_path().display().to_string();
    let mut orphan = command(&kubeconfig);
    server.terminate().await?;
    refused(&mut orphan, &["cannot ask https://127.0.0.1", "refused", "see that `setpoint up` runs there"])
}

#[tokio::test]
async fn lists_are_of_their_moment() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    for name in ["first", "second"] {
        kubectl(&server, &["create", "configmap", name, "--from-literal=a=b"])?;
    }
    let all: Value = serde_json::from_str(&printed(setpoint(&server, &["get", "cm", "-o", "json"])?)?)?;
    let revision = all["metadata"]["resourceVersion"].as_str().context("a revision")?.to_owned();
    kubectl(&server, &["delete", "configmap", "first"])?;
    let then = setpoint(&server, &["get", "configmaps", "-o", "name", "--at", &revision])?;
    assert_eq!(printed(then)?, "configmap/first\nconfigmap/second\n");
    let again: Value =
        serde_json::from_str(&printed(setpoint(&server, &["get", "cm", "-o", "json", "--at", &revision])?)?)?;
    assert_eq!(again, all);
    assert_eq!((&all["kind"], &all["items"][0]["kind"]), (&json!("List"), &json!("ConfigMap")));
    Ok(())
}

#[tokio::test]
async fn a_secret_keeps_its_values_in_every_form() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let planted = ["open-sesame", "b3Blbi1zZXNhbWU", "open-barley", "b3Blbi1iYXJsZXk"];
    kubectl(&server, &["create", "secret", "generic", "door", "--from-literal=password=open-sesame"])?;
    let patch = r#"{"stringData":{"password":"open-barley"}}"#;
    kubectl(&server, &["patch", "secret", "door", "--patch", patch])?;
    kubectl(&server, &["annotate", "secret", "door", "note=open-sesame"])?;
    for form in ["text", "json"] {
        let told = printed(setpoint(&server, &["history", "secret", "door", "-o", form])?)?;
        ensure!(told.contains("data.password") && told.contains("metadata.annotations.note"), "{told}");
        ensure!(planted.iter().all(|value| !told.contains(value)), "{told}");
    }
    Ok(())
}

#[tokio::test]
async fn programs_can_read_a_history() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    kubectl(&server, &["create", "configmap", "settings", "--from-literal=colour=blue"])?;
    let patch = r#"{"data":{"colour":"red"}}"#;
    kubectl(&server, &["patch", "configmap", "settings", "--patch", patch, "--field-manager=painter"])?;
    let told: Value =
        serde_json::from_str(&printed(setpoint(&server, &["history", "cm", "settings", "-o", "json"])?)?)?;
    assert_eq!((&told["object"], &told["namespace"]), (&json!("configmap/settings"), &json!("default")));
    let entries = told["entries"].as_array().context("entries")?;
    let events: Vec<&Value> = entries.iter().map(|entry| &entry["event"]).collect();
    assert_eq!(events, ["changed", "created"]);
    assert_eq!(entries[0]["by"][0]["manager"], "painter");
    let change = json!({"path": "data.colour", "edit": "changed", "old": "blue", "new": "red"});
    assert_eq!(entries[0]["changes"], json!([change]));
    Ok(())
}
