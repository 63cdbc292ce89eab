//! Leases: who leads, since when, and for how long unless renewed.

use jiff::Timestamp;
use serde_json::Value;

use super::defaults;
use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};

/// Fields of coordinated leader election, which this server does not do.
const UNSERVED: [&str; 2] = ["strategy", "preferredHolder"];

#[derive(Debug, Clone, Copy)]
pub struct Lease;

impl Behaviour for Lease {
    fn default(&self, object: &mut Value) {
        defaults::section(object, "spec");
    }

    fn prepare_create(&self, object: &mut Value) {
        drop_unserved(object);
    }

    fn prepare_update(&self, object: &mut Value, _old: &Value, _part: Part) {
        drop_unserved(object);
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        let spec = object.field("spec");
        let duration = spec.field("leaseDurationSeconds");
        if let Some(seconds) = duration.i64().filter(|seconds| *seconds <= 0) {
            errors.invalid(&duration.path, seconds, "must be greater than 0");
        }
        let transitions = spec.field("leaseTransitions");
        if let Some(count) = transitions.i64().filter(|count| *count < 0) {
            errors.invalid(&transitions.path, count, "must be greater than or equal to 0");
        }
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 3] = [columns::NAME, columns::text("Holder", "Who holds the lease."), columns::AGE];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let holder = object["spec"]["holderIdentity"].as_str().unwrap_or_default();
        vec![columns::name_cell(object), holder.into(), columns::age_cell(object, now)]
    }
}

fn drop_unserved(object: &mut Value) {
    let spec = defaults::section(object, "spec");
    UNSERVED.iter().for_each(|field| defaults::remove(spec, field));
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn times_run_forwards() {
        let object = json!({"spec": {"leaseDurationSeconds": 0, "leaseTransitions": -1}});
        let mut errors = Errors::default();
        Lease.validate(Node::root(&object), &mut errors);
        let messages: Vec<String> = errors.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "spec.leaseDurationSeconds: Invalid value: 0: must be greater than 0",
                "spec.leaseTransitions: Invalid value: -1: must be greater than or equal to 0",
            ]
        );
    }

    #[test]
    fn an_empty_lease_is_held_by_nobody() {
        let mut object = json!({"metadata": {"name": "a"}});
        Lease.default(&mut object);
        assert_eq!(object["spec"], json!({}));
        assert_eq!(Lease.cells(&object, Timestamp::UNIX_EPOCH)[..2], [json!("a"), json!("")]);
    }
}
