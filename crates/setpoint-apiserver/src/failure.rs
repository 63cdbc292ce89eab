//! Every way a request can fail, as the `Status` object that Kubernetes clients expect.
//!
//! This is the one place where errors of the domain become HTTP. Domain modules return their own errors.

use std::collections::HashSet;

use http::StatusCode;
use serde_json::{Map, Value, json};
use setpoint_store as store;

use crate::apply::Conflict;
use crate::fairness;
use crate::object_size::TooLarge;
use crate::registry::Resource;
use crate::streams::AccessError;
use setpoint_api::field::{Errors, FieldError};

pub type Result<T> = std::result::Result<T, Failure>;

/// Why what is protected is not deleted, for programs.
const PROTECTED: &str = "Protected";

/// A refused request.
#[derive(Debug, Clone, PartialEq)]
pub struct Failure {
    pub code: StatusCode,
    body: Body,
}

#[derive(Debug, Clone, PartialEq)]
enum Body {
    Status {
        reason: &'static str,
        message: String,
        details: Option<Map<String, Value>>,
    },
    /// What a plain HTTP server says of a path nobody serves.
    PageNotFound,
}

impl Failure {
    fn new(code: StatusCode, reason: &'static str, message: impl Into<String>) -> Failure {
        Failure { code, body: Body::Status { reason, message: message.into(), details: None } }
    }

    fn with_details(mut self, more: Value) -> Failure {
        if let (Body::Status { details, .. }, Value::Object(more)) = (&mut self.body, more) {
            details.get_or_insert_default().extend(more);
        }
        self
    }

