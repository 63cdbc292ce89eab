//! Which Plan serves a Goal, and for every other plan why it does not.
//!
//! A plan can serve the goal that its goalRef names, if the goal's selector selects it and it is valid. What a valid plan
//! supersedes is out, with the lower versions of its series. Of what is left, the highest version wins; of equal ones the
//! first by series, then by name, then by namespace. That is a total order over the plans themselves, so the answer does
//! not depend on the order in which they come, and cannot flap.

mod plan_status;
mod selection;
mod status;
mod supersession;
mod verdict;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use setpoint_api::field::Errors;
use setpoint_api::planspec::{Goal, ObjectReference, Plan};

use crate::graph;
use crate::version::Version;
pub use plan_status::plan_status;
pub use status::goal_status;
use supersession::Supersession;
pub use verdict::{TieBreak, Verdict};

/// A plan, and whether it is valid. Validity depends on nothing but the plan, so it is found once for each version of it
/// (see [`first_error`]), not at every resolution.
#[derive(Debug, Clone, Copy)]
pub struct CheckedPlan<'p> {
    pub plan: &'p Plan,
    /// What is wrong with it.
    pub error: Option<&'p str>,
}

/// A plan by name. Ordered by namespace, then name.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct PlanName {
    pub namespace: String,
    pub name: String,
}

/// What became of one plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    pub plan: PlanName,
    pub verdict: Verdict,
}

/// The plan that serves a goal, and what became of the others.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Resolution {
    /// The plan that serves the goal.
    pub active: Option<PlanName>,
    /// Every plan that was looked at, the active one first, then the others from near to far.
    pub candidates: Vec<Candidate>,
    /// Plans that supersede each other in a circle. What they say of each other is not obeyed.
    pub cycles: Vec<Vec<PlanName>>,
}

/// Resolves a goal among plans, in any order.
pub fn resolve(goal: &Goal, plans: &[CheckedPlan<'_>]) -> Resolution {
    let plans: Vec<Considered<'_>> = plans.iter().map(|plan| Considered::of(goal, plan)).collect();
    let ranking = ranking(&plans);
    let supersession = Supersession::among(&plans, &ranking);
    let verdicts = verdicts(&plans, &ranking, &supersession);
    let decided = ranking.iter().zip(verdicts);
    let mut candidates: Vec<Candidate> =
        decided.map(|(plan, verdict)| Candidate { plan: plans[*plan].name(), verdict }).collect();
    candidates.sort_by_key(|candidate| candidate.verdict.distance());
    let active = candidates.first().filter(|first| first.verdict == Verdict::Active).map(|first| first.plan.clone());
    candidates.extend(ruled_out(&plans));
    Resolution { active, candidates, cycles: supersession.cycles }
}

/// What is wrong with a plan, if anything: the first error, and how many more there are.
pub fn first_error(plan: &Plan) -> Option<String> {
    let mut errors = Errors::default();
    graph::validate(plan, &mut errors);
    let first = errors.iter().next()?;
    Some(match errors.len() {
        1 => first.to_string(),
        count => format!("{first} (and {} more)", count - 1),
    })
}

/// A plan with what resolution asks of it, and why it is out already, if it is.
struct Considered<'p> {
    plan: &'p Plan,
    version: Version<'p>,
    ruled_out: Option<Verdict>,
}

impl<'p> Considered<'p> {
    fn of(goal: &Goal, checked: &CheckedPlan<'p>) -> Considered<'p> {
        let plan = checked.plan;
        let version = Version::new(plan.spec.version.as_deref().unwrap_or(Version::MISSING));
        Considered { plan, version, ruled_out: selection::ruled_out(goal, checked) }
    }

    fn name(&self) -> PlanName {
        PlanName { namespace: self.namespace().to_owned(), name: self.short_name().to_owned() }
    }

    fn namespace(&self) -> &'p str {
        self.plan.metadata.namespace.as_deref().unwrap_or_default()
    }

    fn short_name(&self) -> &'p str {
        self.plan.metadata.name.as_deref().unwrap_or_default()
    }

    fn series(&self) -> Option<&'p str> {
        self.plan.spec.series.as_deref()
    }

    fn version_text(&self) -> String {
        self.plan.spec.version.as_deref().unwrap_or(Version::MISSING).to_owned()
    }

    /// Whether the plan could serve the goal, superseded or not.
    fn is_eligible(&self) -> bool {
        self.ruled_out.is_none()
    }

    /// Whether the plan names the goal, whatever else speaks against it.
    fn is_of_goal(&self) -> bool {
        !matches!(self.ruled_out, Some(Verdict::OtherGoal { .. }))
    }
}

/// The plans that could serve the goal, best first.
fn ranking(plans: &[Considered<'_>]) -> Vec<usize> {
    let mut ranking: Vec<usize> = (0..plans.len()).filter(|plan| plans[*plan].is_eligible()).collect();
    ranking.sort_by(|left, right| {
        let place = |plan: usize| {
            let plan = &plans[plan];
            (Reverse(&plan.version), plan.series(), plan.short_name(), plan.namespace())
        };
        place(*left).cmp(&place(*right))
    });
    ranking
}

/// What becomes of each plan of the ranking.
fn verdicts(plans: &[Considered<'_>], ranking: &[usize], supersession: &Supersession) -> Vec<Verdict> {
    let mut best_of_series: BTreeMap<Option<&str>, usize> = BTreeMap::new();
    let mut active = None;
    let mut verdicts = Vec::with_capacity(ranking.len());
    for &plan in ranking {
        let considered = &plans[plan];
        let verdict = match (supersession.by[plan], best_of_series.get(&considered.series()), active) {
            (Some(by), ..) => Verdict::Superseded { by: plans[by].name() },
            (None, Some(best), _) => Verdict::behind(considered, &plans[*best]),
            (None, None, Some(active)) => Verdict::behind(considered, &plans[active]),
            (None, None, None) => Verdict::Active,
        };
        if supersession.by[plan].is_none() {
            best_of_series.entry(considered.series()).or_insert(plan);
            active.get_or_insert(plan);
        }
        verdicts.push(verdict);
    }
    verdicts
}

/// The plans that could not serve the goal, by how far they are from it, then by name.
fn ruled_out(plans: &[Considered<'_>]) -> Vec<Candidate> {
    let out = plans.iter().filter_map(|plan| Some((plan.name(), plan.ruled_out.clone()?)));
    let mut out: Vec<Candidate> = out.map(|(plan, verdict)| Candidate { plan, verdict }).collect();
    out.sort_by(|left, right| (left.verdict.distance(), &left.plan).cmp(&(right.verdict.distance(), &right.plan)));
    out
}

impl PlanName {
    fn reference(&self) -> ObjectReference {
        ObjectReference { name: self.name.clone(), namespace: Some(self.namespace.clone()), uid: None }
    }
}

/// `namespace/name`
impl fmt::Display for PlanName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace, self.name)
    }
}

/// A line for each plan: `shop/web-v2 is active`.
impl fmt::Display for Resolution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.active.is_none() {
            writeln!(f, "no plan is active")?;
        }
        for candidate in &self.candidates {
            writeln!(f, "{} {}", candidate.plan, candidate.verdict)?;
        }
        for cycle in &self.cycles {
            writeln!(f, "{}", supersession::cycle_sentence(cycle))?;
        }
        Ok(())
    }
}
