//! Field queries such as `metadata.name=web,status.phase!=Running`: their grammar, their text and what they match.

use std::fmt;
use std::str::FromStr;

use serde_json::Value;
use thiserror::Error;

use crate::kind::Behaviour;

/// A field query: every term must hold. Without terms it matches everything.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FieldSelector {
    /// Sorted by text.
    terms: Vec<Term>,
}

/// One comparison of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Term {
    pub field: String,
    pub value: String,
    /// Whether the field must have the value, or must not.
    pub equal: bool,
}

/// Why a text is no field query for a kind, in Kubernetes' words.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FieldSelectorError {
    #[error("invalid selector: '{selector}'; can't understand '{term}'")]
    Term { selector: String, term: String },
    #[error("invalid field selector: invalid escape sequence: {0}")]
    Escape(String),
    /// Kubernetes shows the character as its number.
    #[error("invalid field selector: unescaped character in value: {}", u32::from(*.0))]
    Unescaped(char),
    /// For a kind that has fields of its own to select by.
    #[error("field label not supported: {0}")]
    Unsupported(String),
    /// For a kind that has none.
    #[error("{0:?} is not a known field selector: only \"metadata.name\", \"metadata.namespace\"")]
    Unknown(String),
}

impl FieldSelector {
    /// Whether it restricts nothing.
    pub fn is_empty(&self) -> bool {
        self.terms.is_empty()
    }

    /// The value a field must have, if the query says so: with `metadata.name` it names the one object to look at.
    pub fn exact(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| term.equal && term.field == field).map(|term| term.value.as_str())
    }

    /// Refuses a query by a field that a kind cannot be selected by.
    pub fn check(&self, kind: &dyn Behaviour) -> Result<(), FieldSelectorError> {
        let known = |name: &str| matches!(name, "metadata.name" | "metadata.namespace") || kind.is_selectable(name);
        match self.terms.iter().find(|term| !known(&term.field)) {
            None => Ok(()),
            Some(term) if kind.names_its_selectors() => Err(FieldSelectorError::Unknown(term.field.clone())),
            Some(term) => Err(FieldSelectorError::Unsupported(term.field.clone())),
        }
    }

    /// Whether an object meets every term. A field that a kind does not have is "".
    pub fn matches(&self, object: &Value, kind: &dyn Behaviour) -> bool {
        self.terms.iter().all(|term| {
            let metadata = |name: &str| object["metadata"][name].as_str().unwrap_or_default() == term.value;
            let same = match term.field.as_str() {
                "metadata.name" => metadata("name"),
                "metadata.namespace" => metadata("namespace"),
                name => kind.selected(object, name) == term.value,
            };
            same == term.equal
        })
    }
}

impl FromStr for FieldSelector {
    type Err = FieldSelectorError;

    fn from_str(text: &str) -> Result<Self, FieldSelectorError> {
        let mut parts = split_terms(text);
        parts.sort_unstable();
        let terms = parts.into_iter().filter(|part| !part.is_empty()).map(|part| {
            let (field, equal, value) = split_term(part)
                .ok_or_else(|| FieldSelectorError::Term { selector: text.to_owned(), term: part.to_owned() })?;
            Ok(Term { field: field.to_owned(), value: unescape(value)?, equal })
        });
        Ok(FieldSelector { terms: terms.collect::<Result<_, _>>()? })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            let separator = if index == 0 { "" } else { "," };
            write!(f, "{separator}{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operator = if self.equal { "=" } else { "!=" };
        write!(f, "{}{operator}", self.field)?;
        self.value.chars().try_for_each(|character| match character {
            '\\' | ',' | '=' => write!(f, "\\{character}"),
            _ => write!(f, "{character}"),
        })
    }
}

/// The texts between commas that no backslash escapes.
fn split_terms(text: &str) -> Vec<&str> {
    let mut escaped = false;
    text.split(|character: char| {
        let separates = character == ',' && !escaped;
        escaped = character == '\\' && !escaped;
        separates
    })
    .collect()
}

/// Splits at the first operator: `!=`, `==` or `=`.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    let at = term.char_indices().find(|(at, c)| *c == '=' || term[*at..].starts_with("!="))?.0;
    let (field, rest) = term.split_at(at);
    let unequal = rest.strip_prefix("!=").map(|value| (false, value));
    let (equal, value) = unequal.or_else(|| rest.strip_prefix("==").or(rest.strip_prefix('=')).map(|v| (true, v)))?;
    Some((field, equal, value))
}

