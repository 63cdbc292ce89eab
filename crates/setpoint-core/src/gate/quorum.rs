//! Whether enough people approved each class of each step, and whether somebody rejected it.
//!
//! Every class that a step belongs to has its own quorum, and all must be met; so the strictest rule holds, whichever it
//! is. People are counted, not reviews and not keys.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::environment::{Approval, Requirement};
use setpoint_api::review;
use setpoint_api::step::{Class, Step};

use super::review::{Bench, Discount, Evidence, Outcome, Reviewed, needs_signature, unfit};
use super::{Input, Refusal, listed};

/// The approvals that a class of a step still lacks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Approvals {
    pub class: Class,
    /// How many different people must approve.
    pub required: u32,
    /// Who has, and until when that holds.
    pub approved: BTreeMap<String, Timestamp>,
    /// The roles of which an approver's key must have one; any, where none is named.
    pub roles: BTreeSet<String>,
    /// Whether an approval must be signed.
    pub signature: bool,
    /// Who asked for the change, where they may not approve it.
    pub except: Option<String>,
}

impl Approvals {
    /// How many more people must approve.
    pub fn missing(&self) -> u32 {
        self.required.saturating_sub(u32::try_from(self.approved.len()).unwrap_or(u32::MAX))
    }
}

/// What people said of one step.
#[derive(Debug, Clone, Default)]
pub(crate) struct Standing {
    /// What it still lacks, by class.
    pub(crate) missing: Vec<Approvals>,
    /// Who rejected it, and by which review.
    pub(crate) rejected_by: BTreeMap<String, String>,
    /// When the first of its approvals ends.
    pub(crate) approved_until: Option<Timestamp>,
}

/// What people said of each step, and what became of each review, by name.
pub(crate) fn standings(input: &Input<'_>) -> (Vec<Standing>, Vec<Reviewed>) {
    let no_policy = Approval::default();
    let approval = input.approval.unwrap_or(&no_policy);
    let mut evidence = input.evidence.to_vec();
    evidence.sort_by(|one, other| one.order().cmp(&other.order()));
    let bench = Bench::of(input, approval, &evidence);
    let by_digest = by_digest(input, &evidence);
    let mut outcomes: Vec<Option<Outcome>> = vec![None; evidence.len()];
    let mut standings = Vec::with_capacity(input.steps.len());
    for step in input.steps {
        let places = by_digest.get(step.digest.as_str()).map_or(&[][..], Vec::as_slice);
        let candidates: Vec<Candidate<'_>> = places.iter().map(|place| (*place, &evidence[*place])).collect();
        let mut standing = Standing::default();
        let requesters = input.requesters.of(step);
        let asks = step.classes().into_iter().any(|class| approval.requirement(class).approvals > 0);
        for class in step.classes() {
            let requirement = approval.requirement(class);
            let judged = judge(&bench, &candidates, &requirement, &requesters);
            standing.add(&judged, class, &requirement, &requesters);
            // Where people are asked for one class, an approval of another that needs none helps nobody.
            let helps = |judged: &Judgement<'_>| requirement.approvals > 0 || !asks || !judged.approves();
            judged.into_iter().filter(helps).for_each(|judged| judged.note(step, &mut outcomes));
        }
        standings.push(standing);
    }
    let reviews = evidence.iter().zip(outcomes);
    let mut reviews: Vec<Reviewed> = reviews.map(|(evidence, outcome)| reviewed(&bench, evidence, outcome)).collect();
    reviews.sort_by(|one, other| one.review.cmp(&other.review));
    (standings, reviews)
}

/// A review that names a step, by its place in the order of time.
type Candidate<'a> = (usize, &'a Evidence<'a>);

/// A candidate, and why it does not count for one class of one step, if it does not.
struct Judgement<'a> {
    place: usize,
    evidence: &'a Evidence<'a>,
    discount: Option<Discount>,
}

