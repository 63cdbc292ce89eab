//! What the files ask for, as the server would store it: a dry run of every object, as the user.

use std::collections::{BTreeMap, BTreeSet};

use anyhow::{Context as _, Result, bail, ensure};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use http::Method;
use kube::core::Status;
use serde_json::{Value, json};
use setpoint_api::step::Target;
use setpoint_core::count::counted;

use super::apply_set::{ApplySet, PART_OF};
use super::change::{ENVIRONMENT, ObjectAction, ObjectChange};
use super::leaving::{is_leaving, must_stay};
use super::selection::Selection;
use crate::client::{Answer, Reply, must_fit, words};
use crate::get::JSON;
use crate::manifest::Manifest;
use crate::proposal::Seals;
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
/// How often a write is tried again after only the status of its object has moved.
const ATTEMPTS: usize = 20;

/// Everything that is to be written and removed.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    /// What is written, in order.
    pub(crate) writes: Vec<Write>,
    pub(crate) removals: Vec<Removal>,
    /// Whether nothing may be destroyed by it.
    pub(crate) keeps: bool,
    /// What is therefore not done, in words for people.
    pub(crate) kept: Vec<String>,
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
    /// Whether nothing may be destroyed.
    pub(crate) keeps: bool,
    /// Whether all that a set holds may be removed.
    pub(crate) allow_empty: bool,
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
    let mut removals = match request.set {
        Some(set) => gone_from_files(session, &served, set, &request).await?,
        None => Vec::new(),
    };
    request
        .selection
        .must_take(writes.iter().map(|write| &write.change).chain(removals.iter().map(|gone| &gone.change)))?;
    let mut kept = Vec::new();
    if request.keeps {
        let stays =
            |gone: &Removal| format!("{} {} is in no file any more and stays", gone.change.kind, gone.change.title());
        kept.extend(removals.drain(..).map(|gone| stays(&gone)));
    }
    Ok(Draft { writes, removals, keeps: request.keeps, kept })
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

    /// Leaves out Machines for which something would be destroyed at once. Says whether there were any.
    pub(crate) fn leave_out(&mut self, targets: &BTreeSet<Target>) -> bool {
        let is_left = |write: &Write| {
            let is_it =
                |target: &Target| write.namespace.as_deref() == Some(&target.namespace) && write.name == target.name;
            write.is_machine() && targets.iter().any(is_it)
        };
        let (left, taken) = self.writes.drain(..).partition(is_left);
        self.writes = taken;
        let unwritten = |write: &Write| {
            format!("{} is not written: what it would destroy may need no approval", write.change.title())
        };
        let left: Vec<Write> = left;
        self.kept.extend(left.iter().map(unwritten));
        !left.is_empty()
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

    /// Writes it, as the user, over what was shown and nothing else.
    pub(crate) async fn send(&self, session: &Session, force: bool) -> Result<Value> {
        let (mut object, mut live) = (self.object.clone(), self.live.clone());
        for _ in 0..ATTEMPTS {
            if let Some(live) = &live {
                object["metadata"]["uid"] = live["metadata"]["uid"].clone();
                object["metadata"]["resourceVersion"] = live["metadata"]["resourceVersion"].clone();
            }
            match apply(session, self, &object, &format!("&force={force}")).await? {
                Reply::Refused(status) if status.code == 409 && live.is_some() => {
                    live = unmoved(session, &self.resource, &self.change, self.live.as_ref(), live, &status).await?;
                    ensure!(live.is_some(), "{} was deleted by somebody else; plan again", named(&self.change));
                }
                reply => return reply.object().with_context(|| format!("cannot write {}", named(&self.change))),
            }
        }
        bail!("{} changes all the time; it was not written", named(&self.change))
    }
}

