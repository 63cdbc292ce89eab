//! A step before its class and digest are known.

use serde_json::json;
use setpoint_api::price::Price;
use setpoint_api::step::{Action, Origin, Step, Target};

use super::Input;
use super::text::verb;
use crate::classify::{Stake, classify, spends};
use crate::desired::Desired;
use crate::diff::Change;
use crate::observation::Guest;

pub(super) struct Draft<'a> {
    pub(super) action: Action,
    pub(super) reason: String,
    pub(super) origin: Origin,
    pub(super) guest: Option<&'a Guest>,
    pub(super) changes: Vec<Change<'a>>,
    pub(super) interrupts: bool,
    pub(super) create_first: bool,
    pub(super) hourly_cost_delta: Option<Price>,
}

impl<'a> Draft<'a> {
    pub(super) fn new(action: Action, reason: String, origin: Origin) -> Draft<'a> {
        Draft {
            action,
            reason,
            origin,
            guest: None,
            changes: Vec::new(),
            interrupts: false,
            create_first: false,
            hourly_cost_delta: None,
        }
    }

    pub(super) fn into_step(self, input: &Input<'_>, target: &Target, desired: Option<&Desired>) -> Step {
        let data_lost = self.changes.iter().find(|change| change.loses_data()).map(Change::path);
        let stake = Stake {
            action: self.action,
            guest: self.guest,
            data_lost: data_lost.as_deref(),
            interrupts: self.interrupts,
            hourly_cost_delta: self.hourly_cost_delta,
            bills: input.capabilities.bills,
        };
        let ((class, class_reason), spends) = (classify(&stake), spends(&stake));
        let removes = matches!(self.action, Action::Delete | Action::Release);
        let new_spec_digest = desired.filter(|_| !removes).map(|desired| desired.spec_digest(input.key));
        let mark = self.guest.and_then(|guest| guest.mark.as_ref());
        let marked = mark.and_then(|mark| mark.spec_digest.as_deref());
        let recorded = desired.and_then(|desired| desired.record.spec_digest.as_deref());
        let provider_id = self.guest.map(|guest| guest.id.to_string());
        let changes: Vec<_> = self.changes.iter().map(Change::reveal).collect();
        // What is not part of this step must not cost it its approval: only a guest that is made is made from all.
        let makes = desired.filter(|_| matches!(self.action, Action::Create | Action::Replace));
        // An object that is only previewed has no uid yet: what is approved then must be what is done afterwards.
        let begins = matches!(self.action, Action::Create | Action::Adopt);
        let uid = desired.filter(|_| !begins).map(|desired| &desired.uid);
        let digest = input.key.digest(&json!({
            "cluster": input.cluster,
            "environment": input.environment,
            "target": target,
            "uid": uid,
            "action": self.action,
            "guest": provider_id,
            "mark": mark.map(|mark| json!([mark.owner_uid, mark.intent])),
            "purpose": (self.action == Action::Restart).then_some(&self.reason),
            "pinned": makes.and_then(|desired| desired.provider_id.as_ref()),
            "run": makes.and_then(|desired| desired.run).map(|run| format!("{run:?}")),
            "changes": changes,
            "spec": makes.and(new_spec_digest.as_ref()),
            "class": class,
            "classReason": class_reason,
            "createFirst": self.create_first,
            "hourlyCostDelta": self.hourly_cost_delta,
            "spends": spends,
            "interrupts": self.interrupts,
        }));
        Step {
            id: step_id(target, self.action),
            target: target.clone(),
            action: self.action,
            provider_id,
            reason: self.reason,
            origin: self.origin,
            changes: self.changes.iter().map(Change::shown).collect(),
            class,
            class_reason,
            interrupts: self.interrupts,
            create_first: self.create_first,
            hourly_cost_delta: self.hourly_cost_delta,
            spends,
            depends_on: Vec::new(),
            old_spec_digest: recorded.or(marked).map(str::to_owned),
            new_spec_digest,
            digest,
        }
    }
}

fn step_id(target: &Target, action: Action) -> String {
    let verb = verb(action);
    if target.namespace.is_empty() {
        // No namespace has a colon.
        format!("{}:{}/{verb}", target.kind.to_lowercase(), target.name)
    } else {
        format!("{}/{}/{verb}", target.namespace, target.name)
    }
}
