//! Which steps need approval, by an environment's policy.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use setpoint_api::environment::{Approval, Requirement};
use setpoint_api::step::Step;

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hold {
    /// The step, by its id.
    pub(crate) step: String,
    /// Who must approve, in words for people.
    pub(crate) by: String,
}

impl Hold {
    pub(crate) fn words(&self) -> String {
        format!("for approval by {}", self.by)
    }
}

/// What the steps wait for that need approval, if `requester` asks.
pub(crate) fn holds(steps: &[Step], approval: Option<&Approval>, requester: &str) -> Vec<Hold> {
    let default = Approval::default();
    let approval = approval.unwrap_or(&default);
    let hold = |step: &Step| {
        let needed = step.classes().into_iter().map(|class| approval.requirement(class));
        let by: BTreeSet<String> =
            needed.filter(|needed| needed.approvals > 0).map(|needed| words(&needed, requester)).collect();
        let by: Vec<String> = by.into_iter().collect();
        (!by.is_empty()).then(|| Hold { step: step.id.clone(), by: by.join(" and ") })
    };
    steps.iter().filter_map(hold).collect()
}

/// `2 people who sign as operator or owner other than carol`.
fn words(needed: &Requirement<'_>, requester: &str) -> String {
    let (mut words, signs) = match needed.approvals {
        1 => ("1 person".to_owned(), "signs"),
        several => (format!("{several} people"), "sign"),
    };
    match (needed.signature, needed.roles.is_empty()) {
        (_, false) => words += &format!(" who {signs} as {}", needed.roles.join(" or ")),
        (true, true) => words += &format!(" who {signs}"),
        (false, true) => {}
    }
    if !needed.requester_may_approve {
        words += &format!(" other than {requester}");
    }
    words
}
