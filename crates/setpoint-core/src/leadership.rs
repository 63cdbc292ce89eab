//! Who leads: decided from a Lease as one sees it, and from one's own clock.
//!
//! A candidate never looks at the times in the Lease, which are another's: it counts from when it saw the last renewal.
//! Since that is later than when the holder sent it, and the holder counts from then and stops somewhat before its time is
//! over, no two lead at the same time. Each leadership has an epoch, greater than those before it, by which the server can
//! tell a leader from one that was.
//!
//! Times are durations since any moment of one's own.

use std::time::Duration;

/// How long a leadership lasts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Terms {
    /// How long a renewal is good for.
    pub duration: Duration,
    pub renewal: Duration,
    /// How much sooner a holder stops that could not renew: clocks differ in speed.
    pub margin: Duration,
}

impl Default for Terms {
    fn default() -> Terms {
        let (renewal, margin) = (Duration::from_millis(1300), Duration::from_millis(500));
        Terms { duration: Duration::from_secs(4), renewal, margin }
    }
}

/// A Lease as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Record {
    /// Nobody, if it was released.
    pub holder: Option<String>,
    pub epoch: i32,
    /// What a renewal changes, whatever it means.
    pub renewed: String,
    pub duration: Duration,
    /// Greater with every change.
    pub version: u64,
}

/// What to do now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Move {
    /// Write oneself into the Lease, or make it.
    Take {
        epoch: i32,
    },
    Renew {
        epoch: i32,
    },
    /// Nothing until the Lease changes, or until a time.
    Wait {
        until: Option<Duration>,
    },
    /// One leads no longer.
    StepDown,
}

