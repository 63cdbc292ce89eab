//! What differs between a desire and an observation, field by field.
//!
//! A difference that a provider makes by itself (a line end, a unit, an order) is none. A field that could not be read
//! does not differ: it is unknown, and what is unknown is never written.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::fmt;

use serde_json::json;
use setpoint_api::step::{Effect, FieldChange};

use crate::desired::Desired;
use crate::digest::Key;
use crate::observation::{Config, Reading};
use crate::registry::{Capabilities, Field, Normalizer, OtherKeys, Unit};
use crate::value::{Fields, SENSITIVE, Value};

/// The longest text that is shown whole.
const SHOWN_CHARACTERS: usize = 64;
const LINE_ENDS: [char; 2] = ['\r', '\n'];

/// What differs, and what could not be compared.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Diff<'a> {
    /// Sorted by path.
    pub changes: Vec<Change<'a>>,
    /// Fields that are desired but could not be read.
    pub unknown: Vec<&'static str>,
}

/// One field, or one key of a map, that is not as desired.
#[derive(Debug, Clone, Copy)]
pub struct Change<'a> {
    pub field: &'static Field,
    /// The key, where the field is a map.
    pub key: Option<&'a str>,
    pub from: Option<&'a Value>,
    pub to: Option<&'a Value>,
    /// Whether it was written already and takes effect when the guest starts again.
    pub is_pending: bool,
}

/// What differs between a desire and the configuration of its guest. Muted fields are left out.
///
/// Every desired field must be one that the deployer knows; others are passed over.
pub fn diff<'a>(desired: &'a Desired, observed: &'a Config, capabilities: &Capabilities) -> Diff<'a> {
    let mut diff = all_differences(&desired.fields, observed, capabilities);
    if !desired.muted.is_empty() {
        diff.changes.retain(|change| !desired.mutes(&change.path()));
    }
    diff
}

/// The same, muted or not.
pub fn all_differences<'a>(desired: &'a Fields, observed: &'a Config, capabilities: &Capabilities) -> Diff<'a> {
    let mut diff = Diff::default();
    for (name, to) in desired.iter() {
        let Some(field) = capabilities.field(name) else { continue };
        match observed.field(name) {
            Reading::Unknown => diff.unknown.push(field.name),
            Reading::Known(from) if from == to => {}
            Reading::Known(from) => compare(field, Some(from), to, observed.pending(name), &mut diff.changes),
            Reading::Absent => compare(field, None, to, observed.pending(name), &mut diff.changes),
        }
    }
    diff
}

fn compare<'a>(
    field: &'static Field,
    from: Option<&'a Value>,
    to: &'a Value,
    pending: Option<&'a Value>,
    changes: &mut Vec<Change<'a>>,
) {
    if let (Value::Map(_), None | Some(Value::Map(_))) = (to, from) {
        return compare_keys(field, from, to, pending, changes);
    }
    if !same(field, from, Some(to)) {
        let is_pending = pending.is_some_and(|pending| same(field, Some(pending), Some(to)));
        changes.push(Change { field, key: None, from, to: Some(to), is_pending });
    }
}

fn compare_keys<'a>(
    field: &'static Field,
    from: Option<&'a Value>,
    to: &'a Value,
    pending: Option<&'a Value>,
    changes: &mut Vec<Change<'a>>,
) {
    let entry = |map: Option<&'a Value>, key: &str| match map {
        Some(Value::Map(entries)) => entries.get(key),
        _ => None,
    };
    let mut keys: Vec<&'a str> = [from, Some(to)]
        .into_iter()
        .flatten()
        .filter_map(|map| if let Value::Map(entries) = map { Some(entries.iter()) } else { None })
        .flatten()
        .map(|(key, _)| key)
        .collect();
    keys.sort_unstable();
    keys.dedup();
    for key in keys {
        let (from, to) = (entry(from, key), entry(Some(to), key));
        if (to.is_none() && !removes(field, key)) || same(field, from, to) {
            continue;
        }
        let is_pending = pending.is_some_and(|pending| same(field, entry(Some(pending), key), to));
        changes.push(Change { field, key: Some(key), from, to, is_pending });
    }
}

/// Whether a key that is observed but not desired is removed.
fn removes(field: &Field, key: &str) -> bool {
    match field.other_keys {
        OtherKeys::Foreign => false,
        OtherKeys::Ours { except_prefixes } => !except_prefixes.iter().any(|prefix| key.starts_with(prefix)),
    }
}

/// Whether two values of a field count as the same.
pub fn same(field: &Field, one: Option<&Value>, other: Option<&Value>) -> bool {
    let default = || {
        field.normalizers.iter().find_map(|normalizer| match normalizer {
            Normalizer::Default(literal) => Some(literal.value()),
            _ => None,
        })
    };
    match (one, other) {
        (Some(one), Some(other)) => order(field, one, other).is_eq(),
        (Some(some), None) | (None, Some(some)) => {
            default().is_some_and(|default| order(field, some, &default).is_eq())
        }
        (None, None) => true,
    }
}

