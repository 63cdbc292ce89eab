//! Containers of all sorts: regular, init and ephemeral.

use std::collections::BTreeSet;

use serde_json::Value;

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::{Surroundings, environment, handlers, mounts, named, one_of, one_of_if_set, required, required_name};
use super::{resources, security};

const RESTART_RULES_MAX: usize = 20;
const EXIT_CODES_MAX: usize = 255;

/// What an ephemeral container may not have, since nothing may depend on it.
const NOT_IN_EPHEMERAL: [&str; 9] = [
    "ports",
    "resources",
    "resizePolicy",
    "restartPolicy",
    "restartPolicyRules",
    "livenessProbe",
    "readinessProbe",
    "startupProbe",
    "lifecycle",
];

pub(super) fn validate_regular(spec: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let containers = spec.field("containers");
    if containers.is_empty() {
        return errors.required(&containers.path, "");
    }
    let mut names = BTreeSet::new();
    for container in containers.items() {
        validate_any(container, surroundings, errors);
        let name = container.field("name");
        if !names.insert(name.str()) {
            errors.duplicate(&name.path, name.str());
        }
        handlers::validate(container, surroundings, errors);
        validate_restart_policy(container, errors);
    }
    validate_host_ports(containers.items(), errors);
}

pub(super) fn validate_init(spec: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let mut names = names_of(spec, &["containers"]);
    for container in spec.field("initContainers").items() {
        validate_any(container, surroundings, errors);
        validate_restart_policy(container, errors);
        let name = container.field("name");
        if !names.insert(name.str()) {
            errors.duplicate(&name.path, name.str());
        }
        names.remove("");
        // Init containers run one after the other, so each has the host's ports for itself.
        validate_host_ports([container].into_iter(), errors);
        if container.field("restartPolicy").str() == "Always" {
            handlers::validate(container, surroundings, errors);
            continue;
        }
        for field in ["lifecycle", "livenessProbe", "readinessProbe", "startupProbe"] {
            let field = container.field(field);
            if field.is_set() {
                errors.forbidden(&field.path, "may not be set for init containers without restartPolicy=Always");
            }
        }
        for policy in container.field("resizePolicy").items() {
            let restart = policy.field("restartPolicy");
            if restart.str() == "RestartContainer" {
                let detail = "must not be set to 'RestartContainer' for non-sidecar initContainers";
                errors.invalid(&restart.path, restart.str(), detail);
            }
        }
    }
}

pub(super) fn validate_ephemeral(spec: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let others = names_of(spec, &["containers", "initContainers"]);
    let mut names = others.clone();
    for container in spec.field("ephemeralContainers").items() {
        validate_any(container, surroundings, errors);
        validate_image_spacing(container, errors);
        let name = container.field("name");
        if !names.insert(name.str()) {
            errors.duplicate(&name.path, name.str());
        }
        let target = container.field("targetContainerName");
        if !target.str().is_empty() && !others.contains(target.str()) {
            errors.not_found(&target.path, target.str());
        }
        for field in NOT_IN_EPHEMERAL {
            let field = container.field(field);
            // `resources: {}` says nothing: it stands in every container.
            if field.is_set() && field.value.as_object().is_none_or(|fields| !fields.is_empty()) {
                errors.forbidden(&field.path, "cannot be set for an Ephemeral Container");
            }
        }
        for mount in container.field("volumeMounts").items() {
            for field in ["subPath", "subPathExpr"] {
                let field = mount.field(field);
                if !field.str().is_empty() {
                    errors.forbidden(&field.path, "cannot be set for an Ephemeral Container");
                }
            }
        }
    }
}

/// Checks that an image has no space around it.
pub(super) fn validate_image_spacing(container: Node<'_, '_>, errors: &mut Errors) {
    let image = container.field("image");
    if image.str().trim() != image.str() {
        errors.invalid(&image.path, image.str(), "must not have leading or trailing whitespace");
    }
}

fn names_of<'v>(spec: Node<'v, '_>, lists: &[&str]) -> BTreeSet<&'v str> {
    let listed = |list: &&str| spec.value[*list].as_array().map(Vec::as_slice).unwrap_or_default();
    lists.iter().flat_map(listed).filter_map(|container: &Value| container["name"].as_str()).collect()
}

