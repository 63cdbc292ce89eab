//! One thread of the proxy: its runtime, its listeners, its connections. Threads share the table and nothing that waits.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio::runtime::{Builder, LocalOptions};
use tokio::sync::mpsc::UnboundedReceiver;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, sleep_until};
use tokio_rustls::TlsAcceptor;

use super::connection::{Registered, serve_connection};
use super::live::Live;
use super::shared::Shared;
use super::upstream::Pool;
use super::watch::Watch;
use super::{tcp, tls, udp};
use crate::pick::mix;

/// How often connections are looked at.
const SWEEP: Duration = Duration::from_millis(250);
/// How often idle connections to endpoints are looked at.
const POOL_SWEEPS: u64 = 4;
/// When there is no room for more connections, those that have been idle for so long make some.
const CROWDED_IDLE_MS: u64 = 1_000;

/// What a thread is told.
#[derive(Debug)]
pub(crate) enum Command {
    Listen {
        id: u64,
        name: String,
        socket: Socket,
    },
    Unlisten {
        id: u64,
    },
    /// Answered when everything before has been taken in.
    Sync(std::sync::mpsc::SyncSender<()>),
    /// No more connections; those that there are finish what they do, but not beyond the time given.
    Drain(Duration),
}

#[derive(Debug)]
pub(crate) enum Socket {
    Http(std::net::TcpListener),
    Https(std::net::TcpListener),
    Tcp(std::net::TcpListener),
    Udp(std::net::UdpSocket),
}

pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) thread: usize,
    pub(crate) pool: Rc<Pool>,
    pub(crate) clock: Arc<AtomicU64>,
    pub(crate) connections: RefCell<HashMap<u64, Arc<Watch>>>,
    live: RefCell<Arc<Live>>,
    generation: Cell<u64>,
    random: Cell<u64>,
    next_connection: Cell<u64>,
    is_draining: Cell<bool>,
}

/// Runs until it has drained, or until nobody is left to give commands.
pub(crate) fn run(
    shared: Arc<Shared>,
    thread: usize,
    seed: u64,
    commands: UnboundedReceiver<Command>,
) -> io::Result<()> {
    let runtime = Builder::new_current_thread().enable_all().build_local(LocalOptions::default())?;
    runtime.block_on(async move {
        let worker = Rc::new(Worker {
            thread,
            pool: Rc::default(),
            clock: Arc::new(AtomicU64::new(shared.now_ms())),
            connections: RefCell::default(),
            generation: Cell::new(0),
            live: RefCell::new(shared.live()),
            random: Cell::new(seed),
            next_connection: Cell::new(0),
            is_draining: Cell::new(false),
            shared,
        });
        let sweeper = tokio::task::spawn_local(sweep(Rc::clone(&worker)));
        let drain = obey(&worker, commands).await;
        worker.drain(drain).await;
        sweeper.abort();
    });
    Ok(())
}

/// Takes commands until one ends the work; returns how long that may take.
async fn obey(worker: &Rc<Worker>, mut commands: UnboundedReceiver<Command>) -> Duration {
    let mut listeners: HashMap<u64, JoinHandle<()>> = HashMap::new();
    let drain = loop {
        match commands.recv().await {
            Some(Command::Listen { id, name, socket }) => match worker.listen(name, socket) {
                Ok(task) => drop(listeners.insert(id, task)),
                Err(error) => tracing::error!(%error, "a socket cannot be listened at"),
            },
            Some(Command::Unlisten { id }) => {
                if let Some(task) = listeners.remove(&id) {
                    task.abort();
                }
            }
            Some(Command::Sync(done)) => {
                worker.refresh();
                let _gone = done.send(());
            }
            Some(Command::Drain(time)) => break time,
            None => break Duration::ZERO,
        }
    };
    for task in listeners.into_values() {
        task.abort();
    }
    drain
}

async fn sweep(worker: Rc<Worker>) {
    let mut sweeps = 0;
    loop {
        sleep(SWEEP).await;
        sweeps += 1;
        let now_ms = worker.shared.now_ms();
        worker.clock.store(now_ms, Relaxed);
        worker.refresh();
        let limits = &worker.shared.limits;
        let is_crowded = worker.is_full();
        for watch in worker.connections.borrow().values() {
            let makes_room =
                is_crowded && watch.is_idle_since().is_some_and(|since| now_ms.saturating_sub(since) > CROWDED_IDLE_MS);
            if makes_room || watch.is_overdue(now_ms, &limits.patience) {
                watch.expire();
            }
        }
        if sweeps % POOL_SWEEPS == 0 {
            worker.pool.sweep(limits.idle_upstream);
        }
    }
}

