//! Whether a Plan's graph holds together, and in which order its nodes come.
//!
//! A group begins before everything in it and ends after it, so each group is two vertices: what comes before the group
//! comes before its beginning, and what comes after waits for its end. A plan in which a node in a group waits for a node
//! that waits for the group is therefore found to be a cycle. An edge between a group and a node directly in it says what
//! the group says already.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::fmt;

use serde::{Deserialize, Serialize};
use setpoint_api::field::{Errors, Path};
use setpoint_api::planspec::{Graph, GroupMode, Node, NodeKind, Plan};
use thiserror::Error;

use crate::cycles::{self, Successors};

/// Nodes of which each comes before the next, and the last before the first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Error)]
pub struct Cycle {
    /// The nodes by id, each once.
    pub nodes: Vec<String>,
}

/// Tells everything that is wrong with a plan: its fields, and its graph as a whole.
pub fn validate(plan: &Plan, errors: &mut Errors) {
    plan.validate(errors);
    let spec = Path::of("spec");
    let path = spec.field("graph");
    let shape = Shape::of(&plan.spec.graph);
    shape.validate_ids(&path, errors);
    shape.validate_references(&path, errors);
    let nesting = shape.nesting_cycles();
    for cycle in &nesting {
        errors.invalid(&path, cycle.to_string(), "a group must not be inside itself");
    }
    if nesting.is_empty() {
        for cycle in cycles::cycles(&shape.successors()) {
            errors.invalid(&path, shape.named(&cycle).to_string(), "nodes must not wait for each other in a circle");
        }
    }
}

/// The nodes in an order in which each comes after all that it waits for, a group before what is in it. Of nodes that
/// could come next, the one that is declared first does. What an unknown id refers to is left out.
pub fn order(graph: &Graph) -> Result<Vec<&Node>, Cycle> {
    let shape = Shape::of(graph);
    let successors = shape.successors();
    let mut waits_for = vec![0_usize; successors.len()];
    successors.iter().flatten().for_each(|successor| waits_for[*successor] += 1);
    let count = graph.nodes.len();
    let place = |vertex: usize| Reverse((vertex % count, vertex / count));
    let mut ready: BinaryHeap<_> = (0..successors.len()).filter(|vertex| waits_for[*vertex] == 0).map(place).collect();
    let mut ordered = Vec::with_capacity(count);
    while let Some(Reverse((node, is_end))) = ready.pop() {
        if is_end == 0 {
            ordered.push(&graph.nodes[node]);
        }
        for &successor in &successors[node + is_end * count] {
            waits_for[successor] -= 1;
            if waits_for[successor] == 0 {
                ready.push(place(successor));
            }
        }
    }
    if ordered.len() == count {
        return Ok(ordered);
    }
    let cycle = cycles::cycles(&successors).into_iter().next();
    Err(shape.named(&cycle.expect("a node that never becomes ready waits in a cycle")))
}

/// The nodes of a graph by id, and which group each is in.
struct Shape<'g> {
    graph: &'g Graph,
    /// The first node of each id.
    index: BTreeMap<&'g str, usize>,
    /// The first group that claims each node.
    parent: Vec<Option<usize>>,
}

