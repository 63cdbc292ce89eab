//! NetworkPolicies: who may speak to which pods, and to whom they may speak.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::columns;
use crate::ip;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

use super::defaults::{fill, section};
use super::endpoints::report;
use super::pod_spec::each;

#[derive(Debug)]
pub struct NetworkPolicy;

/// The two directions, each with the field that names the other side.
const DIRECTIONS: [(&str, &str); 2] = [("ingress", "from"), ("egress", "to")];
const TYPES: [&str; 2] = ["Ingress", "Egress"];
const PROTOCOLS: [&str; 3] = ["TCP", "UDP", "SCTP"];

impl Behaviour for NetworkPolicy {
    fn default(&self, object: &mut Value) {
        let spec = section(object, "spec");
        section(spec, "podSelector");
        for (rules, _) in DIRECTIONS {
            each(spec, rules, |rule| each(rule, "ports", |port| fill(port, "protocol", "TCP")));
        }
        let outwards = spec["egress"].as_array().is_some_and(|rules| !rules.is_empty());
        fill(spec, "policyTypes", if outwards { json!(TYPES) } else { json!(["Ingress"]) });
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_spec(object.field("spec"), &HashSet::new(), errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        validate_spec(object.field("spec"), &ranges(&old["spec"]), errors);
    }

    fn has_generation(&self) -> bool {
        true
    }

    fn left_undone(&self) -> Option<&'static str> {
        Some("no traffic is restricted")
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 3] =
            [columns::NAME, columns::text("Pod-Selector", "The labels of the pods it is for."), columns::AGE];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let selector = columns::label_selector(&object["spec"]["podSelector"]);
        vec![columns::name_cell(object), selector.into(), columns::age_cell(object, now)]
    }
}

/// All ranges of addresses in a spec.
fn ranges(spec: &Value) -> HashSet<&str> {
    let mut found = HashSet::new();
    for (rules, peers) in DIRECTIONS {
        let rules = spec[rules].as_array().into_iter().flatten();
        for peer in rules.flat_map(|rule| rule[peers].as_array().into_iter().flatten()) {
            let block = &peer["ipBlock"];
            found.extend(block["cidr"].as_str());
            found.extend(block["except"].as_array().into_iter().flatten().filter_map(Value::as_str));
        }
    }
    found
}

/// `known` are ranges that the policy already had, which are not judged again.
fn validate_spec(spec: Node<'_, '_>, known: &HashSet<&str>, errors: &mut Errors) {
    labels::validate_label_selector(spec.field("podSelector"), errors);
    for (rules, peers) in DIRECTIONS {
        for rule in spec.field(rules).items() {
            for port in rule.field("ports").items() {
                validate_port(port, errors);
            }
            for peer in rule.field(peers).items() {
                validate_peer(peer, known, errors);
            }
        }
    }
    let types = spec.field("policyTypes");
    if types.len() > TYPES.len() {
        return errors.invalid(&types.path, types.value, "may not specify more than two policyTypes");
    }
    for sort in types.items().filter(|sort| !TYPES.contains(&sort.str())) {
        errors.unsupported(&sort.path, sort.str(), &TYPES);
    }
}

fn validate_port(port: Node<'_, '_>, errors: &mut Errors) {
    let (protocol, first, last) = (port.field("protocol"), port.field("port"), port.field("endPort"));
    if protocol.is_set() && !PROTOCOLS.contains(&protocol.str()) {
        errors.unsupported(&protocol.path, protocol.str(), &PROTOCOLS);
    }
    let mut refuse_end = |detail: &str| {
        if last.is_set() {
            errors.invalid(&last.path, last.value, detail);
        }
    };
    let Some(number) = first.i64() else {
        if first.is_set() {
            refuse_end("may not be specified when `port` is non-numeric");
            report(first, names::port_name, errors);
        } else {
            refuse_end("may not be specified when `port` is not specified");
        }
        return;
    };
    for message in names::port_number(number) {
        errors.invalid(&first.path, number, &message);
    }
    if let Some(end) = last.i64() {
        if end < number {
            // Kubernetes shows the first port here.
            errors.invalid(&last.path, number, "must be greater than or equal to `port`");
        }
        for message in names::port_number(end) {
            errors.invalid(&last.path, end, &message);
        }
    }
}

fn validate_peer(peer: Node<'_, '_>, known: &HashSet<&str>, errors: &mut Errors) {
    let (pods, namespaces, block) = (peer.field("podSelector"), peer.field("namespaceSelector"), peer.field("ipBlock"));
    labels::validate_label_selector(pods, errors);
    labels::validate_label_selector(namespaces, errors);
    if block.is_set() {
        validate_block(block, known, errors);
    }
    match (pods.is_set() || namespaces.is_set(), block.is_set()) {
        (false, false) => errors.required(&peer.path, "must specify a peer"),
        (true, true) => errors.forbidden(&peer.path, "may not specify both ipBlock and another peer"),
        _ => {}
    }
}

