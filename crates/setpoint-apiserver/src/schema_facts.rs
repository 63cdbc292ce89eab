//! What Kubernetes' schemas know about lists, maps and patches, and the types of k8s-openapi do not tell.
//!
//! A field that is not in these tables has the common case: its list is one atomic value for an apply, a map is merged key
//! by key, and a strategic merge patch replaces lists and merges objects.

/// How an apply sees the elements of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum List {
    /// As one value.
    Atomic,
    /// As values that may occur once.
    Set,
    /// As objects told apart by these fields.
    Map(&'static [&'static str]),
}

/// How a strategic merge patch treats a field.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Patch {
    /// A list is merged with the patch's instead of being replaced by it.
    pub merge: bool,
    /// The field that tells the objects of a merged list apart.
    pub merge_key: Option<&'static str>,
    /// Clients tell which of the object's fields stay (`$retainKeys`).
    pub retain_keys: bool,
    /// An object is replaced by the patch's instead of being merged with it.
    pub replace: bool,
}

impl Patch {
    /// What Kubernetes' schemas call it; none for the common case.
    pub fn strategy(self) -> Option<&'static str> {
        match (self.merge, self.retain_keys) {
            _ if self.replace => Some("replace"),
            (false, false) => None,
            (true, false) => Some("merge"),
            (false, true) => Some("retainKeys"),
            (true, true) => Some("merge,retainKeys"),
        }
    }
}

/// What is particular to one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Fact {
    /// The type's name, such as `core.v1.PodSpec`.
    pub type_name: &'static str,
    pub field: &'static str,
    pub list: List,
    pub patch: Patch,
}

/// The name of a definition in these tables: `io.k8s.api.core.v1.Pod` is `core.v1.Pod`.
pub fn short_name(definition: &str) -> &str {
    let packages = ["io.k8s.api.", "io.k8s.apimachinery.pkg.apis.", "io.k8s.apiextensions-apiserver.pkg.apis."];
    packages.iter().find_map(|package| definition.strip_prefix(package)).unwrap_or(definition)
}

pub fn fact(type_name: &str, field: &str) -> Option<&'static Fact> {
    FACTS.iter().find(|fact| fact.type_name == type_name && fact.field == field)
}

/// Whether an apply sees objects of this type as one value.
pub fn is_atomic_type(type_name: &str) -> bool {
    ATOMIC_TYPES.contains(&type_name)
}

/// Whether an apply sees the map in this field as one value.
pub fn is_atomic_map(type_name: &str, field: &str) -> bool {
    ATOMIC_MAPS.contains(&(type_name, field))
}

/// What the key of a list is where it is left out. A field that is always written needs no row: it is then zero.
pub fn key_default(type_name: &str, field: &str) -> Option<&'static str> {
    let row = KEY_DEFAULTS.iter().find(|(name, key, _)| *name == type_name && *key == field);
    row.map(|(_, _, default)| *default)
}

pub fn facts() -> &'static [Fact] {
    FACTS
}

pub fn atomic_types() -> &'static [&'static str] {
    ATOMIC_TYPES
}

pub fn atomic_maps() -> &'static [(&'static str, &'static str)] {
    ATOMIC_MAPS
}

const fn atomic(type_name: &'static str, field: &'static str) -> Fact {
    let patch = Patch { merge: false, merge_key: None, retain_keys: false, replace: false };
    Fact { type_name, field, list: List::Atomic, patch }
}

const fn set(type_name: &'static str, field: &'static str) -> Fact {
    Fact { list: List::Set, ..atomic(type_name, field) }
}

const fn map(type_name: &'static str, field: &'static str, keys: &'static [&'static str]) -> Fact {
    Fact { list: List::Map(keys), ..atomic(type_name, field) }
}

impl Fact {
    const fn merging(self, merge_key: Option<&'static str>) -> Fact {
        Fact { patch: Patch { merge: true, merge_key, ..self.patch }, ..self }
    }

    const fn retaining_keys(self) -> Fact {
        Fact { patch: Patch { retain_keys: true, ..self.patch }, ..self }
    }

    const fn replacing(self) -> Fact {
        Fact { patch: Patch { replace: true, ..self.patch }, ..self }
    }
}

