//! Runs Pods as processes of this machine: each under a shim of its own, which outlives us.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use parking_lot::Mutex;
use setpoint_core::observation::{Completeness, Mark};
use setpoint_core::pod::PodState;
use setpoint_core::registry::Capabilities;
use setpoint_core::split::Granularity;
use tokio::io::unix::AsyncFd;
use tokio::sync::mpsc;
use tokio::task::AbortHandle;
use tokio::time::MissedTickBehavior;

use super::cgroup::Cgroup;
use super::folder;
use super::inspection::inspect;
use super::instances::{self, Content, Instances, Known, Pod};
use super::lock::Lock;
use super::logs::LogWatch;
use super::order::{LogLimits, instance_id};
use super::order_file;
use super::privileges::Ourselves;
use super::readiness::readiness;
use super::turns::Turns;
use crate::changes::{Changes, Listeners, Subscribers};
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{Abilities, Answer, Change, Instance, Observed, Order, Provider, Scope};
use crate::seal::SealKey;
use crate::session::{Exec, Logs};

/// Taken by whoever makes an instance, in whichever process: so ports are given once, and nobody sweeps what is built.
const FOLDER_LOCK: &str = ".lock";

/// How often what cannot be watched is looked at.
const LOOK_AGAIN: Duration = Duration::from_secs(5);

/// What the provider is to know.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where instances are kept. It is made if it is not there.
    pub folder: PathBuf,
    /// The binary that shims run as: ours.
    pub executable: PathBuf,
    /// Who we are: what bears the mark of another is left alone.
    pub cluster: Box<str>,
    pub log_limits: LogLimits,
}

impl Settings {
    /// Shims run as this binary, and logs are kept as Kubernetes does.
    pub fn new(folder: PathBuf, cluster: &str) -> io::Result<Settings> {
        let executable = std::env::current_exe()?;
        Ok(Settings { folder, executable, cluster: cluster.into(), log_limits: LogLimits::default() })
    }
}

/// Runs Pods as processes of this machine.
#[derive(Debug)]
pub struct ProcessProvider {
    pub(super) place: Arc<Place>,
    abilities: Abilities,
    watcher: AbortHandle,
    /// Whether what was begun goes on when nobody waits for it any more.
    finishes: bool,
}

/// The state folder and what is known of it.
#[derive(Debug)]
pub(super) struct Place {
    pub(super) settings: Settings,
    /// What variables are sealed with.
    pub(super) key: SealKey,
    pub(super) instances: Mutex<Instances>,
    pub(super) turns: Turns,
    /// Taken before the lock of the folder, so that no threads wait for that.
    pub(super) making: tokio::sync::Mutex<()>,
    pub(super) subscribers: Arc<Subscribers>,
    pub(super) log_watch: LogWatch,
    pub(super) listeners: Listeners,
}

impl ProcessProvider {
    /// Opens the state folder and finds again all that runs there. Nothing of it is disturbed. To be called within a runtime.
    pub fn open(mut settings: Settings) -> io::Result<ProcessProvider> {
        DirBuilder::new().recursive(true).mode(0o700).create(&settings.folder)?;
        settings.folder = fs::canonicalize(&settings.folder)?;
        // Only root runs others, who have to pass through.
        let mode = if rustix::process::geteuid().is_root() { 0o711 } else { 0o700 };
        fs::set_permissions(&settings.folder, Permissions::from_mode(mode))?;
        let key = {
            let _lock = Lock::wait(&settings.folder.join(FOLDER_LOCK))?;
            folder::sweep(&settings.folder)?;
            SealKey::open_or_make(&order_file::key_of(&settings.folder))?
        };
        let instances = Instances::open(&settings.folder)?;
        settle(&settings, &instances, &key);
        let sight = readiness(instances.fd()?)?;
        let place = Arc::new(Place {
            settings,
            key,
            instances: Mutex::new(instances),
            turns: Turns::default(),
            making: tokio::sync::Mutex::default(),
            subscribers: Arc::default(),
            log_watch: LogWatch::default(),
            listeners: Listeners::default(),
        });
        let watcher = tokio::spawn(watch(Arc::downgrade(&place), sight)).abort_handle();
        Ok(ProcessProvider { place, abilities: abilities(), watcher, finishes: true })
    }

    /// What it does ends where its caller drops it, as if the control plane had died there.
    pub(super) fn cut_short(mut self) -> ProcessProvider {
        self.finishes = false;
        self
    }

