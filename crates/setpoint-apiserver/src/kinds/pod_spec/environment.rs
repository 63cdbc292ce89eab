//! The environment of a container: its variables and where their values come from.

use crate::kinds::lookup::last_by;
use setpoint_api::field::{Errors, Node, Path};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;

use super::{for_each_container, named, no_backsteps, required_name};

/// Fields of a Pod that a variable may take.
const VARIABLE_FIELDS: [&str; 9] = [
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.nodeName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.podIP",
    "status.podIPs",
];

/// Fields of a Pod that can be referred to at all.
const POD_FIELDS: [&str; 15] = [
    "metadata.annotations",
    "metadata.labels",
    "metadata.name",
    "metadata.namespace",
    "metadata.uid",
    "spec.host",
    "spec.nodeName",
    "spec.restartPolicy",
    "spec.schedulerName",
    "spec.serviceAccountName",
    "status.hostIP",
    "status.hostIPs",
    "status.phase",
    "status.podIP",
    "status.podIPs",
];

const RESOURCE_FIELDS: [&str; 6] = [
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
];

const HUGE_PAGE_PREFIXES: [&str; 2] = ["limits.hugepages-", "requests.hugepages-"];

const SOURCES: [&str; 5] = ["fieldRef", "resourceFieldRef", "configMapKeyRef", "secretKeyRef", "fileKeyRef"];

/// Checks `env` and `envFrom`.
pub(super) fn validate(container: Node<'_, '_>, errors: &mut Errors) {
    for variable in container.field("env").items() {
        required_name(variable.field("name"), names::relaxed_env_var_name, errors);
        validate_source(variable, errors);
    }
    let from = container.field("envFrom");
    for source in from.items() {
        let prefix = source.field("prefix");
        if !prefix.str().is_empty() {
            named(prefix, names::relaxed_env_var_name, errors);
        }
        let mut count = 0;
        for sort in ["configMapRef", "secretRef"] {
            let reference = source.field(sort);
            if reference.is_set() {
                count += 1;
                required_name(reference.field("name"), name_or_prefix, errors);
            }
        }
        match count {
            0 => errors.invalid(&from.path, "", "must specify one of: `configMapRef` or `secretRef`"),
            1 => {}
            _ => errors.invalid(&from.path, "", "may not have more than one field specified at a time"),
        }
    }
}

/// The name of a whole ConfigMap or Secret, which Kubernetes lets end in a dash.
fn name_or_prefix(value: &str) -> Vec<String> {
    names::object_name(names::dns1123_subdomain, value, true)
}

fn validate_source(variable: Node<'_, '_>, errors: &mut Errors) {
    let from = variable.field("valueFrom");
    if !from.is_set() {
        return;
    }
    let mut count = 0;
    for sort in SOURCES {
        let source = from.field(sort);
        if !source.is_set() {
            continue;
        }
        count += 1;
        match sort {
            "fieldRef" => validate_field_ref(source, &VARIABLE_FIELDS, errors),
            "resourceFieldRef" => validate_resource_field_ref(source, false, errors),
            "fileKeyRef" => validate_file_key(source, errors),
            _ => {
                named(source.field("name"), names::dns1123_subdomain, errors);
                required_name(source.field("key"), names::config_map_key, errors);
            }
        }
    }
    if count == 0 {
        let detail =
            "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef`, `secretKeyRef` or `fileKeyRef`";
        errors.invalid(&from.path, "", detail);
    } else if !variable.field("value").str().is_empty() {
        errors.invalid(&from.path, "", "may not be specified when `value` is not empty");
    } else if count > 1 {
        errors.invalid(&from.path, "", "may not have more than one field specified at a time");
    }
}

