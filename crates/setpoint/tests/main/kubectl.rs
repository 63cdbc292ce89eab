//! Drives the server with kubectl through golden scripts.
//!
//! A text in `kubectl/` holds commands and what they print. Of its lines, `$` is a command for the shell, run in the
//! folder `kubectl/files`; `|` is its output, `!` its errors, `=` its exit code if it is not 0; `@` is the oldest
//! kubectl that can run the next command; the rest is prose. `SETPOINT_UPDATE_GOLDEN=1` writes the texts anew.
//!
//! Other releases of kubectl word things differently: with a kubectl that the texts were not written with, only exit
//! codes are compared, and commands that it does not have yet are left out.

pub(crate) mod filter;
pub(crate) mod script;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use setpoint_testkit::kubectl::Version;
use setpoint_testkit::{Kubectl, Server};

use self::filter::Filter;
use self::script::{Part, Script, Transcript};
use crate::SETPOINT;

/// The kubectl that the golden scripts were written with.
const WRITTEN_WITH: Version = Version { major: 1, minor: 33 };

#[tokio::test]
async fn kubectl_follows_the_golden_script() -> Result<()> {
    follow("golden.txt").await
}

#[tokio::test]
async fn kubectl_applies_on_the_server() -> Result<()> {
    follow("apply.txt").await
}

#[tokio::test]
async fn kubectl_defines_and_uses_custom_resources() -> Result<()> {
    follow("custom_resources.txt").await
}

#[tokio::test]
async fn kubectl_deletes_with_each_cascade() -> Result<()> {
    follow("deletion.txt").await
}

#[tokio::test]
async fn kubectl_tells_who_may_do_what() -> Result<()> {
    follow("identity.txt").await
}

#[tokio::test]
async fn what_kubectl_changed_can_be_told() -> Result<()> {
    follow("history.txt").await
}

#[tokio::test]
async fn kubectl_runs_a_pod_as_on_kubernetes() -> Result<()> {
    let mut server = Server::new(SETPOINT, &["--store", "embedded"])?.running_pods();
    server.restart().await?;
    follow_on("pods.txt", &server)
}

#[tokio::test]
async fn kubectl_declares_a_place_fills_it_and_takes_it_away() -> Result<()> {
    let mut server = Server::new(SETPOINT, &["--store", "embedded"])?.running_pods();
    server.restart().await?;
    follow_on("environments.txt", &server)
}

#[tokio::test]
async fn kubectl_rolls_out_a_deployment_of_processes() -> Result<()> {
    follow_on("workloads.txt", &Server::start_with_local_node(SETPOINT).await?)
}

#[tokio::test]
async fn kubectl_runs_jobs_of_all_sorts() -> Result<()> {
    follow_on("jobs.txt", &Server::start_with_local_node(SETPOINT).await?)
}

#[tokio::test]
async fn kubectl_sees_who_is_behind_a_service() -> Result<()> {
    follow_on("services.txt", &Server::start_with_local_node(SETPOINT).await?)
}

#[tokio::test]
async fn kubectl_sees_which_plan_serves_a_goal() -> Result<()> {
    follow_on("goals.txt", &Server::start(SETPOINT).await?)
}

#[tokio::test]
async fn kubectl_asks_people_before_a_machine_loses_data() -> Result<()> {
    follow_on("machines.txt", &Server::start(SETPOINT).await?)
}

/// Runs a script on a server of its own, on which nobody else acts, and compares what its commands print.
async fn follow(name: &str) -> Result<()> {
    follow_on(name, &Server::start_with(SETPOINT, &["--store", "embedded", "--no-controllers"]).await?)
}

fn follow_on(name: &str, server: &Server) -> Result<()> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/kubectl");
    let golden = folder.join(name);
    let mut script = Script::parse(&fs::read_to_string(&golden)?)?;
    let kubectl = Kubectl::newest()?;
    let shell = Shell::new(server, &kubectl, folder.join("files"))?;

    let mut differences = String::new();
    for part in &mut script.parts {
        let Part::Step { since, command, transcript: expected } = part else { continue };
        if since.is_some_and(|since| since > kubectl.version) {
            println!("NOTE: kubectl {} is too old for: {command}", kubectl.version);
            continue;
        }
        let actual = shell.run(command)?;
        let same = if kubectl.version == WRITTEN_WITH { actual == *expected } else { actual.code == expected.code };
        if !same {
            differences += &format!("$ {command}\n--- expected\n{expected}--- actual\n{actual}\n");
        }
        *expected = actual;
    }

    if kubectl.version != WRITTEN_WITH {
        println!("NOTE: kubectl is {}, not {WRITTEN_WITH}: only exit codes were compared", kubectl.version);
    } else if std::env::var_os("SETPOINT_UPDATE_GOLDEN").is_some() {
        return Ok(fs::write(golden, script.to_string())?);
    }
    if !differences.is_empty() {
        bail!("kubectl sees something else (SETPOINT_UPDATE_GOLDEN=1 accepts it):\n{differences}");
    }
    Ok(())
}

/// Runs commands as a user of the server would.
pub(crate) struct Shell {
    files: PathBuf,
    home: PathBuf,
    path: String,
    kubeconfig: PathBuf,
    filter: Filter,
}

impl Shell {
    pub(crate) fn new(server: &Server, kubectl: &Kubectl, files: PathBuf) -> Result<Self> {
        let home = server.folder().join("home");
        let programs = home.join("bin");
        fs::create_dir_all(&programs)?;
        symlink(&kubectl.program, programs.join("kubectl"))?;
        symlink(SETPOINT, programs.join("setpoint"))?;
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").context("PATH")?);
        let kubeconfig = server.kubeconfig_path();
        Ok(Self { files, home, path, kubeconfig, filter: Filter::new()? })
    }

    pub(crate) fn run(&self, command: &str) -> Result<Transcript> {
        let output = Command::new("bash")
            .args(["-c", command])
            .current_dir(&self.files)
            .env_clear()
            .env("PATH", &self.path)
            .env("HOME", &self.home)
            .env("KUBECONFIG", &self.kubeconfig)
            .env("DATA", self.home.with_file_name("data"))
            .env("TZ", "UTC")
            .output()?;
        Ok(Transcript {
            stdout: self.filter.apply(&String::from_utf8_lossy(&output.stdout)),
            stderr: self.filter.apply(&String::from_utf8_lossy(&output.stderr)),
            code: output.status.code().context("the shell was killed")?,
        })
    }
}
