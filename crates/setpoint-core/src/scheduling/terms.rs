//! Where a Pod wants to be among other Pods: with some, away from others. What many Pods ask for is tallied once.
//!
//! A `namespaceSelector` that is not empty chooses no namespaces: labels of namespaces are not known here.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use k8s_openapi::api::core::v1::{Pod, PodAffinityTerm, WeightedPodAffinityTerm};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::board::{NodeState, Placed, decrease};
use crate::workload::selection;

/// How many terms are tallied at most, beyond those that one Pod asks for; those that are asked for again are tallied again.
const KEPT: usize = 512;

/// Pods in some namespaces that a selector chooses.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Term {
    /// `None`: all of them.
    namespaces: Option<Vec<String>>,
    /// As text, so that it can be ordered.
    selector: String,
}

/// How many Pods of each term are on each node, and how many Pods that want none of a term near them.
#[derive(Debug, Default)]
pub(super) struct Tallies {
    terms: BTreeMap<Term, Tally>,
    /// By the term and the label that says what is near.
    repelled: BTreeMap<(Term, String), Tally>,
}

#[derive(Debug, Default)]
struct Tally {
    selector: LabelSelector,
    counts: BTreeMap<Arc<str>, usize>,
}

/// What a Pod says of others.
#[derive(Debug, Default)]
pub(super) struct Wishes {
    /// Terms, each with the label that says what is near.
    pub(super) near: Vec<(Term, String)>,
    pub(super) away: Vec<(Term, String)>,
    /// Those that it would like, by weight; away where that is negative.
    pub(super) liked: Vec<(Term, String, i64)>,
}

impl Term {
    pub(super) fn new(namespaces: Option<Vec<String>>, selector: &LabelSelector) -> Term {
        Term { namespaces, selector: serde_json::to_string(selector).unwrap_or_default() }
    }

    fn of(pod: &Pod, term: &PodAffinityTerm) -> (Term, String) {
        let mut selector = term.label_selector.clone().unwrap_or_else(nothing);
        narrow(&mut selector, pod, term.match_label_keys.as_deref().unwrap_or_default());
        let own = || pod.metadata.namespace.clone().unwrap_or_default();
        let listed = term.namespaces.clone().filter(|listed| !listed.is_empty());
        let namespaces = match &term.namespace_selector {
            Some(all) if selection::is_empty(all) => None,
            Some(_) => Some(listed.unwrap_or_default()),
            None => Some(listed.unwrap_or_else(|| vec![own()])),
        };
        (Term::new(namespaces, &selector), term.topology_key.clone())
    }

    fn chooses(&self, selector: &LabelSelector, pod: &Pod) -> bool {
        let namespace = pod.metadata.namespace.as_deref().unwrap_or_default();
        let is_in = self.namespaces.as_ref().is_none_or(|listed| listed.iter().any(|listed| listed == namespace));
        is_in && selection::matches(selector, pod.metadata.labels.as_ref())
    }

    pub(super) fn is_of(&self, pod: &Pod) -> bool {
        self.chooses(&self.parsed(), pod)
    }

    fn parsed(&self) -> LabelSelector {
        serde_json::from_str(&self.selector).unwrap_or_else(|_| nothing())
    }
}

/// Has a selector choose only those that have the same values as the Pod.
pub(super) fn narrow(selector: &mut LabelSelector, pod: &Pod, keys: &[String]) {
    for key in keys {
        if let Some(value) = pod.metadata.labels.as_ref().and_then(|labels| labels.get(key)) {
            selector.match_labels.get_or_insert_default().insert(key.clone(), value.clone());
        }
    }
}

/// A selector that chooses nothing: an empty one would choose everything.
fn nothing() -> LabelSelector {
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelectorRequirement;
    let never = LabelSelectorRequirement { key: String::new(), operator: "In".to_owned(), values: None };
    LabelSelector { match_expressions: Some(vec![never]), match_labels: None }
}

