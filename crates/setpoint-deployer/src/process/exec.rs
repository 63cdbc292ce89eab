//! Runs commands beside a container's own, with its variables, its folder and its limits.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use rustix::process::Signal;
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcsetwinsize};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, watch};

use super::cgroup::Cgroup;
use super::launch;
use super::order_file;
use super::process_table;
use super::provider::{Place, ProcessProvider, fault};
use super::record::{self, STATE, StateRecord};
use super::shim_process::Process;
use super::verbs::blocking;
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::Answer;
use crate::session::{Command, CommandExit, Exec, Terminal, TerminalSize};

/// How long a command that has ended is still listened to if somebody else holds on to its output.
const LAST_WORDS: Duration = Duration::from_secs(1);

const BLOCK_BYTES: usize = 16 << 10;

/// The variable that all processes of one command have, each command another.
const TOKEN: &str = "SETPOINT_COMMAND";

/// How often what is left of a command is looked for: what begins more and more must not keep us for ever.
const MAX_ROUNDS: usize = 100;

/// What a terminal takes for the end of the input.
const END_OF_INPUT: u8 = 4;

impl Exec for ProcessProvider {
    fn exec<'a>(
        &'a self,
        id: &'a str,
        container: &'a str,
        command: Command,
        terminal: Terminal,
    ) -> Answer<'a, CommandExit> {
        Box::pin(async move {
            self.place.running(Operation::Exec, id, container)?;
            let failed = |error: io::Error| fault(Operation::Exec, id, &error);
            if command.arguments.first().is_none_or(String::is_empty) {
                return Err(Error::field(id, "command", "say what is to run"));
            }
            if command.arguments.iter().any(|argument| argument.contains('\0')) {
                return Err(Error::field(id, "command", "no text may hold a NUL"));
            }
            let preparation = Preparation {
                executable: self.place.settings.executable.clone(),
                folder: self.place.folder(id),
                container: container.to_owned(),
                command,
                takes_input: terminal.input.is_some(),
            };
            let id = id.to_owned();
            let started = blocking(move || preparation.start().map_err(|error| fault(Operation::Exec, &id, &error)));
            started.await?.run(terminal).await.map_err(failed)
        })
    }

    fn attach<'a>(&'a self, id: &'a str, container: &'a str, terminal: Terminal) -> Answer<'a, CommandExit> {
        Box::pin(async move {
            self.place.running(Operation::Attach, id, container)?;
            let folder = self.place.folder(id);
            let joined = super::attach::join(&folder, container, terminal).await;
            joined.map_err(|error| fault(Operation::Attach, id, &error))
        })
    }
}

impl Place {
    /// Whether a container runs, so that something can be run in it.
    fn running(&self, operation: Operation, id: &str, container: &str) -> Result<()> {
        let refused = |fault: Fault, why: String| Error::provider(operation, id, fault, why);
        let found = self.ours(operation, id)?.ok_or_else(|| refused(Fault::NotFound, String::new()))?;
        let state = found.state.as_ref().and_then(|state| state.container(container));
        let pod = &*found.pod_name;
        match state {
            None => Err(refused(Fault::Refused, format!("container {container:?} in pod {pod:?} is not available"))),
            Some(state) if found.shim.is_some() && state.is_running() => Ok(()),
            Some(_) => Err(refused(Fault::Refused, format!("container {container:?} in pod {pod:?} is not running"))),
        }
    }
}

/// All that is needed to start a command.
struct Preparation {
    executable: PathBuf,
    folder: PathBuf,
    container: String,
    command: Command,
    takes_input: bool,
}

