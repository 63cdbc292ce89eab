//! ClusterRoles, and those among them that take the rules of others together by their labels.
//!
//! Kubernetes has a controller write the rules of the others into such a role, so that they lag behind, and so that two
//! roles that take in each other never lose a rule again. Here they are followed from role to role, and so are always
//! those of the roles that exist.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde_json::Value;

use super::Rule;
use setpoint_api::labels::selector_matches;

#[derive(Debug, Default)]
pub(super) struct ClusterRoles {
    roles: BTreeMap<Box<str>, ClusterRole>,
    /// The names of those that take in others.
    aggregating: BTreeSet<Box<str>>,
}

#[derive(Debug)]
struct ClusterRole {
    labels: Value,
    own: Arc<[Rule]>,
    aggregation: Option<Aggregation>,
    /// The rules it stands for, in pieces that are shared with the roles they come from.
    rules: Vec<Arc<[Rule]>>,
}

#[derive(Debug)]
struct Aggregation {
    selectors: Vec<Value>,
    /// The names of the roles with such labels, itself not among them.
    members: BTreeSet<Box<str>>,
}

impl Aggregation {
    fn takes_in(&self, labels: &Value) -> bool {
        // A role without labels is still one that `!label` selects.
        self.selectors.iter().any(|selector| selector_matches(selector, labels))
    }
}

impl ClusterRoles {
    /// The rules that a role stands for; none if there is no such role.
    pub(super) fn rules(&self, name: &str) -> Option<&[Arc<[Rule]>]> {
        self.roles.get(name).map(|role| role.rules.as_slice())
    }

    /// The rules that a role takes together from others, each once; none if it does not do that.
    pub(super) fn aggregated(&self, name: &str) -> Option<Vec<&Rule>> {
        let role = self.roles.get(name).filter(|role| role.aggregation.is_some())?;
        let mut seen = BTreeSet::new();
        Some(role.rules.iter().flat_map(|piece| piece.iter()).filter(|rule| seen.insert(*rule)).collect())
    }

    pub(super) fn aggregating(&self) -> impl Iterator<Item = &str> {
        self.aggregating.iter().map(|name| &**name)
    }

    pub(super) fn set(&mut self, name: &str, object: &Value) {
        let was_taken_in = self.forget(name);
        let labels = object["metadata"]["labels"].clone();
        let own: Arc<[Rule]> = Rule::read_all(&object["rules"]).into();
        let selectors = object["aggregationRule"]["clusterRoleSelectors"].as_array().cloned();
        let aggregation = selectors.map(|selectors| {
            let mut aggregation = Aggregation { selectors, members: BTreeSet::new() };
            let members = self.roles.iter().filter(|(_, role)| aggregation.takes_in(&role.labels));
            aggregation.members = members.map(|(member, _)| member.clone()).collect();
            aggregation
        });
        let aggregates = aggregation.is_some();
        let is_taken_in = self.join(name, &labels);
        self.roles.insert(name.into(), ClusterRole { labels, rules: vec![Arc::clone(&own)], own, aggregation });
        if aggregates {
            self.aggregating.insert(name.into());
        }
        if aggregates || was_taken_in || is_taken_in {
            self.take_together();
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        if self.forget(name) {
            self.take_together();
        }
    }

    /// Makes a role with these labels a member where it is selected. Says whether it is anywhere.
    fn join(&mut self, name: &str, labels: &Value) -> bool {
        let mut joined = false;
        for other in &self.aggregating {
            let aggregation = self.roles.get_mut(other).and_then(|role| role.aggregation.as_mut());
            if let Some(aggregation) = aggregation.filter(|aggregation| aggregation.takes_in(labels)) {
                joined |= aggregation.members.insert(name.into());
            }
        }
        joined
    }

    /// Removes a role. Says whether another one had taken it in.
    fn forget(&mut self, name: &str) -> bool {
        self.roles.remove(name);
        self.aggregating.remove(name);
        let mut was_member = false;
        for other in &self.aggregating {
            let aggregation = self.roles.get_mut(other).and_then(|role| role.aggregation.as_mut());
            was_member |= aggregation.is_some_and(|aggregation| aggregation.members.remove(name));
        }
        was_member
    }

    fn take_together(&mut self) {
        let rules: Vec<_> = self.aggregating.iter().map(|name| (name.clone(), self.reachable(name))).collect();
        for (name, rules) in rules {
            if let Some(role) = self.roles.get_mut(&name) {
                role.rules = rules;
            }
        }
    }

    /// The rules of all roles that are taken in by this one, or by one that it takes in, and so on.
    fn reachable(&self, name: &str) -> Vec<Arc<[Rule]>> {
        let (mut seen, mut rules) = (BTreeSet::from([name]), Vec::new());
        let mut ahead = vec![name];
        while let Some(next) = ahead.pop() {
            let Some(role) = self.roles.get(next) else { continue };
            match &role.aggregation {
                None => rules.push(Arc::clone(&role.own)),
                // Taken from the end, so that rules stand in the order of the names.
                Some(aggregation) => {
                    ahead.extend(aggregation.members.iter().rev().map(|member| &**member).filter(|m| seen.insert(m)));
                }
            }
        }
        rules
    }
}
