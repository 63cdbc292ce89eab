//! Whether a review counts, and if not, the one reason why.
//!
//! A review is judged for each step that it names and each class of that step, since every class has its own rules. The
//! first reason in the order of [`Discount`] is the one that is told: what it is and who signed it (format, namespace,
//! key, signature), then what it is about, then when it holds, then whether it is a copy. A review that counts for some
//! step and class counts; of one that counts for none, the reason of the judgement that got furthest is told.
//!
//! Two rules lean to the safe side. A rejection does not expire, and who asked for a change may always reject it. And
//! what a person said is undone only by what the same person says later and may say: a verdict that would not count
//! undoes nothing, except that one that has expired still stands for a changed mind.

use std::collections::BTreeSet;
use std::fmt;

use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use setpoint_api::environment::{Approval, ApproverKey, Requirement};
use setpoint_api::requester;
use setpoint_api::review::{self, Review};

use super::Input;

/// How far ahead of ours the clock of the server that dated a review may be, in seconds.
pub const CLOCK_SKEW_S: i64 = 60;

/// A review, and what is known of it beyond what it says. That the reviewer wrote it is the API server's business.
#[derive(Debug, Clone, Copy)]
pub struct Evidence<'a> {
    pub review: &'a Review,
    /// When the server received it.
    pub created_at: Timestamp,
    pub signature: Signature<'a>,
}

/// What cryptography says of a review's signature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Signature<'a> {
    /// There is none.
    Unsigned,
    /// It cannot be read, for this reason.
    Malformed { reason: &'a str },
    /// It was made for another purpose, with this namespace.
    OtherNamespace { namespace: &'a str },
    /// It is a signature of this review by the key of this material.
    Valid { material: &'a str },
    /// It is one, and so many were judged that there is no room to remember its nonce.
    Unrecorded,
    /// It says to be by the key of this material, and is not a signature of this review, for this reason.
    Invalid { material: &'a str, reason: &'a str },
}

/// What became of a review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Reviewed {
    /// The review, by its name.
    pub review: String,
    pub reviewer: String,
    pub outcome: Outcome,
}

/// Whether a review counts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Outcome {
    /// It counts for these steps, by id.
    #[serde(rename_all = "camelCase")]
    Counted { steps: BTreeSet<String> },
    /// It does not count.
    #[serde(rename_all = "camelCase")]
    Ignored { reason: Discount },
}

/// Why a review does not count, in the order in which it is judged.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Discount {
    /// It says neither yes nor no.
    Comment,
    /// It must be signed, and is not.
    Unsigned,
    /// Its signature cannot be read.
    #[serde(rename_all = "camelCase")]
    MalformedSignature { reason: String },
    /// Its signature was made for another purpose.
    #[serde(rename_all = "camelCase")]
    OtherNamespace { namespace: String },
    /// It is signed, and its nonce cannot be remembered.
    Unrecorded,
    /// It is signed, and does not say for which cluster and change set, until when, or under which nonce.
    Unbound,
    /// It is signed with a key that the environment does not list.
    KeyNotListed,
    /// It is signed with the key of somebody else.
    #[serde(rename_all = "camelCase")]
    KeyOfAnother { principal: String },
    /// The key has none of the roles that are asked for.
    #[serde(rename_all = "camelCase")]
    RoleNotAllowed { roles: BTreeSet<String> },
    /// Its signature is not valid.
    #[serde(rename_all = "camelCase")]
    InvalidSignature { reason: String },
    /// It is about another gate.
    #[serde(rename_all = "camelCase")]
    OtherGate { gate: String },
    /// It is for another cluster.
    OtherCluster,
    /// It is of another change set whose gate had this name.
    OtherChangeSet,
    /// No step has a digest that it names: what was reviewed has changed.
    Stale,
    /// Who asked for the change may not approve it.
    Requester,
    /// It is older than the gate.
    BeforeGate,
    /// It is dated in the future.
    #[serde(rename_all = "camelCase")]
    FutureDated { created_at: Timestamp },
    /// It held until then.
    #[serde(rename_all = "camelCase")]
    Expired { at: Timestamp },
    /// Its nonce was used before: it is a copy.
    NonceUsed,
    /// The same person decided otherwise later.
    #[serde(rename_all = "camelCase")]
    Superseded { by: String },
    /// The same person said the same again later: one person counts once.
    #[serde(rename_all = "camelCase")]
    Repeated { by: String },
    /// No step has leave by this change set any more that it counted for.
    Outdated,
}

