//! Whether a custom object is what its schema asks for, in Kubernetes' words.
//!
//! An update is not refused for what was wrong before: a value that did not change is not looked at again.

use std::collections::{HashMap, HashSet};

use serde_json::{Map, Value};

use super::number;
use super::structure::{Checks, Kind, ListKind, Structure};
use setpoint_api::field::{Errors, Fault, Path};

/// Where a value stands: messages name it from where validation began, fields from the object.
#[derive(Debug, Clone, Copy)]
pub struct Place<'p> {
    /// The path of what is validated; "" for the object.
    pub base: &'p str,
    pub path: Path<'p>,
}

impl<'p> Place<'p> {
    pub const OBJECT: Place<'static> = Place { base: "", path: Path::ROOT };

    /// The root of a value that stands at a path.
    pub fn at(base: &'p str) -> Place<'p> {
        Place { base, path: Path::ROOT }
    }

    fn field<'n>(&'n self, name: &'n str) -> Place<'n> {
        Place { base: self.base, path: self.path.field(name) }
    }

    fn index<'n>(&'n self, index: usize) -> Place<'n> {
        Place { base: self.base, path: self.path.index(index) }
    }

    /// The field as errors have it.
    fn shown(&self) -> String {
        let path = self.path.to_string();
        match (self.base, path.as_str()) {
            ("", "") => "<nil>".to_owned(),
            ("", _) => path,
            (base, "") => base.to_owned(),
            (base, path) if path.starts_with('[') => format!("{base}{path}"),
            (base, path) => format!("{base}.{path}"),
        }
    }
}

/// Checks a new value.
pub fn validate(value: &Value, schema: &Structure, place: &Place<'_>, errors: &mut Errors) {
    let mut findings = Findings::default();
    findings.value(value, None, schema, place);
    errors.extend(findings.errors);
}

/// Checks a value that replaces another.
pub fn validate_update(value: &Value, old: &Value, schema: &Structure, place: &Place<'_>, errors: &mut Errors) {
    let mut findings = Findings::default();
    findings.value(value, None, schema, place);
    if findings.errors.is_empty() {
        return;
    }
    let mut findings = Findings::default();
    findings.value(value, Some(old), schema, place);
    errors.extend(findings.errors);
}

/// What was found wrong, and how much was looked at: of several alternatives, that which fits best is told.
#[derive(Default)]
pub(super) struct Findings {
    pub errors: Errors,
    looked_at: usize,
}

impl Findings {
    fn value(&mut self, value: &Value, old: Option<&Value>, schema: &Structure, place: &Place<'_>) {
        if old.is_some_and(|old| old == value) {
            return;
        }
        let checks = &schema.checks;
        self.looked_at += 1;
        self.kind(value, schema, place);
        if value.is_null() {
            self.one_of_values(value, checks, place);
            return;
        }
        self.alternatives(value, old, checks, place);
        match value {
            Value::String(text) => self.text(text, checks, place),
            Value::Number(number) => {
                self.looked_at += 1;
                number::validate(number, schema.kind, checks, place, self);
            }
            Value::Array(items) => self.list(items, old, schema, place),
            _ => {}
        }
        self.one_of_values(value, checks, place);
        if let Value::Object(fields) = value {
            self.object(fields, old, schema, place);
        }
    }

    fn kind(&mut self, value: &Value, schema: &Structure, place: &Place<'_>) {
        let found = kind_name(value);
        // A format stands for the type of a text.
        let by_format = value.is_string() && schema.checks.format().is_some();
        let fits = match schema.kind {
            Kind::Any => true,
            _ if value.is_null() => schema.nullable,
            Kind::Number => value.is_number() || by_format,
            Kind::Integer => number::is_whole(value),
            Kind::IntOrString => number::is_whole(value) || value.is_string(),
            kind => kind.name() == found || by_format,
        };
        if !fits {
            let expected = schema.kind.name();
            self.wrong_type(place, found, &format!("{} in body must be of type {expected}: \"{found}\"", place.path));
        }
    }

