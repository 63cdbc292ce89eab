//! What a literal means.

/// A constant written into an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(Box<str>),
    Bytes(Box<[u8]>),
}

pub(super) fn int(text: &str, negative: bool) -> Option<i64> {
    let magnitude = magnitude(text)?;
    i64::try_from(if negative { -magnitude } else { magnitude }).ok()
}

pub(super) fn uint(text: &str) -> Option<u64> {
    u64::try_from(magnitude(text.trim_end_matches(['u', 'U']))?).ok()
}

fn magnitude(text: &str) -> Option<i128> {
    match text.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok(),
        None => text.parse().ok(),
    }
}

pub(super) fn double(text: &str, negative: bool) -> Option<f64> {
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    Some(if negative { -value } else { value })
}

/// The text of a string literal, quotes and prefix included.
pub(super) fn string(text: &str) -> Option<Box<str>> {
    let (body, raw) = unquote(text);
    if raw {
        return Some(body.into());
    }
    let mut value = String::with_capacity(body.len());
    for piece in pieces(body) {
        match piece? {
            Piece::Character(c) => value.push(c),
            Piece::Byte(byte) => value.push(char::from(byte)),
        }
    }
    Some(value.into())
}

/// The bytes of a bytes literal, quotes and prefix included.
pub(super) fn bytes(text: &str) -> Option<Box<[u8]>> {
    let (body, raw) = unquote(&text[1..]);
    if raw {
        return Some(body.as_bytes().into());
    }
    let mut value = Vec::with_capacity(body.len());
    for piece in pieces(body) {
        match piece? {
            Piece::Character(c) => value.extend(c.encode_utf8(&mut [0; 4]).bytes()),
            Piece::Byte(byte) => value.push(byte),
        }
    }
    Some(value.into())
}

fn unquote(text: &str) -> (&str, bool) {
    let raw = text.starts_with(['r', 'R']);
    let text = &text[usize::from(raw)..];
    let mark = if text.starts_with("\"\"\"") || text.starts_with("'''") { 3 } else { 1 };
    (&text[mark..text.len() - mark], raw)
}

enum Piece {
    Character(char),
    /// Written as a number of a byte: in a string, the character of that number.
    Byte(u8),
}

/// The pieces of a body with escapes; `None` for an escape that does not exist.
fn pieces(body: &str) -> impl Iterator<Item = Option<Piece>> {
    let mut rest = body.chars();
    std::iter::from_fn(move || {
        let first = rest.next()?;
        if first != '\\' {
            return Some(Some(Piece::Character(first)));
        }
        Some(escape(&mut rest))
    })
}

fn escape(rest: &mut std::str::Chars<'_>) -> Option<Piece> {
    let character = match rest.next()? {
        'a' => '\x07',
        'b' => '\x08',
        'f' => '\x0c',
        'n' => '\n',
        'r' => '\r',
        't' => '\t',
        'v' => '\x0b',
        c @ ('\\' | '\'' | '"' | '`' | '?') => c,
        'x' | 'X' => return Some(Piece::Byte(u8::try_from(number(rest, 2, 16, 0)?).ok()?)),
        c @ '0'..='3' => return Some(Piece::Byte(u8::try_from(number(rest, 2, 8, c.to_digit(8)?)?).ok()?)),
        'u' => char::from_u32(number(rest, 4, 16, 0)?)?,
        'U' => char::from_u32(number(rest, 8, 16, 0)?)?,
        _ => return None,
    };
    Some(Piece::Character(character))
}

fn number(rest: &mut std::str::Chars<'_>, digits: usize, radix: u32, start: u32) -> Option<u32> {
    (0..digits).try_fold(start, |value, _| value.checked_mul(radix)?.checked_add(rest.next()?.to_digit(radix)?))
}
