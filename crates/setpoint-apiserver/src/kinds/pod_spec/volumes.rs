//! The volumes of a pod: each has a name and exactly one source.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use setpoint_api::field::{Errors, Node, Path};
use setpoint_api::names;
use setpoint_api::quantity::Quantity;

use crate::kinds::volume_claim;

use super::{descending_path, named, no_backsteps, one_of, projected, required, required_name};

/// The sources in the order Kubernetes looks for them, each with where it shows that a second one is too many.
const SOURCES: [(&str, &str); 30] = [
    ("emptyDir", "emptyDir"),
    ("hostPath", "hostPath"),
    ("gitRepo", "gitRepo"),
    ("gcePersistentDisk", "gcePersistentDisk"),
    ("awsElasticBlockStore", "awsElasticBlockStore"),
    ("secret", "secret"),
    ("nfs", "nfs"),
    ("iscsi", "iscsi"),
    ("glusterfs", "glusterfs"),
    ("flocker", "flocker"),
    ("persistentVolumeClaim", "persistentVolumeClaim"),
    ("rbd", "rbd"),
    ("cinder", "cinder"),
    ("cephfs", "cephFS"),
    ("quobyte", "quobyte"),
    ("downwardAPI", "downwarAPI"),
    ("fc", "fc"),
    ("flexVolume", "flexVolume"),
    ("configMap", "configMap"),
    ("azureFile", "azureFile"),
    ("vsphereVolume", "vsphereVolume"),
    ("photonPersistentDisk", "photonPersistentDisk"),
    ("portworxVolume", "portworxVolume"),
    ("azureDisk", "azureDisk"),
    ("storageos", "storageos"),
    ("projected", "projected"),
    ("scaleIO", "scaleIO"),
    ("csi", "csi"),
    ("ephemeral", "ephemeral"),
    ("image", "image"),
];

const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Checks all volumes, and returns the well-formed ones by name: only those can be mounted.
pub(super) fn validate<'v>(
    volumes: Node<'v, '_>,
    pod: Option<&Value>,
    errors: &mut Errors,
) -> BTreeMap<&'v str, &'v Value> {
    let pod_name = pod.and_then(|metadata| metadata["name"].as_str()).filter(|name| !name.is_empty());
    let claim_of = |volume: &str| pod_name.map(|pod| format!("{pod}-{volume}"));
    let created: BTreeSet<String> = volumes
        .items()
        .filter(|volume| volume.field("ephemeral").is_set())
        .filter_map(|volume| claim_of(volume.field("name").str()))
        .collect();
    let mut good = BTreeMap::new();
    for volume in volumes.items() {
        let name = volume.field("name");
        let mut found = Errors::default();
        validate_source(volume, claim_of(name.str()), &mut found);
        required_name(name, names::dns1123_label, &mut found);
        if good.contains_key(name.str()) {
            found.duplicate(&name.path, name.str());
        }
        if found.is_empty() {
            good.insert(name.str(), volume.value);
        }
        errors.extend(found);
        let claim = volume.field("persistentVolumeClaim");
        let claim_name = claim.field("claimName");
        if created.contains(claim_name.str()) {
            let detail = "must not reference a PVC that gets created for an ephemeral volume";
            errors.invalid(&claim_name.path, claim_name.str(), detail);
        }
    }
    good
}

/// `claim` is the name of the claim that an ephemeral volume would create.
fn validate_source(volume: Node<'_, '_>, claim: Option<String>, errors: &mut Errors) {
    let mut found = false;
    for (sort, shown_at) in SOURCES {
        let source = volume.field(sort);
        if !source.is_set() {
            continue;
        }
        if found {
            errors.forbidden(&volume.path.field(shown_at), "may not specify more than 1 volume type");
            continue;
        }
        found = true;
        match sort {
            "emptyDir" => validate_empty_dir(source, errors),
            "hostPath" => validate_host_path(source, errors),
            "secret" => {
                required(source.field("secretName"), errors);
                projected::validate_files(source, errors);
            }
            "configMap" => {
                required(source.field("name"), errors);
                projected::validate_files(source, errors);
            }
            "downwardAPI" => projected::validate_downward_api(source, errors),
            "projected" => projected::validate(source, errors),
            "persistentVolumeClaim" => required(source.field("claimName"), errors),
            "nfs" => validate_nfs(source, errors),
            "csi" => validate_csi(source, errors),
            "ephemeral" => validate_ephemeral(source, volume, claim.as_deref(), errors),
            "image" => {
                required(source.field("reference"), errors);
                one_of(source.field("pullPolicy"), &["Always", "IfNotPresent", "Never"], errors);
            }
            _ => validate_rest(sort, source, errors),
        }
    }
    if !found {
        errors.required(&volume.path, "must specify a volume type");
    }
}

