//! One look at a Machine's guest, and what follows from it: one step that is taken, or a status that says why none is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::api::core::v1::Namespace;
use kube::Api;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{Intent, MAX_DONE, Machine, MachineStatus};
use setpoint_api::requester::requested_by;
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::{Authorized, needs_approval};
use setpoint_core::desired::Desired;
use setpoint_core::gate::Verdict;
use setpoint_core::machine::{self, HeldBy, Seen, Standing};
use setpoint_core::plan::Orphans;
use setpoint_core::pod::NoticeKind;
use setpoint_core::stricter::rules;

use super::acting::{Act, Failed};
use super::rest::{Guests, PASSING, UNSEEN, rest};
use super::{MOVED, Machines};
use crate::change_set;
use crate::permission::{Asked, Spending, confirm, held, is_at_stake, judge};
use crate::planning::{self, Planned, Subject};
use crate::runtime::{Error, Name, Next, Round};

/// What came of a look.
pub(super) enum Progress {
    /// A step was taken; the Machine is on record like this. What came of it has yet to be seen.
    Acted(Arc<Machine>),
    /// Nothing more can be done for now, and what was seen is on record.
    Told(Next),
    /// Nothing more can be done for now. What was to be seen has yet to be.
    Rests(Next),
}

/// What was seen, and what the status says of it.
struct Look<'a> {
    desired: &'a Desired,
    seen: &'a Seen<'a>,
    status: MachineStatus,
}

impl Machines {
    /// Takes the next step that may be taken; `taken` are the digests of those that this round has taken.
    pub(super) async fn step(
        &self,
        environment: &Environment,
        machine: &Arc<Machine>,
        taken: &mut BTreeSet<String>,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let mut planned = match self.planned(environment, machine).await {
            Ok(planned) => planned,
            Err(error) => return self.in_trouble(machine, error, round).await,
        };
        let target = machine::target(&machine.metadata);
        let Some(desired) = planned.desired.iter().find(|desired| desired.target == target) else {
            let standing = Standing::refused(&planned.change_set.refused);
            let status = machine::stood(machine, &standing, round.now);
            return self.told(machine, status, None, Next::Idle, round).await;
        };
        let seen = Seen {
            cluster: self.planning.cluster(),
            capabilities: &planned.capabilities,
            key: self.planning.key().await?,
            observation: &planned.observation,
        };
        let settlement = machine::settle(&machine.status.clone().unwrap_or_default(), desired, &seen);
        let is_released = machine::is_released(desired, &planned.change_set, &settlement, &seen);
        if is_released && !self.context.read_only {
            return self.release(machine, round).await.map(Progress::Told);
        }
        let arrivals = match environment.metadata.deletion_timestamp {
            Some(_) => machine::hold_arrivals(&mut planned.change_set.steps),
            None => Vec::new(),
        };
        let steps = &planned.change_set.steps;
        let digests = steps.iter().map(|step| &step.digest).chain(settlement.done.last().map(|done| &done.digest));
        let cases =
            change_set::cases(&self.client, &self.caches, &target.namespace, digests.map(String::as_str)).await?;
        let gpus = seen.gpus(desired).into_iter().map(|gpus| (target.clone(), gpus)).collect();
        let spending = self.treasury.spending(environment, steps, &gpus).await?;
        let now = self.context.clock.now();
        let asked = Asked {
            environment,
            steps,
            expires_at: machine::expires_at(machine, rules(environment).guardrails.as_ref()),
            intents: &settlement.intents,
            gpus,
            spending: &spending,
            cases: &cases,
            done: &settlement.done,
            most_done: MAX_DONE,
            owner: machine.metadata.uid.as_deref().unwrap_or_default(),
            generation: machine.metadata.generation.unwrap_or_default(),
            requested_by: requested_by(&machine.metadata),
            cluster: self.planning.cluster(),
            now,
        };
        let mut authorized = judge(&asked);
        let first = steps.iter().zip(&authorized).position(|(_, answer)| answer.verdict == Verdict::Run);
        let mut free = first.filter(|_| !self.context.read_only);
        let is_confirmed = match free.filter(|place| !taken.contains(&steps[*place].digest)) {
            Some(place) => self.is_confirmed(&asked, &mut authorized[place], &steps[place]).await?,
            None => true,
        };
        free = free.filter(|_| is_confirmed);
        let verdicts: Vec<Verdict> = authorized.iter().map(|answer| answer.verdict.clone()).collect();
        let held = held(steps, &verdicts);
        let standing = Standing::of(&planned.change_set, &held, !settlement.intents.is_empty())
            .or_leaving(&machine.spec.environment, &arrivals);
        let waits_for_people = held.iter().any(|held| held.by == HeldBy::People);
        let standing = match waits_for_people && self.is_namespace_leaving(machine).await? {
            false => standing.or_expired(desired.expired_at),
            true => standing.unheard(),
        };
        let in_force = rules(environment);
        let approval = in_force.approval.as_ref();
        let is_listed = |step: &Step| cases.iter().any(|case| case.open().contains(step.digest.as_str()));
        let needs = |step: &Step| needs_approval(step, approval) || is_listed(step);
        let pending = machine::pending(machine, &planned.change_set, &settlement, &seen, needs);
        let status = machine::next_status(machine, desired, &settlement, &seen, &standing, pending, now);
        let next = free.map(|place| (&steps[place], &authorized[place]));
        let Some((step, permission)) = next.filter(|(step, _)| !taken.contains(&step.digest)) else {
            let passing = planned.capabilities.passing_words;
            let passes = status.run.as_deref().is_some_and(|run| passing.contains(&run));
            let guests = Guests { passes, others_rest: self.others_rest(machine, desired) };
            let period = Duration::from_secs(environment.spec.observe_interval_seconds.into());
            let rests = rest(&planned.change_set.waiting, &verdicts, &standing, guests, period, now);
            // The caches are behind the server, or a right was taken away of which nobody is told.
            let rests = if is_confirmed { rests } else { Next::After(UNSEEN) };
            return self.told(machine, status, next.map(|(step, _)| step), rests, round).await;
        };
        taken.insert(step.digest.clone());
        let look = Look { desired, seen: &seen, status };
        self.take(machine, (step, permission), look, spending, round).await
    }