    /// Does something to its end, also if nobody waits for that any more: it is soon over, and nothing is left half done.
    async fn finish<T: Send + 'static>(&self, work: impl Future<Output = Result<T>> + Send + 'static) -> Result<T> {
        if !self.finishes {
            return work.await;
        }
        match tokio::spawn(work).await {
            Ok(result) => result,
            Err(failure) => match failure.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(cancelled) => {
                    Err(Error::provider(Operation::Observe, "", Fault::Unanswered, cancelled.to_string()))
                }
            },
        }
    }
}

impl Drop for ProcessProvider {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Place {
    /// What is there now, as far as it has been told of; and tells those who want to know what has changed.
    pub(super) fn look<T>(&self, read: impl FnOnce(&mut Instances) -> T) -> io::Result<T> {
        let mut instances = self.instances.lock();
        let changes = instances.refresh()?;
        let seen = read(&mut instances);
        drop(instances);
        self.tell(&changes);
        Ok(seen)
    }

    fn tell(&self, changes: &Changes) {
        if !changes.is_empty() {
            self.listeners.tell(changes);
            self.subscribers.tell(changes);
        }
    }

    fn look_at_unwatched(&self) {
        let changes = self.instances.lock().look_at_unwatched();
        self.tell(&changes);
    }

    pub(super) fn folder(&self, id: &str) -> PathBuf {
        self.settings.folder.join(id)
    }

    pub(super) fn lock_folder(&self) -> io::Result<Lock> {
        Lock::wait(&self.settings.folder.join(FOLDER_LOCK))
    }

    fn observe(&self, scope: &Scope) -> io::Result<Observed> {
        let mut cgroups = Vec::new();
        let mut instances = self.look(|instances| {
            let show = |(id, known): (&str, &Known)| known.show(id);
            match scope {
                Scope::Everything => instances.iter().filter_map(show).collect::<Vec<_>>(),
                Scope::Instance(id) => {
                    let known = instances.get(id);
                    cgroups = known.and_then(Known::pod).map(Pod::cgroups).unwrap_or_default();
                    known.and_then(|known| known.show(id)).into_iter().collect()
                }
                Scope::Owner(owner) => {
                    let unreadable = self.unreadable_of(owner, instances);
                    instances.of_owner(owner).filter_map(show).chain(unreadable).collect()
                }
            }
        })?;
        for state in instances.iter_mut().filter_map(|instance| instance.pod.as_mut()) {
            count_usage(state, &cgroups);
        }
        let unreadable = instances.iter().filter(|instance| instance.guest.run.known().is_none()).count();
        let completeness = match unreadable {
            0 => Completeness::Complete,
            count => Completeness::Partial(format!("{count} of the instances cannot be read")),
        };
        Ok(Observed { completeness, instances, observed_at: Timestamp::now() })
    }

    /// What cannot be read is known by its name alone. It can be what an owner has made under its own uid, as Pods are; it
    /// is no reason to doubt what is known of all the others.
    fn unreadable_of(&self, owner: &str, instances: &Instances) -> Option<Instance> {
        let (cluster, owner_uid) = (self.settings.cluster.clone(), Box::<str>::from(owner));
        let mark = Mark { cluster, intent: Some(owner_uid.clone()), owner_uid, spec_digest: None };
        let id = instance_id(&self.settings.folder, &mark);
        let known = instances.get(&id)?;
        matches!(known.content, Content::Unreadable(_)).then(|| known.show(&id))?
    }
}

/// Takes in what happens as it happens; and looks from time to time at what the machine does not let us watch.
async fn watch(place: Weak<Place>, sight: AsyncFd<std::os::fd::OwnedFd>) {
    let mut again = tokio::time::interval(LOOK_AGAIN);
    again.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let has_unwatched = place.upgrade().is_some_and(|place| place.instances.lock().has_unwatched());
        let ready = tokio::select! {
            ready = sight.readable() => Some(ready),
            _ = again.tick(), if has_unwatched => None,
        };
        let Some(place) = place.upgrade() else { return };
        match ready {
            Some(Ok(mut ready)) => {
                if let Err(error) = place.look(|_| ()) {
                    tracing::warn!(%error, "the state folder of processes cannot be watched");
                }
                ready.clear_ready();
            }
            Some(Err(_)) => return,
            None => place.look_at_unwatched(),
        }
    }
}

impl Provider for ProcessProvider {
    fn abilities(&self) -> &Abilities {
        &self.abilities
    }

