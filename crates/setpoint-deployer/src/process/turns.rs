//! Turns at instances: one at a time for each, any number at once for all.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

#[derive(Debug, Default)]
pub(super) struct Turns(Mutex<HashMap<Box<str>, Arc<tokio::sync::Mutex<()>>>>);

impl Turns {
    /// Waits for one's turn at an instance. It is over when what is returned is dropped.
    pub(super) async fn take(&self, id: &str) -> OwnedMutexGuard<()> {
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            turns.entry(id.into()).or_default().clone()
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn one_at_a_time_for_each_and_nothing_is_kept() {
        let turns = Turns::default();
        let first = turns.take("a").await;
        assert!(turns.take("a").now_or_never().is_none());
        let other = turns.take("b").now_or_never().expect("another instance waits for nobody");
        drop((first, other));
        turns.take("a").now_or_never().expect("its turn is over");
        drop(turns.take("c").await);
        assert_eq!(turns.0.lock().len(), 1);
    }
}
