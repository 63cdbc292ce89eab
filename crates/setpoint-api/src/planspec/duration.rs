//! A length of time as people write it: `90s`, `1h30m`, `7d`.

use std::borrow::Cow;
use std::fmt;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::field::{Errors, Path};

const UNITS: [(&str, u128); 9] = [
    ("ns", 1),
    ("us", 1_000),
    ("µs", 1_000),
    ("μs", 1_000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3_600 * SECOND),
    ("d", 86_400 * SECOND),
];
const SECOND: u128 = 1_000_000_000;
/// More decimals than these are less than a nanosecond, even of a day.
const MAX_DECIMALS: usize = 18;
const PATTERN: &str = r"^\+?(0|(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h|d))+)$";

/// A length of time: what Go's tools accept (`1h30m`, `1.5s`, `250ms`), and days (`7d`, `1d12h`), each of 24 hours.
///
/// It is kept as the text that was written, also where that is none: reading a document must not fail before all its
/// errors can be told. [`Duration::length`] says what it means.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Duration {
    text: String,
}

/// Why a text is no duration.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum DurationError {
    #[error("must be a duration such as \"90s\", \"1h30m\" or \"7d\"")]
    Malformed,
    #[error("missing unit after {0:?}: one of ns, us, ms, s, m, h, d")]
    MissingUnit(String),
    #[error("unknown unit {0:?}: must be one of ns, us, ms, s, m, h, d")]
    UnknownUnit(String),
    #[error("must not be negative")]
    Negative,
    #[error("must be less than 584 billion years")]
    TooLong,
}

impl Duration {
    pub fn new(text: impl Into<String>) -> Duration {
        Duration { text: text.into() }
    }

    /// The text as it was written.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// How long it is. Fractions of a nanosecond are dropped.
    pub fn length(&self) -> Result<std::time::Duration, DurationError> {
        let nanos = nanos(&self.text)?;
        let seconds = u64::try_from(nanos / SECOND).map_err(|_| DurationError::TooLong)?;
        let rest = u32::try_from(nanos % SECOND).expect("less than a second in nanoseconds is 30 bits");
        Ok(std::time::Duration::new(seconds, rest))
    }

    /// The whole seconds in it.
    pub fn seconds(&self) -> Result<u64, DurationError> {
        self.length().map(|length| length.as_secs())
    }

    /// All of it in nanoseconds.
    pub fn nanos(&self) -> Result<u128, DurationError> {
        self.length().map(|length| length.as_nanos())
    }

    /// Says what is wrong with a duration that stands at `path`.
    pub fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if let Err(error) = self.length() {
            errors.invalid(path, &self.text, &error.to_string());
        }
    }
}

fn nanos(text: &str) -> Result<u128, DurationError> {
    if let Some(text) = text.strip_prefix('-') {
        let malformed = text.starts_with(['-', '+']) || nanos(text).is_err();
        return Err(if malformed { DurationError::Malformed } else { DurationError::Negative });
    }
    let mut rest = text.strip_prefix('+').unwrap_or(text);
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(DurationError::Malformed);
    }
    let mut total: u128 = 0;
    while !rest.is_empty() {
        let (part, after) = part(rest)?;
        total = total.checked_add(part).ok_or(DurationError::TooLong)?;
        rest = after;
    }
    Ok(total)
}

/// The first number and unit of a text in nanoseconds, and what follows them.
fn part(text: &str) -> Result<(u128, &str), DurationError> {
    let (whole, after) = digits(text);
    let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
    if whole.is_empty() && fraction.is_empty() {
        return Err(DurationError::Malformed);
    }
    let number = &text[..text.len() - after.len()];
    let unit_end = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
    let (unit, after) = after.split_at(unit_end);
    if unit.is_empty() {
        return Err(DurationError::MissingUnit(number.to_owned()));
    }
    let Some((_, scale)) = UNITS.iter().find(|(name, _)| *name == unit) else {
        return Err(DurationError::UnknownUnit(unit.to_owned()));
    };
    let whole: u128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| DurationError::TooLong)? };
    let whole = whole.checked_mul(*scale).ok_or(DurationError::TooLong)?;
    let part = whole.checked_add(fraction_of(fraction, *scale)).ok_or(DurationError::TooLong)?;
    Ok((part, after))
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len()))
}

