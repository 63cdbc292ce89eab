//! Our own kinds: ordinary custom resources, whose definitions the server installs and brings up to date when it starts.
//!
//! They are applied as any client would apply them, by a manager of their own: what others added to a definition stays,
//! what they changed of ours is set right, and a start that finds all as it should be writes nothing. Each is protected:
//! its objects would go with it, so the mark has to be taken away before it can be deleted. The next start brings back
//! both.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use setpoint_api::crds;
use setpoint_api::protection::PROTECTED;

use crate::failure::Result;
use crate::registry::{DEFINITIONS, Lookup};
use crate::server::Shared;
use crate::verbs;

/// Who owns our definitions' fields.
const MANAGER: &str = "setpoint";

/// Installs the definitions of our own kinds, or brings them up to date.
pub async fn install(server: &Shared) -> Result<()> {
    for mut definition in crds::all() {
        definition.metadata.annotations.get_or_insert_default().insert(PROTECTED.to_owned(), "true".to_owned());
        let name = definition.metadata.name.clone().unwrap_or_default();
        let config = serde_json::to_value(&definition).expect("a definition is JSON");
        let (group, resource) = DEFINITIONS;
        let resource = server.registry().built_in(group, "v1", resource);
        match verbs::apply_as_server(server, resource, &name, &config, MANAGER).await {
            Ok(()) => warn_if_unserved(server, &definition),
            // A newer binary may have stored objects in a version that this one does not know. What there is, is served.
            Err(failure) if failure.code.is_client_error() => {
                tracing::warn!("{name} stays as it is, not as this version has it: {}", failure.message());
            }
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
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
