//! Answering reviews.

use http::StatusCode;
use serde_json::{Value, json};

use super::create::record_of_new;
use crate::authentication::{self, Invalid};
use crate::deletion::seconds;
use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::object::{self, Stored};
use crate::query::WriteOptions;
use crate::registry::text_at;
use crate::render::Renderer;
use crate::response::{self, Response};
use crate::reviews::{self, Review, access, rules};
use crate::server::{Call, Shared};
use crate::write;
use setpoint_api::field::{Errors, Node};

/// What no client says of an object.
const SYSTEM_FIELDS: [&str; 5] =
    ["creationTimestamp", "deletionTimestamp", "deletionGracePeriodSeconds", "managedFields", "uid"];

pub(super) async fn create(server: &Shared, call: Call, review: Review) -> Result<Response> {
    let renderer = Renderer::new(call.resource.clone(), negotiate::form(&call.headers)?, &call.query, call.now)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions", call.resource.field_validation())?;
    let decoded = write::decode(&call.resource, negotiate::body(&call.headers, &call.body)?, options.field_validation)?;
    let mut object = decoded.object;
    write::place(&call.resource, call.namespace(), &mut object)?;
    if let Some(metadata) = object["metadata"].as_object_mut() {
        metadata.retain(|field, _| !SYSTEM_FIELDS.contains(&field.as_str()));
    }
    let mut record = record_of_new(&call, &options, &call.resource, &object);
    let user = &call.caller.identity;
    match review {
        Review::SelfSubjectAccess | Review::SubjectAccess | Review::LocalSubjectAccess => {
            object["status"] = answer_access(server, &call, review, &object)?;
        }
        Review::Token => object["status"] = answer_token(server, &call, &object["spec"]).await?,
        // These answer without repeating the question.
        Review::SelfSubjectRules => {
            let namespace = text_at(&object, &["spec", "namespace"]);
            if namespace.is_empty() {
                return Err(Failure::bad_request("no namespace on request"));
            }
            let status = rules::status(&server.policy.read(), user, namespace);
            object = json!({"metadata": {}, "spec": {}, "status": status});
            record.clear();
        }
        Review::SelfSubject => {
            let metadata = json!({"creationTimestamp": seconds(call.now)});
            object = json!({"metadata": metadata, "status": {"userInfo": reviews::user_info(user)}});
            record.clear();
        }
    }
    let answered = Stored::new(object::encode_answer(&object, &record), 0);
    let mut response = renderer.object(StatusCode::CREATED, &answered);
    response::warn(&mut response, decoded.warnings);
    Ok(response)
}

fn answer_access(server: &Shared, call: &Call, review: Review, object: &Value) -> Result<Value> {
    let mut errors = Errors::default();
    access::validate(review, Node::root(object), &mut errors);
    if !errors.is_empty() {
        // Kubernetes leaves out the kind here.
        return Err(Failure::invalid_kind(review.group(), "", "", errors));
    }
    let subject = access::subject(review, &object["spec"], &call.caller.identity);
    let policy = server.policy.read();
    Ok(access::status(&policy.decide(&access::attributes(&object["spec"], &subject))))
}

async fn answer_token(server: &Shared, call: &Call, spec: &Value) -> Result<Value> {
    let token = text_at(spec, &["token"]);
    if token.is_empty() {
        return Err(Failure::bad_request("token is required for TokenReview in authentication"));
    }
    let asked = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = asked.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences = server.issuer.audiences().to_vec();
    }
    Ok(match authentication::by_token(server, token, &audiences, call.now).await? {
        Ok(bearer) => json!({
            "authenticated": true,
            "user": reviews::user_info(&bearer.caller.identity),
            "audiences": bearer.audiences,
        }),
        Err(Invalid::Unknown) => json!({"user": {}, "error": Invalid::Unknown.to_string()}),
        Err(why) => json!({"user": {}, "error": format!("[{}, {why}]", Invalid::Unknown)}),
    })
}
