//! Security contexts: as whom containers run, and what they may do.

use std::collections::HashSet;

use serde_json::Value;

use setpoint_api::field::{Errors, Node};

use super::{Surroundings, descending_path, for_each_container, one_of_if_set, operating_system, user_id};

const SYSCTL_MAX: usize = 253;
const APP_ARMOR_PROFILE_MAX: usize = 4095;

/// Checks the security context of a pod, and what goes with it.
pub(super) fn validate_pod(spec: Node<'_, '_>, errors: &mut Errors) {
    let context = spec.field("securityContext");
    for id in ["fsGroup", "runAsUser", "runAsGroup"] {
        user_id(context.field(id), errors);
    }
    for group in context.field("supplementalGroups").items() {
        user_id(group, errors);
    }
    validate_sysctls(context.field("sysctls"), spec, errors);
    one_of_if_set(context.field("fsGroupChangePolicy"), &["Always", "OnRootMismatch"], errors);
    validate_seccomp(context.field("seccompProfile"), errors);
    operating_system::validate_windows_options(context.field("windowsOptions"), errors);
    validate_app_armor(context.field("appArmorProfile"), errors);
    one_of_if_set(context.field("supplementalGroupsPolicy"), &["Merge", "Strict"], errors);
    one_of_if_set(context.field("seLinuxChangePolicy"), &["MountOption", "Recursive"], errors);
    let share = spec.field("shareProcessNamespace");
    if share.bool() == Some(true) && spec.field("hostPID").bool() == Some(true) {
        errors.invalid(&share.path, true, "ShareProcessNamespace and HostPID cannot both be enabled");
    }
}

/// Checks the security context of a container.
pub(super) fn validate_container(context: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    if !context.is_set() {
        return;
    }
    user_id(context.field("runAsUser"), errors);
    user_id(context.field("runAsGroup"), errors);
    let proc_mount = context.field("procMount");
    one_of_if_set(proc_mount, &["Default", "Unmasked"], errors);
    if proc_mount.str() == "Unmasked" && surroundings.host_users {
        errors.invalid(&proc_mount.path, proc_mount.str(), "`hostUsers` must be false to use `Unmasked`");
    }
    validate_seccomp(context.field("seccompProfile"), errors);
    if context.field("allowPrivilegeEscalation").bool() == Some(false) {
        if context.field("privileged").bool() == Some(true) {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true";
            errors.invalid(&context.path, context.value, detail);
        }
        if context.field("capabilities").field("add").items().any(|added| added.str() == "CAP_SYS_ADMIN") {
            let detail = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN";
            errors.invalid(&context.path, context.value, detail);
        }
    }
    operating_system::validate_windows_options(context.field("windowsOptions"), errors);
    validate_app_armor(context.field("appArmorProfile"), errors);
}

/// A pod with users of its own cannot share other namespaces with the host.
pub(super) fn validate_user_namespace(spec: Node<'_, '_>, errors: &mut Errors) {
    if spec.field("hostUsers").bool() != Some(false) {
        return;
    }
    for (field, shown) in [("hostNetwork", "hostNetwork"), ("hostPID", "HostPID"), ("hostIPC", "HostIPC")] {
        if spec.field(field).bool() == Some(true) {
            errors.forbidden(&spec.path.field(shown), "when `hostUsers` is false");
        }
    }
    for_each_container(spec, |container| {
        let devices = container.field("volumeDevices");
        if !devices.is_empty() {
            errors.forbidden(&devices.path, "when `hostUsers` is false");
        }
    });
}

fn validate_sysctls(sysctls: Node<'_, '_>, spec: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for sysctl in sysctls.items() {
        let name = sysctl.field("name");
        let repeated = !seen.insert(name.str());
        if name.str().is_empty() {
            errors.required(&name.path, "");
        } else if !is_sysctl_name(name.str()) {
            let detail = format!(
                "must have at most {SYSCTL_MAX} characters and match regex \
                 ^([a-z0-9]([-_a-z0-9]*[a-z0-9])?[\\./])*[a-z0-9]([-_a-z0-9]*[a-z0-9])?$"
            );
            errors.invalid(&name.path, name.str(), &detail);
        } else if repeated {
            errors.duplicate(&name.path, name.str());
        }
        for (namespace, shared) in [("net", "hostNetwork"), ("ipc", "hostIPC")] {
            if sysctl_namespace(name.str()) == Some(namespace) && spec.field(shared).bool() == Some(true) {
                errors.invalid(&name.path, name.str(), &format!("may not be specified when '{shared}' is true"));
            }
        }
    }
}

