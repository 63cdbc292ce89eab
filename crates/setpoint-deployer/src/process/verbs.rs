//! What can be done to an instance. Each runs alone on its instance, and to its end; what it finds done it does not do again.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use rustix::process::Signal;
use setpoint_core::observation::Mark;
use setpoint_core::pod::PodState;

use super::folder;
use super::host_path;
use super::instances::{Content, Known, announced};
use super::leftovers;
use super::lock::Lock;
use super::order::{InstanceOrder, instance_id};
use super::order_file::{self, MAX_BYTES};
use super::ports::{self, Unassigned};
use super::provider::{Place, fault};
use super::record::{self, LOCK, SHIM, STATE, STOP, StateRecord, StopRecord};
use super::revival::{end, lose, revive};
use super::shim_process::{Process, spawn_shim};
use crate::error::{Error, Fault, Operation, Result};
use crate::provider::{Body, Order, PodOrder};

/// How long a shim that has no time left may take to end everything, before it is ended itself.
const LAST_MOMENT: Duration = Duration::from_secs(5);

impl Place {
    /// The id of what was made under an intent, or will be. A state folder may have been moved since.
    pub(super) fn id_of(&self, mark: &Mark) -> Result<Box<str>> {
        let found = self.look(|instances| instances.of_intent(mark).map(Box::<str>::from));
        let found = found.map_err(|error| fault(Operation::Create, "the state folder", &error))?;
        Ok(found.unwrap_or_else(|| instance_id(&self.settings.folder, mark).into()))
    }

    pub(super) async fn create(self: &Arc<Self>, id: &str, order: &Order) -> Result<Box<str>> {
        let Body::Pod(pod) = &order.body else { unreachable!("the order was inspected") };
        let _making = self.making.lock().await;
        let (place, id, order, pod) = (self.clone(), Box::<str>::from(id), order.clone(), pod.clone());
        blocking(move || place.make(id, &order, &pod)).await
    }

    fn make(&self, id: Box<str>, order: &Order, pod: &PodOrder) -> Result<Box<str>> {
        let failed = |error: io::Error| fault(Operation::Create, &order.name, &error);
        let mut instance = InstanceOrder::new(&id, order, pod, self.settings.log_limits, Timestamp::now());
        if !self.look(|instances| instances.get(&id).is_some()).map_err(failed)? {
            host_path::check(&pod.spec)?;
        }
        {
            let _lock = self.lock_folder().map_err(failed)?;
            let (is_there, taken) =
                self.look(|instances| (instances.get(&id).is_some(), instances.ports())).map_err(failed)?;
            if !is_there {
                let seed = u64::from_str_radix(id.get(..8).unwrap_or_default(), 16).unwrap_or_default();
                let assigned = ports::assign(instance.fields(), &taken, ports::is_free, seed);
                instance.ports = assigned.map_err(|error| unassigned(&order.name, error))?;
                // One that is written and can never be read again would be nobody's.
                let Some(sealed) = order_file::sealed(&instance, &self.key).map_err(failed)? else {
                    let message = format!("with its variables it takes more than {MAX_BYTES} bytes to write down");
                    return Err(Error::field(&order.name, "spec", message));
                };
                folder::create(&self.settings.folder, &instance, pod, &sealed).map_err(failed)?;
            }
        }
        let (shim, is_foreign) = self
            .look(|instances| {
                let known = instances.get(&id);
                let is_foreign = known.and_then(Known::pod).is_none_or(|pod| pod.mark.cluster != self.settings.cluster);
                (known.and_then(Known::shim).cloned(), is_foreign)
            })
            .map_err(failed)?;
        if is_foreign {
            return Err(Error::provider(Operation::Create, &order.name, Fault::Refused, "its place is not ours"));
        }
        let was_begun = [SHIM, STATE, STOP].iter().any(|name| self.folder(&id).join(name).exists());
        if shim.is_none() && !was_begun {
            self.spawn(&id).map_err(failed)?;
        }
        Ok(id)
    }

