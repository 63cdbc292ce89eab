//! What a claim asks of a volume, in a PersistentVolumeClaim or in a template of one.

use serde_json::{Map, Value};

use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;
use setpoint_api::quantity::Quantity;

use super::defaults::{fill, remove, section};
use super::endpoints::report;
use super::pod_spec::fill_resources;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// Fills in the spec of a claim.
pub(super) fn fill_spec(claim: &mut Value) {
    let spec = section(claim, "spec");
    fill(spec, "volumeMode", "Filesystem");
    fill_resources(section(spec, "resources"));
}

/// The size that is asked for.
pub(super) fn requested(spec: &Value) -> Option<Quantity> {
    Quantity::parse(spec["resources"]["requests"]["storage"].as_str()?).ok()
}

pub(super) fn validate(spec: Node<'_, '_>, errors: &mut Errors) {
    validate_access(spec, errors);
    validate_size(spec, errors);
    let class = spec.field("storageClassName");
    if !class.str().is_empty() {
        report(class, names::dns1123_subdomain, errors);
    }
    let mode = spec.field("volumeMode");
    if mode.is_set() && !["Block", "Filesystem"].contains(&mode.str()) {
        errors.unsupported(&mode.path, mode.str(), &["Block", "Filesystem"]);
    }
    validate_sources(spec, errors);
    let attributes = spec.field("volumeAttributesClassName");
    if !attributes.str().is_empty() {
        report(attributes, names::dns1123_subdomain, errors);
    }
}

fn validate_access(spec: Node<'_, '_>, errors: &mut Errors) {
    let modes = spec.field("accessModes");
    if modes.is_empty() {
        errors.required(&modes.path, "at least 1 access mode is required");
    }
    labels::validate_label_selector(spec.field("selector"), errors);
    for mode in modes.items().filter(|mode| !ACCESS_MODES.contains(&mode.str())) {
        errors.unsupported(&modes.path, mode.str(), &ACCESS_MODES);
    }
    let alone = modes.items().any(|mode| mode.str() == "ReadWriteOncePod");
    let shared = modes.items().any(|mode| mode.str() != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode.str()));
    if alone && shared {
        errors.forbidden(&modes.path, "may not use ReadWriteOncePod with other access modes");
    }
}

fn validate_size(spec: Node<'_, '_>, errors: &mut Errors) {
    let resources = spec.field("resources");
    let path = resources.path.key("storage");
    match requested(spec.value) {
        None => errors.required(&path, ""),
        Some(size) if size <= Quantity::ZERO => errors.invalid(&path, size.to_string(), "must be greater than zero"),
        Some(_) => {}
    }
}

/// What the volume starts with is said twice, by an older field and a newer one.
fn validate_sources(spec: Node<'_, '_>, errors: &mut Errors) {
    let (old, new) = (spec.field("dataSource"), spec.field("dataSourceRef"));
    for source in [old, new].into_iter().filter(Node::is_set) {
        validate_source(source, errors);
    }
    let namespace = new.field("namespace");
    if !namespace.str().is_empty() {
        report(namespace, names::dns1123_label, errors);
        if old.is_set() {
            let detail = "may not be specified when dataSourceRef.namespace is specified";
            errors.invalid(&spec.path, Map::new(), detail);
        }
    } else if old.is_set() && new.is_set() {
        let same = ["apiGroup", "kind", "name"].iter().all(|field| old.field(field).value == new.field(field).value);
        if !same {
            errors.invalid(&spec.path, Map::new(), "must match dataSourceRef");
        }
    }
}

fn validate_source(source: Node<'_, '_>, errors: &mut Errors) {
    let (group, kind) = (source.field("apiGroup"), source.field("kind"));
    for field in ["name", "kind"] {
        let text = source.field(field);
        if text.str().is_empty() {
            errors.required(&text.path, "");
        }
    }
    if !group.str().is_empty() {
        report(group, names::dns1123_subdomain, errors);
    } else if kind.str() != "PersistentVolumeClaim" {
        let detail = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.invalid(&source.path, kind.str(), detail);
    }
}

/// Makes the two fields that say what the volume starts with say the same. The older one takes only claims and snapshots;
/// of anything else, a writer that knows only that field never heard.
pub(super) fn agree_on_source(spec: &mut Value, old: Option<&Value>) {
    let given = |spec: &Value, field: &str| spec[field].is_object();
    let had = |field: &str| old.is_some_and(|old| given(old, field));
    let elsewhere = |spec: &Value| spec["dataSourceRef"]["namespace"].as_str().is_some_and(|name| !name.is_empty());
    if elsewhere(spec) && !had("dataSourceRef") {
        remove(spec, "dataSourceRef");
    }
    if !had("dataSource") && !had("dataSourceRef") && !given(spec, "dataSourceRef") {
        let source = &spec["dataSource"];
        let known = matches!(
            (source["apiGroup"].as_str().unwrap_or_default(), source["kind"].as_str()),
            ("", Some("PersistentVolumeClaim")) | ("snapshot.storage.k8s.io", Some("VolumeSnapshot"))
        );
        if !known {
            remove(spec, "dataSource");
        }
    }
    match (given(spec, "dataSource"), given(spec, "dataSourceRef")) {
        (true, false) => spec["dataSourceRef"] = spec["dataSource"].clone(),
        (false, true) if !elsewhere(spec) => {
            spec["dataSource"] = spec["dataSourceRef"].clone();
            remove(&mut spec["dataSource"], "namespace");
        }
        _ => {}
    }
}
