//! The paths of a resource, and what can be done there.

use serde_json::{Map, Value, json};

use super::components::{DELETE_OPTIONS, PATCH, STATUS};
use super::{Kind, Resource, parameters, reference, root_path, streams};

/// Custom resources do not take the last, which needs to know more of a schema than theirs say.
const PATCH_TYPES: [&str; 4] = [
    "application/apply-patch+yaml",
    "application/json-patch+json",
    "application/merge-patch+json",
    "application/strategic-merge-patch+json",
];

/// A verb of the API, and how OpenAPI has it.
struct Verb {
    name: &'static str,
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    /// What stands in the operation's id before its group and version, and after.
    id: (&'static str, &'static str),
}

const COLLECTION_VERBS: [Verb; 3] = [
    Verb { name: "list", method: "get", action: "list", id: ("list", "") },
    Verb { name: "create", method: "post", action: "post", id: ("create", "") },
    Verb { name: "deletecollection", method: "delete", action: "deletecollection", id: ("delete", "Collection") },
];

const OBJECT_VERBS: [Verb; 5] = [
    Verb { name: "get", method: "get", action: "get", id: ("read", "") },
    Verb { name: "create", method: "post", action: "post", id: ("create", "") },
    Verb { name: "update", method: "put", action: "put", id: ("replace", "") },
    Verb { name: "patch", method: "patch", action: "patch", id: ("patch", "") },
    Verb { name: "delete", method: "delete", action: "delete", id: ("delete", "") },
];

/// Every path of these resources.
pub(super) fn paths(resources: &[Resource<'_>]) -> Map<String, Value> {
    let mut paths = Map::new();
    resources.iter().for_each(|resource| add_paths(&mut paths, resource));
    paths
}

fn add_paths(paths: &mut Map<String, Value>, resource: &Resource<'_>) {
    let Resource { kind, plural, .. } = *resource;
    let root = root_path(kind.group, kind.version);
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    let object = format!("{collection}/{{name}}");
    let whole = Subject::new(resource, kind, "");
    let on_collections = COLLECTION_VERBS.iter().filter(|verb| resource.verbs.contains(&verb.name));
    let on_objects = OBJECT_VERBS.iter().filter(|verb| verb.name != "create" && resource.verbs.contains(&verb.name));
    add(paths, &collection, &whole, on_collections);
    add(paths, &object, &whole, on_objects);
    if resource.namespaced && resource.verbs.contains(&"list") {
        let everywhere = Subject { name: format!("{}ForAllNamespaces", kind.name), ..whole };
        add(paths, &format!("{root}/{plural}"), &everywhere, COLLECTION_VERBS.iter().take(1));
    }
    for part in resource.subresources {
        if let Some(stream) = streams::describe(resource, part) {
            paths.insert(format!("{object}/{}", part.name), stream);
            continue;
        }
        let subject = Subject::new(resource, part.kind, part.name);
        let verbs = OBJECT_VERBS.iter().filter(|verb| part.verbs.contains(&verb.name));
        add(paths, &format!("{object}/{}", part.name), &subject, verbs);
    }
}

/// What the operations of a path are about.
struct Subject<'r> {
    resource: &'r Resource<'r>,
    /// What is read and written.
    kind: Kind<'r>,
    /// How operations' ids call it, such as `NamespacedPod`.
    name: String,
}

impl<'r> Subject<'r> {
    fn new(resource: &'r Resource<'r>, kind: Kind<'r>, part: &str) -> Subject<'r> {
        let scope = if resource.namespaced { "Namespaced" } else { "" };
        Subject { resource, kind, name: format!("{scope}{}{}", resource.kind.name, capitalized(part)) }
    }
}

fn add<'v>(paths: &mut Map<String, Value>, path: &str, subject: &Subject<'_>, verbs: impl Iterator<Item = &'v Verb>) {
    let mut item: Map<String, Value> = verbs.map(|verb| (verb.method.to_owned(), operation(verb, subject))).collect();
    if item.is_empty() {
        return;
    }
    let in_path = ["namespace", "name"].into_iter().filter(|name| path.contains(&format!("{{{name}}}")));
    let parameters: Vec<Value> = in_path.map(parameters::in_path).chain([parameters::pretty()]).collect();
    item.insert("parameters".to_owned(), Value::Array(parameters));
    paths.insert(path.to_owned(), Value::Object(item));
}

