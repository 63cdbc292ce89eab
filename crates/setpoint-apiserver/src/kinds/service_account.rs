//! ServiceAccounts: the identities that Pods have.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::defaults;
use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::Node;

const ENFORCE_MOUNTABLE: &str = "kubernetes.io/enforce-mountable-secrets";

#[derive(Debug, Clone, Copy)]
pub struct ServiceAccount;

impl Behaviour for ServiceAccount {
    fn prepare_create(&self, object: &mut Value) {
        keep_secret_names(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, _part: Part) {
        keep_secret_names(object);
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        let annotated = |object: &Value| !object["metadata"]["annotations"][ENFORCE_MOUNTABLE].is_null();
        if !annotated(object.value) || old.is_some_and(annotated) {
            return Vec::new();
        }
        vec![format!(
            "metadata.annotations[{ENFORCE_MOUNTABLE}]: deprecated in v1.32+; prefer separate namespaces to isolate access \
             to mounted secrets"
        )]
    }

    fn columns(&self) -> &[Column] {
        &[columns::NAME, columns::AGE]
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name_cell(object), columns::age_cell(object, now)]
    }
}

/// Secrets are referred to by name alone: they are always of the account's own namespace.
fn keep_secret_names(object: &mut Value) {
    for secret in defaults::items(object, "secrets") {
        *secret = match secret["name"].take() {
            Value::Null => json!({}),
            name => json!({"name": name}),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_names() {
        let mut object = json!({"secrets": [{"kind": "Secret", "namespace": "n", "name": "a"}, {"uid": "u"}]});
        ServiceAccount.prepare_create(&mut object);
        assert_eq!(object, json!({"secrets": [{"name": "a"}, {}]}));
    }

    #[test]
    fn the_old_annotation_is_remarked_on_once() {
        let object = json!({"metadata": {"annotations": {ENFORCE_MOUNTABLE: "true"}}});
        assert_eq!(ServiceAccount.warnings(Node::root(&object), None).len(), 1);
        assert!(ServiceAccount.warnings(Node::root(&object), Some(&object)).is_empty());
    }
}
