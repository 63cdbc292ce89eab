//! What stands after a backslash: `\d`, `\pL`, `\x41`, `\.`.

/// What an escape means. In Go, `\d`, `\w` and `\s` mean ASCII, and what is not known is refused.
pub(super) enum Escape {
    Character(char),
    /// Some of the characters, in a form that also a class can hold.
    Characters(String),
}

/// Reads an escape; gives its length too. `None` if Go knows no such escape.
pub(super) fn escape(rest: &str) -> Option<(Escape, usize)> {
    let letter = rest.chars().nth(1)?;
    let characters = |inside: &str| {
        let negation = if letter.is_ascii_uppercase() { "^" } else { "" };
        Some((Escape::Characters(format!("[{negation}{inside}]")), 2))
    };
    let character = |character: char| Some((Escape::Character(character), 2));
    match letter {
        'd' | 'D' => characters("0-9"),
        'w' | 'W' => characters("0-9A-Za-z_"),
        's' | 'S' => characters("\\t\\n\\x0C\\r "),
        'p' | 'P' => property(rest, letter == 'P'),
        'a' => character('\x07'),
        'f' => character('\x0c'),
        'n' => character('\n'),
        'r' => character('\r'),
        't' => character('\t'),
        'v' => character('\x0b'),
        'x' => hexadecimal(rest),
        '0'..='7' => octal(rest),
        mark if mark.is_ascii() && !mark.is_ascii_alphanumeric() => character(mark),
        _ => None,
    }
}

/// `\pN`, `\p{Greek}` or `\p{^Greek}`.
fn property(rest: &str, negated: bool) -> Option<(Escape, usize)> {
    let name = &rest[2..];
    let (name, used) = match name.strip_prefix('{') {
        Some(inner) => inner.find('}').map(|end| (&inner[..end], end + 4))?,
        None => name.chars().next().map(|letter| (&name[..letter.len_utf8()], 2 + letter.len_utf8()))?,
    };
    let (name, negated) = name.strip_prefix('^').map_or((name, negated), |name| (name, !negated));
    Some((Escape::Characters(format!("\\{}{{{name}}}", if negated { 'P' } else { 'p' })), used))
}

/// `\x41` or `\x{1F600}`.
fn hexadecimal(rest: &str) -> Option<(Escape, usize)> {
    let digits = &rest[2..];
    let (digits, used) = match digits.strip_prefix('{') {
        Some(inner) => inner.find('}').map(|end| (&inner[..end], end + 4))?,
        None => (digits.get(..2)?, 4),
    };
    let all = !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let code = u32::from_str_radix(digits, 16).ok().filter(|_| all)?;
    Some((Escape::Character(char::from_u32(code)?), used))
}

/// Up to three digits; one that is not zero and alone would mean a group, which Go does not know.
fn octal(rest: &str) -> Option<(Escape, usize)> {
    let length = rest[1..].bytes().take(3).take_while(|digit| (b'0'..=b'7').contains(digit)).count();
    let digits = &rest[1..1 + length];
    if length == 1 && digits != "0" {
        return None;
    }
    let code = u32::from_str_radix(digits, 8).ok()?;
    Some((Escape::Character(char::from_u32(code)?), 1 + length))
}
