//! Stored objects in the form a client asked for.

use bytes::Bytes;
use http::StatusCode;
use jiff::Timestamp;
use serde_json::{Value, json};
use setpoint_store::Revision;
use std::sync::Arc;

use crate::failure::{Failure, Result};
use crate::negotiate::{Encoding, Form, Shape};
use crate::object::Stored;
use crate::pieces::{Pieces, SHARED_BYTES, Sink};
use crate::query::Query;
use crate::registry::Resource;
use crate::response::{self, Response};

const PARTIAL_HEAD: &[u8] = br#"{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","#;
const TABLE_HEAD: &str = r#"{"kind":"Table","apiVersion":"meta.k8s.io/v1","metadata":"#;

/// How many objects are read and written before others have their turn.
const PIECE: usize = 64;

/// How much of each object a table's rows carry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Include {
    Nothing,
    Metadata,
    Object,
}

/// Writes one resource's objects in one form.
#[derive(Debug, Clone)]
pub struct Renderer {
    resource: Arc<Resource>,
    form: Form,
    include: Include,
    now: Timestamp,
}

/// What a list says of itself.
#[derive(Debug, Clone, Default)]
pub struct ListMeta {
    pub revision: Revision,
    pub continue_token: Option<String>,
    pub remaining: Option<u64>,
}

impl ListMeta {
    fn value(&self) -> Value {
        let mut meta = json!({"resourceVersion": self.revision.to_string()});
        if let Some(token) = &self.continue_token {
            meta["continue"] = token.as_str().into();
        }
        if let Some(remaining) = self.remaining {
            meta["remainingItemCount"] = remaining.into();
        }
        meta
    }
}

impl Renderer {
    pub fn new(resource: Arc<Resource>, form: Form, query: &Query, now: Timestamp) -> Result<Renderer> {
        let include = match query.text("includeObject") {
            "" | "Metadata" => Include::Metadata,
            "None" => Include::Nothing,
            "Object" => Include::Object,
            other => {
                return Err(Failure::bad_request(format!(
                    "unrecognized includeObject value: {other:?} (it is None, Metadata or Object)"
                )));
            }
        };
        Ok(Renderer { resource, form, include, now })
    }

    /// Goes on with the resource as it is defined now.
    pub fn redefine(&mut self, resource: Arc<Resource>) {
        self.resource = resource;
    }

    pub fn form(&self) -> Form {
        self.form
    }

    /// An answer that is one object.
    pub fn object(&self, code: StatusCode, stored: &Stored) -> Response {
        if self.form.encoding == Encoding::Json && stored.text_len() >= SHARED_BYTES {
            let mut text = Pieces::default();
            self.write_object(stored, true, &mut text);
            let mut response = response::chunked(text.len(), text.finish().into_iter());
            *response.status_mut() = code;
            return response;
        }
        let mut text = Vec::with_capacity(stored.text_len() + 128);
        self.write_object(stored, true, &mut text);
        response::encoded(code, self.form.encoding, text)
    }

    /// Appends one object as it stands alone; a table of one row where tables were asked for.
    pub fn write_object(&self, stored: &Stored, columns: bool, into: &mut impl Sink) {
        match self.form.shape {
            Shape::Full => self.write_full(self.resource.head(), stored, into),
            Shape::Partial => stored.write_metadata(PARTIAL_HEAD, into),
            Shape::Table => {
                let meta = ListMeta { revision: stored.revision(), ..ListMeta::default() };
                into.put(self.table_head(&meta, columns).as_bytes());
                self.write_row(stored, into);
                into.put(b"]}");
            }
        }
    }

    /// An answer that is a list, made piece by piece while it is sent.
    pub fn list(&self, meta: &ListMeta, items: Vec<Stored>) -> Response {
        let head = match self.form.shape {
            Shape::Table => self.table_head(meta, true),
            Shape::Full => format!(
                r#"{{"kind":"{}","apiVersion":"{}","metadata":{},"items":["#,
                self.resource.list_kind,
                self.resource.api_version(),
                self.list_meta(meta)
            ),
            Shape::Partial => format!(
                r#"{{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{},"items":["#,
                meta.value()
            ),
        };
        if items.is_empty() && self.form.shape == Shape::Partial {
            // So does Kubernetes, and clients read null as an empty list.
            let text = format!("{}null}}", head.trim_end_matches('['));
            return response::encoded(StatusCode::OK, self.form.encoding, text.into_bytes());
        }
        if self.form == Form::JSON && items.iter().all(|item| self.resource.is_shown_as_stored(item)) {
            return self.list_of_stored(head, items);
        }
        let many = items.len() > PIECE;
        let pieces = self.clone().pieces(head, items);
        match self.form.encoding {
            Encoding::Json if many => response::pieces(pieces),
            encoding => response::encoded(StatusCode::OK, encoding, pieces.collect::<Vec<_>>().concat()),
        }
    }

