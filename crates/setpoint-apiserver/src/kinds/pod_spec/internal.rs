//! Pod specs as Kubernetes shows them to someone who changed what may not change.
//!
//! It shows them in the form its own code has them: every field in a fixed order, also those that are not set, under
//! names of its own. The tables below are that form.

use serde_json::Value;

/// A field: its name in the internal form, its name in the API, and how it is shown.
type Row = (&'static str, &'static str, Form);

#[derive(Debug, Clone, Copy)]
enum Form {
    /// A text, "" where it is absent.
    Text,
    /// A number, 0 where it is absent.
    Number,
    /// A boolean, false where it is absent.
    Flag,
    /// Anything, null where it is absent.
    Any,
    /// An object that is always there.
    Part(&'static [Row]),
    /// An object, null where it is absent.
    Optional(&'static [Row]),
    /// A list of objects, null where it is absent.
    List(&'static [Row]),
}

use Form::{Any, Flag, List, Number, Optional, Part, Text};

const POD_SPEC: &[Row] = &[
    ("Volumes", "volumes", List(VOLUME)),
    ("InitContainers", "initContainers", List(CONTAINER)),
    ("Containers", "containers", List(CONTAINER)),
    ("EphemeralContainers", "ephemeralContainers", List(EPHEMERAL_CONTAINER)),
    ("RestartPolicy", "restartPolicy", Text),
    ("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Any),
    ("ActiveDeadlineSeconds", "activeDeadlineSeconds", Any),
    ("DNSPolicy", "dnsPolicy", Text),
    ("NodeSelector", "nodeSelector", Any),
    ("ServiceAccountName", "serviceAccountName", Text),
    ("AutomountServiceAccountToken", "automountServiceAccountToken", Any),
    ("NodeName", "nodeName", Text),
    ("SecurityContext", "securityContext", Optional(POD_SECURITY_CONTEXT)),
    ("ImagePullSecrets", "imagePullSecrets", List(&[("Name", "name", Text)])),
    ("Hostname", "hostname", Text),
    ("Subdomain", "subdomain", Text),
    ("SetHostnameAsFQDN", "setHostnameAsFQDN", Any),
    ("Affinity", "affinity", Optional(AFFINITY)),
    ("SchedulerName", "schedulerName", Text),
    ("Tolerations", "tolerations", List(TOLERATION)),
    ("HostAliases", "hostAliases", List(&[("IP", "ip", Text), ("Hostnames", "hostnames", Any)])),
    ("PriorityClassName", "priorityClassName", Text),
    ("Priority", "priority", Any),
    ("PreemptionPolicy", "preemptionPolicy", Any),
    ("DNSConfig", "dnsConfig", Any),
    ("ReadinessGates", "readinessGates", List(&[("ConditionType", "conditionType", Text)])),
    ("RuntimeClassName", "runtimeClassName", Any),
    ("Overhead", "overhead", Any),
    ("EnableServiceLinks", "enableServiceLinks", Any),
    ("TopologySpreadConstraints", "topologySpreadConstraints", List(TOPOLOGY_SPREAD_CONSTRAINT)),
    ("OS", "os", Optional(&[("Name", "name", Text)])),
    ("SchedulingGates", "schedulingGates", List(&[("Name", "name", Text)])),
    ("ResourceClaims", "resourceClaims", Any),
    ("Resources", "resources", Optional(RESOURCES)),
    ("HostnameOverride", "hostnameOverride", Any),
    ("SchedulingGroup", "schedulingGroup", Any),
];

/// These stand directly in the spec in the API, and in the security context in the internal form.
const KEPT_IN_SECURITY_CONTEXT: [&str; 5] = ["hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace", "hostUsers"];

const POD_SECURITY_CONTEXT: &[Row] = &[
    ("HostNetwork", "hostNetwork", Flag),
    ("HostPID", "hostPID", Flag),
    ("HostIPC", "hostIPC", Flag),
    ("ShareProcessNamespace", "shareProcessNamespace", Any),
    ("HostUsers", "hostUsers", Any),
    ("SELinuxOptions", "seLinuxOptions", Any),
    ("WindowsOptions", "windowsOptions", Any),
    ("RunAsUser", "runAsUser", Any),
    ("RunAsGroup", "runAsGroup", Any),
    ("RunAsNonRoot", "runAsNonRoot", Any),
    ("SupplementalGroups", "supplementalGroups", Any),
    ("SupplementalGroupsPolicy", "supplementalGroupsPolicy", Any),
    ("FSGroup", "fsGroup", Any),
    ("FSGroupChangePolicy", "fsGroupChangePolicy", Any),
    ("Sysctls", "sysctls", Any),
    ("SeccompProfile", "seccompProfile", Any),
    ("AppArmorProfile", "appArmorProfile", Any),
    ("SELinuxChangePolicy", "seLinuxChangePolicy", Any),
];

macro_rules! container {
    ($($more:expr),*) => {
        &[
            ("Name", "name", Text),
            ("Image", "image", Text),
            ("Command", "command", Any),
            ("Args", "args", Any),
            ("WorkingDir", "workingDir", Text),
            ("Ports", "ports", List(PORT)),
            ("EnvFrom", "envFrom", List(ENVIRONMENT_SOURCE)),
            ("Env", "env", List(VARIABLE)),
            ("Resources", "resources", Part(RESOURCES)),
            ("ResizePolicy", "resizePolicy", List(&[("ResourceName", "resourceName", Text), ("RestartPolicy", "restartPolicy", Text)])),
            ("RestartPolicy", "restartPolicy", Any),
            ("RestartPolicyRules", "restartPolicyRules", Any),
            ("VolumeMounts", "volumeMounts", List(MOUNT)),
            ("VolumeDevices", "volumeDevices", List(&[("Name", "name", Text), ("DevicePath", "devicePath", Text)])),
            ("LivenessProbe", "livenessProbe", Optional(PROBE)),
            ("ReadinessProbe", "readinessProbe", Optional(PROBE)),
            ("StartupProbe", "startupProbe", Optional(PROBE)),
            ("Lifecycle", "lifecycle", Optional(LIFECYCLE)),
            ("TerminationMessagePath", "terminationMessagePath", Text),
            ("TerminationMessagePolicy", "terminationMessagePolicy", Text),
            ("ImagePullPolicy", "imagePullPolicy", Text),
            ("SecurityContext", "securityContext", Optional(SECURITY_CONTEXT)),
            ("Stdin", "stdin", Flag),
            ("StdinOnce", "stdinOnce", Flag),
            ("TTY", "tty", Flag),
            $($more),*
        ]
    };
}

const CONTAINER: &[Row] = container!();
const EPHEMERAL_CONTAINER: &[Row] = container!(("TargetContainerName", "targetContainerName", Text));

const RESOURCES: &[Row] = &[("Limits", "limits", Any), ("Requests", "requests", Any), ("Claims", "claims", Any)];

const PORT: &[Row] = &[
    ("Name", "name", Text),
    ("HostPort", "hostPort", Number),
    ("ContainerPort", "containerPort", Number),
    ("Protocol", "protocol", Text),
    ("HostIP", "hostIP", Text),
];

const KEY_REFERENCE: &[Row] = &[("Name", "name", Text), ("Key", "key", Text), ("Optional", "optional", Any)];
const NAME_REFERENCE: &[Row] = &[("Name", "name", Text), ("Optional", "optional", Any)];
const FIELD_REFERENCE: &[Row] = &[("APIVersion", "apiVersion", Text), ("FieldPath", "fieldPath", Text)];
const RESOURCE_REFERENCE: &[Row] =
    &[("ContainerName", "containerName", Text), ("Resource", "resource", Text), ("Divisor", "divisor", Text)];

const ENVIRONMENT_SOURCE: &[Row] = &[
    ("Prefix", "prefix", Text),
    ("ConfigMapRef", "configMapRef", Optional(NAME_REFERENCE)),
    ("SecretRef", "secretRef", Optional(NAME_REFERENCE)),
];

const VARIABLE: &[Row] = &[
    ("Name", "name", Text),
    ("Value", "value", Text),
    (
        "ValueFrom",
        "valueFrom",
        Optional(&[
            ("FieldRef", "fieldRef", Optional(FIELD_REFERENCE)),
            ("ResourceFieldRef", "resourceFieldRef", Optional(RESOURCE_REFERENCE)),
            ("ConfigMapKeyRef", "configMapKeyRef", Optional(KEY_REFERENCE)),
            ("SecretKeyRef", "secretKeyRef", Optional(KEY_REFERENCE)),
            ("FileKeyRef", "fileKeyRef", Any),
        ]),
    ),
];

const MOUNT: &[Row] = &[
    ("Name", "name", Text),
    ("ReadOnly", "readOnly", Flag),
    ("RecursiveReadOnly", "recursiveReadOnly", Any),
    ("MountPath", "mountPath", Text),
    ("SubPath", "subPath", Text),
    ("MountPropagation", "mountPropagation", Any),
    ("SubPathExpr", "subPathExpr", Text),
];

const EXEC: Form = Optional(&[("Command", "command", Any)]);
const TCP_SOCKET: Form = Optional(&[("Port", "port", Any), ("Host", "host", Text)]);
const HTTP_GET: Form = Optional(&[
    ("Path", "path", Text),
    ("Port", "port", Any),
    ("Host", "host", Text),
    ("Scheme", "scheme", Text),
    ("HTTPHeaders", "httpHeaders", List(&[("Name", "name", Text), ("Value", "value", Text)])),
]);

const PROBE: &[Row] = &[
    ("Exec", "exec", EXEC),
    ("HTTPGet", "httpGet", HTTP_GET),
    ("TCPSocket", "tcpSocket", TCP_SOCKET),
    ("GRPC", "grpc", Optional(&[("Port", "port", Number), ("Service", "service", Any)])),
    ("InitialDelaySeconds", "initialDelaySeconds", Number),
    ("TimeoutSeconds", "timeoutSeconds", Number),
    ("PeriodSeconds", "periodSeconds", Number),
    ("SuccessThreshold", "successThreshold", Number),
    ("FailureThreshold", "failureThreshold", Number),
    ("TerminationGracePeriodSeconds", "terminationGracePeriodSeconds", Any),
];

const HOOK: &[Row] = &[
    ("Exec", "exec", EXEC),
    ("HTTPGet", "httpGet", HTTP_GET),
    ("TCPSocket", "tcpSocket", TCP_SOCKET),
    ("Sleep", "sleep", Optional(&[("Seconds", "seconds", Number)])),
];

const LIFECYCLE: &[Row] = &[
    ("PostStart", "postStart", Optional(HOOK)),
    ("PreStop", "preStop", Optional(HOOK)),
    ("StopSignal", "stopSignal", Any),
];

const SECURITY_CONTEXT: &[Row] = &[
    ("Capabilities", "capabilities", Optional(&[("Add", "add", Any), ("Drop", "drop", Any)])),
    ("Privileged", "privileged", Any),
    ("SELinuxOptions", "seLinuxOptions", Any),
    ("WindowsOptions", "windowsOptions", Any),
    ("RunAsUser", "runAsUser", Any),
    ("RunAsGroup", "runAsGroup", Any),
    ("RunAsNonRoot", "runAsNonRoot", Any),
    ("ReadOnlyRootFilesystem", "readOnlyRootFilesystem", Any),
    ("AllowPrivilegeEscalation", "allowPrivilegeEscalation", Any),
    ("ProcMount", "procMount", Any),
    ("SeccompProfile", "seccompProfile", Any),
    ("AppArmorProfile", "appArmorProfile", Any),
];

const AFFINITY: &[Row] = &[
    ("NodeAffinity", "nodeAffinity", Any),
    ("PodAffinity", "podAffinity", Any),
    ("PodAntiAffinity", "podAntiAffinity", Any),
];

const TOLERATION: &[Row] = &[
    ("Key", "key", Text),
    ("Operator", "operator", Text),
    ("Value", "value", Text),
    ("Effect", "effect", Text),
    ("TolerationSeconds", "tolerationSeconds", Any),
];

const TOPOLOGY_SPREAD_CONSTRAINT: &[Row] = &[
    ("MaxSkew", "maxSkew", Number),
    ("TopologyKey", "topologyKey", Text),
    ("WhenUnsatisfiable", "whenUnsatisfiable", Text),
    ("LabelSelector", "labelSelector", Any),
    ("MinDomains", "minDomains", Any),
    ("NodeAffinityPolicy", "nodeAffinityPolicy", Any),
    ("NodeTaintsPolicy", "nodeTaintsPolicy", Any),
    ("MatchLabelKeys", "matchLabelKeys", Any),
];

const FILES: Form = List(&[("Key", "key", Text), ("Path", "path", Text), ("Mode", "mode", Any)]);

const VOLUME: &[Row] = &[
    ("Name", "name", Text),
    ("HostPath", "hostPath", Optional(&[("Path", "path", Text), ("Type", "type", Any)])),
    ("EmptyDir", "emptyDir", Optional(&[("Medium", "medium", Text), ("SizeLimit", "sizeLimit", Any)])),
    ("GCEPersistentDisk", "gcePersistentDisk", Any),
    ("AWSElasticBlockStore", "awsElasticBlockStore", Any),
    ("GitRepo", "gitRepo", Any),
    (
        "Secret",
        "secret",
        Optional(&[
            ("SecretName", "secretName", Text),
            ("Items", "items", FILES),
            ("DefaultMode", "defaultMode", Any),
            ("Optional", "optional", Any),
        ]),
    ),
    ("NFS", "nfs", Optional(&[("Server", "server", Text), ("Path", "path", Text), ("ReadOnly", "readOnly", Flag)])),
    ("ISCSI", "iscsi", Any),
    ("Glusterfs", "glusterfs", Any),
    (
        "PersistentVolumeClaim",
        "persistentVolumeClaim",
        Optional(&[("ClaimName", "claimName", Text), ("ReadOnly", "readOnly", Flag)]),
    ),
    ("RBD", "rbd", Any),
    ("FlexVolume", "flexVolume", Any),
    ("Cinder", "cinder", Any),
    ("CephFS", "cephfs", Any),
    ("Flocker", "flocker", Any),
    ("DownwardAPI", "downwardAPI", Any),
    ("FC", "fc", Any),
    ("AzureFile", "azureFile", Any),
    (
        "ConfigMap",
        "configMap",
        Optional(&[
            ("Name", "name", Text),
            ("Items", "items", FILES),
            ("DefaultMode", "defaultMode", Any),
            ("Optional", "optional", Any),
        ]),
    ),
    ("VsphereVolume", "vsphereVolume", Any),
    ("Quobyte", "quobyte", Any),
    ("AzureDisk", "azureDisk", Any),
    ("PhotonPersistentDisk", "photonPersistentDisk", Any),
    ("Projected", "projected", Any),
    ("PortworxVolume", "portworxVolume", Any),
    ("ScaleIO", "scaleIO", Any),
    ("StorageOS", "storageos", Any),
    ("CSI", "csi", Any),
    ("Ephemeral", "ephemeral", Any),
    ("Image", "image", Any),
];

const CLAIM_SPEC: &[Row] = &[
    ("AccessModes", "accessModes", Any),
    ("Selector", "selector", Any),
    ("Resources", "resources", Part(&[("Limits", "limits", Any), ("Requests", "requests", Any)])),
    ("VolumeName", "volumeName", Text),
    ("StorageClassName", "storageClassName", Any),
    ("VolumeMode", "volumeMode", Any),
    ("DataSource", "dataSource", Optional(CLAIM_SOURCE)),
    (
        "DataSourceRef",
        "dataSourceRef",
        Optional(&[
            ("APIGroup", "apiGroup", Any),
            ("Kind", "kind", Text),
            ("Name", "name", Text),
            ("Namespace", "namespace", Any),
        ]),
    ),
    ("VolumeAttributesClassName", "volumeAttributesClassName", Any),
];

const CLAIM_SOURCE: &[Row] = &[("APIGroup", "apiGroup", Any), ("Kind", "kind", Text), ("Name", "name", Text)];

/// What differs between two pod specs, in the unified form with three lines of context.
pub(in crate::kinds) fn spec_difference(old: &Value, new: &Value) -> String {
    difference(&with_security_context(old), &with_security_context(new), POD_SPEC)
}

/// What differs between the specs of two claims for a volume.
pub(in crate::kinds) fn claim_difference(old: &Value, new: &Value) -> String {
    difference(old, new, CLAIM_SPEC)
}

fn difference(old: &Value, new: &Value, form: &'static [Row]) -> String {
    let lines = |value: &Value| {
        let mut writer = Writer { text: String::new(), indented: true };
        writer.show(value, Part(form), 0);
        writer.text.lines().map(str::to_owned).collect::<Vec<_>>()
    };
    super::difference::unified(&lines(old), &lines(new))
}

/// A pod template in one line. Its metadata stands beside its spec, not around its labels.
pub(in crate::kinds) fn template_as_text(template: &Value) -> String {
    let mut writer = Writer { text: String::new(), indented: false };
    let metadata =
        template["metadata"].as_object().into_iter().flatten().map(|(name, value)| (name.as_str(), value, Any));
    let spec = with_security_context(&template["spec"]);
    writer.entries(metadata.chain([("Spec", &spec, Part(POD_SPEC))]), 0);
    writer.text
}

fn with_security_context(spec: &Value) -> Value {
    let mut spec = spec.clone();
    for field in KEPT_IN_SECURITY_CONTEXT {
        let value = spec[field].take();
        if !value.is_null() && spec["securityContext"].is_object() {
            spec["securityContext"][field] = value;
        }
    }
    spec
}

/// How much is shown: every element comes with all the fields it could have, so a long list becomes a far longer text.
const MAX_SHOWN: usize = 256 * 1024;

/// Writes values as JSON, the fields of an object in their fixed order.
#[derive(Debug)]
struct Writer {
    text: String,
    /// On lines of their own, each level one space further in; else all in one line without spaces.
    indented: bool,
}

impl Writer {
    fn show(&mut self, value: &Value, form: Form, depth: usize) {
        match form {
            Text => self.scalar(&value.as_str().unwrap_or_default().into()),
            Number => self.scalar(&value.as_i64().unwrap_or(0).into()),
            Flag => self.scalar(&(value.as_bool() == Some(true)).into()),
            Optional(_) | List(_) if value.is_null() => self.scalar(value),
            Part(rows) | Optional(rows) => {
                self.entries(rows.iter().map(|(name, field, form)| (*name, &value[*field], *form)), depth);
            }
            List(rows) => self.items(value.as_array().map(Vec::as_slice).unwrap_or_default(), Part(rows), depth),
            Any => match value {
                Value::Object(fields) => {
                    self.entries(fields.iter().map(|(name, value)| (name.as_str(), value, Any)), depth);
                }
                Value::Array(items) => self.items(items, Any, depth),
                scalar => self.scalar(scalar),
            },
        }
    }

    fn scalar(&mut self, value: &Value) {
        self.text.push_str(&value.to_string());
    }

    fn entries<'v>(&mut self, entries: impl Iterator<Item = (&'v str, &'v Value, Form)>, depth: usize) {
        self.text.push('{');
        let mut empty = true;
        for (name, value, form) in entries {
            self.next(&mut empty, depth);
            if self.is_full() {
                break;
            }
            self.scalar(&name.into());
            self.text.push_str(if self.indented { ": " } else { ":" });
            self.show(value, form, depth + 1);
        }
        self.close('}', empty, depth);
    }

    fn items(&mut self, items: &[Value], form: Form, depth: usize) {
        self.text.push('[');
        let mut empty = true;
        for item in items {
            self.next(&mut empty, depth);
            if self.is_full() {
                break;
            }
            self.show(item, form, depth + 1);
        }
        self.close(']', empty, depth);
    }

    /// Whether there is no room for more, which the text then says.
    fn is_full(&mut self) -> bool {
        let full = self.text.len() >= MAX_SHOWN;
        if full {
            self.text.push('…');
        }
        full
    }

    fn next(&mut self, empty: &mut bool, depth: usize) {
        if !std::mem::replace(empty, false) {
            self.text.push(',');
        }
        self.new_line(depth + 1);
    }

    fn close(&mut self, bracket: char, empty: bool, depth: usize) {
        if !empty {
            self.new_line(depth);
        }
        self.text.push(bracket);
    }

    fn new_line(&mut self, depth: usize) {
        if self.indented {
            self.text.push('\n');
            self.text.extend(std::iter::repeat_n(' ', depth));
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_template_is_shown_with_everything_it_could_have() {
        let template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"hostNetwork": true, "securityContext": {}, "containers": [{"name": "c"}]},
        });
        let text = template_as_text(&template);
        let rows = [
            ("metadata is beside the spec", r#"{"labels":{"a":"b"},"Spec":{"Volumes":null,"#),
            ("an absent text is empty", r#""Containers":[{"Name":"c","Image":"","Command":null,"#),
            ("an absent object stands", r#""Resources":{"Limits":null,"Requests":null,"Claims":null},"#),
            (
                "the host's network is in the security context",
                r#""SecurityContext":{"HostNetwork":true,"HostPID":false,"#,
            ),
        ];
        for (name, expected) in rows {
            assert!(text.contains(expected), "{name}: {text}");
        }
    }

    #[test]
    fn a_long_template_is_cut() {
        let template = json!({"spec": {"containers": vec![json!({"name": "c"}); 10_000]}});
        let text = template_as_text(&template);
        assert!(text.len() < MAX_SHOWN + 1024, "{}", text.len());
        assert!(text.ends_with("…}}"), "it says so");
    }
}
