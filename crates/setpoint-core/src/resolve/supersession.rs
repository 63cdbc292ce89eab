//! Which plans are replaced by others.
//!
//! A claim replaces the plan that it names and every lower version of that plan's series. Claims count if the plan that
//! makes them could serve the goal, be it the best of its series or not, replaced itself or not. A claim that would come
//! back to the plan that makes it, through whatever other claims, is part of a circle: it is reported, and not obeyed.
//!
//! "Every lower version" would be a quadratic number of edges. So each version of a series is a vertex of its own that
//! points at the plans of that version and at the version below it; a claim points at the plan that it names and at the
//! version below.

use std::collections::{BTreeMap, BTreeSet};

use setpoint_api::planspec::ObjectReference;

use super::{Considered, PlanName};
use crate::cycles::{self, Successors};

/// What is replaced, by what.
pub(super) struct Supersession {
    /// For each plan, the best one that replaces it.
    pub(super) by: Vec<Option<usize>>,
    /// Plans that claim to replace each other.
    pub(super) cycles: Vec<Vec<PlanName>>,
}

/// One plan's claim to replace another.
struct Claim {
    by: usize,
    plan: usize,
}

impl Supersession {
    pub(super) fn among(plans: &[Considered<'_>], ranking: &[usize]) -> Supersession {
        let claims = claims(plans);
        if claims.is_empty() {
            return Supersession { by: vec![None; plans.len()], cycles: Vec::new() };
        }
        let versions = Versions::of(plans);
        let mut successors = versions.successors(plans.len());
        for claim in &claims {
            successors[claim.by].push(claim.plan);
            successors[claim.by].extend(versions.below(claim.plan));
        }
        let component = cycles::components(&successors);
        let circular = |claim: &Claim| {
            let comes_back = |vertex: usize| component[vertex] == component[claim.by];
            comes_back(claim.plan) || versions.below(claim.plan).is_some_and(comes_back)
        };
        let (circular, obeyed): (Vec<Claim>, Vec<Claim>) = claims.into_iter().partition(circular);
        let cycles = members(plans, &component, circular.iter().map(|claim| component[claim.by]).collect());
        Supersession { by: replaced(plans.len(), &versions, &obeyed, ranking), cycles }
    }
}

/// The claims of plans that could serve the goal, about plans that name it.
fn claims(plans: &[Considered<'_>]) -> Vec<Claim> {
    if plans.iter().all(|plan| plan.plan.spec.supersedes.is_empty()) {
        return Vec::new();
    }
    let of_goal = plans.iter().enumerate().filter(|(_, plan)| plan.is_of_goal());
    let index: BTreeMap<(&str, &str), usize> =
        of_goal.map(|(position, plan)| ((plan.namespace(), plan.short_name()), position)).collect();
    let named = |plan: &Considered<'_>, reference: &ObjectReference| {
        let namespace = reference.namespace.as_deref().unwrap_or(plan.namespace());
        let found = *index.get(&(namespace, reference.name.as_str()))?;
        let uid = &plans[found].plan.metadata.uid;
        (reference.uid.is_none() || reference.uid == *uid).then_some(found)
    };
    let eligible = plans.iter().enumerate().filter(|(_, plan)| plan.is_eligible());
    let claims = eligible.flat_map(|(by, plan)| {
        plan.plan.spec.supersedes.iter().filter_map(move |reference| Some((by, named(plan, reference)?)))
    });
    claims.map(|(by, plan)| Claim { by, plan }).collect()
}

/// The versions of every series that the goal's plans have, as vertices behind those of the plans.
struct Versions {
    /// The vertex of each plan's version; none for plans of other goals.
    of_plan: Vec<Option<usize>>,
    /// The vertex of the version below, from the first version's vertex on.
    below: Vec<Option<usize>>,
    first: usize,
}

impl Versions {
    fn of(plans: &[Considered<'_>]) -> Versions {
        let mut sorted: Vec<usize> = (0..plans.len()).filter(|plan| plans[*plan].is_of_goal()).collect();
        let place = |plan: usize| (plans[plan].series(), &plans[plan].version);
        sorted.sort_by(|left, right| place(*left).cmp(&place(*right)));
        let mut versions = Versions { of_plan: vec![None; plans.len()], below: Vec::new(), first: plans.len() };
        let mut previous: Option<usize> = None;
        for plan in sorted {
            let last = versions.below.len().checked_sub(1).map(|last| versions.first + last);
            let vertex = match (previous, last) {
                (Some(before), Some(last)) if place(before) == place(plan) => last,
                (Some(before), last) if plans[before].series() == plans[plan].series() => versions.add(last),
                _ => versions.add(None),
            };
            versions.of_plan[plan] = Some(vertex);
            previous = Some(plan);
        }
        versions
    }

    fn add(&mut self, below: Option<usize>) -> usize {
        self.below.push(below);
        self.first + self.below.len() - 1
    }

    /// The vertex of the version below a plan's.
    fn below(&self, plan: usize) -> Option<usize> {
        self.of_plan[plan].and_then(|vertex| self.below[vertex - self.first])
    }

    fn successors(&self, plans: usize) -> Successors {
        let mut successors = vec![Vec::new(); plans + self.below.len()];
        for (plan, vertex) in self.of_plan.iter().enumerate() {
            if let Some(vertex) = vertex {
                successors[*vertex].push(plan);
            }
        }
        for (version, below) in self.below.iter().enumerate() {
            successors[self.first + version].extend(below);
        }
        successors
    }
}

/// For each plan the best that replaces it, by the ranking.
fn replaced(plans: usize, versions: &Versions, claims: &[Claim], ranking: &[usize]) -> Vec<Option<usize>> {
    let mut rank = vec![usize::MAX; plans];
    ranking.iter().enumerate().for_each(|(place, plan)| rank[*plan] = place);
    let mut best = vec![usize::MAX; plans + versions.below.len()];
    for claim in claims {
        for vertex in std::iter::once(claim.plan).chain(versions.below(claim.plan)) {
            best[vertex] = best[vertex].min(rank[claim.by]);
        }
    }
    // A higher version's vertex comes after those below it, so one pass downwards reaches them all.
    for version in (0..versions.below.len()).rev() {
        if let Some(below) = versions.below[version] {
            best[below] = best[below].min(best[versions.first + version]);
        }
    }
    let by_version = |plan: usize| versions.of_plan[plan].map_or(usize::MAX, |vertex| best[vertex]);
    (0..plans).map(|plan| ranking.get(best[plan].min(by_version(plan))).copied()).collect()
}

fn members(plans: &[Considered<'_>], component: &[usize], circular: BTreeSet<usize>) -> Vec<Vec<PlanName>> {
    let mut members: BTreeMap<usize, Vec<PlanName>> = BTreeMap::new();
    for (plan, considered) in plans.iter().enumerate().filter(|(plan, _)| circular.contains(&component[*plan])) {
        members.entry(component[plan]).or_default().push(considered.name());
    }
    let mut cycles: Vec<Vec<PlanName>> = members.into_values().collect();
    cycles.iter_mut().for_each(|cycle| cycle.sort());
    cycles.sort();
    cycles
}

/// How many plans of a circle are named. A person who knows some finds the others, and a message has an end.
const NAMES_SHOWN: usize = 10;

pub(super) fn cycle_sentence(cycle: &[PlanName]) -> String {
    match cycle {
        [plan] => format!("{plan} supersedes itself, which is not obeyed"),
        plans => {
            let names: Vec<String> = plans.iter().take(NAMES_SHOWN).map(ToString::to_string).collect();
            let more = plans.len() - names.len();
            let more = if more > 0 { format!(" and {more} more") } else { String::new() };
            format!("{}{more} supersede each other, which is not obeyed", names.join(", "))
        }
    }
}
