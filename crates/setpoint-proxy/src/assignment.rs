//! Which of 10 000 points belong to which group of a split.
//!
//! Every request has a point: the one in its sticky cookie, the hash of its sticky header, or the next of the route's counter.
//! A change of the weights moves only the difference, so clients that stick to a group stay there as long as its weight allows.
//! The assignment is kept with the split, so that restarts and all proxies agree.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};

/// The points of a split; a point is a basis point.
pub const POINTS: u16 = 10_000;

/// Has no factor in common with [`POINTS`], so 10 000 consecutive multiples are 10 000 different points, and neighbours are far apart.
const STRIDE: u64 = 6181;

/// Points and their groups, as runs.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Assignment {
    runs: Vec<Run>,
}

/// Consecutive points of one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    pub group: String,
    pub points: u16,
}

/// Why weights are no weights.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WeightsError {
    #[error("the weights add up to {0} basis points instead of 10000")]
    Sum(u64),
    #[error("group {0:?} is named twice")]
    Twice(String),
}

impl Assignment {
    /// All points for one group.
    pub fn whole(group: impl Into<String>) -> Self {
        Self { runs: vec![Run { group: group.into(), points: POINTS }] }
    }

    pub fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The points of each group.
    pub fn weights(&self) -> BTreeMap<&str, u16> {
        let mut weights = BTreeMap::new();
        for run in &self.runs {
            *weights.entry(run.group.as_str()).or_default() += run.points;
        }
        weights
    }

    pub(crate) fn check(&self) -> Result<(), String> {
        let sum: u64 = self.runs.iter().map(|run| u64::from(run.points)).sum();
        match sum == u64::from(POINTS) {
            true => Ok(()),
            false => Err(format!("the runs have {sum} points instead of {POINTS}")),
        }
    }
}

/// The assignment for new weights: of the previous one, only the difference moves. Groups without weight have no points.
pub fn assign(previous: Option<&Assignment>, weights: &[(String, u16)]) -> Result<Assignment, WeightsError> {
    let sum: u64 = weights.iter().map(|(_, weight)| u64::from(*weight)).sum();
    if sum != u64::from(POINTS) {
        return Err(WeightsError::Sum(sum));
    }
    let mut wanted: BTreeMap<&str, u16> = BTreeMap::new();
    for (group, weight) in weights {
        if wanted.insert(group, *weight).is_some() {
            return Err(WeightsError::Twice(group.clone()));
        }
    }
    let mut points = kept(previous, &wanted);
    let mut held: BTreeMap<&str, u16> = BTreeMap::new();
    for group in points.iter().flatten() {
        *held.entry(group).or_default() += 1;
    }
    let missing = weights.iter().flat_map(|(group, weight)| {
        let missing = weight - held.get(group.as_str()).copied().unwrap_or(0);
        std::iter::repeat_n(group.as_str(), missing.into())
    });
    for (free, group) in points.iter_mut().filter(|point| point.is_none()).zip(missing) {
        *free = Some(group);
    }
    Ok(Assignment { runs: runs(points.into_iter().flatten()) })
}

/// The points that stay where they are: of each group the first ones, as many as it may keep.
fn kept<'a>(previous: Option<&Assignment>, wanted: &BTreeMap<&'a str, u16>) -> Vec<Option<&'a str>> {
    let mut left = wanted.clone();
    let mut points = Vec::with_capacity(POINTS.into());
    for run in previous.into_iter().flat_map(|previous| &previous.runs) {
        for _ in 0..run.points {
            let group = wanted.get_key_value(run.group.as_str()).map(|(group, _)| *group);
            points.push(group.filter(|group| match left.get_mut(group) {
                Some(left) if *left > 0 => {
                    *left -= 1;
                    true
                }
                _ => false,
            }));
        }
    }
    points.resize(POINTS.into(), None);
    points
}

fn runs<'a>(points: impl Iterator<Item = &'a str>) -> Vec<Run> {
    let mut runs: Vec<Run> = Vec::new();
    for group in points {
        match runs.last_mut() {
            Some(run) if run.group == group => run.points += 1,
            _ => runs.push(Run { group: group.to_owned(), points: 1 }),
        }
    }
    runs
}

/// Gives a point to each request that has none: any 10 000 consecutive ones get each point once, whatever the threads.
#[derive(Debug, Default)]
pub struct PointCounter(AtomicU64);

