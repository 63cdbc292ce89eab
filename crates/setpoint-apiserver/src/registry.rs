//! The resources this server serves, and how to find one by its path.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use serde_json::Value;

use crate::kind::{Behaviour, Part};
use crate::object::Stored;
use crate::schema::Schema;

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
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub namespaced: bool,
    pub subresources: Vec<Subresource>,
    pub rules: Rules,
    pub behaviour: Arc<dyn Behaviour>,
    pub schema: Schema,
    /// The group under which the objects are kept, where it is not this one (events are served in two groups).
    pub stored_in: Option<Text>,
    pub(crate) head: Bytes,
    /// The object of which nothing was said.
    pub(crate) empty: Value,
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
        }
    }

    /// The verbs it takes, as discovery lists them.
    pub fn verbs(self) -> &'static [&'static str] {
        match self {
            Subresource::Status | Subresource::Scale | Subresource::EphemeralContainers => &["get", "patch", "update"],
            Subresource::Binding | Subresource::Eviction => &["create"],
            Subresource::Finalize => &["update"],
        }
    }

    /// The group, version and kind of what it takes and gives.
    pub fn kind(self, resource: &Resource) -> (&str, &str, &str) {
        match self {
            Subresource::Scale => ("autoscaling", "v1", "Scale"),
            Subresource::Eviction => ("policy", "v1", "Eviction"),
            Subresource::Binding => ("", "v1", "Binding"),
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
            short_names: Vec::new(),
            categories: Vec::new(),
            namespaced: true,
            subresources: Vec::new(),
            rules: Rules::default(),
            stored_in: None,
            head: Bytes::from(head),
            empty: schema.empty_object(),
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
        if self.rules.keeps_collection {
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

    /// A stored object in the form it is stored in, without the record of who owns its fields.
    pub fn value(&self, stored: &Stored) -> Value {
        stored.value(&self.head)
    }

    /// A stored object, whole, in the form it is stored in.
    pub fn whole_value(&self, stored: &Stored) -> Value {
        stored.whole_value(&self.head)
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

/// Every resource served, in the order discovery lists them.
#[derive(Debug, Default)]
pub struct Registry {
    /// Group, then version, then plural. The core group is "".
    groups: BTreeMap<Text, BTreeMap<Text, BTreeMap<Text, Arc<Resource>>>>,
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
    pub fn add(&mut self, resource: Resource) {
        self.groups
            .entry(resource.group.clone())
            .or_default()
            .entry(resource.version.clone())
            .or_default()
            .insert(resource.plural.clone(), Arc::new(resource));
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

    /// The groups and their versions, the core group first.
    pub fn groups(&self) -> impl Iterator<Item = (&str, impl Iterator<Item = &str>)> {
        self.groups.iter().map(|(group, versions)| (group.as_ref(), versions.keys().map(AsRef::as_ref)))
    }

    /// The resources of one version of a group; `None` if it is not served.
    pub fn version(&self, group: &str, version: &str) -> Option<impl Iterator<Item = &Arc<Resource>>> {
        Some(self.groups.get(group)?.get(version)?.values())
    }

    pub fn resources(&self) -> impl Iterator<Item = &Arc<Resource>> {
        self.groups.values().flat_map(|versions| versions.values().flat_map(|resources| resources.values()))
    }
}

/// The text at a path of fields; "" where there is none.
pub fn text_at<'v>(value: &'v Value, path: &[&str]) -> &'v str {
    path.iter().try_fold(value, |value, field| value.get(field)).and_then(Value::as_str).unwrap_or_default()
}