impl<'g> Shape<'g> {
    fn of(graph: &'g Graph) -> Shape<'g> {
        let mut index = BTreeMap::new();
        for (position, node) in graph.nodes.iter().enumerate() {
            index.entry(node.id.as_str()).or_insert(position);
        }
        let mut parent = vec![None; graph.nodes.len()];
        for (group, node) in groups(graph) {
            for child in node.children.iter().filter_map(|child| index.get(child.as_str())) {
                parent[*child].get_or_insert(group);
            }
        }
        Shape { graph, index, parent }
    }

    fn validate_ids(&self, path: &Path<'_>, errors: &mut Errors) {
        let nodes = path.field("nodes");
        for (position, node) in self.graph.nodes.iter().enumerate() {
            if self.index[node.id.as_str()] != position {
                errors.duplicate(&nodes.index(position).field("id"), &node.id);
            }
        }
    }

    fn validate_references(&self, path: &Path<'_>, errors: &mut Errors) {
        let nodes = path.field("nodes");
        for (position, node) in self.graph.nodes.iter().enumerate() {
            let at = nodes.index(position);
            let depends_on = at.field("dependsOn");
            for (index, id) in node.depends_on.iter().enumerate() {
                self.validate_exists(id, &depends_on.index(index), errors);
            }
            let children = at.field("children");
            for (index, id) in node.children.iter().enumerate() {
                self.validate_exists(id, &children.index(index), errors);
                self.validate_only_parent(position, id, &children.index(index), errors);
            }
        }
        let edges = path.field("edges");
        for (position, edge) in self.graph.edges.iter().enumerate() {
            let at = edges.index(position);
            self.validate_exists(&edge.from, &at.field("from"), errors);
            self.validate_exists(&edge.to, &at.field("to"), errors);
        }
    }

    fn validate_exists(&self, id: &str, path: &Path<'_>, errors: &mut Errors) {
        if !self.index.contains_key(id) {
            errors.not_found(path, id);
        }
    }

    fn validate_only_parent(&self, group: usize, child: &str, path: &Path<'_>, errors: &mut Errors) {
        let parent = self.index.get(child).and_then(|child| self.parent[*child]);
        if let Some(parent) = parent.filter(|parent| *parent != group) {
            errors.invalid(path, child, &format!("is in the group {:?} already", self.graph.nodes[parent].id));
        }
    }

    /// Groups that are inside themselves.
    fn nesting_cycles(&self) -> Vec<Cycle> {
        let mut successors: Successors = vec![Vec::new(); self.graph.nodes.len()];
        for (child, parent) in self.parent.iter().enumerate() {
            successors[parent.unwrap_or(child)].extend(parent.map(|_| child));
        }
        cycles::cycles(&successors).iter().map(|cycle| self.named(cycle)).collect()
    }

    /// What comes after each vertex. Vertex `i` is node `i`, or its beginning if it is a group; vertex `n + i` is the end
    /// of group `i`.
    fn successors(&self) -> Successors {
        let count = self.graph.nodes.len();
        let mut successors: Successors = vec![Vec::new(); 2 * count];
        for (child, parent) in self.parent.iter().enumerate() {
            if let Some(parent) = parent {
                successors[*parent].push(child);
                successors[self.end(child)].push(count + parent);
            }
        }
        for (group, node) in groups(self.graph) {
            successors[group].push(count + group);
            if node.mode == Some(GroupMode::Sequence) {
                let children: Vec<usize> =
                    node.children.iter().filter_map(|id| self.index.get(id.as_str()).copied()).collect();
                children.windows(2).for_each(|pair| successors[self.end(pair[0])].push(pair[1]));
            }
        }
        for (from, to) in self.edges() {
            if self.parent[to] != Some(from) && self.parent[from] != Some(to) {
                successors[self.end(from)].push(to);
            }
        }
        successors
    }

    /// The edges between nodes that exist, however they are written.
    fn edges(&self) -> impl Iterator<Item = (usize, usize)> {
        let edges = self.graph.edges.iter().map(|edge| (edge.from.as_str(), edge.to.as_str()));
        let depends_on = |node: &'g Node| node.depends_on.iter().map(|from| (from.as_str(), node.id.as_str()));
        let all = edges.chain(self.graph.nodes.iter().flat_map(depends_on));
        all.filter_map(|(from, to)| Some((*self.index.get(from)?, *self.index.get(to)?)))
    }

    fn end(&self, node: usize) -> usize {
        let is_group = self.graph.nodes[node].kind == NodeKind::Group;
        if is_group { self.graph.nodes.len() + node } else { node }
    }

    /// The nodes of a cycle of vertices. The two vertices of a group are one node.
    fn named(&self, cycle: &[usize]) -> Cycle {
        let mut nodes: Vec<String> =
            cycle.iter().map(|vertex| self.graph.nodes[vertex % self.graph.nodes.len()].id.clone()).collect();
        nodes.dedup();
        Cycle { nodes }
    }
}

fn groups(graph: &Graph) -> impl Iterator<Item = (usize, &Node)> {
    graph.nodes.iter().enumerate().filter(|(_, node)| node.kind == NodeKind::Group)
}

/// `a -> b -> a`
impl fmt::Display for Cycle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for node in &self.nodes {
            write!(f, "{node} -> ")?;
        }
        f.write_str(self.nodes.first().map_or("", String::as_str))
    }
}
