//! The resources this server serves, and how to find one by its path.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::custom::CustomKind;
use crate::kind::{Behaviour, Part};
use crate::object::Stored;
use crate::query::FieldValidation;
use crate::reviews::Review;
use crate::schema::Schema;
use crate::shared_text::{Form, SharedTexts};

pub type Text = Cow<'static, str>;

/// One resource in one version: where it is served, and how its objects behave.
#[derive(Debug)]
pub struct Resource {
    /// "" for the core group.
    pub group: Text,
    pub version: Text,
    pub kind: Text,
    pub plural: Text,
    pub singular: Text,
    /// The kind of its lists.
    pub list_kind: Text,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub namespaced: bool,
    pub subresources: Vec<Subresource>,
    pub rules: Rules,
    pub behaviour: Arc<dyn Behaviour>,
    pub schema: Schema,
    /// The group under which the objects are kept, where it is not this one (events are served in two groups).
    pub stored_in: Option<Text>,
    /// What its definition says, for a custom resource.
    pub custom: Option<Arc<CustomKind>>,
    /// What its objects ask, for a kind whose objects are answered and never stored.
    pub review: Option<Review>,
    pub(crate) head: Bytes,
    /// The object of which nothing was said.
    pub(crate) empty: Value,
    pub(crate) texts: SharedTexts,
}

/// Where Kubernetes treats a kind unlike most others.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rules {
    /// PUT to a name that does not exist creates it.
    pub creates_on_update: bool,
    /// An update must carry the resourceVersion it was made from.
    pub needs_revision: bool,
    /// A deletion answers with the object and not with a Status.
    pub returns_deleted: bool,
    /// Dependents outlive a deletion that does not say otherwise.
    pub orphans_by_default: bool,
    /// The collection cannot be deleted as a whole.
    pub keeps_collection: bool,
}

/// A part of an object that is served under a path of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subresource {
    Status,
    Scale,
    EphemeralContainers,
    Binding,
    Eviction,
    Finalize,
    Token,
    /// What a Pod's container logged.
    Log,
    /// A command in a Pod's container.
    Exec,
    /// What runs in a Pod's container anyway.
    Attach,
}

impl Subresource {
    pub fn name(self) -> &'static str {
        match self {
            Subresource::Status => "status",
            Subresource::Scale => "scale",
            Subresource::EphemeralContainers => "ephemeralcontainers",
            Subresource::Binding => "binding",
            Subresource::Eviction => "eviction",
            Subresource::Finalize => "finalize",
            Subresource::Token => "token",
            Subresource::Log => "log",
            Subresource::Exec => "exec",
            Subresource::Attach => "attach",
        }
    }

    /// The verbs it takes, as discovery lists them.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Subresource::Status | Subresource::Scale | Subresource::EphemeralContainers => &["get", "patch", "update"],
            Subresource::Binding | Subresource::Eviction | Subresource::Token => &["create"],
            Subresource::Finalize => &["update"],
            Subresource::Log => &["get"],
            Subresource::Exec | Subresource::Attach => &["create", "get"],
        }
    }

    /// The group, version and kind of what it takes and gives.
    pub fn kind(self, resource: &Resource) -> (&str, &str, &str) {
        match self {
            Subresource::Scale => ("autoscaling", "v1", "Scale"),
            Subresource::Eviction => ("policy", "v1", "Eviction"),
            Subresource::Binding => ("", "v1", "Binding"),
            Subresource::Token => ("authentication.k8s.io", "v1", "TokenRequest"),
            Subresource::Exec => ("", "v1", "PodExecOptions"),
            Subresource::Attach => ("", "v1", "PodAttachOptions"),
            _ => (&resource.group, &resource.version, &resource.kind),
        }
    }

    /// The part of the object that a write through it may change.
    pub fn part(self) -> Part {
        match self {
            Subresource::Status => Part::Status,
            other => Part::Other(other.name()),
        }
    }
}

impl Resource {
    pub fn new(
        group: impl Into<Text>,
        version: impl Into<Text>,
        kind: impl Into<Text>,
        behaviour: Arc<dyn Behaviour>,
        schema: Schema,
    ) -> Resource {
        let (group, version, kind) = (group.into(), version.into(), kind.into());
        let singular = kind.to_lowercase();
        let head = format!(r#"{{"kind":"{kind}","apiVersion":"{}","#, join_group(&group, &version));
        Resource {
            plural: Cow::Owned(format!("{singular}s")),
            singular: Cow::Owned(singular),
            list_kind: Cow::Owned(format!("{kind}List")),
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            subresources: Vec::new(),
            rules: Rules::default(),
            stored_in: None,
            custom: None,
            review: None,
            head: Bytes::from(head),
            empty: schema.empty_object(),
            texts: SharedTexts::default(),
            group,
            version,
            kind,
            behaviour,
            schema,
        }
    }

    pub fn api_version(&self) -> String {
        join_group(&self.group, &self.version)
    }

    /// What stands before `"metadata":` in this resource's objects.
    pub fn head(&self) -> &Bytes {
        &self.head
    }

    pub fn verbs(&self) -> &'static [&'static str] {
        if self.review.is_some() {
            &["create"]
        } else if self.custom.is_some() {
            &["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"]
        } else if self.rules.keeps_collection {
            &["create", "delete", "get", "list", "patch", "update", "watch"]
        } else {
            &["create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"]
        }
    }

