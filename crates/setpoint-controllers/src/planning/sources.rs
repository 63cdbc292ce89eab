//! The Secrets and ConfigMaps that Machines name, each read once.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{Api, Client};
use setpoint_api::interpolation::{Source, SourceKind};

use super::Subject;

/// Those that are there. What is missing is for the reader of a Machine to say.
pub(super) async fn read(client: &Client, subjects: &[&Subject]) -> Result<Vec<Source>, kube::Error> {
    let named: BTreeSet<(&str, SourceKind, &str)> = subjects
        .iter()
        .flat_map(|subject| {
            let namespace = subject.machine.metadata.namespace.as_deref().unwrap_or_default();
            subject.machine.spec.sources().into_iter().map(move |(kind, name)| (namespace, kind, name))
        })
        .collect();
    let mut sources = Vec::with_capacity(named.len());
    for (namespace, kind, name) in named {
        let values = match kind {
            SourceKind::Secret => secret(client, namespace, name).await?,
            SourceKind::ConfigMap => config_map(client, namespace, name).await?,
        };
        let (namespace, name) = (namespace.to_owned(), name.to_owned());
        sources.extend(values.map(|values| Source { kind, namespace, name, values }));
    }
    Ok(sources)
}

type Values = BTreeMap<String, Vec<u8>>;

async fn secret(client: &Client, namespace: &str, name: &str) -> Result<Option<Values>, kube::Error> {
    let secret = Api::<Secret>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(secret.map(|secret| secret.data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0)).collect()))
}

async fn config_map(client: &Client, namespace: &str, name: &str) -> Result<Option<Values>, kube::Error> {
    let map = Api::<ConfigMap>::namespaced(client.clone(), namespace).get_opt(name).await?;
    Ok(map.map(|map| {
        let texts = map.data.into_iter().flatten().map(|(key, text)| (key, text.into_bytes()));
        let bytes = map.binary_data.into_iter().flatten().map(|(key, bytes)| (key, bytes.0));
        texts.chain(bytes).collect()
    }))
}
