//! Giving Services their cluster addresses and node ports, when they are created and when they change.
//!
//! This comes after the defaults and before everything else, because the rules look at what was given out. A refused
//! allocation takes nothing; one that succeeded is committed or reverted with the write it was made for.

use std::collections::{HashMap, HashSet};
use std::net::{IpAddr, Ipv4Addr};

use serde_json::{Value, json};
use thiserror::Error;

use super::{families, spec};
use crate::ip;
use crate::kinds::defaults;
use crate::kinds::lookup::last_by;
use crate::service_ip::{AddressRefusal, Allocator, Claim, PortRefusal};
use setpoint_api::field::{Errors, Path};

/// Why a Service gets no address or port.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum Refusal {
    /// It asks for what it cannot have.
    #[error("the service asks for an address or a port it cannot have")]
    Invalid(Errors),
    /// There is nothing left to give; the text is for the writer.
    #[error("{0}")]
    Exhausted(String),
}

/// Gives a new (`old` is none) or changed Service what it needs. `random` decides what is free to decide.
pub fn allocate(
    service: &mut Value,
    old: Option<&Value>,
    allocator: &mut Allocator,
    random: &mut dyn FnMut() -> u64,
) -> Result<Claim, Refusal> {
    let mut allocation = Allocation { allocator, random, claim: Claim::default() };
    match allocation.run(service, old) {
        Ok(()) => Ok(allocation.claim),
        Err(refusal) => {
            let Allocation { allocator, claim, .. } = allocation;
            allocator.revert(claim);
            Err(refusal)
        }
    }
}

/// Gives back all that a deleted Service had.
pub fn release(service: &Value, allocator: &mut Allocator) {
    let mut claim = Claim::default();
    held_addresses(service).for_each(|address| claim.free_address(address));
    held_ports(service).into_iter().for_each(|port| claim.free_port(port));
    allocator.commit(claim);
}

/// Takes what a stored Service has, when the server starts.
pub fn seed(service: &Value, allocator: &mut Allocator) {
    let mut claim = Claim::default();
    for address in held_addresses(service) {
        // An address of another range, or held twice, is nothing that starting can mend.
        let _ = allocator.reserve_address(address, &mut claim);
    }
    for port in held_ports(service) {
        let _ = allocator.reserve_port(port, &mut claim);
    }
    allocator.commit(claim);
}

fn held_addresses(service: &Value) -> impl Iterator<Item = Ipv4Addr> {
    let ips = if spec::needs_cluster_ip(service) { spec::cluster_ips(service) } else { Vec::new() };
    ips.into_iter().filter_map(|text| match ip::parse(text) {
        Some(IpAddr::V4(address)) => Some(address),
        _ => None,
    })
}

