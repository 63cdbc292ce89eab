//! Lists.

use std::cmp::Ordering;

use crate::cel::compare::{compare, equal};
use crate::cel::data_type::DataKind;
use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::list::List;
use crate::cel::value::{Fault, Meter, Value};

use super::operators;

const TEST: &[&str] = &[
    "(list(int)) -> bool",
    "(list(uint)) -> bool",
    "(list(double)) -> bool",
    "(list(bool)) -> bool",
    "(list(duration)) -> bool",
    "(list(timestamp)) -> bool",
    "(list(string)) -> bool",
    "(list(bytes)) -> bool",
];

const ELEMENT: &[&str] = &[
    "(list(int)) -> int",
    "(list(uint)) -> uint",
    "(list(double)) -> double",
    "(list(bool)) -> bool",
    "(list(duration)) -> duration",
    "(list(timestamp)) -> timestamp",
    "(list(string)) -> string",
    "(list(bytes)) -> bytes",
];

const SORTED: &[&str] = &[
    "(list(int)) -> list(int)",
    "(list(uint)) -> list(uint)",
    "(list(double)) -> list(double)",
    "(list(bool)) -> list(bool)",
    "(list(duration)) -> list(duration)",
    "(list(timestamp)) -> list(timestamp)",
    "(list(string)) -> list(string)",
    "(list(bytes)) -> list(bytes)",
];

pub(super) const FUNCTIONS: &[Function] = &[
    member("isSorted", TEST, |context, arguments| {
        let values = only_list(context, arguments)?;
        for pair in values.windows(2) {
            context.meter.charge(1)?;
            if compare(&pair[0], &pair[1], context.meter)? == Ordering::Greater {
                return Ok(Value::Bool(false));
            }
        }
        Ok(Value::Bool(true))
    }),
    member(
        "sum",
        &["(list(int)) -> int", "(list(uint)) -> uint", "(list(double)) -> double", "(list(duration)) -> duration"],
        |context, arguments| {
            let mut values = only_list(context, arguments)?.into_iter();
            let Some(mut sum) = values.next() else { return Ok(nothing(arguments)) };
            for value in values {
                sum = operators::add(context, &[sum, value])?;
            }
            Ok(sum)
        },
    ),
    member("min", ELEMENT, |context, arguments| extreme(context, arguments, "min", Ordering::Greater)),
    member("max", ELEMENT, |context, arguments| extreme(context, arguments, "max", Ordering::Less)),
    member("indexOf", &["(list(A), A) -> int"], |context, arguments| match arguments {
        [Value::List(list), sought] => position(list.position(sought, 0..list.len(), context.meter)?),
        _ => Err(Fault::no_such_overload()),
    }),
    member("lastIndexOf", &["(list(A), A) -> int"], |context, arguments| match arguments {
        [Value::List(list), sought] => position(list.position(sought, (0..list.len()).rev(), context.meter)?),
        _ => Err(Fault::no_such_overload()),
    }),
    member("slice", &["(list(T), int, int) -> list(T)"], slice),
    member("flatten", &["(list(list(T))) -> list(T)", "(list(dyn), int) -> list(dyn)"], |context, arguments| {
        let (list, depth) = match arguments {
            [Value::List(list)] => (list, 1),
            [Value::List(list), Value::Int(depth)] => (list, *depth),
            _ => return Err(Fault::no_such_overload()),
        };
        let depth = u64::try_from(depth).map_err(|_| Fault::failed("level must be non-negative"))?;
        let mut flat = Vec::new();
        flatten(list, depth, &mut flat, context.meter)?;
        Ok(Value::list(flat))
    }),
    member("sort", SORTED, |context, arguments| {
        let values = only_list(context, arguments)?;
        sort_by(values.clone(), &values, context.meter)
    }),
    member("reverse", &["(list(T)) -> list(T)"], |context, arguments| {
        let mut values = only_list(context, arguments)?;
        values.reverse();
        Ok(Value::list(values))
    }),
    member("distinct", &["(list(T)) -> list(T)"], |context, arguments| {
        let mut distinct: Vec<Value<'_>> = Vec::new();
        'values: for value in only_list(context, arguments)? {
            for known in &distinct {
                if equal(&value, known, context.meter)? {
                    continue 'values;
                }
            }
            distinct.push(value);
        }
        Ok(Value::list(distinct))
    }),
    global("lists.range", &["(int) -> list(int)"], |context, arguments| match arguments {
        [Value::Int(end)] => {
            context.meter.charge_items(usize::try_from(*end).unwrap_or_default())?;
            Ok(Value::list((0..*end).map(Value::Int).collect()))
        }
        _ => Err(Fault::no_such_overload()),
    }),
];

