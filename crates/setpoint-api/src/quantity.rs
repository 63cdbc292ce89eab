//! Amounts of resources as Kubernetes writes them: `100m`, `1.5Gi`, `12e6`.
//!
//! An amount is a whole number of billionths, which is the finest step Kubernetes keeps; what is finer is rounded away
//! from zero. Amounts of 10²⁹ and more are refused.

use std::cmp::Ordering;
use std::fmt;

use thiserror::Error;

const NANOS: i128 = 1_000_000_000;

const DECIMAL_SUFFIXES: [(&str, i32); 10] =
    [("n", -9), ("u", -6), ("m", -3), ("", 0), ("k", 3), ("M", 6), ("G", 9), ("T", 12), ("P", 15), ("E", 18)];
const BINARY_SUFFIXES: [&str; 7] = ["", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei"];

/// An amount, and the family of suffixes it is shown with.
#[derive(Debug, Clone, Copy)]
pub struct Quantity {
    nanos: i128,
    notation: Notation,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Notation {
    /// `m`, `k`, `M`, …
    Decimal,
    /// `e3`, `e6`, …
    Exponent,
    /// `Ki`, `Mi`, …
    Binary,
}

/// Why a text is no quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum QuantityError {
    #[error("quantities must match the regular expression '^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$'")]
    Format,
    #[error("unable to parse numeric part of quantity")]
    Number,
    #[error("unable to parse quantity's suffix")]
    Suffix,
}

impl Quantity {
    pub const ZERO: Quantity = Quantity { nanos: 0, notation: Notation::Decimal };

    pub fn parse(text: &str) -> Result<Quantity, QuantityError> {
        let Parts { negative, whole, fraction, suffix } = Parts::of(text)?;
        let (notation, exponent) = notation_of(suffix)?;
        let digits = || whole.bytes().chain(fraction.bytes()).map(|digit| i128::from(digit - b'0'));
        let mut mantissa: i128 = 0;
        for digit in digits() {
            mantissa = mantissa.checked_mul(10).and_then(|m| m.checked_add(digit)).ok_or(QuantityError::Number)?;
        }
        let fraction_digits = i32::try_from(fraction.len()).map_err(|_| QuantityError::Number)?;
        let mut notation = notation;
        let nanos = match notation {
            Notation::Binary => {
                let scaled = mantissa.checked_mul(1 << exponent).ok_or(QuantityError::Number)?;
                let nanos = scale_by_ten(scaled, 9 - fraction_digits)?;
                if nanos > 0 && nanos < NANOS {
                    notation = Notation::Decimal;
                }
                // Kubernetes caps binary amounts here; decimal ones go on.
                nanos.min(i128::from(i64::MAX) * NANOS)
            }
            Notation::Decimal | Notation::Exponent => {
                scale_by_ten(mantissa, exponent.saturating_sub(fraction_digits).saturating_add(9))?
            }
        };
        Ok(Quantity { nanos: if negative { -nanos } else { nanos }, notation })
    }

    /// The text Kubernetes stores for `text`: canonical, except that a spelling it takes for canonical stays as it is.
    pub fn normalize(text: &str) -> Result<String, QuantityError> {
        let text = text.trim();
        let quantity = Quantity::parse(text)?;
        Ok(if quantity.keeps_spelling(text)? { text.to_owned() } else { quantity.to_string() })
    }

    fn keeps_spelling(self, text: &str) -> Result<bool, QuantityError> {
        let parts = Parts::of(text)?;
        let (notation, exponent) = notation_of(parts.suffix)?;
        let (whole, fraction) = (parts.whole, parts.fraction);
        Ok(match notation {
            Notation::Binary => false,
            Notation::Decimal | Notation::Exponent => {
                let last_three = whole.bytes().chain(fraction.bytes()).rev().take(3);
                let ends_in_zeros = whole.len() + fraction.len() >= 3 && last_three.clone().all(|d| d == b'0');
                let places = i32::try_from(fraction.len()).unwrap_or(i32::MAX);
                let scale = exponent.saturating_sub(places);
                scale % 3 == 0
                    && scale >= -9
                    && !whole.is_empty()
                    && !ends_in_zeros
                    && whole.len() + fraction.len() <= 18
            }
        })
    }

    pub fn is_zero(self) -> bool {
        self.nanos == 0
    }

    pub fn is_negative(self) -> bool {
        self.nanos < 0
    }

    /// Whether it is a whole number of units.
    pub fn is_whole(self) -> bool {
        self.nanos % NANOS == 0
    }

    /// In units, if it is a whole number of them that fits.
    pub fn to_i64(self) -> Option<i64> {
        if self.is_whole() { i64::try_from(self.nanos / NANOS).ok() } else { None }
    }

    /// In units, as near as a fractional number comes.
    pub fn to_f64(self) -> f64 {
        self.nanos as f64 / NANOS as f64
    }

    /// The sum, shown with the suffixes of the first.
    pub fn checked_add(self, other: Quantity) -> Option<Quantity> {
        let notation = if self.is_zero() { other.notation } else { self.notation };
        Some(Quantity { nanos: self.nanos.checked_add(other.nanos)?, notation })
    }

    /// The difference, shown with the suffixes of the first.
    pub fn checked_sub(self, other: Quantity) -> Option<Quantity> {
        self.checked_add(Quantity { nanos: other.nanos.checked_neg()?, notation: other.notation })
    }

    /// In units, rounded away from zero, at most what fits.
    pub fn value(self) -> i64 {
        saturate(div_away_from_zero(self.nanos, NANOS))
    }

    /// In thousandths, rounded away from zero, at most what fits.
    pub fn milli_value(self) -> i64 {
        saturate(div_away_from_zero(self.nanos, NANOS / 1000))
    }
}

impl From<i64> for Quantity {
    fn from(units: i64) -> Quantity {
        Quantity { nanos: i128::from(units) * NANOS, notation: Notation::Exponent }
    }
}

impl PartialEq for Quantity {
    fn eq(&self, other: &Quantity) -> bool {
        self.nanos == other.nanos
    }
}

impl Eq for Quantity {}

impl PartialOrd for Quantity {
    fn partial_cmp(&self, other: &Quantity) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Quantity {
    fn cmp(&self, other: &Quantity) -> Ordering {
        self.nanos.cmp(&other.nanos)
    }
}

impl fmt::Display for Quantity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.nanos == 0 {
            return f.write_str("0");
        }
        let small = self.nanos.abs() < 1024 * NANOS;
        if self.notation == Notation::Binary && self.is_whole() && !small {
            let (mut amount, mut power) = (self.nanos / NANOS, 0);
            while amount % 1024 == 0 && power + 1 < BINARY_SUFFIXES.len() {
                amount /= 1024;
                power += 1;
            }
            return write!(f, "{amount}{}", BINARY_SUFFIXES[power]);
        }
        let largest = if self.notation == Notation::Exponent { i32::MAX } else { 18 };
        let (mut amount, mut exponent) = (self.nanos, -9);
        while amount % 1000 == 0 && exponent < largest {
            amount /= 1000;
            exponent += 3;
        }
        match (self.notation, exponent) {
            (_, 0) => write!(f, "{amount}"),
            (Notation::Exponent, _) => write!(f, "{amount}e{exponent}"),
            _ => {
                let suffix = DECIMAL_SUFFIXES.iter().find(|(_, e)| *e == exponent).map_or("", |(suffix, _)| suffix);
                write!(f, "{amount}{suffix}")
            }
        }
    }
}

