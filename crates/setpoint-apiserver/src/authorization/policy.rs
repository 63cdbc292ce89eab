//! All roles and bindings that exist, by whom and where they concern.
//!
//! A decision looks at the bindings of the one who asks, everywhere and in the namespace asked for, and at no others. A
//! binding with many subjects costs when it changes, not when somebody asks.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use super::aggregation::ClusterRoles;
use super::{Attributes, Binding, Decision, MASTERS, RoleRef, Rule, Subject};
use crate::authentication::Identity;

/// The kinds that a policy is made of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Role,
    ClusterRole,
    RoleBinding,
    ClusterRoleBinding,
}

impl Kind {
    pub const ALL: [Kind; 4] = [Kind::Role, Kind::ClusterRole, Kind::RoleBinding, Kind::ClusterRoleBinding];

    /// The name of its resource.
    pub fn plural(self) -> &'static str {
        match self {
            Kind::Role => "roles",
            Kind::ClusterRole => "clusterroles",
            Kind::RoleBinding => "rolebindings",
            Kind::ClusterRoleBinding => "clusterrolebindings",
        }
    }
}

/// What happened to a role or binding.
#[derive(Debug, Clone, Copy)]
pub enum Change<'a> {
    /// It is new, or is now like this.
    Set(Kind, &'a Value),
    /// It is gone. The namespace is "" for kinds of the cluster.
    Removed { kind: Kind, namespace: &'a str, name: &'a str },
}

#[derive(Debug, Default)]
pub struct Policy {
    cluster_roles: ClusterRoles,
    roles: Named<Vec<Arc<[Rule]>>>,
    /// Those of the cluster have the namespace "".
    bindings: Named<Arc<Binding>>,
    /// By the name of a user, service accounts included.
    users: HashMap<Box<str>, Grants>,
    groups: HashMap<Box<str>, Grants>,
}

/// Rules as the policy keeps them, shared with it, so that to have them costs little and does not hold it up.
#[derive(Debug, Clone, Default)]
pub struct Pieces(Vec<Arc<[Rule]>>);

impl Pieces {
    pub fn rules(&self) -> Vec<&Rule> {
        self.0.iter().flat_map(|piece| piece.iter()).collect()
    }
}

/// By namespace and name.
type Named<T> = HashMap<Box<str>, HashMap<Box<str>, T>>;

/// The bindings of somebody: by namespace, then by role, so that a role is looked at once however often it is given.
type Grants = HashMap<Box<str>, BTreeMap<RoleRef, BTreeMap<Box<str>, Arc<Binding>>>>;

impl Policy {
    pub fn apply(&mut self, change: &Change<'_>) {
        match *change {
            Change::Set(kind, object) => {
                let text = |field: &str| object["metadata"][field].as_str().unwrap_or_default();
                let (namespace, name) = (text("namespace"), text("name"));
                match kind {
                    Kind::ClusterRole => self.cluster_roles.set(name, object),
                    Kind::Role => {
                        let rules = vec![Rule::read_all(&object["rules"]).into()];
                        self.roles.entry(namespace.into()).or_default().insert(name.into(), rules);
                    }
                    Kind::RoleBinding => self.bind(namespace, name, Binding::read(object, namespace)),
                    Kind::ClusterRoleBinding => self.bind("", name, Binding::read(object, "")),
                }
            }
            Change::Removed { kind: Kind::ClusterRole, name, .. } => self.cluster_roles.remove(name),
            Change::Removed { kind: Kind::Role, namespace, name } => {
                take(&mut self.roles, namespace, name);
            }
            Change::Removed { kind: Kind::RoleBinding, namespace, name } => self.bind(namespace, name, None),
            Change::Removed { kind: Kind::ClusterRoleBinding, name, .. } => self.bind("", name, None),
        }
    }

