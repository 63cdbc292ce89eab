//! A controller of any kind, to be run or to be driven by hand.

use std::sync::Arc;

use futures::future::BoxFuture;
use tokio::time::Instant;

use super::controller::Controller;
use super::report::Report;
use super::runner::Runner;

/// What can be done with a controller without knowing its keys. Nothing here waits but [`Driven::run`].
pub trait Driven: Send + Sync {
    fn name(&self) -> &'static str;

    /// Begins anew, with everything there is, after it was made or closed.
    fn begin(&self);

    /// Those that can be worked on now, in order: they are due, and the caches show what their last round wrote.
    fn ready(&self) -> Vec<String>;

    /// When something becomes due by itself.
    fn next_due(&self) -> Option<Instant>;

    /// One round of work on one of those that are ready, by its place among them.
    fn turn(&self, place: usize) -> BoxFuture<'_, Report>;

    /// Works until it is closed, or for ever. It begins anew, with everything there is.
    fn run(self: Arc<Self>) -> BoxFuture<'static, ()>;

    /// Hears of nothing until it is run again, and lets what runs end once what is being worked on has been finished.
    fn close(&self);
}

impl<C: Controller> Driven for Runner<C> {
    fn name(&self) -> &'static str {
        C::NAME
    }

    fn begin(&self) {
        Runner::begin(self);
    }

    fn ready(&self) -> Vec<String> {
        Runner::ready(self).iter().map(|key| format!("{key:?}")).collect()
    }

    fn next_due(&self) -> Option<Instant> {
        self.queue().next_due()
    }

    fn turn(&self, place: usize) -> BoxFuture<'_, Report> {
        Box::pin(async move {
            match Runner::ready(self).get(place) {
                Some(key) => self.reconcile_once(key).await,
                None => Report::default(),
            }
        })
    }

    fn run(self: Arc<Self>) -> BoxFuture<'static, ()> {
        Box::pin(Runner::run(self))
    }

    fn close(&self) {
        self.queue().close();
        self.controller().resign();
    }
}
