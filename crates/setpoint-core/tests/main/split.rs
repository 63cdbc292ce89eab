//! Splits: tables of what can and cannot be one, and the laws of their arithmetic.

use std::collections::BTreeMap;

use proptest::prelude::{ProptestConfig, prop, prop_assert, prop_assert_eq, proptest};
use setpoint_api::revision::RevisionPhase;
use setpoint_api::traffic_split::SplitEntry;
use setpoint_core::split::{Granularity, KnownRevision, Split, SplitError, apportion};

type Weights = &'static [(&'static str, u32)];

fn split(entries: &[(&str, u32)]) -> Result<Split, SplitError> {
    let entry = |&(revision, weight_bps): &(&str, u32)| SplitEntry { revision: revision.to_owned(), weight_bps };
    Split::new(entries.iter().map(entry).collect())
}

#[test]
fn what_is_no_split_is_refused() {
    let name = "web-1".to_owned();
    let rows: [(&str, Weights, Result<&str, SplitError>); 10] = [
        ("all to one", &[("web-1", 10_000)], Ok("web-1 10000")),
        ("weights below one per cent", &[("web-3", 9_999), ("web-4", 1)], Ok("web-3 9999, web-4 1")),
        ("order is kept", &[("web-4", 100), ("web-3", 9_900)], Ok("web-4 100, web-3 9900")),
        ("weight 0 is named all the same", &[("web-3", 10_000), ("web-4", 0)], Ok("web-3 10000, web-4 0")),
        ("three ways", &[("a", 3_333), ("b", 3_333), ("c", 3_334)], Ok("a 3333, b 3333, c 3334")),
        ("nothing at all", &[], Err(SplitError::InvalidSplit { sum: 0 })),
        ("one basis point missing", &[("a", 9_999)], Err(SplitError::InvalidSplit { sum: 9_999 })),
        ("one basis point too many", &[("a", 5_000), ("b", 5_001)], Err(SplitError::InvalidSplit { sum: 10_001 })),
        (
            "a revision twice, though the sum is right",
            &[("web-1", 5_000), ("web-1", 5_000)],
            Err(SplitError::RevisionTwice { revision: name.clone() }),
        ),
        (
            "an entry over 10 000 that would wrap to the right sum in 32 bits",
            &[("web-1", u32::MAX), ("web-2", 10_001)],
            Err(SplitError::WeightTooLarge { revision: name, weight_bps: u32::MAX }),
        ),
    ];
    for (name, entries, expected) in rows {
        let shown = split(entries).map(|split| split.to_string());
        assert_eq!(shown, expected.map(str::to_owned), "{name}");
    }
    let many: Vec<(String, u32)> =
        (0..33).map(|index| (format!("web-{index}"), if index == 0 { 10_000 } else { 0 })).collect();
    let many: Vec<(&str, u32)> = many.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
    assert_eq!(split(&many), Err(SplitError::TooMany { count: 33 }));
}

#[test]
fn a_full_split_that_gains_a_revision_loses_the_one_with_the_least() {
    let full: Vec<(String, u32)> =
        (0..32).map(|index| (format!("web-{index}"), if index == 0 { 10_000 - 31 * 10 } else { 10 })).collect();
    let mut full: Vec<(&str, u32)> = full.iter().map(|(name, weight)| (name.as_str(), *weight)).collect();
    full[7].1 = 5;
    full[0].1 += 5;
    let full = split(&full).unwrap();
    for (name, gained) in
        [("by a weight", full.with_weight("new", 100)), ("by a move", full.moved("web-0", "new", 100))]
    {
        assert_eq!((gained.entries().len(), gained.weight("new")), (32, 100), "{name}");
        assert!(!gained.names("web-7") && gained.names("web-8"), "{name}");
        assert_eq!(Split::new(gained.clone().into_entries()), Ok(gained), "{name}");
    }
}

