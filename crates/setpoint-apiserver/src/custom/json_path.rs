//! The paths of printer columns: the part of JSONPath that definitions use.
//!
//! Fields (`.spec.size`, `['a.b']`), positions (`[0]`, `[-1]`), everything (`[*]`, `.*`), and elements of which a field has
//! a value (`[?(@.type=="Ready")]`). Slices, unions, recursion and other comparisons are not read; a column with such a
//! path is empty.

use serde_json::Value;

/// A path through an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct JsonPath(Box<[Step]>);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Step {
    Field(Box<str>),
    Position(i64),
    All,
    /// The elements of which the value at a path is, or is not, this one.
    Where {
        path: JsonPath,
        equal: bool,
        value: Value,
    },
}

impl JsonPath {
    /// Reads a path; `None` if it is none of those known here.
    pub fn parse(text: &str) -> Option<JsonPath> {
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner)?;
                (bracketed(inner[..end].trim())?, &inner[end + 1..])
            } else {
                let name = rest.strip_prefix('.')?;
                let end = name_end(name);
                match &name[..end] {
                    "" if name.is_empty() && steps.is_empty() => break,
                    "" if name.starts_with('[') => {
                        rest = name;
                        continue;
                    }
                    "" => return None,
                    "*" => (Step::All, &name[end..]),
                    field => (Step::Field(field.replace('\\', "").into()), &name[end..]),
                }
            };
            steps.push(step);
            rest = after;
        }
        Some(JsonPath(steps.into()))
    }

    /// The first value that the path leads to.
    pub fn first<'v>(&self, value: &'v Value) -> Option<&'v Value> {
        find(&self.0, value)
    }
}

fn find<'v>(steps: &[Step], value: &'v Value) -> Option<&'v Value> {
    let Some((step, rest)) = steps.split_first() else { return Some(value) };
    match step {
        Step::Field(name) => find(rest, value.get(&**name)?),
        Step::Position(position) => {
            let items = value.as_array()?;
            let back = || items.len().checked_sub(usize::try_from(position.unsigned_abs()).ok()?);
            let index = if *position < 0 { back()? } else { usize::try_from(*position).ok()? };
            find(rest, items.get(index)?)
        }
        Step::All => match value {
            Value::Array(items) => items.iter().find_map(|item| find(rest, item)),
            Value::Object(fields) => fields.values().find_map(|field| find(rest, field)),
            _ => None,
        },
        Step::Where { path, equal, value: wanted } => {
            let chosen = |item: &&Value| find(&path.0, item).is_some_and(|found| (found == wanted) == *equal);
            value.as_array()?.iter().filter(chosen).find_map(|item| find(rest, item))
        }
    }
}

/// Where a bracket ends that has begun.
fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0_usize;
    for (at, character) in text.char_indices() {
        match (quote, character) {
            (Some(open), _) if open == character => quote = None,
            (Some(_), _) => {}
            (None, '\'' | '"') => quote = Some(character),
            (None, '[' | '(') => depth += 1,
            (None, ']') if depth == 0 => return Some(at),
            (None, ']' | ')') => depth = depth.checked_sub(1)?,
            _ => {}
        }
    }
    None
}

/// Where a name ends: at the next dot or bracket that is not escaped.
fn name_end(text: &str) -> usize {
    let mut escaped = false;
    for (at, character) in text.char_indices() {
        match character {
            '\\' if !escaped => escaped = true,
            '.' | '[' if !escaped => return at,
            _ => escaped = false,
        }
    }
    text.len()
}

fn bracketed(text: &str) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(name) = quoted(text) {
        return Some(Step::Field(name.into()));
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        let (at, equal) = filter.find("==").map(|at| (at, true)).or_else(|| filter.find("!=").map(|at| (at, false)))?;
        let path = JsonPath::parse(filter[..at].trim().strip_prefix('@')?)?;
        let value = filter[at + 2..].trim();
        let value = quoted(value).map(Value::from).or_else(|| serde_json::from_str(value).ok())?;
        return Some(Step::Where { path, equal, value });
    }
    text.parse().ok().map(Step::Position)
}

fn quoted(text: &str) -> Option<&str> {
    ['\'', '"'].into_iter().find_map(|quote| text.strip_prefix(quote)?.strip_suffix(quote))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_path_leads_to_the_first_value() {
        let object = json!({
            "spec": {"size": 2, "a.b": "dotted", "list": [1, 2, 3]},
            "status": {"conditions": [
                {"type": "Other", "status": "False"},
                {"type": "Ready", "status": "True", "reason": "It is"},
            ]},
        });
        let rows = [
            (".spec.size", json!(2)),
            ("$.spec.size", json!(2)),
            (".spec['a.b']", json!("dotted")),
            (r".spec.a\.b", json!("dotted")),
            (".spec.list[0]", json!(1)),
            (".spec.list[-1]", json!(3)),
            (".spec.list[*]", json!(1)),
            (".spec.list[9]", Value::Null),
            (".spec.absent.deeper", Value::Null),
            (r#".status.conditions[?(@.type=="Ready")].status"#, json!("True")),
            (".status.conditions[?(@.type=='Ready')].reason", json!("It is")),
            (r#".status.conditions[?(@.type!="Ready")].status"#, json!("False")),
            (r#".status.conditions[?(@.type=="Absent")].status"#, Value::Null),
            (".status.conditions[*].reason", json!("It is")),
        ];
        for (text, expected) in rows {
            let path = JsonPath::parse(text).unwrap_or_else(|| panic!("{text} is a path"));
            assert_eq!(path.first(&object).cloned().unwrap_or_default(), expected, "{text}");
        }
        for text in ["spec", ".a[", ".a[1:2]", "..a", ".a[?(@.b>1)]"] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }
}
