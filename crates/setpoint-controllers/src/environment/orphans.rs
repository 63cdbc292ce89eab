//! What belongs to nothing is removed where policy and the gate let it be, once it has been seen to for a whole period.
//!
//! The steps that need an approval are listed in the status of the Environment, where the ChangeSet controller reads them. There
//! is no object that an intent could be written into, so an approval is marked as used before the call.

use std::collections::{BTreeMap, BTreeSet};

use jiff::{SignedDuration, Timestamp};
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use setpoint_api::change_set::MAX_STEPS;
use setpoint_api::environment::{Environment, Orphan, OrphanPolicy};
use setpoint_api::machine::DoneStep;
use setpoint_api::pending::{Certainty, MAX_PENDING, PendingSteps};
use setpoint_api::requester;
use setpoint_api::step::{Action, Step};
use setpoint_core::authority::{needs_approval, record_done};
use setpoint_core::check::check;
use setpoint_core::derived_name;
use setpoint_core::gate::Verdict;
use setpoint_core::observation::Observation;
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::pod::NoticeKind;
use setpoint_core::stricter::rules;
use setpoint_deployer::Provider;

use super::Environments;
use crate::change_set::{Case, NAMESPACE_OF_ENVIRONMENTS, cases};
use crate::ownership::unless_moved;
use crate::permission::{Asked, Spending, confirm, judge};
use crate::runtime::{Error, Round};

const MAX_INTENT_ID: usize = 63;

impl Environments {
    /// Removes orphans as far as that may be done now, and lists the rest. They were seen in the leadership `epoch`, and only as
    /// long as that lasts they are still orphans for sure. One that cannot be removed keeps no other.
    pub(super) async fn remove_orphans(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        look: &Observation,
        orphans: &[Orphan],
        epoch: i64,
        round: &mut Round,
    ) -> Result<(), Error> {
        let settle_seconds = provider.abilities().guests.settle_seconds;
        let mut lasting = lasting(environment, look, orphans, settle_seconds);
        if rules(environment).orphan_policy != OrphanPolicy::Delete {
            lasting.guests.clear();
        }
        let plan = self.plan_removal(environment, provider, &lasting).await?;
        let digests: Vec<&str> = plan.steps.iter().map(|step| step.digest.as_str()).collect();
        let cases = cases(&self.client, &self.caches, NAMESPACE_OF_ENVIRONMENTS, digests).await?;
        let under_way = self.list(environment, &plan, &lasting, &cases, settle_seconds, round).await?;
        let steps: Vec<Step> = plan.steps.into_iter().filter(|step| !under_way.contains(&step.digest)).collect();
        let spending = self.treasury.spending(environment, &steps, &BTreeMap::new()).await?;
        let done = environment.status.as_ref().map_or(&[][..], |status| &status.done);
        let answers = judge(&self.asked(environment, &steps, &cases, (done, &spending), round));
        drop(spending);
        let mut failure = None;
        let free = steps.iter().zip(&answers).filter(|(_, answer)| answer.verdict == Verdict::Run);
        for (step, _) in free {
            if !self.nodes.leads_in(epoch) {
                return Err(Error::Held("another leads by now, and looks anew".to_owned()));
            }
            if let Err(error) = self.remove_orphan(environment, provider, step, &cases, epoch, round).await {
                failure.get_or_insert(error);
            }
        }
        failure.map_or(Ok(()), Err)
    }

