//! `'%s has %d'.format([name, count])`.

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, member};
use crate::cel::value::{Fault, Value};

use super::convert::text_of;

pub(super) const FUNCTIONS: &[Function] =
    &[member("format", &["(string, list(dyn)) -> string"], |context, arguments| match arguments {
        [Value::String(format), Value::List(list)] => {
            let values = list.values(context.meter)?;
            context.meter.charge_text(format.len())?;
            let mut text = String::with_capacity(format.len());
            let mut next = values.iter().enumerate();
            for piece in pieces(format) {
                match piece.map_err(Fault::failed)? {
                    Piece::Text(piece) => text.push_str(piece),
                    Piece::Clause(clause) => {
                        let (_, value) =
                            next.next().ok_or_else(|| Fault::failed(format!("index {} out of range", values.len())))?;
                        let before = text.len();
                        write(context, clause, value, &mut text)?;
                        context.meter.charge_text(text.len() - before)?;
                    }
                }
            }
            Ok(Value::text(text))
        }
        _ => Err(Fault::no_such_overload()),
    })];

/// The most digits after the point that are written.
const MAX_PRECISION: usize = 1_000;

enum Piece<'f> {
    Text(&'f str),
    Clause(Clause),
}

#[derive(Clone, Copy)]
struct Clause {
    verb: char,
    precision: usize,
}

/// What is wrong with a format for this many values.
pub(in crate::cel) fn check(format: &str, values: usize) -> Result<(), String> {
    let mut used = 0;
    for piece in pieces(format) {
        used += usize::from(matches!(piece?, Piece::Clause(_)));
        if used > values {
            return Err(format!("index {values} out of range"));
        }
    }
    if values > used {
        return Err(format!("too many arguments supplied to string.format (expected {used}, got {values})"));
    }
    Ok(())
}

fn pieces(format: &str) -> impl Iterator<Item = Result<Piece<'_>, String>> {
    let mut rest = format;
    std::iter::from_fn(move || {
        let length = rest.find('%').unwrap_or(rest.len());
        if length > 0 {
            let (text, after) = rest.split_at(length);
            rest = after;
            return Some(Ok(Piece::Text(text)));
        }
        let after = rest.strip_prefix('%')?;
        if let Some(after) = after.strip_prefix('%') {
            rest = after;
            return Some(Ok(Piece::Text("%")));
        }
        let found = clause(after);
        rest = found.as_ref().map_or("", |(_, after)| *after);
        Some(found.map(|(clause, _)| Piece::Clause(clause)))
    })
}

fn clause(text: &str) -> Result<(Clause, &str), String> {
    let problem = |what: &str| format!("could not parse formatting clause: {what}");
    let (precision, rest) = match text.strip_prefix('.') {
        None => (6, text),
        Some(after) => {
            let length = after.bytes().take_while(u8::is_ascii_digit).count();
            let digits: usize = after[..length]
                .parse()
                .map_err(|_| problem("error while parsing precision: error while converting precision to integer"))?;
            (digits.min(MAX_PRECISION), &after[length..])
        }
    };
    let verb = rest.chars().next().ok_or("unexpected end of string")?;
    if !"sdfebxXo".contains(verb) {
        return Err(problem(&format!("unrecognized formatting clause \"{verb}\"")));
    }
    Ok((Clause { verb, precision }, &rest[verb.len_utf8()..]))
}

fn write<'a>(
    context: &mut Context<'_, 'a>,
    Clause { verb, precision }: Clause,
    value: &Value<'a>,
    text: &mut String,
) -> Result<(), Fault> {
    let refused =
        |rule: &str| Fault::failed(format!("error during formatting: {rule}, was given {}", value.type_name()));
    let double = || match value {
        Value::Double(number) => Some(*number),
        Value::String(word) if matches!(&**word, "NaN" | "Infinity" | "-Infinity") => word.parse().ok(),
        _ => None,
    };
    let written = match (verb, value) {
        ('s', _) => return write_plain(context, value, text),
        ('d', Value::Int(number)) => number.to_string(),
        ('d', Value::Uint(number)) => number.to_string(),
        ('d', _) => return Err(refused("decimal clause can only be used on integers")),
        ('f', _) => match double() {
            Some(number) => fixed(number, precision),
            None => return Err(refused("fixed-point clause can only be used on doubles")),
        },
        ('e', _) => match double() {
            Some(number) => scientific(number, precision),
            None => return Err(refused("scientific clause can only be used on doubles")),
        },
        ('b', Value::Int(number)) => signed(*number, |magnitude| format!("{magnitude:b}")),
        ('b', Value::Uint(number)) => format!("{number:b}"),
        ('b', Value::Bool(value)) => u8::from(*value).to_string(),
        ('b', _) => return Err(refused("only integers and bools can be formatted as binary")),
        ('o', Value::Int(number)) => signed(*number, |magnitude| format!("{magnitude:o}")),
        ('o', Value::Uint(number)) => format!("{number:o}"),
        ('o', _) => return Err(refused("octal clause can only be used on integers")),
        (_, value) => {
            let hex = match value {
                Value::Int(number) => signed(*number, |magnitude| format!("{magnitude:x}")),
                Value::Uint(number) => format!("{number:x}"),
                Value::String(text) => hex(context, text.as_bytes())?,
                Value::Bytes(bytes) => hex(context, bytes)?,
                _ => {
                    return Err(refused("only integers, byte buffers, and strings can be formatted as hex"));
                }
            };
            if verb == 'X' { hex.to_uppercase() } else { hex }
        }
    };
    text.push_str(&written);
    Ok(())
}

