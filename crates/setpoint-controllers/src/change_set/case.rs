//! A change set that executes, with everything that people said of it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use kube::Client;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::review::{Decision, Review};
use setpoint_core::authority::Set;
use setpoint_core::gate::Evidence;

use crate::permission::rights::may_approve;
use crate::runtime::Caches;
use crate::runtime::caches::{CHANGE_SETS_BY_STEP, REVIEWS_BY_GATE};
use crate::signature::{Checked, Signatures};

/// A change set and the reviews of its gate, with their signatures checked.
#[derive(Debug, Clone)]
pub struct Case {
    pub change_set: Arc<ChangeSet>,
    /// Those that are judged, in the order of time.
    pub reviews: Vec<Reviewed>,
    /// Those of people who gave more than are judged.
    pub surplus: Vec<Arc<Review>>,
}

/// A review, and what is known of it.
#[derive(Debug, Clone)]
pub struct Reviewed {
    pub review: Arc<Review>,
    pub created_at: Timestamp,
    pub signature: Arc<Checked>,
    /// Whether its reviewer has the right to approve. Until the server was asked, nobody lacks it.
    pub may_approve: bool,
}

/// How many approvals and comments of one person are judged for one gate. The first ones count: nothing that somebody said is
/// pushed out by what is said later. A rejection is always heard, and so is its withdrawal: nobody is to lose the word with
/// which things are stopped.
const MAX_REVIEWS_EACH: usize = 100;

/// The change sets of a namespace that list any of some steps, by their digests, as the caches show them, with what the server
/// says of the rights of those who decided on them.
pub async fn cases<'d>(
    client: &Client,
    caches: &Caches,
    namespace: &str,
    digests: impl IntoIterator<Item = &'d str>,
) -> Result<Vec<Case>, kube::Error> {
    let listing = digests.into_iter().flat_map(|digest| caches.change_sets.by(&CHANGE_SETS_BY_STEP, digest));
    let here = listing.filter(|set| set.metadata.namespace.as_deref() == Some(namespace));
    // One may list many of them.
    let sets: BTreeMap<Option<String>, Arc<ChangeSet>> = here.map(|set| (set.metadata.name.clone(), set)).collect();
    let mut cases = Vec::with_capacity(sets.len());
    for set in sets.into_values() {
        cases.push(Case::of(caches, set).with_rights(client).await?);
    }
    Ok(cases)
}

impl Case {
    pub fn of(caches: &Caches, change_set: Arc<ChangeSet>) -> Case {
        let metadata = &change_set.metadata;
        let gate = format!("{}/{}", text(&metadata.namespace), text(&metadata.name));
        let reviews = caches.reviews.by(&REVIEWS_BY_GATE, &gate);
        Case::reviewed(change_set, reviews, &caches.signatures)
    }

    /// A change set and these reviews of its gate.
    pub fn reviewed(change_set: Arc<ChangeSet>, reviews: Vec<Arc<Review>>, signatures: &Signatures) -> Case {
        let (judged, surplus) = within_bounds(reviews);
        let judged = judged.into_iter().map(|(created_at, review)| {
            let signature = signatures.check(&review);
            Reviewed { review, created_at, signature, may_approve: true }
        });
        Case { reviews: judged.collect(), surplus, change_set }
    }

    /// The same with the server's answer to whether each reviewer has the right to approve. Nobody is asked about a comment.
    pub async fn with_rights(mut self, client: &Client) -> Result<Case, kube::Error> {
        let (environment, namespace) = (&self.change_set.spec.environment, text(&self.change_set.metadata.namespace));
        let mut known: BTreeMap<(String, Option<String>, Vec<String>), bool> = BTreeMap::new();
        for Reviewed { review, may_approve: answer, .. } in &mut self.reviews {
            let spec = &review.spec;
            if spec.decision == Decision::Comment {
                continue;
            }
            let who = (spec.reviewer.clone(), spec.reviewer_uid.clone(), spec.reviewer_groups.clone());
            *answer = match known.get(&who) {
                Some(answer) => *answer,
                None => {
                    let answer = may_approve(client, environment, namespace, spec).await?;
                    known.insert(who, answer);
                    answer
                }
            };
        }
        Ok(self)
    }

