//! Who may do what, as tables.

mod answers;
mod defaults;

use serde_json::{Value, json};

use super::{Attributes, Change, Decision, Kind, Policy, Rule, Target, default_roles};
use crate::authentication::Identity;

pub(super) fn who(user: &str, groups: &[&str]) -> Identity {
    Identity::new(user, groups.iter().copied())
}

pub(super) fn resource<'a>(group: &'a str, resource: &'a str, name: &'a str, namespace: &'a str) -> Target<'a> {
    let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
    Target::Resource { group, resource, subresource, name, namespace }
}

fn role(kind: &str, namespace: &str, name: &str, rules: Value) -> Value {
    json!({"kind": kind, "metadata": {"name": name, "namespace": namespace}, "rules": rules})
}

pub(super) fn binding(namespace: &str, name: &str, role: (&str, &str), subjects: Value) -> Value {
    json!({
        "metadata": {"name": name, "namespace": namespace},
        "roleRef": {"kind": role.0, "name": role.1},
        "subjects": subjects,
    })
}

pub(super) fn user(name: &str) -> Value {
    json!({"kind": "User", "name": name})
}

pub(super) fn group(name: &str) -> Value {
    json!({"kind": "Group", "name": name})
}

fn account(namespace: Option<&str>, name: &str) -> Value {
    json!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
}

fn allowed(policy: &Policy, user: &Identity, verb: &str, target: Target<'_>) -> bool {
    policy.decide(&Attributes { user, verb, target }).is_allowed()
}

fn reason(policy: &Policy, user: &Identity, verb: &str, target: Target<'_>) -> String {
    policy.decide(&Attributes { user, verb, target }).reason()
}

/// The default roles, and a small company's own.
fn company() -> Policy {
    let mut policy = Policy::default();
    for (kind, object) in default_roles::objects() {
        policy.apply(&Change::Set(kind, &object));
    }
    let roles = [
        (
            Kind::Role,
            role(
                "Role",
                "shop",
                "reader",
                json!([{"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"]}]),
            ),
        ),
        (
            Kind::Role,
            role("Role", "shop", "logs", json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["pods/log"]}])),
        ),
        (
            Kind::Role,
            role(
                "Role",
                "shop",
                "one-secret",
                json!([{"verbs": ["get", "update"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["tls", "key"]}]),
            ),
        ),
        (
            Kind::Role,
            role(
                "Role",
                "shop",
                "scaler",
                json!([{"verbs": ["update"], "apiGroups": ["apps", "example.com"], "resources": ["*/scale"]}]),
            ),
        ),
        (Kind::Role, role("Role", "shop", "owner", json!([{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]))),
        (
            Kind::Role,
            role("Role", "bank", "reader", json!([{"verbs": ["get"], "apiGroups": ["batch"], "resources": ["jobs"]}])),
        ),
        (
            Kind::ClusterRole,
            role(
                "ClusterRole",
                "",
                "probe",
                json!([
                    {"verbs": ["get"], "nonResourceURLs": ["/metrics", "/logs/*"]},
                    {"verbs": ["*"], "nonResourceURLs": ["/debug/**"]},
                ]),
            ),
        ),
        (
            Kind::ClusterRole,
            role(
                "ClusterRole",
                "",
                "node-reader",
                json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["nodes", "pods"]}]),
            ),
        ),
    ];
    let bindings = [
        (Kind::RoleBinding, binding("shop", "jane-reads", ("Role", "reader"), json!([user("jane")]))),
        (Kind::RoleBinding, binding("shop", "team-logs", ("Role", "logs"), json!([group("team")]))),
        (Kind::RoleBinding, binding("shop", "secrets", ("Role", "one-secret"), json!([user("jane")]))),
        (
            Kind::RoleBinding,
            binding("shop", "robots", ("Role", "scaler"), json!([account(None, "robot"), account(Some("ci"), "bot")])),
        ),
        (Kind::RoleBinding, binding("shop", "owner", ("Role", "owner"), json!([user("olga")]))),
        (Kind::RoleBinding, binding("shop", "viewers", ("ClusterRole", "view"), json!([user("vic")]))),
        (Kind::RoleBinding, binding("shop", "editors", ("ClusterRole", "edit"), json!([group("editors"), user("ed")]))),
        (Kind::RoleBinding, binding("shop", "admins", ("ClusterRole", "admin"), json!([user("ada")]))),
        (Kind::RoleBinding, binding("bank", "jane-jobs", ("Role", "reader"), json!([user("jane")]))),
        (Kind::RoleBinding, binding("bank", "nodes", ("ClusterRole", "node-reader"), json!([user("nora")]))),
        (Kind::RoleBinding, binding("bank", "paths", ("ClusterRole", "probe"), json!([user("nora")]))),
        (Kind::RoleBinding, binding("shop", "lost", ("Role", "gone"), json!([user("lou")]))),
        (Kind::ClusterRoleBinding, binding("", "lost", ("ClusterRole", "gone"), json!([user("lou")]))),
        (Kind::ClusterRoleBinding, binding("", "role", ("Role", "owner"), json!([user("rob")]))),
        (Kind::ClusterRoleBinding, binding("", "probes", ("ClusterRole", "probe"), json!([user("pat")]))),
        (
            Kind::ClusterRoleBinding,
            binding("", "nodes", ("ClusterRole", "node-reader"), json!([group("ops"), account(None, "stray")])),
        ),
        (Kind::ClusterRoleBinding, binding("", "roots", ("ClusterRole", "cluster-admin"), json!([user("root")]))),
        (Kind::ClusterRoleBinding, binding("", "watchers", ("ClusterRole", "view"), json!([user("wanda")]))),
    ];
    for (kind, object) in roles.iter().chain(&bindings) {
        policy.apply(&Change::Set(*kind, object));
    }
    policy
}

