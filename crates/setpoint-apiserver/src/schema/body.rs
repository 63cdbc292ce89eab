//! The body of a request: JSON, YAML or protobuf, not yet decoded.
//!
//! YAML is read as Kubernetes reads it: the booleans of YAML 1.1 (`y`, `on`, …), one document, keys as text. Aliases may
//! not multiply a document without bound.

use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;
use serde_saphyr::options::DuplicateKeyPolicy;

use super::decode::{DecodeError, Decoded, Seed, walk};
use super::{MAX_DEPTH, Schema, Shape, protobuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    Json,
    Yaml,
    Protobuf,
}

/// The bytes of a request, and how to read them.
#[derive(Debug, Clone, Copy)]
pub struct Body<'b> {
    pub format: Format,
    pub bytes: &'b [u8],
}

/// What an object says it is; empty where it does not say.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TypeMeta {
    pub api_version: String,
    pub kind: String,
}

impl<'b> Body<'b> {
    pub fn json(bytes: &'b [u8]) -> Body<'b> {
        Body { format: Format::Json, bytes }
    }

    pub fn yaml(bytes: &'b [u8]) -> Body<'b> {
        Body { format: Format::Yaml, bytes }
    }

    pub fn protobuf(bytes: &'b [u8]) -> Body<'b> {
        Body { format: Format::Protobuf, bytes }
    }

    /// Reads only what the object says it is.
    pub fn type_meta(&self) -> Result<TypeMeta, DecodeError> {
        let read = match self.format {
            Format::Json => serde_json::from_slice(self.bytes).map_err(json_error),
            Format::Yaml => from_yaml(self.bytes, |source| TypeMeta::deserialize(source)),
            Format::Protobuf => return protobuf::type_meta(self.bytes),
        };
        read.map_err(DecodeError::Syntax)
    }

    /// Reads an object of this schema.
    pub fn decode(&self, schema: &Schema) -> Result<Decoded, DecodeError> {
        match self.format {
            Format::Protobuf => schema.decode(&protobuf::value(self.bytes, schema)?),
            _ => walk(&schema.definitions, &schema.root, |seed| self.read(seed)),
        }
    }

    /// Reads any value, such as a patch. Not from protobuf, which means nothing without a type.
    pub fn decode_any(&self) -> Result<Decoded, DecodeError> {
        walk(&[], &Shape::Any, |seed| self.read(seed))
    }

    fn read(&self, seed: Seed<'_, '_, '_>) -> Result<Value, String> {
        match self.format {
            Format::Json => {
                let mut source = serde_json::Deserializer::from_slice(self.bytes);
                let value = seed.deserialize(&mut source);
                value.and_then(|value| source.end().map(|()| value)).map_err(json_error)
            }
            Format::Yaml => from_yaml(self.bytes, |source| seed.deserialize(source)),
            Format::Protobuf => Err("a protobuf body is read only as an object of a known type".to_owned()),
        }
    }
}

fn json_error(error: serde_json::Error) -> String {
    if error.is_eof() { "unexpected end of JSON input".to_owned() } else { error.to_string() }
}

fn from_yaml<T, F>(bytes: &[u8], read: F) -> Result<T, String>
where
    F: for<'de, 'e> FnOnce(serde_saphyr::Deserializer<'de, 'e>) -> Result<T, serde_saphyr::Error>,
{
    let value = serde_saphyr::with_deserializer_from_slice_with_options(bytes, yaml_options(), read);
    value.map_err(|error| error.without_snippet().to_string())
}

/// What an anchor holds is kept in memory once for every alias, so both are few.
fn yaml_options() -> serde_saphyr::Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_aliases: 256,
            max_depth: MAX_DEPTH,
            max_documents: 1,
            max_recorded_anchor_bytes: 256 * 1024,
        },
        alias_limits: serde_saphyr::alias_limits! {
            max_total_replayed_events: 100_000,
        },
        duplicate_keys: DuplicateKeyPolicy::LastWins,
        // A mode such as 0644 is octal to Kubernetes' clients and server.
        legacy_octal_numbers: true,
    }
}

impl<'de> Deserialize<'de> for TypeMeta {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<TypeMeta, D::Error> {
        deserializer.deserialize_any(TypeMetaVisitor)
    }
}

/// Reads the two fields wherever they stand, and takes the last if one is repeated.
struct TypeMetaVisitor;

impl<'de> Visitor<'de> for TypeMetaVisitor {
    type Value = TypeMeta;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<TypeMeta, E> {
        Ok(TypeMeta::default())
    }

    // What is no object is not repeated: it may be a secret.

    fn visit_bool<E: serde::de::Error>(self, _value: bool) -> Result<TypeMeta, E> {
        Err(E::custom("an object is needed"))
    }

    fn visit_i64<E: serde::de::Error>(self, _value: i64) -> Result<TypeMeta, E> {
        Err(E::custom("an object is needed"))
    }

    fn visit_u64<E: serde::de::Error>(self, _value: u64) -> Result<TypeMeta, E> {
        Err(E::custom("an object is needed"))
    }

    fn visit_f64<E: serde::de::Error>(self, _value: f64) -> Result<TypeMeta, E> {
        Err(E::custom("an object is needed"))
    }

    fn visit_str<E: serde::de::Error>(self, _value: &str) -> Result<TypeMeta, E> {
        Err(E::custom("an object is needed"))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<TypeMeta, A::Error> {
        let mut meta = TypeMeta::default();
        while let Some(key) = entries.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => meta.api_version = entries.next_value::<Option<String>>()?.unwrap_or_default(),
                "kind" => meta.kind = entries.next_value::<Option<String>>()?.unwrap_or_default(),
                _ => {
                    entries.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(meta)
    }
}
