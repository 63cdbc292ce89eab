//! Tells those who follow logs that there is more. All followers share one inotify, of which a user has only so many.

use std::collections::HashMap;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use rustix::fs::inotify::{self, WatchFlags};
use tokio::io::unix::AsyncFd;
use tokio::sync::watch;
use tokio::task::AbortHandle;

use super::super::provider::Place;
use super::super::readiness::readiness;
use super::is_over;

/// The folders of logs that are followed. It begins to watch with the first follower.
#[derive(Debug, Default)]
pub(in crate::process) struct LogWatch(Mutex<Weak<Watched>>);

#[derive(Debug)]
struct Watched {
    inotify: OwnedFd,
    /// By the kernel's word for the folder. Who follows holds the other end.
    folders: Mutex<HashMap<i32, watch::Sender<()>>>,
    task: Mutex<Option<AbortHandle>>,
}

/// One who follows a log.
#[derive(Debug)]
pub(super) struct Following {
    place: Arc<Place>,
    id: Box<str>,
    container: Box<str>,
    run: u32,
    folder: i32,
    watched: Arc<Watched>,
    written: watch::Receiver<()>,
    changed: watch::Receiver<()>,
}

impl Following {
    pub(super) fn new(place: &Arc<Place>, id: &str, container: &str, run: u32, folder: &Path) -> io::Result<Following> {
        let watched = place.log_watch.watched()?;
        let (folder, written) = watched.add(folder)?;
        let changed = place.listeners.listen(id);
        let (id, container) = (id.into(), container.into());
        Ok(Following { place: place.clone(), id, container, run, folder, watched, written, changed })
    }

    /// Whether nothing more will be written.
    pub(super) fn is_over(&self) -> bool {
        is_over(&self.place, &self.id, &self.container, self.run)
    }

    /// Waits until something was written or the instance has changed.
    pub(super) async fn more(&mut self) {
        // Neither sender goes away before its receiver: one is in the place, the other with those who watch.
        tokio::select! {
            _ = self.written.changed() => {}
            _ = self.changed.changed() => {}
        }
    }
}

impl Drop for Following {
    fn drop(&mut self) {
        self.watched.leave(self.folder);
        self.place.listeners.leave(&self.id);
    }
}

impl LogWatch {
    fn watched(&self) -> io::Result<Arc<Watched>> {
        let mut present = self.0.lock();
        if let Some(watched) = present.upgrade() {
            return Ok(watched);
        }
        let inotify = inotify::init(inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK)?;
        let ready = readiness(inotify.try_clone()?)?;
        let watched = Arc::new(Watched { inotify, folders: Mutex::default(), task: Mutex::default() });
        let task = tokio::spawn(run(Arc::downgrade(&watched), ready));
        *watched.task.lock() = Some(task.abort_handle());
        *present = Arc::downgrade(&watched);
        Ok(watched)
    }
}

impl Watched {
    fn add(&self, folder: &Path) -> io::Result<(i32, watch::Receiver<()>)> {
        let flags = WatchFlags::MODIFY | WatchFlags::CREATE | WatchFlags::MOVED_TO | WatchFlags::ONLYDIR;
        let mut folders = self.folders.lock();
        let folder = inotify::add_watch(&self.inotify, folder, flags)?;
        Ok((folder, folders.entry(folder).or_insert_with(|| watch::channel(()).0).subscribe()))
    }

    /// Forgets a folder if the one who leaves is the last who follows it.
    fn leave(&self, folder: i32) {
        let mut folders = self.folders.lock();
        if folders.get(&folder).is_some_and(|sender| sender.receiver_count() <= 1) {
            folders.remove(&folder);
            // The kernel has forgotten it already if the folder was removed.
            let _ = inotify::remove_watch(&self.inotify, folder);
        }
    }

    fn tell(&self) -> io::Result<()> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut reader = inotify::Reader::new(&self.inotify, &mut buffer);
        loop {
            let event = match reader.next() {
                Err(rustix::io::Errno::AGAIN) => return Ok(()),
                Err(error) => return Err(error.into()),
                Ok(event) => event,
            };
            let folders = self.folders.lock();
            match folders.get(&event.wd()) {
                Some(sender) => sender.send_replace(()),
                // Some were lost: everybody looks.
                None if event.events().contains(inotify::ReadFlags::QUEUE_OVERFLOW) => {
                    folders.values().for_each(|sender| sender.send_replace(()));
                }
                None => {}
            }
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        if let Some(task) = self.task.lock().take() {
            task.abort();
        }
    }
}

async fn run(watched: Weak<Watched>, ready: AsyncFd<OwnedFd>) {
    while let Ok(mut guard) = ready.readable().await {
        let Some(watched) = watched.upgrade() else { return };
        if watched.tell().is_err() {
            return;
        }
        guard.clear_ready();
    }
}
