//! The paths of a resource, and what can be done there.

use serde_json::{Map, Value, json};

use super::components::{DELETE_OPTIONS, PATCH, STATUS, WATCH_EVENT};
use super::{GroupVersionKind, Resource, parameters, reference, root_path};

const PATCH_TYPES: [&str; 3] =
    ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"];

const STRATEGIC: &str = "application/strategic-merge-patch+json";

/// A verb of the API, and how OpenAPI has it.
struct Verb {
    name: &'static str,
    method: &'static str,
    /// `x-kubernetes-action`.
    action: &'static str,
    /// The beginning of the operation's id, which is followed by the group and the kind.
    id: &'static str,
}

const COLLECTION_VERBS: [Verb; 3] = [
    Verb { name: "list", method: "get", action: "list", id: "list" },
    Verb { name: "create", method: "post", action: "post", id: "create" },
    Verb { name: "deletecollection", method: "delete", action: "deletecollection", id: "deleteCollection" },
];

const OBJECT_VERBS: [Verb; 5] = [
    Verb { name: "get", method: "get", action: "get", id: "read" },
    Verb { name: "create", method: "post", action: "post", id: "create" },
    Verb { name: "update", method: "put", action: "put", id: "replace" },
    Verb { name: "patch", method: "patch", action: "patch", id: "patch" },
    Verb { name: "delete", method: "delete", action: "delete", id: "delete" },
];

/// Adds every path of a resource.
pub(super) fn add_paths(paths: &mut Map<String, Value>, kind: GroupVersionKind<'_>, resource: &Resource<'_>) {
    let root = root_path(kind.group, kind.version);
    let plural = resource.plural;
    let collection = if resource.namespaced {
        format!("{root}/namespaces/{{namespace}}/{plural}")
    } else {
        format!("{root}/{plural}")
    };
    let object = format!("{collection}/{{name}}");
    let scope = if resource.namespaced { "Namespaced" } else { "" };
    let subject = |suffix: String| Subject {
        kind,
        tag: tag(kind),
        name: format!("{}{suffix}", id_prefix(kind)),
        custom: resource.custom,
    };

    let whole = subject(format!("{scope}{}", kind.kind));
    let on_collections = COLLECTION_VERBS.iter().filter(|verb| resource.verbs.contains(&verb.name));
    let on_objects = OBJECT_VERBS.iter().filter(|verb| verb.name != "create" && resource.verbs.contains(&verb.name));
    add(paths, &collection, &whole, on_collections);
    add(paths, &object, &whole, on_objects);
    if resource.namespaced && resource.verbs.contains(&"list") {
        let everywhere = subject(format!("{}ForAllNamespaces", kind.kind));
        add(paths, &format!("{root}/{plural}"), &everywhere, COLLECTION_VERBS.iter().take(1));
    }
    for part in resource.subresources {
        let name = format!("{}{scope}{}{}", id_prefix(kind), kind.kind, capitalized(part.name));
        let subject = Subject { kind: part.kind, tag: tag(kind), name, custom: resource.custom };
        let verbs = OBJECT_VERBS.iter().filter(|verb| part.verbs.contains(&verb.name));
        add(paths, &format!("{object}/{}", part.name), &subject, verbs);
    }
}

/// What the operations of a path are about.
struct Subject<'r> {
    kind: GroupVersionKind<'r>,
    tag: String,
    /// How operations' ids call it, such as `CoreV1NamespacedPod`.
    name: String,
    custom: bool,
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
    let kind = subject.kind.kind;
    let definition = subject.kind.definition();
    let (description, parameters, request, response) = match verb.action {
        "list" => {
            (format!("lists or watches {kind} objects"), parameters::listing(), None, format!("{definition}List"))
        }
        "get" => (format!("reads a {kind}"), Vec::new(), None, definition),
        "post" => (format!("creates a {kind}"), parameters::writing(), Some(body(&definition)), definition),
        "put" => (format!("replaces a {kind}"), parameters::writing(), Some(body(&definition)), definition),
        "patch" => (format!("changes a {kind}"), parameters::patching(), Some(patch_body(subject.custom)), definition),
        "deletecollection" => {
            let parameters = parameters::listing().into_iter().filter(|parameter| parameter["name"] != "watch");
            let parameters = parameters.chain(parameters::deleting()).collect();
            (format!("deletes {kind} objects"), parameters, Some(body(DELETE_OPTIONS)), STATUS.to_owned())
        }
        _ => (format!("deletes a {kind}"), parameters::deleting(), Some(body(DELETE_OPTIONS)), STATUS.to_owned()),
    };
    let mut operation = json!({
        "description": description,
        "operationId": format!("{}{}", verb.id, subject.name),
        "tags": [subject.tag],
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
        content["application/json;stream=watch"] = json!({"schema": reference(WATCH_EVENT)});
    }
    let response = |description: &str| json!({"description": description, "content": content});
    match verb.action {
        "post" => json!({"200": response("OK"), "201": response("Created"), "202": response("Accepted")}),
        "put" | "patch" => json!({"200": response("OK"), "201": response("Created")}),
        "delete" => json!({"200": response("OK"), "202": response("Accepted")}),
        _ => json!({"200": response("OK")}),
    }
}

fn body(definition: &str) -> Value {
    json!({"content": {"*/*": {"schema": reference(definition)}}})
}

/// kubectl merges strategically wherever a strategic merge patch is said to be taken.
fn patch_body(custom: bool) -> Value {
    let types = PATCH_TYPES.into_iter().chain((!custom).then_some(STRATEGIC));
    let content: Map<String, Value> =
        types.map(|media| (media.to_owned(), json!({"schema": reference(PATCH)}))).collect();
    json!({"required": true, "content": content})
}

/// `CoreV1`, `AppsV1`, …
fn id_prefix(kind: GroupVersionKind<'_>) -> String {
    format!("{}{}", capitalized(kind.package()), capitalized(kind.version))
}

/// `core_v1`, `apps_v1`, …
fn tag(kind: GroupVersionKind<'_>) -> String {
    format!("{}_{}", kind.package(), kind.version)
}

fn capitalized(text: &str) -> String {
    let mut chars = text.chars();
    chars.next().map_or(String::new(), |first| first.to_uppercase().chain(chars).collect())
}
