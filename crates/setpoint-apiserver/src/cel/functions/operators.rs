//! Operators, and the functions that every type knows.

use std::cmp::Ordering;

use crate::cel::compare::{compare, equal};
use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::time::Instant;
use crate::cel::value::{Fault, Value};

const ORDERED: &[&str] = &[
    "(bool, bool) -> bool",
    "(int, int) -> bool",
    "(int, double) -> bool",
    "(int, uint) -> bool",
    "(uint, uint) -> bool",
    "(uint, double) -> bool",
    "(uint, int) -> bool",
    "(double, double) -> bool",
    "(double, int) -> bool",
    "(double, uint) -> bool",
    "(string, string) -> bool",
    "(bytes, bytes) -> bool",
    "(timestamp, timestamp) -> bool",
    "(duration, duration) -> bool",
];

const SIZED: &[&str] = &["(string) -> int", "(bytes) -> int", "(list(A)) -> int", "(map(A, B)) -> int"];

pub(super) const FUNCTIONS: &[Function] = &[
    global("_?_:_", &["(bool, A, A) -> A"], |_, _| Err(Fault::no_such_overload())),
    global("!_", &["(bool) -> bool"], |_, arguments| match arguments {
        [Value::Bool(value)] => Ok(Value::Bool(!value)),
        _ => Err(Fault::no_such_overload()),
    }),
    global("-_", &["(int) -> int", "(double) -> double"], |_, arguments| match arguments {
        [Value::Int(value)] => value.checked_neg().map(Value::Int).ok_or_else(overflow),
        [Value::Double(value)] => Ok(Value::Double(-value)),
        _ => Err(Fault::no_such_overload()),
    }),
    global("_==_", &["(A, A) -> bool"], |context, arguments| match arguments {
        [left, right] => Ok(Value::Bool(equal(left, right, context.meter)?)),
        _ => Err(Fault::no_such_overload()),
    }),
    global("_!=_", &["(A, A) -> bool"], |context, arguments| match arguments {
        [left, right] => Ok(Value::Bool(!equal(left, right, context.meter)?)),
        _ => Err(Fault::no_such_overload()),
    }),
    global("_<_", ORDERED, |context, arguments| ordered(context, arguments, Ordering::is_lt)),
    global("_<=_", ORDERED, |context, arguments| ordered(context, arguments, Ordering::is_le)),
    global("_>_", ORDERED, |context, arguments| ordered(context, arguments, Ordering::is_gt)),
    global("_>=_", ORDERED, |context, arguments| ordered(context, arguments, Ordering::is_ge)),
    global(
        "_+_",
        &[
            "(bytes, bytes) -> bytes",
            "(double, double) -> double",
            "(duration, duration) -> duration",
            "(duration, timestamp) -> timestamp",
            "(timestamp, duration) -> timestamp",
            "(int, int) -> int",
            "(list(A), list(A)) -> list(A)",
            "(string, string) -> string",
            "(uint, uint) -> uint",
        ],
        add,
    ),
    global(
        "_-_",
        &[
            "(double, double) -> double",
            "(duration, duration) -> duration",
            "(int, int) -> int",
            "(timestamp, duration) -> timestamp",
            "(timestamp, timestamp) -> duration",
            "(uint, uint) -> uint",
        ],
        subtract,
    ),
    global("_*_", &["(double, double) -> double", "(int, int) -> int", "(uint, uint) -> uint"], |_, arguments| {
        match arguments {
            [Value::Int(left), Value::Int(right)] => left.checked_mul(*right).map(Value::Int).ok_or_else(overflow),
            [Value::Uint(left), Value::Uint(right)] => {
                left.checked_mul(*right).map(Value::Uint).ok_or_else(unsigned_overflow)
            }
            [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left * right)),
            _ => Err(Fault::no_such_overload()),
        }
    }),
    global("_/_", &["(double, double) -> double", "(int, int) -> int", "(uint, uint) -> uint"], |_, arguments| {
        match arguments {
            [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Fault::failed("division by zero")),
            [Value::Int(left), Value::Int(right)] => left.checked_div(*right).map(Value::Int).ok_or_else(overflow),
            [Value::Uint(left), Value::Uint(right)] => Ok(Value::Uint(left / right)),
            [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left / right)),
            _ => Err(Fault::no_such_overload()),
        }
    }),
    global("_%_", &["(int, int) -> int", "(uint, uint) -> uint"], |_, arguments| match arguments {
        [Value::Int(_), Value::Int(0)] | [Value::Uint(_), Value::Uint(0)] => Err(Fault::failed("modulus by zero")),
        [Value::Int(left), Value::Int(right)] => left.checked_rem(*right).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(left), Value::Uint(right)] => Ok(Value::Uint(left % right)),
        _ => Err(Fault::no_such_overload()),
    }),
    global("@in", &["(A, list(A)) -> bool", "(A, map(A, B)) -> bool"], |context, arguments| match arguments {
        [sought, Value::List(list)] => Ok(Value::Bool(list.contains(sought, context.meter)?)),
        [key, Value::Map(map)] => Ok(Value::Bool(map.get(key, context.meter)?.is_some())),
        _ => Err(Fault::no_such_overload()),
    }),
    global(
        "_[_]",
        &[
            "(list(A), int) -> A",
            "(map(A, B), A) -> B",
            "(optional(list(A)), int) -> optional(A)",
            "(optional(map(A, B)), A) -> optional(B)",
        ],
        |context, arguments| match arguments {
            [Value::Optional(_), _] => optional_index(context, arguments),
            [container, index] => {
                index_of(context, container, index)?.map_or_else(|| missing(context, container, index), Ok)
            }
            _ => Err(Fault::no_such_overload()),
        },
    ),
    global(
        "_[?_]",
        &[
            "(list(A), int) -> optional(A)",
            "(optional(list(A)), int) -> optional(A)",
            "(map(A, B), A) -> optional(B)",
            "(optional(map(A, B)), A) -> optional(B)",
        ],
        optional_index,
    ),
    global("size", SIZED, size),
    member("size", SIZED, size),
    global("type", &["(A) -> type(A)"], |_, arguments| match arguments {
        [value] => Ok(Value::Type(value.type_name())),
        _ => Err(Fault::no_such_overload()),
    }),
    global("dyn", &["(A) -> dyn"], |_, arguments| match arguments {
        [value] => Ok(value.clone()),
        _ => Err(Fault::no_such_overload()),
    }),
];

