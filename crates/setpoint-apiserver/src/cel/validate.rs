//! Evaluating the rules of a schema on an object.
//!
//! An update is not refused for what was wrong before: a rule that fails on a value that did not change gives a warning.
//! Rules that compare with the old value always count.

use std::cell::Cell;
use std::collections::BTreeMap;

use serde_json::Value as Json;
use setpoint_api::field::{self, Errors, Path};

use super::data_type::{DataKind, DataType, Identity};
use super::evaluate::Evaluator;
use super::rules::{Reason, Rule, RuleNode, Rules};
use super::value::{Fault, Meter, Value};

/// The longest message that an expression may make.
const MAX_MESSAGE_BYTES: usize = 5 * 1024;

/// What it costs to begin with a rule, of the object's budget: many rules on many values are much work, however short.
const RULE_COST: u64 = 5;
/// What it costs to tell that a rule does not hold.
const TOLD: u64 = 250;

const OUT_OF_BUDGET: &str =
    "validation failed due to running out of cost budget, no further validation rules will be run";

/// How much evaluating may cost, in CEL's units of cost: about one for each step and for each ten bytes of text.
#[derive(Debug, Clone, Copy)]
pub struct Budget {
    pub per_rule: u64,
    pub per_object: u64,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget { per_rule: 1_000_000, per_object: 2_500_000 }
    }
}

impl Rules {
    /// Evaluates the rules on an object that fits the schema, and on the one it replaces. What fails is added to the
    /// errors; a failure that does not count, because what fails did not change, is only remarked upon.
    pub fn validate(&self, object: &Json, old: Option<&Json>, budget: Budget, errors: &mut Errors) {
        let pair = old.map(|old| Pair::new(object, old));
        let history = History { old, pair: pair.as_ref(), parent: None };
        self.evaluate(object, history, budget, &Path::ROOT, errors);
    }

    /// Evaluates the rules on a default at a path: one that stays as it was, and one that is new.
    pub fn validate_default(&self, value: &Json, path: &Path<'_>, errors: &mut Errors) {
        let before = errors.len();
        let budget = Budget::default();
        self.evaluate(value, History { old: Some(value), pair: None, parent: None }, budget, path, errors);
        if errors.len() == before {
            self.evaluate(value, History { old: None, pair: None, parent: None }, budget, path, errors);
        }
    }

    fn evaluate<'a>(
        &'a self,
        value: &'a Json,
        history: History<'a, '_>,
        budget: Budget,
        path: &Path<'_>,
        errors: &mut Errors,
    ) {
        let Some((root, data)) = &self.root else { return };
        let mut validation = Validation { budget, left: budget.per_object, errors };
        // Nothing follows that a spent budget could stop.
        let _ = validation.node(root, data, value, history, path);
    }
}

/// The budget is spent: no further rule is evaluated.
struct Spent;

struct Validation<'v> {
    budget: Budget,
    left: u64,
    errors: &'v mut Errors,
}

/// A value and the one it replaces.
struct Pair<'a> {
    new: &'a Json,
    old: &'a Json,
    equal: Cell<Option<bool>>,
}

impl<'a> Pair<'a> {
    fn new(new: &'a Json, old: &'a Json) -> Pair<'a> {
        Pair { new, old, equal: Cell::new(None) }
    }

    fn is_equal(&self) -> bool {
        let equal = self.equal.get().unwrap_or_else(|| self.new == self.old);
        self.equal.set(Some(equal));
        equal
    }
}

/// What stood where a value stands.
#[derive(Clone, Copy)]
struct History<'a, 'c> {
    /// The old value that transition rules compare with.
    old: Option<&'a Json>,
    /// None if nothing comparable was there.
    pair: Option<&'c Pair<'a>>,
    /// The nearest value around that can be compared.
    parent: Option<&'c Pair<'a>>,
}

impl History<'_, '_> {
    fn is_unchanged(self) -> bool {
        self.pair.or(self.parent).is_some_and(Pair::is_equal)
    }
}

