//! What each review is told: whether it counts, and if not, the one reason why.

use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde_json::json;
use setpoint_api::change_set::ChangeSet;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::review::{Review, ReviewStatus};
use setpoint_core::conditions;
use setpoint_core::gate::{Decision, Discount, Outcome};
use setpoint_core::pod::NoticeKind;

use super::{Case, ChangeSets};
use crate::ownership::unless_moved;
use crate::runtime::caches::REVIEWS_BY_GATE;
use crate::runtime::{Error, Name, Round};

const ACCEPTED: &str = "Accepted";

/// What is said of a review.
struct Answer {
    status: ConditionStatus,
    reason: &'static str,
    message: String,
    /// Whether somebody tried what they may not.
    is_refusal: bool,
}

impl ChangeSets {
    /// Tells every review of a change set what became of it, and gives it to the change set, so that it goes with it and
    /// not before: who deletes the Gate undoes no verdict.
    pub(super) async fn tell_reviewers(
        &self,
        case: &Case,
        decision: &Decision,
        round: &mut Round,
    ) -> Result<(), Error> {
        let judged = case.reviews.iter().filter_map(|reviewed| {
            let name = reviewed.review.metadata.name.as_deref().unwrap_or_default();
            let place = decision.reviews.binary_search_by(|judged| judged.review.as_str().cmp(name)).ok()?;
            Some((&*reviewed.review, Answer::of(&decision.reviews[place].outcome)))
        });
        let surplus = case.surplus.iter().map(|review| (&**review, Answer::too_many()));
        for (review, answer) in judged.chain(surplus) {
            if review.metadata.owner_references.iter().flatten().next().is_none() {
                self.adopt(review, &case.change_set, round).await?;
                continue;
            }
            self.tell(review, &answer, Some(&case.change_set), round).await?;
        }
        Ok(())
    }

    /// Tells reviews of a gate that is not there.
    pub(super) async fn tell_of_no_gate(&self, key: &Name, round: &mut Round) -> Result<(), Error> {
        if self.caches.gates.get(key).is_some() {
            return Ok(());
        }
        for review in self.caches.reviews.by(&REVIEWS_BY_GATE, &key.to_string()) {
            let message = format!("there is no gate {key}");
            let answer = Answer { status: ConditionStatus::False, reason: "GateNotFound", message, is_refusal: true };
            if review.metadata.deletion_timestamp.is_none() && review.status.is_none() {
                self.tell(&review, &answer, None, round).await?;
            }
        }
        Ok(())
    }

    async fn adopt(&self, review: &Review, change_set: &ChangeSet, round: &mut Round) -> Result<(), Error> {
        let metadata = &review.metadata;
        let Some(owner) = change_set.owner_ref(&()) else { return Ok(()) };
        let seen = json!({
            "uid": metadata.uid, "resourceVersion": metadata.resource_version, "ownerReferences": [owner],
        });
        let patch = Patch::Merge(json!({"metadata": seen}));
        let name = metadata.name.as_deref().unwrap_or_default();
        let written = unless_moved(self.reviews(review).patch(name, &PatchParams::default(), &patch).await)?;
        written.iter().for_each(|review| round.wrote(&self.caches.reviews, review));
        Ok(())
    }

    async fn tell(
        &self,
        review: &Review,
        answer: &Answer,
        change_set: Option<&ChangeSet>,
        round: &mut Round,
    ) -> Result<(), Error> {
        let metadata = &review.metadata;
        let old = review.status.clone().unwrap_or_default();
        let mut new = ReviewStatus { observed_generation: metadata.generation, ..old.clone() };
        let condition = Condition {
            type_: ACCEPTED.to_owned(),
            status: answer.status,
            reason: Some(answer.reason.to_owned()),
            message: Some(answer.message.clone()),
            last_transition_time: None,
            observed_generation: metadata.generation,
        };
        conditions::set(&mut new.conditions, condition, round.now);
        if new == old {
            return Ok(());
        }
        let seen = json!({"uid": metadata.uid, "resourceVersion": metadata.resource_version});
        let patch = Patch::Merge(json!({"metadata": seen, "status": new}));
        let name = metadata.name.as_deref().unwrap_or_default();
        let written = self.reviews(review).patch_status(name, &PatchParams::default(), &patch).await;
        let Some(written) = unless_moved(written)? else { return Ok(()) };
        round.wrote(&self.caches.reviews, &written);
        // What counted once is not refused when it counts no more.
        let is_late = answer.reason == Discount::Outdated.reason() && reason_of(&old).is_none();
        if (answer.is_refusal || is_late) && reason_of(&old) != Some(answer.reason) {
            let message = format!("{}: {}", answer.reason, answer.message);
            self.recorder.say(review, NoticeKind::Warning, "ReviewRefused", &message);
            if let Some(change_set) = change_set {
                let message = format!("the review {name} by {}: {}", review.spec.reviewer, answer.message);
                self.recorder.say(change_set, NoticeKind::Warning, "ReviewRefused", &message);
            }
        }
        Ok(())
    }

    fn reviews(&self, review: &Review) -> Api<Review> {
        Api::namespaced(self.client.clone(), review.metadata.namespace.as_deref().unwrap_or_default())
    }
}

impl Answer {
    fn too_many() -> Answer {
        let message =
            "its reviewer has given so many to this gate that no more are judged, except to reject".to_owned();
        Answer { status: ConditionStatus::False, reason: "TooMany", message, is_refusal: true }
    }

    fn of(outcome: &Outcome) -> Answer {
        match outcome {
            Outcome::Counted { steps } => {
                let steps: Vec<&str> = steps.iter().map(String::as_str).collect();
                let message = format!("it counts for {}", steps.join(", "));
                Answer { status: ConditionStatus::True, reason: "Counted", message, is_refusal: false }
            }
            Outcome::Ignored { reason } => Answer {
                status: ConditionStatus::False,
                reason: reason.reason(),
                message: reason.to_string(),
                is_refusal: reason.is_refusal(),
            },
        }
    }
}

fn reason_of(status: &ReviewStatus) -> Option<&str> {
    let accepted = status.conditions.iter().find(|condition| condition.type_ == ACCEPTED)?;
    accepted.reason.as_deref()
}
