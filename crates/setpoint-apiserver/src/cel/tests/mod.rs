//! Tables of expressions, of rules that are refused, and of objects that are.

mod data;
mod language;
mod libraries;
mod limits;
mod refusals;
mod validation;
pub(super) mod work;

use serde_json::{Value as Json, json};

use super::compare::equal;
use super::data_type::DataType;
use super::evaluate::Evaluator;
use super::rules::compile;
use super::value::{Meter, Value};

/// What a row expects of an expression.
#[derive(Debug, Clone, Copy)]
enum Expect {
    /// It is true.
    True,
    /// It is a bool, and false.
    False,
    /// Evaluating it fails with this message.
    Fails(&'static str),
    /// It is refused when it is checked, with a message that contains this.
    Refused(&'static str),
}

/// Evaluates an expression on an object and says what came of it.
fn outcome(expression: &str, data: &DataType, object: &Json, meter: &mut Meter) -> Result<String, String> {
    let checked = compile(expression, data, false).map_err(|report| format!("refused: {report}"))?;
    let own = Value::of_data(object, data, meter).map_err(|fault| format!("fails: {fault}"))?;
    let mut evaluator = Evaluator::new(own, None, meter);
    let value = evaluator.evaluate(&checked.node).map_err(|fault| format!("fails: {fault}"))?;
    // A value is equal to itself, unless it holds what is no number.
    let mut unmetered = Meter::new(u64::MAX);
    let _ = equal(&value, &value, &mut unmetered);
    Ok(match value {
        Value::Bool(value) => value.to_string(),
        other => format!("{other:?}"),
    })
}

fn check_rows(schema: &Json, object: &Json, rows: &[(&str, Expect)]) {
    let data = DataType::of_resource(schema);
    let mut wrong = Vec::new();
    for (expression, expect) in rows {
        let outcome = outcome(expression, &data, object, &mut Meter::new(1_000_000));
        let good = match (expect, &outcome) {
            (Expect::True, Ok(value)) => value == "true",
            (Expect::False, Ok(value)) => value == "false",
            (Expect::Fails(message), Err(problem)) => *problem == format!("fails: {message}"),
            (Expect::Refused(message), Err(problem)) => problem.starts_with("refused: ") && problem.contains(message),
            _ => false,
        };
        if !good {
            wrong.push(format!("{expression}\n    expected {expect:?}\n    got {outcome:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {} rows:\n{}", wrong.len(), rows.len(), wrong.join("\n"));
}

fn empty_schema() -> Json {
    json!({"type": "object"})
}
