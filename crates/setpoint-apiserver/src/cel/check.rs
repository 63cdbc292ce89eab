//! A tree to a program: every name is looked up, every call is matched with a function by the types of its arguments.

use std::sync::Arc;

use super::data_type::{DataKind, DataType};
use super::function::{Function, overloads};
use super::identifier::unescape;
use super::issue::Issue;
use super::literal::Literal;
use super::literal_arguments;
use super::nesting::{self, MAX_NESTING};
use super::program::{Call, Field, MapEntry, Node};
use super::syntax::{Access, Element, Entry, Expr, Kind};
use super::types::{Solver, Type};

/// The place of `oldSelf` among the variables; `self` is the first.
const OLD_SELF: usize = 1;

/// Names of types that may stand for themselves, as in `type(x) == string`.
const TYPES: [(&str, Type<'static>); 12] = [
    ("bool", Type::Bool),
    ("int", Type::Int),
    ("uint", Type::Uint),
    ("double", Type::Double),
    ("string", Type::String),
    ("bytes", Type::Bytes),
    ("null_type", Type::Null),
    ("google.protobuf.Duration", Type::Duration),
    ("google.protobuf.Timestamp", Type::Timestamp),
    ("net.IP", Type::Opaque("net.IP")),
    ("net.CIDR", Type::Opaque("net.CIDR")),
    ("type", Type::Dyn),
];

/// Names of types with parts.
const GENERIC_TYPES: [&str; 3] = ["list", "map", "optional_type"];

/// A checked expression.
#[derive(Debug)]
pub(super) struct Checked<'s> {
    pub node: Node,
    pub ty: Type<'s>,
    pub uses_old_self: bool,
}

/// Checks an expression in which `self` and `oldSelf` have these types.
pub(super) fn check<'s>(tree: &Expr, own: Type<'s>, old: Type<'s>) -> Result<Checked<'s>, Vec<Issue>> {
    let mut checker = Checker {
        solver: Solver::default(),
        scope: vec![("self".into(), own), ("oldSelf".into(), old)],
        issues: Vec::new(),
        uses_old_self: false,
        aggregates: Vec::new(),
        in_format: 0,
    };
    let (node, ty) = checker.expression(tree);
    checker.check_aggregates();
    let ty = checker.solver.shown(&ty);
    let Checker { issues, uses_old_self, .. } = checker;
    if !issues.is_empty() {
        return Err(issues);
    }
    if nesting::deepest(&node) > MAX_NESTING {
        return Err(vec![Issue::new(tree.at, format!("value nesting limit exceeded: {MAX_NESTING}"))]);
    }
    Ok(Checked { node, ty, uses_old_self })
}

pub(super) struct Checker<'s> {
    pub(super) solver: Solver<'s>,
    pub(super) scope: Vec<(Box<str>, Type<'s>)>,
    issues: Vec<Issue>,
    uses_old_self: bool,
    /// The types of the elements of every literal, which must agree once all is known.
    aggregates: Vec<Vec<(u32, Type<'s>)>>,
    /// How many calls of `format` are around: their arguments may be of any types.
    in_format: u32,
}

pub(super) type Typed<'s> = (Node, Type<'s>);

impl<'s> Checker<'s> {
    pub(super) fn report(&mut self, at: u32, message: impl Into<String>) {
        self.issues.push(Issue::new(at, message));
    }

