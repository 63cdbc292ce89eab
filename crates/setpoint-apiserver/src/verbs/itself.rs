//! What the server applies by itself, in the way any client would.

use std::sync::Arc;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use serde_json::Value;

use super::run;
use crate::authentication::Caller;
use crate::failure::Result;
use crate::query::Query;
use crate::registry::Resource;
use crate::request::{ResourcePath, Verb};
use crate::server::{Call, Shared};

/// Applies the configuration of an object of the cluster under a manager's name. What others changed of it is set right.
pub async fn apply_as_server(
    server: &Shared,
    resource: Arc<Resource>,
    name: &str,
    config: &Value,
    manager: &str,
) -> Result<()> {
    let call = Call {
        caller: Caller::server(),
        verb: Verb::Patch,
        path: ResourcePath {
            group: resource.group.to_string(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            name: Some(name.to_owned()),
            ..ResourcePath::default()
        },
        query: Query::parse(Some(&format!("fieldManager={manager}&force=true&fieldValidation=Strict"))),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/apply-patch+yaml"))]),
        body: config.to_string().into(),
        now: server.surroundings.now(),
        place: None,
        resource,
    };
    run(server, call).await.map(drop)
}
