//! An expression that was checked, ready to be evaluated: names are places, calls are functions.

use crate::go_regex::GoRegex;

use super::function::Function;
use super::literal::Literal;
use super::syntax::{Access, Macro};

#[derive(Debug)]
pub(super) enum Node {
    Literal(Literal),
    /// A type, by its name.
    Type(&'static str),
    /// A variable, by its place: `self`, `oldSelf`, then those of the loops around.
    Variable(usize),
    Select {
        operand: Box<Node>,
        field: Field,
        access: Access,
    },
    Call(Box<Call>),
    And(Vec<Node>),
    Or(Vec<Node>),
    Conditional(Box<[Node; 3]>),
    /// `optional.or(…)` and `optional.orValue(…)`: what comes second is evaluated only when needed.
    OrElse {
        optional: Box<Node>,
        other: Box<Node>,
        unwrap: bool,
    },
    List(Vec<(Node, bool)>),
    Map(Vec<MapEntry>),
    Loop(Box<LoopNode>),
}

/// A field's name as it is written and as it stands in the data.
#[derive(Debug)]
pub(super) struct Field {
    pub written: Box<str>,
    pub name: Box<str>,
}

#[derive(Debug)]
pub(super) struct Call {
    /// More than one only if the types of the arguments do not say which.
    pub functions: Vec<&'static Function>,
    pub arguments: Vec<Node>,
    /// The pattern, if it is a constant.
    pub regex: Option<GoRegex>,
}

#[derive(Debug)]
pub(super) struct MapEntry {
    pub key: Node,
    pub value: Node,
    pub optional: bool,
}

#[derive(Debug)]
pub(super) struct LoopNode {
    pub name: Macro,
    pub range: Node,
    /// How many variables: with two, the first is the index or the key.
    pub variables: usize,
    pub filter: Option<Node>,
    pub body: Node,
}
