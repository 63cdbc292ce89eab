//! One container: what it does now, and what an input makes of that.

use std::time::Duration;

use jiff::Timestamp;

use super::back_off::{self, BackOff};
use super::probe::Probing;
use super::{Action, ContainerPlan, Ending, Hook, ProbeKind, ProbeOutcome, RunKey, Supervisor};
use crate::pod::{Exit, NoticeKind, Phase, Role};

/// How long a probe's complaint stands before the same one is told again.
const SAME_COMPLAINT: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Default)]
pub(super) struct Container {
    pub(super) activity: Activity,
    pub(super) back_off: BackOff,
}

#[derive(Debug, Clone, Default)]
pub(super) enum Activity {
    /// Its turn has not come.
    #[default]
    Pending,
    /// It is being started: an answer is awaited, even if it was killed meanwhile.
    Starting {
        is_killed: bool,
    },
    Running(Run),
    /// It is to be started again, but not before.
    BackOff {
        until: Timestamp,
    },
    /// For good.
    Ended,
}

#[derive(Debug, Clone)]
pub(super) struct Run {
    started_at: Timestamp,
    /// Whether its hook has been run, if it has one.
    is_post_started: bool,
    startup: Option<Probing>,
    readiness: Option<Probing>,
    liveness: Option<Probing>,
    end: Option<End>,
}

/// How far the end of a run has come.
#[derive(Debug, Clone, Copy)]
struct End {
    deadline: Timestamp,
    stage: Stage,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    PreStop,
    Terminated,
    Killed,
}

impl Container {
    /// When it needs attention next, if everything is to have ended at `stop_at`.
    pub(super) fn next_deadline(&self, stop_at: Option<Timestamp>) -> Option<Timestamp> {
        match &self.activity {
            Activity::BackOff { until } => Some(*until),
            Activity::Running(run) => run.next_deadline().into_iter().chain(stop_at.filter(|_| !run.is_killed())).min(),
            Activity::Starting { is_killed: false } => stop_at,
            Activity::Pending | Activity::Starting { is_killed: true } | Activity::Ended => None,
        }
    }
}

impl Run {
    fn new(plan: &ContainerPlan, now: Timestamp) -> Run {
        Run {
            started_at: now,
            is_post_started: !plan.has_post_start,
            startup: plan.startup.as_ref().map(|plan| Probing::new(plan, now)),
            readiness: plan.readiness.as_ref().map(|plan| Probing::new(plan, now)),
            liveness: plan.liveness.as_ref().map(|plan| Probing::new(plan, now)),
            end: None,
        }
    }

    fn is_ending(&self) -> bool {
        self.end.is_some()
    }

    fn is_killed(&self) -> bool {
        self.end.is_some_and(|end| end.stage == Stage::Killed)
    }

    fn is_started(&self) -> bool {
        self.is_post_started && self.startup.is_none()
    }

    /// The probe of a kind, if it is to be asked now. A passed startup probe is dropped, which lets the others begin.
    fn probing(&mut self, kind: ProbeKind) -> Option<&mut Probing> {
        let (is_started, is_ending) = (self.is_started(), self.is_ending());
        if self.end.is_some_and(|end| end.stage == Stage::Killed) {
            return None;
        }
        match kind {
            ProbeKind::Startup if !is_ending => self.startup.as_mut(),
            ProbeKind::Readiness if is_started && !self.is_killed() => self.readiness.as_mut(),
            ProbeKind::Liveness if is_started && !is_ending => self.liveness.as_mut(),
            _ => None,
        }
    }

    fn next_deadline(&self) -> Option<Timestamp> {
        let end = self.end.filter(|end| end.stage != Stage::Killed).map(|end| end.deadline);
        let mut probes = self.clone();
        let asks = ProbeKind::ALL.into_iter().filter_map(|kind| probes.probing(kind).and_then(|probe| probe.next_at()));
        asks.chain(end).min()
    }
}

impl Supervisor {
    pub(super) fn spawned(&mut self, key: RunKey, id: String, now: Timestamp, actions: &mut Vec<Action>) {
        if !self.is_present(key) {
            return;
        }
        let Activity::Starting { is_killed } = self.containers[key.container].activity else { return };
        let is_over = self.is_over();
        let plan = &self.plan.containers[key.container];
        let mut run = Run::new(plan, now);
        run.end = is_killed.then_some(End { deadline: now, stage: Stage::Killed });
        let state = &mut self.state.containers[key.container];
        state.phase = Phase::Running { started_at: now };
        state.run_id = Some(id);
        state.usage = None;
        state.is_started = run.is_started();
        state.is_ready = run.is_started() && plan.readiness.is_none();
        if plan.has_post_start && !is_over {
            actions.push(Action::RunHook(key, Hook::PostStart));
        }
        self.containers[key.container].activity = Activity::Running(run);
        self.note(now, NoticeKind::Normal, "Started", key.container, "Container started".to_owned());
    }

