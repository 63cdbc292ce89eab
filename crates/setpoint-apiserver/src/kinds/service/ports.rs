//! The rules of a Service's ports.

use std::collections::HashSet;
use std::fmt;

use serde_json::Value;

use super::spec;
use crate::kinds::endpoints::{report, validate_app_protocol, validate_protocol};
use setpoint_api::field::{Errors, Fault, Node};
use setpoint_api::names;

/// Checks each port. Where there are several, each has a name of its own.
pub(super) fn validate(ports: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for port in ports.items() {
        validate_port(port, ports.len() > 1, &mut seen, errors);
    }
}

/// Checks that no two ports are the same, in the cluster or on a node.
pub(super) fn validate_unique(service: Node<'_, '_>, errors: &mut Errors) {
    let spec = service.field("spec");
    validate_node_ports(service, spec.field("ports"), errors);
    validate_unique_ports(spec.field("ports"), errors);
}

fn validate_port<'v>(port: Node<'v, '_>, named: bool, seen: &mut HashSet<&'v str>, errors: &mut Errors) {
    let name = port.field("name");
    if name.str().is_empty() {
        if named {
            errors.required(&name.path, "");
        }
    } else {
        report(name, names::dns1123_label, errors);
        if !seen.insert(name.str()) {
            errors.duplicate(&name.path, name.str());
        }
    }
    validate_number(port.field("port"), errors);
    validate_protocol(port, errors);
    let target = port.field("targetPort");
    match target.value {
        Value::String(_) => report(target, names::port_name, errors),
        _ => validate_number(target, errors),
    }
    validate_app_protocol(port, errors);
}

/// Checks the number of a port.
pub(super) fn validate_number(port: Node<'_, '_>, errors: &mut Errors) {
    let number = port.i64().unwrap_or_default();
    for message in names::port_number(number) {
        errors.invalid(&port.path, number, &message);
    }
}

fn validate_node_ports(service: Node<'_, '_>, ports: Node<'_, '_>, errors: &mut Errors) {
    if spec::kind(service.value) == spec::CLUSTER_IP {
        for port in ports.items().filter(|port| spec::node_port(port.value) != 0) {
            errors.forbidden(&port.field("nodePort").path, "may not be used when `type` is 'ClusterIP'");
        }
    }
    let mut seen = HashSet::new();
    for port in ports.items().filter(|port| spec::node_port(port.value) != 0) {
        let identity = (port.field("protocol").str(), spec::node_port(port.value));
        if !seen.insert(identity) {
            errors.duplicate(&port.field("nodePort").path, identity.1);
        }
    }
}

/// A port of one protocol is served once. Kubernetes shows the pair as a port of which nothing else is known.
fn validate_unique_ports(ports: Node<'_, '_>, errors: &mut Errors) {
    let mut seen = HashSet::new();
    for port in ports.items() {
        let identity = (port.field("protocol").str(), port.field("port").i64().unwrap_or_default());
        if !seen.insert(identity) {
            let message = || format!("Duplicate value: {}", PortIdentity(identity.0, identity.1));
            errors.push(Fault::Duplicate, &port.path, message);
        }
    }
}

struct PortIdentity<'v>(&'v str, i64);

impl fmt::Display for PortIdentity<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (protocol, port) = (Value::from(self.0), self.1);
        write!(f, r#"{{"Name":"","Protocol":{protocol},"AppProtocol":null,"Port":{port},"TargetPort":0,"NodePort":0}}"#)
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
    fn ports_are_checked() {
        let check = |node: Node<'_, '_>, errors: &mut Errors| {
            validate(node.field("spec").field("ports"), errors);
            validate_unique(node, errors);
        };
        let rows = [
            (
                "one port over both protocols",
                json!({"ports": [
                {"name": "t", "port": 53}, {"name": "u", "port": 53, "protocol": "UDP"}]}),
                vec![],
            ),
            (
                "two ports without names",
                json!({"ports": [{"port": 1}, {"port": 2}]}),
                vec!["spec.ports[0].name: Required value", "spec.ports[1].name: Required value"],
            ),
            (
                "one port twice",
                json!({"ports": [{"name": "x", "port": 1}, {"name": "x", "port": 1}]}),
                vec![
                    r#"spec.ports[1].name: Duplicate value: "x""#,
                    concat!(
                        r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"#,
                        r#""Port":1,"TargetPort":0,"NodePort":0}"#
                    ),
                ],
            ),
            (
                "a target that is no name",
                json!({"ports": [{"port": 1, "targetPort": "80"}]}),
                vec![r#"spec.ports[0].targetPort: Invalid value: "80": must contain at least one letter (a-z)"#],
            ),
            (
                "a node port without its type",
                json!({"ports": [{"port": 1, "nodePort": 30000}]}),
                vec!["spec.ports[0].nodePort: Forbidden: may not be used when `type` is 'ClusterIP'"],
            ),
            (
                "one node port twice",
                json!({"type": "NodePort", "ports": [
                    {"name": "a", "port": 1, "nodePort": 30000}, {"name": "b", "port": 2, "nodePort": 30000}]}),
                vec!["spec.ports[1].nodePort: Duplicate value: 30000"],
            ),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(messages(check, spec), expected, "{name}");
        }
    }
}
