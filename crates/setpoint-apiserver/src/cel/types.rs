//! The static types of expressions, and which of them fit together.
//!
//! Types may contain variables: that of the elements of `[]` is not known until the list meets another. A [`Solver`]
//! holds what is known about the variables; what a failed attempt to make two types fit has taught is forgotten.

use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

use super::data_type::{DataKind, DataType};

#[derive(Debug, Clone)]
pub(super) enum Type<'s> {
    /// Anything; checked when evaluated.
    Dyn,
    /// Already reported: fits everything.
    Error,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Duration,
    Timestamp,
    List(Arc<Type<'s>>),
    Map(Arc<(Type<'s>, Type<'s>)>),
    Optional(Arc<Type<'s>>),
    /// The type of a type.
    Meta(Arc<Type<'s>>),
    /// A type that only functions can make and look into, such as a URL.
    Opaque(&'static str),
    /// An object with fields. Two objects are of one type only if they stand at the same place of the schema.
    Object(&'s DataType),
    Variable(u32),
}

/// A type with more parts than this is not followed further: it counts as any type. Types can double with each step of
/// an expression (`[x].map(a, {a: a})`), and every check walks them.
const MAX_PARTS: usize = 64;

impl<'s> Type<'s> {
    pub(super) fn list(items: Type<'s>) -> Type<'s> {
        Type::List(Arc::new(items)).limited()
    }

    pub(super) fn map(key: Type<'s>, value: Type<'s>) -> Type<'s> {
        Type::Map(Arc::new((key, value))).limited()
    }

    pub(super) fn optional(inner: Type<'s>) -> Type<'s> {
        Type::Optional(Arc::new(inner)).limited()
    }

    /// The type of data.
    pub(super) fn of_data(data: &'s DataType) -> Type<'s> {
        match &data.kind {
            DataKind::Bool => Type::Bool,
            DataKind::Int => Type::Int,
            DataKind::Double => Type::Double,
            DataKind::String => Type::String,
            DataKind::Bytes => Type::Bytes,
            DataKind::Duration => Type::Duration,
            DataKind::Date | DataKind::DateTime => Type::Timestamp,
            DataKind::IntOrString | DataKind::Preserved => Type::Dyn,
            DataKind::List { items, .. } => Type::list(Type::of_data(items)),
            DataKind::Map(values) => Type::map(Type::String, Type::of_data(values)),
            DataKind::Object(_) => Type::Object(data),
        }
    }

    pub(super) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Type::Dyn | Type::Error)
    }

    fn limited(self) -> Type<'s> {
        let mut left = MAX_PARTS;
        if self.fits_in(&mut left) { self } else { Type::Dyn }
    }

    fn fits_in(&self, left: &mut usize) -> bool {
        if *left == 0 {
            return false;
        }
        *left -= 1;
        match self {
            Type::List(inner) | Type::Optional(inner) | Type::Meta(inner) => inner.fits_in(left),
            Type::Map(inner) => inner.0.fits_in(left) && inner.1.fits_in(left),
            _ => true,
        }
    }

    pub(super) fn same(&self, other: &Type<'_>) -> bool {
        match (self, other) {
            (Type::Opaque(a), Type::Opaque(b)) => a == b,
            (Type::Object(a), Type::Object(b)) => std::ptr::eq(*a, *b),
            (Type::Variable(a), Type::Variable(b)) => a == b,
            (Type::List(a), Type::List(b))
            | (Type::Optional(a), Type::Optional(b))
            | (Type::Meta(a), Type::Meta(b)) => a.same(b),
            (Type::Map(a), Type::Map(b)) => a.0.same(&b.0) && a.1.same(&b.1),
            (
                Type::List(_)
                | Type::Optional(_)
                | Type::Meta(_)
                | Type::Map(_)
                | Type::Opaque(_)
                | Type::Object(_)
                | Type::Variable(_),
                _,
            ) => false,
            _ => std::mem::discriminant(self) == std::mem::discriminant(other),
        }
    }
}

impl fmt::Display for Type<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self {
            Type::Dyn => "dyn",
            Type::Error => "!error!",
            Type::Null => "null",
            Type::Bool => "bool",
            Type::Int => "int",
            Type::Uint => "uint",
            Type::Double => "double",
            Type::String => "string",
            Type::Bytes => "bytes",
            Type::Duration => "duration",
            Type::Timestamp => "timestamp",
            Type::Opaque(name) => name,
            Type::Object(_) => "object",
            Type::List(items) => return write!(f, "list({items})"),
            Type::Map(entry) => return write!(f, "map({}, {})", entry.0, entry.1),
            Type::Optional(inner) => return write!(f, "optional_type({inner})"),
            Type::Meta(inner) => return write!(f, "type({inner})"),
            Type::Variable(number) => return write!(f, "_var{number}"),
        };
        f.write_str(name)
    }
}

/// What is known about type variables.
#[derive(Debug, Default)]
pub(super) struct Solver<'s> {
    bindings: Vec<Option<Type<'s>>>,
    /// Bindings as they were, to go back when an attempt fails.
    trail: Vec<(u32, Option<Type<'s>>)>,
    /// How many more types the present question may look at. Variables that stand for types with variables can make a
    /// few lines of an expression into a type of any size.
    fuel: Cell<u32>,
}

const MAX_VISITS: u32 = 10_000;

impl<'s> Solver<'s> {
    /// Begins a question.
    fn refuel(&self) {
        self.fuel.set(MAX_VISITS);
    }

    /// Whether the present question may look at one more type.
    fn visit(&self) -> bool {
        self.fuel.set(self.fuel.get().saturating_sub(1));
        self.fuel.get() > 0
    }

    pub(super) fn fresh(&mut self) -> Type<'s> {
        self.bindings.push(None);
        Type::Variable(u32::try_from(self.bindings.len() - 1).expect("an expression has fewer than 2^32 nodes"))
    }

    /// The type with its known variables replaced.
    pub(super) fn resolve(&self, ty: &Type<'s>) -> Type<'s> {
        self.refuel();
        self.replaced(ty)
    }

    fn replaced(&self, ty: &Type<'s>) -> Type<'s> {
        match ty {
            _ if !self.visit() => Type::Dyn,
            Type::Variable(number) => match &self.bindings[*number as usize] {
                Some(bound) => self.replaced(bound),
                None => ty.clone(),
            },
            Type::List(inner) => Type::list(self.replaced(inner)),
            Type::Optional(inner) => Type::optional(self.replaced(inner)),
            Type::Map(entry) => Type::map(self.replaced(&entry.0), self.replaced(&entry.1)),
            Type::Meta(inner) => Type::Meta(Arc::new(self.replaced(inner))),
            _ => ty.clone(),
        }
    }

    /// As [`Solver::resolve`], for a message: what is unknown is any type.
    pub(super) fn shown(&self, ty: &Type<'s>) -> Type<'s> {
        fn without_variables<'s>(ty: &Type<'s>) -> Type<'s> {
            match ty {
                Type::Variable(_) => Type::Dyn,
                Type::List(inner) => Type::list(without_variables(inner)),
                Type::Optional(inner) => Type::optional(without_variables(inner)),
                Type::Map(entry) => Type::map(without_variables(&entry.0), without_variables(&entry.1)),
                Type::Meta(inner) => Type::Meta(Arc::new(without_variables(inner))),
                _ => ty.clone(),
            }
        }
        without_variables(&self.resolve(ty))
    }

    /// Makes the types of arguments fit those of parameters, if they can.
    pub(super) fn fit_all(&mut self, left: &[Type<'s>], right: &[Type<'s>]) -> bool {
        self.refuel();
        let start = self.trail.len();
        let fits =
            left.len() == right.len() && left.iter().zip(right).all(|(left, right)| self.assignable(left, right));
        if !fits {
            while self.trail.len() > start {
                let (number, before) = self.trail.pop().expect("the trail is longer than its start");
                self.bindings[number as usize] = before;
            }
        }
        self.trail.truncate(start);
        fits
    }

    pub(super) fn fit(&mut self, left: &Type<'s>, right: &Type<'s>) -> bool {
        self.fit_all(std::slice::from_ref(left), std::slice::from_ref(right))
    }

    /// The common type of the elements of a literal; any type, if they have none.
    pub(super) fn join(&mut self, previous: Option<Type<'s>>, current: &Type<'s>) -> Type<'s> {
        match previous {
            None => current.clone(),
            Some(previous) if self.fit(&previous, current) => most_general(&previous, current),
            Some(_) => Type::Dyn,
        }
    }

    fn assignable(&mut self, left: &Type<'s>, right: &Type<'s>) -> bool {
        if !self.visit() {
            return true;
        }
        if let Type::Variable(number) = right {
            match self.substitute(left, *number) {
                Substitution::Fits => return true,
                Substitution::Bound => return false,
                Substitution::Impossible => {}
            }
        }
        if let Type::Variable(number) = left {
            return matches!(self.substitute(right, *number), Substitution::Fits);
        }
        if left.is_dyn_or_error() || right.is_dyn_or_error() {
            return true;
        }
        let nullable = |ty: &Type<'_>| {
            use Type::{Duration, Null, Object, Opaque, Optional, Timestamp};
            matches!(ty, Null | Opaque(_) | Optional(_) | Object(_) | Duration | Timestamp)
        };
        match (left, right) {
            (Type::Null, other) | (other, Type::Null) => nullable(other),
            (Type::Meta(_), Type::Meta(_)) => true,
            (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => self.assignable(a, b),
            (Type::Map(a), Type::Map(b)) => self.assignable(&a.0, &b.0) && self.assignable(&a.1, &b.1),
            _ => left.same(right),
        }
    }

    /// Tries `ty` for a variable.
    fn substitute(&mut self, ty: &Type<'s>, number: u32) -> Substitution {
        if matches!(ty, Type::Variable(other) if *other == number) {
            return Substitution::Fits;
        }
        if let Some(bound) = self.bindings[number as usize].clone() {
            if ty.same(&bound) {
                return Substitution::Fits;
            }
            if !self.assignable(ty, &bound) {
                return Substitution::Bound;
            }
            let general = most_general(ty, &bound);
            if !self.occurs(number, &general) {
                self.bind(number, general);
            }
            return Substitution::Fits;
        }
        if self.occurs(number, ty) {
            return Substitution::Impossible;
        }
        self.bind(number, ty.clone());
        Substitution::Fits
    }

    fn bind(&mut self, number: u32, ty: Type<'s>) {
        let before = self.bindings[number as usize].replace(ty);
        self.trail.push((number, before));
    }

    fn occurs(&self, number: u32, within: &Type<'s>) -> bool {
        match within {
            _ if !self.visit() => true,
            Type::Variable(other) => {
                *other == number
                    || self.bindings[*other as usize].as_ref().is_some_and(|bound| self.occurs(number, bound))
            }
            Type::List(inner) | Type::Optional(inner) | Type::Meta(inner) => self.occurs(number, inner),
            Type::Map(entry) => self.occurs(number, &entry.0) || self.occurs(number, &entry.1),
            _ => false,
        }
    }
}

enum Substitution {
    Fits,
    /// The variable is known to be another type.
    Bound,
    /// The type contains the variable.
    Impossible,
}

/// The wider of two types that fit.
fn most_general<'s>(left: &Type<'s>, right: &Type<'s>) -> Type<'s> {
    if at_most_as_specific(left, right) { left.clone() } else { right.clone() }
}

fn at_most_as_specific(left: &Type<'_>, right: &Type<'_>) -> bool {
    match (left, right) {
        (Type::Dyn | Type::Variable(_), _) => true,
        (_, Type::Dyn | Type::Variable(_)) => false,
        (Type::List(a), Type::List(b)) | (Type::Optional(a), Type::Optional(b)) => at_most_as_specific(a, b),
        (Type::Map(a), Type::Map(b)) => at_most_as_specific(&a.0, &b.0) && at_most_as_specific(&a.1, &b.1),
        (Type::Meta(_), Type::Meta(_)) => true,
        _ => left.same(right),
    }
}
