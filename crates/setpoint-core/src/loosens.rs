//! What of an Environment's spec is looser than the policy in force, and which class of step that bears on.
//!
//! Each struct is taken apart field by field, so that a new field does not compile until it is decided here.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Map, Value, json};
use setpoint_api::environment::{
    Approval, ApproverKey, Create, DeployerReference, EVERY_NAMESPACE, Environment, EnvironmentSpec, Freeze,
    Guardrails, NamespaceLimits, Notifications, Opening, OrphanPolicy, PolicyInForce, Requirement, SecretReference,
    Webhook, Window,
};
use setpoint_api::step::{Action, Class, Effect, FieldChange, Origin, Step, Target};

use crate::digest::{Key, canonical};

/// The kind of the target of a step on an Environment itself.
pub const KIND: &str = "Environment";
/// How much of a value is shown; the digest is of all of it.
const MAX_SHOWN: usize = 300;

/// Every class of step.
pub const CLASSES: [Class; 4] = [Class::Benign, Class::Disruptive, Class::Spend, Class::Destructive];

/// A field that is looser than it is in force.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loosened {
    pub part: Part,
    /// The field, such as `guardrails.maxGpus`.
    pub field: String,
    /// What is in force; none where nothing is.
    pub from: Option<String>,
    /// What is wanted; none where that is nothing.
    pub to: Option<String>,
    /// The class of step that it bears on: who may let such steps be taken decides.
    pub class: Class,
}

/// A part of a spec that is put in force as a whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    Approval,
    Create,
    Deployer,
    DrainSeconds,
    Guardrails,
    Notifications,
    OrphanPolicy,
    Protected,
    Windows,
}

/// What is looser in a spec than in the policy in force, in a fixed order.
pub fn loosens(in_force: &PolicyInForce, wanted: &EnvironmentSpec, is_protected: bool) -> Vec<Loosened> {
    let EnvironmentSpec {
        deployer,
        config,
        credentials_secret_ref,
        create,
        guardrails,
        approval,
        windows,
        notifications,
        orphan_policy,
        // How often one looks keeps nothing from being done.
        observe_interval_seconds: _,
        drain_seconds,
    } = wanted;
    let old = &in_force.spec;
    let mut all = Vec::new();
    all.extend(of_approval(&old.approval.clone().unwrap_or_default(), &approval.clone().unwrap_or_default()));
    all.extend(of_guardrails(&old.guardrails.clone().unwrap_or_default(), &guardrails.clone().unwrap_or_default()));
    all.extend(of_windows(&old.windows, windows));
    let ways = |ways: &Option<Notifications>| ways.clone().unwrap_or_default();
    all.extend(of_notifications(&ways(&old.notifications), &ways(notifications)));
    // What was never reached holds nothing.
    if in_force.was_ready {
        all.extend(of_deployer(&old.deployer, deployer));
        all.extend(of_config(old.config.as_ref(), config.as_ref()));
        let name = |secret: &SecretReference| format!("{}/{}", secret.namespace, secret.name);
        let (from, to) = (old.credentials_secret_ref.as_ref().map(name), credentials_secret_ref.as_ref().map(name));
        let changed = Loosened::new(Part::Deployer, "credentialsSecretRef", Class::Destructive, from, to);
        all.extend(Some(changed).filter(Loosened::changes));
    }
    if (old.create, *create) == (Create::Never, Create::Always) {
        all.push(Loosened::new(Part::Create, "create", Class::Spend, Some("Never"), Some("Always")));
    }
    if (old.orphan_policy, *orphan_policy) == (OrphanPolicy::Report, OrphanPolicy::Delete) {
        let part = Part::OrphanPolicy;
        all.push(Loosened::new(part, "orphanPolicy", Class::Destructive, Some("Report"), Some("Delete")));
    }
    if *drain_seconds < old.drain_seconds {
        let (from, to) = (Some(old.drain_seconds), Some(*drain_seconds));
        all.push(Loosened::new(Part::DrainSeconds, "drainSeconds", Class::Disruptive, from, to));
    }
    if in_force.protected && !is_protected {
        let none = None::<&str>;
        all.push(Loosened::new(Part::Protected, "protected", Class::Destructive, Some("true"), none));
    }
    all
}

/// A spec without its rules, which are what an Environment that is deleted gives up. What it is opened by stays, and matters no
/// more once nothing is left there.
pub fn bare(spec: &EnvironmentSpec) -> EnvironmentSpec {
    let EnvironmentSpec { deployer, config, credentials_secret_ref, observe_interval_seconds, drain_seconds, .. } =
        spec;
    EnvironmentSpec {
        deployer: deployer.clone(),
        config: config.clone(),
        credentials_secret_ref: credentials_secret_ref.clone(),
        create: Create::default(),
        guardrails: None,
        approval: None,
        windows: Vec::new(),
        notifications: None,
        orphan_policy: OrphanPolicy::default(),
        observe_interval_seconds: *observe_interval_seconds,
        drain_seconds: *drain_seconds,
    }
}

