//! The ports that containers are given. All processes of a machine share its ports, so each Pod gets its own: the one that
//! it declares if that is free, another if not.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddrV4};

use k8s_openapi::api::core::v1::{Container, ContainerPort};
use rustix::net::{AddressFamily, SocketType, bind, socket, sockopt};
use setpoint_core::pod::PortState;

/// Where ports are taken from if the declared one cannot be had: below those that systems give to outgoing connections.
const OTHERS: std::ops::Range<u16> = 20_000..32_768;

/// Why no port could be given.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unassigned {
    /// The one port that was asked for is not to be had.
    Taken { field: String, port: u16 },
    /// None is left.
    Exhausted,
}

/// Gives each declared port a port of the machine. `seed` says where the search for others begins.
pub(super) fn assign<'c>(
    containers: impl Iterator<Item = (String, &'c Container)>,
    taken: &BTreeSet<u16>,
    is_free: impl Fn(u16, SocketType) -> bool,
    seed: u64,
) -> Result<Vec<PortState>, Unassigned> {
    let mut taken = taken.clone();
    let mut ports = Vec::new();
    for (field, container) in containers {
        for (index, declared) in container.ports.iter().flatten().enumerate() {
            let protocol =
                if declared.protocol.as_deref() == Some("UDP") { SocketType::DGRAM } else { SocketType::STREAM };
            let can_be_had = |port: u16| !taken.contains(&port) && is_free(port, protocol);
            let (wanted, is_fixed) = wanted(declared);
            let assigned_port = match can_be_had(wanted) {
                true => wanted,
                false if is_fixed => {
                    return Err(Unassigned::Taken { field: format!("{field}.ports[{index}].hostPort"), port: wanted });
                }
                false => others(seed).find(|port| can_be_had(*port)).ok_or(Unassigned::Exhausted)?,
            };
            taken.insert(assigned_port);
            ports.push(PortState {
                container: container.name.clone(),
                name: declared.name.clone(),
                container_port: u16::try_from(declared.container_port).unwrap_or_default(),
                assigned_port,
            });
        }
    }
    Ok(ports)
}

/// Whether nobody on this machine has the port. Nothing listens on it meanwhile: it is only bound.
pub(super) fn is_free(port: u16, protocol: SocketType) -> bool {
    let attempt = || {
        let socket = socket(AddressFamily::INET, protocol, None)?;
        sockopt::set_socket_reuseaddr(&socket, protocol == SocketType::STREAM)?;
        bind(&socket, &SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, port))
    };
    attempt().is_ok()
}

/// The port that is declared, and whether no other will do.
fn wanted(declared: &ContainerPort) -> (u16, bool) {
    let host = declared.host_port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0);
    (host.unwrap_or_else(|| u16::try_from(declared.container_port).unwrap_or_default()), host.is_some())
}

/// All other ports, beginning somewhere.
fn others(seed: u64) -> impl Iterator<Item = u16> {
    let count = u64::from(OTHERS.end - OTHERS.start);
    (0..count).map(move |step| OTHERS.start + u16::try_from((seed % count + step) % count).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn assigned(ports: Value, taken: &[u16], busy: &[u16]) -> Result<Vec<u16>, Unassigned> {
        let container: Container = serde_json::from_value(json!({"name": "web", "ports": ports})).expect("a container");
        let containers = [("spec.containers[0]".to_owned(), &container)];
        let is_free = |port: u16, _| !busy.contains(&port);
        let ports = assign(containers.into_iter(), &taken.iter().copied().collect(), is_free, 5)?;
        Ok(ports.into_iter().map(|port| port.assigned_port).collect())
    }

    #[test]
    fn a_declared_port_is_kept_if_it_can_be() {
        let two = json!([{"containerPort": 80}, {"containerPort": 80, "protocol": "UDP"}]);
        let taken = |field: &str| Err(Unassigned::Taken { field: field.to_owned(), port: 90 });
        let rows = [
            ("free", json!([{"containerPort": 80}]), &[][..], &[][..], Ok(vec![80])),
            ("another instance has it", json!([{"containerPort": 80}]), &[80], &[], Ok(vec![20_005])),
            ("something else has it", json!([{"containerPort": 80}]), &[], &[80], Ok(vec![20_005])),
            ("the next one is taken too", json!([{"containerPort": 80}]), &[80, 20_005], &[20_006], Ok(vec![20_007])),
            ("twice the same", two, &[], &[], Ok(vec![80, 20_005])),
            ("of the host", json!([{"containerPort": 80, "hostPort": 90}]), &[], &[], Ok(vec![90])),
            (
                "of the host and taken",
                json!([{"containerPort": 80, "hostPort": 90}]),
                &[],
                &[90],
                taken("spec.containers[0].ports[0].hostPort"),
            ),
            ("of the host, any", json!([{"containerPort": 80, "hostPort": 0}]), &[], &[], Ok(vec![80])),
            ("none declared", json!([]), &[], &[], Ok(vec![])),
        ];
        for (name, ports, taken, busy, expected) in rows {
            assert_eq!(assigned(ports, taken, busy), expected, "{name}");
        }
    }

    #[test]
    fn when_no_port_is_left_that_is_said() {
        let all: Vec<u16> = (1..=u16::MAX).collect();
        assert_eq!(assigned(json!([{"containerPort": 80}]), &all, &[]), Err(Unassigned::Exhausted));
    }

    #[test]
    fn a_port_somebody_listens_on_is_not_free() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a listener");
        let port = listener.local_addr().expect("an address").port();
        assert!(!is_free(port, SocketType::STREAM));
        drop(listener);
        assert!(is_free(port, SocketType::STREAM));
    }
}
