//! Whether a Pod can run as processes here: what is wrong with it is found before anything touches the disk.

use std::collections::BTreeSet;
use std::path::{Component, Path};

use k8s_openapi::api::core::v1::{Container, PodSecurityContext, VolumeMount};

use super::privileges::{Ourselves, Unable, unable_for_container, unable_for_pod};
use super::termination_log::{self, Placement};
use crate::error::{Error, Result, SpecError};
use crate::provider::{Body, Order, PodOrder, Volume};

/// The name under which the folder of a volume keeps its present files, and what its own entries begin with.
pub(super) const RESERVED_PREFIX: &str = "..";

/// The Pod of an order, if it can run as processes that we start.
pub(super) fn inspect(order: &Order, ourselves: Ourselves) -> Result<&PodOrder> {
    let Body::Pod(pod) = &order.body else {
        return Err(SpecError::Unable { deployer: "process".to_owned(), ability: "run Machines".to_owned() }.into());
    };
    let inspector = Inspector { pod, target: &order.name, ourselves, our_user: ourselves.user };
    if order.intent().is_empty() {
        return Err(inspector.wrong("mark.intent".to_owned(), "an instance is made under an intent"));
    }
    inspector.volumes()?;
    inspector.groups()?;
    inspector.able("spec", unable_for_pod(&pod.spec))?;
    inspector.containers()?;
    Ok(pod)
}

struct Inspector<'o> {
    pod: &'o PodOrder,
    target: &'o str,
    ourselves: Ourselves,
    our_user: u32,
}

