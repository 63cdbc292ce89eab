//! The rules of what only a Service behind a load balancer has.

use std::collections::HashSet;

use serde_json::Value;

use super::spec;
use crate::ip;
use crate::kinds::endpoints::report;
use crate::kinds::lookup::first_by;
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

const IP_MODES: [&str; 2] = ["Proxy", "VIP"];
const SOURCE_RANGES: &str = "service.beta.kubernetes.io/load-balancer-source-ranges";
const ONLY_BALANCED: &str = "may only be used when `type` is 'LoadBalancer'";

/// Checks what the Service asks of its load balancer; ranges that an older one already had are let be.
pub(super) fn validate(service: Node<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    validate_source_ranges(service, old, errors);
    validate_allocation(service, errors);
    validate_class(service, errors);
}

/// What a load balancer may report.
pub(super) fn validate_status(service: Node<'_, '_>, old: &Value, errors: &mut Errors) {
    let status = service.field("status");
    let balancer = status.field("loadBalancer");
    let list = balancer.field("ingress");
    if spec::kind(service.value) != spec::LOAD_BALANCER && !list.is_empty() {
        return errors.forbidden(&list.path, "may only be used when `spec.type` is 'LoadBalancer'");
    }
    let known = first_by(&old["status"]["loadBalancer"]["ingress"], "ip");
    for ingress in list.items() {
        let (address, mode, hostname) = (ingress.field("ip"), ingress.field("ipMode"), ingress.field("hostname"));
        let has_ip = !address.str().is_empty();
        if has_ip && !known.contains_key(address.str()) {
            ip::validate(address, errors);
        }
        match (mode.is_set(), has_ip) {
            (false, true) => errors.required(&mode.path, "must be specified when `ip` is set"),
            (true, false) => errors.forbidden(&mode.path, "may not be specified when `ip` is not set"),
            (true, true) if !IP_MODES.contains(&mode.str()) => errors.unsupported(&mode.path, mode.str(), &IP_MODES),
            _ => {}
        }
        if !hostname.str().is_empty() {
            report(hostname, names::dns1123_subdomain, errors);
            if ip::parse(hostname.str()).is_some() {
                errors.invalid(&hostname.path, hostname.str(), "must be a DNS name, not an IP address");
            }
        }
    }
}

fn validate_source_ranges(service: Node<'_, '_>, old: Option<&Value>, errors: &mut Errors) {
    let balanced = spec::kind(service.value) == spec::LOAD_BALANCER;
    let spec = service.field("spec");
    let ranges = spec.field("loadBalancerSourceRanges");
    if !ranges.is_empty() {
        // Kubernetes reports it under the name of the Go field.
        let path = spec.path.field("LoadBalancerSourceRanges");
        if !balanced {
            errors.forbidden(&path, ONLY_BALANCED);
        }
        let known = old.map(|old| spec::texts(&old["spec"]["loadBalancerSourceRanges"])).unwrap_or_default();
        let known: HashSet<&str> = known.into_iter().map(str::trim).collect();
        for (index, range) in ranges.items().enumerate() {
            let text = range.str().trim();
            if !known.contains(text) {
                ip::validate_cidr(text, &path.index(index), errors);
            }
        }
        return;
    }
    let metadata = service.field("metadata");
    let annotations = metadata.field("annotations");
    let annotation = annotations.field(SOURCE_RANGES);
    if !annotation.is_set() {
        return;
    }
    let path = annotations.path.key(SOURCE_RANGES);
    if !balanced {
        errors.forbidden(&path, ONLY_BALANCED);
    }
    let unchanged = old.is_some_and(|old| old["metadata"]["annotations"][SOURCE_RANGES] == *annotation.value);
    if !unchanged && !annotation.str().trim().is_empty() {
        annotation.str().split(',').for_each(|range| ip::validate_cidr(range.trim(), &path, errors));
    }
}

fn validate_allocation(service: Node<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let allocate = spec.field("allocateLoadBalancerNodePorts");
    match (spec::kind(service.value) == spec::LOAD_BALANCER, allocate.is_set()) {
        (false, true) => errors.forbidden(&allocate.path, ONLY_BALANCED),
        (true, false) => errors.required(&service.path.field("allocateLoadBalancerNodePorts"), ""),
        _ => {}
    }
}

/// Checks who is to balance the load.
pub(super) fn validate_class(service: Node<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    let class = spec.field("loadBalancerClass");
    match (class.is_set(), spec::kind(service.value)) {
        (false, _) => {}
        (true, spec::LOAD_BALANCER) => labels::validate_label_key(class.str(), &class.path, errors),
        (true, _) => errors.forbidden(&class.path, ONLY_BALANCED),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kind::Behaviour;
    use crate::kinds::service::Service;

    fn messages(check: impl Fn(Node<'_, '_>, &mut Errors), spec: Value) -> Vec<String> {
        let mut service = json!({"metadata": {"name": "a"}, "spec": spec});
        Service.default(&mut service);
        let mut errors = Errors::default();
        check(Node::root(&service), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn others_have_nothing_to_balance() {
        let check = |node: Node<'_, '_>, errors: &mut Errors| validate(node, None, errors);
        let rows = [
            (
                "a balancer has it all",
                json!({"type": "LoadBalancer", "loadBalancerClass": "a/b", "loadBalancerSourceRanges": [" 10.0.0.0/8"]}),
                vec![],
            ),
            (
                "a range that is none",
                json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1/8"]}),
                vec![
                    "spec.LoadBalancerSourceRanges[0]: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the \
                     prefix length",
                ],
            ),
            (
                "what only a balancer has",
                json!({"allocateLoadBalancerNodePorts": true, "loadBalancerClass": "a/b",
                    "loadBalancerSourceRanges": ["10.0.0.0/8"]}),
                vec![
                    "spec.LoadBalancerSourceRanges: Forbidden: may only be used when `type` is 'LoadBalancer'",
                    "spec.allocateLoadBalancerNodePorts: Forbidden: may only be used when `type` is 'LoadBalancer'",
                    "spec.loadBalancerClass: Forbidden: may only be used when `type` is 'LoadBalancer'",
                ],
            ),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(messages(check, spec), expected, "{name}");
        }
    }

    #[test]
    fn a_balancer_reports_addresses() {
        let reported = |kind: &str, ingress: Value| {
            let mut service = json!({"spec": {"type": kind}, "status": {"loadBalancer": {"ingress": [ingress]}}});
            Service.default(&mut service);
            let mut errors = Errors::default();
            validate_status(Node::root(&service), &Value::Null, &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let rows = [
            ("an address", reported("LoadBalancer", json!({"ip": "1.2.3.4"})), vec![]),
            (
                "on another type",
                reported("ClusterIP", json!({"ip": "1.2.3.4"})),
                vec!["status.loadBalancer.ingress: Forbidden: may only be used when `spec.type` is 'LoadBalancer'"],
            ),
            (
                "an address as a name",
                reported("LoadBalancer", json!({"hostname": "1.2.3.4"})),
                vec![
                    "status.loadBalancer.ingress[0].hostname: Invalid value: \"1.2.3.4\": must be a DNS name, not an IP \
                     address",
                ],
            ),
            (
                "an unknown mode",
                reported("LoadBalancer", json!({"ip": "1.2.3.4", "ipMode": "X"})),
                vec![
                    "status.loadBalancer.ingress[0].ipMode: Unsupported value: \"X\": supported values: \"Proxy\", \"VIP\"",
                ],
            ),
        ];
        for (name, messages, expected) in rows {
            assert_eq!(messages, expected, "{name}");
        }
    }
}
