//! Who makes an object by an update or an apply must be allowed to create it.

use super::Change;
use crate::authorization::{Access, Policy, To};
use crate::failure::Result;
use crate::request::Verb;

pub(super) fn check(policy: &Policy, change: &Change<'_>) -> Result<()> {
    if change.before.is_some() || change.verb == Verb::Create {
        return Ok(());
    }
    let creation = Access {
        verb: Verb::Create.name().to_owned(),
        to: To::Resource {
            group: change.resource.group.to_string(),
            resource: change.resource.plural.to_string(),
            subresource: String::new(),
            name: change.path_name.to_owned(),
            namespace: change.place().to_owned(),
        },
    };
    creation.check(policy, &change.caller.identity).map(drop)
}
