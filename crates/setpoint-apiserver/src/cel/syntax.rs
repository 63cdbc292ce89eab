//! The tree of an expression as it was written. Macros are nodes of their own: they are loops with a known shape.

use super::literal::Literal;

/// A node and the position (in characters) that problems with it are reported at.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expr {
    pub at: u32,
    /// How many nodes deep the tree below is, so that nothing walks a tree too deep for the stack.
    pub depth: u16,
    pub kind: Kind,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum Kind {
    Literal(Literal),
    Identifier(Box<str>),
    Select {
        operand: Box<Expr>,
        field: Box<str>,
        access: Access,
    },
    /// A function or an operator. Operators have the names CEL gives them: `_+_`, `!_`, `_[_]`.
    Call {
        function: Box<str>,
        target: Option<Box<Expr>>,
        arguments: Vec<Expr>,
    },
    /// Two terms or more.
    And(Vec<Expr>),
    Or(Vec<Expr>),
    List(Vec<Element>),
    Map(Vec<Entry>),
    /// `Name{field: value}`. No message type exists in a custom resource's rules.
    Message(Box<str>),
    Loop(Box<Loop>),
}

/// What is asked of a field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Access {
    /// `a.b`
    Value,
    /// `has(a.b)`
    Presence,
    /// `a.?b`
    Optional,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Element {
    pub optional: bool,
    pub value: Expr,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct Entry {
    pub optional: bool,
    pub key: Expr,
    pub value: Expr,
}

/// A macro that evaluates `body` once for every element of `range` with one or two variables set.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Loop {
    pub name: Macro,
    pub range: Expr,
    pub variables: Vec<Box<str>>,
    pub filter: Option<Expr>,
    pub body: Expr,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Macro {
    All,
    Exists,
    ExistsOne,
    Filter,
    /// `map` and `transformList`.
    Map,
    TransformMap,
    TransformMapEntry,
    SortBy,
    OptionalMap,
    OptionalFlatMap,
}

impl Expr {
    pub(super) fn new(at: u32, kind: Kind) -> Expr {
        let depth = 1 + match &kind {
            Kind::Literal(_) | Kind::Identifier(_) | Kind::Message(_) => 0,
            Kind::Select { operand, .. } => operand.depth,
            Kind::Call { target, arguments, .. } => deepest(arguments).max(target.as_ref().map_or(0, |t| t.depth)),
            Kind::And(terms) | Kind::Or(terms) => deepest(terms),
            Kind::List(elements) => deepest(elements.iter().map(|element| &element.value)),
            Kind::Map(entries) => deepest(entries.iter().flat_map(|entry| [&entry.key, &entry.value])),
            Kind::Loop(of) => deepest([&of.range, &of.body].into_iter().chain(&of.filter)),
        };
        Expr { at, depth, kind }
    }

    /// `a.b.c` if that is what this is: an identifier and fields of it.
    pub(super) fn qualified_name(&self) -> Option<String> {
        match &self.kind {
            Kind::Identifier(name) => Some(name.trim_start_matches('.').to_owned()),
            Kind::Select { operand, field, access: Access::Value } => {
                let mut name = operand.qualified_name()?;
                name.push('.');
                name.push_str(field);
                Some(name)
            }
            _ => None,
        }
    }
}

fn deepest<'e>(parts: impl IntoIterator<Item = &'e Expr>) -> u16 {
    parts.into_iter().map(|part| part.depth).max().unwrap_or_default()
}
