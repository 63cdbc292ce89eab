//! `setpoint dev conformance` finds out who pretends, and a deployer from outside the workspace passes.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use anyhow::{Context as _, Result, ensure};

use crate::SETPOINT;

fn conformance(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(SETPOINT).args(["dev", "conformance"]).args(arguments).output()?)
}

fn example() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/deployer")
}

#[test]
fn every_guarantee_has_a_line_and_pretenders_fail() -> Result<()> {
    let rows = [
        ("noop", include_str!("conformance/noop.txt"), "what is made runs and carries its mark"),
        ("liar", include_str!("conformance/liar.txt"), "what is made runs and carries its mark"),
    ];
    for (name, expected, broken) in rows {
        let output = conformance(&[name])?;
        assert_eq!(String::from_utf8_lossy(&output.stdout), expected, "{name}");
        let complaint = format!("error: {name}@1.0.0 does not keep the contract: {broken}\n");
        assert_eq!(String::from_utf8_lossy(&output.stderr), complaint);
        assert_eq!(output.status.code(), Some(1), "{name}");
    }
    Ok(())
}

#[test]
fn some_guarantees_can_be_chosen() -> Result<()> {
    let output = conformance(&["noop@1", "--only", "a delete"])?;
    let lines = "FAILED  a delete removes what runs: one-make-one runs: not within 100ms
FAILED  a delete twice is as once: one-make-one runs: not within 100ms
FAILED  a crash within a delete is mended by asking again: at-0-make-at-0 runs: not within 100ms
FAILED  a lost answer to a delete is mended by asking again: one-make-one runs: not within 100ms
noop@1.0.0: 0 hold, 4 are broken, 0 do not apply
";
    assert_eq!(String::from_utf8_lossy(&output.stdout), lines);
    let output = conformance(&["noop", "--only", "fly"])?;
    assert_eq!(String::from_utf8_lossy(&output.stderr), "error: no guarantee says `fly`\n");
    Ok(())
}

#[test]
fn a_deployer_that_is_not_there_is_told_apart() -> Result<()> {
    let output = conformance(&["nothing"])?;
    let complaint = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        complaint.starts_with("error: there is no deployer nothing: there is liar@1.0.0, noop@1.0.0"),
        "{complaint}"
    );
    assert_eq!((output.status.code(), output.stdout.is_empty()), (Some(1), true));
    Ok(())
}

/// It has its own workspace and its own lock file. Its artifacts go beside ours: some of what both need is compiled already.
#[test]
fn a_deployer_from_outside_the_workspace_passes() -> Result<()> {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let target = Path::new(SETPOINT).ancestors().nth(2).context("the binary is in the target folder")?;
    let built = Command::new(cargo)
        .args(["build", "--offline", "--locked", "--target-dir"])
        .arg(target)
        .current_dir(example())
        .output()?;
    ensure!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let proven = Command::new(target.join("debug/folder-deployer")).output()?;
    let said = String::from_utf8_lossy(&proven.stdout);
    ensure!(proven.status.success(), "{said}{}", String::from_utf8_lossy(&proven.stderr));
    assert!(said.contains("ok      a create twice makes one instance\n"), "{said}");
    assert!(said.contains("ok      the split returned is the one recorded and observed\n"), "{said}");
    Ok(())
}

/// What the guide shows is compiled: it stands in the example as it stands there.
#[test]
fn the_guides_code_is_the_examples() -> Result<()> {
    let guide = std::fs::read_to_string(example().join("../../docs/deployers.md"))?;
    let main = std::fs::read_to_string(example().join("src/main.rs"))?;
    let blocks: Vec<&str> = guide.split("```rust\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 2);
    for block in blocks {
        assert!(main.contains(block), "this is not in the example:\n{block}");
    }
    Ok(())
}
