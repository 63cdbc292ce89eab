//! Our own kinds: ordinary custom resources, whose definitions the server installs and brings up to date when it starts.
//!
//! They are applied as any client would apply them, by a manager of their own: what others added to a definition stays,
//! what they changed of ours is set right, and a start that finds all as it should be writes nothing. Each is protected:
//! its objects would go with it, so the mark has to be taken away before it can be deleted. The next start brings back
//! both.

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue};
use jiff::Timestamp;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use setpoint_api::crds;
use setpoint_api::protection::PROTECTED;

use crate::authentication::Caller;
use crate::failure::Result;
use crate::query::Query;
use crate::registry::{DEFINITIONS, Lookup};
use crate::request::{ResourcePath, Verb};
use crate::server::{Call, Shared};
use crate::verbs;

/// Who owns our definitions' fields.
const MANAGER: &str = "setpoint";

/// Installs the definitions of our own kinds, or brings them up to date.
pub async fn install(server: &Shared) -> Result<()> {
    for mut definition in crds::all() {
        definition.metadata.annotations.get_or_insert_default().insert(PROTECTED.to_owned(), "true".to_owned());
        let name = definition.metadata.name.clone().unwrap_or_default();
        match verbs::run(server, application(server, &name, &definition)).await {
            Ok(_) => warn_if_unserved(server, &definition),
            // A newer binary may have stored objects in a version that this one does not know. What there is, is served.
            Err(failure) if failure.code.is_client_error() => {
                tracing::warn!("{name} stays as it is, not as this version has it: {}", failure.message());
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}

/// The request that a client would make.
fn application(server: &Shared, name: &str, definition: &CustomResourceDefinition) -> Call {
    let (group, resource) = DEFINITIONS;
    let resource = server.registry().built_in(group, "v1", resource);
    Call {
        caller: Caller::server(),
        verb: Verb::Patch,
        path: ResourcePath {
            group: group.to_owned(),
            version: resource.version.to_string(),
            resource: resource.plural.to_string(),
            name: Some(name.to_owned()),
            ..ResourcePath::default()
        },
        query: Query::parse(Some(&format!("fieldManager={MANAGER}&force=true&fieldValidation=Strict"))),
        headers: HeaderMap::from_iter([(CONTENT_TYPE, HeaderValue::from_static("application/apply-patch+yaml"))]),
        body: serde_json::to_vec(definition).expect("a definition is JSON").into(),
        now: Timestamp::now(),
        resource,
    }
}

/// Somebody else's definition may have taken a name of ours first, or one of ours may be on its way out.
fn warn_if_unserved(server: &Shared, definition: &CustomResourceDefinition) {
    let spec = &definition.spec;
    let registry = server.registry();
    for version in spec.versions.iter().filter(|version| version.served) {
        if !matches!(registry.find(&spec.group, &version.name, &spec.names.plural), Lookup::Found(_)) {
            let (plural, group) = (&spec.names.plural, &spec.group);
            tracing::warn!("{plural}.{group}/{} is not served: see the conditions of its definition", version.name);
        }
    }
}