fn hex(context: &mut Context<'_, '_>, bytes: &[u8]) -> Result<String, Fault> {
    context.meter.charge_text(2 * bytes.len())?;
    let digit = |digit: u8| char::from(b"0123456789abcdef"[usize::from(digit)]);
    Ok(bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect())
}

fn signed(number: i64, magnitude: fn(u64) -> String) -> String {
    format!("{}{}", if number < 0 { "-" } else { "" }, magnitude(number.unsigned_abs()))
}

fn fixed(number: f64, precision: usize) -> String {
    if number.is_finite() { format!("{number:.precision$}") } else { not_finite(number) }
}

fn scientific(number: f64, precision: usize) -> String {
    if !number.is_finite() {
        return not_finite(number);
    }
    let text = format!("{number:.precision$e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let (sign, digits) = exponent.strip_prefix('-').map_or(('+', exponent), |digits| ('-', digits));
    format!("{mantissa}e{sign}{digits:0>2}")
}

fn not_finite(number: f64) -> String {
    if number.is_nan() {
        "NaN"
    } else if number > 0.0 {
        "∞"
    } else {
        "-∞"
    }
    .to_owned()
}

/// A value as `%s` writes it.
fn write_plain<'a>(context: &mut Context<'_, 'a>, value: &Value<'a>, text: &mut String) -> Result<(), Fault> {
    context.meter.charge(1)?;
    match value {
        Value::Null => text.push_str("null"),
        Value::List(list) => {
            text.push('[');
            for (index, item) in list.values(context.meter)?.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                write_inside(context, item, text)?;
            }
            text.push(']');
        }
        Value::Map(map) => {
            text.push('{');
            for (index, key) in map.keys(context.meter)?.iter().enumerate() {
                if index > 0 {
                    text.push_str(", ");
                }
                context.meter.charge(2)?;
                let value = map.get(key, context.meter)?.unwrap_or(Value::Null);
                write_inside(context, key, text)?;
                text.push(':');
                write_inside(context, &value, text)?;
            }
            text.push('}');
        }
        _ => match text_of(context, value) {
            Ok(Value::String(plain)) => {
                context.meter.charge_text(plain.len())?;
                text.push_str(&plain);
            }
            Err(Fault::Exhausted) => return Err(Fault::Exhausted),
            _ => {
                return Err(Fault::failed(format!(
                    "error during formatting: string clause can only be used on strings, bools, bytes, ints, doubles, \
                     maps, lists, types, durations, and timestamps, was given {}",
                    value.type_name()
                )));
            }
        },
    }
    Ok(())
}

/// A value inside a list or a map, where texts are quoted.
fn write_inside<'a>(context: &mut Context<'_, 'a>, value: &Value<'a>, text: &mut String) -> Result<(), Fault> {
    match value {
        Value::String(plain) => {
            context.meter.charge_text(plain.len())?;
            text.push_str(&format!("{:?}", &**plain));
        }
        Value::Bytes(_) => {
            let mut plain = String::new();
            write_plain(context, value, &mut plain)?;
            text.push_str(&format!("b{plain:?}"));
        }
        Value::Double(number) => text.push_str(&fixed(*number, 6)),
        Value::Duration(_) | Value::Timestamp(_) => {
            let mut plain = String::new();
            write_plain(context, value, &mut plain)?;
            let name = if matches!(value, Value::Duration(_)) { "duration" } else { "timestamp" };
            text.push_str(&format!("{name}({plain:?})"));
        }
        _ => write_plain(context, value, text)?,
    }
    Ok(())
}
