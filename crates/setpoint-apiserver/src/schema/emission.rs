//! Which fields Kubernetes leaves out when they are empty, and which it writes though nobody gave them.
//!
//! That depends on the Go type behind a field, which its schema does not tell: a plain field is left out when zero, a
//! pointer is written when set, a struct is always there. What most fields do follows from the schema; the tables name
//! the fields that do otherwise.

use super::{Emission, Shape};

/// How a field is written. `of_kind` says that the type it belongs to is a kind, with `metadata`.
pub(super) fn emission(type_name: &str, field: &str, shape: &Shape, required: bool, of_kind: bool) -> Emission {
    let listed = |table: &[(&str, &[&str])]| {
        let row = table.iter().find(|(name, _)| *name == type_name);
        row.is_some_and(|(_, fields)| fields.contains(&field))
    };
    if listed(NULL_WHEN_ABSENT) {
        Emission::AlwaysOrNull
    } else if listed(ALWAYS) {
        Emission::Always
    } else if listed(OMITTED_WHEN_ZERO) {
        Emission::OmitZero
    } else if listed(AS_GIVEN) {
        Emission::AsGiven
    } else if required || of_kind && matches!(shape, Shape::Object(_)) && PARTS_OF_A_KIND.contains(&field) {
        Emission::Always
    } else {
        match shape {
            Shape::String | Shape::Bytes | Shape::List(_) | Shape::Map(_) => Emission::OmitZero,
            Shape::Boolean if field == "readOnly" => Emission::OmitZero,
            _ => Emission::AsGiven,
        }
    }
}

/// All rows, so that a test can see that they name fields that exist.
#[cfg(test)]
pub(super) fn tables() -> impl Iterator<Item = &'static (&'static str, &'static [&'static str])> {
    [ALWAYS, NULL_WHEN_ABSENT, OMITTED_WHEN_ZERO, AS_GIVEN].into_iter().flatten()
}

/// The parts that every kind has.
const PARTS_OF_A_KIND: [&str; 3] = ["metadata", "spec", "status"];

/// Optional structs, times, lists and texts that are written even when they were not given.
const ALWAYS: &[(&str, &[&str])] = &[
    ("apiextensions.v1.CustomResourceDefinitionStatus", &["acceptedNames", "conditions", "storedVersions"]),
    ("apps.v1.ControllerRevision", &["data"]),
    ("apps.v1.DaemonSetCondition", &["lastTransitionTime"]),
    ("apps.v1.DaemonSetSpec", &["updateStrategy"]),
    ("apps.v1.DeploymentCondition", &["lastTransitionTime", "lastUpdateTime"]),
    ("apps.v1.DeploymentSpec", &["strategy"]),
    ("apps.v1.ReplicaSetCondition", &["lastTransitionTime"]),
    ("apps.v1.ReplicaSetSpec", &["template"]),
    ("apps.v1.StatefulSetCondition", &["lastTransitionTime"]),
    ("apps.v1.StatefulSetOrdinals", &["start"]),
    ("apps.v1.StatefulSetSpec", &["serviceName", "updateStrategy"]),
    ("apps.v1.StatefulSetStatus", &["availableReplicas"]),
    ("authentication.v1.SelfSubjectReviewStatus", &["userInfo"]),
    ("authentication.v1.TokenReviewStatus", &["user"]),
    ("autoscaling.v2.HorizontalPodAutoscalerCondition", &["lastTransitionTime"]),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", &["currentMetrics"]),
    ("batch.v1.JobCondition", &["lastProbeTime", "lastTransitionTime"]),
    ("batch.v1.JobTemplateSpec", &["metadata", "spec"]),
    ("batch.v1.PodFailurePolicyOnPodConditionsPattern", &["status"]),
    ("core.v1.Container", &["resources"]),
    ("core.v1.ContainerImage", &["names"]),
    ("core.v1.ContainerStateRunning", &["startedAt"]),
    ("core.v1.ContainerStateTerminated", &["finishedAt", "startedAt"]),
    ("core.v1.ContainerStatus", &["lastState", "state"]),
    ("core.v1.EphemeralContainer", &["resources"]),
    (
        "core.v1.Event",
        &["eventTime", "firstTimestamp", "lastTimestamp", "reportingComponent", "reportingInstance", "source"],
    ),
    ("core.v1.EventSeries", &["lastObservedTime"]),
    ("core.v1.NamespaceCondition", &["lastTransitionTime"]),
    ("core.v1.NodeCondition", &["lastHeartbeatTime", "lastTransitionTime"]),
    ("core.v1.NodeDaemonEndpoints", &["kubeletEndpoint"]),
    ("core.v1.NodeRuntimeHandler", &["name"]),
    ("core.v1.NodeStatus", &["daemonEndpoints", "nodeInfo"]),
    ("core.v1.PersistentVolumeClaimCondition", &["lastProbeTime", "lastTransitionTime"]),
    ("core.v1.PersistentVolumeClaimSpec", &["resources"]),
    ("core.v1.PersistentVolumeClaimTemplate", &["metadata"]),
    ("core.v1.PodCondition", &["lastProbeTime", "lastTransitionTime"]),
    ("core.v1.PodTemplateSpec", &["metadata", "spec"]),
    ("core.v1.ProjectedVolumeSource", &["sources"]),
    ("core.v1.ResourceFieldSelector", &["divisor"]),
    ("core.v1.ServicePort", &["targetPort"]),
    ("core.v1.ServiceStatus", &["loadBalancer"]),
    ("discovery.v1.Endpoint", &["conditions"]),
    ("discovery.v1.EndpointSlice", &["endpoints", "ports"]),
    (
        "events.v1.Event",
        &["deprecatedFirstTimestamp", "deprecatedLastTimestamp", "deprecatedSource", "eventTime", "regarding"],
    ),
    ("networking.v1.IngressServiceBackend", &["port"]),
    ("networking.v1.IngressStatus", &["loadBalancer"]),
    ("networking.v1.NetworkPolicySpec", &["podSelector"]),
    ("rbac.v1.ClusterRole", &["rules"]),
    ("rbac.v1.Role", &["rules"]),
];

