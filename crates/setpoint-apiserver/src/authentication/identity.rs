//! Somebody this server knows.

use std::collections::BTreeMap;

use setpoint_api::names;

/// Everybody who proved who they are.
pub const AUTHENTICATED: &str = "system:authenticated";
/// Those who did not.
pub const UNAUTHENTICATED: &str = "system:unauthenticated";
pub const ANONYMOUS: &str = "system:anonymous";

/// The name that our controllers have; they are one program, with the rights of all.
pub const CONTROLLERS: &str = "system:kube-controller-manager";
const SCHEDULER: &str = "system:kube-scheduler";
const NODE_PREFIX: &str = "system:node:";
const NODES: &str = "system:nodes";
const SERVICE_ACCOUNT_PREFIX: &str = "system:serviceaccount:";
const SERVICE_ACCOUNTS: &str = "system:serviceaccounts";

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

    pub fn service_account(namespace: &str, name: &str) -> Identity {
        Identity::new(format!("{SERVICE_ACCOUNT_PREFIX}{namespace}:{name}"), service_account_groups(namespace))
    }

    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|known| known == group)
    }

    /// Whether this is one of our own programs: the controllers, the scheduler, or a node.
    pub fn is_our_own(&self) -> bool {
        [CONTROLLERS, SCHEDULER].contains(&self.user.as_str())
            || self.user.starts_with(NODE_PREFIX) && self.is_in(NODES)
    }

    /// Puts a group last, unless it is there.
    pub fn join(&mut self, group: &str) {
        if !self.is_in(group) {
            self.groups.push(group.to_owned());
        }
    }

    /// The same among those who proved who they are, unless it says otherwise itself.
    #[must_use]
    pub fn proved(mut self) -> Identity {
        if self.user != ANONYMOUS && !self.is_in(UNAUTHENTICATED) {
            self.join(AUTHENTICATED);
        }
        self
    }
}

/// The groups of every service account in a namespace.
pub(super) fn service_account_groups(namespace: &str) -> [String; 2] {
    [SERVICE_ACCOUNTS.to_owned(), format!("{SERVICE_ACCOUNTS}:{namespace}")]
}

/// The namespace and name of the service account that a user name stands for.
pub fn service_account_of(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix(SERVICE_ACCOUNT_PREFIX)?.split_once(':')?;
    let is_one = names::dns1123_label(namespace).is_empty() && names::dns1123_subdomain(name).is_empty();
    is_one.then_some((namespace, name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_account_is_known_by_its_user_name() {
        let rows = [
            ("one", "system:serviceaccount:shop:web", Some(("shop", "web"))),
            ("with dots in its name", "system:serviceaccount:shop:web.one", Some(("shop", "web.one"))),
            ("with a part too many", "system:serviceaccount:shop:web:x", None),
            ("without a name", "system:serviceaccount:shop:", None),
            ("without a namespace", "system:serviceaccount::web", None),
            ("in a namespace that cannot be", "system:serviceaccount:a.b:web", None),
            ("with a name that cannot be", "system:serviceaccount:shop:Web", None),
            ("a person", "alice", None),
        ];
        for (row, user, expected) in rows {
            assert_eq!(service_account_of(user), expected, "{row}");
        }
        let identity = Identity::service_account("shop", "web");
        assert_eq!(service_account_of(&identity.user), Some(("shop", "web")));
        assert_eq!(identity.groups, ["system:serviceaccounts", "system:serviceaccounts:shop"]);
    }
}
