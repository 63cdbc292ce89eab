//! When the steps of an environment may be taken: freezes, and the hours that are open.

use std::fmt;

use jiff::Timestamp;
use jiff::civil::{Time, Weekday};
use jiff::tz::{Offset, TimeZone};
use k8s_openapi::apimachinery::pkg::apis::meta::v1;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::{Errors, Path};
use crate::rules::{self, Seen};
use crate::step::Class;

/// How many windows an environment may have.
pub const MAX_WINDOWS: usize = 50;
const MAX_REASON: usize = 256;
const MAX_TIME_ZONE: usize = 64;

/// A freeze, or hours in which steps may be taken. A class of step that has openings may be taken in these alone; a freeze
/// closes it whatever is open.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
#[x_kube(validation = Rule::new("has(self.freeze) != has(self.opening)").message("exactly one of freeze and opening must be set"))]
pub struct Window {
    /// The classes of step that it is about; all, where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 4))]
    pub classes: Vec<Class>,
    /// A time in which no such step is taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub freeze: Option<Freeze>,
    /// Hours of the week in which such steps may be taken.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub opening: Option<Opening>,
}

/// A time in which no step is taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Freeze {
    /// When it begins.
    #[schemars(with = "v1::Time")]
    pub from: Timestamp,
    /// When it ends; absent where that is not known yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<v1::Time>")]
    pub until: Option<Timestamp>,
    /// Why, in words for people who wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 256))]
    pub reason: Option<String>,
}

/// Hours of the week in which steps may be taken.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Opening {
    /// The days on which it begins; every day, where none is named.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 7))]
    pub days: Vec<Day>,
    /// When it begins, such as `22:00`.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub from: String,
    /// When it ends, such as `06:00`. Where that is not later than `from`, it is on the next day.
    #[schemars(regex(pattern = r"^([01][0-9]|2[0-3]):[0-5][0-9]$"))]
    pub until: String,
    /// `UTC`, an offset from it such as `+02:00`, or a POSIX time zone with its rule for summer time, such as
    /// `CET-1CEST,M3.5.0,M10.5.0/3`.
    #[serde(default = "default_time_zone")]
    #[schemars(length(min = 1, max = 64))]
    pub time_zone: String,
}

/// A day of the week.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum Day {
    Mon,
    Tue,
    Wed,
    Thu,
    Fri,
    Sat,
    Sun,
}

impl Window {
    /// Whether it is about this class of step.
    pub fn concerns(&self, class: Class) -> bool {
        self.classes.is_empty() || self.classes.contains(&class)
    }

    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let mut seen = Seen::default();
        for (index, class) in self.classes.iter().enumerate() {
            seen.check(&path.field("classes").index(index), &format!("{class:?}"), errors);
        }
        if self.freeze.is_some() == self.opening.is_some() {
            errors.invalid(path, "", "exactly one of freeze and opening must be set");
        }
        if let Some(freeze) = &self.freeze {
            freeze.validate(&path.field("freeze"), errors);
        }
        if let Some(opening) = &self.opening {
            opening.validate(&path.field("opening"), errors);
        }
    }
}

impl Freeze {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if let Some(until) = self.until.filter(|until| *until <= self.from) {
            errors.invalid(&path.field("until"), until, "must be later than from");
        }
        if let Some(reason) = &self.reason {
            rules::one_line(&path.field("reason"), reason, MAX_REASON, errors);
        }
    }
}

impl Opening {
    /// When it begins and ends on a day; none where it is not sound.
    pub fn hours(&self) -> Option<(Time, Time)> {
        Some((time(&self.from)?, time(&self.until)?))
    }

    /// The time zone of its hours; none where it is not sound.
    pub fn zone(&self) -> Option<TimeZone> {
        match self.time_zone.as_bytes() {
            b"UTC" => Some(TimeZone::UTC),
            [b'+' | b'-', ..] => offset(&self.time_zone).map(TimeZone::fixed),
            _ => TimeZone::posix(&self.time_zone).ok(),
        }
    }

    /// Whether it begins on this day of the week.
    pub fn is_on(&self, weekday: Weekday) -> bool {
        self.days.is_empty() || self.days.iter().any(|day| day.weekday() == weekday)
    }

    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let mut seen = Seen::default();
        for (index, day) in self.days.iter().enumerate() {
            seen.check(&path.field("days").index(index), &format!("{day:?}"), errors);
        }
        for (name, text) in [("from", &self.from), ("until", &self.until)] {
            if time(text).is_none() {
                errors.invalid(&path.field(name), text, "must be a time of day, such as \"22:00\"");
            }
        }
        if self.time_zone.len() > MAX_TIME_ZONE || self.zone().is_none() {
            let detail = "must be \"UTC\", an offset such as \"+02:00\", or a POSIX time zone such as \
                          \"CET-1CEST,M3.5.0,M10.5.0/3\"";
            errors.invalid(&path.field("timeZone"), &self.time_zone, detail);
        }
    }
}

