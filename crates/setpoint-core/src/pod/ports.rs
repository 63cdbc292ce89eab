//! Where a Pod's ports are reached, if not where its containers declare them.
//!
//! Pods that share an address cannot all have the port that they declare. Whoever runs such a Pod gives it another and says
//! so in an annotation, as `8080=20311,9090=20312`; a Pod without it is reached at the ports that it declares.

use k8s_openapi::api::core::v1::Pod;

use super::state::PortState;

/// The annotation that names the ports that differ.
pub const ASSIGNED_PORTS: &str = "setpoint.dev/assigned-ports";

/// What the annotation says of these ports; `None` if each is what it is declared to be.
pub fn told(ports: &[PortState]) -> Option<String> {
    let differ = ports.iter().filter(|port| port.container_port != port.assigned_port);
    let pairs: Vec<String> = differ.map(|port| format!("{}={}", port.container_port, port.assigned_port)).collect();
    (!pairs.is_empty()).then(|| pairs.join(","))
}

/// The port at which a Pod is reached for one that it declares. What cannot be read counts as not said.
pub fn assigned(pod: &Pod, declared: i32) -> i32 {
    let pairs = annotation(pod).into_iter().flat_map(|told| told.split(','));
    let mut pairs = pairs.filter_map(|pair| pair.split_once('='));
    let found = pairs.find(|(from, _)| from.parse() == Ok(declared));
    found.and_then(|(_, to)| to.parse::<u16>().ok()).filter(|port| *port > 0).map_or(declared, i32::from)
}

/// What the Pod says of its ports.
pub fn annotation(pod: &Pod) -> Option<&str> {
    pod.metadata.annotations.as_ref()?.get(ASSIGNED_PORTS).map(String::as_str)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn port(container_port: u16, assigned_port: u16) -> PortState {
        PortState { container: "c".to_owned(), name: None, container_port, assigned_port }
    }

    fn pod(text: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"annotations": {ASSIGNED_PORTS: text}}})).unwrap()
    }

    #[test]
    fn only_ports_that_differ_are_told() {
        let rows = [
            ("none", vec![], None),
            ("as declared", vec![port(80, 80)], None),
            ("one of two differs", vec![port(80, 20_001), port(81, 81)], Some("80=20001")),
            ("both differ", vec![port(80, 20_001), port(81, 20_002)], Some("80=20001,81=20002")),
        ];
        for (name, ports, expected) in rows {
            assert_eq!(told(&ports).as_deref(), expected, "{name}");
        }
    }

    #[test]
    fn a_port_is_reached_where_the_pod_says() {
        let rows = [
            ("the one that is named", "80=20001,81=20002", 81, 20_002),
            ("one that is not named is as declared", "80=20001", 443, 443),
            ("nonsense says nothing", "80=,=,x,80=99999999", 80, 80),
            ("no port is no port", "80=0", 80, 80),
        ];
        for (name, text, declared, expected) in rows {
            assert_eq!(assigned(&pod(text), declared), expected, "{name}");
        }
        assert_eq!(assigned(&Pod::default(), 80), 80);
    }
}
