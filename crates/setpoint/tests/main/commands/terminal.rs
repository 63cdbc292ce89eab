//! A person at a terminal, which tmux plays: the prompt, the colours and the live view.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use serde_json::json;
use setpoint_testkit::{Server, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(60);

/// A terminal of its own, which ends with this.
struct Terminal {
    socket: PathBuf,
}

impl Terminal {
    fn open(server: &Server) -> Result<Terminal> {
        let terminal = Terminal { socket: server.folder().join("tmux") };
        let files = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/main/commands/files");
        let kubeconfig = format!("KUBECONFIG={}", server.kubeconfig_path().display());
        let home = format!("HOME={}", server.folder().display());
        terminal.tmux(&[
            "-f",
            "/dev/null",
            "new-session",
            "-d",
            "-x",
            "160",
            "-y",
            "50",
            "-c",
            &files.display().to_string(),
            "-e",
            &kubeconfig,
            "-e",
            &home,
            "-e",
            "NO_COLOR=",
            "-e",
            "PS1=$ ",
            "bash",
            "--norc",
            "--noprofile",
        ])?;
        Ok(terminal)
    }

    fn tmux(&self, arguments: &[&str]) -> Result<String> {
        let output = Command::new("tmux").arg("-S").arg(&self.socket).args(arguments).output();
        let output = output.context("tmux is not installed; ./test installs it")?;
        ensure!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    fn types(&self, line: &str) -> Result<()> {
        self.tmux(&["send-keys", "-l", line])?;
        self.tmux(&["send-keys", "Enter"]).map(|_| ())
    }

    fn clear(&self) -> Result<()> {
        self.tmux(&["send-keys", "-R", "C-l"])?;
        self.tmux(&["clear-history"]).map(|_| ())
    }

    /// What is on the screen; with its colours.
    fn screen(&self, colours: bool) -> Result<String> {
        let form: &[&str] = if colours { &["-e"] } else { &[] };
        self.tmux(&[&["capture-pane", "-p", "-S", "-200"], form].concat())
    }

    async fn shows(&self, text: &str) -> Result<String> {
        let wanted = format!("{text:?} on the screen");
        let seen = wait_for(&wanted, PATIENCE, || {
            let screen = self.screen(false);
            async move { Ok(screen?.contains(text).then_some(())) }
        });
        seen.await.with_context(|| self.screen(false).unwrap_or_default())?;
        self.screen(true)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // There may be none any more.
        let _ = self.tmux(&["kill-server"]);
    }
}

#[tokio::test]
async fn a_person_is_asked_and_sees_the_work_move() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let terminal = Terminal::open(&server)?;
    let setpoint = |arguments: &str| format!("{SETPOINT} {arguments}; echo \"ended with $?\"");

    terminal.types(&setpoint("apply -f slow.yaml"))?;
    let screen = terminal.shows("Apply these changes?").await?;
    ensure!(screen.contains("\u{1b}[32m"), "what is created is green:\n{screen}");
    terminal.types("no")?;
    terminal.shows("nothing was changed").await?;
    terminal.shows("ended with 2").await?;

    terminal.clear()?;
    terminal.types(&setpoint("apply -f slow.yaml"))?;
    terminal.shows("Apply these changes?").await?;
    terminal.types("yes")?;
    // The live view shows what is under way, and then what came of it, on the same line.
    terminal.shows("default/slow: run").await?;
    terminal.shows("Applied: 2 created").await?;
    let screen = terminal.shows("ended with 0").await?;
    ensure!(!screen.contains("under way"), "what is over is not under way:\n{screen}");

    terminal.clear()?;
    terminal.types(&format!("NO_COLOR=1 {}", setpoint("plan -f slow.yaml")))?;
    let screen = terminal.shows("Nothing to do.").await?;
    ensure!(!screen.contains("\u{1b}["), "NO_COLOR takes the colours away:\n{screen}");
    Ok(())
}

#[tokio::test]
async fn a_yes_is_for_what_was_shown_alone() -> Result<()> {
    let server = Server::start(SETPOINT).await?;
    let terminal = Terminal::open(&server)?;
    let setpoint = |arguments: &str| format!("{SETPOINT} {arguments}; echo \"ended with $?\"");
    terminal.types(&setpoint("apply -y -f lab.yaml -f shop.yaml"))?;
    terminal.shows("ended with 0").await?;

    terminal.clear()?;
    terminal.types("sed -e s/postgres-17/postgres-18/ shop.yaml > $HOME/newer.yaml")?;
    terminal.types(&setpoint("apply -f $HOME/newer.yaml"))?;
    terminal.shows("Apply these changes?").await?;
    let (group, mut client) = ("/apis/setpoint.dev/v1alpha1/namespaces/default", server.client()?);
    let db = format!("{group}/machines/db");
    client.patch(&db, "merge-patch", &json!({"spec": {"description": "for others"}})).await?.success()?;
    terminal.types("yes")?;
    terminal.shows("default/db was changed by somebody else since the plan was shown").await?;
    terminal.shows("ended with 1").await?;
    let machine = client.get(&db).await?.success()?;
    ensure!(machine["spec"]["image"] == "postgres-17", "nothing is written: {machine:#}");
    let sets = client.get(&format!("{group}/changesets")).await?.success()?;
    ensure!(sets["items"] == json!([]), "nobody is asked for it: {sets:#}");
    Ok(())
}