    /// Whether all that a Machine depends on say that they are as desired, so that none of them will be heard of.
    fn others_rest(&self, machine: &Machine, desired: &Desired) -> bool {
        let namespace = machine.metadata.namespace.as_deref().unwrap_or_default();
        let mut others =
            machine.spec.depends_on.iter().map(|name| self.caches.machines.get(&Name::new(namespace, name)));
        // One that goes waits for those that depend on it.
        let waits = desired.deletion.is_none() && !machine.spec.depends_on.is_empty();
        waits && others.all(|other| other.is_some_and(|other| machine::is_settled(&other)))
    }

    /// Writes down what was seen where no step is taken. `again` is one that this round has taken, and that would be taken
    /// once more.
    async fn told(
        &self,
        machine: &Machine,
        status: MachineStatus,
        again: Option<&Step>,
        next: Next,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let is_written = self.write_status(machine, status, round).await?.is_some();
        match again {
            // To do it over and over would not help.
            Some(step) => Err(Error::Held(format!("{}: it was done, and does not show", step.reason))),
            None if is_written => Ok(Progress::Told(next)),
            None => Ok(Progress::Rests(Next::After(MOVED))),
        }
    }

    /// Whether a step may be taken by what the server has now, asked where that matters. The answer is what it says.
    async fn is_confirmed(&self, asked: &Asked<'_>, answer: &mut Authorized, step: &Step) -> Result<bool, Error> {
        if !is_at_stake(step, asked.cases) {
            return Ok(true);
        }
        // It depends on no other that has yet to be taken: it is the first that may be.
        let asked = Asked { steps: std::slice::from_ref(step), ..asked.clone() };
        let confirmed = confirm(&self.client, &self.caches.signatures, &asked).await?;
        let Some(confirmed) = confirmed.into_iter().next() else {
            let message = format!("the Environment of {} is not there any more", step.target);
            return Err(Error::Held(message));
        };
        *answer = confirmed;
        Ok(answer.verdict == Verdict::Run)
    }

    /// Whether the namespace of a Machine that goes is going too: nothing can be made there any more, so nobody can be asked.
    async fn is_namespace_leaving(&self, machine: &Machine) -> Result<bool, Error> {
        let (Some(_), Some(name)) = (&machine.metadata.deletion_timestamp, &machine.metadata.namespace) else {
            return Ok(false);
        };
        let namespace = Api::<Namespace>::all(self.client.clone()).get_metadata_opt(name).await?;
        Ok(namespace.is_some_and(|namespace| namespace.metadata.deletion_timestamp.is_some()))
    }

    /// Takes one step: what it takes goes into the ledger, then the call on record; then others may decide what to spend, and
    /// the call is made.
    async fn take(
        &self,
        machine: &Machine,
        (step, permission): (&Step, &Authorized),
        look: Look<'_>,
        mut spending: Spending,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let Look { desired, seen, status } = look;
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let (by, epoch) = (permission.by.clone(), self.context.epoch());
        let price = desired.hourly_price;
        let Some(intent) = machine::begin(&status, uid, step, by, price, epoch, self.context.clock.now()) else {
            return Ok(Progress::Rests(Next::After(PASSING)));
        };
        let released = seen.released(desired, step, &intent.id, self.context.clock.now());
        if !self.treasury.enter(&mut spending, step, &intent.id, released).await? {
            return Ok(Progress::Rests(Next::After(PASSING)));
        }
        let Some(machine) = self.promise(machine, status, desired, &intent, round).await? else {
            return Ok(Progress::Rests(Next::After(MOVED)));
        };
        let provider = self.planning.provider(&machine.spec.environment)?;
        let reservation = self.treasury.reserve(spending, step, &intent.id, Some(&machine));
        let leads = || self.context.leads_in(epoch);
        let act =
            Act { provider: &*provider, desired, intent: &intent, seen, clock: self.context.clock, leads: &leads };
        match act.take(step).await {
            Ok(()) => {
                reservation.answered();
                self.recorder.say(&machine, NoticeKind::Normal, past(step.action), &words(step));
                Ok(Progress::Acted(Arc::new(machine)))
            }
            Err(failed) => {
                match &failed {
                    Failed::Surely(_) => self.treasury.give_back(reservation),
                    Failed::Perhaps(_) => drop(reservation),
                }
                self.failed(&machine, &intent.id, failed, round).await
            }
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
        error: planning::Error,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let standing = match &error {
            planning::Error::Api(_) => None,
            planning::Error::Unsound(_) => Some(Standing::unsound(error.to_string())),
            planning::Error::Provider(_) | planning::Error::NotOpen(_) => {
                Some(Standing::provider_error(error.to_string()))
            }
        };
        if let Some(standing) = standing {
            self.tell(machine, &standing, round).await?;
        }
        Err(error.into())
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
        Action::Loosen => "Loosened",
    }
}

fn words(step: &Step) -> String {
    match &step.provider_id {
        Some(id) => format!("guest {id}: {}", step.reason),
        None => step.reason.clone(),
    }
}