    fn observe<'a>(&'a self, scope: &'a Scope) -> Answer<'a, Observed> {
        let target = if let Scope::Instance(id) = scope { id } else { "the state folder" };
        Box::pin(async move { self.place.observe(scope).map_err(|error| fault(Operation::Observe, target, &error)) })
    }

    fn create<'a>(&'a self, order: &'a Order) -> Answer<'a, Box<str>> {
        Box::pin(async move {
            inspect(order, Ourselves::now())?;
            let (place, order) = (self.place.clone(), order.clone());
            self.finish(async move {
                let id = place.id_of(&order.mark)?;
                let _turn = place.turns.take(&id).await;
                place.create(&id, &order).await
            })
            .await
        })
    }

    fn update<'a>(&'a self, _: &'a str, id: &'a str, order: &'a Order) -> Answer<'a, ()> {
        Box::pin(async move {
            inspect(order, Ourselves::now())?;
            let (place, order, id) = (self.place.clone(), order.clone(), Box::<str>::from(id));
            self.finish(async move {
                let _turn = place.turns.take(&id).await;
                place.update(&id, order).await
            })
            .await
        })
    }

    fn start<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let (place, id) = (self.place.clone(), Box::<str>::from(id));
            self.finish(async move {
                let _turn = place.turns.take(&id).await;
                place.start(&id).await
            })
            .await
        })
    }

    fn stop<'a>(&'a self, _: &'a str, id: &'a str, grace: Duration) -> Answer<'a, ()> {
        Box::pin(async move {
            let (place, id) = (self.place.clone(), Box::<str>::from(id));
            self.finish(async move {
                let _turn = place.turns.take(&id).await;
                place.stop(&id, grace).await
            })
            .await
        })
    }

    fn delete<'a>(&'a self, _: &'a str, id: &'a str) -> Answer<'a, ()> {
        Box::pin(async move {
            let (place, id) = (self.place.clone(), Box::<str>::from(id));
            self.finish(async move {
                let _turn = place.turns.take(&id).await;
                place.delete(&id).await
            })
            .await
        })
    }

    fn logs(&self) -> Option<&dyn Logs> {
        Some(self)
    }

    fn exec(&self) -> Option<&dyn Exec> {
        Some(self)
    }

    fn events(&self) -> Option<mpsc::Receiver<Change>> {
        Some(self.place.subscribers.subscribe())
    }
}

/// Gives what former versions made to whom it belongs to, and seals what they left in plain.
fn settle(settings: &Settings, instances: &Instances, key: &SealKey) {
    let is_ours = |known: &Known| known.pod().is_some_and(|pod| pod.mark.cluster == settings.cluster);
    for (id, _) in instances.iter().filter(|(_, known)| is_ours(known)) {
        let place = settings.folder.join(id);
        let settled = order_file::read(&place).and_then(|order| match order {
            Some(order) => folder::settle(&place, &order).and_then(|()| order_file::seal_variables(&place, key)),
            None => Ok(()),
        });
        if let Err(error) = settled {
            tracing::warn!(%error, instance = id, "its folder is not as private as it should be");
        }
    }
}

/// Says what each container uses at this moment, where the machine counts that.
fn count_usage(state: &mut PodState, cgroups: &[(String, Cgroup)]) {
    for container in state.containers.iter_mut().filter(|container| container.is_running()) {
        let cgroup = cgroups.iter().find(|(name, _)| *name == container.name);
        container.usage = cgroup.and_then(|(_, cgroup)| cgroup.usage()).or(container.usage.take());
    }
}

/// What a failure of the machine means to the caller.
pub(super) fn fault(operation: Operation, target: &str, error: &io::Error) -> Error {
    let fault = match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Fault::OutOfStock,
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Fault::Refused,
        _ => Fault::Broken,
    };
    Error::provider(operation, target, fault, error.to_string())
}

pub(super) fn abilities() -> Abilities {
    Abilities {
        guests: Capabilities {
            deployer: "process",
            fields: &[],
            creates: true,
            adopts: false,
            has_run_state: true,
            chooses_ids: false,
            creates_before_delete: true,
            update_restarts: false,
            bills: false,
            settle_seconds: 0,
            running_words: &[instances::RUNNING],
            stopped_words: &[instances::STOPPED, instances::ENDED],
            passing_words: &[instances::STARTING],
        },
        runs_pods: true,
        runs_machines: false,
        needs_image: false,
        traffic: Granularity::EXACT,
    }
}
