//! EndpointSlices: some of the addresses behind a Service, all of one family.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::defaults;
use super::endpoints::{first_few, report, validate_app_protocol, validate_protocol};
use crate::columns;
use crate::ip;
use crate::kind::{Behaviour, Column, Part};
use setpoint_api::field::{Errors, Node};
use setpoint_api::labels;
use setpoint_api::names;

const ADDRESS_TYPES: [&str; 3] = ["FQDN", "IPv4", "IPv6"];
const ADDRESSES_MAX: usize = 100;
const ENDPOINTS_MAX: usize = 1000;
const PORTS_MAX: usize = 20_000;
const TOPOLOGY_MAX: usize = 16;
const HINTS_MAX: usize = 8;

#[derive(Debug, Clone, Copy)]
pub struct EndpointSlice;

impl Behaviour for EndpointSlice {
    fn default(&self, object: &mut Value) {
        defaults::show_null(object, "endpoints");
        defaults::show_null(object, "ports");
        defaults::each(object, "endpoints", |endpoint| {
            defaults::section(endpoint, "conditions");
        });
        defaults::each(object, "ports", |port| {
            defaults::fill(port, "name", "");
            defaults::fill(port, "protocol", "TCP");
        });
    }

    fn prepare_create(&self, object: &mut Value) {
        defaults::section(object, "metadata")["generation"] = json!(1);
        drop_topology(object);
    }

    /// Counts a generation for every change but those of metadata other than labels: there is no spec to look at.
    fn prepare_update(&self, object: &mut Value, old: &Value, _part: Part) {
        let content = ["addressType", "endpoints", "ports"].iter().any(|field| object[*field] != old[*field]);
        let labels = object["metadata"]["labels"] != old["metadata"]["labels"];
        let generation = old["metadata"]["generation"].as_i64().unwrap_or_default();
        let generation = generation.saturating_add(i64::from(content || labels));
        defaults::section(object, "metadata")["generation"] = generation.into();
        if object["endpoints"] != old["endpoints"] {
            drop_topology(object);
        }
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validate_shape(object, errors);
        validate_endpoints(object, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, _part: Part, errors: &mut Errors) {
        validate_shape(object, errors);
        if *object.field("endpoints").value != old["endpoints"] {
            validate_endpoints(object, errors);
        }
        let address_type = object.field("addressType");
        if *address_type.value != old["addressType"] {
            errors.invalid(&address_type.path, address_type.str(), "field is immutable");
        }
    }

    fn warnings(&self, object: Node<'_, '_>, old: Option<&Value>) -> Vec<String> {
        let deprecated = old.is_none() && object.field("addressType").str() == "FQDN";
        deprecated.then(|| "spec.addressType: FQDN endpoints are deprecated".to_owned()).into_iter().collect()
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 5] = [
            columns::NAME,
            columns::text("AddressType", "The kind of all addresses: IPv4, IPv6 or FQDN."),
            columns::text("Ports", "The first ports."),
            columns::text("Endpoints", "The first addresses."),
            columns::AGE,
        ];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let items = |value: &Value| value.as_array().cloned().unwrap_or_default();
        let ports: Vec<String> = items(&object["ports"]).iter().map(show_port).collect();
        let addresses: Vec<String> = items(&object["endpoints"])
            .iter()
            .flat_map(|endpoint| items(&endpoint["addresses"]))
            .map(|address| address.as_str().unwrap_or_default().to_owned())
            .collect();
        vec![
            columns::name_cell(object),
            object["addressType"].clone(),
            unset_if_empty(&ports).into(),
            unset_if_empty(&addresses).into(),
            columns::age_cell(object, now),
        ]
    }
}

/// Topology was writable in the beta version of this kind only.
fn drop_topology(object: &mut Value) {
    for endpoint in defaults::items(object, "endpoints") {
        defaults::remove(endpoint, "deprecatedTopology");
    }
}

fn show_port(port: &Value) -> String {
    match (&port["port"], &port["name"]) {
        (Value::Number(number), _) => number.to_string(),
        (_, Value::String(name)) => name.clone(),
        _ => "*".to_owned(),
    }
}

