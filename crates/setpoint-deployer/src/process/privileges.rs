//! What security contexts ask of a Pod's processes: what can be done about it here, and what cannot.
//!
//! Nothing that is asked for is passed over: it is data for the launcher, which does it or does not start the command, or it
//! is refused before anything is made. What describes what a process is anyway, as `seccompProfile: {type: Unconfined}`,
//! asks for nothing.

use std::path::PathBuf;

use k8s_openapi::api::core::v1::{
    AppArmorProfile, Container, PodSecurityContext, PodSpec, SELinuxOptions, SeccompProfile, SecurityContext,
};
use rustix::thread::CapabilitySet;
use serde::{Deserialize, Serialize};

use super::capabilities;

/// What the launcher takes from itself before it becomes the command.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Restrictions {
    pub has_no_new_privileges: bool,
    /// The capabilities that are kept, as bits; all if there are none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kept_capabilities: Option<u64>,
    pub has_filtered_system_calls: bool,
    /// Where it can still write, if not everywhere.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub writable: Option<Vec<PathBuf>>,
}

/// A field that asks for what cannot be done here, and why not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Unable {
    pub(super) field: &'static str,
    pub(super) message: String,
}

/// Whom the control plane runs as.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ourselves {
    pub(super) user: u32,
    pub(super) capabilities: CapabilitySet,
}

impl Ourselves {
    pub(super) fn now() -> Ourselves {
        let capabilities = rustix::thread::capabilities(None).map(|sets| sets.permitted);
        let user = rustix::process::geteuid().as_raw();
        Ourselves { user, capabilities: capabilities.unwrap_or(CapabilitySet::empty()) }
    }
}

impl Restrictions {
    /// What the security contexts of a Pod and of its container ask for. Where it can write is known to who has the folder.
    pub(super) fn of(pod: &PodSecurityContext, container: &SecurityContext) -> Restrictions {
        let kept = container.capabilities.as_ref().map(capabilities::kept);
        let profile = container.seccomp_profile.as_ref().or(pod.seccomp_profile.as_ref());
        Restrictions {
            has_no_new_privileges: container.allow_privilege_escalation == Some(false),
            // A name that is not known was refused before.
            kept_capabilities: kept.and_then(Result::ok).flatten().map(|kept| kept.bits()),
            // As on Kubernetes, no filter holds back what is privileged.
            has_filtered_system_calls: container.privileged != Some(true)
                && profile.is_some_and(|profile| profile.type_ == "RuntimeDefault"),
            writable: None,
        }
    }
}

/// What a Pod asks for beside its containers that cannot be done.
pub(super) fn unable_for_pod(spec: &PodSpec) -> Option<Unable> {
    let pod = spec.security_context.clone().unwrap_or_default();
    if pod.sysctls.is_some_and(|sysctls| !sysctls.is_empty()) {
        return unable(
            "securityContext.sysctls",
            "processes share the machine's own kernel parameters: set them there",
        );
    }
    if spec.host_users == Some(false) {
        return unable("hostUsers", "processes have the machine's own users: leave it out, and say runAsUser");
    }
    confinement(pod.seccomp_profile.as_ref(), pod.se_linux_options.as_ref(), pod.app_armor_profile.as_ref())
}

/// What a container asks for that cannot be done.
pub(super) fn unable_for_container(container: &Container, ourselves: Ourselves) -> Option<Unable> {
    let own = container.security_context.clone().unwrap_or_default();
    if own.privileged == Some(true) && ourselves.user != 0 {
        let message = "only a control plane that runs as root can run privileged processes";
        return unable("securityContext.privileged", message);
    }
    if let Some(wanted) = &own.capabilities {
        const ADD: &str = "securityContext.capabilities.add";
        let added = match (capabilities::added(wanted), capabilities::kept(wanted)) {
            (Err(name), _) => return unable(ADD, format!("{name:?} is no capability")),
            (_, Err(name)) => {
                return unable("securityContext.capabilities.drop", format!("{name:?} is no capability"));
            }
            (Ok(added), Ok(_)) => added,
        };
        if let Some(missing) = added.missing_in(ourselves.capabilities) {
            return unable(ADD, format!("the control plane does not have {missing} itself: give it to its process"));
        }
    }
    confinement(own.seccomp_profile.as_ref(), own.se_linux_options.as_ref(), own.app_armor_profile.as_ref())
}

fn confinement(
    seccomp: Option<&SeccompProfile>,
    se_linux: Option<&SELinuxOptions>,
    app_armor: Option<&AppArmorProfile>,
) -> Option<Unable> {
    if seccomp.is_some_and(|profile| !matches!(profile.type_.as_str(), "RuntimeDefault" | "Unconfined")) {
        let message = "processes cannot have a profile from a file: use RuntimeDefault or Unconfined";
        return unable("securityContext.seccompProfile", message);
    }
    if se_linux.is_some_and(|options| *options != SELinuxOptions::default()) {
        return unable("securityContext.seLinuxOptions", "processes cannot be given an SELinux context");
    }
    if app_armor.is_some_and(|profile| profile.type_ != "Unconfined") {
        let message = "processes cannot be given an AppArmor profile: use Unconfined";
        return unable("securityContext.appArmorProfile", message);
    }
    None
}

