//! Templates of pods, in what makes pods: their defaults, rules and columns.

use serde_json::Value;

use crate::columns;
use crate::kind::Column;
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::defaults::section;
use super::pod_spec::{self, fill_pod_spec};
use super::pod_status::validate_annotations;

/// The columns that show a template with `-o wide`.
pub(super) const CONTAINERS: Column = columns::wide("Containers", "The names of the template's containers.");
pub(super) const IMAGES: Column = columns::wide("Images", "The images of the template's containers.");
pub(super) const SELECTOR: Column = columns::wide("Selector", "The labels of the pods that belong to it.");

/// Fills in the template of an object's spec, which is always there.
pub(super) fn fill_template(object: &mut Value) {
    let template = section(section(object, "spec"), "template");
    section(template, "metadata");
    fill_pod_spec(section(template, "spec"));
}

/// Checks a template.
pub(super) fn validate_template(template: Node<'_, '_>, errors: &mut Errors) {
    let (metadata, spec) = (template.field("metadata"), template.field("spec"));
    // Kubernetes shows these without `metadata`.
    let annotations = Node { value: metadata.field("annotations").value, path: template.path.field("annotations") };
    labels::validate_labels(
        Node { value: metadata.field("labels").value, path: template.path.field("labels") },
        errors,
    );
    labels::validate_annotations(annotations, errors);
    validate_annotations(annotations, spec, errors);
    pod_spec::validate(spec, None, errors);
    pod_spec::validate_seccomp_annotations(annotations.value, spec, errors);
    let ephemeral = spec.field("ephemeralContainers");
    if !ephemeral.is_empty() {
        errors.forbidden(&ephemeral.path, "ephemeral containers not allowed in pod template");
    }
}

/// Checks the selector and template of what keeps a number of pods running.
pub(super) fn validate_replicated(spec: Node<'_, '_>, errors: &mut Errors) {
    let selector = spec.field("selector");
    if selector.is_set() {
        labels::validate_label_selector(selector, errors);
        if labels::is_empty_selector(selector.value) {
            errors.invalid(&selector.path, selector.value, "empty selector is invalid for deployment");
        }
    } else {
        errors.required(&selector.path, "");
    }
    if !is_selector(selector.value) {
        return errors.invalid(&selector.path, selector.value, "invalid label selector");
    }
    let template = spec.field("template");
    let (metadata, pod) = (template.field("metadata"), template.field("spec"));
    let template_labels = metadata.field("labels");
    if !labels::selector_matches(selector.value, template_labels.value) {
        let detail = "`selector` does not match template `labels`";
        errors.invalid(&template_labels.path, template_labels.value, detail);
    }
    validate_template(template, errors);
    let restart = pod.field("restartPolicy");
    if restart.str() != "Always" {
        errors.unsupported(&restart.path, restart.str(), &["Always"]);
    }
    let deadline = pod.field("activeDeadlineSeconds");
    if deadline.is_set() {
        errors.forbidden(&deadline.path, "activeDeadlineSeconds in ReplicaSet is not Supported");
    }
}

/// Pods are named after what makes them, and hosts after pods: remarks on a name that cannot be a host's.
pub(super) fn hostname_warnings(object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
    let messages = names::dns1123_label(object.field("metadata").field("name").str());
    if old.is_some() || messages.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label \
         is recommended: [{}]",
        messages.join(" ")
    )]
}

/// Whether a selector can be used at all: its labels and expressions are well-formed.
pub(super) fn is_selector(selector: &Value) -> bool {
    let mut errors = Errors::default();
    labels::validate_label_selector(Node::root(selector), &mut errors);
    errors.is_empty()
}

/// The cells of [`CONTAINERS`], [`IMAGES`] and [`SELECTOR`].
pub(super) fn template_cells(object: &Value) -> [Value; 3] {
    let containers = object["spec"]["template"]["spec"]["containers"].as_array().map(Vec::as_slice).unwrap_or_default();
    let joined = |field: &str| {
        containers.iter().map(|container| container[field].as_str().unwrap_or_default()).collect::<Vec<_>>().join(",")
    };
    [joined("name").into(), joined("image").into(), columns::label_selector(&object["spec"]["selector"]).into()]
}
