//! References from one object to another, by name.

use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::field::{Errors, Path};
use crate::names;

/// An object of a kind that is known from where the reference stands.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ObjectReference {
    /// The name of the object.
    pub name: String,
    /// Its namespace; that of the referring object if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its uid, where no later object of the same name is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// An object of any kind.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ResourceReference {
    /// The group and version of the object, such as `setpoint.dev/v1alpha1`; those of the PlanSpec documents if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// The kind of the object.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// The name of the object.
    pub name: String,
    /// Its namespace; that of the referring object if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Its uid, where no later object of the same name is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

impl ObjectReference {
    pub fn named(name: impl Into<String>) -> ObjectReference {
        ObjectReference { name: name.into(), ..ObjectReference::default() }
    }

    pub fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        validate_name(&self.name, &path.field("name"), errors);
        validate_namespace(self.namespace.as_deref(), &path.field("namespace"), errors);
    }
}

/// `name`, or `namespace/name` where the namespace is named.
impl fmt::Display for ObjectReference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.namespace {
            Some(namespace) => write!(f, "{namespace}/{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

impl ResourceReference {
    pub fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        validate_kind(self.kind.as_deref(), &path.field("kind"), errors);
        validate_any_name(&self.name, &path.field("name"), errors);
        validate_namespace(self.namespace.as_deref(), &path.field("namespace"), errors);
    }
}

/// A name of one of the PlanSpec kinds: what cannot be the name of an object refers to nothing.
fn validate_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    for message in names::dns1123_subdomain(name) {
        errors.invalid(path, name, &message);
    }
}

/// A name of any kind, which may be any segment of a path.
pub(super) fn validate_any_name(name: &str, path: &Path<'_>, errors: &mut Errors) {
    if name.is_empty() {
        return errors.required(path, "");
    }
    for message in names::path_segment(name) {
        errors.invalid(path, name, &message);
    }
}

pub(super) fn validate_namespace(namespace: Option<&str>, path: &Path<'_>, errors: &mut Errors) {
    let Some(namespace) = namespace else { return };
    for message in names::dns1123_label(namespace) {
        errors.invalid(path, namespace, &message);
    }
}

pub(super) fn validate_kind(kind: Option<&str>, path: &Path<'_>, errors: &mut Errors) {
    let Some(kind) = kind else { return };
    if !kind.starts_with(|c: char| c.is_ascii_uppercase()) || !kind.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        errors.invalid(path, kind, "must be letters and digits, beginning with a capital, such as \"Plan\"");
    }
}