    fn text(&mut self, text: &str, checks: &Checks, place: &Place<'_>) {
        self.looked_at += 1;
        let length = text.chars().count() as u64;
        if let Some(max) = checks.max_length().filter(|max| length > *max) {
            let max = usize::try_from(max).unwrap_or(usize::MAX);
            self.errors.too_long(&Path::of(&place.shown()), max);
        } else if let Some(min) = checks.min_length().filter(|min| length < *min) {
            self.invalid(place, text, &format!("{} in body should be at least {min} chars long", place.path));
        } else if let Some(pattern) = checks.pattern().filter(|pattern| !pattern.matches(text)) {
            self.invalid(place, text, &format!("{} in body should match '{}'", place.path, pattern.text));
        }
        if let Some(format) = checks.format() {
            self.looked_at += 1;
            if !format.matches(text) {
                let detail = format!("{} in body must be of type {}: {text:?}", place.path, format.name());
                self.wrong_type(place, text, &detail);
            }
        }
    }

    fn list(&mut self, items: &[Value], old: Option<&Value>, schema: &Structure, place: &Place<'_>) {
        self.looked_at += 1;
        if let Some(element) = &schema.items {
            let replaced = Replaced::of(old, &schema.list);
            for (index, item) in items.iter().enumerate() {
                self.value(item, replaced.by(item), element, &place.index(index));
            }
        }
        let (checks, count) = (&schema.checks, items.len() as u64);
        if let Some(min) = checks.min_items().filter(|min| count < *min) {
            self.invalid(place, count, &format!("{} in body should have at least {min} items", place.path));
        }
        if let Some(max) = checks.max_items().filter(|max| count > *max) {
            self.too_many(place, items.len(), max);
        }
    }

    fn object(&mut self, fields: &Map<String, Value>, old: Option<&Value>, schema: &Structure, place: &Place<'_>) {
        self.looked_at += 1;
        let (checks, count) = (&schema.checks, fields.len() as u64);
        if let Some(min) = checks.min_properties().filter(|min| count < *min) {
            self.invalid(place, count, &format!("{} in body should have at least {min} properties", place.path));
            return;
        }
        if let Some(max) = checks.max_properties().filter(|max| count > *max) {
            self.too_many(place, fields.len(), max);
            return;
        }
        for (name, field) in fields {
            if let Some(below) = schema.entry(name) {
                self.value(field, old.and_then(|old| old.get(name)), below, &place.field(name));
            }
        }
        for name in checks.required().into_iter().flatten().filter(|name| !fields.contains_key(&***name)) {
            self.errors.required(&Path::of(&place.field(name).shown()), "");
        }
    }

    fn one_of_values(&mut self, value: &Value, checks: &Checks, place: &Place<'_>) {
        self.looked_at += 1;
        let Some(allowed) = checks.one_of_values() else { return };
        if allowed.iter().any(|allowed| number::is_same(allowed, value)) {
            return;
        }
        let shown: Vec<String> =
            allowed.iter().map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned)).collect();
        let shown: Vec<&str> = shown.iter().map(String::as_str).collect();
        self.errors.unsupported(&Path::of(&place.shown()), value, &shown);
    }

    fn alternatives(&mut self, value: &Value, old: Option<&Value>, checks: &Checks, place: &Place<'_>) {
        let run = |schema: &Structure| {
            let mut findings = Findings::default();
            findings.value(value, old, schema, place);
            findings
        };
        let path = place.path;
        if let Some(schemas) = checks.any_of() {
            let found: Vec<Findings> = schemas.iter().map(run).collect();
            if !found.iter().any(Findings::is_good) {
                self.whole(place, &format!("\"{path}\" must validate at least one schema (anyOf)"));
                self.merge(best(found));
            }
        }
        if let Some(schemas) = checks.one_of() {
            let found: Vec<Findings> = schemas.iter().map(run).collect();
            let good = found.iter().filter(|found| found.is_good()).count();
            if good != 1 {
                let how_many =
                    if good == 0 { "Found none valid".to_owned() } else { format!("Found {good} valid alternatives") };
                self.whole(place, &format!("\"{path}\" must validate one and only one schema (oneOf). {how_many}"));
            }
            if good == 0 {
                self.merge(best(found));
            }
        }
        if let Some(schemas) = checks.all_of() {
            let found: Vec<Findings> = schemas.iter().map(run).collect();
            let good = found.iter().filter(|found| found.is_good()).count();
            let all = found.len();
            found.into_iter().for_each(|found| self.merge(Some(found)));
            if good != all {
                let none = if good == 0 { ". None validated" } else { "" };
                self.whole(place, &format!("\"{path}\" must validate all the schemas (allOf){none}"));
            }
        }
        if let Some(not) = checks.not()
            && run(not).is_good()
        {
            self.whole(place, &format!("\"{path}\" must not validate the schema (not)"));
        }
    }

    fn is_good(&self) -> bool {
        self.errors.is_empty()
    }

    fn merge(&mut self, other: Option<Findings>) {
        if let Some(Findings { errors, looked_at }) = other {
            self.errors.extend(errors);
            self.looked_at += looked_at;
        }
    }

    pub(super) fn invalid(&mut self, place: &Place<'_>, value: impl serde::Serialize, detail: &str) {
        self.errors.invalid(&Path::of(&place.shown()), value, detail);
    }

    /// An error about no field in particular.
    pub(super) fn whole(&mut self, place: &Place<'_>, detail: &str) {
        let path = if place.base.is_empty() { "<nil>" } else { place.base };
        self.errors.invalid(&Path::of(path), "", detail);
    }

    fn wrong_type(&mut self, place: &Place<'_>, found: &str, detail: &str) {
        let message = || format!("Invalid value: {}: {detail}", Value::from(found));
        self.errors.push(Fault::TypeInvalid, &Path::of(&place.shown()), message);
    }

    fn too_many(&mut self, place: &Place<'_>, count: usize, max: u64) {
        let max = usize::try_from(max).unwrap_or(usize::MAX);
        self.errors.too_many(&Path::of(&place.shown()), count, max);
    }
}

