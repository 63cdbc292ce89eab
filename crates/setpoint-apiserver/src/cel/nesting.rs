//! How deep the values of an expression may nest, known before it is evaluated.
//!
//! No turn of a loop sees what another one made, so a value nests no deeper than the places of the program that made it,
//! one inside the other. Comparing, writing and dropping a value follow its nesting with the stack, and a chain of short
//! loops can nest it by the product of its length and theirs. Data of the object is bounded by the nesting of a request.

use super::program::{LoopNode, Node};
use super::syntax::Macro;

/// The deepest that a value may nest.
pub(super) const MAX_NESTING: u32 = 1_000;

/// The deepest value that is made anywhere in an expression, or more.
pub(super) fn deepest(node: &Node) -> u32 {
    // `self` and `oldSelf`; the second may be optional.
    let mut nesting = Nesting { variables: vec![0, 1], deepest: 0 };
    nesting.of(node);
    nesting.deepest
}

struct Nesting {
    /// What the values of the variables in scope may nest.
    variables: Vec<u32>,
    deepest: u32,
}

impl Nesting {
    fn of(&mut self, node: &Node) -> u32 {
        let depth = match node {
            Node::Literal(_) | Node::Type(_) => 0,
            Node::Variable(place) => self.variables[*place],
            Node::Select { operand, .. } => 1 + self.of(operand),
            Node::Call(call) => 1 + self.max(&call.arguments),
            Node::And(terms) | Node::Or(terms) => {
                self.max(terms);
                0
            }
            Node::Conditional(nodes) => self.max(nodes.iter()),
            Node::OrElse { optional, other, .. } => self.of(optional).max(self.of(other)),
            Node::List(elements) => 1 + self.max(elements.iter().map(|(element, _)| element)),
            Node::Map(entries) => 1 + self.max(entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            Node::Loop(of) => self.of_loop(of),
        };
        self.deepest = self.deepest.max(depth);
        depth
    }

    fn max<'n>(&mut self, nodes: impl IntoIterator<Item = &'n Node>) -> u32 {
        nodes.into_iter().map(|node| self.of(node)).max().unwrap_or_default()
    }

    fn of_loop(&mut self, of: &LoopNode) -> u32 {
        let range = self.of(&of.range);
        let place = self.variables.len();
        self.variables.resize(place + of.variables, range);
        self.max(&of.filter);
        let body = self.of(&of.body);
        self.variables.truncate(place);
        match of.name {
            Macro::All | Macro::Exists | Macro::ExistsOne => 0,
            Macro::Filter | Macro::SortBy => range,
            Macro::OptionalFlatMap => body,
            Macro::Map | Macro::TransformMap | Macro::TransformMapEntry | Macro::OptionalMap => 1 + body,
        }
    }
}
