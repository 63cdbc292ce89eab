//! The schemas of the kinds that are built in.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::{
    apps, authentication, authorization, autoscaling, batch, coordination, core, discovery, events, networking, policy,
    rbac, storage,
};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use k8s_openapi::apimachinery::pkg::apis::meta;
use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value};

use super::{Definition, Schema, Shape, compile};

/// Every type of the built-in kinds, by name.
#[derive(Debug, Clone)]
pub struct Schemas {
    pub(super) definitions: Arc<[Definition]>,
    pub(super) names: HashMap<Box<str>, usize>,
}

impl Schemas {
    pub fn built_in() -> Schemas {
        let (definitions, names) = compile::compile(&definitions_as_json());
        Schemas { definitions: definitions.into(), names }
    }

    /// The schema of a type, by its full name such as `io.k8s.api.core.v1.Pod`.
    pub fn get(&self, name: &str) -> Option<Schema> {
        let root = Shape::Object(*self.names.get(name)?);
        Some(Schema { definitions: Arc::clone(&self.definitions), root })
    }

    /// The full names of all types.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.keys().map(|name| &**name)
    }
}

/// All definitions as JSON Schema, descriptions included. Large: for those who use it up.
pub(crate) fn definitions_as_json() -> Map<String, Value> {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let all: &[fn(&mut SchemaGenerator)] = &[
        add::<CustomResourceDefinition>,
        add::<apps::v1::ControllerRevision>,
        add::<apps::v1::DaemonSet>,
        add::<apps::v1::Deployment>,
        add::<apps::v1::ReplicaSet>,
        add::<apps::v1::StatefulSet>,
        add::<authentication::v1::SelfSubjectReview>,
        add::<authentication::v1::TokenRequest>,
        add::<authentication::v1::TokenReview>,
        add::<authorization::v1::LocalSubjectAccessReview>,
        add::<authorization::v1::SelfSubjectAccessReview>,
        add::<authorization::v1::SelfSubjectRulesReview>,
        add::<authorization::v1::SubjectAccessReview>,
        add::<autoscaling::v1::Scale>,
        add::<autoscaling::v2::HorizontalPodAutoscaler>,
        add::<batch::v1::CronJob>,
        add::<batch::v1::Job>,
        add::<coordination::v1::Lease>,
        add::<core::v1::Binding>,
        add::<core::v1::ConfigMap>,
        add::<core::v1::Endpoints>,
        add::<core::v1::Event>,
        add::<core::v1::Namespace>,
        add::<core::v1::Node>,
        add::<core::v1::PersistentVolumeClaim>,
        add::<core::v1::Pod>,
        add::<core::v1::Secret>,
        add::<core::v1::Service>,
        add::<core::v1::ServiceAccount>,
        add::<discovery::v1::EndpointSlice>,
        add::<events::v1::Event>,
        add::<meta::v1::APIResourceList>,
        add::<meta::v1::DeleteOptions>,
        add::<meta::v1::ListMeta>,
        add::<meta::v1::Status>,
        add::<networking::v1::Ingress>,
        add::<networking::v1::IngressClass>,
        add::<networking::v1::NetworkPolicy>,
        add::<policy::v1::Eviction>,
        add::<policy::v1::PodDisruptionBudget>,
        add::<rbac::v1::ClusterRole>,
        add::<rbac::v1::ClusterRoleBinding>,
        add::<rbac::v1::Role>,
        add::<rbac::v1::RoleBinding>,
        add::<storage::v1::StorageClass>,
    ];
    for add in all {
        add(&mut generator);
    }
    generator.take_definitions(false)
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}