struct Row {
    name: &'static str,
    user: (&'static str, &'static [&'static str]),
    verb: &'static str,
    target: Target<'static>,
    allowed: bool,
}

const fn yes(name: &'static str, user: &'static str, verb: &'static str, target: Target<'static>) -> Row {
    Row { name, user: (user, &[]), verb, target, allowed: true }
}

const fn no(name: &'static str, user: &'static str, verb: &'static str, target: Target<'static>) -> Row {
    Row { allowed: false, ..yes(name, user, verb, target) }
}

impl Row {
    const fn of(self, groups: &'static [&'static str]) -> Row {
        Row { user: (self.user.0, groups), ..self }
    }
}

#[rustfmt::skip]
fn rows() -> Vec<Row> {
    let in_shop = |what| resource("", what, "", "shop");
    let named = |what, name| resource("", what, name, "shop");
    let path = Target::Path;
    vec![
        no("nobody has any right to begin with", "joe", "get", in_shop("pods")),
        no("nor has one without a name", "", "get", in_shop("pods")),
        yes("a user by a role", "jane", "get", in_shop("pods")),
        yes("a named object by a role for all", "jane", "get", named("pods", "a")),
        yes("another verb of the rule", "jane", "list", in_shop("pods")),
        no("a verb that is not of the rule", "jane", "delete", named("pods", "a")),
        no("a verb that only begins alike", "jane", "get2", in_shop("pods")),
        no("a verb in capitals", "jane", "GET", in_shop("pods")),
        no("the star is no verb to ask for", "jane", "*", in_shop("pods")),
        no("another resource", "jane", "get", in_shop("services")),
        no("another group", "jane", "get", resource("apps", "pods", "", "shop")),
        no("another namespace", "jane", "get", resource("", "pods", "", "bank")),
        no("all namespaces", "jane", "list", resource("", "pods", "", "")),
        no("a user named alike", "jan", "get", in_shop("pods")),
        no("a user in capitals", "Jane", "get", in_shop("pods")),
        no("a group that is named as the user", "x", "get", in_shop("pods")).of(&["jane"]),
        yes("a role of the same name in another namespace has its own rules", "jane", "get", resource("batch", "jobs", "", "bank")),
        no("and they do not count here", "jane", "get", resource("batch", "jobs", "", "shop")),
        no("a part of a resource is not the resource", "jane", "get", named("pods/log", "a")),
        yes("a part of a resource, by a group", "x", "get", named("pods/log", "a")).of(&["team"]),
        yes("the second of the groups", "x", "get", named("pods/log", "a")).of(&["other", "team"]),
        no("the resource is not its part", "x", "get", named("pods", "a")).of(&["team"]),
        no("another part", "x", "get", named("pods/exec", "a")).of(&["team"]),
        no("a user who is named as the group", "team", "get", named("pods/log", "a")),
        yes("a named secret", "jane", "get", named("secrets", "tls")),
        yes("the other named secret", "jane", "update", named("secrets", "key")),
        no("a secret that is not named", "jane", "get", named("secrets", "other")),
        no("secrets without a name", "jane", "list", in_shop("secrets")),
        no("a new secret has no name yet", "jane", "create", in_shop("secrets")),
        yes("a service account of the binding's namespace", "system:serviceaccount:shop:robot", "update", resource("apps", "deployments/scale", "a", "shop")),
        yes("a part of any resource", "system:serviceaccount:shop:robot", "update", resource("example.com", "widgets/scale", "a", "shop")),
        yes("a service account of another namespace", "system:serviceaccount:ci:bot", "update", resource("apps", "deployments/scale", "a", "shop")),
        no("any resource's part is not the resource", "system:serviceaccount:shop:robot", "update", resource("apps", "deployments", "a", "shop")),
        no("nor another part", "system:serviceaccount:shop:robot", "update", resource("apps", "deployments/status", "a", "shop")),
        no("nor a part that ends alike", "system:serviceaccount:shop:robot", "update", resource("apps", "deployments/rescale", "a", "shop")),
        no("an account of the same name elsewhere", "system:serviceaccount:ci:robot", "update", resource("apps", "deployments/scale", "a", "shop")),
        no("a user who is named as the account", "robot", "update", resource("apps", "deployments/scale", "a", "shop")),
        yes("everything in a namespace", "olga", "deletecollection", resource("example.com", "widgets", "", "shop")),
        yes("every part of everything", "olga", "create", named("pods/exec", "a")),
        yes("even verbs nobody knows", "olga", "frobnicate", in_shop("secrets")),
        no("but not in another namespace", "olga", "get", resource("", "pods", "", "bank")),
        no("nor in the cluster", "olga", "get", resource("", "nodes", "a", "")),
        no("nor a path", "olga", "get", path("/metrics")),
        yes("a ClusterRole in one namespace", "nora", "get", resource("", "pods", "a", "bank")),
        no("is not one in others", "nora", "get", in_shop("pods")),
        no("nor one for what is in none", "nora", "get", resource("", "nodes", "a", "")),
        no("nor one for paths", "nora", "get", path("/metrics")),
        yes("a ClusterRole everywhere", "x", "get", resource("", "nodes", "a", "")).of(&["ops"]),
        yes("is one in each namespace", "x", "get", in_shop("pods")).of(&["ops"]),
        no("an account of no namespace is nobody", "system:serviceaccount::stray", "get", resource("", "nodes", "a", "")),
        no("a ClusterRoleBinding cannot give a Role", "rob", "get", in_shop("pods")),
        no("a role that does not exist", "lou", "get", in_shop("pods")),
        yes("a path", "pat", "get", path("/metrics")),
        yes("a path below another", "pat", "get", path("/logs/a/b")),
        yes("the path itself, with its slash", "pat", "get", path("/logs/")),
        no("the path without its slash", "pat", "get", path("/logs")),
        no("a path that begins alike", "pat", "get", path("/metrics/slis")),
        no("a path with another verb", "pat", "post", path("/metrics")),
        yes("a path with any verb and two stars", "pat", "post", path("/debug/x")),
        no("a path is no resource", "pat", "get", resource("", "metrics", "", "")),
        yes("a cluster's administrator may do all", "root", "delete", resource("", "nodes", "a", "")),
        yes("with any path", "root", "put", path("/anything")),
        yes("a master may do all, whatever is bound", "x", "delete", resource("x", "y", "z", "w")).of(&["a", "system:masters"]),
        yes("with any path, too", "x", "patch", path("/")).of(&["system:masters"]),
        no("a user named as the masters is none", "system:masters", "get", in_shop("pods")),
        yes("a viewer reads", "vic", "list", in_shop("configmaps")),
        yes("a viewer reads logs", "vic", "get", named("pods/log", "a")),
        no("a viewer reads no secrets", "vic", "get", named("secrets", "a")),
        no("a viewer lists no secrets", "vic", "list", in_shop("secrets")),
        no("a viewer watches no secrets", "vic", "watch", in_shop("secrets")),
        no("a viewer of everything reads no secrets", "wanda", "list", resource("", "secrets", "", "")),
        yes("a viewer of everything reads the rest", "wanda", "list", resource("", "pods", "", "")),
        no("a viewer runs nothing", "vic", "create", named("pods/exec", "a")),
        no("a viewer makes no tokens", "vic", "create", named("serviceaccounts/token", "a")),
        no("a viewer does not see who has which role", "vic", "list", resource("rbac.authorization.k8s.io", "rolebindings", "", "shop")),
        no("a viewer changes nothing", "vic", "update", named("configmaps", "a")),
        yes("an editor reads as a viewer does", "ed", "get", named("pods/log", "a")),
        yes("an editor reads secrets", "x", "get", named("secrets", "a")).of(&["editors"]),
        yes("an editor evicts", "ed", "create", named("pods/eviction", "a")),
        yes("an editor makes tokens", "ed", "create", named("serviceaccounts/token", "a")),
        yes("an editor acts as the accounts of the namespace", "ed", "impersonate", named("serviceaccounts", "a")),
        no("but not as a user", "ed", "impersonate", resource("", "users", "jane", "")),
        no("an editor writes no status", "ed", "update", resource("apps", "deployments/status", "a", "shop")),
        no("an editor gives no roles", "ed", "create", resource("rbac.authorization.k8s.io", "rolebindings", "", "shop")),
        yes("an administrator does", "ada", "create", resource("rbac.authorization.k8s.io", "rolebindings", "", "shop")),
        yes("an administrator edits", "ada", "delete", resource("apps", "deployments", "a", "shop")),
        yes("an administrator views", "ada", "watch", resource("discovery.k8s.io", "endpointslices", "", "shop")),
        no("an administrator does not delete the namespace", "ada", "delete", named("namespaces", "shop")),
        no("an administrator has no right to bind what they do not hold", "ada", "bind", resource("rbac.authorization.k8s.io", "clusterroles", "cluster-admin", "shop")),
        no("nor to escalate", "ada", "escalate", resource("rbac.authorization.k8s.io", "roles", "a", "shop")),
        yes("everybody may ask what they may do", "joe", "create", resource("authorization.k8s.io", "selfsubjectaccessreviews", "", "")).of(&["system:authenticated"]),
        no("but not what others may", "joe", "create", resource("authorization.k8s.io", "subjectaccessreviews", "", "")).of(&["system:authenticated"]),
        yes("everybody finds the API", "joe", "get", path("/apis/apps/v1")).of(&["system:authenticated"]),
        no("but not who is unknown", "system:anonymous", "get", path("/apis")).of(&["system:unauthenticated"]),
        yes("who is unknown sees the version", "system:anonymous", "get", path("/version")).of(&["system:unauthenticated"]),
        yes("service accounts find the keys of tokens", "x", "get", path("/openid/v1/jwks")).of(&["system:serviceaccounts"]),
        no("others do not", "joe", "get", path("/openid/v1/jwks")).of(&["system:authenticated"]),
        no("metrics are not for everybody", "joe", "get", path("/metrics")).of(&["system:authenticated"]),
        yes("but for those who watch over the server", "joe", "get", path("/metrics")).of(&["system:monitoring"]),
    ]
}

#[test]
fn rights_are_those_given() {
    let policy = company();
    let rows = rows();
    assert!(rows.len() >= 60);
    for row in rows {
        let user = who(row.user.0, row.user.1);
        assert_eq!(allowed(&policy, &user, row.verb, row.target), row.allowed, "{}", row.name);
    }
}
