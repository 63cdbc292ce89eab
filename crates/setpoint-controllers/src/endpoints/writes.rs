//! Writes EndpointSlices and Endpoints, and notes what was written.

use futures::{StreamExt, stream};
use k8s_openapi::api::core::v1::Endpoints;
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use setpoint_core::service::{Mirror, Plan, mirror};

use super::ServiceEndpoints;
use crate::ownership::{self, Deleted, unless_moved};
use crate::refusal;
use crate::runtime::{Error, Name, Next, Round};

/// How many requests are under way at once.
const AT_ONCE: usize = 16;

/// One write of a plan.
enum Write {
    Create(EndpointSlice),
    Update(EndpointSlice),
    Delete(EndpointSlice),
}

/// What became of it.
enum Written {
    Slice(EndpointSlice),
    Gone(EndpointSlice),
    /// Somebody was faster. The caches tell of it, and of what to do then.
    Moved,
}

impl ServiceEndpoints {
    /// Writes everything. What was written before something failed counts.
    pub(super) async fn write(&self, key: &Name, plan: Plan, round: &mut Round) -> Result<Next, Error> {
        let api: Api<EndpointSlice> = Api::namespaced(self.client.clone(), &key.namespace);
        let creations = plan.create.into_iter().map(Write::Create);
        let writes = creations.chain(plan.update.into_iter().map(Write::Update));
        let writes: Vec<_> =
            writes.chain(plan.delete.into_iter().map(Write::Delete)).map(|write| send(&api, write)).collect();
        let results: Vec<kube::Result<Written>> = stream::iter(writes).buffered(AT_ONCE).collect().await;
        let mut failure = None;
        for result in results {
            match result {
                Ok(Written::Slice(slice)) => round.wrote(&self.caches.endpoint_slices, &slice),
                Ok(Written::Gone(slice)) => round.removed(&self.caches.endpoint_slices, &slice),
                Ok(Written::Moved) => {}
                Err(error) if refusal::is_of_a_namespace_that_goes(&error) => {}
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        if let Some(mirror) = plan.mirror {
            self.mirror(key, mirror, round).await?;
        }
        failure.map_or(Ok(Next::Idle), |error| Err(error.into()))
    }

    async fn mirror(&self, key: &Name, mirror: Mirror, round: &mut Round) -> Result<(), Error> {
        let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
        let result = match &mirror {
            Mirror::Create(endpoints) => api.create(&PostParams::default(), endpoints).await,
            Mirror::Update(endpoints) => api.replace(&key.name, &PostParams::default(), endpoints).await,
        };
        match unless_moved(result) {
            Ok(written) => written.iter().for_each(|endpoints| round.wrote(&self.caches.endpoints, endpoints)),
            Err(error) if refusal::is_of_a_namespace_that_goes(&error) => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }

    /// A Service is gone: its slices go with it, but nobody owns its Endpoints.
    pub(super) async fn clear(&self, key: &Name, round: &mut Round) -> Result<Next, Error> {
        let left = self.caches.endpoints.get(key).filter(|endpoints| mirror::is_left_over(endpoints));
        if let Some(endpoints) = left {
            let api: Api<Endpoints> = Api::namespaced(self.client.clone(), &key.namespace);
            let deleted = ownership::delete(&api, &*endpoints, DeleteParams::default()).await?;
            deleted.note(&endpoints, &self.caches.endpoints, round);
        }
        Ok(Next::Idle)
    }
}

async fn send(api: &Api<EndpointSlice>, write: Write) -> kube::Result<Written> {
    let name = |slice: &EndpointSlice| slice.metadata.name.clone().unwrap_or_default();
    let written = match write {
        Write::Create(slice) => unless_moved(api.create(&PostParams::default(), &slice).await)?.map(Written::Slice),
        Write::Update(slice) => {
            unless_moved(api.replace(&name(&slice), &PostParams::default(), &slice).await)?.map(Written::Slice)
        }
        Write::Delete(slice) => match ownership::delete(api, &slice, DeleteParams::default()).await? {
            Deleted::Marked(marked) => Some(Written::Slice(marked)),
            Deleted::Removed => Some(Written::Gone(slice)),
            Deleted::Moved => None,
        },
    };
    Ok(written.unwrap_or(Written::Moved))
}
