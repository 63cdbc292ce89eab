//! One guarantee's chance to be proven: a fresh place, the ways into it, and how to wait for what was begun.

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::time::Instant;

use super::{CLUSTER, Faults, Kind, Seen, Subject, Trouble};
use crate::checked::Checked;
use crate::error::{Error, Retry};
use crate::guard::{Deadlines, Guarded};
use crate::provider::{Instance, Order, Provider, Scope};
use crate::revisions::{OverInstances, RoutingTable};

/// Why a guarantee is not proven.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Unproven {
    /// It does not hold.
    Broken(String),
    /// It says nothing about a place such as this one.
    NotApplicable(String),
}

pub type Verdict<T = ()> = Result<T, Unproven>;

impl From<Error> for Unproven {
    fn from(error: Error) -> Unproven {
        Unproven::Broken(error.to_string())
    }
}

pub(super) fn broken<T>(reason: impl Into<String>) -> Verdict<T> {
    Err(Unproven::Broken(reason.into()))
}

pub(super) fn not_applicable<T>(reason: impl Into<String>) -> Verdict<T> {
    Err(Unproven::NotApplicable(reason.into()))
}

/// The guarantee is broken unless this holds.
macro_rules! ensure {
    ($condition:expr, $($reason:tt)+) => {
        if !$condition {
            return $crate::conformance::trial::broken(format!($($reason)+));
        }
    };
}
pub(super) use ensure;

/// How often one looks while waiting.
const GLANCE: Duration = Duration::from_millis(25);
/// How much later than asked for something may happen on a busy machine.
pub(super) const SLACK: Duration = Duration::from_secs(4);
/// How long calls may take where nothing is wrong.
const DEADLINES: Deadlines = Deadlines { observe: Duration::from_secs(10), change: Duration::from_secs(10) };
/// How long calls may take where something is.
pub(super) const SHORT: Duration = Duration::from_millis(400);

/// What a guarantee is given.
#[derive(Debug)]
pub struct Trial<'a> {
    pub(super) subject: &'a dyn Subject,
    /// Part of the place: a router outlives whoever programs it.
    table: Arc<RoutingTable>,
}

impl<'a> Trial<'a> {
    pub fn new(subject: &'a dyn Subject) -> Trial<'a> {
        Trial { subject, table: Arc::default() }
    }

    /// A new client over the place, as everybody gets one.
    pub(super) fn provider(&self) -> Arc<Guarded> {
        Arc::new(Guarded::new(self.subject.provider(), DEADLINES))
    }

    /// A new client that waits for nobody.
    pub(super) fn impatient_provider(&self) -> Guarded {
        Guarded::new(self.subject.provider(), Deadlines { observe: SHORT, change: SHORT })
    }

    /// A new deployer over the place.
    pub(super) fn deployer(&self) -> Verdict<Checked> {
        self.deployer_within(DEADLINES)
    }

    pub(super) fn impatient_deployer(&self) -> Verdict<Checked> {
        self.deployer_within(Deadlines { observe: SHORT, change: SHORT })
    }

    fn deployer_within(&self, deadlines: Deadlines) -> Verdict<Checked> {
        if let Some(deployer) = self.subject.deployer() {
            return Ok(Checked::with_deadlines(deployer, deadlines));
        }
        let provider = Arc::new(Guarded::new(self.subject.provider(), deadlines));
        if !provider.abilities().runs_pods {
            return not_applicable("it runs no Pods and has no revisions of its own");
        }
        let router = Arc::clone(&self.table) as _;
        Ok(Checked::with_deadlines(Arc::new(OverInstances { cluster: CLUSTER.into(), provider, router }), deadlines))
    }

    /// Makes the place fail.
    pub(super) fn trouble(&self, trouble: Trouble) -> Verdict<&'a dyn Faults> {
        match self.subject.faults() {
            Some(faults) if faults.arrange(trouble) => Ok(faults),
            _ => not_applicable(format!("this place cannot fail so: {trouble:?}")),
        }
    }

    pub(super) async fn seen(&self) -> Vec<Seen> {
        self.subject.witness().instances().await
    }

