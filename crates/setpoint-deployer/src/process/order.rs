//! What an instance was made from, as it is kept in its folder: everything that its shim needs to run it.
//!
//! It is written once, before the instance exists, and never changed. The content of volumes is not in it: that lies in
//! the folder as files, and may change.

use std::collections::BTreeMap;
use std::path::Path;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, SecurityContext};
use serde::{Deserialize, Serialize};
use setpoint_core::observation::Mark;
use setpoint_core::pod::{ContainerState, PodState, PortState, Role};
use sha2::{Digest, Sha256};

use crate::provider::{Order, PodOrder, Volume};

/// Where processes look for programs if their container says nothing else.
const DEFAULT_PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";

/// What an instance was made from.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct InstanceOrder {
    pub id: String,
    pub mark: WrittenMark,
    /// What it is called, for people.
    pub name: String,
    pub created_at: Timestamp,
    /// The Pod. Of its volumes, only what kind they are: their files are in the folder.
    pub pod: PodOrder,
    /// The ports that its containers declare, and those that they were given.
    #[serde(default)]
    pub ports: Vec<PortState>,
    pub log_limits: LogLimits,
}

/// A [`Mark`] as it is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WrittenMark {
    pub cluster: Box<str>,
    pub owner_uid: Box<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub intent: Option<Box<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub spec_digest: Option<Box<str>>,
}

/// How much of a container's log is kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogLimits {
    /// A file that has become longer is put aside, and a new one begun.
    pub max_file_bytes: u64,
    /// How many files there may be of one run of a container, the one that is written included.
    pub max_files: u32,
}

impl Default for LogLimits {
    fn default() -> LogLimits {
        LogLimits { max_file_bytes: 10 << 20, max_files: 5 }
    }
}

impl InstanceOrder {
    pub fn new(id: &str, order: &Order, pod: &PodOrder, log_limits: LogLimits, now: Timestamp) -> Self {
        InstanceOrder {
            id: id.to_owned(),
            mark: WrittenMark::from(&order.mark),
            name: order.name.clone(),
            created_at: now,
            pod: PodOrder { volumes: pod.volumes.iter().map(without_files).collect(), ..pod.clone() },
            ports: Vec::new(),
            log_limits,
        }
    }

    /// What may stand where all users of the machine can read it: it does not tell the folder's name.
    pub fn public_id(&self) -> String {
        short_digest(["public".as_bytes(), self.id.as_bytes()])
    }

    /// Init containers in their order, then the others in theirs: what each is, and the container.
    pub fn containers(&self) -> impl Iterator<Item = (Role, &Container)> {
        let spec = &self.pod.spec;
        let first = spec.init_containers.iter().flatten().map(|container| match container.restart_policy.as_deref() {
            Some("Always") => (Role::Sidecar, container),
            _ => (Role::Init, container),
        });
        first.chain(spec.containers.iter().map(|container| (Role::Main, container)))
    }

    /// The same, each with the path of its field.
    pub(super) fn fields(&self) -> impl Iterator<Item = (String, &Container)> {
        let spec = &self.pod.spec;
        let first = spec.init_containers.iter().flatten().enumerate();
        let first = first.map(|(index, container)| (format!("spec.initContainers[{index}]"), container));
        let main = spec.containers.iter().enumerate();
        first.chain(main.map(|(index, container)| (format!("spec.containers[{index}]"), container)))
    }

    pub fn container(&self, name: &str) -> Option<&Container> {
        self.containers().map(|(_, container)| container).find(|container| container.name == name)
    }

    /// The instance before anything of it has run.
    pub fn first_state(&self) -> PodState {
        let has_init = self.pod.spec.init_containers.as_ref().is_some_and(|containers| !containers.is_empty());
        let waiting = |(role, container): (Role, &Container)| {
            let reason = if has_init { "PodInitializing" } else { "ContainerCreating" };
            ContainerState::waiting(&container.name, role, reason)
        };
        PodState {
            started_at: self.created_at,
            ip: Some(std::net::Ipv4Addr::LOCALHOST.into()),
            containers: self.containers().map(waiting).collect(),
            ports: self.ports.clone(),
            stopping_since: None,
            notices: Vec::new(),
        }
    }

