//! Services: a stable name and address for Pods, in one of four types.

mod allocation;
mod cluster_ips;
mod families;
mod load_balancer;
mod ports;
mod spec;
mod validation;

use jiff::Timestamp;
use serde_json::{Value, json};

pub use self::allocation::{Refusal, allocate, release, seed};
use super::defaults;
use crate::columns;
use crate::kind::{Behaviour, Column, Part, SelectableField};
use setpoint_api::field::{Errors, Node};
use setpoint_api::names;

const AFFINITY_TIMEOUT_S: i64 = 10_800;

#[derive(Debug, Clone, Copy)]
pub struct Service;

/// Addresses and ports are given out by [`allocate`], after the defaults and before `prepare_create` or
/// `prepare_update`.
impl Behaviour for Service {
    fn default(&self, object: &mut Value) {
        let spec = defaults::section(object, "spec");
        default_affinity(spec);
        defaults::fill_text(spec, "type", spec::CLUSTER_IP);
        defaults::each(spec, "ports", |port| {
            defaults::fill_text(port, "protocol", "TCP");
            if matches!(&port["targetPort"], Value::Null) || port["targetPort"] == 0 || port["targetPort"] == "" {
                port["targetPort"] = match &port["port"] {
                    Value::Null => json!(0),
                    number => number.clone(),
                };
            }
        });
        if spec::is_externally_accessible(object) {
            defaults::fill_text(&mut object["spec"], "externalTrafficPolicy", "Cluster");
        }
        let kind = spec::kind(object).to_owned();
        let spec = &mut object["spec"];
        if [spec::CLUSTER_IP, spec::NODE_PORT, spec::LOAD_BALANCER].contains(&kind.as_str()) {
            defaults::fill(spec, "internalTrafficPolicy", "Cluster");
        }
        if kind == spec::LOAD_BALANCER {
            defaults::fill(spec, "allocateLoadBalancerNodePorts", true);
        }
        let balancer = defaults::section(defaults::section(object, "status"), "loadBalancer");
        if kind == spec::LOAD_BALANCER {
            defaults::each(balancer, "ingress", |ingress| {
                if ingress["ip"].is_string() {
                    defaults::fill(ingress, "ipMode", "VIP");
                }
            });
        }
    }

    fn prepare_create(&self, object: &mut Value) {
        object["status"] = json!({"loadBalancer": {}});
    }

    fn prepare_update(&self, object: &mut Value, old: &Value, part: Part) {
        if part == Part::Main {
            spec::drop_what_the_type_lost(object, old);
        }
    }

    fn validate_name(&self, name: &str, prefix: bool) -> Vec<String> {
        names::object_name(names::dns1123_label, name, prefix)
    }

    fn validate(&self, object: Node<'_, '_>, errors: &mut Errors) {
        validation::validate(object, None, errors);
    }

    fn validate_update(&self, object: Node<'_, '_>, old: &Value, part: Part, errors: &mut Errors) {
        match part {
            Part::Main => {
                validation::validate_change(object, old, errors);
                validation::validate(object, Some(old), errors);
            }
            Part::Status | Part::Other(_) => load_balancer::validate_status(object, old, errors),
        }
    }

    fn warnings(&self, object: Node<'_, '_>, _old: Option<&Value>) -> Vec<String> {
        validation::warnings(object)
    }

    fn columns(&self) -> &[Column] {
        const COLUMNS: [Column; 7] = [
            columns::NAME,
            columns::text("Type", "How the service is reached: ClusterIP, NodePort, LoadBalancer or ExternalName."),
            columns::text("Cluster-IP", "The address inside the cluster."),
            columns::text("External-IP", "The addresses outside the cluster."),
            columns::text("Port(s)", "The ports, with their ports on every node."),
            columns::AGE,
            columns::wide("Selector", "The labels of the Pods behind the service."),
        ];
        &COLUMNS
    }

    fn cells(&self, object: &Value, now: Timestamp) -> Vec<Value> {
        let cluster_ip = spec::cluster_ips(object).first().copied().unwrap_or(columns::NONE);
        vec![
            columns::name_cell(object),
            spec::kind(object).into(),
            cluster_ip.into(),
            external_address(object).into(),
            show_ports(object).into(),
            columns::age_cell(object, now),
            columns::labels(&object["spec"]["selector"]).into(),
        ]
    }

