//! What a pod's spec holds when its writer left it out.

use serde_json::{Value, json};

use crate::kinds::defaults::{each, fill};
use crate::kinds::volume_claim;

use super::resources;

/// Permissions of a projected file: rw-r--r--.
const FILE_MODE: i64 = 0o644;

/// Fills in what every pod spec has, in a Pod and in a template alike.
pub(in crate::kinds) fn fill_pod_spec(spec: &mut Value) {
    if !spec.is_object() {
        *spec = json!({});
    }
    // `serviceAccount` is the older name of `serviceAccountName`; both say the same, the newer one decides.
    match (text(spec, "serviceAccountName"), text(spec, "serviceAccount")) {
        (Some(name), _) => spec["serviceAccount"] = name.into(),
        (None, Some(name)) => spec["serviceAccountName"] = name.into(),
        (None, None) => {}
    }
    fill(spec, "dnsPolicy", "ClusterFirst");
    fill(spec, "restartPolicy", "Always");
    fill(spec, "securityContext", json!({}));
    fill(spec, "terminationGracePeriodSeconds", 30);
    fill(spec, "schedulerName", "default-scheduler");
    each(spec, "volumes", fill_volume);
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        each(spec, list, fill_container);
    }
    within(spec, "overhead", resources::canonicalize);
    within(spec, "resources", fill_resources);
}

/// Fills in what only a Pod has: a template leaves these to the Pod made from it.
pub(in crate::kinds) fn fill_pod(spec: &mut Value) {
    if spec["terminationGracePeriodSeconds"].as_i64().is_some_and(|seconds| seconds < 0) {
        spec["terminationGracePeriodSeconds"] = 1.into();
    }
    let host_network = spec["hostNetwork"].as_bool() == Some(true);
    for list in ["containers", "initContainers"] {
        each(spec, list, |container| {
            within(container, "resources", request_what_is_limited);
            if host_network {
                each(container, "ports", |port| {
                    let number = port["containerPort"].clone();
                    fill(port, "hostPort", number);
                });
            }
        });
    }
    fill(spec, "enableServiceLinks", true);
}

/// A resource that has a limit and no request is requested in full.
fn request_what_is_limited(resources: &mut Value) {
    let Some(limits) = resources["limits"].as_object().cloned() else { return };
    fill(resources, "requests", json!({}));
    for (name, limit) in limits {
        fill(&mut resources["requests"], &name, limit);
    }
}

fn fill_container(container: &mut Value) {
    let policy = pull_policy(container["image"].as_str().unwrap_or_default());
    fill(container, "imagePullPolicy", policy);
    fill(container, "terminationMessagePath", "/dev/termination-log");
    fill(container, "terminationMessagePolicy", "File");
    each(container, "ports", |port| fill(port, "protocol", "TCP"));
    each(container, "env", |variable| {
        within(variable, "valueFrom", |source| {
            within(source, "fieldRef", fill_field_ref);
            within(source, "resourceFieldRef", fill_resource_field_ref);
            within(source, "fileKeyRef", |file| fill(file, "optional", false));
        });
    });
    fill(container, "resources", json!({}));
    within(container, "resources", fill_resources);
    for probe in ["livenessProbe", "readinessProbe", "startupProbe"] {
        within(container, probe, fill_probe);
    }
    within(container, "lifecycle", |lifecycle| {
        for handler in ["postStart", "preStop"] {
            within(lifecycle, handler, fill_handler);
        }
    });
}

/// Writes requests and limits as they are kept.
pub(in crate::kinds) fn fill_resources(resources: &mut Value) {
    within(resources, "limits", resources::canonicalize);
    within(resources, "requests", resources::canonicalize);
}

fn fill_probe(probe: &mut Value) {
    fill(probe, "timeoutSeconds", 1);
    fill(probe, "periodSeconds", 10);
    fill(probe, "successThreshold", 1);
    fill(probe, "failureThreshold", 3);
    fill_handler(probe);
    within(probe, "grpc", |grpc| fill(grpc, "service", ""));
}