impl Discount {
    /// The reason in one word, as a condition tells it.
    pub fn reason(&self) -> &'static str {
        match self {
            Discount::Comment => "Comment",
            Discount::Unsigned => "Unsigned",
            Discount::MalformedSignature { .. } => "MalformedSignature",
            Discount::OtherNamespace { .. } => "OtherNamespace",
            Discount::Unrecorded => "Unrecorded",
            Discount::Unbound => "Unbound",
            Discount::KeyNotListed => "KeyNotListed",
            Discount::KeyOfAnother { .. } => "KeyOfAnother",
            Discount::RoleNotAllowed { .. } => "RoleNotAllowed",
            Discount::InvalidSignature { .. } => "InvalidSignature",
            Discount::OtherGate { .. } => "OtherGate",
            Discount::OtherCluster => "OtherCluster",
            Discount::OtherChangeSet => "OtherChangeSet",
            Discount::Stale => "Stale",
            Discount::Requester => "Requester",
            Discount::BeforeGate => "BeforeGate",
            Discount::FutureDated { .. } => "FutureDated",
            Discount::Expired { .. } => "Expired",
            Discount::NonceUsed => "NonceUsed",
            Discount::Superseded { .. } => "Superseded",
            Discount::Repeated { .. } => "Repeated",
            Discount::Outdated => "Outdated",
        }
    }

    /// Whether somebody tried what they may not: not a comment, and not a verdict that was good and no longer is.
    pub fn is_refusal(&self) -> bool {
        let is_harmless = matches!(
            self,
            Discount::Comment | Discount::Superseded { .. } | Discount::Repeated { .. } | Discount::Outdated
        );
        !is_harmless
    }
}

impl Evidence<'_> {
    pub(super) fn name(&self) -> &str {
        self.review.metadata.name.as_deref().unwrap_or_default()
    }

    /// Its place in the order of time. Of two verdicts of the same second, the rejection is taken for the later one.
    pub(super) fn order(&self) -> (Timestamp, bool, &str) {
        (self.created_at, self.review.spec.decision == review::Decision::Reject, self.name())
    }

    /// Until when an approval holds. A rejection holds until it is undone.
    pub(super) fn holds_until(&self, requirement: &Requirement<'_>) -> Option<Timestamp> {
        let spec = &self.review.spec;
        if spec.decision == review::Decision::Reject {
            return None;
        }
        let by_policy = later(self.created_at, i64::from(requirement.expiry_seconds));
        Some(spec.expires_at.map_or(by_policy, |at| at.min(by_policy)))
    }
}

/// What all reviews of a gate are judged by.
#[derive(Debug)]
pub(super) struct Bench<'a> {
    input: &'a Input<'a>,
    approval: &'a Approval,
    /// Who used which nonce, and the place of the review in the order of time.
    nonces: BTreeSet<(&'a str, &'a str, usize)>,
}

