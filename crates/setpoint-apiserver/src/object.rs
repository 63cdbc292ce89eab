//! How an object is kept: as JSON text with a slot for the one thing not known before it is committed.
//!
//! A stored value is the object's text without its head (`kind` and `apiVersion`, the same for all objects of a
//! resource) and without its `resourceVersion` (the revision of the commit that wrote it):
//!
//! ```text
//! <length of the metadata, u32> ,"name":"a","uid":"…"}  ,"data":{"k":"v"}}
//! ```
//!
//! A reader puts the head and `"metadata":{"resourceVersion":"<revision>"` before it. So a list is a concatenation, a
//! watch event is written once, and selectors parse the metadata alone.
//!
//! The record of who owns which field, `managedFields`, stands last in the metadata. It is text to whoever does not ask for
//! it: often longer than the object, and of no interest to any rule.

use std::io;
use std::ops::Range;

use bytes::{BufMut, Bytes, BytesMut};
use memchr::memmem;
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use setpoint_store::{Entry, Revision};

use crate::object_size::TooLarge;
use crate::pieces::Sink;

const LENGTH: usize = size_of::<u32>();
const SLOT: &[u8] = b"\"metadata\":{\"resourceVersion\":\"";

/// What stands before the record's `[`. Within a text the quotes would be escaped, and no other field of metadata that
/// could have this name is a list.
const RECORD: &[u8] = b",\"managedFields\":";

/// A stored value and the revision that wrote it.
#[derive(Clone, PartialEq, Eq)]
pub struct Stored {
    bytes: Bytes,
    revision: Revision,
}

impl std::fmt::Debug for Stored {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        // The text may be a Secret's.
        f.debug_struct("Stored").field("revision", &self.revision).finish_non_exhaustive()
    }
}

/// An object's text, ready to be stored, with the record of who owns its fields (a list, or nothing). `kind`, `apiVersion`
/// and `metadata.resourceVersion` are left out. Refused if it has more than `limit` bytes, which
/// [`object_size`](crate::object_size) knows.
pub fn encode(object: &Value, record: &[u8], limit: usize) -> Result<Bytes, TooLarge> {
    let mut text = Text { bytes: BytesMut::with_capacity(512), size: 0, limit };
    text.put(&[0; LENGTH]);
    let empty = Map::new();
    let object = object.as_object().unwrap_or(&empty);
    let metadata = object.get("metadata").and_then(Value::as_object).unwrap_or(&empty);
    for (key, value) in metadata.iter().filter(|(key, _)| !matches!(key.as_str(), "resourceVersion" | "managedFields"))
    {
        put_field(&mut text, key, value);
    }
    if !record.is_empty() {
        text.put(RECORD);
        text.put(record);
    }
    text.put(b"}");
    let length = text.size - LENGTH;
    for (key, value) in object.iter().filter(|(key, _)| !matches!(key.as_str(), "metadata" | "kind" | "apiVersion")) {
        put_field(&mut text, key, value);
    }
    text.put(b"}");
    if text.size > limit {
        return Err(TooLarge { size: text.size, limit });
    }
    let length = u32::try_from(length).expect("bodies are limited to megabytes");
    text.bytes[..LENGTH].copy_from_slice(&length.to_le_bytes());
    Ok(text.bytes.freeze())
}

/// The text of an object that is answered with and not stored, in the same form.
pub fn encode_answer(object: &Value, record: &[u8]) -> Bytes {
    encode(object, record, usize::MAX).expect("every size is within the limit")
}

/// A text of which no more than the limit is kept, and the rest only counted.
struct Text {
    bytes: BytesMut,
    size: usize,
    limit: usize,
}

impl Text {
    fn put(&mut self, text: &[u8]) {
        self.size += text.len();
        if self.size <= self.limit {
            self.bytes.put_slice(text);
        }
    }
}

impl io::Write for Text {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.put(text);
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn put_field(text: &mut Text, key: &str, value: &Value) {
    text.put(b",");
    serde_json::to_writer(&mut *text, key).expect("writing a string to memory cannot fail");
    text.put(b":");
    serde_json::to_writer(text, value).expect("writing JSON to memory cannot fail");
}

impl From<&Entry> for Stored {
    fn from(entry: &Entry) -> Stored {
        Stored::new(entry.value.clone(), entry.revision)
    }
}

impl Stored {
    pub fn new(bytes: Bytes, revision: Revision) -> Stored {
        Stored { bytes, revision }
    }

    pub fn revision(&self) -> Revision {
        self.revision
    }

    /// How many bytes are stored.
    pub fn size(&self) -> usize {
        self.bytes.len()
    }

    /// The very text, as it is stored.
    pub fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Whether this is the very text.
    pub fn is(&self, bytes: &Bytes) -> bool {
        self.bytes == bytes
    }

    /// How long the text is that [`Stored::write`] appends after its head.
    pub fn text_len(&self) -> usize {
        SLOT.len() + digits(self.revision) + 1 + self.bytes.len() - LENGTH
    }

