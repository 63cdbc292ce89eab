//! Writes down whose an object is: an owner adopts what is nobody's, and releases what it no longer selects.
//!
//! Every write names the very object it means, as it was seen: if that has changed since, nothing is written, and whoever
//! asked hears of the change from the caches.

use std::fmt::Debug;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{Patch, PatchParams};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// Whether the owner that a cache shows is still there, and is not on its way out. One that was deleted and made anew is
/// another.
pub(crate) async fn is_still_there<K>(api: &Api<K>, owner: &K) -> kube::Result<bool>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let found = api.get_opt(owner.meta().name.as_deref().unwrap_or_default()).await?;
    let is_same = |found: &K| found.meta().uid == owner.meta().uid && found.meta().deletion_timestamp.is_none();
    Ok(found.as_ref().is_some_and(is_same))
}

/// The object as the owner's; `None` if it is not as it was seen.
pub(crate) async fn adopt<K>(api: &Api<K>, object: &K, owner: &OwnerReference) -> kube::Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    patch(api, object, json!(owner)).await
}

/// The object as nobody's; `None` if it is not as it was seen.
pub(crate) async fn release<K>(api: &Api<K>, object: &K, owner: &OwnerReference) -> kube::Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    patch(api, object, json!({"$patch": "delete", "uid": owner.uid})).await
}

async fn patch<K>(api: &Api<K>, object: &K, reference: Value) -> kube::Result<Option<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let meta = object.meta();
    let patch = json!({"metadata": {
        "uid": meta.uid, "resourceVersion": meta.resource_version, "ownerReferences": [reference],
    }});
    let name = meta.name.as_deref().unwrap_or_default();
    unless_moved(api.patch(name, &PatchParams::default(), &Patch::Strategic(patch)).await)
}

/// What was written; `None` if the object is gone or is not as it was seen.
pub(crate) fn unless_moved<T>(result: kube::Result<T>) -> kube::Result<Option<T>> {
    match result {
        Ok(written) => Ok(Some(written)),
        Err(kube::Error::Api(status)) if status.code == 404 || status.code == 409 => Ok(None),
        Err(error) => Err(error),
    }
}