impl Validation<'_> {
    fn node<'a>(
        &mut self,
        node: &'a RuleNode,
        data: &'a DataType,
        value: &'a Json,
        history: History<'a, '_>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        if value.is_null() {
            return Ok(());
        }
        let history = History { old: history.old.filter(|old| !old.is_null()), ..history };
        self.rules(&node.rules, data, value, history, path)?;
        for part in &node.all_of {
            self.node(part, data, value, History { pair: None, ..history }, path)?;
        }
        match (value, &data.kind) {
            (Json::Object(entries), DataKind::Map(inner)) => {
                let Some(values) = &node.values else { return Ok(()) };
                for (key, entry) in entries {
                    self.child(values, inner, (key, entry), history, &path.key(key))?;
                }
            }
            (Json::Object(entries), DataKind::Object(fields)) => {
                for (name, property) in &node.properties {
                    if let (Some(entry), Some(inner)) = (entries.get(&**name), fields.get(name)) {
                        self.child(property, inner, (name, entry), history, &path.field(name))?;
                    }
                }
            }
            (Json::Array(elements), DataKind::List { items, identity }) => {
                let Some(node) = &node.items else { return Ok(()) };
                let old = by_key(history.old, identity);
                for (index, element) in elements.iter().enumerate() {
                    let old = key_of(element, identity).and_then(|key| old.get(&key).copied());
                    let pair = history.pair.and(old).map(|old| Pair::new(element, old));
                    let parent = history.pair.or(history.parent);
                    let history = History { old, pair: pair.as_ref(), parent };
                    self.node(node, items, element, history, &path.index(index))?;
                }
            }
            _ => {}
        }
        Ok(())
    }

    /// A field of an object or an entry of a map.
    fn child<'a>(
        &mut self,
        node: &'a RuleNode,
        data: &'a DataType,
        (name, value): (&str, &'a Json),
        history: History<'a, '_>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        let old = history.old.and_then(|old| old.get(name));
        // The old object was read in the new one's version, so a change of these two cannot be seen.
        let is_type_meta = history.parent.is_none() && matches!(name, "apiVersion" | "kind");
        let pair = history.pair.and(old).filter(|_| !is_type_meta).map(|old| Pair::new(value, old));
        let parent = if is_type_meta { None } else { history.pair.or(history.parent) };
        self.node(node, data, value, History { old, pair: pair.as_ref(), parent }, path)
    }

    fn rules<'a>(
        &mut self,
        rules: &'a [Rule],
        data: &'a DataType,
        value: &'a Json,
        history: History<'a, '_>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        for rule in rules {
            if rule.uses_old_self && history.old.is_none() && !rule.optional_old_self {
                continue;
            }
            self.rule(rule, data, value, history, path)?;
        }
        Ok(())
    }

    fn rule<'a>(
        &mut self,
        rule: &'a Rule,
        data: &'a DataType,
        value: &'a Json,
        history: History<'a, '_>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        let subject = Subject { data, value, old: history.old };
        let Some(left) = self.left.checked_sub(RULE_COST) else {
            self.fail(data, path, OUT_OF_BUDGET);
            return Err(Spent);
        };
        self.left = left;
        let result = self.metered(|meter| subject.evaluate(&rule.program, rule.optional_old_self, meter));
        let name = if rule.message.is_empty() { &rule.text } else { &rule.message };
        match result {
            Ok(Value::Bool(true)) => Ok(()),
            Err(Fault::Exhausted) => {
                let detail = match self.left {
                    0 => OUT_OF_BUDGET.to_owned(),
                    _ => format!(
                        "'{}': no further validation rules will be run due to call cost exceeds limit for rule: {name}",
                        Fault::Exhausted
                    ),
                };
                self.fail(data, path, &detail);
                Err(Spent)
            }
            Err(Fault::Overload(problem)) => {
                let detail = format!(
                    "'{problem}': call arguments did not match a supported operator, function or macro signature for \
                     rule: {name}"
                );
                self.fail(data, path, &detail);
                Ok(())
            }
            Err(Fault::Failed(problem)) => {
                self.fail(data, path, &format!("{problem} evaluating rule: {name}"));
                Ok(())
            }
            Ok(_) => self.violated(rule, subject, history, path),
        }
    }

    /// Evaluates with what a rule may use of what is left, and takes what it used.
    fn metered<'a>(
        &mut self,
        evaluate: impl FnOnce(&mut Meter) -> Result<Value<'a>, Fault>,
    ) -> Result<Value<'a>, Fault> {
        let limit = self.left.min(self.budget.per_rule);
        let mut meter = Meter::new(limit);
        let result = evaluate(&mut meter);
        self.left -= limit - meter.left();
        result
    }

    /// Reports a rule that could not be evaluated.
    fn fail(&mut self, data: &DataType, path: &Path<'_>, detail: &str) {
        let shown = path.to_string();
        self.errors.invalid(&told(&shown), data.schema_type(), detail);
    }

    /// Reports a rule that does not hold.
    fn violated<'a>(
        &mut self,
        rule: &'a Rule,
        subject: Subject<'a>,
        history: History<'a, '_>,
        path: &Path<'_>,
    ) -> Result<(), Spent> {
        // The message repeats the value, unless it has parts.
        self.left = self.left.saturating_sub(TOLD + value_bytes(subject.value) / 10);
        let mut place = path.to_string();
        if let Some(below) = &rule.field_path {
            if !place.is_empty() {
                place.push('.');
            }
            place.push_str(below);
        }
        let mut found = Errors::default();
        let place = told(&place);
        let spent = match self.message(rule, subject) {
            Ok(detail) => {
                report(rule.reason, subject, &detail, &place, &mut found);
                Ok(())
            }
            Err(detail) => {
                found.invalid(&place, subject.data.schema_type(), &detail);
                Err(Spent)
            }
        };
        if !rule.uses_old_self && history.is_unchanged() {
            found.iter().for_each(|error| self.errors.remark(error.to_string()));
        } else {
            self.errors.extend(found);
        }
        spent
    }

    /// What to say about a rule that does not hold: what its expression makes, its message, or the rule itself. An error
    /// says that the budget is spent.
    fn message<'a>(&mut self, rule: &'a Rule, subject: Subject<'a>) -> Result<String, String> {
        let plain = || match rule.message.is_empty() {
            true => format!("failed rule: {}", rule.text),
            false => rule.message.to_string(),
        };
        let Some((expression, source)) = &rule.message_expression else { return Ok(plain()) };
        match self.metered(|meter| subject.evaluate(expression, rule.optional_old_self, meter)) {
            Ok(Value::String(text)) => {
                let text = text.trim();
                let usable = !text.is_empty() && text.len() <= MAX_MESSAGE_BYTES && !text.contains('\n');
                Ok(if usable { text.to_owned() } else { plain() })
            }
            Err(Fault::Exhausted) if self.left == 0 => {
                Err("messageExpression evaluation failed due to running out of \
                 cost budget, no further validation rules will be run"
                    .to_owned())
            }
            Err(Fault::Exhausted) => Err(format!(
                "no further validation rules will be run due to call cost exceeds limit for messageExpression: \
                 {source:?}"
            )),
            _ => Ok(plain()),
        }
    }
}

