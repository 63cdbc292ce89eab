//! Tells of changes of rights those whom they may concern: a role or binding of a namespace gives nothing elsewhere.

use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use tokio::sync::watch;

/// Namespaces share this many lanes, so that nothing has to be kept of each. Who hears of a neighbour's change decides
/// once in vain.
const LANES: usize = 64;

#[derive(Debug)]
pub struct Changes {
    /// Tells of everything.
    all: watch::Sender<()>,
    /// Tells of what counts in the whole cluster.
    cluster: watch::Sender<()>,
    /// Each tells of that, and of its namespaces.
    lanes: [watch::Sender<()>; LANES],
}

impl Default for Changes {
    fn default() -> Changes {
        let lanes = std::array::from_fn(|_| watch::Sender::default());
        Changes { all: watch::Sender::default(), cluster: watch::Sender::default(), lanes }
    }
}

impl Changes {
    /// Tells when rights in these namespaces may have changed; "" stands for the cluster as a whole.
    pub fn of<'n>(&self, namespaces: impl IntoIterator<Item = &'n str>) -> watch::Receiver<()> {
        let named: BTreeSet<&str> = namespaces.into_iter().filter(|namespace| !namespace.is_empty()).collect();
        let mut named = named.into_iter();
        match (named.next(), named.next()) {
            (None, _) => self.cluster.subscribe(),
            (Some(namespace), None) => self.lane(namespace).subscribe(),
            (Some(_), Some(_)) => self.all.subscribe(),
        }
    }

    /// Tells that a role or binding of a namespace, or of the cluster for "", has changed.
    pub(super) fn tell(&self, namespace: &str) {
        self.all.send_replace(());
        if !namespace.is_empty() {
            self.lane(namespace).send_replace(());
            return;
        }
        for sender in std::iter::once(&self.cluster).chain(&self.lanes) {
            sender.send_replace(());
        }
    }

    fn lane(&self, namespace: &str) -> &watch::Sender<()> {
        let mut hasher = DefaultHasher::new();
        namespace.hash(&mut hasher);
        &self.lanes[hasher.finish() as usize % LANES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_told_to_those_whom_it_may_concern() {
        type Row<'a> = (&'a str, &'a [&'a str], &'a str, bool);
        let rows: [Row<'_>; 8] = [
            ("of the namespace", &["shop"], "shop", true),
            ("of another", &["shop"], "bank", false),
            ("of the cluster, in a namespace", &["shop"], "", true),
            ("of the cluster, everywhere", &[""], "", true),
            ("of a namespace, everywhere", &["", ""], "shop", false),
            ("of one of two", &["shop", "bank"], "bank", true),
            ("of the cluster, in two", &["shop", "bank"], "", true),
            ("of the one beside the cluster", &["", "shop", "shop"], "shop", true),
        ];
        let changes = Changes::default();
        for (row, listened, changed, heard) in rows {
            let receiver = changes.of(listened.iter().copied());
            changes.tell(changed);
            assert_eq!(receiver.has_changed().expect("the sender lives"), heard, "{row}");
        }
    }
}
