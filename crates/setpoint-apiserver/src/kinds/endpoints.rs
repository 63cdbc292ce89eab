//! Endpoints: the addresses behind a Service, in the form that EndpointSlices have replaced.

use jiff::Timestamp;
use serde_json::Value;

use super::defaults;
use crate::columns;
use crate::ip;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

/// The remark that every request for this kind gets.
pub const DEPRECATION: &str = "v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice";
const PROTOCOLS: [&str; 3] = ["SCTP", "TCP", "UDP"];
/// How many addresses a cell shows.
const SHOWN: usize = 3;

#[derive(Debug, Clone, Copy)]
pub struct Endpoints;

impl Behaviour for Endpoints {
    fn deprecation(&self) -> Option<&str> {
        Some(DEPRECATION)
    }

    fn default(&self, object: &mut Value) {
        defaults::each(object, "subsets", |subset| {
            defaults::each(subset, "ports", |port| defaults::fill_text(port, "protocol", "TCP"));
        });
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        for subset in object.field("subsets").items() {
            validate_subset(subset, errors);
        }
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        if *object.field("subsets").value != old["subsets"] {
            self.validate(object, errors);
        }
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 3] =
            [columns::NAME, columns::text("Endpoints", "The first ready addresses."), columns::AGE];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        vec![columns::name_cell(object), addresses(object).into(), columns::age_cell(object, now)]
    }
}

fn validate_subset(subset: Node<'_, '_>, errors: &mut Errors) {
    let (ready, not_ready, ports) =
        (subset.field("addresses"), subset.field("notReadyAddresses"), subset.field("ports"));
    if ready.is_empty() && not_ready.is_empty() {
        errors.required(&subset.path, "must specify `addresses` or `notReadyAddresses`");
    }
    for address in ready.items().chain(not_ready.items()) {
        validate_address(address, errors);
    }
    for port in ports.items() {
        validate_port(port, ports.len() > 1, errors);
    }
}

fn validate_address(address: Node<'_, '_>, errors: &mut Errors) {
    ip::validate(address.field("ip"), errors);
    let hostname = address.field("hostname");
    if !hostname.str().is_empty() {
        report(hostname, names::dns1123_label, errors);
    }
    let node_name = address.field("nodeName");
    if node_name.is_set() {
        report(node_name, names::dns1123_subdomain, errors);
    }
    ip::validate_endpoint(address.field("ip"), errors);
}

fn validate_port(port: Node<'_, '_>, named: bool, errors: &mut Errors) {
    let name = port.field("name");
    if !name.str().is_empty() {
        report(name, names::dns1123_label, errors);
    } else if named {
        errors.required(&name.path, "");
    }
    let number = port.field("port");
    for message in names::port_number(number.i64().unwrap_or_default()) {
        errors.invalid(&number.path, number.i64().unwrap_or_default(), &message);
    }
    validate_protocol(port, errors);
    validate_app_protocol(port, errors);
}

/// Checks the protocol of a port.
pub(super) fn validate_protocol(port: Node<'_, '_>, errors: &mut Errors) {
    let protocol = port.field("protocol");
    match protocol.str() {
        "" => errors.required(&protocol.path, ""),
        known if PROTOCOLS.contains(&known) => {}
        other => errors.unsupported(&protocol.path, other, &PROTOCOLS),
    }
}

/// Checks the name of what is spoken over a port.
pub(super) fn validate_app_protocol(port: Node<'_, '_>, errors: &mut Errors) {
    let app_protocol = port.field("appProtocol");
    if app_protocol.is_set() {
        labels::validate_label_key(app_protocol.str(), &app_protocol.path, errors);
    }
}

