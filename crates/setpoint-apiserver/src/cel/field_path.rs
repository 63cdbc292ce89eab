//! The `fieldPath` of a rule: where below the rule's own place its failures are reported.

use serde_json::Value;

/// A path such as `.spec.names['a.b']` as it is shown in messages; none if the schema has no such field.
pub(super) fn normalize(path: &str, schema: &Value) -> Option<String> {
    let mut shown = String::new();
    let mut schema = schema;
    let mut rest = path;
    while !rest.is_empty() {
        let (name, after) = step(rest)?;
        if schema["properties"].is_object() {
            schema = schema["properties"].get(&name)?;
            if !shown.is_empty() {
                shown.push('.');
            }
            shown.push_str(&name);
        } else {
            schema = Some(&schema["additionalProperties"]).filter(|values| !values.is_null())?;
            shown.push_str(&format!("[{name}]"));
        }
        rest = after;
    }
    Some(shown)
}

/// The name that comes first, and what follows it.
fn step(path: &str) -> Option<(String, &str)> {
    if let Some(rest) = path.strip_prefix('.') {
        let length = rest.find(['.', '[', ']']).unwrap_or(rest.len());
        let (name, after) = rest.split_at(length);
        return (!name.is_empty()).then(|| (name.to_owned(), after));
    }
    let mut rest = path.strip_prefix("['")?.chars();
    let mut name = String::new();
    loop {
        match rest.next()? {
            '\'' => return Some((name, rest.as_str().strip_prefix(']')?)),
            '\\' => name.push(match rest.next()? {
                'a' => '\x07',
                'b' => '\x08',
                'f' => '\x0c',
                'n' => '\n',
                'r' => '\r',
                't' => '\t',
                'v' => '\x0b',
                c @ ('\'' | '\\') => c,
                _ => return None,
            }),
            c => name.push(c),
        }
    }
}
