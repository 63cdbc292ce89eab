//! Cycles of a directed graph, found without recursion: a chain of a hundred thousand must not exhaust the stack.

use std::collections::VecDeque;

/// What each vertex points at, by index.
pub(crate) type Successors = Vec<Vec<usize>>;

const UNSEEN: usize = usize::MAX;

/// The strongly connected component of each vertex: two vertices are in one exactly if each can be reached from the
/// other. (Tarjan's algorithm.)
pub(crate) fn components(successors: &[Vec<usize>]) -> Vec<usize> {
    let mut search = Search {
        order: vec![UNSEEN; successors.len()],
        low: vec![0; successors.len()],
        component: vec![UNSEEN; successors.len()],
        open: Vec::new(),
        seen: 0,
        components: 0,
    };
    for root in 0..successors.len() {
        if search.order[root] == UNSEEN {
            search.run(root, successors);
        }
    }
    search.component
}

struct Search {
    /// When each vertex was first seen.
    order: Vec<usize>,
    /// The earliest vertex known to be reachable from each.
    low: Vec<usize>,
    component: Vec<usize>,
    /// Vertices that are seen and belong to no finished component.
    open: Vec<usize>,
    seen: usize,
    components: usize,
}

impl Search {
    fn run(&mut self, root: usize, successors: &[Vec<usize>]) {
        let mut path = vec![(root, 0)];
        self.enter(root);
        while let Some((vertex, next)) = path.last_mut() {
            let vertex = *vertex;
            let Some(&successor) = successors[vertex].get(*next) else {
                path.pop();
                self.leave(vertex);
                if let Some((parent, _)) = path.last() {
                    self.low[*parent] = self.low[*parent].min(self.low[vertex]);
                }
                continue;
            };
            *next += 1;
            if self.order[successor] == UNSEEN {
                self.enter(successor);
                path.push((successor, 0));
            } else if self.component[successor] == UNSEEN {
                self.low[vertex] = self.low[vertex].min(self.order[successor]);
            }
        }
    }

    fn enter(&mut self, vertex: usize) {
        self.order[vertex] = self.seen;
        self.low[vertex] = self.seen;
        self.seen += 1;
        self.open.push(vertex);
    }

    /// Closes the component of which this vertex was seen first, if it is that vertex.
    fn leave(&mut self, vertex: usize) {
        if self.low[vertex] != self.order[vertex] {
            return;
        }
        while let Some(member) = self.open.pop() {
            self.component[member] = self.components;
            if member == vertex {
                break;
            }
        }
        self.components += 1;
    }
}

/// One cycle for every component that has any: the shortest through its lowest vertex, which comes first.
pub(crate) fn cycles(successors: &[Vec<usize>]) -> Vec<Vec<usize>> {
    let component = components(successors);
    let mut done = vec![false; successors.len()];
    let mut came_from = vec![UNSEEN; successors.len()];
    let mut found = Vec::new();
    for start in 0..successors.len() {
        if std::mem::replace(&mut done[component[start]], true) {
            continue;
        }
        found.extend(shortest_cycle(start, successors, &component, &mut came_from));
    }
    found
}

/// Looks breadth first, within one component; so every vertex is looked at once for all components together.
fn shortest_cycle(
    start: usize,
    successors: &[Vec<usize>],
    component: &[usize],
    came_from: &mut [usize],
) -> Option<Vec<usize>> {
    let mut queue = VecDeque::from([start]);
    while let Some(vertex) = queue.pop_front() {
        for &successor in &successors[vertex] {
            if successor == start {
                let back = std::iter::successors(Some(vertex), |at| (*at != start).then(|| came_from[*at]));
                let mut cycle: Vec<usize> = back.collect();
                cycle.reverse();
                return Some(cycle);
            }
            if component[successor] == component[start] && came_from[successor] == UNSEEN {
                came_from[successor] = vertex;
                queue.push_back(successor);
            }
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_cycle_is_found_in_each_component() {
        let rows: [(&str, Successors, Vec<Vec<usize>>); 6] = [
            ("nothing", vec![], vec![]),
            ("a chain has none", vec![vec![1], vec![2], vec![]], vec![]),
            ("a diamond has none", vec![vec![1, 2], vec![3], vec![3], vec![]], vec![]),
            ("a vertex that points at itself", vec![vec![0]], vec![vec![0]]),
            ("the shortest through the lowest", vec![vec![1], vec![2, 0], vec![0]], vec![vec![0, 1]]),
            ("two apart", vec![vec![1], vec![0], vec![3], vec![2]], vec![vec![0, 1], vec![2, 3]]),
        ];
        for (name, successors, expected) in rows {
            assert_eq!(cycles(&successors), expected, "{name}");
        }
    }

    #[test]
    fn a_long_chain_and_a_long_cycle_fit_the_stack() {
        let length = 100_000;
        let mut successors: Successors = (1..=length).map(|next| vec![next]).collect();
        successors.push(vec![]);
        assert!(cycles(&successors).is_empty());
        successors[length].push(0);
        assert_eq!(cycles(&successors), [(0..=length).collect::<Vec<_>>()]);
    }
}
