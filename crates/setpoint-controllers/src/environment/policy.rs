//! The policy in force of an Environment follows its spec: at once where nothing becomes looser, and otherwise when the step
//! that loosens it is approved. It is written with the resourceVersion of the spec that was looked at.

use std::sync::Arc;

use jiff::Timestamp;
use kube::Api;
use kube::api::PostParams;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::environment::{Environment, EnvironmentStatus, PolicyInForce};
use setpoint_api::machine::DoneStep;
use setpoint_api::pending::{Certainty, MAX_PENDING, PendingSteps};
use setpoint_api::requester::requested_by;
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::{Authorized, record_done};
use setpoint_core::conditions;
use setpoint_core::gate::Verdict;
use setpoint_core::loosens::{Loosened, loosens, step};
use setpoint_core::pod::NoticeKind;
use setpoint_core::stricter::{tightened, wanted};

use super::Environments;
use super::status::READY;
use crate::change_set::{NAMESPACE_OF_ENVIRONMENTS, cases};
use crate::ownership::unless_moved;
use crate::permission::{Asked, Spending, confirm, judge};
use crate::runtime::{Error, Round};

/// Whether the policy in force is the one that is written.
const POLICY_IN_FORCE: &str = "PolicyInForce";

/// An Environment after its policy was seen to.
pub(super) enum Kept {
    Known(Arc<Environment>),
    /// It is not as it was read: the next round begins with what it is now.
    Moved,
}

impl Environments {
    /// Puts in force what needs nobody's approval or has it, and asks for the rest. One that is deleted is to lose its rules:
    /// somebody could make it again without them.
    pub(super) async fn keep_policy(&self, environment: Arc<Environment>, round: &mut Round) -> Result<Kept, Error> {
        if self.nodes.read_only {
            return Ok(Kept::Known(environment));
        }
        let wanted = wanted(&environment);
        let was_ready = is_ready(&environment);
        let Some(in_force) = environment.status.as_ref().and_then(|status| status.policy.clone()) else {
            let policy = PolicyInForce { was_ready, ..wanted };
            return self.write_policy(&environment, policy, None, None, round).await;
        };
        let in_force = PolicyInForce { was_ready: was_ready || in_force.was_ready, ..in_force };
        let loosened = loosens(&in_force, &wanted.spec, wanted.protected);
        let tightened = tightened(&in_force, &wanted, &loosened);
        let Some(step) = step(&environment, &loosened, self.planning.key().await?) else {
            return self.write_policy(&environment, tightened, None, None, round).await;
        };
        let answer = self.may_loosen(&environment, &step, round).await?;
        if answer.verdict == Verdict::Run {
            let digest = step.digest.clone();
            let done = DoneStep {
                action: step.action,
                digest,
                at: in_seconds(round.now),
                change_set: answer.by,
                unseen: false,
                hourly_price: None,
            };
            let policy = PolicyInForce { was_ready: in_force.was_ready, ..wanted };
            let kept = self.write_policy(&environment, policy, None, Some(done), round).await?;
            if let Kept::Known(_) = &kept {
                self.recorder.say(&*environment, NoticeKind::Normal, "PolicyLoosened", &words(&loosened));
            }
            return Ok(kept);
        }
        let why = format!("{}: {}", words(&loosened), answer.verdict.why());
        self.write_policy(&environment, tightened, Some((&step, why)), None, round).await
    }

    /// Whether the policy may become looser now, by the policy in force.
    async fn may_loosen(&self, environment: &Environment, step: &Step, round: &Round) -> Result<Authorized, Error> {
        let cases = cases(&self.client, &self.caches, NAMESPACE_OF_ENVIRONMENTS, [step.digest.as_str()]).await?;
        let spending = Spending::default();
        let asked = Asked {
            environment,
            steps: std::slice::from_ref(step),
            expires_at: None,
            intents: &[],
            gpus: Default::default(),
            spending: &spending,
            cases: &cases,
            done: environment.status.as_ref().map_or(&[][..], |status| &status.done),
            most_done: MAX_PENDING,
            owner: environment.metadata.uid.as_deref().unwrap_or_default(),
            generation: environment.metadata.generation.unwrap_or_default(),
            requested_by: requested_by(&environment.metadata),
            cluster: &self.setup.cluster,
            now: round.now,
        };
        let judged = judge(&asked).pop();
        let judged = judged.ok_or_else(|| Error::Held(format!("{}: it was not judged", step.id)))?;
        if judged.verdict != Verdict::Run {
            return Ok(judged);
        }
        let confirmed = confirm(&self.client, &self.caches.signatures, &asked).await?.pop();
        confirmed.ok_or_else(|| Error::Held(format!("{}: the Environment is not there any more", step.id)))
    }

