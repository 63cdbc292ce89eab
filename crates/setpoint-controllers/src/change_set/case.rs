//! A change set with everything that people said of it: what whoever is about to act asks for leave.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use jiff::Timestamp;
use setpoint_api::change_set::{ChangeSet, ChangeSetStatus, MAX_NONCES, Phase, StepState, UsedNonce};
use setpoint_api::environment::Approval;
use setpoint_api::machine::Machine;
use setpoint_api::review::{Decision, Review};
use setpoint_api::step::Target;
use setpoint_core::authority;
use setpoint_core::gate::{Evidence, Signature};
use setpoint_core::machine::target;
use setpoint_core::workload::selection::controller_of;

use super::work::Said;
use super::{Owner, is_open};
use crate::runtime::Caches;
use crate::runtime::caches::{CHANGE_SETS_BY_TARGET, REVIEWS_BY_GATE, target_value};
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
}

/// How many approvals and comments of one person are judged for one gate. The first ones count: nothing that somebody said is
/// pushed out by what is said later. A rejection is always heard: nobody is to lose the word with which things are stopped.
const MAX_REVIEWS_EACH: usize = 100;

/// The change sets that list steps of an object, as the caches show them.
pub fn cases(caches: &Caches, target: &Target, owner: Owner<'_>) -> Vec<Case> {
    let listed = caches.change_sets.by(&CHANGE_SETS_BY_TARGET, &target_value(target));
    // A change set is about its own namespace, and so are those who may review there.
    let mut sets: Vec<Arc<ChangeSet>> =
        listed.into_iter().filter(|set| set.metadata.namespace.as_deref() == Some(&*target.namespace)).collect();
    // What was made for it may list nothing but guests that it has too many.
    let own = owner.change_sets(caches).into_iter();
    let unlisted: Vec<_> =
        own.filter(|set| !sets.iter().any(|listed| listed.metadata.uid == set.metadata.uid)).collect();
    sets.extend(unlisted);
    sets.into_iter().map(|change_set| Case::of(caches, change_set)).filter(|case| !case.is_closed()).collect()
}

