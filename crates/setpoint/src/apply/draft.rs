//! What the files ask for, as the server would store it: a dry run of every object, as the user.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kube::core::Status;
use serde_json::{Value, json};

use super::apply_set::{ApplySet, PART_OF};
use super::leaving::{is_leaving, must_stay};
use super::selection::Selection;
use crate::client::{Answer, Reply, must_fit, words};
use crate::get::JSON;
use crate::manifest::Manifest;
use crate::proposal::{ENVIRONMENT, ObjectAction, ObjectChange, Seals};
use crate::resource::Resource;
use crate::session::Session;
use crate::terminal::inert;

/// The name under which fields are applied.
pub(crate) const MANAGER: &str = "setpoint";
const APPLY: &str = "application/apply-patch+yaml";
/// The highest rank of what other objects stand on.
pub(crate) const GROUND: u8 = 3;
/// How many objects are asked about at once.
const AT_ONCE: usize = 16;

/// Everything that is to be written and removed.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// What is written, in order.
    pub(crate) writes: Vec<Write>,
    pub(crate) removals: Vec<Removal>,
}

/// An object that is to be as a file says.
#[derive(Debug)]
pub(crate) struct Write {
    pub(crate) resource: Resource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    /// The file that says it.
    source: String,
    /// What is sent.
    pub(crate) object: Value,
    /// What is stored.
    pub(crate) live: Option<Value>,
    /// When it is written; what others stand on goes first.
    pub(crate) rank: u8,
    /// What the server would store; unknown where something else has to be there first.
    pub(crate) result: Option<Value>,
    pub(crate) change: ObjectChange,
}

/// An object that is to go.
#[derive(Debug)]
pub(crate) struct Removal {
    pub(crate) resource: Resource,
    pub(crate) namespace: Option<String>,
    pub(crate) name: String,
    pub(crate) live: Value,
    pub(crate) change: ObjectChange,
}

/// How the files are taken.
#[derive(Debug)]
pub(crate) struct Request<'a> {
    pub(crate) manifests: Vec<Manifest>,
    pub(crate) set: Option<&'a ApplySet>,
    pub(crate) selection: &'a Selection,
    /// Whether fields that others own are taken over.
    pub(crate) force: bool,
}

/// What the files ask for.
pub(crate) async fn draft(session: &Session, request: Request<'_>) -> Result<Draft> {
    let served = session.server.resources().await?;
    let mut located = locate(session, &served, &request)?;
    located.retain(|write| request.selection.takes(&write.change));
    let awaited = Awaited::of(&located);
    let tried = stream::iter(located).map(|write| tried(session, write, request.force, &awaited)).buffered(AT_ONCE);
    let writes: Vec<Write> = tried.try_collect().await?;
    must_stay(session, &writes).await?;
    let removals = match request.set {
        Some(set) => gone_from_files(session, &served, set, &request).await?,
        None => Vec::new(),
    };
    request
        .selection
        .must_take(writes.iter().map(|write| &write.change).chain(removals.iter().map(|gone| &gone.change)))?;
    Ok(Draft { writes, removals })
}

/// Objects of files that are to go, as far as they are there.
pub(crate) async fn removals(session: &Session, manifests: &[Manifest], selection: &Selection) -> Result<Vec<Removal>> {
    let served = session.server.resources().await?;
    let (mut seen, mut located) = (Seen::default(), Vec::new());
    for manifest in manifests {
        let resource = resource_of(&served, manifest, &[])?;
        let namespace = namespace_of(session, &resource, manifest);
        seen.add(manifest, &resource, namespace.as_ref())?;
        located.push((manifest, resource, namespace));
    }
    let mut removals = Vec::new();
    for (manifest, resource, namespace) in located.into_iter().rev() {
        let path = resource.path(namespace.as_deref(), Some(manifest.name()));
        let found = session.server.read(&path, JSON).await.with_context(|| manifest.source.clone())?;
        if let Answer::Found(live) = found {
            removals.push(Removal::of(resource, live));
        }
    }
    removals.retain(|removal| selection.takes(&removal.change));
    Ok(removals)
}

impl Draft {
    /// The environments that it brings, by name.
    pub(crate) fn environments(&self) -> impl Iterator<Item = &str> {
        self.writes.iter().filter(|write| write.change.kind == ENVIRONMENT).map(|write| write.name.as_str())
    }

