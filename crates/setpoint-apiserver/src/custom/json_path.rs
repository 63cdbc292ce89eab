//! The paths of printer columns, in the JSONPath that Kubernetes reads.
//!
//! Fields (`.spec.size`, `['a.b']`), positions (`[0]`, `[-1]`), slices (`[1:3]`), several of these (`[0,2]`), everything
//! (`[*]`, `.*`), everything below (`..name`), and elements chosen by a comparison (`[?(@.type=="Ready")]`). A column shows
//! the first value that its path leads to.
//!
//! So that a path is read and followed in a time that its length and the object's size bound, it may look below only once,
//! and a comparison holds no other.

use std::cmp::Ordering;

use serde_json::Value;

/// A path through an object.
#[derive(Debug, Clone, PartialEq)]
pub struct JsonPath(Box<[Step]>);

#[derive(Debug, Clone, PartialEq)]
enum Step {
    Field(Box<str>),
    Position(i64),
    Slice {
        start: i64,
        end: Option<i64>,
        step: usize,
    },
    /// What each of these leads to, in their order.
    Each(Box<[Step]>),
    All,
    /// The value and everything in it that has parts.
    Below,
    /// The elements for which a path leads somewhere, or to a value that compares as it should.
    Where {
        left: Operand,
        test: Option<(Comparison, Operand)>,
    },
}

#[derive(Debug, Clone, PartialEq)]
enum Operand {
    Path(JsonPath),
    Constant(Value),
}

/// Where a path stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    Outside,
    InFilter,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Comparison {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// The longer ones first: one may begin as another.
const COMPARISONS: [(&str, Comparison); 6] = [
    ("==", Comparison::Equal),
    ("!=", Comparison::NotEqual),
    ("<=", Comparison::LessOrEqual),
    (">=", Comparison::GreaterOrEqual),
    ("<", Comparison::Less),
    (">", Comparison::Greater),
];

impl JsonPath {
    /// Reads a path; `None` if it is none.
    pub fn parse(text: &str) -> Option<JsonPath> {
        JsonPath::read(text, Place::Outside)
    }

    fn read(text: &str, place: Place) -> Option<JsonPath> {
        let mut rest = text.strip_prefix('$').unwrap_or(text);
        let mut steps = Vec::new();
        while !rest.is_empty() {
            let (step, after) = if let Some(inner) = rest.strip_prefix('[') {
                let end = closing(inner)?;
                (bracketed(inner[..end].trim(), place)?, &inner[end + 1..])
            } else if let Some(below) = rest.strip_prefix("..") {
                if place == Place::InFilter || steps.contains(&Step::Below) {
                    return None;
                }
                steps.push(Step::Below);
                match below.starts_with('[') {
                    true => {
                        rest = below;
                        continue;
                    }
                    false => named(below)?,
                }
            } else {
                let name = rest.strip_prefix('.')?;
                if name.is_empty() && steps.is_empty() {
                    break;
                }
                if name.starts_with('[') {
                    rest = name;
                    continue;
                }
                named(name)?
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
            find(rest, items.get(counted_from_end(*position, items.len())?)?)
        }
        Step::Slice { start, end, step } => {
            let items = value.as_array()?;
            let first = counted_from_end(*start, items.len())?;
            let last = counted_from_end(end.unwrap_or(i64::MAX), items.len())?.min(items.len());
            items.get(first..last)?.iter().step_by(*step).find_map(|item| find(rest, item))
        }
        Step::Each(steps) => {
            steps.iter().find_map(|step| find(std::slice::from_ref(step), value).and_then(|found| find(rest, found)))
        }
        Step::All => parts(value).find_map(|part| find(rest, part)),
        Step::Below => below(rest, value),
        Step::Where { left, test } => {
            value.as_array()?.iter().filter(|item| chosen(left, test.as_ref(), item)).find_map(|item| find(rest, item))
        }
    }
}

fn parts(value: &Value) -> impl Iterator<Item = &Value> {
    let (items, fields) = (value.as_array(), value.as_object());
    items.into_iter().flatten().chain(fields.into_iter().flat_map(|fields| fields.values()))
}

fn below<'v>(rest: &[Step], value: &'v Value) -> Option<&'v Value> {
    parts(value).next()?;
    find(rest, value).or_else(|| parts(value).find_map(|part| below(rest, part)))
}

fn counted_from_end(position: i64, length: usize) -> Option<usize> {
    let distance = usize::try_from(position.unsigned_abs()).unwrap_or(usize::MAX);
    if position < 0 { length.checked_sub(distance) } else { Some(distance) }
}

