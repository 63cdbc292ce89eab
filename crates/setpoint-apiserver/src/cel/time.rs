//! Durations and points in time as texts. Durations are whole nanoseconds and reach some 292 years; points in time lie in
//! the years 1 to 9999.

use jiff::SignedDuration;
use jiff::civil::{Date, DateTime, Time};

const NANOS_PER_SECOND: i128 = 1_000_000_000;
const MIN_SECOND: i64 = -62_135_596_800;
const MAX_SECOND: i64 = 253_402_300_799;
const EPOCH: DateTime = DateTime::constant(1970, 1, 1, 0, 0, 0, 0);

/// A point in time, as what has passed since 1970. (A `jiff::Timestamp` ends some hours before the year 9999 does.)
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Instant(SignedDuration);

impl Instant {
    /// None if it is out of range.
    pub(super) fn of_nanoseconds(nanos: i128) -> Option<Instant> {
        let seconds = i64::try_from(nanos.div_euclid(NANOS_PER_SECOND)).ok()?;
        let rest = i32::try_from(nanos.rem_euclid(NANOS_PER_SECOND)).ok()?;
        (MIN_SECOND..=MAX_SECOND).contains(&seconds).then(|| Instant(SignedDuration::new(seconds, rest)))
    }

    fn of_utc(local: DateTime) -> Option<Instant> {
        Instant::of_nanoseconds(local.duration_since(EPOCH).as_nanos())
    }

    pub(super) fn as_nanoseconds(self) -> i128 {
        self.0.as_nanos()
    }

    /// What clocks show that go so many seconds ahead of UTC; none past the last year.
    pub(super) fn local(self, seconds_east: i64) -> Option<DateTime> {
        EPOCH.checked_add(self.0.checked_add(SignedDuration::from_secs(seconds_east))?).ok()
    }
}

/// Why a text is no point in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum TimeError {
    Syntax,
    Range,
}

/// A duration as Go writes it: `1h30m`, `-1.5s`, `0`.
pub(super) fn duration(text: &str) -> Option<i64> {
    let (negative, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let (whole, after) = digits(rest);
        let (fraction, after) = after.strip_prefix('.').map_or(("", after), digits);
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let length = after.find(|c: char| c == '.' || c.is_ascii_digit()).unwrap_or(after.len());
        let unit = match &after[..length] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => NANOS_PER_SECOND,
            "m" => 60 * NANOS_PER_SECOND,
            "h" => 3_600 * NANOS_PER_SECOND,
            _ => return None,
        };
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total = total.checked_add(whole.checked_mul(unit)?)?;
        // What is finer than the unit can say does not count.
        let mut scale = unit;
        for digit in fraction.bytes() {
            scale /= 10;
            total = total.checked_add(i128::from(digit - b'0') * scale)?;
        }
        rest = &after[length..];
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

fn digits(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

/// A duration in an object: as Go writes it, or with units in words (`3 days`).
pub(super) fn data_duration(text: &str) -> Option<i64> {
    duration(text).or_else(|| duration_in_words(text))
}

fn duration_in_words(text: &str) -> Option<i64> {
    const DAY: i64 = 86_400 * 1_000_000_000;
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], DAY),
        (&["w", "wk", "week"], 7 * DAY),
    ];
    let (mut total, mut found, mut rest) = (0i64, false, text);
    while let Some(start) = rest.find(|c: char| c.is_ascii_digit()) {
        let (number, after) = digits(&rest[start..]);
        let after = after.trim_start();
        let length = after.find(|c: char| !c.is_ascii_alphabetic() && c != 'µ').unwrap_or(after.len());
        let unit = after[..length].to_lowercase();
        rest = &after[length..];
        let is =
            |names: &[&str]| names.contains(&unit.as_str()) || names.last().is_some_and(|last| unit.starts_with(last));
        if let Some((_, nanos)) = UNITS.iter().find(|(names, _)| is(names)) {
            let number: i64 = number.parse().ok()?;
            total = total.wrapping_add(number.wrapping_mul(*nanos));
            found = true;
        }
    }
    found.then_some(total)
}

