//! Conversions between types.

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global};
use crate::cel::number;
use crate::cel::time::{self, Instant, TimeError};
use crate::cel::value::{Fault, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    global(
        "int",
        &[
            "(int) -> int",
            "(double) -> int",
            "(duration) -> int",
            "(string) -> int",
            "(timestamp) -> int",
            "(uint) -> int",
        ],
        |context, arguments| {
            let overflow = || Fault::failed("integer overflow");
            match arguments {
                [value @ Value::Int(_)] => Ok(value.clone()),
                [Value::Uint(value)] => i64::try_from(*value).map(Value::Int).map_err(|_| overflow()),
                [Value::Double(value)] => {
                    let fits = *value > -9_223_372_036_854_775_808.0 && *value < 9_223_372_036_854_775_808.0;
                    if fits { Ok(Value::Int(*value as i64)) } else { Err(overflow()) }
                }
                [Value::Duration(nanos)] => Ok(Value::Int(*nanos)),
                [Value::Timestamp(timestamp)] => Ok(Value::Int(
                    i64::try_from(timestamp.as_nanoseconds().div_euclid(1_000_000_000)).unwrap_or_default(),
                )),
                [from @ Value::String(text)] => {
                    context.meter.charge_reading(text)?;
                    text.parse().map(Value::Int).map_err(|_| not_converted(from, "int"))
                }
                _ => Err(Fault::no_such_overload()),
            }
        },
    ),
    global(
        "uint",
        &["(uint) -> uint", "(double) -> uint", "(int) -> uint", "(string) -> uint"],
        |context, arguments| {
            let overflow = || Fault::failed("unsigned integer overflow");
            match arguments {
                [value @ Value::Uint(_)] => Ok(value.clone()),
                [Value::Int(value)] => u64::try_from(*value).map(Value::Uint).map_err(|_| overflow()),
                [Value::Double(value)] => {
                    let fits = *value >= 0.0 && *value < 18_446_744_073_709_551_616.0;
                    if fits { Ok(Value::Uint(*value as u64)) } else { Err(overflow()) }
                }
                [from @ Value::String(text)] => {
                    context.meter.charge_reading(text)?;
                    let digits = Some(&**text).filter(|text| !text.starts_with('+'));
                    let value = digits.and_then(|text| text.parse().ok());
                    value.map(Value::Uint).ok_or_else(|| not_converted(from, "uint"))
                }
                _ => Err(Fault::no_such_overload()),
            }
        },
    ),
    global(
        "double",
        &["(double) -> double", "(int) -> double", "(string) -> double", "(uint) -> double"],
        |context, arguments| match arguments {
            [value @ Value::Double(_)] => Ok(value.clone()),
            [Value::Int(value)] => Ok(Value::Double(*value as f64)),
            [Value::Uint(value)] => Ok(Value::Double(*value as f64)),
            [from @ Value::String(text)] => {
                context.meter.charge_reading(text)?;
                number::read(text).map(Value::Double).ok_or_else(|| not_converted(from, "double"))
            }
            _ => Err(Fault::no_such_overload()),
        },
    ),
    global("bool", &["(bool) -> bool", "(string) -> bool"], |_, arguments| match arguments {
        [value @ Value::Bool(_)] => Ok(value.clone()),
        [from @ Value::String(text)] => match &**text {
            "1" | "t" | "T" | "true" | "TRUE" | "True" => Ok(Value::Bool(true)),
            "0" | "f" | "F" | "false" | "FALSE" | "False" => Ok(Value::Bool(false)),
            _ => Err(not_converted(from, "bool")),
        },
        _ => Err(Fault::no_such_overload()),
    }),
    global("bytes", &["(bytes) -> bytes", "(string) -> bytes"], |context, arguments| match arguments {
        [value @ Value::Bytes(_)] => Ok(value.clone()),
        [Value::String(text)] => {
            context.meter.charge_text(text.len())?;
            Ok(Value::Bytes(text.as_bytes().into()))
        }
        _ => Err(Fault::no_such_overload()),
    }),
    global(
        "string",
        &[
            "(string) -> string",
            "(bool) -> string",
            "(bytes) -> string",
            "(double) -> string",
            "(duration) -> string",
            "(int) -> string",
            "(timestamp) -> string",
            "(uint) -> string",
            "(net.IP) -> string",
            "(net.CIDR) -> string",
        ],
        |context, arguments| match arguments {
            [value] => text_of(context, value),
            _ => Err(Fault::no_such_overload()),
        },
    ),
    global(
        "duration",
        &["(duration) -> duration", "(int) -> duration", "(string) -> duration"],
        |context, arguments| match arguments {
            [value @ Value::Duration(_)] => Ok(value.clone()),
            [Value::Int(nanos)] => Ok(Value::Duration(*nanos)),
            [from @ Value::String(text)] => {
                context.meter.charge_reading(text)?;
                time::duration(text).map(Value::Duration).ok_or_else(|| not_converted(from, "google.protobuf.Duration"))
            }
            _ => Err(Fault::no_such_overload()),
        },
    ),
    global(
        "timestamp",
        &["(timestamp) -> timestamp", "(int) -> timestamp", "(string) -> timestamp"],
        |context, arguments| {
            let overflow = || Fault::failed("timestamp overflow");
            match arguments {
                [value @ Value::Timestamp(_)] => Ok(value.clone()),
                [Value::Int(seconds)] => Instant::of_nanoseconds(i128::from(*seconds) * 1_000_000_000)
                    .map(Value::Timestamp)
                    .ok_or_else(overflow),
                [from @ Value::String(text)] => {
                    context.meter.charge_reading(text)?;
                    time::timestamp(text).map(Value::Timestamp).map_err(|error| match error {
                        TimeError::Range => overflow(),
                        TimeError::Syntax => not_converted(from, "google.protobuf.Timestamp"),
                    })
                }
                _ => Err(Fault::no_such_overload()),
            }
        },
    ),
];

/// What writing a number as a text costs.
const WRITE_COST: u64 = 3;

fn not_converted(from: &Value<'_>, to: &str) -> Fault {
    Fault::failed(format!("type conversion error from '{}' to '{to}'", from.type_name()))
}

/// What `string(value)` gives.
pub(super) fn text_of<'a>(context: &mut Context<'_, 'a>, value: &Value<'a>) -> Result<Value<'a>, Fault> {
    Ok(match value {
        Value::String(_) => value.clone(),
        Value::Bool(_) | Value::Int(_) | Value::Uint(_) | Value::Double(_) => {
            let digits = if matches!(value, Value::Double(_)) { 2 } else { 1 };
            context.meter.charge(digits * WRITE_COST)?;
            Value::text(value.shown())
        }
        Value::Bytes(bytes) => {
            context.meter.charge_text(bytes.len())?;
            let text = std::str::from_utf8(bytes);
            Value::text(text.map_err(|_| Fault::failed("invalid UTF-8 in bytes, cannot convert to string"))?)
        }
        Value::Duration(nanos) => Value::text(time::show_duration(*nanos)),
        Value::Timestamp(timestamp) => Value::text(time::show_timestamp(*timestamp)),
        Value::Ip(address) => Value::text(address.to_string()),
        Value::Cidr(cidr) => Value::text(cidr.to_string()),
        Value::Type(name) => Value::text(*name),
        _ => return Err(Fault::no_such_overload()),
    })
}
