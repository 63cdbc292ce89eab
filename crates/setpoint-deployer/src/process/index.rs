//! Where to find an instance by what is known of it, without going through all of them.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use setpoint_core::observation::Mark;

use super::instances::Pod;

/// The cluster and the intent that an instance was made under.
type Intent = (Box<str>, Option<Box<str>>);

/// The ids of instances by what they bear. Whoever adds one takes the same out again.
#[derive(Debug, Default)]
pub(super) struct Index {
    owners: HashMap<Box<str>, BTreeSet<Box<str>>>,
    intents: HashMap<Intent, BTreeSet<Box<str>>>,
    /// How many have each port.
    ports: BTreeMap<u16, usize>,
}

impl Index {
    pub(super) fn add(&mut self, id: &str, pod: &Pod) {
        self.owners.entry(pod.mark.owner_uid.clone()).or_default().insert(id.into());
        self.intents.entry(intent(&pod.mark)).or_default().insert(id.into());
        for port in &pod.ports {
            *self.ports.entry(*port).or_default() += 1;
        }
    }

    pub(super) fn remove(&mut self, id: &str, pod: &Pod) {
        remove(&mut self.owners, &pod.mark.owner_uid, id);
        remove(&mut self.intents, &intent(&pod.mark), id);
        for port in &pod.ports {
            if let Some(count) = self.ports.get_mut(port) {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(port);
                }
            }
        }
    }

    /// The instances of an owner, whoever's.
    pub(super) fn of_owner(&self, owner_uid: &str) -> impl Iterator<Item = &str> {
        self.owners.get(owner_uid).into_iter().flatten().map(|id| &**id)
    }

    /// What was made under the intent of a mark.
    pub(super) fn of_intent(&self, mark: &Mark) -> Option<&str> {
        self.intents.get(&intent(mark))?.first().map(|id| &**id)
    }

    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.ports.keys().copied().collect()
    }
}

fn intent(mark: &Mark) -> (Box<str>, Option<Box<str>>) {
    (mark.cluster.clone(), mark.intent.clone())
}

fn remove<K: std::hash::Hash + Eq>(ids: &mut HashMap<K, BTreeSet<Box<str>>>, key: &K, id: &str) {
    if let Some(of_key) = ids.get_mut(key) {
        of_key.remove(id);
        if of_key.is_empty() {
            ids.remove(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_is_found_until_it_is_removed() {
        let pod = |intent: &str, ports: &[u16]| Pod {
            name: "web".into(),
            pod_name: "web".into(),
            mark: Mark {
                cluster: "c".into(),
                owner_uid: "owner".into(),
                intent: Some(intent.into()),
                spec_digest: None,
            },
            ports: ports.into(),
            record: None,
        };
        let (first, second) = (pod("1", &[80, 81]), pod("2", &[81]));
        let mut index = Index::default();
        index.add("a", &first);
        index.add("b", &second);
        assert_eq!(index.of_owner("owner").collect::<Vec<_>>(), ["a", "b"]);
        assert_eq!(index.of_intent(&second.mark), Some("b"));
        assert_eq!(index.ports(), [80, 81].into());
        index.remove("a", &first);
        assert_eq!(index.of_owner("owner").collect::<Vec<_>>(), ["b"]);
        assert_eq!((index.of_intent(&first.mark), index.ports()), (None, [81].into()));
        index.remove("b", &second);
        assert!(index.owners.is_empty() && index.intents.is_empty() && index.ports.is_empty());
    }
}