fn validate_block(block: Node<'_, '_>, known: &HashSet<&str>, errors: &mut Errors) {
    let range = block.field("cidr");
    if range.str().is_empty() {
        return errors.required(&range.path, "");
    }
    let validate = |range: Node<'_, '_>, errors: &mut Errors| {
        if !known.contains(range.str()) {
            ip::validate_cidr(range.str(), &range.path, errors);
        }
    };
    validate(range, errors);
    for except in block.field("except").items() {
        validate(except, errors);
        if ip::is_strict_subset(except.str(), range.str()) == Some(false) {
            errors.invalid(&except.path, except.str(), "must be a strict subset of `cidr`");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kinds::probe::{completed, messages, update_messages};

    fn policy(spec: Value) -> Value {
        json!({"metadata": {"name": "web"}, "spec": spec})
    }

    #[test]
    fn policies_are_completed() {
        let port = json!({"ports": [{"port": 80}]});
        let rows = [
            ("nothing said", json!({}), json!({"podSelector": {}, "policyTypes": ["Ingress"]})),
            (
                "a way out",
                json!({"egress": [port]}),
                json!({"podSelector": {}, "egress": [{"ports": [{"port": 80, "protocol": "TCP"}]}],
                    "policyTypes": ["Ingress", "Egress"]}),
            ),
            (
                "only a way out",
                json!({"policyTypes": ["Egress"]}),
                json!({"podSelector": {}, "policyTypes": ["Egress"]}),
            ),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(completed(&NetworkPolicy, &policy(spec))["spec"], expected, "{name}");
        }
    }

    #[test]
    fn policies_are_checked() {
        let port = |port: Value| json!({"ingress": [{"ports": [port]}]});
        let peer = |peer: Value| json!({"ingress": [{"from": [peer]}]});
        let rows = [
            ("a good port", port(json!({"port": 80, "endPort": 90})), vec![]),
            (
                "no protocol of this world",
                port(json!({"port": "http", "protocol": "HTTP"})),
                vec![
                    r#"spec.ingress[0].ports[0].protocol: Unsupported value: "HTTP": supported values: "TCP", "UDP", "SCTP""#,
                ],
            ),
            (
                "backwards",
                port(json!({"port": 80, "endPort": 70})),
                vec!["spec.ingress[0].ports[0].endPort: Invalid value: 80: must be greater than or equal to `port`"],
            ),
            (
                "from a name on",
                port(json!({"port": "http", "endPort": 70})),
                vec![
                    "spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is non-numeric",
                ],
            ),
            (
                "from nowhere on",
                port(json!({"endPort": 70})),
                vec![
                    "spec.ingress[0].ports[0].endPort: Invalid value: 70: may not be specified when `port` is not specified",
                ],
            ),
            (
                "a port that is none",
                port(json!({"port": 0})),
                vec!["spec.ingress[0].ports[0].port: Invalid value: 0: must be between 1 and 65535, inclusive"],
            ),
            ("pods of some namespaces", peer(json!({"podSelector": {}, "namespaceSelector": {}})), vec![]),
            (
                "a part of a network",
                peer(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["10.1.0.0/16"]}})),
                vec![],
            ),
            ("nobody", peer(json!({})), vec!["spec.ingress[0].from[0]: Required value: must specify a peer"]),
            (
                "pods and a network",
                peer(json!({"podSelector": {}, "ipBlock": {"cidr": "10.0.0.0/8"}})),
                vec!["spec.ingress[0].from[0]: Forbidden: may not specify both ipBlock and another peer"],
            ),
            (
                "a network that is none",
                peer(json!({"ipBlock": {"cidr": "10.0.0.1/8"}})),
                vec![
                    "spec.ingress[0].from[0].ipBlock.cidr: Invalid value: \"10.0.0.1/8\": must not have bits set beyond the \
                     prefix length",
                ],
            ),
            (
                "except what is not in it",
                peer(json!({"ipBlock": {"cidr": "10.0.0.0/8", "except": ["11.0.0.0/16"]}})),
                vec![
                    "spec.ingress[0].from[0].ipBlock.except[0]: Invalid value: \"11.0.0.0/16\": must be a strict subset of \
                     `cidr`",
                ],
            ),
            ("no network", peer(json!({"ipBlock": {}})), vec!["spec.ingress[0].from[0].ipBlock.cidr: Required value"]),
            (
                "another direction",
                json!({"policyTypes": ["Sideways"]}),
                vec![r#"spec.policyTypes[0]: Unsupported value: "Sideways": supported values: "Ingress", "Egress""#],
            ),
            (
                "three directions",
                json!({"policyTypes": ["Ingress", "Egress", "Egress"]}),
                vec![
                    r#"spec.policyTypes: Invalid value: ["Ingress","Egress","Egress"]: may not specify more than two policyTypes"#,
                ],
            ),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(messages(&NetworkPolicy, &policy(spec)), expected, "{name}");
        }
    }

    #[test]
    fn a_range_that_was_there_is_not_judged_again() {
        let with = |range: &str| policy(json!({"egress": [{"to": [{"ipBlock": {"cidr": range}}]}]}));
        let old = with("10.0.0.1/8");
        assert!(update_messages(&NetworkPolicy, &with("10.0.0.1/8"), &old, Part::Main).is_empty());
        assert_eq!(update_messages(&NetworkPolicy, &with("10.0.0.2/8"), &old, Part::Main).len(), 1);
    }
}
