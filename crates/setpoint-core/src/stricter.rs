//! The rules that steps are judged by: field by field, the stricter of an Environment's spec and of its policy in force. So a
//! tighter rule holds as soon as it is written, and a looser one when it is in force.

use std::borrow::Cow;

use setpoint_api::environment::{
    Approval, ApprovalRule, ApproverKey, Create, Environment, EnvironmentSpec, Freeze, Guardrails, NamespaceLimits,
    Notifications, OrphanPolicy, PolicyInForce, Requirement, Window,
};
use setpoint_api::protection::is_protected;
use setpoint_api::step::{Action, Class, Step};

use crate::loosens::{CLASSES, Loosened, Part, asks_for_signature, bare, freezes, loosens, names, openings};

/// The rules of an environment by which steps are judged now.
pub fn rules(environment: &Environment) -> Cow<'_, EnvironmentSpec> {
    match environment.status.as_ref().and_then(|status| status.policy.as_ref()) {
        Some(policy) if policy.spec != environment.spec => Cow::Owned(stricter(policy, &environment.spec)),
        _ => Cow::Borrowed(&environment.spec),
    }
}

/// The rules by which these steps are judged now. A looser policy is judged by the one in force alone, and no limit and no
/// window holds it: a freeze could not be lifted otherwise.
pub fn rules_for<'e>(environment: &'e Environment, steps: &[Step]) -> Cow<'e, EnvironmentSpec> {
    let policy = environment.status.as_ref().and_then(|status| status.policy.as_ref());
    match policy.filter(|_| steps.iter().any(|step| step.action == Action::Loosen)) {
        Some(policy) => Cow::Owned(EnvironmentSpec { guardrails: None, windows: Vec::new(), ..policy.spec.clone() }),
        None => rules(environment),
    }
}

/// The policy that an Environment asks for: what its spec says, and once it is deleted, that without its rules.
pub fn wanted(environment: &Environment) -> PolicyInForce {
    let is_deleted = environment.metadata.deletion_timestamp.is_some();
    let spec = if is_deleted { bare(&environment.spec) } else { environment.spec.clone() };
    let protected = is_protected(&environment.metadata) && !is_deleted;
    PolicyInForce { spec, protected, was_ready: false, unlocked: None }
}

/// The policy in force after all was put in force that needs nobody's approval: each part of the wanted one in which nothing
/// is looser. `loosened` is what is.
pub fn tightened(in_force: &PolicyInForce, wanted: &PolicyInForce, loosened: &[Loosened]) -> PolicyInForce {
    let waits = |part: Part| loosened.iter().any(|loosened| loosened.part == part);
    let (old, new) = (&in_force.spec, &wanted.spec);
    fn chosen<T: Clone>(waits: bool, old: &T, new: &T) -> T {
        if waits { old.clone() } else { new.clone() }
    }
    let guardrails = match waits(Part::Guardrails) {
        true => some(stricter_guardrails(old, new)),
        false => new.guardrails.clone(),
    };
    let spec = EnvironmentSpec {
        deployer: chosen(waits(Part::Deployer), &old.deployer, &new.deployer),
        config: chosen(waits(Part::Deployer), &old.config, &new.config),
        credentials_secret_ref: chosen(waits(Part::Deployer), &old.credentials_secret_ref, &new.credentials_secret_ref),
        create: chosen(waits(Part::Create), &old.create, &new.create),
        guardrails,
        // Its keys may be needed for the approval itself.
        approval: chosen(waits(Part::Approval), &old.approval, &new.approval),
        windows: chosen(waits(Part::Windows), &old.windows, &new.windows),
        notifications: chosen(waits(Part::Notifications), &old.notifications, &new.notifications),
        orphan_policy: chosen(waits(Part::OrphanPolicy), &old.orphan_policy, &new.orphan_policy),
        observe_interval_seconds: new.observe_interval_seconds,
        drain_seconds: chosen(waits(Part::DrainSeconds), &old.drain_seconds, &new.drain_seconds),
    };
    let protected = chosen(waits(Part::Protected), &in_force.protected, &wanted.protected);
    PolicyInForce { spec, protected, was_ready: in_force.was_ready, unlocked: in_force.unlocked.clone() }
}

