//! What the Node of an Environment is.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{Node, NodeSystemInfo, Taint};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::Resource;
use setpoint_api::environment::Environment;
use setpoint_core::pod::NodeFacts;
use setpoint_deployer::provider::Abilities;
use setpoint_deployer::{process, simulated};

use crate::node::machine;
use crate::node::registration::Registration;

/// The node of this machine, which nobody declares.
pub const LOCAL: &str = "local";
/// The Environment that a Node stands for.
pub const ENVIRONMENT: &str = "setpoint.dev/environment";
/// What is put on such a Node runs nowhere: whoever can go elsewhere does.
pub const SIMULATED: &str = "setpoint.dev/simulated";

/// What a place takes that does not say how much it takes: more than anybody asks for.
const PODS: i64 = 100_000;
const CPU_MILLICORES: i64 = 100_000 * 1000;
const MEMORY_BYTES: i64 = 1 << 50;

/// How an Environment is registered.
pub(super) fn registration(environment: &Environment, abilities: &Abilities, cluster: &str) -> Registration {
    let name = environment.metadata.name.clone().unwrap_or_default();
    let deployer = abilities.guests.deployer;
    let capacity = environment.spec.config.as_ref().and_then(|config| config.get("capacity")?.as_i64());
    let mut labels: BTreeMap<String, String> = [
        ("kubernetes.io/arch", machine::architecture()),
        ("kubernetes.io/hostname", &name),
        ("kubernetes.io/os", std::env::consts::OS),
        (ENVIRONMENT, &name),
    ]
    .map(|(label, value)| (label.to_owned(), value.to_owned()))
    .into();
    if deployer == process::NAME {
        labels.insert(machine::NEEDS_COMMAND.to_owned(), "true".to_owned());
    }
    let version = env!("CARGO_PKG_VERSION");
    Registration {
        facts: NodeFacts {
            name: name.clone(),
            labels,
            addresses: Vec::new(),
            pod_address: None,
            cpu_millicores: CPU_MILLICORES,
            memory_bytes: MEMORY_BYTES,
            ephemeral_storage_bytes: MEMORY_BYTES,
            pods: capacity.unwrap_or(PODS),
            runtime: deployer.to_owned(),
        },
        system: NodeSystemInfo {
            architecture: machine::architecture().to_owned(),
            container_runtime_version: format!("{deployer}://{version}"),
            kubelet_version: format!("v{version}"),
            operating_system: std::env::consts::OS.to_owned(),
            os_image: deployer.to_owned(),
            ..NodeSystemInfo::default()
        },
        provider_id: format!("setpoint://{cluster}/{name}"),
        owner: Some(owner(environment)),
        taints: (deployer == simulated::NAME).then(|| taint(SIMULATED, "PreferNoSchedule")).into_iter().collect(),
    }
}

/// Whether a Node stands for this very Environment.
pub(super) fn is_node_of(node: &Node, environment: &Environment) -> bool {
    let mut owners = node.metadata.owner_references.iter().flatten();
    owners.any(|owner| Some(&owner.uid) == environment.metadata.uid.as_ref())
}

/// As the owner of what is made for it.
pub(super) fn owner(environment: &Environment) -> OwnerReference {
    OwnerReference {
        api_version: Environment::api_version(&()).into_owned(),
        kind: Environment::kind(&()).into_owned(),
        name: environment.metadata.name.clone().unwrap_or_default(),
        uid: environment.metadata.uid.clone().unwrap_or_default(),
        controller: Some(true),
        block_owner_deletion: None,
    }
}

fn taint(key: &str, effect: &str) -> Taint {
    Taint { key: key.to_owned(), effect: effect.to_owned(), ..Taint::default() }
}
