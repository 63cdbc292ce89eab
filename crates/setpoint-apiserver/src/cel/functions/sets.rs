//! Lists taken as sets.

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global};
use crate::cel::list::List;
use crate::cel::value::{Fault, Value};

const TWO_LISTS: &[&str] = &["(list(T), list(T)) -> bool"];

pub(super) const FUNCTIONS: &[Function] = &[
    global("sets.contains", TWO_LISTS, |context, arguments| {
        let (list, sublist) = lists(arguments)?;
        contains(context, list, sublist).map(Value::Bool)
    }),
    global("sets.equivalent", TWO_LISTS, |context, arguments| {
        let (left, right) = lists(arguments)?;
        Ok(Value::Bool(contains(context, left, right)? && contains(context, right, left)?))
    }),
    global("sets.intersects", TWO_LISTS, |context, arguments| {
        let (left, right) = lists(arguments)?;
        for value in left.values(context.meter)? {
            if right.contains(&value, context.meter)? {
                return Ok(Value::Bool(true));
            }
        }
        Ok(Value::Bool(false))
    }),
];

fn lists<'v, 'a>(arguments: &'v [Value<'a>]) -> Result<(&'v List<'a>, &'v List<'a>), Fault> {
    match arguments {
        [Value::List(left), Value::List(right)] => Ok((left, right)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn contains<'a>(context: &mut Context<'_, 'a>, list: &List<'a>, sublist: &List<'a>) -> Result<bool, Fault> {
    for value in sublist.values(context.meter)? {
        if !list.contains(&value, context.meter)? {
            return Ok(false);
        }
    }
    Ok(true)
}
