//! The times at which a CronJob runs: five fields of minutes, hours, days, months and weekdays, or a word for them.
//!
//! Nothing runs by it yet; it is read to be refused in time, in the words of the parser that Kubernetes uses.

/// The numbers a field can have, and names for them.
struct Bounds {
    low: u64,
    high: u64,
    names: &'static [&'static str],
}

const FIELDS: [Bounds; 5] = [
    Bounds { low: 0, high: 59, names: &[] },
    Bounds { low: 0, high: 23, names: &[] },
    Bounds { low: 1, high: 31, names: &[] },
    Bounds {
        low: 1,
        high: 12,
        names: &["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"],
    },
    Bounds { low: 0, high: 6, names: &["sun", "mon", "tue", "wed", "thu", "fri", "sat"] },
];

const WORDS: [&str; 7] = ["@yearly", "@annually", "@monthly", "@weekly", "@daily", "@midnight", "@hourly"];

/// Why a text is no schedule.
pub(super) fn check(schedule: &str) -> Result<(), String> {
    let schedule = without_zone(schedule);
    if schedule.starts_with('@') {
        return check_word(schedule);
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        let (wanted, found) = (FIELDS.len(), fields.len());
        return Err(format!("expected exactly {wanted} fields, found {found}: [{}]", fields.join(" ")));
    }
    for (field, bounds) in fields.iter().zip(&FIELDS) {
        for range in field.split(',').filter(|range| !range.is_empty()) {
            check_range(range, bounds)?;
        }
    }
    Ok(())
}

/// A schedule may begin with its time zone, which is refused for another reason.
fn without_zone(schedule: &str) -> &str {
    let zoned = schedule.starts_with("TZ=") || schedule.starts_with("CRON_TZ=");
    schedule.split_once(' ').filter(|_| zoned).map_or(schedule, |(_, rest)| rest.trim())
}

fn check_word(word: &str) -> Result<(), String> {
    if WORDS.contains(&word) {
        return Ok(());
    }
    match word.strip_prefix("@every ") {
        Some(duration) if is_duration(duration) => Ok(()),
        Some(duration) => {
            Err(format!("failed to parse duration {word}: time: invalid duration {}", serde_json::json!(duration)))
        }
        None => Err(format!("unrecognized descriptor: {word}")),
    }
}

/// Whether a text is a duration such as `1h30m`.
fn is_duration(text: &str) -> bool {
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    if rest == "0" {
        return true;
    }
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(rest.len());
        let (number, after) = rest.split_at(digits);
        let unit = ["ns", "us", "µs", "μs", "ms", "s", "m", "h"].into_iter().filter(|unit| after.starts_with(unit));
        let Some(unit) = unit.max_by_key(|unit| unit.len()) else { return false };
        if !number.contains(|c: char| c.is_ascii_digit()) || number.matches('.').count() > 1 {
            return false;
        }
        rest = &after[unit.len()..];
        parts += 1;
    }
    parts > 0
}

fn check_range(range: &str, bounds: &Bounds) -> Result<(), String> {
    let steps: Vec<&str> = range.split('/').collect();
    let ends: Vec<&str> = steps[0].split('-').collect();
    let (start, mut end) = match ends[..] {
        ["*" | "?", ..] => (bounds.low, bounds.high),
        [only] => {
            let only = number_or_name(only, bounds)?;
            (only, only)
        }
        [first, last] => (number_or_name(first, bounds)?, number_or_name(last, bounds)?),
        _ => {
            number_or_name(ends[0], bounds)?;
            return Err(format!("too many hyphens: {range}"));
        }
    };
    let step = match steps[..] {
        [_] => 1,
        [_, step] => {
            let step = number(step)?;
            if ends.len() == 1 {
                end = bounds.high;
            }
            step
        }
        _ => return Err(format!("too many slashes: {range}")),
    };
    let Bounds { low, high, .. } = bounds;
    match () {
        () if start < *low => Err(format!("beginning of range ({start}) below minimum ({low}): {range}")),
        () if end > *high => Err(format!("end of range ({end}) above maximum ({high}): {range}")),
        () if start > end => Err(format!("beginning of range ({start}) beyond end of range ({end}): {range}")),
        () if step == 0 => Err(format!("step of range should be a positive number: {range}")),
        () => Ok(()),
    }
}

fn number_or_name(text: &str, bounds: &Bounds) -> Result<u64, String> {
    let named = bounds.names.iter().position(|name| name.eq_ignore_ascii_case(text));
    named.map_or_else(|| number(text), |index| Ok(bounds.low + index as u64))
}

fn number(text: &str) -> Result<u64, String> {
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    let shown = serde_json::json!(text);
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_digit()) {
        return Err(format!("failed to parse int from {text}: strconv.Atoi: parsing {shown}: invalid syntax"));
    }
    let number: i64 = text
        .parse()
        .map_err(|_| format!("failed to parse int from {text}: strconv.Atoi: parsing {shown}: value out of range"))?;
    u64::try_from(number).map_err(|_| format!("negative number ({number}) not allowed: {text}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn schedules_are_read() {
        for good in [
            "* * * * *",
            "*/5 0-6,22 1 jan-MAR mon",
            "0 0 ? * SUN",
            "5/15 * * * *",
            "@hourly",
            "@every 1h30m",
            "@every 1.5h",
            "TZ=UTC 0 0 * * *",
        ] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let rows = [
            ("words", "every day", "expected exactly 5 fields, found 2: [every day]"),
            ("seconds too", "0 0 0 0 0 0", "expected exactly 5 fields, found 6: [0 0 0 0 0 0]"),
            ("no number", "a * * * *", "failed to parse int from a: strconv.Atoi: parsing \"a\": invalid syntax"),
            ("too late", "60 * * * *", "end of range (60) above maximum (59): 60"),
            ("no day", "* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("backwards", "* 6-2 * * *", "beginning of range (6) beyond end of range (2): 6-2"),
            ("no step", "*/0 * * * *", "step of range should be a positive number: */0"),
            ("hyphens", "1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("slashes", "*/1/2 * * * *", "too many slashes: */1/2"),
            (
                "too large",
                "99999999999999999999 * * * *",
                "failed to parse int from 99999999999999999999: strconv.Atoi: parsing \"99999999999999999999\": value out of \
                 range",
            ),
            ("an unknown word", "@often", "unrecognized descriptor: @often"),
            ("no duration", "@every day", "failed to parse duration @every day: time: invalid duration \"day\""),
        ];
        for (name, schedule, expected) in rows {
            assert_eq!(check(schedule), Err(expected.to_owned()), "{name}");
        }
    }
}
