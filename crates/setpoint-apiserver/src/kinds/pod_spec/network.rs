//! A pod on the network: host ports, DNS, host names and aliases.

use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

use super::{ip_address, named};

const NAMESERVERS_MAX: usize = 3;
const SEARCHES_MAX: usize = 32;
const SEARCH_CHARACTERS_MAX: usize = 2048;
const HOSTNAME_MAX: usize = 64;

/// On the host's network a container's port is the host's. A template may leave the host's port out.
pub(super) fn validate_host_ports(spec: Node<'_, '_>, in_pod: bool, errors: &mut Errors) {
    if spec.field("hostNetwork").bool() != Some(true) {
        return;
    }
    for container in spec.field("containers").items() {
        for port in container.field("ports").items() {
            let host_port = port.field("hostPort");
            let number = host_port.i64().unwrap_or(0);
            if (in_pod || number != 0) && number != port.field("containerPort").i64().unwrap_or(0) {
                errors.invalid(&host_port.path, number, "must match `containerPort` when `hostNetwork` is true");
            }
        }
    }
}

pub(super) fn validate_dns_config(spec: Node<'_, '_>, errors: &mut Errors) {
    let config = spec.field("dnsConfig");
    let nameservers = config.field("nameservers");
    if spec.field("dnsPolicy").str() == "None" {
        if !config.is_set() {
            return errors.required(&config.path, "must provide `dnsConfig` when `dnsPolicy` is None");
        }
        if nameservers.is_empty() {
            let detail = "must provide at least one DNS nameserver when `dnsPolicy` is None";
            return errors.required(&nameservers.path, detail);
        }
    }
    if nameservers.len() > NAMESERVERS_MAX {
        let detail = format!("must not have more than {NAMESERVERS_MAX} nameservers");
        errors.invalid(&nameservers.path, nameservers.value, &detail);
    }
    for nameserver in nameservers.items() {
        ip_address(nameserver.str(), &nameserver.path, errors);
    }
    let searches = config.field("searches");
    if searches.len() > SEARCHES_MAX {
        let detail = format!("must not have more than {SEARCHES_MAX} search paths");
        errors.invalid(&searches.path, searches.value, &detail);
    }
    let characters: usize = searches.items().map(|search| search.str().len() + 1).sum();
    if characters > SEARCH_CHARACTERS_MAX + 1 {
        let detail =
            format!("must not have more than {SEARCH_CHARACTERS_MAX} characters (including spaces) in the search list");
        errors.invalid(&searches.path, searches.value, &detail);
    }
    for search in searches.items().filter(|search| search.str() != ".") {
        let domain = search.str().strip_suffix('.').unwrap_or(search.str());
        for message in search_domain(domain) {
            errors.invalid(&search.path, domain, &message);
        }
    }
    for option in config.field("options").items() {
        if option.field("name").str().is_empty() {
            errors.required(&option.path, "must not be empty");
        }
    }
}

/// A DNS subdomain whose labels may also hold underscores, though not at their end.
fn search_domain(value: &str) -> Vec<String> {
    let well_formed = |label: &str| {
        let label = label.strip_prefix('_').unwrap_or(label);
        let alphanumeric = |b: &u8| b.is_ascii_lowercase() || b.is_ascii_digit();
        label.as_bytes().first().is_some_and(alphanumeric)
            && label.as_bytes().last().is_some_and(alphanumeric)
            && label.bytes().all(|b| alphanumeric(&b) || b"-_".contains(&b))
    };
    let mut messages = Vec::new();
    if value.len() > 253 {
        messages.push("must be no more than 253 characters".to_owned());
    }
    if !value.split('.').all(well_formed) {
        messages.push(
            "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and \
             must start and end with an alphanumeric character (e.g. 'example.com', regex used for validation is \
             '_?[a-z0-9]([-_a-z0-9]*[a-z0-9])?(\\._?[a-z0-9]([-_a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        );
    }
    messages
}

pub(super) fn validate_host_aliases(aliases: Node<'_, '_>, errors: &mut Errors) {
    for alias in aliases.items() {
        let ip = alias.field("ip");
        ip_address(ip.str(), &ip.path, errors);
        for hostname in alias.field("hostnames").items() {
            named(hostname, names::dns1123_subdomain, errors);
        }
    }
}

pub(super) fn validate_hostname_override(spec: Node<'_, '_>, errors: &mut Errors) {
    let hostname = spec.field("hostnameOverride");
    if !hostname.is_set() {
        return;
    }
    if spec.field("setHostnameAsFQDN").bool() == Some(true) {
        errors.forbidden(&hostname.path, "may not be specified when setHostnameAsFQDN is true");
    }
    if spec.field("hostNetwork").bool() == Some(true) {
        errors.forbidden(&hostname.path, "may not be specified when hostNetwork is true");
    }
    if hostname.str().len() > HOSTNAME_MAX {
        errors.too_long(&hostname.path, HOSTNAME_MAX);
    }
    named(hostname, names::dns1123_subdomain, errors);
}
