//! The formats of texts that a schema may ask for. A format that is not known here asks for nothing.

use std::net::{Ipv4Addr, Ipv6Addr};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use jiff::civil::Date;

use setpoint_api::names;

/// A format by its name.
#[derive(Debug, Clone, Copy)]
pub struct Format(&'static Known);

/// A format's name, and what it asks for.
type Known = (&'static str, fn(&str) -> bool);

impl Format {
    pub fn find(name: &str) -> Option<Format> {
        FORMATS.iter().find(|(known, _)| *known == name).map(Format)
    }

    pub fn name(self) -> &'static str {
        self.0.0
    }

    pub fn matches(self, text: &str) -> bool {
        (self.0.1)(text)
    }
}

/// Whether a definition that names this format is understood. Formats of numbers are.
pub fn is_known(name: &str) -> bool {
    matches!(name, "" | "int32" | "int64" | "float" | "double" | "int-or-string") || Format::find(name).is_some()
}

const FORMATS: &[Known] = &[
    ("bsonobjectid", |text| text.len() == 24 && is_hex(text)),
    ("byte", |text| STANDARD.decode(text).is_ok()),
    ("cidr", is_cidr),
    ("creditcard", |text| (13..=19).contains(&digits(text).len()) && has_luhn_sum(&digits(text))),
    ("date", |text| text.len() == 10 && text.parse::<Date>().is_ok()),
    ("date-time", is_date_time),
    ("datetime", is_date_time),
    ("duration", is_duration),
    ("email", is_email),
    ("hexcolor", |text| {
        let digits = text.strip_prefix('#').unwrap_or(text);
        matches!(digits.len(), 3 | 6) && is_hex(digits)
    }),
    ("hostname", is_hostname),
    ("ipv4", |text| text.parse::<Ipv4Addr>().is_ok()),
    ("ipv6", |text| text.parse::<Ipv6Addr>().is_ok()),
    ("isbn", |text| is_isbn10(text) || is_isbn13(text)),
    ("isbn10", is_isbn10),
    ("isbn13", is_isbn13),
    ("k8s-long-name", |text| names::dns1123_subdomain(text).is_empty()),
    ("k8s-short-name", |text| names::dns1123_label(text).is_empty()),
    ("mac", is_mac),
    ("password", |_| true),
    ("rgbcolor", is_rgb_color),
    ("ssn", |text| has_groups(text, '-', &[3, 2, 4], |c| c.is_ascii_digit())),
    ("uri", is_uri),
    ("uuid", |text| is_uuid(text, None)),
    ("uuid3", |text| is_uuid(text, Some('3'))),
    ("uuid4", |text| is_uuid(text, Some('4'))),
    ("uuid5", |text| is_uuid(text, Some('5'))),
];

fn is_hex(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn has_groups(text: &str, separator: char, lengths: &[usize], allowed: fn(char) -> bool) -> bool {
    let groups: Vec<&str> = text.split(separator).collect();
    groups.len() == lengths.len()
        && groups.iter().zip(lengths).all(|(group, length)| group.len() == *length && group.chars().all(allowed))
}

fn is_cidr(text: &str) -> bool {
    let Some((address, bits)) = text.split_once('/') else { return false };
    let limit = match (address.parse::<Ipv4Addr>(), address.parse::<Ipv6Addr>()) {
        (Ok(_), _) => 32,
        (_, Ok(_)) => 128,
        _ => return false,
    };
    !bits.starts_with('+') && bits.parse::<u8>().is_ok_and(|bits| bits <= limit)
}

/// RFC 3339, which wants a `T` and a zone; a time without either is no point in time.
fn is_date_time(text: &str) -> bool {
    let separated = text.as_bytes().get(10).is_some_and(|byte| matches!(byte, b'T' | b't'));
    separated && text.parse::<jiff::Timestamp>().is_ok()
}

/// Numbers with units, such as `1h30m` or `1.5 days`.
fn is_duration(text: &str) -> bool {
    const UNITS: [&str; 30] = [
        "ns",
        "nano",
        "nanos",
        "nanosecond",
        "nanoseconds",
        "us",
        "µs",
        "micro",
        "micros",
        "microsecond",
        "ms",
        "milli",
        "millis",
        "millisecond",
        "milliseconds",
        "s",
        "sec",
        "secs",
        "second",
        "seconds",
        "m",
        "min",
        "mins",
        "minute",
        "minutes",
        "h",
        "hr",
        "hrs",
        "hour",
        "hours",
    ];
    const LONG_UNITS: [&str; 8] = ["d", "day", "days", "w", "wk", "week", "weeks", "wks"];
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text).trim();
    if rest == "0" {
        return true;
    }
    while !rest.is_empty() {
        let number = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let after = rest[number..].trim_start();
        let unit = after.find(|c: char| !c.is_alphabetic()).unwrap_or(after.len());
        let name = after[..unit].to_lowercase();
        let known = UNITS.contains(&name.as_str()) || LONG_UNITS.contains(&name.as_str());
        if rest[..number].parse::<f64>().is_err() || !known {
            return false;
        }
        rest = after[unit..].trim_start();
    }
    !text.trim().is_empty()
}

fn is_email(text: &str) -> bool {
    let Some((local, domain)) = text.rsplit_once('@') else { return false };
    let allowed = |c: char| c.is_alphanumeric() || "!#$%&'*+-/=?^_`{|}~.".contains(c);
    let dots = local.starts_with('.') || local.ends_with('.') || local.contains("..");
    !local.is_empty() && local.len() <= 64 && local.chars().all(allowed) && !dots && is_hostname(domain)
}

fn is_hostname(text: &str) -> bool {
    let label = |label: &str| {
        (1..=63).contains(&label.len())
            && label.chars().all(|c| c.is_alphanumeric() || matches!(c, '-' | '_'))
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    text.len() <= 255 && text.strip_suffix('.').unwrap_or(text).split('.').all(label)
}

fn is_isbn10(text: &str) -> bool {
    let digits: Vec<char> = text.chars().filter(|c| !matches!(c, '-' | ' ')).collect();
    let value = |(index, digit): (usize, &char)| match digit {
        'X' | 'x' if index == 9 => Some(10),
        digit => digit.to_digit(10),
    };
    let values: Option<Vec<u32>> = digits.iter().enumerate().map(value).collect();
    values.is_some_and(|values| {
        values.len() == 10
            && values.iter().zip((1..=10).rev()).map(|(value, weight)| value * weight).sum::<u32>() % 11 == 0
    })
}

fn is_isbn13(text: &str) -> bool {
    let digits = digits(text);
    let only_digits = text.chars().all(|c| c.is_ascii_digit() || matches!(c, '-' | ' '));
    let sum: u32 = digits.iter().zip([1, 3].into_iter().cycle()).map(|(digit, weight)| digit * weight).sum();
    only_digits && digits.len() == 13 && sum.is_multiple_of(10)
}

fn digits(text: &str) -> Vec<u32> {
    text.chars().filter_map(|c| c.to_digit(10)).collect()
}

fn has_luhn_sum(digits: &[u32]) -> bool {
    let doubled = |digit: u32| if digit > 4 { digit * 2 - 9 } else { digit * 2 };
    let sum: u32 = digits
        .iter()
        .rev()
        .enumerate()
        .map(|(index, digit)| if index % 2 == 1 { doubled(*digit) } else { *digit })
        .sum();
    sum.is_multiple_of(10)
}

fn is_mac(text: &str) -> bool {
    let hex = |c: char| c.is_ascii_hexdigit();
    [':', '-']
        .iter()
        .any(|separator| has_groups(text, *separator, &[2; 6], hex) || has_groups(text, *separator, &[2; 8], hex))
        || has_groups(text, '.', &[4; 3], hex)
}

fn is_rgb_color(text: &str) -> bool {
    let Some(inner) = text.strip_prefix("rgb(").and_then(|text| text.strip_suffix(')')) else { return false };
    let parts: Vec<&str> = inner.split(',').map(str::trim).collect();
    parts.len() == 3 && parts.iter().all(|part| part.parse::<u8>().is_ok())
}

/// An absolute path or anything with a scheme, as Go reads the target of a request.
fn is_uri(text: &str) -> bool {
    let plain = !text.is_empty() && text.chars().all(|c| !c.is_control() && c != ' ');
    let scheme = text.split_once(':').is_some_and(|(scheme, rest)| {
        let first = scheme.starts_with(|c: char| c.is_ascii_alphabetic());
        first && scheme.chars().all(|c| c.is_ascii_alphanumeric() || "+-.".contains(c)) && !rest.is_empty()
    });
    plain && (text.starts_with('/') || scheme)
}

fn is_uuid(text: &str, version: Option<char>) -> bool {
    let bare: String = text.chars().filter(|c| *c != '-').collect();
    let shaped = has_groups(text, '-', &[8, 4, 4, 4, 12], |c| c.is_ascii_hexdigit()) || text.len() == 32;
    shaped && bare.len() == 32 && is_hex(&bare) && version.is_none_or(|version| bare.chars().nth(12) == Some(version))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_has_a_format_or_not() {
        let rows = [
            ("date-time", "2030-01-01T00:00:00Z", true),
            ("date-time", "2030-01-01T00:00:00.5+02:00", true),
            ("date-time", "today", false),
            ("date-time", "2030-01-01", false),
            ("date", "2030-02-28", true),
            ("date", "2030-02-30", false),
            ("email", "a@example.com", true),
            ("email", "x", false),
            ("email", "a b@example.com", false),
            ("ipv4", "1.2.3.4", true),
            ("ipv4", "1.2.3", false),
            ("ipv6", "::1", true),
            ("ipv6", "1.2.3.4", false),
            ("cidr", "10.0.0.0/8", true),
            ("cidr", "10.0.0.0/33", false),
            ("hostname", "a.example.com", true),
            ("hostname", "-a", false),
            ("uri", "https://example.com/a?b=c", true),
            ("uri", "not a uri", false),
            ("uuid", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", true),
            ("uuid4", "6ba7b810-9dad-11d1-80b4-00c04fd430c8", false),
            ("byte", "aGk=", true),
            ("byte", "!", false),
            ("duration", "1h30m", true),
            ("duration", "3 days", true),
            ("duration", "soon", false),
            ("mac", "01:02:03:04:05:06", true),
            ("hexcolor", "#ff0000", true),
            ("isbn10", "3836221195", true),
            ("isbn13", "978-3836221191", true),
            ("isbn13", "978-3836221190", false),
            ("creditcard", "4111 1111 1111 1111", true),
            ("rgbcolor", "rgb(1, 2, 256)", false),
            ("k8s-short-name", "web", true),
            ("k8s-short-name", "a.b", false),
        ];
        for (format, text, expected) in rows {
            let found = Format::find(format).expect("a format");
            assert_eq!(found.matches(text), expected, "{format}: {text}");
        }
        assert!(!is_known("colour") && is_known("int32"));
    }
}
