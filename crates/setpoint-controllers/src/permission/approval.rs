//! Which steps may be taken now: by what the caches show, and, just before something is done, by the server itself.
//!
//! A watch may stand still while the server takes a rejection or a stricter policy, and a right is revoked without any event.
//! So policy, change sets, Reviews and the right of each reviewer are read once more before what could cost something is done.
//! What is as the caches show it, by its version, is not read in full again.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use setpoint_api::change_set::ChangeSet;
use setpoint_api::environment::Environment;
use setpoint_api::machine::{DoneStep, Intent};
use setpoint_api::review::Review;
use setpoint_api::step::{Class, Step, Target};
use setpoint_core::authority::{self, Authorized, Set};
use setpoint_core::gate::{Gpus, Need, Verdict};
use setpoint_core::machine::{Held, HeldBy};
use setpoint_core::stricter::rules_for;

use super::treasury::Spending;
use crate::change_set::Case;
use crate::runtime::Error;
use crate::signature::Signatures;

/// What is asked.
#[derive(Debug, Clone)]
pub struct Asked<'a> {
    pub environment: &'a Environment,
    pub steps: &'a [Step],
    /// When the time of the object is over that they serve.
    pub expires_at: Option<Timestamp>,
    /// The calls whose outcome is not known.
    pub intents: &'a [Intent],
    pub gpus: BTreeMap<Target, Gpus>,
    pub spending: &'a Spending,
    /// The change sets that list steps like these, and what people said of them.
    pub cases: &'a [Case],
    /// What was done for the object that the steps serve, and how many steps that record holds.
    pub done: &'a [DoneStep],
    pub most_done: usize,
    /// That object, by its uid, its generation, and who asked for what it says.
    pub owner: &'a str,
    pub generation: i64,
    pub requested_by: &'a str,
    pub cluster: &'a str,
    pub now: Timestamp,
}

/// What becomes of each step, in their order.
pub fn judge(asked: &Asked<'_>) -> Vec<Authorized> {
    let sets: Vec<Set<'_>> = asked.cases.iter().map(Case::as_set).collect();
    let rules = rules_for(asked.environment, asked.steps);
    authority::authorize(&authority::Input {
        steps: asked.steps,
        environment: asked.environment.metadata.name.as_deref().unwrap_or_default(),
        owner: asked.owner,
        generation: asked.generation,
        requested_by: asked.requested_by,
        done: asked.done,
        most_done: asked.most_done,
        sets: &sets,
        approval: rules.approval.as_ref(),
        guardrails: rules.guardrails.as_ref(),
        windows: &rules.windows,
        expires_at: asked.expires_at,
        ledger: &asked.spending.ledger,
        intents: asked.intents,
        usage: &asked.spending.usage,
        gpus: &asked.gpus,
        cluster_uid: asked.cluster,
        now: asked.now,
    })
}

/// Whether something could be lost by a step, or people were asked about it.
pub fn is_at_stake(step: &Step, cases: &[Case]) -> bool {
    step.classes().into_iter().any(|class| class != Class::Benign) || cases.iter().any(|case| case.lists(&step.digest))
}

/// What becomes of each step by what the server has now. Nothing where the Environment is not there any more.
pub async fn confirm(client: &Client, signatures: &Signatures, asked: &Asked<'_>) -> Result<Vec<Authorized>, Error> {
    let meta = &asked.environment.metadata;
    let environments: Api<Environment> = Api::all(client.clone());
    let environment = environments.get_opt(meta.name.as_deref().unwrap_or_default()).await?;
    let Some(environment) = environment.filter(|environment| environment.metadata.uid == meta.uid) else {
        return Ok(Vec::new());
    };
    let mut cases = Vec::new();
    for case in asked.cases {
        if let Some(case) = read(client, signatures, case).await? {
            cases.push(case.with_rights(client).await?);
        }
    }
    Ok(judge(&Asked { environment: &environment, cases: &cases, ..asked.clone() }))
}

/// A change set and the reviews of its gate, unless it is gone.
async fn read(client: &Client, signatures: &Signatures, known: &Case) -> Result<Option<Case>, Error> {
    let meta = &known.change_set.metadata;
    let (namespace, name) = (meta.namespace.as_deref().unwrap_or_default(), meta.name.as_deref().unwrap_or_default());
    let sets: Api<ChangeSet> = Api::namespaced(client.clone(), namespace);
    let change_set = match sets.get_metadata_opt(name).await? {
        Some(now) if version(&now.metadata) == version(meta) => Some(known.change_set.clone()),
        Some(_) => sets.get_opt(name).await?.map(Arc::new),
        None => None,
    };
    let Some(change_set) = change_set else { return Ok(None) };
    let reviews: Api<Review> = Api::namespaced(client.clone(), namespace);
    let of_gate = ListParams::default().fields(&format!("spec.gate={name}"));
    let now = reviews.list_metadata(&of_gate).await?;
    let heard = known.reviews.iter().map(|known| &known.review).chain(&known.surplus);
    let versions: BTreeSet<_> = heard.clone().map(|review| version(&review.metadata)).collect();
    let versions_now: BTreeSet<_> = now.iter().map(|review| version(&review.metadata)).collect();
    let reviews = match versions_now == versions {
        true => heard.cloned().collect(),
        false => reviews.list(&of_gate).await?.items.into_iter().map(Arc::new).collect(),
    };
    Ok(Some(Case::reviewed(change_set, reviews, signatures)))
}

/// What an object is, exactly.
fn version(meta: &ObjectMeta) -> (Option<&str>, Option<&str>) {
    (meta.uid.as_deref(), meta.resource_version.as_deref())
}

/// The steps that may not be taken now, and what holds them.
pub fn held<'s>(steps: &'s [Step], verdicts: &[Verdict]) -> Vec<Held<'s>> {
    let held = steps.iter().zip(verdicts).filter_map(|(step, verdict)| {
        let by = match verdict {
            Verdict::Run => return None,
            Verdict::Refuse { .. } => HeldBy::Refusal,
            Verdict::Wait { .. } if verdict.waits_for_people() => HeldBy::People,
            Verdict::Wait { needs } if needs.iter().any(|need| matches!(need, Need::Step { .. })) => HeldBy::Step,
            Verdict::Wait { .. } if verdict.waits_for_window() => HeldBy::Window,
            Verdict::Wait { .. } => HeldBy::Limit,
        };
        Some(Held { step, why: verdict.why(), by })
    });
    held.collect()
}
