//! What an Environment must be like.

use super::Environment;
use crate::field::{Errors, Path};
use crate::names;
use crate::rules;

const MAX_INTERVAL_SECONDS: u32 = 86_400;
const SPEC: Path<'static> = Path::of("spec");

impl Environment {
    /// Everything that is wrong with it.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let spec = &self.spec;
        let deployer = SPEC.field("deployer");
        rules::name(&deployer.field("name"), &spec.deployer.name, names::dns1123_label, &mut errors);
        if let Some(version) = &spec.deployer.version {
            validate_version(&deployer.field("version"), version, &mut errors);
        }
        if let Some(secret) = &spec.credentials_secret_ref {
            let path = SPEC.field("credentialsSecretRef");
            rules::name(&path.field("namespace"), &secret.namespace, names::dns1123_label, &mut errors);
            rules::object_name(&path.field("name"), &secret.name, &mut errors);
        }
        if let Some(guardrails) = &spec.guardrails {
            guardrails.validate(&SPEC.field("guardrails"), &mut errors);
        }
        if let Some(approval) = &spec.approval {
            approval.validate(&SPEC.field("approval"), &mut errors);
        }
        if let Some(notifications) = &spec.notifications {
            notifications.validate(&SPEC.field("notifications"), &mut errors);
        }
        for (name, seconds, least) in
            [("observeIntervalSeconds", spec.observe_interval_seconds, 1), ("drainSeconds", spec.drain_seconds, 0)]
        {
            if !(least..=MAX_INTERVAL_SECONDS).contains(&seconds) {
                let detail = format!("must be between {least} and {MAX_INTERVAL_SECONDS}, inclusive");
                errors.invalid(&SPEC.field(name), seconds, &detail);
            }
        }
        errors
    }

    /// Everything that is wrong with it as the successor of `old`.
    pub fn validate_update(&self, old: &Environment) -> Errors {
        let mut errors = self.validate();
        if self.spec.deployer.name != old.spec.deployer.name {
            let deployer = SPEC.field("deployer");
            errors.forbidden(&deployer.field("name"), "the deployer of an environment cannot be changed");
        }
        errors
    }
}

fn validate_version(path: &Path<'_>, version: &str, errors: &mut Errors) {
    let plain = version.strip_prefix('v').unwrap_or(version);
    let (numbers, suffix) = plain.split_once('-').map_or((plain, None), |(numbers, suffix)| (numbers, Some(suffix)));
    let is_number = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let is_sound = numbers.split('.').count() <= 3
        && numbers.split('.').all(is_number)
        && suffix.is_none_or(|suffix| {
            !suffix.is_empty() && suffix.bytes().all(|b| b.is_ascii_alphanumeric() || b".-".contains(&b))
        });
    if !is_sound || version.len() > 64 {
        errors.invalid(path, version, "must be a version, such as \"1\" or \"1.2.3\"");
    }
}
