//! Verbs on every Environment, for tests that are not about who may use which.

use serde_json::{Value, json};

const GROUP: &str = "rbac.authorization.k8s.io";

/// A ClusterRole with these verbs on every Environment and a ClusterRoleBinding of it, each with the path that it is posted
/// to. The subject is a `User` or a `Group`.
pub fn on_every_environment(verbs: &[&str], kind: &str, subject: &str) -> [(&'static str, Value); 2] {
    let name = format!("every-environment-{}-{}", verbs.join("-"), subject.replace(':', "-"));
    let rule = json!({"verbs": verbs, "apiGroups": ["setpoint.dev"], "resources": ["environments"]});
    let role = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRole", "metadata": {"name": name}, "rules": [rule],
    });
    let binding = json!({
        "apiVersion": format!("{GROUP}/v1"), "kind": "ClusterRoleBinding", "metadata": {"name": name},
        "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": name},
        "subjects": [{"kind": kind, "apiGroup": GROUP, "name": subject}],
    });
    [
        ("/apis/rbac.authorization.k8s.io/v1/clusterroles", role),
        ("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding),
    ]
}