    /// Writes down the policy in force, the step that waits and why, and what was done, unless all of that is written.
    async fn write_policy(
        &self,
        environment: &Environment,
        policy: PolicyInForce,
        waits: Option<(&Step, String)>,
        done: Option<DoneStep>,
        round: &mut Round,
    ) -> Result<Kept, Error> {
        let old = environment.status.clone().unwrap_or_default();
        let generation = environment.metadata.generation;
        let mut new = EnvironmentStatus { policy: Some(policy), ..old.clone() };
        new.pending = pending(old.pending.as_ref(), waits.as_ref().map(|(step, _)| *step), generation, round.now);
        new.done = done.into_iter().fold(old.done.clone(), |all, done| record_done(all, done, MAX_PENDING));
        let was_told = old.conditions.iter().any(|condition| condition.type_ == POLICY_IN_FORCE);
        if waits.is_some() || was_told {
            let condition = condition(waits.map(|(_, why)| why), generation);
            conditions::set(&mut new.conditions, condition, in_seconds(round.now));
        }
        if new == old {
            return Ok(Kept::Known(Arc::new(environment.clone())));
        }
        let mut wanted = environment.clone();
        wanted.status = Some(new);
        let api: Api<Environment> = Api::all(self.client.clone());
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        match unless_moved(api.replace_status(name, &PostParams::default(), &wanted).await)? {
            Some(written) => {
                round.wrote(&self.caches.environments, &written);
                Ok(Kept::Known(Arc::new(written)))
            }
            None => Ok(Kept::Moved),
        }
    }
}

/// Why an Environment that is deleted stays for its policy, if it does.
pub(super) fn policy_keeps(environment: &Environment) -> Option<String> {
    let policy = environment.status.as_ref()?.policy.as_ref()?;
    let wanted = wanted(environment);
    let loosened = loosens(policy, &wanted.spec, wanted.protected);
    let told = environment.status.iter().flat_map(|status| &status.conditions);
    let why =
        told.filter(|condition| condition.type_ == POLICY_IN_FORCE).find_map(|condition| condition.message.clone());
    (!loosened.is_empty()).then(|| format!("its rules would go with it: {}", why.unwrap_or_else(|| words(&loosened))))
}

/// The steps of the Environment that wait: of those that loosen its policy this one, and all others as they were.
fn pending(
    old: Option<&PendingSteps>,
    waits: Option<&Step>,
    generation: Option<i64>,
    now: Timestamp,
) -> Option<PendingSteps> {
    let steps = || old.into_iter().flat_map(|old| &old.steps);
    let loosens = |step: &&Step| step.action == Action::Loosen;
    if steps().find(loosens) == waits && old.is_none_or(|old| Some(old.generation) == generation) {
        return old.cloned();
    }
    let steps: Vec<Step> = steps().filter(|step| !loosens(step)).chain(waits).cloned().collect();
    let observed_at = in_seconds(now);
    let generation = generation.unwrap_or_default();
    let certainty = old.map_or(Certainty::Known, |old| old.certainty);
    (old.is_some() || !steps.is_empty()).then_some(PendingSteps { generation, observed_at, certainty, steps })
}

fn condition(waits: Option<String>, generation: Option<i64>) -> Condition {
    let (status, reason, message) = match waits {
        Some(why) => (ConditionStatus::False, "Looser", why),
        None => (ConditionStatus::True, "AsWritten", "the policy in force is the one that is written".to_owned()),
    };
    Condition {
        type_: POLICY_IN_FORCE.to_owned(),
        status,
        reason: Some(reason.to_owned()),
        message: Some(message),
        last_transition_time: None,
        observed_generation: generation,
    }
}

/// Whether its provider was reached when it last said so.
fn is_ready(environment: &Environment) -> bool {
    let mut conditions = environment.status.iter().flat_map(|status| &status.conditions);
    conditions.any(|condition| condition.type_ == READY && condition.status == ConditionStatus::True)
}

/// Times of an object are in whole seconds.
fn in_seconds(time: Timestamp) -> Timestamp {
    Timestamp::from_second(time.as_second()).unwrap_or(time)
}

/// What would be looser, for people: a field and its values are in the step.
fn words(loosened: &[Loosened]) -> String {
    let fields: std::collections::BTreeSet<&str> = loosened.iter().map(|loosened| loosened.field.as_str()).collect();
    fields.into_iter().collect::<Vec<_>>().join(", ")
}
