//! Roles and their bindings: what may be done, and by whom.
//!
//! These are the rules of the objects alone. What they mean for a request is decided by [`crate::authorization`].

pub mod binding;
pub mod role;

use setpoint_api::names;

pub(crate) const GROUP: &str = "rbac.authorization.k8s.io";

/// Roles and bindings may be named as people and parts of the system are: `system:admin`. A prefix for a name to be
/// generated has to keep the same rules.
fn validate_name(name: &str) -> Vec<String> {
    names::path_segment(name)
}
