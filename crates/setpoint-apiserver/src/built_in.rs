//! The kinds that are served from the start.

use std::sync::Arc;

use crate::kind::Behaviour;
use crate::kinds;
use crate::kinds::custom_resource_definition::CustomResourceDefinition;
use crate::registry::{DEFINITIONS, Registry, Resource, Rules, Subresource};
use crate::reviews::Review;
use crate::schema::Schemas;

/// All built-in resources.
pub fn registry(schemas: &Schemas) -> Registry {
    use Subresource::{Attach, Binding, EphemeralContainers, Eviction, Exec, Finalize, Log, Scale, Status, Token};
    let new = |group: &'static str, version: &'static str, kind: &'static str, behaviour: Arc<dyn Behaviour>| {
        let name = definition_name(group, version, kind);
        let schema = schemas.get(&name).unwrap_or_else(|| panic!("{name} is among the built-in schemas"));
        Resource::new(group, version, kind, behaviour, schema)
    };
    let core = |kind: &'static str, short_name: &'static str, behaviour: Arc<dyn Behaviour>| {
        let mut resource = new("", "v1", kind, behaviour);
        resource.short_names.push(short_name.into());
        resource
    };
    let mut registry = Registry::default();

    registry.add(core("ConfigMap", "cm", Arc::new(kinds::config_map::ConfigMap)));
    registry.add(Resource {
        plural: "endpoints".into(),
        singular: "endpoints".into(),
        rules: Rules { creates_on_update: true, ..Rules::default() },
        ..core("Endpoints", "ep", Arc::new(kinds::endpoints::Endpoints))
    });
    registry.add(Resource {
        rules: Rules { creates_on_update: true, ..Rules::default() },
        ..core("Event", "ev", Arc::new(kinds::event::CoreEvent))
    });
    registry.add(Resource {
        namespaced: false,
        subresources: vec![Finalize, Status],
        rules: Rules { keeps_collection: true, returns_deleted: true, ..Rules::default() },
        ..core("Namespace", "ns", Arc::new(kinds::namespace::Namespace))
    });
    registry.add(Resource {
        namespaced: false,
        subresources: vec![Status],
        ..core("Node", "no", Arc::new(kinds::node::Node))
    });
    registry.add(Resource {
        subresources: vec![Status],
        rules: Rules { returns_deleted: true, ..Rules::default() },
        ..core("PersistentVolumeClaim", "pvc", Arc::new(kinds::persistent_volume_claim::PersistentVolumeClaim))
    });
    registry.add(Resource {
        categories: vec!["all".into()],
        subresources: vec![Attach, Binding, EphemeralContainers, Eviction, Exec, Log, Status],
        rules: Rules { returns_deleted: true, ..Rules::default() },
        ..core("Pod", "po", Arc::new(kinds::pod::Pod))
    });
    registry.add(new("", "v1", "Secret", Arc::new(kinds::secret::Secret)));
    registry.add(Resource {
        categories: vec!["all".into()],
        subresources: vec![Status],
        rules: Rules { creates_on_update: true, returns_deleted: true, ..Rules::default() },
        ..core("Service", "svc", Arc::new(kinds::service::Service))
    });
    registry.add(Resource {
        subresources: vec![Token],
        rules: Rules { returns_deleted: true, ..Rules::default() },
        ..core("ServiceAccount", "sa", Arc::new(kinds::service_account::ServiceAccount))
    });

    registry.add(Resource {
        namespaced: false,
        short_names: vec!["crd".into(), "crds".into()],
        categories: vec!["api-extensions".into()],
        subresources: vec![Status],
        rules: Rules { needs_revision: true, ..Rules::default() },
        ..new(DEFINITIONS.0, "v1", "CustomResourceDefinition", Arc::new(CustomResourceDefinition))
    });
    registry.add(new("apps", "v1", "ControllerRevision", Arc::new(kinds::controller_revision::ControllerRevision)));
    registry.add(Resource {
        short_names: vec!["ds".into()],
        categories: vec!["all".into()],
        subresources: vec![Status],
        ..new("apps", "v1", "DaemonSet", Arc::new(kinds::daemon_set::DaemonSet))
    });
    registry.add(Resource {
        short_names: vec!["deploy".into()],
        categories: vec!["all".into()],
        subresources: vec![Scale, Status],
        ..new("apps", "v1", "Deployment", Arc::new(kinds::deployment::Deployment))
    });
    registry.add(Resource {
        short_names: vec!["rs".into()],
        categories: vec!["all".into()],
        subresources: vec![Scale, Status],
        ..new("apps", "v1", "ReplicaSet", Arc::new(kinds::replica_set::ReplicaSet))
    });
    registry.add(Resource {
        short_names: vec!["sts".into()],
        categories: vec!["all".into()],
        subresources: vec![Scale, Status],
        ..new("apps", "v1", "StatefulSet", Arc::new(kinds::stateful_set::StatefulSet))
    });
    for review in Review::ALL {
        let resource = new(review.group(), "v1", review.kind(), Arc::new(review));
        registry.add(Resource { namespaced: review == Review::LocalSubjectAccess, review: Some(review), ..resource });
    }
    registry.add(Resource {
        short_names: vec!["hpa".into()],
        categories: vec!["all".into()],
        subresources: vec![Status],
        ..new(
            "autoscaling",
            "v2",
            "HorizontalPodAutoscaler",
            Arc::new(kinds::horizontal_pod_autoscaler::HorizontalPodAutoscaler),
        )
    });
    registry.add(Resource {
        short_names: vec!["cj".into()],
        categories: vec!["all".into()],
        subresources: vec![Status],
        ..new("batch", "v1", "CronJob", Arc::new(kinds::cron_job::CronJob))
    });
    registry.add(Resource {
        categories: vec!["all".into()],
        subresources: vec![Status],
        rules: Rules { orphans_by_default: true, ..Rules::default() },
        ..new("batch", "v1", "Job", Arc::new(kinds::job::Job))
    });
    registry.add(Resource {
        rules: Rules { creates_on_update: true, needs_revision: true, ..Rules::default() },
        ..new("coordination.k8s.io", "v1", "Lease", Arc::new(kinds::lease::Lease))
    });
    registry.add(new("discovery.k8s.io", "v1", "EndpointSlice", Arc::new(kinds::endpoint_slice::EndpointSlice)));
    registry.add(Resource {
        short_names: vec!["ev".into()],
        stored_in: Some("".into()),
        rules: Rules { creates_on_update: true, ..Rules::default() },
        ..new("events.k8s.io", "v1", "Event", Arc::new(kinds::event::EventsEvent))
    });
    registry.add(Resource {
        plural: "ingresses".into(),
        short_names: vec!["ing".into()],
        subresources: vec![Status],
        ..new("networking.k8s.io", "v1", "Ingress", Arc::new(kinds::ingress::Ingress))
    });
    registry.add(Resource {
        plural: "ingressclasses".into(),
        namespaced: false,
        ..new("networking.k8s.io", "v1", "IngressClass", Arc::new(kinds::ingress_class::IngressClass))
    });
    registry.add(Resource {
        plural: "networkpolicies".into(),
        short_names: vec!["netpol".into()],
        ..new("networking.k8s.io", "v1", "NetworkPolicy", Arc::new(kinds::network_policy::NetworkPolicy))
    });
    registry.add(Resource {
        short_names: vec!["pdb".into()],
        subresources: vec![Status],
        rules: Rules { needs_revision: true, ..Rules::default() },
        ..new("policy", "v1", "PodDisruptionBudget", Arc::new(kinds::pod_disruption_budget::PodDisruptionBudget))
    });
    let rbac = |kind: &'static str, namespaced: bool, behaviour: Arc<dyn Behaviour>| Resource {
        namespaced,
        rules: Rules { creates_on_update: true, ..Rules::default() },
        ..new(kinds::rbac::GROUP, "v1", kind, behaviour)
    };
    registry.add(rbac("ClusterRole", false, Arc::new(kinds::rbac::role::ClusterRole)));
    registry.add(rbac("ClusterRoleBinding", false, Arc::new(kinds::rbac::binding::ClusterRoleBinding)));
    registry.add(rbac("Role", true, Arc::new(kinds::rbac::role::Role)));
    registry.add(rbac("RoleBinding", true, Arc::new(kinds::rbac::binding::RoleBinding)));
    registry.add(Resource {
        plural: "storageclasses".into(),
        namespaced: false,
        short_names: vec!["sc".into()],
        rules: Rules { returns_deleted: true, ..Rules::default() },
        ..new("storage.k8s.io", "v1", "StorageClass", Arc::new(kinds::storage_class::StorageClass))
    });
    registry
}