    /// Only the files of volumes can change: what runs was given everything else as it began.
    pub(super) async fn update(self: &Arc<Self>, id: &str, order: Order) -> Result<()> {
        if self.ours(Operation::Update, id)?.is_none() {
            return Err(Error::provider(Operation::Update, id, Fault::NotFound, ""));
        }
        let (folder, id) = (self.folder(id), id.to_owned());
        blocking(move || {
            let failed = |error: io::Error| fault(Operation::Update, &id, &error);
            let Body::Pod(pod) = &order.body else { unreachable!("the order was inspected") };
            let present = order_file::read(&folder).map_err(failed)?;
            let Some(present) = present else {
                return Err(Error::provider(Operation::Update, &id, Fault::NotFound, ""));
            };
            if let Some(field) = difference(&present.pod.spec, &pod.spec) {
                let message = "cannot be changed while it runs: a new Pod can have it";
                return Err(Error::field(&order.name, &field, message));
            }
            folder::update_volumes(&folder, &present, pod).map_err(failed)
        })
        .await
    }

    pub(super) async fn start(self: &Arc<Self>, id: &str) -> Result<()> {
        let Some(found) = self.ours(Operation::Start, id)? else {
            return Err(Error::provider(Operation::Start, id, Fault::NotFound, ""));
        };
        let (place, id) = (self.clone(), Box::<str>::from(id));
        blocking(move || {
            let failed = |error: io::Error| fault(Operation::Start, &id, &error);
            let folder = place.folder(&id);
            if found.shim.is_some() {
                return goes_on(&folder, &id, found.state.as_ref());
            }
            {
                // If somebody holds it, a shim has just come to life.
                let Some(_lock) = Lock::attempt(&folder.join(LOCK)).map_err(failed)? else {
                    return goes_on(&folder, &id, None);
                };
                leftovers::kill(&folder, &id).map_err(failed)?;
                remove_stop(&folder).map_err(failed)?;
                let is_new_life = rewrite(&folder, revive).map_err(failed)?;
                if is_new_life {
                    folder::clear_logs(&folder).map_err(failed)?;
                }
            }
            place.spawn(&id).map_err(failed)
        })
        .await
    }

    pub(super) async fn stop(self: &Arc<Self>, id: &str, grace: Duration) -> Result<()> {
        let Some(found) = self.ours(Operation::Stop, id)? else { return Ok(()) };
        if found.shim.is_none() && found.state.as_ref().is_some_and(PodState::has_ended) {
            return Ok(());
        }
        let (place, id) = (self.clone(), Box::<str>::from(id));
        blocking(move || {
            let failed = |error: io::Error| fault(Operation::Stop, &id, &error);
            let folder = place.folder(&id);
            request_stop(&folder, grace).map_err(failed)?;
            if place.wake(&id).map_err(failed)? {
                return Ok(());
            }
            if let Some(_lock) = Lock::attempt(&folder.join(LOCK)).map_err(failed)? {
                leftovers::kill(&folder, &id).map_err(failed)?;
                return rewrite(&folder, |state| end(state, Timestamp::now())).map_err(failed);
            }
            // A shim has just come to life. It may have looked what is wanted of it before we wrote that.
            match place.wake(&id).map_err(failed)? {
                true => Ok(()),
                false => Err(Error::provider(Operation::Stop, &id, Fault::Busy, "it is just being started")),
            }
        })
        .await
    }

    /// Tells the shim of an instance to look at what is wanted of it; `false` if it has none. One that has not announced
    /// itself yet is not told: it looks by itself before it begins.
    fn wake(&self, id: &str) -> io::Result<bool> {
        let shim = self.look(|instances| {
            instances.find_shim(id);
            instances.get(id).and_then(Known::shim).cloned()
        })?;
        if let Some(shim) = &shim {
            wake(&self.folder(id), shim);
        }
        Ok(shim.is_some())
    }

