//! Which steps wait for people, by an environment's own policy.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use setpoint_api::environment::Approval;
use setpoint_api::step::Step;
use setpoint_core::gate::{self, Approvals, Need, Requesters, Usage, Verdict};

/// What a step waits for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Hold {
    /// The step, by its id.
    pub(crate) step: String,
    /// Who must approve, in words for people.
    pub(crate) by: String,
    /// Whether who asks may approve too.
    pub(crate) own_counts: bool,
    /// Whether the approval of who asks is all that is needed.
    pub(crate) own_suffices: bool,
    /// Whether an approval must be signed.
    pub(crate) signed: bool,
}

impl Hold {
    pub(crate) fn words(&self) -> String {
        format!("for approval by {}", self.by)
    }
}

/// What the steps wait for that need people, if `requester` asks.
pub(crate) fn holds(steps: &[Step], approval: Option<&Approval>, requester: &str) -> Vec<Hold> {
    let now = Timestamp::UNIX_EPOCH;
    // Steps are judged alone: one that waits for another is not held by people.
    let judge = |step: &Step| {
        let alone = Step { depends_on: Vec::new(), ..step.clone() };
        let input = gate::Input {
            steps: std::slice::from_ref(&alone),
            approval,
            guardrails: None,
            expires_at: None,
            evidence: &[],
            used_nonces: &BTreeSet::new(),
            ledger: &[],
            under_way: &BTreeSet::new(),
            usage: Usage::default(),
            gpus: &BTreeMap::new(),
            requesters: &Requesters::of_all([requester]),
            cluster_uid: "",
            namespace: "",
            gate: "",
            change_set_uid: "",
            opened_at: now,
            now,
        };
        gate::gate(&input).steps.into_iter().next().map(|judged| judged.verdict)
    };
    steps.iter().filter_map(|step| hold(step, &judge(step)?, requester)).collect()
}

fn hold(step: &Step, verdict: &Verdict, requester: &str) -> Option<Hold> {
    let Verdict::Wait { needs } = verdict else { return None };
    let approvals = needs.iter().filter_map(|need| match need {
        Need::Approvals(approvals) => Some(approvals),
        _ => None,
    });
    let approvals: Vec<&Approvals> = approvals.collect();
    if approvals.is_empty() {
        return None;
    }
    let own_counts = approvals.iter().all(|needed| needed.except.as_deref() != Some(requester));
    let signed = approvals.iter().any(|needed| needed.signature);
    let own_suffices = own_counts && approvals.iter().all(|needed| needed.required == 1);
    let words: BTreeSet<String> = approvals.iter().map(|needed| words(needed)).collect();
    let by = words.into_iter().collect::<Vec<_>>().join(" and ");
    Some(Hold { step: step.id.clone(), by, own_counts, own_suffices, signed })
}

/// `2 people who sign as operator or owner other than carol`.
fn words(needed: &Approvals) -> String {
    let (mut words, signs) = match needed.required {
        1 => ("1 person".to_owned(), "signs"),
        several => (format!("{several} people"), "sign"),
    };
    let roles: Vec<&str> = needed.roles.iter().map(String::as_str).collect();
    match (needed.signature, roles.is_empty()) {
        (_, false) => words += &format!(" who {signs} as {}", roles.join(" or ")),
        (true, true) => words += &format!(" who {signs}"),
        (false, true) => {}
    }
    if let Some(requester) = &needed.except {
        words += &format!(" other than {requester}");
    }
    words
}
