//! The rules of our own kinds that no schema says, for objects in the form an API server holds them.
//!
//! PlanSpec's documents are not checked here: they are published by others, are stored as they are, and their status says
//! what is wrong with them.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::GROUP;
use crate::app::App;
use crate::change_set::ChangeSet;
use crate::environment::Environment;
use crate::field::{Errors, Path};
use crate::machine::Machine;
use crate::review::Review;
use crate::revision::Revision;
use crate::traffic_split::TrafficSplit;

/// Finds everything that is wrong with an object, as the successor of another if there is one.
pub type Check = fn(&Value, Option<&Value>) -> Errors;

/// The check of a kind of ours; `None` for others.
pub fn check_of(group: &str, kind: &str) -> Option<Check> {
    if group != GROUP {
        return None;
    }
    Some(match kind {
        "App" => |object, old| check(object, old, App::validate, |app, _| app.validate()),
        "ChangeSet" => |object, old| check(object, old, ChangeSet::validate, ChangeSet::validate_update),
        "Environment" => |object, old| check(object, old, Environment::validate, Environment::validate_update),
        "Machine" => |object, old| check(object, old, Machine::validate, Machine::validate_update),
        "Review" => |object, old| check(object, old, Review::validate, Review::validate_update),
        "Revision" => |object, old| check(object, old, Revision::validate, Revision::validate_update),
        "TrafficSplit" => |object, old| check(object, old, TrafficSplit::validate, TrafficSplit::validate_update),
        _ => return None,
    })
}

fn check<K: DeserializeOwned>(
    object: &Value,
    old: Option<&Value>,
    validate: fn(&K) -> Errors,
    validate_update: fn(&K, &K) -> Errors,
) -> Errors {
    let object = match K::deserialize(object) {
        Ok(object) => object,
        Err(error) => return unreadable(&error),
    };
    // What cannot be read any more must not keep anybody from setting it right.
    let Some(old) = old.and_then(|old| K::deserialize(old).ok()) else { return validate(&object) };
    // A rule that is younger than the object holds for what is changed, not for what was there.
    validate_update(&object, &old).without(&validate(&old))
}

fn unreadable(error: &serde_json::Error) -> Errors {
    let mut errors = Errors::default();
    errors.invalid(&Path::ROOT, Value::Null, &error.to_string());
    errors
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::crds;
    use serde_json::json;

    fn environment(deployer: &str, interval: i64) -> Value {
        json!({
            "apiVersion": "setpoint.dev/v1alpha1", "kind": "Environment", "metadata": {"name": "lab"},
            "spec": {"deployer": {"name": deployer}, "observeIntervalSeconds": interval},
        })
    }

    #[test]
    fn every_kind_of_ours_has_its_check_and_no_other() {
        for crd in crds::all() {
            let ours = crd.spec.group == GROUP;
            assert_eq!(check_of(&crd.spec.group, &crd.spec.names.kind).is_some(), ours, "{}", crd.spec.names.kind);
        }
        assert!(check_of(GROUP, "Widget").is_none());
    }

    #[test]
    fn what_is_wrong_is_told_by_field() {
        let check = check_of(GROUP, "Environment").expect("a kind of ours");
        let rows = [
            ("a sound object passes", environment("process", 60), None, ""),
            ("a wrong value is told", environment("process", 0), None, "spec.observeIntervalSeconds"),
            ("a text where a number belongs is told", json!({"spec": {"deployer": 5}}), None, ""),
            (
                "what may not change is told",
                environment("incus", 60),
                Some(environment("process", 60)),
                "spec.deployer.name",
            ),
            (
                "what was wrong before is not held against a change elsewhere",
                environment("process", 0),
                Some(environment("process", 0)),
                "",
            ),
            ("what was unreadable before can be set right", environment("process", 60), Some(json!({})), ""),
        ];
        for (name, object, old, field) in rows {
            let told: Vec<String> = check(&object, old.as_ref()).iter().map(|error| error.field.clone()).collect();
            let unreadable = name.contains("belongs");
            let expected: Vec<&str> = if field.is_empty() && !unreadable { Vec::new() } else { vec![field] };
            assert_eq!(told.iter().map(String::as_str).collect::<Vec<_>>(), expected, "{name}");
        }
    }
}