    pub(super) fn spawn_failed(&mut self, key: RunKey, message: String, now: Timestamp) {
        if !self.is_present(key) || !matches!(self.containers[key.container].activity, Activity::Starting { .. }) {
            return;
        }
        self.note(now, NoticeKind::Warning, "Failed", key.container, format!("Error: {message}"));
        let reason = "StartError".to_owned();
        let exit = Exit { code: 128, signal: None, reason, message, started_at: None, finished_at: now };
        self.ended(key.container, exit, now);
    }

    pub(super) fn exited(&mut self, key: RunKey, ending: Ending, now: Timestamp) {
        if !self.is_present(key) {
            return;
        }
        let Activity::Running(run) = &self.containers[key.container].activity else { return };
        let reason = match ending.code {
            _ if ending.was_out_of_memory => "OOMKilled",
            0 => "Completed",
            _ => "Error",
        };
        let exit = Exit {
            code: ending.code,
            signal: ending.signal,
            reason: reason.to_owned(),
            message: ending.message,
            started_at: Some(run.started_at),
            finished_at: now,
        };
        self.state.containers[key.container].usage = ending.usage;
        self.ended(key.container, exit, now);
    }

    /// A run is over: the container ends with it, or waits for the next.
    pub(super) fn ended(&mut self, index: usize, exit: Exit, now: Timestamp) {
        let plan = &self.plan.containers[index];
        let (container, state) = (&mut self.containers[index], &mut self.state.containers[index]);
        state.is_started = false;
        state.is_ready = plan.role == Role::Init && exit.code == 0;
        if self.stop_at.is_some() || !plan.restarts_after(exit.code) {
            container.activity = Activity::Ended;
            state.phase = Phase::Ended(exit);
            return;
        }
        let wait = container.back_off.wait(exit.started_at, exit.finished_at);
        container.activity = Activity::BackOff { until: exit.finished_at + wait };
        state.last_exit = Some(exit);
        let (name, pod) = (&plan.name, &self.plan.pod);
        let shown = back_off::shown(wait);
        let (reason, message) = match wait {
            Duration::ZERO => ("ContainerCreating", String::new()),
            _ => ("CrashLoopBackOff", format!("back-off {shown} restarting failed container={name} pod={pod}")),
        };
        state.phase = Phase::Waiting { reason: reason.to_owned(), message };
        if wait > Duration::ZERO {
            let message = format!("Back-off restarting failed container {name} in pod {pod}");
            self.note(now, NoticeKind::Warning, "BackOff", index, message);
        }
    }

    pub(super) fn hook_ended(
        &mut self,
        key: RunKey,
        hook: Hook,
        succeeded: bool,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        if !self.is_present(key) {
            return;
        }
        let Activity::Running(run) = &mut self.containers[key.container].activity else { return };
        match hook {
            Hook::PostStart => run.is_post_started |= succeeded,
            Hook::PreStop => match &mut run.end {
                Some(end) if end.stage == Stage::PreStop => {
                    end.stage = Stage::Terminated;
                    actions.push(Action::Terminate(key));
                }
                _ => return,
            },
        }
        self.refresh(key.container);
        match (hook, succeeded) {
            (_, true) => {}
            (Hook::PreStop, false) => {
                let message = "PreStopHook failed".to_owned();
                self.note(now, NoticeKind::Warning, "FailedPreStopHook", key.container, message);
            }
            (Hook::PostStart, false) => {
                let message = "PostStartHook failed".to_owned();
                self.note(now, NoticeKind::Warning, "FailedPostStartHook", key.container, message);
                self.end(key.container, now + self.plan.grace, "FailedPostStartHook".to_owned(), now, actions);
            }
        }
    }

