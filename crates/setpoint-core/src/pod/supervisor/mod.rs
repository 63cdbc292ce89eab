//! What is done next with a Pod's containers: when each starts, is probed, is started again, is told to end and is made to.
//!
//! [`Supervisor::step`] takes in what happened and says what to do; whoever runs the containers does it and comes back with
//! what came of it, at the latest at [`Supervisor::next_deadline`]. Inputs name the run that they are about, so an answer
//! that comes too late is about a run that is over and changes nothing.
//!
//! Three promises hold whatever comes in: a container has never two runs at once; once a stop was asked for, everything is
//! killed at its deadline at the latest; what has ended for good never starts again.

mod back_off;
mod container;
pub mod plan;
pub mod probe;
mod winding_down;

#[cfg(test)]
mod properties;
#[cfg(test)]
mod tests;

use jiff::Timestamp;

pub use self::plan::{ContainerPlan, Plan, RestartPolicy};
pub use self::probe::{ProbeKind, ProbeOutcome, ProbePlan};

use self::back_off::BackOff;
use self::container::{Activity, Container};
use crate::pod::{ContainerState, Exit, NoticeKind, Phase, PodState, Role, Usage};

/// One Pod's containers, and what is to be done with them.
#[derive(Debug, Clone)]
pub struct Supervisor {
    plan: Plan,
    containers: Vec<Container>,
    state: PodState,
    /// When everything has to have ended, once that was asked for.
    stop_at: Option<Timestamp>,
}

/// Which run of which container, by its place in the plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct RunKey {
    pub container: usize,
    /// How often the container had been started before.
    pub run: u32,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Time has passed.
    Tick,
    Spawned {
        run: RunKey,
        id: String,
    },
    SpawnFailed {
        run: RunKey,
        message: String,
    },
    /// Nothing of the run is left.
    Exited {
        run: RunKey,
        ending: Ending,
    },
    HookEnded {
        run: RunKey,
        hook: Hook,
        succeeded: bool,
    },
    Probed {
        run: RunKey,
        kind: ProbeKind,
        outcome: ProbeOutcome,
    },
    /// Everything is to have ended at this time. A second one can only make it earlier.
    Stop {
        deadline: Timestamp,
    },
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Ending {
    pub code: i32,
    pub signal: Option<i32>,
    pub was_out_of_memory: bool,
    /// What it left as its last words.
    pub message: String,
    pub usage: Option<Usage>,
}

/// What to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Action {
    /// Start it, and answer with `Spawned` or `SpawnFailed`.
    Spawn(RunKey),
    /// Run a hook, and answer with `HookEnded`.
    RunHook(RunKey, Hook),
    /// Ask once, and answer with `Probed`.
    Probe(RunKey, ProbeKind),
    /// Ask it to end, with the signal that it wants.
    Terminate(RunKey),
    /// Make everything of it end.
    Kill(RunKey),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    PostStart,
    PreStop,
}

impl Supervisor {
    /// A Pod as it was when it was last seen. What ran then does not run any more.
    pub fn new(plan: Plan, mut state: PodState, now: Timestamp) -> Supervisor {
        let is_same = |(plan, state): (&ContainerPlan, &ContainerState)| plan.name == state.name;
        let fits = plan.containers.len() == state.containers.len()
            && plan.containers.iter().zip(&state.containers).all(is_same);
        if !fits {
            let waiting = |plan: &ContainerPlan| ContainerState::waiting(&plan.name, plan.role, "ContainerCreating");
            state.containers = plan.containers.iter().map(waiting).collect();
        }
        let stop_at = state.stopping_since.map(|_| now);
        let mut lost = Vec::new();
        let mut containers = Vec::new();
        for (index, container) in state.containers.iter_mut().enumerate() {
            let activity = match (&container.phase, &container.last_exit) {
                (Phase::Ended(_), _) => Activity::Ended,
                (Phase::Running { started_at }, _) => {
                    lost.push((index, *started_at));
                    Activity::Starting { is_killed: false }
                }
                (Phase::Waiting { .. }, Some(exit)) => {
                    let wait = BackOff::after(container.restarts).wait(None, now);
                    Activity::BackOff { until: exit.finished_at + wait }
                }
                (Phase::Waiting { .. }, None) => Activity::Pending,
            };
            containers.push(Container { activity, back_off: BackOff::after(container.restarts) });
        }
        let mut supervisor = Supervisor { plan, containers, state, stop_at };
        for (index, started_at) in lost {
            let message = "the supervisor of the Pod was lost, and the container with it".to_owned();
            let exit = Exit {
                code: 137,
                signal: None,
                reason: "ContainerStatusUnknown".to_owned(),
                message,
                started_at: Some(started_at),
                finished_at: now,
            };
            supervisor.ended(index, exit, now);
        }
        supervisor
    }

