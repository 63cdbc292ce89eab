//! Takes part in the election of who acts, by a Lease. What to do is decided by `setpoint_core::leadership`.

use std::pin::pin;
use std::time::Duration;

use futures::stream::BoxStream;
use futures::{FutureExt, StreamExt};
use http::HeaderValue;
use http::header::InvalidHeaderValue;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{MicroTime, ObjectMeta};
use kube::api::PostParams;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, watcher as watch};
use kube::{Api, Client};
use setpoint_core::leadership::{Candidate, Move, Record, Terms};
use tokio::time::Instant;

use super::clock::Clock;
use super::fence::Fence;
use crate::events::is_code;

/// The Lease of those who run the controllers.
pub const NAMESPACE: &str = "kube-system";
pub const NAME: &str = "setpoint-controllers";
/// How long to wait for news after a write did not succeed.
const TRY_AGAIN: Duration = Duration::from_millis(200);

/// One's part in an election, from becoming a candidate to the end.
pub struct Election {
    leases: Api<Lease>,
    candidate: Candidate,
    clock: Clock,
    terms: Terms,
    started: Instant,
    changes: BoxStream<'static, watcher::Result<Event<Lease>>>,
    /// The Lease as it was seen last.
    lease: Option<Lease>,
    /// Whether a list that is under way has named it.
    is_listed: bool,
    /// Before which nothing is written.
    not_before: Option<Instant>,
    fence: Fence,
}

impl std::fmt::Debug for Election {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Election").field("candidate", &self.candidate).finish_non_exhaustive()
    }
}

impl Election {
    /// Stands for election, and opens the fence while one leads. An identity has to be a header's value, and nobody else's.
    pub fn new(client: Client, identity: &str, clock: Clock, fence: Fence) -> Result<Election, InvalidHeaderValue> {
        header(0, identity)?;
        let (terms, leases) = (Terms::default(), Api::<Lease>::namespaced(client, NAMESPACE));
        let only = watcher::Config::default().fields(&format!("metadata.name={NAME}"));
        let changes = watch::watcher(leases.clone(), only).default_backoff().boxed();
        let (candidate, started) = (Candidate::new(identity, terms), Instant::now());
        let (lease, is_listed, not_before) = (None, false, None);
        Ok(Election { leases, candidate, clock, terms, started, changes, lease, is_listed, not_before, fence })
    }

    /// Returns once one leads.
    pub async fn won(&mut self) {
        while self.candidate.leads().is_none() {
            self.step().await;
        }
    }

    /// Renews the leadership, and returns once it is lost.
    pub async fn lost(&mut self) {
        while self.candidate.leads().is_some() {
            self.step().await;
        }
    }

    /// Leaves the election; if one leads, somebody else may at once.
    pub async fn leave(self) {
        self.fence.close();
        if self.candidate.leads().is_none() {
            return;
        }
        let patience = self.terms.renewal;
        match tokio::time::timeout(patience, self.release()).await {
            Ok(Ok(())) => tracing::info!("the leadership was given up"),
            Ok(Err(error)) => tracing::warn!(%error, "the leadership could not be given up; it ends by itself"),
            Err(_) => tracing::warn!("the leadership could not be given up in time; it ends by itself"),
        }
    }

    /// The Lease is read again: a renewal may have been under way.
    async fn release(self) -> kube::Result<()> {
        let (Some(mut lease), Some((epoch, _))) = (self.leases.get_opt(NAME).await?, self.candidate.leads()) else {
            return Ok(());
        };
        let spec = lease.spec.get_or_insert_default();
        let is_ours = spec.holder_identity.as_deref() == Some(self.candidate.identity());
        if is_ours && spec.lease_transitions == Some(epoch) {
            spec.holder_identity = Some(String::new());
            self.leases.replace(NAME, &PostParams::default(), &lease).await?;
        }
        Ok(())
    }

    async fn step(&mut self) {
        // What is known already counts before anything is decided.
        while let Some(Some(change)) = self.changes.next().now_or_never() {
            self.heard(change);
        }
        match self.candidate.next(self.started.elapsed()) {
            Move::Take { epoch } | Move::Renew { epoch } if self.may_write() => self.write(epoch).await,
            Move::Take { .. } | Move::Renew { .. } => self.wait(self.not_before).await,
            Move::Wait { until } => self.wait(until.map(|until| self.started + until)).await,
            Move::StepDown => self.step_down(),
        }
    }

    fn may_write(&self) -> bool {
        self.not_before.is_none_or(|not_before| Instant::now() >= not_before)
    }

    /// Waits for the Lease to change, or for a time.
    async fn wait(&mut self, until: Option<Instant>) {
        let timer = pin!(async {
            match until {
                Some(until) => tokio::time::sleep_until(until).await,
                None => std::future::pending().await,
            }
        });
        tokio::select! {
            biased;
            Some(change) = self.changes.next() => self.heard(change),
            () = timer => {}
        }
    }

