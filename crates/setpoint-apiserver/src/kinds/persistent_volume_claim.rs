//! PersistentVolumeClaims: what somebody asks of a volume that outlives its pods.

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node, Path};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;

use super::defaults::{fill_text, remove, section};
use super::immutable::validate_immutable;
use super::pod_spec::{canonicalize, claim_difference, within};
use super::volume_claim;

#[derive(Debug)]
pub struct PersistentVolumeClaim;

const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";
const UNSET: &str = "<unset>";

const RESIZE_STATES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

const COLUMNS: [Column; 9] = [
    columns::NAME,
    columns::text("Status", "Whether there is a volume for it."),
    columns::text("Volume", "The volume it has."),
    columns::text("Capacity", "The size of that volume."),
    columns::text("Access Modes", "How that volume may be used."),
    columns::text("StorageClass", "The class of storage it asks for."),
    columns::text("VolumeAttributesClass", "The class of attributes it asks for."),
    columns::AGE,
    columns::wide("VolumeMode", "Whether it is a file system or a block device."),
];

impl Behaviour for PersistentVolumeClaim {
    fn default(&self, object: &mut Value) {
        fill_claim(object);
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"phase": "Pending"});
        volume_claim::agree_on_source(&mut object["spec"], None);
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        if part == Part::Main {
            volume_claim::agree_on_source(&mut object["spec"], Some(&old["spec"]));
        }
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        volume_claim::validate(object.field("spec"), errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        if part == Part::Status {
            return validate_status(object.field("status"), errors);
        }
        self.validate(object, errors);
        validate_change(object, old, errors);
    }

    fn warnings(&self, object: Node<'_, '_>, _old: Option<&Value>) -> Vec<String> {
        let annotated = object.value["metadata"]["annotations"][CLASS_ANNOTATION].is_string();
        let old_way = annotated.then(|| {
            format!(
                "metadata.annotations[{CLASS_ANNOTATION}]: deprecated since v1.8; use \"storageClassName\" attribute instead"
            )
        });
        old_way.into_iter().chain(fractional_sizes(object.field("spec"))).collect()
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no volume will be provisioned or bound")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let (metadata, spec, status) = (&object["metadata"], &object["spec"], &object["status"]);
        let text = |value: &Value, absent: &str| Value::from(value.as_str().unwrap_or(absent));
        let deleted = metadata["deletionTimestamp"].is_string();
        let bound = spec["volumeName"].as_str().is_some_and(|volume| !volume.is_empty());
        let class = &metadata["annotations"][CLASS_ANNOTATION];
        vec![
            columns::name_cell(object),
            if deleted { "Terminating".into() } else { text(&status["phase"], "") },
            text(&spec["volumeName"], ""),
            if bound { text(&status["capacity"]["storage"], "0") } else { "".into() },
            if bound { access_modes(&status["accessModes"]).into() } else { "".into() },
            text(if class.is_string() { class } else { &spec["storageClassName"] }, ""),
            text(&spec["volumeAttributesClassName"], UNSET),
            columns::age_cell(object, now),
            text(&spec["volumeMode"], UNSET),
        ]
    }
}

/// Fills in a claim, also one in a template.
pub(super) fn fill_claim(claim: &mut Value) {
    volume_claim::fill_spec(claim);
    let status = section(claim, "status");
    fill_text(status, "phase", "Pending");
    for amounts in ["capacity", "allocatedResources"] {
        within(status, amounts, canonicalize);
    }
}

/// Remarks on sizes that are no number of bytes.
pub(super) fn fractional_sizes(spec: Node<'_, '_>) -> Vec<String> {
    let resources = spec.field("resources");
    ["requests", "limits"]
        .into_iter()
        .filter_map(|list| {
            let amounts = resources.field(list);
            let size = Quantity::parse(amounts.field("storage").str()).ok().filter(|size| !size.is_whole())?;
            let path = amounts.path.key("storage");
            Some(format!("{path}: fractional byte value \"{size}\" is invalid, must be an integer"))
        })
        .collect()
}

