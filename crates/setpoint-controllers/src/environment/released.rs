//! Guests that were released and still count: one counts until it is gone, is ours again, or is written off.

use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;
use setpoint_api::environment::{Environment, WRITTEN_OFF};
use setpoint_core::gate::settle_released;
use setpoint_core::observation::Observation;
use setpoint_deployer::Provider;

use super::Environments;
use crate::events::is_code;
use crate::planning::released;
use crate::runtime::{Error, Round};

impl Environments {
    /// Takes off the list what does not count any more after a look. Whoever releases a guest writes the same list: if that was
    /// just now, the next look tells.
    pub(super) async fn settle_released(
        &self,
        environment: &Environment,
        provider: &dyn Provider,
        look: &Observation,
        round: &mut Round,
    ) -> Result<(), Error> {
        let meta = &environment.metadata;
        let released = released(environment);
        let written_off = meta.annotations.as_ref().and_then(|annotations| annotations.get(WRITTEN_OFF));
        let written_off = written_off.map(String::as_str).unwrap_or_default();
        let settle_seconds = provider.abilities().guests.settle_seconds;
        let left = settle_released(released, written_off, look, &self.setup.cluster, settle_seconds);
        if left == released {
            return Ok(());
        }
        let patch = json!({
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": {"released": left},
        });
        let api: Api<Environment> = Api::all(self.client.clone());
        let name = meta.name.as_deref().unwrap_or_default();
        match api.patch_status(name, &PatchParams::default(), &Patch::Merge(patch)).await {
            Ok(written) => round.wrote(&self.caches.environments, &written),
            Err(error) if is_code(&error, 404) || is_code(&error, 409) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
