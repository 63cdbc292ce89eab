//! The shim: one small process for each instance, that runs its containers and outlives the control plane.
//!
//! It holds the lock of the instance's folder for as long as it lives and tells everything through files in it; what it is
//! to do next is decided by the [`Supervisor`]. It has one thread, and waits for all processes below it itself.

mod attach;
mod capture;
mod clock;
mod errand;
mod lines;
mod log_file;
mod loss;
mod reaper;
mod spawn;
mod tree;

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::Container;
use rustix::fs::FlockOperation;
use setpoint_core::pod::NoticeKind;
use setpoint_core::pod::supervisor::{Action, Ending, Input, Plan, RunKey, Supervisor};
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::Instant;

pub use self::attach::Hello;
pub use self::tree::kill_leftovers;

use self::attach::{Joint, Joints};
use self::clock::Clock;
use self::reaper::{Reaper, Status};
use self::spawn::{Spawned, Spawner};
use super::cgroup::Cgroup;
use super::order::InstanceOrder;
use super::order_file;
use super::process_table::Identity;
use super::record::{self, ContainerProcess, StateRecord, StopRecord};
use super::termination_log;

/// The hidden subcommand that [`run`] stands behind.
pub const SUBCOMMAND: &str = "shim";

/// How soon to look again after what was killed: at first, and at last if it does not go.
const KILL_AGAIN: Duration = Duration::from_millis(10);
const KILL_AGAIN_AT_LAST: Duration = Duration::from_secs(1);

/// How soon to try again to write the state.
const SAVE_AGAIN: Duration = Duration::from_secs(1);

/// How long the end of a container waits for somebody outside who still holds something of it.
const PATIENCE: Duration = Duration::from_secs(2);

/// What comes to the shim from its tasks.
enum Event {
    Input(Input),
    /// A launcher has become its command, or has said why not.
    Reported(RunKey, Option<String>),
    OutputEnded,
}

/// A run of a container.
struct Process {
    key: RunKey,
    identity: Identity,
    cgroup: Option<Cgroup>,
    /// The folder that it was told is its own; it may have been moved since.
    root: PathBuf,
    report: Report,
    status: Option<Status>,
    /// When its own process had ended: what is left of it is cleared away then.
    ended_at: Option<Instant>,
    is_to_die: bool,
    output: Vec<JoinHandle<()>>,
}

enum Report {
    Awaited,
    Started,
    Failed(String),
}

struct Shim {
    clock: Clock,
    spawner: Spawner,
    supervisor: Supervisor,
    processes: Vec<Process>,
    joints: Joints,
    reaper: Reaper,
    /// Control groups that could not be removed yet, and until when that is tried.
    emptied: Vec<(Cgroup, Instant)>,
    /// What was last written of the state.
    written: Vec<u8>,
}

/// What others tell a shim.
struct Signals {
    child: Signal,
    told: Signal,
    asked_to_end: Signal,
}

impl Signals {
    fn listen() -> io::Result<Signals> {
        Ok(Signals {
            child: signal(SignalKind::child())?,
            told: signal(SignalKind::user_defined1())?,
            asked_to_end: signal(SignalKind::terminate())?,
        })
    }
}

/// Where a shim finds its instance: the folder that it was started in, wherever that is by now.
const FOLDER: &str = ".";

/// Runs the instance whose folder it was started in, until all its containers have ended for good.
pub fn run() -> ExitCode {
    let outcome = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .and_then(|runtime| runtime.block_on(supervise(Path::new(FOLDER))));
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            complain(&error);
            ExitCode::FAILURE
        }
    }
}

#[expect(clippy::print_stderr, reason = "a shim's own troubles go to the log beside its instance")]
fn complain(error: &io::Error) {
    eprintln!("{}: {error}", Timestamp::now());
}