impl Inspector<'_> {
    fn wrong(&self, field: String, message: impl Into<String>) -> Error {
        Error::field(self.target, &field, message)
    }

    fn volumes(&self) -> Result<()> {
        for (index, volume) in self.pod.spec.volumes.iter().flatten().enumerate() {
            let field = format!("spec.volumes[{index}]");
            self.name(&field, &volume.name)?;
            let Some(content) = self.pod.volumes.get(&volume.name) else {
                return Err(self.wrong(field, "processes cannot have a volume of this kind"));
            };
            match content {
                Volume::Host { path } if !Path::new(path).is_absolute() || path.contains('\0') => {
                    return Err(self.wrong(format!("{field}.hostPath.path"), "must be an absolute path"));
                }
                Volume::Files(files) => {
                    if let Some(path) = files.keys().find(|path| !is_inner(path)) {
                        let message = format!("{path:?} is not the path of a file in the volume");
                        return Err(self.wrong(field, message));
                    }
                }
                Volume::Empty | Volume::Host { .. } => {}
            }
        }
        Ok(())
    }

    fn able(&self, field: &str, unable: Option<Unable>) -> Result<()> {
        unable.map_or(Ok(()), |Unable { field: inner, message }| Err(self.wrong(format!("{field}.{inner}"), message)))
    }

    /// Only root can give processes other groups.
    fn groups(&self) -> Result<()> {
        let Some(context) = &self.pod.spec.security_context else { return Ok(()) };
        if self.our_user == 0 {
            return Ok(());
        }
        let PodSecurityContext { fs_group, supplemental_groups, .. } = context;
        let has_groups = supplemental_groups.as_ref().is_some_and(|groups| !groups.is_empty());
        let asked = [("fsGroup", fs_group.is_some()), ("supplementalGroups", has_groups)];
        match asked.into_iter().find(|(_, is_asked)| *is_asked) {
            Some((name, _)) => {
                let message = "only a control plane that runs as root can give processes other groups";
                Err(self.wrong(format!("spec.securityContext.{name}"), message))
            }
            None => Ok(()),
        }
    }

    fn containers(&self) -> Result<()> {
        let spec = &self.pod.spec;
        if spec.containers.is_empty() {
            return Err(self.wrong("spec.containers".to_owned(), "a Pod has at least one container"));
        }
        let mut names = BTreeSet::new();
        let first = spec.init_containers.iter().flatten().enumerate();
        let first = first.map(|(index, container)| (format!("spec.initContainers[{index}]"), container));
        let main = spec.containers.iter().enumerate();
        let main = main.map(|(index, container)| (format!("spec.containers[{index}]"), container));
        for (field, container) in first.chain(main) {
            self.container(&field, container)?;
            if !names.insert(&container.name) {
                return Err(self.wrong(format!("{field}.name"), "another container has this name"));
            }
        }
        Ok(())
    }

    fn container(&self, field: &str, container: &Container) -> Result<()> {
        self.name(field, &container.name)?;
        let command = container.command.as_deref().unwrap_or_default();
        if command.first().is_none_or(String::is_empty) {
            let message = "a process has no image to take its command from: say what is to run";
            return Err(self.wrong(format!("{field}.command"), message));
        }
        let texts = [("command", command), ("args", container.args.as_deref().unwrap_or_default())];
        for (name, texts) in texts {
            if texts.iter().any(|text| text.contains('\0')) {
                return Err(self.wrong(format!("{field}.{name}"), "no text may hold a NUL"));
            }
        }
        if container.working_dir.as_ref().is_some_and(|path| path.contains('\0')) {
            return Err(self.wrong(format!("{field}.workingDir"), "no path may hold a NUL"));
        }
        let variables = self.pod.variables.get(&container.name);
        for (name, value) in variables.iter().flat_map(|variables| &variables.0) {
            if name.is_empty() || name.contains(['=', '\0']) || value.contains('\0') {
                return Err(self.wrong(format!("{field}.env"), format!("{name:?} cannot be a variable of a process")));
            }
        }
        if container.volume_devices.as_ref().is_some_and(|devices| !devices.is_empty()) {
            return Err(self.wrong(format!("{field}.volumeDevices"), "processes cannot have devices of their own"));
        }
        self.mounts(field, container.volume_mounts.as_deref().unwrap_or_default())?;
        self.termination_log(field, container)?;
        self.able(field, unable_for_container(container, self.ourselves))?;
        self.ports(field, container)?;
        self.user(field, container)
    }

    fn mounts(&self, field: &str, mounts: &[VolumeMount]) -> Result<()> {
        let mut places: Vec<Vec<&str>> = Vec::new();
        for (index, mount) in mounts.iter().enumerate() {
            let field = format!("{field}.volumeMounts[{index}]");
            if !self.pod.volumes.contains_key(&mount.name) {
                return Err(self.wrong(format!("{field}.name"), "the Pod has no such volume"));
            }
            if mount.sub_path_expr.as_ref().is_some_and(|path| !path.is_empty()) {
                return Err(self.wrong(format!("{field}.subPathExpr"), "not known to processes: use subPath"));
            }
            if mount.sub_path.as_ref().is_some_and(|path| !path.is_empty() && !is_inner(path)) {
                return Err(self.wrong(format!("{field}.subPath"), "must be a path within the volume"));
            }
            let Some(place) = mount_place(&mount.mount_path) else {
                return Err(self.wrong(format!("{field}.mountPath"), "must be a path without `..`, and not the root"));
            };
            if places.iter().any(|other| other.starts_with(&place) || place.starts_with(other)) {
                let message = "lies within another mount, which processes cannot have";
                return Err(self.wrong(format!("{field}.mountPath"), message));
            }
            places.push(place);
        }
        Ok(())
    }

    fn termination_log(&self, field: &str, container: &Container) -> Result<()> {
        let message = match termination_log::placement(container) {
            Placement::Linked(_) | Placement::Hidden => return Ok(()),
            Placement::Invalid => "must be a path without `..`, and not the root",
            Placement::Mounted => "lies within a mount: choose a path outside of the container's volumes",
        };
        Err(self.wrong(format!("{field}.terminationMessagePath"), message))
    }

    fn ports(&self, field: &str, container: &Container) -> Result<()> {
        for (index, port) in container.ports.iter().flatten().enumerate() {
            let numbers = [("containerPort", Some(port.container_port)), ("hostPort", port.host_port)];
            for (name, number) in numbers {
                let is_port = |number: i32| (1..=65535).contains(&number) || (name == "hostPort" && number == 0);
                if number.is_some_and(|number| !is_port(number)) {
                    let field = format!("{field}.ports[{index}].{name}");
                    return Err(self.wrong(field, "must be between 1 and 65535"));
                }
            }
        }
        Ok(())
    }

    fn user(&self, field: &str, container: &Container) -> Result<()> {
        let (own, pod) = (container.security_context.as_ref(), self.pod.spec.security_context.as_ref());
        let user = own.and_then(|own| own.run_as_user).or_else(|| pod.and_then(|pod| pod.run_as_user));
        let group = own.and_then(|own| own.run_as_group).or_else(|| pod.and_then(|pod| pod.run_as_group));
        let not_root = own.and_then(|own| own.run_as_non_root).or_else(|| pod.and_then(|pod| pod.run_as_non_root));
        for (name, id) in [("runAsUser", user), ("runAsGroup", group)] {
            if id.is_some_and(|id| u32::try_from(id).is_err()) {
                return Err(self.wrong(format!("{field}.securityContext.{name}"), "is no id of a user or group"));
            }
        }
        let other = user.is_some_and(|user| user != i64::from(self.our_user));
        if self.our_user != 0 && (other || group.is_some()) {
            let name = if other { "runAsUser" } else { "runAsGroup" };
            let message = "only a control plane that runs as root can run processes as somebody else";
            return Err(self.wrong(format!("{field}.securityContext.{name}"), message));
        }
        if not_root == Some(true) && user.unwrap_or(i64::from(self.our_user)) == 0 {
            let message = "the process would run as root: say runAsUser";
            return Err(self.wrong(format!("{field}.securityContext.runAsNonRoot"), message));
        }
        Ok(())
    }

    /// Names become names of folders.
    fn name(&self, field: &str, name: &str) -> Result<()> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
        if name.is_empty() || name.len() > 63 || !name.bytes().all(is_plain) {
            return Err(self.wrong(format!("{field}.name"), "must be a short name of letters, digits and dashes"));
        }
        Ok(())
    }
}

