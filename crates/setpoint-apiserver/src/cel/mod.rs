//! Rules in the Common Expression Language: `x-kubernetes-validations` of a custom resource.
//!
//! [`Rules::compile`] reads all rules of a schema once, when its definition is admitted: a rule is cut into tokens
//! (`token`), parsed (`parse`, `macros`) and checked against the types of the schema (`check`, `check_loop`, `types`,
//! `data_type`), which gives a `program` whose values nest only so deep (`nesting`). [`Rules::validate`] evaluates the
//! programs (`evaluate`, `run_loop`) on an object and the one it replaces, without copying either. Everything here is
//! pure, and everything that works on data pays for it from a budget ([`Budget`]), so that no rule runs for long.

mod check;
mod check_loop;
mod compare;
mod data_type;
mod evaluate;
mod field_path;
mod function;
mod functions;
mod identifier;
mod issue;
mod list;
mod literal;
mod literal_arguments;
mod macros;
mod map;
mod nesting;
mod number;
mod parse;
mod program;
mod rules;
mod run_loop;
mod syntax;
#[cfg(test)]
mod tests;
mod time;
mod token;
mod types;
mod validate;
mod value;

pub use rules::Rules;
pub use validate::Budget;