fn unset_if_empty(list: &[String]) -> String {
    Some(first_few(list)).filter(|text| !text.is_empty()).unwrap_or_else(|| "<unset>".to_owned())
}

fn validate_shape(object: Node<'_, '_>, errors: &mut Errors) {
    let address_type = object.field("addressType");
    match address_type.str() {
        "" => errors.required(&address_type.path, ""),
        known if ADDRESS_TYPES.contains(&known) => {}
        other => errors.unsupported(&address_type.path, other, &ADDRESS_TYPES),
    }
    let ports = object.field("ports");
    if ports.len() > PORTS_MAX {
        return errors.too_many(&ports.path, ports.len(), PORTS_MAX);
    }
    let mut seen = HashSet::new();
    for port in ports.items() {
        let name = port.field("name");
        if !name.str().is_empty() {
            report(name, names::dns1123_label, errors);
        }
        unique(name, &mut seen, errors);
        validate_protocol(port, errors);
        validate_app_protocol(port, errors);
    }
}

fn validate_endpoints(object: Node<'_, '_>, errors: &mut Errors) {
    let address_type = object.field("addressType").str();
    let endpoints = object.field("endpoints");
    if endpoints.len() > ENDPOINTS_MAX {
        return errors.too_many(&endpoints.path, endpoints.len(), ENDPOINTS_MAX);
    }
    for endpoint in endpoints.items() {
        validate_addresses(endpoint.field("addresses"), address_type, errors);
        let node_name = endpoint.field("nodeName");
        if node_name.is_set() {
            report(node_name, names::dns1123_subdomain, errors);
        }
        let topology = endpoint.field("deprecatedTopology");
        if topology.len() > TOPOLOGY_MAX {
            errors.too_many(&topology.path, topology.len(), TOPOLOGY_MAX);
        }
        labels::validate_labels(topology, errors);
        let hostname = endpoint.field("hostname");
        if hostname.is_set() {
            report(hostname, names::dns1123_label, errors);
        }
        let hints = endpoint.field("hints");
        validate_hints(hints.field("forZones"), names::label_value, errors);
        validate_hints(hints.field("forNodes"), names::dns1123_subdomain, errors);
    }
}

fn validate_addresses(addresses: Node<'_, '_>, address_type: &str, errors: &mut Errors) {
    if addresses.is_empty() {
        errors.required(&addresses.path, "must contain at least 1 address");
    } else if addresses.len() > ADDRESSES_MAX {
        errors.too_many(&addresses.path, addresses.len(), ADDRESSES_MAX);
    }
    for address in addresses.items() {
        let mut faults = Errors::default();
        match address_type {
            "IPv4" => ip::validate(address, &mut faults),
            "IPv6" => ip::validate_canonical(address, &mut faults),
            "FQDN" => validate_domain_name(address, &mut faults),
            _ => {}
        }
        if faults.is_empty() && matches!(address_type, "IPv4" | "IPv6") {
            if ip::parse(address.str()).is_some_and(|parsed| ip::family(parsed) != address_type) {
                faults.invalid(&addresses.path, address.str(), &format!("must be an {address_type} address"));
            }
            ip::validate_endpoint(address, &mut faults);
        }
        errors.extend(faults);
    }
}

fn validate_domain_name(address: Node<'_, '_>, errors: &mut Errors) {
    let name = address.str().strip_suffix('.').unwrap_or(address.str());
    let mut refuse = |value: &str, messages: Vec<String>| errors.invalid(&address.path, value, &messages.join(","));
    if address.str().is_empty() {
        return errors.required(&address.path, "");
    }
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        return refuse(name, messages);
    }
    if !name.contains('.') {
        return refuse(name, vec!["should be a domain with at least two segments separated by dots".to_owned()]);
    }
    if let Some(label) = name.split('.').find(|label| !names::dns1123_label(label).is_empty()) {
        refuse(label, names::dns1123_label(label));
    }
}

fn validate_hints(hints: Node<'_, '_>, rule: fn(&str) -> Vec<String>, errors: &mut Errors) {
    if hints.len() > HINTS_MAX {
        return errors.too_many(&hints.path, hints.len(), HINTS_MAX);
    }
    let mut seen = HashSet::new();
    for hint in hints.items() {
        let name = hint.field("name");
        unique(name, &mut seen, errors);
        report(name, rule, errors);
    }
}

