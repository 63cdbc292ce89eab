//! What a write does to who owns which fields.
//!
//! Who updates an object owns what the update changed; who applies a configuration owns what is in it. A field that is
//! changed is lost to everybody else; an apply that would do that is refused, unless it is forced.

use std::fmt;
use std::sync::LazyLock;

use serde_json::Value;

use super::compare::{Comparison, compare};
use super::extract::{Fault, applied_fields};
use super::field_set::{FieldSet, Path};
use super::managers::{Entry, Managers, Operation, has_entry};
use super::merge::merge;
use super::remove::prune;
use crate::schema::Type;

/// Who owned what there was before anybody applied.
const BEFORE_FIRST_APPLY: &str = "before-first-apply";
const UNKNOWN: &str = "unknown";

/// Fields that every object has and nobody owns.
static OF_NOBODY: LazyLock<FieldSet> = LazyLock::new(|| {
    let paths: [&[&str]; 12] = [
        &["apiVersion"],
        &["kind"],
        &["metadata"],
        &["metadata", "name"],
        &["metadata", "namespace"],
        &["metadata", "creationTimestamp"],
        &["metadata", "selfLink"],
        &["metadata", "uid"],
        &["metadata", "clusterName"],
        &["metadata", "generation"],
        &["metadata", "managedFields"],
        &["metadata", "resourceVersion"],
    ];
    paths.iter().fold(FieldSet::default(), |set, path| set.union(FieldSet::of(path)))
});

/// Who writes.
#[derive(Debug, Clone, Copy)]
pub struct Writer<'w> {
    pub manager: &'w str,
    pub api_version: &'w str,
    /// "" for the object itself.
    pub subresource: &'w str,
    /// RFC 3339, to the second.
    pub now: &'w str,
}

impl Writer<'_> {
    fn entry(&self, operation: Operation, fields: FieldSet) -> Entry {
        let manager = if self.manager.is_empty() { UNKNOWN } else { self.manager };
        Entry::new(manager, operation, self.api_version, self.subresource, fields)
    }
}

/// Which fields a write through one part of an object does not set, whatever it says.
#[derive(Debug, Clone)]
pub enum Ignored {
    /// These, and all below them.
    Fields(FieldSet),
    /// All but what lies at or below this one.
    AllBut(&'static [&'static str]),
}

impl Ignored {
    pub const NOTHING: Ignored = Ignored::AllBut(&[]);

    fn filter(&self, set: FieldSet) -> FieldSet {
        match self {
            Ignored::Fields(fields) => set.recursive_difference(fields),
            Ignored::AllBut(path) => set.only(path),
        }
    }
}

/// What is written.
#[derive(Debug, Clone)]
pub struct Subject<'s> {
    pub object_type: Type<'s>,
    /// The object of which nothing was said.
    pub empty: &'s Value,
    pub ignored: Ignored,
    /// Whether other versions of the kind have other fields, so that what is owned in them is not to be judged here.
    pub version_bound: bool,
}

impl Subject<'_> {
    /// What differs, of what is to be judged.
    pub fn compare(&self, live: &Value, new: &Value) -> Comparison {
        let Comparison { removed, modified, added } = compare(live, new, self.object_type);
        let filter = |set| self.ignored.filter(set);
        Comparison { removed: filter(removed), modified: filter(modified), added: filter(added) }
    }

    fn judges(&self, entry: &Entry, writer: &Writer<'_>) -> bool {
        !self.version_bound || entry.api_version == writer.api_version
    }
}

/// A field that an apply would change although somebody else owns it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    pub subresource: String,
    pub path: Path,
}

impl Conflict {
    /// Who owns it, as messages say it: `"kubectl" with subresource "scale" using apps/v1`.
    pub fn owner(&self) -> String {
        let mut owner = format!("{:?}", self.manager);
        if !self.subresource.is_empty() {
            owner.push_str(&format!(" with subresource {:?}", self.subresource));
        }
        if self.operation == Operation::Update {
            owner.push_str(&format!(" using {}", self.api_version));
        }
        owner
    }

    pub fn field(&self) -> String {
        self.path.iter().map(ToString::to_string).collect()
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "conflict with {}: {}", self.owner(), self.field())
    }
}

/// Why a configuration was not applied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    Malformed(Fault),
    Conflicts(Vec<Conflict>),
}

/// What an apply makes of an object and its record. `None` is: it stays as it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Applied {
    pub object: Option<Value>,
    pub managers: Option<Managers>,
}

