//! One look at a Machine's guest, and what follows from it: one step that is taken, or a status that says why none is.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{Intent, Machine, MachineStatus};
use setpoint_api::requester::{last_requester, requested_by};
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::Authorized;
use setpoint_core::desired::Desired;
use setpoint_core::gate::Verdict;
use setpoint_core::machine::{self, Held, Seen, Standing};
use setpoint_core::plan::Orphans;
use setpoint_core::pod::NoticeKind;

use super::acting::{Act, Failed};
use super::rest::{Guests, PASSING, UNSEEN, rest};
use super::{MOVED, Machines};
use crate::change_set::{self, Case};
use crate::permission::{
    Asked, Hearing, Petition, Spending, confirm, held, is_at_stake, is_remembered_here_alone, judge, waits_for_people,
};
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
        let cases = change_set::cases(
            &self.caches,
            &target,
            change_set::Owner {
                uid: machine.metadata.uid.as_deref().unwrap_or_default(),
                namespace: &target.namespace,
                environment: &machine.spec.environment,
            },
        );
        let wanted = machine::wanted(&planned.change_set);
        let wanted = |is_asked: bool| wanted.clone().filter(|_| is_asked || !cases.is_empty());
        let Some(desired) = planned.desired.iter().find(|desired| desired.target == target) else {
            let standing = Standing::refused(&planned.change_set.refused);
            let status = machine::stood(machine, &standing, round.now);
            return self
                .told(machine, MachineStatus { wanted: wanted(false), ..status }, None, Next::Idle, round)
                .await;
        };
        let seen = Seen {
            cluster: self.planning.cluster(),
            capabilities: &planned.capabilities,
            key: self.planning.key().await?,
            observation: &planned.observation,
        };
        let settlement = machine::settle(&machine.status.clone().unwrap_or_default(), desired, &seen);
        let is_released = machine::is_released(desired, &planned.change_set, &settlement, &seen);
        if is_released && !self.context.read_only && !is_remembered_here_alone(&cases, &settlement.done) {
            return self.release(machine, round).await.map(Progress::Told);
        }
        let arrivals = match environment.metadata.deletion_timestamp {
            Some(_) => machine::hold_arrivals(&mut planned.change_set.steps),
            None => Vec::new(),
        };
        let steps = &planned.change_set.steps;
        let gpus = seen.gpus(desired).into_iter().map(|gpus| (target.clone(), gpus)).collect();
        let spending = self.treasury.spending(environment, steps, &gpus).await?;
        let now = self.context.clock.now();
        let asked = Asked {
            environment,
            steps,
            expires_at: machine::expires_at(machine, environment.spec.guardrails.as_ref()),
            intents: &settlement.intents,
            gpus,
            spending: &spending,
            cases: &cases,
            done: &settlement.done,
            owner: machine.metadata.uid.as_deref().unwrap_or_default(),
            machine: Some(machine),
            requested_by: requested_by(&machine.metadata),
            cluster: self.planning.cluster(),
            now,
        };
        let authorized = judge(&asked);
        let verdicts: Vec<Verdict> = authorized.iter().map(|answer| answer.verdict.clone()).collect();
        let held = held(steps, &verdicts);
        let standing = Standing::of(&planned.change_set, &held, !settlement.intents.is_empty())
            .or_leaving(&machine.spec.environment, &arrivals);
        let petition = petition(machine, &planned, &held, &cases);
        let standing = match self.asker.ask(&petition, round).await? {
            Hearing::Possible => standing.or_expired(desired.expired_at),
            Hearing::Impossible => standing.unheard(),
        };
        let wanted = wanted(!petition.held.is_empty());
        let status = machine::next_status(machine, desired, &settlement, &seen, &standing, wanted, now);
        let free = steps.iter().zip(&authorized).find(|(_, answer)| answer.verdict == Verdict::Run);
        let free = free.filter(|_| !self.context.read_only);
        let Some((step, leave)) = free.filter(|(step, _)| !taken.contains(&step.digest)) else {
            let passing = planned.capabilities.passing_words;
            let passes = status.run.as_deref().is_some_and(|run| passing.contains(&run));
            let guests = Guests { passes, others_rest: self.others_rest(machine, desired) };
            let period = Duration::from_secs(environment.spec.observe_interval_seconds.into());
            let next = rest(&planned.change_set.waiting, &verdicts, &standing, guests, period, now);
            return self.told(machine, status, free.map(|(step, _)| step), next, round).await;
        };
        let Some(leave) = self.confirmed(&asked, step, leave).await? else {
            return Ok(Progress::Rests(Next::After(UNSEEN)));
        };
        taken.insert(step.digest.clone());
        let look = Look { desired, seen: &seen, status };
        self.take(machine, (step, &leave), look, spending, round).await
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

    /// The leave for a step, asked for once more where that matters; none where the caches are behind the server, which has
    /// it otherwise.
    async fn confirmed(&self, asked: &Asked<'_>, step: &Step, leave: &Authorized) -> Result<Option<Authorized>, Error> {
        if !is_at_stake(step, asked.cases) {
            return Ok(Some(leave.clone()));
        }
        // It depends on no other: it is the first that may be taken.
        let asked = Asked { steps: std::slice::from_ref(step), ..asked.clone() };
        let confirmed = confirm(&self.client, &self.caches.signatures, &asked).await?;
        Ok(confirmed.into_iter().find(|answer| answer.verdict == Verdict::Run))
    }

    /// Takes one step: what it takes goes into the ledger, then the call on record; then others may decide what to spend, and
    /// the call is made.
    async fn take(
        &self,
        machine: &Machine,
        (step, leave): (&Step, &Authorized),
        look: Look<'_>,
        mut spending: Spending,
        round: &mut Round,
    ) -> Result<Progress, Error> {
        let Look { desired, seen, status } = look;
        let uid = machine.metadata.uid.as_deref().unwrap_or_default();
        let (by, epoch) = (leave.by.clone(), self.context.epoch());
        let Some(intent) = machine::begin(&status, uid, step, by, epoch, self.context.clock.now()) else {
            return Ok(Progress::Rests(Next::After(PASSING)));
        };
        if !self.treasury.enter(&mut spending, step, &intent.id).await? {
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
    }
}

fn words(step: &Step) -> String {
    match &step.provider_id {
        Some(id) => format!("guest {id}: {}", step.reason),
        None => step.reason.clone(),
    }
}

/// What people are asked about a Machine.
fn petition<'a>(machine: &'a Machine, planned: &'a Planned, held: &[Held<'a>], cases: &'a [Case]) -> Petition<'a> {
    let meta = &machine.metadata;
    Petition {
        owner: OwnerReference {
            api_version: Machine::api_version(&()).into_owned(),
            kind: Machine::kind(&()).into_owned(),
            name: meta.name.clone().unwrap_or_default(),
            uid: meta.uid.clone().unwrap_or_default(),
            controller: Some(true),
            block_owner_deletion: None,
        },
        generation: meta.generation,
        namespace: meta.namespace.as_deref().unwrap_or_default(),
        environment: &machine.spec.environment,
        requested_by: last_requester(meta),
        plan: &planned.change_set,
        look: &planned.observation,
        held: waits_for_people(held).collect(),
        asked: cases.iter().flat_map(|case| case.asked_by_users(machine)).collect(),
        last_done: machine.status.as_ref().and_then(|status| status.done.last()).map(|done| done.at.to_string()),
    }
}