    fn selectable_fields(&self) -> &[SelectableField] {
        const FIELDS: [SelectableField; 2] = [
            SelectableField {
                name: "spec.clusterIP",
                value: |object| object["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned(),
            },
            SelectableField { name: "spec.type", value: |object| spec::kind(object).to_owned() },
        ];
        &FIELDS
    }
}

fn default_affinity(spec: &mut Value) {
    defaults::fill_text(spec, "sessionAffinity", "None");
    if spec["sessionAffinity"] == "None" {
        defaults::remove(spec, "sessionAffinityConfig");
    } else if spec["sessionAffinity"] == "ClientIP"
        && spec["sessionAffinityConfig"]["clientIP"]["timeoutSeconds"].is_null()
    {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": AFFINITY_TIMEOUT_S}});
    }
}

fn external_address(object: &Value) -> String {
    let external = spec::texts(&object["spec"]["externalIPs"]);
    match spec::kind(object) {
        spec::CLUSTER_IP | spec::NODE_PORT => columns::none_if_empty(external.join(",")),
        spec::LOAD_BALANCER => {
            let ingress = object["status"]["loadBalancer"]["ingress"].as_array().map(Vec::as_slice).unwrap_or_default();
            let address = |ingress: &'_ Value| {
                let text = |name: &str| ingress[name].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
                text("ip").or_else(|| text("hostname"))
            };
            let mut addresses: Vec<String> = ingress.iter().filter_map(address).collect();
            addresses.sort_unstable();
            addresses.dedup();
            addresses.extend(external.iter().map(|ip| (*ip).to_owned()));
            if addresses.is_empty() { "<pending>".to_owned() } else { addresses.join(",") }
        }
        spec::EXTERNAL_NAME => object["spec"]["externalName"].as_str().unwrap_or_default().to_owned(),
        _ => columns::UNKNOWN.to_owned(),
    }
}

fn show_ports(object: &Value) -> String {
    let shown: Vec<String> = spec::ports(object)
        .iter()
        .map(|port| {
            let (number, protocol) = (&port["port"], port["protocol"].as_str().unwrap_or_default());
            match spec::node_port(port) {
                0 => format!("{number}/{protocol}"),
                node_port => format!("{number}:{node_port}/{protocol}"),
            }
        })
        .collect();
    columns::none_if_empty(shown.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complete(spec: Value) -> Value {
        let mut object = json!({"metadata": {"name": "a"}, "spec": spec});
        Service.default(&mut object);
        object
    }

    #[test]
    fn defaults_follow_the_type() {
        let rows = [
            (
                "a cluster address",
                json!({"ports": [{"port": 80}]}),
                json!({
                    "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                    "ports": [{"port": 80, "protocol": "TCP", "targetPort": 80}],
                }),
            ),
            (
                "a load balancer",
                json!({"type": "LoadBalancer", "sessionAffinity": "ClientIP"}),
                json!({
                    "type": "LoadBalancer", "sessionAffinity": "ClientIP", "internalTrafficPolicy": "Cluster",
                    "externalTrafficPolicy": "Cluster", "allocateLoadBalancerNodePorts": true,
                    "sessionAffinityConfig": {"clientIP": {"timeoutSeconds": 10800}},
                }),
            ),
            (
                "another name",
                json!({"type": "ExternalName", "externalName": "x"}),
                json!({"type": "ExternalName", "sessionAffinity": "None", "externalName": "x"}),
            ),
            (
                "external addresses",
                json!({"externalIPs": ["1.2.3.4"]}),
                json!({
                    "type": "ClusterIP", "sessionAffinity": "None", "internalTrafficPolicy": "Cluster",
                    "externalIPs": ["1.2.3.4"], "externalTrafficPolicy": "Cluster",
                }),
            ),
        ];
        for (name, spec, expected) in rows {
            let object = complete(spec);
            assert_eq!(object["spec"], expected, "{name}");
            assert_eq!(object["status"], json!({"loadBalancer": {}}), "{name}");
        }
    }

    #[test]
    fn cells_show_how_to_reach_it() {
        let rows = [
            (
                "two ports",
                json!({"clusterIPs": ["10.0.0.1"], "type": "NodePort", "selector": {"app": "a"},
                    "ports": [{"port": 80, "nodePort": 30000}, {"port": 53, "protocol": "UDP"}]}),
                ["NodePort", "10.0.0.1", "<none>", "80:30000/TCP,53/UDP", "app=a"],
            ),
            (
                "a name",
                json!({"type": "ExternalName", "externalName": "x"}),
                ["ExternalName", "<none>", "x", "<none>", "<none>"],
            ),
            (
                "not balanced yet",
                json!({"type": "LoadBalancer"}),
                ["LoadBalancer", "<none>", "<pending>", "<none>", "<none>"],
            ),
        ];
        for (name, spec, expected) in rows {
            let cells = Service.cells(&complete(spec), Timestamp::UNIX_EPOCH);
            let shown: Vec<&Value> = cells[1..5].iter().chain(&cells[6..]).collect();
            assert_eq!(shown, expected, "{name}");
        }
        let mut balanced = complete(json!({"type": "LoadBalancer", "externalIPs": ["9.9.9.9"]}));
        balanced["status"]["loadBalancer"] = json!({"ingress": [{"ip": "2.2.2.2"}, {"hostname": "a.example"}]});
        assert_eq!(external_address(&balanced), "2.2.2.2,a.example,9.9.9.9");
    }
}
