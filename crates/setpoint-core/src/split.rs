//! A split of traffic: basis points that are exactly 10 000 together.
//!
//! A [`Split`] cannot be made wrong, so whoever holds one need not ask. Sums are made in 64 bits. Where a share cannot be
//! had exactly, the largest remainder decides, and among equal remainders the earlier entry.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use setpoint_api::revision::RevisionPhase;
use setpoint_api::traffic_split::{ALL_BPS, MAX_ENTRIES, SplitEntry};
use thiserror::Error;

/// Which revisions get how much, in an order that is kept. The weights are 10 000 basis points together, no revision
/// stands in it twice, and one of weight 0 is named all the same.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "Vec<SplitEntry>", into = "Vec<SplitEntry>")]
pub struct Split {
    entries: Vec<SplitEntry>,
}

/// What makes a split of an App's traffic impossible. All of it is found before any provider is called.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SplitError {
    #[error("a split of {app} was asked for and there is none: set one with `setpoint split`")]
    SplitNotFound { app: String },
    #[error("a split must sum to exactly 10000 basis points and this one sums to {sum}")]
    InvalidSplit { sum: u64 },
    #[error("the weight of {revision} is {weight_bps}: it must be between 0 and 10000 basis points")]
    WeightTooLarge { revision: String, weight_bps: u32 },
    #[error("{revision} stands in the split twice: name it once, with the sum of its weights")]
    RevisionTwice { revision: String },
    #[error("a split of {count} revisions is too long: at most {MAX_ENTRIES} can share traffic")]
    TooMany { count: usize },
    #[error("there is no revision {revision} of {app}: `kubectl get revisions` shows those there are")]
    RevisionNotFound { app: String, revision: String },
    #[error("{revision} is a revision of {owner}, not of {app}: a split stays within its App")]
    ForeignRevision { app: String, revision: String, owner: String },
    #[error("{revision} is {phase}: only a Ready revision gets traffic, so warm it first")]
    NotReady { revision: String, phase: RevisionPhase },
}

/// What is known of a revision when a split is checked: whose it is, and where it is in its life.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct KnownRevision {
    pub app: String,
    pub phase: RevisionPhase,
}

/// How finely a deployer can divide traffic: into so many equal slots. A router counts single basis points; a load balancer
/// may know whole per cents; where instances are all there is, one instance is the least.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "u32", into = "u32")]
pub struct Granularity {
    slots: u32,
}

impl Split {
    /// A split as it was written.
    pub fn new(entries: Vec<SplitEntry>) -> Result<Split, SplitError> {
        if entries.len() > MAX_ENTRIES {
            return Err(SplitError::TooMany { count: entries.len() });
        }
        for (index, entry) in entries.iter().enumerate() {
            let SplitEntry { revision, weight_bps } = entry.clone();
            if weight_bps > ALL_BPS {
                return Err(SplitError::WeightTooLarge { revision, weight_bps });
            }
            if entries[..index].iter().any(|earlier| earlier.revision == revision) {
                return Err(SplitError::RevisionTwice { revision });
            }
        }
        let sum: u64 = entries.iter().map(|entry| u64::from(entry.weight_bps)).sum();
        if sum == u64::from(ALL_BPS) { Ok(Split { entries }) } else { Err(SplitError::InvalidSplit { sum }) }
    }

    /// Everything to one revision.
    pub fn all_to(revision: impl Into<String>) -> Split {
        Split { entries: vec![SplitEntry { revision: revision.into(), weight_bps: ALL_BPS }] }
    }

    pub fn entries(&self) -> &[SplitEntry] {
        &self.entries
    }

    pub fn into_entries(self) -> Vec<SplitEntry> {
        self.entries
    }

    /// How many basis points a revision gets; 0 if it is not named.
    pub fn weight(&self, revision: &str) -> u32 {
        self.entries.iter().find(|entry| entry.revision == revision).map_or(0, |entry| entry.weight_bps)
    }

    /// Whether a revision stands in the split, at whatever weight.
    pub fn names(&self, revision: &str) -> bool {
        self.entries.iter().any(|entry| entry.revision == revision)
    }