fn unique<'v>(name: Node<'v, '_>, seen: &mut HashSet<&'v str>, errors: &mut Errors) {
    if !seen.insert(name.str()) {
        errors.duplicate(&name.path, name.str());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(object: &Value) -> Vec<String> {
        let mut errors = Errors::default();
        EndpointSlice.validate(Node::root(object), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contents_are_checked() {
        let slice =
            |kind: &str, addresses: Value| json!({"addressType": kind, "endpoints": [{"addresses": addresses}]});
        let rows = [
            ("an address", slice("IPv4", json!(["10.0.0.1"])), vec![]),
            ("no type", json!({}), vec!["addressType: Required value"]),
            (
                "another type",
                json!({"addressType": "IPX"}),
                vec![r#"addressType: Unsupported value: "IPX": supported values: "FQDN", "IPv4", "IPv6""#],
            ),
            (
                "an address of the other family",
                slice("IPv4", json!(["2001:db8::1"])),
                vec![r#"endpoints[0].addresses: Invalid value: "2001:db8::1": must be an IPv4 address"#],
            ),
            (
                "an address in another spelling",
                slice("IPv6", json!(["2001:DB8::1"])),
                vec![
                    "endpoints[0].addresses[0]: Invalid value: \"2001:DB8::1\": must be in canonical form \
                     (\"2001:db8::1\")",
                ],
            ),
            (
                "a name that is no domain",
                slice("FQDN", json!(["localhost"])),
                vec![
                    "endpoints[0].addresses[0]: Invalid value: \"localhost\": should be a domain with at least two segments \
                     separated by dots",
                ],
            ),
            (
                "no address",
                slice("IPv4", json!([])),
                vec!["endpoints[0].addresses: Required value: must contain at least 1 address"],
            ),
            (
                "two ports of one name",
                json!({"addressType": "IPv4", "ports": [
                    {"name": "a", "protocol": "TCP"}, {"name": "a", "protocol": "X"}]}),
                vec![
                    r#"ports[1].name: Duplicate value: "a""#,
                    r#"ports[1].protocol: Unsupported value: "X": supported values: "SCTP", "TCP", "UDP""#,
                ],
            ),
        ];
        for (name, object, expected) in rows {
            assert_eq!(messages(&object), expected, "{name}");
        }
    }

    #[test]
    fn changes_are_counted() {
        let old = json!({"metadata": {"generation": 1}, "addressType": "IPv4", "endpoints": [], "ports": null});
        let rows = [
            ("an annotation", json!({"metadata": {"annotations": {"a": ""}}}), 1),
            ("a label", json!({"metadata": {"labels": {"a": ""}}}), 2),
            ("an endpoint", json!({"endpoints": [{"addresses": ["10.0.0.1"]}]}), 2),
        ];
        for (name, change, generation) in rows {
            let mut object = old.clone();
            for (field, value) in change.as_object().expect("an object") {
                object[field] = value.clone();
            }
            EndpointSlice.prepare_update(&mut object, &old, Part::Main);
            assert_eq!(object["metadata"]["generation"], generation, "{name}");
        }
    }

    #[test]
    fn defaults_and_cells() {
        let mut object = json!({
            "metadata": {"name": "s"}, "addressType": "IPv4",
            "endpoints": [{"addresses": ["10.0.0.1"]}, {"addresses": ["10.0.0.2", "10.0.0.3", "10.0.0.4"]}],
            "ports": [{"port": 80}, {"name": "dns"}],
        });
        EndpointSlice.default(&mut object);
        assert_eq!(object["ports"][0], json!({"name": "", "port": 80, "protocol": "TCP"}));
        assert_eq!(object["endpoints"][0]["conditions"], json!({}));
        let cells = EndpointSlice.cells(&object, Timestamp::UNIX_EPOCH);
        assert_eq!(cells[1..4], ["IPv4", "80,dns", "10.0.0.1,10.0.0.2,10.0.0.3 + 1 more..."]);
    }
}
