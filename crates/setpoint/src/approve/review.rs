//! A person's verdict on steps, as the object that carries it.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, anyhow, bail, ensure};
use jiff::{SignedDuration, Timestamp, Unit};
use kube::Api;
use kube::api::{ObjectMeta, PostParams};
use kube::runtime::wait::await_condition;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::planspec::gate::{CLUSTER_UID, Gate};
use setpoint_api::review::{Decision, Review, ReviewSpec};

use super::signature::Signer;
use crate::apply::condition;
use crate::client::words;
use crate::session::Session;
use crate::terminal::{inert, remark};
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

/// What became of a verdict.
#[derive(Debug)]
pub(crate) enum Judgement {
    /// It counts.
    Counted(Box<Review>),
    /// The user may not review here, in the server's words.
    Forbidden(String),
    /// It is written and does not count: the reason in one word, and in a sentence.
    Void { reason: String, message: String },
}

impl Judgement {
    /// The review, or why there is none that counts.
    pub(crate) fn counted(self) -> Result<Review> {
        match self {
            Judgement::Counted(review) => Ok(*review),
            void => bail!(void.to_string()),
        }
    }

    /// Whether it is about steps that are no longer what they were, or of objects that were written since.
    pub(crate) fn is_stale(&self) -> bool {
        self.is_outdated() || matches!(self, Judgement::Void { reason, .. } if reason == "Stale")
    }

    /// Whether what it is about has no leave by its change set any more.
    pub(crate) fn is_outdated(&self) -> bool {
        matches!(self, Judgement::Void { reason, .. } if reason == "Outdated")
    }
}

impl fmt::Display for Judgement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Judgement::Counted(_) => f.write_str("the review counts"),
            Judgement::Forbidden(why) => {
                write!(f, "you may not review here: {why}; the ClusterRole setpoint:reviewer lets people review")
            }
            // Nothing can be later than what is said now but what was said in the same second.
            Judgement::Void { reason, .. } if reason == "Superseded" => f.write_str(
                "the review does not count: you rejected this within the same second, and of two verdicts within one second \
                 the rejection counts; say it again",
            ),
            Judgement::Void { reason, message } => write!(f, "the review does not count ({reason}): {message}"),
        }
    }
}

/// Gives a verdict as the user, signed where there is something to sign with, and waits until it was judged.
pub(crate) async fn give(session: &Session, user: &str, verdict: Verdict<'_>) -> Result<Judgement> {
    let (namespace, gate) = (verdict.namespace, verdict.gate);
    let review = written(session, user, verdict).await?;
    let reviews: Api<Review> = Api::namespaced(session.server.client.clone(), namespace);
    match reviews.create(&PostParams::default(), &review).await {
        Ok(review) => judged(session, reviews, review).await,
        Err(kube::Error::Api(status)) if status.code == 403 => Ok(Judgement::Forbidden(words(&status))),
        Err(error) => Err(session.server.unreachable(error)).with_context(|| format!("cannot review {}", inert(gate))),
    }
}