fn unable(field: &'static str, message: impl Into<String>) -> Option<Unable> {
    Some(Unable { field, message: message.into() })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn container(context: Value) -> Container {
        serde_json::from_value(json!({"name": "web", "securityContext": context})).unwrap()
    }

    const ROOT: Ourselves = Ourselves { user: 0, capabilities: CapabilitySet::all() };
    const SOMEBODY: Ourselves = Ourselves { user: 1000, capabilities: CapabilitySet::empty() };

    #[test]
    fn what_a_container_asks_for_is_done_or_refused() {
        let rows = [
            ("nothing", json!({}), None, None),
            (
                "what charts ask for",
                json!({
                    "capabilities": {"drop": ["ALL"]}, "seccompProfile": {"type": "RuntimeDefault"},
                    "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true, "runAsNonRoot": true,
                }),
                None,
                None,
            ),
            (
                "one capability",
                json!({"capabilities": {"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}}),
                None,
                Some("capabilities.add"),
            ),
            ("all capabilities", json!({"capabilities": {"add": ["ALL"]}}), None, Some("capabilities.add")),
            (
                "no capability",
                json!({"capabilities": {"drop": ["FLY"]}}),
                Some("capabilities.drop"),
                Some("capabilities.drop"),
            ),
            ("privileged", json!({"privileged": true}), None, Some("privileged")),
            ("not privileged", json!({"privileged": false}), None, None),
            (
                "a profile of the machine",
                json!({"seccompProfile": {"type": "Localhost", "localhostProfile": "a"}}),
                Some("seccompProfile"),
                Some("seccompProfile"),
            ),
            (
                "unconfined",
                json!({"seccompProfile": {"type": "Unconfined"}, "appArmorProfile": {"type": "Unconfined"}, "seLinuxOptions": {}}),
                None,
                None,
            ),
            (
                "AppArmor",
                json!({"appArmorProfile": {"type": "RuntimeDefault"}}),
                Some("appArmorProfile"),
                Some("appArmorProfile"),
            ),
            ("SELinux", json!({"seLinuxOptions": {"level": "s0"}}), Some("seLinuxOptions"), Some("seLinuxOptions")),
            ("the machine's own /proc", json!({"procMount": "Unmasked"}), None, None),
        ];
        for (name, context, as_root, as_somebody) in rows {
            for (ourselves, expected) in [(ROOT, as_root), (SOMEBODY, as_somebody)] {
                let found = unable_for_container(&container(context.clone()), ourselves);
                let field = found.as_ref().map(|unable| unable.field.trim_start_matches("securityContext."));
                assert_eq!(field, expected, "{name} as {}", ourselves.user);
            }
        }
    }

    #[test]
    fn what_a_pod_asks_for_is_done_or_refused() {
        let rows = [
            ("nothing", json!({}), None),
            (
                "kernel parameters",
                json!({"securityContext": {"sysctls": [{"name": "net.core.somaxconn", "value": "1"}]}}),
                Some("securityContext.sysctls"),
            ),
            ("no kernel parameters", json!({"securityContext": {"sysctls": []}}), None),
            ("a default filter", json!({"securityContext": {"seccompProfile": {"type": "RuntimeDefault"}}}), None),
            (
                "a filter of the machine",
                json!({"securityContext": {"seccompProfile": {"type": "Localhost"}}}),
                Some("securityContext.seccompProfile"),
            ),
            ("users of its own", json!({"hostUsers": false}), Some("hostUsers")),
            ("the machine's users", json!({"hostUsers": true}), None),
        ];
        for (name, mut spec, expected) in rows {
            spec["containers"] = json!([]);
            let found = unable_for_pod(&serde_json::from_value(spec).unwrap());
            assert_eq!(found.map(|unable| unable.field), expected, "{name}");
        }
    }

    #[test]
    fn a_container_overrides_its_pod() {
        let pod = |context: Value| serde_json::from_value(context).unwrap();
        let of = |pod, own: Value| Restrictions::of(&pod, &container(own).security_context.unwrap());
        let default = || json!({"seccompProfile": {"type": "RuntimeDefault"}});
        assert!(of(pod(default()), json!({})).has_filtered_system_calls);
        assert!(!of(pod(default()), json!({"seccompProfile": {"type": "Unconfined"}})).has_filtered_system_calls);
        assert!(of(pod(json!({})), default()).has_filtered_system_calls);
        let dropped = of(pod(json!({})), json!({"capabilities": {"drop": ["ALL"]}, "allowPrivilegeEscalation": false}));
        assert_eq!((dropped.kept_capabilities, dropped.has_no_new_privileges), (Some(0), true));
    }
}