    /// Lists the steps that need an approval, and writes down of those that were taken which had their effect. Gives back the
    /// digests of those that are under way.
    async fn list(
        &self,
        environment: &Environment,
        plan: &ChangeSet,
        look: &Observation,
        cases: &[Case],
        settle_seconds: i64,
        round: &mut Round,
    ) -> Result<BTreeSet<String>, Error> {
        let status = environment.status.clone().unwrap_or_default();
        let (done, under_way) = settled(status.done.clone(), plan, look, settle_seconds);
        let in_force = rules(environment);
        let approval = in_force.approval.as_ref();
        let needs = |step: &&Step| {
            needs_approval(step, approval) || cases.iter().any(|case| case.open().contains(&*step.digest))
        };
        let steps = plan.steps.iter().filter(|step| !under_way.contains(&step.digest)).filter(needs);
        // A looser policy is asked about beside.
        let loosening = status.pending.iter().flat_map(|pending| &pending.steps);
        let loosening = loosening.filter(|step| step.action == Action::Loosen);
        let is_known = look.completeness.is_complete() && plan.waiting.is_empty() && plan.steps.len() < MAX_STEPS;
        let mut pending = PendingSteps {
            generation: environment.metadata.generation.unwrap_or_default(),
            observed_at: look.observed_at,
            certainty: if is_known { Certainty::Known } else { Certainty::Unknown },
            steps: loosening.chain(steps).take(MAX_PENDING).cloned().collect(),
        };
        if let Some(old) = status.pending.as_ref() {
            let is_later = done.iter().any(|done| done.unseen && done.at > old.observed_at);
            let is_same = *old == PendingSteps { observed_at: old.observed_at, ..pending.clone() };
            // A look alone is not worth a write, unless it tells what became of a call.
            pending.observed_at = if is_same && !is_later { old.observed_at } else { pending.observed_at };
        }
        let pending = Some(pending).filter(|pending| status.pending.is_some() || !pending.steps.is_empty());
        if pending != status.pending || done != status.done {
            // A merge patch keeps what it does not name, and a list without steps is not written out.
            let steps = pending.as_ref().map(|pending| &pending.steps);
            let mut told = json!({"pending": pending, "done": done});
            if let (Some(steps), Some(pending)) = (steps, told["pending"].as_object_mut()) {
                pending.insert("steps".to_owned(), json!(steps));
            }
            if self.patch_status(environment, told, round).await?.is_none() {
                return Err(Error::Held("the Environment was written meanwhile, and is looked at anew".to_owned()));
            }
        }
        Ok(under_way)
    }

    /// Writes some of an Environment's status, unless it moved.
    async fn patch_status(
        &self,
        environment: &Environment,
        status: serde_json::Value,
        round: &mut Round,
    ) -> Result<Option<Environment>, Error> {
        let metadata = &environment.metadata;
        let seen = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": seen, "status": status}));
        let api: Api<Environment> = Api::all(self.client.clone());
        let name = metadata.name.as_deref().unwrap_or_default();
        let written = unless_moved(api.patch_status(name, &PatchParams::default(), &patch).await)?;
        written.iter().for_each(|written| round.wrote(&self.caches.environments, written));
        Ok(written)
    }

    /// Removes one, if that may still be done. Nobody has to wait for the provider but who needs it.
    async fn remove_orphan(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        step: &Step,
        cases: &[Case],
        epoch: i64,
        round: &mut Round,
    ) -> Result<(), Error> {
        let steps = std::slice::from_ref(step);
        let mut spending = self.treasury.spending(environment, steps, &BTreeMap::new()).await?;
        let id = step.provider_id.as_deref().unwrap_or_default();
        let intent = derived_name::derive("orphan", MAX_INTENT_ID, &[id, &step.digest]);
        let late = || Error::Held(format!("guest {id}: it took too long to write it down, and is tried again"));
        // The record of what was approved and used is the server's own, and so is the version that it is written on.
        let api: Api<Environment> = Api::all(self.client.clone());
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let fresh = api.get_opt(name).await?.filter(|fresh| fresh.metadata.uid == environment.metadata.uid);
        let Some(fresh) = fresh else { return Ok(()) };
        let done = fresh.status.as_ref().map(|status| status.done.clone()).unwrap_or_default();
        let asked = self.asked(&fresh, steps, cases, (&done, &spending), round);
        let confirmed = confirm(&self.client, &self.caches.signatures, &asked).await?;
        let Some(permission) = confirmed.into_iter().find(|answer| answer.verdict == Verdict::Run) else {
            return Ok(());
        };
        if let Some(change_set) = permission.by {
            let used = DoneStep {
                action: step.action,
                digest: step.digest.clone(),
                at: self.nodes.clock.now(),
                change_set: Some(change_set),
                unseen: true,
                hourly_price: None,
            };
            let done = record_done(done.clone(), used, MAX_PENDING);
            self.patch_status(&fresh, json!({"done": done}), round).await?.ok_or_else(late)?;
        }
        let is_entered = self.treasury.enter(&mut spending, step, &intent, None).await?;
        if !is_entered || !self.nodes.leads_in(epoch) {
            return Err(late());
        }
        let reservation = self.treasury.reserve(spending, step, &intent, None);
        provider.delete(&intent, id).await?;
        reservation.answered();
        let message = format!("guest {id}: {}", step.reason);
        self.recorder.say(environment, NoticeKind::Normal, "Deleted", &message);
        Ok(())
    }

