//! `Revision`: an immutable snapshot of an App's template, configuration and deployer parameters.

use std::collections::BTreeMap;
use std::fmt;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::condition::Condition;
use crate::field::{Errors, Path};
use crate::names;
use crate::parameters;
use crate::rules;

/// How many ConfigMaps and Secrets a revision may use.
const MAX_CONFIG: usize = 64;
const MAX_DIGEST: usize = 128;
/// The longest drain: a day.
pub(crate) const MAX_DRAIN_SECONDS: u32 = 86_400;

/// What an App is or was: everything that is needed to run it again exactly so.
///
/// It owns immutable copies of the ConfigMaps and Secrets it uses; here are only their names and keyed digests, so that
/// going back to a revision goes back to its configuration, and nobody learns a secret from it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "Revision",
    plural = "revisions",
    shortname = "rev",
    category = "setpoint",
    namespaced,
    status = "RevisionStatus",
    derive = "PartialEq",
    doc = "An immutable snapshot of an App: template, configuration and deployer parameters.",
    printcolumn = r#"{"name":"App","type":"string","jsonPath":".spec.appRef.name"}"#,
    printcolumn = r#"{"name":"Number","type":"integer","jsonPath":".spec.number"}"#,
    printcolumn = r#"{"name":"Phase","type":"string","jsonPath":".status.phase"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.readyReplicas"}"#,
    printcolumn = r#"{"name":"Desired","type":"integer","jsonPath":".status.desiredReplicas"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "self == oldSelf",
    "message": "a Revision is immutable: change the App instead",
}]))]
pub struct RevisionSpec {
    /// The App this is a revision of.
    pub app_ref: AppRef,
    /// Which revision of the App this is: 1 for the first, and never used twice.
    #[schemars(range(min = 1))]
    pub number: u64,
    /// The environment it runs in.
    #[schemars(length(min = 1, max = 253))]
    pub environment: String,
    /// What each instance runs.
    #[schemars(schema_with = "crate::free_form::object")]
    pub template: PodTemplateSpec,
    /// The ConfigMaps and Secrets it uses, as they were when it was made.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    pub config: Vec<ConfigSnapshot>,
    /// What the deployer was told besides the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub parameters: BTreeMap<String, String>,
    /// How long an instance may finish its requests before it is stopped.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(min = 0, max = 86_400))]
    pub drain_seconds: u32,
    /// The digest of all of the above: what is run is compared with it, and two revisions of one digest are one.
    #[schemars(length(min = 1, max = 128))]
    pub digest: String,
}

/// The App of a revision.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppRef {
    /// The name of the App, in the same namespace.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The uid of the App, so that an App of the same name made later does not inherit its revisions.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
}

/// A ConfigMap or Secret as it was.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ConfigSnapshot {
    /// What it is.
    pub kind: ConfigKind,
    /// Its name, as the template says it.
    #[schemars(length(min = 1, max = 253))]
    pub name: String,
    /// The immutable copy that the revision owns.
    #[schemars(length(min = 1, max = 253))]
    pub copy: String,
    /// The digest of its content under the cluster's key: equal for equal content, and says nothing about it.
    #[schemars(length(min = 1, max = 128))]
    pub digest: String,
}

/// What holds configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub enum ConfigKind {
    ConfigMap,
    Secret,
}

/// Where a revision is in its life: Inactive → Staged → Warming → Ready → Draining → Inactive → Archived; and Failed, from
/// which it can be staged again.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize, JsonSchema)]
pub enum RevisionPhase {
    /// Recorded, and nothing of it runs.
    #[default]
    Inactive,
    /// Prepared where it will run: fetched, checked, configured. Nothing of it runs.
    Staged,
    /// Its instances are starting.
    Warming,
    /// Its instances were seen ready. Only now may it get traffic.
    Ready,
    /// It has no traffic, and its instances finish what they began.
    Draining,
    /// It could not be staged or warmed.
    Failed,
    /// Its copies of configuration are gone: it is only remembered.
    Archived,
}

impl RevisionPhase {
    pub const ALL: [RevisionPhase; 7] = [
        RevisionPhase::Inactive,
        RevisionPhase::Staged,
        RevisionPhase::Warming,
        RevisionPhase::Ready,
        RevisionPhase::Draining,
        RevisionPhase::Failed,
        RevisionPhase::Archived,
    ];
}