impl Preparation {
    fn start(self) -> io::Result<Started> {
        let gone = || io::Error::new(io::ErrorKind::NotFound, "it has just been removed");
        let order = order_file::read_with_variables(&self.folder)?.ok_or_else(gone)?;
        let container = order.container(&self.container).ok_or_else(gone)?;
        let record = record::read::<StateRecord>(&self.folder, STATE)?;
        let processes = record.iter().flat_map(|record| &record.processes);
        let cgroup = processes.filter(|process| process.container == self.container).find_map(|it| it.cgroup.as_ref());
        let settings = launch::Settings {
            cgroups: cgroup.map(Cgroup::join_files).unwrap_or_default(),
            has_terminal: self.command.has_terminal,
            ..launch::Settings::of(&order, &self.folder, container)
        };
        let Ends { stdin, stdout, stderr, input, output, errors, controller } = match self.command.has_terminal {
            true => Ends::terminal()?,
            false => Ends::pipes(self.takes_input)?,
        };
        let variables = launch::variables(&order, &self.folder, &self.container);
        let mut command = settings.command(&self.executable, &self.command.arguments, &variables)?;
        if self.command.has_terminal && !variables.contains_key("TERM") {
            command.env("TERM", "xterm");
        }
        let token = format!("{:016x}", rand::random::<u64>());
        command.env(TOKEN, &token);
        let child = command.stdin(stdin).stdout(stdout).stderr(stderr).spawn()?;
        // What the command has of these is its own; ours must not keep its output open.
        drop(command);
        let command = Running(Some((Process::of_child(&child)?, token)));
        Ok(Started { command, input, output, errors, controller })
    }
}

/// Both ends of what a command reads and writes.
struct Ends {
    stdin: Stdio,
    stdout: Stdio,
    stderr: Stdio,
    input: Option<pipe::Sender>,
    output: pipe::Receiver,
    errors: Option<pipe::Receiver>,
    /// Our end of the terminal, if it has one.
    controller: Option<OwnedFd>,
}

impl Ends {
    fn pipes(takes_input: bool) -> io::Result<Ends> {
        let (stdin, input) = match takes_input {
            true => {
                let (read, write) = io::pipe()?;
                (Stdio::from(read), Some(pipe::Sender::from_owned_fd(write.into())?))
            }
            false => (Stdio::null(), None),
        };
        let (output, stdout) = io::pipe()?;
        let (errors, stderr) = io::pipe()?;
        Ok(Ends {
            stdin,
            stdout: stdout.into(),
            stderr: stderr.into(),
            input,
            output: pipe::Receiver::from_owned_fd(output.into())?,
            errors: Some(pipe::Receiver::from_owned_fd(errors.into())?),
            controller: None,
        })
    }

    fn terminal() -> io::Result<Ends> {
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let controller = rustix::pty::openpt(flags)?;
        rustix::pty::grantpt(&controller)?;
        rustix::pty::unlockpt(&controller)?;
        let terminal = rustix::pty::ioctl_tiocgptpeer(&controller, flags)?;
        rustix::io::ioctl_fionbio(&controller, true)?;
        Ok(Ends {
            stdin: terminal.try_clone()?.into(),
            stdout: terminal.try_clone()?.into(),
            stderr: terminal.into(),
            input: Some(pipe::Sender::from_file_unchecked(File::from(controller.try_clone()?))?),
            output: pipe::Receiver::from_file_unchecked(File::from(controller.try_clone()?))?,
            errors: None,
            controller: Some(controller),
        })
    }
}

/// A command that runs.
struct Started {
    command: Running,
    input: Option<pipe::Sender>,
    output: pipe::Receiver,
    errors: Option<pipe::Receiver>,
    controller: Option<OwnedFd>,
}

impl Started {
    /// Carries what is said in both directions until the command has ended and all it said was handed on.
    async fn run(mut self, terminal: Terminal) -> io::Result<CommandExit> {
        let Terminal { input, output, errors, mut sizes } = terminal;
        let (end, ended) = watch::channel(false);
        let is_terminal = self.controller.is_some();
        let input = feed(self.input.take(), input, is_terminal);
        let said = async {
            let errors = async {
                if let Some(receiver) = self.errors.take() {
                    hand_on(receiver, errors, ended.clone()).await;
                }
            };
            tokio::join!(hand_on(self.output, output, ended.clone()), errors);
        };
        let process = self.command.process()?;
        let is_over = process.ended();
        tokio::pin!(input, said, is_over);
        let (mut is_fed, mut is_silent, mut has_sizes, mut has_ended) = (false, false, true, false);
        while !(has_ended && is_silent) {
            tokio::select! {
                () = &mut said, if !is_silent => is_silent = true,
                result = &mut is_over, if !has_ended => {
                    result?;
                    has_ended = true;
                    end.send_replace(true);
                }
                () = &mut input, if !is_fed && !has_ended => is_fed = true,
                size = sizes.recv(), if has_sizes => match (size, &self.controller) {
                    (Some(size), Some(controller)) => resize(controller, size),
                    (Some(_), None) => {}
                    (None, _) => has_sizes = false,
                },
            }
        }
        self.command.0 = None;
        Ok(CommandExit { code: exit_code(&process) })
    }
}