#[test]
fn a_granularity_that_is_read_is_one_that_can_be_counted_with() {
    for (name, written, slots) in [
        ("nothing", "0", 1),
        ("whole per cents", "100", 100),
        ("more than there are basis points", "4294967295", 10_000),
    ] {
        let read: Granularity = serde_json::from_str(written).unwrap();
        assert_eq!(read, Granularity::slots(slots), "{name}");
        assert!(read.grain_bps() > 0 && read.nearest(5_000) <= 10_000 && read.floor(9_999) <= 9_999, "{name}");
        assert_eq!(serde_json::to_string(&read).unwrap(), slots.to_string(), "{name}");
    }
}

#[test]
fn only_ready_revisions_of_the_same_app_get_traffic() {
    let known = |app: &str, phase| KnownRevision { app: app.to_owned(), phase };
    let revisions: BTreeMap<String, KnownRevision> = [
        ("web-1", known("web", RevisionPhase::Ready)),
        ("web-2", known("web", RevisionPhase::Warming)),
        ("shop-1", known("shop", RevisionPhase::Ready)),
    ]
    .map(|(name, known)| (name.to_owned(), known))
    .into();
    let rows: [(&str, Weights, Result<(), &str>); 6] = [
        ("a Ready one", &[("web-1", 10_000)], Ok(())),
        ("a preview of what still warms", &[("web-1", 10_000), ("web-2", 0)], Ok(())),
        (
            "traffic for what still warms",
            &[("web-1", 9_999), ("web-2", 1)],
            Err("web-2 is Warming: only a Ready revision gets traffic, so warm it first"),
        ),
        (
            "an unknown revision",
            &[("web-9", 10_000)],
            Err("there is no revision web-9 of web: `kubectl get revisions` shows those there are"),
        ),
        (
            "an unknown one at weight 0",
            &[("web-1", 10_000), ("web-9", 0)],
            Err("there is no revision web-9 of web: `kubectl get revisions` shows those there are"),
        ),
        (
            "another App's revision",
            &[("shop-1", 10_000)],
            Err("shop-1 is a revision of shop, not of web: a split stays within its App"),
        ),
    ];
    for (name, entries, expected) in rows {
        let checked = split(entries).unwrap().check("web", &revisions).map_err(|error| error.to_string());
        assert_eq!(checked, expected.map_err(str::to_owned), "{name}");
    }
}

#[test]
fn weight_moves_exactly() {
    let two = split(&[("a", 9_900), ("b", 100)]).unwrap();
    let three = split(&[("a", 5_000), ("b", 3_000), ("c", 2_000)]).unwrap();
    let rows = [
        ("a new revision takes its weight from all", three.with_weight("d", 1_000), "a 4500, b 2700, c 1800, d 1000"),
        ("one that is there grows", three.with_weight("c", 6_000), "a 2500, b 1500, c 6000"),
        ("rounding loses nothing", three.with_weight("d", 1), "a 4999, b 3000, c 2000, d 1"),
        ("all to one leaves the others named", two.with_weight("b", 10_000), "a 0, b 10000"),
        ("nothing to a new one names it", two.with_weight("c", 0), "a 9900, b 100, c 0"),
        ("what has all cannot give to nobody", Split::all_to("a").with_weight("a", 10), "a 10000"),
        ("a part moves", two.moved("a", "b", 400), "a 9500, b 500"),
        ("no more moves than there is", two.moved("b", "a", 400), "a 10000, b 0"),
        ("to one that was not there", two.moved("a", "c", 1), "a 9899, b 100, c 1"),
        ("a revision leaves, and the rest share", three.without("a").unwrap(), "b 6000, c 4000"),
    ];
    for (name, split, expected) in rows {
        assert_eq!(split.to_string(), expected, "{name}");
    }
    assert_eq!(Split::all_to("a").without("a"), None, "the last one cannot leave");
}

