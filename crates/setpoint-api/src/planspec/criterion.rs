//! A check that tells whether a task is done.
//!
//! The published schema spells the fields of a check in camelCase (`contentMatch`), the published library writes them in
//! snake_case (`content_match`). Documents of both kinds exist, so both spellings are read, and each is written back as
//! it came. Readers use the accessors, which do not care.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::duration::Duration;
use crate::field::{Errors, Path};

/// A check that tells whether a task is done. Which fields it needs depends on its type.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Criterion {
    /// What is checked.
    #[serde(rename = "type")]
    pub type_: CriterionType,
    /// What the check is called.
    pub name: String,
    /// What it is for, in words for people.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub description: Option<String>,
    /// Whether the task is not done unless the check passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(extend("default" = true))]
    pub required: Option<bool>,
    /// For `artifact_exists`: the file or directory that has to be there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub path: Option<String>,
    /// For `artifact_exists`: a regular expression that the file's content has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_match: Option<String>,
    /// For `test_passes` and `command_succeeds`: the command to run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub command: Option<String>,
    /// For `test_passes` and `command_succeeds`: the command's arguments.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub args: Vec<String>,
    /// For `test_passes` and `command_succeeds`: the exit code that the command has to end with; 0 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_exit_code: Option<i32>,
    /// For `endpoint_responds`: the URL to ask.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// For `endpoint_responds`: the HTTP method; GET if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub method: Option<String>,
    /// For `endpoint_responds`: the HTTP status that has to be answered; 200 if absent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_status: Option<i32>,
    /// For `endpoint_responds`: a regular expression that the answer's body has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_match: Option<String>,
    /// For `command_succeeds`: a regular expression that the command's output has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_match: Option<String>,
    /// For `custom`: the URL that is asked whether the check passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// For `custom`: what is sent to it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "crate::free_form::object")]
    pub payload: Option<Value>,
    /// For `custom`: the answer that passes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_response: Option<ExpectedResponse>,
    /// How long the check may take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub timeout: Option<Duration>,
    /// The same fields as the published library spells them.
    #[serde(flatten)]
    pub snake_case: SnakeCase,
}

/// The fields of a [`Criterion`] that have a second spelling.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
pub struct SnakeCase {
    /// Another spelling of `contentMatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content_match: Option<String>,
    /// Another spelling of `expectedExitCode`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_exit_code: Option<i32>,
    /// Another spelling of `expectedStatus`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_status: Option<i32>,
    /// Another spelling of `bodyMatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_match: Option<String>,
    /// Another spelling of `outputMatch`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub output_match: Option<String>,
    /// Another spelling of `webhookUrl`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub webhook_url: Option<String>,
    /// Another spelling of `expectedResponse`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected_response: Option<ExpectedResponse>,
}

/// What a criterion checks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum CriterionType {
    /// A file or directory is there.
    ArtifactExists,
    /// Tests pass.
    TestPasses,
    /// An HTTP endpoint answers.
    EndpointResponds,
    /// A command succeeds.
    CommandSucceeds,
    /// A webhook says so.
    Custom,
}

/// The answer of a webhook that passes.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ExpectedResponse {
    /// The HTTP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status_code: Option<i32>,
    /// A regular expression that the body has to match.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body_match: Option<String>,
}

impl Criterion {
    pub fn is_required(&self) -> bool {
        self.required.unwrap_or(true)
    }

    pub fn content_match(&self) -> Option<&str> {
        self.content_match.as_deref().or(self.snake_case.content_match.as_deref())
    }

    pub fn expected_exit_code(&self) -> i32 {
        self.expected_exit_code.or(self.snake_case.expected_exit_code).unwrap_or(0)
    }

    pub fn method(&self) -> &str {
        self.method.as_deref().unwrap_or("GET")
    }

    pub fn expected_status(&self) -> i32 {
        self.expected_status.or(self.snake_case.expected_status).unwrap_or(200)
    }

    pub fn body_match(&self) -> Option<&str> {
        self.body_match.as_deref().or(self.snake_case.body_match.as_deref())
    }

    pub fn output_match(&self) -> Option<&str> {
        self.output_match.as_deref().or(self.snake_case.output_match.as_deref())
    }

    pub fn webhook_url(&self) -> Option<&str> {
        self.webhook_url.as_deref().or(self.snake_case.webhook_url.as_deref())
    }

    pub fn expected_response(&self) -> Option<&ExpectedResponse> {
        self.expected_response.as_ref().or(self.snake_case.expected_response.as_ref())
    }

    pub(super) fn validate(&self, path: &Path<'_>, errors: &mut Errors) {
        let (needed, value) = match self.type_ {
            CriterionType::ArtifactExists => ("path", self.path.as_deref()),
            CriterionType::TestPasses | CriterionType::CommandSucceeds => ("command", self.command.as_deref()),
            CriterionType::EndpointResponds => ("url", self.url.as_deref()),
            CriterionType::Custom => ("webhookUrl", self.webhook_url()),
        };
        if value.is_none() {
            errors.required(&path.field(needed), &format!("for a criterion of type {}", self.type_.word()));
        }
        self.validate_spellings(path, errors);
        crate::free_form::validate_object(self.payload.as_ref(), &path.field("payload"), errors);
        if let Some(timeout) = &self.timeout {
            timeout.validate(&path.field("timeout"), errors);
        }
    }

    /// A field that is written in both spellings has one value, or nobody could say which counts.
    fn validate_spellings(&self, path: &Path<'_>, errors: &mut Errors) {
        fn differ<T: PartialEq>(camel: &Option<T>, snake: &Option<T>) -> bool {
            camel.is_some() && snake.is_some() && camel != snake
        }
        let snake = &self.snake_case;
        let fields = [
            ("contentMatch", "content_match", differ(&self.content_match, &snake.content_match)),
            ("expectedExitCode", "expected_exit_code", differ(&self.expected_exit_code, &snake.expected_exit_code)),
            ("expectedStatus", "expected_status", differ(&self.expected_status, &snake.expected_status)),
            ("bodyMatch", "body_match", differ(&self.body_match, &snake.body_match)),
            ("outputMatch", "output_match", differ(&self.output_match, &snake.output_match)),
            ("webhookUrl", "webhook_url", differ(&self.webhook_url, &snake.webhook_url)),
            ("expectedResponse", "expected_response", differ(&self.expected_response, &snake.expected_response)),
        ];
        for (camel, snake, _) in fields.iter().filter(|(_, _, differ)| *differ) {
            errors.forbidden(&path.field(snake), &format!("{camel} has another value"));
        }
    }
}

impl CriterionType {
    /// The type as it is written.
    pub fn word(self) -> &'static str {
        match self {
            CriterionType::ArtifactExists => "artifact_exists",
            CriterionType::TestPasses => "test_passes",
            CriterionType::EndpointResponds => "endpoint_responds",
            CriterionType::CommandSucceeds => "command_succeeds",
            CriterionType::Custom => "custom",
        }
    }
}