fn fill_handler(handler: &mut Value) {
    within(handler, "httpGet", |get| {
        fill(get, "path", "/");
        fill(get, "scheme", "HTTP");
    });
}

fn fill_field_ref(reference: &mut Value) {
    fill(reference, "apiVersion", "v1");
}

fn fill_resource_field_ref(reference: &mut Value) {
    fill(reference, "divisor", "0");
}

fn fill_volume(volume: &mut Value) {
    // A volume that names no source is an empty directory.
    if volume.as_object().is_some_and(|fields| fields.keys().all(|field| field == "name")) {
        volume["emptyDir"] = json!({});
    }
    for source in ["secret", "configMap", "downwardAPI", "projected"] {
        within(volume, source, |source| fill(source, "defaultMode", FILE_MODE));
    }
    within(volume, "downwardAPI", fill_downward_files);
    within(volume, "projected", |projected| {
        each(projected, "sources", |source| {
            within(source, "downwardAPI", fill_downward_files);
            within(source, "serviceAccountToken", |token| fill(token, "expirationSeconds", 3600));
        });
    });
    within(volume, "hostPath", |path| fill(path, "type", ""));
    within(volume, "image", |image| {
        let policy = pull_policy(image["reference"].as_str().unwrap_or_default());
        fill(image, "pullPolicy", policy);
    });
    within(volume, "ephemeral", |ephemeral| {
        within(ephemeral, "volumeClaimTemplate", |template| {
            fill(template, "metadata", json!({}));
            volume_claim::fill_spec(template);
        });
    });
    within(volume, "iscsi", |iscsi| fill(iscsi, "iscsiInterface", "default"));
    within(volume, "rbd", |rbd| {
        fill(rbd, "pool", "rbd");
        fill(rbd, "user", "admin");
        fill(rbd, "keyring", "/etc/ceph/keyring");
    });
    within(volume, "azureDisk", |disk| {
        fill(disk, "cachingMode", "ReadWrite");
        fill(disk, "fsType", "ext4");
        fill(disk, "readOnly", false);
        fill(disk, "kind", "Shared");
    });
    within(volume, "scaleIO", |scale_io| {
        fill(scale_io, "storageMode", "ThinProvisioned");
        fill(scale_io, "fsType", "xfs");
    });
}

fn fill_downward_files(source: &mut Value) {
    each(source, "items", |file| {
        within(file, "fieldRef", fill_field_ref);
        within(file, "resourceFieldRef", fill_resource_field_ref);
    });
}

/// An image without a version, or with the version `latest`, is pulled for every start.
fn pull_policy(image: &str) -> &'static str {
    if image_tag(image) == Some("latest") { "Always" } else { "IfNotPresent" }
}

/// The tag of an image; `latest` if it has neither tag nor digest, none if it has only a digest or is not an image.
fn image_tag(image: &str) -> Option<&str> {
    let (name, digest) = match image.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (image, None),
    };
    let path_start = name.rfind('/').map_or(0, |slash| slash + 1);
    let (last, tag) = match name[path_start..].split_once(':') {
        Some((last, tag)) => (last, Some(tag)),
        None => (&name[path_start..], None),
    };
    let well_formed =
        |part: &str| part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b"._-".contains(&b));
    if last.is_empty() || !well_formed(last) {
        return None;
    }
    tag.or(if digest.is_none() { Some("latest") } else { None })
}

