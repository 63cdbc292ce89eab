//! What somebody may do in a namespace, as a list of rules.

use serde_json::{Value, json};

use crate::authentication::Identity;
use crate::authorization::{Policy, Rule};

/// The answer: the rules that count there, those of the whole cluster among them.
pub fn status(policy: &Policy, user: &Identity, namespace: &str) -> Value {
    let pieces = policy.rules_for(user, namespace);
    let rules = pieces.rules();
    let mut status = json!({
        "resourceRules": rules.iter().filter(|rule| !rule.resources.is_empty()).map(|rule| of_resources(rule)).collect::<Vec<_>>(),
        "nonResourceRules": rules.iter().filter(|rule| !rule.paths.is_empty()).map(|rule| of_paths(rule)).collect::<Vec<_>>(),
        "incomplete": false,
    });
    let faults = policy.faults(user, namespace);
    if !faults.is_empty() {
        status["evaluationError"] = faults.into();
    }
    status
}

fn of_resources(rule: &Rule) -> Value {
    let mut shown = json!({"verbs": &*rule.verbs, "apiGroups": &*rule.groups, "resources": &*rule.resources});
    if !rule.names.is_empty() {
        shown["resourceNames"] = json!(&*rule.names);
    }
    shown
}

fn of_paths(rule: &Rule) -> Value {
    json!({"verbs": &*rule.verbs, "nonResourceURLs": &*rule.paths})
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::{Change, Kind};

    #[test]
    fn somebody_is_told_the_rules_that_count_in_a_namespace() {
        let mut policy = Policy::default();
        let role = |name: &str, rules: Value| json!({"metadata": {"name": name, "namespace": "n"}, "rules": rules});
        let binding = |name: &str, kind: &str| {
            json!({
                "metadata": {"name": name, "namespace": "n"}, "roleRef": {"kind": kind, "name": name},
                "subjects": [{"kind": "User", "name": "alice"}],
            })
        };
        let seeing = role(
            "see",
            json!([
                {"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"]},
                {"verbs": ["get"], "nonResourceURLs": ["/metrics"]},
            ]),
        );
        policy.apply(&Change::Set(Kind::ClusterRole, &seeing));
        policy.apply(&Change::Set(Kind::ClusterRoleBinding, &binding("see", "ClusterRole")));
        policy.apply(&Change::Set(Kind::RoleBinding, &binding("lost", "Role")));
        let alice = Identity::new("alice", ["g"]);
        let seen = json!([{"verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["one"]}]);
        let paths = json!([{"verbs": ["get"], "nonResourceURLs": ["/metrics"]}]);
        let elsewhere = json!({"resourceRules": seen, "nonResourceRules": paths, "incomplete": false});
        assert_eq!(status(&policy, &alice, "m"), elsewhere);
        let mut here = elsewhere;
        here["evaluationError"] = r#"role.rbac.authorization.k8s.io "lost" not found"#.into();
        assert_eq!(status(&policy, &alice, "n"), here, "a role that is missing is named");
        let nobody = json!({"resourceRules": [], "nonResourceRules": [], "incomplete": false});
        assert_eq!(status(&policy, &Identity::new("bob", ["g"]), "n"), nobody);
    }
}
