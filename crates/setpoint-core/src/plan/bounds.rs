//! Desires that no provider call could fulfil: refused by their field before anything is tried.

use setpoint_api::step::Refusal;

use super::Input;
use crate::desired::Desired;
use crate::registry::{Capabilities, Field, Unit};
use crate::value::Value;

/// What is impossible about a desire, wherever its guest is.
pub(super) fn refusals(desired: &Desired, input: &Input<'_>) -> Vec<Refusal> {
    let capabilities = input.capabilities;
    let mut refusals = Vec::new();
    let mut refuse = |field: &str, message: String| {
        refusals.push(Refusal { target: desired.target.clone(), field: format!("spec.{field}"), message });
    };
    for (name, value) in desired.fields.iter() {
        match capabilities.field(name) {
            None => refuse(name, format!("{} does not know this field", capabilities.deployer)),
            Some(field) => {
                if let Some(message) = out_of_bounds(field, value, capabilities) {
                    refuse(name, message);
                }
            }
        }
    }
    if desired.run.is_some() && !capabilities.has_run_state {
        refuse("run", format!("{} cannot start or stop guests", capabilities.deployer));
    }
    refusals
}

fn out_of_bounds(field: &Field, value: &Value, capabilities: &Capabilities) -> Option<String> {
    let Value::Integer(amount) = value else { return None };
    let in_unit = |amount: i64| field.unit.show(amount);
    let shown = match field.unit {
        _ if field.sensitive => "it".to_owned(),
        unit if amount % unit.size() == 0 => in_unit(*amount),
        _ => Unit::Bytes.show(*amount),
    };
    let deployer = capabilities.deployer;
    match (field.min, field.max) {
        (Some(min), _) if *amount < min => {
            Some(format!("{shown} is less than the {} that {deployer} takes at least", in_unit(min)))
        }
        (_, Some(max)) if *amount > max => {
            Some(format!("{shown} is more than the {} that {deployer} takes at most", in_unit(max)))
        }
        _ => None,
    }
}