async fn supervise(folder: &Path) -> io::Result<()> {
    // First of all: what is typed where the control plane was started is not meant for us. It fails only for who has a
    // session already.
    let _ = rustix::process::setsid();
    let _lock = lock(folder)?;
    rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    // Who reads where we are may tell us something at once: we have to listen by then.
    let signals = Signals::listen()?;
    record::write(folder, record::SHIM, &Identity::of(std::process::id())?)?;
    let order: InstanceOrder = order_file::read_with_variables(folder)?
        .ok_or_else(|| io::Error::new(io::ErrorKind::NotFound, "the folder holds no order"))?;
    let mut clock = Clock::start();
    // We have the lock, so nobody is about to write what cannot be read.
    let earlier = record::read(folder, record::STATE).unwrap_or_else(|error| {
        complain(&error);
        let state = loss::reconstruct(&order, folder, &error.to_string(), clock.now());
        Some(StateRecord { state, processes: Vec::new() })
    });
    if let Some(earlier) = &earlier {
        clear_leftovers(&order.id, earlier).await;
    }
    let (sender, events) = mpsc::channel(64);
    let joint = |container: &Container| {
        let takes_input_once = container.stdin_once == Some(true);
        (container.name.clone(), Joint { takes_input_once, ..Joint::default() })
    };
    let joints: Joints = Arc::new(order.containers().map(|(_, container)| joint(container)).collect());
    tokio::spawn(attach::serve(attach::listen(folder)?, joints.clone()));
    let plan = Plan::new(&order.pod.namespace, &order.pod.name, &order.pod.uid, &order.pod.spec);
    let state = earlier.map_or_else(|| order.first_state(), |earlier| earlier.state);
    let shim = Shim {
        supervisor: Supervisor::new(plan, state, clock.now()),
        clock,
        spawner: Spawner { folder: folder.to_owned(), order, events: sender },
        processes: Vec::new(),
        joints,
        reaper: Reaper::default(),
        emptied: Vec::new(),
        written: Vec::new(),
    };
    shim.run(events, signals).await
}

/// Who has the lock is the instance's only shim.
fn lock(folder: &Path) -> io::Result<File> {
    let file = File::options().create(true).append(true).open(folder.join(record::LOCK))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        rustix::io::Errno::WOULDBLOCK => io::Error::new(io::ErrorKind::ResourceBusy, "another shim runs the instance"),
        other => other.into(),
    })?;
    Ok(file)
}

/// Ends what an earlier shim has left behind, so that nothing runs twice.
async fn clear_leftovers(instance: &str, earlier: &StateRecord) {
    let cgroups: Vec<&Cgroup> = earlier.processes.iter().filter_map(|process| process.cgroup.as_ref()).collect();
    let kill = |cgroup: &&Cgroup| tree::kill_container(0, Some(cgroup), Path::new(""));
    let mut wait = KILL_AGAIN;
    while cgroups.iter().filter(|cgroup| kill(cgroup)).count() > 0 || kill_leftovers(instance) {
        tokio::time::sleep(wait).await;
        wait = (wait * 2).min(KILL_AGAIN_AT_LAST);
    }
    for cgroup in cgroups {
        // It is used again, or removed, when the container ends next.
        let _ = cgroup.remove();
    }
}

impl Shim {
    async fn run(mut self, mut events: mpsc::Receiver<Event>, mut signals: Signals) -> io::Result<()> {
        let mut input = self.stop();
        let mut kill_again = KILL_AGAIN;
        loop {
            self.advance(input);
            let is_clear = self.clear();
            let is_saved = self.save();
            if is_clear && is_saved && self.supervisor.state().has_ended() {
                attach::farewell(&self.joints).await;
                return Ok(());
            }
            let again = (!is_clear).then_some(kill_again).or((!is_saved).then_some(SAVE_AGAIN));
            kill_again = if is_clear { KILL_AGAIN } else { (kill_again * 2).min(KILL_AGAIN_AT_LAST) };
            let deadline = self.supervisor.next_deadline().map(|deadline| self.clock.until(deadline));
            let wake = again.into_iter().chain(deadline).min();
            input = tokio::select! {
                _ = signals.child.recv() => Input::Tick,
                _ = signals.told.recv() => self.stop(),
                _ = signals.asked_to_end.recv() => {
                    Input::Stop { deadline: self.clock.now() + self.supervisor.plan().grace }
                }
                Some(event) = events.recv() => self.hear(event),
                () = sleep(wake) => Input::Tick,
            };
        }
    }

    /// What the control plane wants: an end, or nothing. What cannot be read is no reason to end anything.
    fn stop(&mut self) -> Input {
        match record::read::<StopRecord>(&self.spawner.folder, record::STOP) {
            Ok(Some(stop)) => Input::Stop { deadline: self.clock.translate(stop.deadline) },
            Ok(None) => Input::Tick,
            Err(error) => {
                complain(&error);
                Input::Tick
            }
        }
    }

