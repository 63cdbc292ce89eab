//! Calls that are no calls: `has(a.b)`, `list.all(x, …)` and the like.

use super::issue::Issue;
use super::syntax::{Access, Expr, Kind, Loop, Macro};

/// The node for a call with this name: a macro's, if there is one with so many arguments, and else the call's own.
pub(super) fn expand(at: u32, name: &str, target: Option<Expr>, mut arguments: Vec<Expr>) -> Result<Kind, Issue> {
    let Some(target) = target else {
        return match (name, arguments.len()) {
            ("has", 1) => presence(arguments.remove(0)),
            _ => Ok(Kind::Call { function: name.into(), target: None, arguments }),
        };
    };
    let Some(Form { name, variables, filtered }) = form(name, arguments.len()) else {
        return Ok(Kind::Call { function: name.into(), target: Some(Box::new(target)), arguments });
    };
    let rest = arguments.split_off(variables);
    let variables = arguments.into_iter().map(|argument| variable(name, argument)).collect::<Result<Vec<_>, _>>()?;
    if let [first, second] = variables.as_slice()
        && first == second
    {
        return Err(Issue::new(at, format!("duplicate variable name: {first}")));
    }
    let mut rest = rest.into_iter();
    let filter = if filtered { rest.next() } else { None };
    let body = rest.next().expect("every form has a body");
    Ok(Kind::Loop(Box::new(Loop { name, range: target, variables, filter, body })))
}

struct Form {
    name: Macro,
    variables: usize,
    filtered: bool,
}

fn form(name: &str, arguments: usize) -> Option<Form> {
    let form = |name, variables, filtered| Some(Form { name, variables, filtered });
    match (name, arguments) {
        ("all", 2 | 3) => form(Macro::All, arguments - 1, false),
        ("exists", 2 | 3) => form(Macro::Exists, arguments - 1, false),
        ("exists_one" | "existsOne", 2 | 3) => form(Macro::ExistsOne, arguments - 1, false),
        ("filter", 2) => form(Macro::Filter, 1, false),
        ("map", 2) => form(Macro::Map, 1, false),
        ("map", 3) => form(Macro::Map, 1, true),
        ("transformList", 3 | 4) => form(Macro::Map, 2, arguments == 4),
        ("transformMap", 3 | 4) => form(Macro::TransformMap, 2, arguments == 4),
        ("transformMapEntry", 3 | 4) => form(Macro::TransformMapEntry, 2, arguments == 4),
        ("sortBy", 2) => form(Macro::SortBy, 1, false),
        ("optMap", 2) => form(Macro::OptionalMap, 1, false),
        ("optFlatMap", 2) => form(Macro::OptionalFlatMap, 1, false),
        _ => None,
    }
}

fn presence(argument: Expr) -> Result<Kind, Issue> {
    match argument.kind {
        Kind::Select { operand, field, access: Access::Value } => {
            Ok(Kind::Select { operand, field, access: Access::Presence })
        }
        _ => Err(Issue::new(argument.at, "invalid argument to has() macro")),
    }
}

fn variable(name: Macro, argument: Expr) -> Result<Box<str>, Issue> {
    match argument.kind {
        Kind::Identifier(name) if !name.starts_with('.') => Ok(name),
        _ => {
            let message = match name {
                Macro::Map | Macro::Filter | Macro::SortBy => "argument is not an identifier",
                Macro::OptionalMap => "optMap() variable name must be a simple identifier",
                Macro::OptionalFlatMap => "optFlatMap() variable name must be a simple identifier",
                _ => "argument must be a simple name",
            };
            Err(Issue::new(argument.at, message))
        }
    }
}
