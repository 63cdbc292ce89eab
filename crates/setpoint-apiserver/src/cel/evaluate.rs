//! Computing what a program says.
//!
//! Every node, every turn of a loop and every function charges the rule's meter before it works, by the size of what it
//! works on, so that a rule ends soon whatever it says and whatever the object holds.

use std::collections::BTreeMap;
use std::rc::Rc;

use crate::go_regex::GoRegex;

use super::data_type::DataKind;
use super::literal::Literal;
use super::map::{Key, Map};
use super::program::{Call, Field, MapEntry, Node};
use super::syntax::Access;
use super::value::{Fault, Meter, Text, Value};

/// What finding a field costs.
const SELECT_COST: u64 = 2;
/// What creating a list or a map costs besides its elements.
const LIST_COST: u64 = 10;
const MAP_COST: u64 = 30;
/// How many patterns that were computed are kept.
const MAX_PATTERNS: usize = 32;

/// What functions need besides their arguments.
#[derive(Debug)]
pub(super) struct Context<'m, 'a> {
    pub meter: &'m mut Meter,
    /// The constant pattern of the present call.
    constant: Option<&'a GoRegex>,
    /// Patterns that were computed.
    patterns: BTreeMap<Box<str>, Rc<GoRegex>>,
}

/// A pattern of a call. It is shared and never cloned: a clone would have to find its speed anew.
pub(super) enum Pattern<'a> {
    Constant(&'a GoRegex),
    Computed(Rc<GoRegex>),
}

impl std::ops::Deref for Pattern<'_> {
    type Target = GoRegex;

    fn deref(&self) -> &GoRegex {
        match self {
            Pattern::Constant(regex) => regex,
            Pattern::Computed(regex) => regex,
        }
    }
}

impl<'a> Context<'_, 'a> {
    /// The pattern of the present call.
    pub(super) fn regex(&mut self, pattern: &str) -> Result<Pattern<'a>, Fault> {
        if let Some(regex) = self.constant {
            return Ok(Pattern::Constant(regex));
        }
        if let Some(regex) = self.patterns.get(pattern) {
            return Ok(Pattern::Computed(Rc::clone(regex)));
        }
        self.meter.charge(GoRegex::compile_cost(pattern))?;
        if self.patterns.len() >= MAX_PATTERNS {
            self.patterns.clear();
        }
        let regex = Rc::new(GoRegex::computed(pattern).map_err(|error| Fault::failed(error.to_string()))?);
        self.patterns.insert(pattern.into(), Rc::clone(&regex));
        Ok(Pattern::Computed(regex))
    }
}

pub(super) struct Evaluator<'m, 'a> {
    pub(super) context: Context<'m, 'a>,
    pub(super) variables: Vec<Option<Value<'a>>>,
}

impl<'m, 'a> Evaluator<'m, 'a> {
    /// With the values of `self` and `oldSelf`.
    pub(super) fn new(own: Value<'a>, old: Option<Value<'a>>, meter: &'m mut Meter) -> Evaluator<'m, 'a> {
        let context = Context { meter, constant: None, patterns: BTreeMap::new() };
        Evaluator { context, variables: vec![Some(own), old] }
    }