impl Worker {
    /// The table of this moment.
    pub(crate) fn live(&self) -> Arc<Live> {
        self.refresh();
        Arc::clone(&self.live.borrow())
    }

    fn refresh(&self) {
        let generation = self.shared.generation();
        if generation != self.generation.get() {
            *self.live.borrow_mut() = self.shared.live();
            self.generation.set(generation);
            self.pool.sweep(self.shared.limits.idle_upstream);
        }
    }

    /// The time as of the last sweep: good enough for patience, and nearly free.
    pub(crate) fn clock_ms(&self) -> u64 {
        self.clock.load(Relaxed)
    }

    pub(crate) fn random(&self) -> u64 {
        let next = self.random.get().wrapping_add(0x9e37_79b9_7f4a_7c15);
        self.random.set(next);
        mix(next)
    }

    fn is_full(&self) -> bool {
        self.shared.connections.load(Relaxed) >= self.shared.limits.connections
    }

    pub(crate) fn register(self: &Rc<Self>, watch: &Arc<Watch>) -> Registered {
        let id = self.next_connection.get();
        self.next_connection.set(id + 1);
        self.shared.connections.fetch_add(1, Relaxed);
        self.connections.borrow_mut().insert(id, Arc::clone(watch));
        if self.is_draining.get() {
            watch.drain(self.clock_ms());
        }
        Registered { worker: Rc::clone(self), id }
    }

    fn listen(self: &Rc<Self>, name: String, socket: Socket) -> io::Result<JoinHandle<()>> {
        let worker = Rc::clone(self);
        let listener: Rc<str> = name.into();
        Ok(match socket {
            Socket::Http(socket) => {
                let socket = TcpListener::from_std(socket)?;
                tokio::task::spawn_local(accept(Rc::clone(self), socket, move |stream, peer| {
                    serve_connection(Rc::clone(&worker), Rc::clone(&listener), None, stream, peer)
                }))
            }
            Socket::Https(socket) => {
                let socket = TcpListener::from_std(socket)?;
                let acceptor = TlsAcceptor::from(tls::server_config(&self.shared, &listener));
                tokio::task::spawn_local(accept(Rc::clone(self), socket, move |stream, peer| {
                    serve_connection(Rc::clone(&worker), Rc::clone(&listener), Some(acceptor.clone()), stream, peer)
                }))
            }
            Socket::Tcp(socket) => {
                let socket = TcpListener::from_std(socket)?;
                tokio::task::spawn_local(accept(Rc::clone(self), socket, move |stream, peer| {
                    tcp::serve(Rc::clone(&worker), Rc::clone(&listener), stream, peer)
                }))
            }
            Socket::Udp(socket) => tokio::task::spawn_local(udp::serve(worker, listener, UdpSocket::from_std(socket)?)),
        })
    }

    /// Lets connections finish, and gives up those that do not in time.
    async fn drain(&self, time: Duration) {
        self.is_draining.set(true);
        for watch in self.connections.borrow().values() {
            watch.drain(self.shared.now_ms());
        }
        let end = Instant::now() + time;
        while !self.connections.borrow().is_empty() && Instant::now() < end {
            sleep_until(end.min(Instant::now() + Duration::from_millis(20))).await;
        }
    }
}

async fn accept<F: Future<Output = ()> + 'static>(
    worker: Rc<Worker>,
    socket: TcpListener,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) {
    loop {
        if worker.is_full() {
            // Clients wait in the socket's queue until somebody goes.
            sleep(Duration::from_millis(10)).await;
            continue;
        }
        match socket.accept().await {
            Ok((stream, peer)) => drop(tokio::task::spawn_local(serve(stream, peer))),
            Err(error) if is_of_one_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "no connection can be accepted");
                sleep(Duration::from_millis(50)).await;
            }
        }
    }
}

fn is_of_one_client(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset | io::ErrorKind::Interrupted
    )
}