/// One who leads or would.
#[derive(Debug, Clone)]
pub struct Candidate {
    identity: String,
    terms: Terms,
    sight: Sight,
    /// The newest version and the highest epoch that were seen.
    version: u64,
    epoch: Option<i32>,
    held: Option<Held>,
    has_led: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Sight {
    Nothing,
    NoLease,
    Lease { record: Record, renewal_seen: Duration },
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Held {
    epoch: i32,
    /// When the last renewal that succeeded was sent.
    sent: Duration,
}

impl Candidate {
    pub fn new(identity: &str, terms: Terms) -> Candidate {
        let (identity, sight) = (identity.to_owned(), Sight::Nothing);
        Candidate { identity, terms, sight, version: 0, epoch: None, held: None, has_led: false }
    }

    pub fn identity(&self) -> &str {
        &self.identity
    }

    /// Takes in the Lease as a watch or an answer shows it. What is older than what was seen is no news.
    pub fn saw(&mut self, record: Record, now: Duration) {
        if record.version < self.version {
            return;
        }
        self.version = record.version;
        self.epoch = Some(self.epoch.map_or(record.epoch, |epoch| epoch.max(record.epoch)));
        let same = |before: &Record| {
            (&before.holder, before.epoch, &before.renewed) == (&record.holder, record.epoch, &record.renewed)
        };
        let renewal_seen = match &self.sight {
            Sight::Lease { record, renewal_seen } if same(record) => *renewal_seen,
            _ => now,
        };
        self.sight = Sight::Lease { record, renewal_seen };
    }

    /// Takes in that there is no Lease, and the version that it had when it went, if one was told.
    pub fn saw_none(&mut self, version: Option<u64>) {
        if version.is_none_or(|version| version >= self.version) {
            (self.version, self.sight) = (version.unwrap_or(self.version), Sight::NoLease);
        }
    }

    /// Takes in that the server accepted a write of ours, and when it had been sent.
    pub fn wrote(&mut self, record: Record, sent: Duration, now: Duration) {
        (self.held, self.has_led) = (Some(Held { epoch: record.epoch, sent }), true);
        self.saw(record, now);
    }

    /// Takes in that one leads no longer.
    pub fn stepped_down(&mut self) {
        self.held = None;
    }

    /// The epoch in which one leads, and until when that is sure.
    pub fn leads(&self) -> Option<(i32, Duration)> {
        let Held { epoch, sent } = self.held?;
        Some((epoch, sent + self.terms.duration.saturating_sub(self.terms.margin)))
    }

    pub fn next(&self, now: Duration) -> Move {
        match self.held {
            Some(held) => self.next_of_holder(held, now),
            None => self.next_of_candidate(now),
        }
    }

    fn next_of_holder(&self, held: Held, now: Duration) -> Move {
        let is_ours = |record: &Record| record.holder.as_ref() == Some(&self.identity) && record.epoch == held.epoch;
        let is_over = self.leads().is_none_or(|(_, until)| now >= until);
        match &self.sight {
            _ if is_over => Move::StepDown,
            Sight::Lease { record, .. } if is_ours(record) => match held.sent + self.terms.renewal {
                due if now >= due => Move::Renew { epoch: held.epoch },
                due => Move::Wait { until: Some(due) },
            },
            Sight::Lease { .. } | Sight::NoLease | Sight::Nothing => Move::StepDown,
        }
    }

    fn next_of_candidate(&self, now: Duration) -> Move {
        let take = Move::Take { epoch: self.epoch.map_or(0, |epoch| epoch.saturating_add(1)) };
        match &self.sight {
            Sight::Nothing => Move::Wait { until: None },
            Sight::NoLease => take,
            Sight::Lease { record, renewal_seen } => match record.holder.as_deref() {
                None | Some("") => take,
                // From a life before this one. Who has led in this one meets another of the same name here.
                Some(holder) if holder == self.identity && !self.has_led => take,
                Some(_) => match *renewal_seen + record.duration {
                    expiry if now >= expiry => take,
                    expiry => Move::Wait { until: Some(expiry) },
                },
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: f64) -> Duration {
        Duration::from_secs_f64(seconds)
    }

    fn record(holder: &str, epoch: i32, version: u64) -> Record {
        let holder = Some(holder.to_owned()).filter(|holder| !holder.is_empty());
        Record { holder, epoch, renewed: version.to_string(), duration: Duration::from_secs(4), version }
    }

    fn candidate(seen: &[(Record, f64)]) -> Candidate {
        let mut candidate = Candidate::new("me", Terms::default());
        for (record, seconds) in seen {
            candidate.saw(record.clone(), at(*seconds));
        }
        candidate
    }

    #[test]
    fn a_candidate_takes_what_is_free_and_waits_for_what_is_not() {
        type Row<'a> = (&'static str, &'a [(Record, f64)], f64, Move);
        let take = |epoch| Move::Take { epoch };
        let wait = |seconds: f64| Move::Wait { until: Some(at(seconds)) };
        let (first, second) = (record("other", 3, 10), record("other", 3, 11));
        let mut touched = record("other", 3, 12);
        touched.renewed.clone_from(&second.renewed);
        let rows: [Row<'_>; 8] = [
            ("nothing is known", &[], 9.0, Move::Wait { until: None }),
            ("released", &[(record("", 3, 10), 1.0)], 1.0, take(4)),
            ("its own, from before", &[(record("me", 3, 10), 1.0)], 1.0, take(4)),
            ("another's", &[(first.clone(), 1.0)], 2.0, wait(5.0)),
            ("another's, renewed", &[(first.clone(), 1.0), (second.clone(), 2.0)], 5.5, wait(6.0)),
            ("another's, not renewed in time", &[(first.clone(), 1.0), (second.clone(), 2.0)], 6.0, take(4)),
            ("touched by a third", &[(second.clone(), 2.0), (touched, 5.0)], 6.0, take(4)),
            ("old news", &[(second, 2.0), (first, 5.0)], 6.0, take(4)),
        ];
        for (name, seen, now, expected) in rows {
            assert_eq!(candidate(seen).next(at(now)), expected, "{name}");
        }
        let mut first_of_all = candidate(&[]);
        first_of_all.saw_none(None);
        assert_eq!(first_of_all.next(at(0.0)), take(0), "there is no Lease");
        let mut after_another = candidate(&[(record("other", 3, 10), 1.0)]);
        after_another.saw_none(Some(11));
        assert_eq!(after_another.next(at(1.0)), take(4), "it was deleted, and epochs go on");
    }

    #[test]
    fn a_holder_renews_in_time_and_stops_before_its_time_is_over() {
        let mut holder = candidate(&[(record("", 3, 10), 0.0)]);
        holder.wrote(record("me", 4, 11), at(1.0), at(1.2));
        assert_eq!(holder.leads(), Some((4, at(4.5))), "counted from when it was sent");
        let rows = [
            ("early", 1.5, Move::Wait { until: Some(at(2.3)) }),
            ("due", 2.3, Move::Renew { epoch: 4 }),
            ("still due", 4.4, Move::Renew { epoch: 4 }),
            ("it could not renew", 4.5, Move::StepDown),
        ];
        for (name, now, expected) in rows {
            assert_eq!(holder.next(at(now)), expected, "{name}");
        }
        for (name, taken) in [
            ("another took it", Some(record("other", 5, 12))),
            ("another of the same name took it", Some(record("me", 5, 12))),
            ("it was released for us", Some(record("", 4, 12))),
            ("it was deleted", None),
        ] {
            let mut holder = holder.clone();
            match taken {
                Some(record) => holder.saw(record, at(1.5)),
                None => holder.saw_none(Some(12)),
            }
            assert_eq!(holder.next(at(1.6)), Move::StepDown, "{name}");
        }
        holder.saw(record("other", 3, 9), at(1.5));
        holder.saw_none(Some(9));
        assert_eq!(holder.next(at(1.6)), Move::Wait { until: Some(at(2.3)) }, "old news is none");
    }

    #[test]
    fn two_of_the_same_name_do_not_take_turns() {
        let mut first = candidate(&[(record("", 0, 1), 0.0)]);
        first.wrote(record("me", 1, 2), at(0.0), at(0.0));
        first.saw(record("me", 2, 3), at(1.0));
        assert_eq!(first.next(at(1.0)), Move::StepDown);
        first.stepped_down();
        assert_eq!(first.next(at(1.0)), Move::Wait { until: Some(at(5.0)) });
    }

    /// Whatever the delays of the network, who takes over does so after the holder has stopped.
    #[test]
    fn no_two_lead_at_the_same_time() {
        for (name, sent, seen) in [("at once", 1.0, 1.0), ("slowly", 1.0, 3.9), ("late", 1.0, 60.0)] {
            let mut holder = candidate(&[(record("", 3, 10), 0.0)]);
            holder.wrote(record("me", 4, 11), at(sent), at(sent));
            let (_, until) = holder.leads().expect("it leads");
            let mut other = Candidate::new("other", Terms::default());
            other.saw(record("me", 4, 11), at(seen));
            let Move::Wait { until: Some(takes) } = other.next(at(seen)) else { panic!("{name}: it waits") };
            assert!(until < takes, "{name}");
        }
    }
}
