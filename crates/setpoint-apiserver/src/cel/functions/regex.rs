//! Regular expressions.

use crate::cel::evaluate::{Context, Pattern};
use crate::cel::function::{Function, global, member};
use crate::cel::value::{Fault, Value};

/// What a match costs, besides the text it looks at.
const MATCH_COST: u64 = 3;

pub(super) const FUNCTIONS: &[Function] = &[
    global("matches", &["(string, string) -> bool"], matches),
    member("matches", &["(string, string) -> bool"], matches),
    member("find", &["(string, string) -> string"], |context, arguments| {
        let [Value::String(text), Value::String(pattern)] = arguments else { return Err(Fault::no_such_overload()) };
        let regex = regex(context, pattern, text)?;
        context.meter.charge(regex.cost(text.len()))?;
        Ok(Value::text(regex.regex().find(text).map_or("", |found| found.as_str())))
    }),
    member(
        "findAll",
        &["(string, string) -> list(string)", "(string, string, int) -> list(string)"],
        |context, arguments| {
            let (text, pattern, limit) = match arguments {
                [Value::String(text), Value::String(pattern)] => (text, pattern, -1),
                [Value::String(text), Value::String(pattern), Value::Int(limit)] => (text, pattern, *limit),
                _ => return Err(Fault::no_such_overload()),
            };
            let regex = regex(context, pattern, text)?;
            let limit = usize::try_from(limit).unwrap_or(usize::MAX);
            let mut found = Vec::new();
            for part in regex.regex().find_iter(text).take(limit) {
                // A match may look at all that follows it, over and over.
                let rest = text.len() - part.end();
                context.meter.charge(MATCH_COST + regex.cost(rest))?;
                context.meter.charge_text(part.len())?;
                found.push(Value::text(part.as_str()));
            }
            Ok(Value::list(found))
        },
    ),
];

fn matches<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::String(text), Value::String(pattern)] = arguments else { return Err(Fault::no_such_overload()) };
    Ok(Value::Bool(regex(context, pattern, text)?.regex().is_match(text)))
}

/// The pattern; looking through the text with it is paid for.
fn regex<'a>(context: &mut Context<'_, 'a>, pattern: &str, text: &str) -> Result<Pattern<'a>, Fault> {
    let regex = context.regex(pattern)?;
    context.meter.charge(MATCH_COST + regex.cost(text.len()))?;
    Ok(regex)
}
