//! Scales: the view of a workload that has only its number of replicas.

use crate::field::{Errors, Node};
use crate::object_meta;

/// Checks an `autoscaling/v1` Scale. The rest of its metadata is not taken over, and so not looked at.
pub fn validate(scale: Node<'_, '_>, errors: &mut Errors) {
    object_meta::validate_managed_fields(scale.field("metadata").field("managedFields"), errors);
    let spec = scale.field("spec");
    let replicas = spec.field("replicas");
    if let Some(count) = replicas.i64().filter(|count| *count < 0) {
        errors.invalid(&replicas.path, count, "must be greater than or equal to 0");
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn there_are_no_fewer_than_none() {
        for (replicas, expected) in [
            (json!(0), vec![]),
            (json!(null), vec![]),
            (json!(-1), vec!["spec.replicas: Invalid value: -1: must be greater than or equal to 0"]),
        ] {
            let mut errors = Errors::default();
            validate(Node::root(&json!({"spec": {"replicas": replicas}})), &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), expected);
        }
    }
}