fn held_ports(service: &Value) -> Vec<i64> {
    let mut ports = spec::node_ports(service);
    if spec::needs_health_port(service) && spec::health_port(service) != 0 {
        ports.push(spec::health_port(service));
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

struct Allocation<'a> {
    allocator: &'a mut Allocator,
    random: &'a mut dyn FnMut() -> u64,
    claim: Claim,
}

impl Allocation<'_> {
    fn run(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        if let Some(old) = old {
            keep_what_was_given(service, old);
        }
        pair_cluster_ip(service, old);
        families::choose(service, old).map_err(Refusal::Invalid)?;
        self.addresses(service, old)?;
        self.node_ports(service, old)?;
        self.health_port(service, old)
    }

    fn addresses(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        let had = old.is_some_and(spec::needs_cluster_ip);
        match (had, spec::needs_cluster_ip(service)) {
            (false, true) => self.new_addresses(service),
            (true, false) => {
                old.into_iter().flat_map(held_addresses).for_each(|address| self.claim.free_address(address));
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn new_addresses(&mut self, service: &mut Value) -> Result<(), Refusal> {
        let wanted: Vec<String> = spec::cluster_ips(service).into_iter().map(str::to_owned).collect();
        if wanted.first().is_some_and(|first| first == spec::NONE) {
            return Ok(());
        }
        let Some(first) = wanted.first() else {
            let name = service["metadata"]["name"].as_str().unwrap_or_default();
            let address = self.allocator.allocate_address((self.random)(), &mut self.claim).map_err(|refusal| {
                Refusal::Exhausted(format!("failed to allocate a serviceIP for Service {name:?}: {refusal}"))
            })?;
            service["spec"]["clusterIP"] = json!(address);
            service["spec"]["clusterIPs"] = json!([address]);
            return Ok(());
        };
        let reserved = match ip::parse(first) {
            Some(IpAddr::V4(address)) => self.allocator.reserve_address(address, &mut self.claim),
            _ => Err(AddressRefusal::OutsideRange),
        };
        reserved.map_err(|refusal| {
            let detail = format!("failed to allocate IP {first}: {refusal}");
            invalid(|errors| errors.invalid(&Path::of("spec").field("clusterIPs"), json!(wanted), &detail))
        })
    }

    fn node_ports(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        let held = old.filter(|old| spec::uses_node_ports(old)).map(spec::node_ports).unwrap_or_default();
        let held: HashSet<i64> = held.into_iter().collect();
        if spec::uses_node_ports(service) {
            self.new_node_ports(service, &held, old.is_none())?;
        }
        let kept = if spec::uses_node_ports(service) { spec::node_ports(service) } else { Vec::new() };
        let kept: HashSet<i64> = kept.into_iter().collect();
        held.into_iter().filter(|port| !kept.contains(port)).for_each(|port| self.claim.free_port(port));
        Ok(())
    }

    /// Ports of one number (over TCP and UDP, say) share a node port when the Service is new.
    fn new_node_ports(&mut self, service: &mut Value, held: &HashSet<i64>, share: bool) -> Result<(), Refusal> {
        let wants = spec::wants_node_ports(service);
        let asked: Vec<(i64, i64)> = spec::ports(service)
            .iter()
            .map(|port| (port["port"].as_i64().unwrap_or_default(), spec::node_port(port)))
            .collect();
        // The first node port asked for, and the first one given, by the number of the port.
        let mut wished: HashMap<i64, i64> = HashMap::new();
        for (number, node_port) in asked.iter().filter(|(_, node_port)| share && *node_port != 0) {
            wished.entry(*number).or_insert(*node_port);
        }
        let mut shared: HashMap<i64, i64> = HashMap::new();
        let mut own = held.clone();
        for (index, port) in defaults::items(&mut service["spec"], "ports").enumerate() {
            let (number, asked_for) = asked[index];
            let node_port = match (asked_for, shared.get(&number), wished.get(&number)) {
                (0, _, _) if !wants => continue,
                (0, Some(shared), _) => *shared,
                (0, None, Some(wished)) => self.reserve_port(index, *wished, &own)?,
                (0, None, None) => self.allocate_port()?,
                (asked_for, _, _) => self.reserve_port(index, asked_for, &own)?,
            };
            port["nodePort"] = node_port.into();
            own.insert(node_port);
            if share {
                shared.entry(number).or_insert(node_port);
            }
        }
        Ok(())
    }

    fn allocate_port(&mut self) -> Result<i64, Refusal> {
        let port = self.allocator.allocate_port((self.random)(), &mut self.claim);
        port.map(i64::from).map_err(|refusal| Refusal::Exhausted(format!("failed to allocate a nodePort: {refusal}")))
    }

    /// Takes a port that was asked for, unless this Service has it already.
    fn reserve_port(&mut self, index: usize, port: i64, own: &HashSet<i64>) -> Result<i64, Refusal> {
        if own.contains(&port) {
            return Ok(port);
        }
        self.allocator.reserve_port(port, &mut self.claim).map(|()| port).map_err(|refusal| {
            let (spec, refusal) = (Path::of("spec"), refusal.to_string());
            invalid(|errors| errors.invalid(&spec.field("ports").index(index).field("nodePort"), port, &refusal))
        })
    }

    fn health_port(&mut self, service: &mut Value, old: Option<&Value>) -> Result<(), Refusal> {
        let needed = old.is_some_and(spec::needs_health_port);
        match (needed, spec::needs_health_port(service)) {
            (true, false) => old.into_iter().for_each(|old| self.claim.free_port(spec::health_port(old))),
            (false, true) => {
                let port = match spec::health_port(service) {
                    0 => self.allocator.allocate_port((self.random)(), &mut self.claim).map(i64::from),
                    asked => self.allocator.reserve_port(asked, &mut self.claim).map(|()| asked),
                };
                let refused = |refusal: PortRefusal| {
                    let asked = spec::health_port(service);
                    let what = if asked == 0 { "a HealthCheck NodePort" } else { "requested HealthCheck NodePort" };
                    Refusal::Exhausted(format!("failed to allocate {what} {asked}: {refusal}"))
                };
                service["spec"]["healthCheckNodePort"] = port.map_err(refused)?.into();
            }
            _ => {}
        }
        Ok(())
    }
}

/// Fills in, on a change, what the writer left out and had been given.
fn keep_what_was_given(service: &mut Value, old: &Value) {
    if spec::needs_cluster_ip(old) && spec::needs_cluster_ip(service) {
        if service["spec"]["clusterIP"].as_str().unwrap_or_default().is_empty() && !old["spec"]["clusterIP"].is_null() {
            service["spec"]["clusterIP"] = old["spec"]["clusterIP"].clone();
        }
        if spec::cluster_ips(service).is_empty() && !spec::cluster_ips(old).is_empty() {
            service["spec"]["clusterIPs"] = old["spec"]["clusterIPs"].clone();
        }
    }
    if spec::wants_node_ports(old) && spec::wants_node_ports(service) {
        let still_used: HashSet<i64> = spec::node_ports(service).into_iter().collect();
        let old_ports = last_by(&old["spec"]["ports"], "name");
        for port in defaults::items(&mut service["spec"], "ports").filter(|port| spec::node_port(port) == 0) {
            let before = old_ports.get(port["name"].as_str().unwrap_or_default());
            let before = before.map_or(0, |before| spec::node_port(before));
            if before != 0 && !still_used.contains(&before) {
                port["nodePort"] = before.into();
            }
        }
    }
    if spec::needs_health_port(old) && spec::needs_health_port(service) && spec::health_port(service) == 0 {
        service["spec"]["healthCheckNodePort"] = old["spec"]["healthCheckNodePort"].clone();
    }
}

/// Lets `clusterIPs` follow `clusterIP` for a writer who only knows the singular.
fn pair_cluster_ip(service: &mut Value, old: Option<&Value>) {
    let single = service["spec"]["clusterIP"].as_str().unwrap_or_default().to_owned();
    let Some(old) = old else {
        if !single.is_empty() && spec::cluster_ips(service).is_empty() {
            service["spec"]["clusterIPs"] = json!([single]);
        }
        return;
    };
    let changed = single != old["spec"]["clusterIP"].as_str().unwrap_or_default();
    if changed && spec::cluster_ips(service) == spec::cluster_ips(old) {
        match single.as_str() {
            "" => defaults::remove(&mut service["spec"], "clusterIPs"),
            _ => service["spec"]["clusterIPs"] = json!([single]),
        }
    }
}

fn invalid(report: impl FnOnce(&mut Errors)) -> Refusal {
    let mut errors = Errors::default();
    report(&mut errors);
    Refusal::Invalid(errors)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service_ip::ServiceRange;

    /// A small cluster whose chance is counted up from zero.
    struct Cluster {
        allocator: Allocator,
        chance: u64,
    }

    impl Cluster {
        fn new() -> Cluster {
            let range = ServiceRange::new(Ipv4Addr::new(10, 0, 0, 0), 24);
            Cluster { allocator: Allocator::new(range, 30000..=30009), chance: 0 }
        }

        fn claim(&mut self, spec: Value, old: Option<&Value>) -> Result<(Value, Claim), Vec<String>> {
            let mut service = json!({"metadata": {"name": "a"}, "spec": spec});
            let mut random = || {
                self.chance += 1;
                self.chance - 1
            };
            match allocate(&mut service, old, &mut self.allocator, &mut random) {
                Ok(claim) => Ok((service, claim)),
                Err(Refusal::Invalid(errors)) => Err(errors.iter().map(ToString::to_string).collect()),
                Err(exhausted) => Err(vec![exhausted.to_string()]),
            }
        }

        fn write(&mut self, spec: Value, old: Option<&Value>) -> Value {
            let (service, claim) = self.claim(spec, old).expect("enough to give");
            self.allocator.commit(claim);
            service
        }
    }

    #[test]
    fn a_new_service_gets_what_its_type_needs() {
        let rows = [
            (
                "an address",
                json!({"type": "ClusterIP", "ports": [{"port": 80}]}),
                json!({"type": "ClusterIP", "ports": [{"port": 80}], "clusterIP": "10.0.0.1",
                    "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
            ),
            (
                "the address it asked for",
                json!({"type": "ClusterIP", "clusterIP": "10.0.0.9"}),
                json!({"type": "ClusterIP", "clusterIP": "10.0.0.9", "clusterIPs": ["10.0.0.9"],
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
            ),
            (
                "a node port for both protocols of a port",
                json!({"type": "NodePort", "ports": [{"port": 53}, {"port": 53, "nodePort": 30005}, {"port": 80}]}),
                json!({"type": "NodePort", "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"], "ipFamilies": ["IPv4"],
                    "ipFamilyPolicy": "SingleStack", "ports": [{"port": 53, "nodePort": 30005},
                    {"port": 53, "nodePort": 30005}, {"port": 80, "nodePort": 30001}]}),
            ),
            (
                "a port to ask for health",
                json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false,
                    "ports": [{"port": 80}]}),
                json!({"type": "LoadBalancer", "externalTrafficPolicy": "Local", "allocateLoadBalancerNodePorts": false,
                    "ports": [{"port": 80}], "clusterIP": "10.0.0.1", "clusterIPs": ["10.0.0.1"],
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "healthCheckNodePort": 30001}),
            ),
            (
                "both families, headless and without a selector",
                json!({"type": "ClusterIP", "clusterIP": "None"}),
                json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"],
                    "ipFamilies": ["IPv4", "IPv6"], "ipFamilyPolicy": "RequireDualStack"}),
            ),
            (
                "one family, headless with a selector",
                json!({"type": "ClusterIP", "clusterIP": "None", "selector": {"a": "b"}}),
                json!({"type": "ClusterIP", "clusterIP": "None", "clusterIPs": ["None"], "selector": {"a": "b"},
                    "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack"}),
            ),
            ("nothing, for a name", json!({"type": "ExternalName"}), json!({"type": "ExternalName"})),
        ];
        for (name, spec, expected) in rows {
            assert_eq!(Cluster::new().write(spec, None)["spec"], expected, "{name}");
        }
    }

    #[test]
    fn what_cannot_be_had_is_refused_and_nothing_is_taken() {
        let rows = [
            (
                "an address elsewhere",
                json!({"clusterIP": "192.168.1.1"}),
                "spec.clusterIPs: Invalid value: [\"192.168.1.1\"]: failed to allocate IP 192.168.1.1: the provided network \
                 does not match the current range",
            ),
            (
                "the other family",
                json!({"clusterIP": "2001:db8::1"}),
                r#"spec.clusterIPs[0]: Invalid value: ["2001:db8::1"]: IPv6 is not configured on this cluster"#,
            ),
            (
                "both families",
                json!({"ipFamilyPolicy": "RequireDualStack"}),
                "spec.ipFamilyPolicy: Invalid value: \"RequireDualStack\": this cluster is not configured for dual-stack \
                 services",
            ),
            (
                "a port elsewhere",
                json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 80}]}),
                "spec.ports[0].nodePort: Invalid value: 80: provided port is not in the valid range. The range of valid \
                 ports is 30000-30009",
            ),
            (
                "more ports than there are",
                json!({"type": "NodePort", "ports": (1..12).map(|port| json!({"port": port})).collect::<Vec<_>>()}),
                "failed to allocate a nodePort: range is full",
            ),
        ];
        for (name, spec, expected) in rows {
            let mut cluster = Cluster::new();
            assert_eq!(cluster.claim(spec, None).expect_err(name), [expected], "{name}");
            cluster.chance = 0;
            assert_eq!(cluster.write(json!({}), None)["spec"]["clusterIP"], "10.0.0.1", "{name}");
        }
    }

    #[test]
    fn a_change_keeps_what_was_given() {
        let mut cluster = Cluster::new();
        let old = cluster.write(json!({"type": "NodePort", "ports": [{"name": "a", "port": 80}]}), None);
        let new = cluster.write(json!({"type": "NodePort", "ports": [{"name": "a", "port": 81}]}), Some(&old));
        assert_eq!(new["spec"]["clusterIPs"], old["spec"]["clusterIPs"]);
        assert_eq!(new["spec"]["ports"][0]["nodePort"], old["spec"]["ports"][0]["nodePort"]);
    }

    #[test]
    fn a_change_of_type_gives_back_when_it_is_done() {
        let mut cluster = Cluster::new();
        let old = cluster.write(json!({"type": "NodePort", "ports": [{"port": 80, "nodePort": 30003}]}), None);
        let address = json!({"clusterIP": old["spec"]["clusterIP"]});
        let port = json!({"type": "NodePort", "ports": [{"port": 1, "nodePort": 30003}]});
        let (_, claim) = cluster.claim(json!({"type": "ExternalName"}), Some(&old)).expect("nothing to give");
        assert!(cluster.claim(address.clone(), None).is_err());
        cluster.allocator.commit(claim);
        cluster.write(address, None);
        cluster.write(port, None);
    }

    #[test]
    fn a_restarted_server_knows_what_is_held() {
        let mut cluster = Cluster::new();
        let service = cluster.write(json!({"type": "NodePort", "ports": [{"port": 80}]}), None);
        let mut restarted = Cluster::new();
        seed(&service, &mut restarted.allocator);
        let wanted = json!({"clusterIP": service["spec"]["clusterIP"]});
        assert!(restarted.claim(wanted.clone(), None).is_err());
        release(&service, &mut restarted.allocator);
        restarted.write(wanted, None);
    }
}
