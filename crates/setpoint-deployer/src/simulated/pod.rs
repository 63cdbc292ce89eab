//! How a simulated Pod is at a time. Nothing runs and nothing ticks: what it is follows from what it is made from, from
//! when it was told to run, and from the time.

use std::net::{IpAddr, Ipv4Addr};
use std::time::Duration;

use jiff::Timestamp;
use setpoint_core::pod::{ContainerState, Exit, NoticeKind, Phase, PodState, PortState, Role};

use super::blueprint::{ContainerPlan, PodPlan, Restarts};
use super::instance::Power;

const FIRST_BACK_OFF: Duration = Duration::from_secs(10);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(300);
/// A container that has ended so often is not started again.
const MAX_RUNS: u32 = 256;
const TERMINATED: i32 = 15;

/// What happened, to be told in the order of time.
type Told = (Timestamp, NoticeKind, &'static str, Option<Box<str>>, String);

impl PodPlan {
    /// How the Pod is at `now`.
    pub(super) fn state(&self, serial: u64, power: &Power, ready_after: Duration, now: Timestamp) -> PodState {
        let mut told: Vec<Told> = Vec::new();
        let containers =
            self.containers.iter().map(|plan| self.life_of(plan, ready_after, &mut told).state(power, now));
        let containers = containers.collect();
        let stopping_since = power.asked_to_stop_at();
        if let Some(at) = stopping_since {
            told.push((at, NoticeKind::Normal, "Killing", None, "Stopping the Pod".to_owned()));
        }
        told.sort_by_key(|(at, ..)| *at);
        let mut state = PodState {
            started_at: power.asked_at(),
            ip: (power.runs_from() <= now).then(|| address(serial)),
            containers,
            ports: self.ports(),
            stopping_since,
            notices: Vec::new(),
        };
        for (at, kind, reason, container, message) in told {
            state.note(at, kind, reason, container.as_deref(), message);
        }
        state
    }

    /// Whether nothing of it runs at `now`, nor will.
    pub(super) fn has_ended(&self, power: &Power, now: Timestamp) -> bool {
        let mut told = Vec::new();
        self.containers.iter().filter(|plan| plan.role == Role::Main).all(|plan| {
            let mut life = self.life_of(plan, Duration::ZERO, &mut told);
            matches!(life.state(power, now).phase, Phase::Ended(_))
        })
    }

    /// When it is next another than at `now`, if nobody does anything to it.
    pub(super) fn turns_at(&self, power: &Power, ready_after: Duration, now: Timestamp) -> Option<Timestamp> {
        let mut told = Vec::new();
        let turns = self.containers.iter().filter_map(|plan| {
            let mut life = self.life_of(plan, ready_after, &mut told);
            life.state(power, now);
            life.turns
        });
        turns.min()
    }

    fn life_of<'a>(&self, plan: &'a ContainerPlan, ready_after: Duration, told: &'a mut Vec<Told>) -> Life<'a> {
        Life { plan, restarts: self.restarts, ready_after, told, turns: None }
    }

    fn ports(&self) -> Vec<PortState> {
        let of = |plan: &ContainerPlan| {
            let container = plan.name.to_string();
            let port = move |(name, port): &(Option<Box<str>>, u16)| PortState {
                container: container.clone(),
                name: name.as_deref().map(str::to_owned),
                container_port: *port,
                assigned_port: *port,
            };
            plan.ports.iter().map(port).collect::<Vec<_>>()
        };
        self.containers.iter().flat_map(of).collect()
    }
}

/// The runs of one container, one after the other.
struct Life<'a> {
    plan: &'a ContainerPlan,
    restarts: Restarts,
    ready_after: Duration,
    told: &'a mut Vec<Told>,
    /// When it is next another than it is found, once that was asked.
    turns: Option<Timestamp>,
}

