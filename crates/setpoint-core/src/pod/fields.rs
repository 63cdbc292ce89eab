//! What a Pod is told of itself: its own fields, and the resources of its containers.

use std::collections::BTreeMap;
use std::net::IpAddr;

use k8s_openapi::api::core::v1::{Container, ObjectFieldSelector, Pod, ResourceFieldSelector, ResourceRequirements};
use setpoint_api::quantity::Quantity;

use super::references::{ReferenceError, containers};

/// The machine that a Pod runs on, as far as its Pods are told of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub addresses: Vec<IpAddr>,
    /// Where its Pods are reached, if they all are at the same address.
    pub pod_address: Option<IpAddr>,
    /// What a container may use that has no limit of its own.
    pub cpu_millicores: i64,
    pub memory_bytes: i64,
    pub ephemeral_storage_bytes: i64,
    /// How many Pods it takes.
    pub pods: i64,
    /// What runs its containers: the scheme of their ids.
    pub runtime: String,
}

/// The value of a field of the Pod.
pub(super) fn field(selector: &ObjectFieldSelector, pod: &Pod, node: &NodeFacts) -> Result<String, ReferenceError> {
    let path = selector.field_path.as_str();
    let (metadata, spec) = (&pod.metadata, pod.spec.as_ref());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    if let Some((map, key)) = path.strip_suffix("']").and_then(|path| path.split_once("['")) {
        let map = match map {
            "metadata.annotations" => &metadata.annotations,
            "metadata.labels" => &metadata.labels,
            _ => return Err(unsupported(path, "does not support subscript")),
        };
        return Ok(map.as_ref().and_then(|map| map.get(key)).cloned().unwrap_or_default());
    }
    let addresses = |addresses: &[IpAddr]| addresses.iter().map(IpAddr::to_string).collect::<Vec<_>>().join(",");
    Ok(match path {
        "metadata.name" => text(&metadata.name),
        "metadata.namespace" => text(&metadata.namespace),
        "metadata.uid" => text(&metadata.uid),
        "metadata.annotations" => listed(metadata.annotations.iter().flatten()),
        "metadata.labels" => listed(metadata.labels.iter().flatten()),
        "spec.nodeName" => node.name.clone(),
        "spec.serviceAccountName" => spec.map(|spec| text(&spec.service_account_name)).unwrap_or_default(),
        "status.hostIP" => addresses(node.addresses.get(..1).unwrap_or_default()),
        "status.hostIPs" => addresses(&node.addresses),
        "status.podIP" | "status.podIPs" => addresses(node.pod_address.as_slice()),
        _ => return Err(unsupported(path, "is not supported")),
    })
}

/// An amount that a container asks for or is limited to, in units of the divisor, rounded up.
pub(super) fn resource(
    selector: &ResourceFieldSelector,
    pod: &Pod,
    own: Option<&Container>,
    node: &NodeFacts,
) -> Result<String, ReferenceError> {
    let named = selector.container_name.as_deref().filter(|name| !name.is_empty());
    let container = match named {
        Some(name) => {
            let all = pod.spec.iter().flat_map(containers);
            let mut found = all.filter(|container| container.name == name);
            found.next().ok_or_else(|| unsupported(&selector.resource, &format!("container {name} not found")))?
        }
        None => own.ok_or_else(|| unsupported(&selector.resource, "names no container"))?,
    };
    let divisor = match &selector.divisor {
        Some(divisor) => Quantity::parse(&divisor.0).map_err(|error| unsupported("divisor", &error.to_string()))?,
        None => Quantity::ZERO,
    };
    let amount = amount(&selector.resource, container.resources.as_ref(), node)?;
    // Cores can be counted in thousandths; everything else only in whole units.
    let (amount, divisor) = if selector.resource.ends_with(".cpu") {
        (amount.milli_value(), if divisor.is_zero() { 1000 } else { divisor.milli_value() })
    } else {
        (amount.value(), if divisor.is_zero() { 1 } else { divisor.value() })
    };
    let units = i128::from(amount).checked_div(i128::from(divisor)).unwrap_or_default();
    let rest = i128::from(amount).checked_rem(i128::from(divisor)).unwrap_or_default();
    Ok((units + i128::from(rest > 0)).to_string())
}

fn amount(path: &str, resources: Option<&ResourceRequirements>, node: &NodeFacts) -> Result<Quantity, ReferenceError> {
    let (list, name) = path.split_once('.').ok_or_else(|| unsupported(path, "is not supported"))?;
    let limits = resources.and_then(|resources| resources.limits.as_ref());
    let requests = resources.and_then(|resources| resources.requests.as_ref());
    let whole = match (list, name) {
        ("requests", _) => Quantity::ZERO,
        (_, "cpu") => millicores(node.cpu_millicores),
        (_, "memory") => Quantity::from(node.memory_bytes),
        (_, "ephemeral-storage") => Quantity::from(node.ephemeral_storage_bytes),
        _ => Quantity::ZERO,
    };
    let known = matches!(name, "cpu" | "memory" | "ephemeral-storage") || name.starts_with("hugepages-");
    let amounts = match list {
        "limits" if known => limits,
        "requests" if known => requests,
        _ => return Err(unsupported(path, "is not supported")),
    };
    match amounts.and_then(|amounts| amounts.get(name)) {
        Some(amount) => Quantity::parse(&amount.0).map_err(|error| unsupported(path, &error.to_string())),
        None => Ok(whole),
    }
}

