//! A Go pattern as the same pattern of the library that matches here.
//!
//! In Go `\b` means ASCII, `\Q…\E` quotes, repetitions do not follow each other, and groups have fewer flags.

use std::collections::HashSet;

use super::PatternError;
use super::class::class;
use super::escape::{Escape, escape};

/// The most copies that a repetition may ask for, also through repetitions in it.
const MAX_REPEAT: u64 = 1_000;
/// The deepest that groups may nest.
const MAX_NESTING: usize = 200;

pub(super) struct Translation {
    pub text: String,
    /// The number of steps of the pattern, repetitions counted as often as they may repeat.
    pub weight: u64,
}

/// One group that is open while a pattern is read.
#[derive(Default)]
struct Group {
    /// The weight of what it holds before its last part.
    before: u64,
    last: Part,
    /// The most copies of one thing in it.
    copies: u64,
}

/// What a repetition repeats.
#[derive(Default, Clone, Copy)]
struct Part {
    weight: u64,
    /// The most copies of one thing in it.
    copies: u64,
}

impl Group {
    fn push(&mut self, weight: u64) {
        self.push_part(Part { weight, copies: 1 });
    }

    fn push_part(&mut self, part: Part) {
        self.before = self.before.saturating_add(self.last.weight);
        self.copies = self.copies.max(self.last.copies);
        self.last = part;
    }

    fn whole(&self) -> Part {
        Part { weight: self.before.saturating_add(self.last.weight), copies: self.copies.max(self.last.copies) }
    }
}

pub(super) fn translate(pattern: &str) -> Result<Translation, PatternError> {
    let mut writer = Writer { pattern, text: String::new(), groups: vec![Group::default()], names: HashSet::new() };
    let mut rest = pattern;
    let mut repeated = false;
    while let Some(first) = rest.chars().next() {
        let repetition = writer.repetition(rest, first)?;
        let used = match repetition {
            Some(_) if repeated => return Err(writer.syntax()),
            Some(used) => used,
            None => writer.part(rest, first)?,
        };
        repeated = repetition.is_some();
        rest = &rest[used..];
    }
    let weight = writer.groups.iter().map(|group| group.whole().weight).fold(1, u64::saturating_add);
    Ok(Translation { text: writer.text, weight })
}

/// Writes the translation of a pattern. What reads a piece of it gives the length of that piece.
struct Writer<'p> {
    pattern: &'p str,
    text: String,
    groups: Vec<Group>,
    names: HashSet<&'p str>,
}

impl<'p> Writer<'p> {
    fn syntax(&self) -> PatternError {
        PatternError::Syntax(self.pattern.to_owned())
    }

    fn group(&mut self) -> &mut Group {
        self.groups.last_mut().expect("the outermost group stays")
    }

    /// `*`, `+`, `?` or a count, with a question mark where it takes as little as possible. `None` if it is none.
    fn repetition(&mut self, rest: &str, first: char) -> Result<Option<usize>, PatternError> {
        let used = match first {
            '*' | '+' | '?' => 1,
            '{' => {
                let Some((times, used)) = count(rest) else { return Ok(None) };
                let Part { weight, copies } = &mut self.group().last;
                (*weight, *copies) = (weight.saturating_mul(times.max(1)), copies.saturating_mul(times));
                if times > MAX_REPEAT || *copies > MAX_REPEAT {
                    return Err(PatternError::RepeatCount(rest[..used].to_owned()));
                }
                used
            }
            _ => return Ok(None),
        };
        let used = used + usize::from(rest[used..].starts_with('?'));
        self.text.push_str(&rest[..used]);
        Ok(Some(used))
    }

