//! Who may do what: roles and bindings as requests meet them.

mod defaults;
mod effect;
mod escalation;
mod requests;
mod service_accounts;
mod watches;

use serde_json::{Value, json};

use crate::fixture::Api;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";
pub(crate) const ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/roles";
pub(crate) const ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/namespaces/default/rolebindings";
pub(crate) const CLUSTER_ROLES: &str = "/apis/rbac.authorization.k8s.io/v1/clusterroles";
pub(crate) const CLUSTER_ROLE_BINDINGS: &str = "/apis/rbac.authorization.k8s.io/v1/clusterrolebindings";

/// A rule about resources of the core group.
pub(crate) fn rule(verbs: &[&str], resources: &[&str]) -> Value {
    json!({"verbs": verbs, "apiGroups": [""], "resources": resources})
}

pub(crate) fn role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "Role", "metadata": {"name": name}, "rules": rules})
}

pub(crate) fn cluster_role(name: &str, rules: Value) -> Value {
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": rules})
}

/// A binding of the kind and role, as `ClusterRole/view`, to a user.
pub(crate) fn binding(kind: &str, name: &str, role: &str, user: &str) -> Value {
    let (role_kind, role) = role.split_once('/').expect("a role as kind/name");
    json!({
        "apiVersion": format!("{GROUP}/v1"),
        "kind": kind,
        "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": role_kind, "name": role},
        "subjects": [{"apiGroup": GROUP, "kind": "User", "name": user}],
    })
}

/// Gives somebody a role in the namespace `default`; the role as `ClusterRole/view`.
pub(crate) async fn give(api: &Api, user: &str, role: &str) {
    let name = format!("{user}-{}", role.replace('/', "-"));
    api.post(ROLE_BINDINGS, binding("RoleBinding", &name, role, user)).await.expect(201);
}

/// Gives somebody a role everywhere.
pub(crate) async fn give_everywhere(api: &Api, user: &str, role: &str) {
    let name = format!("{user}-{}", role.replace('/', "-"));
    api.post(CLUSTER_ROLE_BINDINGS, binding("ClusterRoleBinding", &name, role, user)).await.expect(201);
}
