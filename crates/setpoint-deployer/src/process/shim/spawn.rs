//! Starts a run of a container: its control group, its log, its input and output, and the launcher that becomes it.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Container;
use parking_lot::Mutex;
use rustix::fs::{FileType, Mode};
use rustix::pty::OpenptFlags;
use setpoint_core::pod::arguments;
use setpoint_core::pod::limits::ProcessBytes;
use setpoint_core::pod::supervisor::RunKey;
use tokio::io::AsyncReadExt;
use tokio::net::unix::pipe;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::attach::Joint;
use super::capture::{capture, feed};
use super::log_file::{LogFile, Stream};
use super::{Event, Process, Report};
use crate::process::cgroup::{Cgroup, Limits, Unlimited};
use crate::process::launch::{self, Settings};
use crate::process::order::InstanceOrder;
use crate::process::process_table::Identity;
use crate::process::{beneath, termination_log};

/// The binary that we are ourselves, also if its file has been replaced since.
pub(super) const OWN_EXECUTABLE: &str = "/proc/self/exe";

/// The most that a launcher may say of why it failed.
const MAX_REPORT_BYTES: u64 = 4096;

/// How much input may wait for a container.
const WAITING_INPUTS: usize = 8;

/// Where containers of an instance are started.
pub(super) struct Spawner {
    pub(super) folder: PathBuf,
    pub(super) order: InstanceOrder,
    pub(super) events: mpsc::Sender<Event>,
}

/// What was started, and the limits that are not in force.
pub(super) struct Spawned {
    pub(super) process: Process,
    pub(super) unlimited: Vec<Unlimited>,
}

/// Both ends of what a container reads and writes.
struct Pipes {
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
    input: Option<OwnedFd>,
    outputs: Vec<(Stream, OwnedFd)>,
    terminal: Option<OwnedFd>,
}

impl Spawner {
    pub(super) fn container_folder(&self, container: &str) -> PathBuf {
        self.folder.join("containers").join(container)
    }

    pub(super) fn log_folder(&self, container: &str) -> PathBuf {
        self.folder.join("logs").join(container)
    }

    pub(super) fn spawn(&self, key: RunKey, container: &Container, joint: &Joint) -> io::Result<Spawned> {
        let (name, place) = (&container.name, self.place()?);
        let variables = launch::variables(&self.order, &place, name);
        let arguments = command_line(container, &variables)?;
        let log = LogFile::begin(&self.log_folder(name), key.run, self.order.log_limits)?;
        let (report, receiver) = self.open_report(name)?;
        termination_log::begin(&self.folder, name)?;
        let has_terminal = container.tty == Some(true);
        let pipes = if has_terminal { Pipes::terminal() } else { Pipes::plain(container.stdin == Some(true)) }?;

        let limits = Limits::of(container);
        let made = Cgroup::make(&format!("setpoint-{}-{name}", self.order.public_id()), limits);
        let is_unlimited = made.unlimited.iter().any(|unlimited| unlimited.resource == "memory");
        let settings = Settings {
            report: Some(report),
            parent: Some(std::process::id()),
            cgroups: made.cgroup.as_ref().map(Cgroup::join_files).unwrap_or_default(),
            has_terminal,
            max_address_bytes: limits.memory_bytes.filter(|_| is_unlimited),
            ..Settings::of(&self.order, &place, container)
        };
        let mut command = settings.command(Path::new(OWN_EXECUTABLE), &arguments, &variables)?;
        command.stdin(pipes.stdin).stdout(pipes.stdout).stderr(pipes.stderr);
        let spawned = command.spawn();
        // What the child has of these is its own; ours must not keep its output open.
        drop(command);
        let child = match spawned {
            Ok(child) => child,
            Err(error) => {
                if let Some(cgroup) = &made.cgroup {
                    cgroup.remove()?;
                }
                return Err(error);
            }
        };
        self.await_report(key, receiver);
        self.connect(joint, pipes.input, pipes.terminal);
        let output = self.capture(log, pipes.outputs, joint);
        let process = Process {
            key,
            identity: Identity::of(child.id())?,
            cgroup: made.cgroup,
            root: settings.root,
            report: Report::Awaited,
            status: None,
            ended_at: None,
            is_to_die: false,
            output,
        };
        Ok(Spawned { process, unlimited: made.unlimited })
    }

