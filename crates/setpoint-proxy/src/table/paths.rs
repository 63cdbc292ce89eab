//! A tree of path segments: which rules could take a path, the most specific first, at a cost that does not grow with the number of rules.

use std::collections::HashMap;

use super::candidate::Candidate;

/// No path of a rule is deeper.
pub(crate) const MAX_DEPTH: usize = 64;

/// All trees of a table in one list of nodes.
#[derive(Debug, Default)]
pub(crate) struct Paths {
    nodes: Vec<Node>,
}

/// The tree of one host.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Root(u32);

#[derive(Debug, Default)]
struct Node {
    children: HashMap<Box<str>, u32>,
    exact: Vec<Candidate>,
    prefix: Vec<Candidate>,
}

impl Paths {
    pub(crate) fn add_root(&mut self) -> Root {
        self.nodes.push(Node::default());
        Root(self.nodes.len() as u32 - 1)
    }

    pub(crate) fn add_exact(&mut self, root: Root, path: &str, candidate: Candidate) {
        let node = self.node_for(root, segments(path));
        self.nodes[node].exact.push(candidate);
    }

    pub(crate) fn add_prefix(&mut self, root: Root, path: &str, candidate: Candidate) {
        let node = self.node_for(root, segments(path.trim_end_matches('/')));
        self.nodes[node].prefix.push(candidate);
    }

    fn node_for<'a>(&mut self, root: Root, segments: impl Iterator<Item = &'a str>) -> usize {
        let mut at = root.0 as usize;
        for segment in segments {
            at = match self.nodes[at].children.get(segment) {
                Some(child) => *child as usize,
                None => {
                    self.nodes.push(Node::default());
                    let child = self.nodes.len() - 1;
                    self.nodes[at].children.insert(segment.into(), child as u32);
                    child
                }
            };
        }
        at
    }

    /// Brings the rules of each place into the order of their precedence.
    pub(crate) fn sort(&mut self) {
        for node in &mut self.nodes {
            node.exact.sort_by(Candidate::precedence);
            node.prefix.sort_by(Candidate::precedence);
        }
    }

    /// The first rule that accepts: those of exactly this path, then those of its prefixes, the longest first.
    pub(crate) fn find(
        &self,
        root: Root,
        path: &str,
        accepts: impl Fn(&Candidate) -> bool,
    ) -> Option<(&Candidate, usize)> {
        // Where each prefix ends, to be gone back over from the longest to the shortest.
        let mut way = [(0_u32, 0_usize); MAX_DEPTH + 1];
        way[0] = (root.0, 0);
        let mut depth = 0;
        let mut end = 0;
        let mut is_whole = true;
        for segment in segments(path) {
            let child = match depth < MAX_DEPTH {
                true => self.nodes[way[depth].0 as usize].children.get(segment),
                false => None,
            };
            let Some(child) = child else {
                is_whole = false;
                break;
            };
            end += 1 + segment.len();
            depth += 1;
            way[depth] = (*child, end);
        }
        if is_whole {
            let exact = &self.nodes[way[depth].0 as usize].exact;
            if let Some(candidate) = exact.iter().find(|candidate| accepts(candidate)) {
                return Some((candidate, path.len()));
            }
        }
        way[..=depth].iter().rev().find_map(|(node, end)| {
            let prefix = &self.nodes[*node as usize].prefix;
            prefix.iter().find(|candidate| accepts(candidate)).map(|candidate| (candidate, *end))
        })
    }
}

/// The segments of a path, with an empty one behind a final slash. The root path has one empty segment.
fn segments(path: &str) -> impl Iterator<Item = &str> {
    let rest = path.strip_prefix('/');
    rest.into_iter().flat_map(|rest| rest.split('/'))
}