fn validate_empty_dir(source: Node<'_, '_>, errors: &mut Errors) {
    let limit = source.field("sizeLimit");
    if Quantity::parse(limit.str()).is_ok_and(|limit| limit.is_negative()) {
        errors.forbidden(&limit.path, "SizeLimit field must be a valid resource quantity");
    }
}

fn validate_host_path(source: Node<'_, '_>, errors: &mut Errors) {
    let path = source.field("path");
    if path.str().is_empty() {
        return errors.required(&path.path, "");
    }
    no_backsteps(path.str(), &path.path, errors);
    let sort = source.field("type");
    if !HOST_PATH_TYPES.contains(&sort.str()) {
        errors.unsupported(&sort.path, sort.str(), &HOST_PATH_TYPES);
    }
}

fn validate_nfs(source: Node<'_, '_>, errors: &mut Errors) {
    required(source.field("server"), errors);
    let path = source.field("path");
    required(path, errors);
    if !path.str().starts_with('/') {
        errors.invalid(&path.path, path.str(), "must be an absolute path");
    }
}

fn validate_csi(source: Node<'_, '_>, errors: &mut Errors) {
    let driver = source.field("driver");
    if driver.str().is_empty() {
        errors.required(&driver.path, "");
    } else {
        if driver.str().len() > 63 {
            errors.too_long(&driver.path, 63);
        }
        for message in names::dns1123_subdomain(&driver.str().to_lowercase()) {
            errors.invalid(&driver.path, driver.str(), &message);
        }
    }
    let secret = source.field("nodePublishSecretRef");
    if secret.is_set() {
        let name = secret.field("name");
        if name.str().is_empty() {
            errors.required(&name.path, "");
        } else {
            named(Node { value: name.value, path: source.path.field("name") }, names::dns1123_subdomain, errors);
        }
    }
}

fn validate_ephemeral(source: Node<'_, '_>, volume: Node<'_, '_>, claim: Option<&str>, errors: &mut Errors) {
    let template = source.field("volumeClaimTemplate");
    if template.is_set() {
        volume_claim::validate(template.field("spec"), errors);
    } else {
        errors.required(&template.path, "");
    }
    let name = volume.field("name");
    if let Some(claim) = claim.filter(|_| !name.str().is_empty()) {
        for message in names::dns1123_subdomain(claim) {
            errors.invalid(&name.path, name.str(), &format!("PVC name \"{claim}\": {message}"));
        }
    }
}

/// The sources of particular storage systems, most of them retired: what they need at the least.
fn validate_rest(sort: &str, source: Node<'_, '_>, errors: &mut Errors) {
    let needs: &[&str] = match sort {
        "gitRepo" => &["repository"],
        "gcePersistentDisk" => &["pdName"],
        "awsElasticBlockStore" | "cinder" | "portworxVolume" => &["volumeID"],
        "iscsi" => &["targetPortal", "iqn"],
        "glusterfs" => &["endpoints", "path"],
        "rbd" => &["image"],
        "quobyte" => &["registry", "volume"],
        "flexVolume" => &["driver"],
        "azureFile" => &["secretName", "shareName"],
        "azureDisk" => &["diskName", "diskURI"],
        "vsphereVolume" => &["volumePath"],
        "photonPersistentDisk" => &["pdID"],
        "storageos" => &["volumeName"],
        "scaleIO" => &["gateway", "system", "volumeName"],
        _ => &[],
    };
    for field in needs {
        required(source.field(field), errors);
    }
    if matches!(sort, "rbd" | "cephfs") && source.field("monitors").is_empty() {
        errors.required(&source.path.field("monitors"), "");
    }
    if sort == "gitRepo" {
        let directory = source.field("directory");
        descending_path(directory.str(), &directory.path, errors);
    }
    if sort == "fc" && source.field("targetWWNs").is_empty() && source.field("wwids").is_empty() {
        let detail = "must specify either targetWWNs or wwids, but not both";
        errors.required(&source.path.field("targetWWNs"), detail);
    }
    if sort == "flocker" && source.field("datasetName").str().is_empty() && source.field("datasetUUID").str().is_empty()
    {
        errors.required(&source.path, "one of datasetName and datasetUUID is required");
    }
}

/// Checks the permissions of a file.
pub(super) fn file_mode(mode: Node<'_, '_>, errors: &mut Errors) {
    if let Some(bits) = mode.i64().filter(|bits| !(0..=0o777).contains(bits)) {
        errors.invalid(&mode.path, bits, "must be a number between 0 and 0777 (octal), both inclusive");
    }
}

/// Checks the path of a file that is put into a volume, where names that start with `..` are reserved.
pub(super) fn file_path(text: &str, path: &Path<'_>, errors: &mut Errors) {
    descending_path(text, path, errors);
    if text.starts_with("..") && !text.starts_with("../") {
        errors.invalid(path, text, "must not start with '..'");
    }
}