    /// What the witness sees of an intent.
    pub(super) async fn made_under(&self, intent: &str) -> Vec<Seen> {
        let is_its = |seen: &Seen| seen.mark.as_ref().is_some_and(|mark| mark.intent.as_deref() == Some(intent));
        self.seen().await.into_iter().filter(is_its).collect()
    }

    /// How many of our instances the witness sees running.
    pub(super) async fn running(&self) -> usize {
        self.seen().await.iter().filter(|seen| seen.running && seen.mark.is_some()).count()
    }

    pub(super) async fn is_seen_running(&self, id: &str) -> bool {
        self.seen().await.iter().any(|seen| *seen.id == *id && seen.running)
    }

    pub(super) async fn calls(&self) -> u64 {
        self.subject.witness().calls().await
    }

    /// Makes an instance and waits until it runs, by what is observed and by what the witness sees.
    pub(super) async fn make(&self, name: &str, kind: Kind) -> Verdict<(Order, Box<str>)> {
        let order = self.subject.order(name, &format!("make-{name}"), kind);
        let id = self.provider().create(&order).await?;
        self.wait_running(&id).await?;
        Ok((order, id))
    }

    pub(super) async fn wait_running(&self, id: &str) -> Verdict {
        self.eventually(&format!("{id} runs"), async || Ok(self.observed_running(id).await? == Some(true))).await?;
        ensure!(self.is_seen_running(id).await, "{id} is observed running, and the witness does not see it");
        Ok(())
    }

    /// Waits until an instance is there and does not run, or is not there at all.
    pub(super) async fn wait_ended(&self, id: &str) -> Verdict {
        let ended = async || Ok(self.observed_running(id).await? != Some(true) && !self.is_seen_running(id).await);
        self.eventually(&format!("{id} has ended"), ended).await
    }

    /// Waits until nothing is left of an instance.
    pub(super) async fn wait_gone(&self, id: &str) -> Verdict {
        let gone = async || {
            let is_seen = self.seen().await.iter().any(|seen| *seen.id == *id);
            Ok(self.observe_instance(id).await?.is_none() && !is_seen)
        };
        self.eventually(&format!("{id} is gone"), gone).await
    }

    /// An instance as a new client observes it.
    pub(super) async fn observe_instance(&self, id: &str) -> Verdict<Option<Instance>> {
        let observed = self.provider().observe(&Scope::Instance(id.into())).await?;
        Ok(observed.instance(id).cloned())
    }

    /// Whether an instance is observed running; `None` if it is not there.
    pub(super) async fn observed_running(&self, id: &str) -> Verdict<Option<bool>> {
        let words = self.subject.provider().abilities().guests.running_words;
        let observed = self.observe_instance(id).await?;
        Ok(observed.map(|instance| instance.guest.run.known().is_some_and(|word| words.contains(&&**word))))
    }

    /// Waits for something to come about.
    pub(super) async fn eventually(&self, what: &str, holds: impl AsyncFn() -> Verdict<bool>) -> Verdict {
        let deadline = Instant::now() + self.subject.patience();
        while !holds().await? {
            ensure!(Instant::now() < deadline, "{what}: not within {:?}", self.subject.patience());
            tokio::time::sleep(GLANCE).await;
        }
        Ok(())
    }

    /// Asks again as long as the error says that this may help.
    pub(super) async fn until_done<T>(&self, ask: impl AsyncFn() -> Result<T, Error>) -> Verdict<T> {
        let deadline = Instant::now() + self.subject.patience();
        loop {
            match ask().await {
                Ok(done) => return Ok(done),
                Err(error) if error.retry() == Retry::Never => return Err(error.into()),
                Err(error) => ensure!(Instant::now() < deadline, "asked again and again, and still: {error}"),
            }
            tokio::time::sleep(GLANCE).await;
        }
    }
}

/// Lets a call be polled so many times and then drops it, as a crash does. `None` if it had not ended by then.
pub(super) async fn crash_after<T>(polls: usize, call: impl Future<Output = T>) -> Option<T> {
    let mut call = pin!(call);
    let mut left = polls;
    std::future::poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(None);
        }
        left -= 1;
        match call.as_mut().poll(context) {
            Poll::Ready(done) => Poll::Ready(Some(done)),
            Poll::Pending if left == 0 => Poll::Ready(None),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}
