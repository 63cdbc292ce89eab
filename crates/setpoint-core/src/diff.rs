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
use crate::observation::{Config, Reading};
use crate::registry::{Capabilities, Field, Normalizer, OtherKeys, Unit};
use crate::value::{Fields, Map, SENSITIVE, Value};

/// The longest text that is shown whole in a line of many, and to who decides on it.
const IN_A_LINE: usize = 64;
const TO_DECIDE: usize = 1024;
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
    /// How the change takes effect.
    pub effect: Effect,
    /// Whether it was written already and takes effect when the guest starts again.
    pub is_pending: bool,
    /// Whether what was observed may be a secret that nobody desires any more.
    hides_from: bool,
}

/// What differs between a desire and the configuration of its guest, muted or not.
///
/// Every desired field must be one that the deployer knows; others are passed over.
pub fn diff<'a>(desired: &'a Desired, observed: &'a Config, capabilities: &Capabilities) -> Diff<'a> {
    let mut comparison = Comparison { desired, diff: Diff::default() };
    for (name, to) in desired.fields.iter() {
        let Some(field) = capabilities.field(name) else { continue };
        match observed.field(name) {
            Reading::Unknown => comparison.diff.unknown.push(field.name),
            Reading::Known(from) => comparison.field(field, Some(from), to, observed.pending(name)),
            Reading::Absent => comparison.field(field, None, to, observed.pending(name)),
        }
    }
    comparison.diff
}

struct Comparison<'a> {
    desired: &'a Desired,
    diff: Diff<'a>,
}

impl<'a> Comparison<'a> {
    fn field(&mut self, field: &'static Field, from: Option<&'a Value>, to: &'a Value, pending: Option<&'a Value>) {
        if pending.is_none() && from == Some(to) {
            return;
        }
        let (Value::Map(wanted), None | Some(Value::Map(_))) = (to, from) else {
            return self.value(field, None, from, Some(to), pending.map(Some));
        };
        let entries = |map: Option<&'a Value>| match map {
            Some(Value::Map(entries)) => Some(entries),
            _ => None,
        };
        let (from, pending) = (entries(from), entries(pending));
        let names = |map: &'a Map| map.iter().map(|(key, _)| key);
        let all = names(wanted).chain(from.into_iter().flat_map(names)).chain(pending.into_iter().flat_map(names));
        let mut keys: Vec<&'a str> = all.collect();
        keys.sort_unstable();
        keys.dedup();
        for key in keys {
            let to = wanted.get(key);
            if to.is_some() || removes(field, key) {
                let pending = pending.map(|pending| pending.get(key));
                self.value(field, Some(key), from.and_then(|from| from.get(key)), to, pending);
            }
        }
    }

    /// Compares one value, in effect and pending.
    fn value(
        &mut self,
        field: &'static Field,
        key: Option<&'a str>,
        from: Option<&'a Value>,
        to: Option<&'a Value>,
        pending: Option<Option<&'a Value>>,
    ) {
        let pending_is_right = pending.map(|pending| same(field, pending, to));
        let (from, effect) = match (same(field, from, to), pending_is_right) {
            (true, None | Some(true)) => return,
            // As desired for now; but something else would take effect at the next start.
            (true, Some(false)) => (pending.flatten(), Effect::InPlace),
            (false, _) => (from, field.effect),
        };
        let mut change =
            Change { field, key, from, to, effect, is_pending: pending_is_right == Some(true), hides_from: false };
        change.hides_from = self.may_have_been_secret(field, &change.path());
        self.diff.changes.push(change);
    }

    fn may_have_been_secret(&self, field: &Field, path: &str) -> bool {
        let record = &self.desired.record;
        (field.may_be_secret && record.spec_digest.is_none()) || record.secrets.iter().any(|secret| **secret == *path)
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
    /// Leaves out what is muted.
    pub fn unmuted(mut self, desired: &Desired) -> Self {
        if !desired.muted.is_empty() {
            self.changes.retain(|change| !desired.mutes(&change.path()));
        }
        self
    }

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
        let effect = field.effect;
        Change { field, key: None, from: None, to: Some(to), effect, is_pending: false, hides_from: false }
    }

    /// `memory`, `env.MODEL`.
    pub fn path(&self) -> Cow<'static, str> {
        match self.key {
            Some(key) => Cow::Owned(format!("{}.{key}", self.field.name)),
            None => Cow::Borrowed(self.field.name),
        }
    }

    /// Whether an amount becomes less, at any depth.
    pub fn is_shrink(&self) -> bool {
        matches!((self.from, self.to), (Some(from), Some(to)) if shrinks(from, to))
    }

    /// Whether it is a shrink of something that only grows.
    pub fn is_refused_shrink(&self) -> bool {
        (self.effect == Effect::Grow || self.field.holds_data) && self.is_shrink()
    }

    /// Whether data that the field describes is lost, though the guest stays.
    pub fn loses_data(&self) -> bool {
        self.field.holds_data && self.from.is_some() && self.to.is_none()
    }

    /// What is kept from people, on both sides. Of what goes and may have come from a Secret nothing says that it did not.
    fn is_sensitive(&self) -> bool {
        self.field.sensitive
            || self.from.is_some_and(Value::is_sensitive)
            || self.to.map_or(self.field.may_be_secret, Value::is_sensitive)
    }

    /// As people see it.
    pub fn shown(&self) -> FieldChange {
        let unit = self.field.unit;
        let (hides_from, hides_to) = (self.is_sensitive() || self.hides_from, self.is_sensitive());
        let shown = |value, other, hides| {
            if hides { SENSITIVE.to_owned() } else { Shown { value, other, unit, room: TO_DECIDE }.to_string() }
        };
        FieldChange {
            field: self.path().into_owned(),
            from: self.from.map(|from| shown(from, self.to, hides_from)),
            to: self.to.map(|to| shown(to, self.from.filter(|_| !self.hides_from), hides_to)),
            effect: self.effect,
        }
    }

    /// For digests, which are keyed.
    pub(crate) fn reveal(&self) -> serde_json::Value {
        json!({
            "field": self.path(),
            "from": self.from.map(Value::reveal),
            "to": self.to.map(Value::reveal),
            "effect": self.effect,
            "pending": self.is_pending,
        })
    }
}

