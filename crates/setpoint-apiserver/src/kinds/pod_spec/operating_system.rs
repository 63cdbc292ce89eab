//! What differs between Linux and Windows pods.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::{for_each_container, named};

const NOT_ON_WINDOWS_POD: [&str; 11] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "fsGroup",
    "fsGroupChangePolicy",
    "sysctls",
    "runAsUser",
    "runAsGroup",
    "supplementalGroups",
    "supplementalGroupsPolicy",
    "seLinuxChangePolicy",
];

const NOT_ON_WINDOWS_CONTAINER: [&str; 10] = [
    "appArmorProfile",
    "seLinuxOptions",
    "seccompProfile",
    "capabilities",
    "readOnlyRootFilesystem",
    "privileged",
    "allowPrivilegeEscalation",
    "procMount",
    "runAsUser",
    "runAsGroup",
];

const CREDENTIAL_SPEC_MAX_KIB: usize = 64;
const USER_DOMAIN_MAX: usize = 256;
const USER_NAME_MAX: usize = 104;

/// Checks that a pod which says its operating system uses nothing of the other.
pub(super) fn validate(spec: Node<'_, '_>, errors: &mut Errors) {
    let os = spec.field("os");
    if !os.is_set() {
        return;
    }
    let name = os.field("name");
    match name.str() {
        "" => errors.required(&name.path, ""),
        "linux" => validate_linux(spec, errors),
        "windows" => validate_windows(spec, errors),
        other => errors.unsupported(&os.path, other, &["linux", "windows"]),
    }
}

fn validate_linux(spec: Node<'_, '_>, errors: &mut Errors) {
    let mut check = |context: Node<'_, '_>| {
        let options = context.field("windowsOptions");
        if options.is_set() {
            errors.forbidden(&options.path, "windows options cannot be set for a linux pod");
        }
    };
    check(spec.field("securityContext"));
    for_each_container(spec, |container| check(container.field("securityContext")));
}

fn validate_windows(spec: Node<'_, '_>, errors: &mut Errors) {
    let forbid = |parent: Node<'_, '_>, fields: &[&str], errors: &mut Errors| {
        for field in fields {
            let field = parent.field(field);
            if field.is_set() {
                errors.forbidden(&field.path, "cannot be set for a windows pod");
            }
        }
    };
    forbid(spec.field("securityContext"), &NOT_ON_WINDOWS_POD, errors);
    forbid(spec, &["hostUsers", "hostPID", "hostIPC", "shareProcessNamespace"], errors);
    for_each_container(spec, |container| {
        forbid(container.field("securityContext"), &NOT_ON_WINDOWS_CONTAINER, errors);
    });
}

/// Windows containers either all run as processes of the host, on its network, or none does.
pub(super) fn validate_host_processes(spec: Node<'_, '_>, errors: &mut Errors) {
    let of_pod = spec.field("securityContext").field("windowsOptions").field("hostProcess").bool();
    let (mut containers, mut host_processes) = (0, 0);
    for_each_container(spec, |container| {
        let context = container.field("securityContext");
        let options = context.field("windowsOptions");
        let host_process = options.field("hostProcess");
        containers += 1;
        if let (Some(pod), Some(own)) = (of_pod, host_process.bool())
            && pod != own
        {
            let detail = format!("pod hostProcess value must be identical if both are specified, was {pod}");
            errors.invalid(&host_process.path, own, &detail);
        }
        host_processes += i32::from(host_process.bool().or(of_pod) == Some(true));
    });
    if host_processes == 0 {
        return;
    }
    if host_processes != containers {
        let detail = "If pod contains any hostProcess containers then all containers must be HostProcess containers";
        errors.invalid(&spec.path, "", detail);
    }
    if spec.field("hostNetwork").bool() != Some(true) {
        let detail = "hostNetwork must be true if pod contains any hostProcess containers";
        errors.invalid(&spec.path.field("hostNetwork"), false, detail);
    }
}

pub(super) fn validate_windows_options(options: Node<'_, '_>, errors: &mut Errors) {
    let name = options.field("gmsaCredentialSpecName");
    if name.is_set() {
        named(name, names::dns1123_subdomain, errors);
    }
    let credentials = options.field("gmsaCredentialSpec");
    if credentials.is_set() && credentials.str().is_empty() {
        errors.invalid(&credentials.path, "", "gmsaCredentialSpec cannot be an empty string");
    } else if credentials.str().len() > CREDENTIAL_SPEC_MAX_KIB << 10 {
        let detail = format!("gmsaCredentialSpec size must be under {CREDENTIAL_SPEC_MAX_KIB} KiB");
        errors.invalid(&credentials.path, credentials.str(), &detail);
    }
    let user = options.field("runAsUserName");
    if user.is_set() {
        for message in user_name(user.str()) {
            errors.invalid(&user.path, user.str(), &message);
        }
    }
}

/// Messages for what is wrong with a name of the form `DOMAIN\USER`.
fn user_name(text: &str) -> Vec<String> {
    if text.is_empty() {
        return vec!["runAsUserName cannot be an empty string".to_owned()];
    }
    if text.chars().any(|c| c.is_ascii_control()) {
        return vec!["runAsUserName cannot contain control characters".to_owned()];
    }
    let (domain, user) = match text.split_once('\\') {
        Some((_, user)) if user.contains('\\') => {
            return vec!["runAsUserName cannot contain more than one backslash".to_owned()];
        }
        Some((domain, user)) => (Some(domain), user),
        None => (None, text),
    };
    let mut messages = Vec::new();
    if domain.is_some_and(|domain| domain.len() >= USER_DOMAIN_MAX) {
        messages.push(format!("runAsUserName's Domain length must be under {USER_DOMAIN_MAX} characters"));
    }
    if domain.is_some_and(|domain| !is_net_bios(domain) && !is_dns(domain)) {
        messages.push("runAsUserName's Domain doesn't match the NetBios nor the DNS format".to_owned());
    }
    if user.is_empty() {
        messages.push("runAsUserName's User cannot be empty".to_owned());
    } else if user.len() > USER_NAME_MAX {
        messages.push(format!("runAsUserName's User length must not be longer than {USER_NAME_MAX} characters"));
    }
    if !user.is_empty() && user.chars().all(|c| matches!(c, '.' | ' ')) {
        messages.push("runAsUserName's User cannot contain only periods or spaces".to_owned());
    }
    if user.contains(['"', '/', '\\', ':', ';', '|', '=', ',', '+', '*', '?', '<', '>', '@', '[', ']']) {
        let listed = r#""/\:;|=,+*?<>@[]"#;
        messages.push(format!("runAsUserName's User cannot contain the following characters: {listed}"));
    }
    messages
}

fn is_net_bios(domain: &str) -> bool {
    (1..=15).contains(&domain.chars().count())
        && !domain.starts_with('.')
        && !domain.contains(['\\', '/', ':', '*', '?', '"', '<', '>', '|'])
}

fn is_dns(domain: &str) -> bool {
    domain.split('.').all(|label| {
        (1..=63).contains(&label.len())
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    })
}
