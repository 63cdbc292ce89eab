//! The order of objects: what others depend on comes first, and is removed last.

use std::cmp::{Ordering, Reverse};
use std::collections::{BTreeMap, BinaryHeap};

use setpoint_api::step::{Refusal, Target, Waiting, WaitsOn};

use super::target::Outcome;
use crate::cycles::{components, cycles};
use crate::desired::{DeletionPolicy, Desired, Elsewhere};
use crate::order::natural;

/// How many members of a cycle are named.
const CYCLE_TOLD: usize = 8;

/// An object that is not as desired, and what it comes after.
struct Node<'a> {
    desired: &'a Desired,
    outcome: Outcome,
    /// The objects that come before it.
    after: Vec<usize>,
    /// Why it cannot be done at all, as things are.
    blocked: Option<String>,
}

/// Puts outcomes in order and ties the steps of each object to those it comes after. What depends on something that is
/// not going to be as desired waits for it.
pub(super) fn in_order<'a>(all: &'a [Desired], outcomes: Vec<(&'a Desired, Outcome)>) -> Vec<Outcome> {
    let mut nodes: Vec<Node<'a>> = outcomes
        .into_iter()
        .map(|(desired, outcome)| Node { desired, outcome, after: Vec::new(), blocked: None })
        .collect();
    nodes.sort_by(|one, other| by_guest_then_name(one.desired, other.desired));
    relate(all, &mut nodes);
    let mut order = topological(&nodes);
    if order.len() < nodes.len() {
        untie_removals(&mut nodes);
        order = topological(&nodes);
    }
    let left = left_over(&nodes, &order);
    for &at in &order {
        settle(&mut nodes, at);
    }
    refuse_cycles(&mut nodes, &left);
    let (removed, others): (Vec<usize>, Vec<usize>) =
        order.into_iter().chain(left).partition(|at| nodes[*at].desired.deletion.is_some());
    others.into_iter().chain(removed).map(|at| std::mem::take(&mut nodes[at].outcome)).collect()
}

/// By the id a desire insists on, as numbers count; those without one after them, by name.
fn by_guest_then_name(one: &Desired, other: &Desired) -> Ordering {
    let by_id = match (&one.provider_id, &other.provider_id) {
        (Some(one), Some(other)) => natural(one, other),
        (one, other) => other.is_some().cmp(&one.is_some()),
    };
    let (one, other) = (&one.target, &other.target);
    by_id
        .then_with(|| natural(&one.namespace, &other.namespace))
        .then_with(|| natural(&one.name, &other.name))
        .then_with(|| one.kind.cmp(&other.kind))
}

