//! One look at a Machine's guest, and what follows from it: one step that is taken, or a status that says why none is.

use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{Intent, Machine, MachineStatus};
use setpoint_api::step::{Action, Step, WaitsOn};
use setpoint_core::desired::Desired;
use setpoint_core::gate::Verdict;
use setpoint_core::machine::{self, Held, Seen, Standing};
use setpoint_core::plan::Orphans;
use setpoint_core::pod::NoticeKind;

use super::acting::{Act, Failed};
use super::leave::{self, Asked};
use super::{MOVED, Machines};
use crate::change_set;
use crate::planning::{self, Planned, Subject};
use crate::runtime::{Error, Next, Round};

/// When to look again at a guest that is on its way, or at a place that did not show everything.
const PASSING: Duration = Duration::from_secs(1);
const UNSEEN: Duration = Duration::from_secs(5);

/// What came of a look.
pub(super) enum Progress {
    /// A step was taken; the Machine is on record like this. What came of it has yet to be seen.
    Acted(Box<Machine>),
    /// Nothing more can be done for now.
    Rests(Next),
}

impl Machines {
    pub(super) async fn step(
        &self,
        environment: &Environment,
        machine: &Arc<Machine>,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let planned = match self.planned(environment, machine).await {
            Ok(planned) => planned,
            Err(error) => return self.in_trouble(machine, &error.to_string(), error.into(), round).await,
        };
        let target = machine::target(&machine.metadata);
        let Some(desired) = planned.desired.iter().find(|desired| desired.target == target) else {
            self.tell(machine, &Standing::refused(&planned.change_set.refused), round).await?;
            return Ok(Progress::Rests(Next::Idle));
        };
        let seen = Seen {
            cluster: self.planning.cluster(),
            capabilities: &planned.capabilities,
            key: self.planning.key().await?,
            observation: &planned.observation,
        };
        let settlement = machine::settle(&machine.status.clone().unwrap_or_default(), desired, &seen);
        let cases = change_set::cases(&self.caches, &target);
        let is_released = machine::is_released(desired, &planned.change_set, &settlement, &seen);
        if is_released && !leave::is_remembered_here_alone(&cases, &settlement.done) {
            self.release(machine, round).await?;
            return Ok(Progress::Rests(Next::Idle));
        }
        let steps = &planned.change_set.steps;
        let mut spending = self.spending(environment, steps).await?;
        let authorized = leave::judge(&Asked {
            environment,
            machine,
            steps,
            desired,
            guest: seen.guest(desired),
            spending: &spending,
            cases: &cases,
            done: &settlement.done,
            cluster: self.planning.cluster(),
            now: self.context.clock.now(),
        });
        let verdicts: Vec<Verdict> = authorized.iter().map(|answer| answer.verdict.clone()).collect();
        let held = leave::held(steps, &verdicts);
        let standing = Standing::of(&planned.change_set, &held, !settlement.intents.is_empty());
        let now = self.context.clock.now();
        let status = machine::next_status(machine, desired, &settlement, &seen, &standing, now);
        self.ask(machine, &planned, &held, round).await?;
        let mut answers = steps.iter().zip(&authorized);
        let Some((step, leave)) = answers.find(|(_, answer)| answer.verdict == Verdict::Run) else {
            let written = self.write_status(machine, status, round).await?;
            let next = if written.is_some() { rest(&planned, &verdicts, &standing, now) } else { Next::After(MOVED) };
            return Ok(Progress::Rests(next));
        };
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let (by, epoch) = (leave.by.clone(), self.context.epoch());
        let Some(intent) = machine::begin(&status, uid, step, by, epoch, self.context.clock.now()) else {
            return Ok(Progress::Rests(Next::After(PASSING)));
        };
        if !self.enter(&mut spending, step, &intent).await? {
            return Ok(Progress::Rests(Next::After(PASSING)));
        }
        let Some(machine) = self.promise(machine, status, desired, &intent, round).await? else {
            return Ok(Progress::Rests(Next::After(MOVED)));
        };
        let act = Act {
            provider: &*self.planning.provider(&machine.spec.environment).map_err(Error::from)?,
            desired,
            intent: &intent,
            observation: &planned.observation,
            seen: &seen,
            clock: self.context.clock,
        };
        match act.take(step).await {
            Ok(()) => {
                self.recorder.say(&machine, NoticeKind::Normal, past(step.action), &told(step));
                Ok(Progress::Acted(Box::new(machine)))
            }
            Err(failed) => self.failed(&machine, &intent.id, failed, round).await,
        }
    }

