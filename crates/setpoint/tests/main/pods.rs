//! What a person does with a Pod on this machine, with a real kubectl: follow it, enter it, talk to it, copy files, end it.

use std::io::{BufRead, BufReader, Write as _};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use setpoint_testkit::kubectl::Version;
use setpoint_testkit::{Kubectl, Server, process_table, wait_for};

use crate::SETPOINT;

const PATIENCE: Duration = Duration::from_secs(60);
/// The first that speaks WebSockets by itself.
const WEBSOCKETS: Version = Version { major: 1, minor: 31 };

struct Machine {
    server: Server,
    kubectl: Kubectl,
}

impl Machine {
    /// `None`, said aloud, where there is no kubectl that can do all this.
    async fn start() -> Result<Option<Machine>> {
        let kubectl = Kubectl::newest()?;
        if kubectl.version < WEBSOCKETS {
            println!(
                "NOTE: kubectl {} cannot run commands over WebSockets: this test needs {WEBSOCKETS}",
                kubectl.version
            );
            return Ok(None);
        }
        Ok(Some(Machine { server: Server::start_with_local_node(SETPOINT).await?, kubectl }))
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = self.kubectl.command(&self.server.kubeconfig_path(), self.server.folder());
        command.args(arguments).current_dir(self.server.folder());
        command
    }

    fn run(&self, arguments: &[&str]) -> Result<Output> {
        self.command(arguments).output().context("cannot run kubectl")
    }

    /// What it printed, if it succeeded.
    fn says(&self, arguments: &[&str]) -> Result<String> {
        let output = self.run(arguments)?;
        let errors = String::from_utf8_lossy(&output.stderr).into_owned();
        ensure!(output.status.success(), "{arguments:?}: {errors}");
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    async fn apply(&self, pod: &Value) -> Result<()> {
        let namespace = pod["metadata"]["namespace"].as_str().unwrap_or("default");
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        self.server.client()?.post(&path, pod).await?.success()?;
        let name = pod["metadata"]["name"].as_str().context("a name")?;
        self.says(&[
            "wait",
            "--namespace",
            namespace,
            "--for=condition=Ready",
            &format!("pod/{name}"),
            "--timeout=60s",
        ])?;
        Ok(())
    }
}

/// A kubectl that goes on until it is told to end, or the test does.
struct Going(Child);

impl Drop for Going {
    fn drop(&mut self) {
        // It may have ended by itself.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn echo(name: &str, word: &str) -> Value {
    let script = format!(": {word}; echo ready; while read line; do echo \"got $line\"; done; exec sleep 100000");
    json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": name},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{"name": "echo", "stdin": true, "command": ["sh", "-c", script]}],
        },
    })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_person_follows_enters_and_ends_a_pod() -> Result<()> {
    let Some(machine) = Machine::start().await? else { return Ok(()) };
    machine.apply(&echo("echo", "person")).await?;

    let mut follow = Going(machine.command(&["logs", "--follow", "echo"]).stdout(Stdio::piped()).spawn()?);
    let mut heard = BufReader::new(follow.0.stdout.take().context("its output")?).lines();
    assert_eq!(heard.next().context("nothing was followed")??, "ready");

    let mut attached =
        machine.command(&["attach", "--stdin", "echo"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = attached.stdin.take().context("its input")?;
    let attached = &mut Going(attached);
    input.write_all(b"hello\n")?;
    let mut answers = BufReader::new(attached.0.stdout.take().context("its output")?).lines();
    let answer = answers.find(|line| line.as_ref().map_or(true, |line| line.starts_with("got")));
    assert_eq!(answer.context("no answer")??, "got hello", "what is typed arrives");
    assert_eq!(heard.next().context("no more was followed")??, "got hello", "and is in the log");

    let output = machine.run(&["exec", "echo", "--", "sh", "-c", "echo out; echo err >&2; exit 7"])?;
    assert_eq!(String::from_utf8_lossy(&output.stdout), "out\n");
    assert!(String::from_utf8_lossy(&output.stderr).starts_with("err\n"), "{output:?}");
    assert_eq!(output.status.code(), Some(7));

    let kubectl = machine.kubectl.program.display();
    let terminal = Command::new("script")
        .args(["--quiet", "--return", "--command"])
        .arg(format!("{kubectl} exec -it echo -- sh -c 'tty; test -t 0 && test -t 1'"))
        .arg("/dev/null")
        .env("KUBECONFIG", machine.server.kubeconfig_path())
        .env("HOME", machine.server.folder())
        .stdin(Stdio::null())
        .output()
        .context("cannot run script, of Debian's bsdutils")?;
    let said = String::from_utf8_lossy(&terminal.stdout).into_owned();
    assert!(terminal.status.success() && said.contains("/dev/pts/"), "a terminal: {said}");

    let content = "x".repeat(300_000);
    std::fs::write(machine.server.folder().join("there"), &content)?;
    machine.says(&["cp", "there", "echo:copied"])?;
    machine.says(&["cp", "echo:copied", "back"])?;
    assert!(std::fs::read_to_string(machine.server.folder().join("back"))? == content, "it comes back as it was");

    machine.says(&["delete", "pod", "echo"])?;
    assert!(heard.next().is_none(), "who follows is told of the end");
    assert!(process_table::commanded(": person;")?.is_empty(), "nothing of it is left");
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_namespace_goes_with_the_pods_that_run_in_it() -> Result<()> {
    let Some(machine) = Machine::start().await? else { return Ok(()) };
    machine.says(&["create", "namespace", "lab"])?;
    let mut pod = echo("echo", "namespace");
    pod["metadata"]["namespace"] = "lab".into();
    machine.apply(&pod).await?;
    machine.says(&["delete", "namespace", "lab", "--timeout=60s"])?;
    wait_for("its processes to end", PATIENCE, || async {
        Ok(process_table::commanded(": namespace;")?.is_empty().then_some(()))
    })
    .await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_exec_left_running_ends_with_the_pod() -> Result<()> {
    let Some(machine) = Machine::start().await? else { return Ok(()) };
    machine.apply(&echo("echo", "leftover")).await?;
    let seconds = 200_000 + u64::from(std::process::id());
    let daemon = format!("setsid sleep {seconds} >/dev/null 2>&1 &");
    machine.says(&["exec", "echo", "--", "sh", "-c", &daemon])?;
    machine.says(&["delete", "pod", "echo"])?;
    wait_for("it to end", PATIENCE, || async {
        Ok(process_table::commanded(&format!("sleep {seconds}"))?.is_empty().then_some(()))
    })
    .await
}