fn overflow() -> Fault {
    Fault::failed("integer overflow")
}

fn unsigned_overflow() -> Fault {
    Fault::failed("unsigned integer overflow")
}

fn ordered<'a>(
    context: &mut Context<'_, 'a>,
    arguments: &[Value<'a>],
    holds: fn(Ordering) -> bool,
) -> Result<Value<'a>, Fault> {
    match arguments {
        [left, right] => compare(left, right, context.meter).map(|ordering| Value::Bool(holds(ordering))),
        _ => Err(Fault::no_such_overload()),
    }
}

pub(super) fn add<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match arguments {
        [Value::Int(left), Value::Int(right)] => left.checked_add(*right).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(left), Value::Uint(right)] => {
            left.checked_add(*right).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left + right)),
        [Value::String(left), Value::String(right)] => {
            context.meter.charge_text(left.len() + right.len())?;
            Ok(Value::text([&**left, &**right].concat()))
        }
        [Value::Bytes(left), Value::Bytes(right)] => {
            context.meter.charge_text(left.len() + right.len())?;
            Ok(Value::Bytes([&**left, &**right].concat().into()))
        }
        [Value::List(left), Value::List(right)] => left.add(right, context.meter),
        [Value::Duration(left), Value::Duration(right)] => {
            left.checked_add(*right).map(Value::Duration).ok_or_else(|| Fault::failed("duration overflow"))
        }
        [Value::Duration(duration), Value::Timestamp(timestamp)]
        | [Value::Timestamp(timestamp), Value::Duration(duration)] => shifted(*timestamp, i128::from(*duration)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn subtract<'a>(_: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let duration = |nanos: Option<i64>| nanos.map(Value::Duration).ok_or_else(|| Fault::failed("duration overflow"));
    match arguments {
        [Value::Int(left), Value::Int(right)] => left.checked_sub(*right).map(Value::Int).ok_or_else(overflow),
        [Value::Uint(left), Value::Uint(right)] => {
            left.checked_sub(*right).map(Value::Uint).ok_or_else(unsigned_overflow)
        }
        [Value::Double(left), Value::Double(right)] => Ok(Value::Double(left - right)),
        [Value::Duration(left), Value::Duration(right)] => duration(left.checked_sub(*right)),
        [Value::Timestamp(left), Value::Timestamp(right)] => {
            duration(i64::try_from(left.as_nanoseconds() - right.as_nanoseconds()).ok())
        }
        [Value::Timestamp(timestamp), Value::Duration(duration)] => shifted(*timestamp, -i128::from(*duration)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn shifted<'a>(timestamp: Instant, by: i128) -> Result<Value<'a>, Fault> {
    let moved = Instant::of_nanoseconds(timestamp.as_nanoseconds() + by);
    moved.map(Value::Timestamp).ok_or_else(|| Fault::failed("timestamp overflow"))
}

fn size<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    match arguments {
        [Value::String(text)] => {
            context.meter.charge_text(text.len())?;
            Ok(Value::count(text.chars().count()))
        }
        [Value::Bytes(bytes)] => Ok(Value::count(bytes.len())),
        [Value::List(list)] => Ok(Value::count(list.len())),
        [Value::Map(map)] => Ok(Value::count(map.len())),
        _ => Err(Fault::no_such_overload()),
    }
}

/// What stands at an index or under a key, if anything does.
fn index_of<'a>(
    context: &mut Context<'_, 'a>,
    container: &Value<'a>,
    index: &Value<'a>,
) -> Result<Option<Value<'a>>, Fault> {
    match container {
        Value::List(list) => {
            let place = match index {
                Value::Int(place) => usize::try_from(*place).ok(),
                Value::Uint(place) => usize::try_from(*place).ok(),
                Value::Double(place) if place.fract() == 0.0 && *place >= 0.0 => Some(*place as usize),
                Value::Double(_) => None,
                _ => return Err(Fault::no_such_overload()),
            };
            place.and_then(|place| list.get(place, context.meter)).transpose()
        }
        Value::Map(map) => map.get(index, context.meter),
        _ => Err(Fault::no_such_overload()),
    }
}

fn optional_index<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let found = match arguments {
        [Value::Optional(None), _] => None,
        [Value::Optional(Some(container)), index] => index_of(context, container, index)?,
        [container, index] => index_of(context, container, index)?,
        _ => return Err(Fault::no_such_overload()),
    };
    Ok(found.map_or(Value::Optional(None), Value::some))
}

fn missing<'a>(context: &mut Context<'_, 'a>, container: &Value<'_>, index: &Value<'_>) -> Result<Value<'a>, Fault> {
    if let Value::String(key) = index {
        context.meter.charge_text(key.len())?;
    }
    let index = index.shown();
    Err(Fault::failed(match container {
        Value::List(_) => format!("index out of bounds: {index}"),
        _ => format!("no such key: {index}"),
    }))
}
