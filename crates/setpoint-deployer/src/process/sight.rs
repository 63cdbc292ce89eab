//! Sees what happens in the state folder and to shims, as it happens: nothing is asked for from time to time.
//!
//! One inotify watches the folders, one epoll waits for it and for the end of every shim. Both are read without waiting, so
//! whoever wants to know the present first reads what has happened.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::buffer::spare_capacity;
use rustix::event::Timespec;
use rustix::event::epoll;
use rustix::fs::inotify::{self, ReadFlags, WatchFlags};

use super::shim_process::Process;

/// The epoll's word for the inotify; all others are shims.
const INOTIFY: u64 = 0;

/// Something that happened.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Sighting {
    Appeared(Box<str>),
    Vanished(Box<str>),
    /// A file was put into an instance's folder.
    Wrote {
        id: Box<str>,
        file: Box<str>,
    },
    ShimEnded(Box<str>),
    /// More happened than could be kept.
    Missed,
}

#[derive(Debug)]
pub(super) struct Sight {
    epoll: OwnedFd,
    inotify: OwnedFd,
    root: i32,
    folders: HashMap<i32, Box<str>>,
    watches: HashMap<Box<str>, i32>,
    /// Held until they end, whatever else is known of them: those that are our children are reaped then.
    shims: HashMap<u64, (Box<str>, Process)>,
    next_shim: u64,
}

impl Sight {
    pub(super) fn open(root: &Path) -> io::Result<Sight> {
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let flags = WatchFlags::CREATE
            | WatchFlags::DELETE
            | WatchFlags::MOVED_TO
            | WatchFlags::MOVED_FROM
            | WatchFlags::ONLYDIR;
        let root = inotify::add_watch(&inotify, root, flags)?;
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        epoll::add(&epoll, &inotify, epoll::EventData::new_u64(INOTIFY), epoll::EventFlags::IN)?;
        Ok(Sight {
            epoll,
            inotify,
            root,
            folders: HashMap::new(),
            watches: HashMap::new(),
            shims: HashMap::new(),
            next_shim: INOTIFY + 1,
        })
    }

    /// What becomes readable when there is something to see.
    pub(super) fn fd(&self) -> io::Result<OwnedFd> {
        self.epoll.try_clone()
    }

    /// Watches an instance's folder; one that nobody finished is watched more closely.
    pub(super) fn watch_folder(&mut self, id: &str, folder: &Path, is_whole: bool) -> io::Result<()> {
        let closely = if is_whole { WatchFlags::empty() } else { WatchFlags::CLOSE_WRITE };
        let flags = WatchFlags::MOVED_TO | WatchFlags::ONLYDIR | closely;
        let watch = inotify::add_watch(&self.inotify, folder, flags)?;
        self.folders.insert(watch, id.into());
        self.watches.insert(id.into(), watch);
        Ok(())
    }

    /// Forgets a folder that is gone.
    pub(super) fn forget_folder(&mut self, id: &str) {
        if let Some(watch) = self.watches.remove(id) {
            self.folders.remove(&watch);
            // The kernel has forgotten it already if the folder was removed.
            let _ = inotify::remove_watch(&self.inotify, watch);
        }
    }

    /// Tells once when the process ends.
    pub(super) fn watch_shim(&mut self, id: &str, shim: &Process) -> io::Result<()> {
        let token = self.next_shim;
        self.next_shim += 1;
        let flags = epoll::EventFlags::IN | epoll::EventFlags::ONESHOT;
        epoll::add(&self.epoll, shim, epoll::EventData::new_u64(token), flags)?;
        self.shims.insert(token, (id.into(), shim.clone()));
        Ok(())
    }

    /// All that has happened since the last look.
    pub(super) fn look(&mut self) -> io::Result<Vec<Sighting>> {
        let mut sightings = Vec::new();
        let mut events = Vec::with_capacity(64);
        loop {
            events.clear();
            let now = Timespec { tv_sec: 0, tv_nsec: 0 };
            if epoll::wait(&self.epoll, spare_capacity(&mut events), Some(&now))? == 0 {
                return Ok(sightings);
            }
            for event in &events {
                match event.data.u64() {
                    INOTIFY => self.read_inotify(&mut sightings)?,
                    token => {
                        if let Some((id, shim)) = self.shims.remove(&token) {
                            shim.reap();
                            sightings.push(Sighting::ShimEnded(id));
                        }
                    }
                }
            }
        }
    }

    fn read_inotify(&mut self, sightings: &mut Vec<Sighting>) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(event) => event,
            };
            let (watch, flags) = (event.wd(), event.events());
            let name = event.file_name().and_then(|name| name.to_str().ok());
            if flags.contains(ReadFlags::QUEUE_OVERFLOW) {
                sightings.push(Sighting::Missed);
            } else if flags.contains(ReadFlags::IGNORED) {
                if let Some(id) = self.folders.remove(&watch)
                    && self.watches.get(&id) == Some(&watch)
                {
                    self.watches.remove(&id);
                }
            } else if watch == self.root {
                let is_there = flags.intersects(ReadFlags::CREATE | ReadFlags::MOVED_TO);
                let sighting = if is_there { Sighting::Appeared } else { Sighting::Vanished };
                sightings.extend(name.map(|name| sighting(name.into())));
            } else if let (Some(id), Some(file)) = (self.folders.get(&watch), name) {
                sightings.push(Sighting::Wrote { id: id.clone(), file: file.into() });
            }
        }
    }
}
