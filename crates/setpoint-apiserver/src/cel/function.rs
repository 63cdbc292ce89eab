//! The functions that expressions may call: their names, the types they take, and what they do.
//!
//! A signature is written as CEL's documentation writes it, `(list(T), T) -> int`; a capital letter is a type variable.
//! The first parameter of a member function is what it is called on. An implementation answers
//! [`Fault::no_such_overload`] for arguments that no signature allows: a value whose type was not known when the rule
//! was checked may bring them.

use std::collections::BTreeMap;
use std::sync::{Arc, LazyLock};

use super::evaluate::Context;
use super::functions;
use super::types::{Solver, Type};
use super::value::{Fault, Value};

pub(super) type Implementation = for<'a> fn(&mut Context<'_, 'a>, &[Value<'a>]) -> Result<Value<'a>, Fault>;

pub(super) struct Function {
    pub name: &'static str,
    pub member: bool,
    pub signatures: &'static [&'static str],
    pub implementation: Implementation,
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub(super) const fn global(
    name: &'static str,
    signatures: &'static [&'static str],
    implementation: Implementation,
) -> Function {
    Function { name, member: false, signatures, implementation }
}

pub(super) const fn member(
    name: &'static str,
    signatures: &'static [&'static str],
    implementation: Implementation,
) -> Function {
    Function { name, member: true, signatures, implementation }
}

/// One way to call a function.
#[derive(Debug)]
pub(super) struct Overload {
    pub function: &'static Function,
    parameters: Vec<Type<'static>>,
    result: Type<'static>,
    variables: usize,
}

impl Overload {
    /// Whether arguments of these types are allowed, and the type of the result.
    pub(super) fn apply<'s>(&self, solver: &mut Solver<'s>, arguments: &[Type<'s>]) -> Option<Type<'s>> {
        if arguments.len() != self.parameters.len() {
            return None;
        }
        let variables: Vec<Type<'s>> = (0..self.variables).map(|_| solver.fresh()).collect();
        let parameters: Vec<Type<'s>> = self.parameters.iter().map(|ty| instantiate(ty, &variables)).collect();
        solver.fit_all(arguments, &parameters).then(|| solver.resolve(&instantiate(&self.result, &variables)))
    }
}

/// The ways to call functions of this name.
pub(super) fn overloads(name: &str) -> Option<&'static [Overload]> {
    static OVERLOADS: LazyLock<BTreeMap<&str, Vec<Overload>>> = LazyLock::new(|| {
        let mut overloads: BTreeMap<&str, Vec<Overload>> = BTreeMap::new();
        for function in functions::LIBRARIES.iter().copied().flatten() {
            let known = overloads.entry(function.name).or_default();
            known.extend(function.signatures.iter().map(|signature| overload(function, signature)));
        }
        overloads
    });
    OVERLOADS.get(name).map(Vec::as_slice)
}

fn instantiate<'s>(ty: &Type<'static>, variables: &[Type<'s>]) -> Type<'s> {
    match ty {
        Type::Variable(number) => variables[*number as usize].clone(),
        Type::List(inner) => Type::List(Arc::new(instantiate(inner, variables))),
        Type::Optional(inner) => Type::Optional(Arc::new(instantiate(inner, variables))),
        Type::Meta(inner) => Type::Meta(Arc::new(instantiate(inner, variables))),
        Type::Map(entry) => Type::Map(Arc::new((instantiate(&entry.0, variables), instantiate(&entry.1, variables)))),
        _ => ty.clone(),
    }
}

fn overload(function: &'static Function, signature: &'static str) -> Overload {
    let mut reader = Signature { rest: signature, letters: Vec::new() };
    let mut parameters = Vec::new();
    reader.symbol("(");
    while !reader.symbol(")") {
        parameters.push(reader.ty());
        reader.symbol(", ");
    }
    reader.symbol(" -> ");
    let result = reader.ty();
    Overload { function, parameters, result, variables: reader.letters.len() }
}

struct Signature {
    rest: &'static str,
    letters: Vec<&'static str>,
}

impl Signature {
    fn symbol(&mut self, symbol: &str) -> bool {
        let rest = self.rest.strip_prefix(symbol);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn ty(&mut self) -> Type<'static> {
        let length = self.rest.bytes().take_while(|b| b.is_ascii_alphanumeric() || b"._".contains(b)).count();
        let (name, rest) = self.rest.split_at(length);
        self.rest = rest;
        match name {
            "dyn" => Type::Dyn,
            "null" => Type::Null,
            "bool" => Type::Bool,
            "int" => Type::Int,
            "uint" => Type::Uint,
            "double" => Type::Double,
            "string" => Type::String,
            "bytes" => Type::Bytes,
            "duration" => Type::Duration,
            "timestamp" => Type::Timestamp,
            "list" => Type::List(Arc::new(self.inner())),
            "optional" => Type::Optional(Arc::new(self.inner())),
            "type" => Type::Meta(Arc::new(self.inner())),
            "map" => {
                self.symbol("(");
                let key = self.ty();
                self.symbol(", ");
                let value = self.ty();
                self.symbol(")");
                Type::Map(Arc::new((key, value)))
            }
            letter if letter.len() == 1 => {
                let known = self.letters.iter().position(|known| *known == letter);
                let number = known.unwrap_or_else(|| {
                    self.letters.push(letter);
                    self.letters.len() - 1
                });
                Type::Variable(u32::try_from(number).expect("a signature has few variables"))
            }
            opaque => Type::Opaque(opaque),
        }
    }

    fn inner(&mut self) -> Type<'static> {
        self.symbol("(");
        let inner = self.ty();
        self.symbol(")");
        inner
    }
}
