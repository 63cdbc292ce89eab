//! Running macros.

use std::collections::BTreeMap;
use std::rc::Rc;

use super::evaluate::Evaluator;
use super::functions::lists;
use super::map::Key;
use super::program::LoopNode;
use super::syntax::Macro;
use super::value::{Fault, Meter, Value};

/// What a turn of a loop costs besides its body.
const TURN_COST: u64 = 3;

/// What a loop has gathered so far.
enum Gathered<'a> {
    /// `all` and `exists`: the first failure, which counts only if no other turn decides.
    Decision {
        neutral: bool,
        failed: Option<Fault>,
    },
    Count(u64),
    List(Vec<Value<'a>>),
    Keys {
        items: Vec<Value<'a>>,
        keys: Vec<Value<'a>>,
    },
    Map(BTreeMap<Key<'a>, Value<'a>>),
}

impl<'a> Evaluator<'_, 'a> {
    #[inline(never)]
    pub(super) fn run(&mut self, of: &'a LoopNode) -> Result<Value<'a>, Fault> {
        let range = self.evaluate(&of.range)?;
        if matches!(of.name, Macro::OptionalMap | Macro::OptionalFlatMap) {
            return self.run_optional(of, range);
        }
        let mut gathered = match of.name {
            Macro::All => Gathered::Decision { neutral: true, failed: None },
            Macro::Exists => Gathered::Decision { neutral: false, failed: None },
            Macro::ExistsOne => Gathered::Count(0),
            Macro::SortBy => Gathered::Keys { items: Vec::new(), keys: Vec::new() },
            Macro::TransformMap | Macro::TransformMapEntry => Gathered::Map(BTreeMap::new()),
            _ => Gathered::List(Vec::new()),
        };
        let place = self.variables.len();
        let decided = match range {
            Value::List(list) => self.turns(of, &mut gathered, list.len(), |evaluator, index| {
                let item = list.get(index, evaluator.context.meter).expect("the index is below the length")?;
                Ok((Value::count(index), item))
            }),
            Value::Map(map) => {
                let keys = map.keys(self.context.meter)?;
                self.turns(of, &mut gathered, keys.len(), |evaluator, index| {
                    let key = keys[index].clone();
                    let value = match of.variables {
                        2 => map.get(&key, evaluator.context.meter)?.unwrap_or(Value::Null),
                        _ => key.clone(),
                    };
                    Ok((key, value))
                })
            }
            _ => Err(Fault::no_such_overload()),
        };
        self.variables.truncate(place);
        if let Some(decision) = decided? {
            return Ok(Value::Bool(decision));
        }
        match gathered {
            Gathered::Decision { failed: Some(fault), .. } => Err(fault),
            Gathered::Decision { neutral, failed: None } => Ok(Value::Bool(neutral)),
            Gathered::Count(count) => Ok(Value::Bool(count == 1)),
            Gathered::List(items) => Ok(Value::list(items)),
            Gathered::Keys { items, keys } => lists::sort_by(items, &keys, self.context.meter),
            Gathered::Map(map) => Ok(Value::map(map)),
        }
    }

    /// Runs the body once for every element, until it is decided what the loop gives.
    fn turns(
        &mut self,
        of: &'a LoopNode,
        gathered: &mut Gathered<'a>,
        count: usize,
        element: impl Fn(&mut Self, usize) -> Result<(Value<'a>, Value<'a>), Fault>,
    ) -> Result<Option<bool>, Fault> {
        let place = self.variables.len();
        for index in 0..count {
            self.context.meter.charge(TURN_COST)?;
            let (key, value) = element(self, index)?;
            self.variables.truncate(place);
            if of.variables == 2 {
                self.variables.push(Some(key));
            }
            self.variables.push(Some(value));
            if let Some(filter) = &of.filter
                && !self.condition(filter)?
            {
                continue;
            }
            if let Some(decision) = self.turn(of, gathered, place)? {
                return Ok(Some(decision));
            }
        }
        Ok(None)
    }

    /// Runs the body once; the loop's first variable is at `place`.
    fn turn(&mut self, of: &'a LoopNode, gathered: &mut Gathered<'a>, place: usize) -> Result<Option<bool>, Fault> {
        match gathered {
            Gathered::Decision { neutral, failed } => match self.condition(&of.body) {
                Ok(result) if result != *neutral => return Ok(Some(result)),
                Ok(_) => {}
                Err(Fault::Exhausted) => return Err(Fault::Exhausted),
                Err(fault) => {
                    self.context.meter.charge_failure()?;
                    *failed = failed.take().or(Some(fault));
                }
            },
            Gathered::Count(count) => *count += u64::from(self.condition(&of.body)?),
            Gathered::List(items) if of.name == Macro::Filter => {
                if self.condition(&of.body)? {
                    items.extend(self.variables[place].clone());
                }
            }
            Gathered::List(items) => items.push(self.evaluate(&of.body)?),
            Gathered::Keys { items, keys } => {
                items.extend(self.variables[place].clone());
                keys.push(self.evaluate(&of.body)?);
            }
            Gathered::Map(map) => {
                let made = self.evaluate(&of.body)?;
                if of.name == Macro::TransformMap {
                    let key = self.variables[place].as_ref().unwrap_or(&Value::Null);
                    insert(map, key, made, self.context.meter)?;
                } else {
                    let Value::Map(entries) = made else { return Err(Fault::no_such_overload()) };
                    for key in entries.keys(self.context.meter)? {
                        let value = entries.get(&key, self.context.meter)?.unwrap_or(Value::Null);
                        insert(map, &key, value, self.context.meter)?;
                    }
                }
            }
        }
        Ok(None)
    }

    fn run_optional(&mut self, of: &'a LoopNode, range: Value<'a>) -> Result<Value<'a>, Fault> {
        let Value::Optional(inner) = range else { return Err(Fault::no_such_overload()) };
        let Some(inner) = inner else { return Ok(Value::Optional(None)) };
        let place = self.variables.len();
        self.variables.push(Some(inner.as_ref().clone()));
        let result = self.evaluate(&of.body);
        self.variables.truncate(place);
        match of.name {
            Macro::OptionalMap => result.map(|value| Value::Optional(Some(Rc::new(value)))),
            _ => result,
        }
    }
}

/// What putting an entry into a map costs, besides the length of its key.
const INSERT_COST: u64 = 5;

fn insert<'a>(
    map: &mut BTreeMap<Key<'a>, Value<'a>>,
    key: &Value<'a>,
    value: Value<'a>,
    meter: &mut Meter,
) -> Result<(), Fault> {
    let name = Key::of(key).ok_or_else(|| Fault::failed("unsupported key type"))?;
    meter.charge(INSERT_COST)?;
    meter.charge_lookup(name.bytes(), map.len())?;
    match map.insert(name, value) {
        None => Ok(()),
        Some(_) => Err(Fault::failed(format!("insert failed: key {} already exists", key.shown()))),
    }
}