/// A verdict as it is posted.
async fn written(session: &Session, user: &str, verdict: Verdict<'_>) -> Result<Review> {
    // In whole seconds, as the API writes times: what is signed must read the same afterwards.
    let now = Timestamp::now().round(Unit::Second).context("the time cannot be rounded")?;
    // Not everybody may read the namespace by which the control plane is known; who may review reads the gate.
    let cluster_uid = match (session.cluster().await, verdict.signer) {
        (Ok(cluster), _) => Some(cluster),
        (Err(_), None) => None,
        (Err(error), Some(_)) => {
            let named = named_by_gate(session, &verdict).await;
            let why = || error.context("a signature names the control plane, by the uid of the namespace kube-system");
            Some(named.ok_or_else(why)?)
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
    let metadata = ObjectMeta { generate_name: Some(format!("{}-", verdict.gate)), ..ObjectMeta::default() };
    Ok(Review { metadata, spec, status: None })
}

async fn named_by_gate(session: &Session, verdict: &Verdict<'_>) -> Option<String> {
    let gates: Api<Gate> = Api::namespaced(session.server.client.clone(), verdict.namespace);
    let context = gates.get_opt(verdict.gate).await.ok()??.spec.context?;
    context[CLUSTER_UID].as_str().map(str::to_owned)
}

/// Waits until the gatekeeper has judged a review.
async fn judged(session: &Session, reviews: Api<Review>, review: Review) -> Result<Judgement> {
    let name = review.metadata.name.as_deref().unwrap_or_default();
    let is_judged = |review: Option<&Review>| review.is_none_or(|review| accepted(review).is_some());
    let waited = tokio::time::timeout(JUDGEMENT, await_condition(reviews, name, is_judged)).await;
    let found = match waited {
        Ok(found) => found.map_err(|error| anyhow!(inert(&error.to_string())))?,
        Err(_) => {
            bail!("the review {} is written, and nobody has judged it yet; see that the controllers run", inert(name))
        }
    };
    let Some(found) = found else {
        let namespace = review.metadata.namespace.as_deref().unwrap_or_default();
        let sets: Api<ChangeSet> = Api::namespaced(session.server.client.clone(), namespace);
        let set = sets.get_opt(&review.spec.gate).await.map_err(|error| session.server.unreachable(error))?;
        return vanished(review, set.as_ref());
    };
    Ok(judgement(found))
}

/// What the gatekeeper said of a review, once it did.
fn accepted(review: &Review) -> Option<Condition> {
    let conditions = &review.status.as_ref()?.conditions;
    condition(conditions, "Accepted").filter(|accepted| accepted.status != ConditionStatus::Unknown).cloned()
}

fn judgement(review: Review) -> Judgement {
    let word = |text: Option<String>| inert(&text.unwrap_or_default());
    match accepted(&review) {
        Some(accepted) if accepted.status == ConditionStatus::False => {
            Judgement::Void { reason: word(accepted.reason), message: word(accepted.message) }
        }
        _ => Judgement::Counted(Box::new(review)),
    }
}

/// What became of a review that is gone before it was seen to be judged. A change set goes with the object that it was made
/// for, and its reviews with it: then the steps were taken.
fn vanished(review: Review, set: Option<&ChangeSet>) -> Result<Judgement> {
    let is_left = set.is_some_and(|set| set.metadata.uid == review.spec.change_set_uid);
    let name = review.metadata.name.as_deref().unwrap_or_default();
    ensure!(!is_left, "the review {} was deleted before it was judged", inert(name));
    remark("what it was about is gone by now, and its change set with it");
    Ok(Judgement::Counted(Box::new(review)))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn review(status: Value) -> Review {
        let spec = json!({
            "gate": "apply-1", "decision": "Approve", "digests": ["d"], "reviewer": "alice", "changeSetUid": "u",
        });
        let metadata = json!({"name": "apply-1-x", "namespace": "shop"});
        let object = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review", "metadata": metadata, "spec": spec, "status": status,
        });
        serde_json::from_value(object).expect("a Review")
    }

    fn told(judgement: Result<Judgement>) -> String {
        judgement.map_or_else(|error| format!("error: {error}"), |judgement| judgement.to_string())
    }

    #[test]
    fn a_review_counts_unless_the_gatekeeper_says_that_it_does_not() {
        let said = |status: &str, reason: &str| {
            let accepted = json!({"type": "Accepted", "status": status, "reason": reason, "message": "it moved"});
            judgement(review(json!({"conditions": [accepted]})))
        };
        assert_eq!(told(Ok(said("True", "Counted"))), "the review counts");
        assert_eq!(told(Ok(said("False", "Stale"))), "the review does not count (Stale): it moved");
        assert_eq!(
            told(Ok(said("False", "Superseded"))),
            "the review does not count: you rejected this within the same second, and of two verdicts within one second the \
             rejection counts; say it again"
        );
    }

    #[test]
    fn who_approved_a_deletion_that_is_over_is_told_that_it_counted() {
        let set = |uid: &str| -> ChangeSet {
            let spec = json!({"environment": "lab", "mode": "Execute", "requestedBy": "carol"});
            let object = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "spec": spec,
                "metadata": {"name": "apply-1", "namespace": "shop", "uid": uid},
            });
            serde_json::from_value(object).expect("a ChangeSet")
        };
        let rows = [
            ("the change set went with its object", None, "the review counts"),
            ("another has its name", Some(set("another")), "the review counts"),
            ("it is there", Some(set("u")), "error: the review apply-1-x was deleted before it was judged"),
        ];
        for (row, set, expected) in rows {
            assert_eq!(told(vanished(review(json!({})), set.as_ref())), expected, "{row}");
        }
    }
}
