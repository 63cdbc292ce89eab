//! `setpoint dev simulate`: no seed breaks a rule, and each is the same twice.

use std::process::{Command, Output};

use anyhow::Result;

use crate::SETPOINT;

fn simulate(arguments: &[&str]) -> Result<Output> {
    Ok(Command::new(SETPOINT).args(["dev", "simulate"]).args(arguments).output()?)
}

fn succeeds(arguments: &[&str]) -> Result<String> {
    let output = simulate(arguments)?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    Ok(said)
}

#[test]
fn no_seed_of_300_breaks_a_rule() -> Result<()> {
    let said = succeeds(&["--seeds", "300"])?;
    assert!(said.starts_with("300 seeds, 0 failed, "), "{said}");
    Ok(())
}

#[test]
fn a_seed_is_the_same_twice_also_in_another_process() -> Result<()> {
    succeeds(&["--seeds", "12", "--check"])?;
    let steps = |seed: &str| succeeds(&["--seed", seed, "--verbose"]);
    let (first, second) = (steps("7")?, steps("7")?);
    let without_speed = |said: &str| said.rsplit_once(", ").map(|(said, _)| said.to_owned());
    assert_eq!(without_speed(&first), without_speed(&second));
    assert!(first.lines().count() > 500, "every step has a line:\n{first}");
    assert_ne!(without_speed(&first), without_speed(&steps("8")?), "another seed is another story");
    Ok(())
}
