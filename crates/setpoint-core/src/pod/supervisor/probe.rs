//! When a container is probed, and what a row of answers means.

use std::fmt;
use std::time::Duration;

use jiff::Timestamp;

/// What a probe is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ProbeKind {
    /// Whether the container has started: until then the others are not asked.
    Startup,
    Readiness,
    Liveness,
}

/// How a container is to be probed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProbePlan {
    pub initial_delay: Duration,
    pub period: Duration,
    /// Whoever asks waits no longer than this for the answer.
    pub timeout: Duration,
    pub success_threshold: u32,
    pub failure_threshold: u32,
    /// How long the container may take to stop once this probe has failed, if not as long as its Pod says.
    pub grace: Option<Duration>,
}

/// What came of asking once.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ProbeOutcome {
    Success,
    Failure(String),
    /// It could not be asked at all, which says nothing about the container.
    Unknown(String),
}

/// A probe of one run of a container.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Probing {
    next_at: Timestamp,
    is_under_way: bool,
    last: Option<bool>,
    in_a_row: u32,
}

impl ProbeKind {
    pub const ALL: [ProbeKind; 3] = [ProbeKind::Startup, ProbeKind::Readiness, ProbeKind::Liveness];
}

impl Probing {
    pub(super) fn new(plan: &ProbePlan, started_at: Timestamp) -> Probing {
        Probing { next_at: started_at + plan.initial_delay, is_under_way: false, last: None, in_a_row: 0 }
    }

    /// When it is to be asked next; nothing while an answer is awaited.
    pub(super) fn next_at(&self) -> Option<Timestamp> {
        (!self.is_under_way).then_some(self.next_at)
    }

    /// Asks, if it is time.
    pub(super) fn ask(&mut self, plan: &ProbePlan, now: Timestamp) -> bool {
        let is_due = !self.is_under_way && self.next_at <= now;
        if is_due {
            self.is_under_way = true;
            self.next_at = now + plan.period;
        }
        is_due
    }

    /// Takes an answer in, and says what is now known, once as many in a row agree as have to.
    pub(super) fn answer(&mut self, plan: &ProbePlan, outcome: &ProbeOutcome) -> Option<bool> {
        self.is_under_way = false;
        let success = match outcome {
            ProbeOutcome::Success => true,
            ProbeOutcome::Failure(_) => false,
            ProbeOutcome::Unknown(_) => return None,
        };
        self.in_a_row = if self.last == Some(success) { self.in_a_row.saturating_add(1) } else { 1 };
        self.last = Some(success);
        let threshold = if success { plan.success_threshold } else { plan.failure_threshold };
        (self.in_a_row >= threshold).then_some(success)
    }
}

impl fmt::Display for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            ProbeKind::Startup => "Startup",
            ProbeKind::Readiness => "Readiness",
            ProbeKind::Liveness => "Liveness",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(success_threshold: u32, failure_threshold: u32) -> ProbePlan {
        ProbePlan {
            initial_delay: Duration::from_secs(5),
            period: Duration::from_secs(10),
            timeout: Duration::from_secs(1),
            success_threshold,
            failure_threshold,
            grace: None,
        }
    }

    #[test]
    fn as_many_answers_in_a_row_as_the_threshold_decide() {
        type Row = (&'static str, u32, u32, &'static str, &'static [Option<bool>]);
        let rows: [Row; 5] = [
            ("one success is enough", 1, 3, "+", &[Some(true)]),
            ("failures count only in a row", 1, 3, "--+--", &[None, None, Some(true), None, None]),
            ("the third failure in a row decides", 1, 3, "---", &[None, None, Some(false)]),
            ("several successes may be needed", 2, 1, "-+-++", &[Some(false), None, Some(false), None, Some(true)]),
            ("what could not be asked says nothing", 1, 2, "-?-", &[None, None, Some(false)]),
        ];
        for (what, success, failure, answers, verdicts) in rows {
            let plan = plan(success, failure);
            let mut probing = Probing::new(&plan, Timestamp::UNIX_EPOCH);
            let outcome = |answer| match answer {
                '+' => ProbeOutcome::Success,
                '-' => ProbeOutcome::Failure(String::new()),
                _ => ProbeOutcome::Unknown(String::new()),
            };
            let given: Vec<_> = answers.chars().map(|answer| probing.answer(&plan, &outcome(answer))).collect();
            assert_eq!(given, verdicts, "{what}");
        }
    }

    #[test]
    fn it_is_asked_after_its_delay_and_then_every_period_and_never_twice_at_once() {
        let (plan, start) = (plan(1, 1), Timestamp::UNIX_EPOCH);
        let at = |seconds: u64| start + Duration::from_secs(seconds);
        let mut probing = Probing::new(&plan, start);
        assert!(!probing.ask(&plan, at(4)));
        assert_eq!(probing.next_at(), Some(at(5)));
        assert!(probing.ask(&plan, at(5)));
        assert!(!probing.ask(&plan, at(100)), "an answer is awaited");
        assert_eq!(probing.next_at(), None);
        probing.answer(&plan, &ProbeOutcome::Success);
        assert_eq!(probing.next_at(), Some(at(15)));
        assert!(probing.ask(&plan, at(100)));
    }
}
