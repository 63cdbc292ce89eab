//! Gives the approval of a command's user to exactly the steps that they were shown, in the change sets that list them.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::Result;
use kube::ResourceExt as _;
use setpoint_api::change_set::{ChangeSet, EntryState, Mode};
use setpoint_api::environment::{Approval, Requirement};
use setpoint_api::review::Decision;
use setpoint_api::step::Step;
use setpoint_core::authority::is_within_price;
use setpoint_core::count::counted;

use super::policy::Policy;
use super::review::{Judgement, Verdict, give};
use super::{entry, message, requirements, state};
use crate::session::Session;
use crate::signature::Signer;
use crate::terminal::{inert, remark};

/// How many steps are named one by one.
const NAMED: usize = 3;

pub(crate) struct Approver<'a> {
    session: &'a Session,
    user: &'a str,
    /// A key to sign with: its file, or `agent`.
    sign: Option<&'a str>,
    /// The steps that were shown, by their digests; these cover no price.
    shown: BTreeMap<String, Step>,
    /// The steps for which this user can do nothing more; with whether they approved them and nobody else has to.
    settled: BTreeMap<String, bool>,
}

/// What a user can do for a step that a change set lists.
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Approve it.
    Approve {
        /// Whether it is the default policy that asks for it.
        by_default: bool,
        /// Whether others must approve it too.
        with_others: bool,
    },
    /// Nothing: it has its approvals.
    Nothing,
    /// Nothing, and this is why.
    Leave(String),
}

impl<'a> Approver<'a> {
    pub(crate) fn new<'s>(
        session: &'a Session,
        user: &'a str,
        sign: Option<&'a str>,
        steps: impl Iterator<Item = &'s Step>,
    ) -> Approver<'a> {
        let shown = steps.map(|step| (step.digest.clone(), step.clone())).collect();
        Approver { session, user, sign, shown, settled: BTreeMap::new() }
    }

    /// Whether a step was shown, and this user has not done for it what they can.
    pub(crate) fn is_meant(&self, digest: &str) -> bool {
        self.shown.contains_key(digest) && !self.settled.contains_key(digest)
    }

    /// Whether this user has approved a step, and that is all it needs.
    pub(crate) fn has_approved(&self, digest: &str) -> bool {
        self.settled.get(digest).is_some_and(|is_approved| *is_approved)
    }

    /// Approves steps that wait, as far as change sets list them: of several the oldest, as that is the one that counts.
    pub(crate) async fn approve(
        &mut self,
        waiting: &BTreeSet<&str>,
        sets: impl Iterator<Item = &ChangeSet>,
    ) -> Result<()> {
        if !waiting.iter().any(|digest| self.is_meant(digest)) {
            return Ok(());
        }
        let is_open = |set: &&ChangeSet| set.spec.mode == Mode::Execute && set.metadata.deletion_timestamp.is_none();
        let mut sets: Vec<&ChangeSet> = sets.filter(is_open).collect();
        sets.sort_by_key(|set| (set.creation_timestamp(), set.name_any()));
        for set in sets {
            let steps = set
                .spec
                .steps
                .iter()
                .filter(|step| waiting.contains(step.digest.as_str()) && self.is_meant(&step.digest));
            // What no controller has judged there is not asked for, whatever a change set lists.
            let is_open = |step: &&Step| entry(set, step).is_some_and(|entry| !entry.state.is_closed());
            let open: Vec<&Step> = steps.filter(is_open).collect();
            if !open.is_empty() {
                let approved = self.review(set, &open).await?;
                let settled = |step: &&Step| (step.digest.clone(), approved.contains(&step.digest));
                self.settled.extend(open.iter().map(settled));
            }
        }
        Ok(())
    }

    /// Does what this user can for steps, and returns the digests of those that need nobody else.
    async fn review(&self, set: &ChangeSet, steps: &[&Step]) -> Result<BTreeSet<String>> {
        let (mut own, mut is_default, mut left, mut approved) = (Vec::new(), true, BTreeSet::new(), BTreeSet::new());
        for step in steps {
            match part(set, step, self.shown.get(&step.digest).unwrap_or(step), self.sign.is_some()) {
                Part::Approve { by_default, with_others } => {
                    own.push(*step);
                    is_default &= by_default;
                    match with_others {
                        true => drop(left.insert(others(set))),
                        false => drop(approved.insert(step.digest.clone())),
                    }
                }
                Part::Nothing => drop(approved.insert(step.digest.clone())),
                Part::Leave(why) => drop(left.insert(why)),
            }
        }
        if !own.is_empty() {
            let policy = Policy::of(self.session, &set.spec.environment).await?;
            let signer = self.sign.map(|word| Signer::of(word, &policy.keys_of(self.user))).transpose()?;
            let digests = own.iter().map(|step| step.digest.clone()).collect();
            let verdict = Verdict { set, decision: Decision::Approve, digests, comment: None, signer: signer.as_ref() };
            match give(self.session, self.user, verdict).await? {
                Judgement::Counted(_) => {
                    let whose = if is_default { "by you (default policy)" } else { "by you" };
                    remark(&format!("approved {whose}: {}", named(&own)));
                }
                void => {
                    remark(&void.to_string());
                    left.insert(others(set));
                    approved.clear();
                }
            }
        }
        left.iter().for_each(|why| remark(why));
        Ok(approved)
    }
}