    pub fn bad_request(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::BAD_REQUEST, "BadRequest", message)
    }

    pub fn unauthorized() -> Failure {
        Failure::new(StatusCode::UNAUTHORIZED, "Unauthorized", "Unauthorized")
    }

    /// A refusal that is not about an object.
    pub fn not_allowed(why: &str) -> Failure {
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", format!("forbidden: {why}")).with_details(json!({}))
    }

    pub fn forbidden(resource: &Resource, name: &str, why: &str) -> Failure {
        Failure::forbidden_of(&resource.group, &resource.plural, name, why)
    }

    /// The same for a resource that may not exist.
    pub fn forbidden_of(group: &str, resource: &str, name: &str, why: &str) -> Failure {
        let dot = if group.is_empty() { "" } else { "." };
        let name_shown = if name.is_empty() { String::new() } else { format!(" \"{name}\"") };
        let message = format!("{resource}{dot}{group}{name_shown} is forbidden: {why}");
        Failure::new(StatusCode::FORBIDDEN, "Forbidden", message).with_details(kind_details(group, resource, name))
    }

    /// What is protected, or holds what is, is not deleted.
    pub fn protected(resource: &Resource, name: &str, why: &str) -> Failure {
        Failure::forbidden(resource, name, why).with_details(json!({"causes": [{"reason": PROTECTED, "message": why}]}))
    }

    /// A review by somebody who acts as another.
    pub fn impersonated(resource: &Resource, name: &str, user: &str) -> Failure {
        let why = format!("a review is given by who it is of, and {user} acts as another");
        let causes = json!({"causes": [{"reason": "Impersonated", "message": &why}]});
        Failure::forbidden(resource, name, &why).with_details(causes)
    }

    pub fn is_protection(&self) -> bool {
        let Body::Status { details: Some(details), .. } = &self.body else { return false };
        details.get("causes").is_some_and(|causes| causes[0]["reason"] == PROTECTED)
    }

    /// New content is refused in a namespace that is going away.
    pub fn namespace_terminating(resource: &Resource, name: &str, namespace: &str) -> Failure {
        let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
        Failure::forbidden(resource, name, &why).with_details(json!({"causes": [{
            "reason": "NamespaceTerminating",
            "message": format!("namespace {namespace} is being terminated"),
            "field": "metadata.namespace",
        }]}))
    }

    pub fn not_found(resource: &Resource, name: &str) -> Failure {
        let message = format!("{} not found", resource.qualified(name));
        Failure::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(resource_details(resource, name))
    }

    /// No resource is served under this path.
    pub fn no_such_resource() -> Failure {
        let message = "the server could not find the requested resource";
        Failure::new(StatusCode::NOT_FOUND, "NotFound", message).with_details(json!({}))
    }

    /// Nothing is served under a path of this resource's that it does not have: of a custom resource nothing is known.
    pub fn page_not_found_of(resource: &Resource) -> Failure {
        if resource.custom.is_some() { Failure::page_not_found() } else { Failure::no_such_resource() }
    }

    pub fn page_not_found() -> Failure {
        Failure { code: StatusCode::NOT_FOUND, body: Body::PageNotFound }
    }

    pub fn method_not_allowed() -> Failure {
        let message = "the server does not allow this method on the requested resource";
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with_details(json!({}))
    }

    /// Nothing new is made of a kind whose definition is going away.
    pub fn definition_terminating() -> Failure {
        let message = "create not allowed while custom resource definition is terminating";
        Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message).with_details(json!({}))
    }

    pub fn not_acceptable() -> Failure {
        let message = "406: Not Acceptable\n\nAvailable representations: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message).with_details(json!({}))
    }

    /// The media type is known but not the transformation it asks for.
    pub fn unknown_transform() -> Failure {
        let message = "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        Failure::new(StatusCode::NOT_ACCEPTABLE, "NotAcceptable", message)
    }

    pub fn unsupported_body() -> Failure {
        let message = "the body of the request was in an unknown format - accepted media types include: application/json, application/yaml, application/vnd.kubernetes.protobuf";
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn unsupported_patch() -> Failure {
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", "415: Unsupported Media Type")
            .with_details(json!({}))
    }

    pub fn unsupported_custom_patch() -> Failure {
        let message = "the body of the request was in an unknown format - accepted media types include: application/json-patch+json, application/merge-patch+json, application/apply-patch+yaml";
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn already_exists(resource: &Resource, name: &str, being_deleted: bool) -> Failure {
        let prefix = if being_deleted { "object is being deleted: " } else { "" };
        let message = format!("{prefix}{} already exists", resource.qualified(name));
        Failure::new(StatusCode::CONFLICT, "AlreadyExists", message).with_details(resource_details(resource, name))
    }

    /// What it says to people.
    pub fn message(&self) -> &str {
        match &self.body {
            Body::Status { message, .. } => message,
            Body::PageNotFound => "404 page not found",
        }
    }

    /// What it says to programs; `None` of what is not a Status.
    pub fn reason(&self) -> Option<&'static str> {
        match &self.body {
            Body::Status { reason, .. } => Some(reason),
            Body::PageNotFound => None,
        }
    }

    pub fn is_already_exists(&self) -> bool {
        matches!(self.body, Body::Status { reason: "AlreadyExists", .. })
    }

    /// Somebody else wrote the object since it was read.
    pub fn modified(resource: &Resource, name: &str) -> Failure {
        let why = "the object has been modified; please apply your changes to the latest version and try again";
        Failure::conflict(resource, name, why)
    }

    pub fn conflict(resource: &Resource, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {}: {why}", resource.qualified(name));
        Failure::new(StatusCode::CONFLICT, "Conflict", message).with_details(resource_details(resource, name))
    }

    /// Not a conflict: the object is as whoever asks believes, and to look at it again would not help.
    pub fn leads_no_longer(namespace: &str, lease: &str) -> Failure {
        let message = format!("whoever asks does not lead any more by the Lease {namespace}/{lease}");
        Failure::new(StatusCode::PRECONDITION_FAILED, "LeadershipLost", message)
    }

    /// An apply would change what others own.
    pub fn owned_by_others(conflicts: &[Conflict]) -> Failure {
        let message = match conflicts {
            [one] => format!("Apply failed with 1 conflict: {one}"),
            many => {
                let mut lines = Vec::new();
                for (index, conflict) in many.iter().enumerate() {
                    let owner = conflict.owner();
                    if index == 0 || many[index - 1].owner() != owner {
                        lines.push(format!("conflicts with {owner}:"));
                    }
                    lines.push(format!("- {}", conflict.field()));
                }
                format!("Apply failed with {} conflicts: {}", many.len(), lines.join("\n"))
            }
        };
        let causes: Vec<Value> = conflicts
            .iter()
            .map(|conflict| {
                let message = format!("conflict with {}", conflict.owner());
                json!({"reason": "FieldManagerConflict", "message": message, "field": conflict.field()})
            })
            .collect();
        Failure::new(StatusCode::CONFLICT, "Conflict", message).with_details(json!({"causes": causes}))
    }

    /// A conflict that Kubernetes reports under the name of a subresource.
    pub fn subresource_conflict(resource: &Resource, subresource: &str, name: &str, why: &str) -> Failure {
        let kind = format!("{}/{subresource}", resource.plural);
        Failure::new(
            StatusCode::CONFLICT,
            "Conflict",
            format!("Operation cannot be fulfilled on {kind} \"{name}\": {why}"),
        )
        .with_details(kind_details(&resource.group, &kind, name))
    }

    /// A delete's precondition does not hold. Kubernetes names the kind here, not the resource.
    pub fn precondition(resource: &Resource, name: &str, why: &str) -> Failure {
        let message = format!("Operation cannot be fulfilled on {} \"{name}\": {why}", resource.qualified_kind());
        Failure::new(StatusCode::CONFLICT, "Conflict", message).with_details(kind_details(
            &resource.group,
            &resource.kind,
            name,
        ))
    }

    pub fn invalid(resource: &Resource, name: &str, errors: Errors) -> Failure {
        Failure::invalid_kind(resource.stored_in.as_ref().unwrap_or(&resource.group), &resource.kind, name, errors)
    }

    pub fn invalid_kind(group: &str, kind: &str, name: &str, errors: Errors) -> Failure {
        let qualified = if group.is_empty() { kind.to_owned() } else { format!("{kind}.{group}") };
        let mut seen = HashSet::new();
        let mut messages: Vec<String> =
            errors.iter().map(FieldError::to_string).filter(|message| seen.insert(message.clone())).collect();
        if errors.untold() > 0 {
            messages.push(format!("and {} more", errors.untold()));
        }
        let all = match messages.as_slice() {
            [one] => one.clone(),
            many => format!("[{}]", many.join(", ")),
        };
        let causes: Vec<Value> = errors
            .iter()
            .map(|e| json!({"reason": e.fault.reason(), "message": e.message, "field": e.field}))
            .collect();
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", format!("{qualified} \"{name}\" is invalid: {all}"))
            .with_details(kind_details(group, kind, name))
            .with_details(json!({"causes": causes}))
    }

    /// The patch could not be applied to the object.
    pub fn unpatchable() -> Failure {
        let message = "the server rejected our request due to an error in our request";
        Failure::new(StatusCode::UNPROCESSABLE_ENTITY, "Invalid", message).with_details(json!({}))
    }

    pub fn too_large(limit: usize) -> Failure {
        let message = format!("Request entity too large: limit is {limit}");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    /// The object would be larger than any that is stored.
    pub fn object_too_large(resource: &Resource, name: &str, TooLarge { size, limit }: TooLarge) -> Failure {
        let message = format!(
            "{} is too large to be stored: it would have {size} bytes with its defaults and managedFields, and an object may \
             have {limit}; leave out what it does not need, or make several smaller objects of it",
            resource.qualified(name)
        );
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
            .with_details(resource_details(resource, name))
    }

    /// A patch would take too much work or room.
    pub fn patch_too_large(why: &str) -> Failure {
        let message = format!("Request entity too large: {why}");
        Failure::new(StatusCode::PAYLOAD_TOO_LARGE, "RequestEntityTooLarge", message)
    }

    pub fn too_many_requests() -> Failure {
        let message = "Too many requests, please try again later.";
        Failure::new(StatusCode::TOO_MANY_REQUESTS, "TooManyRequests", message)
            .with_details(json!({"retryAfterSeconds": 1}))
    }

    /// A body in an encoding that is not read.
    pub fn unsupported_encoding(encoding: &str) -> Failure {
        let message = format!("bodies are read as they are; the Content-Encoding {encoding:?} is not supported");
        Failure::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "UnsupportedMediaType", message)
    }

    pub fn timed_out() -> Failure {
        let message = "request did not complete within the allowed duration";
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", message).with_details(json!({}))
    }

    /// History no longer holds what was asked for.
    pub fn expired(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::GONE, "Expired", message)
    }

    /// History no longer holds what was asked for, and says since when it does.
    pub fn forgotten(message: impl Into<String>, oldest: u64) -> Failure {
        let since = format!("history begins at revision {oldest}");
        let cause = json!({"reason": "HistoryBeginsLater", "field": "resourceVersion", "message": since});
        Failure::expired(message).with_details(json!({ "causes": [cause] }))
    }

    pub fn revision_too_large(requested: u64, newest: u64) -> Failure {
        let message = format!("Too large resource version: {requested}, current: {newest}");
        Failure::new(StatusCode::GATEWAY_TIMEOUT, "Timeout", format!("Timeout: {message}")).with_details(json!({
            "causes": [{"reason": "ResourceVersionTooLarge", "message": "Too large resource version"}],
            "retryAfterSeconds": 1,
        }))
    }

    pub fn internal(message: impl std::fmt::Display) -> Failure {
        Failure::new(StatusCode::INTERNAL_SERVER_ERROR, "InternalError", format!("Internal error occurred: {message}"))
    }

    pub fn unavailable(message: impl Into<String>) -> Failure {
        Failure::new(StatusCode::SERVICE_UNAVAILABLE, "ServiceUnavailable", message)
            .with_details(json!({"retryAfterSeconds": 1}))
    }

    /// The error as a `Status` object; `None` for one that is not a Status.
    pub fn status(&self) -> Option<Value> {
        let Body::Status { reason, message, details } = &self.body else { return None };
        let mut status = json!({
            "kind": "Status",
            "apiVersion": "v1",
            "metadata": {},
            "status": "Failure",
            "message": message,
            "reason": reason,
            "code": self.code.as_u16(),
        });
        if let Some(details) = details {
            status["details"] = Value::Object(details.clone());
        }
        Some(status)
    }
}

