//! How a field whose name is no CEL identifier is written in an expression: `foo-bar` as `foo__dash__bar`.

use std::borrow::Cow;

use super::parse::RESERVED;

/// Words that are something else than a name.
const TAKEN: [&str; 4] = ["true", "false", "null", "in"];

const ESCAPES: [(&str, &str); 4] = [("__", "__underscores__"), (".", "__dot__"), ("-", "__dash__"), ("/", "__slash__")];

/// Whether a word cannot be a name in CEL.
fn is_reserved(word: &str) -> bool {
    TAKEN.contains(&word) || RESERVED.contains(&word)
}

/// The identifier for a field, if there is one.
pub(super) fn escape(name: &str) -> Option<Cow<'_, str>> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"_.-/".contains(&b);
    if name.is_empty() || name.as_bytes()[0].is_ascii_digit() || !name.bytes().all(allowed) {
        return None;
    }
    if is_reserved(name) {
        return Some(format!("__{name}__").into());
    }
    if !name.contains("__") && !name.contains(['.', '-', '/']) {
        return Some(name.into());
    }
    let mut escaped = String::with_capacity(name.len() + 16);
    let mut rest = name;
    while let Some(first) = rest.chars().next() {
        match ESCAPES.into_iter().find(|(plain, _)| rest.starts_with(plain)) {
            Some((plain, text)) => {
                escaped.push_str(text);
                rest = &rest[plain.len()..];
            }
            None => {
                escaped.push(first);
                rest = &rest[first.len_utf8()..];
            }
        }
    }
    Some(escaped.into())
}

/// The field that an identifier means; none if it has an escape that does not exist.
pub(super) fn unescape(identifier: &str) -> Option<Cow<'_, str>> {
    let mut name = String::new();
    let mut rest = identifier;
    while let Some((before, contents, after)) = next_escape(rest) {
        name.push_str(before);
        match ESCAPES.into_iter().find(|(_, text)| text[2..text.len() - 2] == *contents) {
            Some((plain, _)) => name.push_str(plain),
            None if is_reserved(contents) && contents.len() + 4 == identifier.len() => name.push_str(contents),
            None => return None,
        }
        rest = after;
    }
    if rest.len() == identifier.len() {
        return Some(identifier.into());
    }
    name.push_str(rest);
    Some(name.into())
}

/// The first `__contents__` of a text: what stands before it, the contents (which hold no underscore), and the rest.
fn next_escape(text: &str) -> Option<(&str, &str, &str)> {
    let mut from = 0;
    loop {
        let start = from + text[from..].find("__")?;
        let inner = &text[start + 2..];
        let length = inner.find('_').unwrap_or(inner.len());
        if length > 0 && inner[length..].starts_with("__") {
            return Some((&text[..start], &inner[..length], &inner[length + 2..]));
        }
        from = start + 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_become_identifiers_and_back() {
        for (name, identifier) in [
            ("plain", "plain"),
            ("snake_case", "snake_case"),
            ("namespace", "__namespace__"),
            ("in", "__in__"),
            ("foo-bar", "foo__dash__bar"),
            ("foo.bar", "foo__dot__bar"),
            ("a/b", "a__slash__b"),
            ("foo__bar", "foo__underscores__bar"),
            ("-", "__dash__"),
            ("a-b.c/d", "a__dash__b__dot__c__slash__d"),
        ] {
            assert_eq!(escape(name).as_deref(), Some(identifier), "{name}");
            assert_eq!(unescape(identifier).as_deref(), Some(name), "{identifier}");
        }
    }

    #[test]
    fn some_names_have_no_identifier() {
        for name in ["", "1a", "a b", "a$", "ü", "a:b"] {
            assert_eq!(escape(name), None, "{name}");
        }
        for identifier in ["__nope__", "a__in__", "x__double__y"] {
            assert_eq!(unescape(identifier), None, "{identifier}");
        }
    }
}
