//! What becomes of a Pod on the machine that runs it.
//!
//! [`state`] is what is observed of its containers. It is the one thing that those who run containers and those who tell
//! about it have in common.

pub mod state;

pub use state::{ContainerState, Exit, Notice, NoticeKind, Phase, PodState, PortState, Role, Usage};