/// An order of the values of a field in which those that count as the same are equal.
fn order(field: &Field, one: &Value, other: &Value) -> Ordering {
    let has = |normalizer| field.normalizers.contains(&normalizer);
    match (one, other) {
        (Value::Integer(one), Value::Integer(other)) => {
            one.div_euclid(field.unit.size()).cmp(&other.div_euclid(field.unit.size()))
        }
        (Value::List(one), Value::List(other)) => {
            let (mut one, mut other): (Vec<&Value>, Vec<&Value>) = (one.iter().collect(), other.iter().collect());
            if has(Normalizer::Order) {
                one.sort_by(|a, b| order(field, a, b));
                other.sort_by(|a, b| order(field, a, b));
            }
            let items = one.iter().zip(&other).map(|(one, other)| order(field, one, other));
            items.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        (Value::Map(one), Value::Map(other)) => {
            let entries = one.iter().zip(other.iter());
            let entries = entries.map(|(one, other)| one.0.cmp(other.0).then_with(|| order(field, one.1, other.1)));
            entries.fold(Ordering::Equal, Ordering::then).then(one.len().cmp(&other.len()))
        }
        _ => match (one.as_text(), other.as_text()) {
            (Some(one), Some(other)) => order_texts(field, one, other),
            _ => one.cmp(other),
        },
    }
}

fn order_texts(field: &Field, one: &str, other: &str) -> Ordering {
    let has = |normalizer| field.normalizers.contains(&normalizer);
    let (one, other) = if has(Normalizer::TrailingNewline) {
        (one.trim_end_matches(LINE_ENDS), other.trim_end_matches(LINE_ENDS))
    } else {
        (one, other)
    };
    if has(Normalizer::Case) {
        one.chars().flat_map(char::to_lowercase).cmp(other.chars().flat_map(char::to_lowercase))
    } else {
        one.cmp(other)
    }
}

impl Diff<'_> {
    /// What is written to make the changes: whole values, and maps with the keys that are left alone.
    pub fn patch(&self, observed: &Config, takes: impl Fn(&Change<'_>) -> bool) -> Fields {
        let mut patch = Fields::default();
        for change in self.changes.iter().filter(|change| takes(change)) {
            let Some(key) = change.key else {
                if let Some(to) = change.to {
                    patch.set(change.field.name, to.clone());
                }
                continue;
            };
            let name = change.field.name;
            let before = observed.pending(name).or(observed.field(name).known().copied());
            let mut value = patch.remove(name).or_else(|| before.cloned()).unwrap_or(Value::Map(Default::default()));
            if let Value::Map(entries) = &mut value {
                entries.remove(key);
                if let Some(to) = change.to {
                    entries.set(key, to.clone());
                }
            }
            patch.set(name, value);
        }
        patch
    }
}

impl<'a> Change<'a> {
    /// A field of a guest that is not there yet.
    pub fn created(field: &'static Field, to: &'a Value) -> Change<'a> {
        Change { field, key: None, from: None, to: Some(to), is_pending: false }
    }

    /// `memory`, `env.MODEL`.
    pub fn path(&self) -> Cow<'static, str> {
        match self.key {
            Some(key) => Cow::Owned(format!("{}.{key}", self.field.name)),
            None => Cow::Borrowed(self.field.name),
        }
    }

    pub fn effect(&self) -> Effect {
        self.field.effect
    }

    /// Whether an amount becomes less.
    pub fn is_shrink(&self) -> bool {
        matches!((self.from, self.to), (Some(Value::Integer(from)), Some(Value::Integer(to))) if to < from)
    }

    /// What is kept from people: what is secret on either side, and what is removed from a map, since nobody can say
    /// any more whether it was.
    fn is_sensitive(&self) -> bool {
        self.field.sensitive || self.from.is_some_and(Value::is_sensitive) || self.to.is_none_or(Value::is_sensitive)
    }

    /// As people see it.
    pub fn shown(&self) -> FieldChange {
        let shown = |value: &Value| {
            if self.is_sensitive() { SENSITIVE.to_owned() } else { Shown { value, unit: self.field.unit }.to_string() }
        };
        FieldChange {
            field: self.path().into_owned(),
            from: self.from.map(shown),
            to: self.to.map(shown),
            effect: self.effect(),
        }
    }

    /// For digests.
    pub fn to_digestible(&self, key: &Key) -> serde_json::Value {
        let digestible = |value: &Value| {
            if self.is_sensitive() {
                json!({ "keyed": key.digest(crate::digest::canonical(&value.to_digestible(key)).as_bytes()) })
            } else {
                value.to_digestible(key)
            }
        };
        json!({
            "field": self.path(),
            "from": self.from.map(digestible),
            "to": self.to.map(digestible),
            "effect": self.effect(),
            "pending": self.is_pending,
        })
    }
}

impl PartialEq for Change<'_> {
    fn eq(&self, other: &Change<'_>) -> bool {
        (self.field.name, self.key, self.from, self.to, self.is_pending)
            == (other.field.name, other.key, other.from, other.to, other.is_pending)
    }
}

impl Eq for Change<'_> {}

/// `cores 2->4`, `memory 2048MiB->4096MiB`, `env.TOKEN`: values where they are short and may be seen.
impl fmt::Display for Change<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.path())?;
        if self.field.is_prose || self.is_sensitive() {
            return Ok(());
        }
        let unit = self.field.unit;
        match (self.from, self.to) {
            (Some(from), Some(to)) => write!(f, " {}->{}", Shown { value: from, unit }, Shown { value: to, unit }),
            (None, Some(to)) => write!(f, " none->{}", Shown { value: to, unit }),
            (Some(_), None) | (None, None) => Ok(()),
        }
    }
}

/// A value in its provider's unit, shortened.
struct Shown<'v> {
    value: &'v Value,
    unit: Unit,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Value::Integer(amount) = self.value {
            return write!(f, "{}{}", amount.div_euclid(self.unit.size()), self.unit.suffix());
        }
        let text = self.value.to_string();
        let text = text.trim_end_matches(LINE_ENDS).replace(LINE_ENDS, "⏎");
        match text.char_indices().nth(SHOWN_CHARACTERS) {
            Some((end, _)) => write!(f, "{}… ({} bytes)", &text[..end], text.len()),
            None => f.write_str(&text),
        }
    }
}