impl Loosened {
    fn new(
        part: Part,
        field: impl Into<String>,
        class: Class,
        from: Option<impl ToString>,
        to: Option<impl ToString>,
    ) -> Loosened {
        let (from, to) = (from.map(|from| from.to_string()), to.map(|to| to.to_string()));
        Loosened { part, field: field.into(), from, to, class }
    }

    fn changes(&self) -> bool {
        self.from != self.to
    }

    fn shown(&self) -> FieldChange {
        let shown = |text: &String| match text.char_indices().nth(MAX_SHOWN) {
            Some((end, _)) => format!("{}…", &text[..end]),
            None => text.clone(),
        };
        let (from, to) = (self.from.as_ref().map(shown), self.to.as_ref().map(shown));
        FieldChange { field: format!("spec.{}", self.field), from, to, effect: Effect::InPlace }
    }
}

/// Whether an approval of a class must be signed.
pub(crate) fn asks_for_signature(requirement: &Requirement<'_>) -> bool {
    requirement.approvals > 0 && (requirement.signature || !requirement.roles.is_empty())
}

fn of_approval(old: &Approval, new: &Approval) -> Vec<Loosened> {
    // The rules are read class by class, with the defaults filled in.
    let Approval { rules: _, keys } = new;
    let mut all: Vec<Loosened> = CLASSES.into_iter().flat_map(|class| of_requirement(class, old, new)).collect();
    for key in keys {
        let known = old.keys.iter().find(|known| known.material() == key.material());
        let ApproverKey { public_key: _, principal, role } = key;
        if known.is_some_and(|known| (&known.principal, &known.role) == (principal, role)) {
            continue;
        }
        let could_sign = CLASSES.into_iter().filter(|class| {
            let requirement = old.requirement(*class);
            asks_for_signature(&requirement) && (requirement.roles.is_empty() || requirement.roles.contains(role))
        });
        all.extend(could_sign.map(|class| {
            let field = format!("approval.keys[{}]", key.material().unwrap_or_default());
            let holder = |key: &ApproverKey| format!("{} ({})", key.principal, key.role);
            Loosened::new(Part::Approval, field, class, known.map(holder), Some(holder(key)))
        }));
    }
    all
}

fn of_requirement(class: Class, old: &Approval, new: &Approval) -> Vec<Loosened> {
    let keys = &new.keys;
    let (old, new) = (old.requirement(class), new.requirement(class));
    // Where none is asked for, nothing can be looser.
    if old.approvals == 0 {
        return Vec::new();
    }
    let Requirement { approvals, roles, signature: _, requester_may_approve, service_accounts, expiry_seconds } = new;
    let field = |name: &str| format!("approval.rules[{class:?}].{name}");
    let found = |name: &str, from: &dyn ToString, to: &dyn ToString| {
        Loosened::new(Part::Approval, field(name), class, Some(from.to_string()), Some(to.to_string()))
    };
    let mut all = Vec::new();
    if approvals < old.approvals {
        all.push(found("approvals", &old.approvals, &approvals));
    }
    // Nothing is less than none: what is not asked for has no more to say.
    if approvals == 0 {
        return all;
    }
    if asks_for_signature(&old) && !asks_for_signature(&new) {
        all.push(found("signature", &true, &false));
    }
    // A role that no key has lets nobody in.
    let is_new = |role: &String| !old.roles.contains(role) && keys.iter().any(|key| key.role == *role);
    if !old.roles.is_empty() && (roles.is_empty() || roles.iter().any(is_new)) {
        all.push(found("roles", &old.roles.join(", "), &roles.join(", ")));
    }
    if requester_may_approve && !old.requester_may_approve {
        all.push(found("requesterMayApprove", &false, &true));
    }
    if service_accounts && !old.service_accounts {
        all.push(found("serviceAccounts", &false, &true));
    }
    if expiry_seconds > old.expiry_seconds {
        all.push(found("expirySeconds", &old.expiry_seconds, &expiry_seconds));
    }
    all
}