impl Day {
    fn weekday(self) -> Weekday {
        match self {
            Day::Mon => Weekday::Monday,
            Day::Tue => Weekday::Tuesday,
            Day::Wed => Weekday::Wednesday,
            Day::Thu => Weekday::Thursday,
            Day::Fri => Weekday::Friday,
            Day::Sat => Weekday::Saturday,
            Day::Sun => Weekday::Sunday,
        }
    }
}

/// `Destructive: frozen from … until … (end of the year)`, or `open Mon, Tue 22:00-06:00 UTC`.
impl fmt::Display for Window {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(Freeze { from, until, reason }) = &self.freeze {
            write!(f, "frozen from {from}")?;
            until.iter().try_for_each(|until| write!(f, " until {until}"))?;
            reason.iter().try_for_each(|reason| write!(f, " ({reason})"))?;
        }
        if let Some(Opening { days, from, until, time_zone }) = &self.opening {
            let days: Vec<String> = days.iter().map(|day| format!("{day:?}")).collect();
            let days = if days.is_empty() { "every day".to_owned() } else { days.join(", ") };
            write!(f, "open {days} {from}-{until} {time_zone}")?;
        }
        Ok(())
    }
}

pub(super) fn validate(windows: &[Window], path: &Path<'_>, errors: &mut Errors) {
    rules::count(path, windows.len(), MAX_WINDOWS, errors);
    for (index, window) in windows.iter().enumerate().take(MAX_WINDOWS) {
        window.validate(&path.index(index), errors);
    }
}

/// `22:00`, and nothing else.
fn time(text: &str) -> Option<Time> {
    let (hour, minute) = text.split_once(':')?;
    let number = |text: &str| text.parse::<i8>().ok().filter(|_| text.len() == 2 && !text.starts_with(['+', '-']));
    Time::new(number(hour)?, number(minute)?, 0, 0).ok()
}

/// `+02:00`, and nothing else.
fn offset(text: &str) -> Option<Offset> {
    let sign = if text.starts_with('-') { -1 } else { 1 };
    let time = time(text.get(1..)?)?;
    Offset::from_seconds(sign * (i32::from(time.hour()) * 3_600 + i32::from(time.minute()) * 60)).ok()
}

fn default_time_zone() -> String {
    "UTC".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn opening(from: &str, until: &str, time_zone: &str) -> Window {
        let (from, until, time_zone) = (from.to_owned(), until.to_owned(), time_zone.to_owned());
        Window { opening: Some(Opening { days: vec![Day::Mon], from, until, time_zone }), ..Window::default() }
    }

    fn freeze(until: Option<i64>) -> Window {
        let until = until.map(|second| Timestamp::constant(second, 0));
        let freeze = Freeze { from: Timestamp::constant(1_000, 0), until, reason: None };
        Window { freeze: Some(freeze), ..Window::default() }
    }

    #[test]
    fn a_window_that_says_nothing_sound_is_refused() {
        let both = Window { freeze: freeze(None).freeze, ..opening("09:00", "17:00", "UTC") };
        let twice = Window { classes: vec![Class::Spend, Class::Spend], ..freeze(None) };
        let rows = [
            ("hours", opening("09:00", "17:00", "UTC"), true),
            ("hours over night", opening("22:00", "06:00", "UTC"), true),
            ("all day", opening("00:00", "00:00", "UTC"), true),
            ("an offset", opening("09:00", "17:00", "-03:30"), true),
            ("a rule for summer time", opening("09:00", "17:00", "CET-1CEST,M3.5.0,M10.5.0/3"), true),
            ("a name of a database", opening("09:00", "17:00", "Europe/Berlin"), false),
            ("no time zone", opening("09:00", "17:00", ""), false),
            ("half an offset", opening("09:00", "17:00", "+2"), false),
            ("a time that is none", opening("24:00", "06:00", "UTC"), false),
            ("a time with a sign", opening("+9:00", "17:00", "UTC"), false),
            ("a time in words", opening("noon", "17:00", "UTC"), false),
            ("a freeze", freeze(Some(2_000)), true),
            ("a freeze without an end", freeze(None), true),
            ("a freeze that ends before it begins", freeze(Some(900)), false),
            ("neither", Window::default(), false),
            ("both", both, false),
            ("a class twice", twice, false),
        ];
        for (name, window, is_sound) in rows {
            let mut errors = Errors::default();
            validate(&[window], &Path::of("spec").field("windows"), &mut errors);
            assert_eq!(errors.is_empty(), is_sound, "{name}: {errors:?}");
        }
    }
}
