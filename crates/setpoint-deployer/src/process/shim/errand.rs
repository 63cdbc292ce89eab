//! What a shim does for a container besides running it: probes and hooks, each a task that answers with what came of it.

use std::io;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Probe};
use rustix::process::Signal;
use setpoint_core::pod::supervisor::{Hook, Input, ProbeKind, ProbeOutcome, RunKey};
use tokio::net::unix::pipe;
use tokio::sync::{mpsc, oneshot};

use super::reaper::Reaper;
use super::spawn::Spawner;
use super::{Event, tree};
use crate::process::cgroup::Cgroup;
use crate::process::launch::{self, Settings};
use crate::process::probe::{self, Target};

/// How much of what a probe's command says is kept.
const MAX_SAID_BYTES: usize = 10 << 10;

/// How long a hook's request may take; its container's end is not held up for longer.
const HOOK_TIMEOUT: Duration = Duration::from_secs(30);

/// How often is read at once: who never stops talking must not have the shim to itself.
const READS_AT_ONCE: usize = 16;

/// Reads what is there, keeps the beginning, and says whether more may come.
fn keep(text: &mut Vec<u8>, said: &pipe::Receiver) -> bool {
    let mut bytes = [0; 4096];
    for _ in 0..READS_AT_ONCE {
        match said.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) => {
                let room = MAX_SAID_BYTES - text.len();
                text.extend_from_slice(&bytes[..count.min(room)]);
            }
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
    true
}

/// A command that runs beside a container.
struct Command {
    pid: u32,
    status: oneshot::Receiver<i32>,
    said: pipe::Receiver,
    shown: String,
}

impl Spawner {
    pub(super) fn probe(
        &self,
        key: RunKey,
        kind: ProbeKind,
        container: &Container,
        cgroup: Option<&Cgroup>,
        timeout: Duration,
        reaper: &mut Reaper,
    ) {
        let events = self.events.clone();
        let answer = move |outcome| Event::Input(Input::Probed { run: key, kind, outcome });
        let spec = match kind {
            ProbeKind::Startup => &container.startup_probe,
            ProbeKind::Readiness => &container.readiness_probe,
            ProbeKind::Liveness => &container.liveness_probe,
        };
        let spec = spec.clone().unwrap_or_default();
        if let Some(exec) = &spec.exec {
            let command = self.run(container, exec.command.as_deref().unwrap_or_default(), cgroup, reaper);
            tokio::spawn(async move {
                let outcome = match command {
                    Ok(command) => command.outcome(timeout).await,
                    Err(error) => ProbeOutcome::Unknown(error.to_string()),
                };
                let _ = events.send(answer(outcome)).await;
            });
            return;
        }
        let target = Target::of(&spec, &self.order.ports, &container.name);
        tokio::spawn(async move {
            let outcome = match target {
                Some(target) => probe::ask(&target, timeout).await,
                None => ProbeOutcome::Unknown("the probe's port is not a port of the container".to_owned()),
            };
            let _ = events.send(answer(outcome)).await;
        });
    }

    pub(super) fn hook(
        &self,
        key: RunKey,
        hook: Hook,
        container: &Container,
        cgroup: Option<&Cgroup>,
        reaper: &mut Reaper,
    ) {
        let lifecycle = container.lifecycle.as_ref();
        let handler = lifecycle.and_then(|lifecycle| match hook {
            Hook::PostStart => lifecycle.post_start.clone(),
            Hook::PreStop => lifecycle.pre_stop.clone(),
        });
        let LifecycleHandler { exec, http_get, sleep, tcp_socket } = handler.unwrap_or_default();
        let command = exec.map(|exec| self.run(container, &exec.command.unwrap_or_default(), cgroup, reaper));
        let request = Probe { http_get, tcp_socket, ..Probe::default() };
        let target = Target::of(&request, &self.order.ports, &container.name);
        let events: mpsc::Sender<Event> = self.events.clone();
        tokio::spawn(async move {
            let succeeded = match (command, sleep, target) {
                (Some(Ok(mut command)), ..) => command.ended(&mut Vec::new()).await == Some(0),
                (Some(Err(_)), ..) => false,
                (None, Some(sleep), _) => {
                    tokio::time::sleep(Duration::from_secs(sleep.seconds.unsigned_abs())).await;
                    true
                }
                (None, None, Some(target)) => probe::ask(&target, HOOK_TIMEOUT).await == ProbeOutcome::Success,
                (None, None, None) => false,
            };
            let _ = events.send(Event::Input(Input::HookEnded { run: key, hook, succeeded })).await;
        });
    }

    /// Runs a command beside a container, as if the container had started it.
    fn run(
        &self,
        container: &Container,
        arguments: &[String],
        cgroup: Option<&Cgroup>,
        reaper: &mut Reaper,
    ) -> io::Result<Command> {
        if arguments.is_empty() {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "there is no command"));
        }
        let place = self.place()?;
        let (said, output) = io::pipe()?;
        let settings = Settings {
            parent: Some(std::process::id()),
            cgroups: cgroup.map(Cgroup::join_files).unwrap_or_default(),
            ..Settings::of(&self.order, &place, container)
        };
        let variables = launch::variables(&self.order, &place, &container.name);
        let mut command = settings.command(Path::new(super::spawn::OWN_EXECUTABLE), arguments, &variables)?;
        command.stdin(Stdio::null()).stdout(output.try_clone()?).stderr(output);
        let child = command.spawn()?;
        let status = reaper.expect(child.id());
        let said = pipe::Receiver::from_owned_fd(said.into())?;
        Ok(Command { pid: child.id(), status, said, shown: arguments.join(" ") })
    }
}

impl Command {
    /// Waits for its end, and keeps the beginning of what it says. It is read while it runs, so that it never waits for us;
    /// once it has ended, only what is there already, since what it left running may hold its output for ever.
    async fn ended(&mut self, text: &mut Vec<u8>) -> Option<i32> {
        loop {
            tokio::select! {
                biased;
                status = &mut self.status => {
                    keep(text, &self.said);
                    return status.ok();
                }
                ready = self.said.readable() => {
                    if ready.is_err() || !keep(text, &self.said) {
                        return (&mut self.status).await.ok();
                    }
                    tokio::task::yield_now().await;
                }
            }
        }
    }

    /// What a probe's command says by how it ends.
    async fn outcome(mut self, timeout: Duration) -> ProbeOutcome {
        let mut text = Vec::new();
        match tokio::time::timeout(timeout, self.ended(&mut text)).await {
            Ok(Some(0)) => ProbeOutcome::Success,
            Ok(Some(_)) => ProbeOutcome::Failure(String::from_utf8_lossy(&text).trim_end().to_owned()),
            Ok(None) => ProbeOutcome::Unknown("the command was lost".to_owned()),
            Err(_) => {
                let Command { pid, shown, .. } = self;
                // It has not been reaped, so the number is still its own.
                tree::signal(pid, Signal::KILL);
                ProbeOutcome::Failure(format!("command timed out: {shown:?} timed out after {}s", timeout.as_secs()))
            }
        }
    }
}
