//! Regular expressions as Go reads them, which is how Kubernetes states patterns.
//!
//! The two dialects agree on nearly everything, and where they differ the pattern is rewritten. Matching takes time in
//! proportion to the text times the size of the pattern with its repetitions written out, and that size is limited.

mod class;
mod escape;
mod translation;

use regex::{Regex, RegexBuilder};
use thiserror::Error;

use translation::{Translation, translate};

/// The largest pattern that is compiled, in bytes of its program. Go's programs are of characters, ours of bytes: one that
/// repeats what is not ASCII some hundred times takes megabytes.
const MAX_PROGRAM_BYTES: usize = 10 << 20;
/// The same for patterns that a rule has made up, which are compiled each time.
const MAX_COMPUTED_BYTES: usize = 1 << 18;
/// The most memory that matching may keep to be fast.
const MAX_CACHE_BYTES: usize = 1 << 18;

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
    /// A pattern that stands in a definition.
    pub fn new(pattern: &str) -> Result<GoRegex, PatternError> {
        GoRegex::within(MAX_PROGRAM_BYTES, pattern)
    }

    /// A pattern that is known only when it is to be matched.
    pub fn computed(pattern: &str) -> Result<GoRegex, PatternError> {
        GoRegex::within(MAX_COMPUTED_BYTES, pattern)
    }

    fn within(bytes: usize, pattern: &str) -> Result<GoRegex, PatternError> {
        let Translation { text, weight } = translate(pattern)?;
        let regex = RegexBuilder::new(&text)
            .size_limit(bytes)
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
            (r"^[a-z--/]+$", "a-./", true),
            (r"^[a-z--/]+$", "+", false),
            (r"^[\d-z]+$", "1-z", true),
            (r"^[a~~b]+$", "a~b", true),
            (r"^[a[b]+$", "a[b", true),
            (r"^[a[:b]+$", "a[:b", true),
            (r"^[[^a]+]$", "[^a]", true),
            (r"^[<\>]+$", "<>", true),
            (r"^\<\_\>$", "<_>", true),
            (r"^[[:^digit:]]$", "5", false),
            (r"^\p{^Greek}$", "α", false),
            (r"^[\x41\x{42}\103]+$", "ABC", true),
            (r"^\x41\x{42}\103\0$", "ABC\0", true),
            (r"^\a\f\v$", "\x07\x0c\x0b", true),
            (r"^\Qa*\E+$", "a***", true),
            (r"^\Q[a", "[a", true),
            (r"\Aab\z", "ab", true),
            (r"\Aab\z", "ab\n", false),
            (r"a\Bb", "ab", true),
            (r"^(?P<1n>a)(?<m>b)$", "ab", true),
            (r"^(?s-i:.)$", "\n", true),
            (r"^a*?b+?c??d{1,2}?$", "aabd", true),
            (r"^a{01}$", "a{01}", true),
            (r"^(a{100}){10}$", "a", false),
            (r"", "anything", true),
        ] {
            let regex = GoRegex::new(pattern).unwrap_or_else(|error| panic!("{pattern}: {error}"));
            assert_eq!(regex.regex().is_match(text), matches, "{pattern} on {text}");
        }
    }

    #[test]
    fn other_texts_are_no_patterns() {
        let patterns = [
            ("a group without its end", "("),
            ("a class without its end", "[a"),
            ("an empty class", "[]"),
            ("a range backwards", "[z-a]"),
            ("a range to many characters", r"[!-\d]"),
            ("a class of a name that is none", "[[:nope:]]"),
            ("a repetition of a repetition", "a**"),
            ("a count of a count", "a{2}{3}"),
            ("a repetition of nothing", "*a"),
            ("too many copies", "a{1001}"),
            ("too many copies at least", "a{1001,}"),
            ("too many copies of copies", "(a{40}){40}"),
            ("far too many copies", "((a{1000}){1000}){1000}"),
            ("an escape of nothing", r"\"),
            ("a look ahead", "(?=a)"),
            ("a group seen before", r"\1"),
            ("white space that does not count", "(?x)a"),
            ("a flag among others", "(?ix:a)"),
            ("no Unicode", "(?-u)a"),
            ("no flag at all", "(?i-)a"),
            ("a name that is none", "(?P<a.b>x)"),
            ("a name twice", "(?P<n>a)(?P<n>b)"),
            ("any byte", r"\C"),
            ("an end of nothing", r"a\E"),
            ("a quotation in a class", r"[\Qa\E]"),
            ("an escape of others", r"\u0041"),
            ("an end before a line's end", r"\Z"),
        ];
        for (row, pattern) in patterns {
            assert!(GoRegex::new(pattern).is_err(), "{row}: {pattern}");
        }
        assert!(GoRegex::new(&"(".repeat(10_000)).is_err(), "deep nesting");
        assert!(GoRegex::new(&"\\pL{100}".repeat(100)).is_err(), "a huge program");
        for pattern in
            ["^.{1,253}$", "^\\S{1,1000}$", "^[^a]{0,1000}$", "^[\\p{L}\\p{N}_-]{1,63}$", "(?i)^[a-z]{1,1000}$"]
        {
            assert!(GoRegex::new(pattern).is_ok(), "{pattern}");
        }
        assert!(GoRegex::computed("^.{1,253}$").is_err(), "what is compiled each time is small");
    }

    #[test]
    fn repetitions_cost_what_they_repeat() {
        let cost = |pattern: &str| GoRegex::new(pattern).expect(pattern).cost(1_000);
        assert!(cost("(a{50}){10}") > 10 * cost("aaaaaaaa"));
    }
}