impl From<store::Error> for Failure {
    fn from(error: store::Error) -> Failure {
        match error {
            store::Error::Compacted { oldest, .. } => {
                Failure::forgotten(format!("The provided resourceVersion is too old: {error}."), oldest)
            }
            store::Error::Future { requested, newest } => Failure::revision_too_large(requested, newest),
            store::Error::Closed => Failure::unavailable("the server is shutting down"),
            store::Error::Conflict { .. } | store::Error::Engine(_) => Failure::internal(error),
        }
    }
}

impl From<AccessError> for Failure {
    fn from(error: AccessError) -> Failure {
        let message = error.to_string();
        match error {
            AccessError::NotFound(_) => Failure::new(StatusCode::NOT_FOUND, "NotFound", message),
            AccessError::NotRunning(_) => Failure::bad_request(message),
            AccessError::Unsupported(_) => Failure::new(StatusCode::METHOD_NOT_ALLOWED, "MethodNotAllowed", message),
            AccessError::Unreachable(_) => Failure::unavailable(message),
            AccessError::Failed(_) => Failure::internal(message),
        }
    }
}

impl From<fairness::TooMany> for Failure {
    fn from(_: fairness::TooMany) -> Failure {
        Failure::too_many_requests()
    }
}

/// A deletion that was carried out, as Kubernetes reports it.
pub fn deleted(resource: &Resource, name: &str, uid: &str) -> Value {
    let mut details = resource_details(resource, name);
    details["uid"] = uid.into();
    json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "details": details})
}

fn resource_details(resource: &Resource, name: &str) -> Value {
    kind_details(&resource.group, &resource.plural, name)
}

fn kind_details(group: &str, kind: &str, name: &str) -> Value {
    let mut details = json!({});
    for (key, value) in [("name", name), ("group", group), ("kind", kind)] {
        if !value.is_empty() {
            details[key] = value.into();
        }
    }
    details
}

#[cfg(test)]
mod tests {
    use super::*;
    use setpoint_api::field::Path;

    #[test]
    fn a_message_says_each_fault_once_and_how_many_more_there_are() {
        let rows = [("one", 1, ""), ("the same twice", 2, ""), ("too many", 1_500, ", and 500 more]")];
        for (name, count, end) in rows {
            let mut errors = Errors::default();
            (0..count).for_each(|_| errors.required(&Path::of("spec"), ""));
            let status = Failure::invalid_kind("", "Pod", "p", errors).status().expect("a Status");
            let start = if end.is_empty() { "" } else { "[" };
            let message = format!("Pod \"p\" is invalid: {start}spec: Required value{end}");
            assert_eq!(status["message"], message, "{name}");
            assert_eq!(status["details"]["causes"].as_array().map(Vec::len), Some(count.min(1_000)), "{name}");
        }
    }
}