    pub(super) async fn delete(self: &Arc<Self>, id: &str) -> Result<()> {
        let failed = |error: io::Error| fault(Operation::Delete, id, &error);
        let folder = self.folder(id);
        // A shim may come to life meanwhile, if another control plane starts one: then it is ended too.
        for _ in 0..3 {
            let Some(found) = self.ours(Operation::Delete, id)? else { return Ok(()) };
            if let Some(shim) = found.shim {
                request_stop(&folder, Duration::ZERO).map_err(failed)?;
                let is_told = wake(&folder, &shim);
                if !is_told || !shim.ends_within(LAST_MOMENT).await {
                    shim.signal(Signal::KILL);
                    shim.ends_within(LAST_MOMENT).await;
                }
            }
            let (place, id) = (self.clone(), Box::<str>::from(id));
            if blocking(move || place.remove(&id)).await? {
                return Ok(());
            }
        }
        Err(Error::provider(Operation::Delete, id, Fault::Busy, "it is being started again and again"))
    }

    /// Removes what does not run. `false` if a shim has come to life.
    fn remove(&self, id: &str) -> Result<bool> {
        let failed = |error: io::Error| fault(Operation::Delete, id, &error);
        let folder = self.folder(id);
        if !folder.exists() {
            return Ok(true);
        }
        let Some(_lock) = Lock::attempt(&folder.join(LOCK)).map_err(failed)? else { return Ok(false) };
        leftovers::kill(&folder, id).map_err(failed)?;
        let gone = {
            let _folder_lock = self.lock_folder().map_err(failed)?;
            folder::put_away(&self.settings.folder, id).map_err(failed)?
        };
        self.look(|_| ()).map_err(failed)?;
        // This may take long, and nobody has to wait for it.
        gone.iter().for_each(|gone| folder::remove(gone));
        Ok(true)
    }

    fn spawn(&self, id: &str) -> io::Result<()> {
        let shim = spawn_shim(&self.settings.executable, &self.folder(id))?;
        self.look(|instances| instances.set_shim(id, shim))?
    }

    /// What is there of an instance, if it is there. What is not ours is not touched.
    pub(super) fn ours(&self, operation: Operation, id: &str) -> Result<Option<Found>> {
        let found = self.look(|instances| {
            let known = instances.get(id)?;
            Some(match &known.content {
                Content::Nothing => Err("it is not ours"),
                Content::Unreadable(_) => Err("whose it is cannot be read"),
                Content::Pod(pod) if pod.mark.cluster != self.settings.cluster => Err("it is another control plane's"),
                Content::Pod(pod) => Ok(Found {
                    shim: known.shim().cloned(),
                    pod_name: pod.pod_name.clone(),
                    state: pod.state().cloned(),
                }),
            })
        });
        match found.map_err(|error| fault(operation, id, &error))? {
            Some(Err(why)) => Err(Error::provider(operation, id, Fault::Refused, why)),
            Some(Ok(found)) => Ok(Some(found)),
            None => Ok(None),
        }
    }
}

/// An instance of ours.
#[derive(Debug)]
pub(super) struct Found {
    /// The process that runs it, if it is run.
    pub(super) shim: Option<Process>,
    pub(super) pod_name: Box<str>,
    pub(super) state: Option<PodState>,
}

/// Writes down until when an instance has to have ended: never later than it was asked to before.
fn request_stop(folder: &Path, grace: Duration) -> io::Result<()> {
    let now = Timestamp::now();
    let deadline = jiff::SignedDuration::try_from(grace).ok().and_then(|grace| now.checked_add(grace).ok());
    let deadline = deadline.unwrap_or(Timestamp::MAX);
    // One that cannot be read is as good as none.
    let earlier = record::read::<StopRecord>(folder, STOP).ok().flatten();
    match earlier {
        Some(earlier) if earlier.deadline <= deadline => Ok(()),
        _ => {
            let requested_at = earlier.map_or(now, |earlier| earlier.requested_at);
            record::write(folder, STOP, &StopRecord { deadline, requested_at })
        }
    }
}

