//! Arguments that are literals and mean something: durations, timestamps, patterns and formats are read when the rule is
//! checked, so that a rule that can never work is refused at once.

use crate::go_regex::GoRegex;

use super::functions::strings_format;
use super::issue::Issue;
use super::literal::Literal;
use super::program::Node;
use super::syntax::{Expr, Kind};
use super::time;

/// What is wrong with the literal arguments of a call.
pub(super) fn check(at: u32, name: &str, target: Option<&Expr>, arguments: &[Expr]) -> Vec<Issue> {
    let mut issues = Vec::new();
    if name == "format"
        && let (Some(format), [Expr { kind: Kind::List(values), .. }]) = (target.and_then(text), arguments)
        && let Err(message) = strings_format::check(format, values.len())
    {
        issues.push(Issue::new(at, message));
    }
    let is_valid: fn(&str) -> bool = match name {
        "duration" => |text| time::duration(text).is_some(),
        "timestamp" => |text| time::timestamp(text).is_ok(),
        "matches" | "find" | "findAll" => |pattern| GoRegex::new(pattern).is_ok(),
        _ => return issues,
    };
    let argument = match (name, target) {
        ("matches", None) => arguments.get(1),
        _ => arguments.first(),
    };
    if let Some(argument) = argument
        && text(argument).is_some_and(|text| !is_valid(text))
    {
        issues.push(Issue::new(argument.at, format!("invalid {name} argument")));
    }
    issues
}

/// The pattern of a call that has a constant one: what is called on comes first, the pattern second.
pub(super) fn regex(name: &str, arguments: &[Node]) -> Option<GoRegex> {
    match (name, arguments) {
        ("matches" | "find" | "findAll", [_, Node::Literal(Literal::String(pattern)), ..]) => {
            GoRegex::new(pattern).ok()
        }
        _ => None,
    }
}

fn text(expr: &Expr) -> Option<&str> {
    match &expr.kind {
        Kind::Literal(Literal::String(text)) => Some(text),
        _ => None,
    }
}