/// Reports what a rule says about a field of text.
pub(super) fn report(text: Node<'_, '_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    for message in rule(text.str()) {
        errors.invalid(&text.path, text.str(), &message);
    }
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The ready addresses with each of their ports.
fn addresses(object: &Value) -> String {
    let subsets = list(&object["subsets"]);
    if subsets.is_empty() {
        return columns::NONE.to_owned();
    }
    // Each address is listed with each port: the two lists together are short, all their pairs may not be.
    let (mut shown, mut count) = (Vec::new(), 0);
    for subset in subsets {
        let (addresses, ports) = (list(&subset["addresses"]), list(&subset["ports"]));
        count += addresses.len() * ports.len().max(1);
        let ips = addresses.iter().map(|address| address["ip"].as_str().unwrap_or_default());
        if ports.is_empty() {
            shown.extend(ips.clone().take(SHOWN).map(str::to_owned));
        }
        for port in ports.iter().take(SHOWN) {
            shown.extend(ips.clone().take(SHOWN).map(|ip| match ip.contains(':') {
                true => format!("[{ip}]:{}", port["port"]),
                false => format!("{ip}:{}", port["port"]),
            }));
        }
    }
    shown.truncate(SHOWN);
    few_of(&shown, count)
}

/// The first of a list, and how many more there are.
pub(super) fn first_few(list: &[String]) -> String {
    few_of(&list[..list.len().min(SHOWN)], list.len())
}

fn few_of(first: &[String], count: usize) -> String {
    match count - first.len() {
        0 => first.join(","),
        more => format!("{} + {more} more...", first.join(",")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn messages(object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        Endpoints.validate(Node::root(object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn subsets_are_checked() {
        let subset = |subset: Value| json!({"subsets": [subset]});
        let port = json!({"port": 80, "protocol": "TCP"});
        let rows = [
            ("an address and a port", subset(json!({"addresses": [{"ip": "10.0.0.1"}], "ports": [port]})), vec![]),
            (
                "no address",
                subset(json!({"ports": [port]})),
                vec!["subsets[0]: Required value: must specify `addresses` or `notReadyAddresses`"],
            ),
            (
                "a bad address is said twice",
                subset(json!({"addresses": [{"ip": "x"}]})),
                vec![
                    "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address, (e.g. 10.9.8.7 or \
                     2001:db8::ffff)",
                    "subsets[0].addresses[0].ip: Invalid value: \"x\": must be a valid IP address",
                ],
            ),
            (
                "two ports need names",
                subset(json!({"notReadyAddresses": [{"ip": "10.0.0.1"}], "ports": [port, {"name": "a", "port": 0}]})),
                vec![
                    "subsets[0].ports[0].name: Required value",
                    "subsets[0].ports[1].port: Invalid value: 0: must be between 1 and 65535, inclusive",
                    "subsets[0].ports[1].protocol: Required value",
                ],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(&object), expected, "{name}");
        }
    }

    #[test]
    fn addresses_are_listed() {
        let ips = |ips: &[&str]| ips.iter().map(|ip| json!({"ip": ip})).collect::<Vec<_>>();
        let rows = [
            (json!({}), "<none>"),
            (json!({"subsets": [{"addresses": ips(&["10.0.0.1"])}]}), "10.0.0.1"),
            (json!({"subsets": [{"addresses": ips(&["::1"]), "ports": [{"port": 80}]}]}), "[::1]:80"),
            (json!({"subsets": [{"notReadyAddresses": ips(&["10.0.0.1"])}]}), ""),
            (
                json!({"subsets": [{"addresses": ips(&["a", "b"]), "ports": [{"port": 1}, {"port": 2}]}]}),
                "a:1,b:1,a:2 + 1 more...",
            ),
            (
                json!({"subsets": [
                    {"addresses": ips(&["a"; 1_000]), "ports": vec![json!({"port": 1}); 1_000]},
                    {"addresses": ips(&["b"])},
                ]}),
                "a:1,a:1,a:1 + 999998 more...",
            ),
        ];
        for (object, expected) in rows {
            assert_eq!(addresses(&object), expected);
        }
    }
}
