//! When to look at a Machine again although nothing is heard.

use std::time::Duration;

use jiff::Timestamp;
use setpoint_api::step::{Waiting, WaitsOn};
use setpoint_core::gate::{Need, Verdict};
use setpoint_core::machine::{Standing, reason};

use crate::runtime::Next;

/// When to look again at a guest that is on its way.
pub(super) const PASSING: Duration = Duration::from_secs(1);
/// When to look again at a place that did not show everything.
pub(super) const UNSEEN: Duration = Duration::from_secs(5);

/// What is known of guests beside the plan.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Guests {
    /// Whether its own is on its way from one state to another.
    pub(super) passes: bool,
    /// Whether all Machines that it depends on say that they are as desired.
    pub(super) others_rest: bool,
}

/// At the first of the times at which something may be otherwise. Whom a limit holds back is woken when something goes, and
/// whoever waits for people or for another Machine by these. A price that is not known is asked for once in a `period`, and a
/// guest that `passes` from one state to another is followed. Where others `rest`, which say of themselves that they are as
/// desired, nobody is woken by them: what was seen of them may be otherwise at the next look.
pub(super) fn rest(
    waiting: &[Waiting],
    verdicts: &[Verdict],
    standing: &Standing,
    Guests { passes, others_rest }: Guests,
    period: Duration,
    now: Timestamp,
) -> Next {
    let passes = passes.then_some(PASSING);
    if standing.is_synced() {
        return passes.map_or(Next::Idle, Next::After);
    }
    let on = |kinds: &[WaitsOn]| waiting.iter().any(|waiting| kinds.contains(&waiting.on));
    let needs = |is_such: fn(&Need) -> bool| {
        verdicts.iter().any(|verdict| matches!(verdict, Verdict::Wait { needs } if needs.iter().any(is_such)))
    };
    let is_step = |need: &Need| matches!(need, Need::Step { .. });
    // Its first step comes after those of others alone.
    let follows = matches!(verdicts.first(), Some(Verdict::Wait { needs }) if needs.iter().all(is_step));
    let until = verdicts.iter().filter_map(Verdict::until).min();
    let times = [
        until.map(|until| Duration::try_from(until.duration_since(now)).unwrap_or(PASSING)),
        needs(|need| matches!(need, Need::Usage { .. })).then_some(UNSEEN),
        needs(|need| matches!(need, Need::Price { .. })).then_some(period),
        on(&[WaitsOn::Intent, WaitsOn::Provider]).then_some(PASSING),
        on(&[WaitsOn::Observation]).then_some(UNSEEN),
        (others_rest && (follows || on(&[WaitsOn::Dependency]))).then_some(UNSEEN),
        (standing.reason == reason::PROGRESSING).then_some(PASSING),
        passes,
    ];
    times.into_iter().flatten().min().map_or(Next::Idle, Next::After)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use setpoint_api::condition::ConditionStatus;
    use setpoint_api::price::Price;
    use setpoint_api::step::Target;
    use setpoint_core::gate::Limit;

    use super::*;

    const NOW: Timestamp = Timestamp::constant(1_900_000_000, 0);
    const PERIOD: Duration = Duration::from_secs(30);

    fn waits(on: WaitsOn) -> Waiting {
        let target = Target { namespace: "shop".into(), name: "web".into(), kind: "Machine".into() };
        Waiting { target, action: None, on, message: "it waits".into() }
    }

    fn full_for(seconds: i64) -> Verdict {
        let until = NOW + SignedDuration::from_secs(seconds);
        Verdict::Wait { needs: vec![Need::Budget { limit: Limit::DestroysPerHour(1), until: Some(until) }] }
    }

    #[test]
    fn the_first_time_counts_at_which_something_may_be_otherwise() {
        let no = |reason| Standing { status: ConditionStatus::False, reason, message: String::new() };
        let used_up = || Verdict::Wait { needs: vec![Need::Budget { limit: Limit::Gpus(1), until: None }] };
        let unknown = || Verdict::Wait { needs: vec![Need::Usage { limit: Limit::Gpus(1) }] };
        let unpriced = || Verdict::Wait { needs: vec![Need::Price { limit: Limit::HourlyCost(Price::ZERO) }] };
        let (over, goes_on) = (no(reason::OVER_LIMIT), no(reason::PROGRESSING));
        type Row<'a> = (&'a str, Vec<Waiting>, Vec<Verdict>, &'a Standing, Option<u64>);
        let rows: Vec<Row<'_>> = vec![
            ("a limit has room later", vec![], vec![full_for(600)], &over, Some(600)),
            ("the sooner of two", vec![], vec![full_for(600), full_for(60)], &over, Some(60)),
            ("it had room by now", vec![], vec![full_for(-60)], &over, Some(1)),
            ("a guest is on its way", vec![waits(WaitsOn::Provider)], vec![full_for(600)], &over, Some(1)),
            ("not all was seen", vec![waits(WaitsOn::Observation)], vec![full_for(600)], &over, Some(5)),
            ("how much there is is not known", vec![], vec![unknown(), full_for(600)], &over, Some(5)),
            ("what it costs is not known", vec![], vec![unpriced()], &over, Some(30)),
            ("something else has to go", vec![], vec![used_up()], &over, None),
            ("another Machine is waited for", vec![waits(WaitsOn::Dependency)], vec![], &over, None),
            ("it goes on", vec![], vec![], &goes_on, Some(1)),
        ];
        for (name, waiting, verdicts, standing, expected) in rows {
            let expected = expected.map_or(Next::Idle, |seconds| Next::After(Duration::from_secs(seconds)));
            assert_eq!(rest(&waiting, &verdicts, standing, Guests::default(), PERIOD, NOW), expected, "{name}");
        }
        let step = || Verdict::Wait { needs: vec![Need::Step { id: "shop/db/update".to_owned() }] };
        let waits_for = || vec![waits(WaitsOn::Dependency)];
        let rows = [
            ("another Machine is waited for, which turns", waits_for(), vec![], false, None),
            ("another is waited for, which says that all is well", waits_for(), vec![], true, Some(5)),
            ("a step of another comes first, which turns", vec![], vec![step()], false, None),
            ("a step of another comes first, which says that all is well", vec![], vec![step()], true, Some(5)),
            (
                "something else has to go, and a step of its own comes after that",
                vec![],
                vec![used_up(), step()],
                true,
                None,
            ),
        ];
        for (name, waiting, verdicts, others_rest, expected) in rows {
            let expected = expected.map_or(Next::Idle, |seconds| Next::After(Duration::from_secs(seconds)));
            let guests = Guests { others_rest, ..Guests::default() };
            assert_eq!(rest(&waiting, &verdicts, &over, guests, PERIOD, NOW), expected, "{name}");
        }
        let synced = Standing { status: ConditionStatus::True, reason: reason::SYNCED, message: String::new() };
        let rows = [("nothing is left to do", false, Next::Idle), ("its guest starts", true, Next::After(PASSING))];
        for (name, passes, expected) in rows {
            let guests = Guests { passes, ..Guests::default() };
            assert_eq!(rest(&[waits(WaitsOn::Provider)], &[], &synced, guests, PERIOD, NOW), expected, "{name}");
        }
    }
}
