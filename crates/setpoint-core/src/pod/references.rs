//! What a Pod refers to: first what it needs, then what was found of it.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod, PodSpec, Secret, VolumeProjection};
use thiserror::Error;

use super::limits::{LimitError, MAX_VOLUME_BYTES};

/// How long a token lives where a Pod does not say.
const TOKEN_SECONDS: i64 = 3600;

/// The objects of a Pod's namespace that it refers to, and the tokens that it is to be given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Needs {
    pub config_maps: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
    pub tokens: BTreeSet<TokenNeed>,
}

/// A token of the Pod's service account.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenNeed {
    /// Whom it is for; the API server itself where empty.
    pub audience: String,
    pub expiration_seconds: i64,
}

/// What was found. What is needed and not in it does not exist.
#[derive(Clone, Default)]
pub struct Found {
    pub config_maps: BTreeMap<String, ConfigMap>,
    pub secrets: BTreeMap<String, Secret>,
    pub tokens: BTreeMap<TokenNeed, String>,
}

/// Where a reference leads nowhere.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum ReferenceError {
    #[error("configmap {name:?} not found")]
    NoConfigMap { name: String },
    #[error("secret {name:?} not found")]
    NoSecret { name: String },
    #[error("couldn't find key {key} in ConfigMap {namespace}/{name}")]
    NoConfigMapKey { namespace: String, name: String, key: String },
    #[error("couldn't find key {key} in Secret {namespace}/{name}")]
    NoSecretKey { namespace: String, name: String, key: String },
    #[error("no token for the audience {audience:?} of the Pod's service account")]
    NoToken { audience: String },
    #[error("{field}: {message}")]
    Field { field: String, message: String },
    #[error(transparent)]
    Limit(#[from] LimitError),
    #[error("the files of the Pod's volumes may have {MAX_VOLUME_BYTES} bytes together")]
    Volumes,
}

impl Needs {
    /// What a Pod refers to, optional or not.
    pub fn of(pod: &Pod) -> Needs {
        let mut needs = Needs::default();
        let Some(spec) = &pod.spec else { return needs };
        containers(spec).for_each(|container| needs.add_container(container));
        needs.add_volumes(spec);
        needs
    }

    /// What the files of a Pod's volumes are made of; they follow what they are made of.
    pub fn of_volumes(pod: &Pod) -> Needs {
        let mut needs = Needs::default();
        if let Some(spec) = &pod.spec {
            needs.add_volumes(spec);
        }
        needs
    }

    pub fn is_empty(&self) -> bool {
        *self == Needs::default()
    }

    fn add_container(&mut self, container: &Container) {
        for source in container.env_from.iter().flatten() {
            self.config_maps.extend(source.config_map_ref.iter().map(|reference| reference.name.clone()));
            self.secrets.extend(source.secret_ref.iter().map(|reference| reference.name.clone()));
        }
        for source in container.env.iter().flatten().filter_map(|variable| variable.value_from.as_ref()) {
            self.config_maps.extend(source.config_map_key_ref.iter().map(|reference| reference.name.clone()));
            self.secrets.extend(source.secret_key_ref.iter().map(|reference| reference.name.clone()));
        }
    }

    fn add_volumes(&mut self, spec: &PodSpec) {
        for volume in spec.volumes.iter().flatten() {
            self.config_maps.extend(volume.config_map.iter().map(|source| source.name.clone()));
            self.secrets.extend(volume.secret.iter().filter_map(|source| source.secret_name.clone()));
            let projected = volume.projected.iter().flat_map(|projected| projected.sources.iter().flatten());
            projected.for_each(|source| self.add_projection(source));
        }
    }

    fn add_projection(&mut self, source: &VolumeProjection) {
        self.config_maps.extend(source.config_map.iter().map(|source| source.name.clone()));
        self.secrets.extend(source.secret.iter().map(|source| source.name.clone()));
        self.tokens.extend(
            source
                .service_account_token
                .iter()
                .map(|token| TokenNeed::new(token.audience.as_deref(), token.expiration_seconds)),
        );
    }
}

impl TokenNeed {
    pub fn new(audience: Option<&str>, expiration_seconds: Option<i64>) -> TokenNeed {
        TokenNeed {
            audience: audience.unwrap_or_default().to_owned(),
            expiration_seconds: expiration_seconds.unwrap_or(TOKEN_SECONDS),
        }
    }
}

impl Found {
    /// A ConfigMap; `None` if it does not exist and need not.
    pub(super) fn config_map(&self, name: &str, optional: Option<bool>) -> Result<Option<&ConfigMap>, ReferenceError> {
        match self.config_maps.get(name) {
            None if !optional.unwrap_or(false) => Err(ReferenceError::NoConfigMap { name: name.to_owned() }),
            found => Ok(found),
        }
    }

    /// A Secret; `None` if it does not exist and need not.
    pub(super) fn secret(&self, name: &str, optional: Option<bool>) -> Result<Option<&Secret>, ReferenceError> {
        match self.secrets.get(name) {
            None if !optional.unwrap_or(false) => Err(ReferenceError::NoSecret { name: name.to_owned() }),
            found => Ok(found),
        }
    }
}

impl fmt::Debug for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Found")
            .field("config_maps", &self.config_maps.keys())
            .field("secrets", &self.secrets.keys())
            .field("tokens", &self.tokens.keys())
            .finish()
    }
}

/// Init containers, then the others.
pub(super) fn containers(spec: &PodSpec) -> impl Iterator<Item = &Container> {
    spec.init_containers.iter().flatten().chain(&spec.containers)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_needs_what_it_names_wherever_it_does() {
        let pod: Pod = serde_json::from_value(json!({"spec": {
            "initContainers": [{"name": "i", "env": [{"name": "A", "valueFrom": {"secretKeyRef": {"name": "s1", "key": "k"}}}]}],
            "containers": [{
                "name": "c",
                "envFrom": [{"configMapRef": {"name": "m1", "optional": true}}, {"secretRef": {"name": "s2"}}],
                "env": [{"name": "B", "valueFrom": {"configMapKeyRef": {"name": "m2", "key": "k"}}}, {"name": "C", "value": "c"}],
            }],
            "volumes": [
                {"name": "v1", "configMap": {"name": "m3"}},
                {"name": "v2", "secret": {"secretName": "s3"}},
                {"name": "v3", "emptyDir": {}},
                {"name": "v4", "projected": {"sources": [
                    {"configMap": {"name": "m4"}}, {"secret": {"name": "s4"}},
                    {"serviceAccountToken": {"path": "token", "audience": "vault", "expirationSeconds": 600}},
                    {"serviceAccountToken": {"path": "own"}},
                ]}},
            ],
        }}))
        .unwrap();
        let needs = Needs::of(&pod);
        assert_eq!(needs.config_maps, ["m1", "m2", "m3", "m4"].map(str::to_owned).into());
        assert_eq!(needs.secrets, ["s1", "s2", "s3", "s4"].map(str::to_owned).into());
        let tokens = [TokenNeed::new(None, None), TokenNeed::new(Some("vault"), Some(600))];
        assert_eq!(needs.tokens, tokens.into());
        let of_volumes = Needs::of_volumes(&pod);
        assert_eq!(of_volumes.config_maps, ["m3", "m4"].map(str::to_owned).into());
        assert_eq!(of_volumes.secrets, ["s3", "s4"].map(str::to_owned).into());
        assert!(Needs::of(&Pod::default()).is_empty());
    }
}
