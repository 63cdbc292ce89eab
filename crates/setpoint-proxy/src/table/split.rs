//! A split with its groups resolved: which group a point belongs to, and who takes over for a group without endpoints.

use super::{GroupId, Split, Sticky};
use crate::assignment::POINTS;

/// A split as requests need it.
#[derive(Debug)]
pub struct CompiledSplit {
    pub name: String,
    pub sticky: Option<Sticky>,
    runs: Vec<Run>,
    shares: Vec<(GroupId, u16)>,
}

/// Points up to `end` that are not in the runs before.
#[derive(Debug)]
struct Run {
    end: u16,
    group: GroupId,
}

/// The group that a request goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Choice {
    /// Nobody is left when it is none.
    pub group: Option<GroupId>,
    /// The group that the point belongs to and that has no usable endpoint: the request counts as its failure.
    pub instead_of: Option<GroupId>,
}

impl CompiledSplit {
    pub(super) fn new(split: &Split, group: impl Fn(&str) -> Result<GroupId, String>) -> Result<Self, String> {
        split.assignment.check()?;
        let mut runs: Vec<Run> = Vec::new();
        let mut shares: Vec<(GroupId, u16)> = Vec::new();
        for run in split.assignment.runs() {
            let group = group(&run.group)?;
            runs.push(Run { end: runs.last().map_or(0, |run| run.end) + run.points, group });
            match shares.iter_mut().find(|(it, _)| *it == group) {
                Some((_, points)) => *points += run.points,
                None => shares.push((group, run.points)),
            }
        }
        Ok(Self { name: split.name.clone(), sticky: split.sticky.clone(), runs, shares })
    }

    /// Each group with its points.
    pub fn shares(&self) -> &[(GroupId, u16)] {
        &self.shares
    }

    /// The only group, where there is one: it needs no point.
    pub fn only_group(&self) -> Option<GroupId> {
        match self.shares[..] {
            [(group, _)] => Some(group),
            _ => None,
        }
    }

    pub fn group_at(&self, point: u16) -> GroupId {
        let point = point % POINTS;
        self.runs[self.runs.partition_point(|run| run.end <= point)].group
    }

    /// The group of a point, or one of the others, by their weights, if that has no usable endpoint.
    pub fn choose(&self, point: u16, is_usable: impl Fn(GroupId) -> bool) -> Choice {
        let group = self.group_at(point);
        if is_usable(group) {
            return Choice { group: Some(group), instead_of: None };
        }
        let others = || self.shares.iter().filter(|(other, _)| *other != group && is_usable(*other));
        let total: u64 = others().map(|(_, points)| u64::from(*points)).sum();
        // The points of the empty group are spread over the others as these are among themselves.
        let (rank, own) = self.rank(point % POINTS, group);
        let mut target = u64::from(rank) * total / u64::from(own);
        let heir = others().find(|(_, points)| {
            let is_here = target < u64::from(*points);
            target = target.saturating_sub(u64::from(*points));
            is_here
        });
        Choice { group: heir.map(|(group, _)| *group), instead_of: Some(group) }
    }

    /// The how-many-eth point of its group this is, and how many the group has.
    fn rank(&self, point: u16, group: GroupId) -> (u16, u16) {
        let (mut before, mut own, mut start) = (0, 0, 0);
        for run in &self.runs {
            if run.group == group {
                before += run.end.min(point).saturating_sub(start);
                own += run.end - start;
            }
            start = run.end;
        }
        (before, own)
    }
}