/// The rules of every container.
fn validate_any(container: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    required_name(container.field("name"), names::dns1123_label, errors);
    // Where Pods are processes, there is no image: the command is what runs.
    if container.field("command").is_empty() {
        required(container.field("image"), errors);
    }
    one_of(container.field("terminationMessagePolicy"), &["File", "FallbackToLogsOnError"], errors);
    validate_ports(container.field("ports"), errors);
    environment::validate(container, errors);
    mounts::validate(container, surroundings, errors);
    one_of(container.field("imagePullPolicy"), &["Always", "IfNotPresent", "Never"], errors);
    resources::validate(container.field("resources"), Some(surroundings), errors);
    validate_resize_policy(container.field("resizePolicy"), surroundings, errors);
    security::validate_container(container.field("securityContext"), surroundings, errors);
}

fn validate_ports(ports: Node<'_, '_>, errors: &mut Errors) {
    let mut names = BTreeSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.str().is_empty() {
            let messages = names::port_name(name.str());
            if messages.is_empty() && !names.insert(name.str()) {
                errors.duplicate(&name.path, name.str());
            }
            named(name, names::port_name, errors);
        }
        let (inside, outside) = (port.field("containerPort"), port.field("hostPort"));
        if inside.i64().unwrap_or(0) == 0 {
            errors.required(&inside.path, "");
        }
        for number in [inside, outside] {
            if let Some(value) = number.i64().filter(|value| *value != 0) {
                for message in names::port_number(value) {
                    errors.invalid(&number.path, value, &message);
                }
            }
        }
        one_of(port.field("protocol"), &["SCTP", "TCP", "UDP"], errors);
    }
}

/// No two containers that run at the same time may claim one port of the host.
fn validate_host_ports<'v, 'p>(containers: impl Iterator<Item = Node<'v, 'p>>, errors: &mut Errors)
where
    'v: 'p,
{
    let mut claimed = BTreeSet::new();
    for container in containers {
        for port in container.field("ports").items() {
            let host_port = port.field("hostPort");
            if let Some(number) = host_port.i64().filter(|number| *number != 0) {
                let claim = format!("{}/{}/{number}", port.field("protocol").str(), port.field("hostIP").str());
                if !claimed.insert(claim.clone()) {
                    errors.duplicate(&host_port.path, claim);
                }
            }
        }
    }
}

fn validate_restart_policy(container: Node<'_, '_>, errors: &mut Errors) {
    let (policy, rules) = (container.field("restartPolicy"), container.field("restartPolicyRules"));
    if !policy.is_set() && !rules.is_empty() {
        errors.required(&policy.path, "must specify restartPolicy when restart rules are used");
    }
    one_of_if_set(policy, &["Always", "Never", "OnFailure"], errors);
    if rules.len() > RESTART_RULES_MAX {
        errors.too_many(&rules.path, rules.len(), RESTART_RULES_MAX);
    }
    for rule in rules.items() {
        let action = rule.field("action");
        if action.str() != "Restart" {
            errors.unsupported(&action.path, action.str(), &["Restart"]);
        }
        let exit_codes = rule.field("exitCodes");
        if !exit_codes.is_set() {
            errors.required(&exit_codes.path, "must be specified");
            continue;
        }
        let operator = exit_codes.field("operator");
        if !["In", "NotIn"].contains(&operator.str()) {
            errors.unsupported(&operator.path, operator.str(), &["In", "NotIn"]);
        }
        let values = exit_codes.field("values");
        if values.len() > EXIT_CODES_MAX {
            errors.too_many(&values.path, values.len(), EXIT_CODES_MAX);
        }
    }
}

fn validate_resize_policy(policies: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for policy in policies.items() {
        let resource = policy.field("resourceName").str();
        if !seen.insert(resource) {
            errors.duplicate(&policy.path, resource);
        }
        let restart = policy.field("restartPolicy").str();
        // Kubernetes shows these at the list, not at the element.
        for (text, supported) in [(resource, ["cpu", "memory"]), (restart, ["NotRequired", "RestartContainer"])] {
            if text.is_empty() {
                errors.required(&policies.path, "");
            } else if !supported.contains(&text) {
                errors.unsupported(&policies.path, text, &supported);
            }
        }
        if surroundings.restart_policy == "Never" && restart != "NotRequired" {
            let detail = "must be 'NotRequired' when pod `restartPolicy` is 'Never'";
            errors.invalid(&policies.path, restart, detail);
        }
    }
}