impl fmt::Display for RevisionPhase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// What was observed of a revision.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RevisionStatus {
    /// The generation that this status was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Where it is in its life.
    pub phase: RevisionPhase,
    /// How many instances are wanted of it now.
    pub desired_replicas: u32,
    /// How many instances exist, those that are stopping included.
    pub replicas: u32,
    /// How many of them are ready.
    pub ready_replicas: u32,
    /// When it began to drain.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<k8s_openapi::apimachinery::pkg::apis::meta::v1::Time>")]
    pub draining_since: Option<Timestamp>,
    /// Why it is where it is, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// What is true of it: `Ready`, `Progressing`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl Revision {
    /// Everything that is wrong with the revision as it is written. What a template must be is the rule of Pods, and is
    /// checked where Pods are made.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let spec = Path::of("spec");
        let named = |path: &Path<'_>, name: &str, errors: &mut Errors| {
            for message in names::dns1123_subdomain(name) {
                errors.invalid(path, name, &message);
            }
        };
        named(&spec.field("appRef").field("name"), &self.spec.app_ref.name, &mut errors);
        named(&spec.field("environment"), &self.spec.environment, &mut errors);
        if self.spec.number == 0 {
            errors.invalid(&spec.field("number"), 0, "must be greater than or equal to 1");
        }
        validate_drain_seconds(self.spec.drain_seconds, &spec, &mut errors);
        parameters::validate(&spec.field("parameters"), &self.spec.parameters, &mut errors);
        if self.spec.digest.is_empty() {
            errors.required(&spec.field("digest"), "");
        }
        rules::length(&spec.field("digest"), &self.spec.digest, MAX_DIGEST, &mut errors);
        let config = spec.field("config");
        if self.spec.config.len() > MAX_CONFIG {
            errors.too_many(&config, self.spec.config.len(), MAX_CONFIG);
        }
        for (index, snapshot) in self.spec.config.iter().enumerate() {
            let at = config.index(index);
            named(&at.field("name"), &snapshot.name, &mut errors);
            named(&at.field("copy"), &snapshot.copy, &mut errors);
            if snapshot.digest.is_empty() {
                errors.required(&at.field("digest"), "");
            }
            rules::length(&at.field("digest"), &snapshot.digest, MAX_DIGEST, &mut errors);
            let same = |other: &ConfigSnapshot| (other.kind, &other.name) == (snapshot.kind, &snapshot.name);
            if self.spec.config[..index].iter().any(same) {
                errors.duplicate(&at.field("name"), &snapshot.name);
            }
        }
        errors
    }

    /// What an update may not change: everything.
    pub fn validate_update(&self, old: &Revision) -> Errors {
        let mut errors = Errors::default();
        if self.spec != old.spec {
            errors.forbidden(&Path::of("spec"), "a Revision is immutable: change the App instead");
        }
        errors
    }
}

pub(crate) fn validate_drain_seconds(seconds: u32, spec: &Path<'_>, errors: &mut Errors) {
    if seconds > MAX_DRAIN_SECONDS {
        errors.invalid(&spec.field("drainSeconds"), seconds, "must be between 0 and 86400, inclusive");
    }
}

pub(crate) fn default_drain_seconds() -> u32 {
    30
}

#[cfg(test)]
mod tests {
    use super::*;

    fn revision() -> Revision {
        let snapshot = ConfigSnapshot {
            kind: ConfigKind::Secret,
            name: "keys".to_owned(),
            copy: "web-3-keys".to_owned(),
            digest: "a1".to_owned(),
        };
        let spec = RevisionSpec {
            app_ref: AppRef { name: "web".to_owned(), uid: None },
            number: 3,
            environment: "local".to_owned(),
            template: PodTemplateSpec::default(),
            config: vec![snapshot],
            parameters: BTreeMap::new(),
            drain_seconds: 30,
            digest: "d1".to_owned(),
        };
        Revision::new("web-3", spec)
    }

    #[test]
    fn revisions_are_checked() {
        type Change = fn(&mut RevisionSpec);
        let rows: [(&str, Change, &[&str]); 5] = [
            ("a good one", |_| {}, &[]),
            (
                "numbers begin at 1",
                |spec| spec.number = 0,
                &["spec.number: Invalid value: 0: must be greater than or equal to 1"],
            ),
            (
                "a drain of more than a day",
                |spec| spec.drain_seconds = 86_401,
                &["spec.drainSeconds: Invalid value: 86401: must be between 0 and 86400, inclusive"],
            ),
            (
                "one Secret twice",
                |spec| spec.config.push(spec.config[0].clone()),
                &[r#"spec.config[1].name: Duplicate value: "keys""#],
            ),
            (
                "digests that say nothing",
                |spec| {
                    spec.digest.clear();
                    spec.config[0].digest.clear();
                },
                &["spec.digest: Required value", "spec.config[0].digest: Required value"],
            ),
        ];
        for (name, change, expected) in rows {
            let mut revision = revision();
            change(&mut revision.spec);
            let told: Vec<String> = revision.validate().iter().map(ToString::to_string).collect();
            assert_eq!(told, expected, "{name}");
        }
    }

    #[test]
    fn a_revision_never_changes() {
        let old = revision();
        assert!(old.validate_update(&old).is_empty());
        let mut new = old.clone();
        new.spec.template.metadata = Some(Default::default());
        let told: Vec<String> = new.validate_update(&old).iter().map(ToString::to_string).collect();
        assert_eq!(told, ["spec: Forbidden: a Revision is immutable: change the App instead"]);
    }

    #[test]
    fn an_absent_drain_is_half_a_minute() {
        let mut written = serde_json::to_value(revision().spec).unwrap();
        written.as_object_mut().unwrap().remove("drainSeconds");
        let spec: RevisionSpec = serde_json::from_value(written).unwrap();
        assert_eq!(spec.drain_seconds, 30);
    }
}