    /// The same as the core reads it.
    pub fn as_set(&self) -> Set<'_> {
        Set { change_set: &self.change_set, evidence: self.evidence() }
    }

    pub fn evidence(&self) -> Vec<Evidence<'_>> {
        let evidence = self.reviews.iter().map(|reviewed| Evidence {
            review: &reviewed.review,
            created_at: reviewed.created_at,
            signature: reviewed.signature.as_signature(),
            may_approve: reviewed.may_approve,
        });
        evidence.collect()
    }

    pub fn lists(&self, digest: &str) -> bool {
        self.change_set.spec.steps.iter().any(|step| step.digest == digest)
    }

    /// The digests of the steps that are open, also those that have yet to get an entry.
    pub fn open(&self) -> BTreeSet<&str> {
        let entries = self.change_set.status.iter().flat_map(|status| &status.entries);
        let closed: BTreeSet<&str> =
            entries.filter(|entry| entry.state.is_closed()).map(|entry| entry.digest.as_str()).collect();
        let steps = self.change_set.spec.steps.iter().map(|step| step.digest.as_str());
        steps.filter(|digest| !closed.contains(digest)).collect()
    }
}

type Dated = (Timestamp, Arc<Review>);

/// The reviews that are judged, with their dates and in the order of these, and those that are too many of one person's.
fn within_bounds(reviews: Vec<Arc<Review>>) -> (Vec<Dated>, Vec<Arc<Review>>) {
    let there = reviews.into_iter().filter(|review| review.metadata.deletion_timestamp.is_none());
    let dated = there.filter_map(|review| Some((review.metadata.creation_timestamp.as_ref()?.0, review)));
    let mut dated: Vec<Dated> = dated.collect();
    dated.sort_by(|(at, one), (then, other)| (at, &one.metadata.name).cmp(&(then, &other.metadata.name)));
    let mut given: BTreeMap<String, usize> = BTreeMap::new();
    let (judged, surplus): (Vec<_>, Vec<_>) = dated.into_iter().partition(|(_, review)| {
        if matches!(review.spec.decision, Decision::Reject | Decision::Withdraw) {
            return true;
        }
        let number = given.entry(review.spec.reviewer.clone()).or_default();
        *number += 1;
        *number <= MAX_REVIEWS_EACH
    });
    (judged, surplus.into_iter().map(|(_, review)| review).collect())
}

fn text(text: &Option<String>) -> &str {
    text.as_deref().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use serde_json::json;

    use super::*;

    const MADE: Timestamp = Timestamp::constant(1_794_744_000, 0);

    #[test]
    fn who_says_too_much_is_not_heard_out_and_pushes_nobody_aside() {
        let said = |number: usize, reviewer: &str, decision: &str, at: i64| {
            let mut review: Review = serde_json::from_value(json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review",
                "metadata": {"name": format!("r{number}"), "namespace": "shop"},
                "spec": {"gate": "web", "decision": decision, "reviewer": reviewer, "digests": ["sha256:a"]},
            }))
            .expect("a review");
            review.metadata.creation_timestamp = Some(Time(MADE + SignedDuration::from_secs(at)));
            Arc::new(review)
        };
        let mut reviews: Vec<Arc<Review>> =
            (0..MAX_REVIEWS_EACH + 2).map(|number| said(number, "mallory", "Approve", 1_000 - number as i64)).collect();
        reviews.push(said(5_000, "alice", "Approve", 2_000));
        reviews.push(said(6_000, "mallory", "Reject", 3_000));
        reviews.push(said(7_000, "mallory", "Approve", 4_000));
        let (judged, surplus) = within_bounds(reviews);
        let names = |reviews: Vec<&Arc<Review>>| {
            reviews.iter().map(|review| review.metadata.name.clone().unwrap()).collect::<Vec<_>>()
        };
        let judged = names(judged.iter().map(|(_, review)| review).collect());
        assert_eq!((judged.len(), judged[0].as_str()), (102, "r101"), "the first ones");
        assert_eq!(judged[100..], ["r5000", "r6000"], "and whoever says no");
        assert_eq!(names(surplus.iter().collect()), ["r1", "r0", "r7000"]);
    }
}
