//! The sockets of a table's listeners: which are to be opened, which go on, which are closed.

use std::io;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::fd::OwnedFd;

use rustix::net::{AddressFamily, SocketFlags, SocketType, bind, listen, socket_with, sockopt};

use super::worker::Socket;
use crate::table::{Listener, Serves};

/// As many connections may wait to be accepted; the kernel's own limit may be lower.
const BACKLOG: i32 = 4_096;

/// What a socket is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Stream,
    Datagram,
}

/// A socket that another process listened at, and that goes on here without a connection being refused.
#[derive(Debug)]
pub struct Inherited {
    pub address: SocketAddr,
    pub kind: Kind,
    pub socket: OwnedFd,
}

/// A listener that is open.
#[derive(Debug)]
pub(crate) struct Open {
    pub(crate) id: u64,
    pub(crate) name: String,
    /// As the table has it; the port may be 0 there.
    pub(crate) wanted: SocketAddr,
    pub(crate) address: SocketAddr,
    pub(crate) serves: Serves,
    pub(crate) socket: OwnedFd,
}

impl Kind {
    pub(crate) fn of(serves: &Serves) -> Self {
        match serves {
            Serves::Udp { .. } => Self::Datagram,
            _ => Self::Stream,
        }
    }
}

impl Open {
    /// Opens the socket of a listener, or goes on with an inherited one.
    pub(crate) fn new(listener: &Listener, inherited: &mut Vec<Inherited>) -> io::Result<Self> {
        let kind = Kind::of(&listener.serves);
        let own = inherited.iter().position(|it| it.address == listener.address && it.kind == kind);
        let socket = match own {
            Some(place) => inherited.swap_remove(place).socket,
            None => open(listener.address, kind)?,
        };
        let address = SocketAddr::try_from(rustix::net::getsockname(&socket)?)?;
        Ok(Self {
            id: 0,
            name: listener.name.clone(),
            wanted: listener.address,
            address,
            serves: listener.serves.clone(),
            socket,
        })
    }

    /// Whether it can go on for this listener, perhaps by another name or for another purpose.
    pub(crate) fn fits(&self, listener: &Listener) -> bool {
        let is_same_kind = Kind::of(&self.serves) == Kind::of(&listener.serves);
        let is_same_place = self.wanted == listener.address && (self.wanted.port() != 0 || self.name == listener.name);
        is_same_kind && is_same_place
    }

    /// The same socket once more, for one thread.
    pub(crate) fn socket(&self) -> io::Result<Socket> {
        let socket = self.socket.try_clone()?;
        Ok(match self.serves {
            Serves::Http { .. } => Socket::Http(TcpListener::from(socket)),
            Serves::Https { .. } => Socket::Https(TcpListener::from(socket)),
            Serves::Tcp { .. } => Socket::Tcp(TcpListener::from(socket)),
            Serves::Udp { .. } => Socket::Udp(UdpSocket::from(socket)),
        })
    }
}

fn open(address: SocketAddr, kind: Kind) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let socket_type = match kind {
        Kind::Stream => SocketType::STREAM,
        Kind::Datagram => SocketType::DGRAM,
    };
    let socket = socket_with(family, socket_type, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK, None)?;
    if address.is_ipv6() {
        sockopt::set_ipv6_v6only(&socket, true)?;
    }
    if kind == Kind::Stream {
        // Connections that have ended do not keep a restart from its address.
        sockopt::set_socket_reuseaddr(&socket, true)?;
    }
    bind(&socket, &address)?;
    if kind == Kind::Stream {
        listen(&socket, BACKLOG)?;
    }
    Ok(socket)
}