fn fraction_of(decimals: &str, scale: u128) -> u128 {
    let bytes = decimals.bytes().take(MAX_DECIMALS);
    let (value, places) =
        bytes.fold((0, 1), |(value, places), digit| (value * 10 + u128::from(digit - b'0'), places * 10));
    value * scale / places
}

impl fmt::Display for Duration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl From<&str> for Duration {
    fn from(text: &str) -> Duration {
        Duration::new(text)
    }
}

impl JsonSchema for Duration {
    fn schema_name() -> Cow<'static, str> {
        "Duration".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": PATTERN})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read() {
        const SECOND_U64: u64 = 1_000_000_000;
        let rows: [(&str, &str, u64); 18] = [
            ("a second", "1s", SECOND_U64),
            ("hours and minutes", "1h30m", 5_400 * SECOND_U64),
            ("days, which the published schema refuses and its text promises", "7d", 604_800 * SECOND_U64),
            ("a day and a half", "1d12h", 129_600 * SECOND_U64),
            ("units in any order", "12h1d", 129_600 * SECOND_U64),
            ("the same unit twice", "1s1s", 2 * SECOND_U64),
            ("nanoseconds", "500ns", 500),
            ("microseconds as ASCII writes them", "5us", 5_000),
            ("microseconds with the micro sign", "5µs", 5_000),
            ("microseconds with the Greek letter", "5μs", 5_000),
            ("milliseconds, not minutes", "5ms", 5_000_000),
            ("a fraction", "1.5h", 5_400 * SECOND_U64),
            ("a fraction without a whole", ".5s", SECOND_U64 / 2),
            ("a whole with an empty fraction", "1.s", SECOND_U64),
            ("a fraction of a nanosecond is dropped", "1.9ns", 1),
            ("more decimals than count", "0.3333333333333333333333333s", 333_333_333),
            ("zero needs no unit", "0", 0),
            ("a plus sign", "+2m", 120 * SECOND_U64),
        ];
        for (name, text, nanos) in rows {
            let duration = Duration::new(text);
            assert_eq!(duration.nanos(), Ok(u128::from(nanos)), "{name}");
            assert_eq!(duration.seconds(), Ok(nanos / SECOND_U64), "{name}");
            assert_eq!(duration.to_string(), text, "{name}: the text is kept");
        }
    }

    #[test]
    fn what_is_no_duration_is_told() {
        let rows = [
            ("nothing", "", DurationError::Malformed),
            ("a word", "soon", DurationError::Malformed),
            ("a sign alone", "+", DurationError::Malformed),
            ("a point alone", ".s", DurationError::Malformed),
            ("a space inside", "1 h", DurationError::UnknownUnit(" h".to_owned())),
            ("a number without a unit", "90", DurationError::MissingUnit("90".to_owned())),
            ("a last number without a unit", "1h30", DurationError::MissingUnit("30".to_owned())),
            ("weeks", "10w", DurationError::UnknownUnit("w".to_owned())),
            ("capital letters", "1H", DurationError::UnknownUnit("H".to_owned())),
            ("a negative one", "-1h", DurationError::Negative),
            ("a negative word", "-x", DurationError::Malformed),
            ("two signs", "--1h", DurationError::Malformed),
            ("more seconds than can be counted", "99999999999999999999s", DurationError::TooLong),
            ("more digits than any number", &format!("{}h", "9".repeat(60)), DurationError::TooLong),
        ];
        for (name, text, error) in rows {
            assert_eq!(Duration::new(text).length(), Err(error), "{name}");
        }
    }
}