impl Life<'_> {
    fn state(&mut self, power: &Power, now: Timestamp) -> ContainerState {
        let mut state = ContainerState::waiting(&self.plan.name, self.plan.role, "ContainerCreating");
        let end = power.stopped_at().unwrap_or(Timestamp::MAX);
        let seen = now.min(end);
        let mut begins = power.runs_from();
        self.turns(power.stopped_at(), now);
        self.turns(Some(begins).filter(|begins| *begins < end), now);
        while begins <= seen && begins < end {
            self.tell(begins, NoticeKind::Normal, "Started", "Started the container");
            let Some((code, ends)) = self.exit(begins).filter(|(_, ends)| *ends <= seen) else {
                self.run(&mut state, begins, power, now);
                self.turns(self.exit(begins).map(|(_, ends)| ends).filter(|ends| *ends < end), now);
                break;
            };
            let exit = exit(code, None, begins, ends);
            if !self.runs_again(code) || state.restarts + 1 == MAX_RUNS {
                state.phase = Phase::Ended(exit);
                state.is_started = false;
                return state;
            }
            let back_off = FIRST_BACK_OFF.saturating_mul(1 << state.restarts.min(10)).min(LONGEST_BACK_OFF);
            self.tell(ends, NoticeKind::Warning, "BackOff", "Back-off restarting failed container");
            let message = format!("back-off {}s restarting failed container", back_off.as_secs());
            state.phase = Phase::Waiting { reason: "CrashLoopBackOff".to_owned(), message };
            state.last_exit = Some(exit);
            begins = ends + back_off;
            self.turns(Some(begins).filter(|begins| *begins < end), now);
            state.restarts += u32::from(begins <= seen);
        }
        if end <= now && !matches!(state.phase, Phase::Ended(_)) {
            let began = if let Phase::Running { started_at } = state.phase { Some(started_at) } else { None };
            let began = began.unwrap_or(end);
            state.phase = Phase::Ended(exit(128 + TERMINATED, Some(TERMINATED), began, end));
            (state.is_started, state.is_ready) = (false, false);
        }
        state
    }

    fn run(&mut self, state: &mut ContainerState, started_at: Timestamp, power: &Power, now: Timestamp) {
        state.phase = Phase::Running { started_at };
        state.is_started = true;
        let gets_ready = self.plan.gets_ready && power.asked_to_stop_at().is_none();
        let ready_at = Some(started_at + self.ready_after).filter(|_| gets_ready);
        state.is_ready = ready_at.is_some_and(|at| at <= now);
        self.turns(ready_at, now);
        state.run_id = Some(format!("simulated://{}/{}", self.plan.name, state.restarts));
    }

    fn exit(&self, begins: Timestamp) -> Option<(i32, Timestamp)> {
        self.plan.exit.map(|(after, code)| (code, begins + after))
    }

    fn runs_again(&self, code: i32) -> bool {
        match (self.plan.role, self.restarts) {
            (Role::Sidecar, _) | (Role::Main, Restarts::Always) => true,
            (Role::Init | Role::Main, Restarts::OnFailure) | (Role::Init, Restarts::Always) => code != 0,
            (Role::Init | Role::Main, Restarts::Never) => false,
        }
    }

    /// Takes note of a time at which it may be another.
    fn turns(&mut self, at: Option<Timestamp>, now: Timestamp) {
        self.turns = self.turns.into_iter().chain(at.filter(|at| now < *at)).min();
    }

    fn tell(&mut self, at: Timestamp, kind: NoticeKind, reason: &'static str, message: &str) {
        self.told.push((at, kind, reason, Some(self.plan.name.clone()), message.to_owned()));
    }
}

fn exit(code: i32, signal: Option<i32>, started_at: Timestamp, finished_at: Timestamp) -> Exit {
    let reason = if code == 0 { "Completed" } else { "Error" }.to_owned();
    Exit { code, signal, reason, message: String::new(), started_at: Some(started_at), finished_at }
}

/// An address of its own for each instance.
fn address(serial: u64) -> IpAddr {
    let [.., a, b, c] = serial.to_be_bytes();
    Ipv4Addr::new(10, a, b, c).into()
}

#[cfg(test)]
mod tests {
    use setpoint_core::pod::Phase;

    use super::*;