impl<'a> Bench<'a> {
    /// The evidence must be in order of time.
    pub(super) fn of(input: &'a Input<'a>, approval: &'a Approval, evidence: &[Evidence<'a>]) -> Bench<'a> {
        let nonces = evidence.iter().enumerate();
        let nonces = nonces.filter_map(|(place, evidence)| {
            let spec = &evidence.review.spec;
            Some((spec.reviewer.as_str(), spec.nonce.as_deref()?, place))
        });
        Bench { input, approval, nonces: nonces.collect() }
    }

    /// Why the review is no verdict, or not one of who it says: by its signature, for a class with this requirement; where
    /// it is of no step, as far as can be said without one.
    pub(super) fn unsound(&self, evidence: &Evidence<'_>, requirement: Option<&Requirement<'_>>) -> Option<Discount> {
        let spec = &evidence.review.spec;
        if spec.decision == review::Decision::Comment {
            return Some(Discount::Comment);
        }
        let is_asked = requirement.is_some_and(needs_signature);
        let (material, fault) = match evidence.signature {
            Signature::Unsigned => return is_asked.then_some(Discount::Unsigned),
            Signature::Malformed { reason } => {
                return Some(Discount::MalformedSignature { reason: reason.to_owned() });
            }
            Signature::OtherNamespace { namespace } => {
                return Some(Discount::OtherNamespace { namespace: namespace.to_owned() });
            }
            Signature::Unrecorded => return Some(Discount::Unrecorded),
            Signature::Valid { material } => (material, None),
            Signature::Invalid { material, reason } => (material, Some(reason.to_owned())),
        };
        let names_place = spec.cluster_uid.is_some() && spec.change_set_uid.is_some();
        let is_bound = names_place && spec.nonce.is_some() && spec.expires_at.is_some();
        (!is_bound)
            .then_some(Discount::Unbound)
            .or_else(|| self.key_fault(&spec.reviewer, material, requirement))
            .or_else(|| fault.map(|reason| Discount::InvalidSignature { reason }))
    }

    /// Why the review is none of this gate's business.
    pub(super) fn misdirected(&self, evidence: &Evidence<'_>) -> Option<Discount> {
        let spec = &evidence.review.spec;
        let namespace = evidence.review.metadata.namespace.as_deref().unwrap_or_default();
        if spec.gate != self.input.gate || namespace != self.input.namespace {
            return Some(Discount::OtherGate { gate: format!("{namespace}/{}", spec.gate) });
        }
        let is_other = |named: &Option<String>, own: &str| named.as_deref().is_some_and(|uid| uid != own);
        if is_other(&spec.cluster_uid, self.input.cluster_uid) {
            return Some(Discount::OtherCluster);
        }
        is_other(&spec.change_set_uid, self.input.change_set_uid).then_some(Discount::OtherChangeSet)
    }

    pub(super) fn misdated(&self, evidence: &Evidence<'_>) -> Option<Discount> {
        let created_at = evidence.created_at;
        if created_at < self.input.opened_at {
            return Some(Discount::BeforeGate);
        }
        // A rejection counts whatever the clocks say: what it could do wrong is to let something wait.
        let approves = evidence.review.spec.decision == review::Decision::Approve;
        let is_future = approves && created_at > later(self.input.now, CLOCK_SKEW_S);
        is_future.then_some(Discount::FutureDated { created_at })
    }

    /// Why the review no longer holds.
    pub(super) fn expired(&self, evidence: &Evidence<'_>, requirement: &Requirement<'_>) -> Option<Discount> {
        let at = evidence.holds_until(requirement).filter(|at| *at <= self.input.now)?;
        Some(Discount::Expired { at })
    }

    /// Whether a signed review is a copy. Nonces are a reviewer's own, so that nobody can use up another's.
    pub(super) fn copied(&self, place: usize, evidence: &Evidence<'_>) -> Option<Discount> {
        let spec = &evidence.review.spec;
        let nonce = spec.nonce.as_deref().filter(|_| evidence.signature != Signature::Unsigned)?;
        let mut earlier = self.nonces.range((&*spec.reviewer, nonce, 0)..(&*spec.reviewer, nonce, place));
        let was_used = self.input.used_nonces.contains(&(spec.reviewer.clone(), nonce.to_owned()));
        (earlier.next().is_some() || was_used).then_some(Discount::NonceUsed)
    }

    /// Where no signature is asked for, one by a key that is not listed is as good as none.
    fn key_fault(&self, reviewer: &str, material: &str, requirement: Option<&Requirement<'_>>) -> Option<Discount> {
        let keys = self.approval.keys.iter().filter(|key| key.material() == Some(material));
        let keys: Vec<&ApproverKey> = keys.collect();
        let Some(first) = keys.first() else {
            return requirement.is_some_and(needs_signature).then_some(Discount::KeyNotListed);
        };
        if !keys.iter().any(|key| key.principal == reviewer) {
            return Some(Discount::KeyOfAnother { principal: first.principal.clone() });
        }
        let roles = requirement.map_or(&[][..], |requirement| requirement.roles);
        let may_decide = |key: &&ApproverKey| key.principal == reviewer && roles.contains(&key.role);
        if roles.is_empty() || keys.iter().any(may_decide) {
            return None;
        }
        Some(Discount::RoleNotAllowed { roles: roles.iter().cloned().collect() })
    }
}

