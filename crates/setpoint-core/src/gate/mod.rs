//! Which steps may run now, which wait and on what, and which are refused.
//!
//! A step is judged in this order, and stops at the first answer:
//!
//! 1. It is refused if somebody who may decide rejected it, if something would be created for what has had its time,
//!    or if it alone is more than a limit allows: neither waiting nor approving would help.
//! 2. It waits for every approval that a class of it still lacks, and for every step it depends on that does not run.
//!    Both are said at once, so that a reviewer need not come back for each.
//! 3. It waits for the budgets, whatever was approved. They are used up in the order of the steps, by those that run.
//!
//! An approval is an approval of a digest: it never outlives a change of its step, and a change of one step costs no
//! other step its approval. The answer depends neither on the order of the evidence nor on that of the ledger. It
//! holds for `now` alone: ask again at the moment of execution.

mod budget;
mod ledger;
mod project;
mod quorum;
mod review;
#[cfg(test)]
mod tests;
mod traffic;
mod usage;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::environment::{Approval, Guardrails, LedgerEntry};
use setpoint_api::step::{Action, Step, Target};

pub use self::budget::{Gpus, Limit, Room, Usage};
pub use self::ledger::{ledger_entry, prune, record};
pub use self::project::gate_status;
pub use self::quorum::Approvals;
pub(crate) use self::quorum::{Standing, standings};
pub use self::review::{CLOCK_SKEW_S, Discount, Evidence, Outcome, Reviewed, Signature};
pub use self::traffic::{TrafficMove, gate_traffic};
pub use self::usage::{Added, bears_on_limits};
pub(crate) use self::usage::{gpus_held, gpus_wanted};

use self::budget::Budget;

/// Everything that the gate's decision depends on.
#[derive(Debug, Clone, Copy)]
pub struct Input<'a> {
    /// The steps of a change set, in order. A step that one depends on and that is not among them is not done.
    pub steps: &'a [Step],
    /// The environment's approval policy; the default one where it has none.
    pub approval: Option<&'a Approval>,
    /// The environment's limits; none where it has none.
    pub guardrails: Option<&'a Guardrails>,
    /// When the time of what the steps serve is over; nothing is created from then on.
    pub expires_at: Option<Timestamp>,
    /// What people said of these steps.
    pub evidence: &'a [Evidence<'a>],
    /// Reviewer and nonce of reviews that are not among the evidence: of other gates, or deleted since.
    pub used_nonces: &'a BTreeSet<(String, String)>,
    /// What was done lately and counts against a budget.
    pub ledger: &'a [LedgerEntry],
    /// The ids of calls whose outcome is not known: to try one of them again is not to do its step once more.
    pub under_way: &'a BTreeSet<String>,
    /// What is there now.
    pub usage: Usage,
    /// The GPUs of every object that holds or wants any; one that is not listed has to do with none.
    pub gpus: &'a BTreeMap<Target, Gpus>,
    /// The users who asked for the change.
    pub requesters: &'a Requesters<'a>,
    /// The uid by which a review names this cluster.
    pub cluster_uid: &'a str,
    /// The namespace of the gate.
    pub namespace: &'a str,
    /// The name of the gate.
    pub gate: &'a str,
    /// The uid of the change set whose gate it is: another may have had its name.
    pub change_set_uid: &'a str,
    /// When the gate was made: a review from before was of another gate of the same name.
    pub opened_at: Timestamp,
    pub now: Timestamp,
}

/// The users who asked for a change. A step has to do with who wrote its own object, and not with who wrote others'.
#[derive(Debug, Clone, Default)]
pub struct Requesters<'a> {
    /// Who asked for all of it.
    pub of_all: BTreeSet<&'a str>,
    /// Who wrote what a step is for.
    pub of_targets: BTreeMap<&'a Target, &'a str>,
}

/// What may run now, and what became of every review.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// A verdict for each step, in the order of the steps.
    pub steps: Vec<Judged>,
    /// What became of each review, by name.
    pub reviews: Vec<Reviewed>,
    /// When the first of the approvals ends that count now.
    pub approved_until: Option<Timestamp>,
}

/// A step and what becomes of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Judged {
    /// The step, by its id.
    pub step: String,
    /// The digest that was judged: a step with another one is another step.
    pub digest: String,
    pub verdict: Verdict,
}

