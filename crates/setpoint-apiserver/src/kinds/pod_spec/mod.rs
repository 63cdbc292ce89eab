//! The spec of a pod, in a Pod or in a template: its defaults and its rules, one file for each part.
//!
//! Errors come in the order in which Kubernetes finds them, since people and tests read them so.

mod affinity;
mod containers;
mod defaults;
mod difference;
mod environment;
mod handlers;
mod identity;
mod internal;
mod mounts;
mod network;
mod operating_system;
mod projected;
mod resources;
mod scheduling;
mod security;
mod tolerations;
mod volumes;

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use setpoint_api::field::{Errors, Node, Path};
use setpoint_api::labels;
use setpoint_api::names;

pub(super) use crate::kinds::defaults::each;
pub(super) use defaults::{fill_pod, fill_pod_spec, fill_resources, within};
pub(super) use internal::{claim_difference, spec_difference, template_as_text};
pub(super) use resources::{canonicalize, container_resource, quality_of_service};
pub(super) use security::validate_seccomp_annotations;
pub(super) use tolerations::validate_tolerations;

/// Where containers stand in a spec, in the order in which they are checked one by one.
const CONTAINER_LISTS: [&str; 3] = ["initContainers", "containers", "ephemeralContainers"];

/// What the rules of one container need to know of the spec around it.
#[derive(Debug)]
struct Surroundings<'v> {
    /// The well-formed volumes by name.
    volumes: BTreeMap<&'v str, &'v Value>,
    /// The names of the pod's resource claims.
    claims: BTreeSet<&'v str>,
    grace_period: Option<i64>,
    restart_policy: &'v str,
    /// Whether containers share the host's user ids.
    host_users: bool,
    /// `spec.os.name`, if the pod says it.
    os: Option<&'v str>,
}

/// Checks a pod's spec. `pod` is the Pod's metadata, or none for a template.
pub(super) fn validate(spec: Node<'_, '_>, pod: Option<&Value>, errors: &mut Errors) {
    let grace_period = spec.field("terminationGracePeriodSeconds");
    if !grace_period.is_set() {
        errors.required(&grace_period.path, "");
    }
    let claims = spec.field("resourceClaims");
    let os = spec.field("os");
    let surroundings = Surroundings {
        volumes: volumes::validate(spec.field("volumes"), pod, errors),
        claims: claims.items().map(|claim| claim.field("name").str()).filter(|name| !name.is_empty()).collect(),
        grace_period: grace_period.i64(),
        restart_policy: spec.field("restartPolicy").str(),
        host_users: spec.field("hostUsers").bool() != Some(false),
        os: os.is_set().then(|| os.field("name").str()),
    };
    resources::validate_pod_claims(claims, errors);
    containers::validate_regular(spec, &surroundings, errors);
    containers::validate_init(spec, &surroundings, errors);
    containers::validate_ephemeral(spec, &surroundings, errors);
    resources::validate_pod_level(spec, &surroundings, errors);
    network::validate_host_ports(spec, pod.is_some(), errors);
    one_of(spec.field("restartPolicy"), &["Always", "OnFailure", "Never"], errors);
    one_of(spec.field("dnsPolicy"), &["ClusterFirstWithHostNet", "ClusterFirst", "Default", "None"], errors);
    labels::validate_labels(spec.field("nodeSelector"), errors);
    security::validate_pod(spec, errors);
    affinity::validate(spec.field("affinity"), errors);
    network::validate_dns_config(spec, errors);
    scheduling::validate_gates(spec, errors);
    scheduling::validate_topology_spread(spec.field("topologySpreadConstraints"), errors);
    operating_system::validate_host_processes(spec, errors);
    security::validate_user_namespace(spec, errors);
    network::validate_hostname_override(spec, errors);
    identity::validate(spec, errors);
    resources::validate_overhead(spec.field("overhead"), errors);
    operating_system::validate(spec, errors);
    scheduling::validate_group(spec.field("schedulingGroup"), errors);
    environment::validate_file_volumes(spec, errors);
}

