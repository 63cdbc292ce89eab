//! Apply sets: files that are applied together, so that what disappears from them is known.
//!
//! The marks are those of kubectl's ApplySets. The parent is a ConfigMap with the set's id as a label, and with the kinds
//! and namespaces of its members as annotations; each member has the id as a label. The parent names more than there is
//! while objects are written, and never less, so that a crash forgets no member.

use std::collections::BTreeSet;

use anyhow::{Context as _, Result, bail, ensure};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use http::Method;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use super::draft::{MANAGER, Removal};
use crate::client::{Answer, Reply};
use crate::get::JSON;
use crate::resource::Resource;
use crate::session::Session;
use crate::terminal::inert;

/// The label of a member.
pub(crate) const PART_OF: &str = "applyset.kubernetes.io/part-of";
const ID: &str = "applyset.kubernetes.io/id";
const TOOLING: &str = "applyset.kubernetes.io/tooling";
const KINDS: &str = "applyset.kubernetes.io/contains-group-kinds";
const NAMESPACES: &str = "applyset.kubernetes.io/additional-namespaces";
const TOOL: &str = "setpoint/";

/// A set by its parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ApplySet {
    pub(crate) name: String,
    pub(crate) namespace: String,
}

/// Where members are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Extent {
    /// `Machine.setpoint.dev`, `ConfigMap`.
    pub(crate) kinds: BTreeSet<String>,
    pub(crate) namespaces: BTreeSet<String>,
}

impl ApplySet {
    /// What members carry: it follows from the parent, so that nobody can claim another's members by a label alone.
    pub(crate) fn id(&self) -> String {
        let digest = Sha256::digest(format!("{}.{}.ConfigMap.", self.name, self.namespace));
        format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(digest))
    }

    fn path(&self) -> String {
        config_maps().path(Some(&self.namespace), Some(&self.name))
    }

    /// Where members may be; nowhere if there is no such set yet.
    pub(crate) async fn extent(&self, session: &Session) -> Result<Option<Extent>> {
        let Answer::Found(parent) = session.server.read(&self.path(), JSON).await? else { return Ok(None) };
        let (name, metadata) = (inert(&self.name), &parent["metadata"]);
        let text = |marks: &str, name: &str| metadata[marks][name].as_str().unwrap_or_default().to_owned();
        ensure!(
            text("labels", ID) == self.id() && text("annotations", TOOLING).starts_with(TOOL),
            "the ConfigMap {name} in namespace {} is not an apply set of setpoint; choose another name with --set",
            inert(&self.namespace)
        );
        let words = |name: &str| {
            let text = text("annotations", name);
            text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect::<BTreeSet<_>>()
        };
        let mut namespaces = words(NAMESPACES);
        namespaces.insert(self.namespace.clone());
        Ok(Some(Extent { kinds: words(KINDS), namespaces }))
    }

    /// A set that was never applied here is a mistake.
    pub(crate) async fn must_exist(&self, session: &Session) -> Result<()> {
        let (name, namespace) = (inert(&self.name), inert(&self.namespace));
        ensure!(
            self.extent(session).await?.is_some(),
            "there is no apply set {name:?} in namespace {namespace}; `kubectl get configmaps -A -l {ID}` lists those that \
             are"
        );
        Ok(())
    }

    /// Writes where members may be.
    pub(crate) async fn write(&self, session: &Session, extent: &Extent) -> Result<()> {
        let others: Vec<&str> =
            extent.namespaces.iter().filter(|other| **other != self.namespace).map(String::as_str).collect();
        let kinds: Vec<&str> = extent.kinds.iter().map(String::as_str).collect();
        let parent = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {
                "name": self.name, "namespace": self.namespace,
                "labels": {ID: self.id()},
                "annotations": {
                    TOOLING: format!("{TOOL}{}", env!("CARGO_PKG_VERSION")),
                    KINDS: kinds.join(","),
                    NAMESPACES: others.join(","),
                },
            },
        });
        let path = format!("{}?fieldManager={MANAGER}&force=true", self.path());
        let reply = session.server.send(Method::PATCH, &path, Some(("application/apply-patch+yaml", &parent))).await?;
        reply.object().with_context(|| format!("cannot write the apply set {}", inert(&self.name)))?;
        Ok(())
    }

    /// Removes the parent, once it has no members.
    pub(crate) async fn forget(&self, session: &Session) -> Result<()> {
        match session.server.send(Method::DELETE, &self.path(), None).await? {
            Reply::Refused(status) if status.code == 404 => Ok(()),
            reply => reply.object().map(|_| ()),
        }
    }

    /// Everything that carries the set's mark, what stands on others first.
    pub(crate) async fn members(&self, session: &Session, served: &[Resource]) -> Result<Vec<Removal>> {
        let Some(extent) = self.extent(session).await? else { return Ok(Vec::new()) };
        let mut members = Vec::new();
        for kind in &extent.kinds {
            let (word, group) = kind.split_once('.').unwrap_or((kind, ""));
            let of_kind = |resource: &&Resource| resource.group == group && resource.kind == word;
            let Some(resource) = served.iter().find(of_kind) else {
                bail!(
                    "the apply set {} has members of kind {}, which the server does not know",
                    inert(&self.name),
                    inert(kind)
                );
            };
            let places: Vec<Option<&str>> = match resource.namespaced {
                true => extent.namespaces.iter().map(|namespace| Some(namespace.as_str())).collect(),
                false => vec![None],
            };
            for namespace in places {
                members.extend(self.listed(session, resource, namespace).await?);
            }
        }
        members.sort_by_key(Removal::is_ground);
        Ok(members)
    }

    async fn listed(&self, session: &Session, resource: &Resource, namespace: Option<&str>) -> Result<Vec<Removal>> {
        let path = format!("{}?labelSelector={PART_OF}%3D{}", resource.path(namespace, None), self.id());
        let Answer::Found(mut list) = session.server.read(&path, JSON).await? else { return Ok(Vec::new()) };
        let Value::Array(items) = list["items"].take() else { return Ok(Vec::new()) };
        Ok(items.into_iter().map(|item| Removal::of(resource.clone(), item)).collect())
    }
}

impl Extent {
    pub(crate) fn add(&mut self, resource: &Resource, namespace: Option<&str>) {
        let Resource { group, kind, .. } = resource;
        self.kinds.insert(if group.is_empty() { kind.clone() } else { format!("{kind}.{group}") });
        self.namespaces.extend(namespace.map(str::to_owned));
    }
}

fn config_maps() -> Resource {
    Resource {
        group: String::new(),
        version: "v1".to_owned(),
        kind: "ConfigMap".to_owned(),
        plural: "configmaps".to_owned(),
        singular: "configmap".to_owned(),
        short_names: Vec::new(),
        namespaced: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_id_that_kubectl_gives_it() {
        let set = ApplySet { name: "shop".to_owned(), namespace: "default".to_owned() };
        let hash = Sha256::digest(b"shop.default.ConfigMap.");
        assert_eq!(set.id(), format!("applyset-{}-v1", URL_SAFE_NO_PAD.encode(hash)));
        assert_eq!(set.id().len(), "applyset-".len() + 43 + "-v1".len(), "a label's value has at most 63 characters");
        assert_ne!(set.id(), ApplySet { namespace: "other".to_owned(), ..set.clone() }.id());
    }
}