    /// The revisions that get traffic.
    pub fn routed(&self) -> impl Iterator<Item = &SplitEntry> {
        self.entries.iter().filter(|entry| entry.weight_bps > 0)
    }

    /// The revision that gets the most; the first of several.
    pub fn main(&self) -> &str {
        let first = &self.entries[0];
        let main = self
            .entries
            .iter()
            .fold(first, |best, entry| if entry.weight_bps > best.weight_bps { entry } else { best });
        &main.revision
    }

    /// The split in which `revision` has `weight_bps`, and the others share the rest in the proportions they had.
    /// `revision` is added if it is not there; others keep their place, also at weight 0, unless there is no more place:
    /// then the one with the least leaves. If nobody else had traffic, the rest stays with `revision`, for there is nobody
    /// to give it to.
    pub fn with_weight(&self, revision: &str, weight_bps: u32) -> Split {
        let weight = weight_bps.min(ALL_BPS);
        let mut entries = self.with_place_for(revision).entries;
        let others: Vec<u64> = entries
            .iter()
            .map(|entry| if entry.revision == revision { 0 } else { u64::from(entry.weight_bps) })
            .collect();
        let weight = if others.iter().all(|other| *other == 0) { ALL_BPS } else { weight };
        let rest = apportion(&others, ALL_BPS - weight);
        for (entry, rest) in entries.iter_mut().zip(rest) {
            entry.weight_bps = if entry.revision == revision { weight } else { rest };
        }
        if !self.names(revision) {
            entries.push(SplitEntry { revision: revision.to_owned(), weight_bps: weight });
        }
        Split { entries }
    }

    /// The split in which `amount_bps` of one revision, or all it has, went to another.
    pub fn moved(&self, from: &str, to: &str, amount_bps: u32) -> Split {
        let mut entries = self.with_place_for(to).entries;
        let weight = entries.iter().find(|entry| entry.revision == from).map_or(0, |entry| entry.weight_bps);
        let amount = amount_bps.min(weight);
        if !self.names(to) {
            entries.push(SplitEntry { revision: to.to_owned(), weight_bps: 0 });
        }
        for entry in &mut entries {
            if entry.revision == from {
                entry.weight_bps -= amount;
            }
            if entry.revision == to {
                entry.weight_bps += amount;
            }
        }
        Split { entries }
    }

    /// The split with a place for one more revision: where there is none, the one with the least leaves, the first of
    /// several.
    fn with_place_for(&self, revision: &str) -> Split {
        if self.names(revision) || self.entries.len() < MAX_ENTRIES {
            return self.clone();
        }
        let least = self.entries.iter().min_by_key(|entry| entry.weight_bps);
        least.and_then(|least| self.without(&least.revision)).expect("the least of several has not everything")
    }

    /// The split without a revision, whose traffic goes to the others in proportion. `None` if it had all of it.
    pub fn without(&self, revision: &str) -> Option<Split> {
        if self.weight(revision) == ALL_BPS {
            return None;
        }
        let mut split = self.with_weight(revision, 0);
        split.entries.retain(|entry| entry.revision != revision);
        Some(split)
    }

    /// The nearest split that a deployer of this granularity can apply.
    pub fn rounded(&self, granularity: Granularity) -> Split {
        let weights: Vec<u64> = self.entries.iter().map(|entry| u64::from(entry.weight_bps)).collect();
        let slots: Vec<u64> = apportion(&weights, granularity.slots).into_iter().map(u64::from).collect();
        let mut entries = self.entries.clone();
        for (entry, weight) in entries.iter_mut().zip(apportion(&slots, ALL_BPS)) {
            entry.weight_bps = weight;
        }
        Split { entries }
    }