impl Wishes {
    pub(super) fn of(pod: &Pod) -> Wishes {
        let Some(affinity) = pod.spec.as_ref().and_then(|spec| spec.affinity.as_ref()) else {
            return Wishes::default();
        };
        let (near, away) = (affinity.pod_affinity.as_ref(), affinity.pod_anti_affinity.as_ref());
        let required = |terms: Option<&Vec<PodAffinityTerm>>| -> Vec<(Term, String)> {
            terms.into_iter().flatten().map(|term| Term::of(pod, term)).collect()
        };
        let preferred = |terms: Option<&Vec<WeightedPodAffinityTerm>>, sign: i64| -> Vec<(Term, String, i64)> {
            let one = |term: &WeightedPodAffinityTerm| {
                let (chosen, key) = Term::of(pod, &term.pod_affinity_term);
                (chosen, key, sign * i64::from(term.weight))
            };
            terms.into_iter().flatten().map(one).collect()
        };
        let mut liked =
            preferred(near.and_then(|near| near.preferred_during_scheduling_ignored_during_execution.as_ref()), 1);
        liked.extend(preferred(
            away.and_then(|away| away.preferred_during_scheduling_ignored_during_execution.as_ref()),
            -1,
        ));
        Wishes {
            near: required(near.and_then(|near| near.required_during_scheduling_ignored_during_execution.as_ref())),
            away: required(away.and_then(|away| away.required_during_scheduling_ignored_during_execution.as_ref())),
            liked,
        }
    }

    pub(super) fn terms(&self) -> impl Iterator<Item = &Term> {
        let required = self.near.iter().chain(&self.away).map(|(term, _)| term);
        required.chain(self.liked.iter().map(|(term, ..)| term))
    }
}

impl Tallies {
    /// Tallies all that one Pod asks for from now on.
    pub(super) fn begin<'p>(&mut self, asked: &BTreeSet<&Term>, placed: impl Iterator<Item = &'p Placed> + Clone) {
        let missing: Vec<&Term> = asked.iter().copied().filter(|term| !self.terms.contains_key(term)).collect();
        self.make_room(missing.len(), asked);
        for term in missing {
            let mut tally = Tally { selector: term.parsed(), counts: BTreeMap::new() };
            for placed in placed.clone() {
                if term.chooses(&tally.selector, &placed.pod) {
                    tally.change(&placed.node, true);
                }
            }
            self.terms.insert(term.clone(), tally);
        }
    }

    /// Forgets what is not asked for now, first what no Pod is of: a term that is not tallied would be taken for one that
    /// no Pod is of.
    fn make_room(&mut self, needed: usize, asked: &BTreeSet<&Term>) {
        let surplus = (self.terms.len() + needed).saturating_sub(KEPT);
        if surplus == 0 {
            return;
        }
        let idle = self.terms.iter().filter(|(term, _)| !asked.contains(term));
        let mut idle: Vec<(bool, Term)> = idle.map(|(term, tally)| (!tally.counts.is_empty(), term.clone())).collect();
        idle.sort();
        for (_, term) in idle.into_iter().take(surplus) {
            self.terms.remove(&term);
        }
    }

    /// Takes in that a Pod came to a node, or went.
    pub(super) fn count(&mut self, pod: &Pod, node: &Arc<str>, has_come: bool) {
        for (term, tally) in &mut self.terms {
            if term.chooses(&tally.selector, pod) {
                tally.change(node, has_come);
            }
        }
        for key in Wishes::of(pod).away {
            let selector = || key.0.parsed();
            let tally = self.repelled.entry(key.clone());
            let tally = tally.or_insert_with(|| Tally { selector: selector(), counts: BTreeMap::new() });
            tally.change(node, has_come);
            if tally.counts.is_empty() {
                self.repelled.remove(&key);
            }
        }
    }

    /// How many Pods of a term are on a node.
    pub(super) fn on(&self, term: &Term, node: &str) -> usize {
        self.terms.get(term).and_then(|tally| tally.counts.get(node)).copied().unwrap_or_default()
    }

    /// The nodes on which Pods of a term are.
    pub(super) fn nodes_of(&self, term: &Term) -> impl Iterator<Item = &Arc<str>> {
        self.terms.get(term).into_iter().flat_map(|tally| tally.counts.keys())
    }

    /// The labels, and nodes with Pods, that a Pod may not share the value of with these nodes.
    pub(super) fn repelling(&self, pod: &Pod) -> Vec<(&str, Vec<&Arc<str>>)> {
        let repelling = self.repelled.iter().filter(|((term, _), tally)| term.chooses(&tally.selector, pod));
        repelling.map(|((_, key), tally)| (key.as_str(), tally.counts.keys().collect())).collect()
    }
}

impl Tally {
    fn change(&mut self, node: &Arc<str>, has_come: bool) {
        if has_come {
            *self.counts.entry(node.clone()).or_default() += 1;
        } else {
            decrease(&mut self.counts, node);
        }
    }
}

/// Whether two nodes are at the same place by a label.
pub(super) fn is_near(one: &NodeState, other: &NodeState, key: &str) -> bool {
    one.labels.get(key).is_some_and(|value| other.labels.get(key) == Some(value))
}