    /// The whole path of the folder, as it is now.
    pub(super) fn place(&self) -> io::Result<PathBuf> {
        fs::canonicalize(&self.folder)
    }

    fn open_report(&self, container: &str) -> io::Result<(PathBuf, pipe::Receiver)> {
        let path = self.container_folder(container).join("started");
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        rustix::fs::mkfifoat(rustix::fs::CWD, &path, Mode::RUSR | Mode::WUSR)?;
        let fifo = beneath::handle(&path, 3, FileType::Fifo)?;
        let receiver = pipe::OpenOptions::new().open_receiver(format!("/proc/self/fd/{}", fifo.as_raw_fd()))?;
        Ok((path, receiver))
    }

    /// Waits until the launcher has become the command, or has said why not.
    fn await_report(&self, key: RunKey, receiver: pipe::Receiver) {
        let events = self.events.clone();
        tokio::spawn(async move {
            let mut said = Vec::new();
            let read = receiver.take(MAX_REPORT_BYTES).read_to_end(&mut said).await;
            let failure = match read {
                Ok(_) if said.is_empty() => None,
                Ok(_) => Some(String::from_utf8_lossy(&said).into_owned()),
                Err(error) => Some(error.to_string()),
            };
            // Nobody listens any more when the shim ends.
            let _ = events.send(Event::Reported(key, failure)).await;
        });
    }

    fn connect(&self, joint: &Joint, input: Option<OwnedFd>, terminal: Option<OwnedFd>) {
        *joint.terminal.lock() = terminal;
        *joint.input.lock() = input.map(|input| {
            let (sender, receiver) = mpsc::channel(WAITING_INPUTS);
            tokio::spawn(feed(input, receiver));
            sender
        });
    }

    fn capture(&self, log: LogFile, outputs: Vec<(Stream, OwnedFd)>, joint: &Joint) -> Vec<JoinHandle<()>> {
        let log = Arc::new(Mutex::new(log));
        let start = |(stream, output)| {
            let (log, attachers, events) = (log.clone(), joint.attachers.clone(), self.events.clone());
            tokio::spawn(async move {
                capture(stream, output, log, attachers).await;
                let _ = events.send(Event::OutputEnded).await;
            })
        };
        outputs.into_iter().map(start).collect()
    }
}

impl Pipes {
    fn plain(has_input: bool) -> io::Result<Pipes> {
        let (stdin, input) = match has_input {
            true => {
                let (read, write) = io::pipe()?;
                (Stdio::from(read), Some(write.into()))
            }
            false => (Stdio::null(), None),
        };
        let (output, stdout) = io::pipe()?;
        let (errors, stderr) = io::pipe()?;
        let outputs = vec![(Stream::Output, output.into()), (Stream::Errors, errors.into())];
        Ok(Pipes { stdin, stdout: stdout.into(), stderr: stderr.into(), input, outputs, terminal: None })
    }

    fn terminal() -> io::Result<Pipes> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&controller)?;
        rustix::pty::unlockpt(&controller)?;
        let terminal = rustix::pty::ioctl_tiocgptpeer(&controller, flags)?;
        Ok(Pipes {
            stdin: terminal.try_clone()?.into(),
            stdout: terminal.try_clone()?.into(),
            stderr: terminal.into(),
            input: Some(controller.try_clone()?),
            terminal: Some(controller.try_clone()?),
            outputs: vec![(Stream::Output, controller)],
        })
    }
}

/// The command with its arguments, and the values of variables in it.
fn command_line(container: &Container, variables: &BTreeMap<String, String>) -> io::Result<Vec<String>> {
    if container.command.as_deref().unwrap_or_default().is_empty() {
        let message = "a container that runs as a process needs a `command`: there is no image to take one from";
        return Err(io::Error::new(io::ErrorKind::InvalidInput, message));
    }
    let mut bytes = ProcessBytes::of_variables(variables);
    let resolved = arguments::resolve(container, &mut bytes, |name| variables.get(name).map(String::as_str));
    resolved.map_err(io::Error::other)
}
