//! A running proxy: started once, given tables, asked what it counts, and drained.

use std::collections::BTreeMap;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use super::access_log::AccessLog;
use super::listeners::{Inherited, Kind, Open};
use super::live::Live;
use super::shared::{Limits, Shared};
use super::tls;
use super::worker::{Command, run};
use crate::measure::Snapshot;
use crate::table::Table;

/// A proxy with its threads. Dropping it ends them at once; [`Proxy::drain`] lets requests finish.
#[derive(Debug)]
pub struct Proxy {
    shared: Arc<Shared>,
    threads: Vec<Thread>,
    control: Mutex<Control>,
}

#[derive(Debug)]
struct Thread {
    commands: UnboundedSender<Command>,
    handle: Option<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Control {
    next_id: u64,
    open: Vec<Open>,
}

/// What became of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    /// In effect in all threads: every request from now on is served by this version or a later one.
    pub version: u64,
    /// What of it does not work, by the name of a listener or group: an address that is taken, a certificate that is none.
    pub faults: BTreeMap<String, String>,
}

#[derive(Debug, thiserror::Error)]
pub enum StartError {
    #[error("the proxy's threads cannot be started")]
    Threads(#[from] io::Error),
    #[error("no keys for session tickets can be made")]
    Tickets(#[source] rustls::Error),
}

/// A thread that takes longer to notice a table does not hold up the others' acknowledgement forever.
const SYNC: Duration = Duration::from_secs(5);

impl Proxy {
    /// Starts with a table and the sockets of a process before it, if there was one.
    pub fn start(
        table: Table,
        limits: Limits,
        access_log: Option<AccessLog>,
        inherited: Vec<Inherited>,
    ) -> Result<(Self, Applied), StartError> {
        let threads = limits.threads.max(1);
        let live = Live::new(table, None, threads);
        let ticketer = tls::ticketer().map_err(StartError::Tickets)?;
        let shared = Arc::new(Shared::new(live, limits, ticketer, access_log));
        let threads = (0..threads).map(|thread| start_thread(&shared, thread)).collect::<io::Result<Vec<_>>>()?;
        let proxy = Self { shared, threads, control: Mutex::default() };
        let live = proxy.shared.live();
        let applied = proxy.put_in_effect(&live, &mut proxy.control.lock(), inherited);
        Ok((proxy, applied))
    }

    /// Serves by another table. Returns when it is in effect; nothing that is under way is interrupted. It waits for the
    /// proxy's threads: an asynchronous caller calls it where it may block.
    pub fn apply(&self, table: Table) -> Applied {
        let mut control = self.control.lock();
        let live = Arc::new(Live::new(table, Some(&self.shared.live()), self.threads.len()));
        self.put_in_effect(&live, &mut control, Vec::new())
    }

    fn put_in_effect(&self, live: &Arc<Live>, control: &mut Control, mut inherited: Vec<Inherited>) -> Applied {
        let mut faults: BTreeMap<String, String> = live.faults.iter().cloned().collect();
        let mut before = std::mem::take(&mut control.open);
        let mut begun = Vec::new();
        let mut ended = Vec::new();
        for listener in &live.table.spec().listeners {
            let found = before.iter().position(|open| open.fits(listener)).map(|place| before.swap_remove(place));
            let goes_on = found.as_ref().is_some_and(|open| {
                let is_same_use = std::mem::discriminant(&open.serves) == std::mem::discriminant(&listener.serves);
                open.name == listener.name && is_same_use
            });
            // One whose use changes is listened at anew, on the same socket: nobody is refused meanwhile.
            ended.extend(found.as_ref().filter(|_| !goes_on).map(|open| open.id));
            match found.map_or_else(|| Open::new(listener, &mut inherited), Ok) {
                Ok(mut open) => {
                    open.name.clone_from(&listener.name);
                    open.serves = listener.serves.clone();
                    if !goes_on {
                        control.next_id += 1;
                        open.id = control.next_id;
                        begun.push(control.open.len());
                    }
                    control.open.push(open);
                }
                Err(error) => {
                    faults.insert(listener.name.clone(), format!("cannot listen at {}: {error}", listener.address));
                }
            }
        }
        // From here on all threads serve requests by the new table.
        self.shared.replace(Arc::clone(live));
        for place in begun {
            let open = &control.open[place];
            if let Err(error) = self.listen(open) {
                faults.insert(open.name.clone(), format!("cannot listen at {}: {error}", open.address));
            }
        }
        for id in ended.into_iter().chain(before.iter().map(|open| open.id)) {
            self.tell(|| Command::Unlisten { id });
        }
        self.wait_for_threads();
        Applied { version: live.table.version(), faults }
    }

    /// Streams are accepted by all threads; the flows of a datagram socket are known to one.
    fn listen(&self, open: &Open) -> io::Result<()> {
        let threads = match Kind::of(&open.serves) {
            Kind::Stream => &self.threads[..],
            Kind::Datagram => std::slice::from_ref(&self.threads[open.id as usize % self.threads.len()]),
        };
        for thread in threads {
            let command = Command::Listen { id: open.id, name: open.name.clone(), socket: open.socket()? };
            let _gone = thread.commands.send(command);
        }
        Ok(())
    }

    fn wait_for_threads(&self) {
        let (done, waiting) = std::sync::mpsc::sync_channel(self.threads.len());
        self.tell(|| Command::Sync(done.clone()));
        for _ in &self.threads {
            if waiting.recv_timeout(SYNC).is_err() {
                tracing::warn!("a thread of the proxy does not take in its table");
            }
        }
    }

    fn tell(&self, command: impl Fn() -> Command) {
        for thread in &self.threads {
            let _gone = thread.commands.send(command());
        }
    }

    /// The table that is in effect.
    pub fn version(&self) -> u64 {
        self.shared.live().table.version()
    }

    /// Where a listener listens; tells the port of one that has none in the table.
    pub fn address(&self, listener: &str) -> Option<SocketAddr> {
        self.control.lock().open.iter().find(|open| open.name == listener).map(|open| open.address)
    }

    /// Requests and connections on their way to an endpoint. Once a table without it is in effect this only falls, and at
    /// zero the endpoint can be stopped without interrupting anybody.
    pub fn in_flight_to(&self, endpoint: SocketAddr) -> u64 {
        self.shared.in_flight_to(endpoint)
    }

    pub fn snapshot(&self) -> Snapshot {
        self.shared.snapshot()
    }

    /// Copies of the sockets, for a process that takes over. They stay open here until the proxy ends.
    pub fn sockets(&self) -> io::Result<Vec<Inherited>> {
        let control = self.control.lock();
        let copy = |open: &Open| {
            let kind = Kind::of(&open.serves);
            Ok(Inherited { address: open.address, kind, socket: open.socket.try_clone()? })
        };
        control.open.iter().map(copy).collect()
    }

    /// Accepts no more connections, lets requests finish, and gives up what is left after the time given.
    pub fn drain(mut self, time: Duration) {
        self.tell(|| Command::Drain(time));
        // Where nobody has taken the sockets over, clients are refused from now on, and do not wait in vain.
        self.control.lock().open.clear();
        self.join();
    }

    fn join(&mut self) {
        for thread in &mut self.threads {
            if let Some(handle) = thread.handle.take()
                && handle.join().is_err()
            {
                tracing::error!("a thread of the proxy panicked");
            }
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.tell(|| Command::Drain(Duration::ZERO));
        self.join();
    }
}

fn start_thread(shared: &Arc<Shared>, thread: usize) -> io::Result<Thread> {
    let (commands, receiver) = unbounded_channel();
    let shared = Arc::clone(shared);
    // Whom a request goes to is no secret; ids only have to differ.
    let seed = RandomState::new().hash_one((std::process::id(), thread));
    let body = move || {
        if let Err(error) = run(shared, thread, seed, receiver) {
            tracing::error!(%error, "a thread of the proxy cannot run");
        }
    };
    let handle = std::thread::Builder::new().name(format!("proxy-{thread}")).spawn(body)?;
    Ok(Thread { commands, handle: Some(handle) })
}
