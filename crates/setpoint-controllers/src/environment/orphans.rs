//! What belongs to nothing is removed where policy and the gate let it be, once it has been seen to for a whole period.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use setpoint_api::change_set::MAX_STEPS;
use setpoint_api::environment::{Environment, Orphan, OrphanPolicy};
use setpoint_api::requester;
use setpoint_api::step::Step;
use setpoint_core::check::check;
use setpoint_core::derived_name;
use setpoint_core::gate::Verdict;
use setpoint_core::observation::Observation;
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::pod::NoticeKind;
use setpoint_deployer::Provider;

use super::{Environments, site};
use crate::change_set::{Case, Owner, cases_of};
use crate::permission::{Asked, Petition, Spending, confirm, held, judge, waits_for_people};
use crate::runtime::{Error, Round};

/// Where people are asked about what belongs to no namespace.
const NAMESPACE: &str = "kube-system";
const MAX_INTENT_ID: usize = 63;

impl Environments {
    /// Removes orphans as far as that may be done now, and asks people for the rest. They were seen in the leadership
    /// `epoch`, and only as long as that lasts they are still orphans for sure. One that cannot be removed keeps no other.
    pub(super) async fn remove_orphans(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        look: &Observation,
        orphans: &[Orphan],
        epoch: i64,
        round: &mut Round,
    ) -> Result<(), Error> {
        let lasting = lasting(environment, look, orphans, provider.abilities().guests.settle_seconds);
        if environment.spec.orphan_policy != OrphanPolicy::Delete || lasting.guests.is_empty() {
            return Ok(());
        }
        let plan = self.plan_removal(environment, provider, &lasting).await?;
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let uid = environment.metadata.uid.as_deref().unwrap_or_default();
        let cases = cases_of(&self.caches, Owner { uid, namespace: NAMESPACE, environment: name });
        let spending = self.treasury.spending(environment, &plan.steps, &BTreeMap::new()).await?;
        let answers = judge(&self.asked(environment, &plan.steps, &cases, &spending, round));
        drop(spending);
        let verdicts: Vec<Verdict> = answers.into_iter().map(|answer| answer.verdict).collect();
        let held = held(&plan.steps, &verdicts);
        let petition = Petition {
            owner: site::owner(environment),
            // What belongs to nothing is what it is, whatever the Environment says.
            generation: None,
            namespace: NAMESPACE,
            environment: name,
            requested_by: requester::NOBODY,
            plan: &plan,
            look: &lasting,
            held: waits_for_people(&held).collect(),
            asked: BTreeSet::new(),
            last_done: None,
        };
        let mut failure = self.asker.ask(&petition, round).await.err();
        let free = plan.steps.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Verdict::Run);
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

    /// Removes one, if that may still be done. Nobody has to wait for the provider but who needs it.
    async fn remove_orphan(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        step: &Step,
        cases: &[Case],
        epoch: i64,
        round: &Round,
    ) -> Result<(), Error> {
        let steps = std::slice::from_ref(step);
        let mut spending = self.treasury.spending(environment, steps, &BTreeMap::new()).await?;
        let asked = self.asked(environment, steps, cases, &spending, round);
        let confirmed = confirm(&self.client, &self.caches.signatures, &asked).await?;
        if !confirmed.iter().any(|answer| answer.verdict == Verdict::Run) {
            return Ok(());
        }
        let id = step.provider_id.as_deref().unwrap_or_default();
        let intent = derived_name::derive("orphan", MAX_INTENT_ID, &[id, &step.digest]);
        let is_entered = self.treasury.enter(&mut spending, step, &intent).await?;
        if !is_entered || !self.nodes.leads_in(epoch) {
            return Err(Error::Held(format!("guest {id}: it took too long to write it down, and is tried again")));
        }
        let reservation = self.treasury.reserve(spending, step, &intent, None);
        provider.delete(&intent, id).await?;
        reservation.answered();
        let message = format!("guest {id}: {}", step.reason);
        self.recorder.say(environment, NoticeKind::Normal, "Deleted", &message);
        Ok(())
    }

    /// What is asked leave for. Nobody asked for it, and nobody remembers what was done.
    fn asked<'a>(
        &'a self,
        environment: &'a Environment,
        steps: &'a [Step],
        cases: &'a [Case],
        spending: &'a Spending,
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
            done: &[],
            owner: environment.metadata.uid.as_deref().unwrap_or_default(),
            machine: None,
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
            cluster: &self.setup.cluster,
            capabilities: &provider.abilities().guests,
            desired: &[],
            observation: orphans,
            policy: Policy { create: environment.spec.create, orphans: Orphans::Delete },
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