    /// What is asked. Nobody asked for it.
    fn asked<'a>(
        &'a self,
        environment: &'a Environment,
        steps: &'a [Step],
        cases: &'a [Case],
        (done, spending): (&'a [DoneStep], &'a Spending),
        round: &Round,
    ) -> Asked<'a> {
        Asked {
            environment,
            steps,
            expires_at: None,
            intents: &[],
            gpus: BTreeMap::new(),
            spending,
            cases,
            done,
            most_done: MAX_PENDING,
            owner: environment.metadata.uid.as_deref().unwrap_or_default(),
            generation: environment.metadata.generation.unwrap_or_default(),
            requested_by: requester::NOBODY,
            cluster: &self.setup.cluster,
            now: round.now,
        }
    }

    async fn plan_removal(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        orphans: &Observation,
    ) -> Result<ChangeSet, Error> {
        let input = Input {
            environment: environment.metadata.name.as_deref().unwrap_or_default(),
            environment_uid: environment.metadata.uid.as_deref().unwrap_or_default(),
            cluster: &self.setup.cluster,
            capabilities: &provider.abilities().guests,
            desired: &[],
            observation: orphans,
            policy: Policy { create: rules(environment).create, orphans: Orphans::Delete },
            key: self.planning.key().await?,
        };
        let change_set = plan(&input);
        match check(&input, &change_set).first() {
            None => Ok(change_set),
            Some(violation) => {
                tracing::error!(environment = input.environment, %violation, "a plan is not sound and is not carried out");
                Err(Error::Held(violation.to_string()))
            }
        }
    }
}

/// For how long a removal may take to show at least.
const REMOVAL_S: i64 = 30;

/// The record of what was done, where what was taken is seen to have had its effect if its guest is gone, and the digests of
/// what was taken and may yet show.
fn settled(
    mut done: Vec<DoneStep>,
    plan: &ChangeSet,
    look: &Observation,
    settle_seconds: i64,
) -> (Vec<DoneStep>, BTreeSet<String>) {
    let is_planned = |digest: &str| plan.steps.iter().any(|step| step.digest == digest);
    let is_quiet = plan.waiting.is_empty() && look.completeness.is_complete();
    for done in done.iter_mut().filter(|done| done.unseen && is_quiet && look.observed_at > done.at) {
        done.unseen = is_planned(&done.digest);
    }
    let may_show =
        |at: Timestamp| look.observed_at.duration_since(at) < SignedDuration::from_secs(settle_seconds.max(REMOVAL_S));
    let under_way = done.iter().filter(|done| done.unseen && may_show(done.at)).map(|done| done.digest.clone());
    let under_way = under_way.collect();
    (done, under_way)
}

/// Those that have belonged to nothing for a period, and for as long as news may take: a cache may have been late. No more
/// at once than people can be asked about.
fn lasting(environment: &Environment, look: &Observation, orphans: &[Orphan], settle_seconds: i64) -> Observation {
    let period = i64::from(environment.spec.observe_interval_seconds).max(settle_seconds);
    let is_lasting =
        |orphan: &&Orphan| look.observed_at.duration_since(orphan.since) >= SignedDuration::from_secs(period);
    let lasting = orphans.iter().filter(is_lasting).take(MAX_STEPS);
    let ids: BTreeSet<&str> = lasting.map(|orphan| orphan.provider_id.as_str()).collect();
    let guests = look.guests.iter().filter(|guest| ids.contains(&*guest.id)).cloned().collect();
    Observation { guests, ..look.clone() }
}

#[cfg(test)]
mod tests {
    use jiff::Timestamp;
    use serde_json::json;
    use setpoint_core::observation::{Completeness, Guest};

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_900_000_000, 0);

    fn orphan(id: &str, for_seconds: i64) -> Orphan {
        let since = NOW - SignedDuration::from_secs(for_seconds);
        Orphan { provider_id: id.to_owned(), name: None, since, hourly_cost: None }
    }

    #[test]
    fn what_lasts_is_removed_no_more_at_once_than_people_can_be_asked_about() {
        let environment: Environment = serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": "simulated"}, "observeIntervalSeconds": 30},
        }))
        .expect("an Environment");
        let many: Vec<String> = (0..MAX_STEPS + 5).map(|number| format!("g{number}")).collect();
        let rows = [
            ("it lasts", vec![orphan("g0", 30)], 10, 1),
            ("it was only just seen", vec![orphan("g0", 29)], 10, 0),
            ("news may take longer here", vec![orphan("g0", 30)], 60, 0),
            ("there are many", many.iter().map(|id| orphan(id, 30)).collect(), 10, MAX_STEPS),
        ];
        let guests: Vec<Guest> = many.iter().map(|id| Guest::new(id, None)).collect();
        let look = Observation { completeness: Completeness::Complete, guests, observed_at: NOW };
        for (name, orphans, settle_seconds, expected) in rows {
            assert_eq!(lasting(&environment, &look, &orphans, settle_seconds).guests.len(), expected, "{name}");
        }
    }
}
