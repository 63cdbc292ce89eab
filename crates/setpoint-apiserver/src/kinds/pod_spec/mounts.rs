//! How a container uses the pod's volumes: mounted, or as a block device.

use std::collections::BTreeSet;

use setpoint_api::field::{Errors, Node};

use super::{Surroundings, descending_path, one_of_if_set, required};

/// Checks `volumeMounts` and `volumeDevices`.
pub(super) fn validate(container: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let (mounts, devices) = (container.field("volumeMounts"), container.field("volumeDevices"));
    let privileged = container.field("securityContext").field("privileged").bool() == Some(true);
    let mut mounted = BTreeSet::new();
    let (device_names, device_paths) = (texts(devices, "name"), texts(devices, "devicePath"));
    for mount in mounts.items() {
        let (name, path) = (mount.field("name"), mount.field("mountPath"));
        required(name, errors);
        if !surroundings.volumes.contains_key(name.str()) {
            errors.not_found(&name.path, name.str());
        }
        required(path, errors);
        if !mounted.insert(path.str()) {
            errors.invalid(&path.path, path.str(), "must be unique");
        }
        if device_names.contains(name.str()) {
            errors.invalid(&name.path, name.str(), "must not already exist in volumeDevices");
        }
        if device_paths.contains(path.str()) {
            errors.invalid(&path.path, path.str(), "must not already exist as a path in volumeDevices");
        }
        validate_details(mount, mounts, privileged, errors);
    }
    validate_devices(mounts, devices, surroundings, errors);
}

/// The texts in one field of all elements.
fn texts<'v>(list: Node<'v, '_>, field: &str) -> BTreeSet<&'v str> {
    list.items().map(|item| item.field(field).str()).collect()
}

/// Some of these errors are shown at the list, as Kubernetes shows them.
fn validate_details(mount: Node<'_, '_>, mounts: Node<'_, '_>, privileged: bool, errors: &mut Errors) {
    let (sub_path, expression) = (mount.field("subPath"), mount.field("subPathExpr"));
    if !sub_path.str().is_empty() {
        descending_path(sub_path.str(), &mounts.path.field("subPath"), errors);
    }
    if !expression.str().is_empty() {
        if !sub_path.str().is_empty() {
            let detail = "subPathExpr and subPath are mutually exclusive";
            errors.invalid(&expression.path, expression.str(), detail);
        }
        descending_path(expression.str(), &mounts.path.field("subPathExpr"), errors);
    }
    let propagation =
        Node { value: mount.field("mountPropagation").value, path: mounts.path.field("mountPropagation") };
    one_of_if_set(propagation, &["Bidirectional", "HostToContainer", "None"], errors);
    if propagation.str() == "Bidirectional" && !privileged {
        let detail = "Bidirectional mount propagation is available only to privileged containers";
        errors.forbidden(&propagation.path, detail);
    }
    let recursive =
        Node { value: mount.field("recursiveReadOnly").value, path: mounts.path.field("recursiveReadOnly") };
    match recursive.str() {
        "Enabled" | "IfPossible" => {
            if mount.field("readOnly").bool() != Some(true) {
                errors.forbidden(&recursive.path, "may only be specified when readOnly is true");
            }
            if propagation.is_set() && propagation.str() != "None" {
                let detail = "may only be specified when mountPropagation is None or not specified";
                errors.forbidden(&recursive.path, detail);
            }
        }
        _ => one_of_if_set(recursive, &["Disabled", "Enabled", "IfPossible"], errors),
    }
}

fn validate_devices(mounts: Node<'_, '_>, devices: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let (mut names, mut paths) = (BTreeSet::new(), BTreeSet::new());
    let (mount_names, mount_paths) = (texts(mounts, "name"), texts(mounts, "mountPath"));
    for device in devices.items() {
        let (name, path) = (device.field("name"), device.field("devicePath"));
        required(name, errors);
        if !name.str().is_empty() && !names.insert(name.str()) {
            errors.invalid(&name.path, name.str(), "must be unique");
        }
        match surroundings.volumes.get(name.str()) {
            None => errors.not_found(&name.path, name.str()),
            Some(volume) if volume["persistentVolumeClaim"].is_null() && volume["ephemeral"].is_null() => {
                let detail = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode";
                errors.invalid(&name.path, name.str(), detail);
            }
            Some(_) => {}
        }
        required(path, errors);
        if paths.contains(path.str()) {
            errors.invalid(&path.path, path.str(), "must be unique");
        }
        if path.str().split('/').any(|part| part == "..") {
            errors.invalid(&path.path, path.str(), "can not contain backsteps ('..')");
        } else {
            paths.insert(path.str());
        }
        if mount_names.contains(name.str()) {
            errors.invalid(&name.path, name.str(), "must not already exist in volumeMounts");
        }
        if mount_paths.contains(path.str()) {
            errors.invalid(&path.path, path.str(), "must not already exist as a path in volumeMounts");
        }
    }
}
