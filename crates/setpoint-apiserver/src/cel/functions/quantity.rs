//! Amounts of resources.

use std::cmp::Ordering;
use std::rc::Rc;

use setpoint_api::quantity::{Quantity, QuantityError};

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::value::{Fault, Value};

const TWO: &str = "(kubernetes.Quantity, kubernetes.Quantity) -> bool";
const SUM: &[&str] = &[
    "(kubernetes.Quantity, kubernetes.Quantity) -> kubernetes.Quantity",
    "(kubernetes.Quantity, int) -> kubernetes.Quantity",
];

pub(super) const FUNCTIONS: &[Function] = &[
    global("quantity", &["(string) -> kubernetes.Quantity"], |context, arguments| match arguments {
        [Value::String(text)] => match read(context, text)? {
            Ok(quantity) => Ok(Value::Quantity(Rc::new(quantity))),
            Err(error) => Err(Fault::failed(error.to_string())),
        },
        _ => Err(Fault::no_such_overload()),
    }),
    global("isQuantity", &["(string) -> bool"], |context, arguments| match arguments {
        [Value::String(text)] => Ok(Value::Bool(read(context, text)?.is_ok())),
        _ => Err(Fault::no_such_overload()),
    }),
    global("sign", &["(kubernetes.Quantity) -> int"], |_, arguments| match arguments {
        [Value::Quantity(quantity)] => Ok(order(quantity.as_ref().cmp(&Quantity::ZERO))),
        _ => Err(Fault::no_such_overload()),
    }),
    member("isGreaterThan", &[TWO], |_, arguments| compare(arguments).map(|ordering| Value::Bool(ordering.is_gt()))),
    member("isLessThan", &[TWO], |_, arguments| compare(arguments).map(|ordering| Value::Bool(ordering.is_lt()))),
    member("compareTo", &["(kubernetes.Quantity, kubernetes.Quantity) -> int"], |_, arguments| {
        compare(arguments).map(order)
    }),
    member("asApproximateFloat", &["(kubernetes.Quantity) -> double"], |_, arguments| match arguments {
        [Value::Quantity(quantity)] => Ok(Value::Double(quantity.to_f64())),
        _ => Err(Fault::no_such_overload()),
    }),
    member("isInteger", &["(kubernetes.Quantity) -> bool"], |_, arguments| match arguments {
        [Value::Quantity(quantity)] => Ok(Value::Bool(quantity.to_i64().is_some())),
        _ => Err(Fault::no_such_overload()),
    }),
    member("asInteger", &["(kubernetes.Quantity) -> int"], |_, arguments| match arguments {
        [Value::Quantity(quantity)] => {
            quantity.to_i64().map(Value::Int).ok_or_else(|| Fault::failed("cannot convert value to integer"))
        }
        _ => Err(Fault::no_such_overload()),
    }),
    member("add", SUM, |_, arguments| combine(arguments, Quantity::checked_add)),
    member("sub", SUM, |_, arguments| combine(arguments, Quantity::checked_sub)),
];

fn read(context: &mut Context<'_, '_>, text: &str) -> Result<Result<Quantity, QuantityError>, Fault> {
    context.meter.charge_reading(text)?;
    Ok(Quantity::parse(text))
}

fn order<'a>(ordering: Ordering) -> Value<'a> {
    Value::Int(ordering as i64)
}

fn compare(arguments: &[Value<'_>]) -> Result<Ordering, Fault> {
    match arguments {
        [Value::Quantity(left), Value::Quantity(right)] => Ok(left.cmp(right)),
        _ => Err(Fault::no_such_overload()),
    }
}

fn combine<'a>(
    arguments: &[Value<'a>],
    combined: fn(Quantity, Quantity) -> Option<Quantity>,
) -> Result<Value<'a>, Fault> {
    let result = match arguments {
        [Value::Quantity(left), Value::Quantity(right)] => combined(**left, **right),
        [Value::Quantity(left), Value::Int(right)] => combined(**left, Quantity::from(*right)),
        _ => return Err(Fault::no_such_overload()),
    };
    let result = result.ok_or_else(|| Fault::failed("quantity overflow"))?;
    Ok(Value::Quantity(Rc::new(result)))
}