/// What was asked for stays, but for what a claim that has a volume may change.
fn validate_change(object: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let spec = object.field("spec");
    let (mut now, mut before) = (spec.value.clone(), old["spec"].clone());
    if before["volumeName"].as_str().unwrap_or_default().is_empty() {
        take_over(&mut before, &now, "volumeName");
    }
    let annotation = |object: &Value| object["metadata"]["annotations"][CLASS_ANNOTATION].clone();
    let (annotated, was_annotated) = (annotation(object.value), annotation(old));
    let class = &spec.value["storageClassName"];
    let named_now = old["spec"]["storageClassName"].is_null() && class.is_string();
    let follows = named_now && was_annotated == *class && (annotated.is_null() || annotated == was_annotated);
    if follows {
        remove(&mut now, "storageClassName");
    } else {
        if annotated != was_annotated {
            let metadata = object.path.field("metadata");
            let annotations = metadata.field("annotations");
            let shown = annotated.as_str().unwrap_or_default();
            errors.invalid(&annotations.field(CLASS_ANNOTATION), shown, "field is immutable");
        }
        if named_now && (was_annotated.is_null() || was_annotated == *class) {
            remove(&mut now, "storageClassName");
        }
    }
    if object.value["status"]["phase"] == "Bound" {
        take_over(&mut now["resources"]["requests"], &before["resources"]["requests"], "storage");
        take_over(&mut now, &before, "volumeAttributesClassName");
    }
    if now != before {
        let rule =
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims";
        errors.forbidden(&spec.path, &format!("{rule}\n{}", claim_difference(&before, &now)));
    }
    validate_size(spec, old, errors);
    let mode = spec.field("volumeMode");
    validate_immutable(Node { value: mode.value, path: Path::of("volumeMode") }, &old["spec"]["volumeMode"], errors);
    validate_attributes(spec.field("volumeAttributesClassName"), old, errors);
}

fn take_over(object: &mut Value, from: &Value, field: &str) {
    match from.get(field) {
        Some(value) => object[field] = value.clone(),
        None => remove(object, field),
    }
}

/// A claim can be made smaller only as long as its volume has not grown to its size.
fn validate_size(spec: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let (now, before) = (volume_claim::requested(spec.value), volume_claim::requested(&old["spec"]));
    let capacity = old["status"]["capacity"]["storage"].as_str().and_then(|size| Quantity::parse(size).ok());
    let [now, before, capacity] = [now, before, capacity].map(|size| size.unwrap_or(Quantity::ZERO));
    if now < before && now <= capacity {
        let resources = spec.path.field("resources");
        let requests = resources.field("requests");
        errors.forbidden(&requests.field("storage"), "field can not be less than status.capacity");
    }
}

fn validate_attributes(class: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let changed = *class.value != old["spec"]["volumeAttributesClassName"];
    if !changed || old["status"]["currentVolumeAttributesClassName"].is_null() {
        return;
    }
    let to = match (class.is_set(), class.str()) {
        (false, _) => "nil",
        (true, "") => "empty string",
        _ => return,
    };
    let detail = format!("update to {to} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.forbidden(&class.path, &detail);
}

fn validate_status(status: Node<'_, '_>, errors: &mut Errors) {
    let capacity = status.field("capacity");
    for (_, amount) in capacity.entries() {
        validate_amount(amount, errors);
    }
    let states = status.field("allocatedResourceStatuses");
    for (name, state) in states.entries() {
        validate_resource(name, &states.path, errors);
        if !RESIZE_STATES.contains(&state.str()) {
            errors.unsupported(&states.path, name, &RESIZE_STATES);
        }
    }
    let allocated = status.field("allocatedResources");
    for (name, amount) in allocated.entries() {
        if validate_resource(name, &allocated.path, errors) {
            validate_amount(amount, errors);
        }
    }
}

fn validate_amount(amount: Node<'_, '_>, errors: &mut Errors) {
    if let Some(size) = Quantity::parse(amount.str()).ok().filter(|size| size.is_negative()) {
        errors.invalid(&amount.path, size.value(), "must be a valid resource quantity");
    }
}

/// Checks the name of a resource that a volume has, and says whether it is good.
fn validate_resource(name: &str, path: &Path<'_>, errors: &mut Errors) -> bool {
    let messages = names::qualified_name(name);
    for message in &messages {
        errors.invalid(path, name, message);
    }
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    if messages.is_empty() && native && name != "storage" {
        errors.unsupported(path, name, &["storage"]);
        return false;
    }
    messages.is_empty()
}

fn access_modes(modes: &Value) -> String {
    let has = |mode: &str| modes.as_array().into_iter().flatten().any(|found| *found == *mode);
    let known =
        [("ReadWriteOnce", "RWO"), ("ReadOnlyMany", "ROX"), ("ReadWriteMany", "RWX"), ("ReadWriteOncePod", "RWOP")];
    known.iter().filter(|(mode, _)| has(mode)).map(|(_, short)| *short).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests;
