//! What can be done to Pods alone: binding one to a node, and evicting one.

use http::StatusCode;
use serde_json::{Value, json};
use setpoint_store::Commit;

use super::{Written, delete_object, read, unchanged, write};
use crate::admission::{self, Change};
use crate::failure::{Failure, Result};
use crate::kinds::pod_binding;
use crate::object::{self, Stored};
use crate::object_size;
use crate::query::{DeleteOptions, Query, WriteOptions};
use crate::registry::Subresource;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use setpoint_api::field::{Errors, Node};

/// Puts a Pod on a node. A Pod that is on one already stays there.
pub(super) async fn bind(server: &Shared, call: Call) -> Result<Response> {
    let options = WriteOptions::parse(&call.query, "CreateOptions", call.resource.field_validation())?;
    let binding = body(server, &call, "io.k8s.api.core.v1.Binding")?;
    let mut errors = Errors::default();
    pod_binding::validate_binding(Node::root(&binding), &mut errors);
    if !errors.is_empty() {
        return Err(Failure::invalid_kind("", "Binding", call.name(), errors));
    }
    loop {
        let current = read(server, &call.resource, call.namespace(), call.name()).await?;
        let old = call.resource.value(&current);
        let mut pod = old.clone();
        pod_binding::bind(&mut pod, &binding, call.now).map_err(|error| {
            Failure::subresource_conflict(&call.resource, "binding", call.name(), &error.to_string())
        })?;
        let change = Change {
            caller: &call.caller,
            verb: call.verb,
            resource: &call.resource,
            part: Subresource::Binding.part(),
            namespace: call.namespace(),
            path_name: call.name(),
            before: Some(&old),
            after: Some(&pod),
        };
        admission::admit(server, &change).await?;
        if options.dry_run {
            return Ok(done());
        }
        let bytes = object::encode(&pod, current.record(), object_size::limit(Some(current.size()), false))
            .map_err(|too_large| Failure::object_too_large(&call.resource, call.name(), too_large))?;
        let key = call.resource.key(call.namespace(), call.name());
        let commit = Commit { key, value: Some(bytes.clone()), expected: unchanged(&current) };
        if let Written::Done(_) = write(server, commit, |revision| Stored::new(bytes, revision)).await? {
            return Ok(done());
        }
    }
}

/// Deletes a Pod as its owner's disruption budget allows; there are no budgets yet, so any Pod may be evicted.
pub(super) async fn evict(server: &Shared, call: Call) -> Result<Response> {
    let eviction = body(server, &call, "io.k8s.api.policy.v1.Eviction")?;
    let options = match eviction.get("deleteOptions") {
        Some(options @ Value::Object(_)) => DeleteOptions::parse(&Query::default(), Some(options))?,
        _ => DeleteOptions::default(),
    };
    let dry_run = WriteOptions::parse(&call.query, "CreateOptions", call.resource.field_validation())?.dry_run;
    let options = DeleteOptions { dry_run: dry_run || options.dry_run, ..options };
    delete_object(server, &call.caller, &call.resource, call.namespace(), call.name(), &options, call.now).await?;
    Ok(done())
}

/// Reads the body, which must not be about another Pod.
fn body(server: &Shared, call: &Call, definition: &str) -> Result<Value> {
    let body = call.decode(server, definition)?;
    if body["metadata"]["name"].as_str().is_some_and(|name| name != call.name()) {
        let kind = definition.rsplit('.').next().unwrap_or_default();
        return Err(Failure::bad_request(format!("name in URL does not match name in {kind} object")));
    }
    Ok(body)
}

fn done() -> Response {
    let body = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201});
    response::json(StatusCode::CREATED, &body)
}
