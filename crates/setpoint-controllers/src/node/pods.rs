//! The Pods of a node by their uids, kept in step by a watch.
//!
//! They are not kept by name: between two lists, a Pod can be deleted and another one of its name made, and then the first
//! one's remains have to go although a Pod of that name is there.

use std::collections::HashMap;
use std::sync::Arc;

use k8s_openapi::api::core::v1::Pod;
use kube::runtime::watcher::Event;
use parking_lot::RwLock;

#[derive(Debug, Default)]
pub(super) struct Pods(RwLock<Known>);

#[derive(Debug, Default)]
struct Known {
    pods: HashMap<String, Arc<Pod>>,
    /// What a list that is still coming has named so far.
    listed: HashMap<String, Arc<Pod>>,
    is_complete: bool,
}

impl Pods {
    pub(super) fn get(&self, uid: &str) -> Option<Arc<Pod>> {
        self.0.read().pods.get(uid).cloned()
    }

    /// Whether a Pod that is not here does not exist. Before that, nothing may be removed for want of a Pod.
    pub(super) fn is_complete(&self) -> bool {
        self.0.read().is_complete
    }

    /// Takes in what the watch says, and gives back the uids of those to look at.
    pub(super) fn apply(&self, event: Event<Pod>) -> Vec<String> {
        let mut known = self.0.write();
        match event {
            Event::Init => {
                known.listed.clear();
                Vec::new()
            }
            Event::InitApply(pod) => {
                if let Some(uid) = pod.metadata.uid.clone() {
                    known.listed.insert(uid, Arc::new(pod));
                }
                Vec::new()
            }
            Event::InitDone => {
                let listed = std::mem::take(&mut known.listed);
                let before = std::mem::replace(&mut known.pods, listed);
                let was_complete = std::mem::replace(&mut known.is_complete, true);
                let is_other = |uid: &String, pod: &Arc<Pod>| {
                    let same = before.get(uid).map(|before| &before.metadata.resource_version);
                    !was_complete || same != Some(&pod.metadata.resource_version)
                };
                let changed = known.pods.iter().filter(|(uid, pod)| is_other(uid, pod)).map(|(uid, _)| uid);
                let gone = before.keys().filter(|uid| !known.pods.contains_key(*uid));
                changed.chain(gone).cloned().collect()
            }
            Event::Apply(pod) => {
                let Some(uid) = pod.metadata.uid.clone() else { return Vec::new() };
                known.pods.insert(uid.clone(), Arc::new(pod));
                vec![uid]
            }
            Event::Delete(pod) => {
                let Some(uid) = pod.metadata.uid else { return Vec::new() };
                known.pods.remove(&uid);
                vec![uid]
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(uid: &str, version: &str) -> Pod {
        serde_json::from_value(json!({"metadata": {"name": "web", "uid": uid, "resourceVersion": version}})).unwrap()
    }

    fn list(pods: &Pods, listed: &[Pod]) -> Vec<String> {
        pods.apply(Event::Init);
        listed.iter().for_each(|pod| assert!(pods.apply(Event::InitApply(pod.clone())).is_empty()));
        let mut changed = pods.apply(Event::InitDone);
        changed.sort();
        changed
    }

    #[test]
    fn only_differences_are_looked_at_after_a_list() {
        let pods = Pods::default();
        assert!(!pods.is_complete());
        pods.apply(Event::Init);
        pods.apply(Event::InitApply(pod("a", "1")));
        assert!(!pods.is_complete(), "half a list proves nothing");
        assert_eq!(list(&pods, &[pod("a", "1"), pod("b", "2")]), ["a", "b"], "the first list names all");
        assert!(pods.is_complete());
        assert_eq!(pods.apply(Event::Apply(pod("c", "3"))), ["c"]);
        assert_eq!(list(&pods, &[pod("a", "1"), pod("b", "9"), pod("d", "4")]), ["b", "c", "d"]);
        assert!(pods.get("c").is_none() && pods.get("a").is_some());
        assert_eq!(pods.apply(Event::Delete(pod("a", "5"))), ["a"]);
        assert!(pods.get("a").is_none());
    }

    #[test]
    fn another_pod_of_the_same_name_does_not_hide_that_the_first_is_gone() {
        let pods = Pods::default();
        list(&pods, &[pod("old", "1")]);
        assert_eq!(list(&pods, &[pod("new", "2")]), ["new", "old"]);
    }
}