    /// The text of a list whose objects are not shown as they are stored: each has to be read, which takes its time.
    fn pieces(self, head: String, items: Vec<Stored>) -> impl Iterator<Item = Vec<u8>> + Send {
        let mut items = items.into_iter();
        let mut before = Some(head.into_bytes());
        std::iter::from_fn(move || {
            let mut text = before.take()?;
            for item in items.by_ref().take(PIECE) {
                self.write_item(&item, &mut text);
                text.push(b',');
            }
            match items.len() {
                0 => {
                    text.pop_if(|last| *last == b',');
                    text.extend_from_slice(b"]}");
                }
                _ => before = Some(Vec::new()),
            }
            Some(text)
        })
    }

    /// A list of whole objects is a concatenation of what is stored.
    fn list_of_stored(&self, head: String, items: Vec<Stored>) -> Response {
        const CHUNK: usize = 64 * 1024;
        let commas = items.len().saturating_sub(1);
        let item_head = self.item_head();
        let text: usize = items.iter().map(|item| item_head.len() + item.text_len()).sum();
        let length = head.len() + text + commas + "]}".len();
        let mut items = items.into_iter();
        let mut head = Some(head);
        let mut done = false;
        let chunks = std::iter::from_fn(move || {
            if done {
                return None;
            }
            let first = head.is_some();
            let mut chunk = Pieces::with_capacity(CHUNK + CHUNK / 4);
            chunk.put(head.take().unwrap_or_default().as_bytes());
            let mut at_start = first;
            while chunk.len() < CHUNK {
                let Some(item) = items.next() else {
                    chunk.put(b"]}");
                    done = true;
                    break;
                };
                if !std::mem::take(&mut at_start) {
                    chunk.put(b",");
                }
                item.write(&item_head, &mut chunk);
            }
            Some(chunk.finish())
        });
        response::chunked(length, chunks.flatten())
    }

    fn write_item(&self, stored: &Stored, into: &mut Vec<u8>) {
        match self.form.shape {
            Shape::Full => self.write_full(&self.item_head(), stored, into),
            Shape::Partial => stored.write_metadata(PARTIAL_HEAD, into),
            Shape::Table => self.write_row(stored, into),
        }
    }

    /// What stands before the metadata of an object in a list. Custom objects say there, too, what they are.
    fn item_head(&self) -> Bytes {
        if self.resource.custom.is_some() { self.resource.head().clone() } else { Bytes::from_static(b"{") }
    }

    /// Lists of custom objects say, too, that they do not go on.
    fn list_meta(&self, meta: &ListMeta) -> Value {
        let mut value = meta.value();
        if self.resource.custom.is_some() && meta.continue_token.is_none() {
            value["continue"] = "".into();
        }
        value
    }

    fn write_full(&self, head: &[u8], stored: &Stored, into: &mut impl Sink) {
        if self.resource.is_shown_as_stored(stored) {
            return stored.write(head, into);
        }
        let text = self.resource.converted_text(stored, head != b"{");
        into.put_part(&text, 0..text.len());
    }

    fn write_row(&self, stored: &Stored, into: &mut impl Sink) {
        let object = self.resource.value(stored);
        let cells = Value::Array(self.resource.behaviour.cells(&object, self.now));
        into.put(br#"{"cells":"#);
        into.put(cells.to_string().as_bytes());
        match self.include {
            Include::Nothing => {}
            Include::Metadata => {
                into.put(br#","object":"#);
                stored.write_metadata(PARTIAL_HEAD, into);
            }
            Include::Object => {
                into.put(br#","object":"#);
                self.write_full(self.resource.head(), stored, into);
            }
        }
        into.put(b"}");
    }

    fn table_head(&self, meta: &ListMeta, columns: bool) -> String {
        let definitions = if columns { self.resource.behaviour.column_definitions() } else { Vec::new() };
        format!(r#"{TABLE_HEAD}{},"columnDefinitions":{},"rows":["#, meta.value(), Value::Array(definitions))
    }

    /// Whether every client that asked for this form gets the very same bytes.
    pub fn is_shared(&self) -> bool {
        self.form.encoding == Encoding::Json && self.form.shape == Shape::Full && self.resource.is_stored_version()
    }
}
