//! The record of who owns which fields, kept along with every write. What it says is decided in [`apply`](crate::apply).

use std::borrow::Cow;

use http::HeaderMap;
use http::header::USER_AGENT;
use serde_json::Value;

use crate::apply::{FieldSet, Ignored, Managers, Subject, Writer, is_reset, update};
use crate::failure::{Failure, Result};
use crate::kind::Part;
use crate::object_meta::{MANAGER_MAX, validate_managed_fields};
use crate::registry::{Resource, text_at};
use setpoint_api::field::{Errors, Node, Path};

/// The name under which a writer that gives none is recorded: what it calls itself, up to the first slash.
pub fn manager<'m>(named: &'m str, headers: &'m HeaderMap) -> Cow<'m, str> {
    if !named.is_empty() {
        return Cow::Borrowed(named);
    }
    let agent = headers.get(USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default();
    let name = agent.split('/').next().unwrap_or_default();
    Cow::Borrowed(&name[..name.len().min(MANAGER_MAX)])
}

/// What a write to a part of an object can own.
pub fn subject(resource: &Resource, part: Part) -> Subject<'_> {
    let ignored = match part {
        Part::Other("ephemeralcontainers") => Ignored::AllBut(&["spec", "ephemeralContainers"]),
        part => {
            let status = (part != Part::Status && resource.has_status()).then(|| FieldSet::of(&["status"]));
            let others = resource.behaviour.untouched_fields(part).iter().map(|path| FieldSet::of(path));
            Ignored::Fields(status.into_iter().chain(others).fold(FieldSet::default(), FieldSet::union))
        }
    };
    Subject { object_type: resource.schema.root(), empty: &resource.empty, ignored, version_bound: resource.converts() }
}

/// The name of a part in the record.
pub fn subresource(part: Part) -> &'static str {
    match part {
        Part::Main => "",
        Part::Status => "status",
        Part::Other(name) => name,
    }
}

/// The record of a new object that has its defaults.
pub fn of_new(resource: &Resource, object: &Value, writer: &Writer<'_>) -> Vec<u8> {
    let subject = subject(resource, Part::Main);
    let changes = subject.compare(&resource.empty, &served(resource, object));
    let mut managers = Managers::default();
    update(&mut managers, changes, &subject, writer);
    managers.text()
}

/// The record of a changed object that has its defaults. What the object itself says of the record is taken out of it:
/// it counts, if it is one.
pub fn of_changed(
    resource: &Resource,
    object: &mut Value,
    old: &Value,
    record: &[u8],
    part: Part,
    writer: &Writer<'_>,
) -> Result<Vec<u8>> {
    let given = object["metadata"].as_object_mut().and_then(|metadata| metadata.remove("managedFields"));
    let given = given.filter(|_| part == Part::Main);
    if given.as_ref().is_some_and(is_reset) {
        return Ok(Vec::new());
    }
    let adopted = given.as_ref().and_then(Managers::from_client);
    if record.is_empty() && adopted.is_none() {
        return Ok(Vec::new());
    }
    let subject = subject(resource, part);
    let changes = subject.compare(&served(resource, old), &served(resource, object));
    let mut managers = match adopted {
        None if changes.is_empty() => return Ok(record.to_vec()),
        None => Managers::parse(record),
        Some(managers) => {
            let mut errors = Errors::default();
            let path = Path::of("metadata.managedFields");
            validate_managed_fields(Node { value: given.as_ref().unwrap_or(&Value::Null), path }, &mut errors);
            if !errors.is_empty() {
                return Err(Failure::invalid(resource, text_at(object, &["metadata", "name"]), errors));
            }
            managers
        }
    };
    update(&mut managers, changes, &subject, writer);
    Ok(managers.text())
}

/// The object as this version has it, which is how its fields are owned.
pub fn served<'v>(resource: &Resource, object: &'v Value) -> Cow<'v, Value> {
    if resource.converts() { Cow::Owned(resource.behaviour.to_served(object.clone())) } else { Cow::Borrowed(object) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_writer_is_named_by_itself_or_by_its_program() {
        let long = "x".repeat(200);
        let rows = [
            ("named", "me", "kubectl/v1.36", "me"),
            ("by program", "", "kubectl/v1.36 (linux/amd64)", "kubectl"),
            ("no slash", "", "curl", "curl"),
            ("not at all", "", "", ""),
            ("at great length", "", long.as_str(), &long[..128]),
        ];
        for (row, named, agent, expected) in rows {
            let headers = HeaderMap::from_iter([(USER_AGENT, agent.parse().expect("a header"))]);
            assert_eq!(manager(named, &headers), expected, "{row}");
        }
    }
}
