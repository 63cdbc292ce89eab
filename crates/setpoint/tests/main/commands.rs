//! The commands through the real binary: golden scripts, and a person at a terminal.
//!
//! A text in `commands/` is a script as in `kubectl/`, run in `commands/files` against a server of its own with a simulated
//! environment. `$DATA` is the server's data folder.

mod terminal;

use std::fs;
use std::path::Path;

use anyhow::{Result, bail};
use setpoint_testkit::{Kubectl, Server};

use crate::SETPOINT;
use crate::kubectl::Shell;
use crate::kubectl::script::{Part, Script};

#[tokio::test]
async fn every_command_tells_how_it_is_used() -> Result<()> {
    follow("help.txt", &Server::new(SETPOINT, &[])?)
}

#[tokio::test]
async fn machines_are_planned_applied_changed_and_destroyed() -> Result<()> {
    follow("machines.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn what_disappears_from_a_set_of_files_is_deleted() -> Result<()> {
    follow("sets.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn what_there_is_no_room_for_is_shown() -> Result<()> {
    follow("limits.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn people_approve_and_reject() -> Result<()> {
    follow("reviews.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn what_was_rejected_takes_nothing_with_it() -> Result<()> {
    follow("rejections.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn guests_of_others_are_imported() -> Result<()> {
    follow("imports.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn what_drifted_is_told_until_somebody_agrees_to_correct_it() -> Result<()> {
    follow("drifts.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn our_kinds_can_be_defined_elsewhere() -> Result<()> {
    follow("definitions.txt", &Server::new(SETPOINT, &[])?)
}

#[tokio::test]
async fn mistakes_are_told_with_their_cause() -> Result<()> {
    follow("mistakes.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn what_others_do_meanwhile_is_told() -> Result<()> {
    follow("meanwhile.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn without_a_server_the_work_is_done_in_process() -> Result<()> {
    follow("in_process.txt", &Server::new(SETPOINT, &[])?)
}

/// Runs a script and compares what its commands print.
fn follow(name: &str, server: &Server) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/commands");
    let golden = folder.join(name);
    let mut script = Script::parse(&fs::read_to_string(&golden)?)?;
    let shell = Shell::new(server, &Kubectl::newest()?, folder.join("files"))?;
    let mut differences = String::new();
    for part in &mut script.parts {
        let Part::Step { command, transcript: expected, .. } = part else { continue };
        let actual = shell.run(command)?;
        if actual != *expected {
            differences += &format!("$ {command}\n--- expected\n{expected}--- actual\n{actual}\n");
        }
        *expected = actual;
    }
    if std::env::var_os("SETPOINT_UPDATE_GOLDEN").is_some() {
        return Ok(fs::write(golden, script.to_string())?);
    }
    if !differences.is_empty() {
        bail!("the commands say something else (SETPOINT_UPDATE_GOLDEN=1 accepts it):\n{differences}");
    }
    Ok(())
}