/// The full name of a kind's schema, such as `io.k8s.api.core.v1.Pod`, or `com.example.v1.Widget` for a custom one.
pub fn definition_name(group: &str, version: &str, kind: &str) -> String {
    let is_of_kubernetes = |package: &str| !package.contains('.') || group == kinds::rbac::GROUP;
    if group.contains('.') && !group.strip_suffix(".k8s.io").is_some_and(is_of_kubernetes) {
        let reversed: Vec<&str> = group.rsplit('.').collect();
        return format!("{}.{version}.{kind}", reversed.join("."));
    }
    let package = group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
    let root = if group == DEFINITIONS.0 { "io.k8s.apiextensions-apiserver.pkg.apis" } else { "io.k8s.api" };
    format!("{root}.{package}.{version}.{kind}")
}

/// The shape that all scalable kinds share. It is not served by itself.
pub fn scale(schemas: &Schemas) -> Resource {
    let schema = schemas.get("io.k8s.api.autoscaling.v1.Scale").expect("Scale is among the built-in schemas");
    Resource::new("autoscaling", "v1", "Scale", Arc::new(kinds::scale::Scale), schema)
}

/// What the `token` subresource of ServiceAccounts takes and gives. It is not served by itself.
pub fn token_request(schemas: &Schemas) -> Resource {
    let (group, kind) = ("authentication.k8s.io", "TokenRequest");
    let schema = schemas.get(&definition_name(group, "v1", kind)).expect("TokenRequest is among the built-in schemas");
    Resource::new(group, "v1", kind, Arc::new(Review::Token), schema)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_name_column_and_as_many_cells_as_columns() {
        let now = "2030-01-01T00:00:00Z".parse().expect("a time");
        for resource in registry(&Schemas::built_in()).resources() {
            let columns = resource.behaviour.columns();
            assert!(columns.iter().any(|column| column.format == "name"), "{}", resource.kind);
            let empty = serde_json::json!({"metadata": {"name": "a"}});
            assert_eq!(resource.behaviour.cells(&empty, now).len(), columns.len(), "{}", resource.kind);
        }
    }
}