    /// Whether it may mend an environment that cannot be opened: it changes it, or a Secret.
    pub(crate) fn may_mend(&self, environment: &str) -> bool {
        let mends = |write: &Write| match write.change.kind.as_str() {
            ENVIRONMENT => write.name == environment,
            kind => kind == "secret",
        };
        self.writes.iter().any(|write| write.change.action != ObjectAction::Unchanged && mends(write))
    }

    /// Seals what is changed of objects, in full.
    pub(crate) fn seals(&self, salt: String) -> Seals {
        let tried = self.writes.iter();
        Seals::of(salt, tried.filter_map(|write| Some((&write.change, write.live.as_ref()?, write.result.as_ref()?))))
    }
}

impl Removal {
    pub(super) fn of(resource: Resource, live: Value) -> Removal {
        let text = |name: &str| live["metadata"][name].as_str().map(str::to_owned);
        let (namespace, name) = (text("namespace"), text("name").unwrap_or_default());
        let change = ObjectChange::between(resource.word(), namespace.clone(), name.clone(), Some(&live), None);
        Removal { resource, namespace, name, live, change }
    }

    pub(crate) fn is_machine(&self) -> bool {
        is_machine(&self.resource)
    }

    /// Whether others stand on it, so that it goes only after them.
    pub(crate) fn is_ground(&self) -> bool {
        self.change.is_ground()
    }
}

impl Write {
    pub(crate) fn is_machine(&self) -> bool {
        is_machine(&self.resource)
    }

    /// Writes it, as the user.
    pub(crate) async fn send(&self, session: &Session, force: bool) -> Result<Value> {
        let reply = apply(session, self, &format!("&force={force}")).await?;
        reply.object().with_context(|| format!("cannot write {} {}", self.change.kind, inert(&self.change.title())))
    }

    /// Whether writing it now would come to what was shown. Somebody may have changed it since.
    pub(crate) async fn still_holds(&self, session: &Session, force: bool) -> Result<bool> {
        let path = self.resource.path(self.namespace.as_deref(), Some(&self.name));
        let exists = matches!(session.server.read(&path, JSON).await?, Answer::Found(_));
        let reply = apply(session, self, &format!("&dryRun=All&force={force}")).await?;
        let result = reply.object();
        let would_be =
            result.with_context(|| format!("cannot write {} {}", self.change.kind, inert(&self.change.title())))?;
        Ok(self.is_as_shown(would_be, exists))
    }

    /// Whether what the server answers is what was shown. It `exists` if the server did not make it for this answer.
    fn is_as_shown(&self, answer: Value, exists: bool) -> bool {
        self.result.as_ref().is_none_or(|shown| is_same(shown, &posted(answer, exists)))
    }

    /// Whether what was written is what was shown.
    pub(crate) fn was_as_shown(&self, written: &Value) -> bool {
        self.is_as_shown(written.clone(), self.live.is_some())
    }
}

/// Whether two results say the same of the same object, as far as a change set is about it.
fn is_same(shown: &Value, now: &Value) -> bool {
    let parts = ["/spec", "/metadata/uid", "/metadata/deletionTimestamp"];
    parts.iter().all(|part| shown.pointer(part) == now.pointer(part))
}

fn is_machine(resource: &Resource) -> bool {
    resource.group == setpoint_api::GROUP && resource.kind == "Machine"
}

/// By what the server knows the objects of files, each with the file that says it. No two may be the same.
#[derive(Default)]
struct Seen<'a>(BTreeMap<(String, Option<String>, String), &'a str>);

impl<'a> Seen<'a> {
    fn add(&mut self, manifest: &'a Manifest, resource: &Resource, namespace: Option<&String>) -> Result<()> {
        let (name, source) = (manifest.name(), manifest.source.as_str());
        if let Some(first) = self.0.insert((resource.word(), namespace.cloned(), name.to_owned()), source) {
            bail!("{source}: {} {:?} stands in {first} already", manifest.text("/kind"), inert(name));
        }
        Ok(())
    }
}