/// Field by field, the stricter of the policy in force and of a spec. Of what is neither stricter nor looser, such as another
/// configuration, it is what is in force.
pub fn stricter(in_force: &PolicyInForce, spec: &EnvironmentSpec) -> EnvironmentSpec {
    let old = &in_force.spec;
    let loosened = loosens(in_force, spec, in_force.protected);
    let waits = |part: Part| loosened.iter().any(|loosened| loosened.part == part);
    let opened_by = if waits(Part::Deployer) { old } else { spec };
    EnvironmentSpec {
        deployer: opened_by.deployer.clone(),
        config: opened_by.config.clone(),
        credentials_secret_ref: opened_by.credentials_secret_ref.clone(),
        create: if old.create == Create::Never { Create::Never } else { spec.create },
        guardrails: some(stricter_guardrails(old, spec)),
        approval: Some(stricter_approval(&approval(old), &approval(spec))),
        windows: stricter_windows(&old.windows, &spec.windows),
        notifications: stricter_notifications(old.notifications.as_ref(), spec.notifications.as_ref()),
        orphan_policy: if old.orphan_policy == OrphanPolicy::Report {
            OrphanPolicy::Report
        } else {
            spec.orphan_policy
        },
        observe_interval_seconds: spec.observe_interval_seconds,
        drain_seconds: old.drain_seconds.max(spec.drain_seconds),
    }
}

fn some(guardrails: Guardrails) -> Option<Guardrails> {
    (guardrails != Guardrails::default()).then_some(guardrails)
}

fn approval(spec: &EnvironmentSpec) -> Approval {
    spec.approval.clone().unwrap_or_default()
}

fn stricter_guardrails(one: &EnvironmentSpec, other: &EnvironmentSpec) -> Guardrails {
    let one = one.guardrails.clone().unwrap_or_default();
    let other = other.guardrails.clone().unwrap_or_default();
    let both: Vec<NamespaceLimits> = match (one.namespaces.is_empty(), other.namespaces.is_empty()) {
        (true, true) => Vec::new(),
        _ => names(&one, &other).into_iter().map(|name| stricter_namespace(name, &one, &other)).collect(),
    };
    let Guardrails {
        max_hourly_cost,
        max_added_cost_per_hour,
        max_gpus,
        max_instances,
        max_destroys_per_hour,
        max_moved_bps_per_hour,
        ttl_seconds,
        allow_fallback,
        namespaces: _,
    } = other;
    Guardrails {
        max_hourly_cost: least(one.max_hourly_cost, max_hourly_cost),
        max_added_cost_per_hour: least(one.max_added_cost_per_hour, max_added_cost_per_hour),
        max_gpus: least(one.max_gpus, max_gpus),
        max_instances: least(one.max_instances, max_instances),
        max_destroys_per_hour: least(one.max_destroys_per_hour, max_destroys_per_hour),
        max_moved_bps_per_hour: least(one.max_moved_bps_per_hour, max_moved_bps_per_hour),
        ttl_seconds: least(one.ttl_seconds, ttl_seconds),
        allow_fallback: one.allow_fallback && allow_fallback,
        namespaces: both,
    }
}

/// The lower of the limits of a namespace, each by an entry of its own or by the one for every namespace.
fn stricter_namespace(name: &str, one: &Guardrails, other: &Guardrails) -> NamespaceLimits {
    let of = |guardrails: &Guardrails| guardrails.of_namespace(name).cloned().unwrap_or_default();
    let one = of(one);
    let NamespaceLimits {
        namespace: _,
        max_hourly_cost,
        max_added_cost_per_hour,
        max_gpus,
        max_instances,
        max_destroys_per_hour,
    } = of(other);
    NamespaceLimits {
        namespace: name.to_owned(),
        max_hourly_cost: least(one.max_hourly_cost, max_hourly_cost),
        max_added_cost_per_hour: least(one.max_added_cost_per_hour, max_added_cost_per_hour),
        max_gpus: least(one.max_gpus, max_gpus),
        max_instances: least(one.max_instances, max_instances),
        max_destroys_per_hour: least(one.max_destroys_per_hour, max_destroys_per_hour),
    }
}

/// The lower of two limits; one that is not set does not limit.
fn least<T: Ord>(one: Option<T>, other: Option<T>) -> Option<T> {
    one.into_iter().chain(other).min()
}

fn stricter_approval(old: &Approval, new: &Approval) -> Approval {
    let rules = CLASSES.map(|class| stricter_rule(class, &old.requirement(class), &new.requirement(class)));
    Approval { rules: rules.into(), keys: keys(old, new) }
}