    fn plan(exit: Option<(u64, i32)>, restarts: Restarts) -> PodPlan {
        let exit = exit.map(|(after, code)| (Duration::from_secs(after), code));
        let main = ContainerPlan {
            name: "app".into(),
            role: Role::Main,
            ports: vec![],
            exit,
            gets_ready: true,
            stops_after: None,
            says: None,
        };
        PodPlan { containers: vec![main], restarts }
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_000_000 + second).unwrap()
    }

    fn summary(state: &PodState) -> String {
        let container = &state.containers[0];
        let phase = match &container.phase {
            Phase::Waiting { reason, .. } => reason.clone(),
            Phase::Running { .. } if container.is_ready => "Ready".to_owned(),
            Phase::Running { .. } => "Running".to_owned(),
            Phase::Ended(exit) => format!("{} {}", exit.reason, exit.code),
        };
        format!("{phase}, {} restarts", container.restarts)
    }

    #[test]
    fn a_pod_is_what_follows_from_the_time() {
        let on = Power::On { asked: at(0), runs_from: at(5) };
        let off = Power::Off { asked: at(0), runs_from: at(5), since: at(20), until: at(24) };
        let serves = plan(None, Restarts::Always);
        let crashes = plan(Some((3, 1)), Restarts::Always);
        let ends = plan(Some((3, 0)), Restarts::OnFailure);
        let rows = [
            ("it is being created", &serves, &on, 4, "ContainerCreating, 0 restarts"),
            ("it runs and is not ready yet", &serves, &on, 6, "Running, 0 restarts"),
            ("it is ready", &serves, &on, 7, "Ready, 0 restarts"),
            ("it is asked to stop", &serves, &off, 22, "Running, 0 restarts"),
            ("it was made to stop", &serves, &off, 24, "Error 143, 0 restarts"),
            ("it crashed", &crashes, &on, 8, "CrashLoopBackOff, 0 restarts"),
            ("it runs again", &crashes, &on, 18, "Running, 1 restarts"),
            ("it crashed again, and waits longer", &crashes, &on, 40, "CrashLoopBackOff, 1 restarts"),
            ("it runs a third time", &crashes, &on, 41, "Running, 2 restarts"),
            ("it did its work", &ends, &on, 100, "Completed 0, 0 restarts"),
        ];
        for (row, plan, power, second, expected) in rows {
            let state = plan.state(1, power, Duration::from_secs(2), at(second));
            assert_eq!(summary(&state), expected, "{row}");
        }
    }

    /// Whoever looks only when told so misses nothing.
    #[test]
    fn every_turn_is_foreseen() {
        let on = Power::On { asked: at(0), runs_from: at(5) };
        let off = Power::Off { asked: at(0), runs_from: at(5), since: at(20), until: at(24) };
        let rows = [
            ("one that serves", plan(None, Restarts::Always), &on),
            ("one that crashes", plan(Some((3, 1)), Restarts::Always), &on),
            ("one that ends", plan(Some((3, 0)), Restarts::OnFailure), &on),
            ("one that is stopped", plan(None, Restarts::Always), &off),
            ("one that crashes and is stopped", plan(Some((3, 1)), Restarts::Always), &off),
        ];
        for (row, plan, power) in rows {
            let ready_after = Duration::from_secs(2);
            let mut seen = summary(&plan.state(1, power, ready_after, at(0)));
            let mut due = plan.turns_at(power, ready_after, at(0));
            for second in 1..400 {
                let now = at(second);
                if due.is_some_and(|due| due <= now) {
                    seen = summary(&plan.state(1, power, ready_after, now));
                    due = plan.turns_at(power, ready_after, now);
                }
                assert_eq!(seen, summary(&plan.state(1, power, ready_after, now)), "{row}, second {second}");
            }
        }
    }

    #[test]
    fn notices_are_numbered_alike_whenever_one_looks() {
        let on = Power::On { asked: at(0), runs_from: at(0) };
        let crashes = plan(Some((3, 1)), Restarts::Always);
        let early = crashes.state(1, &on, Duration::ZERO, at(30)).notices;
        let later = crashes.state(1, &on, Duration::ZERO, at(300)).notices;
        assert!(early.len() > 2 && later.starts_with(&early));
    }
}
