//! A watch of Pods that keeps only what is read of them.

use futures::Stream;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::{WatchStreamExt, watcher};
use kube::{Api, Client};

/// How many Pods are read at once at the start: they are in memory together for a moment.
const PAGE: u32 = 50;

/// The Pods that a field selector chooses. They come without the record of who owns which field, which takes many times
/// the memory of the Pod itself.
pub(crate) fn watch(
    client: Client,
    fields: &str,
) -> impl Stream<Item = watcher::Result<watcher::Event<Pod>>> + Send + use<> {
    let config = watcher::Config::default().fields(fields).page_size(PAGE);
    let events = watcher::watcher(Api::<Pod>::all(client), config);
    events.modify(|pod| pod.metadata.managed_fields = None).default_backoff()
}
