//! Which values are equal, and which comes first.

use std::cmp::Ordering;

use super::value::{Fault, Meter, Value};

/// Whether two values are equal. Numbers are compared by value, whatever their types.
pub(super) fn equal<'a>(left: &Value<'a>, right: &Value<'a>, meter: &mut Meter) -> Result<bool, Fault> {
    use Value::{Bool, Bytes, Cidr, Double, Duration, Format, Int, Ip, List, Map, Null, Optional};
    use Value::{Preserved, Quantity, Semver, String, Timestamp, Type, Uint, Url};
    meter.charge(1)?;
    #[cfg(test)]
    super::tests::work::step();
    Ok(match (left, right) {
        (Null, Null) => true,
        (Bool(a), Bool(b)) => a == b,
        (Int(_) | Uint(_) | Double(_), Int(_) | Uint(_) | Double(_)) => {
            compare_numbers(left, right) == Some(Ordering::Equal)
        }
        (String(a), String(b)) => {
            meter.charge_text(a.len().min(b.len()))?;
            **a == **b
        }
        (Bytes(a), Bytes(b)) => {
            meter.charge_text(a.len().min(b.len()))?;
            a == b
        }
        (Duration(a), Duration(b)) => a == b,
        (Timestamp(a), Timestamp(b)) => a == b,
        (List(a), List(b)) => return a.equal(b, meter),
        (Map(a), Map(b)) => return a.equal(b, meter),
        (Optional(None), Optional(None)) => true,
        (Optional(Some(a)), Optional(Some(b))) => return equal(a, b, meter),
        (Type(a), Type(b)) => a == b,
        (Ip(a), Ip(b)) => a == b,
        (Cidr(a), Cidr(b)) => a == b,
        (Url(a), Url(b)) => {
            meter.charge_text(a.len().min(b.len()))?;
            a == b
        }
        (Quantity(a), Quantity(b)) => a == b,
        (Semver(a), Semver(b)) => {
            meter.charge(a.weight().min(b.weight()))?;
            a == b
        }
        (Format(a), Format(b)) => std::ptr::eq(*a, *b),
        (Preserved(a), Preserved(b)) => {
            meter.charge(weight(a) + weight(b))?;
            a == b
        }
        _ => false,
    })
}

/// Which of two values of one type comes first.
pub(super) fn compare<'a>(left: &Value<'a>, right: &Value<'a>, meter: &mut Meter) -> Result<Ordering, Fault> {
    Ok(match (left, right) {
        (Value::Bool(a), Value::Bool(b)) => a.cmp(b),
        (Value::Int(_) | Value::Uint(_) | Value::Double(_), Value::Int(_) | Value::Uint(_) | Value::Double(_)) => {
            return compare_numbers(left, right).ok_or_else(|| Fault::failed("NaN values cannot be ordered"));
        }
        (Value::String(a), Value::String(b)) => {
            meter.charge_text(a.len().min(b.len()))?;
            (**a).cmp(&**b)
        }
        (Value::Bytes(a), Value::Bytes(b)) => {
            meter.charge_text(a.len().min(b.len()))?;
            a.cmp(b)
        }
        (Value::Duration(a), Value::Duration(b)) => a.cmp(b),
        (Value::Timestamp(a), Value::Timestamp(b)) => a.cmp(b),
        _ => return Err(Fault::no_such_overload()),
    })
}

/// None if one of them is no number.
fn compare_numbers(left: &Value<'_>, right: &Value<'_>) -> Option<Ordering> {
    let whole = |value: &Value<'_>| match value {
        Value::Int(value) => Some(i128::from(*value)),
        Value::Uint(value) => Some(i128::from(*value)),
        _ => None,
    };
    match (whole(left), whole(right)) {
        (Some(a), Some(b)) => Some(a.cmp(&b)),
        _ => double(left)?.partial_cmp(&double(right)?),
    }
}

fn double(value: &Value<'_>) -> Option<f64> {
    match value {
        Value::Int(value) => Some(*value as f64),
        Value::Uint(value) => Some(*value as f64),
        Value::Double(value) => Some(*value),
        _ => None,
    }
}

/// How much there is to compare.
pub(super) fn weight(json: &serde_json::Value) -> u64 {
    use serde_json::Value as Json;
    match json {
        Json::String(text) => 1 + text.len() as u64 / 10,
        Json::Array(items) => 1 + items.iter().map(weight).sum::<u64>(),
        Json::Object(entries) => 1 + entries.values().map(weight).sum::<u64>(),
        _ => 1,
    }
}
