//! RoleBindings and ClusterRoleBindings: who has a role, in one namespace or everywhere.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::GROUP;
use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use crate::kinds::defaults::{each, fill_text};
use crate::kinds::endpoints::report;
use crate::kinds::shown;
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::names;

/// Gives a Role or a ClusterRole to somebody, in its own namespace.
#[derive(Debug, Clone, Copy)]
pub struct RoleBinding;

/// Gives a ClusterRole to somebody, everywhere.
#[derive(Debug, Clone, Copy)]
pub struct ClusterRoleBinding;

impl Behaviour for RoleBinding {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        super::validate_name(name)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_role(object.field("roleRef"), &["Role", "ClusterRole"], errors);
        for subject in object.field("subjects").items() {
            validate_subject(subject, true, errors);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        self.validate(object, errors);
        validate_same_role(object.field("roleRef"), &old["roleRef"], errors);
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        cells(object, now)
    }
}

impl Behaviour for ClusterRoleBinding {
    fn default(&self, object: &mut Value) {
        default(object);
    }

    fn validate_name(&self, name: &str, _prefix: bool) -> Vec<String> {
        super::validate_name(name)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_role(object.field("roleRef"), &["ClusterRole"], errors);
        for subject in object.field("subjects").items() {
            validate_subject(subject, false, errors);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        self.validate(object, errors);
        validate_same_role(object.field("roleRef"), &old["roleRef"], errors);
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        cells(object, now)
    }
}

const COLUMNS: [Column; 6] = [
    columns::NAME,
    columns::text("Role", "The role that is given."),
    columns::AGE,
    columns::wide("Users", "The users who have it."),
    columns::wide("Groups", "The groups whose members have it."),
    columns::wide("ServiceAccounts", "The service accounts that have it."),
];

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let subjects = |kind: &str, shown: fn(&Value) -> String| {
        let all = object["subjects"].as_array().into_iter().flatten();
        let shown: Vec<String> = all.filter(|subject| subject["kind"] == kind).map(shown).collect();
        Value::from(shown.join(", "))
    };
    let name = |subject: &Value| subject["name"].as_str().unwrap_or_default().to_owned();
    let role = &object["roleRef"];
    vec![
        columns::name_cell(object),
        format!("{}/{}", text(&role["kind"]), text(&role["name"])).into(),
        columns::age_cell(object, now),
        subjects("User", name),
        subjects("Group", name),
        subjects("ServiceAccount", |subject| {
            let part = |field: &str| subject[field].as_str().unwrap_or_default();
            format!("{}/{}", part("namespace"), part("name"))
        }),
    ]
}

fn default(object: &mut Value) {
    if object["roleRef"].is_object() {
        fill_text(&mut object["roleRef"], "apiGroup", GROUP);
    }
    each(object, "subjects", |subject| {
        if matches!(subject["kind"].as_str(), Some("User" | "Group")) {
            fill_text(subject, "apiGroup", GROUP);
        }
    });
}

fn validate_role(role: Node<'_, '_>, kinds: &[&str], errors: &mut Errors) {
    let (group, kind, name) = (role.field("apiGroup"), role.field("kind"), role.field("name"));
    if group.str() != GROUP {
        errors.unsupported(&group.path, group.str(), &[GROUP]);
    }
    if !kinds.contains(&kind.str()) {
        errors.unsupported(&kind.path, kind.str(), kinds);
    }
    if name.str().is_empty() {
        errors.required(&name.path, "");
    } else {
        report(name, super::validate_name, errors);
    }
}

/// Who has a role may change; which role it is may not, so that a right to name subjects is not one to give any role.
fn validate_same_role(role: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    if role.value != old {
        errors.push(Fault::Invalid, &role.path, || {
            let empty = || json!("");
            let fields = [("APIGroup", "apiGroup", empty()), ("Kind", "kind", empty()), ("Name", "name", empty())];
            format!("Invalid value: {}: cannot change roleRef", shown::fields(role.value, &fields))
        });
    }
}

