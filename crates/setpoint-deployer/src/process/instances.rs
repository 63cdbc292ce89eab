//! What is known of the instances in the state folder. It is read once, and again where something has happened.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use setpoint_core::observation::{Config, Guest, Mark, Reading};
use setpoint_core::pod::{ContainerState, Phase, PodState};

use super::cgroup::Cgroup;
use super::folder;
use super::index::Index;
use super::order_file;
use super::process_table::Identity;
use super::record::{self, ORDER, SHIM, STATE, StateRecord};
use super::shim_process::Process;
use super::sight::{Sight, Sighting};
use crate::changes::Changes;
use crate::provider::Instance;

/// The words for how an instance is: nothing of it has run yet, something runs or is to again, nothing can run since its
/// shim is not there, and nothing runs nor will.
pub(super) const STARTING: &str = "starting";
pub(super) const RUNNING: &str = "running";
pub(super) const STOPPED: &str = "stopped";
pub(super) const ENDED: &str = "ended";

/// All that is known.
#[derive(Debug)]
pub(super) struct Instances {
    root: PathBuf,
    sight: Sight,
    known: BTreeMap<Box<str>, Known>,
    index: Index,
    /// Those that the machine lets us watch no more: they are looked at from time to time.
    unwatched: BTreeSet<Box<str>>,
}

/// One folder in the state folder.
#[derive(Debug)]
pub(super) struct Known {
    pub(super) content: Content,
    shim: Option<Process>,
}

#[derive(Debug)]
pub(super) enum Content {
    /// It has no order: it is somebody else's.
    Nothing,
    /// It has one that cannot be read, and why.
    Unreadable(Box<str>),
    Pod(Box<Pod>),
}

#[derive(Debug)]
pub(super) struct Pod {
    pub(super) name: Box<str>,
    /// The name of the Pod itself.
    pub(super) pod_name: Box<str>,
    pub(super) mark: Mark,
    /// The ports that it was given. It has them until it is removed: it may be started again.
    pub(super) ports: Box<[u16]>,
    /// Absent if it cannot be read.
    pub(super) record: Option<StateRecord>,
}

impl Pod {
    pub(super) fn state(&self) -> Option<&PodState> {
        self.record.as_ref().map(|record| &record.state)
    }

    /// The control groups of its containers that run, each with the name of the container.
    pub(super) fn cgroups(&self) -> Vec<(String, Cgroup)> {
        let processes = self.record.iter().flat_map(|record| &record.processes);
        processes.filter_map(|process| Some((process.container.clone(), process.cgroup.clone()?))).collect()
    }
}

impl Instances {
    pub(super) fn open(root: &Path) -> io::Result<Instances> {
        let sight = Sight::open(root)?;
        let mut instances = Instances {
            root: root.to_owned(),
            sight,
            known: BTreeMap::new(),
            index: Index::default(),
            unwatched: BTreeSet::new(),
        };
        instances.scan()?;
        Ok(instances)
    }

