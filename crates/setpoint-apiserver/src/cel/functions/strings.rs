//! Texts. Positions count characters, not bytes.

use crate::cel::evaluate::Context;
use crate::cel::function::{Function, global, member};
use crate::cel::value::{Fault, Text, Value};

pub(super) const FUNCTIONS: &[Function] = &[
    member("contains", &["(string, string) -> bool"], |context, arguments| {
        test(context, arguments, |a, b| a.contains(b))
    }),
    member("startsWith", &["(string, string) -> bool"], |context, arguments| {
        test(context, arguments, |a, b| a.starts_with(b))
    }),
    member("endsWith", &["(string, string) -> bool"], |context, arguments| {
        test(context, arguments, |a, b| a.ends_with(b))
    }),
    member("charAt", &["(string, int) -> string"], |context, arguments| {
        let [Value::String(text), Value::Int(index)] = arguments else { return Err(Fault::no_such_overload()) };
        context.meter.charge_text(text.len())?;
        let place = usize::try_from(*index).map_err(|_| out_of_range(*index))?;
        match text.chars().nth(place) {
            Some(character) => Ok(Value::text(character.to_string())),
            None if place == text.chars().count() => Ok(Value::text("")),
            None => Err(out_of_range(*index)),
        }
    }),
    member("indexOf", &["(string, string) -> int", "(string, string, int) -> int"], |context, arguments| {
        let (text, sought, from) = search(context, arguments)?;
        let from = from.unwrap_or_default();
        let start = usize::try_from(from).map_err(|_| out_of_range(from))?;
        let length = text.chars().count();
        if sought.is_empty() {
            return Ok(Value::count(start.min(length)));
        }
        let Some(byte) = byte_of(text, start) else { return Ok(Value::Int(-1)) };
        Ok(text[byte..]
            .find(sought)
            .map_or(Value::Int(-1), |found| Value::count(start + text[byte..byte + found].chars().count())))
    }),
    member("lastIndexOf", &["(string, string) -> int", "(string, string, int) -> int"], |context, arguments| {
        let (text, sought, from) = search(context, arguments)?;
        let length = text.chars().count();
        let start = match from {
            Some(from) => usize::try_from(from).map_err(|_| out_of_range(from))?,
            None => length,
        };
        if sought.is_empty() {
            return Ok(Value::count(start.min(length)));
        }
        if from.is_some() && start >= length {
            return Ok(Value::Int(-1));
        }
        // A match that begins no later than `start` ends no later than this, and where a character ends.
        let last = byte_of(text, start).unwrap_or(text.len());
        let end = text.floor_char_boundary(last.saturating_add(sought.len()));
        let found = text[..end].rfind(sought);
        Ok(found.map_or(Value::Int(-1), |found| Value::count(text[..found].chars().count())))
    }),
    member("lowerAscii", &["(string) -> string"], |context, arguments| {
        transform(context, arguments, |text| text.to_ascii_lowercase())
    }),
    member("upperAscii", &["(string) -> string"], |context, arguments| {
        transform(context, arguments, |text| text.to_ascii_uppercase())
    }),
    member("trim", &["(string) -> string"], |context, arguments| {
        transform(context, arguments, |text| text.trim().to_owned())
    }),
    member("replace", &["(string, string, string) -> string", "(string, string, string, int) -> string"], replace),
    member("split", &["(string, string) -> list(string)", "(string, string, int) -> list(string)"], split),
    member("substring", &["(string, int) -> string", "(string, int, int) -> string"], substring),
    member("join", &["(list(string)) -> string", "(list(string), string) -> string"], join),
    global("strings.quote", &["(string) -> string"], |context, arguments| {
        transform(context, arguments, |text| {
            let mut quoted = String::with_capacity(text.len() + 2);
            quoted.push('"');
            for character in text.chars() {
                match character {
                    '\x07' => quoted.push_str("\\a"),
                    '\x08' => quoted.push_str("\\b"),
                    '\x0c' => quoted.push_str("\\f"),
                    '\n' => quoted.push_str("\\n"),
                    '\r' => quoted.push_str("\\r"),
                    '\t' => quoted.push_str("\\t"),
                    '\x0b' => quoted.push_str("\\v"),
                    '\\' => quoted.push_str("\\\\"),
                    '"' => quoted.push_str("\\\""),
                    other => quoted.push(other),
                }
            }
            quoted.push('"');
            quoted
        })
    }),
];

fn out_of_range(index: i64) -> Fault {
    Fault::failed(format!("index out of range: {index}"))
}

/// Where the character of this number begins; none past the last one.
fn byte_of(text: &str, index: usize) -> Option<usize> {
    text.char_indices().nth(index).map(|(byte, _)| byte)
}

fn test<'a>(
    context: &mut Context<'_, 'a>,
    arguments: &[Value<'a>],
    holds: fn(&str, &str) -> bool,
) -> Result<Value<'a>, Fault> {
    let [Value::String(text), Value::String(other)] = arguments else { return Err(Fault::no_such_overload()) };
    context.meter.charge_text(text.len())?;
    context.meter.charge_text(other.len())?;
    Ok(Value::Bool(holds(text, other)))
}