    /// Appends the object's text. `head` is what stands before the metadata: `{"kind":…,"apiVersion":…,` or `{`.
    pub fn write(&self, head: &[u8], into: &mut impl Sink) {
        self.write_slot(head, LENGTH..self.bytes.len(), into);
    }

    /// Appends only `head` and the metadata, as an object.
    pub fn write_metadata(&self, head: &[u8], into: &mut impl Sink) {
        self.write_slot(head, LENGTH..LENGTH + self.metadata_text().len(), into);
        into.put(b"}");
    }

    /// Revision 0 is that of an object that was never committed (a dry run's): it has no resourceVersion.
    fn write_slot(&self, head: &[u8], part: Range<usize>, into: &mut impl Sink) {
        into.put(head);
        if self.revision == 0 {
            into.put(b"\"metadata\":{");
            let comma = usize::from(self.bytes.get(part.start) == Some(&b','));
            return into.put_part(&self.bytes, part.start + comma..part.end);
        }
        into.put(SLOT);
        into.put(self.revision.to_string().as_bytes());
        into.put(b"\"");
        into.put_part(&self.bytes, part);
    }

    fn metadata_text(&self) -> &[u8] {
        let (length, text) = self.bytes.split_at(LENGTH);
        let length = u32::from_le_bytes(length.try_into().expect("split at four bytes")) as usize;
        &text[..length]
    }

    /// The metadata up to the record, and the record.
    fn metadata_and_record(&self) -> (&[u8], &[u8]) {
        let text = self.metadata_text();
        let inner = text.strip_suffix(b"}").unwrap_or(text);
        let starts = |at: &usize| inner.get(at + RECORD.len()) == Some(&b'[');
        match memmem::find_iter(inner, RECORD).find(starts) {
            Some(at) => (&inner[..at], &inner[at + RECORD.len()..]),
            None => (inner, &[]),
        }
    }

    /// Whether the object is on its way out.
    pub fn is_being_deleted(&self) -> bool {
        // Most objects are not, and their metadata need not be parsed to know it.
        memmem::find(self.metadata_and_record().0, b"\"deletionTimestamp\":").is_some()
            && self.metadata()["deletionTimestamp"].is_string()
    }

    /// The record of who owns which field, as a JSON list; empty if there is none.
    pub fn record(&self) -> &[u8] {
        self.metadata_and_record().1
    }

    /// The object's `metadata`, with its resourceVersion and without the record, without reading the rest.
    pub fn metadata(&self) -> Value {
        self.metadata_as()
    }

    /// What a type wants to know of the object's `metadata`. Everything it reads must be optional.
    pub fn metadata_as<T: DeserializeOwned>(&self) -> T {
        #[derive(Deserialize)]
        struct Object<T> {
            metadata: T,
        }
        let (metadata, _) = self.metadata_and_record();
        let mut text = Vec::with_capacity(metadata.len() + 64);
        self.write_slot(b"{", LENGTH..LENGTH + metadata.len(), &mut text);
        text.put_slice(b"}}");
        let object: Object<T> = serde_json::from_slice(&text).expect("stored text is the JSON that was encoded");
        object.metadata
    }

    /// Whether `metadata` may have this field: a look at the text, which is much cheaper than to parse it. False only if
    /// it does not have it.
    pub fn may_have(&self, field: &str) -> bool {
        let (metadata, _) = self.metadata_and_record();
        let text = std::str::from_utf8(metadata).unwrap_or_default();
        // A quote within a string is escaped, so this is found in no value.
        text.match_indices(field)
            .any(|(at, _)| text[..at].ends_with(",\"") && text[at + field.len()..].starts_with("\":"))
    }

    /// Whether this text occurs in `metadata`, which is much cheaper to find out than what it means there.
    pub fn mentions(&self, text: &str) -> bool {
        memmem::find(self.metadata_and_record().0, text.as_bytes()).is_some()
    }

    /// Whether this text occurs anywhere in it.
    pub fn contains(&self, text: &str) -> bool {
        memmem::find(&self.bytes[LENGTH..], text.as_bytes()).is_some()
    }

    /// What a type wants to know of the object, which has no kind, no version and no record then.
    pub fn read_as<T: DeserializeOwned>(&self) -> serde_json::Result<T> {
        let (metadata, _) = self.metadata_and_record();
        let mut text = Vec::with_capacity(self.text_len());
        self.write_slot(b"{", LENGTH..LENGTH + metadata.len(), &mut text);
        text.put_slice(b"}");
        text.put_slice(&self.bytes[LENGTH + self.metadata_text().len()..]);
        serde_json::from_slice(&text)
    }

