//! What must hold of a definition, its schemas aside.
//!
//! Kubernetes keeps what all versions share once and names it so in its messages: `spec.validation` is the schema of every
//! version where they have one and the same. So do ours.

use std::collections::HashSet;

use serde_json::{Value, json};

use super::paths::{validate_columns, validate_scale, validate_selectable};
use super::{defaults, openapi, structural};
use crate::cel::Rules;
use crate::custom::names;
use crate::custom::structure::Structure;
use crate::go_regex::GoRegex;
use setpoint_api::field::{Errors, Fault, Node, Path};
use setpoint_api::names::{dns1035_label, dns1123_subdomain};

const APPROVED: &str = "api-approved.kubernetes.io";

/// The name follows from what is defined.
pub(super) fn validate_name(object: Node<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (object.field("metadata"), object.field("spec"));
    let (plural, name) = (spec.field("names").field("plural").str().to_owned(), metadata.field("name"));
    if name.str() != format!("{plural}.{}", spec.field("group").str()) {
        errors.invalid(&name.path, name.str(), r#"must be spec.names.plural+"."+spec.group"#);
    }
}

pub(super) fn validate(object: Node<'_, '_>, errors: &mut Errors) {
    validate_spec(object.field("spec"), errors);
    validate_rest(object, errors);
}

fn validate_rest(object: Node<'_, '_>, errors: &mut Errors) {
    validate_status(object, errors);
    validate_stored_versions(object, errors);
    validate_approval(object, errors);
    if object.field("spec").field("preserveUnknownFields").value == &Value::Bool(true) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.invalid(&Path::of("spec.preserveUnknownFields"), true, detail);
    }
}

pub(super) fn validate_update(object: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let spec = object.field("spec");
    validate_spec(spec, errors);
    let (asked, old_spec) = (spec.field("names"), &old["spec"]);
    let mut immutable = |node: Node<'_, '_>, old: &Value| {
        if node.value != old {
            errors.invalid(&node.path, node.value, "field is immutable");
        }
    };
    if names::is_true(old, "Established") {
        immutable(spec.field("scope"), &old_spec["scope"]);
        immutable(asked.field("kind"), &old_spec["names"]["kind"]);
    }
    immutable(spec.field("group"), &old_spec["group"]);
    immutable(asked.field("plural"), &old_spec["names"]["plural"]);
    validate_rest(object, errors);
}

pub(super) fn validate_status(object: Node<'_, '_>, errors: &mut Errors) {
    validate_names(object.field("status").field("acceptedNames"), errors);
}

fn validate_spec(spec: Node<'_, '_>, errors: &mut Errors) {
    validate_group(spec.field("group"), errors);
    let scope = spec.field("scope");
    one_of(scope, &["Cluster", "Namespaced"], errors);
    let versions = spec.field("versions");
    for version in versions.items() {
        let schema = version.field("schema");
        let schema = schema.field("openAPIV3Schema");
        if !schema.is_set() {
            errors.required(&schema.path, "");
        }
    }
    let shared = Shared::of(versions.value);
    for version in versions.items() {
        validate_version(version, &shared, errors);
    }
    validate_versions_together(versions, errors);
    let asked = spec.field("names");
    for field in ["plural", "singular", "kind", "listKind"] {
        if asked.field(field).str().is_empty() {
            errors.required(&asked.field(field).path, "");
        }
    }
    validate_names(asked, errors);
    if let Some(first) = versions.items().next() {
        let (path, schema) = (spec.path.field("validation"), first.field("schema"));
        if shared.schema {
            let has_status = versions.items().any(|version| has_status(version.value));
            let schema = schema.field("openAPIV3Schema");
            validate_schema(Node { value: schema.value, path: path.field("openAPIV3Schema") }, has_status, errors);
        }
        let moved = |name: &'static str| Node {
            value: first.value.get(name).unwrap_or(&Value::Null),
            path: spec.path.field(name),
        };
        if shared.subresources {
            validate_scale(moved("subresources"), errors);
        }
        if shared.columns {
            validate_columns(moved("additionalPrinterColumns"), errors);
        }
        if shared.selectable {
            validate_selectable(moved("selectableFields"), &first.value["schema"]["openAPIV3Schema"], errors);
        }
    }
    validate_conversion(spec.field("conversion"), errors);
}

/// What all versions have in common.
struct Shared {
    schema: bool,
    subresources: bool,
    columns: bool,
    selectable: bool,
}

impl Shared {
    fn of(versions: &Value) -> Shared {
        let versions = versions.as_array().map(Vec::as_slice).unwrap_or_default();
        let all = |field: &str| versions.iter().all(|version| version.get(field) == versions[0].get(field));
        Shared {
            schema: all("schema"),
            subresources: all("subresources"),
            columns: all("additionalPrinterColumns"),
            selectable: all("selectableFields"),
        }
    }
}