fn chosen(left: &Operand, test: Option<&(Comparison, Operand)>, item: &Value) -> bool {
    let Some(left) = left.value(item) else { return false };
    let Some((comparison, right)) = test else { return true };
    let Some(right) = right.value(item) else { return false };
    let ordered = |holds: fn(Ordering) -> bool| order(left, right).is_some_and(holds);
    match comparison {
        Comparison::Equal => left == right,
        Comparison::NotEqual => left != right,
        Comparison::Less => ordered(Ordering::is_lt),
        Comparison::LessOrEqual => ordered(Ordering::is_le),
        Comparison::Greater => ordered(Ordering::is_gt),
        Comparison::GreaterOrEqual => ordered(Ordering::is_ge),
    }
}

impl Operand {
    fn value<'v>(&'v self, item: &'v Value) -> Option<&'v Value> {
        match self {
            Operand::Path(path) => path.first(item),
            Operand::Constant(value) => Some(value),
        }
    }
}

fn order(left: &Value, right: &Value) -> Option<Ordering> {
    match (left, right) {
        (Value::String(left), Value::String(right)) => Some(left.cmp(right)),
        _ => left.as_f64()?.partial_cmp(&right.as_f64()?),
    }
}

/// A name and what follows it.
fn named(text: &str) -> Option<(Step, &str)> {
    let end = name_end(text);
    match &text[..end] {
        "" => None,
        "*" => Some((Step::All, &text[end..])),
        field => Some((Step::Field(field.replace('\\', "").into()), &text[end..])),
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

fn bracketed(text: &str, place: Place) -> Option<Step> {
    if text == "*" {
        return Some(Step::All);
    }
    if let Some(filter) = text.strip_prefix("?(").and_then(|text| text.strip_suffix(')')) {
        return if place == Place::InFilter { None } else { filtered(filter) };
    }
    if text.contains(',') && quoted(text).is_none() {
        return Some(Step::Each(text.split(',').map(|part| single(part.trim())).collect::<Option<_>>()?));
    }
    single(text)
}

/// A quoted name, a slice or a position.
fn single(text: &str) -> Option<Step> {
    match quoted(text) {
        Some(name) => Some(Step::Field(name.into())),
        None if text.contains(':') => sliced(text),
        None => text.parse().ok().map(Step::Position),
    }
}

fn sliced(text: &str) -> Option<Step> {
    let mut parts = text.split(':').map(str::trim);
    let mut number = || match parts.next() {
        None | Some("") => Some(None),
        Some(part) => part.parse::<i64>().ok().map(Some),
    };
    let (start, end, step) = (number()?, number()?, number()?);
    let step = usize::try_from(step.unwrap_or(1)).ok().filter(|step| *step > 0)?;
    parts.next().is_none().then_some(Step::Slice { start: start.unwrap_or(0), end, step })
}

fn filtered(text: &str) -> Option<Step> {
    let place = |sign: &str| text.find(sign).map(|at| (at, sign.len()));
    let signs = COMPARISONS.iter().filter_map(|(sign, comparison)| Some((place(sign)?, *comparison)));
    match signs.min_by_key(|((at, length), _)| (*at, std::cmp::Reverse(*length))) {
        None => Some(Step::Where { left: operand(text)?, test: None }),
        Some(((at, length), comparison)) => {
            let right = operand(&text[at + length..])?;
            Some(Step::Where { left: operand(&text[..at])?, test: Some((comparison, right)) })
        }
    }
}

fn operand(text: &str) -> Option<Operand> {
    let text = text.trim();
    match text.strip_prefix('@') {
        Some(path) => JsonPath::read(path, Place::InFilter).map(Operand::Path),
        None => quoted(text).map(Value::from).or_else(|| serde_json::from_str(text).ok()).map(Operand::Constant),
    }
}

fn quoted(text: &str) -> Option<&str> {
    let inside = |quote: char| text.strip_prefix(quote)?.strip_suffix(quote).filter(|name| !name.contains(quote));
    inside('\'').or_else(|| inside('"'))
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
            (".spec.list[1:]", json!(2)),
            (".spec.list[-2:3]", json!(2)),
            (".spec.list[9:]", Value::Null),
            (".spec.list[7,1]", json!(2)),
            (".spec['absent','a.b']", json!("dotted")),
            ("..reason", json!("It is")),
            (".status.conditions[?(@.reason)].type", json!("Ready")),
            (".status.conditions[?(@.type>\"Ready\")].type", Value::Null),
            (".status.conditions[?(@.type>=\"P\")].status", json!("True")),
        ];
        for (text, expected) in rows {
            let path = JsonPath::parse(text).unwrap_or_else(|| panic!("{text} is a path"));
            assert_eq!(path.first(&object).cloned().unwrap_or_default(), expected, "{text}");
        }
        for text in [
            "spec",
            ".a[",
            ".a[1:2:0]",
            ".a[1:2:3:4]",
            "..",
            ".a.",
            ".a[?(@.b>)]",
            ".a[x]",
            "..a..b",
            ".a[?(@[?(@.b)])]",
        ] {
            assert_eq!(JsonPath::parse(text), None, "{text}");
        }
    }
}