/// Records an update by its changes: from the object there was to the one that has its defaults, but not yet what the
/// server decides.
pub fn update(managers: &mut Managers, changes: Comparison, subject: &Subject<'_>, writer: &Writer<'_>) {
    managers.fit(subject.object_type);
    if changes.is_empty() {
        return;
    }
    let Comparison { removed, modified, added } = changes;
    let set = modified.union(added);
    for entry in managers.0.iter_mut().filter(|entry| subject.judges(entry, writer)) {
        entry.fields = std::mem::take(&mut entry.fields).difference(&set).difference(&removed);
    }
    let mut own = writer.entry(Operation::Update, stripped(set));
    if !own.fields.is_empty() {
        own.time = Some(writer.now.to_owned());
        match managers.0.iter_mut().find(|entry| entry.is_same_manager(&own)) {
            Some(entry) => {
                own.fields = own.fields.union(std::mem::take(&mut entry.fields));
                *entry = own;
            }
            None => managers.0.push(own),
        }
    }
    managers.drop_empty();
    managers.merge_ancient();
}

/// Applies a configuration. `record` is the stored text of who owns what.
pub fn apply(
    live: &Value,
    config: &Value,
    record: &[u8],
    subject: &Subject<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<Applied, Refusal> {
    let set = applied_fields(config, subject.object_type).map_err(Refusal::Malformed)?;
    let own = writer.entry(Operation::Apply, stripped(subject.ignored.filter(set)));
    let merged = merge(live, config, subject.object_type);
    if merged.is_none() && !own.fields.is_empty() && has_entry(record, &own) {
        return Ok(Applied { object: None, managers: None });
    }
    let mut managers = Managers::parse(record);
    if merged.is_none() && own.fields.is_empty() && !managers.0.iter().any(|entry| entry.is_same_manager(&own)) {
        return Ok(Applied { object: None, managers: None });
    }
    if managers.0.is_empty() {
        let before = Writer { manager: BEFORE_FIRST_APPLY, ..*writer };
        update(&mut managers, subject.compare(subject.empty, live), subject, &before);
    } else {
        managers.fit(subject.object_type);
    }
    let last = managers.0.iter().position(|entry| entry.is_same_manager(&own)).map(|at| managers.0.remove(at));
    let object = pruned(live, config, merged, &managers, &own, last.as_ref(), subject);
    if let Some(new) = &object {
        take_over(&mut managers, subject.compare(live, new), subject, writer, force)?;
    }
    if !own.fields.is_empty() {
        let time = if object.is_some() { Some(writer.now.to_owned()) } else { last.and_then(|last| last.time) };
        managers.0.push(Entry { time, ..own });
    }
    managers.drop_empty();
    Ok(Applied { object, managers: Some(managers) })
}

/// The merged object without what its applier has given up; `None` if it is the one there was.
fn pruned(
    live: &Value,
    config: &Value,
    merged: Option<Value>,
    managers: &Managers,
    own: &Entry,
    last: Option<&Entry>,
    subject: &Subject<'_>,
) -> Option<Value> {
    let given_up = last.filter(|last| !last.fields.is_empty() && last.fields != own.fields);
    let Some(last) = given_up else { return merged };
    // An object keeps its name whoever owns its labels.
    let kept = [OF_NOBODY.clone(), own.fields.clone()];
    let owned =
        FieldSet::union_of(kept.into_iter().chain(managers.0.iter().map(|entry| entry.fields.clone())).collect());
    let mut object = merged.unwrap_or_else(|| live.clone());
    prune(&mut object, &last.fields, &owned, subject.object_type);
    // What is named but has nothing left in it stays: to apply the same again must change nothing.
    let object = merge(&object, config, subject.object_type).unwrap_or(object);
    (object != *live).then_some(object)
}

/// Takes what an apply changes from everybody else, or says from whom it will not.
fn take_over(
    managers: &mut Managers,
    Comparison { removed, modified, added }: Comparison,
    subject: &Subject<'_>,
    writer: &Writer<'_>,
    force: bool,
) -> Result<(), Refusal> {
    let set = modified.union(added);
    let mut conflicts = Vec::new();
    for entry in managers.0.iter_mut().filter(|entry| subject.judges(entry, writer)) {
        let taken = entry.fields.intersection(&set);
        conflicts.extend(taken.paths().into_iter().map(|path| Conflict {
            manager: entry.manager.clone(),
            operation: entry.operation,
            api_version: entry.api_version.clone(),
            subresource: entry.subresource.clone(),
            path,
        }));
        entry.fields = std::mem::take(&mut entry.fields).difference(&taken).difference(&removed);
    }
    if conflicts.is_empty() || force {
        return Ok(());
    }
    // In a stable sort, the fields of each manager stay in their order.
    conflicts.sort_by(|a, b| {
        let a = (&a.manager, a.operation, &a.api_version, &a.subresource);
        a.cmp(&(&b.manager, b.operation, &b.api_version, &b.subresource))
    });
    Err(Refusal::Conflicts(conflicts))
}

fn stripped(set: FieldSet) -> FieldSet {
    set.difference(&OF_NOBODY)
}
