//! Drives a controller: one key at a time, each with the caches showing what its last round wrote.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::histogram::Histogram;
use setpoint_core::pod::NoticeKind;
use setpoint_deployer::Retry;
use tokio::time::Instant;

use super::caches::Caches;
use super::clock::Clock;
use super::configuration::{Configuration, Context};
use super::controller::{Controller, Error, Next};
use super::report::Report;
use super::round::{Round, Unseen};
use crate::events::Recorder;
use crate::queue::{Outcome, Queue, Work, caught};

/// How long a round waits for the caches to show what the last one wrote. The watches that feed them take themselves up
/// again; meanwhile it is better to say that one waits.
const CATCH_UP: Duration = Duration::from_secs(10);
/// How many keys a sweep adds at a time.
const SWEPT_AT_ONCE: usize = 16;

pub struct Runner<C: Controller> {
    controller: Arc<C>,
    configuration: Configuration,
    queue: Arc<Queue<C::Key>>,
    clock: Clock,
    recorder: Recorder,
    rounds: Histogram,
    panics: Counter,
    /// What the last round on a key wrote, as long as it may not be seen.
    unseen: Mutex<BTreeMap<C::Key, Vec<Unseen>>>,
}

/// What came of a round.
struct Finished {
    outcome: Outcome,
    has_written: bool,
    note: String,
}

impl<C: Controller> std::fmt::Debug for Runner<C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Runner").field("controller", &C::NAME).finish_non_exhaustive()
    }
}

impl<C: Controller> Runner<C> {
    /// Wires a controller, to be driven as it wants to be. The caches must not be fed yet.
    pub fn new(controller: C, caches: &Caches, context: &Context) -> Arc<Runner<C>> {
        Runner::configured(controller, caches, context, C::configuration())
    }

    pub fn configured(
        controller: C,
        caches: &Caches,
        context: &Context,
        configuration: Configuration,
    ) -> Arc<Runner<C>> {
        let options = context.queue_options(C::NAME, &configuration);
        let (rounds, panics) = (options.meter.rounds.clone(), options.meter.panics.clone());
        let controller = Arc::new(controller);
        let lanes = Arc::downgrade(&controller);
        let lane_of = move |key: &C::Key| lanes.upgrade().map(|controller| controller.lane(key)).unwrap_or_default();
        let queue = Arc::new(Queue::in_lanes(options, Box::new(lane_of)));
        let listeners = caches.all().map(|cache| cache.listeners());
        controller.wire(caches, &queue);
        for (cache, listeners) in caches.all().into_iter().zip(listeners) {
            if !configuration.kinds.includes(cache.kind()) {
                cache.keep_listeners(listeners);
            }
        }
        let (clock, recorder, unseen) = (context.clock, context.recorder(C::NAME), Mutex::default());
        let runner = Arc::new(Runner { controller, configuration, queue, clock, recorder, rounds, panics, unseen });
        for cache in caches.all() {
            if runner.configuration.kinds.includes(cache.kind()) {
                let runner = Arc::downgrade(&runner);
                let wake = move || runner.upgrade().iter().for_each(|runner| runner.wake_passed_over());
                cache.listen_to_lists(Box::new(wake));
            }
        }
        runner
    }

    pub fn controller(&self) -> &C {
        &self.controller
    }

    pub fn queue(&self) -> &Queue<C::Key> {
        &self.queue
    }

    /// Whether the caches show what the last round on a key wrote.
    pub fn is_up_to_date(&self, key: &C::Key) -> bool {
        self.unseen.lock().get(key).is_none_or(|unseen| unseen.iter().all(Unseen::is_seen))
    }

    /// The keys that can be worked on now, in order.
    pub fn ready(&self) -> Vec<C::Key> {
        let mut ready = self.queue.ready();
        ready.retain(|key| self.is_up_to_date(key));
        ready
    }

    /// Has everything looked at.
    pub fn wake_all(&self) {
        self.controller.keys().into_iter().for_each(|key| self.queue.add(key));
    }

    /// Has everything looked at again for which the last round wrote something that may be gone without a word.
    fn wake_passed_over(&self) {
        let unseen = self.unseen.lock();
        let passed_over = unseen.iter().filter(|(_, writes)| writes.iter().any(Unseen::is_passed_over));
        passed_over.for_each(|(key, _)| self.queue.add(key.clone()));
    }

    /// Works until its queue is closed. It begins anew, with everything there is.
    pub async fn run(self: Arc<Self>) {
        self.begin();
        let work = self.queue.clone().run(self.clone());
        tokio::select! {
            biased;
            () = work => {}
            () = self.sweep() => {}
        }
    }