/// Finds what each object comes after.
fn relate(all: &[Desired], nodes: &mut [Node<'_>]) {
    let any_depends = nodes.iter().any(|node| !node.desired.depends_on.is_empty());
    let any_deleted = nodes.iter().any(|node| node.desired.deletion == Some(DeletionPolicy::Delete));
    if !any_depends && !any_deleted {
        return;
    }
    let places: BTreeMap<Target, usize> =
        nodes.iter().enumerate().map(|(at, node)| (node.desired.target.clone(), at)).collect();
    let existing: BTreeMap<&Target, &Desired> = all.iter().map(|desired| (&desired.target, desired)).collect();
    let mut dependents: BTreeMap<&Target, Vec<&Desired>> = BTreeMap::new();
    for desired in all {
        for dependency in &desired.depends_on {
            dependents.entry(dependency).or_default().push(desired);
        }
    }
    dependents.values_mut().for_each(|of_one| of_one.sort_by_key(|dependent| Reverse(&dependent.target)));
    for node in nodes.iter_mut() {
        let desired = node.desired;
        match desired.deletion {
            Some(DeletionPolicy::Retain) => {}
            Some(DeletionPolicy::Delete) => {
                for dependent in dependents.get(&desired.target).into_iter().flatten() {
                    match places.get(&dependent.target) {
                        _ if dependent.deletion.is_none() => {
                            node.blocked = Some(format!("{} still depends on it", dependent.target));
                        }
                        Some(place) => node.after.push(*place),
                        None => {}
                    }
                }
                if let Some(dependent) = desired.needed_elsewhere.first() {
                    node.blocked = Some(format!("{dependent} still depends on it, in another environment"));
                }
            }
            None => {
                let mut dependencies: Vec<&Target> = desired.depends_on.iter().collect();
                dependencies.sort_unstable_by(|one, other| other.cmp(one));
                for dependency in dependencies {
                    match existing.get(dependency) {
                        Some(other) if other.deletion.is_some() => {
                            node.blocked = Some(format!("depends on {}, which is being deleted", dependency));
                        }
                        Some(_) => node.after.extend(places.get(dependency)),
                        None => node.blocked = obstacle(desired, dependency).or(node.blocked.take()),
                    }
                }
            }
        }
        node.after.sort_unstable();
        node.after.dedup();
    }
}

/// Why an object has to wait for one that is not planned for here, if it has to.
fn obstacle(desired: &Desired, dependency: &Target) -> Option<String> {
    let why = match desired.elsewhere.get(dependency) {
        Some(Elsewhere::AsDesired) => return None,
        Some(Elsewhere::NotYet) => "is not as desired yet, in another environment",
        Some(Elsewhere::Leaving) => "is being deleted",
        None => "does not exist",
    };
    Some(format!("depends on {dependency}, which {why}"))
}

/// The nodes that are in no cycle and behind none, each after all that it comes after; ties by place.
fn topological(nodes: &[Node<'_>]) -> Vec<usize> {
    let mut missing: Vec<usize> = nodes.iter().map(|node| node.after.len()).collect();
    let mut before: Vec<Vec<usize>> = vec![Vec::new(); nodes.len()];
    for (at, node) in nodes.iter().enumerate() {
        node.after.iter().for_each(|earlier| before[*earlier].push(at));
    }
    let mut ready: BinaryHeap<Reverse<usize>> = (0..nodes.len()).filter(|at| missing[*at] == 0).map(Reverse).collect();
    let mut order = Vec::with_capacity(nodes.len());
    while let Some(Reverse(at)) = ready.pop() {
        order.push(at);
        for later in &before[at] {
            missing[*later] -= 1;
            if missing[*later] == 0 {
                ready.push(Reverse(*later));
            }
        }
    }
    order
}

/// The nodes that depend on themselves, or on something that does.
fn left_over(nodes: &[Node<'_>], order: &[usize]) -> Vec<usize> {
    let mut is_left = vec![true; nodes.len()];
    order.iter().for_each(|at| is_left[*at] = false);
    (0..nodes.len()).filter(|at| is_left[*at]).collect()
}

/// What is being removed and depends on itself goes in any order: a cycle must not keep it for ever.
fn untie_removals(nodes: &mut [Node<'_>]) {
    let component = components(&nodes.iter().map(|node| node.after.clone()).collect::<Vec<_>>());
    for (at, node) in nodes.iter_mut().enumerate().filter(|(_, node)| node.desired.deletion.is_some()) {
        node.after.retain(|after| component[*after] != component[at]);
    }
}

/// Refuses what depends on itself and holds what depends on that.
fn refuse_cycles(nodes: &mut [Node<'_>], left: &[usize]) {
    if left.is_empty() {
        return;
    }
    for cycle in cycles(&nodes.iter().map(|node| node.after.clone()).collect::<Vec<_>>()) {
        refuse_cycle(nodes, &cycle);
    }
    for at in left {
        hold(&mut nodes[*at], "depends on something that depends on itself".to_owned());
    }
}

fn refuse_cycle(nodes: &mut [Node<'_>], cycle: &[usize]) {
    let names = |members: &[usize]| -> String {
        members.iter().map(|at| format!("{} -> ", nodes[*at].desired.target)).collect()
    };
    let (told, untold) = cycle.split_at(cycle.len().min(CYCLE_TOLD));
    let untold = if untold.is_empty() { String::new() } else { format!("… ({} more) -> ", untold.len()) };
    let message = format!("depends on itself: {}{untold}{}", names(told), nodes[cycle[0]].desired.target);
    for at in cycle {
        let target = nodes[*at].desired.target.clone();
        let refusal = Refusal { target, field: "spec.dependsOn".to_owned(), message: message.clone() };
        nodes[*at].outcome = Outcome { refused: vec![refusal], ..Outcome::default() };
    }
}

/// Lets a node wait if what it comes after does not get done, or else ties its first step to the last ones of those.
fn settle(nodes: &mut [Node<'_>], at: usize) {
    let is_removed = nodes[at].desired.deletion.is_some();
    let stuck = nodes[at]
        .after
        .iter()
        .map(|after| &nodes[*after])
        .find(|before| !before.outcome.waiting.is_empty() || !before.outcome.refused.is_empty());
    let blocked = nodes[at].blocked.clone().or_else(|| {
        let stuck = stuck?;
        let name = &stuck.desired.target;
        let fate = if stuck.outcome.refused.is_empty() { "waits" } else { "is refused" };
        Some(if is_removed {
            format!("{name} still depends on it")
        } else {
            format!("depends on {name}, which {fate}")
        })
    });
    if let Some(message) = blocked {
        return hold(&mut nodes[at], message);
    }
    let last_steps: Vec<String> = nodes[at]
        .after
        .iter()
        .filter_map(|after| nodes[*after].outcome.steps.last())
        .map(|step| step.id.clone())
        .collect();
    if let Some(first) = nodes[at].outcome.steps.first_mut() {
        first.depends_on.extend(last_steps);
    }
}

fn hold(node: &mut Node<'_>, message: String) {
    let steps = std::mem::take(&mut node.outcome.steps);
    if let Some(first) = steps.first() {
        let waiting = Waiting {
            target: node.desired.target.clone(),
            action: Some(first.action),
            on: WaitsOn::Dependency,
            message,
        };
        node.outcome.waiting.push(waiting);
    }
}