/// Pointers that are written as null when they were not given.
const NULL_WHEN_ABSENT: &[(&str, &[&str])] = &[
    ("apps.v1.DaemonSetSpec", &["selector"]),
    ("apps.v1.DeploymentSpec", &["selector"]),
    ("apps.v1.ReplicaSetSpec", &["selector"]),
    ("apps.v1.StatefulSetSpec", &["selector"]),
    ("authentication.v1.TokenRequestSpec", &["boundObjectRef"]),
    ("core.v1.GRPCAction", &["service"]),
    ("core.v1.ScaleIOVolumeSource", &["secretRef"]),
    ("core.v1.TypedLocalObjectReference", &["apiGroup"]),
    ("core.v1.TypedObjectReference", &["apiGroup"]),
    ("networking.v1.HTTPIngressPath", &["pathType"]),
];

/// Numbers and booleans of which zero means "not given", and required texts that are left out when empty.
const OMITTED_WHEN_ZERO: &[(&str, &[&str])] = &[
    ("apiextensions.v1.CustomResourceColumnDefinition", &["priority"]),
    ("apiextensions.v1.CustomResourceDefinitionSpec", &["preserveUnknownFields"]),
    ("apiextensions.v1.CustomResourceDefinitionVersion", &["deprecated"]),
    (
        "apiextensions.v1.JSONSchemaProps",
        &[
            "exclusiveMaximum",
            "exclusiveMinimum",
            "nullable",
            "uniqueItems",
            "x-kubernetes-embedded-resource",
            "x-kubernetes-int-or-string",
        ],
    ),
    ("apps.v1.DaemonSetSpec", &["minReadySeconds"]),
    (
        "apps.v1.DaemonSetStatus",
        &["numberAvailable", "numberUnavailable", "observedGeneration", "updatedNumberScheduled"],
    ),
    ("apps.v1.DeploymentSpec", &["minReadySeconds", "paused"]),
    (
        "apps.v1.DeploymentStatus",
        &[
            "availableReplicas",
            "observedGeneration",
            "readyReplicas",
            "replicas",
            "unavailableReplicas",
            "updatedReplicas",
        ],
    ),
    ("apps.v1.ReplicaSetSpec", &["minReadySeconds"]),
    ("apps.v1.ReplicaSetStatus", &["availableReplicas", "fullyLabeledReplicas", "observedGeneration", "readyReplicas"]),
    ("apps.v1.StatefulSetSpec", &["minReadySeconds"]),
    ("apps.v1.StatefulSetStatus", &["currentReplicas", "observedGeneration", "readyReplicas", "updatedReplicas"]),
    ("authentication.v1.TokenReviewStatus", &["authenticated"]),
    ("authorization.v1.SubjectAccessReviewStatus", &["denied"]),
    ("autoscaling.v1.ScaleSpec", &["replicas"]),
    ("autoscaling.v2.HorizontalPodAutoscalerStatus", &["currentReplicas"]),
    ("batch.v1.JobStatus", &["active", "failed", "succeeded"]),
    ("core.v1.AWSElasticBlockStoreVolumeSource", &["partition"]),
    ("core.v1.ConfigMapEnvSource", &["name"]),
    ("core.v1.ConfigMapKeySelector", &["name"]),
    ("core.v1.ConfigMapProjection", &["name"]),
    ("core.v1.ConfigMapVolumeSource", &["name"]),
    ("core.v1.Container", &["stdin", "stdinOnce", "tty"]),
    ("core.v1.ContainerImage", &["sizeBytes"]),
    ("core.v1.ContainerPort", &["hostPort"]),
    ("core.v1.ContainerRestartRule", &["action"]),
    ("core.v1.ContainerRestartRuleOnExitCodes", &["operator"]),
    ("core.v1.ContainerStateTerminated", &["signal"]),
    ("core.v1.EphemeralContainer", &["stdin", "stdinOnce", "tty"]),
    ("core.v1.Event", &["count"]),
    ("core.v1.EventSeries", &["count"]),
    ("core.v1.GCEPersistentDiskVolumeSource", &["partition"]),
    ("core.v1.ISCSIVolumeSource", &["chapAuthDiscovery", "chapAuthSession"]),
    ("core.v1.ImageVolumeStatus", &["imageRef"]),
    ("core.v1.LocalObjectReference", &["name"]),
    ("core.v1.NodeSpec", &["unschedulable"]),
    ("core.v1.PodCertificateProjection", &["keyType", "signerName"]),
    ("core.v1.PodCondition", &["observedGeneration"]),
    ("core.v1.PodSpec", &["hostIPC", "hostNetwork", "hostPID"]),
    ("core.v1.PodStatus", &["observedGeneration"]),
    (
        "core.v1.Probe",
        &["failureThreshold", "initialDelaySeconds", "periodSeconds", "successThreshold", "timeoutSeconds"],
    ),
    ("core.v1.ScaleIOVolumeSource", &["sslEnabled"]),
    ("core.v1.SecretEnvSource", &["name"]),
    ("core.v1.SecretKeySelector", &["name"]),
    ("core.v1.SecretProjection", &["name"]),
    ("core.v1.ServicePort", &["nodePort"]),
    ("core.v1.ServiceSpec", &["healthCheckNodePort", "publishNotReadyAddresses"]),
    ("events.v1.Event", &["deprecatedCount"]),
    ("meta.v1.Condition", &["observedGeneration"]),
    ("meta.v1.ObjectMeta", &["generation"]),
    ("meta.v1.Status", &["code"]),
    ("meta.v1.StatusDetails", &["retryAfterSeconds"]),
    ("networking.v1.ServiceBackendPort", &["number"]),
    ("policy.v1.PodDisruptionBudgetStatus", &["observedGeneration"]),
];