/// What a rule is about.
#[derive(Clone, Copy)]
struct Subject<'a> {
    data: &'a DataType,
    value: &'a Json,
    old: Option<&'a Json>,
}

impl<'a> Subject<'a> {
    fn evaluate(
        self,
        program: &'a super::program::Node,
        optional_old_self: bool,
        meter: &mut Meter,
    ) -> Result<Value<'a>, Fault> {
        let own = Value::of_data(self.value, self.data, meter)?;
        let old = self.old.map(|old| Value::of_data(old, self.data, meter)).transpose()?;
        let old = match (old, optional_old_self) {
            (Some(old), true) => Some(Value::some(old)),
            (None, true) => Some(Value::Optional(None)),
            (old, false) => old,
        };
        Evaluator::new(own, old, meter).evaluate(program)
    }
}

fn report(reason: Reason, subject: Subject<'_>, detail: &str, path: &Path<'_>, errors: &mut Errors) {
    let omits_value = matches!(subject.data.schema_type(), "object" | "array");
    match reason {
        Reason::Forbidden => errors.forbidden(path, detail),
        Reason::Required => errors.required(path, detail),
        Reason::Duplicate if omits_value => {
            errors.push(field::Fault::Duplicate, path, || "Duplicate value".to_owned());
        }
        Reason::Duplicate => errors.duplicate(path, subject.value),
        Reason::Invalid if omits_value => {
            errors.push(field::Fault::Invalid, path, || format!("Invalid value: {detail}"));
        }
        Reason::Invalid => errors.invalid(path, subject.value, detail),
    }
}

/// How long a message about a value is at least.
fn value_bytes(value: &Json) -> u64 {
    value.as_str().map_or(0, |text| text.len() as u64)
}

/// A path that was made into text. That of the object itself is shown as Kubernetes shows no path.
fn told(path: &str) -> Path<'_> {
    Path::of(if path.is_empty() { "<nil>" } else { path })
}

/// The elements of an old list under what identifies them.
fn by_key<'a>(old: Option<&'a Json>, identity: &Identity) -> BTreeMap<String, &'a Json> {
    let elements = old.and_then(Json::as_array).into_iter().flatten();
    elements.filter_map(|element| Some((key_of(element, identity)?, element))).collect()
}

/// What identifies an element of a list; none if its place does.
fn key_of(element: &Json, identity: &Identity) -> Option<String> {
    let Identity::Keys(keys) = identity else { return None };
    Some(keys.iter().map(|key| format!("{}\n", element[&**key])).collect())
}
