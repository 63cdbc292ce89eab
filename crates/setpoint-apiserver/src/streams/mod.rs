//! Reaching the Pods that run: what they log, commands in them, and their terminals.
//!
//! [`access`] is how the server reaches them: it knows no deployers, so whoever runs Pods implements [`PodAccess`] and is
//! connected once ([`Pods`]). What a request asks for is read by [`options`], of which Pod and container by [`place`];
//! [`handshake`] and [`channels`] decide what a WebSocket says. All of these are pure. [`session`] carries bytes between a
//! WebSocket and a command, and decides nothing.

pub mod access;
pub mod channels;
pub mod handshake;
pub mod options;
pub mod place;
mod session;
#[cfg(test)]
mod tests;

use std::sync::{Arc, OnceLock};

pub use access::{
    AccessError, Answer, AttachOptions, ExecOptions, Exit, LogOptions, LogStream, LogStreams, PodAccess, PodRef,
    Session, TerminalSize,
};
pub(crate) use session::{Upgrade, converse};

use crate::failure::{Failure, Result};

/// Who runs the Pods, once that is known: they are clients of this server, and start after it.
#[derive(Debug, Default)]
pub struct Pods(OnceLock<Arc<dyn PodAccess>>);

impl Pods {
    /// Says who runs the Pods. Only the first to say so counts.
    pub fn connect(&self, access: Arc<dyn PodAccess>) {
        let _ = self.0.set(access);
    }

    pub fn get(&self) -> Result<Arc<dyn PodAccess>> {
        let nobody = "nothing that runs Pods is connected to this server yet, so that they cannot be reached";
        self.0.get().cloned().ok_or_else(|| Failure::unavailable(nobody))
    }
}
