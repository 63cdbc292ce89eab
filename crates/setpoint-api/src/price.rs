//! What something costs per hour, exactly.

use std::borrow::Cow;
use std::fmt;
use std::iter::Sum;
use std::ops::{Add, Neg, Sub};
use std::str::FromStr;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use thiserror::Error;

const MICROS: i64 = 1_000_000;
const MAX_DIGITS: usize = 6;

/// An hourly price in US dollars, in whole millionths. It is written as a decimal text: `"0.34"`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub struct Price {
    micros: i64,
}

/// Why a text is no price.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be an hourly price in dollars with at most six decimals, such as \"0.34\"")]
pub struct PriceError;

impl Price {
    pub const ZERO: Price = Price { micros: 0 };

    pub const fn from_micros(micros: i64) -> Price {
        Price { micros }
    }

    pub const fn micros(self) -> i64 {
        self.micros
    }
}

impl Add for Price {
    type Output = Price;

    fn add(self, other: Price) -> Price {
        Price { micros: self.micros.saturating_add(other.micros) }
    }
}

impl Sub for Price {
    type Output = Price;

    fn sub(self, other: Price) -> Price {
        Price { micros: self.micros.saturating_sub(other.micros) }
    }
}

impl Neg for Price {
    type Output = Price;

    fn neg(self) -> Price {
        Price { micros: self.micros.saturating_neg() }
    }
}

impl Sum for Price {
    fn sum<I: Iterator<Item = Price>>(prices: I) -> Price {
        prices.fold(Price::ZERO, Add::add)
    }
}

/// `0.34`, `-12.50`, `0.000125`: at least two decimals, and no zeros beyond them.
impl fmt::Display for Price {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let sign = if self.micros < 0 { "-" } else { "" };
        let micros = self.micros.unsigned_abs();
        let (whole, fraction) = (micros / MICROS.unsigned_abs(), micros % MICROS.unsigned_abs());
        let digits = format!("{fraction:06}");
        let shown = digits.trim_end_matches('0').len().max(2);
        write!(f, "{sign}{whole}.{}", &digits[..shown])
    }
}

impl FromStr for Price {
    type Err = PriceError;

    fn from_str(text: &str) -> Result<Price, PriceError> {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
        let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        if !is_number(whole) || !is_number(fraction) || fraction.len() > MAX_DIGITS {
            return Err(PriceError);
        }
        let whole: i64 = whole.parse().map_err(|_| PriceError)?;
        let fraction: i64 = format!("{fraction:0<6}").parse().map_err(|_| PriceError)?;
        let micros = whole.checked_mul(MICROS).and_then(|micros| micros.checked_add(fraction)).ok_or(PriceError)?;
        Ok(Price { micros: if negative { -micros } else { micros } })
    }
}

impl Serialize for Price {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Price {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Price, D::Error> {
        Cow::<'de, str>::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

impl JsonSchema for Price {
    fn schema_name() -> Cow<'static, str> {
        "Price".into()
    }

    fn inline_schema() -> bool {
        true
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "string", "pattern": r"^-?[0-9]{1,12}(\.[0-9]{1,6})?$" })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn prices_are_written_exactly() {
        for (text, micros, shown) in [
            ("0", 0, "0.00"),
            ("0.34", 340_000, "0.34"),
            ("12.5", 12_500_000, "12.50"),
            ("-2", -2_000_000, "-2.00"),
            ("0.000125", 125, "0.000125"),
            ("-0.5", -500_000, "-0.50"),
        ] {
            let price: Price = text.parse().unwrap();
            assert_eq!((price.micros(), price.to_string()), (micros, shown.to_owned()), "{text}");
            assert_eq!(price.to_string().parse(), Ok(price), "{text}");
        }
    }

    #[test]
    fn what_is_no_price_is_refused() {
        for text in ["", "-", ".5", "5.", "1,5", "1e3", "0.1234567", "$1", "+1", "99999999999999999999"] {
            assert_eq!(text.parse::<Price>(), Err(PriceError), "{text:?}");
        }
    }
}