    /// What becomes readable when a refresh would find something.
    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.sight.fd()
    }

    pub(super) fn get(&self, id: &str) -> Option<&Known> {
        self.known.get(id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &Known)> {
        self.known.iter().map(|(id, known)| (&**id, known))
    }

    /// The instances of an owner, whoever's.
    pub(super) fn of_owner(&self, owner_uid: &str) -> impl Iterator<Item = (&str, &Known)> {
        self.index.of_owner(owner_uid).filter_map(|id| Some((id, self.known.get(id)?)))
    }

    /// What was made under the intent of a mark.
    pub(super) fn of_intent(&self, mark: &Mark) -> Option<&str> {
        self.index.of_intent(mark)
    }

    /// The ports of all instances, also of those that have ended: they may be started again.
    pub(super) fn ports(&self) -> BTreeSet<u16> {
        self.index.ports()
    }

    /// Whether there are some that have to be looked at from time to time.
    pub(super) fn has_unwatched(&self) -> bool {
        !self.unwatched.is_empty()
    }

    /// Looks at those that could not be watched, and tries to watch them.
    pub(super) fn look_at_unwatched(&mut self) -> Changes {
        let ids = self.unwatched.clone();
        ids.iter().for_each(|id| self.load(id));
        Changes { ids, everything: false }
    }

    /// Takes in what has happened, and returns which instances it happened to.
    pub(super) fn refresh(&mut self) -> io::Result<Changes> {
        let mut changes = Changes::default();
        for sighting in self.sight.look()? {
            match sighting {
                Sighting::Appeared(id) if folder::is_id(&id) => {
                    self.load(&id);
                    changes.ids.insert(id);
                }
                Sighting::Vanished(id) => {
                    if self.forget(&id) {
                        changes.ids.insert(id);
                    }
                }
                Sighting::Wrote { id, file } => {
                    if self.reread(&id, &file) {
                        changes.ids.insert(id);
                    }
                }
                Sighting::ShimEnded(id) => {
                    self.shim_ended(&id);
                    changes.ids.insert(id);
                }
                Sighting::Missed => {
                    self.scan()?;
                    changes.everything = true;
                }
                Sighting::Appeared(_) => {}
            }
        }
        Ok(changes)
    }

    /// Reads an instance as if nothing were known of it.
    pub(super) fn load(&mut self, id: &str) {
        let place = self.root.join(id);
        // Watched before it is read: what changes meanwhile is seen.
        match self.sight.watch_folder(id, &place, place.join(ORDER).exists()) {
            Ok(()) => drop(self.unwatched.remove(id)),
            Err(error) if is_no_folder(&error) => {
                self.forget(id);
                return;
            }
            Err(error) => {
                if self.unwatched.is_empty() {
                    tracing::warn!(%error, "not all instances can be watched: they are looked at from time to time");
                }
                self.unwatched.insert(id.into());
            }
        }
        let content = Content::read(&place, id);
        let shim = self.take(id).and_then(|known| known.shim);
        if let Content::Pod(pod) = &content {
            self.index.add(id, pod);
        }
        self.known.insert(id.into(), Known { content, shim });
        self.find_shim(id);
    }

    fn take(&mut self, id: &str) -> Option<Known> {
        let known = self.known.remove(id)?;
        if let Content::Pod(pod) = &known.content {
            self.index.remove(id, pod);
        }
        Some(known)
    }

    /// Notes the shim that was just started.
    pub(super) fn set_shim(&mut self, id: &str, shim: Process) -> io::Result<()> {
        self.sight.watch_shim(id, &shim)?;
        if let Some(known) = self.known.get_mut(id) {
            known.shim = Some(shim);
        }
        Ok(())
    }

    /// Forgets what is gone. `false` if nothing was known of it.
    pub(super) fn forget(&mut self, id: &str) -> bool {
        self.sight.forget_folder(id);
        self.unwatched.remove(id);
        self.take(id).is_some()
    }

    fn scan(&mut self) -> io::Result<()> {
        let mut there = BTreeSet::new();
        for entry in fs::read_dir(&self.root)? {
            let entry = entry?;
            let name = entry.file_name();
            if let Some(id) = name.to_str().filter(|name| folder::is_id(name))
                && entry.file_type()?.is_dir()
            {
                there.insert(Box::<str>::from(id));
                self.load(id);
            }
        }
        let gone: Vec<Box<str>> = self.known.keys().filter(|id| !there.contains(*id)).cloned().collect();
        for id in gone {
            self.forget(&id);
        }
        Ok(())
    }

    /// A file was written; `true` if that may have changed the instance.
    fn reread(&mut self, id: &str, file: &str) -> bool {
        let place = self.root.join(id);
        match file {
            ORDER => self.load(id),
            SHIM => self.find_shim(id),
            STATE => match (self.known.get_mut(id).map(|known| &mut known.content), read_record(&place)) {
                (Some(Content::Pod(pod)), Some(record)) => pod.record = Some(record),
                _ => self.load(id),
            },
            _ => return false,
        }
        true
    }

    /// The process that has announced itself as the instance's shim, if it lives.
    pub(super) fn find_shim(&mut self, id: &str) {
        let Some(known) = self.known.get_mut(id) else { return };
        let Some(announced) = announced(&self.root.join(id)) else { return };
        if known.shim().is_some_and(|shim| shim.pid == announced.pid as i32) {
            return;
        }
        let Ok(process) = Process::open(announced.pid as i32) else { return };
        // Only now the number cannot become another's any more.
        if Identity::of(announced.pid).is_ok_and(|found| found == announced)
            && self.sight.watch_shim(id, &process).is_ok()
        {
            known.shim = Some(process);
        }
    }

    fn shim_ended(&mut self, id: &str) {
        let Some(known) = self.known.get_mut(id) else { return };
        known.shim.take_if(|shim| !shim.is_alive());
        self.find_shim(id);
        self.reread(id, STATE);
    }
}