/// Checks what is asked of a Pod but, for the sake of old templates, not of a template.
pub(super) fn validate_only_in_pod(spec: Node<'_, '_>, errors: &mut Errors) {
    if spec.field("serviceAccountName").str().is_empty() {
        for volume in spec.field("volumes").items() {
            for source in volume.field("projected").field("sources").items() {
                let token = source.field("serviceAccountToken");
                if token.is_set() {
                    errors.forbidden(&token.path, "must not be specified when serviceAccountName is not set");
                }
            }
        }
    }
    if let Some(seconds) = spec.field("terminationGracePeriodSeconds").i64() {
        not_negative(seconds, &spec.path.field("terminationGracePeriodSeconds"), errors);
    }
    for list in ["containers", "initContainers"] {
        for container in spec.field(list).items() {
            containers::validate_image_spacing(container, errors);
        }
    }
}

/// Calls `visit` for every container of every sort.
fn for_each_container(spec: Node<'_, '_>, mut visit: impl FnMut(Node<'_, '_>)) {
    for list in CONTAINER_LISTS {
        for container in spec.field(list).items() {
            visit(container);
        }
    }
}

/// Checks a text by one of the rules of names.
fn named(text: Node<'_, '_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    for message in rule(text.str()) {
        errors.invalid(&text.path, text.str(), &message);
    }
}

/// Checks a text that must be there by one of the rules of names.
fn required_name(text: Node<'_, '_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    if text.str().is_empty() {
        errors.required(&text.path, "");
    } else {
        named(text, rule, errors);
    }
}

/// Checks a text that must be there and be one of a few.
fn one_of(text: Node<'_, '_>, supported: &[&str], errors: &mut Errors) {
    if text.str().is_empty() {
        errors.required(&text.path, "");
    } else {
        one_of_if_set(text, supported, errors);
    }
}

/// Checks a text that, if it is there, must be one of a few.
fn one_of_if_set(text: Node<'_, '_>, supported: &[&str], errors: &mut Errors) {
    if text.is_set() && !supported.contains(&text.str()) {
        errors.unsupported(&text.path, text.str(), supported);
    }
}

/// Checks that a text is there.
fn required(text: Node<'_, '_>, errors: &mut Errors) {
    if text.str().is_empty() {
        errors.required(&text.path, "");
    }
}

/// Checks that a number is not below zero.
pub(super) fn not_negative(value: i64, path: &Path<'_>, errors: &mut Errors) {
    if value < 0 {
        errors.invalid(path, value, "must be greater than or equal to 0");
    }
}

/// Checks that a number, if it is there, is not below zero.
pub(super) fn not_negative_if_set(number: Node<'_, '_>, errors: &mut Errors) {
    if let Some(value) = number.i64() {
        not_negative(value, &number.path, errors);
    }
}

/// Checks an id of a user or of a group.
fn user_id(id: Node<'_, '_>, errors: &mut Errors) {
    if let Some(value) = id.i64() {
        for message in names::in_range(value, 0, i64::from(i32::MAX)) {
            errors.invalid(&id.path, value, &message);
        }
    }
}

/// Checks that a path has no `..` in it.
fn no_backsteps(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if text.split('/').any(|part| part == "..") {
        errors.invalid(path, text, "must not contain '..'");
    }
}

/// Checks that a path stays below the place it is taken from.
fn descending_path(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if text.starts_with('/') {
        errors.invalid(path, text, "must be a relative path");
    }
    no_backsteps(text, path, errors);
}

/// Checks an IP address of either family.
pub(super) fn ip_address(text: &str, path: &Path<'_>, errors: &mut Errors) {
    if text.parse::<std::net::IpAddr>().is_err() {
        errors.invalid(path, text, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)");
    }
}

#[cfg(test)]
mod tests;
