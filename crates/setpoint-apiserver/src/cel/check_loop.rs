//! Checking macros: the types of their variables, and what their bodies must be.

use super::check::{Checker, Typed};
use super::program::{LoopNode, Node};
use super::syntax::{Loop, Macro};
use super::types::Type;

/// Types whose values have an order.
fn is_ordered(ty: &Type<'_>) -> bool {
    use Type::{Bool, Bytes, Double, Duration, Dyn, Error, Int, String, Timestamp, Uint, Variable};
    matches!(ty, Bool | Bytes | Double | Duration | Dyn | Error | Int | String | Timestamp | Uint | Variable(_))
}

impl<'s> Checker<'s> {
    pub(super) fn loop_over(&mut self, at: u32, of: &Loop) -> Typed<'s> {
        let (range, range_type) = self.expression(&of.range);
        let range_type = self.solver.resolve(&range_type);
        let Some((first, second)) = self.elements(at, of, &range_type) else { return (range, Type::Error) };
        let index = if of.variables.len() == 2 { Some(first.clone()) } else { None };
        let types = match &index {
            Some(index) => vec![index.clone(), second.clone()],
            None => vec![first.clone()],
        };
        let place = self.scope.len();
        self.scope.extend(of.variables.iter().cloned().zip(types));
        let filter = of.filter.as_ref().map(|filter| self.expression(filter));
        let is_condition = matches!(of.name, Macro::All | Macro::Exists);
        let (body, body_type) =
            if is_condition { (self.condition(&of.body), Type::Bool) } else { self.expression(&of.body) };
        self.scope.truncate(place);
        let result = match of.name {
            Macro::All | Macro::Exists => Type::Bool,
            Macro::ExistsOne => {
                self.branch_on(at, &body_type, &Type::Int);
                Type::Bool
            }
            Macro::Filter => {
                let result = Type::list(first);
                self.branch_on(at, &body_type, &result);
                result
            }
            Macro::Map => Type::list(body_type),
            Macro::TransformMap => Type::map(first, body_type),
            Macro::TransformMapEntry => self.entry(at, body_type),
            Macro::SortBy => {
                let key = self.solver.resolve(&body_type);
                if !is_ordered(&key) {
                    let arguments = [range_type.clone(), Type::list(key)];
                    self.no_overload(at, "@sortByAssociatedKeys", true, &arguments);
                }
                range_type
            }
            Macro::OptionalMap => Type::optional(body_type),
            Macro::OptionalFlatMap => self.flat(at, body_type),
        };
        let filter = filter.map(|(node, ty)| {
            self.branch_on(at, &ty, &result);
            node
        });
        let node = LoopNode { name: of.name, range, variables: of.variables.len(), filter, body };
        (Node::Loop(Box::new(node)), result)
    }

    /// The types of what is iterated over: with two variables, the key and the value. None if it cannot be.
    fn elements(&mut self, at: u32, of: &Loop, range: &Type<'s>) -> Option<(Type<'s>, Type<'s>)> {
        let two = of.variables.len() == 2;
        match (of.name, range) {
            (_, Type::Dyn | Type::Error | Type::Variable(_)) => {
                self.solver.fit(&Type::Dyn, range);
                Some((Type::Dyn, Type::Dyn))
            }
            (Macro::OptionalMap | Macro::OptionalFlatMap, Type::Optional(inner)) => {
                Some((inner.as_ref().clone(), Type::Error))
            }
            (Macro::OptionalMap | Macro::OptionalFlatMap, _) => {
                self.no_overload(at, "hasValue", true, std::slice::from_ref(range));
                None
            }
            (_, Type::List(items)) if two => Some((Type::Int, items.as_ref().clone())),
            (_, Type::List(items)) => Some((items.as_ref().clone(), Type::Error)),
            (name, Type::Map(entry)) if name != Macro::SortBy => Some((entry.0.clone(), entry.1.clone())),
            _ => {
                let shown = self.solver.shown(range);
                let message = format!(
                    "expression of type '{shown}' cannot be range of a comprehension (must be list, map, or dynamic)"
                );
                self.report(of.range.at, message);
                None
            }
        }
    }

    /// Reports a condition that is none, as the conditional expression that CEL makes of the macro.
    fn branch_on(&mut self, at: u32, condition: &Type<'s>, result: &Type<'s>) {
        if !self.solver.fit(condition, &Type::Bool) {
            self.no_overload(at, "_?_:_", false, &[condition.clone(), result.clone(), result.clone()]);
        }
    }

    /// What `transformMapEntry` makes: its body must be a map.
    fn entry(&mut self, at: u32, body: Type<'s>) -> Type<'s> {
        let (key, value) = (self.solver.fresh(), self.solver.fresh());
        let map = Type::map(key, value);
        if !self.solver.fit(&map, &body) {
            self.no_overload(at, "cel.@mapInsert", false, &[map.clone(), body]);
        }
        self.solver.resolve(&map)
    }

    /// What `optFlatMap` makes: its body must be optional.
    fn flat(&mut self, at: u32, body: Type<'s>) -> Type<'s> {
        let none = Type::optional(self.solver.fresh());
        if !self.solver.fit(&none, &body) {
            self.no_overload(at, "_?_:_", false, &[Type::Bool, body, none.clone()]);
        }
        self.solver.resolve(&none)
    }
}
