//! Ingresses: which requests from outside go to which Service.

use std::collections::{BTreeSet, HashSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::ip;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::defaults::section;
use super::endpoints::report;
use super::typed_reference;

#[derive(Debug)]
pub struct Ingress;

const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";
const HOSTS_SHOWN: usize = 3;
const ADDRESS_WIDTH: usize = 16;

const COLUMNS: [Column; 6] = [
    columns::NAME,
    columns::text("Class", "The IngressClass that says who serves it."),
    columns::text("Hosts", "The hosts that its rules are for."),
    columns::text("Address", "Where it can be reached."),
    columns::text("Ports", "The ports it listens on."),
    columns::AGE,
];

impl Behaviour for Ingress {
    fn default(&self, object: &mut Value) {
        section(object, "spec");
        section(section(object, "status"), "loadBalancer");
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_spec(object.field("spec"), errors);
        let (class, annotation) = (class_of(object.value), &object.value["metadata"]["annotations"][CLASS_ANNOTATION]);
        if let (Some(class), Some(annotation)) = (class, annotation.as_str())
            && class != annotation
        {
            let annotations = object.path.field("annotations");
            let detail = "must match `ingressClassName` when both are specified";
            errors.invalid(&annotations.field(CLASS_ANNOTATION), annotation, detail);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        match part {
            Part::Status => validate_status(object.field("status"), &old["status"], errors),
            _ => validate_spec(object.field("spec"), errors),
        }
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        let annotated = object.value["metadata"]["annotations"][CLASS_ANNOTATION].is_string();
        if old.is_some() || !annotated || class_of(object.value).is_some() {
            return Vec::new();
        }
        vec![format!("annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead")]
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no requests will be routed by it")
    }

    fn columns(&self) -> &[Column] {
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let secured = object["spec"]["tls"].as_array().is_some_and(|tls| !tls.is_empty());
        vec![
            columns::name_cell(object),
            class_of(object).unwrap_or(columns::NONE).into(),
            hosts(object).into(),
            addresses(object).into(),
            if secured { "80, 443" } else { "80" }.into(),
            columns::age_cell(object, now),
        ]
    }
}

fn class_of(object: &Value) -> Option<&str> {
    object["spec"]["ingressClassName"].as_str()
}

fn validate_spec(spec: Node<'_, '_>, errors: &mut Errors) {
    let (backend, rules, class) = (spec.field("defaultBackend"), spec.field("rules"), spec.field("ingressClassName"));
    if rules.is_empty() && !backend.is_set() {
        errors.invalid(&spec.path, rules.value, "either `defaultBackend` or `rules` must be specified");
    }
    if backend.is_set() {
        validate_backend(backend, errors);
    }
    for rule in rules.items() {
        validate_rule(rule, errors);
    }
    for tls in spec.field("tls").items() {
        for host in tls.field("hosts").items() {
            validate_host(host, errors);
        }
        let secret = tls.field("secretName");
        if !secret.str().is_empty() {
            report(secret, names::dns1123_subdomain, errors);
        }
    }
    if class.is_set() {
        report(class, names::dns1123_subdomain, errors);
    }
}

fn validate_rule(rule: Node<'_, '_>, errors: &mut Errors) {
    let host = rule.field("host");
    if !host.str().is_empty() {
        if ip::parse(host.str()).is_some() {
            errors.invalid(&host.path, host.str(), "must be a DNS name, not an IP address");
        }
        validate_host(host, errors);
    }
    let http = rule.field("http");
    if http.is_set() {
        let paths = http.field("paths");
        if paths.is_empty() {
            errors.required(&paths.path, "");
        }
        for path in paths.items() {
            validate_path(path, errors);
        }
    }
}

fn validate_host(host: Node<'_, '_>, errors: &mut Errors) {
    let rule = if host.str().contains('*') { names::wildcard_subdomain } else { names::dns1123_subdomain };
    report(host, rule, errors);
}

fn validate_path(rule: Node<'_, '_>, errors: &mut Errors) {
    let (sort, path) = (rule.field("pathType"), rule.field("path"));
    if !sort.is_set() {
        return errors.required(&sort.path, "pathType must be specified");
    }
    let mut refuse = |detail: &str| errors.invalid(&path.path, path.str(), detail);
    let absolute = path.str().starts_with('/');
    match sort.str() {
        "Exact" | "Prefix" => {
            if !absolute {
                refuse("must be an absolute path");
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"] {
                if path.str().contains(sequence) {
                    refuse(&format!("must not contain '{sequence}'"));
                }
            }
            for end in ["/..", "/."] {
                if path.str().ends_with(end) {
                    refuse(&format!("cannot end with '{end}'"));
                }
            }
        }
        "ImplementationSpecific" if !absolute && !path.str().is_empty() => refuse("must be an absolute path"),
        "ImplementationSpecific" => {}
        other => errors.unsupported(&sort.path, other, &["Exact", "ImplementationSpecific", "Prefix"]),
    }
    validate_backend(rule.field("backend"), errors);
}

/// A backend is a port of a Service, or an object of any kind.
fn validate_backend(backend: Node<'_, '_>, errors: &mut Errors) {
    let (resource, service) = (backend.field("resource"), backend.field("service"));
    match (resource.is_set(), service.is_set()) {
        (true, true) => errors.invalid(&backend.path, "", "cannot set both resource and service backends"),
        (true, false) => typed_reference::validate(resource, errors),
        (false, true) => validate_service(backend, service, errors),
        (false, false) => errors.invalid(&backend.path, "", "resource or service backend is required"),
    }
}

fn validate_service(backend: Node<'_, '_>, service: Node<'_, '_>, errors: &mut Errors) {
    let (service_name, port) = (service.field("name"), service.field("port"));
    if service_name.str().is_empty() {
        errors.required(&service_name.path, "");
    } else {
        report(service_name, names::dns1123_label, errors);
    }
    let (name, number) = (port.field("name"), port.field("number"));
    match (name.str().is_empty(), number.i64().unwrap_or(0)) {
        (false, 0) => report(name, names::port_name, errors),
        (false, _) => errors.invalid(&backend.path, "", "cannot set both port name & port number"),
        (true, 0) => errors.required(&backend.path, "port name or number is required"),
        (true, value) => {
            for message in names::port_number(value) {
                errors.invalid(&number.path, value, &message);
            }
        }
    }
}

/// Checks where an Ingress can be reached; an address that it already had is let be.
fn validate_status(status: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let before = old["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let known: HashSet<&str> = before.filter_map(|point| point["ip"].as_str()).collect();
    let balancer = status.field("loadBalancer");
    for point in balancer.field("ingress").items() {
        let (address, hostname) = (point.field("ip"), point.field("hostname"));
        if !address.str().is_empty() && !known.contains(address.str()) {
            ip::validate(address, errors);
        }
        if !hostname.str().is_empty() {
            report(hostname, names::dns1123_subdomain, errors);
            if ip::parse(hostname.str()).is_some() {
                errors.invalid(&hostname.path, hostname.str(), "must be a DNS name, not an IP address");
            }
        }
    }
}

fn hosts(object: &Value) -> String {
    let rules = object["spec"]["rules"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (mut shown, mut more) = (Vec::new(), false);
    for rule in rules {
        more |= shown.len() == HOSTS_SHOWN;
        if !more {
            shown.extend(rule["host"].as_str().filter(|host| !host.is_empty()));
        }
    }
    match (shown.is_empty(), more) {
        (true, _) => "*".to_owned(),
        (false, false) => shown.join(","),
        (false, true) => format!("{} + {} more...", shown.join(","), rules.len() - HOSTS_SHOWN),
    }
}

fn addresses(object: &Value) -> String {
    let points = object["status"]["loadBalancer"]["ingress"].as_array().into_iter().flatten();
    let text = |point: &Value, field: &str| point[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
    let addresses: BTreeSet<String> = points.filter_map(|p| text(p, "ip").or_else(|| text(p, "hostname"))).collect();
    let joined = addresses.into_iter().collect::<Vec<_>>().join(",");
    match joined.char_indices().nth(ADDRESS_WIDTH) {
        Some(_) => format!("{}...", joined.chars().take(ADDRESS_WIDTH - 3).collect::<String>()),
        None => joined,
    }
}

#[cfg(test)]
mod tests;
