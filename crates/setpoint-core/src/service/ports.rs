//! Which ports of a Pod the ports of a Service are.

use k8s_openapi::api::core::v1::{Container, ContainerPort, EndpointPort as MirrorPort, Pod, Service, ServicePort};
use k8s_openapi::api::discovery::v1::EndpointPort;
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use crate::pod::ports::assigned;

/// For each port of a Service, in its order, where a Pod is reached. A name that the Pod does not have leads nowhere. Pods
/// of which this is the same can be in one slice.
pub type Numbers = Vec<Option<i32>>;

pub fn resolve(service: &Service, pod: &Pod) -> Numbers {
    ports(service).iter().map(|port| number(port, pod)).collect()
}

/// As an EndpointSlice tells it, by name. To put the ports of a Service into another order changes nothing.
pub fn of_slice(service: &Service, numbers: &Numbers) -> Vec<EndpointPort> {
    let known = ports(service).iter().zip(numbers).filter_map(|(port, number)| Some((port, (*number)?)));
    let mut told: Vec<EndpointPort> = known
        .map(|(port, number)| EndpointPort {
            name: Some(port.name.clone().unwrap_or_default()),
            port: Some(number),
            protocol: Some(protocol(port).to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    told.sort_by(|a, b| a.name.cmp(&b.name));
    told
}

/// As Endpoints tell it.
pub fn of_mirror(service: &Service, numbers: &Numbers) -> Vec<MirrorPort> {
    let known = ports(service).iter().zip(numbers).filter_map(|(port, number)| Some((port, (*number)?)));
    let mut told: Vec<MirrorPort> = known
        .map(|(port, number)| MirrorPort {
            name: port.name.clone().filter(|name| !name.is_empty()),
            port: number,
            protocol: Some(protocol(port).to_owned()),
            app_protocol: port.app_protocol.clone(),
        })
        .collect();
    told.sort_by(|a, b| a.name.cmp(&b.name));
    told
}

fn ports(service: &Service) -> &[ServicePort] {
    service.spec.as_ref().and_then(|spec| spec.ports.as_deref()).unwrap_or_default()
}

fn protocol(port: &ServicePort) -> &str {
    port.protocol.as_deref().unwrap_or("TCP")
}

fn number(port: &ServicePort, pod: &Pod) -> Option<i32> {
    let declared = match &port.target_port {
        Some(IntOrString::Int(number)) if *number != 0 => *number,
        Some(IntOrString::String(name)) if !name.is_empty() => {
            let is_it = |declared: &&ContainerPort| {
                declared.name.as_deref() == Some(name)
                    && declared.protocol.as_deref().unwrap_or("TCP") == protocol(port)
            };
            containers(pod).flat_map(|container| container.ports.iter().flatten()).find(is_it)?.container_port
        }
        _ => port.port,
    };
    Some(assigned(pod, declared))
}

/// Those that go on: sidecars and the others.
fn containers(pod: &Pod) -> impl Iterator<Item = &Container> {
    let init = pod.spec.iter().flat_map(|spec| spec.init_containers.iter().flatten());
    let sidecars = init.filter(|container| container.restart_policy.as_deref() == Some("Always"));
    pod.spec.iter().flat_map(|spec| &spec.containers).chain(sidecars)
}