fn is_sysctl_name(name: &str) -> bool {
    let well_formed = |segment: &str| {
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        segment.as_bytes().first().is_some_and(alphanumeric)
            && segment.as_bytes().last().is_some_and(alphanumeric)
            && segment.bytes().all(|b| alphanumeric(&b) || b"-_".contains(&b))
    };
    name.len() <= SYSCTL_MAX && name.split(['.', '/']).all(well_formed)
}

/// The kernel namespace a sysctl belongs to, if it belongs to one.
fn sysctl_namespace(name: &str) -> Option<&'static str> {
    let name = name.replace('/', ".");
    if name.starts_with("net.") {
        Some("net")
    } else if name.starts_with("kernel.shm")
        || name.starts_with("kernel.msg")
        || name.starts_with("fs.mqueue.")
        || name == "kernel.sem"
    {
        Some("ipc")
    } else {
        None
    }
}

fn validate_seccomp(profile: Node<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (sort, local) = (profile.field("type"), profile.field("localhostProfile"));
    if sort.str().is_empty() {
        errors.required(&sort.path, "type is required when seccompProfile is set");
    } else {
        one_of_if_set(sort, &["Localhost", "RuntimeDefault", "Unconfined"], errors);
    }
    if sort.str() != "Localhost" {
        if local.is_set() {
            let detail = "can only be set when seccomp type is Localhost";
            errors.invalid(&local.path, profile.value, detail);
        }
    } else if local.is_set() {
        descending_path(local.str(), &local.path, errors);
    } else {
        errors.required(&local.path, "must be set when seccomp type is Localhost");
    }
}

fn validate_app_armor(profile: Node<'_, '_>, errors: &mut Errors) {
    if !profile.is_set() {
        return;
    }
    let (sort, local) = (profile.field("type"), profile.field("localhostProfile"));
    match sort.str() {
        "Localhost" => {
            if local.str().trim().is_empty() && local.str().trim() == local.str() {
                errors.required(&local.path, "must be set when AppArmor type is Localhost");
            } else if local.str().trim() != local.str() {
                errors.invalid(&local.path, local.str(), "must not be padded with whitespace");
            }
            if local.str().len() > APP_ARMOR_PROFILE_MAX {
                errors.too_long(&local.path, APP_ARMOR_PROFILE_MAX);
            }
        }
        "RuntimeDefault" | "Unconfined" if local.is_set() => {
            errors.invalid(&local.path, local.str(), "can only be set when AppArmor type is Localhost");
        }
        "RuntimeDefault" | "Unconfined" => {}
        "" => errors.required(&sort.path, "type is required when appArmorProfile is set"),
        other => errors.unsupported(&sort.path, other, &["Localhost", "RuntimeDefault", "Unconfined"]),
    }
}

/// Seccomp profiles once were annotations. Where a pod has both, they must agree.
pub(in crate::kinds) fn validate_seccomp_annotations(annotations: &Value, spec: Node<'_, '_>, errors: &mut Errors) {
    let mut compare = |annotation: &Value, profile: Node<'_, '_>| {
        let (Some(annotation), true) = (annotation.as_str(), profile.is_set()) else { return };
        let (sort, local) = (profile.field("type"), profile.field("localhostProfile"));
        let same_sort = match sort.str() {
            "Unconfined" => annotation == "unconfined",
            "RuntimeDefault" => matches!(annotation, "runtime/default" | "docker/default"),
            "Localhost" => annotation.starts_with("localhost/"),
            _ => true,
        };
        if !same_sort {
            errors.forbidden(&sort.path, "seccomp type in annotation and field must match");
        } else if sort.str() == "Localhost" && annotation.strip_prefix("localhost/") != local.value.as_str() {
            errors.forbidden(&local.path, "seccomp profile in annotation and field must match");
        }
    };
    let context = spec.field("securityContext");
    compare(&annotations["seccomp.security.alpha.kubernetes.io/pod"], context.field("seccompProfile"));
    for_each_container(spec, |container| {
        let key = format!("container.seccomp.security.alpha.kubernetes.io/{}", container.field("name").str());
        let context = container.field("securityContext");
        compare(&annotations[key.as_str()], context.field("seccompProfile"));
    });
}
