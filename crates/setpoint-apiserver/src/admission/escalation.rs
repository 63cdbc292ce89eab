//! Nobody gives away rights they do not have, by a role or by a binding.
//!
//! As in Kubernetes, the verb `escalate` on a role lifts that for the role, and `bind` for its bindings. It is asked of
//! every write but one that changes only what the garbage collector does: a label alone can hand a role's rules to others.
//!
//! To compare rules takes its time, and nobody is to wait for it: the policy is held only to see what is to be compared.

use serde_json::Value;

use super::Change;
use crate::authorization::{Access, Binding, Kind, Pieces, Policy, RoleRef, Rule, coverage};
use crate::failure::{Failure, Result};
use crate::kinds::rbac::GROUP;
use crate::live_policy::LivePolicy;

pub(super) fn check(policy: &LivePolicy, change: &Change<'_>) -> Result<()> {
    let (Some(kind), Some(after)) = (kind(change), change.after) else { return Ok(()) };
    if change.before.is_some_and(|before| is_collectors(before, after)) {
        return Ok(());
    }
    match kind {
        Kind::Role | Kind::ClusterRole => check_role(policy, change, kind, after),
        Kind::RoleBinding | Kind::ClusterRoleBinding => check_binding(policy, change, after),
    }
}

fn kind(change: &Change<'_>) -> Option<Kind> {
    let of_group = change.resource.group == GROUP;
    Kind::ALL.into_iter().find(|kind| of_group && change.resource.plural == kind.plural())
}

fn check_role(policy: &LivePolicy, change: &Change<'_>, kind: Kind, role: &Value) -> Result<()> {
    let held = {
        let policy = policy.read();
        if may(&policy, change, "escalate", kind, change.path_name) {
            return Ok(());
        }
        policy.rules_for(&change.caller.identity, change.place())
    };
    let rules = Rule::read_all(&role["rules"]);
    check_held(change, &held, &rules.iter().collect::<Vec<_>>())?;
    // What takes the rules of others together can gather any, and can hinder others from tightening theirs.
    if gathers(role) || change.before.is_some_and(gathers) {
        let everything = coverage::full_authority();
        check_held(change, &held, &everything.iter().collect::<Vec<_>>()).map_err(|_| {
            let why = "must have cluster-admin privileges to use the aggregationRule";
            Failure::forbidden(change.resource, change.name(), why)
        })?;
    }
    Ok(())
}

fn check_binding(policy: &LivePolicy, change: &Change<'_>, object: &Value) -> Result<()> {
    // What gives no role gives nothing; the rules of the kind have refused it.
    let Some(binding) = Binding::read(object, change.place()) else { return Ok(()) };
    let (kind, name) = match &binding.role {
        RoleRef::ClusterRole(name) => (Kind::ClusterRole, name),
        RoleRef::Role(name) => (Kind::Role, name),
    };
    let (held, given) = {
        let policy = policy.read();
        if may(&policy, change, "bind", kind, name) {
            return Ok(());
        }
        let given = policy.role_rules(&binding.role, change.place());
        (policy.rules_for(&change.caller.identity, change.place()), given)
    };
    match given {
        Some(given) => check_held(change, &held, &given.rules()),
        None => Err(Failure::not_found(change.resource, name)),
    }
}

/// Whether the writer may do this to a role, where the change takes place.
fn may(policy: &Policy, change: &Change<'_>, verb: &str, kind: Kind, name: &str) -> bool {
    let access = Access::to_object(verb, [GROUP, kind.plural(), ""], name, change.place());
    access.is_allowed(policy, &change.caller.identity)
}

fn check_held(change: &Change<'_>, held: &Pieces, wanted: &[&Rule]) -> Result<()> {
    coverage::check(&change.caller.identity, &held.rules(), wanted)
        .map_err(|why| Failure::forbidden(change.resource, change.name(), &why))
}

fn gathers(role: &Value) -> bool {
    role["aggregationRule"]["clusterRoleSelectors"].as_array().is_some_and(|selectors| !selectors.is_empty())
}

/// Whether two objects differ in nothing but what the garbage collector writes.
fn is_collectors(before: &Value, after: &Value) -> bool {
    const COLLECTORS: [&str; 3] = ["finalizers", "ownerReferences", "resourceVersion"];
    let same = |one: &Value, other: &Value, but: &[&str]| {
        let (Some(one), Some(other)) = (one.as_object(), other.as_object()) else { return one == other };
        let mut fields = one.keys().chain(other.keys()).filter(|field| !but.contains(&field.as_str()));
        fields.all(|field| one.get(field) == other.get(field))
    };
    same(before, after, &["metadata"]) && same(&before["metadata"], &after["metadata"], &COLLECTORS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_what_the_collector_writes_is_not_asked_about() {
        let role = |metadata: Value, verb: &str| json!({"metadata": metadata, "rules": [{"verbs": [verb]}]});
        let before = role(json!({"name": "r", "resourceVersion": "1", "finalizers": ["a/b"]}), "get");
        let rows = [
            ("nothing", json!({"name": "r", "resourceVersion": "1", "finalizers": ["a/b"]}), "get", true),
            ("a finalizer", json!({"name": "r", "resourceVersion": "1"}), "get", true),
            ("an owner", json!({"name": "r", "ownerReferences": [{"uid": "1"}]}), "get", true),
            ("a label", json!({"name": "r", "labels": {"a": "b"}}), "get", false),
            ("a rule", json!({"name": "r"}), "list", false),
        ];
        for (row, metadata, verb, expected) in rows {
            assert_eq!(is_collectors(&before, &role(metadata, verb)), expected, "{row}");
        }
    }
}
