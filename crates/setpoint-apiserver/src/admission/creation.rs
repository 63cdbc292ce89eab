//! Who makes an object by an update or an apply must be allowed to create it.

use super::Change;
use crate::authorization::{Access, Policy};
use crate::failure::Result;
use crate::request::Verb;

pub(super) fn check(policy: &Policy, change: &Change<'_>) -> Result<()> {
    if change.before.is_some() || change.verb == Verb::Create {
        return Ok(());
    }
    let kind = [&*change.resource.group, &*change.resource.plural, ""];
    let creation = Access::to_object(Verb::Create.name(), kind, change.path_name, change.place());
    creation.check(policy, &change.caller.identity).map(drop)
}