/// Where a mount lies below the root of its container, name by name.
pub(super) fn mount_place(mount_path: &str) -> Option<Vec<&str>> {
    let names = mount_path.split('/').filter(|name| !name.is_empty() && *name != ".");
    let names: Vec<&str> = names.collect();
    let is_place = !names.is_empty() && names.iter().all(|name| *name != ".." && !name.contains('\0'));
    is_place.then_some(names)
}

/// Whether a path stays within the folder that it is taken from, and away from what is kept there for our own use.
fn is_inner(path: &str) -> bool {
    let path = Path::new(path);
    let is_name = |component: Component<'_>| matches!(component, Component::Normal(_));
    !path.as_os_str().is_empty()
        && path.components().all(is_name)
        && !path.to_string_lossy().contains('\0')
        && !path.to_string_lossy().starts_with(RESERVED_PREFIX)
}

#[cfg(test)]
mod tests {
    use rustix::thread::CapabilitySet;
    use serde_json::{Value, json};
    use setpoint_core::observation::Mark;

    use super::*;
    use crate::provider::{Variables, VolumeFile};

    const ROOT: Ourselves = Ourselves { user: 0, capabilities: CapabilitySet::all() };
    const SOMEBODY: Ourselves = Ourselves { user: 1000, capabilities: CapabilitySet::empty() };

    fn order(spec: Value) -> Order {
        let file = VolumeFile { content: b"hidden".to_vec(), mode: 0o600 };
        let pod = PodOrder {
            namespace: "default".to_owned(),
            name: "web".to_owned(),
            uid: "1".to_owned(),
            spec: serde_json::from_value(spec).expect("a spec"),
            variables: [("app".to_owned(), Variables(vec![("TOKEN".to_owned(), "hid\0den".to_owned())]))].into(),
            volumes: [
                ("data".to_owned(), Volume::Empty),
                ("keys".to_owned(), Volume::Files([("../outside".to_owned(), file)].into())),
                ("host".to_owned(), Volume::Host { path: "var/lib".to_owned() }),
            ]
            .into(),
        };
        let mark = Mark { cluster: "c".into(), owner_uid: "1".into(), intent: Some("i".into()), spec_digest: None };
        Order { mark, name: "web".to_owned(), provider_id: None, body: Body::Pod(Box::new(pod)) }
    }

    fn with_container(fields: Value) -> Value {
        let mut container = json!({"name": "web", "command": ["true"]});
        for (name, value) in fields.as_object().expect("an object") {
            container[name] = value.clone();
        }
        json!({"containers": [container]})
    }

