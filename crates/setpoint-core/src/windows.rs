//! Whether steps of some classes may be taken now by the windows of their environment, and if not, when.
//!
//! A class is closed in every freeze that concerns it, and, where it has openings, outside of them all. Time zones have their
//! rules for summer time with them, so that nothing is looked up: an opening begins and ends by the clock on the wall, and an
//! hour that a day does not have is taken for the one after it.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use setpoint_api::environment::{Opening, Window};
use setpoint_api::step::Class;

/// How many times in a row something may close before it is taken for closed for good.
const MAX_CLOSURES: usize = 256;
/// The days that are looked at: one that began yesterday may last, and each day of the week comes once.
const DAYS: std::ops::RangeInclusive<i64> = -1..=8;

/// Whether steps may be taken.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Access {
    Open,
    Closed(Closure),
}

/// That steps may not be taken now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Closure {
    /// The class that is closed.
    pub class: Class,
    /// When all classes are open; none where that is not before the windows are written anew.
    pub until: Option<Timestamp>,
    /// Why, in the words of who wrote the freeze.
    pub reason: Option<String>,
}

/// Whether steps that are of all these classes may be taken now.
pub fn access(windows: &[Window], classes: &BTreeSet<Class>, now: Timestamp) -> Access {
    let Some(first) = closure(windows, classes, now) else { return Access::Open };
    let mut until = first.until;
    for _ in 0..MAX_CLOSURES {
        let Some(at) = until else { break };
        match closure(windows, classes, at) {
            None => return Access::Closed(Closure { until, ..first }),
            Some(next) => until = next.until,
        }
    }
    Access::Closed(Closure { until: None, ..first })
}

/// What closes one of the classes at a time, and how long that lasts by itself.
fn closure(windows: &[Window], classes: &BTreeSet<Class>, at: Timestamp) -> Option<Closure> {
    classes.iter().find_map(|class| frozen(windows, *class, at).or_else(|| outside(windows, *class, at)))
}

fn frozen(windows: &[Window], class: Class, at: Timestamp) -> Option<Closure> {
    let mut freezes =
        windows.iter().filter(|window| window.concerns(class)).filter_map(|window| window.freeze.as_ref());
    let freeze = freezes.find(|freeze| freeze.from <= at && freeze.until.is_none_or(|until| at < until))?;
    Some(Closure { class, until: freeze.until, reason: freeze.reason.clone() })
}

fn outside(windows: &[Window], class: Class, at: Timestamp) -> Option<Closure> {
    let openings = windows.iter().filter(|window| window.concerns(class)).filter_map(|window| window.opening.as_ref());
    let mut hours = openings.map(|opening| hours(opening, at)).peekable();
    hours.peek()?;
    let hours: Vec<(Timestamp, Timestamp)> = hours.flatten().collect();
    if hours.iter().any(|(from, until)| *from <= at && at < *until) {
        return None;
    }
    let until = hours.iter().map(|(from, _)| *from).filter(|from| at < *from).min();
    Some(Closure { class, until, reason: None })
}

/// The hours that an opening is open around a time.
fn hours(opening: &Opening, around: Timestamp) -> Vec<(Timestamp, Timestamp)> {
    let (Some((from, until)), Some(zone)) = (opening.hours(), opening.zone()) else { return Vec::new() };
    let today = around.to_zoned(zone.clone()).date();
    let dates = DAYS.filter_map(|days| after(today, days)).filter(|date| opening.is_on(date.weekday()));
    let hours = dates.filter_map(|date| {
        let end = if until <= from { after(date, 1)? } else { date };
        Some((instant(date, from, &zone)?, instant(end, until, &zone)?))
    });
    hours.filter(|(from, until)| from < until).collect()
}

fn after(date: Date, days: i64) -> Option<Date> {
    date.checked_add(jiff::Span::new().try_days(days).ok()?).ok()
}

