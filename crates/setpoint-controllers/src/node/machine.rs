//! What this machine is, read from the system.

use std::collections::BTreeMap;
use std::fs;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::path::Path;

use k8s_openapi::api::core::v1::NodeSystemInfo;
use setpoint_core::pod::NodeFacts;
use setpoint_deployer::process;

/// Kubernetes' words for the processors that we run on.
const ARCHITECTURES: [(&str, &str); 4] =
    [("x86_64", "amd64"), ("aarch64", "arm64"), ("x86", "386"), ("powerpc64", "ppc64le")];

/// A Node with this label runs the commands of containers and no images: one without a command has nothing to run there.
pub const NEEDS_COMMAND: &str = "setpoint.dev/needs-command";
/// How many Pods this machine takes.
const PODS: i64 = 1000;

/// What a node on this machine is. `folder` is where its Pods' files are kept.
pub fn facts(name: &str, environment: &str, runtime: &str, folder: &Path) -> NodeFacts {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let labels = [
        ("kubernetes.io/arch", architecture()),
        ("kubernetes.io/hostname", name),
        ("kubernetes.io/os", std::env::consts::OS),
        ("setpoint.dev/environment", environment),
    ];
    let needs_command = (runtime == process::NAME).then_some((NEEDS_COMMAND, "true"));
    let labels = labels.into_iter().chain(needs_command);
    NodeFacts {
        name: name.to_owned(),
        labels: labels.map(|(label, value)| (label.to_owned(), value.to_owned())).collect(),
        addresses: vec![address()],
        pod_address: Some(IpAddr::V4(Ipv4Addr::LOCALHOST)),
        cpu_millicores: i64::try_from(cores).unwrap_or(1) * 1000,
        memory_bytes: memory_bytes(&read("/proc/meminfo")).unwrap_or_default(),
        ephemeral_storage_bytes: storage_bytes(folder).unwrap_or_default(),
        pods: PODS,
        runtime: runtime.to_owned(),
    }
}

/// What a Node says of its system.
pub fn system(version: &str, runtime: &str) -> NodeSystemInfo {
    let line = |path: &str| read(path).trim().to_owned();
    NodeSystemInfo {
        architecture: architecture().to_owned(),
        boot_id: line("/proc/sys/kernel/random/boot_id"),
        container_runtime_version: format!("{runtime}://{version}"),
        kernel_version: line("/proc/sys/kernel/osrelease"),
        kube_proxy_version: String::new(),
        kubelet_version: format!("v{version}"),
        machine_id: line("/etc/machine-id"),
        operating_system: std::env::consts::OS.to_owned(),
        os_image: os_image(&read("/etc/os-release")),
        ..NodeSystemInfo::default()
    }
}

pub(crate) fn architecture() -> &'static str {
    let own = std::env::consts::ARCH;
    ARCHITECTURES.iter().find(|(rust, _)| *rust == own).map_or(own, |(_, kubernetes)| kubernetes)
}

/// The address that the machine would use to reach others; loopback where it reaches nobody. Nothing is sent.
fn address() -> IpAddr {
    let probe = || {
        let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0)).ok()?;
        socket.connect((Ipv4Addr::new(192, 0, 2, 1), 9)).ok()?;
        Some(socket.local_addr().ok()?.ip())
    };
    probe().unwrap_or(IpAddr::V4(Ipv4Addr::LOCALHOST))
}

fn storage_bytes(folder: &Path) -> Option<i64> {
    let stat = rustix::fs::statvfs(folder).ok()?;
    i64::try_from(stat.f_blocks.checked_mul(stat.f_frsize)?).ok()
}

fn memory_bytes(meminfo: &str) -> Option<i64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: i64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

fn os_image(os_release: &str) -> String {
    let values: BTreeMap<&str, &str> = os_release.lines().filter_map(|line| line.split_once('=')).collect();
    values.get("PRETTY_NAME").map_or("Unknown", |name| name.trim_matches('"')).to_owned()
}

/// What is not there is told as empty.
fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_system_says_is_read() {
        assert_eq!(memory_bytes("MemTotal:        4030440 kB\nMemFree: 1 kB\n"), Some(4_030_440 * 1024));
        assert_eq!(memory_bytes("nothing of the kind"), None);
        assert_eq!(
            os_image("NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 12 (bookworm)\"\n"),
            "Debian GNU/Linux 12 (bookworm)"
        );
        assert_eq!(os_image(""), "Unknown");
        let facts = facts("local", "local", "process", Path::new("/"));
        assert!(facts.cpu_millicores >= 1000 && facts.memory_bytes > 0 && facts.ephemeral_storage_bytes > 0);
        assert_eq!(facts.labels["kubernetes.io/hostname"], "local");
    }
}