fn validate_group(group: Node<'_, '_>, errors: &mut Errors) {
    let wrong = dns1123_subdomain(group.str());
    if group.str().is_empty() {
        errors.required(&group.path, "");
    } else if !wrong.is_empty() {
        errors.invalid(&group.path, group.str(), &wrong.join(","));
    } else if !group.str().contains('.') {
        errors.invalid(&group.path, group.str(), "should be a domain with at least one dot");
    }
}

fn one_of(node: Node<'_, '_>, allowed: &[&str], errors: &mut Errors) {
    match node.str() {
        "" => errors.required(&node.path, ""),
        value if allowed.contains(&value) => {}
        value => errors.unsupported(&node.path, value, allowed),
    }
}

fn validate_version(version: Node<'_, '_>, shared: &Shared, errors: &mut Errors) {
    let name = version.field("name");
    let wrong = dns1035_label(name.str());
    if !wrong.is_empty() {
        errors.invalid(&name.path, name.str(), &wrong.join(","));
    }
    validate_deprecation(version, errors);
    if !shared.schema {
        let schema = version.field("schema");
        let schema = schema.field("openAPIV3Schema");
        validate_schema(schema, has_status(version.value), errors);
    }
    if !shared.subresources {
        validate_scale(version.field("subresources"), errors);
    }
    if !shared.columns {
        validate_columns(version.field("additionalPrinterColumns"), errors);
    }
    if !shared.selectable {
        validate_selectable(version.field("selectableFields"), &version.value["schema"]["openAPIV3Schema"], errors);
    }
}

fn has_status(version: &Value) -> bool {
    version["subresources"]["status"].is_object()
}

fn validate_deprecation(version: Node<'_, '_>, errors: &mut Errors) {
    let warning = version.field("deprecationWarning");
    let Some(text) = warning.value.as_str() else { return };
    let mut refuse = |detail: &str| errors.invalid(&warning.path, text, detail);
    if version.field("deprecated").bool() != Some(true) {
        refuse("can only be set for deprecated versions");
        return;
    }
    if text.len() > 256 {
        refuse("must be <= 256 characters long");
    }
    if text.is_empty() {
        refuse("must not be an empty string");
    }
    if let Some((index, _)) = text.char_indices().find(|(_, character)| character.is_control()) {
        let detail = "must only contain printable UTF-8 characters; non-printable character found at index";
        refuse(&format!("{detail} {index}"));
    }
}

fn validate_versions_together(versions: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    let unique = versions.items().all(|version| seen.insert(version.field("name").str()));
    let mut refuse = |detail: &str| {
        errors.push(Fault::Invalid, &versions.path, || {
            format!("Invalid value: {}: {detail}", shown_versions(versions.value))
        });
    };
    if !unique {
        refuse("must contain unique version names");
    }
    if versions.items().filter(|version| version.field("storage").bool() == Some(true)).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    if let Some(first) = versions.items().next() {
        let name = first.field("name").str();
        let wrong = dns1035_label(name);
        if !name.is_empty() && !wrong.is_empty() {
            errors.invalid(&Path::of("spec.version"), name, &wrong.join(","));
        }
    }
}

/// Versions as Kubernetes shows them in messages. What they share stands elsewhere and shows as null.
fn shown_versions(versions: &Value) -> String {
    let shown = versions.as_array().into_iter().flatten().map(|version| {
        let flag = |name: &str| version[name].as_bool().unwrap_or(false);
        format!(
            r#"{{"Name":{},"Served":{},"Storage":{},"Deprecated":{},"DeprecationWarning":{},"Schema":null,"Subresources":null,"AdditionalPrinterColumns":null,"SelectableFields":null}}"#,
            json!(version["name"].as_str().unwrap_or_default()),
            flag("served"),
            flag("storage"),
            flag("deprecated"),
            version["deprecationWarning"],
        )
    });
    format!("[{}]", shown.collect::<Vec<_>>().join(","))
}

fn validate_names(asked: Node<'_, '_>, errors: &mut Errors) {
    let mut label = |node: Node<'_, '_>, mixed: bool| {
        let wrong = dns1035_label(&if mixed { node.str().to_lowercase() } else { node.str().to_owned() });
        if !node.str().is_empty() && !wrong.is_empty() {
            let prefix = if mixed { "may have mixed case, but should otherwise match: " } else { "" };
            errors.invalid(&node.path, node.str(), &format!("{prefix}{}", wrong.join(",")));
        }
    };
    label(asked.field("plural"), false);
    label(asked.field("singular"), false);
    label(asked.field("kind"), true);
    label(asked.field("listKind"), true);
    asked.field("shortNames").items().for_each(|name| label(name, false));
    let (kind, list) = (asked.field("kind"), asked.field("listKind"));
    if !kind.str().is_empty() && kind.str() == list.str() {
        errors.invalid(&list.path, list.str(), "kind and listKind may not be the same");
    }
    for category in asked.field("categories").items() {
        let wrong = dns1035_label(category.str());
        if !wrong.is_empty() {
            errors.invalid(&category.path, category.str(), &wrong.join(","));
        }
    }
}