fn only_list<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Vec<Value<'a>>, Fault> {
    match arguments {
        [Value::List(list)] => list.values(context.meter),
        _ => Err(Fault::no_such_overload()),
    }
}

/// The sum of no elements. Those of a literal have no type; a whole number equals any other zero.
fn nothing<'a>(arguments: &[Value<'a>]) -> Value<'a> {
    match arguments {
        [Value::List(List::Data { items, .. })] if items.kind == DataKind::Duration => Value::Duration(0),
        _ => Value::Int(0),
    }
}

fn position<'a>(found: Option<usize>) -> Result<Value<'a>, Fault> {
    Ok(found.map_or(Value::Int(-1), Value::count))
}

/// The first element that no other beats.
fn extreme<'a>(
    context: &mut Context<'_, 'a>,
    arguments: &[Value<'a>],
    name: &str,
    beaten: Ordering,
) -> Result<Value<'a>, Fault> {
    let mut values = only_list(context, arguments)?.into_iter();
    let mut best = values.next().ok_or_else(|| Fault::failed(format!("{name} called on empty list")))?;
    for value in values {
        if compare(&best, &value, context.meter)? == beaten {
            best = value;
        }
    }
    Ok(best)
}

fn slice<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let [Value::List(list), Value::Int(start), Value::Int(end)] = arguments else {
        return Err(Fault::no_such_overload());
    };
    let refused = |why: &str| Fault::failed(format!("cannot slice({start}, {end}), {why}"));
    let (Ok(first), Ok(last)) = (usize::try_from(*start), usize::try_from(*end)) else {
        return Err(refused("negative indexes not supported"));
    };
    if first > last {
        return Err(refused("start index must be less than or equal to end index"));
    }
    if last > list.len() {
        return Err(refused(&format!("list is length {}", list.len())));
    }
    context.meter.charge_items(last - first)?;
    let values = (first..last).filter_map(|index| list.get(index, context.meter));
    values.collect::<Result<Vec<_>, _>>().map(Value::list)
}

fn flatten<'a>(list: &List<'a>, depth: u64, flat: &mut Vec<Value<'a>>, meter: &mut Meter) -> Result<(), Fault> {
    for value in list.values(meter)? {
        match value {
            Value::List(inner) if depth > 0 => flatten(&inner, depth - 1, flat, meter)?,
            value => flat.push(value),
        }
    }
    Ok(())
}

/// The items in the order of their keys; equal ones stay as they were.
pub(in crate::cel) fn sort_by<'a>(
    items: Vec<Value<'a>>,
    keys: &[Value<'a>],
    meter: &mut Meter,
) -> Result<Value<'a>, Fault> {
    let Some(first) = keys.first() else { return Ok(Value::list(items)) };
    // Sorting must not fail half-way, so what could fail is tried before, and all of it is paid for.
    let turns = u64::from(items.len().ilog2()) + 1;
    for key in keys {
        if key.type_name() != first.type_name() {
            return Err(Fault::failed("list elements must have the same type"));
        }
        match compare(key, key, meter) {
            Err(Fault::Overload(_)) => return Err(Fault::failed("list elements must be comparable")),
            result => result?,
        };
        let weight = match key {
            Value::String(text) => text.len() as u64 / 10,
            Value::Bytes(bytes) => bytes.len() as u64 / 10,
            _ => 0,
        };
        meter.charge((weight + 1) * turns)?;
    }
    let mut unmetered = Meter::new(u64::MAX);
    let mut order: Vec<usize> = (0..keys.len()).collect();
    order.sort_by(|a, b| compare(&keys[*a], &keys[*b], &mut unmetered).unwrap_or(Ordering::Equal));
    Ok(Value::list(order.into_iter().filter_map(|place| items.get(place).cloned()).collect()))
}
