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

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::api::core::v1::{
        ConfigMapVolumeSource, EmptyDirVolumeSource, EnvFromSource, EnvVar, EnvVarSource, HostPathVolumeSource,
        PodSpec, PodTemplateSpec,
    };
    use setpoint_api::revision::{AppRef, RevisionSpec};

    use super::*;
    use crate::deployer::AppName;

    fn revision(change: fn(&mut PodSpec)) -> RevisionOrder {
        let variable = EnvVar { name: "MODE".to_owned(), value: Some("fast".to_owned()), value_from: None };
        let container = Container { name: "main".to_owned(), env: Some(vec![variable]), ..Default::default() };
        let mut spec = PodSpec { containers: vec![container], ..Default::default() };
        change(&mut spec);
        RevisionOrder {
            app: AppName { namespace: "shop".to_owned(), name: "web".to_owned() },
            name: "web-3".to_owned(),
            uid: "1f2e".to_owned(),
            spec: RevisionSpec {
                app_ref: AppRef { name: "web".to_owned(), uid: None },
                number: 3,
                environment: "local".to_owned(),
                template: PodTemplateSpec { metadata: None, spec: Some(spec) },
                config: Vec::new(),
                parameters: BTreeMap::new(),
                drain_seconds: 30,
                digest: "d".to_owned(),
            },
            replicas: 1,
            intent: "warm".to_owned(),
        }
    }

    #[test]
    fn an_instance_needs_nothing_looked_up() {
        let pod = order(
            &revision(|spec| {
                let empty = core::Volume { empty_dir: Some(EmptyDirVolumeSource::default()), ..volume("scratch") };
                let host = HostPathVolumeSource { path: "/srv".to_owned(), type_: None };
                spec.volumes = Some(vec![empty, core::Volume { host_path: Some(host), ..volume("data") }]);
            }),
            7,
        )
        .unwrap();
        assert_eq!((&*pod.namespace, &*pod.name, &*pod.uid), ("shop", "web-3-7", "1f2e-7"));
        assert_eq!(pod.variables["main"].0, [("MODE".to_owned(), "fast".to_owned())]);
        assert_eq!(pod.volumes["scratch"], Volume::Empty);
        assert_eq!(pod.volumes["data"], Volume::Host { path: "/srv".to_owned() });
    }

    #[test]
    fn what_comes_from_elsewhere_is_refused() {
        type Change = fn(&mut PodSpec);
        let rows: [(&str, Change, &str); 3] = [
            (
                "a variable from a Secret",
                |spec| {
                    let value_from = Some(EnvVarSource::default());
                    let variable = EnvVar { name: "KEY".to_owned(), value: None, value_from };
                    spec.containers[0].env = Some(vec![variable]);
                },
                "web-3: spec.containers[main].env: refers to what is not here",
            ),
            (
                "all variables of a ConfigMap",
                |spec| spec.containers[0].env_from = Some(vec![EnvFromSource::default()]),
                "web-3: spec.containers[main].envFrom: refers to what is not here",
            ),
            (
                "a volume of a ConfigMap",
                |spec| {
                    let config_map = Some(ConfigMapVolumeSource::default());
                    spec.volumes = Some(vec![core::Volume { config_map, ..volume("config") }]);
                },
                "web-3: spec.volumes[config]: refers to what is not here",
            ),
        ];
        for (name, change, expected) in rows {
            let refused = order(&revision(change), 0).map(drop).map_err(|error| error.to_string());
            assert_eq!(refused, Err(expected.to_owned()), "{name}");
        }
    }

    fn volume(name: &str) -> core::Volume {
        core::Volume { name: name.to_owned(), ..Default::default() }
    }
}
