//! Taste that a machine can check: the crates' edges, the files' sizes, and what must not be left lying about.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use serde_json::Value;

/// Which crates of ours each may depend on; an arrow never reverses. Tests may use the testkit everywhere.
const EDGES: &[(&str, &[&str])] = &[
    ("setpoint-api", &[]),
    ("setpoint-core", &["setpoint-api"]),
    ("setpoint-store", &[]),
    ("setpoint-apiserver", &["setpoint-api", "setpoint-store"]),
    ("setpoint-deployer", &["setpoint-api", "setpoint-core"]),
    ("setpoint-controllers", &["setpoint-api", "setpoint-core", "setpoint-deployer"]),
    ("setpoint-proxy", &["setpoint-api", "setpoint-core"]),
    (
        "setpoint",
        &[
            "setpoint-api",
            "setpoint-apiserver",
            "setpoint-controllers",
            "setpoint-core",
            "setpoint-deployer",
            "setpoint-proxy",
            "setpoint-store",
        ],
    ),
    ("setpoint-testkit", &["setpoint-api", "setpoint-core"]),
    ("setpoint-bench", &["setpoint-api", "setpoint-core", "setpoint-store", "setpoint-testkit"]),
];

/// The most lines that a source file may have.
const LINES: usize = 600;

/// What must not stand in a file, and why. Written in two halves so that this file does not hold it.
const STRAY: &[(&str, &str, &str)] = &[
    ("TO", "DO", "do it, or open an issue"),
    ("FIX", "ME", "fix it, or open an issue"),
    ("XX", "X", "say what is meant"),
    ("db", "g!(", "use tracing"),
    ("todo", "!(", "write it"),
    ("unimplemented", "!(", "an optional ability is a capability"),
    ("/ro", "ot/", "a path of one machine"),
    ("/wor", "k/", "a path of one machine"),
];

#[test]
fn crates_depend_only_on_what_they_may() -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version", "1", "--no-deps", "--offline"])
        .current_dir(root()?)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout)?;
    let packages = metadata["packages"].as_array().context("packages")?;
    let ours: BTreeSet<&str> = packages.iter().filter_map(|package| package["name"].as_str()).collect();
    let allowed: BTreeMap<&str, &[&str]> = EDGES.iter().copied().collect();
    for package in packages {
        let name = package["name"].as_str().context("a name")?;
        let allowed = allowed.get(name).with_context(|| format!("{name} is not in the table of crates"))?;
        for dependency in package["dependencies"].as_array().context("dependencies")? {
            let on = dependency["name"].as_str().context("a name")?;
            let is_test_fixture = on == "setpoint-testkit" && dependency["kind"] == "dev";
            let is_itself = on == name;
            ensure!(
                !ours.contains(on) || is_test_fixture || is_itself || allowed.contains(&on),
                "{name} must not depend on {on}"
            );
        }
    }
    Ok(())
}

#[test]
fn files_are_short_and_tidy() -> Result<()> {
    let root = root()?;
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(&root)
        .output()?;
    ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let mut faults = Vec::new();
    for name in String::from_utf8(output.stdout)?.lines() {
        // What is binary is not text, and what was deleted is not there.
        let Ok(text) = fs::read_to_string(root.join(name)) else { continue };
        faults.extend(untidiness(Path::new(name), &text));
    }
    ensure!(faults.is_empty(), "untidy:\n{}", faults.join("\n"));
    Ok(())
}

fn untidiness(path: &Path, text: &str) -> Vec<String> {
    let mut faults = Vec::new();
    let is_rust = path.extension().is_some_and(|extension| extension == "rs");
    let lines = text.lines().count();
    if is_rust && lines > LINES {
        faults.push(format!("{}: {lines} lines, at most {LINES}", path.display()));
    }
    if is_rust && !text.starts_with("//!") {
        faults.push(format!("{}: does not begin with a sentence on what it does", path.display()));
    }
    for (number, line) in text.lines().enumerate() {
        for (head, tail, why) in STRAY {
            if line.contains(&format!("{head}{tail}")) {
                faults.push(format!("{}:{}: {head}{tail} ({why})", path.display(), number + 1));
            }
        }
    }
    faults
}

fn root() -> Result<PathBuf> {
    Ok(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize()?)
}

#[test]
fn untidy_files_are_found() {
    let rows = [
        ("a sound file", "//! Does it.\n", 0),
        ("no sentence at the top", "fn f() {}\n", 1),
        ("a note to oneself", &format!("//! Does it.\n// {}{}: more\n", "TO", "DO"), 1),
        ("a long file", &format!("//! Does it.\n{}", "\n".repeat(LINES)), 1),
    ];
    for (what, text, faults) in rows {
        assert_eq!(untidiness(Path::new("a.rs"), text).len(), faults, "{what}");
    }
}