    fn part(&mut self, rest: &'p str, first: char) -> Result<usize, PatternError> {
        match first {
            '\\' if rest.starts_with("\\Q") => {
                let quoted = &rest[2..];
                let (inner, used) = quoted.find("\\E").map_or((quoted, rest.len()), |end| (&quoted[..end], end + 4));
                self.text.push_str(&regex::escape(inner));
                inner.chars().for_each(|_| self.group().push(1));
                Ok(used)
            }
            '\\' => {
                let (written, used, weight) = escaped(rest).ok_or_else(|| self.syntax())?;
                self.text.push_str(&written);
                self.group().push(weight);
                Ok(used)
            }
            '[' => {
                let used = class(rest, &mut self.text).ok_or_else(|| self.syntax())?;
                self.group().push(2);
                Ok(used)
            }
            '(' => self.open(rest),
            ')' => {
                self.close();
                Ok(1)
            }
            // It begins no count, so it is itself.
            '{' => {
                self.text.push_str("\\{");
                self.group().push(1);
                Ok(1)
            }
            other => {
                self.text.push(other);
                self.group().push(if other == '.' { 2 } else { 1 });
                Ok(other.len_utf8())
            }
        }
    }

    fn open(&mut self, rest: &'p str) -> Result<usize, PatternError> {
        let (opening, name) = opening(rest).ok_or_else(|| self.syntax())?;
        if name.is_some_and(|name| !self.names.insert(name)) {
            return Err(self.syntax());
        }
        // What a group is called does not matter for what it matches.
        self.text.push_str(if name.is_some() { "(" } else { opening });
        if !opening.ends_with(')') {
            self.groups.push(Group::default());
        }
        if self.groups.len() > MAX_NESTING {
            return Err(PatternError::TooDeep(self.pattern.to_owned()));
        }
        Ok(opening.len())
    }

    fn close(&mut self) {
        self.text.push(')');
        if self.groups.len() > 1 {
            let closed = self.groups.pop().map(|group| group.whole()).unwrap_or_default();
            self.group().push_part(Part { weight: closed.weight.saturating_add(1), ..closed });
        }
    }
}

/// An escape outside of classes: what it becomes, its length and its weight.
fn escaped(rest: &str) -> Option<(String, usize, u64)> {
    match rest.as_bytes().get(1)? {
        b'A' | b'z' => return Some((rest[..2].to_owned(), 2, 1)),
        b'b' | b'B' => return Some((format!("(?-u:{})", &rest[..2]), 2, 1)),
        _ => {}
    }
    let (escape, used) = escape(rest)?;
    Some(match escape {
        Escape::Character(character) => (regex::escape(character.encode_utf8(&mut [0; 4])), used, 1),
        Escape::Characters(characters) => {
            let weight = if characters.starts_with('[') { 1 } else { 100 };
            (characters, used, weight)
        }
    })
}

/// What opens a group, and its name: `(`, `(?:`, `(?i-s:`, `(?P<name>`, `(?<name>`; or sets flags to the end of the
/// group: `(?i)`.
fn opening(rest: &str) -> Option<(&str, Option<&str>)> {
    let Some(extended) = rest.strip_prefix("(?") else { return Some((&rest[..1], None)) };
    if let Some(named) = extended.strip_prefix("P<").or_else(|| extended.strip_prefix('<')) {
        let name = &named[..named.find('>')?];
        let word = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
        let length = rest.len() - named.len() + name.len() + 1;
        return word.then_some((&rest[..length], Some(name)));
    }
    let end = extended.find([':', ')'])?;
    let known = |flags: &str| flags.chars().all(|flag| "imsU".contains(flag));
    let fits = match extended[..end].split_once('-') {
        Some((set, unset)) => known(set) && known(unset) && !unset.is_empty(),
        None => known(&extended[..end]),
    };
    fits.then_some((&rest[..end + 3], None))
}

/// `{n}`, `{n,}` or `{n,m}`: the number of copies, and its length.
fn count(rest: &str) -> Option<(u64, usize)> {
    let end = rest.find('}')?;
    let (low, high) = match rest[1..end].split_once(',') {
        Some((low, "")) => (low, low),
        Some(both) => both,
        None => (&rest[1..end], &rest[1..end]),
    };
    let number = |text: &str| {
        let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let padded = text.len() > 1 && text.starts_with('0');
        (plain && !padded).then(|| text.parse().unwrap_or(u64::MAX))
    };
    Some((number(low)?.max(number(high)?), end + 1))
}
