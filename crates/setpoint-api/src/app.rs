//! `App`: something served, and how a new revision of it takes over.

mod rollout_state;
mod strategy;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::PodTemplateSpec;
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::rollout_state::{
    AskedSplit, PauseReason, Pin, Progress, RolloutPhase, RolloutRequest, RolloutState, RolloutVerb,
};
pub use self::strategy::{Analysis, InconclusivePolicy, LatencyBound, Pause, Preview, RolloutStep, Strategy};
use crate::condition::Condition;
use crate::field::{Errors, Path};
use crate::names;
use crate::parameters;
use crate::revision::{default_drain_seconds, validate_drain_seconds};
use crate::rules;

/// The most instances an App may ask for.
pub(crate) const MAX_REPLICAS: u32 = 100_000;
/// The most revisions that are kept to go back to.
const MAX_HISTORY: u32 = 1_000;

/// Something served: what runs, how often, where, how a new revision takes over, and how requests reach it.
///
/// A changed template, configuration, environment or parameter is a new Revision; a changed number of replicas is not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, CustomResource, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[kube(
    group = "setpoint.dev",
    version = "v1alpha1",
    kind = "App",
    plural = "apps",
    shortname = "ap",
    category = "setpoint",
    namespaced,
    status = "AppStatus",
    derive = "PartialEq",
    doc = "Something served: a pod template, replicas, the environment, the rollout strategy, the route.",
    scale(
        spec_replicas_path = ".spec.replicas",
        status_replicas_path = ".status.replicas",
        label_selector_path = ".status.selector"
    ),
    printcolumn = r#"{"name":"Environment","type":"string","jsonPath":".spec.environment"}"#,
    printcolumn = r#"{"name":"Replicas","type":"integer","jsonPath":".spec.replicas"}"#,
    printcolumn = r#"{"name":"Ready","type":"integer","jsonPath":".status.readyReplicas"}"#,
    printcolumn = r#"{"name":"Revision","type":"string","jsonPath":".status.servingRevision"}"#,
    printcolumn = r#"{"name":"Rollout","type":"string","jsonPath":".status.rollout.phase"}"#,
    printcolumn = r#"{"name":"Message","type":"string","jsonPath":".status.rollout.message","priority":1}"#,
    printcolumn = r#"{"name":"Age","type":"date","jsonPath":".metadata.creationTimestamp"}"#
)]
pub struct AppSpec {
    /// What each instance runs.
    #[schemars(schema_with = "crate::free_form::object")]
    pub template: PodTemplateSpec,
    /// How many instances serve.
    #[serde(default = "default_replicas")]
    #[schemars(range(max = 100_000))]
    pub replicas: u32,
    /// The Environment it runs in.
    #[serde(default = "default_environment")]
    #[schemars(length(min = 1, max = 253))]
    pub environment: String,
    /// What the Environment's deployer is told besides the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(extend("maxProperties" = 64))]
    pub parameters: BTreeMap<String, String>,
    /// How a new revision takes over.
    #[serde(default)]
    pub strategy: Strategy,
    /// How requests reach it; absent: they do not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub route: Option<Route>,
    /// How long an instance may finish its requests before it is stopped. Each Revision keeps what was said when it was
    /// made, and that holds, whatever the Environment says of guests that are of no App.
    #[serde(default = "default_drain_seconds")]
    #[schemars(range(max = 86_400))]
    pub drain_seconds: u32,
    /// How many revisions that run nothing are kept to go back to.
    #[serde(default = "default_revision_history_limit")]
    #[schemars(range(max = 1_000))]
    pub revision_history_limit: u32,
    /// What is asked of the rollout.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub request: Option<RolloutRequest>,
}

/// How requests reach an App.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Route {
    /// The host name that is asked for; absent: any. A first label `*` stands for any one label.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub host: Option<String>,
    /// What the path begins with, label by label.
    #[serde(default = "default_path_prefix")]
    #[schemars(length(min = 1, max = 1_024))]
    pub path_prefix: String,
    /// The port that instances listen on.
    #[schemars(range(min = 1, max = 65_535))]
    pub port: u32,
    /// Whether a client stays with its revision; absent: each request is split anew.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sticky: Option<Sticky>,
}

/// What a client is recognized by.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = [{
    "rule": "has(self.cookie) != has(self.header)",
    "message": "exactly one of cookie and header must be set",
}]))]
pub struct Sticky {
    /// The name of a cookie that the proxy sets.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub cookie: Option<String>,
    /// The name of a header that the client sends.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 128))]
    pub header: Option<String>,
}