fn stricter_rule(class: Class, old: &Requirement<'_>, new: &Requirement<'_>) -> ApprovalRule {
    let only = match (old.approvals, new.approvals) {
        (_, 0) => Some(old),
        (0, _) => Some(new),
        _ => None,
    };
    if let Some(only) = only {
        return rule(class, only, only.roles.to_vec());
    }
    let either = Requirement {
        approvals: old.approvals.max(new.approvals),
        roles: &[],
        signature: old.signature || new.signature,
        requester_may_approve: old.requester_may_approve && new.requester_may_approve,
        service_accounts: old.service_accounts && new.service_accounts,
        expiry_seconds: old.expiry_seconds.min(new.expiry_seconds),
    };
    rule(class, &either, roles(old.roles, new.roles))
}

fn rule(class: Class, requirement: &Requirement<'_>, roles: Vec<String>) -> ApprovalRule {
    let Requirement { approvals, roles: _, signature, requester_may_approve, service_accounts, expiry_seconds } =
        *requirement;
    ApprovalRule { class, approvals, roles, signature, requester_may_approve, service_accounts, expiry_seconds }
}

/// The roles that both name. Where they have none in common, no key has the right one.
fn roles(old: &[String], new: &[String]) -> Vec<String> {
    match (old, new) {
        ([], roles) | (roles, []) => roles.to_vec(),
        _ => {
            let common: Vec<String> = old.iter().filter(|role| new.contains(role)).cloned().collect();
            let none = || vec![format!("{} and {}", old.join(" or "), new.join(" or "))];
            if common.is_empty() { none() } else { common }
        }
    }
}

/// The keys that may sign: those that both have alike. Where one of the two asks for no signature, the keys are the other's.
fn keys(old: &Approval, new: &Approval) -> Vec<ApproverKey> {
    let signs = |approval: &Approval| CLASSES.iter().any(|class| asks_for_signature(&approval.requirement(*class)));
    let is_alike = |one: &ApproverKey, other: &ApproverKey| {
        (one.material(), &one.principal, &one.role) == (other.material(), &other.principal, &other.role)
    };
    match (signs(old), signs(new)) {
        (false, _) => new.keys.clone(),
        (true, false) => old.keys.clone(),
        (true, true) => {
            old.keys.iter().filter(|key| new.keys.iter().any(|other| is_alike(key, other))).cloned().collect()
        }
    }
}

/// The freezes of both, and for each class the openings that both have. Where they have none in common, the class is closed
/// until one of the two is changed.
fn stricter_windows(old: &[Window], new: &[Window]) -> Vec<Window> {
    if old == new {
        return old.to_vec();
    }
    CLASSES.into_iter().flat_map(|class| stricter_windows_of(class, old, new)).collect()
}

fn stricter_windows_of(class: Class, old: &[Window], new: &[Window]) -> Vec<Window> {
    let of = |freeze, opening| Window { classes: vec![class], freeze, opening };
    let frozen = freezes(old, class).chain(freezes(new, class)).map(|freeze| of(Some(freeze.clone()), None));
    let mut windows: Vec<Window> = frozen.collect();
    let (before, after): (Vec<_>, Vec<_>) = (openings(old, class).collect(), openings(new, class).collect());
    let common: Vec<_> = match (before.is_empty(), after.is_empty()) {
        (true, _) => after,
        (false, true) => before,
        (false, false) => {
            let common: Vec<_> = before.into_iter().filter(|opening| after.contains(opening)).collect();
            if common.is_empty() {
                let reason = Some("other openings are wanted, and wait for an approval".to_owned());
                let from = jiff::Timestamp::UNIX_EPOCH;
                windows.push(of(Some(Freeze { from, until: None, reason }), None));
            }
            common
        }
    };
    windows.extend(common.into_iter().map(|opening| of(None, Some(opening.clone()))));
    windows
}

/// A way to tell people that is wanted and not in force is not used yet.
fn stricter_notifications(old: Option<&Notifications>, new: Option<&Notifications>) -> Option<Notifications> {
    let (old, new) = (old.cloned().unwrap_or_default(), new.cloned().unwrap_or_default());
    let command = if new.command.is_empty() { new.command } else { old.command };
    let webhook = old.webhook.or(new.webhook);
    Some(Notifications { webhook, command }).filter(|ways| *ways != Notifications::default())
}
