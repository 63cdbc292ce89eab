//! The order of versions: plain numbers, dotted parts, a leading `v`, pre-releases. Every text has a place in it.
//!
//! Numbers compare as numbers of any size, parts from left to right, and a version that goes on is higher than one that
//! ends (`1.1 < 1.1.0`). A pre-release (`-rc.1`) is lower than its release, and pre-releases compare as semver says; what
//! follows a `+` does not count. A part that is no number is lower than any number, so that a slip of the pen never wins.

/// A version by its place in the order. Texts that stand for the same version (`2`, `v2`, `02`) are equal.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version<'t> {
    parts: Vec<Part<'t>>,
    stage: Stage<'t>,
}

// The order of the variants is the order of versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Part<'t> {
    Word(&'t str),
    Number(Number<'t>),
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Stage<'t> {
    PreRelease(Vec<Identifier<'t>>),
    Release,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Identifier<'t> {
    Number(Number<'t>),
    Word(&'t str),
}

/// A number of any size: without leading zeros, the longer one is greater, and of two of one length the later text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Number<'t> {
    length: usize,
    digits: &'t str,
}

impl<'t> Version<'t> {
    /// The version of what has none.
    pub const MISSING: &'static str = "0";

    pub fn new(text: &'t str) -> Version<'t> {
        let text = text.split_once('+').map_or(text, |(version, _)| version);
        let text = text.strip_prefix(['v', 'V']).filter(|rest| starts_with_digit(rest)).unwrap_or(text);
        let (core, stage) = match text.split_once('-') {
            Some((core, stage)) => (core, Stage::PreRelease(stage.split('.').map(Identifier::new).collect())),
            None => (text, Stage::Release),
        };
        Version { parts: core.split('.').map(Part::new).collect(), stage }
    }
}

impl<'t> Part<'t> {
    fn new(text: &'t str) -> Part<'t> {
        Number::new(text).map_or(Part::Word(text), Part::Number)
    }
}

impl<'t> Identifier<'t> {
    fn new(text: &'t str) -> Identifier<'t> {
        Number::new(text).map_or(Identifier::Word(text), Identifier::Number)
    }
}

impl<'t> Number<'t> {
    fn new(text: &'t str) -> Option<Number<'t>> {
        if text.is_empty() || !text.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let digits = text.trim_start_matches('0');
        Some(Number { length: digits.len(), digits })
    }
}

fn starts_with_digit(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use std::cmp::Ordering;

    use super::*;

    #[test]
    fn versions_are_ordered() {
        use Ordering::{Equal, Less};
        let rows = [
            ("one is less than two", "1", Less, "2"),
            ("numbers are numbers, not texts", "2", Less, "10"),
            ("a minor version counts", "1.0", Less, "1.1"),
            ("so does a minor of two digits", "1.9", Less, "1.10"),
            ("a version that goes on is higher", "1.1", Less, "1.1.0"),
            ("a plain number is a version that ends early", "1", Less, "1.0"),
            ("a major version counts most", "1.9", Less, "2.0"),
            ("a plain number beside a dotted one", "1.9", Less, "2"),
            ("a leading v means nothing", "v2", Equal, "2"),
            ("nor does a capital V", "V1.2", Equal, "1.2"),
            ("a v within stays a letter", "1.v2", Less, "1.2"),
            ("v2 is less than v10", "v2", Less, "v10"),
            ("leading zeros mean nothing", "007", Equal, "7"),
            ("zero is zero", "000", Equal, "0"),
            ("a pre-release is lower than its release", "2.0.0-rc.1", Less, "2.0.0"),
            ("and higher than the release before", "1.9.9", Less, "2.0.0-alpha"),
            ("alpha is before beta", "1.0.0-alpha", Less, "1.0.0-beta"),
            ("beta is before rc", "1.0.0-beta", Less, "1.0.0-rc"),
            ("alpha is before alpha.1", "1.0.0-alpha", Less, "1.0.0-alpha.1"),
            ("numbers in pre-releases are numbers", "1.0.0-rc.2", Less, "1.0.0-rc.10"),
            ("numbers in pre-releases are before words", "1.0.0-1", Less, "1.0.0-alpha"),
            ("a longer pre-release is higher", "1.0.0-alpha.1", Less, "1.0.0-alpha.1.1"),
            ("words in pre-releases compare as texts, as semver has it", "1-rc10", Less, "1-rc2"),
            ("a plain number may have a pre-release", "v3-beta", Less, "3"),
            ("a pre-release may contain dashes", "1-a-b", Less, "1-a-c"),
            ("build metadata does not count", "1.0.0+abc", Equal, "1.0.0+def"),
            ("nor does it on a pre-release", "1.0.0-rc.1+abc", Equal, "1.0.0-rc.1"),
            ("numbers larger than any machine's", "99999999999999999999999998", Less, "99999999999999999999999999"),
            ("a larger number has more digits", "99999999999999999999999999", Less, "100000000000000000000000000"),
            ("a word is less than any number", "latest", Less, "0"),
            ("words compare as texts", "blue", Less, "green"),
            ("dates as versions", "2026-01-15", Less, "2026-02-01"),
            ("an empty text is the lowest", "", Less, "a"),
            ("a lone v is a word", "v", Less, "v0"),
            ("letters beyond ASCII have a place", "é", Less, "1"),
        ];
        for (name, left, ordering, right) in rows {
            assert_eq!(Version::new(left).cmp(&Version::new(right)), ordering, "{name}: {left} against {right}");
            assert_eq!(
                Version::new(right).cmp(&Version::new(left)),
                ordering.reverse(),
                "{name}: {right} against {left}"
            );
        }
    }
}
