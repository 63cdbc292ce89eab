//! What becomes of a Pod on the machine that runs it.
//!
//! [`state`] is what is observed of its containers. It is the one thing that those who run containers and those who tell
//! about it have in common. [`supervisor`] says what to do next with containers, and [`expansion`] puts the values of
//! variables into what they are told.

pub mod expansion;
pub mod state;
pub mod supervisor;

pub use state::{ContainerState, Exit, Notice, NoticeKind, Phase, PodState, PortState, Role, Usage};