    pub fn decide<'a>(&'a self, attributes: &Attributes<'a>) -> Decision<'a> {
        let user = attributes.user;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Decision::Master;
        }
        let namespace = attributes.target.namespace();
        let granted = self.granting("", attributes).or_else(|| match namespace {
            "" => None,
            _ => self.granting(namespace, attributes),
        });
        match granted {
            Some(binding) => Decision::Granted { binding, user },
            None => Decision::Refused { policy: self, attributes: *attributes },
        }
    }

    /// The rules that somebody has in a namespace, binding by binding; with the namespace "" only those of the cluster.
    pub fn rules_for(&self, user: &Identity, namespace: &str) -> Pieces {
        let bindings = self.bindings_of(user, namespace);
        let rules = bindings.into_iter().filter_map(|binding| self.rules(&binding.role, &binding.namespace));
        Pieces(rules.flatten().cloned().collect())
    }

    /// The rules of a role; none if there is no such role. The namespace is that of the binding.
    pub fn role_rules(&self, role: &RoleRef, namespace: &str) -> Option<Pieces> {
        Some(Pieces(self.rules(role, namespace)?.to_vec()))
    }

    /// The rules that a ClusterRole takes together from others, each once; none if it does not do that.
    pub fn aggregated_rules(&self, name: &str) -> Option<Vec<&Rule>> {
        self.cluster_roles.aggregated(name)
    }

    /// The ClusterRoles that take the rules of others together.
    pub fn aggregating_roles(&self) -> impl Iterator<Item = &str> {
        self.cluster_roles.aggregating()
    }

    /// The roles that somebody was given and that do not exist.
    pub(super) fn missing_roles(&self, user: &Identity, namespace: &str) -> BTreeSet<&RoleRef> {
        let bindings = self.bindings_of(user, namespace).into_iter();
        bindings
            .filter(|binding| self.rules(&binding.role, &binding.namespace).is_none())
            .map(|binding| &binding.role)
            .collect()
    }

    fn rules(&self, role: &RoleRef, namespace: &str) -> Option<&[Arc<[Rule]>]> {
        match role {
            RoleRef::ClusterRole(name) => self.cluster_roles.rules(name),
            RoleRef::Role(name) => self.roles.get(namespace)?.get(name).map(Vec::as_slice),
        }
    }

    /// A binding of this namespace that allows it.
    fn granting(&self, namespace: &str, attributes: &Attributes<'_>) -> Option<&Binding> {
        let Attributes { user, verb, target } = attributes;
        self.grants(user).find_map(|grants| {
            grants.get(namespace)?.iter().find_map(|(role, bindings)| {
                let rules = self.rules(role, namespace)?;
                let allowed = rules.iter().flat_map(|piece| piece.iter()).any(|rule| rule.allows(verb, target));
                if allowed { bindings.values().next().map(|binding| &**binding) } else { None }
            })
        })
    }

    fn grants(&self, user: &Identity) -> impl Iterator<Item = &Grants> {
        let groups = user.groups.iter().filter_map(|group| self.groups.get(group.as_str()));
        self.users.get(user.user.as_str()).into_iter().chain(groups)
    }

    /// The bindings of somebody that count in a namespace, each once: first those of the cluster, by name.
    fn bindings_of(&self, user: &Identity, namespace: &str) -> Vec<&Binding> {
        let mut bindings = BTreeMap::new();
        for grants in self.grants(user) {
            for place in BTreeSet::from(["", namespace]) {
                for binding in grants.get(place).into_iter().flatten().flat_map(|(_, bindings)| bindings.values()) {
                    bindings.insert((place.to_owned(), &*binding.name), &**binding);
                }
            }
        }
        bindings.into_values().collect()
    }

    fn bind(&mut self, namespace: &str, name: &str, binding: Option<Binding>) {
        if let Some(old) = take(&mut self.bindings, namespace, name) {
            for subject in &old.subjects {
                let (index, who) = self.index(subject);
                let Some(grants) = index.get_mut(who) else { continue };
                withdraw(grants, &old);
                if grants.is_empty() {
                    index.remove(who);
                }
            }
        }
        let Some(binding) = binding.map(Arc::new) else { return };
        for subject in &binding.subjects {
            let (index, who) = self.index(subject);
            let places = index.entry(who.into()).or_default().entry(namespace.into()).or_default();
            places.entry(binding.role.clone()).or_default().insert(name.into(), Arc::clone(&binding));
        }
        self.bindings.entry(namespace.into()).or_default().insert(name.into(), binding);
    }

    /// Where the grants of a subject stand, and under which name.
    fn index<'s>(&mut self, subject: &'s Subject) -> (&mut HashMap<Box<str>, Grants>, &'s str) {
        match subject {
            Subject::User(name) | Subject::ServiceAccount { user: name, .. } => (&mut self.users, name),
            Subject::Group(name) => (&mut self.groups, name),
        }
    }
}

/// Takes a binding out of somebody's grants, and with it the places that are empty then.
fn withdraw(grants: &mut Grants, binding: &Binding) {
    let Some(roles) = grants.get_mut(&binding.namespace) else { return };
    if let Some(bindings) = roles.get_mut(&binding.role) {
        bindings.remove(&binding.name);
        if bindings.is_empty() {
            roles.remove(&binding.role);
        }
    }
    if roles.is_empty() {
        grants.remove(&binding.namespace);
    }
}

/// Takes the entry of a namespace and name, and the namespace with its last one.
fn take<T>(map: &mut Named<T>, namespace: &str, name: &str) -> Option<T> {
    let entries = map.get_mut(namespace)?;
    let taken = entries.remove(name);
    if entries.is_empty() {
        map.remove(namespace);
    }
    taken
}
