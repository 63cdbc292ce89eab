//! Who owns which fields: `metadata.managedFields`, read and written.
//!
//! The text that is stored is the one that is shown. Its entries have their time last, so that an apply that changes
//! nothing finds its own entry in the text without reading the others.

use std::collections::{BTreeMap, HashMap};

use memchr::memmem;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::field_set::FieldSet;
use crate::schema::Type;

/// How many managers that update an object are told apart.
const MAX_UPDATERS: usize = 10;
/// Who owns the fields of those that are not told apart any more.
const ANCIENT: &str = "ancient-changes";

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Operation {
    Apply,
    Update,
}

/// How the fields of an entry are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum FieldsType {
    #[default]
    FieldsV1,
}

/// What one manager owns.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Entry {
    #[serde(default)]
    pub manager: String,
    pub operation: Operation,
    pub api_version: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub subresource: String,
    pub fields_type: FieldsType,
    #[serde(default, rename = "fieldsV1")]
    pub fields: FieldSet,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
}

impl Entry {
    pub fn new(manager: &str, operation: Operation, api_version: &str, subresource: &str, fields: FieldSet) -> Entry {
        Entry {
            manager: manager.to_owned(),
            operation,
            api_version: api_version.to_owned(),
            subresource: subresource.to_owned(),
            fields_type: FieldsType::FieldsV1,
            fields,
            time: None,
        }
    }

    /// Whether both are of the same manager. An applier is the same whatever version it applies.
    pub fn is_same_manager(&self, other: &Entry) -> bool {
        self.manager == other.manager
            && self.operation == other.operation
            && self.subresource == other.subresource
            && (self.operation == Operation::Apply || self.api_version == other.api_version)
    }

    /// Whether it holds what was owned by those that are not told apart any more.
    fn is_ancient(&self) -> bool {
        self.operation == Operation::Update && self.manager == ANCIENT && self.subresource.is_empty()
    }

    fn but_for_time(&self) -> impl Ord + use<'_> {
        (&self.manager, self.operation, &self.api_version, &self.subresource, &self.fields)
    }

    /// The order in which entries are shown.
    fn order(&self) -> impl Ord + use<'_> {
        (self.operation, self.time.as_deref().unwrap_or_default(), &self.manager, &self.api_version, &self.subresource)
    }
}

/// Everybody who owns fields of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(transparent)]
pub struct Managers(pub Vec<Entry>);

impl Managers {
    /// Reads stored text; nobody owns anything where there is none.
    pub fn parse(text: &[u8]) -> Managers {
        let entries: Vec<Entry> = serde_json::from_slice(text).unwrap_or_default();
        Managers(entries)
    }

    /// Reads what a client sent; `None` if it is no such record, or an empty one.
    pub fn from_client(value: &Value) -> Option<Managers> {
        let entries = Vec::<Entry>::deserialize(value).ok()?;
        (!entries.is_empty() && entries.iter().all(|entry| !entry.api_version.is_empty())).then_some(Managers(entries))
    }

    /// The text to store; empty if nobody owns anything.
    pub fn text(&mut self) -> Vec<u8> {
        if self.0.is_empty() {
            return Vec::new();
        }
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        serde_json::to_vec(&self.0).expect("writing JSON to memory cannot fail")
    }

    /// Brings what is owned to what the type of the object is now.
    pub fn fit(&mut self, object_type: Type<'_>) {
        for entry in &mut self.0 {
            entry.fields = std::mem::take(&mut entry.fields).fitted(object_type);
        }
    }

    pub fn drop_empty(&mut self) {
        self.0.retain(|entry| !entry.fields.is_empty());
    }

    /// Whether both say the same but for when.
    pub fn equals_but_for_time(&self, other: &Managers) -> bool {
        self.0.len() == other.0.len() && self.sorted_but_for_time() == other.sorted_but_for_time()
    }

    fn sorted_but_for_time(&self) -> Vec<impl Ord + use<'_>> {
        let mut entries: Vec<_> = self.0.iter().map(Entry::but_for_time).collect();
        entries.sort_unstable();
        entries
    }

    /// Merges the oldest updaters, where there are too many, into one of their version: the one that holds such already,
    /// or else the oldest.
    pub fn merge_ancient(&mut self) {
        let updaters = self.0.iter().filter(|entry| entry.operation == Operation::Update).count();
        let Some(mut excess) = updaters.checked_sub(MAX_UPDATERS).filter(|excess| *excess > 0) else { return };
        self.0.sort_by(|a, b| a.order().cmp(&b.order()));
        let mut holders: HashMap<&str, usize> = HashMap::new();
        for (at, entry) in self.0.iter().enumerate().filter(|(_, entry)| entry.is_ancient()) {
            holders.entry(&entry.api_version).or_insert(at);
        }
        let mut merged: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (at, entry) in self.0.iter().enumerate().filter(|(_, entry)| entry.operation == Operation::Update) {
            let holder = *holders.entry(&entry.api_version).or_insert(at);
            if holder != at && excess > 0 {
                merged.entry(holder).or_default().push(at);
                excess -= 1;
            }
        }
        for (holder, parts) in merged {
            let time = parts.last().and_then(|last| self.0[*last].time.take());
            let sets = parts.iter().chain([&holder]).map(|at| std::mem::take(&mut self.0[*at].fields)).collect();
            let version = std::mem::take(&mut self.0[holder].api_version);
            let fields = FieldSet::union_of(sets);
            self.0[holder] = Entry { time, ..Entry::new(ANCIENT, Operation::Update, &version, "", fields) };
        }
        // Whose fields were taken has none left.
        self.drop_empty();
    }
}

/// Whether a stored record has an entry that is the same but for its time; the entry itself has none.
pub(super) fn has_entry(text: &[u8], entry: &Entry) -> bool {
    let wanted = serde_json::to_vec(entry).expect("writing JSON to memory cannot fail");
    let Some((_, wanted)) = wanted.split_last() else { return false };
    let is_wanted = |at: usize| {
        let rest = text[at..].strip_prefix(wanted);
        rest.is_some_and(|rest| matches!(rest.first(), Some(b',' | b'}')))
    };
    memmem::find_iter(text, b"{\"manager\":").any(is_wanted)
}

/// Whether a client asks to forget who owns what: an empty list, or a list of one empty entry.
pub fn is_reset(value: &Value) -> bool {
    match value.as_array().map(Vec::as_slice) {
        Some([]) => true,
        Some([Value::Object(entry)]) => entry.is_empty(),
        _ => false,
    }
}