/// Where each object belongs.
fn locate(session: &Session, served: &[Resource], request: &Request<'_>) -> Result<Vec<Write>> {
    let mut seen = Seen::default();
    let mut writes = Vec::new();
    for manifest in &request.manifests {
        let resource = resource_of(served, manifest, &request.manifests)?;
        let namespace = namespace_of(session, &resource, manifest);
        seen.add(manifest, &resource, namespace.as_ref())?;
        let (name, source) = (manifest.name().to_owned(), manifest.source.clone());
        let mut object = manifest.object.clone();
        if let Some(namespace) = &namespace {
            object["metadata"]["namespace"] = json!(namespace);
        }
        if let Some(set) = request.set {
            object["metadata"]["labels"][PART_OF] = json!(set.id());
        }
        let change = ObjectChange::between(resource.word(), namespace.clone(), name.clone(), None, Some(&object));
        let rank = manifest.rank();
        writes.push(Write { resource, namespace, name, source, object, live: None, rank, result: None, change });
    }
    Ok(writes)
}

/// The resource of an object, which may be one that the files themselves define.
fn resource_of(served: &[Resource], manifest: &Manifest, beside: &[Manifest]) -> Result<Resource> {
    let ((group, version), kind) = (manifest.group_version(), manifest.text("/kind"));
    if let Some(resource) = Resource::of_kind(served, group, version, kind) {
        return Ok(resource);
    }
    let defines = |other: &&Manifest| {
        other.text("/kind") == "CustomResourceDefinition"
            && other.text("/spec/group") == group
            && other.text("/spec/names/kind") == kind
    };
    let Some(definition) = beside.iter().find(defines) else {
        let api_version = inert(manifest.text("/apiVersion"));
        bail!(
            "{}: the server has no kind {:?} in {api_version}; `kubectl api-resources` lists those it has",
            manifest.source,
            inert(kind)
        );
    };
    Ok(Resource {
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        plural: definition.text("/spec/names/plural").to_owned(),
        singular: kind.to_lowercase(),
        short_names: Vec::new(),
        namespaced: definition.text("/spec/scope") == "Namespaced",
    })
}

fn namespace_of(session: &Session, resource: &Resource, manifest: &Manifest) -> Option<String> {
    let own = manifest.text("/metadata/namespace");
    let namespace = if own.is_empty() { session.server.namespace.as_str() } else { own };
    resource.namespaced.then(|| namespace.to_owned())
}

/// What the files bring themselves, and other objects of them stand on.
struct Awaited {
    namespaces: BTreeSet<String>,
    kinds: BTreeSet<(String, String)>,
}

impl Awaited {
    fn of(writes: &[Write]) -> Awaited {
        let namespaces = writes.iter().filter(|write| write.resource.word() == "namespace");
        let definitions = writes.iter().filter(|write| write.resource.kind == "CustomResourceDefinition");
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let kind = |write: &Write| (text(&write.object["spec"]["group"]), text(&write.object["spec"]["names"]["kind"]));
        Awaited {
            namespaces: namespaces.map(|write| write.name.clone()).collect(),
            kinds: definitions.map(kind).collect(),
        }
    }

    /// What a refused dry run waits for, if the files bring it.
    fn note(&self, write: &Write, status: &Status) -> Option<String> {
        if status.code != 404 {
            return None;
        }
        if self.kinds.contains(&(write.resource.group.clone(), write.resource.kind.clone())) {
            return Some("checked once its definition is there".to_owned());
        }
        let namespace = write.namespace.as_ref().filter(|namespace| self.namespaces.contains(*namespace))?;
        Some(format!("checked once namespace {namespace} is there"))
    }
}

/// Compares what is stored with what would be.
async fn tried(session: &Session, write: Write, force: bool, awaited: &Awaited) -> Result<Write> {
    let source = write.source.clone();
    compared(session, write, force, awaited).await.context(source)
}