fn validate_subject(subject: Node<'_, '_>, namespaced: bool, errors: &mut Errors) {
    let (kind, group, name) = (subject.field("kind"), subject.field("apiGroup"), subject.field("name"));
    if name.str().is_empty() {
        errors.required(&name.path, "");
    }
    match kind.str() {
        "ServiceAccount" => {
            if !name.str().is_empty() {
                report(name, names::dns1123_subdomain, errors);
            }
            if !group.str().is_empty() {
                errors.unsupported(&group.path, group.str(), &[""]);
            }
            let namespace = subject.field("namespace");
            if !namespaced && namespace.str().is_empty() {
                errors.required(&namespace.path, "");
            }
        }
        "User" | "Group" => {
            if group.str() != GROUP {
                errors.unsupported(&group.path, group.str(), &[GROUP]);
            }
        }
        other => errors.unsupported(&kind.path, other, &["ServiceAccount", "User", "Group"]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::probe::{completed, messages, update_messages};

    fn binding(role: Value, subjects: Value) -> Value {
        json!({"metadata": {"name": "a"}, "roleRef": role, "subjects": subjects})
    }

    fn to(subject: Value) -> Value {
        binding(json!({"kind": "ClusterRole", "name": "view"}), json!([subject]))
    }

    #[test]
    fn groups_are_filled_in() {
        let object = binding(
            json!({"kind": "ClusterRole", "name": "view"}),
            json!([{"kind": "User", "name": "a"}, {"kind": "Group", "name": "b"}, {"kind": "ServiceAccount", "name": "c"}]),
        );
        let object = completed(&RoleBinding, &object);
        assert_eq!(object["roleRef"]["apiGroup"], GROUP);
        let groups: Vec<&Value> =
            object["subjects"].as_array().expect("subjects").iter().map(|subject| &subject["apiGroup"]).collect();
        assert_eq!(groups, [&json!(GROUP), &json!(GROUP), &Value::Null]);
    }

    #[test]
    fn bindings_name_a_role_and_who_has_it() {
        let everywhere = "subjects[0].namespace: Required value";
        let rows = [
            ("a user", to(json!({"kind": "User", "name": "jane"})), vec![], vec![]),
            ("nobody", binding(json!({"kind": "ClusterRole", "name": "view"}), json!([])), vec![], vec![]),
            (
                "a role of a namespace",
                binding(json!({"kind": "Role", "name": "r"}), json!([])),
                vec![],
                vec![r#"roleRef.kind: Unsupported value: "Role": supported values: "ClusterRole""#],
            ),
            (
                "no role",
                binding(json!({}), json!([])),
                vec![
                    r#"roleRef.kind: Unsupported value: "": supported values: "Role", "ClusterRole""#,
                    "roleRef.name: Required value",
                ],
                vec![
                    r#"roleRef.kind: Unsupported value: "": supported values: "ClusterRole""#,
                    "roleRef.name: Required value",
                ],
            ),
            (
                "a role in another group, with a name that is none",
                binding(json!({"apiGroup": "x", "kind": "ClusterRole", "name": "a/b"}), json!([])),
                vec![
                    r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                    r#"roleRef.name: Invalid value: "a/b": may not contain '/'"#,
                ],
                vec![
                    r#"roleRef.apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                    r#"roleRef.name: Invalid value: "a/b": may not contain '/'"#,
                ],
            ),
            (
                "something that cannot ask",
                to(json!({"kind": "Robot", "name": "u"})),
                vec![
                    r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                ],
                vec![
                    r#"subjects[0].kind: Unsupported value: "Robot": supported values: "ServiceAccount", "User", "Group""#,
                ],
            ),
            (
                "a service account of no namespace",
                to(json!({"kind": "ServiceAccount", "name": "s"})),
                vec![],
                vec![everywhere],
            ),
            (
                "a service account in a group",
                to(json!({"kind": "ServiceAccount", "name": "s", "namespace": "n", "apiGroup": "x"})),
                vec![r#"subjects[0].apiGroup: Unsupported value: "x": supported values: """#],
                vec![r#"subjects[0].apiGroup: Unsupported value: "x": supported values: """#],
            ),
            (
                "a user without a name, in another group",
                to(json!({"kind": "User", "name": "", "apiGroup": "x"})),
                vec![
                    "subjects[0].name: Required value",
                    r#"subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                ],
                vec![
                    "subjects[0].name: Required value",
                    r#"subjects[0].apiGroup: Unsupported value: "x": supported values: "rbac.authorization.k8s.io""#,
                ],
            ),
        ];
        for (name, object, in_namespace, in_cluster) in rows {
            assert_eq!(messages(&RoleBinding, &object), in_namespace, "{name}");
            assert_eq!(messages(&ClusterRoleBinding, &object), in_cluster, "{name}");
        }
    }

    #[test]
    fn a_binding_gives_one_role_for_ever() {
        let old = to(json!({"kind": "User", "name": "jane"}));
        let others = to(json!({"kind": "Group", "name": "team"}));
        let role = binding(json!({"kind": "ClusterRole", "name": "edit"}), json!([]));
        let refusal = r#"roleRef: Invalid value: {"APIGroup":"rbac.authorization.k8s.io","Kind":"ClusterRole","Name":"edit"}: cannot change roleRef"#;
        for kind in [&RoleBinding as &dyn Behaviour, &ClusterRoleBinding] {
            assert_eq!(update_messages(kind, &others, &old, Part::Main), [""; 0]);
            assert_eq!(update_messages(kind, &role, &old, Part::Main), [refusal]);
        }
    }

    #[test]
    fn tables_show_who_has_what() {
        let object = binding(
            json!({"kind": "Role", "name": "r"}),
            json!([
                {"kind": "User", "name": "jane"}, {"kind": "User", "name": "joe"}, {"kind": "Group", "name": "team"},
                {"kind": "ServiceAccount", "name": "s", "namespace": "n"},
            ]),
        );
        let cells = RoleBinding.cells(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[..2], [json!("a"), json!("Role/r")]);
        assert_eq!(cells[3..], [json!("jane, joe"), json!("team"), json!("n/s")]);
    }
}
