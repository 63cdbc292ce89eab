//! What a server's refusal means to those who write.

use kube::runtime::watcher;

/// What people are told of it: the server's own words.
pub(crate) fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => status.message.clone(),
        other => other.to_string(),
    }
}

/// The same of a watch.
pub(crate) fn words_of_watch(error: &watcher::Error) -> String {
    use watcher::Error::{InitialListFailed, NoResourceVersion, WatchError, WatchFailed, WatchStartFailed};
    match error {
        InitialListFailed(error) | WatchStartFailed(error) | WatchFailed(error) => words(error),
        WatchError(status) => status.message.clone(),
        NoResourceVersion => error.to_string(),
    }
}

/// Whether nothing can be made because the namespace is on its way out. Then nothing needs to be.
pub(crate) fn is_of_a_namespace_that_goes(error: &kube::Error) -> bool {
    let kube::Error::Api(status) = error else { return false };
    let causes = status.details.iter().flat_map(|details| &details.causes);
    causes.into_iter().any(|cause| cause.reason == "NamespaceTerminating")
}
