//! Keeps the policy in step with the roles and bindings that are stored.
//!
//! Every commit of one ends here before its writer is answered: the object is read again and the policy takes it as it is
//! now, one at a time. So what may be done follows from what is stored, whoever wrote it and in whatever order, and a
//! change costs no more than itself. [`default_roles`] is what the server puts there when it starts;
//! [`aggregated_rules`] writes down for people what ClusterRoles take together, which the policy knows without.

pub mod aggregated_rules;
mod changes;
pub mod default_roles;

use std::time::Duration;

use parking_lot::{RwLock, RwLockReadGuard};
use setpoint_store::{At, Error, Range};
use tokio::sync::Notify;

use crate::authorization::{Change, Kind, Policy};
use crate::failure::Result;
use crate::kinds::rbac::GROUP;
use crate::object::Stored;
use crate::server::Shared;
use changes::Changes;

/// How long to wait after the store could not be read.
const PAUSE: Duration = Duration::from_secs(1);

/// The policy as it is now.
#[derive(Debug, Default)]
pub struct LivePolicy {
    policy: RwLock<Policy>,
    /// Held while an object is read and taken in, so that what was read first is not taken in last.
    turn: tokio::sync::Mutex<()>,
    /// Tells when rights may have changed, once that is in force.
    pub changes: Changes,
    /// A ClusterRole changed, and so may have what others take in.
    cluster_roles: Notify,
}

impl LivePolicy {
    /// What counts now. Not to be held for long: who changes the policy waits for it.
    pub fn read(&self) -> RwLockReadGuard<'_, Policy> {
        self.policy.read()
    }

    /// Takes in all that is stored.
    pub async fn load(&self, server: &Shared) -> Result<()> {
        for kind in Kind::ALL {
            let resource = server.registry().built_in(GROUP, "v1", kind.plural());
            let scope = resource.directory(None);
            let page = server.store.range(Range { scope: &scope, after: None, limit: 0, at: At::Now }).await?;
            let mut policy = self.policy.write();
            for entry in &page.entries {
                policy.apply(&Change::Set(kind, &resource.value(&Stored::from(entry))));
            }
        }
        Ok(())
    }

    /// Takes note that the object under this key was written or removed, if it is one that counts. Does not end before
    /// that is in force: a right that was taken away must not outlive the answer because the store could not be read.
    pub async fn changed(&self, server: &Shared, key: &str) {
        let Some(Place { kind, namespace, name }) = Place::of(key) else { return };
        let _turn = self.turn.lock().await;
        let entry = loop {
            match server.store.get(key, At::Now).await {
                Ok(found) => break found.value,
                Err(Error::Closed) => return,
                Err(error) => tracing::warn!(key, %error, "a role or binding cannot be read"),
            }
            tokio::time::sleep(PAUSE).await;
        };
        match entry {
            Some(entry) => {
                let resource = server.registry().built_in(GROUP, "v1", kind.plural());
                let object = resource.value(&Stored::from(&entry));
                self.policy.write().apply(&Change::Set(kind, &object));
            }
            None => self.policy.write().apply(&Change::Removed { kind, namespace, name }),
        }
        self.changes.tell(namespace);
        if kind == Kind::ClusterRole {
            self.cluster_roles.notify_one();
        }
    }
}

/// Where a role or binding is kept.
#[derive(Debug, PartialEq, Eq)]
struct Place<'k> {
    kind: Kind,
    /// "" for kinds of the cluster.
    namespace: &'k str,
    name: &'k str,
}

impl<'k> Place<'k> {
    /// None if the key is that of something else.
    fn of(key: &'k str) -> Option<Place<'k>> {
        let (plural, rest) = key.strip_prefix('/')?.strip_prefix(GROUP)?.strip_prefix('/')?.split_once('/')?;
        let kind = Kind::ALL.into_iter().find(|kind| kind.plural() == plural)?;
        let (namespace, name) = match kind {
            Kind::ClusterRole | Kind::ClusterRoleBinding => ("", rest),
            Kind::Role | Kind::RoleBinding => rest.split_once('/')?,
        };
        Some(Place { kind, namespace, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_says_which_role_or_binding_it_is_of() {
        let rows = [
            ("/rbac.authorization.k8s.io/roles/n/a:b", Some((Kind::Role, "n", "a:b"))),
            ("/rbac.authorization.k8s.io/rolebindings/n/a", Some((Kind::RoleBinding, "n", "a"))),
            ("/rbac.authorization.k8s.io/clusterroles/system:a", Some((Kind::ClusterRole, "", "system:a"))),
            ("/rbac.authorization.k8s.io/clusterrolebindings/a", Some((Kind::ClusterRoleBinding, "", "a"))),
            ("/rbac.authorization.k8s.io/others/a", None),
            ("/core/roles/n/a", None),
        ];
        for (key, expected) in rows {
            let expected = expected.map(|(kind, namespace, name)| Place { kind, namespace, name });
            assert_eq!(Place::of(key), expected, "{key}");
        }
    }
}
