//! What must hold of the numbers in a custom object. Whole numbers are compared as such, so that none is too large.

use serde_json::{Number, Value};

use super::structure::{Checks, Kind};
use super::validate::{Findings, Place};

/// Whether a value is a whole number, be it written with a fraction.
pub(super) fn is_whole(value: &Value) -> bool {
    match value {
        Value::Number(number) => !number.is_f64() || number.as_f64().is_some_and(is_whole_float),
        _ => false,
    }
}

/// Floats that hold a whole number exactly.
fn is_whole_float(value: f64) -> bool {
    const EXACT: f64 = 9_007_199_254_740_991.0;
    value.fract() == 0.0 && value.abs() <= EXACT
}

/// Whether two values are the same, however their numbers are written.
pub(super) fn is_same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(x), Value::Number(y)) => a == b || x.as_f64() == y.as_f64(),
        _ => a == b,
    }
}

pub(super) fn validate(number: &Number, kind: Kind, checks: &Checks, place: &Place<'_>, findings: &mut Findings) {
    let format = checks.number_format().unwrap_or_default();
    let path = place.path;
    if let Some(kind) = out_of_range(number, kind, format) {
        findings.whole(place, &format!("Checked value must be of type {kind} in {path}"));
    }
    if let Some(factor) = checks.multiple_of() {
        multiple(number, factor, place, findings);
    }
    if let Some(max) = checks.maximum() {
        let (ordering, shown) = compare(number, max.value);
        if ordering.is_some_and(|ordering| ordering.is_gt() || max.exclusive && ordering.is_eq()) {
            let than = if max.exclusive { "less than" } else { "less than or equal to" };
            findings.invalid(place, number, &format!("{path} in body should be {than} {shown}"));
        }
    }
    if let Some(min) = checks.minimum() {
        let (ordering, shown) = compare(number, min.value);
        if ordering.is_some_and(|ordering| ordering.is_lt() || min.exclusive && ordering.is_eq()) {
            let than = if min.exclusive { "greater than" } else { "greater than or equal to" };
            findings.invalid(place, number, &format!("{path} in body should be {than} {shown}"));
        }
    }
}

/// The type and format that a number does not fit into.
fn out_of_range(number: &Number, kind: Kind, format: &str) -> Option<String> {
    let fits = match (kind, format) {
        (Kind::Integer | Kind::IntOrString, "int32") => whole(number).is_some_and(|value| i32::try_from(value).is_ok()),
        (Kind::Integer | Kind::IntOrString, _) => whole(number).is_some(),
        (_, "float") => number.as_f64().is_some_and(|value| value.abs() <= f64::from(f32::MAX)),
        _ => true,
    };
    let name = if kind == Kind::Number { "number" } else { "integer" };
    (!fits).then(|| {
        if format.is_empty() { format!("{name} (default format)") } else { format!("{name} with format {format}") }
    })
}

fn whole(number: &Number) -> Option<i64> {
    number
        .as_i64()
        .or_else(|| number.as_f64().filter(|value| number.is_f64() && is_whole_float(*value)).map(|v| v as i64))
}

/// Compares with a limit. A whole number is compared with the limit's whole part, and that is what a message shows.
fn compare(number: &Number, limit: f64) -> (Option<std::cmp::Ordering>, String) {
    match number.as_i64() {
        Some(value) => (Some(value.cmp(&(limit as i64))), (limit as i64).to_string()),
        None => (number.as_f64().and_then(|value| value.partial_cmp(&limit)), limit.to_string()),
    }
}

fn multiple(number: &Number, factor: f64, place: &Place<'_>, findings: &mut Findings) {
    let path = place.path;
    let must_be_positive = |shown: String| format!("factor MultipleOf declared for {path} must be positive: {shown}");
    let is_multiple = match number.as_i64() {
        Some(value) => match factor as i64 {
            // As Kubernetes has it: for a whole number the factor's fraction does not count.
            factor if factor <= 0 => {
                findings.invalid(place, factor, &must_be_positive(factor.to_string()));
                return;
            }
            factor => value % factor == 0,
        },
        None if factor <= 0.0 => {
            findings.invalid(place, factor, &must_be_positive(factor.to_string()));
            return;
        }
        None => {
            let value = number.as_f64().unwrap_or(0.0);
            is_whole_float(if factor < 1.0 { 1.0 / factor * value } else { value / factor })
        }
    };
    if !is_multiple {
        findings.invalid(place, number, &format!("{path} in body should be a multiple of {factor}"));
    }
}