#[rustfmt::skip]
const FACTS: &[Fact] = &[
    map("apiextensions.v1.CustomResourceDefinitionStatus", "conditions", &["type"]),
    map("apiextensions.v1.JSONSchemaProps", "x-kubernetes-validations", &["rule"]).merging(Some("rule")),
    map("apps.v1.DaemonSetStatus", "conditions", &["type"]).merging(Some("type")),
    atomic("apps.v1.DeploymentSpec", "strategy").retaining_keys(),
    map("apps.v1.DeploymentStatus", "conditions", &["type"]).merging(Some("type")),
    map("apps.v1.ReplicaSetStatus", "conditions", &["type"]).merging(Some("type")),
    map("apps.v1.StatefulSetStatus", "conditions", &["type"]).merging(Some("type")),
    map("autoscaling.v2.HorizontalPodAutoscalerStatus", "conditions", &["type"]).merging(Some("type")),
    atomic("batch.v1.JobStatus", "conditions").merging(Some("type")),
    set("batch.v1.PodFailurePolicyOnExitCodesRequirement", "values"),
    set("batch.v1.UncountedTerminatedPods", "failed"),
    set("batch.v1.UncountedTerminatedPods", "succeeded"),
    map("core.v1.Container", "env", &["name"]).merging(Some("name")),
    map("core.v1.Container", "ports", &["containerPort", "protocol"]).merging(Some("containerPort")),
    map("core.v1.Container", "volumeDevices", &["devicePath"]).merging(Some("devicePath")),
    map("core.v1.Container", "volumeMounts", &["mountPath"]).merging(Some("mountPath")),
    set("core.v1.ContainerRestartRuleOnExitCodes", "values"),
    map("core.v1.ContainerStatus", "allocatedResourcesStatus", &["name"]).merging(Some("name")),
    map("core.v1.ContainerStatus", "volumeMounts", &["mountPath"]).merging(Some("mountPath")),
    map("core.v1.EphemeralContainer", "env", &["name"]).merging(Some("name")),
    map("core.v1.EphemeralContainer", "ports", &["containerPort", "protocol"]).merging(Some("containerPort")),
    map("core.v1.EphemeralContainer", "volumeDevices", &["devicePath"]).merging(Some("devicePath")),
    map("core.v1.EphemeralContainer", "volumeMounts", &["mountPath"]).merging(Some("mountPath")),
    map("core.v1.NamespaceStatus", "conditions", &["type"]).merging(Some("type")),
    set("core.v1.NodeAllocatableResourceClaimStatus", "containers"),
    set("core.v1.NodeSpec", "podCIDRs").merging(None),
    map("core.v1.NodeStatus", "addresses", &["type"]).merging(Some("type")),
    map("core.v1.NodeStatus", "conditions", &["type"]).merging(Some("type")),
    map("core.v1.PersistentVolumeClaimStatus", "conditions", &["type"]).merging(Some("type")),
    map("core.v1.PodSpec", "containers", &["name"]).merging(Some("name")),
    map("core.v1.PodSpec", "ephemeralContainers", &["name"]).merging(Some("name")),
    map("core.v1.PodSpec", "hostAliases", &["ip"]).merging(Some("ip")),
    map("core.v1.PodSpec", "imagePullSecrets", &["name"]).merging(Some("name")),
    map("core.v1.PodSpec", "initContainers", &["name"]).merging(Some("name")),
    map("core.v1.PodSpec", "resourceClaims", &["name"]).merging(Some("name")).retaining_keys(),
    map("core.v1.PodSpec", "schedulingGates", &["name"]).merging(Some("name")),
    map("core.v1.PodSpec", "topologySpreadConstraints", &["topologyKey", "whenUnsatisfiable"]).merging(Some("topologyKey")),
    map("core.v1.PodSpec", "volumes", &["name"]).merging(Some("name")).retaining_keys(),
    map("core.v1.PodStatus", "conditions", &["type"]).merging(Some("type")),
    atomic("core.v1.PodStatus", "hostIPs").merging(Some("ip")),
    map("core.v1.PodStatus", "podIPs", &["ip"]).merging(Some("ip")),
    map("core.v1.PodStatus", "resourceClaimStatuses", &["name"]).merging(Some("name")).retaining_keys(),
    map("core.v1.ResourceRequirements", "claims", &["name"]),
    map("core.v1.ResourceStatus", "resources", &["resourceID"]),
    map("core.v1.ServiceAccount", "secrets", &["name"]).merging(Some("name")),
    map("core.v1.ServiceSpec", "ports", &["port", "protocol"]).merging(Some("port")),
    map("core.v1.ServiceStatus", "conditions", &["type"]).merging(Some("type")),
    set("discovery.v1.Endpoint", "addresses"),
    set("meta.v1.ObjectMeta", "finalizers").merging(None),
    map("meta.v1.ObjectMeta", "ownerReferences", &["uid"]).merging(Some("uid")),
    atomic("policy.v1.PodDisruptionBudgetSpec", "selector").replacing(),
    map("policy.v1.PodDisruptionBudgetStatus", "conditions", &["type"]).merging(Some("type")),
];

const KEY_DEFAULTS: &[(&str, &str, &str)] = &[
    ("core.v1.ContainerPort", "protocol", "TCP"),
    ("core.v1.LocalObjectReference", "name", ""),
    ("core.v1.ServicePort", "protocol", "TCP"),
];

const ATOMIC_MAPS: &[(&str, &str)] = &[("core.v1.PodSpec", "nodeSelector"), ("core.v1.ServiceSpec", "selector")];

const ATOMIC_TYPES: &[&str] = &[
    "core.v1.ConfigMapKeySelector",
    "core.v1.EndpointAddress",
    "core.v1.EndpointPort",
    "core.v1.FileKeySelector",
    "core.v1.LocalObjectReference",
    "core.v1.NodeSelector",
    "core.v1.NodeSelectorTerm",
    "core.v1.ObjectFieldSelector",
    "core.v1.ObjectReference",
    "core.v1.ResourceFieldSelector",
    "core.v1.SecretKeySelector",
    "core.v1.TopologySelectorTerm",
    "core.v1.TypedLocalObjectReference",
    "discovery.v1.EndpointPort",
    "meta.v1.LabelSelector",
    "meta.v1.OwnerReference",
    "networking.v1.ServiceBackendPort",
    "rbac.v1.RoleRef",
    "rbac.v1.Subject",
];