impl PointCounter {
    pub fn next(&self) -> u16 {
        point_of_count(self.0.fetch_add(1, Ordering::Relaxed))
    }
}

/// The point of the how-many-eth request.
pub fn point_of_count(count: u64) -> u16 {
    (count % u64::from(POINTS) * STRIDE % u64::from(POINTS)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn weights(pairs: &[(&str, u16)]) -> Vec<(String, u16)> {
        pairs.iter().map(|(group, weight)| ((*group).to_owned(), *weight)).collect()
    }

    fn groups(assignment: &Assignment) -> Vec<&str> {
        let runs = assignment.runs().iter();
        runs.flat_map(|run| std::iter::repeat_n(run.group.as_str(), run.points.into())).collect()
    }

    #[test]
    fn weights_become_runs() {
        let rows = [
            ("one group has all", weights(&[("a", 10_000)]), "a:10000"),
            ("two groups", weights(&[("a", 9_950), ("b", 50)]), "a:9950 b:50"),
            ("a group without weight has no points", weights(&[("a", 10_000), ("b", 0)]), "a:10000"),
        ];
        for (what, weights, expected) in rows {
            let assignment = assign(None, &weights).expect(what);
            let shown: Vec<String> =
                assignment.runs().iter().map(|run| format!("{}:{}", run.group, run.points)).collect();
            assert_eq!(shown.join(" "), expected, "{what}");
        }
        assert_eq!(assign(None, &weights(&[("a", 9_999)])), Err(WeightsError::Sum(9_999)));
        assert_eq!(assign(None, &weights(&[("a", 5_000), ("a", 5_000)])), Err(WeightsError::Twice("a".to_owned())));
    }

    #[test]
    fn a_canary_grows_without_moving_its_clients_back() {
        let mut assignment = assign(None, &weights(&[("old", 10_000), ("new", 0)])).expect("weights");
        let mut on_new: Vec<bool> = vec![false; POINTS.into()];
        for share in [50, 500, 2_500, 10_000] {
            assignment = assign(Some(&assignment), &weights(&[("old", 10_000 - share), ("new", share)])).expect("sum");
            let now: Vec<bool> = groups(&assignment).iter().map(|group| *group == "new").collect();
            assert!(on_new.iter().zip(&now).all(|(before, now)| !before || *now), "at {share} a point went back");
            on_new = now;
        }
    }

    /// Weights of some of five groups that add up to all points.
    fn any_weights() -> impl Strategy<Value = Vec<(String, u16)>> {
        proptest::collection::vec(0..=POINTS, 4).prop_map(|mut cuts| {
            cuts.sort_unstable();
            cuts.push(POINTS);
            let mut from = 0;
            let names = ["a", "b", "c", "d", "e"];
            let shares = names.iter().zip(cuts).map(|(name, cut)| {
                let share = cut - from;
                from = cut;
                ((*name).to_owned(), share)
            });
            shares.collect()
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(40))]

        #[test]
        fn only_the_difference_moves(steps in proptest::collection::vec(any_weights(), 1..6)) {
            let mut assignment: Option<Assignment> = None;
            for weights in steps {
                let next = assign(assignment.as_ref(), &weights).expect("they add up");
                prop_assert_eq!(next.check(), Ok(()));
                for (group, weight) in &weights {
                    prop_assert_eq!(next.weights().get(group.as_str()).copied().unwrap_or(0), *weight);
                }
                if let Some(before) = &assignment {
                    let moved = groups(before).iter().zip(groups(&next)).filter(|(old, new)| **old != *new).count();
                    let had = before.weights();
                    let difference: usize = weights
                        .iter()
                        .map(|(group, weight)| {
                            usize::from(weight.saturating_sub(had.get(group.as_str()).copied().unwrap_or(0)))
                        })
                        .sum();
                    prop_assert_eq!(moved, difference);
                }
                assignment = Some(next);
            }
        }

        #[test]
        fn any_ten_thousand_consecutive_requests_hit_each_point_once(start in 0..u64::MAX - 20_000) {
            let mut hit = vec![false; POINTS.into()];
            for count in start..start + u64::from(POINTS) {
                let point = usize::from(point_of_count(count));
                prop_assert!(!hit[point]);
                hit[point] = true;
            }
        }
    }
}
