//! What became of a plan, in a sentence.

use std::fmt;

use serde::{Deserialize, Serialize};

use super::{Considered, PlanName};

/// What became of a plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "reason", rename_all_fields = "camelCase")]
pub enum Verdict {
    /// It serves the goal.
    Active,
    /// Its version is lower than another's: of its series, or of the best of all series.
    LowerVersion { version: String, than: PlanName, than_version: String },
    /// Its version is that of another, which comes first.
    TieBroken { version: String, with: PlanName, by: TieBreak },
    /// A valid plan replaces it, by name or as a lower version of what it names.
    Superseded { by: PlanName },
    /// It is wrong.
    Invalid { error: String },
    /// The goal's selector does not select it.
    NotSelected { requirement: String },
    /// It is for another goal, or for none.
    OtherGoal { goal: Option<String> },
}

/// What decides between equal versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum TieBreak {
    Series,
    Name,
    Namespace,
}

impl Verdict {
    /// The verdict on a plan that comes after another in the ranking.
    pub(super) fn behind(plan: &Considered<'_>, first: &Considered<'_>) -> Verdict {
        if plan.version != first.version {
            let (version, than_version) = (plan.version_text(), first.version_text());
            return Verdict::LowerVersion { version, than: first.name(), than_version };
        }
        let by = if plan.series() != first.series() {
            TieBreak::Series
        } else if plan.short_name() != first.short_name() {
            TieBreak::Name
        } else {
            TieBreak::Namespace
        };
        Verdict::TieBroken { version: plan.version_text(), with: first.name(), by }
    }

    /// How far the plan is from serving the goal, for the order in which plans are shown.
    pub(super) fn distance(&self) -> u8 {
        match self {
            Verdict::Active => 0,
            Verdict::LowerVersion { .. } | Verdict::TieBroken { .. } => 1,
            Verdict::Superseded { .. } => 2,
            Verdict::Invalid { .. } => 3,
            Verdict::NotSelected { .. } => 4,
            Verdict::OtherGoal { .. } => 5,
        }
    }

    /// The verdict in one word.
    pub fn word(&self) -> &'static str {
        match self {
            Verdict::Active => "Active",
            Verdict::LowerVersion { .. } => "LowerVersion",
            Verdict::TieBroken { .. } => "TieBroken",
            Verdict::Superseded { .. } => "Superseded",
            Verdict::Invalid { .. } => "Invalid",
            Verdict::NotSelected { .. } => "NotSelected",
            Verdict::OtherGoal { .. } => "OtherGoal",
        }
    }
}

/// A sentence whose subject is the plan.
impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Verdict::Active => f.write_str("is active"),
            Verdict::LowerVersion { version, than, than_version } => {
                write!(f, "has version {version}, and {than} has the higher version {than_version}")
            }
            Verdict::TieBroken { version, with, by } => {
                write!(f, "has version {version} like {with}, which comes first by {by}")
            }
            Verdict::Superseded { by } => write!(f, "is superseded by {by}"),
            Verdict::Invalid { error } => write!(f, "is invalid: {error}"),
            Verdict::NotSelected { requirement } => write!(f, "is not selected: {requirement}"),
            Verdict::OtherGoal { goal: Some(goal) } => write!(f, "is for another goal: {goal}"),
            Verdict::OtherGoal { goal: None } => f.write_str("names no goal"),
        }
    }
}

impl fmt::Display for TieBreak {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            TieBreak::Series => "series",
            TieBreak::Name => "name",
            TieBreak::Namespace => "namespace",
        })
    }
}