    fn heard(&mut self, change: watcher::Result<Event<Lease>>) {
        match change {
            Ok(Event::Init) => self.is_listed = false,
            Ok(Event::InitApply(lease) | Event::Apply(lease)) => {
                self.is_listed = true;
                self.candidate.saw(record(&lease), self.started.elapsed());
                if self.lease.as_ref().is_none_or(|known| version(known) <= version(&lease)) {
                    self.lease = Some(lease);
                }
                self.not_before = None;
            }
            Ok(Event::InitDone) if self.is_listed => {}
            Ok(Event::InitDone) => self.is_gone(None),
            Ok(Event::Delete(lease)) => self.is_gone(Some(version(&lease))),
            Err(error) => tracing::warn!(%error, "the watch of the leader's Lease was interrupted"),
        }
    }

    fn is_gone(&mut self, version_then: Option<u64>) {
        self.candidate.saw_none(version_then);
        self.lease = self.lease.take().filter(|known| version_then.is_some_and(|then| version(known) > then));
        self.not_before = None;
    }

    /// Writes oneself into the Lease. The version says that it is as one has seen it.
    async fn write(&mut self, epoch: i32) {
        let (sent, wanted) = (self.started.elapsed(), self.wanted(epoch));
        let parameters = PostParams::default();
        let write = async {
            match &self.lease {
                Some(_) => self.leases.replace(NAME, &parameters, &wanted).await,
                None => self.leases.create(&parameters, &wanted).await,
            }
        };
        // A holder gives up in time; a candidate loses nothing.
        let patience = self.candidate.leads().map_or(self.terms.duration, |(_, until)| until.saturating_sub(sent));
        let answer = tokio::time::timeout(patience, write).await;
        match answer {
            Ok(Ok(lease)) => {
                let was_leading = self.candidate.leads().is_some();
                self.candidate.wrote(record(&lease), sent, self.started.elapsed());
                (self.lease, self.not_before) = (Some(lease), None);
                self.lead(was_leading);
            }
            Ok(Err(error)) => {
                if is_code(&error, 404) {
                    self.is_gone(None);
                }
                if !is_code(&error, 409) {
                    tracing::warn!(%error, "the leader's Lease could not be written");
                }
                self.not_before = Some(Instant::now() + TRY_AGAIN);
            }
            Err(_) => tracing::warn!("the server did not answer in time to a write of the leader's Lease"),
        }
    }

    fn wanted(&self, epoch: i32) -> Lease {
        let now = MicroTime(self.clock.now());
        let known = self.lease.clone().unwrap_or_default();
        let acquired = known.spec.and_then(|spec| spec.acquire_time).filter(|_| self.candidate.leads().is_some());
        let metadata = ObjectMeta {
            name: Some(NAME.to_owned()),
            namespace: Some(NAMESPACE.to_owned()),
            resource_version: known.metadata.resource_version,
            ..ObjectMeta::default()
        };
        let spec = LeaseSpec {
            holder_identity: Some(self.candidate.identity().to_owned()),
            lease_duration_seconds: i32::try_from(self.terms.duration.as_secs()).ok(),
            acquire_time: Some(acquired.unwrap_or_else(|| now.clone())),
            renew_time: Some(now),
            lease_transitions: Some(epoch),
            ..LeaseSpec::default()
        };
        Lease { metadata, spec: Some(spec) }
    }

    /// Takes note that one leads, or goes on leading.
    fn lead(&mut self, was_leading: bool) {
        let (Some((epoch, until)), identity) = (self.candidate.leads(), self.candidate.identity()) else { return };
        if !was_leading {
            tracing::info!(identity, epoch, "leads");
        }
        let header = header(epoch, identity).expect("the identity was tried at the beginning");
        self.fence.open(header, self.started + until);
    }

    fn step_down(&mut self) {
        self.fence.close();
        self.candidate.stepped_down();
        tracing::warn!(identity = self.candidate.identity(), "leads no longer");
    }
}

fn header(epoch: i32, identity: &str) -> Result<HeaderValue, InvalidHeaderValue> {
    HeaderValue::from_str(&format!("{NAMESPACE}/{NAME}/{epoch}/{identity}"))
}

fn record(lease: &Lease) -> Record {
    let spec = lease.spec.clone().unwrap_or_default();
    let seconds = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok()).unwrap_or_default();
    Record {
        holder: spec.holder_identity,
        epoch: spec.lease_transitions.unwrap_or_default(),
        renewed: format!("{:?}", spec.renew_time),
        duration: Duration::from_secs(seconds),
        version: version(lease),
    }
}

fn version(lease: &Lease) -> u64 {
    lease.metadata.resource_version.as_deref().and_then(|version| version.parse().ok()).unwrap_or_default()
}
