//! Texts that stand for something: bytes, times, quantities. Each is checked and brought to the form Kubernetes writes.

use base64::Engine;
use base64::alphabet;
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use jiff::Timestamp;

use setpoint_api::quantity::Quantity;

/// Standard base64 that does not mind what the unused bits of the last character are.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_allow_trailing_bits(true)
        .with_decode_padding_mode(DecodePaddingMode::RequireCanonical),
);

pub(super) fn bytes(text: &str) -> Option<String> {
    let compact: String = text.chars().filter(|c| !matches!(c, '\r' | '\n')).collect();
    Some(BASE64.encode(BASE64.decode(compact).ok()?))
}

/// RFC 3339 in UTC, whole seconds.
pub(super) fn time(text: &str) -> Option<String> {
    let time = timestamp(text)?;
    Some(format!(
        "{:.0}",
        Timestamp::from_second(time.as_nanosecond().div_euclid(1_000_000_000).try_into().ok()?).ok()?
    ))
}

/// RFC 3339 in UTC with six digits of fraction, which must be given.
pub(super) fn micro_time(text: &str) -> Option<String> {
    let fraction = text.get(19..)?.strip_prefix('.')?;
    let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
    let time = timestamp(text)?;
    (digits == 6).then(|| format!("{time:.6}"))
}

pub(super) fn quantity(text: &str) -> Option<String> {
    Quantity::normalize(text).ok()
}

/// An RFC 3339 date and time; the looser forms that ISO 8601 knows are refused.
fn timestamp(text: &str) -> Option<Timestamp> {
    let form = "dddd-dd-ddTdd:dd:dd";
    let fits = |(byte, form): (u8, u8)| if form == b'd' { byte.is_ascii_digit() } else { byte == form };
    if text.len() < form.len() || !text.bytes().zip(form.bytes()).all(fits) {
        return None;
    }
    let zone = text[form.len()..].trim_start_matches(|c: char| c == '.' || c.is_ascii_digit());
    let full_zone = zone == "Z" || zone.len() == 6 && zone.as_bytes()[3] == b':';
    if full_zone { text.parse().ok() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_brought_to_utc() {
        for (text, seconds) in [
            ("2024-01-02T03:04:05Z", Some("2024-01-02T03:04:05Z")),
            ("2024-01-02T03:04:05.999Z", Some("2024-01-02T03:04:05Z")),
            ("2024-01-02T03:04:05+01:00", Some("2024-01-02T02:04:05Z")),
            ("1969-12-31T23:59:59.5Z", Some("1969-12-31T23:59:59Z")),
            ("2024-01-02", None),
            ("2024-01-02T03:04:05", None),
            ("2024-01-02 03:04:05Z", None),
            ("2024-01-02T03:04:05+01", None),
            ("2024-13-02T03:04:05Z", None),
            ("2024-01-02T03:04:05Z[UTC]", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(time(text).as_deref(), seconds, "{text}");
        }
    }

    #[test]
    fn micro_times_have_six_digits() {
        for (text, micros) in [
            ("2024-01-02T03:04:05.123456Z", Some("2024-01-02T03:04:05.123456Z")),
            ("2024-01-02T03:04:05.000000Z", Some("2024-01-02T03:04:05.000000Z")),
            ("2024-01-02T03:04:05.100000-01:00", Some("2024-01-02T04:04:05.100000Z")),
            ("2024-01-02T03:04:05Z", None),
            ("2024-01-02T03:04:05.123Z", None),
        ] {
            assert_eq!(micro_time(text).as_deref(), micros, "{text}");
        }
    }

    #[test]
    fn bytes_are_standard_base64() {
        for (text, canonical) in [
            ("", Some("")),
            ("aGk=", Some("aGk=")),
            ("aG\nk=", Some("aGk=")),
            ("aGl=", Some("aGk=")),
            ("aGk", None),
            ("a-k=", None),
            ("?", None),
        ] {
            assert_eq!(bytes(text).as_deref(), canonical, "{text}");
        }
    }
}
