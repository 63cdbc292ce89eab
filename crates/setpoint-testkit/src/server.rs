//! A real `setpoint` process in a folder of its own.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Output, Stdio};
use std::time::Duration;

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::client::Client;
use crate::kubeconfig::Kubeconfig;
use crate::kubectl::Kubectl;
use crate::process_table;
use crate::wait::wait_for;

/// A machine that compiles or runs other tests meanwhile may take long; a healthy start takes a tenth of a second.
const START_DEADLINE: Duration = Duration::from_secs(60);
const STOP_DEADLINE: Duration = Duration::from_secs(30);

/// A server process on a free port. It is killed, and its folder removed, when this is dropped.
#[derive(Debug)]
pub struct Server {
    program: PathBuf,
    options: Vec<String>,
    environment: Vec<(String, String)>,
    runs_pods: bool,
    folder: TempDir,
    process: Option<Child>,
}

impl Server {
    /// Starts a server on the embedded store and waits until it is ready.
    ///
    /// `program` is the binary under test, `env!("CARGO_BIN_EXE_setpoint")` in its own tests.
    pub async fn start(program: impl Into<PathBuf>) -> Result<Self> {
        Self::start_with(program, &["--store", "embedded"]).await
    }

    /// Starts a server with these options besides its data folder and address, and waits until it is ready.
    pub async fn start_with(program: impl Into<PathBuf>, options: &[&str]) -> Result<Self> {
        let mut server = Self::new(program, options)?;
        server.restart().await?;
        Ok(server)
    }

    /// Starts a server on the embedded store that runs Pods on this machine, and waits until it is ready.
    pub async fn start_with_local_node(program: impl Into<PathBuf>) -> Result<Self> {
        let mut server = Self::new(program, &["--store", "embedded"])?.running_pods();
        server.restart().await?;
        Ok(server)
    }

    /// A server that has not been started.
    pub fn new(program: impl Into<PathBuf>, options: &[&str]) -> Result<Self> {
        let folder = tempfile::Builder::new().prefix("setpoint-").tempdir()?;
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Ok(Self { program: program.into(), options, environment: Vec::new(), runs_pods: false, folder, process: None })
    }

    /// The same server with a variable in its environment, from its next start on.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// The same server with this machine as its node `local`, from its next start on. Without this, Pods stay unbound.
    #[must_use]
    pub fn running_pods(mut self) -> Self {
        self.runs_pods = true;
        self
    }

    /// Starts the process and returns at once, ready or not.
    pub fn spawn(&mut self) -> Result<()> {
        self.kill9()?;
        let log = File::options().create(true).append(true).open(self.log_path())?;
        let process = self
            .command()
            .stdin(Stdio::null())
            .stdout(File::create(self.stdout_path())?)
            .stderr(log)
            .spawn()
            .with_context(|| format!("cannot start {}", self.program.display()))?;
        self.process = Some(process);
        Ok(())
    }