    pub fn subresource(&self, name: &str) -> Option<Subresource> {
        self.subresources.iter().copied().find(|s| s.name() == name)
    }

    pub fn has_status(&self) -> bool {
        self.subresources.contains(&Subresource::Status)
    }

    /// Whether these are the namespaces themselves, which live and die unlike any other object.
    pub fn is_namespaces(&self) -> bool {
        self.group.is_empty() && self.plural == "namespaces"
    }

    /// Whether what these hold must never be repeated, also where it is at fault.
    pub fn is_secrets(&self) -> bool {
        self.group.is_empty() && self.plural == "secrets" || self.review == Some(Review::Token)
    }

    /// Whether these are the definitions of custom resources, which decide what is served.
    pub fn is_definitions(&self) -> bool {
        self.group == DEFINITIONS.0 && self.plural == DEFINITIONS.1
    }

    /// What becomes of unknown fields when their writer does not say. A misspelt limit of ours must not pass in silence.
    pub fn field_validation(&self) -> FieldValidation {
        if self.group == setpoint_api::GROUP { FieldValidation::Strict } else { FieldValidation::Warn }
    }

    /// The version that objects are kept in.
    pub fn storage_version(&self) -> &str {
        self.custom.as_ref().map_or(&self.version, |custom| &custom.storage_version)
    }

    /// `pods` or `deployments.apps`.
    pub fn group_resource(&self) -> String {
        if self.group.is_empty() { self.plural.to_string() } else { format!("{}.{}", self.plural, self.group) }
    }

    /// `deployments.apps "web"`, as messages have it.
    pub fn qualified(&self, name: &str) -> String {
        format!("{} \"{name}\"", self.group_resource())
    }

    /// `Deployment.apps`, as some other messages have it.
    pub fn qualified_kind(&self) -> String {
        if self.group.is_empty() { self.kind.to_string() } else { format!("{}.{}", self.kind, self.group) }
    }

    /// What the writers of objects are told that nothing acts on yet.
    pub fn idleness(&self) -> Option<String> {
        let undone = self.behaviour.left_undone()?;
        Some(format!("setpoint stores this {}, but nothing acts on it yet: {undone}", self.kind))
    }

    /// A stored object in the form it is stored in, without the record of who owns its fields.
    pub fn value(&self, stored: &Stored) -> Value {
        self.brought_up_to_date(stored.value(&self.head), stored)
    }

    /// A stored object, whole, in the form it is stored in.
    pub fn whole_value(&self, stored: &Stored) -> Value {
        self.brought_up_to_date(stored.whole_value(&self.head), stored)
    }

    /// A custom object may have been stored in another version, or before its schema was changed.
    fn brought_up_to_date(&self, mut object: Value, stored: &Stored) -> Value {
        if let Some(custom) = &self.custom
            && custom.converts(stored.revision())
        {
            custom.convert(&mut object, stored.revision());
        }
        object
    }

    /// The text of an object that is not shown as it is stored. A large one is shared by all who show it.
    pub fn converted_text(&self, stored: &Stored, has_head: bool) -> Bytes {
        let is_outdated = self.custom.as_ref().is_some_and(|custom| custom.is_outdated(stored.revision()));
        self.texts.get(stored, Form { has_head, is_outdated }, || {
            let mut served = self.behaviour.to_served(self.whole_value(stored));
            if let Some(fields) = served.as_object_mut().filter(|_| !has_head) {
                fields.remove("kind");
                fields.remove("apiVersion");
            }
            served.to_string().into_bytes()
        })
    }

    /// Whether what is shown of an object is the text that is stored.
    pub fn is_shown_as_stored(&self, stored: &Stored) -> bool {
        !self.converts() && self.custom.as_ref().is_none_or(|custom| !custom.converts(stored.revision()))
    }

    /// Whether objects that are stored now are shown as they are.
    pub fn is_stored_version(&self) -> bool {
        !self.converts() && self.version == self.storage_version()
    }

    /// Whether objects are kept in another shape than they are served in.
    pub fn converts(&self) -> bool {
        self.stored_in.is_some()
    }

    /// The key of one object.
    pub fn key(&self, namespace: Option<&str>, name: &str) -> Arc<str> {
        let mut key = self.directory(namespace);
        key.push_str(name);
        key.into()
    }

    /// The directory of a namespace's objects, or of all of them. Ends in a slash.
    pub fn directory(&self, namespace: Option<&str>) -> String {
        let group = self.stored_in.as_ref().unwrap_or(&self.group);
        let group = if group.is_empty() { "core" } else { group };
        let mut directory = format!("/{group}/{}/", self.plural);
        if let Some(namespace) = namespace {
            directory.push_str(namespace);
            directory.push('/');
        }
        directory
    }
}

