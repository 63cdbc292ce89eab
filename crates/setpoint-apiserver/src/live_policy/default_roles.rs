//! Puts the default roles and bindings there when the server starts, or brings them up to date.
//!
//! As in Kubernetes, what is missing is added and what people added stays; one that says that it is not to be updated is
//! left alone. A start that finds all as it should be writes nothing.

use serde_json::Value;
use setpoint_store::At;

use crate::authorization::coverage::missing;
use crate::authorization::default_roles::{AUTO_UPDATE, objects};
use crate::authorization::{Kind, Rule};
use crate::failure::Result;
use crate::kinds::rbac::GROUP;
use crate::object::Stored;
use crate::registry::text_at;
use crate::server::Shared;
use crate::verbs;

/// Who owns the fields of default roles and bindings.
const MANAGER: &str = "setpoint";

pub async fn install(server: &Shared) -> Result<()> {
    for (kind, object) in objects() {
        let resource = server.registry().built_in(GROUP, "v1", kind.plural());
        let name = text_at(&object, &["metadata", "name"]).to_owned();
        let entry = server.store.get(&resource.key(None, &name), At::Now).await?.value;
        let existing = entry.map(|entry| resource.value(&Stored::from(&entry)));
        let Some(config) = brought_up_to_date(kind, object, existing.as_ref()) else { continue };
        match verbs::apply_as_server(server, resource, &name, &config, MANAGER).await {
            // A binding of this name may give another role, which cannot be changed.
            Err(failure) if failure.code.is_client_error() => {
                tracing::warn!("{} {name} stays as it is: {}", kind.plural(), failure.message());
            }
            outcome => outcome?,
        }
    }
    Ok(())
}

/// The configuration that adds to an existing object what it should have; none if it is not to be touched.
fn brought_up_to_date(kind: Kind, mut wanted: Value, existing: Option<&Value>) -> Option<Value> {
    let Some(existing) = existing else { return Some(wanted) };
    if existing["metadata"]["annotations"][AUTO_UPDATE] == "false" {
        return None;
    }
    let list = |object: &Value, field: &str| object[field].as_array().cloned().unwrap_or_default();
    match kind {
        // Its rules are those of others, and are written by whoever takes them together.
        Kind::ClusterRole if wanted.get("rules").is_none() => {}
        Kind::ClusterRole | Kind::Role => {
            let mut rules = list(existing, "rules");
            let (held, needed) = (Rule::read_all(&existing["rules"]), Rule::read_all(&wanted["rules"]));
            let lacking = missing(&held.iter().collect::<Vec<_>>(), &needed.iter().collect::<Vec<_>>());
            rules.extend(lacking.iter().map(Rule::to_json));
            wanted["rules"] = Value::Array(rules);
        }
        Kind::ClusterRoleBinding | Kind::RoleBinding => {
            let mut subjects = list(existing, "subjects");
            let lacking = list(&wanted, "subjects").into_iter().filter(|subject| !subjects.contains(subject));
            let lacking: Vec<Value> = lacking.collect();
            subjects.extend(lacking);
            wanted["subjects"] = Value::Array(subjects);
        }
    }
    Some(wanted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_missing_is_added_and_what_was_added_stays() {
        let rule = |verbs: &[&str]| json!({"verbs": verbs, "apiGroups": [""], "resources": ["pods"]});
        let role = |rules: Value| json!({"metadata": {"name": "r"}, "rules": rules});
        let group = |name: &str| json!({"kind": "Group", "name": name});
        let binding = |subjects: Value| json!({"metadata": {"name": "b"}, "subjects": subjects});
        let untouched = json!({"metadata": {"annotations": {AUTO_UPDATE: "false"}}});
        let ours = role(json!([rule(&["get", "list"])]));
        let gathered = json!({"metadata": {"name": "r"}, "aggregationRule": {}});
        let rows = [
            ("none yet", Kind::ClusterRole, ours.clone(), None, Some(ours.clone())),
            ("left alone", Kind::ClusterRole, ours.clone(), Some(untouched), None),
            ("as it should be", Kind::ClusterRole, ours.clone(), Some(ours.clone()), Some(ours.clone())),
            (
                "one verb missing, another added",
                Kind::ClusterRole,
                ours.clone(),
                Some(role(json!([rule(&["get", "delete"])]))),
                Some(role(json!([rule(&["get", "delete"]), rule(&["list"])]))),
            ),
            (
                "the rules of others",
                Kind::ClusterRole,
                gathered.clone(),
                Some(role(json!([rule(&["get"])]))),
                Some(gathered),
            ),
            (
                "a subject missing, another added",
                Kind::ClusterRoleBinding,
                binding(json!([group("a"), group("b")])),
                Some(binding(json!([group("c"), group("b")]))),
                Some(binding(json!([group("c"), group("b"), group("a")]))),
            ),
        ];
        for (row, kind, wanted, existing, expected) in rows {
            assert_eq!(brought_up_to_date(kind, wanted, existing.as_ref()), expected, "{row}");
        }
    }
}