/// Checks a reference to a field of the pod; `supported` are the fields it may name without a subscript.
pub(super) fn validate_field_ref(reference: Node<'_, '_>, supported: &[&str], errors: &mut Errors) {
    let (version, field_path) = (reference.field("apiVersion"), reference.field("fieldPath"));
    for text in [version, field_path] {
        if text.str().is_empty() {
            return errors.required(&text.path, "");
        }
    }
    let label = field_path.str();
    let subscripted = subscript(label);
    let problem = match subscripted {
        _ if version.str() != "v1" => Some(format!("unsupported pod version: {}", version.str())),
        Some((path, _)) if !["metadata.annotations", "metadata.labels"].contains(&path) => {
            Some(format!("field label does not support subscript: {label}"))
        }
        None if !POD_FIELDS.contains(&label) => Some(format!("field label not supported: {label}")),
        _ => None,
    };
    if let Some(problem) = problem {
        return errors.invalid(&field_path.path, label, &format!("error converting fieldPath: {problem}"));
    }
    match subscripted {
        Some(("metadata.annotations", key)) => qualified(&key.to_lowercase(), &reference.path, errors),
        Some((_, key)) => qualified(key, &reference.path, errors),
        None => {
            let label = if label == "spec.host" { "spec.nodeName" } else { label };
            if !supported.contains(&label) {
                errors.unsupported(&field_path.path, label, supported);
            }
        }
    }
}

/// Splits `metadata.labels['key']`.
fn subscript(label: &str) -> Option<(&str, &str)> {
    let inner = label.strip_suffix("']")?;
    inner.split_once("['").filter(|(path, _)| !path.is_empty())
}

fn qualified(key: &str, path: &Path<'_>, errors: &mut Errors) {
    for message in names::qualified_name(key) {
        errors.invalid(path, key, &message);
    }
}

/// Checks a reference to a container's own limit or request.
pub(super) fn validate_resource_field_ref(reference: Node<'_, '_>, in_volume: bool, errors: &mut Errors) {
    let (container, resource) = (reference.field("containerName"), reference.field("resource"));
    let huge_pages = HUGE_PAGE_PREFIXES.iter().any(|prefix| resource.str().starts_with(prefix));
    if in_volume && container.str().is_empty() {
        errors.required(&container.path, "");
    } else if resource.str().is_empty() {
        errors.required(&resource.path, "");
    } else if !RESOURCE_FIELDS.contains(&resource.str()) && !huge_pages {
        errors.unsupported(&resource.path, resource.str(), &RESOURCE_FIELDS);
    }
    let divisor = reference.field("divisor");
    let Some(unit) = Quantity::parse(divisor.str()).ok().map(|unit| unit.to_string()).filter(|unit| unit != "0") else {
        return;
    };
    const BYTES: [&str; 13] = ["1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei"];
    let (supported, listed, noun): (&[&str], _, _) = match resource.str() {
        "limits.cpu" | "requests.cpu" => (&["1m", "1"], "1m and 1".to_owned(), "cpu"),
        "limits.memory" | "requests.memory" => (&BYTES, BYTES.join(", "), "memory"),
        "limits.ephemeral-storage" | "requests.ephemeral-storage" => {
            (&BYTES, BYTES.join(", "), "local ephemeral storage")
        }
        _ if huge_pages => (&BYTES, BYTES.join(", "), "hugepages"),
        _ => return,
    };
    if !supported.contains(&unit.as_str()) {
        let detail = format!("only divisor's values {listed} are supported with the {noun} resource");
        errors.invalid(&divisor.path, resource.str(), &detail);
    }
}

fn validate_file_key(source: Node<'_, '_>, errors: &mut Errors) {
    required_name(source.field("key"), names::relaxed_env_var_name, errors);
    required_name(source.field("volumeName"), names::dns1123_label, errors);
    let path = source.field("path");
    if path.str().is_empty() {
        errors.required(&path.path, "");
    } else {
        no_backsteps(path.str(), &path.path, errors);
    }
}

/// A variable read from a file needs that file in an empty directory of the pod.
pub(super) fn validate_file_volumes(spec: Node<'_, '_>, errors: &mut Errors) {
    let volumes = last_by(&spec.value["volumes"], "name");
    for_each_container(spec, |container| {
        for variable in container.field("env").items() {
            let from = variable.field("valueFrom");
            let file = from.field("fileKeyRef");
            if !file.is_set() {
                continue;
            }
            let name = file.field("volumeName");
            match volumes.get(name.str()) {
                None => errors.not_found(&name.path, name.str()),
                Some(volume) if volume["emptyDir"].is_null() => {
                    errors.invalid(&name.path, name.str(), "referenced volume must be of type emptyDir");
                }
                Some(_) => {}
            }
        }
    });
}
