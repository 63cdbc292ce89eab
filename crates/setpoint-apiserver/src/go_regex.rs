//! Regular expressions as Go reads them, which is how Kubernetes states patterns.
//!
//! The two dialects agree on nearly everything. Where they differ the pattern is rewritten: in Go `\d`, `\w`, `\s` and
//! `\b` mean ASCII, a class holds no classes, and `\Q…\E` quotes. Matching takes time in proportion to the text times the
//! size of the pattern with its repetitions written out, and that size is limited.

use regex::{Regex, RegexBuilder};
use thiserror::Error;

/// The largest pattern that is compiled, in bytes of its program.
const MAX_PROGRAM_BYTES: usize = 1 << 18;
/// The most memory that matching may keep to be fast.
const MAX_CACHE_BYTES: usize = 1 << 18;
/// The most copies that a repetition may ask for.
const MAX_REPEAT: u64 = 1_000;
/// The deepest that groups may nest.
const MAX_NESTING: usize = 200;

/// A pattern, compiled.
#[derive(Debug)]
pub struct GoRegex {
    regex: Regex,
    /// What it costs to look at ten bytes.
    rate: u64,
}

/// Why a text is no pattern.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum PatternError {
    #[error("error parsing regexp: invalid repeat count: `{0}`")]
    RepeatCount(String),
    #[error("error parsing regexp: expression nests too deeply: `{0}`")]
    TooDeep(String),
    #[error("error parsing regexp: expression too large")]
    TooLarge,
    #[error("error parsing regexp: invalid syntax: `{0}`")]
    Syntax(String),
}

impl GoRegex {
    pub fn new(pattern: &str) -> Result<GoRegex, PatternError> {
        let Translation { text, weight } = translate(pattern)?;
        let regex = RegexBuilder::new(&text)
            .size_limit(MAX_PROGRAM_BYTES)
            .dfa_size_limit(MAX_CACHE_BYTES)
            .nest_limit(250)
            .build()
            .map_err(|error| match error {
                regex::Error::CompiledTooBig(_) => PatternError::TooLarge,
                _ => PatternError::Syntax(pattern.to_owned()),
            })?;
        // What repetitions add is slow to match where no table of states is large enough.
        let length = pattern.len() as u64;
        let rate = length.div_ceil(4).max(1).saturating_add(weight.saturating_sub(length).saturating_mul(2));
        Ok(GoRegex { regex, rate })
    }

    pub fn regex(&self) -> &Regex {
        &self.regex
    }

    /// What it costs to match a text of this length, in CEL's units.
    pub fn cost(&self, bytes: usize) -> u64 {
        (bytes as u64 + 1).div_ceil(10).saturating_mul(self.rate)
    }

    /// What it costs to compile a pattern, in CEL's units.
    pub fn compile_cost(pattern: &str) -> u64 {
        let weight = translate(pattern).map_or(0, |translation| translation.weight);
        let steps = weight.saturating_add(pattern.len() as u64);
        // Classes of Unicode are large, and larger without regard to case.
        let classes = pattern.contains("\\p") || pattern.contains("\\P");
        let factor = if classes { 400 } else { 40 };
        300 + steps.saturating_mul(if classes && pattern.contains("(?") { 4 * factor } else { factor })
    }
}

struct Translation {
    text: String,
    /// The number of steps of the pattern, repetitions counted as often as they may repeat.
    weight: u64,
}

/// One group that is open while a pattern is read: the weight of what it holds, and of its last part.
#[derive(Default)]
struct Group {
    before: u64,
    last: u64,
}

impl Group {
    fn push(&mut self, weight: u64) {
        self.before = self.before.saturating_add(self.last);
        self.last = weight;
    }

    fn total(&self) -> u64 {
        self.before.saturating_add(self.last)
    }
}

fn translate(pattern: &str) -> Result<Translation, PatternError> {
    let mut text = String::with_capacity(pattern.len() + 16);
    let mut groups = vec![Group::default()];
    let mut rest = pattern;
    while let Some(first) = rest.chars().next() {
        let group = groups.last_mut().expect("the outermost group stays");
        let used = match first {
            '\\' => {
                let (translated, used, weight) = escape(rest, false);
                text.push_str(&translated);
                group.push(weight);
                used
            }
            '[' => {
                let used = class(rest, &mut text);
                group.push(2);
                used
            }
            '(' => {
                text.push('(');
                groups.push(Group::default());
                if groups.len() > MAX_NESTING {
                    return Err(PatternError::TooDeep(pattern.to_owned()));
                }
                1
            }
            ')' => {
                text.push(')');
                if groups.len() > 1 {
                    let closed = groups.pop().map_or(0, |group| group.total());
                    groups.last_mut().expect("the outermost group stays").push(closed + 1);
                }
                1
            }
            '{' => match repetition(rest) {
                Some((times, used)) => {
                    group.last = group.last.saturating_mul(times.max(1));
                    if times > MAX_REPEAT || group.last > 1_000 * MAX_REPEAT {
                        return Err(PatternError::RepeatCount(rest[..used].to_owned()));
                    }
                    text.push_str(&rest[..used]);
                    used
                }
                None => {
                    text.push_str("\\{");
                    group.push(1);
                    1
                }
            },
            other => {
                text.push(other);
                group.push(if other == '.' { 2 } else { 1 });
                other.len_utf8()
            }
        };
        rest = &rest[used..];
    }
    let weight = groups.iter().map(Group::total).fold(1, u64::saturating_add);
    Ok(Translation { text, weight })
}

