//! The paths that reach into a Pod, which give bytes and not objects.

use serde_json::{Map, Value, json};

use super::operations::{capitalized, group_name};
use super::{Resource, Subresource, parameters};

type Parameter = (&'static str, &'static str, &'static str);

const CONTAINER: Parameter = ("container", "string", "Which container; it need not be said if the Pod has only one.");

const SESSION: [Parameter; 4] = [
    ("stderr", "boolean", "Whether the command's errors are sent."),
    ("stdin", "boolean", "Whether the command is sent input."),
    ("stdout", "boolean", "Whether the command's output is sent."),
    ("tty", "boolean", "Whether the command has a terminal."),
];

const COMMAND: Parameter = ("command", "string", "The program to run; given again, its arguments.");

const LOG: [Parameter; 8] = [
    ("follow", "boolean", "Goes on as more is logged."),
    ("limitBytes", "integer", "At most this many bytes."),
    ("previous", "boolean", "The log of the run before this one."),
    ("sinceSeconds", "integer", "Only what was logged in the last so many seconds."),
    ("sinceTime", "string", "Only what was logged since this time."),
    ("stream", "string", "All, Stdout or Stderr."),
    ("tailLines", "integer", "Only this many lines from the end."),
    ("timestamps", "boolean", "Begins each line with its time."),
];

/// What can be done on the path of a stream; `None` if the part is none.
pub(super) fn describe(resource: &Resource<'_>, part: &Subresource<'_>) -> Option<Value> {
    let (what, own): (&str, &[&[Parameter]]) = match part.name {
        "log" => ("reads the log of a Pod", &[&LOG]),
        "exec" => ("runs a command in a Pod", &[&[COMMAND], &SESSION]),
        "attach" => ("joins what runs in a Pod", &[&SESSION]),
        _ => return None,
    };
    let methods = [("get", "get"), ("create", "post")].into_iter().filter(|(verb, _)| part.verbs.contains(verb));
    let operations = methods.map(|(_, method)| (method.to_owned(), operation(resource, part, method, what)));
    let mut item: Map<String, Value> = operations.collect();
    let own = own.iter().copied().flatten().chain([&CONTAINER]);
    let own = own.map(|(name, schema, description)| parameters::query(name, schema, description));
    let in_path = ["namespace", "name"].map(parameters::in_path);
    item.insert("parameters".to_owned(), in_path.into_iter().chain(own).collect());
    Some(Value::Object(item))
}

fn operation(resource: &Resource<'_>, part: &Subresource<'_>, method: &str, what: &str) -> Value {
    let group = group_name(resource.kind.group);
    let version = resource.kind.version;
    let place = format!("{}{}", capitalized(&group), capitalized(version));
    let subject = format!("Namespaced{}{}", resource.kind.name, capitalized(part.name));
    let (id, action, media) = match part.name {
        "log" => (format!("read{place}{subject}"), "get", "text/plain"),
        _ => (format!("connect{place}{}{subject}", capitalized(method)), "connect", "*/*"),
    };
    json!({
        "description": what,
        "operationId": id,
        "tags": [format!("{group}_{version}")],
        "responses": {"200": {"description": "OK", "content": {media: {"schema": {"type": "string"}}}}},
        "x-kubernetes-action": action,
        "x-kubernetes-group-version-kind": part.kind.as_json(),
    })
}