    fn hear(&mut self, event: Event) -> Input {
        match event {
            Event::Input(input) => input,
            Event::OutputEnded => Input::Tick,
            Event::Reported(key, failure) => {
                let Some(process) = self.processes.iter_mut().find(|process| process.key == key) else {
                    return Input::Tick;
                };
                match failure {
                    Some(message) => {
                        process.report = Report::Failed(message);
                        Input::Tick
                    }
                    None => {
                        process.report = Report::Started;
                        let Identity { pid, start_time } = process.identity;
                        Input::Spawned { run: key, id: format!("{pid}-{start_time}") }
                    }
                }
            }
        }
    }

    /// Takes in what happened, does what is to be done, and takes in what comes of that at once.
    fn advance(&mut self, input: Input) {
        let mut inputs = VecDeque::from([input]);
        while let Some(input) = inputs.pop_front() {
            for action in self.supervisor.step(self.clock.now(), input) {
                inputs.extend(self.act(action));
            }
            if inputs.is_empty() {
                inputs.extend(self.endings());
            }
        }
    }

    fn act(&mut self, action: Action) -> Option<Input> {
        match action {
            Action::Spawn(key) => return self.spawn(key),
            Action::RunHook(key, hook) => {
                let (Some(container), cgroup) = (self.container(key), self.cgroup(key)) else { return None };
                self.spawner.hook(key, hook, &container, cgroup.as_ref(), &mut self.reaper);
            }
            Action::Probe(key, kind) => {
                let (Some(container), cgroup) = (self.container(key), self.cgroup(key)) else { return None };
                let plan = self.supervisor.plan().containers[key.container].probe(kind);
                let timeout = plan.map(|plan| plan.timeout).unwrap_or_default();
                self.spawner.probe(key, kind, &container, cgroup.as_ref(), timeout, &mut self.reaper);
            }
            Action::Terminate(key) => {
                let lifecycle = self.container(key).and_then(|container| container.lifecycle);
                let name = lifecycle.and_then(|lifecycle| lifecycle.stop_signal);
                if let Some(process) = self.processes.iter().find(|process| process.key == key) {
                    tree::signal(process.identity.pid, tree::named(name.as_deref()));
                }
            }
            Action::Kill(key) => {
                if let Some(process) = self.processes.iter_mut().find(|process| process.key == key) {
                    process.is_to_die = true;
                }
            }
        }
        None
    }

    fn spawn(&mut self, key: RunKey) -> Option<Input> {
        let container = self.container(key)?;
        let joint = self.joints.get(&container.name)?;
        match self.spawner.spawn(key, &container, joint) {
            Ok(Spawned { process, unlimited }) => {
                for limit in unlimited {
                    let message = format!("The {} limit is not in force: {}", limit.resource, limit.reason);
                    let now = self.clock.now();
                    self.supervisor.note(now, NoticeKind::Warning, "LimitNotEnforced", key.container, message);
                }
                self.processes.push(process);
                None
            }
            Err(error) => Some(Input::SpawnFailed { run: key, message: error.to_string() }),
        }
    }

    /// Asks after what has ended, and gives back the runs of which nothing is left.
    fn endings(&mut self) -> Vec<Input> {
        for (pid, status) in self.reaper.reap() {
            // The number of a run that has ended may be another's by now.
            let mut present = self.processes.iter_mut().filter(|process| process.status.is_none());
            if let Some(process) = present.find(|process| process.identity.pid == pid) {
                process.status = Some(status);
                process.ended_at = Some(Instant::now());
            }
        }
        let mut endings = Vec::new();
        let mut index = 0;
        while index < self.processes.len() {
            if self.is_cleared(&self.processes[index]) {
                let process = self.processes.swap_remove(index);
                endings.push(self.finish(process));
            } else {
                index += 1;
            }
        }
        endings
    }

