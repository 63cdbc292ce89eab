//! Who may do what, as tables.

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

#[test]
fn reasons_are_told_as_kubernetes_tells_them() {
    let policy = company();
    let pods = resource("", "pods", "", "shop");
    let scale = resource("apps", "deployments/scale", "a", "shop");
    let rows = [
        (
            who("jane", &[]),
            "get",
            pods,
            r#"RBAC: allowed by RoleBinding "jane-reads/shop" of Role "reader" to User "jane""#,
        ),
        (
            who("system:serviceaccount:shop:robot", &[]),
            "update",
            scale,
            r#"RBAC: allowed by RoleBinding "robots/shop" of Role "scaler" to ServiceAccount "robot/shop""#,
        ),
        (
            who("x", &["ops"]),
            "get",
            pods,
            r#"RBAC: allowed by ClusterRoleBinding "nodes" of ClusterRole "node-reader" to Group "ops""#,
        ),
        (
            who("ed", &["editors"]),
            "create",
            pods,
            r#"RBAC: allowed by RoleBinding "editors/shop" of ClusterRole "edit" to Group "editors""#,
        ),
        (who("x", &["system:masters"]), "get", pods, ""),
        (who("joe", &[]), "get", pods, ""),
        (
            who("lou", &[]),
            "get",
            pods,
            r#"RBAC: [clusterrole.rbac.authorization.k8s.io "gone" not found, role.rbac.authorization.k8s.io "gone" not found]"#,
        ),
        (
            who("lou", &[]),
            "get",
            resource("", "nodes", "", ""),
            r#"RBAC: clusterrole.rbac.authorization.k8s.io "gone" not found"#,
        ),
    ];
    for (user, verb, target, expected) in rows {
        assert_eq!(reason(&policy, &user, verb, target), expected, "{user:?}");
    }
}