    /// All variables of a container's processes. Those that the container sets win over ours; but where it sets `PORT` to
    /// the port that it declares, it means the port that it was given.
    pub fn variables(&self, container: &str, folder: &Path) -> BTreeMap<String, String> {
        let mut variables = BTreeMap::from([
            ("HOSTNAME".to_owned(), self.pod.name.clone()),
            ("PATH".to_owned(), DEFAULT_PATH.to_owned()),
        ]);
        let own = self.pod.variables.get(container).map(|variables| variables.0.as_slice()).unwrap_or_default();
        variables.extend(own.iter().cloned());
        let ports = || self.ports.iter().filter(|port| port.container == container);
        if let Some(first) = ports().next() {
            let port = variables.entry("PORT".to_owned()).or_default();
            if port.is_empty() || *port == first.container_port.to_string() {
                *port = first.assigned_port.to_string();
            }
        }
        for port in ports() {
            for variable in port_variables(port) {
                variables.entry(variable).or_insert_with(|| port.assigned_port.to_string());
            }
        }
        let root = container_root(folder, container);
        variables.insert("SETPOINT_ROOT".to_owned(), root.to_string_lossy().into_owned());
        variables.insert("SETPOINT_INSTANCE".to_owned(), self.id.clone());
        variables
    }

    /// The user that a container runs as, if it is not our own.
    pub fn run_as_user(&self, container: &Container) -> Option<i64> {
        let own = container.security_context.as_ref().and_then(|context: &SecurityContext| context.run_as_user);
        own.or_else(|| self.pod.spec.security_context.as_ref().and_then(|context| context.run_as_user))
    }
}

/// The folder that a container runs in and where its volumes are to be found.
pub fn container_root(folder: &Path, container: &str) -> std::path::PathBuf {
    folder.join("containers").join(container).join("root")
}

/// The id of what is made in a state folder under an intent: always the same, so that it is found again, and no other on
/// the machine, since processes and control groups are known by it.
pub fn instance_id(root: &Path, mark: &Mark) -> String {
    let intent = mark.intent.as_deref().unwrap_or_default();
    short_digest([root.as_os_str().as_encoded_bytes(), mark.cluster.as_bytes(), intent.as_bytes()])
}

fn short_digest<const N: usize>(parts: [&[u8]; N]) -> String {
    let mut hash = Sha256::new();
    for part in parts {
        hash.update(part);
        hash.update([0]);
    }
    hash.finalize().iter().take(10).map(|byte| format!("{byte:02x}")).collect()
}

/// `PORT_8080`, and `PORT_HTTP` if it has that name.
fn port_variables(port: &PortState) -> impl Iterator<Item = String> + use<> {
    let name = port.name.as_ref().map(|name| name.to_uppercase().replace('-', "_"));
    [Some(port.container_port.to_string()), name].into_iter().flatten().map(|suffix| format!("PORT_{suffix}"))
}

fn without_files((name, volume): (&String, &Volume)) -> (String, Volume) {
    let kind = match volume {
        Volume::Files(_) => Volume::Files(BTreeMap::new()),
        other => other.clone(),
    };
    (name.clone(), kind)
}

impl From<&Mark> for WrittenMark {
    fn from(mark: &Mark) -> WrittenMark {
        let Mark { cluster, owner_uid, intent, spec_digest } = mark.clone();
        WrittenMark { cluster, owner_uid, intent, spec_digest }
    }
}

impl From<WrittenMark> for Mark {
    fn from(mark: WrittenMark) -> Mark {
        let WrittenMark { cluster, owner_uid, intent, spec_digest } = mark;
        Mark { cluster, owner_uid, intent, spec_digest }
    }
}