/// Checks a schema in the order Kubernetes does: its structure, its defaults, its form, its rules. What comes later is
/// looked at only if what came before is sound.
fn validate_schema(schema: Node<'_, '_>, has_status: bool, errors: &mut Errors) {
    if !schema.value.is_object() {
        return;
    }
    let mut found = Errors::default();
    if has_status {
        openapi::validate_root(schema, &mut found);
    }
    if schema.field("nullable").bool() == Some(true) {
        found.forbidden(&schema.field("nullable").path, "nullable cannot be true at the root");
    }
    let before = found.len();
    structural::validate(schema, &mut found);
    if found.len() == before {
        defaults::validate(schema, &Structure::compile(schema.value), true, &mut found);
    }
    let mut form = Errors::default();
    openapi::validate(schema, openapi::Context::ROOT, &mut form);
    let sound = found.is_empty() && form.is_empty();
    found.extend(form);
    if sound && let Err(faults) = Rules::compile(schema.value, &schema.path) {
        found.extend(faults);
    }
    errors.extend(found);
}

/// Objects are stored in one version and shown in any, and only their version changes: nobody is asked to convert them.
fn validate_conversion(conversion: Node<'_, '_>, errors: &mut Errors) {
    let strategy = conversion.field("strategy");
    match strategy.str() {
        "None" => {}
        "Webhook" => errors.invalid(&strategy.path, "Webhook", "must be None: this server does not call webhooks"),
        _ => one_of(strategy, &["None", "Webhook"], errors),
    }
    if conversion.field("webhook").is_set() && strategy.str() == "None" {
        let path = conversion.path.field("webhookClientConfig");
        errors.forbidden(&path, "should not be set when strategy is not set to Webhook");
    }
}

fn validate_stored_versions(object: Node<'_, '_>, errors: &mut Errors) {
    let status = object.field("status");
    let stored = status.field("storedVersions");
    if stored.is_empty() {
        errors.invalid(&stored.path, Value::Null, "must have at least one stored version");
        return;
    }
    let spec = object.field("spec");
    let versions = spec.field("versions");
    let known: HashSet<&str> = versions.items().map(|version| version.field("name").str()).collect();
    let kept: HashSet<&str> = stored.items().map(|version| version.str()).collect();
    for version in versions.items().filter(|version| version.field("storage").bool() == Some(true)) {
        let name = version.field("name").str();
        if !kept.contains(name) {
            errors.invalid(&stored.path, stored.value, &format!("must have the storage version {name}"));
        }
    }
    for version in stored.items() {
        let name = version.str();
        if !known.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            errors.invalid(&version.path, name, &detail);
        }
    }
}

/// Groups of Kubernetes' own are defined with its project's approval.
fn validate_approval(object: Node<'_, '_>, errors: &mut Errors) {
    let group = object.field("spec").field("group").str().to_owned();
    let protected =
        ["k8s.io", "kubernetes.io"].iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}")));
    if !protected {
        return;
    }
    let metadata = object.field("metadata");
    let annotations = metadata.field("annotations");
    let path = annotations.path.key(APPROVED);
    match annotations.value.get(APPROVED).and_then(Value::as_str) {
        None | Some("") => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVED}\", see https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.required(&path, &detail);
        }
        Some(text) if text.starts_with("unapproved") || text.contains("://") => {}
        Some(text) => {
            let detail = format!(
                "protected groups must have approval annotation \"{APPROVED}\" with either a URL or a reason starting with \"unapproved\", see https://github.com/kubernetes/enhancements/pull/1111"
            );
            errors.invalid(&path, text, &detail);
        }
    }
}

/// Why a text is no pattern, if it is none.
pub(super) fn pattern_fault(pattern: &str) -> Option<String> {
    let error = GoRegex::new(pattern).err()?;
    Some(format!("must be a valid regular expression, but isn't: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::proportion::assert_in_proportion;

    #[test]
    fn many_versions_take_time_in_proportion() {
        let definition = |count: usize| {
            let name = |number: usize| format!("v{number:062}");
            let versions: Value =
                (0..count).map(|number| json!({"name": name(number), "storage": number == 0})).collect();
            let stored: Value = (0..count).map(name).collect();
            [json!({"spec": {"versions": versions}, "status": {"storedVersions": stored}}), Value::Null]
        };
        assert_in_proportion("versions and where they are stored", definition, |object, _| {
            let (object, mut errors) = (Node::root(object), Errors::default());
            validate_versions_together(object.field("spec").field("versions"), &mut errors);
            validate_stored_versions(object, &mut errors);
            assert!(errors.is_empty(), "{errors:?}");
        });
    }
}
