//! What belongs to nothing is removed where policy and the gate let it be, once it has been seen to for a whole period.

use std::collections::{BTreeMap, BTreeSet};

use jiff::SignedDuration;
use setpoint_api::environment::{Environment, Orphan, OrphanPolicy};
use setpoint_api::requester;
use setpoint_core::check::check;
use setpoint_core::derived_name;
use setpoint_core::gate::Verdict;
use setpoint_core::observation::Observation;
use setpoint_core::plan::{ChangeSet, Input, Orphans, Policy, plan};
use setpoint_core::pod::NoticeKind;
use setpoint_deployer::Provider;

use super::{Environments, site};
use crate::change_set::{Owner, cases_of};
use crate::permission::{Asked, Petition, held, judge, waits_for_people};
use crate::runtime::{Error, Round};

/// Where people are asked about what belongs to no namespace.
const NAMESPACE: &str = "kube-system";
const MAX_INTENT_ID: usize = 63;

impl Environments {
    /// Removes orphans as far as that may be done now, and asks people for the rest.
    pub(super) async fn remove_orphans(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        look: &Observation,
        orphans: &[Orphan],
        round: &mut Round,
    ) -> Result<(), Error> {
        let lasting = lasting(environment, look, orphans, provider.abilities().guests.settle_seconds);
        if environment.spec.orphan_policy != OrphanPolicy::Delete || lasting.guests.is_empty() {
            return Ok(());
        }
        let plan = self.plan_removal(environment, provider, &lasting).await?;
        let mut spending = self.treasury.spending(environment, &plan.steps).await?;
        let owner = environment.metadata.uid.as_deref().unwrap_or_default();
        let name = environment.metadata.name.as_deref().unwrap_or_default();
        let authorized = judge(&Asked {
            environment,
            steps: &plan.steps,
            expires_at: None,
            intents: &[],
            gpus: BTreeMap::new(),
            spending: &spending,
            cases: &cases_of(&self.caches, Owner { uid: owner, namespace: NAMESPACE, environment: name }),
            done: &[],
            owner,
            requested_by: requester::NOBODY,
            cluster: &self.setup.cluster,
            now: round.now,
        });
        let verdicts: Vec<Verdict> = authorized.into_iter().map(|answer| answer.verdict).collect();
        let held = held(&plan.steps, &verdicts);
        let petition = Petition {
            owner: site::owner(environment),
            namespace: NAMESPACE,
            environment: name,
            requested_by: requester::NOBODY,
            plan: &plan,
            look: &lasting,
            held: waits_for_people(&held).collect(),
            last_done: None,
        };
        self.asker.ask(&petition, round).await?;
        let free = plan.steps.iter().zip(&verdicts).filter(|(_, verdict)| **verdict == Verdict::Run);
        for (step, _) in free {
            let id = step.provider_id.as_deref().unwrap_or_default();
            let intent = derived_name::derive("orphan", MAX_INTENT_ID, &[id, &step.digest]);
            if !self.treasury.enter(&mut spending, step, &intent).await? {
                break;
            }
            provider.delete(&intent, id).await?;
            let message = format!("guest {id}: {}", step.reason);
            self.recorder.say(environment, NoticeKind::Normal, "Deleted", &message);
        }
        Ok(())
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

/// Those that have belonged to nothing for a period, and for as long as news may take: a cache may have been late.
fn lasting(environment: &Environment, look: &Observation, orphans: &[Orphan], settle_seconds: i64) -> Observation {
    let period = i64::from(environment.spec.observe_interval_seconds).max(settle_seconds);
    let is_lasting =
        |orphan: &&Orphan| look.observed_at.duration_since(orphan.since) >= SignedDuration::from_secs(period);
    let ids: BTreeSet<&str> = orphans.iter().filter(is_lasting).map(|orphan| orphan.provider_id.as_str()).collect();
    let guests = look.guests.iter().filter(|guest| ids.contains(&*guest.id)).cloned().collect();
    Observation { guests, ..look.clone() }
}