/// A duration in seconds, as CEL writes it: `3600s`, `0.5s`.
pub(super) fn show_duration(nanos: i64) -> String {
    format!("{}s", nanos as f64 / 1e9)
}

/// A point in time as RFC 3339 writes it.
pub(super) fn timestamp(text: &str) -> Result<Instant, TimeError> {
    let (local, zone) = local(text).ok_or(TimeError::Syntax)?;
    let offset = offset(zone).ok_or(TimeError::Syntax)?;
    let nanos = local.duration_since(EPOCH).as_nanos() - i128::from(offset) * NANOS_PER_SECOND;
    Instant::of_nanoseconds(nanos).ok_or(TimeError::Range)
}

/// A date, at its first instant.
pub(super) fn date(text: &str) -> Option<Instant> {
    let (date, rest) = split_date(text)?;
    if rest.is_empty() { Instant::of_utc(date.to_datetime(Time::midnight())) } else { None }
}

/// A point in time in an object, which may lack its zone.
pub(super) fn date_time(text: &str) -> Option<Instant> {
    if text.is_empty() {
        return Instant::of_nanoseconds(0);
    }
    match local(text)? {
        (local, "") => Instant::of_utc(local),
        _ => timestamp(text).ok(),
    }
}

pub(super) fn show_timestamp(instant: Instant) -> String {
    let local = instant.local(0).unwrap_or(EPOCH);
    let mut fraction = String::new();
    if local.subsec_nanosecond() != 0 {
        fraction = format!(".{:09}", local.subsec_nanosecond());
        fraction.truncate(fraction.trim_end_matches('0').len());
    }
    let (year, month, day) = (local.year(), local.month(), local.day());
    let (hour, minute, second) = (local.hour(), local.minute(), local.second());
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}{fraction}Z")
}

/// The seconds east of UTC of a zone: `Z`, `+01:00`.
fn offset(zone: &str) -> Option<i64> {
    if zone == "Z" {
        return Some(0);
    }
    let sign = match zone.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = zone[1..].split_once(':')?;
    let (hours, minutes) = (two_digits(hours)?, two_digits(minutes)?);
    (hours <= 24 && minutes < 60).then(|| sign * (i64::from(hours) * 3_600 + i64::from(minutes) * 60))
}

/// Date and time without the zone, and what follows.
fn local(text: &str) -> Option<(DateTime, &str)> {
    let (date, rest) = split_date(text)?;
    let rest = rest.strip_prefix('T')?;
    let (hour, minute, second) = (rest.get(..2)?, rest.get(3..5)?, rest.get(6..8)?);
    if rest.as_bytes().get(2) != Some(&b':') || rest.as_bytes().get(5) != Some(&b':') {
        return None;
    }
    let mut rest = rest.get(8..)?;
    let mut nanos = 0;
    if let Some(after) = rest.strip_prefix(['.', ',']) {
        let (fraction, after) = digits(after);
        if fraction.is_empty() {
            return None;
        }
        let kept = &fraction[..fraction.len().min(9)];
        nanos = kept.parse::<i32>().ok()? * 10i32.pow(9 - u32::try_from(kept.len()).ok()?);
        rest = after;
    }
    let time = Time::new(two_digits(hour)?, two_digits(minute)?, two_digits(second)?, nanos).ok()?;
    Some((date.to_datetime(time), rest))
}

fn split_date(text: &str) -> Option<(Date, &str)> {
    let (year, month, day) = (text.get(..4)?, text.get(5..7)?, text.get(8..10)?);
    if text.as_bytes()[4] != b'-' || text.as_bytes()[7] != b'-' || !year.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let date = Date::new(year.parse().ok()?, two_digits(month)?, two_digits(day)?).ok()?;
    Some((date, text.get(10..)?))
}

fn two_digits(text: &str) -> Option<i8> {
    (text.len() == 2 && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok()).flatten()
}