fn text(object: &Value, field: &str) -> Option<String> {
    object[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Does something to a field that is there.
pub(in crate::kinds) fn within(object: &mut Value, field: &str, mut change: impl FnMut(&mut Value)) {
    if let Some(value) = object.get_mut(field).filter(|value| !value.is_null()) {
        change(value);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_pulled_by_their_tag() {
        let rows = [
            ("no tag", "nginx", "Always"),
            ("latest", "nginx:latest", "Always"),
            ("a tag", "nginx:1.27", "IfNotPresent"),
            ("a registry with a port and no tag", "registry:5000/team/nginx", "Always"),
            ("a registry with a port and a tag", "registry:5000/team/nginx:1", "IfNotPresent"),
            ("a digest", "nginx@sha256:00", "IfNotPresent"),
            ("latest and a digest", "nginx:latest@sha256:00", "Always"),
            ("not an image", "NGINX", "IfNotPresent"),
            ("no image", "", "IfNotPresent"),
            ("empty", "", "IfNotPresent"),
        ];
        for (name, image, expected) in rows {
            assert_eq!(pull_policy(image), expected, "{name}");
        }
    }

    #[test]
    fn a_minimal_pod_spec_is_completed() {
        let mut spec = json!({"containers": [{"name": "c", "image": "nginx:1"}]});
        fill_pod_spec(&mut spec);
        let expected = json!({
            "containers": [{
                "name": "c",
                "image": "nginx:1",
                "imagePullPolicy": "IfNotPresent",
                "resources": {},
                "terminationMessagePath": "/dev/termination-log",
                "terminationMessagePolicy": "File",
            }],
            "dnsPolicy": "ClusterFirst",
            "restartPolicy": "Always",
            "schedulerName": "default-scheduler",
            "securityContext": {},
            "terminationGracePeriodSeconds": 30,
        });
        assert_eq!(spec, expected);
        fill_pod_spec(&mut spec);
        assert_eq!(spec, expected, "filling in twice changes nothing");
    }

    #[test]
    fn fields_are_completed_where_they_stand() {
        let rows = [
            ("a port", json!({"ports": [{"containerPort": 80}]}), "/ports/0/protocol", json!("TCP")),
            ("a probe", json!({"livenessProbe": {}}), "/livenessProbe/failureThreshold", json!(3)),
            ("an HTTP probe", json!({"startupProbe": {"httpGet": {}}}), "/startupProbe/httpGet/scheme", json!("HTTP")),
            ("a gRPC probe", json!({"readinessProbe": {"grpc": {}}}), "/readinessProbe/grpc/service", json!("")),
            (
                "an HTTP hook",
                json!({"lifecycle": {"preStop": {"httpGet": {}}}}),
                "/lifecycle/preStop/httpGet/path",
                json!("/"),
            ),
            (
                "a field reference",
                json!({"env": [{"valueFrom": {"fieldRef": {}}}]}),
                "/env/0/valueFrom/fieldRef/apiVersion",
                json!("v1"),
            ),
            (
                "a resource reference",
                json!({"env": [{"valueFrom": {"resourceFieldRef": {}}}]}),
                "/env/0/valueFrom/resourceFieldRef/divisor",
                json!("0"),
            ),
        ];
        for (name, mut container, pointer, expected) in rows {
            fill_container(&mut container);
            assert_eq!(container.pointer(pointer), Some(&expected), "{name}");
        }
        let rows = [
            ("a volume without a source", json!({"name": "v"}), "/emptyDir", json!({})),
            ("a Secret", json!({"name": "v", "secret": {}}), "/secret/defaultMode", json!(420)),
            ("a host path", json!({"name": "v", "hostPath": {}}), "/hostPath/type", json!("")),
            (
                "a projected token",
                json!({"name": "v", "projected": {"sources": [{"serviceAccountToken": {}}]}}),
                "/projected/sources/0/serviceAccountToken/expirationSeconds",
                json!(3600),
            ),
        ];
        for (name, mut volume, pointer, expected) in rows {
            fill_volume(&mut volume);
            assert_eq!(volume.pointer(pointer), Some(&expected), "{name}");
        }
    }

    #[test]
    fn a_pod_requests_its_limits_and_takes_its_ports_from_the_host() {
        let mut spec = json!({"hostNetwork": true, "containers": [{
            "resources": {"limits": {"cpu": "1", "memory": "1Gi"}, "requests": {"cpu": "500m"}},
            "ports": [{"containerPort": 80}],
        }]});
        fill_pod(&mut spec);
        let container = &spec["containers"][0];
        assert_eq!(container["resources"]["requests"], json!({"cpu": "500m", "memory": "1Gi"}));
        assert_eq!(container["ports"][0]["hostPort"], 80);
        assert_eq!(spec["enableServiceLinks"], true);
    }
}
