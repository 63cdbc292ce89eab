//! Who may do what: the rules of roles, given to people by bindings.
//!
//! Everything here is pure. [`Policy`] is an index over the roles and bindings that exist; [`crate::live_policy`] feeds it
//! one [`Change`] at a time, and what a request asks leave for, its [`Access`], is decided from it without I/O. Rights only add up: nothing can be forbidden, so
//! the order of rules does not matter, and what is not there cannot be wrong. [`coverage`] keeps people from giving away
//! rights they do not have; [`default_roles`] is what a server starts with.

mod access;
mod aggregation;
pub mod coverage;
pub mod default_roles;
mod policy;
#[cfg(test)]
mod properties;
mod rule;
mod subject;
#[cfg(test)]
mod tests;

use std::fmt;

use crate::authentication::Identity;

pub use access::Access;
pub use policy::{Change, Kind, Pieces, Policy};
pub use rule::Rule;
pub use subject::{Binding, RoleRef, Subject};

/// Its members may do anything, whatever the roles say: without them, a mistake in a role could lock everybody out.
pub const MASTERS: &str = "system:masters";

/// What somebody wants to do.
#[derive(Debug, Clone, Copy)]
pub struct Attributes<'a> {
    pub user: &'a Identity,
    /// `get`, `list`, `watch`, `create`, …; for a path the method in lower case.
    pub verb: &'a str,
    pub target: Target<'a>,
}

/// What it is to be done to. Empty texts stand for what a request does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target<'a> {
    Resource { group: &'a str, resource: &'a str, subresource: &'a str, name: &'a str, namespace: &'a str },
    Path(&'a str),
}

impl<'a> Target<'a> {
    /// The namespace whose bindings count; "" where only those of the cluster do.
    pub fn namespace(&self) -> &'a str {
        match self {
            Target::Resource { namespace, .. } => namespace,
            Target::Path(_) => "",
        }
    }
}

/// Whether it may be done, and why. The reason is put into words only if somebody wants to read it.
#[derive(Debug, Clone, Copy)]
pub enum Decision<'a> {
    /// By a member of [`MASTERS`].
    Master,
    Granted {
        binding: &'a Binding,
        user: &'a Identity,
    },
    Refused {
        policy: &'a Policy,
        attributes: Attributes<'a>,
    },
}

impl Decision<'_> {
    pub fn is_allowed(&self) -> bool {
        !matches!(self, Decision::Refused { .. })
    }

    /// The reason in Kubernetes' words; "" where there is none to tell.
    pub fn reason(&self) -> String {
        match self {
            Decision::Master => String::new(),
            Decision::Granted { binding, user } => match binding.subject(user) {
                Some(subject) => format!("RBAC: allowed by {binding} to {subject}"),
                None => format!("RBAC: allowed by {binding}"),
            },
            Decision::Refused { policy, attributes } => {
                match policy.faults(attributes.user, attributes.target.namespace()).as_str() {
                    "" => String::new(),
                    faults => format!("RBAC: {faults}"),
                }
            }
        }
    }
}

impl Policy {
    /// The roles that somebody was given in a namespace and that do not exist, in words; "" if all do.
    pub fn faults(&self, user: &Identity, namespace: &str) -> String {
        let missing = self.missing_roles(user, namespace).into_iter();
        let missing: Vec<String> = missing.map(|role| Missing(role).to_string()).collect();
        match missing.as_slice() {
            [] => String::new(),
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        }
    }
}

/// Somebody was given a role that does not exist.
struct Missing<'a>(&'a RoleRef);

impl fmt::Display for Missing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            RoleRef::Role(name) => write!(f, "role.{} {name:?} not found", crate::kinds::rbac::GROUP),
            RoleRef::ClusterRole(name) => write!(f, "clusterrole.{} {name:?} not found", crate::kinds::rbac::GROUP),
        }
    }
}