    /// Begins anew, with everything there is. What was written before may never show: another may have led since.
    pub fn begin(&self) {
        self.unseen.lock().clear();
        self.queue.open();
        self.wake_all();
    }

    /// One round on a key, whether or not anything changed, without waiting for anything but its own requests.
    pub async fn reconcile_once(&self, key: &C::Key) -> Report {
        if !self.is_up_to_date(key) || !self.queue.take(key) {
            return Report::skipped();
        }
        let finished = match caught(self.round(key)).await {
            Ok(finished) => finished,
            Err(message) => {
                self.panicked(key, &message).await;
                Finished { outcome: Outcome::Failed(Retry::BackOff), has_written: false, note: message }
            }
        };
        self.queue.finish(key.clone(), finished.outcome);
        Report { examined: 1, changed: usize::from(finished.has_written), skipped: 0, note: finished.note }
    }

    /// One round on everything there is.
    pub async fn reconcile_all_once(&self) -> Report {
        let mut report = Report::default();
        for key in self.controller.keys() {
            report += self.reconcile_once(&key).await;
        }
        report
    }

    /// Has everything looked at now and then, a few at a time, spread so that it disturbs nobody.
    async fn sweep(&self) {
        let Some(interval) = self.configuration.sweep else { return std::future::pending().await };
        let mut sweeps = tokio::time::interval_at(Instant::now() + interval, interval);
        sweeps.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            sweeps.tick().await;
            self.unseen.lock().retain(|_, writes| !writes.iter().all(Unseen::is_seen));
            let keys = self.controller.keys();
            let portions = u32::try_from(keys.len().div_ceil(SWEPT_AT_ONCE)).unwrap_or(u32::MAX).max(1);
            for portion in keys.chunks(SWEPT_AT_ONCE) {
                portion.iter().for_each(|key| self.queue.add(key.clone()));
                tokio::time::sleep(interval / 2 / portions).await;
            }
        }
    }

    async fn catch_up(&self, key: &C::Key) -> Result<(), Error> {
        if self.is_up_to_date(key) {
            return Ok(());
        }
        let unseen = self.unseen.lock().remove(key).unwrap_or_default();
        let all_seen = async {
            for write in &unseen {
                write.seen().await;
            }
        };
        if tokio::time::timeout(CATCH_UP, all_seen).await.is_err() {
            self.unseen.lock().insert(key.clone(), unseen);
            return Err(Error::Behind(CATCH_UP));
        }
        self.queue.begin(key);
        Ok(())
    }

    async fn round(&self, key: &C::Key) -> Finished {
        let started = Instant::now();
        let mut round = Round::new(self.clock.now());
        let result = self.controller.reconcile(key, &mut round).await;
        self.rounds.observe(started.elapsed().as_secs_f64());
        let has_written = !round.writes.is_empty();
        if has_written {
            let mut unseen = self.unseen.lock();
            // A list that came in the midst of the round found nothing to wake.
            if round.writes.iter().any(Unseen::is_passed_over) {
                self.queue.add(key.clone());
            }
            unseen.insert(key.clone(), round.writes);
        } else {
            self.unseen.lock().remove(key);
        }
        let note = result.as_ref().err().map(ToString::to_string).unwrap_or_default();
        let outcome = match result {
            Ok(Next::Idle) => Outcome::Done,
            Ok(Next::After(after)) => Outcome::Until(after),
            Err(error) => self.failed(key, &error),
        };
        Finished { outcome, has_written, note }
    }

    fn failed(&self, key: &C::Key, error: &Error) -> Outcome {
        if error.is_conflict() {
            tracing::debug!(controller = C::NAME, ?key, %error, "this comes again");
        } else {
            tracing::warn!(controller = C::NAME, ?key, %error, "this did not get on");
        }
        Outcome::Failed(match error.retry() {
            // Nothing else would come back to it.
            Retry::Never => Retry::BackOff,
            retry => retry,
        })
    }
}

impl<C: Controller> Work<C::Key> for Runner<C> {
    async fn work(&self, key: &C::Key) -> Outcome {
        match self.catch_up(key).await {
            Ok(()) => self.round(key).await.outcome,
            Err(error) => self.failed(key, &error),
        }
    }

    async fn panicked(&self, key: &C::Key, message: &str) {
        self.panics.inc();
        tracing::error!(controller = C::NAME, ?key, message, "the work on this panicked");
        if let Some(about) = self.controller.about(key) {
            let message = format!("a fault in setpoint keeps it from working on this: {message}");
            self.recorder.say_about(about, NoticeKind::Warning, "InternalError", &message);
        }
    }
}
