//! Tells those who asked which instances to look at again, each at their own pace.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{Notify, mpsc, watch};

use crate::provider::Change;

/// Who has so many to look at looks at everything.
const MAX_PENDING: usize = 1024;
const CHANNEL: usize = 16;

/// What changed since one was last told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Changes {
    pub(crate) ids: BTreeSet<Box<str>>,
    pub(crate) everything: bool,
}

impl Changes {
    pub(crate) fn is_empty(&self) -> bool {
        self.ids.is_empty() && !self.everything
    }

    /// That anything may have changed.
    pub(crate) fn everything() -> Changes {
        Changes { ids: BTreeSet::new(), everything: true }
    }

    fn add(&mut self, more: &Changes) {
        self.ids.extend(more.ids.iter().cloned());
        self.everything |= more.everything;
        if self.everything || self.ids.len() > MAX_PENDING {
            *self = Changes::everything();
        }
    }

    fn list(self) -> Vec<Change> {
        let ids = self.ids.into_iter().map(Change::Instance);
        self.everything.then_some(Change::Everything).into_iter().chain(ids).collect()
    }
}

#[derive(Debug, Default)]
pub(crate) struct Subscribers(Mutex<Vec<Arc<Subscriber>>>);

#[derive(Debug, Default)]
struct Subscriber {
    pending: Mutex<Changes>,
    wake: Notify,
}

impl Subscribers {
    pub(crate) fn tell(&self, changes: &Changes) {
        for subscriber in self.0.lock().iter() {
            subscriber.pending.lock().add(changes);
            subscriber.wake.notify_one();
        }
    }

    pub(crate) fn subscribe(self: &Arc<Self>) -> mpsc::Receiver<Change> {
        let (sender, receiver) = mpsc::channel(CHANNEL);
        let subscriber = Arc::new(Subscriber::default());
        self.0.lock().push(subscriber.clone());
        let all = Arc::downgrade(self);
        tokio::spawn(async move {
            subscriber.deliver(sender).await;
            if let Some(all) = all.upgrade() {
                all.0.lock().retain(|other| !Arc::ptr_eq(other, &subscriber));
            }
        });
        receiver
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().is_empty()
    }
}

impl Subscriber {
    async fn deliver(&self, sender: mpsc::Sender<Change>) {
        loop {
            tokio::select! {
                biased;
                () = sender.closed() => return,
                () = self.wake.notified() => {}
            }
            let changes = std::mem::take(&mut *self.pending.lock());
            for change in changes.list() {
                if sender.send(change).await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Those who wait for a change of one instance each.
#[derive(Debug, Default)]
pub(crate) struct Listeners(Mutex<HashMap<Box<str>, watch::Sender<()>>>);

impl Listeners {
    pub(crate) fn listen(&self, id: &str) -> watch::Receiver<()> {
        let mut listeners = self.0.lock();
        listeners.entry(id.into()).or_insert_with(|| watch::channel(()).0).subscribe()
    }

    /// Forgets an instance if the one who leaves is the last who listens to it. That one still has its receiver.
    pub(crate) fn leave(&self, id: &str) {
        let mut listeners = self.0.lock();
        if listeners.get(id).is_some_and(|sender| sender.receiver_count() <= 1) {
            listeners.remove(id);
        }
    }

    pub(crate) fn tell(&self, changes: &Changes) {
        let listeners = self.0.lock();
        match changes.everything {
            true => listeners.values().for_each(|sender| sender.send_replace(())),
            false => changes.ids.iter().filter_map(|id| listeners.get(id)).for_each(|sender| sender.send_replace(())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn changes(ids: impl IntoIterator<Item = usize>) -> Changes {
        Changes { ids: ids.into_iter().map(|id| id.to_string().into()).collect(), everything: false }
    }

    #[tokio::test]
    async fn a_slow_reader_hears_of_each_once_or_of_everything() {
        let subscribers = Arc::new(Subscribers::default());
        let mut receiver = subscribers.subscribe();
        subscribers.tell(&changes([1]));
        assert_eq!(receiver.recv().await, Some(Change::Instance("1".into())));
        for _ in 0..100 {
            subscribers.tell(&changes([1, 2]));
        }
        assert_eq!(receiver.recv().await, Some(Change::Instance("1".into())));
        assert_eq!(receiver.recv().await, Some(Change::Instance("2".into())));
        subscribers.tell(&changes(0..=MAX_PENDING));
        assert_eq!(receiver.recv().await, Some(Change::Everything));
    }

    #[tokio::test]
    async fn who_has_left_is_forgotten() {
        let subscribers = Arc::new(Subscribers::default());
        drop(subscribers.subscribe());
        while !subscribers.0.lock().is_empty() {
            tokio::task::yield_now().await;
        }
    }

    #[test]
    fn who_listens_to_one_hears_of_that_one() {
        let listeners = Listeners::default();
        let mut first = listeners.listen("1");
        let mut second = listeners.listen("2");
        let everything = Changes::everything();
        for (told, expected) in
            [(changes([1]), (true, false)), (changes([3]), (false, false)), (everything, (true, true))]
        {
            listeners.tell(&told);
            assert_eq!((first.has_changed().unwrap(), second.has_changed().unwrap()), expected, "{told:?}");
            first.mark_unchanged();
            second.mark_unchanged();
        }
        for id in ["1", "2"] {
            listeners.leave(id);
        }
        assert!(listeners.0.lock().is_empty());
    }
}