    /// Whether this split can be applied to `app`: every revision is known, is the App's own, and is Ready if it is to
    /// get traffic.
    pub fn check(&self, app: &str, revisions: &BTreeMap<String, KnownRevision>) -> Result<(), SplitError> {
        for entry in &self.entries {
            let revision = entry.revision.clone();
            let Some(known) = revisions.get(&revision) else {
                return Err(SplitError::RevisionNotFound { app: app.to_owned(), revision });
            };
            if known.app != app {
                let owner = known.app.clone();
                return Err(SplitError::ForeignRevision { app: app.to_owned(), revision, owner });
            }
            if entry.weight_bps > 0 && known.phase != RevisionPhase::Ready {
                return Err(SplitError::NotReady { revision, phase: known.phase });
            }
        }
        Ok(())
    }
}

/// `web-3 9900, web-4 100`.
impl fmt::Display for Split {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, entry) in self.entries.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{} {}", entry.revision, entry.weight_bps)?;
        }
        Ok(())
    }
}

impl TryFrom<Vec<SplitEntry>> for Split {
    type Error = SplitError;

    fn try_from(entries: Vec<SplitEntry>) -> Result<Split, SplitError> {
        Split::new(entries)
    }
}

impl From<Split> for Vec<SplitEntry> {
    fn from(split: Split) -> Vec<SplitEntry> {
        split.entries
    }
}

impl Granularity {
    /// Single basis points.
    pub const EXACT: Granularity = Granularity { slots: ALL_BPS };
    /// Whole per cents.
    pub const PERCENT: Granularity = Granularity { slots: 100 };

    /// So many equal slots, at least one and at most one for each basis point.
    pub fn slots(slots: u32) -> Granularity {
        Granularity { slots: slots.clamp(1, ALL_BPS) }
    }

    /// The weight of one slot, rounded up.
    pub fn grain_bps(self) -> u32 {
        ALL_BPS.div_ceil(self.slots)
    }

    /// The largest weight of this granularity that is not above `weight_bps`.
    pub fn floor(self, weight_bps: u32) -> u32 {
        let weight = weight_bps.min(ALL_BPS);
        // A slot's weight is itself rounded down, so one slot more than the quotient may still fit.
        let slots = weight * self.slots / ALL_BPS;
        let more = self.weight_of((slots + 1).min(self.slots));
        if more <= weight { more } else { self.weight_of(slots) }
    }

    /// The nearest weight, but neither nothing nor everything unless that is asked for or there is nothing else.
    pub fn nearest(self, weight_bps: u32) -> u32 {
        let weight = weight_bps.min(ALL_BPS);
        if weight == 0 || weight == ALL_BPS {
            return weight;
        }
        let slots = (weight * self.slots + ALL_BPS / 2) / ALL_BPS;
        self.weight_of(slots.clamp(1, self.slots.saturating_sub(1).max(1)))
    }

    fn weight_of(self, slots: u32) -> u32 {
        slots * ALL_BPS / self.slots
    }
}

impl From<u32> for Granularity {
    fn from(slots: u32) -> Granularity {
        Granularity::slots(slots)
    }
}

impl From<Granularity> for u32 {
    fn from(granularity: Granularity) -> u32 {
        granularity.slots
    }
}

impl Default for Granularity {
    fn default() -> Granularity {
        Granularity::EXACT
    }
}

/// Divides `total` in proportion to `shares`: everyone gets the whole part, and what is left goes to the largest
/// remainders, the earlier first. The parts sum to `total`, unless no share is above 0: then all are 0.
pub fn apportion(shares: &[u64], total: u32) -> Vec<u32> {
    let sum: u128 = shares.iter().map(|share| u128::from(*share)).sum();
    if sum == 0 {
        return vec![0; shares.len()];
    }
    let exact = |share: u64| u128::from(share) * u128::from(total);
    let mut parts: Vec<u32> =
        shares.iter().map(|share| u32::try_from(exact(*share) / sum).expect("a part is at most the total")).collect();
    let given: u32 = parts.iter().sum();
    let mut by_remainder: Vec<usize> = (0..shares.len()).collect();
    by_remainder.sort_by_key(|&index| std::cmp::Reverse(exact(shares[index]) % sum));
    for &index in by_remainder.iter().take((total - given) as usize) {
        parts[index] += 1;
    }
    parts
}