#[test]
fn a_deployer_s_granularity_is_met() {
    let third = split(&[("a", 3_333), ("b", 3_333), ("c", 3_334)]).unwrap();
    let canary = split(&[("a", 9_950), ("b", 50)]).unwrap();
    let rows = [
        ("exactly", canary.rounded(Granularity::EXACT), "a 9950, b 50"),
        ("whole per cents, the earlier first among equals", canary.rounded(Granularity::PERCENT), "a 10000, b 0"),
        ("thirds of whole per cents", third.rounded(Granularity::PERCENT), "a 3300, b 3300, c 3400"),
        ("thirds of four instances", third.rounded(Granularity::slots(4)), "a 2500, b 2500, c 5000"),
        ("thirds of three instances", third.rounded(Granularity::slots(3)), "a 3334, b 3333, c 3333"),
        ("one slot goes to the largest", canary.rounded(Granularity::slots(1)), "a 10000, b 0"),
    ];
    for (name, split, expected) in rows {
        assert_eq!(split.to_string(), expected, "{name}");
    }
    let nearest = [
        ("exactly", Granularity::EXACT, 1, 1),
        ("less than a grain is a grain", Granularity::PERCENT, 1, 100),
        ("nearly all is not all", Granularity::PERCENT, 9_999, 9_900),
        ("nothing is nothing", Granularity::PERCENT, 0, 0),
        ("one slot is all", Granularity::slots(1), 1, 10_000),
        ("quarters", Granularity::slots(4), 3_000, 2_500),
    ];
    for (name, granularity, weight, expected) in nearest {
        assert_eq!(granularity.nearest(weight), expected, "{name}");
    }
}

#[test]
fn a_split_that_is_read_is_whole() {
    let written = serde_json::json!([{ "revision": "web-1", "weightBps": 9_000 }]);
    let error = serde_json::from_value::<Split>(written).unwrap_err().to_string();
    assert_eq!(error, "a split must sum to exactly 10000 basis points and this one sums to 9000");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn parts_sum_to_the_whole_and_are_near(
        shares in prop::collection::vec(0..u64::MAX, 1..20),
        total in 0..20_000_u32,
    ) {
        let parts = apportion(&shares, total);
        let sum: u128 = shares.iter().map(|share| u128::from(*share)).sum();
        prop_assert_eq!(parts.iter().sum::<u32>(), if sum == 0 { 0 } else { total });
        for (part, share) in parts.iter().zip(&shares).filter(|_| sum > 0) {
            let exact = u128::from(*share) * u128::from(total) / sum;
            prop_assert!(u128::from(*part) == exact || u128::from(*part) == exact + 1);
        }
    }

    #[test]
    fn every_way_to_change_a_split_leaves_it_whole(
        weights in prop::collection::vec(0..10_000_u64, 1..8),
        weight in 0..12_000_u32,
        which in 0..9_usize,
        slots in 0..12_000_u32,
    ) {
        let weights = apportion(&weights, 10_000);
        let entries = weights.iter().enumerate().map(|(index, weight)| (format!("web-{index}"), *weight));
        let entries = entries.map(|(revision, weight_bps)| SplitEntry { revision, weight_bps }).collect();
        let Ok(split) = Split::new(entries) else { return Ok(()) };
        let name = format!("web-{which}");
        let granularity = Granularity::slots(slots);
        let changed = [
            Some(split.with_weight(&name, weight)),
            Some(split.moved(split.main(), &name, weight)),
            split.without(&name),
            Some(split.rounded(granularity)),
        ];
        for changed in changed.into_iter().flatten() {
            prop_assert_eq!(Split::new(changed.entries().to_vec()), Ok(changed.clone()));
            let written = serde_json::to_string(&changed).unwrap();
            prop_assert_eq!(serde_json::from_str::<Split>(&written).unwrap(), changed);
        }
        prop_assert!(granularity.floor(weight) <= weight);
        prop_assert_eq!(granularity.floor(granularity.nearest(weight)), granularity.nearest(weight));
    }
}