    pub(super) fn evaluate(&mut self, node: &'a Node) -> Result<Value<'a>, Fault> {
        #[cfg(test)]
        super::tests::work::step();
        match node {
            Node::Literal(literal) => self.constant(literal),
            Node::Type(name) => Ok(Value::Type(name)),
            Node::Variable(place) => self.variable(*place),
            Node::Select { operand, field, access } => self.select(operand, field, *access),
            Node::Call(call) => self.call(call),
            Node::And(terms) => self.connect(terms, true),
            Node::Or(terms) => self.connect(terms, false),
            Node::Conditional(nodes) => {
                let [condition, yes, no] = nodes.as_ref();
                self.context.meter.charge(1)?;
                let chosen = if self.condition(condition)? { yes } else { no };
                self.evaluate(chosen)
            }
            Node::OrElse { optional, other, unwrap } => self.or_else(optional, other, *unwrap),
            Node::List(elements) => self.list(elements),
            Node::Map(entries) => self.map(entries),
            Node::Loop(of) => self.run(of),
        }
    }

    fn constant(&mut self, literal: &'a Literal) -> Result<Value<'a>, Fault> {
        Ok(match literal {
            Literal::Null => Value::Null,
            Literal::Bool(value) => Value::Bool(*value),
            Literal::Int(value) => Value::Int(*value),
            Literal::Uint(value) => Value::Uint(*value),
            Literal::Double(value) => Value::Double(*value),
            Literal::String(value) => Value::String(Text::Borrowed(value)),
            Literal::Bytes(value) => {
                self.context.meter.charge_text(value.len())?;
                Value::Bytes(value.as_ref().into())
            }
        })
    }

    fn variable(&mut self, place: usize) -> Result<Value<'a>, Fault> {
        self.context.meter.charge(1)?;
        self.variables[place].clone().ok_or_else(|| Fault::failed("no such attribute(s): oldSelf"))
    }

    /// An operand that must be true or false.
    pub(super) fn condition(&mut self, node: &'a Node) -> Result<bool, Fault> {
        match self.evaluate(node)? {
            Value::Bool(value) => Ok(value),
            _ => Err(Fault::no_such_overload()),
        }
    }

    /// `&&` (for `neutral` true) and `||`: one term decides, even if an earlier one failed.
    fn connect(&mut self, terms: &'a [Node], neutral: bool) -> Result<Value<'a>, Fault> {
        let mut failed = None;
        for term in terms {
            self.context.meter.charge(1)?;
            match self.condition(term) {
                Ok(value) if value != neutral => return Ok(Value::Bool(value)),
                Ok(_) => {}
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                Err(fault) => {
                    self.context.meter.charge_failure()?;
                    failed = failed.or(Some(fault));
                }
            }
        }
        failed.map_or(Ok(Value::Bool(neutral)), Err)
    }

    #[inline(never)]
    fn select(&mut self, operand: &'a Node, field: &Field, access: Access) -> Result<Value<'a>, Fault> {
        let operand = self.evaluate(operand)?;
        self.context.meter.charge(SELECT_COST)?;
        match operand {
            Value::Optional(None) if access == Access::Presence => Ok(Value::Bool(false)),
            Value::Optional(None) => Ok(Value::Optional(None)),
            Value::Optional(Some(inner)) => {
                let access = if access == Access::Value { Access::Optional } else { access };
                self.field(&inner, field, access)
            }
            operand => self.field(&operand, field, access),
        }
    }

    fn field(&mut self, operand: &Value<'a>, field: &Field, access: Access) -> Result<Value<'a>, Fault> {
        let Value::Map(map) = operand else { return Err(Fault::no_such_overload()) };
        let name = match map {
            Map::Data { data, .. } if matches!(data.kind, DataKind::Object(_)) => &field.name,
            _ => &field.written,
        };
        let found = map.field(name, self.context.meter)?;
        match access {
            Access::Presence => Ok(Value::Bool(found.is_some())),
            Access::Optional => Ok(Value::Optional(found.map(Rc::new))),
            Access::Value => match found {
                Some(value) => Ok(value),
                None => {
                    self.context.meter.charge_text(field.written.len())?;
                    Err(Fault::failed(format!("no such key: {}", field.written)))
                }
            },
        }
    }

    #[inline(never)]
    fn call(&mut self, call: &'a Call) -> Result<Value<'a>, Fault> {
        self.context.meter.charge(1)?;
        match call.arguments.as_slice() {
            [one] => {
                let arguments = [self.evaluate(one)?];
                self.apply(call, &arguments)
            }
            [one, two] => {
                let arguments = [self.evaluate(one)?, self.evaluate(two)?];
                self.apply(call, &arguments)
            }
            all => {
                let arguments = all.iter().map(|node| self.evaluate(node)).collect::<Result<Vec<_>, _>>()?;
                self.apply(call, &arguments)
            }
        }
    }

    fn apply(&mut self, call: &'a Call, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
        self.context.constant = call.regex.as_ref();
        let mut result = Err(Fault::no_such_overload());
        for function in &call.functions {
            result = (function.implementation)(&mut self.context, arguments);
            #[cfg(test)]
            result.iter().for_each(super::tests::work::made);
            if !matches!(result, Err(Fault::Overload(_))) {
                return result;
            }
        }
        let name = call.functions.first().map_or("", |function| function.name);
        if !name.starts_with(|c: char| c.is_ascii_alphabetic()) {
            return result;
        }
        let types: Vec<&str> = arguments.iter().map(Value::type_name).collect();
        Err(Fault::Overload(format!("no such overload: {name}({})", types.join(", ")).into()))
    }

    fn or_else(&mut self, optional: &'a Node, other: &'a Node, unwrap: bool) -> Result<Value<'a>, Fault> {
        self.context.meter.charge(1)?;
        match self.evaluate(optional)? {
            Value::Optional(None) => self.evaluate(other),
            Value::Optional(Some(value)) if unwrap => Ok(value.as_ref().clone()),
            value @ Value::Optional(Some(_)) => Ok(value),
            _ => Err(Fault::no_such_overload()),
        }
    }

    #[inline(never)]
    fn list(&mut self, elements: &'a [(Node, bool)]) -> Result<Value<'a>, Fault> {
        self.context.meter.charge(LIST_COST + 2 * elements.len() as u64)?;
        let mut items = Vec::with_capacity(elements.len());
        for (node, optional) in elements {
            items.extend(self.element(node, *optional)?);
        }
        Ok(Value::list(items))
    }

    #[inline(never)]
    fn map(&mut self, entries: &'a [MapEntry]) -> Result<Value<'a>, Fault> {
        self.context.meter.charge(MAP_COST + 5 * entries.len() as u64)?;
        let mut map = BTreeMap::new();
        for MapEntry { key, value, optional } in entries {
            let key = self.evaluate(key)?;
            let key = Key::of(&key).ok_or_else(|| Fault::failed("unsupported key type"))?;
            self.context.meter.charge_lookup(key.bytes(), map.len())?;
            if let Some(value) = self.element(value, *optional)? {
                map.insert(key, value);
            }
        }
        Ok(Value::map(map))
    }

    /// An element of a literal; none for an optional one without a value.
    fn element(&mut self, node: &'a Node, optional: bool) -> Result<Option<Value<'a>>, Fault> {
        let value = self.evaluate(node)?;
        match value {
            _ if !optional => Ok(Some(value)),
            Value::Optional(inner) => Ok(inner.map(|inner| inner.as_ref().clone())),
            _ => Err(Fault::failed("cannot initialize optional element from non-optional value")),
        }
    }
}