    pub fn state(&self) -> &PodState {
        &self.state
    }

    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// Tells people something about a container that the supervisor itself does not know.
    pub fn note(&mut self, now: Timestamp, kind: NoticeKind, reason: &str, container: usize, message: String) {
        let name = self.plan.containers.get(container).map(|container| container.name.as_str());
        self.state.note(now, kind, reason, name, message);
    }

    /// Takes in what happened, and says what to do now.
    pub fn step(&mut self, now: Timestamp, input: Input) -> Vec<Action> {
        let mut actions = Vec::new();
        self.take_in(now, input, &mut actions);
        self.wind_down(now, &mut actions);
        self.start(&mut actions, now);
        self.probe(&mut actions, now);
        self.kill(&mut actions, now);
        actions
    }

    /// When to come back at the latest, if nothing happens before.
    pub fn next_deadline(&self) -> Option<Timestamp> {
        self.containers.iter().filter_map(|container| container.next_deadline(self.stop_at)).min()
    }

    fn take_in(&mut self, now: Timestamp, input: Input, actions: &mut Vec<Action>) {
        match input {
            Input::Tick => {}
            Input::Spawned { run, id } => self.spawned(run, id, now, actions),
            Input::SpawnFailed { run, message } => self.spawn_failed(run, message, now),
            Input::Exited { run, ending } => self.exited(run, ending, now),
            Input::HookEnded { run, hook, succeeded } => self.hook_ended(run, hook, succeeded, now, actions),
            Input::Probed { run, kind, outcome } => self.probed(run, kind, outcome, now, actions),
            Input::Stop { deadline } => {
                self.state.stopping_since.get_or_insert(now);
                self.stop_at = Some(self.stop_at.map_or(deadline, |earlier| earlier.min(deadline)));
            }
        }
    }

    /// Starts what may start: init containers one after the other, then the others.
    fn start(&mut self, actions: &mut Vec<Action>, now: Timestamp) {
        if self.is_over() {
            return;
        }
        let is_initialized = self.is_initialized();
        for index in 0..self.containers.len() {
            let role = self.plan.containers[index].role;
            match self.containers[index].activity {
                Activity::Pending if self.state.containers[index].last_exit.is_none() => self.spawn(index, 0, actions),
                Activity::BackOff { until } if until > now => {}
                Activity::Pending | Activity::BackOff { .. } => {
                    let restarts = self.state.containers[index].restarts.saturating_add(1);
                    self.spawn(index, restarts, actions);
                }
                _ => {}
            }
            let is_done = match role {
                Role::Init => matches!(self.containers[index].activity, Activity::Ended),
                Role::Sidecar => self.state.containers[index].is_started,
                Role::Main => true,
            };
            if !is_done && !is_initialized {
                // Those after it wait for it now, and no more for a time.
                for container in &mut self.containers[index + 1..] {
                    if matches!(container.activity, Activity::BackOff { until } if until <= now) {
                        container.activity = Activity::Pending;
                    }
                }
                return;
            }
        }
    }

    fn spawn(&mut self, index: usize, run: u32, actions: &mut Vec<Action>) {
        self.containers[index].activity = Activity::Starting { is_killed: false };
        let state = &mut self.state.containers[index];
        state.restarts = run;
        state.phase = Phase::Waiting { reason: "ContainerCreating".to_owned(), message: String::new() };
        actions.push(Action::Spawn(RunKey { container: index, run }));
    }

    /// Whether the main containers have begun: from then on nobody waits for anybody.
    fn is_initialized(&self) -> bool {
        let mut mains = self.plan.containers.iter().zip(&self.containers).filter(|(plan, _)| plan.role == Role::Main);
        mains.any(|(_, container)| !matches!(container.activity, Activity::Pending))
    }

    /// The run that an input is about, unless it is over.
    fn is_present(&self, key: RunKey) -> bool {
        self.state.containers.get(key.container).is_some_and(|state| state.restarts == key.run)
    }
}