/// Tells a shim to look at what is wanted of it. `false` if it has not announced itself: it does not listen yet, the signal
/// would end it, and it looks by itself before it begins.
fn wake(folder: &Path, shim: &Process) -> bool {
    let is_listening = announced(folder).is_some_and(|announced| i32::try_from(announced.pid) == Ok(shim.pid));
    if is_listening {
        shim.signal(Signal::USR1);
    }
    is_listening
}

fn remove_stop(folder: &Path) -> io::Result<()> {
    match std::fs::remove_file(folder.join(STOP)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        result => result,
    }
}

/// Whether what has a shim will go on. What is stopping does not: it can be started when it has ended.
fn goes_on(folder: &Path, id: &str, state: Option<&PodState>) -> Result<()> {
    let is_stopping = state.is_some_and(|state| state.stopping_since.is_some()) || folder.join(STOP).exists();
    match is_stopping {
        true => Err(Error::provider(Operation::Start, id, Fault::Busy, "it is still being stopped")),
        false => Ok(()),
    }
}

/// Changes what is on record of an instance. Who does holds its lock: what cannot be read then is lost.
fn rewrite<T>(folder: &Path, change: impl Fn(&mut PodState) -> T) -> io::Result<T> {
    let first = |become_first: fn(&mut PodState)| -> io::Result<StateRecord> {
        let order = order_file::read(folder)?.ok_or(io::ErrorKind::NotFound)?;
        let mut state = order.first_state();
        become_first(&mut state);
        Ok(StateRecord { state, processes: Vec::new() })
    };
    let mut record = match record::read::<StateRecord>(folder, STATE) {
        Ok(Some(record)) => record,
        Ok(None) => first(|_| ())?,
        Err(_) => first(lose)?,
    };
    let changed = change(&mut record.state);
    record::write(folder, STATE, &record)?;
    Ok(changed)
}

/// The first field that cannot be changed and differs.
fn difference(present: &PodSpec, wanted: &PodSpec) -> Option<String> {
    let without_images = |containers: &[Container]| -> Vec<Container> {
        containers.iter().map(|container| Container { image: None, ..container.clone() }).collect()
    };
    let first = |spec: &PodSpec| without_images(spec.init_containers.as_deref().unwrap_or_default());
    let main = |spec: &PodSpec| without_images(&spec.containers);
    let lists =
        [("spec.initContainers", first(present), first(wanted)), ("spec.containers", main(present), main(wanted))];
    for (field, present, wanted) in lists {
        if present.len() != wanted.len() {
            return Some(field.to_owned());
        }
        if let Some(index) = present.iter().zip(&wanted).position(|(present, wanted)| present != wanted) {
            return Some(format!("{field}[{index}]"));
        }
    }
    let rest = [
        ("spec.volumes", present.volumes != wanted.volumes),
        ("spec.restartPolicy", present.restart_policy != wanted.restart_policy),
        ("spec.securityContext", present.security_context != wanted.security_context),
    ];
    rest.into_iter().find(|(_, differs)| *differs).map(|(field, _)| field.to_owned())
}

fn unassigned(name: &str, error: Unassigned) -> Error {
    match error {
        Unassigned::Taken { field, port } => Error::field(name, &field, format!("{port} is taken on this machine")),
        Unassigned::Exhausted => Error::provider(Operation::Create, name, Fault::OutOfStock, "no port is left"),
    }
}

/// Work that waits for the disk or for processes.
pub(super) async fn blocking<T: Send + 'static>(work: impl FnOnce() -> Result<T> + Send + 'static) -> Result<T> {
    match tokio::task::spawn_blocking(work).await {
        Ok(result) => result,
        Err(failure) => match failure.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Err(Error::provider(Operation::Observe, "", Fault::Unreachable, "we are shutting down")),
        },
    }
}
