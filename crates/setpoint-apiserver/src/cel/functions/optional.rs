//! Values that may be absent.

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::value::{Fault, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    global("optional.of", &["(V) -> optional(V)"], |_, arguments| match arguments {
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Fault::no_such_overload()),
    }),
    global("optional.ofNonZeroValue", &["(V) -> optional(V)"], |_, arguments| match arguments {
        [value] if value.is_zero() => Ok(Value::Optional(None)),
        [value] => Ok(Value::some(value.clone())),
        _ => Err(Fault::no_such_overload()),
    }),
    global("optional.none", &["() -> optional(V)"], |_, _| Ok(Value::Optional(None))),
    member("value", &["(optional(V)) -> V"], |_, arguments| match arguments {
        [Value::Optional(Some(value))] => Ok(value.as_ref().clone()),
        [Value::Optional(None)] => Err(Fault::failed("optional.none() dereference")),
        _ => Err(Fault::no_such_overload()),
    }),
    member("hasValue", &["(optional(V)) -> bool"], |_, arguments| match arguments {
        [Value::Optional(value)] => Ok(Value::Bool(value.is_some())),
        _ => Err(Fault::no_such_overload()),
    }),
    // These two are evaluated where they stand, since what comes second is needed only sometimes.
    member("or", &["(optional(V), optional(V)) -> optional(V)"], |_, _| Err(Fault::no_such_overload())),
    member("orValue", &["(optional(V), V) -> V"], |_, _| Err(Fault::no_such_overload())),
    member("first", &["(list(V)) -> optional(V)"], |context, arguments| match arguments {
        [Value::List(list)] => Ok(list.get(0, context.meter).transpose()?.map_or(Value::Optional(None), Value::some)),
        _ => Err(Fault::no_such_overload()),
    }),
    member("last", &["(list(V)) -> optional(V)"], |context, arguments| match arguments {
        [Value::List(list)] => {
            let last = list.len().checked_sub(1).and_then(|last| list.get(last, context.meter));
            Ok(last.transpose()?.map_or(Value::Optional(None), Value::some))
        }
        _ => Err(Fault::no_such_overload()),
    }),
    global("optional.unwrap", &["(list(optional(V))) -> list(V)"], unwrap),
    member("unwrapOpt", &["(list(optional(V))) -> list(V)"], unwrap),
];

fn unwrap<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(list)] = arguments else { return Err(Fault::no_such_overload()) };
    let mut present = Vec::new();
    for value in list.values(context.meter)? {
        match value {
            Value::Optional(inner) => present.extend(inner.map(|inner| inner.as_ref().clone())),
            _ => return Err(Fault::no_such_overload()),
        }
    }
    Ok(Value::list(present))
}