/// The change sets that were made for an object.
pub fn cases_of(caches: &Caches, owner: Owner<'_>) -> Vec<Case> {
    owner.change_sets(caches).into_iter().map(|change_set| Case::of(caches, change_set)).collect()
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
            Reviewed { review, created_at, signature }
        });
        Case { reviews: judged.collect(), surplus, change_set }
    }

    /// The same as the core reads it, for the steps with these digests, and of this Machine if they are of one; none where it
    /// authorizes nothing.
    pub fn as_set(&self, digests: &BTreeSet<&str>, machine: Option<&Machine>) -> Option<authority::Set<'_>> {
        let is_contradicted = machine.is_some_and(|machine| !self.agrees_with(machine));
        authority::Set::of(&self.change_set, digests, is_contradicted, self.evidence(), self.used_nonces())
    }

    /// The digests that a user asks people about here of a Machine as it is, as long as they can decide.
    pub fn asked_by_users(&self, machine: &Machine) -> BTreeSet<&str> {
        let set = &self.change_set;
        let is_here = set.spec.environment == machine.spec.environment;
        let is_asked = is_open(set) && is_here && controller_of(&set.metadata).is_none() && self.agrees_with(machine);
        let Some(status) = self.status().filter(|_| is_asked) else { return BTreeSet::new() };
        let is_over = |state: StepState| matches!(state, StepState::Done | StepState::Stale);
        let states = status.step_states.iter().filter(|state| is_over(state.state));
        let over: BTreeSet<&str> = states.map(|state| state.digest.as_str()).collect();
        let generations = status.generations();
        let is_of_this = |digest: &str| generations.get(digest).copied() == machine.metadata.generation;
        let digests = status.steps.iter().map(|step| step.digest.as_str());
        digests.filter(|digest| !over.contains(digest) && is_of_this(digest)).collect()
    }

    /// Whether all of it was done: it gives no leave any more, and nothing in it can be rejected.
    fn is_closed(&self) -> bool {
        self.status().and_then(|status| status.phase) == Some(Phase::Succeeded)
    }

    /// Whether a Machine is as the change set says.
    fn agrees_with(&self, machine: &Machine) -> bool {
        let target = target(&machine.metadata);
        Said::by(&self.change_set, &BTreeSet::from([&target])).is_written(&target, machine)
    }

    pub(super) fn evidence(&self) -> Vec<Evidence<'_>> {
        let evidence = self.reviews.iter().map(|reviewed| Evidence {
            review: &reviewed.review,
            created_at: reviewed.created_at,
            signature: match reviewed.signature.as_signature() {
                Signature::Valid { .. } if self.has_no_room_for(&reviewed.review) => Signature::Unrecorded,
                signature => signature,
            },
        });
        evidence.collect()
    }

    /// Whether an approval came when the record of nonces was full: forgetting one would let it be used again. A rejection
    /// counts all the same, since a copy of one can only let something wait.
    fn has_no_room_for(&self, review: &Review) -> bool {
        let recorded = self.status().map_or(&[][..], |status| &status.nonces);
        let is_recorded = |uid: &String| recorded.iter().any(|used| used.review == *uid);
        let approves = review.spec.decision == Decision::Approve;
        approves && recorded.len() >= MAX_NONCES && !review.metadata.uid.as_ref().is_some_and(is_recorded)
    }

    /// The nonces that were used by reviews that are gone.
    pub(super) fn used_nonces(&self) -> BTreeSet<(String, String)> {
        let present: BTreeSet<&str> =
            self.reviews.iter().filter_map(|own| own.review.metadata.uid.as_deref()).collect();
        let recorded = self.status().into_iter().flat_map(|status| &status.nonces);
        let gone = recorded.filter(|used| !present.contains(used.review.as_str()));
        gone.map(|used| (used.reviewer.clone(), used.nonce.clone())).collect()
    }

    /// The record of nonces with those of the reviews here that listed keys signed, as far as there is room; each goes to
    /// the first review that used it. Nobody else can use the room up.
    pub(super) fn nonces(&self, approval: Option<&Approval>) -> Vec<UsedNonce> {
        let mut nonces = self.status().map(|status| status.nonces.clone()).unwrap_or_default();
        let keys = approval.map_or(&[][..], |approval| &approval.keys);
        let is_listed = |own: &&Reviewed| match &*own.signature {
            Checked::Valid { material } => keys
                .iter()
                .any(|key| key.principal == own.review.spec.reviewer && key.material() == Some(material.as_str())),
            _ => false,
        };
        for Reviewed { review, .. } in self.reviews.iter().filter(is_listed) {
            let (Some(nonce), Some(uid)) = (&review.spec.nonce, &review.metadata.uid) else { continue };
            let used = UsedNonce { reviewer: review.spec.reviewer.clone(), nonce: nonce.clone(), review: uid.clone() };
            let is_known = |known: &UsedNonce| known.reviewer == used.reviewer && known.nonce == used.nonce;
            if nonces.len() < MAX_NONCES && !nonces.iter().any(is_known) {
                nonces.push(used);
            }
        }
        nonces
    }

    fn status(&self) -> Option<&ChangeSetStatus> {
        self.change_set.status.as_ref()
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
        if review.spec.decision == Decision::Reject {
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
    use serde_json::{Value, json};

    use super::*;

    const MADE: Timestamp = Timestamp::constant(1_794_744_000, 0);

    fn nonce(number: usize) -> String {
        format!("nonce-{number:012}")
    }

    fn used(number: usize) -> Value {
        json!({"reviewer": "alice", "nonce": nonce(number), "review": format!("uid-{number}")})
    }

    /// A change set that remembers so many nonces of alice's, and these reviews.
    fn case(remembered: usize, reviews: Vec<Reviewed>) -> Case {
        let nonces: Vec<Value> = (0..remembered).map(used).collect();
        let change_set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "web", "namespace": "shop"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol"}, "status": {"nonces": nonces},
        });
        Case { change_set: Arc::new(serde_json::from_value(change_set).unwrap()), reviews, surplus: Vec::new() }
    }

    fn review(number: usize, reviewer: &str, decision: &str, signature: Checked) -> Reviewed {
        let review = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Review",
            "metadata": {"name": format!("r{number}"), "namespace": "shop", "uid": format!("uid-{number}")},
            "spec": {
                "gate": "web", "decision": decision, "reviewer": reviewer, "digests": ["sha256:a"],
                "nonce": nonce(number),
            },
        });
        let (review, signature) = (Arc::new(serde_json::from_value(review).unwrap()), Arc::new(signature));
        Reviewed { review, created_at: MADE, signature }
    }

    fn valid(material: &str) -> Checked {
        Checked::Valid { material: material.to_owned() }
    }

    fn approval() -> Approval {
        serde_json::from_value(json!({
            "rules": [], "keys": [{"publicKey": "ssh-ed25519 of-alice", "principal": "alice", "role": "operator"}],
        }))
        .unwrap()
    }

    #[test]
    fn only_what_a_listed_key_signed_takes_room() {
        let invalid = Checked::Invalid { material: "of-alice".to_owned(), reason: "altered".to_owned() };
        let rows = [
            ("signed by a listed key", 0, review(5, "alice", "Approve", valid("of-alice")), 1),
            ("signed by a key that is not listed", 0, review(5, "alice", "Approve", valid("stranger")), 0),
            ("signed by another's key", 0, review(5, "mallory", "Approve", valid("of-alice")), 0),
            ("a signature that is not valid", 0, review(5, "alice", "Approve", invalid), 0),
            ("not signed", 0, review(5, "alice", "Approve", Checked::Unsigned), 0),
            ("known already", 6, review(5, "alice", "Approve", valid("of-alice")), 6),
            ("there is no room", MAX_NONCES, review(MAX_NONCES, "alice", "Approve", valid("of-alice")), MAX_NONCES),
        ];
        for (name, remembered, review, expected) in rows {
            let nonces = case(remembered, vec![review]).nonces(Some(&approval()));
            assert_eq!(nonces.len(), expected, "{name}");
            assert!(remembered == 0 || nonces[0].nonce == nonce(0), "{name}: nothing is forgotten");
        }
    }

    #[test]
    fn what_cannot_be_remembered_does_not_count() {
        let rows = [
            ("there is room", MAX_NONCES - 1, MAX_NONCES, "Approve", true),
            ("there is none", MAX_NONCES, MAX_NONCES, "Approve", false),
            ("it is remembered", MAX_NONCES, 7, "Approve", true),
            ("it says no", MAX_NONCES, MAX_NONCES, "Reject", true),
        ];
        for (name, remembered, number, decision, counts) in rows {
            let case = case(remembered, vec![review(number, "alice", decision, valid("of-alice"))]);
            assert_eq!(case.evidence()[0].signature != Signature::Unrecorded, counts, "{name}");
        }
    }

    #[test]
    fn what_a_user_asks_about_is_asked_as_long_as_people_can_decide() {
        let step = json!({
            "id": "shop/web/delete", "target": {"namespace": "shop", "name": "web", "kind": "Machine"},
            "action": "Delete", "reason": "r", "origin": "Desired", "class": "Destructive", "classReason": "data",
            "digest": "d",
        });
        let state = json!({
            "id": "shop/web/delete", "digest": "d", "state": "Waiting", "since": "2026-11-15T12:00:00Z", "generation": 1,
        });
        let owner = json!({"apiVersion": "a/v1", "kind": "Machine", "name": "web", "uid": "u", "controller": true});
        let machine: Machine = serde_json::from_value(json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Machine",
            "metadata": {"name": "web", "namespace": "shop", "uid": "u", "generation": 1},
            "spec": {"environment": "lab"},
        }))
        .expect("a Machine");
        let rows = [
            ("a user's", "Execute", "Waiting", json!([]), "lab", true),
            ("it is over", "Execute", "Stale", json!([]), "lab", false),
            ("it shows only", "Preview", "Planned", json!([]), "lab", false),
            ("a controller's", "Execute", "Waiting", json!([owner]), "lab", false),
            ("elsewhere", "Execute", "Waiting", json!([]), "production", false),
        ];
        for (name, mode, phase, owners, environment, is_asked) in rows {
            let change_set = json!({
                "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet",
                "metadata": {"name": "web", "namespace": "shop", "ownerReferences": owners},
                "spec": {"environment": environment, "mode": mode, "requestedBy": "carol"},
                "status": {"phase": phase, "steps": [step], "stepStates": [state]},
            });
            let change_set = Arc::new(serde_json::from_value(change_set).expect(name));
            let case = Case { change_set, reviews: Vec::new(), surplus: Vec::new() };
            assert_eq!(case.asked_by_users(&machine).contains("d"), is_asked, "{name}");
        }
    }

    #[test]
    fn who_says_too_much_is_not_heard_out_and_pushes_nobody_aside() {
        let said = |number: usize, reviewer: &str, decision: &str, at: i64| {
            let given = review(number, reviewer, decision, Checked::Unsigned).review;
            let mut given = Arc::unwrap_or_clone(given);
            given.metadata.creation_timestamp = Some(Time(MADE + SignedDuration::from_secs(at)));
            Arc::new(given)
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