fn join_group(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

/// The group and the plural of the kind that defines kinds.
pub const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io", "customresourcedefinitions");

/// Every resource served, in the order discovery lists them. A request is answered by the registry as it was when the
/// request came; cloning one copies references.
#[derive(Debug, Clone, Default)]
pub struct Registry {
    /// Group, then version, then plural. The core group is "".
    groups: BTreeMap<Text, BTreeMap<Text, BTreeMap<Text, Arc<Resource>>>>,
    /// By group and plural, the version in which objects are kept, served or not. Who writes for nobody in particular
    /// writes in this one: another might have no room for all that an object holds.
    kept: BTreeMap<(Text, Text), Arc<Resource>>,
}

/// What a path under `/api` or `/apis` leads to.
#[derive(Debug)]
pub enum Lookup {
    Found(Arc<Resource>),
    /// The group is served, but not this version or resource.
    NoResource,
    NoGroup,
}

impl Registry {
    /// Serves a resource, unless it is a custom one in a version that is only kept.
    pub fn add(&mut self, resource: Resource) {
        let resource = Arc::new(resource);
        let (group, version, plural) = (resource.group.clone(), resource.version.clone(), resource.plural.clone());
        if resource.stored_in.is_none() && resource.review.is_none() && resource.version == resource.storage_version() {
            self.kept.insert((group.clone(), plural.clone()), resource.clone());
        }
        if resource.custom.as_ref().is_none_or(|custom| custom.served) {
            self.groups.entry(group).or_default().entry(version).or_default().insert(plural, resource);
        }
    }

    pub fn find(&self, group: &str, version: &str, plural: &str) -> Lookup {
        match self.groups.get(group) {
            None => Lookup::NoGroup,
            Some(versions) => match versions.get(version).and_then(|resources| resources.get(plural)) {
                Some(resource) => Lookup::Found(resource.clone()),
                None => Lookup::NoResource,
            },
        }
    }

    /// A resource that this server itself relies on.
    pub fn built_in(&self, group: &str, version: &str, plural: &str) -> Arc<Resource> {
        match self.find(group, version, plural) {
            Lookup::Found(resource) => resource,
            _ => panic!("{plural}.{group}/{version} is built in"),
        }
    }

    /// Takes a resource out, in all its versions.
    pub fn remove(&mut self, group: &str, plural: &str) {
        self.kept.remove(&(Text::from(group.to_owned()), Text::from(plural.to_owned())));
        let Some(versions) = self.groups.get_mut(group) else { return };
        for resources in versions.values_mut() {
            resources.remove(plural);
        }
        versions.retain(|_, resources| !resources.is_empty());
        if versions.is_empty() {
            self.groups.remove(group);
        }
    }

    /// Whether a group has only custom resources, of which another server would not know that they could exist.
    pub fn is_custom_group(&self, group: &str) -> bool {
        let versions = self.groups.get(group).into_iter().flat_map(BTreeMap::values);
        versions.flat_map(BTreeMap::values).all(|resource| resource.custom.is_some())
    }

    /// The groups and their versions, the core group first, and of each the best version first.
    pub fn groups(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        self.groups.iter().map(|(group, versions)| {
            let mut versions: Vec<&str> = versions.keys().map(AsRef::as_ref).collect();
            versions.sort_by_key(|version| Reverse(maturity(version)));
            (group.as_ref(), versions.into_iter())
        })
    }

    /// One resource for each kind of object that is kept, in the version in which it is.
    pub fn kept(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.kept.values()
    }

    /// The resource whose objects are kept under this group and plural.
    pub fn kept_as(&self, group: &str, plural: &str) -> Option<&Arc<Resource>> {
        self.kept.get(&(Text::from(group.to_owned()), Text::from(plural.to_owned())))
    }

    /// The resources of one version of a group; `None` if it is not served.
    pub fn version(&self, group: &str, version: &str) -> Option<impl Iterator<Item = &Arc<Resource>>> {
        Some(self.groups.get(group)?.get(version)?.values())
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flat_map(|versions| versions.values().flat_map(|resources| resources.values()))
    }
}

/// How a version compares with others: `v2` is better than `v1`, that than `v1beta1`, and any of them than `foo`.
fn maturity(version: &str) -> (u8, u64, u64, Reverse<&str>) {
    let parsed = || {
        let rest = version.strip_prefix('v')?;
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let major: u64 = rest[..digits].parse().ok()?;
        let (level, minor) = match &rest[digits..] {
            "" => (3, "0"),
            rest => match (rest.strip_prefix("beta"), rest.strip_prefix("alpha")) {
                (Some(minor), _) => (2, minor),
                (_, Some(minor)) => (1, minor),
                _ => return None,
            },
        };
        Some((level, major, minor.parse().ok()?))
    };
    let (level, major, minor) = parsed().unwrap_or((0, 0, 0));
    (level, major, minor, Reverse(version))
}

/// The text at a path of fields; "" where there is none.
pub fn text_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    path.iter().try_fold(value, |value, field| value.get(field)).and_then(Value::as_str).unwrap_or_default()
}