    /// The object without the record, as all rules see it.
    pub fn value(&self, head: &[u8]) -> Value {
        let (metadata, _) = self.metadata_and_record();
        let mut text = Vec::with_capacity(head.len() + self.text_len());
        self.write_slot(head, LENGTH..LENGTH + metadata.len(), &mut text);
        text.extend_from_slice(b"}");
        text.extend_from_slice(&self.bytes[LENGTH + self.metadata_text().len()..]);
        serde_json::from_slice(&text).expect("stored text is the JSON that was encoded")
    }

    /// The object with the record.
    pub fn whole_value(&self, head: &[u8]) -> Value {
        let mut text = Vec::with_capacity(head.len() + self.text_len());
        self.write(head, &mut text);
        serde_json::from_slice(&text).expect("stored text is the JSON that was encoded")
    }
}

fn digits(number: u64) -> usize {
    number.checked_ilog10().map_or(1, |power| power as usize + 1)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn stored(object: &Value, revision: Revision) -> Stored {
        Stored::new(encode_answer(object, b""), revision)
    }

    #[test]
    fn a_text_beyond_the_limit_is_refused_with_its_size() {
        let object = json!({"metadata": {"name": "a"}, "data": {"k": "v".repeat(10_000)}});
        let record = br#"[{"manager":"m"}]"#;
        let size = encode_answer(&object, record).len();
        assert_eq!(encode(&object, record, size).map(|text| text.len()), Ok(size));
        for limit in [size - 1, size / 2, LENGTH + 1] {
            assert_eq!(encode(&object, record, limit), Err(TooLarge { size, limit }), "{limit}");
        }
        assert_eq!(encode_answer(&object, b"").len() + RECORD.len() + record.len(), size, "who owns what counts");
    }

    #[test]
    fn the_record_of_owners_is_kept_apart() {
        let tricky = r#"x,"managedFields":[1]"#;
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"managedFields": "[2]"},
            "metadata": {"name": "a", "annotations": {"a": tricky, "managedFields": "["}, "managedFields": [3]},
        });
        let record = br#"[{"manager":"m"}]"#;
        let with = Stored::new(encode_answer(&object, record), 7);
        let without = Stored::new(encode_answer(&object, b""), 7);
        assert_eq!((with.record(), without.record()), (&record[..], &b""[..]));
        assert_eq!(with.value(b"{"), without.value(b"{"));
        assert_eq!(with.metadata(), without.metadata());
        assert_eq!(with.value(b"{")["metadata"]["annotations"]["a"], tricky);
        assert_eq!(with.whole_value(b"{")["metadata"]["managedFields"], json!([{"manager": "m"}]));
        assert_eq!(without.whole_value(b"{"), without.value(b"{"));
    }

    #[test]
    fn an_object_reads_back_with_the_revision_that_wrote_it() {
        let object = json!({
            "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": {"name": "a", "resourceVersion": "7", "labels": {"x": "\"quoted\""}},
            "data": {"k": "v", "é": "\n"},
        });
        for revision in [1, 9, 10, 12_345_678_901] {
            let head = br#"{"kind":"ConfigMap","apiVersion":"v1","#;
            let stored = stored(&object, revision);
            let mut expected = object.clone();
            expected["metadata"]["resourceVersion"] = revision.to_string().into();
            assert_eq!(stored.value(head), expected);
            assert_eq!(stored.metadata(), expected["metadata"]);
            let mut text = Vec::new();
            stored.write(b"", &mut text);
            assert_eq!(text.len(), stored.text_len());
        }
    }

    #[test]
    fn what_is_on_its_way_out_says_so_itself() {
        let rows = [
            ("not at all", json!({"name": "a"}), false),
            ("marked", json!({"deletionTimestamp": "2030-01-01T00:00:00Z"}), true),
            ("a label of that name", json!({"labels": {"deletionTimestamp": "x"}}), false),
        ];
        for (row, metadata, expected) in rows {
            assert_eq!(stored(&json!({"metadata": metadata}), 1).is_being_deleted(), expected, "{row}");
        }
    }

    #[test]
    fn the_fields_of_metadata_are_seen_in_the_text() {
        for (name, object, expected) in [
            ("a field", json!({"metadata": {"name": "a", "finalizers": ["x"]}}), true),
            ("the first field", json!({"metadata": {"finalizers": ["x"]}}), true),
            ("a longer name", json!({"metadata": {"finalizersX": 1, "xfinalizers": 2}}), false),
            ("a value", json!({"metadata": {"name": "finalizers", "text": ",\"finalizers\":1"}}), false),
            ("what is not metadata", json!({"metadata": {"name": "a"}, "finalizers": []}), false),
        ] {
            assert_eq!(stored(&object, 1).may_have("finalizers"), expected, "{name}");
        }
    }

    #[test]
    fn metadata_alone_is_an_object() {
        let mut text = Vec::new();
        stored(&json!({"metadata": {"name": "a"}, "data": {"secret": "x"}}), 3).write_metadata(b"{", &mut text);
        assert_eq!(String::from_utf8_lossy(&text), r#"{"metadata":{"resourceVersion":"3","name":"a"}}"#);
    }
}
