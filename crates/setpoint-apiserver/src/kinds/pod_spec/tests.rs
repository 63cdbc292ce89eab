//! What is refused in a pod's spec, and in which words.

use serde_json::{Value, json};

use super::*;
use crate::kinds::defaults::fill;

/// A good spec with one change to its only container.
fn with_container(change: Value) -> Value {
    let mut container = json!({"name": "c", "image": "nginx"});
    container.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
    json!({"containers": [container]})
}

/// A good spec with some more fields.
fn with_spec(change: Value) -> Value {
    let mut spec = with_container(json!({}));
    spec.as_object_mut().expect("an object").extend(change.as_object().expect("an object").clone());
    spec
}

/// A good spec with one volume.
fn with_volume(source: Value) -> Value {
    let mut volume = source;
    fill(&mut volume, "name", "v");
    with_spec(json!({"volumes": [volume]}))
}

fn messages(mut spec: Value) -> Vec<String> {
    fill_pod_spec(&mut spec);
    fill_pod(&mut spec);
    let object = json!({"spec": spec});
    let root = Node::root(&object);
    let mut errors = Errors::default();
    validate(root.field("spec"), Some(&json!({"name": "pod"})), &mut errors);
    validate_only_in_pod(root.field("spec"), &mut errors);
    errors.iter().map(ToString::to_string).collect()
}

fn check(rows: &[(&str, Value, &[&str])]) {
    for (name, spec, expected) in rows {
        // The examples and patterns that end the messages about names are tested with the names.
        let found: Vec<String> =
            messages(spec.clone()).iter().map(|m| m.split(" (e.g.").next().unwrap_or_default().to_owned()).collect();
        assert_eq!(found, *expected, "{name}");
    }
}