/// Pointers to texts, which may be given as "", and the two pointers among the booleans called `readOnly`.
const AS_GIVEN: &[(&str, &[&str])] = &[
    ("apiextensions.v1.CustomResourceDefinitionVersion", &["deprecationWarning"]),
    ("apiextensions.v1.CustomResourceSubresourceScale", &["labelSelectorPath"]),
    ("apiextensions.v1.JSONSchemaProps", &["$ref", "x-kubernetes-list-type", "x-kubernetes-map-type"]),
    ("apiextensions.v1.ValidationRule", &["reason"]),
    ("autoscaling.v2.HPAScalingRules", &["policies", "selectPolicy"]),
    ("batch.v1.CronJobSpec", &["timeZone"]),
    ("batch.v1.JobSpec", &["completionMode", "managedBy", "podReplacementPolicy"]),
    ("batch.v1.JobStatus", &["failedIndexes"]),
    ("batch.v1.PodFailurePolicyOnExitCodesRequirement", &["containerName"]),
    ("batch.v1.SuccessPolicyRule", &["succeededIndexes"]),
    ("coordination.v1.LeaseSpec", &["holderIdentity", "preferredHolder", "strategy"]),
    ("core.v1.AppArmorProfile", &["localhostProfile"]),
    ("core.v1.AzureDiskVolumeSource", &["cachingMode", "fsType", "kind", "readOnly"]),
    ("core.v1.CSIVolumeSource", &["fsType", "readOnly"]),
    ("core.v1.ClusterTrustBundleProjection", &["name", "signerName"]),
    ("core.v1.Container", &["restartPolicy"]),
    ("core.v1.ContainerStatus", &["stopSignal"]),
    ("core.v1.EndpointAddress", &["nodeName"]),
    ("core.v1.EndpointPort", &["appProtocol"]),
    ("core.v1.EphemeralContainer", &["restartPolicy"]),
    ("core.v1.HostPathVolumeSource", &["type"]),
    ("core.v1.ISCSIVolumeSource", &["initiatorName"]),
    ("core.v1.Lifecycle", &["stopSignal"]),
    ("core.v1.LoadBalancerIngress", &["ipMode"]),
    ("core.v1.PersistentVolumeClaimSpec", &["storageClassName", "volumeAttributesClassName", "volumeMode"]),
    ("core.v1.PersistentVolumeClaimStatus", &["currentVolumeAttributesClassName"]),
    ("core.v1.PodDNSConfigOption", &["value"]),
    ("core.v1.PodResourceClaim", &["resourceClaimName", "resourceClaimTemplateName"]),
    ("core.v1.PodResourceClaimStatus", &["resourceClaimName"]),
    ("core.v1.PodSchedulingGroup", &["podGroupName"]),
    ("core.v1.PodSecurityContext", &["fsGroupChangePolicy", "seLinuxChangePolicy", "supplementalGroupsPolicy"]),
    ("core.v1.PodSpec", &["hostnameOverride", "preemptionPolicy", "runtimeClassName"]),
    ("core.v1.PortStatus", &["error"]),
    ("core.v1.ResourceHealth", &["message"]),
    ("core.v1.SeccompProfile", &["localhostProfile"]),
    ("core.v1.SecurityContext", &["procMount"]),
    ("core.v1.ServicePort", &["appProtocol"]),
    ("core.v1.ServiceSpec", &["internalTrafficPolicy", "ipFamilyPolicy", "loadBalancerClass", "trafficDistribution"]),
    ("core.v1.TopologySpreadConstraint", &["nodeAffinityPolicy", "nodeTaintsPolicy"]),
    ("core.v1.TypedObjectReference", &["namespace"]),
    ("core.v1.VolumeMount", &["mountPropagation", "recursiveReadOnly"]),
    ("core.v1.VolumeMountStatus", &["recursiveReadOnly"]),
    ("core.v1.WindowsSecurityContextOptions", &["gmsaCredentialSpec", "gmsaCredentialSpecName", "runAsUserName"]),
    ("discovery.v1.Endpoint", &["hostname", "nodeName", "zone"]),
    ("discovery.v1.EndpointPort", &["appProtocol", "name", "protocol"]),
    ("meta.v1.DeleteOptions", &["propagationPolicy"]),
    // Whether the record of who set what is cleared: an empty list is not the same as none.
    ("meta.v1.ObjectMeta", &["managedFields"]),
    ("meta.v1.Preconditions", &["resourceVersion", "uid"]),
    ("networking.v1.IngressClassParametersReference", &["apiGroup", "namespace", "scope"]),
    ("networking.v1.IngressPortStatus", &["error"]),
    ("networking.v1.IngressSpec", &["ingressClassName"]),
    ("networking.v1.NetworkPolicyPort", &["protocol"]),
    ("policy.v1.PodDisruptionBudgetSpec", &["unhealthyPodEvictionPolicy"]),
    ("storage.v1.StorageClass", &["reclaimPolicy", "volumeBindingMode"]),
];
