//! What a Service's spec says, and what a change of its type takes away.

use std::collections::HashSet;

use serde_json::{Value, json};

use crate::kinds::defaults;

pub(super) const CLUSTER_IP: &str = "ClusterIP";
pub(super) const NODE_PORT: &str = "NodePort";
pub(super) const LOAD_BALANCER: &str = "LoadBalancer";
pub(super) const EXTERNAL_NAME: &str = "ExternalName";
/// The cluster address of a headless Service.
pub(super) const NONE: &str = "None";

pub(super) fn kind(service: &Value) -> &str {
    service["spec"]["type"].as_str().unwrap_or_default()
}

/// The texts of a list.
pub(super) fn texts(list: &Value) -> Vec<&str> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).collect()
}

pub(super) fn cluster_ips(service: &Value) -> Vec<&str> {
    texts(&service["spec"]["clusterIPs"])
}

pub(super) fn families(service: &Value) -> Vec<&str> {
    texts(&service["spec"]["ipFamilies"])
}

pub(super) fn ports(service: &Value) -> &[Value] {
    service["spec"]["ports"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The port on every node, or 0.
pub(super) fn node_port(port: &Value) -> i64 {
    port["nodePort"].as_i64().unwrap_or_default()
}

pub(super) fn node_ports(service: &Value) -> Vec<i64> {
    ports(service).iter().map(node_port).filter(|port| *port != 0).collect()
}

pub(super) fn health_port(service: &Value) -> i64 {
    service["spec"]["healthCheckNodePort"].as_i64().unwrap_or_default()
}

pub(super) fn is_headless(service: &Value) -> bool {
    cluster_ips(service) == [NONE]
}

pub(super) fn needs_cluster_ip(service: &Value) -> bool {
    kind(service) != EXTERNAL_NAME
}

pub(super) fn uses_node_ports(service: &Value) -> bool {
    matches!(kind(service), NODE_PORT | LOAD_BALANCER)
}

/// Whether ports without a node port get one.
pub(super) fn wants_node_ports(service: &Value) -> bool {
    match kind(service) {
        NODE_PORT => true,
        LOAD_BALANCER => service["spec"]["allocateLoadBalancerNodePorts"] != false,
        _ => false,
    }
}

pub(super) fn needs_health_port(service: &Value) -> bool {
    kind(service) == LOAD_BALANCER && service["spec"]["externalTrafficPolicy"] == "Local"
}

pub(super) fn is_externally_accessible(service: &Value) -> bool {
    uses_node_ports(service) || kind(service) == CLUSTER_IP && !texts(&service["spec"]["externalIPs"]).is_empty()
}

/// Clears what a change of type has made meaningless, unless the writer changed it too: then it is a fault to report.
pub(super) fn drop_what_the_type_lost(service: &mut Value, old: &Value) {
    let same = |service: &Value, field: &str| service["spec"][field] == old["spec"][field];
    if needs_cluster_ip(old) && !needs_cluster_ip(service) {
        if same(service, "clusterIP") && same(service, "clusterIPs") {
            drop_fields(service, &["clusterIP", "clusterIPs"]);
        }
        for field in ["ipFamilies", "ipFamilyPolicy"] {
            if same(service, field) {
                drop_fields(service, &[field]);
            }
        }
    }
    let old_ports: HashSet<i64> = node_ports(old).into_iter().collect();
    if uses_node_ports(old)
        && !uses_node_ports(service)
        && node_ports(service).iter().all(|port| old_ports.contains(port))
    {
        defaults::items(&mut service["spec"], "ports").for_each(|port| defaults::remove(port, "nodePort"));
    }
    if needs_health_port(old) && !needs_health_port(service) && health_port(old) == health_port(service) {
        drop_fields(service, &["healthCheckNodePort"]);
    }
    if kind(old) == LOAD_BALANCER && kind(service) != LOAD_BALANCER {
        for field in ["allocateLoadBalancerNodePorts", "loadBalancerClass"] {
            if same(service, field) {
                drop_fields(service, &[field]);
            }
        }
    }
    if is_externally_accessible(old) && !is_externally_accessible(service) && same(service, "externalTrafficPolicy") {
        drop_fields(service, &["externalTrafficPolicy"]);
    }
    if kind(service) != LOAD_BALANCER {
        defaults::section(service, "status")["loadBalancer"] = json!({});
    }
}

fn drop_fields(service: &mut Value, fields: &[&str]) {
    fields.iter().for_each(|field| defaults::remove(&mut service["spec"], field));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_type_drops_what_only_the_old_one_had() {
        let old = json!({
            "spec": {
                "type": "LoadBalancer", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80, "nodePort": 30000}],
                "externalTrafficPolicy": "Local", "healthCheckNodePort": 30001, "allocateLoadBalancerNodePorts": true,
                "loadBalancerClass": "a/b",
            },
            "status": {"loadBalancer": {"ingress": [{"ip": "1.2.3.4"}]}},
        });
        let mut service = old.clone();
        service["spec"]["type"] = json!("ClusterIP");
        drop_what_the_type_lost(&mut service, &old);
        assert_eq!(
            service["spec"],
            json!({
                "type": "ClusterIP", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
                "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80}],
            })
        );
        assert_eq!(service["status"], json!({"loadBalancer": {}}));
        let mut service = old.clone();
        service["spec"]["type"] = json!("ExternalName");
        drop_what_the_type_lost(&mut service, &old);
        assert_eq!(service["spec"], json!({"type": "ExternalName", "ports": [{"port": 80}]}));
    }

    #[test]
    fn what_the_writer_changed_too_stays_to_be_refused() {
        let old = json!({"spec": {"type": "NodePort", "ports": [{"port": 80, "nodePort": 30000}]}});
        let mut service = json!({"spec": {"type": "ClusterIP", "ports": [{"port": 80, "nodePort": 30009}]}});
        drop_what_the_type_lost(&mut service, &old);
        assert_eq!(node_ports(&service), [30009]);
    }
}
