//! `setpoint crds` prints definitions that other programs read.

use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;
use setpoint_testkit::Kubectl;

use crate::SETPOINT;

fn crds(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(SETPOINT).arg("crds").args(arguments).output()?)
}

#[test]
fn both_forms_say_the_same_on_standard_output() -> Result<()> {
    let (yaml, json) = (crds(&[])?, crds(&["-o", "json"])?);
    ensure!(yaml.status.success() && json.status.success());
    ensure!(yaml.stderr.is_empty() && json.stderr.is_empty(), "data is on standard output, and all of it");
    let documents: Vec<Value> = serde_saphyr::from_multiple(std::str::from_utf8(&yaml.stdout)?)?;
    let list: Value = serde_json::from_slice(&json.stdout)?;
    assert_eq!((&list["kind"], &list["apiVersion"]), (&"List".into(), &"v1".into()));
    assert_eq!(list["items"], Value::Array(documents.clone()));
    let names: Vec<&str> = documents.iter().filter_map(|document| document["metadata"]["name"].as_str()).collect();
    let kinds = [
        "apps.setpoint.dev",
        "changesets.setpoint.dev",
        "environments.setpoint.dev",
        "gates.planspec.io",
        "goals.planspec.io",
        "machines.setpoint.dev",
        "plans.planspec.io",
        "reviews.setpoint.dev",
        "revisions.setpoint.dev",
        "trafficsplits.setpoint.dev",
    ];
    assert_eq!(names, kinds);
    Ok(())
}

#[test]
fn another_form_is_refused() -> Result<()> {
    let output = crds(&["-o", "toml"])?;
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
    assert!(String::from_utf8_lossy(&output.stderr).contains("[possible values: yaml, json]"));
    Ok(())
}

#[test]
fn kubectl_reads_them() -> Result<()> {
    let kubectl = Kubectl::newest()?;
    let arguments = ["label", "--local", "-f", "-", "read=true", "-o", "name"];
    let said = piped(Command::new(&kubectl.program).args(arguments))?;
    let names: Vec<&str> = said.lines().collect();
    assert!(names.contains(&"customresourcedefinition.apiextensions.k8s.io/machines.setpoint.dev"), "{said}");
    Ok(())
}

#[test]
fn they_fit_the_schema_that_kubernetes_publishes() -> Result<()> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/python/crds.py");
    let python = crate::python::python_with("kubernetes_validate")?;
    let said = piped(Command::new(python).arg(script))?;
    let count = String::from_utf8(crds(&[])?.stdout)?.matches("---\n").count();
    assert_eq!(said.trim(), count.to_string());
    Ok(())
}

/// Runs a command with the definitions as its input, and gives what it prints.
fn piped(command: &mut Command) -> Result<String> {
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
    child.stdin.take().context("an input")?.write_all(&crds(&[])?.stdout)?;
    let output = child.wait_with_output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    Ok(String::from_utf8(output.stdout)?)
}
