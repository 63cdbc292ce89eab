//! Who has which role: bindings, taken apart.

use std::fmt;

use serde_json::Value;

use crate::authentication::Identity;

/// The role that a binding gives.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleRef {
    ClusterRole(Box<str>),
    /// In the binding's own namespace.
    Role(Box<str>),
}

/// Somebody to whom a role is given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subject {
    User(Box<str>),
    Group(Box<str>),
    ServiceAccount { namespace: Box<str>, name: Box<str>, user: Box<str> },
}

/// A RoleBinding or, with an empty namespace, a ClusterRoleBinding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Binding {
    pub namespace: Box<str>,
    pub name: Box<str>,
    pub role: RoleRef,
    pub subjects: Vec<Subject>,
}

impl Binding {
    /// Reads a binding; none if it gives a role that cannot be. Subjects that cannot be are left out.
    pub fn read(object: &Value, namespace: &str) -> Option<Binding> {
        let text = |value: &Value| value.as_str().map(Box::<str>::from);
        let role = match object["roleRef"]["kind"].as_str()? {
            "ClusterRole" => RoleRef::ClusterRole(text(&object["roleRef"]["name"])?),
            "Role" if !namespace.is_empty() => RoleRef::Role(text(&object["roleRef"]["name"])?),
            _ => return None,
        };
        let subjects = object["subjects"].as_array().into_iter().flatten();
        Some(Binding {
            namespace: namespace.into(),
            name: text(&object["metadata"]["name"])?,
            role,
            subjects: subjects.filter_map(|subject| Subject::read(subject, namespace)).collect(),
        })
    }

    /// The first of its subjects that somebody is.
    pub fn subject(&self, user: &Identity) -> Option<&Subject> {
        self.subjects.iter().find(|subject| subject.is(user))
    }
}

impl Subject {
    /// A service account of which no namespace is said is one of the binding's own; a ClusterRoleBinding has none.
    fn read(subject: &Value, binding_namespace: &str) -> Option<Subject> {
        let name = subject["name"].as_str()?;
        match subject["kind"].as_str()? {
            "User" => Some(Subject::User(name.into())),
            "Group" => Some(Subject::Group(name.into())),
            "ServiceAccount" => {
                let given = subject["namespace"].as_str().filter(|namespace| !namespace.is_empty());
                let namespace = given.unwrap_or(binding_namespace);
                (!namespace.is_empty()).then(|| Subject::ServiceAccount {
                    namespace: namespace.into(),
                    name: name.into(),
                    user: format!("system:serviceaccount:{namespace}:{name}").into(),
                })
            }
            _ => None,
        }
    }

    pub fn is(&self, user: &Identity) -> bool {
        match self {
            Subject::User(name) | Subject::ServiceAccount { user: name, .. } => **name == *user.user,
            Subject::Group(name) => user.groups.iter().any(|group| **name == **group),
        }
    }
}

impl fmt::Display for Binding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Binding { namespace, name, role, .. } = self;
        match namespace.is_empty() {
            true => write!(f, "ClusterRoleBinding {name:?} of {role}"),
            false => write!(f, "RoleBinding {:?} of {role}", format!("{name}/{namespace}")),
        }
    }
}

impl fmt::Display for RoleRef {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RoleRef::ClusterRole(name) => write!(f, "ClusterRole {name:?}"),
            RoleRef::Role(name) => write!(f, "Role {name:?}"),
        }
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::User(name) => write!(f, "User {name:?}"),
            Subject::Group(name) => write!(f, "Group {name:?}"),
            Subject::ServiceAccount { namespace, name, .. } => {
                write!(f, "ServiceAccount {:?}", format!("{name}/{namespace}"))
            }
        }
    }
}