fn millicores(millicores: i64) -> Quantity {
    Quantity::parse(&format!("{millicores}m")).unwrap_or(Quantity::ZERO)
}

fn unsupported(field: &str, message: &str) -> ReferenceError {
    ReferenceError::Field { field: field.to_owned(), message: message.to_owned() }
}

/// `key="value"`, one on each line, as Kubernetes writes labels and annotations into one value.
fn listed<'a>(map: impl Iterator<Item = (&'a String, &'a String)>) -> String {
    map.map(|(key, value)| format!("{key}={}", quoted(value))).collect::<Vec<_>>().join("\n")
}

/// A text in double quotes, with what cannot be printed escaped.
fn quoted(text: &str) -> String {
    let mut quoted = String::from("\"");
    for character in text.chars() {
        match character {
            '"' => quoted.push_str("\\\""),
            '\\' => quoted.push_str("\\\\"),
            '\n' => quoted.push_str("\\n"),
            '\r' => quoted.push_str("\\r"),
            '\t' => quoted.push_str("\\t"),
            other if other.is_control() => quoted.push_str(&format!("\\x{:02x}", u32::from(other))),
            other => quoted.push(other),
        }
    }
    quoted.push('"');
    quoted
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::pod::fixtures::{node, pod};

    #[test]
    fn a_pod_can_ask_for_its_own_fields() {
        let pod = pod(json!({"metadata": {
            "labels": {"app": "web", "tier": "a\"b"}, "annotations": {"example.com/Note": "two\nlines"},
        }}));
        let rows = [
            ("metadata.name", "web"),
            ("metadata.namespace", "shop"),
            ("metadata.uid", "pod-uid"),
            ("metadata.labels", "app=\"web\"\ntier=\"a\\\"b\""),
            ("metadata.annotations", "example.com/Note=\"two\\nlines\""),
            ("metadata.labels['app']", "web"),
            ("metadata.labels['none']", ""),
            ("metadata.annotations['example.com/Note']", "two\nlines"),
            ("spec.nodeName", "local"),
            ("spec.serviceAccountName", "default"),
            ("status.hostIP", "10.0.0.7"),
            ("status.hostIPs", "10.0.0.7,fd00::7"),
            ("status.podIP", "127.0.0.1"),
            ("status.podIPs", "127.0.0.1"),
        ];
        for (path, expected) in rows {
            let selector = ObjectFieldSelector { field_path: path.to_owned(), api_version: None };
            assert_eq!(field(&selector, &pod, &node()).as_deref(), Ok(expected), "{path}");
        }
        for path in ["spec.containers", "metadata.name['x']", "", "status.phase"] {
            let selector = ObjectFieldSelector { field_path: path.to_owned(), api_version: None };
            let error = field(&selector, &pod, &node()).expect_err(path).to_string();
            assert!(error.starts_with(path), "{error}");
        }
    }

    #[test]
    fn a_container_can_ask_what_it_may_use() {
        let pod = pod(json!({"spec": {"containers": [
            {"name": "a", "resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}, "requests": {"cpu": "250m", "memory": "64Mi"}}},
            {"name": "b"},
        ]}}));
        let rows = [
            ("cores are rounded up", "a", "limits.cpu", None, Ok("2")),
            ("in thousandths", "a", "limits.cpu", Some("1m"), Ok("1500")),
            ("a request", "a", "requests.cpu", Some("1m"), Ok("250")),
            ("bytes", "a", "limits.memory", None, Ok("1073741824")),
            ("in units of the divisor", "a", "requests.memory", Some("1Mi"), Ok("64")),
            ("the node's where there is no limit", "b", "limits.cpu", None, Ok("4")),
            ("the node's memory", "b", "limits.memory", Some("1Gi"), Ok("8")),
            ("nothing where nothing is asked for", "b", "requests.memory", None, Ok("0")),
            ("of another container", "", "limits.cpu", Some("1m"), Ok("1500")),
            ("what is not told", "a", "limits.pods", None, Err("limits.pods: is not supported")),
            ("no list", "a", "cpu", None, Err("cpu: is not supported")),
            ("no container of that name", "c", "limits.cpu", None, Err("limits.cpu: container c not found")),
        ];
        for (name, container, path, divisor, expected) in rows {
            let own = pod.spec.as_ref().map(|spec| &spec.containers[0]);
            let divisor =
                divisor.map(|text: &str| k8s_openapi::apimachinery::pkg::api::resource::Quantity(text.to_owned()));
            let selector = ResourceFieldSelector {
                container_name: Some(container.to_owned()),
                divisor,
                resource: path.to_owned(),
            };
            let value = resource(&selector, &pod, own, &node()).map_err(|error| error.to_string());
            assert_eq!(value.as_deref().map_err(String::as_str), expected, "{name}");
        }
    }
}