fn shrinks(from: &Value, to: &Value) -> bool {
    match (from, to) {
        (Value::Integer(from), Value::Integer(to)) => to < from,
        (Value::Map(from), Value::Map(to)) => {
            from.iter().any(|(key, from)| to.get(key).is_some_and(|to| shrinks(from, to)))
        }
        _ => false,
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
        match (self.from.filter(|_| !self.hides_from), self.to) {
            (None, Some(_)) if self.hides_from => Ok(()),
            (Some(from), Some(to)) => {
                let shown = |value, other| Shown { value, other: Some(other), unit, room: IN_A_LINE };
                write!(f, " {}->{}", shown(from, to), shown(to, from))
            }
            (None, Some(to)) => write!(f, " none->{}", Shown { value: to, other: None, unit, room: IN_A_LINE }),
            (Some(_), None) | (None, None) => Ok(()),
        }
    }
}

/// A value of a field as a person reads it, in its provider's unit.
pub fn text(field: &Field, value: &Value) -> String {
    let hides = field.sensitive || value.is_sensitive();
    if hides {
        SENSITIVE.to_owned()
    } else {
        Shown { value, other: None, unit: field.unit, room: IN_A_LINE }.to_string()
    }
}

/// A value in its provider's unit. Of a long one only the part is shown where it first differs from the other.
struct Shown<'v> {
    value: &'v Value,
    other: Option<&'v Value>,
    unit: Unit,
    /// How many characters of it are shown.
    room: usize,
}

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Value::Integer(amount) = self.value {
            return f.write_str(&self.unit.show(*amount));
        }
        let whole = in_unit(self.value, self.unit).to_string();
        let whole = whole.trim_end_matches('⏎');
        // Most are short, and there are as many as guests have fields.
        if whole.len() <= self.room {
            return f.write_str(whole);
        }
        let text: Vec<char> = whole.chars().collect();
        if text.len() <= self.room {
            return f.write_str(whole);
        }
        let other = self.other.map(|other| in_unit(other, self.unit).to_string()).unwrap_or_default();
        let common = text.iter().zip(other.chars()).take_while(|(one, other)| **one == *other).count();
        let start = if common < self.room { 0 } else { common - self.room / 4 };
        let start = start.min(text.len() - self.room);
        let excerpt: String = text[start..start + self.room].iter().collect();
        let (before, after) = (if start > 0 { "…" } else { "" }, if start + self.room < text.len() { "…" } else { "" });
        write!(f, "{before}{excerpt}{after} ({} bytes)", whole.len())
    }
}

/// The same with its amounts as a person reads them.
fn in_unit(value: &Value, unit: Unit) -> Cow<'_, Value> {
    match value {
        Value::Map(entries) if unit != Unit::One => {
            let mut shown = Map::default();
            entries.iter().for_each(|(name, value)| shown.set(name, in_unit(value, unit).into_owned()));
            Cow::Owned(Value::Map(shown))
        }
        Value::Integer(amount) if unit != Unit::One => Cow::Owned(unit.show(*amount).as_str().into()),
        _ => Cow::Borrowed(value),
    }
}