/// The reviews that name each of the steps, by their places. Some name a thousand, and few of them may be asked about.
fn by_digest<'a>(input: &Input<'_>, evidence: &[Evidence<'a>]) -> BTreeMap<&'a str, Vec<usize>> {
    let asked: BTreeSet<&str> = input.steps.iter().map(|step| step.digest.as_str()).collect();
    let mut by_digest: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (place, evidence) in evidence.iter().enumerate() {
        let digests = evidence.review.spec.digests.iter().map(String::as_str);
        let digests: BTreeSet<&str> = digests.filter(|digest| asked.contains(digest)).collect();
        digests.into_iter().for_each(|digest| by_digest.entry(digest).or_default().push(place));
    }
    by_digest
}

/// Which reviews of a step count for one of its classes.
fn judge<'a>(
    bench: &Bench<'_>,
    candidates: &[Candidate<'a>],
    requirement: &Requirement<'_>,
    requesters: &BTreeSet<&str>,
) -> Vec<Judgement<'a>> {
    let mut last_word: BTreeMap<&str, &Evidence<'_>> = BTreeMap::new();
    let mut judged = Vec::with_capacity(candidates.len());
    for (place, evidence) in candidates.iter().copied() {
        let barred = (bench.unsound(evidence, Some(requirement)))
            .or_else(|| bench.misdirected(evidence))
            .or_else(|| unfit(evidence, requirement, requesters))
            .or_else(|| bench.misdated(evidence));
        let copied = bench.copied(place, evidence);
        if barred.is_none() && copied.is_none() {
            last_word.insert(&evidence.review.spec.reviewer, evidence);
        }
        let discount = barred.or_else(|| bench.expired(evidence, requirement)).or(copied);
        judged.push(Judgement { place, evidence, discount });
    }
    for judgement in judged.iter_mut().filter(|judgement| judgement.discount.is_none()) {
        let spec = &judgement.evidence.review.spec;
        let last = last_word.get(spec.reviewer.as_str()).filter(|last| !std::ptr::eq(**last, judgement.evidence));
        judgement.discount = last.map(|last| {
            let by = last.name().to_owned();
            let agrees = last.review.spec.decision == spec.decision;
            if agrees { Discount::Repeated { by } } else { Discount::Superseded { by } }
        });
    }
    judged
}

impl Judgement<'_> {
    fn approves(&self) -> bool {
        self.evidence.review.spec.decision == review::Decision::Approve
    }

    /// Keeps the best that was found for the review: that it counts, or how far it got.
    fn note(self, step: &Step, outcomes: &mut [Option<Outcome>]) {
        let outcome = &mut outcomes[self.place];
        match (outcome.as_mut(), self.discount) {
            (Some(Outcome::Counted { steps }), None) => {
                steps.insert(step.id.clone());
            }
            (Some(Outcome::Counted { .. }), Some(_)) => {}
            (_, None) => *outcome = Some(Outcome::Counted { steps: BTreeSet::from([step.id.clone()]) }),
            (Some(Outcome::Ignored { reason }), Some(discount)) if *reason >= discount => {}
            (_, Some(reason)) => *outcome = Some(Outcome::Ignored { reason }),
        }
    }
}

impl Standing {
    /// Who rejected the step.
    pub(crate) fn rejection(&self) -> Option<Refusal> {
        (!self.rejected_by.is_empty()).then(|| Refusal::Rejected {
            by: self.rejected_by.keys().cloned().collect(),
            reviews: self.rejected_by.values().cloned().collect(),
        })
    }

    fn add(
        &mut self,
        judged: &[Judgement<'_>],
        class: Class,
        requirement: &Requirement<'_>,
        requesters: &BTreeSet<&str>,
    ) {
        let mut approved = BTreeMap::new();
        for judgement in judged.iter().filter(|judgement| judgement.discount.is_none()) {
            let reviewer = judgement.evidence.review.spec.reviewer.clone();
            match judgement.evidence.holds_until(requirement) {
                Some(until) => approved.insert(reviewer, until).map(|_| ()),
                None => self.rejected_by.insert(reviewer, judgement.evidence.name().to_owned()).map(|_| ()),
            };
        }
        self.approved_until = approved.values().copied().chain(self.approved_until).min();
        let approvals = Approvals {
            class,
            required: requirement.approvals,
            approved,
            roles: requirement.roles.iter().cloned().collect(),
            signature: needs_signature(requirement),
            except: (!requirement.requester_may_approve)
                .then(|| requesters.iter().copied().collect::<Vec<_>>().join(" or ")),
        };
        if approvals.missing() > 0 {
            self.missing.push(approvals);
        }
    }
}

/// A review that was judged for no step is of none: it names none that is here, or none at all.
fn reviewed(bench: &Bench<'_>, evidence: &Evidence<'_>, outcome: Option<Outcome>) -> Reviewed {
    let fault = || bench.unsound(evidence, None).or_else(|| bench.misdirected(evidence));
    let reason = || fault().unwrap_or(Discount::Stale);
    Reviewed {
        review: evidence.name().to_owned(),
        reviewer: evidence.review.spec.reviewer.clone(),
        outcome: outcome.unwrap_or_else(|| Outcome::Ignored { reason: reason() }),
    }
}

/// `Destructive: 1 of 2 approvals signed by owner or operator, not by carol; alice approved until …`.
impl fmt::Display for Approvals {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.required == 1 { "approval" } else { "approvals" };
        write!(f, "{:?}: {} of {} {noun}", self.class, self.approved.len(), self.required)?;
        if self.signature {
            f.write_str(", signed")?;
        }
        if !self.roles.is_empty() {
            write!(f, " by {}", listed(&self.roles, " or "))?;
        }
        if let Some(requester) = &self.except {
            write!(f, ", not by {requester}")?;
        }
        let mut joint = " (";
        for (who, until) in &self.approved {
            write!(f, "{joint}{who} until {until}")?;
            joint = ", ";
        }
        f.write_str(if self.approved.is_empty() { "" } else { ")" })
    }
}