fn of_guardrails(old: &Guardrails, new: &Guardrails) -> Vec<Loosened> {
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
    } = new;
    let fallback = (*allow_fallback && !old.allow_fallback).then(|| {
        Loosened::new(Part::Guardrails, "guardrails.allowFallback", Class::Spend, Some("false"), Some("true"))
    });
    let limits = [
        limit("maxHourlyCost", Class::Spend, old.max_hourly_cost, *max_hourly_cost),
        limit("maxAddedCostPerHour", Class::Spend, old.max_added_cost_per_hour, *max_added_cost_per_hour),
        limit("maxGpus", Class::Spend, old.max_gpus, *max_gpus),
        limit("maxInstances", Class::Spend, old.max_instances, *max_instances),
        limit("maxDestroysPerHour", Class::Destructive, old.max_destroys_per_hour, *max_destroys_per_hour),
        limit("maxMovedBpsPerHour", Class::Disruptive, old.max_moved_bps_per_hour, *max_moved_bps_per_hour),
        limit("ttlSeconds", Class::Spend, old.ttl_seconds, *ttl_seconds),
        fallback,
    ];
    let of_namespaces = names(old, new).into_iter().flat_map(|name| of_namespace(name, old, new));
    limits.into_iter().flatten().chain(of_namespaces).collect()
}

/// The namespaces that limits name, and the one that stands for every other.
pub(crate) fn names<'g>(old: &'g Guardrails, new: &'g Guardrails) -> BTreeSet<&'g str> {
    let named = old.namespaces.iter().chain(&new.namespaces).map(|limits| limits.namespace.as_str());
    named.chain([EVERY_NAMESPACE]).collect()
}

/// The limits that hold for a namespace, by an entry of its own or by the one for every namespace.
fn of_namespace(name: &str, old: &Guardrails, new: &Guardrails) -> Vec<Loosened> {
    let (old, new) = (old.of_namespace(name).cloned(), new.of_namespace(name).cloned());
    let (old, new) = (old.unwrap_or_default(), new.unwrap_or_default());
    let NamespaceLimits {
        namespace: _,
        max_hourly_cost,
        max_added_cost_per_hour,
        max_gpus,
        max_instances,
        max_destroys_per_hour,
    } = new;
    let field = |limit: &str| format!("namespaces[{name}].{limit}");
    let limits = [
        limit(&field("maxHourlyCost"), Class::Spend, old.max_hourly_cost, max_hourly_cost),
        limit(&field("maxAddedCostPerHour"), Class::Spend, old.max_added_cost_per_hour, max_added_cost_per_hour),
        limit(&field("maxGpus"), Class::Spend, old.max_gpus, max_gpus),
        limit(&field("maxInstances"), Class::Spend, old.max_instances, max_instances),
        limit(&field("maxDestroysPerHour"), Class::Destructive, old.max_destroys_per_hour, max_destroys_per_hour),
    ];
    limits.into_iter().flatten().collect()
}

/// A limit that is raised or removed.
fn limit<T: PartialOrd + ToString>(name: &str, class: Class, old: Option<T>, new: Option<T>) -> Option<Loosened> {
    let is_looser = old.as_ref().is_some_and(|old| new.as_ref().is_none_or(|new| new > old));
    is_looser.then(|| Loosened::new(Part::Guardrails, format!("guardrails.{name}"), class, old, new))
}

fn of_deployer(old: &DeployerReference, new: &DeployerReference) -> Vec<Loosened> {
    let DeployerReference { name, version } = new;
    let changed = [
        Loosened::new(Part::Deployer, "deployer.name", Class::Destructive, Some(&old.name), Some(name)),
        Loosened::new(Part::Deployer, "deployer.version", Class::Destructive, old.version.as_ref(), version.as_ref()),
    ];
    changed.into_iter().filter(Loosened::changes).collect()
}

/// Each field of the configuration that is another: only its deployer knows what it means.
fn of_config(old: Option<&Map<String, Value>>, new: Option<&Map<String, Value>>) -> Vec<Loosened> {
    let names: BTreeSet<&String> = old.into_iter().chain(new).flat_map(Map::keys).collect();
    let changed = names.into_iter().map(|name| {
        let value = |config: Option<&Map<String, Value>>| config.and_then(|config| config.get(name)).map(canonical);
        Loosened::new(Part::Deployer, format!("config.{name}"), Class::Destructive, value(old), value(new))
    });
    changed.filter(Loosened::changes).collect()
}

fn of_notifications(old: &Notifications, new: &Notifications) -> Vec<Loosened> {
    let Notifications { webhook, command } = new;
    let told = |webhook: &Webhook| match &webhook.secret_ref {
        Some(secret) => format!("{} with the Secret {}/{}", webhook.url, secret.namespace, secret.name),
        None => webhook.url.clone(),
    };
    let (from, to) = (old.webhook.as_ref().map(told), webhook.as_ref().map(told));
    let is_lost = old.webhook.is_some() && from != to;
    let webhook = Loosened::new(Part::Notifications, "notifications.webhook", Class::Disruptive, from, to);
    let words = |words: &[String]| (!words.is_empty()).then(|| format!("{words:?}"));
    // A program runs with the rights of the control plane.
    let is_run = !command.is_empty() && *command != old.command;
    let (from, to) = (words(&old.command), words(command));
    let command = Loosened::new(Part::Notifications, "notifications.command", Class::Destructive, from, to);
    [Some(webhook).filter(|_| is_lost), Some(command).filter(|_| is_run)].into_iter().flatten().collect()
}