/// What becomes of a step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Verdict {
    /// It may run now, once the steps it depends on succeeded.
    Run,
    /// It may not run yet. There is at least one need, and all of them must be met.
    Wait { needs: Vec<Need> },
    /// It may not run as it is.
    Refuse { reason: Refusal },
}

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Need {
    /// More people must approve.
    Approvals(Approvals),
    /// Another step, by its id, does not run.
    #[serde(rename_all = "camelCase")]
    Step { id: String },
    /// A budget is used up. It has room again at `until`; without it, when something else goes.
    #[serde(rename_all = "camelCase")]
    Budget { limit: Limit, until: Option<Timestamp> },
    /// The price of the step is not known, and there is a limit on cost: what is not known is not free.
    #[serde(rename_all = "camelCase")]
    Price { limit: Limit },
    /// How much of what is limited there is now is not known.
    #[serde(rename_all = "camelCase")]
    Usage { limit: Limit },
    /// The ledger is full of entries of the last hour; another would make it forget one.
    #[serde(rename_all = "camelCase")]
    Ledger { until: Timestamp },
}

/// Why a step may not run as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum Refusal {
    /// People who may decide rejected it, by these reviews.
    #[serde(rename_all = "camelCase")]
    Rejected { by: BTreeSet<String>, reviews: BTreeSet<String> },
    /// It would create something for what has had its time.
    #[serde(rename_all = "camelCase")]
    Expired { at: Timestamp },
    /// It alone is more than the limit allows.
    #[serde(rename_all = "camelCase")]
    OverLimit { limit: Limit },
}

/// What may run now, what waits, and what is refused.
pub fn gate(input: &Input<'_>) -> Decision {
    let (standings, reviews) = standings(input);
    let approved_until = standings.iter().filter_map(|standing| standing.approved_until).min();
    Decision { steps: decide(input, &standings), reviews, approved_until }
}

/// A verdict for each step, given what people said of each.
pub(crate) fn decide(input: &Input<'_>, standings: &[Standing]) -> Vec<Judged> {
    let no_limits = Guardrails::default();
    let mut budget = Budget::of(Room {
        guardrails: input.guardrails.unwrap_or(&no_limits),
        ledger: input.ledger,
        under_way: input.under_way,
        usage: input.usage,
        gpus: input.gpus,
        now: input.now,
    });
    in_turn(input.steps.iter().zip(standings), |step, standing, running| {
        refusal(input, step, standing.rejection(), &budget)
            .or_else(|| unmet(step, &standing.missing, running))
            .unwrap_or_else(|| budget.admit(step))
    })
}

/// The steps that limits would hold back or refuse if everybody agreed to all of them, for who wants to know before anybody is
/// asked. What only waits for one of these is not among them.
pub fn beyond_limits(steps: &[Step], room: Room<'_>) -> Vec<Judged> {
    let mut budget = Budget::of(room);
    let judged = in_turn(steps.iter().map(|step| (step, ())), |step, (), running| {
        let refusal = budget.exceeded_alone(step).map(|limit| Verdict::Refuse { reason: Refusal::OverLimit { limit } });
        refusal.or_else(|| unmet(step, &[], running)).unwrap_or_else(|| budget.admit(step))
    });
    let is_held = |verdict: &Verdict| verdict.waits_for_room() || matches!(verdict, Verdict::Refuse { .. });
    judged.into_iter().filter(|judged| is_held(&judged.verdict)).collect()
}

/// A verdict for each step, one after the other, given those that run.
fn in_turn<'s, T>(
    steps: impl Iterator<Item = (&'s Step, T)>,
    mut judge: impl FnMut(&'s Step, T, &BTreeSet<&'s str>) -> Verdict,
) -> Vec<Judged> {
    let mut running = BTreeSet::new();
    let judged = steps.map(|(step, said)| {
        let verdict = judge(step, said, &running);
        if verdict == Verdict::Run {
            running.insert(step.id.as_str());
        }
        Judged { step: step.id.clone(), digest: step.digest.clone(), verdict }
    });
    judged.collect()
}

fn refusal(input: &Input<'_>, step: &Step, rejection: Option<Refusal>, budget: &Budget<'_>) -> Option<Verdict> {
    let creates = matches!(step.action, Action::Create | Action::Replace);
    let expired = input.expires_at.filter(|at| creates && *at <= input.now);
    rejection
        .or_else(|| expired.map(|at| Refusal::Expired { at }))
        .or_else(|| budget.exceeded_alone(step).map(|limit| Refusal::OverLimit { limit }))
        .map(|reason| Verdict::Refuse { reason })
}

fn unmet(step: &Step, missing: &[Approvals], running: &BTreeSet<&str>) -> Option<Verdict> {
    let held_by = step.depends_on.iter().filter(|id| !running.contains(id.as_str()));
    let steps = held_by.map(|id| Need::Step { id: id.clone() });
    let needs: Vec<Need> = missing.iter().cloned().map(Need::Approvals).chain(steps).collect();
    (!needs.is_empty()).then_some(Verdict::Wait { needs })
}

