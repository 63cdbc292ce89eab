//! What the log says of a review: that it counts, or why it does not, each time that changes.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::Deserialize;
use setpoint_api::condition::{Condition, ConditionStatus};
use setpoint_api::review::{ReviewSpec, ReviewStatus};
use setpoint_api::step::{Action, Class, Target};

use super::files::Family;
use super::record::{ChangeSetName, Entry, Fact, ReviewFact, ReviewedStep, message};
use super::signer::fingerprint;

/// The condition of a review that says whether it counts.
const ACCEPTED: &str = "Accepted";
/// The reason of a review that nobody has judged yet.
const GIVEN: &str = "Given";
/// How many steps one entry names, so that its line is of bounded length.
const STEPS: usize = 20;

/// What every stored object says of itself.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Meta {
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) uid: String,
    pub(super) annotations: BTreeMap<String, String>,
    pub(super) creation_timestamp: Option<Timestamp>,
}

/// What counts of a stored review.
#[derive(Debug, Clone, Deserialize)]
pub(super) struct StoredReview {
    pub(super) metadata: Meta,
    pub(super) spec: ReviewSpec,
    #[serde(default)]
    pub(super) status: ReviewStatus,
}

/// What counts of a stored change set.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct StoredChangeSet {
    pub(super) metadata: Meta,
    pub(super) spec: ChangeSetSpec,
    pub(super) status: ChangeSetStatus,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ChangeSetSpec {
    pub(super) environment: String,
    pub(super) requested_by: String,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct ChangeSetStatus {
    pub(super) steps: Vec<ListedStep>,
    pub(super) step_states: Vec<setpoint_api::change_set::StepStatus>,
}

/// A step that a change set lists.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ListedStep {
    pub(super) id: String,
    pub(super) target: Target,
    pub(super) action: Action,
    pub(super) class: Class,
    pub(super) digest: String,
    #[serde(default)]
    pub(super) provider_id: Option<String>,
}

impl StoredChangeSet {
    pub(super) fn reference(&self) -> ChangeSetName {
        let Meta { name, namespace, uid, .. } = self.metadata.clone();
        ChangeSetName { uid, namespace, name }
    }
}

impl StoredReview {
    fn accepted(&self) -> Option<&Condition> {
        self.status.conditions.iter().find(|condition| condition.type_ == ACCEPTED)
    }

    /// Whether it approves this step.
    pub(super) fn approves(&self, digest: &str) -> bool {
        let is_listed = || self.spec.digests.iter().any(|listed| listed == digest);
        self.spec.decision == setpoint_api::review::Decision::Approve && is_listed()
    }

    /// Whether it is on record that it counts; none where nothing is.
    pub(super) fn counts(&self) -> Option<bool> {
        self.accepted().map(|accepted| accepted.status == ConditionStatus::True)
    }

    /// The name that what is on record of it has, so that it is told once.
    fn verdict(&self) -> String {
        let uid = &self.metadata.uid;
        let Some(accepted) = self.accepted() else { return format!("{uid}/{GIVEN}") };
        let since = accepted.last_transition_time.map(|time| time.to_string()).unwrap_or_default();
        let reason = accepted.reason.as_deref().unwrap_or_default();
        format!("{uid}/{:?}/{reason}/{since}", accepted.status)
    }
}

/// Whether a review says something new of whether it counts.
pub(super) fn is_news(before: Option<&StoredReview>, after: &StoredReview) -> bool {
    before.map(StoredReview::verdict) != Some(after.verdict())
}

/// What there is to say of it, with what its change set says of the steps.
pub(super) fn entries(
    before: Option<&StoredReview>,
    review: &StoredReview,
    set: Option<&StoredChangeSet>,
    now: Timestamp,
) -> Vec<(Family, Entry)> {
    if !is_news(before, review) {
        return Vec::new();
    }
    let accepted = review.accepted();
    let reason = accepted.map_or(GIVEN, |accepted| accepted.reason.as_deref().unwrap_or_default());
    let told = before.and_then(StoredReview::accepted);
    let listed: BTreeMap<&str, &ListedStep> =
        set.iter().flat_map(|set| &set.status.steps).map(|step| (step.digest.as_str(), step)).collect();
    let steps: Vec<ReviewedStep> = review.spec.digests.iter().map(|digest| reviewed(digest, &listed)).collect();
    let fact = ReviewFact {
        by: review.spec.reviewer.clone(),
        decision: review.spec.decision,
        namespace: review.metadata.namespace.clone(),
        name: review.metadata.name.clone(),
        uid: review.metadata.uid.clone(),
        gate: review.spec.gate.clone(),
        counts: review.counts(),
        reason: reason.to_owned(),
        message: accepted.and_then(|accepted| accepted.message.as_deref()).map(message),
        before: told.and_then(|told| told.reason.clone()),
        change_set: set.map(StoredChangeSet::reference),
        environment: set.map(|set| set.spec.environment.clone()),
        steps: Vec::new(),
        signature_key: review.spec.signature.as_deref().and_then(fingerprint),
    };
    // Where a condition keeps its status, its time stays that of the verdict before.
    let is_turned = accepted.is_some_and(|accepted| told.is_none_or(|told| told.status != accepted.status));
    let time = match accepted {
        Some(accepted) => accepted.last_transition_time.filter(|_| is_turned),
        None => review.metadata.creation_timestamp,
    };
    let (id, time) = (review.verdict(), time.unwrap_or(now));
    // One that counted was a decision, and so is that it no longer is one. Anybody may give others, any number of them.
    let is_decision = review.counts() == Some(true) || before.and_then(StoredReview::counts) == Some(true);
    let family = if is_decision { Family::Decisions } else { Family::Reviews };
    let parts: Vec<Vec<ReviewedStep>> = match steps.is_empty() {
        true => vec![Vec::new()],
        false => steps.chunks(STEPS).map(<[ReviewedStep]>::to_vec).collect(),
    };
    let entry = |(part, steps): (usize, Vec<ReviewedStep>)| {
        let fact = Fact::Review(ReviewFact { steps, ..fact.clone() });
        (family, Entry { id: format!("{id}/{part}"), time, fact })
    };
    parts.into_iter().enumerate().map(entry).collect()
}

