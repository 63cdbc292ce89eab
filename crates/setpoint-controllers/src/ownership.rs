//! Writes down whose an object is: an owner adopts what is nobody's, releases what it no longer selects, and deletes what
//! it no longer needs.
//!
//! Every write names the very object it means, as it was seen: if that has changed since, nothing is written, and whoever
//! asked hears of the change from the caches.

use std::fmt::Debug;
use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::api::{DeleteParams, Patch, PatchParams, Preconditions};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::runtime::{Cache, Round};

/// What became of an object that was to be deleted.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Deleted<K> {
    /// It is on its way out: it ends in its own time, or something holds it.
    Marked(K),
    /// It is gone, whoever deleted it.
    Removed,
    /// It is not as it was meant: another has its name.
    Moved,
}

impl<K: Resource<DynamicType = ()> + Send + Sync + 'static> Deleted<K> {
    /// Has the next round begin when it is seen what became of the object. What has moved is told by the caches anyhow.
    pub(crate) fn note(&self, object: &K, cache: &Arc<Cache<K>>, round: &mut Round) {
        match self {
            Deleted::Marked(marked) => round.wrote(cache, marked),
            Deleted::Removed => round.removed(cache, object),
            Deleted::Moved => {}
        }
    }
}

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

/// Deletes this very object, and no other of its name; and only as it was seen, if `how` names its version.
pub(crate) async fn delete<K>(api: &Api<K>, object: &K, how: DeleteParams) -> kube::Result<Deleted<K>>
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let resource_version = how.preconditions.and_then(|only| only.resource_version);
    let only = Preconditions { uid: object.meta().uid.clone(), resource_version };
    let how = DeleteParams { preconditions: Some(only), ..how };
    match api.delete(object.meta().name.as_deref().unwrap_or_default(), &how).await {
        Ok(answer) => Ok(answer.left().filter(|left| stays(left.meta())).map_or(Deleted::Removed, Deleted::Marked)),
        Err(kube::Error::Api(status)) if status.code == 404 => Ok(Deleted::Removed),
        Err(kube::Error::Api(status)) if status.code == 409 => Ok(Deleted::Moved),
        Err(error) => Err(error),
    }
}

/// Whether what was deleted is still there.
fn stays(meta: &ObjectMeta) -> bool {
    let ends_later = meta.deletion_grace_period_seconds.is_some_and(|seconds| seconds > 0);
    let is_held = meta.finalizers.as_ref().is_some_and(|finalizers| !finalizers.is_empty());
    meta.deletion_timestamp.is_some() && (ends_later || is_held)
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

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use k8s_openapi::api::core::v1::Pod;
    use kube::Client;
    use kube::client::Body;

    use super::*;

    fn pod(over: &Value) -> Pod {
        let mut metadata = json!({"name": "p", "namespace": "shop", "uid": "u", "resourceVersion": "7"});
        for (field, value) in over.as_object().into_iter().flatten() {
            metadata[field] = value.clone();
        }
        serde_json::from_value(json!({"metadata": metadata})).unwrap()
    }

    /// What comes of a deletion that is answered so.
    async fn outcome(code: u16, answer: Value) -> kube::Result<Deleted<Pod>> {
        let service = tower::service_fn(move |request: Request<Body>| {
            let answer = answer.to_string().into_bytes();
            async move {
                let asked = request.into_body().collect_bytes().await.unwrap();
                let asked: Value = serde_json::from_slice(&asked).unwrap();
                assert_eq!(asked["preconditions"]["uid"], "u", "this very object is meant");
                Ok::<_, Infallible>(Response::builder().status(code).body(Body::from(answer)).unwrap())
            }
        });
        let api: Api<Pod> = Api::namespaced(Client::new(service, "default"), "shop");
        delete(&api, &pod(&json!({})), DeleteParams::default()).await
    }

    #[tokio::test]
    async fn it_is_known_whether_what_was_deleted_is_gone() {
        let status =
            |code: u16| json!({"kind": "Status", "status": "Failure", "code": code, "message": "", "reason": ""});
        let done = json!({"kind": "Status", "status": "Success", "code": 200, "message": "", "reason": ""});
        let marked = |over: Value| {
            let mut pod = pod(&over);
            pod.metadata.deletion_timestamp = serde_json::from_value(json!("2026-03-01T12:00:00Z")).unwrap();
            pod
        };
        let (ends, held) = (json!({"deletionGracePeriodSeconds": 30}), json!({"finalizers": ["a/b"]}));
        let ended = json!({"deletionGracePeriodSeconds": 0});
        let rows = [
            ("it ends in its own time", 200, json!(marked(ends.clone())), Some(Deleted::Marked(marked(ends)))),
            ("something holds it", 200, json!(marked(held.clone())), Some(Deleted::Marked(marked(held)))),
            ("it is shown as it was last", 200, json!(marked(ended)), Some(Deleted::Removed)),
            ("it is not shown", 200, done, Some(Deleted::Removed)),
            ("it was gone before", 404, status(404), Some(Deleted::Removed)),
            ("another has its name", 409, status(409), Some(Deleted::Moved)),
            ("whoever asks does not lead", 412, status(412), None),
            ("it may not be deleted", 403, status(403), None),
        ];
        for (name, code, answer, expected) in rows {
            assert_eq!(outcome(code, answer).await.ok(), expected, "{name}");
        }
    }
}
