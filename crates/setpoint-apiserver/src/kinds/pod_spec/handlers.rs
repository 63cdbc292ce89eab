//! Probes and lifecycle hooks: what is called in a container to see how it is, or when it starts and stops.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::{Surroundings, not_negative, one_of_if_set};

const PROBE_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "grpc"];
const HOOK_HANDLERS: [&str; 4] = ["exec", "httpGet", "tcpSocket", "sleep"];

/// Checks the hooks and probes of a container that keeps running.
pub(super) fn validate(container: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    validate_lifecycle(container.field("lifecycle"), surroundings, errors);
    for name in ["livenessProbe", "readinessProbe", "startupProbe"] {
        let probe = container.field(name);
        if probe.is_set() {
            validate_probe(probe, name, surroundings, errors);
        }
    }
}

fn validate_lifecycle(lifecycle: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    for hook in ["postStart", "preStop"] {
        let hook = lifecycle.field(hook);
        if hook.is_set() {
            validate_handler(hook, &HOOK_HANDLERS, surroundings, errors);
        }
    }
    let signal = lifecycle.field("stopSignal");
    if signal.is_set() {
        match surroundings.os {
            None => errors.forbidden(&signal.path, "may not be set for containers with empty `spec.os.name`"),
            Some("windows") => one_of_if_set(signal, &["SIGKILL", "SIGTERM"], errors),
            Some("linux") => {
                let signals = linux_signals();
                one_of_if_set(signal, &signals.iter().map(String::as_str).collect::<Vec<_>>(), errors);
            }
            Some(_) => {}
        }
    }
}

/// The signals of Linux by name, sorted.
fn linux_signals() -> Vec<String> {
    const NAMED: [&str; 36] = [
        "ABRT", "ALRM", "BUS", "CHLD", "CLD", "CONT", "FPE", "HUP", "ILL", "INT", "IO", "IOT", "KILL", "PIPE", "POLL",
        "PROF", "PWR", "QUIT", "RTMAX", "RTMIN", "SEGV", "STKFLT", "STOP", "SYS", "TERM", "TRAP", "TSTP", "TTIN",
        "TTOU", "URG", "USR1", "USR2", "VTALRM", "WINCH", "XCPU", "XFSZ",
    ];
    let named = NAMED.iter().map(|name| format!("SIG{name}"));
    let above = (1..=15).map(|offset| format!("SIGRTMIN+{offset}"));
    let below = (1..=14).map(|offset| format!("SIGRTMAX-{offset}"));
    let mut signals: Vec<String> = named.chain(above).chain(below).collect();
    signals.sort_unstable();
    signals
}

fn validate_probe(probe: Node<'_, '_>, name: &str, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    validate_handler(probe, &PROBE_HANDLERS, surroundings, errors);
    for field in ["initialDelaySeconds", "timeoutSeconds", "periodSeconds", "successThreshold", "failureThreshold"] {
        let number = probe.field(field);
        not_negative(number.i64().unwrap_or(0), &number.path, errors);
    }
    let grace = probe.field("terminationGracePeriodSeconds");
    if let Some(seconds) = grace.i64().filter(|seconds| *seconds <= 0) {
        errors.invalid(&grace.path, seconds, "must be greater than 0");
    }
    if name == "readinessProbe" {
        if grace.is_set() {
            errors.invalid(&grace.path, grace.value, "must not be set for readinessProbes");
        }
    } else {
        let threshold = probe.field("successThreshold");
        let value = threshold.i64().unwrap_or(0);
        if value != 1 {
            errors.invalid(&threshold.path, value, "must be 1");
        }
    }
}

/// Exactly one handler must be given; the rules of its sort apply to it.
fn validate_handler(handler: Node<'_, '_>, sorts: &[&str], surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let mut found = false;
    for sort in sorts {
        let action = handler.field(sort);
        if !action.is_set() {
            continue;
        }
        if found {
            errors.forbidden(&action.path, "may not specify more than 1 handler type");
            continue;
        }
        found = true;
        match *sort {
            "exec" if action.field("command").is_empty() => errors.required(&action.path.field("command"), ""),
            "httpGet" => validate_http_get(action, errors),
            "tcpSocket" | "grpc" => validate_port(action.field("port"), errors),
            "sleep" => validate_sleep(action, surroundings, errors),
            _ => {}
        }
    }
    if !found {
        errors.required(&handler.path, "must specify a handler type");
    }
}

fn validate_http_get(get: Node<'_, '_>, errors: &mut Errors) {
    super::required(get.field("path"), errors);
    validate_port(get.field("port"), errors);
    let scheme = get.field("scheme");
    if !["HTTP", "HTTPS"].contains(&scheme.str()) {
        errors.unsupported(&scheme.path, scheme.str(), &["HTTP", "HTTPS"]);
    }
    let headers = get.field("httpHeaders");
    for header in headers.items() {
        let name = header.field("name").str();
        for message in names::http_header_name(name) {
            errors.invalid(&headers.path, name, &message);
        }
    }
}

/// A port is a number, or the name of one of the container's ports.
fn validate_port(port: Node<'_, '_>, errors: &mut Errors) {
    if port.value.is_string() {
        super::named(port, names::port_name, errors);
    } else {
        let number = port.i64().unwrap_or(0);
        for message in names::port_number(number) {
            errors.invalid(&port.path, number, &message);
        }
    }
}

fn validate_sleep(sleep: Node<'_, '_>, surroundings: &Surroundings<'_>, errors: &mut Errors) {
    let seconds = sleep.field("seconds").i64().unwrap_or(0);
    // Without a grace period there is an error already; another one would only confuse.
    if let Some(grace) = surroundings.grace_period.filter(|grace| !(0..=*grace).contains(&seconds)) {
        let detail = format!("must be non-negative and less than terminationGracePeriodSeconds ({grace})");
        errors.invalid(&sleep.path, seconds, &detail);
    }
}
