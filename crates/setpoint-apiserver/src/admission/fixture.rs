//! Changes to objects of our kinds, for tests of what is admitted.

use std::sync::Arc;

use serde_json::Value;

use super::Change;
use crate::authentication::{Caller, Identity, Impersonator, Standing};
use crate::failure::Result;
use crate::kind::Part;
use crate::registry::Resource;
use crate::request::Verb;

pub(super) fn caller(user: &str) -> Caller {
    Caller::new(Arc::new(Identity::new(user, ["people"])), Standing::default())
}

/// Somebody who acts as another.
pub(super) fn acting_as(user: &str, other: &str) -> Caller {
    let impersonator = Impersonator {
        identity: Arc::new(Identity::new(user, ["people"])),
        wanted: Arc::new(Identity::new(other, ["people"])),
    };
    Caller { impersonator: Some(impersonator), ..caller(other) }
}

/// A kind of ours by its name; how its objects look does not matter here.
pub(super) fn resource(kind: &'static str) -> Resource {
    let schemas = crate::schema::Schemas::built_in();
    let schema = schemas.get("io.k8s.api.core.v1.ConfigMap").expect("a built-in schema");
    let behaviour = Arc::new(crate::kinds::config_map::ConfigMap);
    Resource::new(setpoint_api::GROUP, "v1alpha1", kind, behaviour, schema)
}

/// What a rule says of a change by a user.
pub(super) fn judge(
    user: &str,
    kind: &'static str,
    (before, after): (Option<&Value>, Option<&Value>),
    rule: impl FnOnce(&Change<'_>) -> Result<()>,
) -> Result<()> {
    judge_by(&caller(user), kind, (before, after), rule)
}

pub(super) fn judge_by(
    caller: &Caller,
    kind: &'static str,
    (before, after): (Option<&Value>, Option<&Value>),
    rule: impl FnOnce(&Change<'_>) -> Result<()>,
) -> Result<()> {
    let resource = resource(kind);
    let verb = match (before, after) {
        (None, _) => Verb::Create,
        (Some(_), Some(_)) => Verb::Update,
        (Some(_), None) => Verb::Delete,
    };
    let (part, namespace) = (Part::Main, Some("shop"));
    rule(&Change { caller, verb, resource: &resource, part, namespace, path_name: "", before, after })
}