impl Known {
    /// The shim, if it lives.
    pub(super) fn shim(&self) -> Option<&Process> {
        self.shim.as_ref().filter(|shim| shim.is_alive())
    }

    pub(super) fn pod(&self) -> Option<&Pod> {
        match &self.content {
            Content::Pod(pod) => Some(pod),
            Content::Nothing | Content::Unreadable(_) => None,
        }
    }

    /// How the instance is shown; nothing if it is none.
    pub(super) fn show(&self, id: &str) -> Option<Instance> {
        let (name, mark, config, run, pod) = match &self.content {
            Content::Nothing => return None,
            Content::Unreadable(why) => (id, None, Config::Unreadable(why.clone()), Reading::Unknown, None),
            Content::Pod(pod) => {
                let damage = || Config::Unreadable(format!("{STATE} is damaged").into());
                let (config, run) = match (pod.state(), self.shim()) {
                    (None, Some(_)) => (damage(), Reading::Unknown),
                    // Whatever it said: without a shim nothing can run.
                    (None, None) => (damage(), Reading::Known(STOPPED.into())),
                    (Some(state), shim) => {
                        let word = word(state, shim.is_some());
                        (Config::known(Default::default()), Reading::Known(word.into()))
                    }
                };
                (&*pod.name, Some(pod.mark.clone()), config, run, pod.state().cloned())
            }
        };
        let guest = Guest {
            id: id.into(),
            name: name.into(),
            mark,
            config,
            run,
            holds_data: Reading::Known(false),
            busy: None,
            is_template: false,
            hourly_price: None,
        };
        Some(Instance { guest, pod })
    }
}

impl Content {
    fn read(place: &Path, id: &str) -> Content {
        let order = match order_file::read(place) {
            // A copy of a folder is not the instance that it is a copy of.
            Ok(Some(order)) if order.id != id => return Content::Unreadable("it is the folder of another".into()),
            Ok(Some(order)) => order,
            Ok(None) => return Content::Nothing,
            Err(error) => return Content::Unreadable(error.to_string().into()),
        };
        let ports = order.ports.iter().map(|port| port.assigned_port).collect();
        let first = || StateRecord { state: order.first_state(), processes: Vec::new() };
        let record = if place.join(STATE).exists() { read_record(place) } else { Some(first()) };
        let pod_name = order.pod.name.as_str().into();
        Content::Pod(Box::new(Pod { name: order.name.into(), pod_name, mark: order.mark.into(), ports, record }))
    }
}

fn word(state: &PodState, has_shim: bool) -> &'static str {
    let has_begun =
        |container: &ContainerState| container.last_exit.is_some() || !matches!(container.phase, Phase::Waiting { .. });
    match has_shim {
        true if state.containers.iter().any(has_begun) => RUNNING,
        true => STARTING,
        false if state.has_ended() => ENDED,
        false => STOPPED,
    }
}

/// Who has announced itself as the shim of a folder.
pub(super) fn announced(place: &Path) -> Option<Identity> {
    record::read(place, SHIM).ok().flatten()
}

fn read_record(place: &Path) -> Option<StateRecord> {
    record::read(place, STATE).ok().flatten()
}

fn is_no_folder(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}
