//! A person's verdict on steps, as the object that carries it.

use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail};
use jiff::{SignedDuration, Timestamp, Unit};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use setpoint_api::condition::ConditionStatus;
use setpoint_api::review::{Decision, Review, ReviewSpec};

use super::signature::Signer;
use crate::apply::condition;
use crate::session::Session;
use crate::terminal::inert;
use crate::token;

/// How long a verdict holds, unless policy ends it sooner.
const HOLDS: SignedDuration = SignedDuration::from_hours(24);
/// How long the gatekeeper may take to judge it.
const JUDGEMENT: Duration = Duration::from_secs(30);

/// What a person says.
#[derive(Debug)]
pub(crate) struct Verdict<'a> {
    pub(crate) namespace: &'a str,
    /// The gate, which has the name of its change set.
    pub(crate) gate: &'a str,
    /// The change set, by its uid: another may have its name tomorrow.
    pub(crate) change_set_uid: Option<String>,
    pub(crate) decision: Decision,
    /// The steps, by their digests.
    pub(crate) digests: Vec<String>,
    pub(crate) comment: Option<String>,
    pub(crate) signer: Option<&'a Signer>,
}

/// Posts a verdict as the user, signed where there is something to sign with.
pub(crate) async fn post(session: &Session, user: &str, verdict: Verdict<'_>) -> Result<Review> {
    // In whole seconds, as the API writes times: what is signed must read the same afterwards.
    let now = Timestamp::now().round(Unit::Second).context("the time cannot be rounded")?;
    // Not everybody may read by what the control plane is known; only a signature cannot do without.
    let cluster_uid = match (session.cluster().await, verdict.signer) {
        (Ok(cluster), _) => Some(cluster),
        (Err(_), None) => None,
        (Err(error), Some(_)) => {
            return Err(error.context("a signature names the control plane, by the uid of the namespace kube-system"));
        }
    };
    let mut spec = ReviewSpec {
        gate: verdict.gate.to_owned(),
        decision: verdict.decision,
        digests: verdict.digests,
        reviewer: user.to_owned(),
        comment: verdict.comment,
        expires_at: Some(now.checked_add(HOLDS).context("the end of time")?),
        nonce: Some(token::random()),
        cluster_uid,
        change_set_uid: verdict.change_set_uid,
        signature: None,
    };
    if let Some(signer) = verdict.signer {
        spec.signature = Some(signer.sign(&spec.statement(verdict.namespace))?);
    }
    let review = Review {
        metadata: ObjectMeta { generate_name: Some(format!("{}-", verdict.gate)), ..ObjectMeta::default() },
        spec,
        status: None,
    };
    let reviews: Api<Review> = Api::namespaced(session.server.client.clone(), verdict.namespace);
    let posted =
        reviews.create(&PostParams::default(), &review).await.map_err(|error| session.server.unreachable(error));
    posted.with_context(|| format!("cannot review {}", inert(verdict.gate)))
}

/// Waits until the gatekeeper has judged a review, and says why if it does not count.
pub(crate) async fn judged(session: &Session, review: &Review) -> Result<()> {
    let namespace = review.metadata.namespace.as_deref().unwrap_or_default();
    let name = review.metadata.name.as_deref().unwrap_or_default();
    let reviews: Api<Review> = Api::namespaced(session.server.client.clone(), namespace);
    let accepted = |review: &Review| {
        let conditions = &review.status.as_ref()?.conditions;
        condition(conditions, "Accepted").filter(|accepted| accepted.status != ConditionStatus::Unknown).cloned()
    };
    let is_judged = |review: Option<&Review>| review.is_none_or(|review| accepted(review).is_some());
    let waited = tokio::time::timeout(JUDGEMENT, await_condition(reviews, name, is_judged)).await;
    let found = match waited {
        Ok(found) => found.map_err(|error| anyhow!(inert(&error.to_string())))?,
        Err(_) => {
            bail!("the review {} is written, and nobody has judged it yet; see that the controllers run", inert(name))
        }
    };
    match found.as_ref().and_then(accepted) {
        Some(accepted) if accepted.status == ConditionStatus::False => {
            let reason = inert(accepted.reason.as_deref().unwrap_or_default());
            bail!("the review does not count ({reason}): {}", inert(accepted.message.as_deref().unwrap_or_default()))
        }
        _ => Ok(()),
    }
}