fn unescape(text: &str) -> Result<String, FieldSelectorError> {
    let mut value = String::with_capacity(text.len());
    let mut characters = text.chars();
    while let Some(character) = characters.next() {
        match character {
            '\\' => match characters.next() {
                Some(escaped @ ('\\' | ',' | '=')) => value.push(escaped),
                Some(other) => return Err(FieldSelectorError::Escape(format!("\\{other}"))),
                None => return Err(FieldSelectorError::Escape("\\".to_owned())),
            },
            ',' | '=' => return Err(FieldSelectorError::Unescaped(character)),
            _ => value.push(character),
        }
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;
    use crate::kind::{Column, SelectableField};

    /// A kind with these fields to select by.
    #[derive(Debug)]
    struct Selectable(&'static [SelectableField]);

    const PHASE: Selectable = Selectable(&[SelectableField {
        name: "status.phase",
        value: |object| object["status"]["phase"].as_str().unwrap_or_default().to_owned(),
    }]);

    impl Behaviour for Selectable {
        fn columns(&self) -> &[Column] {
            &[]
        }

        fn cells(&self, _: &Value, _: jiff::Timestamp) -> Vec<Value> {
            Vec::new()
        }

        fn selectable_fields(&self) -> &[SelectableField] {
            self.0
        }
    }

    fn parse(text: &str) -> Result<FieldSelector, String> {
        text.parse().map_err(|error: FieldSelectorError| error.to_string())
    }

    #[test]
    fn queries_match() {
        let object = json!({"metadata": {"name": "a", "namespace": "n"}, "status": {"phase": "Run,ning=1"}});
        let rows = [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name==a,metadata.namespace=n", true),
            ("metadata.name!=a", false),
            (r"status.phase=Run\,ning\=1", true),
            ("status.phase!=", true),
            ("metadata.name=b,,", false),
        ];
        for (query, expected) in rows {
            assert_eq!(parse(query).expect(query).matches(&object, &PHASE), expected, "{query}");
        }
        assert_eq!(parse("metadata.name=a").expect("a query").exact("metadata.name"), Some("a"));
        assert_eq!(parse("metadata.name!=a").expect("a query").exact("metadata.name"), None);
    }

    #[test]
    fn bad_queries_are_explained() {
        let rows = [
            ("nope", "invalid selector: 'nope'; can't understand 'nope'"),
            ("a=1,nope", "invalid selector: 'a=1,nope'; can't understand 'nope'"),
            ("a=b=c", "invalid field selector: unescaped character in value: 61"),
            (r"a=\x", r"invalid field selector: invalid escape sequence: \x"),
            ("a=\\", "invalid field selector: invalid escape sequence: \\"),
        ];
        for (query, expected) in rows {
            assert_eq!(parse(query).expect_err(query), expected, "{query}");
        }
    }

    #[test]
    fn unknown_fields_are_refused() {
        let query = parse("spec.image=x").expect("a query");
        let error = |kind: &dyn Behaviour| query.check(kind).expect_err("an unknown field").to_string();
        assert_eq!(error(&PHASE), "field label not supported: spec.image");
        assert_eq!(
            error(&Selectable(&[])),
            r#""spec.image" is not a known field selector: only "metadata.name", "metadata.namespace""#
        );
        assert_eq!(parse("metadata.name=a,status.phase=x").expect("a query").check(&PHASE), Ok(()));
    }

    proptest! {
        #[test]
        fn a_query_reads_back_from_its_text(
            terms in proptest::collection::vec(("[a-z.]{1,8}", "[a-z,=\\\\ !é]{0,6}", any::<bool>()), 0..4)
        ) {
            let terms = terms.into_iter().map(|(field, value, equal)| Term { field, value, equal }).collect();
            let text = FieldSelector { terms }.to_string();
            let once = parse(&text).expect("its own text");
            prop_assert_eq!(parse(&once.to_string()), Ok(once));
        }
    }
}