fn instant(date: Date, time: jiff::civil::Time, zone: &TimeZone) -> Option<Timestamp> {
    zone.to_timestamp(date.to_datetime(time)).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use setpoint_api::environment::{Day, Freeze};

    use super::*;

    const BERLIN: &str = "CET-1CEST,M3.5.0,M10.5.0/3";

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn open(days: &[Day], from: &str, until: &str, time_zone: &str) -> Window {
        let (from, until, time_zone) = (from.to_owned(), until.to_owned(), time_zone.to_owned());
        Window { opening: Some(Opening { days: days.to_vec(), from, until, time_zone }), ..Window::default() }
    }

    fn freeze(from: &str, until: Option<&str>) -> Window {
        let freeze = Freeze { from: at(from), until: until.map(at), reason: Some("year's end".to_owned()) };
        Window { freeze: Some(freeze), ..Window::default() }
    }

    fn of(class: Class, window: Window) -> Window {
        Window { classes: vec![class], ..window }
    }

    /// `open`, `for good`, or until when it is closed.
    fn told(windows: &[Window], classes: &[Class], now: &str) -> String {
        match access(windows, &classes.iter().copied().collect(), at(now)) {
            Access::Open => "open".to_owned(),
            Access::Closed(Closure { until: None, .. }) => "for good".to_owned(),
            Access::Closed(Closure { until: Some(until), .. }) => until.to_string(),
        }
    }

    #[test]
    fn a_step_waits_for_the_first_moment_that_is_open() {
        use Day::{Fri, Mon, Sat, Sun, Thu, Tue, Wed};
        let week = [Mon, Tue, Wed, Thu, Fri];
        let nine_to_five = || open(&week, "09:00", "17:00", "UTC");
        let night = || open(&[Fri], "22:00", "06:00", "UTC");
        let frozen = || freeze("2026-12-20T00:00:00Z", Some("2027-01-04T00:00:00Z"));
        // 2026-11-19 is a Thursday.
        let rows = [
            ("there are no windows", vec![], "2026-11-19T03:00:00Z", "open"),
            ("within the hours", vec![nine_to_five()], "2026-11-19T09:00:00Z", "open"),
            ("before the hours", vec![nine_to_five()], "2026-11-19T08:59:59Z", "2026-11-19T09:00:00Z"),
            ("as the hours end", vec![nine_to_five()], "2026-11-19T17:00:00Z", "2026-11-20T09:00:00Z"),
            ("over the week end", vec![nine_to_five()], "2026-11-20T18:00:00Z", "2026-11-23T09:00:00Z"),
            ("over night, in the evening", vec![night()], "2026-11-20T23:00:00Z", "open"),
            ("over night, on the next morning", vec![night()], "2026-11-21T05:59:59Z", "open"),
            ("over night, when it is over", vec![night()], "2026-11-21T06:00:00Z", "2026-11-27T22:00:00Z"),
            ("the morning before it", vec![night()], "2026-11-20T05:00:00Z", "2026-11-20T22:00:00Z"),
            ("all day", vec![open(&[Sat, Sun], "00:00", "00:00", "UTC")], "2026-11-22T23:59:59Z", "open"),
            (
                "all day, on another",
                vec![open(&[Sat, Sun], "00:00", "00:00", "UTC")],
                "2026-11-23T00:00:00Z",
                "2026-11-28T00:00:00Z",
            ),
            ("several openings", vec![nine_to_five(), night()], "2026-11-21T01:00:00Z", "open"),
            ("the next of several", vec![nine_to_five(), night()], "2026-11-20T17:30:00Z", "2026-11-20T22:00:00Z"),
            ("every day", vec![open(&[], "09:00", "10:00", "UTC")], "2026-11-21T11:00:00Z", "2026-11-22T09:00:00Z"),
            ("before a freeze", vec![frozen()], "2026-12-19T23:59:59Z", "open"),
            ("in a freeze", vec![frozen()], "2026-12-20T00:00:00Z", "2027-01-04T00:00:00Z"),
            ("after a freeze", vec![frozen()], "2027-01-04T00:00:00Z", "open"),
            ("a freeze without an end", vec![freeze("2026-12-20T00:00:00Z", None)], "2030-01-01T00:00:00Z", "for good"),
            (
                "a freeze goes before an opening",
                vec![open(&[], "00:00", "00:00", "UTC"), frozen()],
                "2026-12-24T12:00:00Z",
                "2027-01-04T00:00:00Z",
            ),
            (
                "a freeze ends outside of the hours",
                vec![frozen(), nine_to_five()],
                "2026-12-24T12:00:00Z",
                "2027-01-04T09:00:00Z",
            ),
            (
                "one freeze after the other",
                vec![frozen(), freeze("2027-01-02T00:00:00Z", Some("2027-02-01T00:00:00Z"))],
                "2026-12-24T12:00:00Z",
                "2027-02-01T00:00:00Z",
            ),
            (
                "hours by an offset",
                vec![open(&[Thu], "09:00", "17:00", "+05:30")],
                "2026-11-19T03:29:59Z",
                "2026-11-19T03:30:00Z",
            ),
            (
                "another day by an offset",
                vec![open(&[Fri], "00:30", "02:00", "+05:30")],
                "2026-11-19T19:30:00Z",
                "open",
            ),
            (
                "hours that no time zone has",
                vec![open(&[], "09:00", "17:00", "Mars/Base")],
                "2026-11-19T12:00:00Z",
                "for good",
            ),
        ];
        for (name, windows, now, expected) in rows {
            assert_eq!(told(&windows, &[Class::Destructive], now), expected, "{name}");
        }
    }

    #[test]
    fn hours_are_those_of_the_clock_on_the_wall() {
        let morning = || vec![open(&[], "09:00", "10:00", BERLIN)];
        let night = || vec![open(&[], "22:00", "06:00", BERLIN)];
        // Berlin leaves winter time on 2026-03-29 at 01:00 UTC, and goes back on 2026-10-25 at 01:00 UTC.
        let rows = [
            ("in winter", morning(), "2026-03-28T08:00:00Z", "open"),
            ("in winter, an hour before", morning(), "2026-03-28T07:30:00Z", "2026-03-28T08:00:00Z"),
            ("in summer", morning(), "2026-03-30T07:00:00Z", "open"),
            ("from winter into summer", morning(), "2026-03-28T09:00:00Z", "2026-03-29T07:00:00Z"),
            ("from summer into winter", morning(), "2026-10-24T08:00:00Z", "2026-10-25T08:00:00Z"),
            ("the short night begins", night(), "2026-03-28T21:00:00Z", "open"),
            ("the short night is seven hours", night(), "2026-03-29T04:00:00Z", "2026-03-29T20:00:00Z"),
            ("the long night is nine hours", night(), "2026-10-25T04:59:59Z", "open"),
            ("the long night ends", night(), "2026-10-25T05:00:00Z", "2026-10-25T21:00:00Z"),
            (
                "an hour that the day does not have",
                vec![open(&[], "02:15", "02:45", BERLIN)],
                "2026-03-29T00:30:00Z",
                "2026-03-29T01:15:00Z",
            ),
        ];
        for (name, windows, now, expected) in rows {
            assert_eq!(told(&windows, &[Class::Spend], now), expected, "{name}");
        }
    }

    #[test]
    fn every_class_of_a_step_must_be_open() {
        use Class::{Benign, Destructive, Spend};
        let windows = [
            of(Destructive, open(&[Day::Mon], "09:00", "17:00", "UTC")),
            of(Spend, open(&[Day::Mon], "12:00", "20:00", "UTC")),
            of(Spend, freeze("2026-11-01T00:00:00Z", Some("2026-11-20T00:00:00Z"))),
        ];
        let now = "2026-11-19T12:00:00Z";
        for (name, classes, expected) in [
            ("a class without windows", &[Benign][..], "open"),
            ("one class", &[Destructive][..], "2026-11-23T09:00:00Z"),
            ("both classes", &[Spend, Destructive][..], "2026-11-23T12:00:00Z"),
        ] {
            assert_eq!(told(&windows, classes, now), expected, "{name}");
        }
        let never = [
            of(Destructive, open(&[Day::Mon], "09:00", "17:00", "UTC")),
            of(Spend, open(&[Day::Tue], "09:00", "17:00", "UTC")),
        ];
        assert_eq!(told(&never, &[Spend, Destructive], now), "for good", "they are never open at once");
        let closed = access(&windows, &BTreeSet::from([Spend]), at(now));
        let Access::Closed(closure) = closed else { panic!("it is frozen") };
        assert_eq!((closure.class, closure.reason.as_deref()), (Spend, Some("year's end")));
    }

    proptest! {
        #[test]
        fn what_is_closed_is_open_when_it_says_and_not_before(
            hours in proptest::collection::vec((0_i8..7, 0_i8..24, 0_i8..24), 1..4),
            freezes in proptest::collection::vec((0_i64..30, 1_i64..10), 0..3),
            hour in 0_i64..700,
        ) {
            let days = [Day::Mon, Day::Tue, Day::Wed, Day::Thu, Day::Fri, Day::Sat, Day::Sun];
            let start = at("2026-03-16T00:00:00Z");
            let later = |hours: i64| start + jiff::SignedDuration::from_hours(hours);
            let openings = hours.iter().map(|(day, from, until)| {
                let text = |hour: i8| format!("{hour:02}:00");
                open(&[days[usize::try_from(*day).expect("a day")]], &text(*from), &text(*until), BERLIN)
            });
            let freezes = freezes.iter().map(|(day, length)| {
                let freeze = Freeze { from: later(day * 24), until: Some(later((day + length) * 24)), reason: None };
                Window { freeze: Some(freeze), ..Window::default() }
            });
            let windows: Vec<Window> = openings.chain(freezes).collect();
            let classes = BTreeSet::from([Class::Destructive]);
            let now = later(hour);
            if let Access::Closed(Closure { until, .. }) = access(&windows, &classes, now) {
                let until = until.expect("it opens every week");
                prop_assert!(until > now);
                prop_assert_eq!(access(&windows, &classes, until), Access::Open);
                let before = until - jiff::SignedDuration::from_mins(30);
                prop_assert!(before < now || access(&windows, &classes, before) != Access::Open);
            }
        }
    }
}
