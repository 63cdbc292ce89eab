//! `${NAME}` in values, from Secrets and ConfigMaps that are named, and from nowhere else.
//!
//! What cannot be resolved is an error and is never sent literally. `$${` stands for `${`. A value is put in as it is: a
//! `${NAME}` inside it is not looked at again. Other uses of `$` are left to whoever reads the result, such as a shell.

use std::collections::BTreeMap;
use std::fmt;

use thiserror::Error;

use crate::field::Path;
use crate::names;

/// How long a result may be: as long as an operating system takes one argument.
pub const MAX_RESULT: usize = 128 * 1024;

/// What a value may be taken from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceKind {
    Secret,
    ConfigMap,
}

/// A Secret or ConfigMap and its values, as they were read.
#[derive(Clone, PartialEq, Eq)]
pub struct Source {
    pub kind: SourceKind,
    pub namespace: String,
    pub name: String,
    pub values: BTreeMap<String, Vec<u8>>,
}

/// A result. If anything in it came from a Secret, it shows itself to nobody.
#[derive(Clone, PartialEq, Eq)]
pub struct Text {
    text: String,
    is_sensitive: bool,
}

/// Why a text cannot be sent as it is.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[error("{field}: {problem}")]
pub struct InterpolationError {
    /// The field that the text is in, such as `spec.env[0].value`.
    pub field: String,
    pub problem: Problem,
}

/// What is wrong with a text.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Problem {
    #[error("${{{variable}}} cannot be resolved: {}", Searched(.searched))]
    Unresolved { variable: String, searched: Vec<String> },
    #[error("{source_name} does not exist")]
    NoSource { source_name: String },
    #[error("${{ is never closed; write $${{ if no variable is meant")]
    Unclosed,
    #[error("${{{0}}} is no variable: a name has letters, digits, '-', '_' and '.'; write $${{ if none is meant")]
    BadName(String),
    #[error("${{{variable}}} is not text in {source_name}")]
    NotText { variable: String, source_name: String },
    #[error("is longer than {MAX_RESULT} bytes once variables are replaced")]
    TooLong,
}

impl Text {
    /// A text that came from no Secret.
    pub fn plain(text: impl Into<String>) -> Text {
        Text { text: text.into(), is_sensitive: false }
    }

    /// The text itself, for the one call that sends it.
    pub fn reveal(&self) -> &str {
        &self.text
    }

    /// Whether any of it came from a Secret.
    pub fn is_sensitive(&self) -> bool {
        self.is_sensitive
    }
}

/// Replaces every variable of a text, looking in the sources in their order, or says everything that is wrong with it.
pub fn interpolate(field: &Path<'_>, template: &str, sources: &[&Source]) -> Result<Text, Vec<InterpolationError>> {
    let mut result = Text::plain("");
    let mut problems = Vec::new();
    let mut rest = template;
    while let Some(at) = rest.find("${") {
        let (before, from) = rest.split_at(at);
        if let Some(before) = before.strip_suffix('$') {
            result.text += before;
            result.text += "${";
            rest = &from[2..];
            continue;
        }
        result.text += before;
        let Some(end) = from.find('}') else {
            problems.push(Problem::Unclosed);
            rest = "";
            break;
        };
        match lookup(&from[2..end], sources) {
            Ok((value, kind)) => {
                result.text += value;
                result.is_sensitive |= kind == SourceKind::Secret;
            }
            Err(problem) => problems.push(problem),
        }
        rest = &from[end + 1..];
        if result.text.len() > MAX_RESULT {
            break;
        }
    }
    result.text += rest;
    if result.text.len() > MAX_RESULT {
        problems.push(Problem::TooLong);
    }
    if problems.is_empty() {
        return Ok(result);
    }
    Err(problems.into_iter().map(|problem| InterpolationError { field: field.to_string(), problem }).collect())
}

/// One key of one source, as text.
pub fn key_of(field: &Path<'_>, key: &str, source: &Source) -> Result<Text, Vec<InterpolationError>> {
    match lookup(key, &[source]) {
        Ok((value, kind)) => Ok(Text { text: value.to_owned(), is_sensitive: kind == SourceKind::Secret }),
        Err(problem) => Err(vec![InterpolationError { field: field.to_string(), problem }]),
    }
}

fn lookup<'s>(variable: &str, sources: &[&'s Source]) -> Result<(&'s str, SourceKind), Problem> {
    if !names::config_map_key(variable).is_empty() {
        return Err(Problem::BadName(variable.to_owned()));
    }
    let Some((source, value)) = sources.iter().find_map(|source| Some((source, source.values.get(variable)?))) else {
        let searched = sources.iter().map(ToString::to_string).collect();
        return Err(Problem::Unresolved { variable: variable.to_owned(), searched });
    };
    match std::str::from_utf8(value) {
        Ok(value) if !value.contains('\0') => Ok((value, source.kind)),
        _ => Err(Problem::NotText { variable: variable.to_owned(), source_name: source.to_string() }),
    }
}

/// What was searched, in words.
struct Searched<'a>(&'a [String]);

impl fmt::Display for Searched<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            [] => f.write_str("no Secret or ConfigMap is named to look it up in"),
            names => write!(f, "no such key in {}", names.join(", ")),
        }
    }
}

impl fmt::Display for SourceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SourceKind::Secret => "Secret",
            SourceKind::ConfigMap => "ConfigMap",
        })
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}/{}", self.kind, self.namespace, self.name)
    }
}

/// Shows which keys there are, and no value.
impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} with {:?}", self.values.keys().collect::<Vec<_>>())
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.is_sensitive { "(sensitive)" } else { &self.text })
    }
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_sensitive { f.write_str("(sensitive)") } else { write!(f, "{:?}", self.text) }
    }
}