impl<'a> Requesters<'a> {
    /// Those who asked for all of a change; of several, each is on a line.
    pub fn of_all(users: impl IntoIterator<Item = &'a str>) -> Requesters<'a> {
        Requesters { of_all: users.into_iter().collect(), of_targets: BTreeMap::new() }
    }

    fn of(&self, step: &Step) -> BTreeSet<&'a str> {
        self.of_all.iter().chain(self.of_targets.get(&step.target)).flat_map(|users| users.split('\n')).collect()
    }
}

impl Decision {
    /// The steps that may run now, by id, in order.
    pub fn runs(&self) -> impl Iterator<Item = &str> {
        self.steps.iter().filter(|judged| judged.verdict == Verdict::Run).map(|judged| judged.step.as_str())
    }

    /// Whether a person is waited for.
    pub fn waits_for_people(&self) -> bool {
        self.steps.iter().any(|judged| judged.verdict.waits_for_people())
    }
}

impl Verdict {
    /// Whether more people must approve.
    pub fn waits_for_people(&self) -> bool {
        matches!(self, Verdict::Wait { needs } if needs.iter().any(|need| matches!(need, Need::Approvals(_))))
    }

    /// Whether a limit, or what is not known of what it counts, holds the step back.
    pub fn waits_for_room(&self) -> bool {
        let is_room = |need: &Need| match need {
            Need::Budget { .. } | Need::Price { .. } | Need::Usage { .. } | Need::Ledger { .. } => true,
            Need::Approvals(_) | Need::Step { .. } => false,
        };
        matches!(self, Verdict::Wait { needs } if needs.iter().any(is_room))
    }

    /// Whether somebody who may decide said no.
    pub fn is_rejected(&self) -> bool {
        matches!(self, Verdict::Refuse { reason: Refusal::Rejected { .. } })
    }

    /// Why the step is not taken now, as its object says it: people are needed, anything else is waited for.
    pub fn why(&self) -> String {
        match self {
            Verdict::Wait { needs } if self.waits_for_people() => format!("needs {}", told(needs)),
            Verdict::Refuse { reason } => reason.to_string(),
            Verdict::Run | Verdict::Wait { .. } => self.to_string(),
        }
    }

    /// When to ask again although nothing else happens: from then on, time no longer holds the step.
    pub fn until(&self) -> Option<Timestamp> {
        let Verdict::Wait { needs } = self else { return None };
        needs.iter().filter_map(Need::until).max()
    }
}

impl Need {
    fn until(&self) -> Option<Timestamp> {
        match self {
            Need::Budget { until, .. } => *until,
            Need::Ledger { until } => Some(*until),
            Need::Approvals(_) | Need::Step { .. } | Need::Price { .. } | Need::Usage { .. } => None,
        }
    }
}

/// A line for each step, then a line for each review that does not count.
impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for judged in &self.steps {
            writeln!(f, "{}: {}", judged.step, judged.verdict)?;
        }
        for reviewed in &self.reviews {
            writeln!(f, "{reviewed}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Run => f.write_str("may run"),
            Verdict::Wait { needs } => write!(f, "waits: {}", told(needs)),
            Verdict::Refuse { reason } => write!(f, "refused: {reason}"),
        }
    }
}

impl fmt::Display for Need {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Need::Approvals(approvals) => approvals.fmt(f),
            Need::Step { id } => write!(f, "{id} must be done first"),
            Need::Budget { limit, until: Some(until) } => write!(f, "{limit} is used up until {until}"),
            Need::Budget { limit, until: None } => write!(f, "{limit} is used up until something else goes"),
            Need::Price { limit } => write!(f, "{limit} is set, and the price of this step is not known"),
            Need::Usage { limit } => write!(f, "{limit} is set, and how much there is now is not known"),
            Need::Ledger { until } => write!(f, "the environment's ledger is full until {until}"),
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refusal::Rejected { by, .. } => write!(f, "rejected by {}", listed(by, " and ")),
            Refusal::Expired { at } => write!(f, "its time was over at {at}"),
            Refusal::OverLimit { limit } => write!(f, "this step alone is more than {limit} allows"),
        }
    }
}

fn told(needs: &[Need]) -> String {
    needs.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn listed<'a>(names: impl IntoIterator<Item = &'a String>, joint: &str) -> String {
    let names: Vec<&str> = names.into_iter().map(String::as_str).collect();
    match names.as_slice() {
        [] => String::new(),
        [only] => (*only).to_owned(),
        [first @ .., last] => format!("{}{joint}{last}", first.join(", ")),
    }
}