fn reviewed(digest: &str, listed: &BTreeMap<&str, &ListedStep>) -> ReviewedStep {
    let step = listed.get(digest);
    ReviewedStep {
        digest: digest.to_owned(),
        action: step.map(|step| step.action),
        class: step.map(|step| step.class),
        target: step.map(|step| step.target.clone()),
        guest: step.and_then(|step| step.provider_id.as_deref()).map(message),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_794_744_600, 0);

    fn review(verdict: Option<(&str, &str)>, digests: usize) -> StoredReview {
        let digests: Vec<String> = (0..digests).map(|number| format!("sha256:{number:064}")).collect();
        let condition = verdict.map(
            |(status, reason)| json!([{"type": "Accepted", "status": status, "reason": reason, "message": "why"}]),
        );
        let spec = json!({"gate": "web", "decision": "Approve", "reviewer": "alice", "digests": digests,
            "comment": "the password is hunter2"});
        let metadata = json!({"name": "yes", "namespace": "shop", "uid": "r1"});
        let object: Value =
            json!({"metadata": metadata, "spec": spec, "status": {"conditions": condition.unwrap_or(json!([]))}});
        serde_json::from_value(object).expect("a review")
    }

    fn change_set(digests: usize) -> StoredChangeSet {
        let step = |number: usize| {
            json!({
                "id": "shop/web/replace", "target": {"namespace": "shop", "name": "web", "kind": "Machine"},
                "action": "Replace", "class": "Destructive", "digest": format!("sha256:{number:064}"),
                "providerId": "101",
            })
        };
        let steps: Vec<Value> = (0..digests).map(step).collect();
        let metadata = json!({"name": "web", "namespace": "shop", "uid": "c1"});
        let object = json!({"metadata": metadata, "spec": {"environment": "lab"}, "status": {"steps": steps}});
        serde_json::from_value(object).expect("a change set")
    }

    #[test]
    fn each_verdict_on_a_review_is_told_once() {
        let given = || Some(review(None, 1));
        let told = |status: &'static str, reason: &'static str| Some(review(Some((status, reason)), 1));
        let (counted, expired) = (|| told("True", "Counted"), || told("False", "Expired"));
        use Family::{Decisions, Reviews};
        let rows = [
            ("it is given", None, given(), Some((Reviews, None, "Given", None))),
            ("it is written before it was judged", given(), given(), None),
            ("it counts", given(), counted(), Some((Decisions, Some(true), "Counted", None))),
            ("it is written again", counted(), counted(), None),
            ("it counts no more", counted(), expired(), Some((Decisions, Some(false), "Expired", Some("Counted")))),
            ("it never counted", given(), expired(), Some((Reviews, Some(false), "Expired", None))),
            (
                "it was refused otherwise",
                told("False", "Stale"),
                expired(),
                Some((Reviews, Some(false), "Expired", Some("Stale"))),
            ),
            ("it is found after a restart", None, counted(), Some((Decisions, Some(true), "Counted", None))),
        ];
        for (name, before, after, expected) in rows {
            let told = entries(before.as_ref(), &after.expect(name), Some(&change_set(1)), NOW);
            let found = told.iter().map(|(family, entry)| {
                let Fact::Review(fact) = &entry.fact else { panic!("{name}: a review") };
                (*family, fact.counts, fact.reason.as_str(), fact.before.as_deref())
            });
            assert_eq!(found.collect::<Vec<_>>(), expected.into_iter().collect::<Vec<_>>(), "{name}");
        }
    }

    #[test]
    fn an_entry_says_what_was_approved_and_nothing_that_people_wrote() {
        let after = review(Some(("True", "Counted")), 1);
        let [(_, entry)] = &entries(None, &after, Some(&change_set(1)), NOW)[..] else { panic!("one entry") };
        let Fact::Review(fact) = &entry.fact else { panic!("a review") };
        let [step] = &fact.steps[..] else { panic!("one step") };
        assert_eq!((step.action, step.class), (Some(Action::Replace), Some(Class::Destructive)));
        assert_eq!((step.guest.as_deref(), fact.environment.as_deref()), (Some("101"), Some("lab")));
        assert_eq!(fact.change_set.as_ref().map(|set| set.uid.as_str()), Some("c1"));
        assert!(!String::from_utf8_lossy(&entry.line()).contains("hunter2"), "a comment is not for the log");
        let [(_, entry)] = &entries(None, &after, None, NOW)[..] else { panic!("one entry") };
        let Fact::Review(fact) = &entry.fact else { panic!("a review") };
        assert!(fact.steps[0].digest.ends_with('0') && fact.steps[0].action.is_none(), "without its change set");
    }

    #[test]
    fn a_review_of_many_steps_has_many_short_lines() {
        let after = review(Some(("True", "Counted")), 1000);
        let told = entries(None, &after, Some(&change_set(1000)), NOW);
        let ids: std::collections::BTreeSet<&str> = told.iter().map(|(_, entry)| entry.id.as_str()).collect();
        assert_eq!((told.len(), ids.len()), (50, 50));
        assert!(told.iter().all(|(_, entry)| entry.line().len() < 8 << 10));
    }
}