/// What was observed of an App.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppStatus {
    /// The generation that this status was made from.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// How many instances exist, of all revisions.
    pub replicas: u32,
    /// How many instances are ready, of the revisions that get traffic.
    pub ready_replicas: u32,
    /// The labels of its instances, as a selector.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub selector: Option<String>,
    /// The Revision that the template now is.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub template_revision: Option<String>,
    /// The Revision that gets the most traffic.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serving_revision: Option<String>,
    /// How far the rollout has come.
    pub rollout: RolloutState,
    /// What is true of it: `Available`, `Progressing`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
    pub conditions: Vec<Condition>,
}

impl App {
    /// Everything that is wrong with the App as it is written. What a template must be is the rule of Pods, and is checked
    /// where Pods are made; that it has a container at all is checked here.
    pub fn validate(&self) -> Errors {
        let mut errors = Errors::default();
        let path = Path::of("spec");
        let spec = &self.spec;
        validate_template(&spec.template, &path.field("template"), &mut errors);
        rules::between(&path.field("replicas"), spec.replicas, 0..=MAX_REPLICAS, &mut errors);
        for message in names::dns1123_subdomain(&spec.environment) {
            errors.invalid(&path.field("environment"), &spec.environment, &message);
        }
        parameters::validate(&path.field("parameters"), &spec.parameters, &mut errors);
        spec.strategy.validate(&path.field("strategy"), &mut errors);
        if let Some(route) = &spec.route {
            route.validate(&path.field("route"), &mut errors);
        }
        validate_drain_seconds(spec.drain_seconds, &path, &mut errors);
        let history = path.field("revisionHistoryLimit");
        rules::between(&history, spec.revision_history_limit, 0..=MAX_HISTORY, &mut errors);
        if let Some(request) = &spec.request {
            validate_request(request, &path.field("request"), &mut errors);
        }
        errors
    }
}

fn validate_template(template: &PodTemplateSpec, path: &Path<'_>, errors: &mut Errors) {
    if template.spec.as_ref().is_none_or(|spec| spec.containers.is_empty()) {
        errors.required(&path.field("spec").field("containers"), "");
    }
}

fn validate_request(request: &RolloutRequest, path: &Path<'_>, errors: &mut Errors) {
    if request.id.is_empty() {
        errors.required(&path.field("id"), "");
    }
    rules::length(&path.field("id"), &request.id, 128, errors);
    if let Some(revision) = &request.revision {
        rules::object_name(&path.field("revision"), revision, errors);
    }
    if request.revision.is_some() && request.verb != RolloutVerb::Undo {
        errors.forbidden(&path.field("revision"), "only Undo names a revision");
    }
}

impl Route {
    fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        if let Some(host) = &self.host {
            rules::length(&path.field("host"), host, 253, errors);
            for message in names::dns1123_subdomain(host.strip_prefix("*.").unwrap_or(host)) {
                errors.invalid(&path.field("host"), host, &message);
            }
        }
        if !self.path_prefix.starts_with('/') {
            errors.invalid(&path.field("pathPrefix"), &self.path_prefix, "must start with '/'");
        }
        rules::length(&path.field("pathPrefix"), &self.path_prefix, 1_024, errors);
        for message in names::port_number(self.port.into()) {
            errors.invalid(&path.field("port"), self.port, &message);
        }
        let Some(sticky) = &self.sticky else { return };
        let at = path.field("sticky");
        match (&sticky.cookie, &sticky.header) {
            (None, None) => errors.required(&at, "exactly one of cookie and header must be set"),
            (Some(_), Some(_)) => errors.forbidden(&at, "exactly one of cookie and header must be set"),
            (Some(name), None) => validate_token(name, &at.field("cookie"), errors),
            (None, Some(name)) => validate_token(name, &at.field("header"), errors),
        }
    }
}

/// Cookie names are tokens of HTTP, as header names are.
fn validate_token(name: &str, path: &Path<'_>, errors: &mut Errors) {
    rules::length(path, name, 128, errors);
    for message in names::http_header_name(name) {
        errors.invalid(path, name, &message);
    }
}

fn default_replicas() -> u32 {
    1
}

fn default_environment() -> String {
    "local".to_owned()
}

fn default_path_prefix() -> String {
    "/".to_owned()
}

fn default_revision_history_limit() -> u32 {
    10
}