    /// Looks first, and plans for what is desired after that.
    async fn planned(&self, environment: &Environment, machine: &Arc<Machine>) -> Result<Planned, planning::Error> {
        let subjects = [Subject::stored(machine.clone())];
        let observation = self.planning.look(&machine.spec.environment, &subjects).await?;
        self.planning.plan_by(environment, &subjects, observation, Orphans::Ignore).await
    }

    /// Writes a call down before it is made, with what was settled meanwhile and with what will be secret. `None` if the
    /// Machine is not as it was read.
    async fn promise(
        &self,
        machine: &Machine,
        mut status: MachineStatus,
        desired: &Desired,
        intent: &Intent,
        round: &mut Round,
    ) -> Result<Option<Machine>, Error> {
        status.intents.push(intent.clone());
        let secrets = desired.secrets().into_iter().map(String::from);
        let new: Vec<String> = secrets.filter(|path| !status.secret_fields.contains(path)).collect();
        status.secret_fields.extend(new);
        self.write_status(machine, status, round).await
    }

    /// A call failed. It stays on record unless it surely had no effect: then only a look can tell.
    async fn failed(
        &self,
        machine: &Machine,
        intent: &str,
        failed: Failed,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let (error, is_sure) = match failed {
            Failed::Surely(error) => (error, true),
            Failed::Perhaps(error) => (error, false),
        };
        let standing = Standing::provider_error(error.to_string());
        let mut status = machine::stood(machine, &standing, self.context.clock.now());
        if is_sure {
            machine::strike_off(&mut status, intent);
        }
        self.write_status(machine, status, round).await?;
        Err(error.into())
    }

    /// The place could not be looked at, or what was seen could not be planned for.
    async fn in_trouble(
        &self,
        machine: &Machine,
        message: &str,
        error: Error,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        if !matches!(error, Error::Api(_)) {
            self.tell(machine, &Standing::provider_error(message), round).await?;
        }
        Err(error)
    }
}

/// When to look again although nothing is heard.
fn rest(planned: &Planned, verdicts: &[Verdict], standing: &Standing, now: Timestamp) -> Next {
    let on = |kinds: &[WaitsOn]| planned.change_set.waiting.iter().any(|waiting| kinds.contains(&waiting.on));
    let until = verdicts.iter().filter_map(Verdict::until).max();
    match () {
        () if standing.is_synced() => Next::Idle,
        () if let Some(until) = until => Next::After(Duration::try_from(until.duration_since(now)).unwrap_or(PASSING)),
        () if standing.reason == machine::reason::OVER_LIMIT => Next::After(UNSEEN),
        () if on(&[WaitsOn::Intent, WaitsOn::Provider]) => Next::After(PASSING),
        () if on(&[WaitsOn::Observation]) => Next::After(UNSEEN),
        () if standing.reason == machine::reason::PROGRESSING => Next::After(PASSING),
        () => Next::Idle,
    }
}

/// What Events call a step that was taken.
fn past(action: Action) -> &'static str {
    match action {
        Action::Adopt => "Adopted",
        Action::Create => "Created",
        Action::Update => "Updated",
        Action::Grow => "Grown",
        Action::Stop => "Stopped",
        Action::Start => "Started",
        Action::Restart => "Restarted",
        Action::Replace => "Replaced",
        Action::Release => "Released",
        Action::Delete => "Deleted",
    }
}

fn told(step: &Step) -> String {
    match &step.provider_id {
        Some(id) => format!("guest {id}: {}", step.reason),
        None => step.reason.clone(),
    }
}

/// The steps that wait for people, if any.
pub(super) fn waits_for_people<'h>(held: &'h [Held<'_>]) -> impl Iterator<Item = &'h Step> {
    held.iter().filter(|held| held.by == machine::HeldBy::People).map(|held| held.step)
}