fn operation(verb: &Verb, subject: &Subject<'_>) -> Value {
    let kind = subject.kind.name;
    let definition = subject.kind.definition();
    let list = Kind { name: subject.resource.list_kind, ..subject.kind }.definition();
    let (description, parameters, request, response) = match verb.action {
        "list" => (format!("lists or watches {kind} objects"), parameters::listing(), None, list),
        "get" => (format!("reads a {kind}"), Vec::new(), None, definition),
        "post" => (format!("creates a {kind}"), parameters::writing(), Some(written(&definition)), definition),
        "put" => (format!("replaces a {kind}"), parameters::writing(), Some(written(&definition)), definition),
        "patch" => (format!("changes a {kind}"), parameters::patching(), Some(patch_body(subject.kind)), definition),
        "deletecollection" => {
            let parameters = parameters::listing().into_iter().filter(|parameter| parameter["name"] != "watch");
            let parameters = parameters.chain(parameters::deleting()).collect();
            (format!("deletes {kind} objects"), parameters, Some(body(DELETE_OPTIONS)), STATUS.to_owned())
        }
        _ => (format!("deletes a {kind}"), parameters::deleting(), Some(body(DELETE_OPTIONS)), STATUS.to_owned()),
    };
    let ((before, after), version) = (verb.id, subject.resource.kind.version);
    let group = group_name(subject.resource.kind.group);
    let mut operation = json!({
        "description": description,
        "operationId": format!("{before}{}{}{after}{}", capitalized(&group), capitalized(version), subject.name),
        "tags": [format!("{group}_{version}")],
        "parameters": parameters,
        "responses": responses(verb, &response),
        "x-kubernetes-action": verb.action,
        "x-kubernetes-group-version-kind": subject.kind.as_json(),
    });
    if let Some(request) = request {
        operation["requestBody"] = request;
    }
    operation
}

fn responses(verb: &Verb, definition: &str) -> Value {
    let mut content = json!({
        "application/json": {"schema": reference(definition)},
        "application/yaml": {"schema": reference(definition)},
    });
    if verb.action == "list" {
        content["application/json;stream=watch"] = json!({"schema": reference(definition)});
    }
    let response = |description: &str| json!({"description": description, "content": content});
    match verb.action {
        "post" => json!({"200": response("OK"), "201": response("Created"), "202": response("Accepted")}),
        "put" | "patch" => json!({"200": response("OK"), "201": response("Created")}),
        "delete" => json!({"200": response("OK"), "202": response("Accepted")}),
        _ => json!({"200": response("OK")}),
    }
}

/// A body that may be left out.
fn body(definition: &str) -> Value {
    json!({"content": {"*/*": {"schema": reference(definition)}}})
}

/// A body that is what is written.
fn written(definition: &str) -> Value {
    json!({"required": true, "content": {"*/*": {"schema": reference(definition)}}})
}

fn patch_body(kind: Kind<'_>) -> Value {
    let taken = PATCH_TYPES.iter().take(if kind.custom { 3 } else { 4 });
    let content: Map<String, Value> =
        taken.map(|media| ((*media).to_owned(), json!({"schema": reference(PATCH)}))).collect();
    json!({"required": true, "content": content})
}

/// A group as one word: `core`, `apps`, `rbacAuthorization`, `exampleCom`, …
pub(super) fn group_name(group: &str) -> String {
    let group = group.strip_suffix(".k8s.io").unwrap_or(group);
    let mut words = if group.is_empty() { "core" } else { group }.split(['.', '-']);
    let first = words.next().unwrap_or_default().to_owned();
    words.fold(first, |name, word| name + &capitalized(word))
}

pub(super) fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