async fn compared(session: &Session, mut write: Write, force: bool, awaited: &Awaited) -> Result<Write> {
    let (word, title) = (write.resource.word(), inert(&write.change.title()));
    must_fit(|| format!("{word} {title}"), &write.object, "part it into several objects")?;
    let path = write.resource.path(write.namespace.as_deref(), Some(&write.name));
    let live = match session.server.read(&path, JSON).await {
        Ok(Answer::Found(live)) => Some(live),
        Ok(_) => None,
        // A kind that is not served yet has no objects.
        Err(_) if awaited.kinds.contains(&(write.resource.group.clone(), write.resource.kind.clone())) => None,
        Err(error) => return Err(error),
    };
    // Nothing is to come of it, so nothing is tried.
    if live.as_ref().is_some_and(is_leaving) {
        write.live = live;
        return Ok(write);
    }
    match apply(session, &write, &format!("&dryRun=All&force={force}")).await? {
        Reply::Done(result) => {
            // Of a new object, what its author wrote is shown, and not what the server adds.
            if live.is_some() {
                let (namespace, name) = (write.namespace.clone(), write.name.clone());
                write.change = ObjectChange::between(word, namespace, name, live.as_ref(), Some(&result));
            }
            write.result = Some(posted(result, live.is_some()));
        }
        Reply::Refused(status) => match awaited.note(&write, &status) {
            Some(note) => write.change.note = Some(note),
            None if status.code == 409 => bail!(
                "{word} {title}: {}; --force-conflicts takes these fields over, and leaving them out of the file leaves \
                 them to their owner",
                words(&status)
            ),
            None => bail!("{word} {title} cannot be applied: {}", words(&status)),
        },
    }
    write.live = live;
    Ok(write)
}

async fn apply(session: &Session, write: &Write, options: &str) -> Result<Reply> {
    let path = write.resource.path(write.namespace.as_deref(), Some(&write.name));
    let path = format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict{options}");
    session.server.send(Method::PATCH, &path, Some((APPLY, &write.object))).await
}

/// The result of a dry run as it is posted for planning. What was made up for a new object is not what it will have.
fn posted(mut result: Value, exists: bool) -> Value {
    if let Some(members) = result.as_object_mut() {
        members.remove("status");
    }
    if let Some(metadata) = result.get_mut("metadata").and_then(Value::as_object_mut) {
        metadata.remove("managedFields");
        if !exists {
            for name in ["uid", "resourceVersion", "creationTimestamp", "generation"] {
                metadata.remove(name);
            }
        }
    }
    result
}

/// Members of the apply set that stand in no file any more. Those that stand on others go first.
async fn gone_from_files(
    session: &Session,
    served: &[Resource],
    set: &ApplySet,
    request: &Request<'_>,
) -> Result<Vec<Removal>> {
    let mut kept = BTreeSet::new();
    for manifest in &request.manifests {
        let resource = resource_of(served, manifest, &request.manifests)?;
        let namespace = namespace_of(session, &resource, manifest);
        kept.insert((resource.word(), namespace, manifest.name().to_owned()));
    }
    let mut removals = set.members(session, served).await?;
    removals.retain(|gone| !kept.contains(&(gone.resource.word(), gone.namespace.clone(), gone.name.clone())));
    removals.retain(|removal| request.selection.takes(&removal.change));
    Ok(removals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_yes_is_for_what_was_shown() {
        let object = |uid: &str, version: &str, spec: Value| json!({"metadata": {"name": "db", "uid": uid, "resourceVersion": version}, "spec": spec});
        let shown = || posted(object("u", "1", json!({"image": "b", "cores": 2})), true);
        let new = || posted(object("made up", "1", json!({"image": "b"})), false);
        let mut leaving = object("u", "2", json!({"image": "b", "cores": 2}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let rows = [
            ("only its status moved", shown(), object("u", "2", json!({"image": "b", "cores": 2})), true, true),
            (
                "somebody changed another field",
                shown(),
                object("u", "2", json!({"image": "b", "cores": 4})),
                true,
                false,
            ),
            ("another has its name", shown(), object("v", "2", json!({"image": "b", "cores": 2})), true, false),
            ("it is new by now", shown(), object("made up", "2", json!({"image": "b", "cores": 2})), false, false),
            ("somebody deletes it", shown(), leaving, true, false),
            ("it is still to be made", new(), object("made up as well", "2", json!({"image": "b"})), false, true),
            ("somebody made it", new(), object("u", "2", json!({"image": "b"})), true, false),
        ];
        for (row, shown, answer, exists, expected) in rows {
            assert_eq!(is_same(&shown, &posted(answer, exists)), expected, "{row}");
        }
    }
}