/// The alternative of which most was looked at; the first of several.
fn best(found: Vec<Findings>) -> Option<Findings> {
    found.into_iter().rev().max_by_key(|found| found.looked_at)
}

/// The elements of a keyed list that others replace, by their keys.
#[derive(Default)]
struct Replaced<'v> {
    keys: &'v [Box<str>],
    elements: HashMap<String, &'v Value>,
}

impl<'v> Replaced<'v> {
    fn of(old: Option<&'v Value>, list: &'v ListKind) -> Replaced<'v> {
        let (Some(Value::Array(old)), ListKind::Map(keys)) = (old, list) else { return Replaced::default() };
        // Of several with the same keys, the first counts.
        let elements = old.iter().rev().map(|element| (key_of(element, keys).to_string(), element)).collect();
        Replaced { keys, elements }
    }

    fn by(&self, element: &Value) -> Option<&'v Value> {
        if self.elements.is_empty() {
            return None;
        }
        self.elements.get(&key_of(element, self.keys).to_string()).copied()
    }
}

fn kind_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_f64() => "number",
        Value::Number(_) => "integer",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Checks that the elements of sets and keyed lists occur once.
pub fn validate_lists(value: &Value, schema: &Structure, path: &Path<'_>, errors: &mut Errors) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                match (schema.property(name), &schema.values) {
                    (Some(below), _) => validate_lists(field, below, &path.field(name), errors),
                    (None, Some(values)) => validate_lists(field, values, &path.key(name), errors),
                    (None, None) => {}
                }
            }
        }
        Value::Array(items) => {
            match &schema.list {
                ListKind::Atomic => {}
                ListKind::Set => repeated(items.iter().cloned(), path, errors),
                ListKind::Map(keys) => {
                    if let Some((index, item)) =
                        items.iter().enumerate().find(|(_, item)| !item.is_object() && !item.is_null())
                    {
                        let detail = "must be an object for an array of list-type map";
                        errors.invalid(&path.index(index), item, detail);
                    } else {
                        repeated(items.iter().map(|item| key_of(item, keys)), path, errors);
                    }
                }
            }
            for (index, item) in items.iter().enumerate() {
                if let Some(element) = &schema.items {
                    validate_lists(item, element, &path.index(index), errors);
                }
            }
        }
        _ => {}
    }
}

fn key_of(item: &Value, keys: &[Box<str>]) -> Value {
    let fields = keys.iter().filter_map(|key| Some((key.to_string(), item.get(&**key)?.clone())));
    Value::Object(fields.collect())
}

/// Tells the second of equal values; further ones add nothing.
fn repeated(items: impl Iterator<Item = Value>, path: &Path<'_>, errors: &mut Errors) {
    let (mut seen, mut told) = (HashSet::new(), HashSet::new());
    for (index, item) in items.enumerate() {
        let text = item.to_string();
        if !seen.insert(text.clone()) && told.insert(text) {
            errors.duplicate(&path.index(index), item);
        }
    }
}
