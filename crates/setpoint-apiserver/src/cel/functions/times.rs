//! Parts of timestamps and durations.

use jiff::civil::DateTime;

use crate::cel::function::{Function, member};
use crate::cel::time::Instant;
use crate::cel::value::{Fault, Value};

const OF_TIMESTAMP: &[&str] = &["(timestamp) -> int", "(timestamp, string) -> int"];
const OF_BOTH: &[&str] = &["(timestamp) -> int", "(timestamp, string) -> int", "(duration) -> int"];

pub(super) const FUNCTIONS: &[Function] = &[
    member("getFullYear", OF_TIMESTAMP, |_, arguments| part(arguments, |local| i64::from(local.year()), None)),
    member("getMonth", OF_TIMESTAMP, |_, arguments| part(arguments, |local| i64::from(local.month()) - 1, None)),
    member("getDayOfYear", OF_TIMESTAMP, |_, arguments| {
        part(arguments, |local| i64::from(local.day_of_year()) - 1, None)
    }),
    member("getDayOfMonth", OF_TIMESTAMP, |_, arguments| part(arguments, |local| i64::from(local.day()) - 1, None)),
    member("getDate", OF_TIMESTAMP, |_, arguments| part(arguments, |local| i64::from(local.day()), None)),
    member("getDayOfWeek", OF_TIMESTAMP, |_, arguments| {
        part(arguments, |local| i64::from(local.weekday().to_sunday_zero_offset()), None)
    }),
    member("getHours", OF_BOTH, |_, arguments| {
        part(arguments, |local| i64::from(local.hour()), Some(3_600_000_000_000))
    }),
    member("getMinutes", OF_BOTH, |_, arguments| {
        part(arguments, |local| i64::from(local.minute()), Some(60_000_000_000))
    }),
    member("getSeconds", OF_BOTH, |_, arguments| {
        part(arguments, |local| i64::from(local.second()), Some(1_000_000_000))
    }),
    member("getMilliseconds", OF_BOTH, |_, arguments| {
        part(arguments, |local| i64::from(local.subsec_nanosecond() / 1_000_000), Some(1_000_000))
    }),
];

/// A part of a point in time; of a duration, how many units of so many nanoseconds it holds.
fn part<'a>(arguments: &[Value<'a>], part: fn(DateTime) -> i64, unit: Option<i64>) -> Result<Value<'a>, Fault> {
    let of = |timestamp: &Instant, zone: i64| {
        let local = timestamp.local(zone).ok_or_else(|| Fault::failed("timestamp overflow"))?;
        Ok(Value::Int(part(local)))
    };
    match (arguments, unit) {
        ([Value::Timestamp(timestamp)], _) => of(timestamp, 0),
        ([Value::Timestamp(timestamp), Value::String(zone)], _) => of(timestamp, seconds_east(zone)?),
        ([Value::Duration(nanos)], Some(unit)) => Ok(Value::Int(nanos / unit)),
        _ => Err(Fault::no_such_overload()),
    }
}

/// A zone by its distance from UTC. There is no database of zones here: a named one is unknown.
fn seconds_east(zone: &str) -> Result<i64, Fault> {
    if matches!(zone, "" | "UTC") {
        return Ok(0);
    }
    let unknown = || Fault::failed(format!("unknown time zone {zone}"));
    let (hours, minutes) = zone.split_once(':').ok_or_else(unknown)?;
    let (hours, minutes): (i16, i16) = (hours.parse().map_err(|_| unknown())?, minutes.parse().map_err(|_| unknown())?);
    let minutes = if zone.starts_with('-') { -i64::from(minutes) } else { i64::from(minutes) };
    Ok(i64::from(hours) * 3_600 + minutes * 60)
}