/// Why this reviewer may not decide on a class of a step for which these asked.
pub(super) fn unfit(
    evidence: &Evidence<'_>,
    requirement: &Requirement<'_>,
    requesters: &BTreeSet<&str>,
) -> Option<Discount> {
    let spec = &evidence.review.spec;
    let approves = spec.decision == review::Decision::Approve;
    // Where nobody knows who asked, anybody may have.
    let is_unknown = requesters.is_empty() || requesters.contains("") || requesters.contains(requester::UNKNOWN);
    let may_be_requester = is_unknown || requesters.contains(spec.reviewer.as_str());
    (approves && !requirement.requester_may_approve && may_be_requester).then_some(Discount::Requester)
}

/// A role is a key's, so whoever asks for one asks for a signature.
pub(super) fn needs_signature(requirement: &Requirement<'_>) -> bool {
    requirement.signature || !requirement.roles.is_empty()
}

/// At the end of time, nothing comes later.
pub(super) fn later(time: Timestamp, seconds: i64) -> Timestamp {
    time.checked_add(SignedDuration::from_secs(seconds)).unwrap_or(Timestamp::MAX)
}

impl fmt::Display for Reviewed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "review {} by {} ", self.review, self.reviewer)?;
        match &self.outcome {
            Outcome::Counted { steps } => write!(f, "counts for {}", super::listed(steps, " and ")),
            Outcome::Ignored { reason } => write!(f, "does not count: {reason}"),
        }
    }
}

impl fmt::Display for Discount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Discount::OtherGate { gate } => write!(f, "it is about the gate {gate}"),
            Discount::OtherCluster => f.write_str("it is for another cluster"),
            Discount::OtherChangeSet => f.write_str("it is of another change set of this name"),
            Discount::Comment => f.write_str("it is a comment"),
            Discount::Expired { at } => write!(f, "it expired at {at}"),
            Discount::BeforeGate => f.write_str("it is older than the gate"),
            Discount::FutureDated { created_at } => write!(f, "it is dated in the future, {created_at}"),
            Discount::Stale => f.write_str("what was reviewed has changed since"),
            Discount::Requester => f.write_str("who asked for the change may not approve it"),
            Discount::Unsigned => f.write_str("it must be signed, and is not"),
            Discount::MalformedSignature { reason } => write!(f, "its signature cannot be read: {reason}"),
            Discount::OtherNamespace { namespace } => {
                write!(f, "it is signed with the namespace {namespace:?}, not {:?}", review::SIGNATURE_NAMESPACE)
            }
            Discount::InvalidSignature { reason } => write!(f, "its signature is not valid: {reason}"),
            Discount::Unrecorded => f.write_str("its change set has no room to remember its nonce"),
            Discount::Unbound => f.write_str("it is signed without a cluster, a change set, an expiry or a nonce"),
            Discount::KeyNotListed => f.write_str("the environment does not list the key that signed it"),
            Discount::KeyOfAnother { principal } => write!(f, "it is signed with the key of {principal}"),
            Discount::RoleNotAllowed { roles } => {
                write!(f, "the key that signed it does not have the role {}", super::listed(roles, " or "))
            }
            Discount::NonceUsed => f.write_str("its nonce was used before"),
            Discount::Superseded { by } => write!(f, "the same person decided otherwise later, by {by}"),
            Discount::Repeated { by } => write!(f, "the same person said so again, by {by}, and counts once"),
            Discount::Outdated => f.write_str("its steps have no leave by this change set any more"),
        }
    }
}
