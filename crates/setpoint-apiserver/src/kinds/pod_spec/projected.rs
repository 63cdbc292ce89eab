//! Volumes made of files: Secrets, ConfigMaps, fields of the pod, tokens, and several of them in one.

use std::collections::BTreeSet;

use setpoint_api::field::{Errors, Node, Path};
use setpoint_api::labels;

use super::environment::{validate_field_ref, validate_resource_field_ref};
use super::required;
use super::volumes::{file_mode, file_path};

/// Fields of a Pod that a file may hold.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const TOKEN_SECONDS_MIN: i64 = 10 * 60;
const TOKEN_SECONDS_MAX: i64 = 1 << 32;

/// Checks which keys of a Secret or ConfigMap become which files.
pub(super) fn validate_files(source: Node<'_, '_>, errors: &mut Errors) {
    file_mode(source.field("defaultMode"), errors);
    for item in source.field("items").items() {
        validate_item(item, errors);
    }
}

fn validate_item(item: Node<'_, '_>, errors: &mut Errors) {
    let path = item.field("path");
    required(item.field("key"), errors);
    required(path, errors);
    file_path(path.str(), &path.path, errors);
    file_mode(item.field("mode"), errors);
}

pub(super) fn validate_downward_api(source: Node<'_, '_>, errors: &mut Errors) {
    file_mode(source.field("defaultMode"), errors);
    for file in source.field("items").items() {
        validate_downward_file(Node { value: file.value, path: source.path }, errors);
    }
}

/// Kubernetes shows the errors of a file at its source, without the file's place in the list.
fn validate_downward_file(file: Node<'_, '_>, errors: &mut Errors) {
    let path = file.field("path");
    required(path, errors);
    file_path(path.str(), &path.path, errors);
    let (field, resource) = (file.field("fieldRef"), file.field("resourceFieldRef"));
    if field.is_set() {
        validate_field_ref(field, &FILE_FIELDS, errors);
        if resource.is_set() {
            let detail = "fieldRef and resourceFieldRef can not be specified simultaneously";
            errors.invalid(&file.path, "resource", detail);
        }
    } else if resource.is_set() {
        validate_resource_field_ref(resource, true, errors);
    } else {
        errors.required(&file.path, "one of fieldRef and resourceFieldRef is required");
    }
    file_mode(file.field("mode"), errors);
}

pub(super) fn validate(projected: Node<'_, '_>, errors: &mut Errors) {
    file_mode(projected.field("defaultMode"), errors);
    let mut paths = BTreeSet::new();
    for source in projected.field("sources").items() {
        let mut count = 0;
        for sort in ["secret", "configMap"] {
            let files = source.field(sort);
            if files.is_set() {
                count += 1;
                required(files.field("name"), errors);
                for item in files.field("items").items() {
                    validate_item(item, errors);
                    let path = item.field("path").str();
                    claim_path(path, files.field("name").str(), &mut paths, &projected.path, errors);
                }
            }
        }
        let downward = source.field("downwardAPI");
        if downward.is_set() {
            count += 1;
            for file in downward.field("items").items() {
                validate_downward_file(Node { value: file.value, path: downward.path }, errors);
                let path = file.field("path").str();
                claim_path(path, path, &mut paths, &projected.path, errors);
            }
        }
        let token = source.field("serviceAccountToken");
        if token.is_set() {
            count += 1;
            validate_token(token, &projected.path, errors);
        }
        let bundle = source.field("clusterTrustBundle");
        if bundle.is_set() {
            count += 1;
            validate_trust_bundle(bundle, errors);
            let path = bundle.field("path").str();
            claim_path(path, path, &mut paths, &projected.path, errors);
        }
        if count > 1 {
            errors.forbidden(&source.path, "may not specify more than 1 volume type per source");
        }
    }
}

/// No two files of one volume may have the same path.
fn claim_path<'v>(file: &'v str, shown: &str, paths: &mut BTreeSet<&'v str>, path: &Path<'_>, errors: &mut Errors) {
    if !file.is_empty() && !paths.insert(file) {
        errors.invalid(path, shown, "conflicting duplicate paths");
    }
}

fn validate_token(token: Node<'_, '_>, volume: &Path<'_>, errors: &mut Errors) {
    let expiration = token.field("expirationSeconds");
    match expiration.i64() {
        None => errors.required(&expiration.path, ""),
        Some(seconds) if seconds < TOKEN_SECONDS_MIN => {
            errors.invalid(&expiration.path, seconds, "may not specify a duration less than 10 minutes");
        }
        Some(seconds) if seconds > TOKEN_SECONDS_MAX => {
            errors.invalid(&expiration.path, seconds, "may not specify a duration larger than 2^32 seconds");
        }
        Some(_) => {}
    }
    let path = token.field("path").str();
    if path.is_empty() {
        errors.required(&volume.field("path"), "");
    } else {
        file_path(path, &volume.field("path"), errors);
    }
}

fn validate_trust_bundle(bundle: Node<'_, '_>, errors: &mut Errors) {
    let (name, signer) = (bundle.field("name"), bundle.field("signerName"));
    match (name.is_set(), signer.is_set()) {
        (true, true) => {
            errors.invalid(&bundle.path, bundle.value, "only one of name and signerName may be used");
        }
        (true, false) => {
            if name.str().is_empty() {
                errors.required(&name.path, "must be a valid object name");
            }
            let selector = bundle.field("labelSelector");
            if selector.is_set() {
                let detail = "labelSelector must be unset if name is specified";
                errors.invalid(&selector.path, selector.value, detail);
            }
        }
        (false, true) => {
            if signer.str().is_empty() {
                errors.required(&signer.path, "must be a valid signer name");
            }
            labels::validate_label_selector(bundle.field("labelSelector"), errors);
        }
        (false, false) => errors.required(&bundle.path, "either name or signerName must be specified"),
    }
    let path = bundle.field("path");
    required(path, errors);
    file_path(path.str(), &path.path, errors);
}