fn of_windows(old: &[Window], new: &[Window]) -> Vec<Loosened> {
    let looser = CLASSES.into_iter().filter(|class| !is_stricter(*class, old, new));
    let found = looser.map(|class| {
        let told = |windows: &[Window]| {
            let told: Vec<String> =
                windows.iter().filter(|window| window.concerns(class)).map(ToString::to_string).collect();
            (!told.is_empty()).then(|| told.join("; "))
        };
        Loosened::new(Part::Windows, format!("windows[{class:?}]"), class, told(old), told(new))
    });
    found.collect()
}

/// Whether windows are as before for a class, but for freezes that were added or made longer, and openings that were removed
/// while another is left.
fn is_stricter(class: Class, old: &[Window], new: &[Window]) -> bool {
    let still_frozen = freezes(old, class).all(|was| freezes(new, class).any(|is| covers(is, was)));
    let mut before = openings(old, class).peekable();
    let was_always_open = before.peek().is_none();
    let known: Vec<&Opening> = before.collect();
    let mut now = openings(new, class).peekable();
    // Whatever is open then, a freeze goes before it.
    let is_closed = freezes(new, class).any(|freeze| freeze.until.is_none() && freeze.from <= Timestamp::UNIX_EPOCH);
    let is_no_wider = was_always_open || (now.peek().is_some() && now.all(|opening| known.contains(&opening)));
    still_frozen && (is_closed || is_no_wider)
}

/// Whether a freeze lasts from before another begins until after it ends. Why does not matter.
pub(crate) fn covers(freeze: &Freeze, other: &Freeze) -> bool {
    let Freeze { from, until, reason: _ } = freeze;
    let ends_later = until.is_none_or(|until| other.until.is_some_and(|other| until >= other));
    *from <= other.from && ends_later
}

pub(crate) fn freezes(windows: &[Window], class: Class) -> impl Iterator<Item = &Freeze> {
    windows.iter().filter(move |window| window.concerns(class)).filter_map(|window| {
        let Window { classes: _, freeze, opening: _ } = window;
        freeze.as_ref()
    })
}

pub(crate) fn openings(windows: &[Window], class: Class) -> impl Iterator<Item = &Opening> {
    windows.iter().filter(move |window| window.concerns(class)).filter_map(|window| window.opening.as_ref())
}

/// The step that puts a looser policy in force, or lets an Environment go with its policy; none where nothing is looser. Its
/// digest is of exactly these fields and of this Environment: who approves it approves nothing else.
pub fn step(environment: &Environment, loosened: &[Loosened], key: &Key) -> Option<Step> {
    let class = loosened.iter().map(|loosened| loosened.class).max()?;
    let name = environment.metadata.name.clone().unwrap_or_default();
    let target = Target { namespace: String::new(), name, kind: KIND.to_owned() };
    let is_deletion = environment.metadata.deletion_timestamp.is_some();
    let fields: Vec<Value> =
        loosened.iter().map(|Loosened { part: _, field, from, to, class }| json!([field, from, to, class])).collect();
    let digest = key.digest(&json!({
        "action": Action::Loosen,
        "environment": environment.metadata.uid,
        "deletion": is_deletion,
        "fields": fields,
    }));
    let classes: BTreeSet<Class> = loosened.iter().map(|loosened| loosened.class).collect();
    let told: Vec<String> = classes.iter().map(|class| format!("{class:?}")).collect();
    let reason = match is_deletion {
        true => "the Environment is deleted, and its rules with it",
        false => "the Environment's rules become looser",
    };
    Some(Step {
        id: format!("{}:{}/loosen", KIND.to_lowercase(), target.name),
        target,
        action: Action::Loosen,
        provider_id: None,
        reason: reason.to_owned(),
        origin: Origin::Desired,
        changes: loosened.iter().map(Loosened::shown).collect(),
        class,
        class_reason: format!("it loosens what is asked of {} steps", told.join(", ")),
        interrupts: classes.contains(&Class::Disruptive),
        create_first: false,
        hourly_cost_delta: None,
        spends: classes.contains(&Class::Spend),
        depends_on: Vec::new(),
        old_spec_digest: None,
        new_spec_digest: None,
        digest,
    })
}