fn transform<'a>(
    context: &mut Context<'_, 'a>,
    arguments: &[Value<'a>],
    transformed: fn(&str) -> String,
) -> Result<Value<'a>, Fault> {
    let [Value::String(text)] = arguments else { return Err(Fault::no_such_overload()) };
    context.meter.charge_text(2 * text.len())?;
    Ok(Value::text(transformed(text)))
}

/// The text, what is sought in it, and from where.
fn search<'v>(
    context: &mut Context<'_, '_>,
    arguments: &'v [Value<'_>],
) -> Result<(&'v str, &'v str, Option<i64>), Fault> {
    let (text, sought, from) = match arguments {
        [Value::String(text), Value::String(sought)] => (text, sought, None),
        [Value::String(text), Value::String(sought), Value::Int(from)] => (text, sought, Some(*from)),
        _ => return Err(Fault::no_such_overload()),
    };
    context.meter.charge_text(text.len() + sought.len())?;
    Ok((text, sought, from))
}

fn replace<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, old, new, limit) = match arguments {
        [Value::String(text), Value::String(old), Value::String(new)] => (text, old, new, -1),
        [Value::String(text), Value::String(old), Value::String(new), Value::Int(limit)] => (text, old, new, *limit),
        _ => return Err(Fault::no_such_overload()),
    };
    context.meter.charge_text(text.len())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let found = text.matches(&**old).count().min(limit);
    context.meter.charge_text(text.len().saturating_add(found.saturating_mul(new.len() + 10)))?;
    Ok(Value::text(text.replacen(&**old, new, limit)))
}

fn split<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, separator, limit) = match arguments {
        [Value::String(text), Value::String(separator)] => (text, separator, -1),
        [Value::String(text), Value::String(separator), Value::Int(limit)] => (text, separator, *limit),
        _ => return Err(Fault::no_such_overload()),
    };
    context.meter.charge_text(text.len())?;
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    if limit == 0 {
        return Ok(Value::list(Vec::new()));
    }
    // Pieces of a text of the object are not copied.
    match text {
        Text::Borrowed(whole) => {
            gather(context, pieces(whole, separator, limit), |piece| Value::String(Text::Borrowed(piece)))
        }
        Text::Made(whole) => gather(context, pieces(whole, separator, limit), Value::text),
    }
}

/// The pieces as a list; each is paid for before there is the next.
fn gather<'a, 't>(
    context: &mut Context<'_, 'a>,
    pieces: impl Iterator<Item = &'t str>,
    value: impl Fn(&'t str) -> Value<'a>,
) -> Result<Value<'a>, Fault> {
    let mut list = Vec::new();
    for piece in pieces {
        context.meter.charge(3)?;
        list.push(value(piece));
    }
    Ok(Value::list(list))
}

/// The pieces of a text. Without a separator they are its characters; the last one is the rest.
fn pieces<'t>(text: &'t str, separator: &str, limit: usize) -> impl Iterator<Item = &'t str> {
    let (characters, parts) = match separator {
        "" => (Some(text), None),
        _ => (None, Some(text.splitn(limit, separator))),
    };
    let characters = characters.into_iter().flat_map(move |text| {
        text.char_indices().take(limit).enumerate().map(move |(index, (at, character))| {
            let end = if index + 1 == limit { text.len() } else { at + character.len_utf8() };
            &text[at..end]
        })
    });
    characters.chain(parts.into_iter().flatten())
}

fn substring<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (text, start, end) = match arguments {
        [Value::String(text), Value::Int(start)] => (text, *start, None),
        [Value::String(text), Value::Int(start), Value::Int(end)] => (text, *start, Some(*end)),
        _ => return Err(Fault::no_such_overload()),
    };
    context.meter.charge_text(2 * text.len())?;
    if let Some(end) = end.filter(|end| start > *end) {
        return Err(Fault::failed(format!("invalid substring range. start: {start}, end: {end}")));
    }
    let byte = |index: i64| {
        let place = usize::try_from(index).ok()?;
        byte_of(text, place).or_else(|| (place == text.chars().count()).then_some(text.len()))
    };
    let first = byte(start).ok_or_else(|| out_of_range(start))?;
    let last = end.map_or(Ok(text.len()), |end| byte(end).ok_or_else(|| out_of_range(end)))?;
    Ok(match text {
        Text::Borrowed(whole) => Value::String(Text::Borrowed(&whole[first..last])),
        Text::Made(whole) => Value::text(&whole[first..last]),
    })
}

fn join<'a>(context: &mut Context<'_, 'a>, arguments: &[Value<'a>]) -> Result<Value<'a>, Fault> {
    let (list, separator) = match arguments {
        [Value::List(list)] => (list, ""),
        [Value::List(list), Value::String(separator)] => (list, &**separator),
        _ => return Err(Fault::no_such_overload()),
    };
    let mut joined = String::new();
    for (index, item) in list.values(context.meter)?.into_iter().enumerate() {
        let Value::String(item) = &item else {
            return Err(Fault::failed(format!("join: invalid input: {}", item.shown())));
        };
        context.meter.charge_text(item.len() + separator.len())?;
        if index > 0 {
            joined.push_str(separator);
        }
        joined.push_str(item);
    }
    Ok(Value::text(joined))
}
