//! What becomes of a Pod on the machine that runs it.
//!
//! [`state`] is what is observed of its containers. It is the one thing that those who run containers and those who tell
//! about it have in common. [`references`] says what a Pod needs from elsewhere; with what was found of it,
//! [`environment`], [`arguments`] and [`volumes`] make the [`content`] that its containers are given, within [`limits`]. [`supervisor`] says what to do next
//! with its containers; [`ports`] where it is reached; [`agent`] decides what to do next with the Pod and what runs of it, and [`status`] says how it is.

pub mod agent;
pub mod arguments;
pub mod content;
pub mod environment;
pub mod expansion;
pub mod fields;
#[cfg(test)]
mod fixtures;
pub mod limits;
pub mod ports;
pub mod references;
pub mod state;
pub mod status;
pub mod supervisor;
pub mod volumes;

pub use content::{Variables, Volume, VolumeFile};
pub use fields::NodeFacts;
pub use references::{Found, Needs, ReferenceError, TokenNeed};
pub use state::{ContainerState, Exit, Notice, NoticeKind, Phase, PodState, PortState, Role, Usage};