fn resize(terminal: &OwnedFd, TerminalSize { columns, rows }: TerminalSize) {
    // A terminal whose command has just ended needs no size.
    let _ = tcsetwinsize(terminal, Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 });
}

/// As a shell tells it.
fn exit_code(process: &Process) -> i32 {
    let status = process.reap();
    let code = |status: &rustix::process::WaitIdStatus| {
        status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal))
    };
    status.as_ref().and_then(code).unwrap_or(255)
}

/// Gives a command its input, at the pace at which it reads.
async fn feed(sender: Option<pipe::Sender>, input: Option<mpsc::Receiver<Bytes>>, is_terminal: bool) {
    let (Some(mut sender), Some(mut input)) = (sender, input) else { return };
    while let Some(bytes) = input.recv().await {
        if sender.write_all(&bytes).await.is_err() {
            return;
        }
    }
    if is_terminal {
        // Who does not read any more needs no end either.
        let _ = sender.write_all(&[END_OF_INPUT]).await;
    }
}

/// Hands on what a command says, at the pace at which it is taken; if nobody takes it, it is dropped. It is over at the end
/// of the output, or when the command has ended and nothing more comes.
async fn hand_on(mut receiver: pipe::Receiver, mut to: Option<mpsc::Sender<Bytes>>, ended: watch::Receiver<bool>) {
    loop {
        let mut block = BytesMut::with_capacity(BLOCK_BYTES);
        let mut ended = ended.clone();
        let is_quiet = async {
            // The sender lives as long as we listen.
            let _ = ended.wait_for(|has_ended| *has_ended).await;
            tokio::time::sleep(LAST_WORDS).await;
        };
        let read = tokio::select! {
            biased;
            read = receiver.read_buf(&mut block) => read,
            () = is_quiet => return,
        };
        // A terminal that nobody has open any more answers with an error.
        if !read.is_ok_and(|count| count > 0) {
            return;
        }
        if let Some(sender) = &to
            && sender.send(block.freeze()).await.is_err()
        {
            to = None;
        }
    }
}

/// A command until it has ended, and its token: who drops it ends it, with all that it began.
struct Running(Option<(Process, String)>);

impl Running {
    fn process(&self) -> io::Result<Process> {
        let running = self.0.as_ref().ok_or_else(|| io::Error::other("it has ended"))?;
        Ok(running.0.clone())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let Some((process, token)) = self.0.take() else { return };
        match tokio::runtime::Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(move || kill_tree(&process, &token))),
            Err(_) => kill_tree(&process, &token),
        }
    }
}

/// Ends a command and all that came of it, wherever that has gone: it is known by its token.
fn kill_tree(process: &Process, token: &str) {
    for _ in 0..MAX_ROUNDS {
        process.signal(Signal::KILL);
        let entries = process_table::entries().unwrap_or_default();
        let alive = entries.iter().filter(|entry| !entry.is_zombie).map(|entry| entry.identity.pid);
        let open = |pid: u32| Process::open(i32::try_from(pid).ok()?).ok().map(|process| (pid, process));
        // Asked after it was opened: it is the process that is meant.
        let left = alive.filter_map(open).filter(|(pid, _)| process_table::has_variable(*pid, TOKEN, token));
        let left: Vec<Process> = left.map(|(_, process)| process).filter(Process::is_alive).collect();
        left.iter().for_each(|process| process.signal(Signal::KILL));
        left.iter().for_each(Process::wait_a_moment);
        process.wait_a_moment();
        if left.is_empty() && !process.is_alive() {
            break;
        }
    }
    process.reap();
}
