//! The fields of a simulated Machine, and what a change of each takes.

use setpoint_api::step::Effect;
use setpoint_core::registry::{Capabilities, Field, Literal, Normalizer, Unit};
use setpoint_core::value::{Fields, Value};

use super::program::Program;

pub(super) const RUNNING: &str = "running";
pub(super) const STOPPED: &str = "stopped";
pub(super) const STARTING: &str = "starting";
pub(super) const STOPPING: &str = "stopping";

/// Sorted by name.
static FIELDS: &[Field] = &[
    Field {
        normalizers: &[Normalizer::Default(Literal::EmptyList)],
        may_be_secret: true,
        ..Field::new("args", Effect::Restart)
    },
    Field {
        normalizers: &[Normalizer::Default(Literal::EmptyList)],
        may_be_secret: true,
        ..Field::new("command", Effect::Restart)
    },
    Field { min: Some(1), max: Some(1024), ..Field::new("cores", Effect::InPlace) },
    Field {
        normalizers: &[Normalizer::TrailingNewline, Normalizer::Default(Literal::Text(""))],
        is_prose: true,
        ..Field::new("description", Effect::InPlace)
    },
    Field { unit: Unit::Gibibytes, min: Some(1 << 30), ..Field::new("disk", Effect::Grow) },
    Field {
        normalizers: &[Normalizer::Default(Literal::EmptyMap)],
        may_be_secret: true,
        ..Field::new("env", Effect::Restart)
    },
    Field { min: Some(0), max: Some(64), ..Field::new("gpu.count", Effect::Replace) },
    Field { normalizers: &[Normalizer::Case], ..Field::new("gpu.type", Effect::Replace) },
    Field::new("image", Effect::Replace),
    Field { unit: Unit::Mebibytes, min: Some(16 << 20), ..Field::new("memory", Effect::InPlace) },
    Field {
        normalizers: &[Normalizer::Order, Normalizer::Default(Literal::EmptyList)],
        ..Field::new("ports", Effect::InPlace)
    },
    Field { holds_data: true, unit: Unit::Bytes, ..Field::new("volumes", Effect::InPlace) },
];

/// What a place that behaves like this can do.
pub(super) fn capabilities(program: &Program) -> Capabilities {
    Capabilities {
        deployer: super::NAME,
        fields: FIELDS,
        creates: true,
        adopts: true,
        has_run_state: true,
        chooses_ids: false,
        creates_before_delete: program.creates_before_delete,
        update_restarts: false,
        bills: program.hourly_price.is_some() || !program.gpu_hourly_prices.is_empty(),
        settle_seconds: i64::from(program.settle_seconds),
        running_words: &[RUNNING],
        stopped_words: &[STOPPED],
        passing_words: &[STARTING, STOPPING],
    }
}

pub(super) fn field(name: &str) -> Option<&'static Field> {
    FIELDS.binary_search_by(|field| field.name.cmp(name)).ok().map(|at| &FIELDS[at])
}

/// Fields as this place keeps them: amounts in its units, prose with a line end, ports in an order of its own.
pub(super) fn kept(fields: &Fields) -> Fields {
    let known = fields.iter().filter_map(|(name, value)| Some((field(name)?, value)));
    known.map(|(field, value)| (field.name, kept_value(field, value))).collect()
}

pub(super) fn kept_value(field: &Field, value: &Value) -> Value {
    match value {
        Value::Integer(amount) => Value::Integer(amount.div_euclid(field.unit.size()) * field.unit.size()),
        Value::Text(text) if field.normalizers.contains(&Normalizer::TrailingNewline) && !text.is_empty() => {
            Value::from(format!("{}\n", text.trim_end_matches(['\r', '\n'])).as_str())
        }
        Value::List(items) if field.normalizers.contains(&Normalizer::Order) => {
            let mut items = items.clone();
            items.sort_by(|one, other| other.cmp(one));
            Value::List(items)
        }
        other => other.clone(),
    }
}

/// What is wrong with a value, if no Machine here could have it.
pub(super) fn problem(field: &Field, value: &Value) -> Option<String> {
    let Value::Integer(amount) = value else { return None };
    match (field.min, field.max) {
        (Some(min), _) if *amount < min => Some(format!("{amount} is less than {min}")),
        (_, Some(max)) if *amount > max => Some(format!("{amount} is more than {max}")),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_sorted_so_that_they_can_be_found() {
        assert!(FIELDS.is_sorted_by_key(|field| field.name));
        assert!(FIELDS.iter().all(|known| field(known.name).is_some()));
    }

    #[test]
    fn what_variables_stand_in_may_be_secret() {
        let secret: Vec<&str> = FIELDS.iter().filter(|field| field.may_be_secret).map(|field| field.name).collect();
        assert_eq!(secret, ["args", "command", "env"]);
    }

    #[test]
    fn what_is_kept_counts_as_what_was_given() {
        let given = Fields::from_iter([
            ("description", Value::from("two lines\nof prose")),
            ("memory", Value::Integer((512 << 20) + 7)),
            ("ports", Value::from(vec!["22/tcp", "8080/http"])),
        ]);
        let kept = kept(&given);
        assert_ne!(kept, given);
        for (name, value) in given.iter() {
            let field = field(name).unwrap();
            assert!(setpoint_core::diff::same(field, Some(value), kept.get(name)), "{name}");
        }
    }
}
