//! Somebody this server knows.

use std::collections::BTreeMap;

/// A user or a service account, as rules and records name it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub user: String,
    /// Tells one holder of the name from the next; "" where nothing does.
    pub uid: String,
    pub groups: Vec<String>,
    /// What else the credential says of its holder.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl Identity {
    pub fn new(user: impl Into<String>, groups: impl IntoIterator<Item = impl Into<String>>) -> Identity {
        let groups = groups.into_iter().map(Into::into).collect();
        Identity { user: user.into(), groups, ..Identity::default() }
    }
}