    pub(super) fn probed(
        &mut self,
        key: RunKey,
        kind: ProbeKind,
        outcome: ProbeOutcome,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let plan = self.plan.containers.get(key.container).and_then(|plan| plan.probe(kind)).cloned();
        let Some(plan) = plan.filter(|_| self.is_present(key)) else { return };
        let Activity::Running(run) = &mut self.containers[key.container].activity else { return };
        let Some(probing) = run.probing(kind) else { return };
        let verdict = probing.answer(&plan, &outcome);
        if (kind, verdict) == (ProbeKind::Startup, Some(true)) {
            run.startup = None;
        }
        let complaint = match outcome {
            ProbeOutcome::Success => None,
            ProbeOutcome::Failure(message) => Some(format!("{kind} probe failed: {message}")),
            ProbeOutcome::Unknown(message) => {
                Some(format!("{kind} probe errored and resulted in unknown state: {message}"))
            }
        };
        if let Some(message) = complaint.filter(|message| !self.has_just_complained(key.container, message, now)) {
            self.note(now, NoticeKind::Warning, "Unhealthy", key.container, message);
        }
        self.refresh(key.container);
        match (kind, verdict) {
            (ProbeKind::Readiness, Some(is_ready)) => {
                let state = &mut self.state.containers[key.container];
                state.is_ready = is_ready && state.is_started;
            }
            (ProbeKind::Startup | ProbeKind::Liveness, Some(false)) => {
                let container = &self.plan.containers[key.container];
                let consequence = match container.policy {
                    super::RestartPolicy::Never => "",
                    _ => ", will be restarted",
                };
                let probe = kind.to_string().to_lowercase();
                let message = format!("Container {} failed {probe} probe{consequence}", container.name);
                self.end(key.container, now + plan.grace.unwrap_or(self.plan.grace), message, now, actions);
            }
            _ => {}
        }
    }

    /// Whether the same was said of a probe not long ago: a failing one would write and tell of it at every turn.
    fn has_just_complained(&self, index: usize, message: &str, now: Timestamp) -> bool {
        let name = Some(self.plan.containers[index].name.as_str());
        let notices = self.state.notices.iter().rev();
        let mut recent = notices.take_while(|notice| notice.at + SAME_COMPLAINT > now);
        recent.any(|notice| {
            notice.reason == "Unhealthy" && notice.container.as_deref() == name && notice.message == message
        })
    }

    /// Says whether a running container has started, and that it is ready if nobody has to be asked about that.
    fn refresh(&mut self, index: usize) {
        let Activity::Running(run) = &self.containers[index].activity else { return };
        let state = &mut self.state.containers[index];
        state.is_started = run.is_started();
        if run.readiness.is_none() {
            state.is_ready = state.is_started;
        }
    }

    /// Begins to end a running container, or makes the time shorter that it has for that.
    pub(super) fn end(
        &mut self,
        index: usize,
        deadline: Timestamp,
        message: String,
        now: Timestamp,
        actions: &mut Vec<Action>,
    ) {
        let key = RunKey { container: index, run: self.state.containers[index].restarts };
        let Activity::Running(run) = &mut self.containers[index].activity else { return };
        if let Some(end) = &mut run.end {
            end.deadline = end.deadline.min(deadline);
            return;
        }
        let stage = if self.plan.containers[index].has_pre_stop { Stage::PreStop } else { Stage::Terminated };
        run.end = Some(End { deadline, stage });
        if deadline > now {
            actions.push(match stage {
                Stage::PreStop => Action::RunHook(key, Hook::PreStop),
                Stage::Terminated | Stage::Killed => Action::Terminate(key),
            });
        }
        self.note(now, NoticeKind::Normal, "Killing", index, message);
    }

    /// Kills what has not ended in time, or not even begun by then.
    pub(super) fn kill(&mut self, actions: &mut Vec<Action>, now: Timestamp) {
        for (index, container) in self.containers.iter_mut().enumerate() {
            let is_late = match &mut container.activity {
                Activity::Running(Run { end: Some(end), .. }) if end.stage != Stage::Killed => {
                    let is_late = end.deadline <= now;
                    end.stage = if is_late { Stage::Killed } else { end.stage };
                    is_late
                }
                Activity::Starting { is_killed } if !*is_killed => {
                    *is_killed = self.stop_at.is_some_and(|deadline| deadline <= now);
                    *is_killed
                }
                _ => false,
            };
            if is_late {
                let run = self.state.containers[index].restarts;
                actions.push(Action::Kill(RunKey { container: index, run }));
            }
        }
    }

    /// Asks every probe whose time has come.
    pub(super) fn probe(&mut self, actions: &mut Vec<Action>, now: Timestamp) {
        for (index, container) in self.containers.iter_mut().enumerate() {
            let Activity::Running(run) = &mut container.activity else { continue };
            let key = RunKey { container: index, run: self.state.containers[index].restarts };
            for kind in ProbeKind::ALL {
                let plan = self.plan.containers[index].probe(kind);
                let Some((plan, probing)) = plan.zip(run.probing(kind)) else { continue };
                if probing.ask(plan, now) {
                    actions.push(Action::Probe(key, kind));
                }
            }
        }
    }
}
