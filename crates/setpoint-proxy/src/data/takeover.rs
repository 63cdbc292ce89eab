//! Listening sockets, handed from one process to the next, so that an upgrade refuses no connection.
//!
//! Both processes have the same sockets open for a while, and either may accept: a connection that waits in a socket's queue
//! is taken by one of them. The old process drains only when the new one serves. Each message is one socket and what it is
//! for; an empty line ends them.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;

use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags,
    recvmsg, sendmsg,
};

use super::listeners::{Inherited, Kind};

/// A line is no longer: a kind and an address.
const LINE: usize = 128;

/// Sends copies of sockets.
pub fn send_sockets(to: &UnixStream, sockets: &[Inherited]) -> io::Result<()> {
    for it in sockets {
        let kind = match it.kind {
            Kind::Stream => "stream",
            Kind::Datagram => "datagram",
        };
        let line = format!("{kind} {}\n", it.address);
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        let sockets = [it.socket.as_fd()];
        if !ancillary.push(SendAncillaryMessage::ScmRights(&sockets)) {
            return Err(io::Error::other("there is no room for the socket in a message"));
        }
        sendmsg(to, &[IoSlice::new(line.as_bytes())], &mut ancillary, SendFlags::empty())?;
    }
    sendmsg(to, &[IoSlice::new(b"\n")], &mut SendAncillaryBuffer::default(), SendFlags::empty())?;
    Ok(())
}

/// Receives what [`send_sockets`] sends.
pub fn receive_sockets(from: &UnixStream) -> io::Result<Vec<Inherited>> {
    let malformed = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
    let mut received = Vec::new();
    loop {
        let mut line = [0; LINE];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        // The kernel never joins what follows a socket to the message that carries it.
        let message = recvmsg(from, &mut [IoSliceMut::new(&mut line)], &mut ancillary, RecvFlags::CMSG_CLOEXEC)?;
        let line = std::str::from_utf8(&line[..message.bytes]).map_err(|_| malformed("a line is not text"))?;
        let socket = ancillary.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut sockets) => sockets.next(),
            _ => None,
        });
        match (line.strip_suffix('\n'), socket) {
            (Some(""), None) => return Ok(received),
            (Some(line), Some(socket)) => {
                let (kind, address) = line.split_once(' ').ok_or_else(|| malformed("a line has no kind"))?;
                let kind = match kind {
                    "stream" => Kind::Stream,
                    "datagram" => Kind::Datagram,
                    _ => return Err(malformed("a kind of socket is not known")),
                };
                let address = address.parse().map_err(|_| malformed("an address is malformed"))?;
                received.push(Inherited { address, kind, socket });
            }
            _ => return Err(malformed("the sockets end in the middle")),
        }
    }
}