/// An escape: what it becomes, how long it was, and its weight.
fn escape(rest: &str, in_class: bool) -> (String, usize, u64) {
    let mut characters = rest.chars().skip(1);
    let Some(letter) = characters.next() else { return (rest.to_owned(), rest.len(), 1) };
    let class = |inside: &str| match (in_class, letter.is_ascii_uppercase()) {
        (true, false) => inside.to_owned(),
        (_, negated) => format!("[{}{inside}]", if negated { "^" } else { "" }),
    };
    let used = 1 + letter.len_utf8();
    match letter {
        'd' | 'D' => (class("0-9"), used, 1),
        'w' | 'W' => (class("0-9A-Za-z_"), used, 1),
        's' | 'S' => (class("\\t\\n\\x0C\\r "), used, 1),
        'b' if !in_class => ("(?-u:\\b)".to_owned(), used, 1),
        'B' if !in_class => ("(?-u:\\B)".to_owned(), used, 1),
        'Q' if !in_class => {
            let quoted = &rest[2..];
            let (inner, used) = match quoted.find("\\E") {
                Some(end) => (&quoted[..end], end + 4),
                None => (quoted, rest.len()),
            };
            (regex::escape(inner), used, inner.len() as u64)
        }
        'p' | 'P' => {
            let name = &rest[2..];
            let length = match name.strip_prefix('{') {
                Some(inner) => inner.find('}').map_or(name.len(), |end| end + 2),
                None => name.chars().next().map_or(0, char::len_utf8),
            };
            (rest[..2 + length].to_owned(), 2 + length, 100)
        }
        _ => (rest[..used].to_owned(), used, 1),
    }
}

/// Copies a class such as `[^a-z\d]`; gives its length.
fn class(rest: &str, text: &mut String) -> usize {
    text.push('[');
    let mut used = 1;
    if rest[used..].starts_with('^') {
        text.push('^');
        used += 1;
    }
    let mut first = true;
    while let Some(next) = rest[used..].chars().next() {
        let after = &rest[used..];
        match next {
            ']' if !first => {
                text.push(']');
                return used + 1;
            }
            '\\' => {
                let (translated, length, _) = escape(after, true);
                text.push_str(&translated);
                used += length;
            }
            '[' if after.starts_with("[:") && after.contains(":]") => {
                let length = after.find(":]").map_or(after.len(), |end| end + 2);
                text.push_str(&after[..length]);
                used += length;
            }
            '[' | ']' | '&' | '~' => {
                text.push('\\');
                text.push(next);
                used += 1;
            }
            other => {
                text.push(other);
                used += other.len_utf8();
            }
        }
        first = false;
    }
    used
}

/// `{n}`, `{n,}` or `{n,m}`: the number of copies, and its length.
fn repetition(rest: &str) -> Option<(u64, usize)> {
    let end = rest.find('}')?;
    let (low, high) = match rest[1..end].split_once(',') {
        Some((low, "")) => (low, low),
        Some(both) => both,
        None => (&rest[1..end], &rest[1..end]),
    };
    let number = |text: &str| match text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() {
        true => Some(text.parse().unwrap_or(u64::MAX)),
        false => None,
    };
    Some((number(low)?.max(number(high)?), end + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_match_as_they_do_in_go() {
        for (pattern, text, matches) in [
            ("^a+$", "aaa", true),
            ("^a+$", "aab", false),
            (r"^\d+$", "123", true),
            (r"^\d+$", "١٢٣", false),
            (r"^\w+$", "ü", false),
            (r"^\W+$", "ü", true),
            (r"^[\w.]+$", "a.b", true),
            (r"^[^\s]+$", "a b", false),
            (r"^[\D]$", "x", true),
            (r"^[[]$", "[", true),
            (r"^[a&&b]+$", "a&b", true),
            (r"^[]a]+$", "]a", true),
            (r"^[[:alpha:]]+$", "ab", true),
            (r"^\Qa.b\E$", "a.b", true),
            (r"^\Qa.b\E$", "axb", false),
            (r"\bfoo\b", "a foo b", true),
            (r"^a{2,3}$", "aa", true),
            (r"^a{,3}$", "a{,3}", true),
            (r"^\p{Greek}$", "α", true),
            (r"^\pL$", "ü", true),
            (r"(?i)^abc$", "ABC", true),
            (r"^(?P<x>a)(?:b)$", "ab", true),
            (r"^a\.b$", "a.b", true),
            (r"^.$", "ü", true),
            (r"", "anything", true),
        ] {
            let regex = GoRegex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.regex().is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn other_texts_are_no_patterns() {
        for pattern in ["(", "[a", "a**b(", "a{1001}", "(a{1000}){1000}{1000}", "\\", "(?=a)", "\\1", "*a"] {
            assert!(GoRegex::new(pattern).is_err(), "{pattern}");
        }
        assert!(GoRegex::new(&"(".repeat(10_000)).is_err(), "deep nesting");
        assert!(GoRegex::new(&"\\pL{100}".repeat(100)).is_err(), "a huge program");
    }

    #[test]
    fn repetitions_cost_what_they_repeat() {
        let cost = |pattern: &str| GoRegex::new(pattern).expect(pattern).cost(1_000);
        assert!(cost("(a{50}){10}") > 10 * cost("aaaaaaaa"));
    }
}