    #[test]
    fn what_cannot_run_names_the_field() {
        let mount = |mounts: Value| with_container(json!({"volumeMounts": mounts}));
        let rows = [
            ("no container", json!({"containers": []}), "spec.containers"),
            ("no command", json!({"containers": [{"name": "web"}]}), "spec.containers[0].command"),
            ("only arguments", with_container(json!({"command": [], "args": ["x"]})), "spec.containers[0].command"),
            ("an empty command", with_container(json!({"command": [""]})), "spec.containers[0].command"),
            ("a NUL in an argument", with_container(json!({"args": ["a\0"]})), "spec.containers[0].args"),
            ("a NUL in a variable", with_container(json!({"name": "app"})), "spec.containers[0].env"),
            ("a name that is a path", with_container(json!({"name": "../web"})), "spec.containers[0].name"),
            (
                "two of one name",
                json!({"containers": [{"name": "a", "command": ["a"]}, {"name": "a", "command": ["a"]}]}),
                "spec.containers[1].name",
            ),
            (
                "an init container without a command",
                json!({"initContainers": [{"name": "i"}], "containers": [{"name": "a", "command": ["a"]}]}),
                "spec.initContainers[0].command",
            ),
            (
                "a kind of volume that is not known",
                json!({"containers": [{"name": "a", "command": ["a"]}], "volumes": [{"name": "disk"}]}),
                "spec.volumes[0]",
            ),
            (
                "a file outside its volume",
                json!({"containers": [{"name": "a", "command": ["a"]}], "volumes": [{"name": "keys"}]}),
                "spec.volumes[0]",
            ),
            (
                "a relative folder of the host",
                json!({"containers": [{"name": "a", "command": ["a"]}], "volumes": [{"name": "host"}]}),
                "spec.volumes[0].hostPath.path",
            ),
            (
                "a mount of nothing",
                mount(json!([{"name": "x", "mountPath": "/x"}])),
                "spec.containers[0].volumeMounts[0].name",
            ),
            (
                "a mount at the root",
                mount(json!([{"name": "data", "mountPath": "/"}])),
                "spec.containers[0].volumeMounts[0].mountPath",
            ),
            (
                "a mount that climbs out",
                mount(json!([{"name": "data", "mountPath": "/a/../.."}])),
                "spec.containers[0].volumeMounts[0].mountPath",
            ),
            (
                "a mount within a mount",
                mount(json!([{"name": "data", "mountPath": "/a"}, {"name": "data", "mountPath": "/a/b"}])),
                "spec.containers[0].volumeMounts[1].mountPath",
            ),
            (
                "a part of a volume that is not in it",
                mount(json!([{"name": "data", "mountPath": "/a", "subPath": "../b"}])),
                "spec.containers[0].volumeMounts[0].subPath",
            ),
            (
                "a computed part of a volume",
                mount(json!([{"name": "data", "mountPath": "/a", "subPathExpr": "$(A)"}])),
                "spec.containers[0].volumeMounts[0].subPathExpr",
            ),
            (
                "a termination message in a volume",
                with_container(json!({
                    "volumeMounts": [{"name": "data", "mountPath": "/a"}], "terminationMessagePath": "/a/b/why",
                })),
                "spec.containers[0].terminationMessagePath",
            ),
            (
                "a termination message that climbs out",
                with_container(json!({"terminationMessagePath": "../../order.json"})),
                "spec.containers[0].terminationMessagePath",
            ),
            (
                "kernel parameters",
                json!({
                    "containers": [{"name": "a", "command": ["a"]}],
                    "securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]},
                }),
                "spec.securityContext.sysctls",
            ),
            (
                "a profile of system calls from a file",
                with_container(json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}})),
                "spec.containers[0].securityContext.seccompProfile",
            ),
            (
                "a device",
                with_container(json!({"volumeDevices": [{"name": "d", "devicePath": "/dev/d"}]})),
                "spec.containers[0].volumeDevices",
            ),
            (
                "no port",
                with_container(json!({"ports": [{"containerPort": 70000}]})),
                "spec.containers[0].ports[0].containerPort",
            ),
            (
                "somebody else",
                with_container(json!({"securityContext": {"runAsUser": 7}})),
                "spec.containers[0].securityContext.runAsUser",
            ),
            (
                "somebody else's group",
                with_container(json!({"securityContext": {"runAsGroup": 7}})),
                "spec.containers[0].securityContext.runAsGroup",
            ),
            (
                "no id",
                with_container(json!({"securityContext": {"runAsUser": -7}})),
                "spec.containers[0].securityContext.runAsUser",
            ),
            (
                "another group for files",
                json!({"containers": [{"name": "a", "command": ["a"]}], "securityContext": {"fsGroup": 7}}),
                "spec.securityContext.fsGroup",
            ),
        ];
        for (name, spec, field) in rows {
            let error = inspect(&order(spec), SOMEBODY).expect_err(name);
            let Error::Spec(SpecError::Field { field: found, .. }) = &error else { panic!("{name}: {error}") };
            assert_eq!(found, field, "{name}");
            assert!(!format!("{error} {error:?}").contains("hid"), "{name}: {error}");
        }
    }

    #[test]
    fn root_is_refused_where_it_is_not_wanted() {
        let spec = || with_container(json!({"securityContext": {"runAsNonRoot": true}}));
        let error = inspect(&order(spec()), ROOT).expect_err("root");
        assert!(error.to_string().contains("spec.containers[0].securityContext.runAsNonRoot"), "{error}");
        inspect(&order(spec()), SOMEBODY).expect("somebody who is not root");
    }

    #[test]
    fn an_ordinary_pod_can_run() {
        let mounts =
            json!([{"name": "data", "mountPath": "/data/"}, {"name": "data", "mountPath": "/etc", "subPath": "a"}]);
        let fields = json!({"volumeMounts": mounts, "terminationMessagePath": "/var/why", "ports": [{"containerPort": 80, "hostPort": 0}]});
        inspect(&order(with_container(fields)), SOMEBODY).expect("it can run");
    }

    #[test]
    fn machines_are_not_for_processes() {
        let order = Order { body: Body::Machine(Default::default()), ..order(json!({"containers": []})) };
        assert_eq!(
            inspect(&order, ROOT).expect_err("a Machine").to_string(),
            "the deployer process cannot run Machines: choose an environment whose deployer can"
        );
    }
}