#[test]
fn containers() {
    check(&[
        ("a good one", with_container(json!({})), &[]),
        ("none", json!({}), &["spec.containers: Required value"]),
        (
            "neither name nor image",
            json!({"containers": [{}]}),
            &["spec.containers[0].name: Required value", "spec.containers[0].image: Required value"],
        ),
        ("a command alone", json!({"containers": [{"name": "c", "command": ["sleep", "1"]}]}), &[]),
        ("a command and an empty image", with_container(json!({"image": "", "command": ["true"]})), &[]),
        (
            "arguments of nothing",
            with_container(json!({"image": "", "command": [], "args": ["1"]})),
            &["spec.containers[0].image: Required value"],
        ),
        (
            "an init container with a command alone",
            with_spec(json!({"initContainers": [{"name": "i", "command": ["true"]}]})),
            &[],
        ),
        (
            "one name twice",
            json!({"containers": [{"name": "c", "image": "x"}, {"name": "c", "image": "x"}]}),
            &[r#"spec.containers[1].name: Duplicate value: "c""#],
        ),
        (
            "a name of an init container",
            with_spec(json!({"initContainers": [{"name": "c", "image": "x"}]})),
            &[r#"spec.initContainers[0].name: Duplicate value: "c""#],
        ),
        (
            "space around an image",
            with_container(json!({"image": " nginx"})),
            &[r#"spec.containers[0].image: Invalid value: " nginx": must not have leading or trailing whitespace"#],
        ),
        (
            "an unknown pull policy",
            with_container(json!({"imagePullPolicy": "Often"})),
            &[
                r#"spec.containers[0].imagePullPolicy: Unsupported value: "Often": supported values: "Always", "IfNotPresent", "Never""#,
            ],
        ),
        (
            "ports",
            with_container(json!({"ports": [
                {"containerPort": 0},
                {"containerPort": 70000},
                {"containerPort": 80, "protocol": "HTTP"},
            ]})),
            &[
                "spec.containers[0].ports[0].containerPort: Required value",
                "spec.containers[0].ports[1].containerPort: Invalid value: 70000: must be between 1 and 65535, inclusive",
                r#"spec.containers[0].ports[2].protocol: Unsupported value: "HTTP": supported values: "SCTP", "TCP", "UDP""#,
            ],
        ),
        (
            "a port of the host claimed twice",
            with_container(json!({"ports": [
                {"containerPort": 80, "hostPort": 80},
                {"containerPort": 81, "hostPort": 80},
            ]})),
            &[r#"spec.containers[0].ports[1].hostPort: Duplicate value: "TCP//80""#],
        ),
        (
            "a probe of an init container",
            with_spec(
                json!({"initContainers": [{"name": "i", "image": "x", "livenessProbe": {"exec": {"command": ["x"]}}}]}),
            ),
            &[
                "spec.initContainers[0].livenessProbe: Forbidden: may not be set for init containers without restartPolicy=Always",
            ],
        ),
        (
            "a probe of a sidecar",
            with_spec(json!({"initContainers": [
                {"name": "i", "image": "x", "restartPolicy": "Always", "livenessProbe": {"exec": {"command": ["x"]}}},
            ]})),
            &[],
        ),
        (
            "an ephemeral container that others could depend on",
            with_spec(json!({"ephemeralContainers": [
                {"name": "e", "image": "x", "ports": [{"containerPort": 80}], "targetContainerName": "absent"},
            ]})),
            &[
                r#"spec.ephemeralContainers[0].targetContainerName: Not found: "absent""#,
                "spec.ephemeralContainers[0].ports: Forbidden: cannot be set for an Ephemeral Container",
            ],
        ),
    ]);
}

#[test]
fn environments() {
    let variable = |variable: Value| with_container(json!({"env": [variable]}));
    check(&[
        (
            "a name with an equals sign",
            variable(json!({"name": "a=b"})),
            &[
                r#"spec.containers[0].env[0].name: Invalid value: "a=b": a valid environment variable name must consist only of printable ASCII characters other than '='"#,
            ],
        ),
        (
            "a value and a source",
            variable(json!({"name": "A", "value": "1", "valueFrom": {"secretKeyRef": {"name": "s", "key": "k"}}})),
            &[
                r#"spec.containers[0].env[0].valueFrom: Invalid value: "": may not be specified when `value` is not empty"#,
            ],
        ),
        (
            "a field there is not",
            variable(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "spec.x"}}})),
            &[
                r#"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Invalid value: "spec.x": error converting fieldPath: field label not supported: spec.x"#,
            ],
        ),
        (
            "one label",
            variable(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels['app']"}}})),
            &[],
        ),
        (
            "all labels",
            variable(json!({"name": "A", "valueFrom": {"fieldRef": {"fieldPath": "metadata.labels"}}})),
            &[
                r#"spec.containers[0].env[0].valueFrom.fieldRef.fieldPath: Unsupported value: "metadata.labels": supported values: "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName", "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs""#,
            ],
        ),
        (
            "a share of a processor in bytes",
            variable(
                json!({"name": "A", "valueFrom": {"resourceFieldRef": {"resource": "limits.cpu", "divisor": "1Mi"}}}),
            ),
            &[
                r#"spec.containers[0].env[0].valueFrom.resourceFieldRef.divisor: Invalid value: "limits.cpu": only divisor's values 1m and 1 are supported with the cpu resource"#,
            ],
        ),
        (
            "everything from nowhere",
            with_container(json!({"envFrom": [{}]})),
            &[r#"spec.containers[0].envFrom: Invalid value: "": must specify one of: `configMapRef` or `secretRef`"#],
        ),
    ]);
}

#[test]
fn volumes_and_mounts() {
    let mounted = |mount: Value| {
        let mut spec = with_container(json!({"volumeMounts": [mount]}));
        spec["volumes"] = json!([{"name": "v", "emptyDir": {}}]);
        spec
    };
    check(&[
        ("a good mount", mounted(json!({"name": "v", "mountPath": "/v"})), &[]),
        (
            "a volume that is not there",
            mounted(json!({"name": "w", "mountPath": "/v"})),
            &[r#"spec.containers[0].volumeMounts[0].name: Not found: "w""#],
        ),
        (
            "a path out of the volume",
            mounted(json!({"name": "v", "mountPath": "/v", "subPath": "../x"})),
            &[r#"spec.containers[0].volumeMounts.subPath: Invalid value: "../x": must not contain '..'"#],
        ),
        (
            "two sources",
            with_volume(json!({"emptyDir": {}, "hostPath": {"path": "/"}})),
            &["spec.volumes[0].hostPath: Forbidden: may not specify more than 1 volume type"],
        ),
        (
            "a name that is none",
            with_volume(json!({"name": "V", "emptyDir": {}})),
            &[
                r#"spec.volumes[0].name: Invalid value: "V": a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with an alphanumeric character"#,
            ],
        ),
        (
            "a Secret without a name",
            with_volume(json!({"secret": {}})),
            &["spec.volumes[0].secret.secretName: Required value"],
        ),
        (
            "a ConfigMap's file with too many permissions",
            with_volume(json!({"configMap": {"name": "m", "defaultMode": 512}})),
            &[
                "spec.volumes[0].configMap.defaultMode: Invalid value: 512: must be a number between 0 and 0777 (octal), both inclusive",
            ],
        ),
        (
            "a path of the host",
            with_volume(json!({"hostPath": {"path": "/a/../b", "type": "Disk"}})),
            &[
                r#"spec.volumes[0].hostPath.path: Invalid value: "/a/../b": must not contain '..'"#,
                r#"spec.volumes[0].hostPath.type: Unsupported value: "Disk": supported values: "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket""#,
            ],
        ),
        (
            "a token for nobody",
            with_volume(json!({"projected": {"sources": [{"serviceAccountToken": {"path": "t"}}]}})),
            &[
                "spec.volumes[0].projected.sources[0].serviceAccountToken: Forbidden: must not be specified when serviceAccountName is not set",
            ],
        ),
        (
            "one file twice",
            with_volume(json!({"projected": {"sources": [
                {"secret": {"name": "s", "items": [{"key": "a", "path": "p"}]}},
                {"configMap": {"name": "m", "items": [{"key": "a", "path": "p"}]}},
            ]}})),
            &[r#"spec.volumes[0].projected: Invalid value: "m": conflicting duplicate paths"#],
        ),
        (
            "a claim",
            with_volume(json!({"persistentVolumeClaim": {}})),
            &["spec.volumes[0].persistentVolumeClaim.claimName: Required value"],
        ),
        (
            "NFS",
            with_volume(json!({"nfs": {"server": "s", "path": "x"}})),
            &[r#"spec.volumes[0].nfs.path: Invalid value: "x": must be an absolute path"#],
        ),
        ("a driver", with_volume(json!({"csi": {}})), &["spec.volumes[0].csi.driver: Required value"]),
    ]);
}

#[test]
fn probes_and_hooks() {
    let probe = |probe: Value| with_container(json!({"livenessProbe": probe}));
    check(&[
        (
            "nothing to call",
            probe(json!({"periodSeconds": -1})),
            &[
                "spec.containers[0].livenessProbe: Required value: must specify a handler type",
                "spec.containers[0].livenessProbe.periodSeconds: Invalid value: -1: must be greater than or equal to 0",
            ],
        ),
        (
            "two things to call",
            probe(json!({"exec": {"command": ["x"]}, "tcpSocket": {"port": 80}})),
            &["spec.containers[0].livenessProbe.tcpSocket: Forbidden: may not specify more than 1 handler type"],
        ),
        (
            "a port that is none",
            probe(json!({"httpGet": {"port": 0}})),
            &[
                "spec.containers[0].livenessProbe.httpGet.port: Invalid value: 0: must be between 1 and 65535, inclusive",
            ],
        ),
        (
            "alive only after two successes",
            probe(json!({"exec": {"command": ["x"]}, "successThreshold": 2})),
            &["spec.containers[0].livenessProbe.successThreshold: Invalid value: 2: must be 1"],
        ),
        (
            "a sleep longer than there is time",
            with_container(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 60}}}})),
            &[
                "spec.containers[0].lifecycle.preStop.sleep: Invalid value: 60: must be non-negative and less than terminationGracePeriodSeconds (30)",
            ],
        ),
    ]);
}

#[test]
fn resources_of_containers() {
    let resources = |resources: Value| with_container(json!({"resources": resources}));
    check(&[
        (
            "more requested than allowed",
            resources(json!({"limits": {"cpu": "1"}, "requests": {"cpu": "1500m"}})),
            &[
                r#"spec.containers[0].resources.requests: Invalid value: "1500m": must be less than or equal to cpu limit of 1"#,
            ],
        ),
        (
            "less than nothing",
            resources(json!({"requests": {"memory": "-1"}})),
            &[
                r#"spec.containers[0].resources.requests[memory]: Invalid value: "-1": must be greater than or equal to 0"#,
            ],
        ),
        (
            "an unknown resource",
            resources(json!({"requests": {"disk": "1"}})),
            &[
                r#"spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource type or fully qualified"#,
                r#"spec.containers[0].resources.requests[disk]: Invalid value: "disk": must be a standard resource for containers"#,
            ],
        ),
        (
            "half a device",
            resources(json!({"limits": {"example.com/gpu": "500m"}})),
            &[
                r#"spec.containers[0].resources.limits[example.com/gpu]: Invalid value: "500m": must be an integer"#,
                r#"spec.containers[0].resources.requests[example.com/gpu]: Invalid value: "500m": must be an integer"#,
            ],
        ),
        (
            "a device without a limit",
            resources(json!({"requests": {"example.com/gpu": "1"}})),
            &[
                "spec.containers[0].resources.limits: Required value: Limit must be set for non overcommitable resources",
            ],
        ),
        (
            "huge pages alone",
            resources(json!({"limits": {"hugepages-2Mi": "2Mi"}})),
            &["spec.containers[0].resources: Forbidden: HugePages require cpu or memory"],
        ),
        (
            "part of a huge page",
            resources(json!({"limits": {"cpu": "1", "hugepages-2Mi": "3Mi"}})),
            &[
                r#"spec.containers[0].resources.limits[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
                r#"spec.containers[0].resources.requests[hugepages-2Mi]: Invalid value: "3Mi": 3Mi is not positive integer multiple of hugepages-2Mi"#,
            ],
        ),
        (
            "a claim the pod does not have",
            resources(json!({"claims": [{"name": "x"}]})),
            &[
                r#"spec.containers[0].resources.claims[0]: Not found: "x": must be one of the names in pod.spec.resourceClaims which is empty"#,
            ],
        ),
    ]);
}

#[test]
fn security() {
    let context = |context: Value| with_container(json!({"securityContext": context}));
    check(&[
        (
            "a negative user",
            context(json!({"runAsUser": -1})),
            &[
                "spec.containers[0].securityContext.runAsUser: Invalid value: -1: must be between 0 and 2147483647, inclusive",
            ],
        ),
        (
            "privileged, but not to escalate",
            context(json!({"privileged": true, "allowPrivilegeEscalation": false})),
            &[
                r#"spec.containers[0].securityContext: Invalid value: {"allowPrivilegeEscalation":false,"privileged":true}: cannot set `allowPrivilegeEscalation` to false and `privileged` to true"#,
            ],
        ),
        (
            "a local profile without its name",
            context(json!({"seccompProfile": {"type": "Localhost"}})),
            &[
                "spec.containers[0].securityContext.seccompProfile.localhostProfile: Required value: must be set when seccomp type is Localhost",
            ],
        ),
        (
            "a kernel setting of the host",
            with_spec(json!({"hostNetwork": true, "securityContext": {"sysctls": [{"name": "net.core.somaxconn"}]}})),
            &[
                r#"spec.securityContext.sysctls[0].name: Invalid value: "net.core.somaxconn": may not be specified when 'hostNetwork' is true"#,
            ],
        ),
        (
            "Windows options on Linux",
            with_spec(json!({"os": {"name": "linux"}, "securityContext": {"windowsOptions": {}}})),
            &["spec.securityContext.windowsOptions: Forbidden: windows options cannot be set for a linux pod"],
        ),
        (
            "an unknown system",
            with_spec(json!({"os": {"name": "plan9"}})),
            &[r#"spec.os: Unsupported value: "plan9": supported values: "linux", "windows""#],
        ),
    ]);
}

#[test]
fn scheduling_rules() {
    let node_affinity = |term: Value| {
        with_spec(json!({"affinity": {"nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]},
        }}}))
    };
    let at = "spec.affinity.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[0]";
    let required = format!(
        "{at}.matchExpressions[0].values: Required value: must be specified when `operator` is 'In' or 'NotIn'"
    );
    let field = format!(r#"{at}.matchFields[0].key: Invalid value: "spec.x": not a valid field selector key"#);
    let weight = "spec.affinity.podAffinity.preferredDuringSchedulingIgnoredDuringExecution[0].weight: Invalid value: 0: must be in the range 1-100";
    check(&[
        ("tolerating everything", with_spec(json!({"tolerations": [{"operator": "Exists"}]})), &[]),
        (
            "tolerating for a time what does not evict",
            with_spec(json!({"tolerations": [{"key": "k", "effect": "NoSchedule", "tolerationSeconds": 1}]})),
            &[
                r#"spec.tolerations[0].effect: Invalid value: "NoSchedule": effect must be 'NoExecute' when `tolerationSeconds` is set"#,
            ],
        ),
        (
            "an expression without values",
            node_affinity(json!({"matchExpressions": [{"key": "k", "operator": "In"}]})),
            &[&required],
        ),
        (
            "a field of nodes that cannot be selected",
            node_affinity(json!({"matchFields": [{"key": "spec.x", "operator": "In", "values": ["a"]}]})),
            &[&field],
        ),
        (
            "a preference without weight",
            with_spec(json!({"affinity": {"podAffinity": {
                "preferredDuringSchedulingIgnoredDuringExecution": [{"weight": 0, "podAffinityTerm": {"topologyKey": "zone"}}],
            }}})),
            &[weight],
        ),
        (
            "no skew",
            with_spec(
                json!({"topologySpreadConstraints": [{"maxSkew": 0, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}]}),
            ),
            &["spec.topologySpreadConstraints[0].maxSkew: Invalid value: 0: must be greater than zero"],
        ),
        (
            "one constraint twice",
            with_spec(json!({"topologySpreadConstraints": [
                {"maxSkew": 1, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
                {"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"},
            ]})),
            &[
                r#"spec.topologySpreadConstraints[0].{topologyKey, whenUnsatisfiable}: Duplicate value: "{zone, DoNotSchedule}""#,
            ],
        ),
        (
            "one gate twice",
            with_spec(json!({"schedulingGates": [{"name": "g"}, {"name": "g"}]})),
            &[r#"spec.schedulingGates[1]: Duplicate value: "g""#],
        ),
    ]);
}

#[test]
fn the_rest_of_a_spec() {
    check(&[
        (
            "an unknown policy",
            with_spec(json!({"restartPolicy": "Sometimes"})),
            &[
                r#"spec.restartPolicy: Unsupported value: "Sometimes": supported values: "Always", "OnFailure", "Never""#,
            ],
        ),
        (
            "no resolver",
            with_spec(json!({"dnsPolicy": "None"})),
            &["spec.dnsConfig: Required value: must provide `dnsConfig` when `dnsPolicy` is None"],
        ),
        (
            "a resolver without an address",
            with_spec(json!({"dnsConfig": {"nameservers": ["dns"], "searches": ["a.b.", "_x.c", "D"]}})),
            &[
                r#"spec.dnsConfig.nameservers[0]: Invalid value: "dns": must be a valid IP address,"#,
                r#"spec.dnsConfig.searches[2]: Invalid value: "D": a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '_', '-' or '.', and must start and end with an alphanumeric character"#,
            ],
        ),
        (
            "an alias of nothing",
            with_spec(json!({"hostAliases": [{"ip": "x", "hostnames": ["a"]}]})),
            &[r#"spec.hostAliases[0].ip: Invalid value: "x": must be a valid IP address,"#],
        ),
        (
            "no time at all",
            with_spec(json!({"activeDeadlineSeconds": 0})),
            &["spec.activeDeadlineSeconds: Invalid value: 0: must be between 1 and 2147483647, inclusive"],
        ),
        (
            "users of its own on the host's network",
            with_spec(json!({"hostUsers": false, "hostPID": true})),
            &["spec.HostPID: Forbidden: when `hostUsers` is false"],
        ),
        (
            "another port on the host's network",
            {
                let mut spec = with_container(json!({"ports": [{"containerPort": 80, "hostPort": 8080}]}));
                spec["hostNetwork"] = json!(true);
                spec
            },
            &[
                "spec.containers[0].ports[0].hostPort: Invalid value: 8080: must match `containerPort` when `hostNetwork` is true",
            ],
        ),
        (
            "a name of its own and the host's network",
            with_spec(json!({"hostNetwork": true, "hostnameOverride": "a"})),
            &["spec.hostnameOverride: Forbidden: may not be specified when hostNetwork is true"],
        ),
    ]);
}
