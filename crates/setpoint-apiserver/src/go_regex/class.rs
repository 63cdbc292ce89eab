//! Classes of characters: `[^a-z\d[:alpha:]]`.
//!
//! In Go a class holds no classes but named ones, and no operators: `&&`, `--` and `~~` are characters like others.

use super::escape::{Escape, escape};

const NAMED: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

/// Writes a class; gives its length. `None` if it is none.
pub(super) fn class(rest: &str, text: &mut String) -> Option<usize> {
    text.push('[');
    let mut used = 1;
    if rest[used..].starts_with('^') {
        text.push('^');
        used += 1;
    }
    let first = used;
    loop {
        let after = &rest[used..];
        if after.starts_with(']') && used > first {
            text.push(']');
            return Some(used + 1);
        }
        if let Some((name, length)) = named(after) {
            let known = NAMED.contains(&name.strip_prefix('^').unwrap_or(name));
            text.push_str(known.then_some(&after[..length])?);
            used += length;
            continue;
        }
        let (low, length) = item(after)?;
        used += length;
        let low = match low {
            Escape::Character(low) => low,
            Escape::Characters(characters) => {
                text.push_str(&characters);
                continue;
            }
        };
        push(low, text);
        // A hyphen before the end is one.
        if rest[used..].starts_with('-') && !rest[used..].starts_with("-]") && rest.len() > used + 1 {
            let (Escape::Character(high), length) = item(&rest[used + 1..])? else { return None };
            text.push('-');
            push(high, text);
            used += 1 + length;
        }
    }
}

/// `[:alpha:]`: its name and its length.
fn named(after: &str) -> Option<(&str, usize)> {
    let inner = after.strip_prefix("[:")?;
    inner.find(":]").map(|end| (&inner[..end], end + 4))
}

fn item(after: &str) -> Option<(Escape, usize)> {
    match after.chars().next()? {
        '\\' => escape(after),
        character => Some((Escape::Character(character), character.len_utf8())),
    }
}

/// Writes a character as itself.
fn push(character: char, text: &mut String) {
    // These two, escaped, are no characters but the edges of words.
    if character.is_ascii_punctuation() && !matches!(character, '<' | '>') {
        text.push('\\');
    }
    text.push(character);
}
