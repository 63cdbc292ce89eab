//! Making a token for a service account.

use http::StatusCode;
use jiff::SignedDuration;
use serde_json::{Value, json};

use super::create::record_of_new;
use super::read;
use crate::authentication::service_accounts::{Bond, Holder, Reference, default_request, validate_request};
use crate::deletion::seconds;
use crate::failure::{Failure, Result};
use crate::negotiate;
use crate::object;
use crate::object::Stored;
use crate::query::WriteOptions;
use crate::registry::text_at;
use crate::response::{self, Response};
use crate::server::{Call, Shared};
use crate::write;
use setpoint_api::field::{Errors, Node, Path};

pub(super) async fn create(server: &Shared, call: Call) -> Result<Response> {
    let form = negotiate::form(&call.headers)?;
    let options = WriteOptions::parse(&call.query, "CreateOptions", call.resource.field_validation())?;
    let kind = &server.token_request;
    let decoded = write::decode(kind, negotiate::body(&call.headers, &call.body)?, options.field_validation)?;
    let mut request = decoded.object;
    default_request(&mut request);
    let record = record_of_new(&call, &options, kind, &request);
    check_place(&call, server, &request)?;
    let account = reference(&read(server, &call.resource, call.namespace(), call.name()).await?);
    let claimed = text_at(&request, &["metadata", "uid"]);
    if !claimed.is_empty() && claimed != account.uid {
        let why = format!(
            "the UID in the token request ({claimed}) does not match the UID of the service account ({})",
            account.uid
        );
        return Err(Failure::precondition(kind, call.name(), &why));
    }
    let mut errors = Errors::default();
    validate_request(Node::root(&request), &mut errors);
    if !errors.is_empty() {
        return Err(Failure::invalid(kind, "", errors));
    }
    let metadata = &mut request["metadata"];
    metadata["name"] = call.name().into();
    metadata["namespace"] = call.namespace().into();
    metadata["uid"] = account.uid.as_str().into();
    metadata["creationTimestamp"] = seconds(call.now).into();
    let holder = bind(server, &call, account, &request["spec"]["boundObjectRef"]).await?;
    let spec = &mut request["spec"];
    let asked = spec["audiences"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let mut audiences: Vec<String> = asked.map(str::to_owned).collect();
    if audiences.is_empty() {
        audiences = server.issuer.audiences().to_vec();
    }
    spec["audiences"] = json!(audiences);
    let lifetime_s = spec["expirationSeconds"].as_i64().unwrap_or_default();
    let expires = call.now.checked_add(SignedDuration::from_secs(lifetime_s)).map_err(Failure::internal)?;
    let token = server.issuer.issue(holder, audiences, call.now, lifetime_s);
    request["status"] = json!({"token": token, "expirationTimestamp": seconds(expires)});
    let mut text = Vec::new();
    Stored::new(object::encode_answer(&request, &record), 0).write(kind.head(), &mut text);
    let mut response = response::encoded(StatusCode::CREATED, form.encoding, text);
    response::warn(&mut response, decoded.warnings);
    Ok(response)
}

/// A request is about the account in its path, or says nothing of one.
fn check_place(call: &Call, server: &Shared, request: &Value) -> Result<()> {
    let place = [("name", call.name(), "name"), ("namespace", call.namespace().unwrap_or_default(), "namespace")];
    for (field, expected, word) in place {
        let given = text_at(request, &["metadata", field]);
        if !given.is_empty() && given != expected {
            let mut errors = Errors::default();
            let why = format!("must match the service account {word} if specified");
            errors.invalid(&Path::of("metadata").field(field), given, &why);
            return Err(Failure::invalid(&server.token_request, call.name(), errors));
        }
    }
    Ok(())
}

fn reference(stored: &Stored) -> Reference {
    let metadata = stored.metadata();
    let text = |field: &str| text_at(&metadata, &[field]).to_owned();
    Reference { name: text("name"), uid: text("uid") }
}

/// Whom the token is for, and what it ends with.
async fn bind(server: &Shared, call: &Call, account: Reference, bound: &Value) -> Result<Holder> {
    let namespace = call.namespace().unwrap_or_default().to_owned();
    let mut holder = Holder { namespace, node: None, pod: None, secret: None, serviceaccount: account };
    if !bound.is_object() {
        return Ok(holder);
    }
    let bond =
        Bond::of(bound).map_err(|kind| Failure::bad_request(format!("cannot bind token to object of type {kind}")))?;
    let registry = server.registry();
    let resource = registry.built_in("", "v1", bond.plural());
    let name = text_at(bound, &["name"]);
    let stored = read(server, &resource, call.namespace().filter(|_| resource.namespaced), name).await?;
    let found = reference(&stored);
    if bond == Bond::Pod {
        let pod = resource.value(&stored);
        if text_at(&pod, &["spec", "serviceAccountName"]) != call.name() {
            let name = call.name();
            let why = "to pod running with different serviceaccount name.";
            return Err(Failure::bad_request(format!("cannot bind token for serviceaccount {name:?} {why}")));
        }
        holder.node = node_of(server, text_at(&pod, &["spec", "nodeName"])).await?;
    }
    let claimed = text_at(bound, &["uid"]);
    if !claimed.is_empty() && claimed != found.uid {
        let why = format!(
            "the UID in the bound object reference ({claimed}) does not match the UID in record. The object might have been \
             deleted and then recreated"
        );
        return Err(Failure::precondition(&resource, name, &why));
    }
    match bond {
        Bond::Pod => holder.pod = Some(found),
        Bond::Secret => holder.secret = Some(found),
        Bond::Node => holder.node = Some(found),
    }
    Ok(holder)
}

/// The node that a Pod runs on; of one that is not there, its name.
async fn node_of(server: &Shared, name: &str) -> Result<Option<Reference>> {
    if name.is_empty() {
        return Ok(None);
    }
    let nodes = server.registry().built_in("", "v1", "nodes");
    Ok(Some(match read(server, &nodes, None, name).await {
        Ok(node) => reference(&node),
        Err(failure) if failure.code == StatusCode::NOT_FOUND => {
            Reference { name: name.to_owned(), uid: String::new() }
        }
        Err(failure) => return Err(failure),
    }))
}
