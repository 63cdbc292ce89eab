//! Roles and ClusterRoles: rules that say what may be done to what.

use jiff::Timestamp;
use serde_json::Value;

use crate::columns;
use crate::kind::{Behaviour, Column};
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;

/// Rules for the resources of one namespace.
#[derive(Debug, Clone, Copy)]
pub struct Role;

/// Rules for resources anywhere and for paths that are no resource; or those of other ClusterRoles, taken together.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRole;

impl Behaviour for Role {
    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        super::validate_name(name)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        for rule in object.field("rules").items() {
            validate_rule(rule, true, errors);
        }
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        cells(object)
    }
}

impl Behaviour for ClusterRole {
    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        super::validate_name(name)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        for rule in object.field("rules").items() {
            validate_rule(rule, false, errors);
        }
        let aggregation = object.field("aggregationRule");
        if aggregation.is_set() {
            validate_aggregation(aggregation, errors);
        }
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, _now: Timestamp) -> Vec<Value> {
        cells(object)
    }
}

/// Kubernetes has no table of its own for these kinds, and shows what every object has.
const COLUMNS: [Column; 2] = [columns::NAME, Column { name: "Created At", kind: "date", ..columns::AGE }];

fn cells(object: &Value) -> Vec<Value> {
    let created = object["metadata"]["creationTimestamp"].as_str().unwrap_or_default();
    vec![columns::name_cell(object), created.into()]
}

fn validate_rule(rule: Node<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let verbs = rule.field("verbs");
    if verbs.is_empty() {
        errors.required(&verbs.path, "verbs must contain at least one value");
    }
    let (groups, resources, urls) = (rule.field("apiGroups"), rule.field("resources"), rule.field("nonResourceURLs"));
    if !urls.is_empty() {
        if namespaced {
            errors.invalid(&urls.path, urls.value, "namespaced rules cannot apply to non-resource URLs");
        }
        if !(groups.is_empty() && resources.is_empty() && rule.field("resourceNames").is_empty()) {
            errors.invalid(
                &urls.path,
                urls.value,
                "rules cannot apply to both regular resources and non-resource URLs",
            );
        }
        return;
    }
    if groups.is_empty() {
        errors.required(&groups.path, "resource rules must supply at least one api group");
    }
    if resources.is_empty() {
        errors.required(&resources.path, "resource rules must supply at least one resource");
    }
}

fn validate_aggregation(aggregation: Node<'_, '_>, errors: &mut Errors) {
    let selectors = aggregation.field("clusterRoleSelectors");
    if selectors.is_empty() {
        errors.required(&selectors.path, "at least one clusterRoleSelector required if aggregationRule is non-nil");
    }
    for selector in selectors.items() {
        labels::validate_label_selector(selector, errors);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::probe::messages;

    const NO_VERBS: &str = "rules[0].verbs: Required value: verbs must contain at least one value";
    const NO_GROUP: &str = "rules[0].apiGroups: Required value: resource rules must supply at least one api group";
    const NO_RESOURCE: &str = "rules[0].resources: Required value: resource rules must supply at least one resource";
    const BOTH: &str = r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: rules cannot apply to both regular resources and non-resource URLs"#;
    const NAMESPACED: &str =
        r#"rules[0].nonResourceURLs: Invalid value: ["/x"]: namespaced rules cannot apply to non-resource URLs"#;

    #[test]
    fn rules_say_what_may_be_done_to_what() {
        let rows = [
            ("a good one", json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"]}), vec![], vec![]),
            ("nothing at all", json!({}), vec![NO_VERBS, NO_GROUP, NO_RESOURCE], vec![NO_VERBS, NO_GROUP, NO_RESOURCE]),
            ("no verbs", json!({"apiGroups": [""], "resources": ["pods"]}), vec![NO_VERBS], vec![NO_VERBS]),
            ("no group", json!({"verbs": ["get"], "resources": ["pods"]}), vec![NO_GROUP], vec![NO_GROUP]),
            ("no resource", json!({"verbs": ["get"], "apiGroups": ["*"]}), vec![NO_RESOURCE], vec![NO_RESOURCE]),
            ("a path", json!({"verbs": ["get"], "nonResourceURLs": ["/x"]}), vec![NAMESPACED], vec![]),
            (
                "a path and a resource",
                json!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "nonResourceURLs": ["/x"]}),
                vec![NAMESPACED, BOTH],
                vec![BOTH],
            ),
            (
                "a path and a name",
                json!({"verbs": ["get"], "resourceNames": ["a"], "nonResourceURLs": ["/x"]}),
                vec![NAMESPACED, BOTH],
                vec![BOTH],
            ),
        ];
        for (name, rule, of_role, of_cluster_role) in rows {
            let object = json!({"metadata": {"name": "a"}, "rules": [rule]});
            assert_eq!(messages(&Role, &object), of_role, "{name}");
            assert_eq!(messages(&ClusterRole, &object), of_cluster_role, "{name}");
        }
    }

    #[test]
    fn other_roles_are_taken_together_by_their_labels() {
        let rows = [
            ("by a label", json!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]}), vec![]),
            (
                "by nothing",
                json!({}),
                vec![
                    "aggregationRule.clusterRoleSelectors: Required value: at least one clusterRoleSelector required if \
                     aggregationRule is non-nil",
                ],
            ),
            (
                "by an operator that is none",
                json!({"clusterRoleSelectors": [{"matchExpressions": [{"key": "a", "operator": "Near"}]}]}),
                vec![
                    "aggregationRule.clusterRoleSelectors[0].matchExpressions[0].operator: Invalid value: \"Near\": not a \
                     valid selector operator",
                ],
            ),
        ];
        for (name, aggregation, expected) in rows {
            let object = json!({"metadata": {"name": "a"}, "aggregationRule": aggregation});
            assert_eq!(messages(&ClusterRole, &object), expected, "{name}");
        }
    }

    #[test]
    fn names_are_segments_of_a_path() {
        for (name, good) in [("system:Admin", true), ("a b", true), ("a/b", false), ("..", false), ("50%", false)] {
            assert_eq!(Role.validate_name(name, false).is_empty(), good, "{name}");
            assert_eq!(ClusterRole.validate_name(name, true).is_empty(), good, "{name}");
        }
    }
}