    /// Whether nothing of a run is left. What is, is killed, if its own process has ended or its time is over.
    fn is_cleared(&self, process: &Process) -> bool {
        if process.status.is_none() && !process.is_to_die {
            return false;
        }
        // What was run beside it, by exec for example, is nobody's child here but in its control group.
        let is_empty = process.cgroup.as_ref().is_none_or(|cgroup| cgroup.members().is_empty());
        let is_alone = self.reaper.is_childless && is_empty;
        let is_left = !is_alone && tree::kill_container(process.identity.pid, process.cgroup.as_ref(), &process.root);
        let Some(ended_at) = process.ended_at.filter(|_| !is_left) else { return false };
        let is_silent = process.output.iter().all(JoinHandle::is_finished);
        let is_told = !matches!(process.report, Report::Awaited);
        (is_silent && is_told) || ended_at.elapsed() > PATIENCE
    }

    /// Looks for what still has to be cleared away, and says whether nothing has.
    fn clear(&mut self) -> bool {
        self.emptied.retain(|(cgroup, until)| cgroup.remove().is_err() && *until > Instant::now());
        if self.supervisor.state().has_ended() {
            return self.emptied.is_empty() && (self.reaper.is_childless || !tree::kill_descendants());
        }
        self.emptied.is_empty() && !self.processes.iter().any(|process| process.status.is_some() || process.is_to_die)
    }

    fn finish(&mut self, process: Process) -> Input {
        process.output.iter().for_each(JoinHandle::abort);
        let status = process.status.unwrap_or(Status { code: 255, signal: None });
        let container = self.container(process.key).unwrap_or_default();
        if let Some(joint) = self.joints.get(&container.name) {
            joint.finish(status.code);
        }
        let cgroup = process.cgroup.as_ref();
        let usage = cgroup.and_then(Cgroup::usage);
        let was_out_of_memory = status.code != 0 && cgroup.is_some_and(|cgroup| cgroup.out_of_memory_kills() > 0);
        let stuck = process.cgroup.filter(|cgroup| cgroup.remove().is_err());
        self.emptied.extend(stuck.map(|cgroup| (cgroup, Instant::now() + PATIENCE)));
        let run = process.key;
        match process.report {
            Report::Failed(message) => Input::SpawnFailed { run, message },
            Report::Awaited => {
                let message = format!("the launcher ended with code {} before the command began", status.code);
                Input::SpawnFailed { run, message }
            }
            Report::Started => {
                let message = self.last_words(&container, run.run, status);
                let ending = Ending { code: status.code, signal: status.signal, was_out_of_memory, message, usage };
                Input::Exited { run, ending }
            }
        }
    }

    /// What a container left to be told, or else the end of its log, if it wants that.
    fn last_words(&self, container: &Container, run: u32, status: Status) -> String {
        let bytes = termination_log::read(&self.spawner.folder, &container.name);
        let falls_back = container.termination_message_policy.as_deref() == Some("FallbackToLogsOnError");
        if bytes.is_empty() && falls_back && status.code != 0 {
            return log_file::last_words(&self.spawner.log_folder(&container.name), run).unwrap_or_default();
        }
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Writes the state, if it is another one than before, and says whether the folder tells the truth now. A full disk
    /// must not end the workload; and who removed the folder does not want to know.
    fn save(&mut self) -> bool {
        let process = |process: &Process| ContainerProcess {
            container: self.supervisor.plan().containers[process.key.container].name.clone(),
            identity: process.identity,
            cgroup: process.cgroup.clone(),
        };
        let processes = self.processes.iter().map(process).collect();
        let record = StateRecord { state: self.supervisor.state().clone(), processes };
        let bytes = serde_json::to_vec(&record).expect("a state has nothing that JSON cannot tell");
        if bytes == self.written {
            return true;
        }
        match record::replace(&self.spawner.folder, record::STATE, &bytes) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                complain(&error);
                false
            }
            _ => {
                self.written = bytes;
                true
            }
        }
    }

    fn container(&self, key: RunKey) -> Option<Container> {
        Plan::specification(&self.spawner.order.pod.spec, key.container).cloned()
    }

    fn cgroup(&self, key: RunKey) -> Option<Cgroup> {
        self.processes.iter().find(|process| process.key == key).and_then(|process| process.cgroup.clone())
    }
}

async fn sleep(wait: Option<Duration>) {
    match wait {
        Some(wait) => tokio::time::sleep(wait).await,
        None => std::future::pending().await,
    }
}