    /// The command that starts this server.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.args(["up", "--listen", "127.0.0.1:0", "--data-dir"]).arg(self.data_dir()).args(&self.options);
        if !self.runs_pods {
            command.arg("--no-local");
        }
        command.envs(self.environment.iter().map(|(name, value)| (name, value)));
        command
    }

    /// Waits until the process that was spawned last serves requests.
    pub async fn ready(&mut self) -> Result<()> {
        let (stdout, kubeconfig) = (self.stdout_path(), self.kubeconfig_path());
        let process = self.process.as_mut().context("the server was not started")?;
        let mut exited = || process.try_wait();
        let started = wait_for("the server to become ready", START_DEADLINE, || {
            let exit = exited();
            let (stdout, kubeconfig) = (&stdout, &kubeconfig);
            async move {
                if let Some(status) = exit? {
                    bail!("the server ended before it was ready: {status}");
                }
                Ok(is_ready(stdout, kubeconfig).await.then_some(()))
            }
        });
        started.await.with_context(|| self.log())
    }

    /// Kills the process if it runs, and starts it again on the same folder.
    pub async fn restart(&mut self) -> Result<()> {
        self.spawn()?;
        self.ready().await
    }

    /// Ends the process with SIGKILL: it gets no chance to do anything.
    pub fn kill9(&mut self) -> Result<()> {
        if let Some(mut process) = self.process.take() {
            process.kill()?;
            process.wait()?;
        }
        Ok(())
    }

    /// Asks the process to end with SIGTERM and waits until it has.
    pub async fn terminate(&mut self) -> Result<ExitStatus> {
        let mut process = self.process.take().context("the server does not run")?;
        kill_process(Pid::from_child(&process), Signal::TERM)?;
        let status = wait_for("the server to end", STOP_DEADLINE, || {
            let exit = process.try_wait();
            async move { Ok(exit?) }
        });
        let status = status.await;
        if status.is_err() {
            process.kill()?;
            process.wait()?;
        }
        status
    }

    pub fn pid(&self) -> Result<u32> {
        Ok(self.process.as_ref().context("the server does not run")?.id())
    }

    /// How much memory the process has, in bytes.
    pub fn memory(&self) -> Result<u64> {
        self.memory_line("VmRSS:")
    }

    /// The most memory that the process had since its start, in bytes.
    pub fn peak_memory(&self) -> Result<u64> {
        self.memory_line("VmHWM:")
    }

    fn memory_line(&self, name: &str) -> Result<u64> {
        let path = format!("/proc/{}/status", self.pid()?);
        let status = fs::read_to_string(&path).with_context(|| format!("cannot read {path}"))?;
        let line = status.lines().find_map(|line| line.strip_prefix(name)).with_context(|| format!("no {name}"))?;
        let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
        Ok(kib * 1024)
    }

    pub fn data_dir(&self) -> PathBuf {
        self.folder.path().join("data")
    }

    /// A folder for files of the test, removed with the server.
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub fn kubeconfig_path(&self) -> PathBuf {
        self.data_dir().join("kubeconfig")
    }

    pub fn kubeconfig(&self) -> Result<Kubeconfig> {
        Kubeconfig::read(&self.kubeconfig_path())
    }

    /// A new connection to the server.
    pub fn client(&self) -> Result<Client> {
        Client::new(&self.kubeconfig()?)
    }

    /// Runs the newest kubectl against this server.
    pub fn kubectl<S: AsRef<OsStr>>(&self, arguments: &[S]) -> Result<Output> {
        Kubectl::newest()?.run(&self.kubeconfig_path(), self.folder.path(), arguments)
    }

    /// What the process printed for its user since its last start.
    pub fn stdout(&self) -> String {
        fs::read_to_string(self.stdout_path()).unwrap_or_default()
    }

    /// What all the processes of this server have logged.
    pub fn log(&self) -> String {
        String::from_utf8_lossy(&fs::read(self.log_path()).unwrap_or_default()).into_owned()
    }

    fn stdout_path(&self) -> PathBuf {
        self.folder.path().join("stdout")
    }

    fn log_path(&self) -> PathBuf {
        self.folder.path().join("log")
    }
}

/// The kubeconfig of an earlier start may still lie in the folder, so the printed address decides.
async fn is_ready(stdout: &Path, kubeconfig: &Path) -> bool {
    let Ok(printed) = fs::read_to_string(stdout) else { return false };
    let Ok(kubeconfig) = Kubeconfig::read(kubeconfig) else { return false };
    if !printed.contains(&kubeconfig.address()) {
        return false;
    }
    let Ok(mut client) = Client::new(&kubeconfig) else { return false };
    client.get("/readyz").await.is_ok_and(|answer| answer.status.is_success())
}

impl Drop for Server {
    fn drop(&mut self) {
        // Nothing can be done about a process that cannot be killed.
        let _ = self.kill9();
        if self.runs_pods {
            // Pods outlive their control plane, and must not outlive the test.
            let _ = process_table::end_all_of(&self.data_dir());
        }
        if std::thread::panicking() {
            show_log(&self.log());
        }
    }
}

#[expect(clippy::print_stderr, reason = "a failed test shows what its server said")]
fn show_log(log: &str) {
    const LINES: usize = 60;
    let skip = log.lines().count().saturating_sub(LINES);
    eprintln!("--- the server's log, last {LINES} lines");
    log.lines().skip(skip).for_each(|line| eprintln!("{line}"));
}
