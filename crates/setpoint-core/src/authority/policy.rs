//! The approval rules that hold for a change set: the stricter of those at its opening and those in force.

use setpoint_api::environment::{Approval, ApprovalRule, REQUIREMENTS};
use setpoint_api::step::{Class, Step};

/// The rules for all classes, those filled in that a policy says nothing of.
pub fn rules(approval: Option<&Approval>) -> Vec<ApprovalRule> {
    let nothing = Approval::default();
    let approval = approval.unwrap_or(&nothing);
    let rule = |class: Class| {
        let requirement = approval.requirement(class);
        ApprovalRule {
            class,
            approvals: requirement.approvals,
            roles: requirement.roles.to_vec(),
            signature: requirement.signature,
            requester_may_approve: requirement.requester_may_approve,
            service_accounts: requirement.service_accounts,
            expiry_seconds: requirement.expiry_seconds,
        }
    };
    REQUIREMENTS.iter().map(|(class, _)| rule(*class)).collect()
}

/// Rule by rule and field by field the stricter of two policies; the keys are those in force. None where no key could have a
/// role that both ask for.
pub fn stricter(opened: &[ApprovalRule], in_force: Option<&Approval>) -> Option<Approval> {
    let merged = rules(in_force).into_iter().map(|rule| match opened.iter().find(|old| old.class == rule.class) {
        Some(old) => of_both(old, rule),
        None => Some(rule),
    });
    let rules = merged.collect::<Option<Vec<ApprovalRule>>>()?;
    Some(Approval { rules, keys: in_force.map(|approval| approval.keys.clone()).unwrap_or_default() })
}

fn of_both(old: &ApprovalRule, new: ApprovalRule) -> Option<ApprovalRule> {
    let approvals = old.approvals.max(new.approvals);
    let roles: Vec<String> = match (old.roles.is_empty(), new.roles.is_empty()) {
        (true, _) => new.roles,
        (false, true) => old.roles.clone(),
        (false, false) => new.roles.into_iter().filter(|role| old.roles.contains(role)).collect(),
    };
    let is_contradiction = roles.is_empty() && !old.roles.is_empty() && approvals > 0;
    (!is_contradiction).then_some(ApprovalRule {
        class: old.class,
        approvals,
        roles,
        signature: old.signature || new.signature,
        requester_may_approve: old.requester_may_approve && new.requester_may_approve,
        service_accounts: old.service_accounts && new.service_accounts,
        expiry_seconds: old.expiry_seconds.min(new.expiry_seconds),
    })
}

/// Whether a step needs an approval, by a class that it belongs to.
pub fn needs_approval(step: &Step, approval: Option<&Approval>) -> bool {
    let nothing = Approval::default();
    let approval = approval.unwrap_or(&nothing);
    step.classes().into_iter().any(|class| approval.requirement(class).approvals > 0)
}