    /// What stands for an expression that was found wrong.
    pub(super) fn wrong(&mut self, at: u32, message: impl Into<String>) -> Typed<'s> {
        self.report(at, message);
        (Node::Literal(Literal::Null), Type::Error)
    }

    fn undeclared(&mut self, at: u32, name: &str) -> Typed<'s> {
        self.wrong(at, format!("undeclared reference to '{name}' (in container '')"))
    }

    pub(super) fn expression(&mut self, expr: &Expr) -> Typed<'s> {
        match &expr.kind {
            Kind::Literal(literal) => (Node::Literal(literal.clone()), type_of_literal(literal)),
            Kind::Identifier(name) => self.identifier(expr.at, name.trim_start_matches('.')),
            Kind::Select { operand, field, access } => match type_named(expr) {
                Some(found) => found,
                None => self.select(expr.at, operand, field, *access),
            },
            Kind::Call { function, target, arguments } => self.call(expr.at, function, target.as_deref(), arguments),
            Kind::And(terms) => (Node::And(self.conditions(terms)), Type::Bool),
            Kind::Or(terms) => (Node::Or(self.conditions(terms)), Type::Bool),
            Kind::List(elements) => self.list(elements),
            Kind::Map(entries) => self.map(entries),
            Kind::Message(name) => self.undeclared(expr.at, name),
            Kind::Loop(of) => self.loop_over(expr.at, of),
        }
    }

    fn identifier(&mut self, at: u32, name: &str) -> Typed<'s> {
        if let Some(place) = self.scope.iter().rposition(|(known, _)| **known == *name) {
            self.uses_old_self |= place == OLD_SELF;
            return (Node::Variable(place), self.scope[place].1.clone());
        }
        type_value(name).unwrap_or_else(|| self.undeclared(at, name))
    }

    fn conditions(&mut self, terms: &[Expr]) -> Vec<Node> {
        terms.iter().map(|term| self.condition(term)).collect()
    }

    /// An expression that must be true or false.
    pub(super) fn condition(&mut self, expr: &Expr) -> Node {
        let (node, ty) = self.expression(expr);
        if !self.solver.fit(&ty, &Type::Bool) {
            let found = self.solver.shown(&ty);
            self.report(expr.at, format!("expected type 'bool' but found '{found}'"));
        }
        node
    }

    fn select(&mut self, at: u32, operand: &Expr, field: &str, access: Access) -> Typed<'s> {
        let (operand, ty) = self.expression(operand);
        let ty = self.solver.resolve(&ty);
        let (target, was_optional) = match &ty {
            Type::Optional(inner) => (inner.as_ref().clone(), true),
            _ => (ty, false),
        };
        let name = unescape(field);
        let result = match &target {
            Type::Map(entry) => entry.1.clone(),
            Type::Object(data) => match name.as_deref().and_then(|name| exposed_field(data, name)) {
                Some(data) => Type::of_data(data),
                None => {
                    self.report(at, format!("undefined field '{field}'"));
                    Type::Error
                }
            },
            Type::Variable(_) => {
                self.solver.fit(&Type::Dyn, &target);
                Type::Dyn
            }
            Type::Dyn | Type::Error => Type::Dyn,
            other => {
                let other = self.solver.shown(other);
                self.report(at, format!("type '{other}' does not support field selection"));
                Type::Dyn
            }
        };
        let ty = match access {
            Access::Presence => Type::Bool,
            Access::Optional => Type::optional(result),
            Access::Value if was_optional => Type::optional(result),
            Access::Value => result,
        };
        let name = name.unwrap_or_default().into();
        let field = Field { written: field.into(), name };
        (Node::Select { operand: Box::new(operand), field, access }, ty)
    }

    fn call(&mut self, at: u32, name: &str, target: Option<&Expr>, arguments: &[Expr]) -> Typed<'s> {
        self.in_format += u32::from(name == "format");
        let (mut nodes, mut types): (Vec<Node>, Vec<Type<'s>>) =
            arguments.iter().map(|argument| self.expression(argument)).unzip();
        self.in_format -= u32::from(name == "format");
        for issue in literal_arguments::check(at, name, target, arguments) {
            self.issues.push(issue);
        }
        let mut name = name.to_owned();
        let mut member = false;
        if let Some(target) = target {
            let qualified = target.qualified_name().map(|prefix| format!("{prefix}.{name}"));
            match qualified.filter(|name| overloads(name).is_some()) {
                Some(qualified) => name = qualified,
                None => {
                    let (node, ty) = self.expression(target);
                    nodes.insert(0, node);
                    types.insert(0, ty);
                    member = true;
                }
            }
        }
        let Some((functions, ty)) = self.resolve_call(at, &name, member, &types) else {
            return (Node::Literal(Literal::Null), Type::Error);
        };
        (node_of_call(functions, nodes), ty)
    }

    /// The functions that a call may mean, and the type of what it gives.
    pub(super) fn resolve_call(
        &mut self,
        at: u32,
        name: &str,
        member: bool,
        arguments: &[Type<'s>],
    ) -> Option<(Vec<&'static Function>, Type<'s>)> {
        let Some(overloads) = overloads(name) else {
            self.undeclared(at, name);
            return None;
        };
        let mut functions: Vec<&'static Function> = Vec::new();
        let mut result: Option<Type<'s>> = None;
        for overload in overloads.iter().filter(|overload| overload.function.member == member) {
            let Some(ty) = overload.apply(&mut self.solver, arguments) else { continue };
            if !functions.iter().any(|known| std::ptr::eq(*known, overload.function)) {
                functions.push(overload.function);
            }
            result = Some(match result {
                Some(known) if !known.same(&ty) => Type::Dyn,
                _ => ty,
            });
        }
        match result {
            Some(ty) => Some((functions, ty)),
            None => {
                self.no_overload(at, name, member, arguments);
                None
            }
        }
    }

    pub(super) fn no_overload(&mut self, at: u32, name: &str, member: bool, arguments: &[Type<'s>]) -> Typed<'s> {
        let mut shown: Vec<String> = arguments.iter().map(|ty| self.solver.shown(ty).to_string()).collect();
        let target = if member { format!("{}.", shown.remove(0)) } else { String::new() };
        let list = shown.join(", ");
        self.wrong(at, format!("found no matching overload for '{name}' applied to '{target}({list})'"))
    }

    fn list(&mut self, elements: &[Element]) -> Typed<'s> {
        let mut nodes = Vec::with_capacity(elements.len());
        let mut types = Vec::with_capacity(elements.len());
        for Element { optional, value } in elements {
            let (node, ty) = self.element(value, *optional);
            nodes.push((node, *optional));
            types.push((value.at, ty));
        }
        let joined = self.join(types);
        (Node::List(nodes), Type::list(joined))
    }

    fn map(&mut self, entries: &[Entry]) -> Typed<'s> {
        let mut nodes = Vec::with_capacity(entries.len());
        let (mut keys, mut values) = (Vec::new(), Vec::new());
        for Entry { optional, key, value } in entries {
            let (key_node, key_type) = self.expression(key);
            let (value_node, value_type) = self.element(value, *optional);
            keys.push((key.at, key_type));
            values.push((value.at, value_type));
            nodes.push(MapEntry { key: key_node, value: value_node, optional: *optional });
        }
        let (key, value) = (self.join(keys), self.join(values));
        (Node::Map(nodes), Type::map(key, value))
    }

    /// An element of a literal; `?element` must be optional and counts as what it holds.
    fn element(&mut self, value: &Expr, optional: bool) -> Typed<'s> {
        let (node, ty) = self.expression(value);
        if !optional {
            return (node, ty);
        }
        match self.solver.resolve(&ty) {
            Type::Optional(inner) => (node, inner.as_ref().clone()),
            ty if ty.is_dyn_or_error() => (node, Type::Dyn),
            ty => {
                let found = self.solver.shown(&ty);
                self.report(value.at, format!("expected type 'optional_type({found})' but found '{found}'"));
                (node, Type::Error)
            }
        }
    }

    fn join(&mut self, types: Vec<(u32, Type<'s>)>) -> Type<'s> {
        let mut joined = None;
        for (_, ty) in &types {
            joined = Some(self.solver.join(joined, ty));
        }
        if self.in_format == 0 {
            self.aggregates.push(types);
        }
        joined.unwrap_or_else(|| self.solver.fresh())
    }

    fn check_aggregates(&mut self) {
        for types in std::mem::take(&mut self.aggregates) {
            let mut types = types.into_iter().map(|(at, ty)| (at, self.solver.shown(&ty)));
            let Some((_, first)) = types.next() else { continue };
            let other = types.find(|(_, ty)| !ty.same(&first) && !matches!(ty, Type::Error));
            if let (Some((at, other)), false) = (other, matches!(first, Type::Error)) {
                self.report(at, format!("expected type '{first}' but found '{other}'"));
            }
        }
    }
}

/// Most calls are calls; some evaluate their arguments only when needed.
fn node_of_call(functions: Vec<&'static Function>, mut nodes: Vec<Node>) -> Node {
    match (functions[0].name, nodes.len()) {
        ("_?_:_", 3) => {
            let nodes: [Node; 3] = nodes.try_into().expect("there are three");
            Node::Conditional(Box::new(nodes))
        }
        (name @ ("or" | "orValue"), 2) => {
            let other = Box::new(nodes.remove(1));
            Node::OrElse { optional: Box::new(nodes.remove(0)), other, unwrap: name == "orValue" }
        }
        (name, _) => {
            let regex = literal_arguments::regex(name, &nodes);
            Node::Call(Box::new(Call { functions, arguments: nodes, regex }))
        }
    }
}

fn type_of_literal<'s>(literal: &Literal) -> Type<'s> {
    match literal {
        Literal::Null => Type::Null,
        Literal::Bool(_) => Type::Bool,
        Literal::Int(_) => Type::Int,
        Literal::Uint(_) => Type::Uint,
        Literal::Double(_) => Type::Double,
        Literal::String(_) => Type::String,
        Literal::Bytes(_) => Type::Bytes,
    }
}

/// `google.protobuf.Timestamp` and the like, which look like fields.
fn type_named<'s>(expr: &Expr) -> Option<Typed<'s>> {
    let name = expr.qualified_name()?;
    name.contains('.').then(|| type_value(&name)).flatten()
}

fn type_value<'s>(name: &str) -> Option<Typed<'s>> {
    if let Some((name, ty)) = TYPES.into_iter().find(|(known, _)| *known == name) {
        return Some((Node::Type(name), Type::Meta(Arc::new(ty))));
    }
    let name = GENERIC_TYPES.into_iter().find(|known| *known == name)?;
    Some((Node::Type(name), Type::Meta(Arc::new(Type::Dyn))))
}

fn exposed_field<'s>(data: &'s DataType, name: &str) -> Option<&'s DataType> {
    let DataKind::Object(fields) = &data.kind else { return None };
    fields.get(name).filter(|field| field.is_exposed())
}