/// What a user who asks for a step can do for it, after it was shown to them.
fn part(set: &ChangeSet, step: &Step, shown: &Step, signs: bool) -> Part {
    let id = inert(&step.id);
    match state(set, step) {
        EntryState::Waiting => {}
        EntryState::Rejected => {
            let why = message(set, step).map(|why| format!(": {}", inert(why))).unwrap_or_default();
            return Part::Leave(format!("{id} is rejected{why}; `setpoint reject --withdraw {}`", place(set)));
        }
        _ => return Part::Nothing,
    }
    let (rules, default) = (Approval { rules: set.spec.rules.clone(), keys: Vec::new() }, Approval::default());
    let needed: Vec<Requirement<'_>> = requirements(&rules, step).collect();
    match () {
        () if !is_within_price(shown, step) => {
            Part::Leave(format!("{id} costs more than was shown and is not approved; {}", others(set)))
        }
        () if needed.iter().any(|needed| !needed.requester_may_approve) => Part::Leave(others(set)),
        () if !signs && needed.iter().any(|needed| needed.signature) => {
            Part::Leave(format!("an approval must be signed: `setpoint approve {} --sign KEYFILE`", place(set)))
        }
        () => {
            let by_default = needed.iter().eq(requirements(&default, step).collect::<Vec<_>>().iter());
            Part::Approve { by_default, with_others: needed.iter().any(|needed| needed.approvals > 1) }
        }
    }
}

fn others(set: &ChangeSet) -> String {
    format!("others must approve: `setpoint approve {}`", place(set))
}

/// A change set as an argument of commands.
fn place(set: &ChangeSet) -> String {
    format!("{} -n {}", inert(&set.name_any()), inert(&set.namespace().unwrap_or_default()))
}

fn named(steps: &[&Step]) -> String {
    match steps.len() {
        many if many > NAMED => counted(many, "step"),
        _ => steps.iter().map(|step| inert(&step.id)).collect::<Vec<_>>().join(", "),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn listed(state: &str, rule: Value, cost: Value) -> ChangeSet {
        let step = json!({
            "id": "shop/db/delete", "digest": "d", "action": "Delete", "reason": "it goes", "origin": "Desired",
            "target": {"namespace": "shop", "name": "db", "kind": "Machine"}, "class": "Destructive",
            "classReason": "its data would be lost", "hourlyCostDelta": cost,
        });
        let mut full = json!({"class": "Destructive", "approvals": 1});
        for (field, value) in rule.as_object().into_iter().flatten() {
            full[field] = value.clone();
        }
        let entry = json!({"digest": "d", "state": state, "message": "by bob", "since": "2026-01-01T00:00:00Z"});
        let set = json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "ChangeSet", "metadata": {"name": "lab-1", "namespace": "shop"},
            "spec": {"environment": "lab", "mode": "Execute", "requestedBy": "carol", "steps": [step], "rules": [full]},
            "status": {"entries": [entry]},
        });
        serde_json::from_value(set).expect("a ChangeSet")
    }

    #[test]
    fn who_asks_approves_what_they_were_shown_and_may() {
        let approve = |by_default, with_others| Part::Approve { by_default, with_others };
        let leave = |text: &str| Part::Leave(text.to_owned());
        let others = "others must approve: `setpoint approve lab-1 -n shop`";
        let (waits, any) = ("Waiting", || json!({}));
        let rows = [
            ("the default policy asks", listed(waits, any(), json!("0.10")), false, approve(true, false)),
            ("two must", listed(waits, json!({"approvals": 2}), json!("0.10")), false, approve(false, true)),
            (
                "somebody else must",
                listed(waits, json!({"requesterMayApprove": false}), json!("0.10")),
                true,
                leave(others),
            ),
            (
                "it must be signed, and is not",
                listed(waits, json!({"signature": true}), json!("0.10")),
                false,
                leave("an approval must be signed: `setpoint approve lab-1 -n shop --sign KEYFILE`"),
            ),
            (
                "it must be signed, and is",
                listed(waits, json!({"signature": true}), json!("0.10")),
                true,
                approve(false, false),
            ),
            ("it is cheaper by now", listed(waits, any(), json!("0.05")), false, approve(true, false)),
            (
                "it is dearer by now",
                listed(waits, any(), json!("0.11")),
                false,
                leave(&format!("shop/db/delete costs more than was shown and is not approved; {others}")),
            ),
            (
                "a price that is not known matters to nothing that spends nothing",
                listed(waits, any(), Value::Null),
                false,
                approve(true, false),
            ),
            ("it has its approvals", listed("Approved", any(), json!("0.10")), false, Part::Nothing),
            (
                "somebody rejected it",
                listed("Rejected", any(), json!("0.10")),
                false,
                leave("shop/db/delete is rejected: by bob; `setpoint reject --withdraw lab-1 -n shop`"),
            ),
        ];
        for (row, set, signs, expected) in rows {
            let shown = Step { hourly_cost_delta: Some("0.10".parse().expect("a price")), ..set.spec.steps[0].clone() };
            assert_eq!(part(&set, &set.spec.steps[0], &shown, signs), expected, "{row}");
        }
    }
}
