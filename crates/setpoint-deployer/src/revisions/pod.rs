//! A revision's instance as a Pod that needs nothing looked up.
//!
//! A template whose variables or volumes come from elsewhere is refused: who has the objects resolves them first.

use k8s_openapi::api::core::v1::{self as core, Container};

use crate::deployer::RevisionOrder;
use crate::error::{Error, Result};
use crate::provider::{PodOrder, Variables, Volume};

pub(super) fn order(revision: &RevisionOrder, index: u32) -> Result<PodOrder> {
    let target = &revision.name;
    let Some(spec) = revision.spec.template.spec.clone() else {
        return Err(Error::field(target, "spec.template.spec", "is required"));
    };
    let containers = spec.init_containers.iter().flatten().chain(&spec.containers);
    let variables = containers.map(|container| variables(target, container)).collect::<Result<_>>()?;
    let volumes = spec.volumes.iter().flatten().map(|volume| content(target, volume)).collect::<Result<_>>()?;
    Ok(PodOrder {
        namespace: revision.app.namespace.clone(),
        name: format!("{}-{index}", revision.name),
        uid: format!("{}-{index}", revision.uid),
        spec,
        variables,
        volumes,
    })
}

fn variables(target: &str, container: &Container) -> Result<(String, Variables)> {
    let refused = |what: &str| {
        Err(Error::field(target, &format!("spec.containers[{}].{what}", container.name), "refers to what is not here"))
    };
    if container.env_from.as_ref().is_some_and(|sources| !sources.is_empty()) {
        return refused("envFrom");
    }
    let mut variables = Vec::new();
    for variable in container.env.iter().flatten() {
        if variable.value_from.is_some() {
            return refused("env");
        }
        variables.push((variable.name.clone(), variable.value.clone().unwrap_or_default()));
    }
    Ok((container.name.clone(), Variables(variables)))
}

fn content(target: &str, volume: &core::Volume) -> Result<(String, Volume)> {
    let content = match volume {
        core::Volume { empty_dir: Some(_), .. } => Volume::Empty,
        core::Volume { host_path: Some(host), .. } => Volume::Host { path: host.path.clone() },
        _ => {
            let field = format!("spec.volumes[{}]", volume.name);
            return Err(Error::field(target, &field, "refers to what is not here"));
        }
    };
    Ok((volume.name.clone(), content))
}