/// The pieces of a quantity's text. Leading zeros of the whole part are gone.
struct Parts<'t> {
    negative: bool,
    whole: &'t str,
    fraction: &'t str,
    suffix: &'t str,
}

impl<'t> Parts<'t> {
    fn of(text: &'t str) -> Result<Parts<'t>, QuantityError> {
        if text.is_empty() {
            return Err(QuantityError::Format);
        }
        let (negative, rest) = match text.as_bytes()[0] {
            b'-' => (true, &text[1..]),
            b'+' => (false, &text[1..]),
            _ => (false, text),
        };
        let (whole, rest) = split_digits(rest);
        let (fraction, suffix) = match rest.strip_prefix('.') {
            Some(rest) => split_digits(rest),
            None => ("", rest),
        };
        if whole.is_empty() && fraction.is_empty() {
            return Err(if suffix.is_empty() { QuantityError::Number } else { QuantityError::Format });
        }
        Ok(Parts { negative, whole: whole.trim_start_matches('0'), fraction, suffix })
    }
}

fn split_digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// What a suffix means: its notation, and the power of ten (of two, for the binary ones).
fn notation_of(suffix: &str) -> Result<(Notation, i32), QuantityError> {
    if let Some((_, exponent)) = DECIMAL_SUFFIXES.iter().find(|(text, _)| *text == suffix) {
        return Ok((Notation::Decimal, *exponent));
    }
    if let Some(power) = (0i32..).zip(BINARY_SUFFIXES).find_map(|(power, text)| (text == suffix).then_some(power)) {
        return Ok((Notation::Binary, power * 10));
    }
    if !suffix.bytes().all(|b| b"eEinumkKMGTP+-0123456789".contains(&b)) {
        return Err(QuantityError::Format);
    }
    let exponent = suffix.strip_prefix(['e', 'E']).ok_or(QuantityError::Suffix)?;
    let exponent: i32 = exponent.parse().map_err(|_| QuantityError::Suffix)?;
    Ok((Notation::Exponent, exponent))
}

/// `amount` times ten to the `power`; what is lost by a negative power is rounded up.
fn scale_by_ten(amount: i128, power: i32) -> Result<i128, QuantityError> {
    if amount == 0 {
        return Ok(0);
    }
    let factor = 10i128.checked_pow(power.unsigned_abs());
    if power >= 0 {
        factor.and_then(|factor| amount.checked_mul(factor)).ok_or(QuantityError::Number)
    } else {
        Ok(factor.map_or(1, |factor| div_away_from_zero(amount, factor)))
    }
}

fn div_away_from_zero(amount: i128, divisor: i128) -> i128 {
    let quotient = amount / divisor;
    if amount % divisor == 0 { quotient } else { quotient + amount.signum() }
}

fn saturate(amount: i128) -> i64 {
    i64::try_from(amount).unwrap_or(if amount < 0 { i64::MIN } else { i64::MAX })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn texts_become_canonical() {
        for (text, canonical) in [
            ("0", "0"),
            ("0.0", "0"),
            ("1", "1"),
            ("1000", "1k"),
            ("1000m", "1"),
            ("1500m", "1500m"),
            ("0.5", "500m"),
            (".5", "500m"),
            ("1.5", "1500m"),
            ("1.234", "1.234"),
            ("1e3", "1e3"),
            ("1000e3", "1e6"),
            ("1E", "1E"),
            ("12E3", "12E3"),
            ("1.5Gi", "1536Mi"),
            ("1024Mi", "1Gi"),
            ("100Ki", "100Ki"),
            ("1Ki", "1Ki"),
            ("0.5Ki", "512"),
            ("0.5Mi", "512Ki"),
            ("1023", "1023"),
            ("-1Gi", "-1Gi"),
            ("1n", "1n"),
            ("0.1n", "1n"),
            ("128974848", "128974848"),
            ("129e6", "129e6"),
            ("9Ei", "9223372036854775807"),
            (" 1 ", "1"),
        ] {
            assert_eq!(Quantity::normalize(text).as_deref(), Ok(canonical), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in ["", "x", "1x", "1ki", "1 Gi", "Gi", "--1", "1.2.3", "1e", "1e1.5", "0x1", "1e99", "٣"] {
            assert!(Quantity::parse(text).is_err(), "{text}");
        }
    }

    #[test]
    fn amounts_compare_across_notations() {
        let quantity = |text: &str| Quantity::parse(text).expect(text);
        assert_eq!(quantity("1Ki"), quantity("1024"));
        assert!(quantity("1Gi") > quantity("1G"));
        assert_eq!(quantity("100m").value(), 1);
        assert_eq!(quantity("-100m").value(), -1);
        assert_eq!(quantity("1.0001").milli_value(), 1001);
    }

    #[test]
    fn amounts_are_added_and_converted() {
        let quantity = |text: &str| Quantity::parse(text).expect(text);
        assert_eq!(quantity("1Gi").checked_add(quantity("1Gi")).map(|sum| sum.to_string()).as_deref(), Some("2Gi"));
        assert_eq!(quantity("1").checked_sub(quantity("1500m")).map(|rest| rest.to_string()).as_deref(), Some("-500m"));
        assert_eq!(quantity("1k").checked_add(Quantity::from(1)), Some(quantity("1001")));
        assert_eq!((quantity("1k").to_i64(), quantity("1500m").to_i64()), (Some(1000), None));
        assert_eq!(quantity("1500m").to_f64(), 1.5);
    }

    proptest! {
        #[test]
        fn canonical_text_says_the_same_amount(
            amount in -1_000_000_000_000i64..1_000_000_000_000,
            suffix in prop::sample::select(vec!["n", "u", "m", "", "k", "M", "Ki", "Mi", "Gi", "e3", "e-3", "E2"]),
        ) {
            let quantity = Quantity::parse(&format!("{amount}{suffix}")).expect("a quantity");
            let again = Quantity::parse(&quantity.to_string()).expect("canonical text is a quantity");
            prop_assert_eq!(quantity, again);
            prop_assert_eq!(quantity.to_string(), again.to_string());
        }

        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,24}") {
            if let Ok(normal) = Quantity::normalize(&text) {
                prop_assert_eq!(Quantity::normalize(&normal), Ok(normal.clone()));
            }
        }
    }
}
