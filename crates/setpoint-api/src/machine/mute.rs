//! The annotation that lets named fields of a guest differ.

use std::collections::{BTreeMap, BTreeSet};

use thiserror::Error;

/// The annotation: fields whose drift is neither reported nor corrected, such as `"description,env.MODEL"`.
pub const MUTE_DRIFT: &str = "setpoint.dev/mute-drift";

/// The fields of a guest that can drift; of those marked, also single keys can be named.
const FIELDS: &[(&str, bool)] = &[
    ("args", false),
    ("command", false),
    ("cores", false),
    ("description", false),
    ("disk", false),
    ("env", true),
    ("gpu", true),
    ("image", false),
    ("memory", false),
    ("parameters", true),
    ("ports", true),
    ("run", false),
    ("volumes", true),
];

/// Why the annotation cannot be obeyed. Then it mutes nothing: a misspelt field must not hide another's drift.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum MuteError {
    #[error("names no field between two commas")]
    Empty,
    #[error("names {0:?} twice")]
    Twice(String),
    #[error("names {0:?}, which is no field of a guest; the fields are {1}")]
    Unknown(String, String),
    #[error("names {0:?}, but {1} has no keys")]
    NoKeys(String, String),
}

/// The fields that an object's annotations mute, or everything that is wrong with what they say.
pub fn muted_fields(annotations: &BTreeMap<String, String>) -> Result<BTreeSet<String>, Vec<MuteError>> {
    let Some(text) = annotations.get(MUTE_DRIFT).filter(|text| !text.trim().is_empty()) else {
        return Ok(BTreeSet::new());
    };
    let mut fields = BTreeSet::new();
    let mut errors = Vec::new();
    for field in text.split(',').map(str::trim) {
        match check(field) {
            Err(error) => errors.push(error),
            Ok(()) if !fields.insert(field.to_owned()) => errors.push(MuteError::Twice(field.to_owned())),
            Ok(()) => {}
        }
    }
    if errors.is_empty() { Ok(fields) } else { Err(errors) }
}

fn check(field: &str) -> Result<(), MuteError> {
    let (name, key) = field.split_once('.').map_or((field, None), |(name, key)| (name, Some(key)));
    if field.is_empty() {
        return Err(MuteError::Empty);
    }
    match (FIELDS.iter().find(|(known, _)| *known == name), key) {
        (Some((_, true)), Some(key)) if !key.is_empty() => Ok(()),
        (Some(_), None) => Ok(()),
        (Some((name, false)), Some(_)) => Err(MuteError::NoKeys(field.to_owned(), (*name).to_owned())),
        _ => {
            let known: Vec<&str> = FIELDS.iter().map(|(name, _)| *name).collect();
            Err(MuteError::Unknown(field.to_owned(), known.join(", ")))
        }
    }
}
