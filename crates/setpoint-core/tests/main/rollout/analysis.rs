//! What an analysis says, row by row.

use jiff::{SignedDuration, Timestamp};
use setpoint_api::app::{Analysis, LatencyBound};
use setpoint_core::rollout::{LatencyBucket, Sample, judge};

const SINCE: Timestamp = Timestamp::UNIX_EPOCH;

fn sample(requests: u64, failures: u64, slow: u64) -> Sample {
    let bucket = |up_to_ms, count| LatencyBucket { up_to_ms, count };
    Sample { since: SINCE, requests, failures, latency: vec![bucket(10, requests - slow), bucket(200, slow)] }
}

fn latency(max_ms: Option<u64>, max_increase_percent: Option<u32>) -> Analysis {
    let bound = LatencyBound { quantile_permille: 990, max_ms, max_increase_percent };
    Analysis { latency: Some(bound), ..Analysis::default() }
}

#[test]
fn verdicts() {
    let absolute = Analysis { min_success_bps: Some(9_950), ..Analysis::default() };
    let relative = Analysis { max_success_drop_bps: Some(100), ..Analysis::default() };
    let early = Sample { since: SINCE - SignedDuration::from_secs(1), ..sample(1_000, 0, 0) };
    let good = || Some(sample(1_000, 0, 0));
    type Row<'a> = (&'static str, &'a Analysis, Option<Sample>, Option<Sample>, i64, &'static str);
    let rows: [Row<'_>; 19] = [
        ("good for long enough", &absolute, good(), None, 60, "passes"),
        ("good so far", &absolute, good(), None, 59, "goes on until 1970-01-01T00:01:00Z"),
        ("exactly at the bound", &absolute, Some(sample(10_000, 50, 0)), None, 60, "passes"),
        (
            "bad is known before the time is over",
            &absolute,
            Some(sample(1_000, 100, 0)),
            None,
            1,
            "fails: 90 % of requests succeed, below 99.5 %",
        ),
        (
            "too few to say anything, though all failed",
            &absolute,
            Some(sample(99, 99, 0)),
            None,
            60,
            "is inconclusive: fewer than 100 requests of the new revision",
        ),
        (
            "too few, and there is time",
            &absolute,
            Some(sample(99, 99, 0)),
            None,
            1,
            "goes on until 1970-01-01T00:01:00Z",
        ),
        ("nothing measured", &absolute, None, None, 60, "is inconclusive: fewer than 100 requests of the new revision"),
        ("what was counted since the split, before the analysis began", &absolute, Some(early), None, 60, "passes"),
        (
            "as good as the serving one",
            &relative,
            Some(sample(1_000, 300, 0)),
            Some(sample(1_000, 300, 0)),
            60,
            "passes",
        ),
        ("a little worse", &relative, Some(sample(1_000, 10, 0)), good(), 60, "passes"),
        (
            "worse than the serving one",
            &relative,
            Some(sample(1_000, 11, 0)),
            good(),
            60,
            "fails: 98.9 % of requests succeed, more than 1 % below the 100 % of the serving revision",
        ),
        (
            "nothing to compare with",
            &relative,
            Some(sample(1_000, 0, 0)),
            Some(sample(10, 0, 0)),
            60,
            "is inconclusive: fewer than 100 requests of the serving revision",
        ),
        ("fast enough", &latency(Some(100), None), Some(sample(1_000, 0, 10)), None, 60, "passes"),
        (
            "too slow",
            &latency(Some(100), None),
            Some(sample(1_000, 0, 11)),
            None,
            60,
            "fails: p99 is 200 ms, above 100 ms",
        ),
        (
            "as slow as the serving one",
            &latency(None, Some(10)),
            Some(sample(1_000, 0, 50)),
            Some(sample(1_000, 0, 50)),
            60,
            "passes",
        ),
        (
            "slower than the serving one",
            &latency(None, Some(10)),
            Some(sample(1_000, 0, 50)),
            good(),
            60,
            "fails: p99 is 200 ms, more than 10 % above the 10 ms of the serving revision",
        ),
        (
            "no latency to compare with",
            &latency(None, Some(10)),
            Some(sample(1_000, 0, 50)),
            None,
            60,
            "is inconclusive: fewer than 100 requests of the serving revision",
        ),
        (
            "more failures than requests is all failures",
            &absolute,
            Some(Sample { failures: u64::MAX, ..sample(1_000, 0, 0) }),
            None,
            60,
            "fails: 0 % of requests succeed, below 99.5 %",
        ),
        (
            "numbers at the edge do not overflow",
            &relative,
            Some(sample(u64::MAX, u64::MAX / 2, 0)),
            Some(sample(u64::MAX, u64::MAX / 2, 0)),
            60,
            "passes",
        ),
    ];
    for (name, analysis, new, serving, seconds, expected) in rows {
        let now = SINCE + SignedDuration::from_secs(seconds);
        let verdict = judge(analysis, new.as_ref(), serving.as_ref(), SINCE, now);
        assert_eq!(verdict.to_string(), expected, "{name}");
    }
}