#[test]
fn changes_take_effect_at_once() {
    let mut policy = Policy::default();
    let jane = who("jane", &["team"]);
    let pods = resource("", "pods", "", "shop");
    let reader =
        |verb: &str| role("Role", "shop", "r", json!([{"verbs": [verb], "apiGroups": [""], "resources": ["pods"]}]));
    let to = |subject: Value| binding("shop", "b", ("Role", "r"), json!([subject]));
    let gone = |kind| Change::Removed { kind, namespace: "shop", name: if kind == Kind::Role { "r" } else { "b" } };
    let (get, list, by_name, by_group, to_other) =
        (reader("get"), reader("list"), to(user("jane")), to(group("team")), to(user("joe")));
    let steps: [(&str, Change<'_>, bool); 10] = [
        ("a binding of a role to come", Change::Set(Kind::RoleBinding, &by_name), false),
        ("the role", Change::Set(Kind::Role, &get), true),
        ("other rules", Change::Set(Kind::Role, &list), false),
        ("the first rules again", Change::Set(Kind::Role, &get), true),
        ("another subject", Change::Set(Kind::RoleBinding, &to_other), false),
        ("a group", Change::Set(Kind::RoleBinding, &by_group), true),
        ("the role goes", gone(Kind::Role), false),
        ("and comes back", Change::Set(Kind::Role, &get), true),
        ("the binding goes", gone(Kind::RoleBinding), false),
        ("what is gone goes again", gone(Kind::RoleBinding), false),
    ];
    for (name, change, expected) in steps {
        policy.apply(&change);
        assert_eq!(allowed(&policy, &jane, "get", pods), expected, "{name}");
    }
}

#[test]
fn roles_gather_the_rules_of_others() {
    let part = |name: &str, whole: &str, resource: &str| {
        json!({"metadata": {"name": name, "labels": {"to": whole}},
            "rules": [{"verbs": ["get"], "apiGroups": [""], "resources": [resource]}]})
    };
    let whole = |name: &str, labels: Value| {
        json!({"metadata": {"name": name, "labels": labels}, "rules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"to": name}}]}})
    };
    let mut policy = Policy::default();
    let set = |policy: &mut Policy, object: &Value| policy.apply(&Change::Set(Kind::ClusterRole, object));
    let names = |policy: &Policy, name: &str| -> Option<Vec<String>> {
        let rules = policy.aggregated_rules(name)?;
        Some(rules.iter().map(|rule| rule.resources[0].to_string()).collect())
    };
    let some = |names: &[&str]| Some(names.iter().map(ToString::to_string).collect::<Vec<_>>());

    set(&mut policy, &part("b", "inner", "pods"));
    set(&mut policy, &whole("outer", json!({})));
    assert_eq!(names(&policy, "outer"), some(&[]), "its own rules do not count");
    set(&mut policy, &whole("inner", json!({"to": "outer"})));
    assert_eq!(names(&policy, "outer"), some(&["pods"]), "a role within a role");
    set(&mut policy, &part("a", "inner", "nodes"));
    set(&mut policy, &part("z", "outer", "jobs"));
    assert_eq!(names(&policy, "outer"), some(&["nodes", "pods", "jobs"]), "in the order of their names");
    set(&mut policy, &part("c", "inner", "pods"));
    assert_eq!(names(&policy, "inner"), some(&["nodes", "pods"]), "a rule that two have stands once");
    set(&mut policy, &part("a", "nowhere", "nodes"));
    assert_eq!(names(&policy, "outer"), some(&["pods", "jobs"]), "a label that is gone");
    assert_eq!(names(&policy, "a"), None, "a role with rules of its own");
    set(&mut policy, &whole("outer", json!({"to": "inner"})));
    assert_eq!(names(&policy, "inner"), some(&["pods", "jobs"]), "roles that take in each other");
    for name in ["b", "c"] {
        policy.apply(&Change::Removed { kind: Kind::ClusterRole, namespace: "", name });
    }
    assert_eq!(names(&policy, "outer"), some(&["jobs"]), "lose what is gone all the same");
    assert_eq!(policy.aggregating_roles().collect::<Vec<_>>(), ["inner", "outer"]);
}

#[test]
fn rules_are_listed_binding_by_binding() {
    let policy = company();
    let listed = |user: &Identity, namespace: &str| -> Vec<String> {
        policy.rules_for(user, namespace).into_iter().map(Rule::to_string).collect()
    };
    let jane = who("jane", &[]);
    assert_eq!(
        listed(&jane, "shop"),
        [
            r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#,
            r#"{APIGroups:[""], Resources:["secrets"], ResourceNames:["tls" "key"], Verbs:["get" "update"]}"#,
        ]
    );
    assert_eq!(listed(&jane, "bank"), [r#"{APIGroups:["batch"], Resources:["jobs"], Verbs:["get"]}"#]);
    assert_eq!(listed(&jane, ""), [""; 0]);
    let both = who("ed", &["editors"]);
    assert_eq!(
        listed(&both, "shop"),
        listed(&who("ed", &[]), "shop"),
        "a binding that names somebody twice counts once"
    );
    let everybody = who("joe", &["system:authenticated"]);
    assert_eq!(
        listed(&everybody, "shop").len(),
        4,
        "two of the basic user, one of discovery, one of public information"
    );
}

/// Kubernetes' documentation of its user-facing roles, resource by resource: what `view` may, what `edit` may besides, and
/// what `admin` may besides. `r` is to get, list and watch; `w` to create, update, patch and delete, one or many.
#[rustfmt::skip]
const DOCUMENTED: &[(&str, &str, &str, &str, &str)] = &[
    ("", "bindings serviceaccounts/finalizers nodes persistentvolumes secrets/status", "", "", ""),
    ("", "configmaps persistentvolumeclaims pods serviceaccounts services", "r", "w", ""),
    ("", "endpoints namespaces namespaces/status persistentvolumeclaims/status pods/log pods/status services/status", "r", "", ""),
    ("", "secrets pods/attach pods/exec pods/portforward pods/proxy services/proxy", "", "rw", ""),
    ("", "pods/eviction serviceaccounts/token", "", "create", ""),
    ("", "events", "r", "w", ""),
    ("events.k8s.io", "events", "r", "w", ""),
    ("apps", "controllerrevisions daemonsets/status deployments/status replicasets/status statefulsets/status", "r", "", ""),
    ("apps", "daemonsets deployments deployments/scale replicasets replicasets/scale statefulsets statefulsets/scale", "r", "w", ""),
    ("autoscaling", "horizontalpodautoscalers", "r", "w", ""),
    ("autoscaling", "horizontalpodautoscalers/status", "r", "", ""),
    ("batch", "cronjobs jobs", "r", "w", ""),
    ("batch", "cronjobs/status jobs/status", "r", "", ""),
    ("coordination.k8s.io", "leases", "", "rw", ""),
    ("discovery.k8s.io", "endpointslices", "r", "", ""),
    ("networking.k8s.io", "ingresses networkpolicies", "r", "w", ""),
    ("networking.k8s.io", "ingresses/status", "r", "", ""),
    ("networking.k8s.io", "ingressclasses", "", "", ""),
    ("policy", "poddisruptionbudgets", "r", "w", ""),
    ("policy", "poddisruptionbudgets/status", "r", "", ""),
    ("rbac.authorization.k8s.io", "roles rolebindings", "", "", "rw"),
    ("rbac.authorization.k8s.io", "clusterroles clusterrolebindings", "", "", ""),
    ("authorization.k8s.io", "localsubjectaccessreviews", "", "", "create"),
    ("authorization.k8s.io", "subjectaccessreviews", "", "", ""),
    ("apiextensions.k8s.io", "customresourcedefinitions", "", "", ""),
    ("storage.k8s.io", "storageclasses", "", "", ""),
];

const VERBS: [(&str, &str); 10] = [
    ("get", "r"),
    ("list", "r"),
    ("watch", "r"),
    ("create", "w"),
    ("update", "w"),
    ("patch", "w"),
    ("delete", "w"),
    ("deletecollection", "w"),
    ("escalate", "never"),
    ("bind", "never"),
];

#[test]
fn default_roles_are_those_kubernetes_documents() {
    let policy = company();
    let users = ["vic", "ed", "ada"].map(|name| who(name, &[]));
    for (group, resources, view, edit, admin) in DOCUMENTED {
        for what in resources.split(' ') {
            for (verb, class) in VERBS {
                let mut granted = false;
                for (user, more) in users.iter().zip([view, edit, admin]) {
                    granted |= *more == verb || *more != "create" && more.contains(class);
                    let found = allowed(&policy, user, verb, resource(group, what, "a", "shop"));
                    assert_eq!(found, granted, "{} to {verb} {group}/{what}", user.user);
                }
            }
        }
    }
    // Nothing stands in the roles that is not in the table, but to act as a service account.
    for rule in policy.aggregated_rules("admin").expect("it gathers") {
        for (group, what) in rule.groups.iter().flat_map(|group| rule.resources.iter().map(move |what| (group, what))) {
            let known =
                DOCUMENTED.iter().any(|row| *row.0 == **group && row.1.split(' ').any(|known| *known == **what));
            assert!(known, "{group}/{what}");
        }
        assert!(rule.verbs.iter().all(|verb| &**verb == "impersonate" || VERBS.iter().any(|known| *known.0 == **verb)));
    }
}

#[test]
fn default_objects_are_such_as_the_server_takes() {
    let registry = crate::built_in::registry(&crate::schema::Schemas::built_in());
    for (kind, object) in default_roles::objects() {
        let resource = registry.resources().find(|resource| resource.plural == kind.plural()).expect("it is served");
        let mut errors = setpoint_api::field::Errors::default();
        resource.behaviour.validate(setpoint_api::field::Node::root(&object), &mut errors);
        assert!(errors.is_empty(), "{object}: {errors:?}");
        let mut completed = object.clone();
        resource.behaviour.default(&mut completed);
        assert_eq!(completed, object, "nothing is left to fill in");
    }
}

#[test]
fn a_thousand_bindings_of_others_cost_nothing() {
    let mut policy = company();
    for number in 0..1_000 {
        let (namespace, subject) =
            (format!("n{}", number % 10), json!([user(&format!("u{number}")), group("everybody")]));
        let object = binding(&namespace, &format!("b{number}"), ("ClusterRole", "edit"), subject);
        policy.apply(&Change::Set(Kind::RoleBinding, &object));
    }
    let member = who("u7", &["system:authenticated", "everybody"]);
    let attributes = Attributes { user: &member, verb: "escalate", target: resource("", "pods", "a", "n7") };
    let started = std::time::Instant::now();
    const ROUNDS: u32 = 10_000;
    for _ in 0..ROUNDS {
        assert!(matches!(std::hint::black_box(policy.decide(&attributes)), Decision::Refused { .. }));
    }
    let each = started.elapsed() / ROUNDS;
    // Some 2 µs on a quiet machine; a test runs beside others.
    assert!(each < std::time::Duration::from_micros(100), "{each:?}");
    println!("a refusal takes {each:?}");
}