impl Removal {
    /// Deletes what was shown and nothing else.
    pub(crate) async fn send(&self, session: &Session) -> Result<()> {
        let path = self.resource.path(self.namespace.as_deref(), Some(&self.name));
        let mut live = Some(self.live.clone());
        for _ in 0..ATTEMPTS {
            let metadata = live.as_ref().map(|live| &live["metadata"]).unwrap_or(&Value::Null);
            let options = json!({
                "apiVersion": "v1", "kind": "DeleteOptions", "propagationPolicy": "Background",
                "preconditions": {"uid": metadata["uid"], "resourceVersion": metadata["resourceVersion"]},
            });
            match session.server.send(Method::DELETE, &path, Some((JSON, &options))).await? {
                Reply::Refused(status) if status.code == 404 => return Ok(()),
                Reply::Refused(status) if status.code == 409 => {
                    live = unmoved(session, &self.resource, &self.change, Some(&self.live), live, &status).await?;
                    if live.is_none() {
                        return Ok(());
                    }
                }
                reply => {
                    return reply.object().map(drop).with_context(|| format!("cannot delete {}", named(&self.change)));
                }
            }
        }
        bail!("{} changes all the time; it was not deleted", named(&self.change))
    }
}

/// The object as it is now, after a write over an earlier version of it was refused: if nothing of it has changed since it
/// was shown but what servers and controllers write. Nothing, if it is gone.
async fn unmoved(
    session: &Session,
    resource: &Resource,
    change: &ObjectChange,
    shown: Option<&Value>,
    tried: Option<Value>,
    refusal: &Status,
) -> Result<Option<Value>> {
    let path = resource.path(change.namespace.as_deref(), Some(&change.name));
    let Answer::Found(now) = session.server.read(&path, JSON).await? else { return Ok(None) };
    let version = |object: &Value| object["metadata"]["resourceVersion"].clone();
    if tried.as_ref().map(version) == Some(version(&now)) {
        bail!("cannot change {}: {}", named(change), words(refusal));
    }
    ensure!(
        shown.is_some_and(|shown| is_same(shown, &now)),
        "{} was changed by somebody else since the plan was shown; it was not changed here, plan again",
        named(change)
    );
    Ok(Some(now))
}

/// Whether two versions of an object are the same but for what servers and controllers write.
fn is_same(shown: &Value, now: &Value) -> bool {
    let uid = |object: &Value| object["metadata"]["uid"].clone();
    let change = ObjectChange::between(String::new(), None, String::new(), Some(shown), Some(now));
    uid(shown) == uid(now) && change.action == ObjectAction::Unchanged
}

fn named(change: &ObjectChange) -> String {
    format!("{} {}", change.kind, inert(&change.title()))
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
    match apply(session, &write, &write.object, &format!("&dryRun=All&force={force}")).await? {
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

async fn apply(session: &Session, write: &Write, object: &Value, options: &str) -> Result<Reply> {
    let path = write.resource.path(write.namespace.as_deref(), Some(&write.name));
    let path = format!("{path}?fieldManager={MANAGER}&fieldValidation=Strict{options}");
    session.server.send(Method::PATCH, &path, Some((APPLY, object))).await
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
    let members = removals.len();
    removals.retain(|gone| !kept.contains(&(gone.resource.word(), gone.namespace.clone(), gone.name.clone())));
    removals.retain(|removal| request.selection.takes(&removal.change));
    let is_all = members > 0 && removals.len() == members;
    ensure!(
        !is_all || request.keeps || request.allow_empty,
        "the files hold nothing of the apply set {}, so all of it ({}) would be deleted; say --allow-empty if that is meant",
        inert(&set.name),
        counted(members, "object")
    );
    Ok(removals)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_is_over_what_was_shown() {
        let object = |uid: &str, version: &str, spec: Value| json!({"metadata": {"name": "db", "uid": uid, "resourceVersion": version}, "spec": spec, "status": {"at": version}});
        let shown = object("u", "1", json!({"image": "b", "cores": 2}));
        let mut leaving = object("u", "2", json!({"image": "b", "cores": 2}));
        leaving["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        let mut labelled = object("u", "2", json!({"image": "b", "cores": 2}));
        labelled["metadata"]["labels"] = json!({"team": "a"});
        let rows = [
            ("only its status moved", object("u", "2", json!({"image": "b", "cores": 2})), true),
            ("somebody changed a field", object("u", "2", json!({"image": "b", "cores": 4})), false),
            ("somebody changed a label", labelled, false),
            ("another has its name", object("v", "2", json!({"image": "b", "cores": 2})), false),
            ("somebody deletes it", leaving, false),
        ];
        for (row, now, expected) in rows {
            assert_eq!(is_same(&shown, &now), expected, "{row}");
        }
    }
}
